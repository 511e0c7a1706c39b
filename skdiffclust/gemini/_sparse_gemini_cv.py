"""SparseGEMINICV: the penalty chosen by the stability of clusters and of supports."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Literal, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.validation import check_is_fitted

from skdiffclust._checkpoint import Checkpoint, check_checkpoint, identify
from skdiffclust._compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    callback_management_context,
    fit_context,
)
from skdiffclust._constraints import bounds_of_clusters
from skdiffclust._history import (
    Training,
    drop_stale,
    keep_state_on_error,
    report_by_the_whole,
    warn_if_unfinished,
    warn_of_convergence,
)
from skdiffclust.gemini._base import FeatureSelector, positive, report_clusters
from skdiffclust.gemini._problem import clusters_in, read_samples, validated
from skdiffclust.gemini._resampling import (
    check_subsets,
    choose_number,
    choose_penalty,
    draw,
    grid_of,
    numbers_of,
    resample,
    steps_of,
)
from skdiffclust.gemini._resume import arrays_of_samples
from skdiffclust.gemini._sparse_gemini import SparseGEMINI
from skdiffclust.gemini._sparse_rows import near_one
from skdiffclust.gemini._stability import (
    LEAST_RATIO,
    cluster_stability,
    co_assignment_uncertainty,
    structure_of,
    support_stability,
)
from skdiffclust.gemini._starts import warn_if_unequal
from skdiffclust.gemini._walk import Options, make_path

_KEEP_THRESHOLD = 0.9  # of `path_`, as by default
# The metadata of the samples, which are passed on to the paths.
_GIVEN = (
    "sample_weight",
    "precomputed",
    "partial_labels",
    "must_link",
    "cannot_link",
)


class SparseGEMINICV(
    FeatureSelector, CallbackSupportMixin, ClusterMixin, BaseEstimator
):
    """Choose the penalty of SparseGEMINI by stability over random subsets.

    Scale X, call `fit`, and read `get_support()`, `labels_` and `structure_test_`.

    Without classes, the folds of a cross-validation cannot be scored by a prediction
    error. Instead, paths over a grid of penalties are computed on random subsets of the
    samples, and the penalty is found at which the clusters and the selected features
    of the subsets agree most. The fraction of subsets in which a feature is selected is
    its selection probability [1]_. The model is that of the step of the path on all
    samples whose features are closest to those selected in at least half of the subsets
    at this penalty.

    Parameters
    ----------
    estimator : SparseGEMINI or None, default=None
        Estimator whose paths are computed, with all parameters of the model and of
        training. It is cloned; its `alpha` and `random_state` are not used. Callbacks
        that are set on it watch the path on all samples, and those of this estimator
        the subsets. None means ``SparseGEMINI()``.
    n_clusters : int, "auto", sequence of int or None, default=None
        Maximum number of clusters, or the numbers to choose from; fewer clusters may be
        found. None means that of `estimator`. "auto" counts them, see Notes. If 1 is in
        the sequence, it is chosen when X has no structure.
    n_alphas : int, default=20
        Number of penalties. They form a geometric sequence from the first penalty of
        the path on all samples to the one at which `min_features` features are left.
    n_resamples : int, default=10
        Number of random subsets.
    sample_fraction : float, default=0.5
        Fraction of the samples in each subset.
    min_features : int, default=1
        Number of features at the last penalty of the grid.
    selection_threshold : float, default=0.9
        Smallest selection probability of a feature in `stable_features_`.
    n_jobs : int or None, default=None
        Number of processes used to compute the paths of the subsets. None means 1
        unless in a :obj:`joblib.parallel_backend` context. The result does not depend
        on it.
    random_state : int, RandomState instance or None, default=None
        Determines the subsets, the initial weights and the batches. Pass an int for
        reproducible results across function calls.

    Attributes
    ----------
    alphas_ : ndarray of shape (n_alphas,)
        Penalties of the grid.
    cluster_stability_ : ndarray of shape (n_alphas,)
        Mean adjusted Rand index between the clusterings of all samples by the models of
        pairs of subsets.
    support_stability_ : ndarray of shape (n_alphas,)
        Agreement of the sets of selected features, adjusted for chance [2]_; at most 1,
        and 0 where all features or no features are selected.
    selection_probabilities_ : ndarray of shape (n_alphas, n_features)
        Fraction of the subsets in which each feature is selected.
    stable_alpha_ : float
        Most stable penalty of the grid: the one with the largest support stability
        times the square root of the cluster stability, among those at which the path on
        all samples keeps all clusters and at least one feature; 0 if there is none.
    alpha_ : float
        Penalty of the chosen step of `path_`. Among the steps from the first penalty of
        the grid on, with all clusters and at least one feature, it is the first one
        whose features differ least from those with a selection probability of at least
        one half at `stable_alpha_`; 0 if there is none.
    n_clusters_curve_ : dict of ndarrays, or None
        Table of the numbers of clusters, as in :class:`GEMINI`. None unless the number
        was chosen.
    n_clusters_candidates_ : ndarray of shape (n_candidates,), int64, or None
        Numbers that are not ruled out, as in :class:`GEMINI`.
    structure_test_ : dict
        "statistic" is how much better two modes fit than one, as a log-likelihood,
        along the best line through X, and "null_distribution" the same of 19 samples of
        a Gaussian with the same covariance; see Notes. X has structure if the former
        exceeds 5 and all of the latter. Only available for the linear kernel and for
        objectives without a kernel, without a precomputed matrix, and from 16 samples
        on.
    false_selections_ : ndarray of shape (n_alphas,)
        q² / ((2 selection_threshold - 1) n_features), where q is the mean number of
        features selected in a subset. Under the assumptions of [1]_, it bounds the
        expected number of irrelevant features among those whose selection probability
        reaches `selection_threshold`: irrelevant features are exchangeable, i.e. each
        is as likely to be selected as any other, and all of them together are selected
        no more often than at random. Correlated irrelevant features violate this,
        because they define clusters of their own.
    stable_features_ : ndarray of shape (n_features,), bool
        Features whose selection probability at `stable_alpha_` is at least
        `selection_threshold`.
    uncertainty_ : ndarray of shape (n_samples,)
        Variability of the cluster of each sample over the subsets at `stable_alpha_`:
        1 - sum_j c_ij² / sum_j c_ij, where c_ij is the fraction of the subsets that
        assign i and j to the same cluster. 0 if a sample is always grouped with the
        same samples.
    path_ : SparsePath
        Path on all samples.
    estimator_ : SparseGEMINI
        Fitted estimator of the chosen step of `path_`, which holds the weights.
    labels_ : ndarray of shape (n_samples,), int64
        Cluster of each training sample, from 0 to ``n_clusters_ - 1`` in order of
        decreasing size after the first stage of `path_`.
    probabilities_ : ndarray of shape (n_samples,), float64
        Largest of `predict_proba` of each sample.
    n_clusters_ : int
        Number of non-empty clusters.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    SparseGEMINI : Solves the problem for one penalty or for a path of penalties.

    Notes
    -----
    The cost is that of `n_resamples` + 1 paths. With metadata routing, what `fit` is
    given must be requested by `estimator`, as in
    :class:`sklearn.feature_selection.RFECV`; without an estimator it always is.

    Clusters and features are found in any X. Whether there is more structure than in a
    Gaussian is tested whatever `n_clusters` is; a warning is issued if there is not,
    and one cluster is chosen if 1 is in `n_clusters`. The user guide describes the
    test.

    The number of clusters is that of ``n_clusters="auto"`` in :class:`GEMINI`; of a
    sequence, the largest number that is not above it, or its smallest number above 1.
    Paths are computed for this number only. With one cluster, no feature is selected.

    References
    ----------
    .. [1] N. Meinshausen, P. Bühlmann, "Stability selection", JRSS B 72, 2010.
    .. [2] S. Nogueira, K. Sechidis, G. Brown, "On the stability of feature selection
       algorithms", JMLR 18, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust import SparseGEMINI, SparseGEMINICV
    >>> X = np.random.RandomState(0).normal(size=(90, 5))
    >>> X[:, 1] += np.repeat([-6, 6], 45)
    >>> stable = SparseGEMINICV(
    ...     SparseGEMINI(2, n_init=1), n_alphas=5, n_resamples=3, random_state=0)
    >>> stable.fit(X).get_support(indices=True)
    array([1])
    """

    _parameter_constraints = {
        "estimator": [SparseGEMINI, None],
        "n_clusters": [positive, StrOptions({"auto"}), "array-like", None],
        "n_alphas": [Interval(Integral, 2, None, closed="left")],
        "n_resamples": [Interval(Integral, 2, None, closed="left")],
        "sample_fraction": [Interval(Real, 0, 1, closed="neither")],
        "min_features": [positive],
        "selection_threshold": [Interval(Real, 0.5, 1, closed="right")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: SparseGEMINI | None = None,
        *,
        n_clusters: int | np.integer | Literal["auto"] | ArrayLike | None = None,
        n_alphas: int | np.integer = 20,
        n_resamples: int | np.integer = 10,
        sample_fraction: float = 0.5,
        min_features: int | np.integer = 1,
        selection_threshold: float = 0.9,
        n_jobs: int | np.integer | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_clusters = n_clusters
        self.n_alphas = n_alphas
        self.n_resamples = n_resamples
        self.sample_fraction = sample_fraction
        self.min_features = min_features
        self.selection_threshold = selection_threshold
        self.n_jobs = n_jobs
        self.random_state = random_state

    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X,
        y=None,
        sample_weight=None,
        *,
        precomputed=None,
        partial_labels=None,
        must_link=None,
        cannot_link=None,
        checkpoint=None,
        resume=False,
    ) -> Self:
        """Compute paths on subsets of X and choose the penalty.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored. Known labels go to `partial_labels`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the paths and the stability of clusters. Samples
            of weight 0 are not drawn. A sample of weight 2 is not equivalent to two
            equal samples, which may be drawn into different subsets.
        precomputed : array-like of shape (n_samples, n_samples), default=None
            Kernel or distances between the samples; see :meth:`GEMINI.fit`.
        partial_labels : array-like of shape (n_samples,), default=None
            Known classes as integers or strings, with -1 for unknown; see
            :meth:`GEMINI.fit`.
        must_link : array-like or sparse matrix, default=None
            Samples that should share a cluster; see :meth:`GEMINI.fit`. In a subset,
            samples remain linked if a chain of links connects them in all samples.
        cannot_link : array-like or sparse matrix, default=None
            Samples that should not share a cluster; see :meth:`GEMINI.fit`.
        checkpoint : path-like or None, default=None
            Folder to which the results of each subset are written; created if it does
            not exist. Requires an integer `random_state`.
        resume : bool, default=False
            Whether to continue from the checkpoint, if there is one. Only the path on
            all samples is computed again, and the result is identical to that of an
            uninterrupted fit.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is invalid, constraints contradict each other or exclude
            the number of clusters, a subset has fewer samples than clusters, or
            a number of clusters is to be chosen with distances in place of features.

        Warns
        -----
        ConvergenceWarning
            If X or the selected features have no structure, fewer clusters are found
            than requested, k-means has clear ones of less equal sizes, no number of
            clusters is supported by the data, links are not satisfied, or steps of the
            paths have not converged after `max_iter` epochs, once for all of them.
        """
        check_checkpoint("SparseGEMINICV.fit", checkpoint, resume)
        if checkpoint is not None and not isinstance(self.random_state, Integral):
            raise ValueError(
                "The 'random_state' parameter of SparseGEMINICV must be an integer "
                "with a checkpoint, so that the same samples and weights are drawn "
                f"again. Got {self.random_state!r} instead. Set it."
            )
        given = (sample_weight, precomputed, partial_labels, must_link, cannot_link)
        self._refuse_unrequested(given)
        sparse = self._sparse()
        numbers = numbers_of(self.n_clusters, sparse.n_clusters)
        is_auto = numbers == "auto"
        # Numbers of clusters are compared with the samples of a subset below.
        settings = replace(sparse._settings(), n_clusters="auto")
        links = (partial_labels, must_link, cannot_link)
        samples = read_samples(self, settings, X, sample_weight, precomputed, links)
        X = samples.X
        present = np.flatnonzero(samples.row_weights > 0)
        fraction = self.sample_fraction
        check_subsets(fraction, len(present), 2 if is_auto else max(numbers))
        if not is_auto:
            least, most = bounds_of_clusters(samples.constraints)
            # If links exclude all numbers, an error says why.
            numbers = [n for n in numbers if least <= n <= most] or numbers
        rng = check_random_state(self.random_state)
        seed = rng.randint(2**31 - 1)
        subsets = [draw(fraction, present, rng) for _ in range(self.n_resamples)]
        structure = None
        if precomputed is None and settings.is_of_features:
            structure = structure_of(near_one(X[present]), rng)
        self.n_clusters_curve_ = self.n_clusters_candidates_ = None
        if is_auto or len(numbers) > 1:
            count = clusters_in(samples, settings, rng)
            count.publish(self, warns=structure is None or structure.is_clear)
            numbers = [choose_number(numbers, count, structure)]
            # The subsets may be smaller than the samples that were counted.
            check_subsets(fraction, len(present), *numbers)
        (n_clusters,) = numbers
        sparse.set_params(n_clusters=n_clusters, random_state=seed)
        sparse._validate_params()
        settings = sparse._settings()
        options = Options(min_features=self.min_features)
        whole = samples.take(slice(None))
        with callback_management_context(sparse):
            watched = Training(sparse, X, y, n_init=None, **settings.training)
            loops = iter(watched)
            steps, judged, walk = report_by_the_whole(
                steps_of, settings, whole, seed, options, loops
            )
            watched.stop()
            next(loops, None)
            unfitted = clone(sparse)
            shared = walk.task.shared
            path = make_path(steps, walk.task, _KEEP_THRESHOLD, unfitted, shared)
            # Its callbacks see the fit end with the step that the path chooses.
            vars(sparse).update(vars(path.select()))
            watched.finish([])
        alphas = grid_of(path, self.n_alphas, self.min_features)

        store, records = self._open(checkpoint, resume, samples, sparse, alphas)
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        outcomes = parallel(
            delayed(resample)(settings, samples, rows, seed, alphas)
            for rows, seed in subsets[len(records) :]
        )
        training = Training(
            self,
            X,
            y,
            max_iter=1,
            n_init=len(subsets),
            learning_rate=settings.learning_rate,
        )
        for number, loop in enumerate(training):
            if number == len(records):
                try:
                    outcome, loops = next(outcomes)
                except ValueError as error:
                    raise ValueError(
                        f"Subset {number + 1} of {len(subsets)} of SparseGEMINICV "
                        f"cannot be clustered. {error}"
                    ) from error
                records.append(outcome)
                judged += loops
                if store is not None:
                    store.append(outcome, {"number": number})
            for _ in loop:
                loop.record(-records[number]["objectives"].mean(), state=list)
        while len(records) < 2:
            # A callback has ended the fit, but two are needed to be compared.
            records.append(next(outcomes)[0])

        self._publish(path, alphas, records, samples.row_weights)
        named = replace(settings, name="SparseGEMINICV")
        logits = self.estimator_._logits_of(samples.X)
        self.probabilities_ = self.estimator_._assignments(logits).max(axis=1)
        report_clusters(named, self.labels_, samples.constraints)
        warn_if_unequal(samples, self.labels_, walk.starts, "SparseGEMINICV")
        self._publish_structure(structure, n_clusters, X, present, rng)
        training.finish([])
        warn_if_unfinished("SparseGEMINICV", judged, settings.max_iter)
        return self

    def predict(self, X) -> np.ndarray:
        """Predict the most probable cluster of each sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            Index of the cluster of each sample. Equal to ``labels_`` for the training
            samples.
        """
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        return self.estimator_.predict(X)

    def predict_proba(self, X) -> np.ndarray:
        """Predict the probability of each cluster for each sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        assignments : ndarray of shape (n_samples, n_clusters)
            Rows sum to one.
        """
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        return self.estimator_.predict_proba(X)

    def score(self, X, y=None, sample_weight=None, *, precomputed=None) -> float:
        """Compute the simplified silhouette of the predicted clusters of X.

        It ranks candidates on the same features. Unlike the objective, it does not grow
        with the number of clusters, so that a parameter search can choose it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of these samples.
        precomputed : array-like of shape (n_samples, n_samples), default=None
            Kernel or distances between these samples. Required if `fit` was called
            with a precomputed matrix.

        Returns
        -------
        score : float
            See :meth:`SparseGEMINI.score`.
        """
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        return self.estimator_.score(
            X, sample_weight=sample_weight, precomputed=precomputed
        )

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata that methods take: that which `estimator` requests.

        Returns
        -------
        routing : MetadataRouter
            See the user guide of scikit-learn on metadata routing.
        """
        estimator = self.estimator
        if estimator is None:
            estimator = SparseGEMINI().set_fit_request(**dict.fromkeys(_GIVEN, True))
            estimator.set_score_request(sample_weight=True, precomputed=True)
        mapping = MethodMapping()
        for name in ("fit", "score"):
            mapping.add(caller=name, callee=name)
        return MetadataRouter(owner=self).add(
            estimator=estimator, method_mapping=mapping
        )

    def _refuse_unrequested(self, given):
        """Refuse metadata that the estimator does not request, if that is required."""
        if get_config()["enable_metadata_routing"]:
            given = zip(_GIVEN, given, strict=True)
            given = {name: value for name, value in given if value is not None}
            process_routing(self, "fit", **given)

    def _sparse(self):
        """Return the unfitted SparseGEMINI whose paths are computed."""
        return SparseGEMINI() if self.estimator is None else clone(self.estimator)

    def _publish_structure(self, structure, n_clusters, X, present, rng):
        """Assign the test of the Structure of X (n, d), in samples (m,) of it.

        Warn if there is no structure in X, or in the selected features.
        """
        drop_stale(self, ["structure_test_"])
        if structure is None:
            return
        by_chance = structure.by_chance
        self.structure_test_ = {
            "statistic": structure.bimodality,
            "null_distribution": by_chance,
        }
        if n_clusters > 1 and not structure.is_clear:
            step = np.searchsorted(self.alphas_, self.stable_alpha_)
            warn_of_convergence(
                "SparseGEMINICV sees no more structure than in a Gaussian: two modes "
                f"fit better than one by a log-likelihood of {structure.bimodality:.1f}"
                f", and by up to {by_chance.max():.1f} in {len(by_chance)} samples of "
                "a Gaussian with the same covariance; skewness and tails explain "
                f"{LEAST_RATIO:g}. Where they are most stable, clusters of subsets of "
                f"the samples agree by {self.cluster_stability_[step]:.2f} and "
                f"features by {self.support_stability_[step]:.2f}. Do not interpret "
                "the clusters, unless something else supports them. Inspect "
                "structure_test_, or add samples.",
            )
            return
        support = self.get_support()
        if n_clusters > 1 and support.any() and not support.all():
            selected = structure_of(near_one(X[:, support][present]), rng)
            if selected.bimodality <= selected.by_chance.max():
                warn_of_convergence(
                    f"SparseGEMINICV selects {support.sum()} features with no more "
                    "structure than a Gaussian, although all features together have "
                    f"more: their bimodality is {selected.bimodality:.1f}, that of X "
                    f"{structure.bimodality:.1f}. They may be correlated features "
                    "without clusters, which vary more than those with clusters. Fit "
                    "again without them.",
                )

    def _publish(self, path, alphas, outcomes, weights):
        """Assign the fitted attributes of the path of all samples, and of subsets.

        The samples have weights (n,).
        """
        labels = np.array([outcome["labels"] for outcome in outcomes])
        supports = np.array([outcome["supports"] for outcome in outcomes])
        # `estimator_` has no names, since it is given validated samples.
        names = {}
        if hasattr(self, "feature_names_in_"):
            names = {"feature_names_in_": self.feature_names_in_}
        self.path_ = replace(path, shared=path.shared | names)
        self.alphas_ = alphas
        self.cluster_stability_ = cluster_stability(labels, weights)
        self.support_stability_ = support_stability(supports)
        probabilities = self.selection_probabilities_ = supports.mean(axis=0)
        step, self.stable_alpha_, alpha = choose_penalty(
            path,
            alphas,
            self.cluster_stability_,
            self.support_stability_,
            probabilities,
        )
        n_features = probabilities.shape[1]
        self.false_selections_ = np.square(probabilities.sum(axis=1)) / (
            (2 * self.selection_threshold - 1) * n_features
        )
        self.stable_features_ = probabilities[step] >= self.selection_threshold
        self.uncertainty_ = co_assignment_uncertainty(labels[:, step], weights)
        self.estimator_ = path.select(alpha=alpha)
        self.alpha_ = self.estimator_.alpha_
        self.labels_ = self.estimator_.labels_
        self.n_clusters_ = self.estimator_.n_clusters_

    def _open(self, checkpoint, resume, samples, sparse, alphas):
        """Return a Checkpoint, and the list of the results of `resample` that it holds.

        Without a checkpoint, these are None and an empty list.
        """
        if checkpoint is None:
            return None, []
        params = sparse.get_params(deep=False) | self.get_params(deep=False)
        for name in ("n_jobs", "estimator"):
            del params[name]
        params["n_clusters"] = sparse.n_clusters
        n_samples, n_features = samples.X.shape
        arrays = arrays_of_samples(samples) | {"alphas": alphas}
        store = Checkpoint(checkpoint, "SparseGEMINICV.fit", identify(arrays, params))
        records, _ = store.open(
            resume=resume,
            record={
                "labels": np.zeros((len(alphas), n_samples), dtype=np.int64),
                "supports": np.zeros((len(alphas), n_features), dtype=bool),
                "objectives": alphas,
            },
            state={"number": 0},
            n_values={"labels": sparse.n_clusters},
        )
        return store, records[: self.n_resamples]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._sparse()).input_tags.sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _get_support_mask(self):
        """Return which features (d,) are selected."""
        check_is_fitted(self)
        return self.estimator_.get_support()
