"""GEMINI: discriminative clustering by a generalised mutual information."""

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from skdiffclust._assignments import order_by_size, softmax
from skdiffclust._compat import StrOptions, fit_context
from skdiffclust._constraints import as_constraints, bounds_of_clusters
from skdiffclust._devices import (
    outside_torch_modes,
    require_torch,
    resolve_device,
)
from skdiffclust._fitted import drop_stale, reads_whole
from skdiffclust._history import (
    EpochLoop,
    Training,
    keep_state_on_error,
    reported_by_the_whole,
)
from skdiffclust.gemini._base import (
    BaseGEMINI,
    has_features,
    logits_of_rows,
    ordered,
    positive,
)
from skdiffclust.gemini._models import MODELS, new_model
from skdiffclust.gemini._resume import RestartsCheckpoint, check_checkpoint
from skdiffclust.gemini._stability import (
    cells_of_subset,
    counts_to_try,
    stability_of_counts,
    warn_of_chance,
)
from skdiffclust.gemini._stream import check_stream, continue_training
from skdiffclust.gemini._training import OPTIMISERS, train_model

# Largest number of epochs of a fit that is used to choose the number of clusters.
_MOST_TRIAL_EPOCHS = 100
# Attributes that exist only for some models or kernels.
_BY_MODEL = (
    "assignments_",
    "means_",
    "coefs_",
    "intercepts_",
    "gamma_",
    "encoder_",
    "device_",
    "_columns",
    "_units",
    "_stream",
)


def _has_stream(estimator):
    """Whether the model is a linear one or a perceptron, trained in NumPy."""
    if callable(estimator.model):
        raise AttributeError(
            "GEMINI with a module as model has no partial_fit. Pass encoder_, which "
            "was trained on earlier samples, as model, and fit it to the next ones."
        )
    return has_features(estimator)


