"""Squared distances between sparse samples, without converting X to dense."""

import numpy as np
import scipy.sparse as sp

from skdiffclust._affinity import EUCLIDEAN_FORMS, refuse_zero_rows
from skdiffclust._validation import canonical_rows

# Metrics of sparse samples, as functions of squared Euclidean distances.
SPARSE_METRICS = ("euclidean", "l2", "sqeuclidean", "cosine")
_ROWS = 512
_LARGEST = np.finfo(np.float64).max / 16


class SparseSquares:
    """Sparse samples (n, d) as float64, and their squared norms (n,).

    A squared distance is |x|² + |y|² - 2xy, with sums over the stored entries in the
    order of features: the same bits on both sides and in any block, and exactly zero
    between equal samples. If samples are near each other relative to their norms, it
    has correspondingly fewer digits than a sum of squared differences.
    """

    def __init__(self, X, metric):
        X = canonical_rows(sp.csr_array(X, dtype=np.float64))
        if metric == "cosine":
            refuse_zero_rows(X)
            X = _unit_rows(X)
        self.points = X
        self.columns = X.T.tocsr()
        self.squares = np.empty(X.shape[0])
        for start in range(0, X.shape[0], _ROWS):
            part = X[start : start + _ROWS]
            # Computed like the products with others, so that their bits agree.
            self.squares[start : start + _ROWS] = (part @ part.T).diagonal()
        if not self.squares.max(initial=0.0) < _LARGEST:
            raise ValueError(
                "The samples of X must have squared distances that fit float64. Got "
                f"values up to {abs(X).max():.3g} instead, whose distances overflow: "
                "rescale X, e.g. with MaxAbsScaler."
            )

    def to(self, other):
        """Return squared distances (n, m) to the samples of another `SparseSquares`."""
        return _less(self.points @ other.columns, self.squares, other.squares)

    def between(self, rows, others):
        """Return squared distances (len(rows), len(others)) between own samples."""
        products = self.points[rows] @ self.points[others].T.tocsr()
        return _less(products, self.squares[rows], self.squares[others])

    def row(self, i, others):
        """Return squared distances (len(others),) of sample i."""
        x = np.zeros(self.points.shape[1])
        stored = slice(self.points.indptr[i], self.points.indptr[i + 1])
        x[self.points.indices[stored]] = self.points.data[stored]
        found = self.squares[i] + self.squares - 2.0 * (self.points @ x)
        return np.maximum(found, 0.0)[others]


def _less(products, squares, others):
    """Return |x|² + |y|² - 2xy, not below zero, of products (n, m)."""
    found = squares[:, None] + others - 2.0 * products.toarray()
    return np.maximum(found, 0.0, out=found)


def _unit_rows(X):
    """Return sparse rows (n, d), none of zeros, divided by their lengths."""
    largest = np.ravel(abs(X).max(axis=1).toarray())
    counts = np.diff(X.indptr)
    data = X.data / np.repeat(largest, counts)
    norms = np.sqrt(np.add.reduceat(np.square(data), X.indptr[:-1]))
    data /= np.repeat(norms, counts)
    return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)


def nearest_sparse_sample(X_train, X, *, metric):
    """Return the nearest of X_train (n, d) of each of X (m, d), and how far it is.

    At least one of them is sparse, and `metric` is one of `SPARSE_METRICS`. Ties go to
    the smallest index.
    """
    train = SparseSquares(X_train, metric)
    indices = np.empty(X.shape[0], dtype=np.int64)
    squares = np.empty(X.shape[0])
    for start in range(0, X.shape[0], _ROWS):
        part = slice(start, start + _ROWS)
        found = SparseSquares(X[part], metric).to(train)
        indices[part] = found.argmin(axis=1)
        squares[part] = found.min(axis=1)
    return indices, EUCLIDEAN_FORMS[metric].finish(squares)
