"""The relation between samples: distances, kernels, graphs."""

from collections.abc import Callable, Sized
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import (
    PAIRWISE_BOOLEAN_FUNCTIONS,
    pairwise_distances,
    pairwise_kernels,
)
from sklearn.utils import check_array

from skdiffclust._compat import PAIRWISE_METRICS
from skdiffclust._validation import check_dense_size, refuse_container
from skdiffclust._warnings import warn

_TRANSLATION_INVARIANT_KERNELS = ("rbf", "laplacian")
# Rows and columns of a tile, which is compared with its mirror image.
_TILE = 512
MATRIX_BLOCK_ENTRIES = 2**22
_BLOCK_ROWS = 2**16
_SYMMETRY_TOLERANCE = 1e-8
# Metrics with parameters that are estimated from X.
_FITTED_METRICS = ("mahalanobis", "seuclidean")
# Kernels of scikit-learn that take no sparse X.
_DENSE_KERNELS = ("additive_chi2", "chi2")
# Up to this many features, least and largest values are found one feature at a time.
_FEW_FEATURES = 10
# Names and remedies of the matrices for `check_dense_size`.
_DISTANCES = {
    "what": "the distance matrix",
    "remedy": "Use fewer samples or a sparse neighbours graph.",
}
_KERNEL = {
    "what": "the kernel matrix",
    "remedy": "Use fewer samples, or the linear kernel, which needs no such matrix.",
}


def refuse_overflow(arrays, dtype=np.float64):
    """Raise if a squared distance between rows of the arrays could overflow dtype."""
    ends = np.concatenate([extremes(array) for array in arrays]).astype(np.float64)
    with np.errstate(over="ignore"):
        diagonal = np.sum(np.square(ends.max(axis=0) - ends.min(axis=0)))
    # |x|^2 + |y|^2 - 2xy passes through four times the squared diagonal.
    if diagonal > np.finfo(dtype).max / 4:
        raise ValueError(
            "The samples of X must have squared distances that fit "
            f"{np.dtype(dtype).name}. Got values up to {np.abs(ends).max():.3g} "
            "instead, whose distances overflow: rescale X, e.g. with StandardScaler."
        )


def refuse_underflow(X, dtype=np.float64):
    """Raise if all squared distances between different rows X (n, d) underflow.

    The squared diagonal of their box, which no distance exceeds, is below the least
    normal number of `dtype`. Rows that are all equal are accepted.
    """
    (gap,) = np.diff(extremes(X).astype(np.float64), axis=0)
    with np.errstate(under="ignore", over="ignore"):
        diagonal = np.sum(np.square(gap))
    if gap.any() and diagonal < np.finfo(dtype).tiny:
        raise ValueError(
            "The samples of X must have squared distances that fit "
            f"{np.dtype(dtype).name}. Got features that differ by at most "
            f"{gap.max():.3g} instead, whose squared distances underflow: rescale X, "
            "e.g. with StandardScaler."
        )


def extremes(X):
    """Return the least and largest values (2, d) of features of X (n, d), or CSR.

    Missing entries are ignored; a feature that has no others gets zeros.
    """
    if sp.issparse(X):
        return np.vstack([X.min(axis=0).toarray(), X.max(axis=0).toarray()])
    if X.shape[1] > _FEW_FEATURES:
        ends = np.stack([X.min(axis=0), X.max(axis=0)])
    else:  # row by row, NumPy takes as long for two features as for ten
        ends = np.array([[feature.min(), feature.max()] for feature in X.T]).T
    if np.isnan(ends).any():
        ends = np.stack([np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)])
    return np.nan_to_num(ends)


def column_means(X):
    """Return the means (d,), float64, of finite X (n, d); exact where constant."""
    X = np.asarray(X)
    refuse_overflow([X], np.float64)
    # Differences from a row are summed, so that an offset of 1e6 costs no digits.
    first = X[0].astype(np.float64)
    total = np.zeros(X.shape[1])
    for start in range(0, len(X), _BLOCK_ROWS):
        # This order gives the same sums for any layout of X.
        block = np.subtract(X[start : start + _BLOCK_ROWS], first, order="C")
        total += np.sum(block, axis=0)
    return first + total / len(X)


def center(X, means=None, *, dtype=np.float64):
    """Return a new array of `dtype`: finite X (n, d) minus its column means.

    Pass the `means` (d,) of the training rows to move new rows by the same amount.
    The subtraction is done in float64 whatever `dtype` is. ValueError if squared
    distances would overflow `dtype`.
    """
    X = np.asarray(X)
    if means is None:
        means = column_means(X)
    refuse_overflow([X, means[None, :]], dtype)
    return np.subtract(X, means, out=np.empty(X.shape, dtype), casting="same_kind")


