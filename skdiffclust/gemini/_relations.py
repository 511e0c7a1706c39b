"""The relation between samples that an objective uses: features, or a matrix.

Both kinds have the same methods, so the objectives need not know which they have:
`take`, for the samples of a batch, and `products` of the kernel with (n, k) columns.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.metrics.pairwise import KERNEL_PARAMS, PAIRWISE_KERNEL_FUNCTIONS

from skdiffclust._compat import PAIRWISE_METRICS, HasMethods, StrOptions
from skdiffclust._pairwise import (
    center,
    check_precomputed,
    distance_matrix,
    kernel_matrix,
)
from skdiffclust.gemini._sparse_rows import SparseRows, squared_norms

# Principal components of a kernel that clusters are counted along.
_MOST_COMPONENTS = 32
# Kernels and metrics for samples with features.
KERNELS = [
    StrOptions(set(PAIRWISE_KERNEL_FUNCTIONS)),
    callable,
    HasMethods("fit_transform"),
]
METRICS = [StrOptions(PAIRWISE_METRICS), callable]
# The same for relations that are given themselves.
PRECOMPUTED = StrOptions({"precomputed"})
# Degrees of the objective with the linear kernel, and of distances proportional to the
# features.
_DEGREES = {
    "kernel": {"linear": 1, "cosine": 0},
    "distance": {
        "chebyshev": 1,
        "cityblock": 1,
        "cosine": 0,
        "euclidean": 1,
        "l1": 1,
        "l2": 1,
        "manhattan": 1,
        "minkowski": 1,
        "sqeuclidean": 2,
    },
}


@dataclass(frozen=True)
class Features:
    """Kernel K = F F' that is never formed: a product costs O(n r k)."""

    features: np.ndarray  # (n, r), or SparseRows
    rounding = float(np.finfo(np.float64).eps)  # of the second array of `products`

    def take(self, rows):
        """Return the relation between `rows` only."""
        return Features(self.features[rows])

    def products(self, columns, row_weights):
        """Return centred K @ columns (n, k), and columns' K columns, in float64.

        The second array is computed from the means of features after rounding, so that
        the distance of two close means keeps its digits in float32.
        """
        features = self.wide
        sums = features.T @ columns.astype(np.float64, copy=False)
        product = features @ sums
        product -= row_weights @ product
        return product, sums.T @ sums

    def coordinates(self, weights):
        """Return samples (n, r) whose products are those of the kernel."""
        return self.features

    @cached_property
    def wide(self):
        """The features in float64, if they are dense."""
        if isinstance(self.features, SparseRows):
            return self.features
        return np.ascontiguousarray(self.features, dtype=np.float64)

    @cached_property
    def noise(self):
        """Accumulated rounding error of the squared length of a mean of features."""
        norms = squared_norms(self.features)
        epsilon = float(np.finfo(self.features.dtype).eps)
        return float(norms.max(initial=0.0)) * epsilon**2


@dataclass(frozen=True)
class Matrix:
    """Kernel or distances (n, n), and the transport potentials found last on them."""

    matrix: np.ndarray
    potentials: dict = field(default_factory=dict, repr=False)

    def take(self, rows):
        """Return the relation between `rows` only."""
        return Matrix(self.matrix[np.ix_(rows, rows)])

    def products(self, columns, row_weights):
        """Return centred K @ columns (n, k), and columns' K columns in float64."""
        product = self.matrix @ columns
        product -= row_weights @ product
        gram = (columns.T @ product).astype(np.float64)
        return product, (gram + gram.T) / 2

    def coordinates(self, weights):
        """Return samples (n, r) whose products are about those of the centred kernel.

        They are coordinates along its leading principal components, for samples with
        weights (n,), or a column of zeros if nothing varies.
        """
        shares = weights / weights.sum()
        matrix = self.matrix - shares @ self.matrix
        matrix -= (matrix @ shares)[:, None]
        roots = np.sqrt(shares)[:, None]
        # Solvers of a part of the components fail where many are of one size.
        values, vectors = np.linalg.eigh(roots * matrix * roots.T)
        varies = values > values[-1] * len(matrix) * self.rounding
        varies[:-_MOST_COMPONENTS] = False
        if not varies.any():
            return np.zeros((len(matrix), 1))
        return matrix @ (roots * vectors[:, varies] / np.sqrt(values[varies]))

    @property
    def rounding(self):
        """Relative rounding error of the second array of `products`."""
        return float(np.finfo(self.matrix.dtype).eps)

    @cached_property
    def noise(self):
        """Rounding error of a mean of entries, which cancel."""
        largest = max(self.matrix.max(), -self.matrix.min())
        return float(largest) * float(np.finfo(self.matrix.dtype).eps)


