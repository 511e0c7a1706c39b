"""What GEMINI and SparseGEMINI share: checks, the problem, labels, and prediction."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdiffclust._affinity import refuse_overflow, refuse_underflow
from skdiffclust._assignments import order_by_size, softmax
from skdiffclust._checkpoint import identify, probe_rows
from skdiffclust._compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    available_if,
)
from skdiffclust._constraints import bounds_of_clusters, check_feasible
from skdiffclust._devices import resolve_device
from skdiffclust._encoder import Encoder
from skdiffclust._history import warn_of_convergence, warn_of_small_clusters
from skdiffclust._n_clusters import are_separated, count_clusters, rows_to_count
from skdiffclust._validation import (
    canonical_rows,
    hidden_widths,
    sample_weights,
    validate_rows,
)
from skdiffclust.gemini._models import SkipPerceptron, new_model
from skdiffclust.gemini._objectives import OBJECTIVES, mode_for
from skdiffclust.gemini._relations import (
    KERNELS,
    METRICS,
    PRECOMPUTED,
    Matrix,
    given_relation,
    make_relation,
)
from skdiffclust.gemini._sparse_rows import (
    SparseRows,
    arrays_of_rows,
    centered,
    weighted_means,
)
from skdiffclust.gemini._stability import adjusted_rand, warn_of_other_clusters
from skdiffclust.gemini._starts import (
    family_of_cells,
    family_of_labels,
    initial_cells,
    labels_in,
    rows_to_start,
    sharp_factor,
    silhouette_of_means,
    soft_factor,
)
from skdiffclust.gemini._supervision import broken_links
from skdiffclust.gemini._training import (
    PATIENCE,
    Problem,
)
from skdiffclust.gemini._units import (
    Units,
    degree_of,
    near_one,
    scale_gamma,
    takes_gamma,
)

positive = Interval(Integral, 1, None, closed="left")
not_negative = Interval(Real, 0, None, closed="left")


def has_features(estimator):
    """Whether the model is a function of features; raise an error if not."""
    if estimator.model == "free":
        raise AttributeError(
            f"{type(estimator).__name__} with model='free' has assignments of the "
            "training samples only, in labels_ and assignments_: use model='mlp' to "
            "predict or score other samples."
        )
    return True


# Of more samples, only the restart from k-means is trained.
_MANY_SAMPLES = 20_000
# Agreement with the clear clusters of k-means below which a fit warns.
_LEAST_AGREEMENT = 0.8
# The parameter that an affinity replaces, and its default, by kind of relation.
_AFFINITIES = {"kernel": ("kernel", "linear"), "distance": ("metric", "euclidean")}


class Starts(NamedTuple):
    """Initial models: `n_trained` and, if `has_sharp`, a last one that is sharp.

    They are of the samples of `problem`, which are numbers for free assignments. The
    one with the number `final` is not trained, as it has no gradient but rounding.
    `rows` (m,), None for all, have the labels `k_means` (m,) by k-means, which are None
    with links or if the objective is not the MMD with a linear kernel.
    """

    problem: Problem
    n_trained: int
    has_sharp: bool
    models: Iterator
    final: int | None = None
    rows: np.ndarray | None = None
    k_means: np.ndarray | None = None


class BaseGEMINI(CallbackSupportMixin, ClusterMixin, BaseEstimator):
    """Parameters, checks and prediction of the GEMINI estimators."""

    # Whether the relation of the last fit was given as a matrix beside X.
    _affinity_given = False

    _parameter_constraints = {
        "n_clusters": [positive],
        "objective": [StrOptions(set(OBJECTIVES))],
        "mode": [StrOptions({"auto", "ova", "ovo"})],
        "kernel": [*KERNELS, PRECOMPUTED],
        "metric": [*METRICS, PRECOMPUTED],
        "gamma": [StrOptions({"scale"}), not_negative, None],
        "kernel_params": [dict, None],
        "hidden_layer_sizes": ["array-like", positive],
        "l2": [not_negative],
        "batch_size": [positive, None],
        "max_iter": [positive],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "tol": [not_negative],
        "n_init": [positive],
        "device": "no_validation",  # `resolve_device` names those that are present
        "random_state": ["random_state"],
    }

    @available_if(has_features)
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
        return self._logits(X).argmax(axis=1)

    @available_if(has_features)
    def predict_proba(self, X) -> np.ndarray:
        """Predict the probability of each cluster for each sample.

        Softmax of the logits divided by `temperature_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        assignments : ndarray of shape (n_samples, `n_clusters`)
            Rows sum to one.
        """
        logits = self._logits(X)
        # While a model is trained, for callbacks, there is no temperature.
        return softmax(logits / logits.dtype.type(getattr(self, "temperature_", 1.0)))

    @available_if(has_features)
    def score(self, X, y=None, sample_weight=None, *, affinity=None) -> float:
        """Compute the simplified silhouette of the predicted clusters of X.

        The mean of (b - a) / max(a, b), where a is the distance of a sample to the mean
        of the other samples of its cluster, and b the smallest one to the mean of
        another cluster. Distances are those in the space of the kernel, along its 32
        leading principal components, and those of the features for objectives without
        a kernel. It ranks candidates on the same features with the same kernel or
        metric. Unlike the objective, which :func:`~skdiffclust.gemini.gemini_score`
        computes, it does not grow with the number of clusters, so that a parameter
        search can choose it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the means of clusters, the principal components
            of the kernel, and the score. A sample of weight 2 counts as two.
        affinity : array-like of shape (n_samples, n_samples), default=None
            Kernel or distances between these samples. Required if `fit` was called
            with an affinity.

        Returns
        -------
        score : float
            Between -1 and 1, larger is better; 0 for a single cluster.

        References
        ----------
        Hruschka, Campello, de Castro. Evolving clusters in gene-expression data.
        Information Sciences 176, 2006.
        """
        if affinity is None and self._affinity_given:
            raise ValueError(
                f"The 'affinity' parameter of {type(self).__name__}.score must be a "
                "matrix between the samples of X, as fit was given one. Got None "
                "instead. Pass the kernel or the distances between these samples."
            )
        labels = self._logits(X).argmax(axis=1)
        X = self._validate(X, reset=False)
        weights = sample_weights(sample_weight, X)
        relation = self._check_affinity(affinity, X)
        points = centered(X, self.means_)
        is_kernel = OBJECTIVES[self.objective].relation == "kernel"
        if relation is None and is_kernel:
            gamma = getattr(self, "gamma_", None)
            relation = self._relation(points, X, Units(), gamma)
        elif relation is not None and not is_kernel:
            relation = Matrix(-np.square(relation.matrix) / 2)
        if relation is not None:
            points = relation.coordinates(weights)
        return silhouette_of_means(points, labels, weights)

    def _logits(self, X):
        """Return the logits (n, k) of samples X."""
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        if hasattr(self, "encoder_"):
            from skdiffclust.gemini._torch import module_logits

            n_clusters = len(self._columns)
            return module_logits(self.encoder_, X, n_clusters)[:, self._columns]
        return self._fitted_model().outputs(centered(X, self.means_))

    def _fitted_model(self):
        """Return the model of the fitted arrays."""
        perceptron = Encoder(self.coefs_, self.intercepts_)
        skip = getattr(self, "skip_weights_", None)
        return perceptron if skip is None else SkipPerceptron(skip, perceptron)

    def _validate(self, X, *, reset):
        """Return X as a finite array (n, d), or as a csr_array in canonical format."""
        accepted = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        X = validate_rows(self, X, reset=reset, accept_sparse=accepted)
        # One memory layout gives the same bits for a list, an array, and a frame.
        return canonical_rows(X) if issparse(X) else np.ascontiguousarray(X)

    def _mode(self):
        """Return "ova" or "ovo"."""
        return mode_for(OBJECTIVES[self.objective].relation, self.mode)

    def _relation(self, rows, X, units, gamma=None):
        """Return the relation between samples X (n, d).

        `rows` are X centred and divided by `units`, which the linear kernel uses; other
        kernels use X itself. `gamma` replaces the parameter if it is given.
        """
        kind = OBJECTIVES[self.objective].relation
        gamma = self.gamma if gamma is None else gamma
        if kind == "kernel":
            X = rows if self._has_linear_kernel else X
        elif kind == "distance" and self._degree():
            X = X / X.dtype.type(units.features)
        return make_relation(
            kind, X, self.kernel, self.metric, gamma, self.kernel_params
        )

    @property
    def _has_linear_kernel(self):
        """Whether the parameter names the linear kernel."""
        return isinstance(self.kernel, str) and self.kernel == "linear"

    def _scaled_gamma(self, units, n_features):
        """Return gamma for features in these units, None where it is not "scale"."""
        with_kernel = OBJECTIVES[self.objective].relation == "kernel"
        if with_kernel and self.gamma == "scale" and takes_gamma(self.kernel):
            return scale_gamma(self.kernel, n_features, units.features)
        return None

    def _degree(self):
        """Return the degree of the objective in X, None if it has none."""
        kind = OBJECTIVES[self.objective].relation
        return degree_of(kind, self.kernel, self.metric, self.gamma)

    def _refuse_unused_precomputed(self):
        """Refuse a precomputed relation that the objective would take as features."""
        used = OBJECTIVES[self.objective].relation
        for name, relation in ("kernel", "kernel"), ("metric", "distance"):
            value = getattr(self, name)
            if relation != used and isinstance(value, str) and value == "precomputed":
                remedy = {
                    "kernel": "Set kernel='precomputed' if X is a kernel",
                    "distance": "Set metric='precomputed' if X holds distances",
                }.get(used, "Pass features")
                raise ValueError(
                    f"The {name!r} parameter of {type(self).__name__} must not be "
                    f"'precomputed' with objective={self.objective!r}, which does not "
                    f"use it and would take X as features. {remedy}, or change the "
                    "objective."
                )

    def _check_rows(self, X, sample_weight, *, first=True):
        """Return samples (n, d), weights (n,) that sum to one, and means (d,).

        The means and the dtype are those of the first samples of a stream. The number
        of clusters of this fit, which may be counted later, is set to the parameter.
        """
        self._refuse_unused_precomputed()
        if first and self.device != "auto":
            resolve_device(self.device, type(self).__name__)
        is_auto = isinstance(self.n_clusters, str)
        self._n_clusters = "auto" if is_auto else int(self.n_clusters)
        X = self._validate(X, reset=first)
        if not first:
            X = X.astype(self.coefs_[0].dtype, copy=False)
        elif not is_auto and self._n_clusters > X.shape[0]:
            raise ValueError(
                f"The 'n_clusters' parameter of {type(self).__name__} must be at most "
                f"the number of samples, n_samples={X.shape[0]}. Got "
                f"{self._n_clusters} instead. Use fewer clusters."
            )
        weights = sample_weights(sample_weight, X)
        weights = (weights / weights.sum()).astype(X.dtype, copy=False)
        refuse_overflow([X], X.dtype)
        refuse_underflow(X, X.dtype)
        return X, weights, weighted_means(X, weights) if first else self.means_

    def _check_affinity(self, affinity, X):
        """Return an affinity (n, n) that was given as a Matrix, None of None."""
        if affinity is None:
            return None
        name = type(self).__name__
        kind = OBJECTIVES[self.objective].relation
        if kind is None:
            raise ValueError(
                f"The 'affinity' parameter must be None for {name} with objective="
                f"{self.objective!r}, which compares assignments only. Got a matrix "
                "instead. Leave it out, or use objective 'mmd' or 'wasserstein'."
            )
        parameter, default = _AFFINITIES[kind]
        value = getattr(self, parameter)
        if not isinstance(value, str) or value != default:
            raise ValueError(
                f"The {parameter!r} parameter of {name} must be {default!r}, its "
                f"default, if an affinity is passed. Got {value!r} instead. Pass one "
                "of the two."
            )
        n_samples = X.shape[0]
        if issparse(affinity) or np.shape(affinity) != (n_samples, n_samples):
            what = "a sparse matrix" if issparse(affinity) else np.shape(affinity)
            raise ValueError(
                "The 'affinity' parameter must be a dense array of shape "
                f"({n_samples}, {n_samples}), between the samples of X. Got {what} "
                "instead. In cross-validation, only a part of the samples is passed: "
                f"set {parameter} to a function or name there."
            )
        return given_relation(affinity, kind, X.dtype)

    def _count_clusters(self, X, row_weights, means, affinity, constraints, rng):
        """Return the ClusterCount of samples X (n, d), in the space of the kernel.

        X has weights (n,) and means (d,); `affinity` is what `_check_affinity` returns.
        """
        kind = OBJECTIVES[self.objective].relation
        is_given = affinity is not None or self.__sklearn_tags__().input_tags.pairwise
        if is_given and kind == "distance":
            raise ValueError(
                f"The 'n_clusters' parameter of {type(self).__name__} must be an "
                "integer with distances in place of features, as no clusters are "
                "counted by them. Got 'auto' or several numbers instead. Set it, or "
                "use a kernel."
            )
        if is_given or (kind == "kernel" and not self._has_linear_kernel):
            rows = rows_to_count(row_weights, rng)
            if affinity is None:
                units = Units.of_rows(centered(X, means), row_weights, 0)
                gamma = self._scaled_gamma(units, X.shape[1])
                affinity = self._relation(X, X, units, gamma)
            row_weights = row_weights[rows]
            X = affinity.take(rows).coordinates(row_weights)
        least, most = bounds_of_clusters(constraints)
        return count_clusters(
            near_one(X),
            row_weights,
            rng,
            least=max(2, least),
            most=None if most == np.inf else most,
        )

    def _problem(
        self, X, row_weights, means, constraints, affinity=None, *, units=None
    ):
        """Return the Problem for X (n, d), samples with these means or a relation.

        `affinity` is what `_check_affinity` returns; `units` are those of X if None.
        """
        if constraints is not None:
            check_feasible(constraints, self._n_clusters)
        row = OBJECTIVES[self.objective]
        rows = X
        if self.__sklearn_tags__().input_tags.pairwise:
            units = Units()
        else:
            rows = centered(X, means)
            # A matrix that is given does not depend on the unit of X.
            degree = self._degree() if affinity is None else 0
            units = units or Units.of_rows(rows, row_weights, degree)
            rows /= X.dtype.type(units.features)
        relation = affinity
        if affinity is None:
            gamma = self._scaled_gamma(units, X.shape[1])
            relation = self._relation(rows, X, units, gamma)
        is_dense = isinstance(getattr(relation, "features", None), np.ndarray)
        l2, inner_l2 = units.l2_of(self.l2, X.dtype)
        return Problem(
            rows,
            row_weights,
            relation,
            row.with_gradient(self.mode),
            constraints=constraints,
            compiled_mode=self._mode() if is_dense else None,
            units=units,
            l2=l2,
            inner_l2=inner_l2,
            device=self._training_device(rows),
        )

    def _training_device(self, rows):
        """Return the device that a perceptron is trained on, None for NumPy.

        Sparse samples are trained on in NumPy.
        """
        if self.model != "mlp":
            return None
        device = resolve_device(self.device, type(self).__name__)
        return None if device == "cpu" or isinstance(rows, SparseRows) else device

    def _device_attribute(self, problem):
        """Return the fitted attribute device_ of a perceptron."""
        return {"device_": problem.device or "cpu"} if self.model == "mlp" else {}

    def _starts(self, problem, kind, rng):
        """Return the Starts of a problem.

        The first model is soft and made from the cells of k-means, the others are
        random, and a last one is sharp and made from the same cells. Without features,
        or with too few hidden units, all are random.
        """
        n_clusters = self._n_clusters
        sizes = self._layer_sizes(problem.X.shape[1])
        dtype = problem.X.dtype
        numbered = problem.on_numbers() if kind == "free" else problem
        n_distinct = int(numbered.X.max()) + 1 if kind == "free" else None

        def new():
            return new_model(kind, n_distinct, sizes, rng, dtype)

        template = new()
        is_narrow = kind == "mlp" and min(sizes[1:-1]) < 2 * n_clusters
        if is_narrow or self.__sklearn_tags__().input_tags.pairwise:
            n_trained = self._n_trained(problem, kind, None)
            others = (new() for _ in range(n_trained - 1))
            return Starts(numbered, n_trained, False, chain([template], others))
        mode = self._mode() if self._is_linear(problem) else None
        rows = rows_to_start(problem, n_clusters)
        cells, k_means = initial_cells(problem, rows, n_clusters, mode, rng)
        labels = labels_in(problem.X, cells)
        n_trained = self._n_trained(problem, kind, labels)
        if not n_trained:
            # A few evaluations are not worth the compilation of loops.
            numbered = replace(numbered, compiled_mode=None)
        some = numbered if rows is None else numbered.take(rows)
        if kind == "free":
            family = family_of_labels(labels, numbered.X, n_clusters, dtype)
        else:
            family = family_of_cells(kind, *cells, template)

        def models():
            for number in range(n_trained):
                yield new() if number else family(soft_factor(family, some))
            # The more samples, the closer are some to the border of two clusters.
            factor = len(problem.X) / len(some.X)
            yield family(factor * sharp_factor(family, some))

        # Links and l2 have a gradient at a hard partition, the objective has none.
        has_links = problem.constraints is not None
        final = None if n_trained and (has_links or problem.l2) else n_trained
        k_means = None if has_links or mode is None else k_means
        return Starts(numbered, n_trained, True, models(), final, rows, k_means)

    def _warn_if_unequal(self, X, row_weights, labels, starts, name):
        """Warn if the Starts have clear clusters of less even sizes than labels (n,).

        Of samples X (n, d), in the name of an estimator.
        """
        if starts.k_means is None:
            return
        rows, others = starts.rows, starts.k_means
        if rows is None:
            rows = np.flatnonzero(row_weights > 0)
            others = others[rows]
        labels, weights = labels[rows], row_weights[rows]
        own, of_k_means = (np.bincount(each, weights) for each in (labels, others))
        is_less_even = of_k_means @ of_k_means > own @ own
        if (
            is_less_even
            and adjusted_rand(labels, others, weights) < _LEAST_AGREEMENT
            and are_separated(near_one(X[rows]), weights, others)
        ):
            warn_of_other_clusters(name, own, of_k_means)

    def _is_linear(self, problem):
        """Return whether the kernel of a problem is the linear one, of features."""
        return self._has_linear_kernel and hasattr(problem.relation, "features")

    def _n_trained(self, problem, kind, labels):
        """Return how many initial models are trained beside labels (n,) of k-means.

        Of many samples, the first. None if no softer assignments are better: the MMD of
        a linear model and kernel grows with the sharpness of the best partition, and
        nothing else counts if it satisfies all links.
        """
        links = problem.constraints
        is_whole = self._batch(len(problem.X)) >= len(problem.X)
        is_plain = kind == "linear" and self._is_linear(problem) and not problem.l2
        if (
            is_plain
            and is_whole
            and (links is None or not any(broken_links(labels, links)))
        ):
            return 0
        is_large = np.count_nonzero(problem.row_weights) > _MANY_SAMPLES
        return 1 if is_large and is_whole and links is None else self.n_init

    def _identity(self, problem, options):
        """Return what identifies a problem and the parameters, for a checkpoint.

        `options` are further parameters.
        """
        data = {
            **arrays_of_rows(problem.X),
            "unit": np.array(problem.units.features),
            "sample_weight": problem.row_weights,
        }
        if problem.constraints is not None:
            data |= vars(problem.constraints)
        if self._affinity_given:
            data["affinity"] = problem.relation.matrix
        params = {**self.get_params(deep=False), **options}
        used = {"kernel": "kernel", "distance": "metric"}.get(
            OBJECTIVES[self.objective].relation
        )
        for name in {"kernel", "metric"} - {used}:
            del params[name]
        outputs = {}
        if used is not None and not isinstance(params[used], str):
            relation = problem.relation.take(probe_rows(len(problem.X)))
            has_features = hasattr(relation, "features")
            outputs[used] = relation.features if has_features else relation.matrix
        return identify(data, params, outputs)

    def _training_params(self):
        """Return the parameters of the epochs of a restart or step."""
        return {
            "max_iter": self.max_iter,
            "learning_rate": self.learning_rate,
            "tol": self.tol,
            "n_iter_no_change": PATIENCE,
        }

    def _gamma_attribute(self, units, n_features):
        """Return the fitted attribute gamma_, where gamma is "scale"."""
        gamma = self._scaled_gamma(units, n_features)
        return {} if gamma is None else {"gamma_": gamma}

    def _batch(self, n_samples):
        """Return the size of a batch."""
        return n_samples if self.batch_size is None else self.batch_size

    def _layer_sizes(self, n_features):
        """Return [d, *hidden, k]."""
        return [
            n_features,
            *hidden_widths(self.hidden_layer_sizes, type(self).__name__),
            self._n_clusters,
        ]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        relation = OBJECTIVES[self.objective].relation
        value = {"kernel": self.kernel, "distance": self.metric}.get(relation)
        tags.input_tags.pairwise = isinstance(value, str) and value == "precomputed"
        tags.input_tags.sparse = not (tags.input_tags.pairwise or callable(self.model))
        return tags


def report_clusters(name, labels, n_clusters, mode, constraints):
    """Return the number of clusters found; warn of empty ones and broken links."""
    sizes = np.bincount(labels, minlength=n_clusters)
    n_found = int(np.count_nonzero(sizes))
    other_mode = "mode='ovo', " if mode == "ova" else ""
    if n_found < n_clusters:
        warn_of_convergence(
            f"{name} found {n_found} clusters instead of {n_clusters}: the sizes are "
            f"{sizes.tolist()}. Use {other_mode}more restarts (n_init), or fewer "
            "clusters.",
        )
    warn_of_small_clusters(
        name,
        sizes,
        "they add next to nothing to the objective. Use "
        f"{other_mode}more restarts (n_init), or fewer clusters.",
    )
    if constraints is not None:
        separated, joined = broken_links(labels, constraints)
        if separated or joined:
            warn_of_convergence(
                f"{name} separates {separated} groups of samples that links or partial "
                f"labels join, and joins {joined} pairs of groups that must be "
                "separated. Increase max_iter, or use model='mlp'.",
            )
    return n_found


def ordered(model, logits, sample_weight):
    """Return a model with its clusters ordered by size on samples of logits (n, k)."""
    labels = logits.argmax(axis=1)
    order = order_by_size(labels, logits.shape[1], sample_weight)
    return model.permute_outputs(order)