@reads_whole("predict", "predict_proba", "score")
class GEMINI(BaseGEMINI):
    r"""Cluster by maximising a generalised mutual information.

    A model p(y|x), here linear or a perceptron, is trained so that the clusters are
    distributed as differently as possible: from all samples (one-vs-all),

    .. math:: \mathcal{I}^{ova} = \sum_k \pi_k D(p(x|y=k), p(x)),

    or from each other (one-vs-one, equations (2) and (3) of [1]_). It is the right
    choice where a clustering must be a function of the features, simple and the same
    for new samples, and its number of clusters only an upper bound.

    Parameters
    ----------
    n_clusters : int or "auto", default=2
        Largest number of clusters; fewer may be found. "auto" tries 2 to 10, at most
        one for every eight samples, and takes the number whose clusters are most stable
        over subsets of the samples; see Notes.
    objective : str, default="mmd"
        One of :func:`~skdiffclust.gemini.available_objectives`. "mmd" compares means
        under `kernel`, "wasserstein" whole distributions under `metric`; "kl" is the
        mutual information, which with `l2` is the regularised information
        maximisation (RIM) [2]_, "tv", "hellinger" and "chi2" are like it. The last
        four do not use distances and need `l2`.
    mode : {"auto", "ova", "ovo"}, default="auto"
        One-vs-all or one-vs-one. One-vs-one uses all its clusters more often. "auto" is
        "ovo" for "mmd" and "wasserstein"; for the others, some of which have no bound
        one-vs-one, it is "ova".
    kernel : str, callable or transformer, default="linear"
        A kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, a function of
        two samples, "precomputed" (X is the kernel, only with ``model="free"``; else
        see `affinity` of :meth:`fit`), or a transformer of explicit features such as
        :class:`~sklearn.kernel_approximation.Nystroem`, of which a copy is fitted: give
        it a `random_state`. A linear kernel and a transformer need no n × n matrix.
    metric : str or callable, default="euclidean"
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed" (only
        with ``model="free"``).
    gamma : float, "scale" or None, default=None
        Coefficient of the kernels "rbf", "laplacian", "chi2", "poly", "polynomial" and
        "sigmoid"; None is scikit-learn's default for each, 1 / n_features for most.
        "scale" is one over the sum of the variances of the features (for "laplacian"
        and "chi2", over the root of n_features times that sum), and makes the result
        independent of the unit of X.
    degree : float, default=3
        Degree of the kernels "poly" and "polynomial".
    coef0 : float, default=1
        Constant of the kernels "poly", "polynomial" and "sigmoid".
    kernel_params : dict or None, default=None
        Keyword arguments of a kernel that is a function; others ignore them.
    model : {"linear", "mlp", "free"} or torch.nn.Module, default="linear"
        Multinomial logistic regression, a perceptron with ReLUs, or probabilities of
        each training sample without any function, which cannot predict other samples.
        A copy of a module is trained, from the parameters that it has; it maps samples
        as they are to one logit for each cluster.
    hidden_layer_sizes : int or array-like of int, default=(100,)
        Hidden layers of the perceptron.
    dropout : float, default=0
        Probability with which a hidden unit is left out of a step.
    l2 : float, default=0
        Factor of the sum of squared weights (not of biases) in the loss.
    link_weight : float, default=1
        Factor of the penalty for links and partial labels in the loss, where they are
        given: minus the mean log-probability that they are satisfied.
    solver : {"adam", "sgd"}, default="adam"
        Adam, or gradient descent with momentum 0.9.
    max_iter : int, default=1000
        Largest number of epochs of a restart.
    batch_size : int or None, default=None
        Samples of a batch. The objective of a batch is that of its samples only, so
        small batches are biased; None takes all samples.
    learning_rate : float, default=0.01
        Step size of the solver.
    tol : float, default=1e-4
        Smallest relative improvement of the loss that counts as progress.
    n_iter_no_change : int or None, default=10
        Stop after this many epochs without progress; None never stops early.
    n_init : int, default=3
        Number of restarts; the one with the smallest loss is kept. The first starts
        from the cells of k-means, the others from random weights, and one more from a
        partition (see Notes).
    device : str or torch.device, default="auto"
        Where a module is trained; "auto" is CUDA if there is one, else the CPU, where
        all other models are trained.
    random_state : int, RandomState instance or None, default=None
        Draws the centres of k-means, initial weights, batches and dropout.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int64
        Clusters 0 to ``n_clusters_ - 1`` by decreasing size (sum of sample weights).
    n_clusters_ : int
        Number of clusters that have samples.
    coefs_, intercepts_ : list of ndarray
        Layers of the model, of shapes (n_in, n_out) and (n_out,), on centred features.
    means_ : ndarray of shape (n_features,), float64
        Means that are subtracted from the features before the model.
    encoder_ : torch.nn.Module
        Only with a module as `model`: the trained copy, on the CPU.
    device_ : str
        Only with a module as `model`: where it was trained.
    assignments_ : ndarray of shape (n_samples, n_clusters)
        Only with ``model="free"``: the probabilities of the training samples; those of
        equal samples are equal.
    n_iter_ : int
        Number of epochs of the restart that is kept.
    history_ : dict of lists
        "loss" and "objective" at each of its epochs.
    gamma_ : float
        Only with ``gamma="scale"``: its value.
    stability_ : dict of ndarray
        Only with ``n_clusters="auto"``: for each of "counts", the numbers of clusters,
        their "stability", that of samples of one Gaussian, "reference", and the
        "advantage" of the first over the second.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    SparseGEMINI : Selects variables as well.

    Notes
    -----
    An epoch costs O(n d k) for "mmd" with a linear kernel, see
    :func:`~skdiffclust.gemini.gemini_score` for the others, plus the model. Features
    are centred for the model and for the linear kernel; other kernels and distances are
    of X as it is. Internally, they are divided by the root of the mean of their
    variances, so that the result does not depend on the unit of X; use a StandardScaler
    if features have different units. `l2` and `alpha` are in the unit of X: if
    multiplying X by c multiplies the objective by c^q (q is 1 for "mmd" with the linear
    kernel), then it multiplies `alpha` of :class:`SparseGEMINI` by c^(q + 1), `l2` of a
    linear model by c^(q + 2) and that of later layers by c^q. `link_weight` has no
    unit, it is relative to the objective of the scaled features. The weights of the
    epoch with the smallest loss are kept.

    The cells of k-means are those of a linear model. The first restart begins at the
    best of several runs of k-means, softened, because a hard partition has no gradient.
    The hard partition is a candidate for the best restart as well, so that the
    objective of the result is never lower than that of k-means, up to rounding. With
    more than 20000 samples, all at once and without links, the restarts are trained on
    10000 of them, and the best one on all. For
    "mmd" with the linear kernel that partition, and those of the other restarts, are
    improved first: each sample goes to the cluster to which the objective pulls it
    most, for as long as the objective grows. In the best of them single clusters are
    moved away on trial, which leaves optima that such steps do not. A perceptron needs
    two units in each hidden layer for each cluster to start so; with fewer, and without
    features, all restarts are random.

    A module has one run, from the parameters that it has: `n_init`,
    `hidden_layer_sizes` and `dropout` are not used. The gradient of the objective by
    its outputs is computed in NumPy, and torch takes it from there. The module sees
    samples as they are, so that their unit matters. `l2` is the factor of the squares
    of all its parameters except vectors. "loss" and "objective" are those of all
    samples after each epoch. The global random streams of torch are seeded during
    training, and restored: concurrent fits of modules take turns.

    **Number of clusters.** With ``n_clusters="auto"`` each number is fitted to ten
    subsets of half of the samples (of 1000 of them, if there are more), and its
    stability s is the mean adjusted Rand index of what pairs of these fits predict for
    all. The reference m is the mean of s on nine times as many samples drawn from a
    Gaussian with the covariance of X, as in [3]_, because two halves of any elongated
    distribution are stable, too. The number with the largest advantage, (s - m) / (1.05
    - m), is chosen, and among those within 0.03 of it the largest, because two clusters
    that are merged into one are as stable as both. A ConvergenceWarning is issued if
    one of the Gaussians has a larger advantage. For "mmd" with the linear kernel a fit
    is the best partition of k-means, improved (see above), along the leading 32
    principal components if there are more features [4]_, and the choice takes seconds;
    for others it is a training of at most 100 epochs, and the choice takes 100 of these
    for each number. Links and weights are not used for it, but for samples of weight 0,
    which are left out, and numbers of clusters that links exclude.

    References
    ----------
    .. [1] L. Ohl et al., "Sparse and geometry-aware generalisation of the mutual
       information for joint discriminative clustering and feature selection",
       Statistics and Computing 34:155, 2024.
    .. [2] A. Krause, P. Perona, R. Gomes, "Discriminative Clustering by Regularized
       Information Maximization", NeurIPS 2010.
    .. [3] C. R. John et al., "M3C: Monte Carlo reference-based consensus clustering",
       Scientific Reports 10:1816, 2020.
    .. [4] M. B. Cohen et al., "Dimensionality Reduction for k-Means Clustering and Low
       Rank Approximation", STOC 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skdiffclust import GEMINI
    >>> X, y = load_iris(return_X_y=True)
    >>> gemini = GEMINI(n_clusters=3, mode="ovo", random_state=0).fit(X)
    >>> gemini.n_clusters_
    3
    >>> gemini.predict([[5.0, 3.5, 1.5, 0.2]]) == gemini.labels_[y == 0][:1]
    array([ True])
    """

    _parameter_constraints = {
        **BaseGEMINI._parameter_constraints,
        "n_clusters": [positive, StrOptions({"auto"})],
        "model": [StrOptions({"linear", "mlp", "free"}), callable],
        "device": "no_validation",  # `resolve_device` names those that are present
    }

    def __init__(
        self,
        n_clusters=2,
        *,
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
        dropout=0.0,
        l2=0.0,
        link_weight=1.0,
        solver="adam",
        max_iter=1000,
        batch_size=None,
        learning_rate=0.01,
        tol=1e-4,
        n_iter_no_change=10,
        n_init=3,
        device="auto",
        random_state=None,
    ):
        self.n_clusters = n_clusters
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
        self.device = device
        self.random_state = random_state

    @keep_state_on_error
    @outside_torch_modes
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
        """Train the model on X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, which may be sparse, or the dense matrix between samples where
            `kernel` or `metric` is "precomputed".
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples; a weight of two is a repeated sample.
        affinity : array-like of shape (n_samples, n_samples), default=None
            A kernel ("mmd") or distances ("wasserstein") between the samples, in place
            of `kernel` or `metric`: the model is a function of X, and the objective
            compares samples by this matrix. Not with "precomputed".
        partial_labels : array-like of shape (n_samples,), default=None
            Integers, or strings in an object array: samples with the same label
            should share a cluster, samples with different ones should not; -1 where
            unknown.
        must_link : array-like or sparse matrix, default=None
            Samples that should share a cluster: index pairs (n_links, 2), group ids
            (n_samples,) with -1 for none, or a sparse incidence matrix
            (n_samples, n_links) with two non-zeros in a column. In a cross-validation
            use one of the last two, since pairs do not follow the samples.
        cannot_link : array-like or sparse matrix, default=None
            Samples that should not share a cluster, as pairs or incidence matrix.
        checkpoint : path-like or None, default=None
            Folder that each restart is written to when it has ended; created if it does
            not exist. Requires an integer `random_state`. Not with a module, which has
            one run: fit it for few epochs, and pass `encoder_` as `model` to continue.
        resume : bool, default=False
            Continue from the checkpoint, if there is one: restarts that have ended are
            not trained again. The result is that without the interruption, bit for bit.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is not as described, constraints contradict each other,
            the loss diverges at once, or the checkpoint is not one of the same data and
            parameters.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested, links are not satisfied, the
            loss diverges, or it still falls at `max_iter`.
        """
        check_checkpoint("GEMINI", checkpoint, resume, self.random_state)
        X, row_weights, means = self._check_rows(X, sample_weight)
        constraints = as_constraints(X.shape[0], partial_labels, must_link, cannot_link)
        affinity = self._check_affinity(affinity, X)
        rng = check_random_state(self.random_state)
        drop_stale(self, ["stability_"])
        if self.n_clusters == "auto":
            self._check_auto(np.count_nonzero(row_weights), affinity)
            present = X[np.flatnonzero(row_weights > 0)]
            counts = counts_to_try(len(present), *bounds_of_clusters(constraints))
            stability = stability_of_counts(
                self._cluster_subset, present, counts, rng, self._finds_cells()
            )
            self.stability_ = stability.to_dict()
            # Set on the draft of this fit only; the parameter is unchanged.
            self.n_clusters = stability.best
            warn_of_chance("GEMINI", stability)
        problem = self._prepare(X, row_weights, means, constraints, affinity)
        self._affinity_given = affinity is not None
        if callable(self.model):
            if checkpoint is not None:
                raise ValueError(
                    "The 'checkpoint' parameter of GEMINI.fit must be None with a "
                    f"module as model, which has one run. Got {checkpoint!r} instead. "
                    "Fit it for few epochs, and pass encoder_ as model to continue."
                )
            self._fit_module(X, y, problem, means, rng)
            return self
        if self.device != "auto":
            resolve_device(self.device, "GEMINI")
        units = problem.units
        gamma = self._gamma_attribute(units, X.shape[1])
        trained = []
        starts = self._starts(problem, self.model, rng, trained)
        n_starts = self._n_starts(problem, self.model) + self._has_cells(
            self.model, self._layer_sizes(X.shape[1])
        )
        if self.model == "free":
            problem = problem.on_numbers()

        training = Training(self, X, y, **self._training_params(), n_init=n_starts)
        store = None
        if checkpoint is not None:
            store = self._restarts(problem, X.shape[1], checkpoint, resume)
        for loop, model in zip(training, starts, strict=False):
            number = len(trained)
            if store is not None and store.restore(number, loop, rng):
                trained.append(MODELS[self.model].from_arrays(loop.best_state))
                continue
            train_model(
                model,
                problem,
                loop,
                OPTIMISERS[self.solver](model.arrays, self.learning_rate),
                batch_size=self._batch(X.shape[0]),
                random_state=rng,
                attributes=lambda model: (
                    _attributes(units.model(model), problem, means) | gamma
                ),
            )
            trained.append(MODELS[self.model].from_arrays(loop.best_state))
            if store is not None:
                store.append(loop, rng)

        best = MODELS[self.model].from_arrays(training.best.best_state)
        model = units.model(best)
        model = ordered(model, self._logits_of(model, X, means, problem), row_weights)
        labels = self._logits_of(model, X, means, problem).argmax(axis=1)
        self.n_clusters_ = self._report(labels, constraints)
        self.labels_ = labels
        drop_stale(self, _BY_MODEL)
        for name, value in (_attributes(model, problem, means) | gamma).items():
            setattr(self, name, value)
        self._units = units
        self.n_iter_ = training.best.n_iter
        self.history_ = units.history(training.best.history)
        training.finish()
        return self

    @available_if(_has_stream)
    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None, *, affinity=None):
        """Learn from the next samples of a stream.

        The first call is `fit`. Each later one trains the model on its samples alone
        for ten epochs, in batches of `batch_size`, keeps the weights with the smallest
        loss, and the moments of the solver for the next call. Clusters keep their
        numbers, and samples are centred by the means of the first call. The objective
        compares clusters within a batch: every batch should contain all of them, or the
        model divides what there is among all clusters.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; at least `n_clusters` in the first call.
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples; a weight of two is a repeated sample.
        affinity : array-like of shape (n_samples, n_samples), default=None
            Kernel or distances between these samples; given in every call or in none.

        Returns
        -------
        self : object
            The fitted estimator; `labels_` are those of these samples, `n_clusters_`
            counts the clusters that have any, and `history_` and `n_iter_` continue.

        Raises
        ------
        ValueError
            As `fit`, if `n_clusters` is "auto", or if the model is not that of the
            first call.
        """
        if self.n_clusters == "auto":
            raise ValueError(
                "The 'n_clusters' parameter of GEMINI must be an integer for "
                "partial_fit, whose later samples cannot change it. Got 'auto' "
                "instead. Set it, or fit a sample with 'auto' and set its n_clusters_."
            )
        if not hasattr(self, "_units"):
            return self.fit(X, y, sample_weight, affinity=affinity)
        check_stream(self, affinity)
        X, row_weights, means = self._check_rows(X, sample_weight, first=False)
        problem = self._problem(
            X,
            row_weights,
            means,
            None,
            self._check_affinity(affinity, X),
            units=self._units,
        )
        best, loop, self._stream = continue_training(self, problem)
        model = self._units.model(best)
        for name, value in _attributes(model, problem, means).items():
            setattr(self, name, value)
        self.labels_ = logits_of_rows(model, X, means).argmax(axis=1)
        self.n_clusters_ = len(np.unique(self.labels_))
        self.n_iter_ += loop.n_iter
        self.history_ = {
            name: self.history_[name] + curve
            for name, curve in self._units.history(loop.history).items()
        }
        return self

    def _fit_module(self, X, y, problem, means, rng):
        """Train a copy of the module on X (n, d), of which `problem` is."""
        require_torch("GEMINI with a module as model")
        from skdiffclust._torch import isolated_streams, module_on_cpu, own_module
        from skdiffclust.gemini._torch import ModuleModel, module_logits

        device = resolve_device(self.device, "GEMINI")
        module = own_module(
            self.model, "'model' parameter of GEMINI", "'linear', 'mlp', 'free'"
        )
        shared = {"means_": means, "device_": device}
        shared |= self._gamma_attribute(problem.units, X.shape[1])

        def attributes(state, columns):
            encoder = module_on_cpu(module, state)
            return shared | {"encoder_": encoder, "_columns": columns}

        params = self._training_params()
        training = Training(self, X, y, **params, n_init=1)
        unordered = np.arange(self.n_clusters)
        with isolated_streams(rng, device):
            model = ModuleModel(module, self.n_clusters, X, problem, device)
            for loop in training:
                model.train(
                    loop,
                    self.solver,
                    self.learning_rate,
                    self._batch(len(X)),
                    rng,
                    lambda: attributes(model.state(), unordered),
                )
        best = training.best.best_state
        encoder = module_on_cpu(module, best)
        labels = module_logits(encoder, X, self.n_clusters).argmax(axis=1)
        order = order_by_size(labels, self.n_clusters, problem.row_weights)
        labels = np.argsort(order)[labels]
        self.n_clusters_ = self._report(labels, problem.constraints)
        self.labels_ = labels
        drop_stale(self, _BY_MODEL)
        for name, value in attributes(best, order).items():
            setattr(self, name, value)
        self.n_iter_ = training.best.n_iter
        self.history_ = problem.units.history(training.best.history)
        training.finish()

    def _restarts(self, problem, n_features, folder, resume):
        """Return the RestartsCheckpoint of a problem in a folder."""
        n_distinct = int(problem.X.max()) + 1 if self.model == "free" else None
        model = new_model(
            self.model,
            n_distinct,
            self._layer_sizes(n_features),
            np.random.RandomState(0),
            problem.row_weights.dtype,
        )
        return RestartsCheckpoint(
            folder,
            self._identity(problem),
            model,
            EpochLoop(self, **self._training_params()),
            self.max_iter,
            resume=resume,
        )

    def _check_auto(self, n_samples, affinity):
        """Refuse n_clusters="auto" if stability cannot be computed."""
        if callable(self.model):
            raise ValueError(
                "The 'n_clusters' parameter of GEMINI must be an integer with a module "
                "as model, whose width is that number. Got 'auto' instead. Set it."
            )
        self._check_reference(n_samples, affinity is not None)

    def _finds_cells(self):
        """Return whether the fit of a subset is the best partition of k-means."""
        is_named = isinstance(self.kernel, str)
        return self.objective == "mmd" and is_named and self.kernel == "linear"

    def _cluster_subset(self, X, rows, n_clusters, random_state):
        """Return the labels (n,) of X (n, d) from a fit to some of its samples."""
        if self._finds_cells():
            return cells_of_subset(X, rows, n_clusters, self._mode(), random_state)
        part = clone(self).set_params(
            n_clusters=n_clusters,
            n_init=1,
            max_iter=min(self.max_iter, _MOST_TRIAL_EPOCHS),
            random_state=random_state,
        )
        with reported_by_the_whole():
            return part.fit(X[rows]).predict(X)

    def _prepare(self, X, row_weights, means, constraints, affinity):
        """Return the Problem for samples X, or for X as the matrix between samples."""
        pairwise = self.__sklearn_tags__().input_tags.pairwise
        if pairwise and self.model != "free":
            raise ValueError(
                "The 'model' parameter of GEMINI must be 'free' for a precomputed "
                f"relation, where samples have no features. Got {self.model!r} "
                "instead. Pass features as X, and the matrix as fit(X, affinity=...)."
            )
        return self._problem(X, row_weights, means, constraints, affinity)

    def _logits_of(self, model, X, means, problem):
        """Return the logits (n, k) of samples X as `predict` computes them."""
        if self.model == "free":
            return model.outputs(problem.X)
        return logits_of_rows(model, X, means)

    def _training_params(self):
        """Return the parameters of the epochs of a restart."""
        return {
            "max_iter": self.max_iter,
            "learning_rate": self.learning_rate,
            "tol": self.tol,
            "n_iter_no_change": self.n_iter_no_change,
        }


def _attributes(model, problem, means):
    """Return the fitted attributes of a model of the samples of a problem."""
    if hasattr(model, "table"):
        return {"assignments_": softmax(model.outputs(problem.X))}
    weights = list(model.weights)
    biases = list(model.biases)
    return {"means_": means, "coefs_": weights, "intercepts_": biases}
