"""GEMINI: discriminative clustering by a generalised mutual information."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from skdiffclust._assignments import order_by_size, softmax
from skdiffclust._compat import StrOptions, available_if, fit_context
from skdiffclust._devices import (
    outside_torch_modes,
    require_torch,
    resolve_device,
)
from skdiffclust._history import (
    Training,
    drop_stale,
    keep_state_on_error,
)
from skdiffclust._optimisers import Adam
from skdiffclust.gemini._base import (
    BaseGEMINI,
    has_features,
    positive,
    report_clusters,
)
from skdiffclust.gemini._calibration import temperature_of
from skdiffclust.gemini._models import MODELS
from skdiffclust.gemini._objectives import ObjectiveName
from skdiffclust.gemini._problem import (
    Samples,
    check_matrix,
    clusters_in,
    make_problem,
    read_samples,
    refuse_unused_precomputed,
    validated,
)
from skdiffclust.gemini._sparse_rows import centered
from skdiffclust.gemini._starts import make_starts, ordered, warn_if_unequal
from skdiffclust.gemini._stream import check_given, check_widths, continue_training
from skdiffclust.gemini._training import train_model

# Samples per cluster from which a batch of a stream tells the temperature.
_LEAST_ROWS = 10
# Attributes that exist only for some models or kernels.
_BY_MODEL = (
    "assignments_",
    "means_",
    "coefs_",
    "intercepts_",
    "gamma_",
    "encoder_",
    "device_",
    "temperature_",
    "probabilities_",
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


class GEMINI(BaseGEMINI):
    r"""Cluster by maximising a generalised mutual information.

    Clusters should be of similar sizes: of 500 and 10 samples, however far apart, the
    objective prefers two halves. A warning names the sizes of both if the clusters of
    k-means are clearly separated.

    A discriminative model p(y|x) is trained so that the distributions of the clusters
    differ as much as possible, either from the distribution of all samples
    (one-vs-all),

    .. math:: \mathcal{I}^{ova} = \sum_k \pi_k D(p(x|y=k), p(x)),

    or from one another (one-vs-one; equations (2) and (3) of [1]_). Use it when the
    clustering should be a simple function of the features that also applies to new
    samples, and when only an upper bound on the number of clusters is known.

    Parameters
    ----------
    n_clusters : int or "auto", default=2
        Maximum number of clusters; fewer may be found. "auto" chooses it from 2 to 40,
        or the root of the number of samples.
    objective : str, default="mmd"
        Divergence between distributions, one of
        :func:`~skdiffclust.gemini.available_objectives`. "mmd" compares means in the
        space of `kernel`, and "wasserstein" compares distributions under `metric`. "kl"
        is the mutual information; together with `l2` it gives regularised information
        maximisation (RIM) [2]_. "kl", "tv", "hellinger" and "chi2" take no distances
        into account and should be used with `l2`.
    mode : {"auto", "ova", "ovo"}, default="auto"
        Whether clusters are compared with all samples ("ova", one-vs-all) or with one
        another ("ovo", one-vs-one). One-vs-one leaves clusters empty less often. "auto"
        selects "ovo" for "mmd" and "wasserstein", and "ova" for the other objectives,
        some of which are unbounded in one-vs-one mode.
    kernel : str, callable or transformer, default="linear"
        Kernel of the objective "mmd":

        - a name of :func:`sklearn.metrics.pairwise.pairwise_kernels`;
        - a function of two samples;
        - "precomputed", if X is the kernel matrix. This requires ``model="free"``; for
          the other models, see `precomputed` of :meth:`fit`;
        - a transformer to explicit features, such as
          :class:`~sklearn.kernel_approximation.Nystroem`. It is cloned before it is
          fitted; set its `random_state` to obtain reproducible results.

        The linear kernel and transformers do not require an n × n matrix.
    metric : str or callable, default="euclidean"
        Metric of the objective "wasserstein": a metric of
        :func:`sklearn.metrics.pairwise_distances`, or "precomputed", which requires
        ``model="free"``.
    gamma : float, "scale" or None, default=None
        Coefficient of the kernels that have one. None uses the default of scikit-learn.
        "scale" uses one over the sum of the variances of the features (for "laplacian"
        and "chi2", one over the square root of n_features times that sum), which makes
        the result independent of the unit of X.
    kernel_params : dict or None, default=None
        Further parameters of `kernel`, such as "degree", or keyword arguments of a
        function.
    model : {"linear", "mlp", "free"} or torch.nn.Module, default="linear"
        Model of p(y|x):

        - "linear": multinomial logistic regression;
        - "mlp": multilayer perceptron with ReLU activations;
        - "free": one vector of probabilities per training sample, which cannot predict
          other samples;
        - a module that maps samples, which are passed as they are, to one logit per
          cluster. A copy of it is trained, starting from its current parameters.
    hidden_layer_sizes : int or array-like of int, default=(100,)
        Numbers of units in the hidden layers of ``model="mlp"``.
    l2 : float, default=0
        Factor of the L2 penalty: the sum of the squared weights, biases excluded.
    max_iter : int, default=1000
        Most epochs of a restart.
    batch_size : int or None, default=None
        Number of samples in a batch; None uses all. The objective is that of each
        batch, so small batches give a biased gradient.
    learning_rate : float, default=0.01
        Step size of Adam.
    tol : float, default=1e-4
        Training stops when ten epochs decrease the loss by no more than this share.
    n_init : int, default=3
        Number of restarts, of which the one with the smallest loss is kept: one from
        k-means, the others from random weights, and a hard partition, which by default
        is the only one.
    device : str or torch.device, default="auto"
        Device on which perceptrons and modules are trained; "auto" is CUDA if it is
        available. Other models, and sparse samples, are trained on the CPU, in NumPy.
    random_state : int, RandomState instance or None, default=None
        Determines all random numbers.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int64
        Cluster of each training sample, from 0 to ``n_clusters_ - 1`` in order of
        decreasing size (sum of sample weights).
    probabilities_ : ndarray of shape (n_samples,), float64
        Largest of `predict_proba` of each sample; not with ``model="free"``.
    n_clusters_ : int
        Number of non-empty clusters.
    coefs_, intercepts_ : list of ndarray
        Weights and biases of the layers of the model, of shapes (n_in, n_out) and
        (n_out,). They apply to centred features.
    means_ : ndarray of shape (n_features,), float64
        Means of the features, which are subtracted before the model is applied.
    encoder_ : torch.nn.Module
        The trained module, on the CPU. Only available if `model` is a module.
    device_ : str
        Device on which the perceptron or module was trained. Only available for these.
    assignments_ : ndarray of shape (n_samples, n_clusters)
        Probabilities of the training samples, which are not calibrated. Equal samples
        have equal ones. Only available with ``model="free"``.
    n_iter_ : int
        Epochs of the best restart.
    history_ : dict of lists
        "loss" and "objective" after each epoch of the best restart.
    temperature_ : float
        Divisor of the logits in `predict_proba`, but of ``model="free"``.
    gamma_ : float
        Value of gamma, only with ``gamma="scale"``.
    n_clusters_curve_ : dict of ndarrays, or None
        Table of the numbers of clusters "n_clusters": the "separation" of the two
        clusters that are least separated, NaN if it is not tested, and the "score", the
        mean of 1 - d1 / d2 for the distances to the two nearest centres. None unless
        ``n_clusters="auto"``.
    n_clusters_candidates_ : ndarray of shape (n_candidates,), int64, or None
        With ``n_clusters="auto"``, the numbers that are not ruled out, increasing; see
        the user guide. If there are several, a warning lists them.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    SparseGEMINI : Also selects features.

    Notes
    -----
    An epoch costs O(n d k) for "mmd" with the linear kernel, plus a forward and
    backward pass of the model; see :func:`~skdiffclust.gemini.gemini_score` for other
    objectives. Features are centred for the model and for kernels; other kernels and
    distances are computed from X as it is. The model sees X divided by the square root
    of its mean variance, so that the result does not depend on the unit of X; `l2`
    refers to the weights for X as it is. Use
    :class:`~sklearn.preprocessing.StandardScaler` for features in different units.

    The user guide describes the initialisation, modules, the probabilities and the
    number of clusters, which is counted among at most 2000 samples and 32 principal
    components [3]_, with a kernel other than the linear one those of the kernel.

    References
    ----------
    .. [1] L. Ohl et al., "Sparse and geometry-aware generalisation of the mutual
       information for joint discriminative clustering and feature selection",
       Statistics and Computing 34:155, 2024.
    .. [2] A. Krause, P. Perona, R. Gomes, "Discriminative Clustering by Regularized
       Information Maximization", NeurIPS 2010.
    .. [3] M. B. Cohen et al., "Dimensionality Reduction for k-Means Clustering and Low
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
        "kernel_params": [dict, None],
        "device": "no_validation",  # `resolve_device` names those that are present
        "model": [StrOptions({"linear", "mlp", "free"}), callable],
    }

    def __init__(
        self,
        n_clusters: int | np.integer | Literal["auto"] = 2,
        *,
        objective: ObjectiveName = "mmd",
        mode: Literal["auto", "ova", "ovo"] = "auto",
        kernel: object = "linear",
        metric: object = "euclidean",
        gamma: float | Literal["scale"] | None = None,
        kernel_params: dict[str, Any] | None = None,
        model: Literal["linear", "mlp", "free"] | Callable[..., Any] = "linear",
        hidden_layer_sizes: int | np.integer | ArrayLike = (100,),
        l2: float = 0.0,
        max_iter: int | np.integer = 1000,
        batch_size: int | np.integer | None = None,
        learning_rate: float = 0.01,
        tol: float = 1e-4,
        n_init: int | np.integer = 3,
        device: object = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.objective = objective
        self.mode = mode
        self.kernel = kernel
        self.metric = metric
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.model = model
        self.hidden_layer_sizes = hidden_layer_sizes
        self.l2 = l2
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.tol = tol
        self.n_init = n_init
        self.device = device
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
        """Train the model on X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, or the dense (n_samples, n_samples) matrix of kernels or distances
            between them if `kernel` or `metric` is "precomputed".
        y : None
            Ignored. Known labels go to `partial_labels`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. A sample of weight 2 counts as two equal samples,
            but its known label and links count once.
        precomputed : array-like of shape (n_samples, n_samples), default=None
            Kernel (objective "mmd") or distances (objective "wasserstein") between the
            samples, to be used instead of `kernel` or `metric`. The model is still a
            function of X. Cannot be combined with "precomputed".
        partial_labels : array-like of shape (n_samples,), default=None
            Known classes, as integers or as strings in an object array, with -1 for
            unknown: samples of the same class should share a cluster, and samples of
            different classes should not.
        must_link : array-like or sparse matrix, default=None
            Samples that should share a cluster: pairs of indices of shape (n_links, 2),
            group identifiers of shape (n_samples,) with -1 for no group, or a sparse
            incidence matrix of shape (n_samples, n_links) with two non-zeros per
            column. Use one of the last two in cross-validation, where indices of pairs
            do not follow the samples.
        cannot_link : array-like or sparse matrix, default=None
            Samples that should not share a cluster, as pairs of indices or as an
            incidence matrix.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is invalid, constraints contradict each other, the loss
            diverges in the first epoch.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested, k-means has clear ones of less
            equal sizes, links are not satisfied, the loss diverges, or training has not
            converged after `max_iter` epochs.
        """
        settings = self._settings()
        if self.device != "auto":
            resolve_device(self.device, "GEMINI")
        links = (partial_labels, must_link, cannot_link)
        samples = read_samples(self, settings, X, sample_weight, precomputed, links)
        X = samples.X
        rng = check_random_state(self.random_state)
        self.n_clusters_curve_ = self.n_clusters_candidates_ = None
        if self.n_clusters == "auto":
            if callable(self.model):
                raise ValueError(
                    "The 'n_clusters' parameter of GEMINI must be an integer with a "
                    "module as model, whose width is that number. Got 'auto' instead. "
                    "Set it."
                )
            count = clusters_in(samples, settings, rng)
            settings = replace(settings, n_clusters=count.best)
            count.publish(self)
        if settings.is_precomputed and self.model != "free":
            raise ValueError(
                "The 'model' parameter of GEMINI must be 'free' for a precomputed "
                f"relation, where samples have no features. Got {self.model!r} "
                "instead. Pass features as X, and the matrix as fit(X, precomputed=K)."
            )
        problem = make_problem(settings, samples)
        self._precomputed_given = precomputed is not None
        if callable(self.model):
            self._fit_module(samples, y, problem, settings, rng)
            return self
        units = problem.units
        gamma = settings.gamma_attribute(units, X.shape[1])
        starts = make_starts(problem, settings, rng)
        problem = starts.problem
        n_starts = starts.n_trained + starts.has_sharp

        training = Training(self, X, y, **settings.training, n_init=n_starts)
        for number, (loop, model) in enumerate(
            zip(training, starts.models, strict=False)
        ):
            is_final = number == starts.final
            train_model(
                model,
                problem,
                loop,
                None if is_final else Adam(model.arrays, self.learning_rate),
                batch_size=settings.batch(X.shape[0]),
                random_state=rng,
                attributes=lambda model: (
                    _attributes(units.model(model), problem, samples.means) | gamma
                ),
            )

        best = training.best
        model = units.model(MODELS[self.model].from_arrays(best.best_state))
        # `predict` computes the logits of these rows.
        rows = problem.X if self.model == "free" else centered(X, samples.means)
        model = ordered(model, model.outputs(rows), samples.row_weights)
        logits = model.outputs(rows)
        attributes = _attributes(model, problem, samples.means) | gamma
        if self.model == "mlp":
            attributes["device_"] = problem.device or "cpu"
        attributes["_units"] = units
        self._publish(logits, attributes, problem, settings, best)
        warn_if_unequal(samples, self.labels_, starts, "GEMINI")
        training.finish()
        return self

    @available_if(_has_stream)
    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X, y=None, sample_weight=None, *, precomputed=None) -> Self:
        """Learn from the next samples of a stream.

        The first call is equivalent to `fit`. Each later call trains the model for ten
        epochs on the samples passed, in batches of `batch_size`, and keeps the weights
        with the smallest loss. The state of Adam is carried over to the next
        call, clusters keep their numbers, and samples are centred by the means of the
        first call. `temperature_` is that of the last samples, if they are at least ten
        per cluster and not all in one; otherwise, it stays as it is. Since the
        objective compares the clusters within a batch, each batch should contain
        samples of all clusters; otherwise, the samples that it contains are distributed
        among all clusters.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples. The first call requires at least `n_clusters` samples.
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. A sample of weight 2 counts as two equal samples.
        precomputed : array-like of shape (n_samples, n_samples), default=None
            Kernel or distances between these samples. Must be passed either in every
            call or in none.

        Returns
        -------
        self : object
            The fitted estimator. `labels_` and `n_clusters_` refer to the samples of
            this call; `history_` and `n_iter_` accumulate over calls.

        Raises
        ------
        ValueError
            For the same reasons as in `fit`, if `n_clusters` is "auto", or if the
            model differs from that of the first call.
        """
        if self.n_clusters == "auto":
            raise ValueError(
                "The 'n_clusters' parameter of GEMINI must be an integer for "
                "partial_fit, whose later samples cannot change it. Got 'auto' "
                "instead. Set it, e.g. to n_clusters_ of a fit to a subset with 'auto'."
            )
        if not hasattr(self, "_units"):
            return self.fit(X, y, sample_weight, precomputed=precomputed)
        settings = self._settings()
        refuse_unused_precomputed(settings)
        model = self._fitted_model()
        X = validated(self, X, reset=False)
        X = X.astype(model.dtype, copy=False)
        samples = Samples.of(X, sample_weight, self.means_)
        check_widths(model, settings)
        check_given(precomputed, self._precomputed_given)
        precomputed = check_matrix(precomputed, settings, X)
        problem = make_problem(
            settings, replace(samples, precomputed=precomputed), self._units
        )
        stream = deepcopy(getattr(self, "_stream", None))
        if stream is None:
            optimiser = Adam(model.arrays, self.learning_rate)
            stream = optimiser, check_random_state(self.random_state)
        best, loop = continue_training(model, problem, settings, *stream)
        self._stream = stream
        model = self._units.model(best)
        vars(self).update(_attributes(model, problem, samples.means))
        logits = model.outputs(centered(X, samples.means))
        self.labels_ = logits.argmax(axis=1)
        self.n_clusters_ = len(np.unique(self.labels_))
        n_present = np.count_nonzero(samples.row_weights)
        if self.n_clusters_ > 1 and n_present >= _LEAST_ROWS * settings.n_clusters:
            rows = problem.some_rows
            self.temperature_ = temperature_of(logits[rows], samples.row_weights[rows])
        self.probabilities_ = self._assignments(logits).max(axis=1)
        self.n_iter_ += loop.n_iter
        self.history_ = {
            name: self.history_[name] + curve
            for name, curve in self._units.history(loop.history).items()
        }
        return self

    @outside_torch_modes
    def _fit_module(self, samples, y, problem, settings, rng):
        """Train a copy of the module on Samples and their Problem."""
        require_torch("GEMINI with a module as model")
        from skdiffclust._torch import isolated_streams, module_on_cpu, own_module
        from skdiffclust.gemini._torch import ModuleModel, module_logits

        X = samples.X
        n_clusters = settings.n_clusters
        device = resolve_device(self.device, "GEMINI")
        module = own_module(
            self.model, "'model' parameter of GEMINI", "'linear', 'mlp', 'free'"
        )
        shared = {"means_": samples.means, "device_": device}
        shared |= settings.gamma_attribute(problem.units, X.shape[1])

        def attributes(state, columns):
            encoder = module_on_cpu(module, state)
            return shared | {"encoder_": encoder, "_columns": columns}

        training = Training(self, X, y, **settings.training, n_init=1)
        unordered = np.arange(n_clusters)
        with isolated_streams(rng, device):
            model = ModuleModel(module, n_clusters, X, problem, device)
            for loop in training:
                model.train(
                    loop,
                    self.learning_rate,
                    settings.batch(len(X)),
                    rng,
                    lambda: attributes(model.state(), unordered),
                )
        best = training.best
        encoder = module_on_cpu(module, best.best_state)
        logits = module_logits(encoder, X, n_clusters)
        order = order_by_size(logits.argmax(axis=1), n_clusters, problem.row_weights)
        fitted = attributes(best.best_state, order)
        self._publish(logits[:, order], fitted, problem, settings, best)
        training.finish()

    def _kind(self):
        """Return the name of the model in the registry, or "module"."""
        return "module" if callable(self.model) else self.model

    def _publish(self, logits, attributes, problem, settings, loop):
        """Assign the fitted attributes: those given, and those of logits (n, k)."""
        self.labels_ = logits.argmax(axis=1)
        self.n_clusters_ = report_clusters(settings, self.labels_, problem.constraints)
        drop_stale(self, _BY_MODEL)
        vars(self).update(attributes)
        if self.model != "free":
            rows = problem.some_rows
            self.temperature_ = temperature_of(logits[rows], problem.row_weights[rows])
            self.probabilities_ = self._assignments(logits).max(axis=1)
        self.n_iter_ = loop.n_iter
        self.history_ = problem.units.history(loop.history)


def _attributes(model, problem, means):
    """Return the fitted attributes of a model of the samples of a problem."""
    if hasattr(model, "table"):
        return {"assignments_": softmax(model.outputs(problem.X))}
    return {
        "means_": means,
        "coefs_": list(model.weights),
        "intercepts_": list(model.biases),
    }
