"""Centred samples of a sparse X, which are never formed, and operations on samples.

`SparseRows` stands for X - 1 m' where X is sparse and m are means. It has the products
of an array, so that models and objectives need not know which they have; the functions
below are for other operations. Everything costs O(nnz), or O(nnz k) for k columns.
"""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.extmath import row_norms
from sklearn.utils.sparsefuncs import mean_variance_axis

from skdiffclust._duplicates import equal_rows
from skdiffclust._pairwise import center, extremes


class SparseRows:
    """The rows of X - 1 m' (n, d) for a sparse X and means m (d,).

    `matrix` is a canonical csr_array, see `canonical_rows`.
    """

    # NumPy would take the rows for a sequence of objects.
    __array_ufunc__ = None

    def __init__(self, matrix, means):
        self.matrix = matrix
        self.means = np.asarray(means, dtype=np.float64)

    @property
    def shape(self):
        """The shape (n, d)."""
        return self.matrix.shape

    @property
    def dtype(self):
        """The dtype of the entries."""
        return self.matrix.dtype

    @property
    def T(self):
        """The transpose, for products from the left."""
        return _Turned(self)

    def __len__(self):
        """Return the number of samples."""
        return self.shape[0]

    def __matmul__(self, columns):
        """Return the product with (d, k) or (d,), with the same bits in any X."""
        product = self.matrix @ columns
        product -= (self.means @ columns).astype(product.dtype, copy=False)
        return product

    def __truediv__(self, factor):
        """Return the rows divided by a number."""
        # A sparse matrix divided by a number would become float64.
        matrix = self.matrix.copy()
        matrix.data /= self.dtype.type(factor)
        return SparseRows(matrix, self.means / float(factor))

    def __getitem__(self, key):
        """Return the rows `key`, or the columns of a key (slice(None), columns)."""
        if not isinstance(key, tuple):
            return SparseRows(self.matrix[key], self.means)
        _, columns = key
        return SparseRows(self.matrix[:, columns], self.means[columns])


class _Turned:
    """The transpose of `SparseRows`."""

    def __init__(self, rows):
        self._rows = rows

    def __matmul__(self, columns):
        """Return the product with (n, k) or (n,)."""
        rows = self._rows
        product = rows.matrix.T @ columns
        # A product with ones is faster than a sum over the first axis.
        total = np.ones(len(rows)) @ columns
        shift = np.multiply.outer(rows.means, total)
        product -= shift.astype(product.dtype, copy=False)
        return product


def centered(X, means):
    """Return dense or sparse X (n, d) minus means (d,), in the dtype of X."""
    if issparse(X):
        return SparseRows(X, means)
    return center(X, means, dtype=X.dtype)


def weighted_means(X, row_weights):
    """Return the means (d,), float64, of X (n, d) under weights that sum to one."""
    weights = row_weights.astype(np.float64)
    if issparse(X):
        return X.T @ weights
    # Differences from a row, so that an offset costs no digits.
    first = X[0].astype(np.float64)
    return first + weights @ (X - first)


def squared_norms(X):
    """Return the squared norms (n,) of rows X (n, d), in float64 if they are sparse."""
    if not isinstance(X, SparseRows):
        return np.einsum("ij,ij->i", X, X)
    matrix = X.matrix.astype(np.float64, copy=False)
    products = matrix @ X.means
    squares = row_norms(matrix, squared=True) - 2 * products + X.means @ X.means
    return np.maximum(squares, 0.0)


def column_squares(X, row_weights):
    """Return sum_i w_i x_ij² (d,), in float64, for rows X (n, d) and weights (n,)."""
    weights = row_weights.astype(np.float64)
    if not isinstance(X, SparseRows):
        return np.einsum("i,ij,ij->j", weights, X, X, dtype=np.float64)
    matrix = X.matrix.astype(np.float64, copy=False)
    means, variances = mean_variance_axis(matrix, axis=0, weights=weights)
    # Rounding may leave a constant column a variance below zero.
    return weights.sum() * (variances.clip(0) + np.square(means - X.means))


def covariance(X, row_weights):
    """Return X' diag(w) X (d, d), float64, of centred rows X (n, d)."""
    if not isinstance(X, SparseRows):
        wide = np.asarray(X, dtype=np.float64)
        return (wide * row_weights[:, None]).T @ wide
    matrix = X.matrix.astype(np.float64)
    weights = row_weights.astype(np.float64)
    scaled = matrix.multiply(weights[:, None]).tocsr()
    products = (matrix.T @ scaled).toarray()
    covariances = products - np.outer(X.means, X.means)
    # Rounding may make the variance of constant columns negative.
    constant = covariances.diagonal() <= 1e-12 * products.diagonal()
    covariances[constant] = covariances[:, constant] = 0.0
    return covariances


def take_columns(X, columns):
    """Return columns (m,) of X (n, d), in one memory layout if they are dense."""
    if isinstance(X, SparseRows):
        return X[:, columns]
    return np.ascontiguousarray(X[:, columns])


def near_one(X):
    """Return dense or sparse X times a power of two, so that fourth powers are finite.

    The product is exact.
    """
    largest = abs(X).max()
    return X * X.dtype.type(2.0 ** -np.frexp(largest)[1]) if largest > 0 else X


def have_equal_columns(X):
    """Return whether all rows of X (n, d) are equal."""
    if not isinstance(X, SparseRows):
        return not np.ptp(X, axis=0).any()
    low, high = extremes(X.matrix)
    return np.array_equal(low, high)


def numbers_of_rows(X):
    """Return group ids (n,) int64, in order of first row, equal where rows are."""
    return equal_rows(X.matrix if isinstance(X, SparseRows) else X)


def arrays_of_rows(X):
    """Return the arrays that dense or sparse samples X (n, d) consist of, by name."""
    means = {}
    if isinstance(X, SparseRows):
        means = {"means": X.means}
        X = X.matrix
    if not issparse(X):
        return {"X": X}
    parts = ("data", "indices", "indptr")
    return means | {f"X.{part}": getattr(X, part) for part in parts}
