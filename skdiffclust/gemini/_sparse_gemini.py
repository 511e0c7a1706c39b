"""SparseGEMINI: clustering and selection of variables in one."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdiffclust._checkpoint import check_checkpoint
from skdiffclust._compat import (
    Interval,
    StrOptions,
    fit_context,
    validate_parameter_constraints,
)
from skdiffclust._history import (
    Training,
    drop_stale,
    keep_state_on_error,
    warn_of_convergence,
)
from skdiffclust.gemini._base import (
    BaseGEMINI,
    FeatureSelector,
    not_negative,
    positive,
    report_clusters,
)
from skdiffclust.gemini._objectives import ObjectiveName
from skdiffclust.gemini._path import SparsePath, attributes_of_step, model_of_step
from skdiffclust.gemini._problem import read_samples
from skdiffclust.gemini._relations import KERNELS, METRICS
from skdiffclust.gemini._resume import PathCheckpoint
from skdiffclust.gemini._sparse_rows import have_equal_columns
from skdiffclust.gemini._starts import warn_if_unequal
from skdiffclust.gemini._walk import (
    TOLERANCE,
    TRAINED_TOLERANCE,
    Options,
    Task,
    advance_to,
    first_stage,
    make_path,
    new_walk,
    path_steps,
    uncertified,
)


class _NumberOfClusters(Interval):
    """A range whose errors name the estimator that chooses the number."""

    def __str__(self):
        return f"{super().__str__()} (SparseGEMINICV chooses the number)"


class SparseGEMINI(FeatureSelector, BaseGEMINI):
    r"""Cluster by a generalised mutual information and select features.

    Scale X, call `path`, and read `get_support()` and `labels_`.

    A group-lasso penalty is put on the weights of each feature, or of each group of
    features,

    .. math:: \max_\theta \mathcal{I}(x; y|\theta) - \alpha \sum_j \|W_j\|_2

    (equations (7) and (9) of [1]_), which sets the weights of irrelevant features to
    exactly zero. With ``model="mlp"``, W is a linear skip connection in parallel with a
    perceptron, whose input weights are bounded by those of the connection (LassoNet
    [2]_, equation (10)). `fit` solves the problem for one value of the penalty. `path`,
    which is recommended in most cases, solves it for increasing penalties, records all
    solutions, and selects one of them.

    Parameters
    ----------
    n_clusters : int, default=2
        Maximum number of clusters; fewer may be found.
    alpha : float, default=0.01
        Factor of the penalty. Only used by `fit`. Its unit is that of the objective
        times that of the features.
    objective : str, default="mmd"
        Divergence between distributions, as in :class:`GEMINI`.
    mode : {"auto", "ova", "ovo"}, default="auto"
        Whether clusters are compared with all samples ("ova", one-vs-all) or with one
        another ("ovo", one-vs-one), as in :class:`GEMINI`.
    kernel : str, callable or transformer, default="linear"
        Kernel of the objective "mmd", as in :class:`GEMINI`, but not "precomputed".
    metric : str or callable, default="euclidean"
        Metric of the objective "wasserstein", one of
        :func:`sklearn.metrics.pairwise_distances`.
    gamma : float, "scale" or None, default=None
        Coefficient of the kernels that have one. None uses the default of scikit-learn.
        "scale" uses one over the sum of the variances of the features (for "laplacian"
        and "chi2", one over the square root of n_features times that sum), which makes
        the result independent of the unit of X.
    model : {"linear", "mlp"}, default="linear"
        Multinomial logistic regression, or its sum with a multilayer perceptron with
        ReLU activations.
    hidden_layer_sizes : int or array-like of int, default=(100,)
        Numbers of units in the hidden layers of ``model="mlp"``.
    groups : array-like of shape (n_features,), default=None
        Group of each feature, as integers or names. The features of a group, such as
        the one-hot encoded columns of a category, are selected or dropped together.
        With None, each feature is its own group.
    penalty_factor : array-like, "redundancy" or None, default=None
        Positive factors of the penalties, of shape (n_features,) and equal within a
        group. Features with smaller factors are dropped later. "redundancy" uses the
        root of the share of each feature's variance that features of other groups do
        not explain, but at least .05; it requires more samples than features.
    hierarchy : float, default=10
        M of equation (10): largest ratio between the input weights of a feature in the
        perceptron and the norm of its skip weights. With 0, the model is linear.
    dynamic : bool, default=False
        Whether `path` computes the kernel or distance of each step from the selected
        features only (Appendix A).
    l2 : float, default=0
        Factor of the L2 penalty: the sum of the squared weights, biases excluded.
    max_iter : int, default=1000
        Maximum number of epochs of the first stage, and of epochs or iterations of each
        step; five times as many for a perceptron whose `kkt_` is too large.
    batch_size : int or None, default=None
        Number of samples in a batch; None uses all. The objective is that of each
        batch, so small batches give a biased gradient.
    learning_rate : float, default=0.01
        Step size of gradient descent.
    tol : float, default=1e-3
        A stage or step ends when ten epochs decrease the loss by no more than this
        share.
    n_init : int, default=3
        Number of restarts of the first stage, as in :class:`GEMINI`. The path starts
        from the one with the smallest loss.
    random_state : int, RandomState instance or None, default=None
        Determines all random numbers.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int64
        Cluster of each training sample, from 0 to ``n_clusters_ - 1`` in order of
        decreasing size after the first stage.
    probabilities_ : ndarray of shape (n_samples,), float64
        Largest of `predict_proba` of each sample.
    n_clusters_ : int
        Number of non-empty clusters.
    alpha_ : float
        Penalty of the fitted model.
    feature_norms_ : ndarray of shape (n_features,)
        Norm of the (skip) weights of the group of each feature; zero for features that
        are not selected.
    feature_importances_ : ndarray of shape (n_features,)
        Penalty at which each feature was dropped for good. For features that were never
        dropped, the next floating-point number above the largest penalty. Only
        available after `path`.
    skip_weights_ : ndarray of shape (n_features, n_clusters) or None
        Weights of the skip connection of ``model="mlp"``.
    coefs_, intercepts_ : list of ndarray
        Weights and biases of the layers of the model, of shapes (n_in, n_out) and
        (n_out,). They apply to centred features.
    means_ : ndarray of shape (n_features,), float64
        Means of the features, which are subtracted before the model is applied.
    n_iter_ : int
        Number of epochs, or of iterations of the solver, at the penalty `alpha_`.
    temperature_ : float
        Divisor of the logits in `predict_proba`, as in :class:`GEMINI`.
    kkt_ : float
        Largest violation of the optimality (KKT) conditions at `alpha_`, relative to
        the penalty. For a group with weights w and gradient u of the unpenalised loss,
        it is the norm of w - prox(w - u) divided by the penalty of the group. A
        warning is issued if it exceeds 0.01, or 0.05 with ``model="mlp"``. It is NaN
        where training stops for lack of progress instead: without penalty, with
        batches, and with the objectives "tv" and "wasserstein".
    gamma_ : float
        Value of gamma. Only available with ``gamma="scale"``.
    history_ : dict of lists
        "loss" and "objective" of each epoch or iteration. Only available after `fit`.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    GEMINI : The same model without feature selection.
    SparseGEMINICV : Chooses the penalty by the stability of clusters and features, and
        warns if X has no structure: `fit` and `path` find clusters and features in any
        X, also in noise, without a warning. Use it in a
        :class:`~sklearn.pipeline.Pipeline`, which does not call `path`.

    Notes
    -----
    With a linear model, full batches and an objective other than "tv" and
    "wasserstein", the problem at each penalty is solved by L-BFGS on the selected
    features, and the optimality conditions of all features are checked at the end; see
    `kkt_`. Otherwise, the model is trained by proximal gradient descent with momentum.
    The problem is not convex, so the solution is a stationary point. `fit` follows the
    default path up to `alpha`. The user guide compares the solver with the code
    published with [1]_, where a value of 10 for :math:`\lambda` corresponds to an
    `alpha` of about 1.

    A feature that has been dropped can be selected again at a later step. X is scaled
    internally as in :class:`GEMINI`.

    References
    ----------
    .. [1] L. Ohl et al., "Sparse and geometry-aware generalisation of the mutual
       information for joint discriminative clustering and feature selection",
       Statistics and Computing 34:155, 2024.
    .. [2] I. Lemhadri, F. Ruan, L. Abraham, R. Tibshirani, "LassoNet: A Neural Network
       with Feature Sparsity", JMLR 22, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust import SparseGEMINI
    >>> rng = np.random.RandomState(0)
    >>> X = rng.normal(size=(90, 5))
    >>> X[:, 1] += np.repeat([-4, 0, 4], 30)
    >>> sparse = SparseGEMINI(3, mode="ovo", learning_rate=0.1, random_state=0)
    >>> path = sparse.path(X, min_features=1)
    >>> path.select(n_features=1).get_support(indices=True)
    array([1])
    """

    _parameter_constraints = {
        **BaseGEMINI._parameter_constraints,
        "kernel": KERNELS,
        "metric": METRICS,
        "model": [StrOptions({"linear", "mlp"})],
        "n_clusters": [_NumberOfClusters(Integral, 1, None, closed="left")],
        "alpha": [not_negative],
        "groups": ["array-like", None],
        "penalty_factor": ["array-like", StrOptions({"redundancy"}), None],
        "hierarchy": [not_negative],
        "dynamic": ["boolean"],
    }

    def __init__(
        self,
        n_clusters: int | np.integer = 2,
        *,
        alpha: float = 0.01,
        objective: ObjectiveName = "mmd",
        mode: Literal["auto", "ova", "ovo"] = "auto",
        kernel: object = "linear",
        metric: object = "euclidean",
        gamma: float | Literal["scale"] | None = None,
        model: Literal["linear", "mlp"] = "linear",
        hidden_layer_sizes: int | np.integer | ArrayLike = (100,),
        groups: ArrayLike | None = None,
        penalty_factor: Literal["redundancy"] | ArrayLike | None = None,
        hierarchy: float = 10.0,
        dynamic: bool = False,
        l2: float = 0.0,
        max_iter: int | np.integer = 1000,
        batch_size: int | np.integer | None = None,
        learning_rate: float = 0.01,
        tol: float = 1e-3,
        n_init: int | np.integer = 3,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.objective = objective
        self.mode = mode
        self.kernel = kernel
        self.metric = metric
        self.gamma = gamma
        self.model = model
        self.hidden_layer_sizes = hidden_layer_sizes
        self.groups = groups
        self.hierarchy = hierarchy
        self.dynamic = dynamic
        self.penalty_factor = penalty_factor
        self.l2 = l2
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.tol = tol
        self.n_init = n_init
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
    ) -> Self:
        """Fit the model to X at the penalty `alpha`, after a stage without penalty.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored. Known labels go to `partial_labels`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. A sample of weight 2 counts as two equal samples,
            but its known label and links count once.
        precomputed : array-like of shape (n_samples, n_samples), default=None
            Kernel or distances between the samples; see :meth:`GEMINI.fit`.
        partial_labels : array-like of shape (n_samples,), default=None
            Known classes as integers or strings, with -1 for unknown; see
            :meth:`GEMINI.fit`.
        must_link : array-like or sparse matrix, default=None
            Samples that should share a cluster; see :meth:`GEMINI.fit`.
        cannot_link : array-like or sparse matrix, default=None
            Samples that should not share a cluster; see :meth:`GEMINI.fit`.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is invalid, constraints contradict each other,
            or the loss diverges in the first epoch.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested, k-means has clear ones of less
            equal sizes, no feature is selected, links are not satisfied, the loss
            diverges, or training has not converged after `max_iter` epochs.
        """
        links = (partial_labels, must_link, cannot_link)
        task = self._task(X, sample_weight, precomputed, links)
        settings = task.settings
        training = Training(self, task.samples.X, y, n_init=None, **settings.training)
        loops = iter(training)
        walk, first = first_stage(task, loops, self.random_state)
        step = first
        history = training.best.history
        units = task.problem.units
        alpha = self.alpha / units.alpha
        if settings.n_clusters > 1 and (alpha or not task.is_exact):
            step = advance_to(alpha, walk)
            if step is None:  # a callback has ended the fit
                step = walk.record(alpha, training.loops[-1].n_iter)
            history = training.loops[-1].history
        training.stop()
        next(loops, None)
        step = replace(units.step(step, settings.kind), alpha=float(self.alpha))
        self._publish(step, task)
        warn_if_unequal(task.samples, first.labels, walk.starts, "SparseGEMINI")
        warn_of_step(step, task, np.array([step.kkt]))
        self.history_ = units.history(history)
        training.finish(uncertified(training.loops[-1:], step.kkt))
        return self

    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=False)
    def path(
        self,
        X,
        y=None,
        sample_weight=None,
        *,
        precomputed=None,
        partial_labels=None,
        must_link=None,
        cannot_link=None,
        alpha_init=None,
        alpha_multiplier=1.05,
        min_features=2,
        keep_threshold=0.9,
        refine=False,
        checkpoint=None,
        resume=False,
    ) -> SparsePath:
        """Fit the model for increasing penalties and select one of the solutions.

        After a first stage without penalty, each step starts from the solution of the
        previous one. The fitted attributes are those of the selected step, whose
        penalty is ``alpha_``. The parameter `alpha` is not used.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored. Known labels go to `partial_labels`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.
        precomputed : array-like of shape (n_samples, n_samples), default=None
            Kernel or distances between the samples; see :meth:`GEMINI.fit`.
        partial_labels : array-like of shape (n_samples,), default=None
            Known classes as integers or strings, with -1 for unknown; see
            :meth:`GEMINI.fit`.
        must_link : array-like or sparse matrix, default=None
            Samples that should share a cluster; see :meth:`GEMINI.fit`.
        cannot_link : array-like or sparse matrix, default=None
            Samples that should not share a cluster; see :meth:`GEMINI.fit`.
        alpha_init : float or None, default=None
            First penalty. With None, it is a thousandth of an upper bound for the
            largest penalty (of features with the largest `penalty_factor`), or a
            hundredth if the problem is not solved there within `max_iter` iterations.
            For models trained by gradient descent (see Notes of the class), it is just
            below the penalty at which a trial run drops its first feature; the path
            itself may drop a few features at its first step.
        alpha_multiplier : float, default=1.05
            Factor between consecutive penalties.
        min_features : int, default=2
            The path ends when at most this many features are selected.
        keep_threshold : float, default=0.9
            Select the step with the fewest features before the objective falls from its
            largest value to below this fraction of it. Ignored with ``dynamic=True``,
            where the last step with any features is selected.
        refine : bool, default=False
            Whether to go back and try intermediate penalties (down to a ratio of
            1.0005) when more than one group is dropped in a step. This prevents the
            collapse described in Section 5.6.
        checkpoint : path-like or None, default=None
            Folder to which the first stage and each step are written; created if it
            does not exist.
        resume : bool, default=False
            Whether to continue from the checkpoint, if there is one. For an integer
            `random_state`, the result is identical to that of an uninterrupted path.

        Returns
        -------
        path : SparsePath
            The steps of the path. ``path.select(...)`` returns an estimator for any of
            them.

        Raises
        ------
        ValueError
            If X or a parameter is invalid, or the checkpoint was written for other data
            or parameters.

        Warns
        -----
        ConvergenceWarning
            If the path was interrupted, in which case the finished steps are kept, or
            for the same reasons as in `fit`, once for all steps.
        """
        options = {
            "alpha_init": alpha_init,
            "alpha_multiplier": alpha_multiplier,
            "min_features": min_features,
            "refine": refine,
        }
        validate_parameter_constraints(
            _PATH_CONSTRAINTS,
            options | {"keep_threshold": keep_threshold},
            caller_name="SparseGEMINI.path",
        )
        if checkpoint is not None or resume:
            check_checkpoint("SparseGEMINI.path", checkpoint, resume)
        links = (partial_labels, must_link, cannot_link)
        task = self._task(X, sample_weight, precomputed, links)
        # The default may exceed it.
        if min_features > max(2, self.n_features_in_):
            raise ValueError(
                "The 'min_features' parameter of SparseGEMINI.path must be at most the "
                f"number of features, n_features={self.n_features_in_}. Got "
                f"{min_features} instead. Lower it."
            )
        settings = task.settings
        training = Training(self, task.samples.X, y, n_init=None, **settings.training)
        loops = iter(training)
        steps = []
        begun = None
        if checkpoint is not None:
            params = self.get_params(deep=False) | options
            checkpoint = PathCheckpoint(checkpoint, task, params)
            walk = new_walk(task, loops)
            steps = checkpoint.open(walk, resume=resume)
            begun = (walk, steps[-1]) if steps else None
        try:
            for walk, step in path_steps(
                task, loops, self.random_state, Options(**options), begun
            ):
                steps.append(step)
                if checkpoint is not None:
                    checkpoint.append(step, walk)
        except KeyboardInterrupt:
            if not steps:
                raise
            alpha = steps[-1].alpha * task.problem.units.alpha
            warn_of_convergence(
                f"The path was interrupted after {len(steps)} steps, at alpha="
                f"{alpha:.4g} with {steps[-1].support.sum()} features. These steps "
                "are kept. To be able to continue later, pass checkpoint=... and "
                "resume=True.",
            )
        training.stop()
        next(loops, None)
        warn_if_unequal(task.samples, steps[0].labels, walk.starts, "SparseGEMINI")
        path = make_path(steps, task, keep_threshold, clone(self), self._shared(task))
        chosen = path.steps[path.chosen]
        self._publish(chosen, task)
        warn_of_step(chosen, task, path.kkts)
        self.feature_importances_ = path.feature_importances()
        training.finish(uncertified(walk.taken, path.kkts))
        return path

    def _task(self, X, sample_weight, precomputed, links):
        """Return the Task of samples (n, d) and what is known of them, all checked."""
        settings = self._settings()
        samples = read_samples(self, settings, X, sample_weight, precomputed, links)
        return Task.of(settings, samples)

    def _shared(self, task):
        """Return the fitted attributes that the steps of a path have in common."""
        if hasattr(self, "feature_names_in_"):
            return task.shared | {"feature_names_in_": self.feature_names_in_}
        return task.shared

    def _publish(self, step, task):
        """Assign the fitted attributes of a Step."""
        drop_stale(self, ["gamma_", "history_", "feature_importances_"])
        weights = task.problem.row_weights[task.problem.some_rows]
        attributes = attributes_of_step(
            step, task.settings.kind, task.penalty.groups, weights
        )
        vars(self).update(self._shared(task) | attributes)
        logits = model_of_step(step, task.settings.kind).outputs(task.rows)
        self.probabilities_ = self._assignments(logits).max(axis=1)

    def _kind(self):
        """Return the name of the model in the registry."""
        return "skip" if self.model == "mlp" else "linear"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _get_support_mask(self):
        """Return which features (d,) are selected."""
        check_is_fitted(self)
        return self.feature_norms_ > 0


def warn_of_step(step, task, kkts):
    """Warn of empty clusters, broken links, no features, and inexact steps.

    With one cluster, or samples that are all equal, no feature can be selected. Steps
    with a certificate, one of kkts (s,), above the tolerance are inexact.
    """
    settings = task.settings
    report_clusters(settings, step.labels, task.problem.constraints)
    could_be_in = settings.n_clusters > 1 and not have_equal_columns(task.problem.X)
    if could_be_in and not step.support.any():
        warn_of_convergence(
            f"SparseGEMINI selects no feature at alpha={step.alpha:.4g}. Lower "
            "alpha, or use path().",
        )
    tolerance = TOLERANCE if settings.kind == "linear" else TRAINED_TOLERANCE
    n_over = np.count_nonzero(kkts > tolerance)
    if n_over:
        warn_of_convergence(
            "SparseGEMINI did not converge: the optimality conditions are "
            f"violated at {n_over} of {len(kkts)} penalties, kkt_ is up to "
            f"{np.nanmax(kkts):.2g} instead of at most {tolerance}. Increase "
            "max_iter, or begin with a larger penalty.",
        )


_PATH_CONSTRAINTS = {
    "alpha_init": [Interval(Real, 0, None, closed="neither"), None],
    "alpha_multiplier": [Interval(Real, 1, None, closed="neither")],
    "min_features": [positive],
    "keep_threshold": [Interval(Real, 0, 1, closed="right")],
    "refine": ["boolean"],
}
