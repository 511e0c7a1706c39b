"""SparseGEMINICV: the penalty chosen by the stability of clusters and of supports."""

import itertools
from dataclasses import dataclass, field
from numbers import Integral, Real

import numpy as np
from joblib import Parallel, delayed
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdiffclust._checkpoint import Checkpoint, identify
from skdiffclust._compat import Interval, StrOptions, check_sample_weight, fit_context
from skdiffclust._constraints import as_constraints, bounds_of_clusters, metadata_of
from skdiffclust._history import (
    Training,
    drop_stale,
    keep_state_on_error,
    reported_by_the_whole,
    warn_if_unfinished,
)
from skdiffclust.gemini._base import BaseGEMINI, positive
from skdiffclust.gemini._gemini import GEMINI
from skdiffclust.gemini._objectives import OBJECTIVES, mode_for
from skdiffclust.gemini._resume import check_seed
from skdiffclust.gemini._sparse_gemini import SparseGEMINI
from skdiffclust.gemini._sparse_rows import arrays_of_rows
from skdiffclust.gemini._stability import (
    cluster_stability,
    co_assignment_uncertainty,
    counts_to_try,
    has_reference,
    stability_of_counts,
    structure_of,
    support_stability,
    warn_of_chance,
    warn_of_no_structure,
)

_SPARSE_ONLY = (
    "kernel",
    "metric",
    "model",
    "groups",
    "penalty_factor",
    "hierarchy",
)


