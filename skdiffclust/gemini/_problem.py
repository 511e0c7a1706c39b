"""The problem of a fit: its settings, its samples in a unit of their own, its relation.

Training works on centred features divided by one number s, the root of the mean of
their variances. With weights W' = s W on X / s the assignments are the same. An
objective that is homogeneous of degree q is v = s^q times that of X / s, and so

    -I(X) + l2 |W|² + alpha |W| = v (-I(X / s) + l2 / (v s²) |W'|² + alpha / (v s) |W'|)

is v times the problem in which steps are taken and convergence is judged. All that a
user sees is in the unit of X.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import issparse

from skdiffclust._constraints import (
    Constraints,
    as_constraints,
    bounds_of_clusters,
    check_feasible,
    restrict,
)
from skdiffclust._devices import resolve_device
from skdiffclust._n_clusters import count_clusters, rows_to_count
from skdiffclust._pairwise import refuse_overflow, refuse_underflow
from skdiffclust._validation import (
    canonical_rows,
    hidden_widths,
    refuse_many_clusters,
    sample_weights,
    validate_rows,
)
from skdiffclust.gemini._calibration import some_rows
from skdiffclust.gemini._models import MODELS
from skdiffclust.gemini._objectives import OBJECTIVES, mode_for
from skdiffclust.gemini._relations import (
    Matrix,
    degree_of,
    given_relation,
    make_relation,
    scale_gamma,
    takes_gamma,
)
from skdiffclust.gemini._sparse_rows import (
    SparseRows,
    centered,
    column_squares,
    near_one,
    weighted_means,
)
from skdiffclust.gemini._supervision import Supervision

# Epochs that together have to lower the loss.
PATIENCE = 10
# The parameter that a given matrix replaces, and its default, by kind of relation.
_REPLACED = {"kernel": ("kernel", "linear"), "distance": ("metric", "euclidean")}


@dataclass(frozen=True)
class Settings:
    """The parameters that a fit reads, by the names that users know.

    `name` is that of the estimator, for messages; `kind` that of the model, see
    `MODELS`, or "module"; `n_clusters` is "auto" until the clusters are counted.
    """

    name: str
    kind: str
    n_clusters: int | str
    objective: str
    mode: str
    kernel: object
    metric: object
    gamma: float | str | None
    hidden_layer_sizes: object
    l2: float
    max_iter: int
    batch_size: int | None
    learning_rate: float
    tol: float
    n_init: int
    kernel_params: dict | None = None
    device: object = "cpu"
    groups: object = None
    penalty_factor: object = None
    hierarchy: float = 10.0
    dynamic: bool = False

    @property
    def relation_kind(self):
        """The kind of relation that the objective needs, or None."""
        return OBJECTIVES[self.objective].relation

    @property
    def compares(self):
        """What clusters are compared with: "ova" or "ovo"."""
        return mode_for(self.relation_kind, self.mode)

    @property
    def is_precomputed(self):
        """Whether X is the relation itself."""
        used = {"kernel": self.kernel, "distance": self.metric}.get(self.relation_kind)
        return isinstance(used, str) and used == "precomputed"

    @property
    def has_linear_kernel(self):
        """Whether the parameter names the linear kernel."""
        return isinstance(self.kernel, str) and self.kernel == "linear"

    @property
    def is_of_features(self):
        """Whether clusters are those of the features, not of another kernel."""
        return self.has_linear_kernel or self.relation_kind != "kernel"

    @property
    def degree(self):
        """The degree of the objective in X, None if it has none."""
        return degree_of(self.relation_kind, self.kernel, self.metric, self.gamma)

    @property
    def training(self):
        """The parameters of the epochs of a restart or step."""
        return {
            "max_iter": self.max_iter,
            "learning_rate": self.learning_rate,
            "tol": self.tol,
            "n_iter_no_change": PATIENCE,
        }

    def batch(self, n_samples):
        """Return the size of a batch."""
        return n_samples if self.batch_size is None else self.batch_size

    def layer_sizes(self, n_features):
        """Return [d, *hidden, k]."""
        hidden = hidden_widths(self.hidden_layer_sizes, self.name)
        inner = [] if self.kind == "linear" else hidden
        return [n_features, *inner, self.n_clusters]

    def gamma_attribute(self, units, n_features):
        """Return the attribute gamma_ for features in Units; none without "scale"."""
        is_kernel = self.relation_kind == "kernel"
        if is_kernel and self.gamma == "scale" and takes_gamma(self.kernel):
            return {"gamma_": scale_gamma(self.kernel, n_features, units.features)}
        return {}

    def relation(self, rows, X, units, gamma=None):
        """Return the relation between samples X (n, d).

        `rows` are X centred and divided by `units`, which the linear kernel uses; other
        kernels use X itself. A scaled gamma is that of `units` unless it is given.
        """
        kind = self.relation_kind
        if gamma is None:
            gamma = self.gamma_attribute(units, X.shape[1]).get("gamma_", self.gamma)
        if kind == "kernel":
            X = rows if self.has_linear_kernel else X
        elif kind == "distance" and self.degree:
            X = X / X.dtype.type(units.features)
        return make_relation(
            kind, X, self.kernel, self.metric, gamma, self.kernel_params
        )


@dataclass(frozen=True)
class Samples:
    """What a fit is given: samples, their weights and means, a matrix, links."""

    X: np.ndarray  # (n, d), or a csr_array
    row_weights: np.ndarray  # (n,), sum to one
    means: np.ndarray  # (d,)
    precomputed: Matrix | None = None
    constraints: Constraints | None = None

    @classmethod
    def of(cls, X, sample_weight, means=None, **known):
        """Return the Samples of validated X, by its own means unless they are given."""
        weights = sample_weights(sample_weight, X)
        weights = (weights / weights.sum()).astype(X.dtype, copy=False)
        refuse_overflow([X], X.dtype)
        refuse_underflow(X, X.dtype)
        if means is None:
            means = weighted_means(X, weights)
        return cls(X, weights, means, **known)

    def take(self, rows):
        """Return the samples `rows`, a slice or their numbers (m,)."""
        return Samples.of(
            self.X[rows],
            self.row_weights[rows],
            precomputed=self.precomputed
            and Matrix(self.precomputed.matrix[rows][:, rows]),
            constraints=self.constraints and restrict(self.constraints, rows),
        )


@dataclass(frozen=True)
class Units:
    """The numbers s and v, by which features and the objective were divided."""

    features: float = 1.0
    objective: float = 1.0

    @classmethod
    def of_rows(cls, X, row_weights, degree):
        """Return the units of centred samples X (n, d); without a degree v is one."""
        mean = float(column_squares(X, row_weights).sum()) / X.shape[1]
        # Below this, weights in the unit of X could not be represented.
        floor = float(np.finfo(X.dtype).tiny) ** 0.5
        scale = max(mean**0.5, floor) if mean > 0 else 1.0
        return cls(scale, scale ** (degree or 0))

    @property
    def alpha(self):
        """Divisor of a penalty on the norms of weights."""
        return self.objective * self.features

    def l2_of(self, l2, dtype):
        """Return the factors of the squares of input weights, and of other weights.

        They multiply arrays of a dtype, whose gradients are squared. () without `l2`.
        """
        divisor = self.alpha * self.features
        largest = float(np.finfo(dtype).max) ** 0.5 / 100
        if l2 > largest * divisor:
            raise ValueError(
                "The 'l2' parameter must be 0 for samples whose standard deviation is "
                f"{self.features:.3g}, where the penalty would exceed the objective by "
                f"more than {largest:.1g}. Got {l2} instead. Rescale X."
            )
        return (l2 / divisor, l2 / self.objective) if l2 else ()

    def model(self, model):
        """Return the model of features in the unit of the user."""
        arrays = [
            array / array.dtype.type(self.features)
            if name in model.input_names
            else array
            for name, array in zip(model.names, model.arrays, strict=True)
        ]
        return type(model).from_arrays(arrays)

    def step(self, step, kind):
        """Return a step of a path in the unit of the user."""
        arrays = self.model(MODELS[kind].from_arrays(step.weights)).arrays
        return replace(
            step,
            alpha=step.alpha * self.alpha,
            objective=step.objective * self.objective,
            penalty=step.penalty / self.features,
            weights=arrays,
        )

    def history(self, history):
        """Return the curves "loss" and "objective" in the unit of the user."""
        return {
            name: [value * self.objective for value in curve]
            for name, curve in history.items()
        }


@dataclass(frozen=True)
class Problem:
    """Training problem: samples, their weights and relation, the objective."""

    X: np.ndarray  # (n, d), or the numbers (n,) of rows for free assignments
    row_weights: np.ndarray  # (n,), sum to one
    relation: object
    objective: Callable
    # For the weights that are multiplied with features and for others; () without.
    l2: tuple = ()
    constraints: Constraints | None = None
    # "ova" or "ovo" for the MMD of features, which is compiled; None for all else.
    compiled_mode: str | None = None
    # Factors by which features and the objective were divided.
    units: Units = Units()
    # Device on which a perceptron is propagated by torch; None is NumPy.
    device: str | None = None

    @cached_property
    def supervision(self):
        """The penalty for links and labels of all samples."""
        return Supervision.of(self.constraints)

    @cached_property
    def on_device(self):
        """The propagation of perceptrons on the device, where the samples stay."""
        from skdiffclust.gemini._torch_perceptron import PerceptronOnDevice

        return PerceptronOnDevice(self.X, self.device)

    @cached_property
    def some_rows(self):
        """Rows (m,) that temperatures are found on."""
        return some_rows(self.row_weights)

    def take(self, rows):
        """Return the problem of samples `rows` (m,) only, without links."""
        weights, relation = self.of_batch(rows)
        return replace(
            self,
            X=self.X[rows],
            row_weights=weights,
            relation=relation,
            constraints=None,
        )

    def of_batch(self, rows):
        """Return the weights and the relation of a batch (b,); None is all samples."""
        if rows is None:
            return self.row_weights, self.relation
        weights = self.row_weights[rows] / self.row_weights[rows].sum()
        relation = None if self.relation is None else self.relation.take(rows)
        return weights, relation


def make_problem(settings, samples, units=None):
    """Return the Problem of Samples; `units` are those of an earlier one, if given."""
    X = rows = samples.X
    weights = samples.row_weights
    if samples.constraints is not None:
        check_feasible(samples.constraints, settings.n_clusters)
    if settings.is_precomputed:
        units = Units()
    else:
        rows = centered(X, samples.means)
        # A matrix that is given does not depend on the unit of X.
        degree = settings.degree if samples.precomputed is None else 0
        units = units or Units.of_rows(rows, weights, degree)
        rows /= X.dtype.type(units.features)
    relation = samples.precomputed
    if relation is None:
        relation = settings.relation(rows, X, units)
    is_dense = isinstance(getattr(relation, "features", None), np.ndarray)
    device = "cpu"
    if settings.kind == "mlp" and not isinstance(rows, SparseRows):
        device = resolve_device(settings.device, settings.name)
    return Problem(
        rows,
        weights,
        relation,
        OBJECTIVES[settings.objective].with_gradient(settings.mode),
        constraints=samples.constraints,
        compiled_mode=settings.compares if is_dense else None,
        units=units,
        l2=units.l2_of(settings.l2, X.dtype),
        device=None if device == "cpu" else device,
    )


def read_samples(estimator, settings, X, sample_weight, precomputed, links):
    """Return the validated Samples of an estimator, which is told their features.

    `links` are the partial labels, must-links and cannot-links.
    """
    refuse_unused_precomputed(settings)
    X = validated(estimator, X, reset=True)
    n_samples = X.shape[0]
    refuse_many_clusters(settings.name, settings.n_clusters, n_samples)
    samples = Samples.of(X, sample_weight)
    constraints = as_constraints(n_samples, *links)
    precomputed = check_matrix(precomputed, settings, X)
    return replace(samples, precomputed=precomputed, constraints=constraints)


def validated(estimator, X, *, reset):
    """Return X as a finite array (n, d), or as a csr_array in canonical format.

    With `reset`, the estimator is given the number and the names of the features.
    """
    accepted = "csr" if estimator.__sklearn_tags__().input_tags.sparse else False
    X = validate_rows(estimator, X, reset=reset, accept_sparse=accepted)
    # One memory layout gives the same bits for a list, an array, and a frame.
    return canonical_rows(X) if issparse(X) else np.ascontiguousarray(X)


def refuse_unused_precomputed(settings):
    """Refuse a precomputed matrix that the objective would take for features."""
    used = settings.relation_kind
    for name, relation in ("kernel", "kernel"), ("metric", "distance"):
        value = getattr(settings, name)
        if relation != used and isinstance(value, str) and value == "precomputed":
            remedy = {
                "kernel": "Set kernel='precomputed' if X is a kernel",
                "distance": "Set metric='precomputed' if X holds distances",
            }.get(used, "Pass features")
            raise ValueError(
                f"The {name!r} parameter of {settings.name} must not be "
                f"'precomputed' with objective={settings.objective!r}, which does not "
                f"use it and would take X as features. {remedy}, or change the "
                "objective."
            )


def check_matrix(precomputed, settings, X):
    """Return a matrix (n, n) that was given beside X as a Matrix, or None."""
    if precomputed is None:
        return None
    name = settings.name
    kind = settings.relation_kind
    if kind is None:
        raise ValueError(
            f"The 'precomputed' parameter must be None for {name} with objective="
            f"{settings.objective!r}, which compares assignments only. Got a matrix "
            "instead. Leave it out, or use objective 'mmd' or 'wasserstein'."
        )
    parameter, default = _REPLACED[kind]
    value = getattr(settings, parameter)
    if not isinstance(value, str) or value != default:
        raise ValueError(
            f"The {parameter!r} parameter of {name} must be {default!r}, its "
            f"default, if a precomputed matrix is passed. Got {value!r} instead. "
            "Pass one of the two."
        )
    n_samples = X.shape[0]
    if issparse(precomputed) or np.shape(precomputed) != (n_samples, n_samples):
        what = "a sparse matrix" if issparse(precomputed) else np.shape(precomputed)
        raise ValueError(
            "The 'precomputed' parameter must be a dense array of shape "
            f"({n_samples}, {n_samples}), between the samples of X. Got {what} "
            "instead. In cross-validation, only a part of the samples is passed: "
            f"set {parameter} to a function or name there."
        )
    return given_relation(precomputed, kind, X.dtype)


def clusters_in(samples, settings, rng):
    """Return the ClusterCount of Samples, in the space of the kernel."""
    X = samples.X
    row_weights = samples.row_weights
    relation = samples.precomputed
    kind = settings.relation_kind
    is_given = relation is not None or settings.is_precomputed
    if is_given and kind == "distance":
        raise ValueError(
            f"The 'n_clusters' parameter of {settings.name} must be an "
            "integer with distances in place of features, as no clusters are "
            "counted by them. Got 'auto' or several numbers instead. Set it, or "
            "use a kernel."
        )
    if is_given or not settings.is_of_features:
        rows = rows_to_count(row_weights, rng)
        if relation is None:
            units = Units.of_rows(centered(X, samples.means), row_weights, 0)
            relation = settings.relation(X, X, units)
        row_weights = row_weights[rows]
        X = relation.take(rows).coordinates(row_weights)
    least, most = bounds_of_clusters(samples.constraints)
    return count_clusters(
        near_one(X),
        row_weights,
        rng,
        least=max(2, least),
        most=None if most == np.inf else most,
    )