def make_relation(kind, X, kernel, metric, gamma=None, kernel_params=None):
    """Return the relation between samples X (n, d) that objectives of `kind` need.

    `kind` is "kernel", "distance" or None (then None). For a linear kernel it is the
    samples themselves or, with more features than samples, an (n, r) factor of their
    Gram matrix; for a transformer its features. Nothing n x n is formed for either. X
    may be sparse; for the linear kernel it is centred, and may be `SparseRows`. `gamma`
    is for the kernels of scikit-learn that have it.
    """
    if kind is None:
        return None
    given = kernel if kind == "kernel" else metric
    if isinstance(given, str) and given == "precomputed":
        return given_relation(X, kind, X.dtype, name="X")
    if kind == "distance":
        return Matrix(_checked_distances(distance_matrix(X, metric=metric), metric))
    if hasattr(kernel, "fit_transform"):
        features = _checked_features(clone(kernel).fit_transform(X), kernel)
        return Features(center(features, dtype=X.dtype))
    if isinstance(kernel, str) and kernel == "linear":
        return Features(X if isinstance(X, SparseRows) else gram_factor(X))
    params = dict(kernel_params or {})
    if isinstance(kernel, str):
        unknown = sorted(params.keys() - {"degree", "coef0"})
        if unknown:
            raise ValueError(
                "The 'kernel_params' parameter must have the keys 'degree' and 'coef0' "
                f"at most with a kernel of scikit-learn. Got {unknown} instead. Set "
                "gamma, or pass a function as kernel."
            )
        # chi2_kernel has a default of gamma, but does not take None for it.
        if gamma is not None:
            params["gamma"] = gamma
        known = KERNEL_PARAMS.get(kernel, ())
        params = {name: value for name, value in params.items() if name in known}
    values = kernel_matrix(X, kernel=kernel, kernel_params=params)
    largest = np.abs(values).max()
    if largest > np.finfo(X.dtype).max:
        raise ValueError(
            f"The 'kernel' parameter must give values that {X.dtype} holds. Got values "
            f"up to {largest:.3g} from {kernel!r} instead. Rescale X, or pass float64."
        )
    return Matrix(values.astype(X.dtype, copy=False))


def given_relation(precomputed, kind, dtype, *, name="precomputed"):
    """Return the Matrix of a precomputed array (n, n), checked and in a dtype."""
    values = check_precomputed(precomputed, name=name, kind=kind)
    if kind == "distance":
        _checked_distances(values, "precomputed")
    return Matrix(values.astype(dtype, copy=False))


def _checked_distances(distances, metric):
    """Return distances (n, n); ValueError if one is negative."""
    if distances.min() < 0:
        raise ValueError(
            "The 'metric' parameter must give distances of at least 0. Got "
            f"{distances.min():.3g} from {metric!r} instead. Turn affinities into "
            "distances, or use objective='mmd' with them as a kernel."
        )
    return distances


def _checked_features(features, kernel):
    """Return features (n, r) of a transformer as a dense, finite array.

    Others raise a ValueError.
    """
    name = type(kernel).__name__
    if issparse(features):
        raise ValueError(
            "The 'kernel' parameter must be a transformer to a dense array. Got a "
            f"sparse one from {name} instead. Set its sparse_output=False, where it "
            "has that."
        )
    features = np.asarray(features)
    if not np.isfinite(features).all():
        raise ValueError(
            "The 'kernel' parameter must be a transformer to finite features. Got NaN "
            f"or infinity from {name} instead. Rescale X, or fix the transformer."
        )
    return features


def degree_of(kind, kernel, metric, gamma):
    """Return the degree q of an objective of a relation, None if it has none.

    `kind` is "kernel", "distance" or None, for objectives without a relation.
    """
    if kind is None:
        return 0
    name = {"kernel": kernel, "distance": metric}[kind]
    if kind == "kernel" and isinstance(gamma, str) and takes_gamma(kernel):
        return 0
    return _DEGREES[kind].get(name) if isinstance(name, str) else None


def takes_gamma(kernel):
    """Return whether a kernel has the parameter gamma."""
    return isinstance(kernel, str) and "gamma" in KERNEL_PARAMS.get(kernel, ())


def scale_gamma(kernel, n_features, scale):
    """Return the gamma that makes a kernel independent of the scale of the features.

    For kernels of squares and products it is one over the sum of the variances, which
    is n_features times scale squared; for those of absolute differences, scale is not
    squared.
    """
    power = 1 if kernel in ("laplacian", "chi2") else 2
    return 1 / (n_features * scale**power)


def gram_factor(X):
    """Return F (n, r), r <= min(n, d), with F F' = X X'; X itself unless d > n.

    O(n² d) once, for products that cost O(n r k) instead of O(n d k). Exact except for
    directions below the rounding error of the Gram matrix.
    """
    n_samples, n_features = X.shape
    if n_features <= n_samples:
        return X
    wide = np.asarray(X, dtype=np.float64)
    values, vectors = np.linalg.eigh(wide @ wide.T)
    kept = values > values[-1] * n_samples * np.finfo(np.float64).eps
    return (vectors[:, kept] * np.sqrt(values[kept])).astype(X.dtype, copy=False)