class SparseGEMINICV(SelectorMixin, BaseGEMINI):
    """Choose the penalty of SparseGEMINI by stability over random subsets.

    Without classes, the folds of a cross-validation cannot be scored by a prediction
    error. Instead, paths over a grid of penalties are computed on random subsets of the
    samples, and the penalty is found at which the clusters and the selected features
    of the subsets agree most. The fraction of subsets in which a feature is selected is
    its selection probability [1]_. The model is that of the step of the path on all
    samples whose features are closest to those selected in at least half of the subsets
    at this penalty.

    Parameters
    ----------
    n_clusters : int, "auto" or sequence of int, default=2
        Maximum number of clusters, or the numbers to choose from; fewer clusters may be
        found. "auto" tries the numbers from 2 to 10 (at most one cluster per eight
        samples), see Notes. If 1 is in the sequence, it is chosen when no other number
        is supported by the data.
    n_alphas : int, default=20
        Number of penalties. They form a geometric sequence from the penalty at which
        the first feature is dropped to the penalty at which `min_features` features are
        left, both computed on all samples.
    n_resamples : int, default=10
        Number of random subsets.
    sample_fraction : float, default=0.5
        Fraction of the samples in each subset.
    min_features : int, default=1
        Number of features at the last penalty of the grid.
    selection_threshold : float, default=0.9
        Smallest selection probability of a feature in `stable_features_`.
    objective : str, default="mmd"
        Divergence between distributions, as in :class:`SparseGEMINI`.
    mode : {"auto", "ova", "ovo"} or sequence of these, default="auto"
        One-vs-all, one-vs-one, or the modes to choose from; "auto" is resolved as in
        :class:`GEMINI`.
    kernel, metric : str or callable
        Kernel and metric of the objective, as in :class:`SparseGEMINI`.
    gamma : float, "scale" or None, default=None
        Coefficient of the kernel, as in :class:`GEMINI`.
    degree : float, default=3
        Degree of the kernels "poly" and "polynomial".
    coef0 : float, default=1
        Constant of the kernels "poly", "polynomial" and "sigmoid".
    kernel_params : dict or None, default=None
        Keyword arguments of a callable `kernel`. Ignored for others.
    model : {"linear", "mlp"}, default="linear"
        Model, as in :class:`SparseGEMINI`.
    hidden_layer_sizes : int or array-like of int, default=(100,)
        Numbers of units in the hidden layers of ``model="mlp"``.
    groups : array-like of shape (n_features,), default=None
        Group of each feature, as integers or names. The features of a group are
        selected or dropped together.
    penalty_factor : array-like of shape (n_features,), "redundancy" or None, \
            default=None
        Factors of the penalties of the features, as in :class:`SparseGEMINI`.
    hierarchy : float, default=10
        Bound on the weights of the perceptron, as in :class:`SparseGEMINI`.
    dropout, l2, link_weight : float
        Regularisation and weight of constraints, as in :class:`SparseGEMINI`.
    solver : {"adam", "sgd"}, default="adam"
        Solver of the first stage, without penalty.
    max_iter : int, default=1000
        Maximum number of epochs of the first stage, and of each step.
    batch_size : int or None, default=None
        Number of samples in a batch; None uses all samples.
    learning_rate : float, default=0.01
        Step size.
    tol : float, default=1e-3
        Smallest relative decrease of the loss that counts as an improvement.
    n_iter_no_change : int or None, default=10
        Number of epochs without improvement after which a stage or step ends.
    n_init : int, default=3
        Number of restarts of the first stage.
    n_jobs : int or None, default=None
        Number of processes used to compute the paths of the subsets. None means 1
        unless in a :obj:`joblib.parallel_backend` context. The result does not depend
        on it.
    random_state : int, RandomState instance or None, default=None
        Determines the subsets, the initial weights, the batches and the dropout. Pass
        an int for reproducible results across function calls.

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
    mode_ : {"ova", "ovo"}
        Chosen mode: the one with the largest product of the two stabilities at the most
        stable penalty for the chosen number of clusters. All other attributes refer to
        this mode.
    stability_ : dict of ndarray
        For each number of clusters in "counts", its "stability", the "reference", and
        the "advantage" over the reference, as in :class:`GEMINI`, for the mode in which
        the advantage is largest. Only available if the number of clusters was chosen by
        comparison with the reference.
    structure_ : dict
        "advantage" is how much more stable the clusters of k-means are than those of
        samples of a Gaussian with the same covariance, and "by_chance" the same of 39
        such samples; see Notes. X has structure if the former exceeds all of the
        latter, which has a probability of at most 1/40 without structure. Only
        available for the linear kernel and for objectives without a kernel, without an
        affinity, and from 16 samples on.
    results_ : dict of ndarray
        Results of all candidates, which are combinations of a number of clusters and a
        mode: "n_clusters", "mode", the penalty "alpha" of the chosen step, the most
        stable penalty "stable_alpha", and at the latter "cluster_stability",
        "support_stability" and "held_out_objective".
    held_out_objective_ : ndarray of shape (n_alphas,)
        Mean objective on the samples that are not in the subset.
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
    labels_, n_clusters_, feature_norms_, feature_importances_ : ndarray or int
        As in :class:`SparseGEMINI`, for the path on all samples.
    skip_weights_, coefs_, intercepts_, means_ : ndarray or list of ndarray
        Parameters of the model, as in :class:`SparseGEMINI`.
    n_iter_ : int
        Number of epochs at the chosen penalty.
    gamma_ : float
        Value of gamma. Only available with ``gamma="scale"``.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    SparseGEMINI : Solves the problem for one penalty or for a path of penalties.

    Notes
    -----
    The cost is that of `n_resamples` + 1 paths per candidate. All candidates use the
    same subsets.

    **Structure.** Clusters and features are found in any X. Whether there is more
    structure than in a Gaussian is tested whatever `n_clusters` is: k-means is fitted
    to eight halves of the samples (of 500, if there are more), with two to four
    clusters and `n_clusters`, along the five leading principal components of X, and of
    X with each feature divided by the width of its densest quarter. The stability s is
    the mean adjusted Rand index of pairs of fits, and the advantage is the largest
    (s - m) / (1.05 - m), where m is the mean stability of 39 samples of a Gaussian with
    the covariance of X. If it does not exceed that of each of them, a
    ConvergenceWarning is issued, and one cluster is chosen if 1 is in `n_clusters`.
    Stability does not take heavy tails or correlated features for clusters, in contrast
    to inertia and likelihood. Small clusters are often missed.

    **Number of clusters.** Stability alone favours few clusters, because halves of any
    elongated distribution are stable. The number of clusters is therefore the one with
    the largest advantage over samples drawn from a Gaussian, computed for each mode
    from clusterings on all features as with ``n_clusters="auto"`` in :class:`GEMINI`.
    With "auto", paths are computed for this number only; with a sequence, they are
    computed for all its numbers, so that `results_` shows them. With one
    cluster, no feature is selected. If the
    reference is not available, i.e. with an affinity or with fewer than eight samples
    per cluster, the numbers of a sequence are compared by the product of the two
    stabilities alone, and nothing is said about structure.

    **Selected features.** A subset has fewer samples than X, so that a penalty does not
    select the same number of features in both, and the features of a single path depend
    on the sample. Those selected in most subsets depend less on it: on 20 samples of
    scenario 3 of Celeux et al. they reduce the fraction of features that are selected
    or left out wrongly from .07 to .03.

    References
    ----------
    .. [1] N. Meinshausen, P. Bühlmann, "Stability selection", JRSS B 72, 2010.
    .. [2] S. Nogueira, K. Sechidis, G. Brown, "On the stability of feature selection
       algorithms", JMLR 18, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust import SparseGEMINICV
    >>> X = np.random.RandomState(0).normal(size=(90, 5))
    >>> X[:, 1] += np.repeat([-6, 6], 45)
    >>> stable = SparseGEMINICV(
    ...     n_alphas=5, n_resamples=3, n_init=1, learning_rate=0.1, random_state=0)
    >>> stable.fit(X).get_support(indices=True)
    array([1])
    """

    _parameter_constraints = {
        **BaseGEMINI._parameter_constraints,
        **{name: SparseGEMINI._parameter_constraints[name] for name in _SPARSE_ONLY},
        "n_alphas": [Interval(Integral, 2, None, closed="left")],
        "n_resamples": [Interval(Integral, 2, None, closed="left")],
        "sample_fraction": [Interval(Real, 0, 1, closed="neither")],
        "min_features": [positive],
        "selection_threshold": [Interval(Real, 0.5, 1, closed="right")],
        "n_clusters": [positive, StrOptions({"auto"}), "array-like"],
        "mode": [StrOptions({"auto", "ova", "ovo"}), list, tuple],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        n_alphas=20,
        n_resamples=10,
        sample_fraction=0.5,
        min_features=1,
        selection_threshold=0.9,
        objective="mmd",
        mode="auto",
        kernel="linear",
        metric="euclidean",
        gamma=None,
        degree=3,
        coef0=1,
        kernel_params=None,
        model="linear",
        hidden_layer_sizes=(100,),
        groups=None,
        penalty_factor=None,
        hierarchy=10.0,
        dropout=0.0,
        l2=0.0,
        link_weight=1.0,
        solver="adam",
        max_iter=1000,
        batch_size=None,
        learning_rate=0.01,
        tol=1e-3,
        n_iter_no_change=10,
        n_init=3,
        n_jobs=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.n_alphas = n_alphas
        self.n_resamples = n_resamples
        self.sample_fraction = sample_fraction
        self.min_features = min_features
        self.selection_threshold = selection_threshold
        self.objective = objective
        self.mode = mode
        self.kernel = kernel
        self.metric = metric
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.model = model
        self.hidden_layer_sizes = hidden_layer_sizes
        self.groups = groups
        self.hierarchy = hierarchy
        self.penalty_factor = penalty_factor
        self.dropout = dropout
        self.l2 = l2
        self.link_weight = link_weight
        self.solver = solver
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.random_state = random_state

    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X,
        y=None,
        sample_weight=None,
        *,
        affinity=None,
        partial_labels=None,
        must_link=None,
        cannot_link=None,
        checkpoint=None,
        resume=False,
    ):
        """Compute paths on subsets of X and choose the penalty.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the paths, the held-out objective and the
            stability of clusters. Samples of weight 0 are not drawn. A sample of weight
            2 is not equivalent to two equal samples, which may be drawn into different
            subsets.
        affinity : array-like of shape (n_samples, n_samples), default=None
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
            Whether to continue from the checkpoint, if there is one. Only the paths on
            all samples are computed again, and the result is identical to that of an
            uninterrupted fit.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is invalid, constraints contradict each other or exclude
            a number of clusters, a subset has fewer samples than clusters, or
            ``n_clusters="auto"`` is used with an affinity or fewer than 16 samples.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested, no number of clusters is
            supported by the data, links are not satisfied, or steps of the paths have
            not converged after `max_iter` epochs, once for all of them.
        """
        check_seed("SparseGEMINICV.fit", checkpoint, resume, self.random_state)
        counts, modes = self._candidates()
        X, _, _ = self._check_rows(X, sample_weight, n_clusters=self._n_clusters)
        weights = check_sample_weight(sample_weight, X, dtype=X.dtype)
        present = np.flatnonzero(weights > 0)
        self._check_subsets(len(present), counts)
        constraints = as_constraints(X.shape[0], partial_labels, must_link, cannot_link)
        relation = self._check_affinity(affinity, X)
        affinity = None if relation is None else relation.matrix
        self._affinity_given = affinity is not None
        data = Data(X, weights, affinity, constraints)
        rng = check_random_state(self.random_state)
        seed = rng.randint(2**31 - 1)
        subsets = [self._draw(present, rng) for _ in range(self.n_resamples)]
        structure = None
        if affinity is None and self._is_of_features():
            structure = structure_of(X[present], max(counts), rng)
        counts, chosen = self._choose_count(
            X[present], counts, modes, affinity is not None, rng, constraints, structure
        )
        judged = []
        candidates = []
        for n_clusters, mode in itertools.product(counts, modes):
            sparse = self._sparse(n_clusters, mode)
            whole, loops = _quiet_path(
                sparse.set_params(random_state=seed),
                data,
                min_features=self.min_features,
            )
            judged += loops
            candidates.append(Candidate(n_clusters, mode, whole, self._grid(whole)))

        tasks = [
            (i, rows, seed) for i in range(len(candidates)) for rows, seed in subsets
        ]
        store, n_done = self._open(checkpoint, resume, data, candidates)
        outcomes = self._outcomes(data, candidates, tasks[n_done:])
        training = Training(
            self,
            X,
            y,
            max_iter=1,
            n_init=len(tasks),
            learning_rate=self.learning_rate,
        )
        loops = iter(training)
        for i, *_ in tasks[:n_done]:
            _report(next(loops, ()), candidates[i].found[0])
        rest = zip(loops, tasks[n_done:], outcomes, strict=False)
        for loop, (i, *_), outcome in rest:
            candidates[i].found.append(outcome)
            judged += outcome.loops
            if store is not None:
                store.append(outcome.to_record(), {"candidate": i})
            _report(loop, outcome)

        # A callback may have ended the path before its last step.
        complete = [each for each in candidates if len(each.found) >= 2]
        among = [each for each in complete if each.n_clusters in chosen]
        self._publish(complete, among or complete, weights)
        self._report(self.labels_, constraints)
        self._publish_structure(structure)
        training.finish([])
        warn_if_unfinished("SparseGEMINICV", judged, self.max_iter)
        return self

    def _candidates(self):
        """Return the numbers of clusters and the modes that are tried."""
        counts = self.n_clusters
        modes = self.mode
        if isinstance(counts, str):
            # Stands for all numbers from it on, until one of them is chosen.
            counts = [2]
        counts = [counts] if isinstance(counts, Integral) else list(counts)
        modes = [modes] if isinstance(modes, str) else list(modes)
        for name, values, allowed in (
            ("n_clusters", counts, positive),
            ("mode", modes, StrOptions({"auto", "ova", "ovo"})),
        ):
            if not values or not all(map(allowed.is_satisfied_by, values)):
                raise ValueError(
                    f"The {name!r} parameter of SparseGEMINICV must be {allowed}, or a "
                    f"sequence of such. Got {getattr(self, name)!r} instead. Give the "
                    "values to choose from."
                )
        is_auto = isinstance(self.n_clusters, str)
        self._set_n_clusters(self.n_clusters if is_auto else max(counts))
        relation = OBJECTIVES[self.objective].relation
        modes = [mode_for(relation, mode) for mode in modes]
        return [int(count) for count in counts], modes

    def _is_of_features(self):
        """Return whether the clusters are those of X itself, not of another kernel."""
        is_linear = isinstance(self.kernel, str) and self.kernel == "linear"
        return is_linear or OBJECTIVES[self.objective].relation != "kernel"

    def _publish_structure(self, structure):
        """Assign what was found about a Structure; warn if there is none."""
        drop_stale(self, ["structure_"])
        if structure is None:
            return
        self.structure_ = structure.to_dict()
        if self._n_clusters > 1:
            step = np.searchsorted(self.alphas_, self.stable_alpha_)
            warn_of_no_structure(
                "SparseGEMINICV",
                structure,
                f"Where they are most stable, clusters of subsets of the samples agree "
                f"by {self.cluster_stability_[step]:.2f} and features by "
                f"{self.support_stability_[step]:.2f}. ",
            )

    def _choose_count(
        self, X, counts, modes, has_affinity, rng, constraints, structure
    ):
        """Return the numbers of clusters that have paths, and those to choose from.

        The reference leaves one to choose from; without it, all.
        """
        drop_stale(self, ["stability_"])
        is_auto = self.n_clusters == "auto"
        if is_auto:
            self._check_reference(X.shape[0], has_affinity)
            several = counts_to_try(X.shape[0], *bounds_of_clusters(constraints))
        elif len(counts) == 1 or has_affinity or not has_reference(X, max(counts)):
            return counts, counts
        else:
            several = sorted({count for count in counts if count > 1})
        shared = GEMINI().get_params().keys() & self.get_params().keys()
        params = {name: getattr(self, name) for name in shared}
        found = []
        for mode in modes:
            trial = GEMINI(**params | {"mode": mode, "n_clusters": 2})
            found.append(
                stability_of_counts(
                    trial._cluster_subset,
                    X,
                    several,
                    rng,
                    is_linear=trial._finds_cells(),
                    is_not_negative=trial._needs_positive_rows(),
                )
            )
        stability = max(found, key=lambda each: each.advantage.max())
        self.stability_ = stability.to_dict()
        if is_auto:
            # The subsets of the paths may be smaller than those it was found on.
            self._check_subsets(X.shape[0], [stability.best])
            self._set_n_clusters(stability.best)
            counts = [stability.best]
        is_clear = (stability if structure is None else structure).is_clear
        if 1 in counts and not is_clear:
            return counts, [1]
        if structure is None:
            warn_of_chance("SparseGEMINICV", stability)
        return counts, [stability.best]

    def _sparse(self, n_clusters, mode):
        """Return a SparseGEMINI of these parameters, with a number and a mode."""
        shared = SparseGEMINI().get_params().keys() & self.get_params().keys()
        params = {name: getattr(self, name) for name in shared}
        sparse = SparseGEMINI(**params).set_params(n_clusters=n_clusters, mode=mode)
        sparse._keeps_steps = False
        return sparse

    def _grid(self, path):
        """Return the penalties (n_alphas,) between the ends of a path."""
        if not path.supports[0].any():
            # Nothing can be learned from equal samples: all penalties give the same.
            return np.geomspace(1.0, 1.05, self.n_alphas)
        if len(path) > 1:
            return np.geomspace(path.alphas[1], path.alphas[-1] * 1.05, self.n_alphas)
        n_features = len(path.supports[0])
        if self.min_features >= n_features:
            raise ValueError(
                "The 'min_features' parameter of SparseGEMINICV must be less than the "
                f"number of features, n_features={n_features}. Got "
                f"{self.min_features} instead. Lower it, or use GEMINI."
            )
        # No more features than that are used without a penalty. The grid has small
        # penalties, which cost at most a thousandth of the objective, 0 of one cluster.
        largest = 1e-3 * (path.objectives[0] or 1.0) / path.penalties[0]
        return np.geomspace(0.1 * largest, largest, self.n_alphas)

    def _publish(self, candidates, among, weights):
        """Assign the fitted attributes of the best `among` candidates.

        The samples have weights (n,).
        """
        for each in candidates:
            each.judge(weights)
        best = max(among, key=lambda each: each.product)
        step = best.step
        self._set_n_clusters(best.n_clusters)
        self.mode_ = best.mode
        self.alphas_ = best.alphas
        self.stable_alpha_ = best.stable_alpha
        self.cluster_stability_ = best.cluster_stability
        self.support_stability_ = best.support_stability
        self.selection_probabilities_ = best.probabilities
        self.held_out_objective_ = best.held_out
        self.path_ = best.path
        rows = [each.to_row() for each in candidates]
        self.results_ = {
            name: np.array([row[name] for row in rows]) for name in rows[0]
        }
        n_selected = best.probabilities.sum(axis=1)
        n_features = best.probabilities.shape[1]
        self.false_selections_ = np.square(n_selected) / (
            (2 * self.selection_threshold - 1) * n_features
        )
        self.stable_features_ = best.probabilities[step] >= self.selection_threshold
        labels = np.array([outcome.labels[step] for outcome in best.found])
        self.uncertainty_ = co_assignment_uncertainty(labels, weights)
        fitted = best.path.select(alpha=best.alpha)
        for name in _FITTED:
            setattr(self, name, getattr(fitted, name))
        drop_stale(self, ["gamma_"])
        if hasattr(fitted, "gamma_"):
            self.gamma_ = fitted.gamma_

    def _check_subsets(self, n_samples, counts):
        """Refuse samples of which no subset can be taken."""
        if n_samples < 2:
            raise ValueError(
                "SparseGEMINICV must have samples to leave out. Got n_samples=1 "
                "instead. Pass more samples."
            )
        if self._subset_size(n_samples) >= n_samples:
            raise ValueError(
                "The 'sample_fraction' parameter of SparseGEMINICV must leave at least "
                f"one of the {n_samples} samples (of positive weight) out. Got "
                f"{self.sample_fraction} instead. Lower it, or pass more samples."
            )
        if self._subset_size(n_samples) < max(counts):
            raise ValueError(
                "The 'sample_fraction' parameter of SparseGEMINICV must keep at least "
                f"n_clusters={max(counts)} of the {n_samples} samples. Got "
                f"{self.sample_fraction} instead. Raise it, or pass more samples."
            )

    def _subset_size(self, n_samples):
        """Return the number of samples of a subset."""
        return max(round(self.sample_fraction * n_samples), 2)

    def _draw(self, present, rng):
        """Return rows of those present (m,), a subset, and the seed of its paths."""
        size = self._subset_size(len(present))
        chosen = np.sort(rng.choice(len(present), size=size, replace=False))
        return present[chosen], rng.randint(2**31 - 1)

    def _outcomes(self, data, candidates, tasks):
        """Return an iterator of the Outcomes of tasks, in their order."""
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        return parallel(
            delayed(resample)(
                self._sparse(candidates[i].n_clusters, candidates[i].mode),
                data,
                rows,
                seed,
                candidates[i].alphas,
            )
            for i, rows, seed in tasks
        )

    def _open(self, checkpoint, resume, data, candidates):
        """Return a Checkpoint and how many tasks it has; their Outcomes are restored.

        None and zero without a checkpoint.
        """
        if checkpoint is None:
            return None, 0
        arrays = data.arrays() | {
            f"alphas.{i}": candidate.alphas for i, candidate in enumerate(candidates)
        }
        params = self.get_params(deep=False)
        del params["n_jobs"]
        params |= {
            "n_clusters": [candidate.n_clusters for candidate in candidates],
            "mode": [candidate.mode for candidate in candidates],
        }
        n_samples, n_features = data.X.shape
        zeros = np.zeros(self.n_alphas)
        store = Checkpoint(checkpoint, "SparseGEMINICV.fit", identify(arrays, params))
        records, _ = store.open(
            resume=resume,
            record={
                "labels": np.zeros((len(zeros), n_samples), dtype=np.int64),
                "supports": np.zeros((len(zeros), n_features), dtype=bool),
                "objectives": zeros,
                "held_out": zeros,
            },
            state={"candidate": 0},
            n_values={"labels": max(each.n_clusters for each in candidates)},
        )
        for number, arrays in enumerate(records[: len(candidates) * self.n_resamples]):
            candidates[number // self.n_resamples].found.append(Outcome(**arrays))
        return store, len(records)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _get_support_mask(self):
        """Return which features (d,) are selected."""
        check_is_fitted(self)
        return self.feature_norms_ > 0


_FITTED = (
    "alpha_",
    "coefs_",
    "feature_importances_",
    "feature_norms_",
    "intercepts_",
    "labels_",
    "means_",
    "n_clusters_",
    "n_iter_",
    "skip_weights_",
)


@dataclass(frozen=True)
class Data:
    """Samples, their weights (n,), and an affinity (n, n) and constraints or None."""

    X: np.ndarray
    weights: np.ndarray
    affinity: np.ndarray | None
    constraints: object

    def known(self, rows=slice(None)):
        """Return what `path` is told of the samples `rows` besides X, by name."""
        known = {"sample_weight": self.weights[rows]}
        if self.affinity is not None:
            known["affinity"] = self.affinity[rows][:, rows]
        if self.constraints is not None:
            known |= metadata_of(self.constraints, rows)
        return known

    def arrays(self):
        """Return all arrays by name, which identify a checkpoint."""
        arrays = arrays_of_rows(self.X) | {"sample_weight": self.weights}
        arrays["affinity"] = self.affinity
        return arrays | (vars(self.constraints) if self.constraints else {})


@dataclass
class Outcome:
    """Results of the path of a subset at each penalty."""

    labels: np.ndarray  # (a, n), of all samples
    supports: np.ndarray  # (a, d)
    objectives: np.ndarray  # (a,)
    held_out: np.ndarray  # (a,), of the samples that are not in the subset
    loops: list = field(default_factory=list)

    def to_record(self):
        """Return the arrays by name, for a checkpoint."""
        names = "labels", "supports", "objectives", "held_out"
        return {name: getattr(self, name) for name in names}


@dataclass
class Candidate:
    """A number of clusters and a mode: the path of all samples, and of subsets."""

    n_clusters: int
    mode: str
    path: object
    alphas: np.ndarray
    found: list = field(default_factory=list)

    def judge(self, weights):
        """Compute the stabilities, and choose the penalty and the step of the path.

        Among those that keep all clusters and a feature; 0 if none does. The samples
        have weights (n,).
        """
        labels = np.array([outcome.labels for outcome in self.found])
        supports = np.array([outcome.supports for outcome in self.found])
        self.cluster_stability = cluster_stability(labels, weights)
        self.support_stability = support_stability(supports)
        self.probabilities = supports.mean(axis=0)
        self.held_out = np.mean([outcome.held_out for outcome in self.found], axis=0)
        path = self.path
        counts = np.array([len(np.unique(each)) for each in path.labels])
        is_whole = (counts >= counts[0]) & (path.n_features > 0)
        steps = np.searchsorted(path.alphas, self.alphas, side="right") - 1
        # The model before any penalty is not judged.
        is_whole[: steps[0]] = False
        # The clusters count half as much as the features, which the penalty selects.
        roots = np.sqrt(np.maximum(self.cluster_stability, 0))
        stability = np.where(is_whole[steps], roots * self.support_stability, -np.inf)
        self.step = int(np.argmax(stability))
        self.product = -np.inf
        self.stable_alpha = 0.0
        self.alpha = 0.0
        if is_whole[steps].any():
            self.product = (self.cluster_stability * self.support_stability)[self.step]
            self.stable_alpha = float(self.alphas[self.step])
            is_frequent = self.probabilities[self.step] >= 0.5
            n_other = np.count_nonzero(path.supports != is_frequent, axis=1)
            n_other[~is_whole] = len(is_frequent) + 1
            self.alpha = float(path.alphas[np.argmin(n_other)])

    def to_row(self):
        """Return what `judge` has found, at the chosen penalty, by name."""
        return {
            "n_clusters": self.n_clusters,
            "mode": self.mode,
            "alpha": self.alpha,
            "stable_alpha": self.stable_alpha,
            "cluster_stability": self.cluster_stability[self.step],
            "support_stability": self.support_stability[self.step],
            "held_out_objective": self.held_out[self.step],
        }


def resample(sparse, data, rows, seed, alphas):
    """Return the Outcome of the path of a SparseGEMINI on samples (m,) of Data."""
    # Steps as small as those of the whole path: with coarser ones features would have
    # less time to be dropped. After the last step of a path that ended early nothing
    # changes.
    path, loops = _quiet_path(
        sparse.set_params(random_state=seed),
        data,
        rows,
        alpha_init=alphas[0],
        min_features=1,
    )
    X = data.X
    left = np.setdiff1d(np.flatnonzero(data.weights > 0), rows)
    shares = data.weights[left] / data.weights[left].sum()
    outside = None if data.affinity is None else data.affinity[np.ix_(left, left)]
    steps = np.searchsorted(path.alphas, alphas * (1 + 1e-9), side="right") - 1
    labels = []
    held_out = []
    for step in steps:
        fitted = path.select(alpha=path.alphas[step])
        labels.append(fitted.predict(X))
        held_out.append(fitted._weighted_score(X[left], shares, outside))
    return Outcome(
        np.array(labels),
        path.supports[steps],
        path.objectives[steps],
        np.array(held_out, dtype=np.float64),
        loops,
    )


def _report(loop, outcome):
    """Tell callbacks, by a loop of one epoch, of an Outcome."""
    for _ in loop:
        loop.record(-float(np.mean(outcome.objectives)), state=list)


def _quiet_path(sparse, data, rows=slice(None), **options):
    """Return a path on rows of Data, and the loops that its convergence is judged by.

    Fewer clusters are judged by stability, or reported in the end.
    """
    sparse._judged = []
    with reported_by_the_whole():
        path = sparse.path(data.X[rows], **data.known(rows), **options)
    return path, sparse._judged
