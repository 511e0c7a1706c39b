"""SparseGEMINICV: the penalty chosen by the stability of clusters and of supports."""

import itertools
from dataclasses import dataclass, field
from numbers import Integral, Real

import numpy as np
from joblib import Parallel, delayed
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdiffclust._checkpoint import Checkpoint, Field, identify
from skdiffclust._compat import Interval, StrOptions, check_sample_weight, fit_context
from skdiffclust._constraints import as_constraints, bounds_of_clusters, metadata_of
from skdiffclust._fitted import drop_stale, reads_whole
from skdiffclust._history import (
    Training,
    keep_state_on_error,
    reported_by_the_whole,
    warn_if_unfinished,
)
from skdiffclust.gemini._base import BaseGEMINI, positive
from skdiffclust.gemini._gemini import GEMINI
from skdiffclust.gemini._objectives import OBJECTIVES, mode_for
from skdiffclust.gemini._resume import check_checkpoint
from skdiffclust.gemini._sparse_gemini import SparseGEMINI
from skdiffclust.gemini._sparse_rows import arrays_of_rows
from skdiffclust.gemini._stability import (
    cluster_stability,
    co_assignment_uncertainty,
    counts_to_try,
    has_reference,
    stability_of_counts,
    support_stability,
    warn_of_chance,
)

_SPARSE_ONLY = (
    "kernel",
    "metric",
    "model",
    "groups",
    "penalty_factor",
    "hierarchy",
)


