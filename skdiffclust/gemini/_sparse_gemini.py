"""SparseGEMINI: clustering and selection of variables in one."""

from dataclasses import replace
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import sparray, spmatrix
from sklearn.base import clone
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from skdiffclust._checkpoint import check_checkpoint
from skdiffclust._compat import (
    Interval,
    StrOptions,
    fit_context,
    validate_parameter_constraints,
)
from skdiffclust._constraints import as_constraints
from skdiffclust._devices import outside_torch_modes
from skdiffclust._history import (
    Training,
    drop_stale,
    keep_state_on_error,
    warn_of_convergence,
)
from skdiffclust._optimisers import Adam
from skdiffclust._validation import refuse_container
from skdiffclust.gemini._base import (
    BaseGEMINI,
    not_negative,
    ordered,
    positive,
    report_clusters,
)
from skdiffclust.gemini._models import MODELS, new_model
from skdiffclust.gemini._objectives import OBJECTIVES
from skdiffclust.gemini._path import (
    SparsePath,
    attributes_of_model,
    attributes_of_step,
)
from skdiffclust.gemini._penalties import (
    GroupLasso,
    Groups,
    unshared,
)
from skdiffclust.gemini._relations import KERNELS, METRICS
from skdiffclust.gemini._resume import PathCheckpoint
from skdiffclust.gemini._sparse_rows import centered, have_equal_columns
from skdiffclust.gemini._starts import matched, softened
from skdiffclust.gemini._training import train_model
from skdiffclust.gemini._walk import (
    TOLERANCE,
    TRAINED_TOLERANCE,
    Walk,
    advance_to,
    first_alpha,
    walk_path,
)