def product_by_sample(X, Y):
    """Return X @ Y, (n, p), for samples X (n, d) and Y (d, p), one product per sample.

    A BLAS may round a row differently depending on its position in a block (Haswell and
    Zen kernels do so in float32 from 50 features on), so that equal samples get
    different results and chunks disagree, for any size of blocks. Here each sample is a
    separate product, always of the same shape, which costs one to three times the
    product of a block. Both are C-contiguous first: for other strides NumPy may leave
    the BLAS. Products of a sparse X are computed one sample at a time anyway.
    """
    if not isinstance(X, np.ndarray):
        return X @ Y
    X = np.ascontiguousarray(X)
    Y = np.ascontiguousarray(Y)
    return np.matmul(X[:, np.newaxis, :], Y)[:, 0]


def distance_matrix(X, *, metric="euclidean"):
    """Return the distances (n, n), float64, between rows of X, dense or sparse.

    Euclidean distances and those derived from them (squared, cosine) are sums of
    squared differences, so that the distance of equal rows is exactly 0 and an offset
    costs no digits; others are those of `sklearn.metrics.pairwise_distances`.
    Parameters that a metric estimates from data ("seuclidean", "mahalanobis") come from
    dense X. The result is exactly symmetric with a zero diagonal. Sparse X is made
    dense a block of rows at a time. O(n² d) time.
    """
    params = {}
    if not sp.issparse(X):
        params = fitted_metric_params(X, metric)
    elif isinstance(metric, str) and metric in _FITTED_METRICS:
        raise ValueError(
            "The 'metric' parameter must not be one that is estimated from X if X is "
            f"sparse. Got {metric!r} instead. Pass a dense X, or another metric."
        )
    n = X.shape[0]
    check_dense_size(n, **_DISTANCES)
    if metric == "cosine":
        refuse_zero_rows(X)
    X = X.astype(np.float64, copy=False)
    distances = np.empty((n, n))
    step = max(16, MATRIX_BLOCK_ENTRIES // X.shape[1])
    blocks = [slice(start, start + step) for start in range(0, n, step)]
    for i, rows in enumerate(blocks):
        dense = _dense(X[rows])
        for columns in blocks[: i + 1]:
            other = dense if rows == columns else _dense(X[columns])
            values = block_distances(dense, other, metric, params)
            distances[rows, columns] = values
            distances[columns, rows] = values.T
    _symmetrise_dense(distances)
    np.fill_diagonal(distances, 0.0)
    return distances


def _dense(X):
    """Return dense or sparse X as an array."""
    return X.toarray() if sp.issparse(X) else X


def kernel_matrix(X, *, kernel="linear", kernel_params=None):
    """Return the kernel (n, n), float64, between rows of X, dense or sparse.

    A wrapper of `sklearn.metrics.pairwise.pairwise_kernels`. Rows of dense X are
    centred first if that changes rounding only ("rbf", "laplacian"); for a linear
    kernel the caller centres, because that changes the values. A function gets the
    arguments that `pairwise_kernels` passes. The result is exactly symmetric.
    ValueError if the kernel gives NaN or infinity.
    """
    is_sparse = sp.issparse(X)
    if is_sparse and kernel in _DENSE_KERNELS:
        raise ValueError(
            f"The 'kernel' parameter must support sparse X. Got {kernel!r} instead, "
            "which does not. Pass a dense X, or another kernel."
        )
    check_dense_size(X.shape[0], **_KERNEL)
    X = X.astype(np.float64, copy=False)
    if kernel == "cosine":
        refuse_zero_rows(X)
    elif kernel in _DENSE_KERNELS:
        # scikit-learn's loops over them do not read what cannot be written.
        X = np.require(X, requirements="W")
    elif kernel in _TRANSLATION_INVARIANT_KERNELS and not is_sparse:
        X = center(X)
    elif kernel == "laplacian":
        # Its Manhattan distances only read indices of 32 bits.
        indices, starts = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        X = sp.csr_array((X.data, indices, starts), shape=X.shape)
    function = _of_two_rows(kernel, "kernel") if callable(kernel) else kernel
    values = pairwise_kernels(X, metric=function, **(kernel_params or {}))
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(
            "The 'kernel' parameter must give finite values. Got NaN or infinity from "
            f"{kernel!r} instead. Rescale X or correct the kernel."
        )
    _symmetrise_dense(values)
    return values


def _symmetrise_dense(matrix):
    """Replace a square float64 matrix (n, n) by its mean with its transpose.

    Returns the largest difference of the two.
    """
    n = len(matrix)
    step = max(1, MATRIX_BLOCK_ENTRIES // n)
    largest = 0.0
    for start in range(0, n, step):
        rows = slice(start, start + step)
        half = 0.5 * matrix[rows, start:]
        mirror = 0.5 * matrix[start:, rows].T
        largest = max(largest, 2.0 * float(np.abs(half - mirror).max()))
        half += mirror
        matrix[rows, start:] = half
        matrix[start:, rows] = half.T
    return largest


def unit_rows(X):
    """Return the rows of X (n, d), dense or CSR, float64, divided by their lengths.

    Half the squared distance of two such rows is their cosine distance. ValueError for
    rows of length zero, which have no direction.
    """
    refuse_zero_rows(X)
    # Entries are divided by the largest one: squares of huge entries overflow.
    if sp.issparse(X):
        starts = X.indptr[:-1]
        counts = np.diff(X.indptr)
        data = X.data / np.repeat(np.maximum.reduceat(np.abs(X.data), starts), counts)
        norms = np.sqrt(np.add.reduceat(np.square(data), starts))
        data /= np.repeat(norms, counts)
        return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)
    X = np.ascontiguousarray(X)  # the order of summation of a row depends on it
    scaled = X / np.abs(X).max(axis=1, keepdims=True)
    return scaled / np.sqrt(np.square(scaled).sum(axis=1, keepdims=True))


def refuse_zero_rows(X):
    """Raise a ValueError that names the samples of zeros of X (n, d), if any."""
    zero = np.flatnonzero((X != 0).sum(axis=1) == 0)
    if len(zero):
        named = ", ".join(map(str, zero[:5])) + (", ..." if len(zero) > 5 else "")
        raise ValueError(
            "The samples of X must not be zero where cosines are computed. Got only "
            f"zeros in {len(zero)} sample(s), at index {named}, instead. Drop these "
            "samples, or use Euclidean distances."
        )


class EuclideanForm(NamedTuple):
    """A distance that is an increasing function of the squared Euclidean distance.

    Attributes
    ----------
    prepare : callable
        From samples (n, d) float64 to those whose squared distances are taken.
    finish : callable
        From squared Euclidean distances to the distances; increasing.
    """

    prepare: Callable
    finish: Callable


def _half(squares):
    """Return the cosine distances for the squared distances of unit rows."""
    return 0.5 * squares


def _on_the_sphere(X):
    """Return points of the unit sphere (n, 3) of latitudes and longitudes (n, 2)."""
    if X.shape[1] != 2:
        raise ValueError(
            "The samples of X must have two features for metric='haversine', latitude "
            f"and longitude in radians. Got {X.shape[1]} instead."
        )
    latitude, longitude = X.T
    around = np.cos(latitude)
    return np.column_stack(
        [around * np.cos(longitude), around * np.sin(longitude), np.sin(latitude)]
    )


def _angles(squares):
    """Return the angles for the squared chords of the unit sphere."""
    return 2.0 * np.arcsin(np.minimum(0.5 * np.sqrt(squares), 1.0))


# Metrics for which the fast Euclidean algorithms are used.
EUCLIDEAN_FORMS = {
    "euclidean": EuclideanForm(np.asarray, np.sqrt),
    "l2": EuclideanForm(np.asarray, np.sqrt),
    "minkowski": EuclideanForm(np.asarray, np.sqrt),
    "nan_euclidean": EuclideanForm(np.asarray, np.sqrt),
    "sqeuclidean": EuclideanForm(np.asarray, np.asarray),
    "cosine": EuclideanForm(unit_rows, _half),
    "haversine": EuclideanForm(_on_the_sphere, _angles),
}
# The names that `metric` may have in forests.
METRICS = PAIRWISE_METRICS | EUCLIDEAN_FORMS.keys()


def fitted_metric_params(X_train, metric):
    """Return what the metric estimates from X_train (dict), for the functions below."""
    if metric == "seuclidean":
        variances = np.var(X_train, axis=0, ddof=min(1, len(X_train) - 1))
        if not variances.all():
            raise ValueError(
                "metric='seuclidean' divides by the variances of the features, of "
                f"which {np.count_nonzero(variances == 0)} are 0. Drop constant "
                "features, e.g. with VarianceThreshold."
            )
        return {"V": variances}
    if metric == "mahalanobis":
        covariance = np.atleast_2d(np.cov(X_train.T, ddof=min(1, len(X_train) - 1)))
        scale = np.sqrt(np.diag(covariance))
        # Features without variance have no correlation.
        scale[scale == 0] = np.inf
        rank = np.linalg.matrix_rank(covariance / np.outer(scale, scale))
        if rank < len(covariance):
            raise ValueError(
                "metric='mahalanobis' inverts the covariance of the samples, which "
                f"must have the rank {len(covariance)}, their number of features. Got "
                f"rank {rank} instead. Drop features that others determine, reduce "
                "them with PCA, or choose metric='seuclidean'."
            )
        return {"VI": np.linalg.inv(covariance).T}
    return {}


def block_distances(X, T, metric, params):
    """Return the distances (m, n), a new float64 array, of rows of X to rows of T."""
    if isinstance(metric, str) and metric in EUCLIDEAN_FORMS:
        form = EUCLIDEAN_FORMS[metric]
        X = form.prepare(X)
        T = form.prepare(T)
        refuse_overflow([X, T], np.float64)
        return form.finish(cdist(X, T, "sqeuclidean"))
    is_boolean = isinstance(metric, str) and metric in PAIRWISE_BOOLEAN_FUNCTIONS
    # Values other than 0 and 1 get the warning of scikit-learn.
    if is_boolean and np.isin(X, [0, 1]).all() and np.isin(T, [0, 1]).all():
        X = X.astype(bool)
        T = T.astype(bool)
    function = _of_two_rows(metric, "metric") if callable(metric) else metric
    distances = pairwise_distances(X, T, metric=function, **params)
    distances = np.array(distances, dtype=np.float64)
    if not np.isfinite(distances).all():
        kind = "NaN" if np.isnan(distances).any() else "infinity"
        raise ValueError(
            f"The 'metric' parameter must give finite distances. Got {kind} from "
            f"{metric!r} instead. If distances overflow, rescale X; drop samples that "
            "it cannot compare."
        )
    return distances


def _of_two_rows(function, name):
    """Return a function of two rows that refuses results which are not numbers."""

    def checked(*rows, **params):
        value = function(*rows, **params)
        if isinstance(value, Sized) and np.ndim(value):
            raise ValueError(
                f"The {name!r} parameter must be a function of two samples that "
                f"returns a number. Got an array of shape {np.shape(value)} from "
                f"{function!r} instead. Compute a whole matrix yourself, and pass it "
                f"as X with {name}='precomputed'."
            )
        return value

    return checked


def check_precomputed(D, *, name="X", kind="distance"):
    """Return the finite, exactly symmetric float64 form of a precomputed relation.

    `D` is a square dense array or scipy sparse matrix.  `kind` is "distance" or
    "affinity" (the diagonal is ignored: zeros when dense, nothing stored when sparse)
    or "kernel" (dense, diagonal kept). In a sparse matrix every stored entry is an
    edge, including zeros, and so is an entry on one side of the diagonal only; the
    result is a `csr_array` with sorted indices. Entries that differ from their mirror
    entries are replaced by the mean of both, with a warning if they differ by more than
    1e-8 of the largest value. The input is never written to; if nothing has to change,
    it is returned itself, so do not write to the result.
    """
    refuse_container(D, name=name)
    if sp.issparse(D) and kind == "kernel":
        raise ValueError(
            f"The {name!r} parameter must be dense for a kernel. Got a sparse matrix "
            "instead, and sparse is not supported here: use .toarray()."
        )
    # Most arrays need no further check, and calls in a training loop should be fast.
    plain = type(D) is np.ndarray and D.dtype == np.float64
    if not plain or D.ndim != 2 or not D.size:
        D = check_array(
            D, accept_sparse=True, dtype=np.float64, ensure_all_finite=False
        )
    if D.shape[0] != D.shape[1]:
        entries = {"affinity": "affinities"}.get(kind, f"{kind}s")
        raise ValueError(
            f"The {name!r} parameter must be a square matrix of {entries} between "
            f"samples. Got shape {D.shape} instead. Pass one row and one column per "
            "sample."
        )
    if sp.issparse(D):
        return _check_sparse(D, name)
    return _check_dense(D, name, kind)


def _check_dense(D, name, kind):
    """Return D (n, n) checked, symmetric and, but for kernels, with zero diagonal."""
    keep_diagonal = kind == "kernel"
    is_in_order = _is_in_order(D)
    if is_in_order and (keep_diagonal or not D.diagonal().any()):
        return D
    D = np.array(D, order="C")
    if not keep_diagonal:
        np.fill_diagonal(D, 0.0)
    if is_in_order:
        return D
    refuse_nonfinite(D, name)
    largest = max(D.max(), -D.min())
    _warn_asymmetric(_symmetrise_dense(D), largest, name)
    return D


def is_clean_distances(D):
    """Whether D is a dense matrix of distances that needs no change.

    Such a matrix is square, C-contiguous float64, finite, symmetric, and zero on the
    diagonal.
    """
    if sp.issparse(D) or D.dtype != np.float64 or D.shape[0] != D.shape[1]:
        return False
    return _is_in_order(D) and not np.any(D.diagonal())


def _is_in_order(D):
    """Whether D (n, n) is finite and equal to its transpose, tile by tile."""
    starts = range(0, len(D), _TILE)
    for i in starts:
        for j in starts[i // _TILE :]:
            tile = D[i : i + _TILE, j : j + _TILE]
            mirror = D[j : j + _TILE, i : i + _TILE].T
            # The difference of NaN, or of two infinities, is NaN, which is true.
            with np.errstate(invalid="ignore", over="ignore"):
                if np.any(tile - mirror):
                    return False
    return True


def _check_sparse(D, name):
    """Return sparse D (n, n) as a symmetric csr_array without diagonal."""
    directed = sp.csr_array(D)
    if not directed.has_canonical_format:  # repeated entries are added up
        directed = directed.copy()
        directed.sum_duplicates()
    rows = np.repeat(np.arange(len(directed.indptr) - 1), np.diff(directed.indptr))
    off_diagonal = rows != directed.indices
    if not off_diagonal.all():  # other stored zeros are edges
        ends = rows[off_diagonal], directed.indices[off_diagonal]
        values = directed.data[off_diagonal]
        directed = sp.csr_array((values, ends), shape=directed.shape)
    refuse_nonfinite(directed.data, name)
    graph, difference = symmetrised(directed)
    _warn_asymmetric(difference, np.abs(directed.data).max(initial=0.0), name)
    return graph


def refuse_nonfinite(values, name):
    """Raise ValueError if the values hold NaN or infinity."""
    if not np.isfinite(values).all():
        kind = "NaN" if np.isnan(values).any() else "infinity"
        raise ValueError(
            f"The {name!r} parameter must be finite. Got {kind} instead. "
            "Leave edges that do not exist out of a sparse matrix."
        )


def _warn_asymmetric(difference, largest, name):
    """Warn if the largest difference of mirror entries is beyond the tolerance."""
    if difference > _SYMMETRY_TOLERANCE * largest:
        warn(
            f"The {name!r} matrix is not symmetric: mirror entries differ by up to "
            f"{difference:.3g}. It was symmetrised (by the mean of both entries, or "
            "the one that is stored); pass a symmetric matrix to silence this.",
        )


def symmetrised(directed):
    """Return a symmetric csr_array and its largest mirror difference.

    `directed` (n, n) is a canonical csr_array. An edge found in one direction only is
    taken as it is, and its difference is its absolute value.
    """
    mirrored = directed.T.tocsr()
    if np.array_equal(directed.indptr, mirrored.indptr) and np.array_equal(
        directed.indices, mirrored.indices
    ):  # nothing has to be sorted
        difference = np.abs(directed.data - mirrored.data).max(initial=0.0)
        if difference:
            mirrored.data = 0.5 * directed.data + 0.5 * mirrored.data
        else:
            mirrored.data = directed.data
        # Kernels are compiled for one type of indices.
        mirrored.indices = mirrored.indices.astype(np.int64, copy=False)
        mirrored.indptr = mirrored.indptr.astype(np.int64, copy=False)
        return mirrored, float(difference)
    listed = directed.tocoo()
    n = directed.shape[0]
    values = listed.data
    ends = listed.row.astype(np.int64), listed.col.astype(np.int64)
    ends = np.concatenate(ends), np.concatenate(ends[::-1])

    def union(there, back):
        values = np.concatenate([there, back])
        return sp.coo_array((values, ends), shape=(n, n)).tocsr()

    halves = 0.5 * values
    graph = union(halves, halves)
    directions = np.ones(len(values))
    graph.data *= 2.0 / union(directions, directions).data
    difference = float(np.abs(union(values, -values).data).max())
    return graph, difference