@reads_whole(
    "predict",
    "predict_proba",
    "score",
    "transform",
    "inverse_transform",
    "get_support",
    "get_feature_names_out",
)
class SparseGEMINICV(SelectorMixin, BaseGEMINI):
    """Choose the penalty of SparseGEMINI by stability over resamples.

    There are no classes to predict, so folds cannot be scored by their error. Instead,
    stability measures whether the same clusters and the same features are found in
    other samples: paths over a grid of penalties are computed on random subsets of the
    samples, and the penalty at which they agree most is chosen. The fractions of
    subsets that select a feature are the selection probabilities of [1]_.

    Parameters
    ----------
    n_clusters : int, "auto" or sequence of int, default=2
        Largest number of clusters, or those to choose from; fewer may be found. "auto"
        tries 2 to 10, at most one for eight samples, see Notes. With 1 in a sequence,
        it is chosen where no other number is clear.
    n_alphas : int, default=20
        Number of penalties, in geometric progression between that at which the first
        feature is dropped and that at which `min_features` are left, on all samples.
    n_resamples : int, default=10
        Number of subsets.
    sample_fraction : float, default=0.5
        Share of the samples in a subset.
    min_features : int, default=1
        Number of features at which the grid ends.
    selection_threshold : float, default=0.9
        Smallest share of the subsets that select a feature of `stable_features_`.
    objective : str, default="mmd"
        As in :class:`SparseGEMINI`.
    mode : {"auto", "ova", "ovo"} or sequence of these, default="auto"
        One-vs-all or one-vs-one, or those to choose from; "auto" as in :class:`GEMINI`.
    kernel, metric : str or callable
        As in :class:`SparseGEMINI`.
    gamma : float, "scale" or None, default=None
        Coefficient of a kernel, as in :class:`GEMINI`.
    degree : float, default=3
        Degree of the kernels "poly" and "polynomial".
    coef0 : float, default=1
        Constant of the kernels "poly", "polynomial" and "sigmoid".
    kernel_params : dict or None, default=None
        Keyword arguments of a kernel that is a function; others ignore them.
    model : {"linear", "mlp"}, default="linear"
        As in :class:`SparseGEMINI`.
    hidden_layer_sizes : int or array-like of int, default=(100,)
        Hidden layers of the perceptron.
    groups : array-like of shape (n_features,), default=None
        Integers or names: features with the same one are kept or dropped together.
    penalty_factor : array-like of shape (n_features,), "redundancy" or None, \
            default=None
        As in :class:`SparseGEMINI`.
    hierarchy : float, default=10
        As in :class:`SparseGEMINI`.
    dropout, l2, link_weight : float
        As in :class:`SparseGEMINI`.
    solver : {"adam", "sgd"}, default="adam"
        For the stage without penalty.
    max_iter : int, default=1000
        Largest number of epochs of the first stage, and of each step.
    batch_size : int or None, default=None
        Samples of a batch; None takes all.
    learning_rate : float, default=0.01
        Step size.
    tol : float, default=1e-3
        Smallest relative improvement of the loss that counts as progress.
    n_iter_no_change : int or None, default=10
        Stop a stage or a step after this many epochs without progress.
    n_init : int, default=3
        Number of restarts of the first stage.
    n_jobs : int or None, default=None
        Number of processes that compute the paths of subsets; None is 1, or what a
        :obj:`joblib.parallel_backend` sets. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Draws subsets, initial weights, batches and dropout.

    Attributes
    ----------
    alphas_ : ndarray of shape (n_alphas,)
        Penalties.
    cluster_stability_ : ndarray of shape (n_alphas,)
        Mean adjusted Rand index, on all samples, between pairs of subsets.
    support_stability_ : ndarray of shape (n_alphas,)
        Agreement of the supports beyond chance [2]_, at most 1; 0 where all features
        or none are in, since nothing was selected.
    selection_probabilities_ : ndarray of shape (n_alphas, n_features)
        Share of the subsets that select each feature.
    alpha_ : float
        Penalty of the step, on all samples, with the largest product of the two among
        those that keep all clusters and a feature; 0 if none does.
    mode_ : {"ova", "ovo"}
        The mode of the candidate with the largest such product, among those of the
        number of clusters that was chosen. All arrays above and below belong to it.
    stability_ : dict of ndarray
        Where the number of clusters was chosen by the reference: for each of "counts",
        the "stability", that of the "reference", and the "advantage" over it, as in
        :class:`GEMINI`, for the mode in which it is largest.
    results_ : dict of ndarray
        A row for each candidate, a number of clusters and a mode: "n_clusters",
        "mode", and at its best penalty "alpha", "cluster_stability",
        "support_stability" and "held_out_objective".
    held_out_objective_ : ndarray of shape (n_alphas,)
        Mean objective of the samples that a subset leaves out.
    false_selections_ : ndarray of shape (n_alphas,)
        Bound for the expected number of features that are selected with a probability
        of at least `selection_threshold` though no better than others [1]_:
        q² / ((2 selection_threshold - 1) n_features), where q is the mean number of
        features that a subset selects.
    stable_features_ : ndarray of shape (n_features,), bool
        Features with at least that probability at `alpha_`.
    uncertainty_ : ndarray of shape (n_samples,)
        How much the cluster of each sample changes from subset to subset at `alpha_`:
        with c_ij the share of the subsets that put i and j together, 1 - sum_j c_ij² /
        sum_j c_ij. 0 for always the same samples.
    path_ : SparsePath
        The path of all samples.
    labels_, n_clusters_, feature_norms_, feature_importances_ : ndarray or int
        As in :class:`SparseGEMINI`, of the path on all samples.
    skip_weights_, coefs_, intercepts_, means_ : ndarray or list of ndarray
        The model.
    n_iter_ : int
        Number of epochs at the chosen step.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    SparseGEMINI : One penalty, or a path.

    Notes
    -----
    The cost is that of `n_resamples` + 1 paths for each candidate. Candidates share
    their subsets.

    **Number of clusters.** Stability alone prefers few clusters: two halves of any
    elongated distribution are stable. The number is that with the largest advantage
    over samples of one Gaussian, by the clusters on all features, as
    ``n_clusters="auto"`` of :class:`GEMINI` computes it, for each mode. With "auto"
    paths are computed for this number only; of a sequence, for all numbers, so that
    `results_` shows them. A ConvergenceWarning is issued if a Gaussian has a larger
    advantage, and 1 is not in the sequence. The numbers of a sequence are compared by
    the product of the two stabilities alone where there is no reference: with an
    affinity, or with fewer than eight samples for each cluster.

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
        """Compute paths on subsets of X, and choose the penalty.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the paths, in the held-out objective and in the
            stability of clusters. Samples of weight 0 are in no subset. Repeated
            samples are not the same as a weight of two, because they may be in
            different subsets.
        affinity : array-like of shape (n_samples, n_samples), default=None
            Kernel or distances between the samples; see :meth:`GEMINI.fit`.
        partial_labels : array-like of shape (n_samples,), default=None
            Integers or strings, -1 where unknown; see :meth:`GEMINI.fit`. A subset has
            those of its samples.
        must_link : array-like or sparse matrix, default=None
            Samples that should share a cluster; see :meth:`GEMINI.fit`. A subset has
            the links that the transitive closure leaves between its samples.
        cannot_link : array-like or sparse matrix, default=None
            Samples that should not share a cluster; see :meth:`GEMINI.fit`.
        checkpoint : path-like or None, default=None
            Folder that the results of each subset are written to; created if it does
            not exist. Requires an integer `random_state`.
        resume : bool, default=False
            Continue from the checkpoint, if there is one; only the paths of all samples
            are computed again. The result is that without the interruption, bit for
            bit.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is not as described, constraints contradict each other
            or exclude a number of clusters, a subset has fewer samples than clusters,
            or ``n_clusters="auto"`` comes with an affinity or fewer than 16 samples.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested, no number of clusters is clear,
            links are not satisfied, or the loss still falls at `max_iter` in steps of
            the paths, once for all of them.
        """
        counts, modes = self._candidates()
        X, _, _ = self._check_rows(X, sample_weight)
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
        counts, chosen = self._choose_count(
            X[present], counts, modes, affinity is not None, rng, constraints
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
                store.append(outcome.to_record(), {"candidate": np.int64(i)})
            _report(loop, outcome)

        # A callback may have ended the path before its last step.
        complete = [each for each in candidates if len(each.found) >= 2]
        among = [each for each in complete if each.n_clusters in chosen]
        self._publish(complete, among or complete, weights)
        self._report(self.labels_, constraints)
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
        # Set on the draft of this fit only; the parameter is unchanged.
        if not isinstance(self.n_clusters, str):
            self.n_clusters = int(max(counts))
        relation = OBJECTIVES[self.objective].relation
        modes = [mode_for(relation, mode) for mode in modes]
        return [int(count) for count in counts], modes

    def _choose_count(self, X, counts, modes, has_affinity, rng, constraints):
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
                    trial._cluster_subset, X, several, rng, trial._finds_cells()
                )
            )
        stability = max(found, key=lambda each: each.advantage.max())
        self.stability_ = stability.to_dict()
        if is_auto:
            # The subsets of the paths may be smaller than those it was found on.
            self._check_subsets(X.shape[0], [stability.best])
            self.n_clusters = stability.best
            counts = [stability.best]
        if 1 in counts and not stability.is_clear:
            return counts, [1]
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
        if len(path) < 2:
            raise ValueError(
                "The 'min_features' parameter of SparseGEMINICV must be less than the "
                f"number of features, n_features={len(path.supports[0])}. Got "
                f"{self.min_features} instead. Lower it, or use GEMINI."
            )
        return np.geomspace(path.alphas[1], path.alphas[-1] * 1.05, self.n_alphas)

    def _publish(self, candidates, among, weights):
        """Assign the fitted attributes of the best `among` candidates.

        The samples have weights (n,).
        """
        for each in candidates:
            each.judge(weights)
        best = max(among, key=lambda each: each.product)
        step = best.step
        self.n_clusters = best.n_clusters
        self.mode_ = best.mode
        self.alphas_ = best.alphas
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
        check_checkpoint("SparseGEMINICV", checkpoint, resume, self.random_state)
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
        n_alphas = self.n_alphas
        largest = max(candidate.n_clusters for candidate in candidates) - 1
        record = {
            "labels": Field("int64", (n_alphas, n_samples), low=0, high=largest),
            "supports": Field("bool", (n_alphas, n_features)),
            "objectives": Field("float64", (n_alphas,)),
            "held_out": Field("float64", (n_alphas,)),
        }
        state = {"candidate": Field("int64", low=0, high=len(candidates) - 1)}
        store = Checkpoint(
            checkpoint,
            "SparseGEMINICV.fit",
            identify(arrays, params),
            record=record,
            state=state,
        )
        records, _ = store.open(resume=resume)
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
        """Compute the stabilities, and choose the penalty with the largest product.

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
        steps = np.searchsorted(path.alphas, self.alphas, side="right") - 1
        counts = np.array([len(np.unique(path.labels[step])) for step in steps])
        product = self.cluster_stability * self.support_stability
        product[counts < len(np.unique(path.labels[0]))] = -np.inf
        product[path.n_features[steps] == 0] = -np.inf
        self.step = int(np.argmax(product))
        self.product = product[self.step]
        is_found = np.isfinite(self.product)
        self.alpha = float(path.alphas[steps[self.step]]) if is_found else 0.0

    def to_row(self):
        """Return what `judge` has found, at the chosen penalty, by name."""
        return {
            "n_clusters": self.n_clusters,
            "mode": self.mode,
            "alpha": self.alpha,
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