class FeatureSelector(SelectorMixin):
    """The selection of features, of samples that are checked as those of `fit` are."""

    def transform(self, X) -> np.ndarray | sparray | spmatrix:
        """Reduce X to the selected features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        X_r : {ndarray, sparse matrix} of shape (n_samples, n_selected_features)
            The samples with the selected features only.
        """
        refuse_container(X)
        return super().transform(X)

    def inverse_transform(self, X) -> np.ndarray | sparray | spmatrix:
        """Insert features of zeros where `transform` removed others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_selected_features)
            Samples with the selected features only.

        Returns
        -------
        X_original : {ndarray, sparse matrix} of shape (n_samples, n_features)
            The samples with all features, those not selected being zeros.
        """
        refuse_container(X)
        return super().inverse_transform(X)


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
    kernel_params : dict or None, default=None
        Further parameters of `kernel`, such as "degree", or keyword arguments of a
        function.
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
    device : str or torch.device, default="auto"
        Device on which perceptrons are trained, as in :class:`GEMINI`.
    random_state : int, RandomState instance or None, default=None
        Determines all random numbers.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int64
        Cluster of each training sample, from 0 to ``n_clusters_ - 1`` in order of
        decreasing size after the first stage.
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
    device_ : str
        Device on which the perceptron was trained. Only available with ``model="mlp"``.
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

    # List for the loops of a path that is a part of a search, which judges their
    # convergence and is interrupted as a whole; it also needs the Starts of the path,
    # which are then in `_first_starts`.
    _judged = None
    # The largest penalty that such a path needs.
    _max_alpha = np.inf

    _parameter_constraints = {
        **BaseGEMINI._parameter_constraints,
        "kernel": KERNELS,
        "metric": METRICS,
        "model": [StrOptions({"linear", "mlp"})],
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
        objective: Literal[
            "chi2", "hellinger", "kl", "mmd", "tv", "wasserstein"
        ] = "mmd",
        mode: Literal["auto", "ova", "ovo"] = "auto",
        kernel: object = "linear",
        metric: object = "euclidean",
        gamma: float | Literal["scale"] | None = None,
        kernel_params: dict[str, Any] | None = None,
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
        device: object = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.objective = objective
        self.mode = mode
        self.kernel = kernel
        self.metric = metric
        self.gamma = gamma
        self.kernel_params = kernel_params
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
        self.device = device
        self.random_state = random_state

    @keep_state_on_error
    @outside_torch_modes
    @fit_context(prefer_skip_nested_validation=False)
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
        affinity : array-like of shape (n_samples, n_samples), default=None
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
        X, means, problem = self._prepare(X, sample_weight, affinity, links)
        training = Training(self, X, y, n_init=None, **self._training_params())
        loops = iter(training)
        walk, step = self._first_stage(problem, training, loops, X, means)
        walk.scale = abs(step.objective)
        history = training.best.history
        alpha = self.alpha / problem.units.alpha
        if self._n_clusters > 1 and (alpha or not walk.is_exact):
            try:
                step = advance_to(alpha, walk, loops)
            except StopIteration:  # a callback has ended the fit
                step = walk.record(alpha, training.loops[-1].n_iter)
            history = training.loops[-1].history
        training.stop()
        next(loops, None)
        step = problem.units.step(step, self._kind())
        step = replace(step, alpha=float(self.alpha))
        self._publish(step, problem, means)
        self._warn(step, problem, np.array([step.kkt]))
        self.history_ = problem.units.history(history)
        training.finish(_uncertified(training.loops[-1:], step.kkt))
        return self

    @keep_state_on_error
    @outside_torch_modes
    @fit_context(prefer_skip_nested_validation=False)
    def path(
        self,
        X,
        y=None,
        sample_weight=None,
        *,
        affinity=None,
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
        affinity : array-like of shape (n_samples, n_samples), default=None
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
        _check_path(options, keep_threshold, checkpoint, resume)
        links = (partial_labels, must_link, cannot_link)
        X, means, problem = self._prepare(X, sample_weight, affinity, links)
        training = Training(self, X, y, n_init=None, **self._training_params())
        steps, first = self._walk(
            problem, training, X, means, options, checkpoint, resume
        )
        steps = [problem.units.step(step, self._kind()) for step in steps]

        threshold = None if self.dynamic else keep_threshold
        path = SparsePath(
            steps,
            self._kind(),
            threshold,
            clone(self),
            self._shared(problem, means),
            self._groups_of_features(len(means)),
            problem.row_weights[problem.some_rows],
        )
        self._publish(steps[path.chosen], problem, means)
        self._warn(steps[path.chosen], problem, path.kkts)
        self.feature_importances_ = path.leaving_alphas()
        loops = _uncertified(training.loops[first:], path.kkts)
        if self._judged is not None:
            self._judged += loops
            loops = []
        training.finish(loops)
        return path

    def _prepare(self, X, sample_weight, affinity, links):
        """Return samples (n, d), their means (d,), and their Problem, all checked."""
        X, row_weights, means = self._check_rows(X, sample_weight)
        if affinity is not None and self.dynamic:
            raise ValueError(
                "The 'affinity' parameter must be None for SparseGEMINI with "
                "dynamic=True, where it is computed from the features that are in. Got "
                "a matrix instead. Set dynamic=False, or leave it out."
            )
        affinity = self._check_affinity(affinity, X)
        constraints = as_constraints(X.shape[0], *links)
        self._affinity_given = affinity is not None
        problem = self._problem(X, row_weights, means, constraints, affinity)
        return X, means, problem

    def _walk(self, problem, training, X, means, options, checkpoint, resume):
        """Return the Steps of a path, those that are finished if it is interrupted.

        Also the number of loops of training before the first of them.
        """
        loops = iter(training)
        multiplier = options["alpha_multiplier"]
        steps = []
        if checkpoint is not None:
            # All values of this model and of this stream are replaced.
            rng = np.random.RandomState(0)
            sizes = self._layer_sizes(X.shape[1])
            model = new_model(self._kind(), None, sizes, rng, X.dtype)
            walk = self._walk_from(model, problem, rng, X, means)
            identity = self._identity(problem, options)
            checkpoint = PathCheckpoint(checkpoint, identity, model, problem)
            steps = checkpoint.open(walk, resume=resume)
        if not steps:
            walk, step = self._first_stage(problem, training, loops, X, means)
            steps = [step]
            if checkpoint is not None:
                checkpoint.append(steps[0], walk)
        walk.scale = abs(steps[0].objective)
        first = len(training.loops)
        try:
            alpha = steps[-1].alpha * multiplier
            if not alpha and options["alpha_init"] is not None:
                alpha = options["alpha_init"] / problem.units.alpha
            if not alpha:
                alpha = first_alpha(walk, loops)
                first = len(training.loops)
            for step in walk_path(
                walk,
                loops,
                alpha,
                multiplier,
                options["min_features"],
                options["refine"],
                steps[-1].alpha,
                self._max_alpha / problem.units.alpha,
            ):
                steps.append(step)
                if checkpoint is not None:
                    checkpoint.append(step, walk)
        except StopIteration:
            pass  # a callback has ended the search for the first penalty
        except KeyboardInterrupt:
            if self._judged is not None:
                raise
            alpha = steps[-1].alpha
            n_in = steps[-1].support.sum()
            warn_of_convergence(
                f"The path was interrupted after {len(steps)} steps, at alpha="
                f"{alpha * problem.units.alpha:.4g} with {n_in} features. These steps "
                "are kept. To be able to continue later, pass checkpoint=... and "
                "resume=True.",
            )
        training.stop()
        if training.loops:
            next(loops, None)
        return steps, first

    def _first_stage(self, problem, training, loops, X, means):
        """Train without penalty; return the Walk from there and its first Step."""
        rng = check_random_state(self.random_state)
        attributes, logits = self._views(problem, X, means)
        trained = []
        starts = self._starts(problem, self._kind(), rng)
        for number, (model, loop) in enumerate(zip(starts.models, loops, strict=False)):
            train_model(
                model,
                problem,
                loop,
                Adam(model.arrays, self.learning_rate),
                batch_size=self._batch(len(problem.X)),
                random_state=rng,
                attributes=attributes,
                penalty=self._penalty(problem),
                is_final=number == starts.final,
            )
            trained.append(MODELS[self._kind()].from_arrays(loop.best_state))
        best = MODELS[self._kind()].from_arrays(training.best.best_state)
        if self._n_clusters == 1:
            # No weight changes the objective, so no feature is selected.
            for weights in (w for model in (best, *trained) for w in model.inputs):
                weights[...] = 0
        best = ordered(best, logits(best), problem.row_weights)
        best_logits = logits(best)
        if self._judged is None:
            labels = best_logits.argmax(axis=1)
            weights = problem.row_weights
            self._warn_if_unequal(X, weights, labels, starts, "SparseGEMINI")
        else:
            self._first_starts = starts
        # The best one may be sharp, without a gradient.
        start = softened(best, problem)
        if self._kind() == "skip" or self._tolerance(len(problem.X)) is None:
            # Steps that are trained continue from the training.
            losses = [loop.best_loss for loop in training.loops[: starts.n_trained]]
            start = trained[int(np.argmin(losses))]
            own = start.forward(problem.X)[0].argmax(axis=1)
            start = matched(start, own, best_logits.argmax(axis=1))
        for loop in training.loops:
            loop.take_best_state()
        walk = self._walk_from(start, problem, rng, X, means)
        return walk, walk.step_of(best, best_logits, 0.0, training.best.n_iter)

    def _tolerance(self, n_samples):
        """Return the largest certificate of a step, None where there is none."""
        is_whole = self._batch(n_samples) >= n_samples
        if not is_whole or not OBJECTIVES[self.objective].is_smooth:
            return None
        return TOLERANCE if self._kind() == "linear" else TRAINED_TOLERANCE

    def _views(self, problem, X, means):
        """Return functions of a model: fitted attributes, and logits of samples X."""
        units = problem.units
        rows = centered(X, means)

        groups = self._groups_of_features(len(means))
        shared = {"means_": means, **self._gamma_attribute(units, len(means))}

        def attributes(model):
            return shared | attributes_of_model(units.model(model), groups)

        def logits(model):
            return units.model(model).outputs(rows)

        return attributes, logits

    def _walk_from(self, model, problem, rng, X, means):
        """Return the Walk that starts from a model."""
        return Walk(
            self._kind(),
            model.arrays,
            self._penalty(problem),
            self._problem_of(problem, X),
            rng,
            self._batch(len(problem.X)),
            self.learning_rate,
            *self._views(problem, X, means),
            self._tolerance(len(problem.X)),
            self.max_iter,
        )

    def _penalty(self, problem):
        """Return the penalty of a problem, with alpha zero."""
        n_features = problem.X.shape[1]
        groups = self._groups_of_features(n_features)
        factors = self._factors(problem, groups)
        return GroupLasso(groups, 0.0, factors, self.hierarchy)

    def _factors(self, problem, groups):
        """Return the factors of the penalties of groups (g,), None if all are one.

        ValueError if those that were given are invalid.
        """
        if self.penalty_factor is None:
            return None
        if isinstance(self.penalty_factor, str):
            return unshared(problem.X, problem.row_weights, groups)
        n_features = problem.X.shape[1]
        factors = np.asarray(self.penalty_factor, dtype=np.float64)
        is_good = factors.shape == (n_features,) and (
            np.isfinite(factors).all() and (factors > 0).all()
        )
        if not is_good:
            raise ValueError(
                f"The 'penalty_factor' parameter of {type(self).__name__} must be "
                "None, 'redundancy', or an array of positive numbers of shape "
                f"({n_features},), one for each feature. Got "
                f"{self.penalty_factor!r} instead. Use a small factor for features "
                "that should be dropped late."
            )
        own = factors[groups.order[groups.starts[:-1]]]
        if (groups.by_feature(own) != factors).any():
            raise ValueError(
                "The 'penalty_factor' parameter of SparseGEMINI must be the same "
                "for all features of a group. Got different ones instead. Give "
                "each group one factor."
            )
        return own

    def _problem_of(self, problem, X):
        """Return the function from a support (d,) to the Problem of a step.

        X (n, d) are the samples of `problem`.
        """
        kind = OBJECTIVES[self.objective].relation
        if not self.dynamic or kind is None:
            return lambda support: problem
        known = {}

        def problem_of(support):
            key = support.tobytes()
            if key not in known and support.any():
                known.clear()
                rows = problem.X[:, support]
                units = problem.units
                gamma = self._scaled_gamma(units, rows.shape[1])
                relation = self._relation(rows, X[:, support], units, gamma)
                known[key] = replace(problem, relation=relation)
            return known.get(key, problem)

        return problem_of

    def _publish(self, step, problem, means):
        """Assign the fitted attributes of a Step."""
        drop_stale(self, ["gamma_", "device_", "history_", "feature_importances_"])
        groups = self._groups_of_features(len(means))
        weights = problem.row_weights[problem.some_rows]
        attributes = attributes_of_step(step, self._kind(), groups, weights)
        attributes |= self._shared(problem, means)
        vars(self).update(attributes)

    def _warn(self, step, problem, kkts):
        """Warn of empty clusters, broken links, no features, and inexact steps.

        With one cluster, or samples that are all equal, no feature can be selected.
        Steps with a certificate, one of kkts (s,), above the tolerance are inexact.
        """
        report_clusters(
            "SparseGEMINI",
            step.labels,
            self._n_clusters,
            self._mode(),
            problem.constraints,
        )
        could_be_in = self._n_clusters > 1 and not have_equal_columns(problem.X)
        if could_be_in and not step.support.any():
            warn_of_convergence(
                f"SparseGEMINI selects no feature at alpha={step.alpha:.4g}. Lower "
                "alpha, or use path().",
            )
        tolerance = TOLERANCE if self._kind() == "linear" else TRAINED_TOLERANCE
        n_over = np.count_nonzero(kkts > tolerance)
        if n_over:
            warn_of_convergence(
                "SparseGEMINI did not converge: the optimality conditions are "
                f"violated at {n_over} of {len(kkts)} penalties, kkt_ is up to "
                f"{np.nanmax(kkts):.2g} instead of at most {tolerance}. Increase "
                "max_iter, or begin with a larger penalty.",
            )

    def _shared(self, problem, means):
        """Return the fitted attributes that the steps of a path have in common."""
        names = "n_features_in_", "feature_names_in_", "_affinity_given"
        attributes = {
            name: getattr(self, name) for name in names if hasattr(self, name)
        }
        units = problem.units
        attributes |= {"means_": means, **self._gamma_attribute(units, len(means))}
        return attributes | self._device_attribute(problem)

    def _groups_of_features(self, n_features):
        """Return the Groups of the features; ValueError if they are invalid."""
        if self.groups is None:
            return Groups.of(None, n_features)
        groups = np.asarray(self.groups)
        if groups.dtype == object and all(isinstance(name, str) for name in groups):
            groups = groups.astype(str)
        if groups.shape != (n_features,) or groups.dtype.kind not in "iuU":
            raise ValueError(
                f"The 'groups' parameter of {type(self).__name__} must be None or an "
                f"array of integers or names of shape ({n_features},), one for each "
                f"feature. Got shape {groups.shape} and dtype {groups.dtype} instead. "
                "Features with the same value form a group."
            )
        return Groups.of(groups, n_features)

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


def _uncertified(loops, kkts):
    """Return the loops that are judged by their losses, where steps have kkts (s,).

    Steps with certificates are judged by these, unless the training diverged.
    """
    if np.isnan(kkts).all():
        return loops
    return [loop for loop in loops if loop.stop_reason == "diverged"]


_PATH_CONSTRAINTS = {
    "alpha_init": [Interval(Real, 0, None, closed="neither"), None],
    "alpha_multiplier": [Interval(Real, 1, None, closed="neither")],
    "min_features": [positive],
    "keep_threshold": [Interval(Real, 0, 1, closed="right")],
    "refine": ["boolean"],
}


def _check_path(options, keep_threshold, checkpoint, resume):
    """Refuse invalid parameters of `path`."""
    check_checkpoint("SparseGEMINI.path", checkpoint, resume)
    options = options | {"keep_threshold": keep_threshold}
    validate_parameter_constraints(
        _PATH_CONSTRAINTS, options, caller_name="SparseGEMINI.path"
    )
