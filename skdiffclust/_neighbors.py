"""The exact search of nearest samples, dense and sparse, and distances of sparse ones.

Trees up to 10 features and, beyond, matrix products rule samples out; the rest is
measured by differences, so that ties are resolved by index and a result depends on its
sample only.
"""

from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from skdiffclust._duplicates import equal_rows, first_duplicates
from skdiffclust._pairwise import (
    EUCLIDEAN_FORMS,
    MATRIX_BLOCK_ENTRIES,
    block_distances,
    column_means,
    fitted_metric_params,
    refuse_overflow,
    symmetrised,
    unit_rows,
)
from skdiffclust._validation import canonical_rows

_TREE_MAX_FEATURES = 10
_TREE_SLACK = 1e-12  # far above the rounding of a sum of _TREE_MAX_FEATURES squares
# Metrics of sparse samples, as functions of squared Euclidean distances.
SPARSE_METRICS = ("euclidean", "l2", "sqeuclidean", "cosine")
# Training rows among which the nearest is searched at once: the search copies them and
# needs 50 bytes for each.
_TRAINING_ROWS = 2**22
_ROWS = 512
# With _ROWS others, products of this many training rows fill a cache of 4 MB.
_TRAINING_ROWS_OF_PRODUCT = 1024
_NORMED_ROWS = 64
_LARGEST = np.finfo(np.float64).max / 16


# A search of neighbours computes at most this many products of entries, the number of
# distances times that of features, before it looks for Ctrl-C; half a second of the
# slowest tree, scikit-learn's of 11 to 15 features.
PRODUCTS_AT_ONCE = 2**27
# A block has at least this many rows, which are a chunk of scikit-learn.
ROWS_AT_LEAST = 256


def search_blocks(n_rows, points, least=ROWS_AT_LEAST):
    """Yield slices of rows, each of which may be searched for among points (n, d).

    Their lengths are a multiple of `least` rows, so that products have the same bits.
    """
    step = least * max(1, PRODUCTS_AT_ONCE // (least * points.size))
    for start in range(0, n_rows, step):
        yield slice(start, start + step)


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
            X = unit_rows(X)
        self.points = X
        self.columns = X.T.tocsr()
        self.squares = np.empty(X.shape[0])
        for start in range(0, X.shape[0], _NORMED_ROWS):
            rows = slice(start, start + _NORMED_ROWS)
            # Computed like the products with others, so that their bits agree.
            self.squares[rows] = _products(X[rows], X[rows].T).diagonal()
        if not self.squares.max(initial=0.0) < _LARGEST:
            raise ValueError(
                "The samples of X must have squared distances that fit float64. Got "
                f"values up to {abs(X).max():.3g} instead, whose distances overflow: "
                "rescale X, e.g. with MaxAbsScaler."
            )

    def to(self, other, rows=slice(None)):
        """Return squared distances (n, m) of own rows to those of `SparseSquares`."""
        products = _products(self.points[rows], other.columns)
        return _less(products, self.squares[rows], other.squares)

    def between(self, rows, others):
        """Return squared distances (len(rows), len(others)) between own samples."""
        products = _products(self.points[rows], self.points[others].T)
        return _less(products, self.squares[rows], self.squares[others])

    def row(self, i, others):
        """Return squared distances (len(others),) of sample i."""
        x = np.zeros(self.points.shape[1])
        stored = slice(self.points.indptr[i], self.points.indptr[i + 1])
        x[self.points.indices[stored]] = self.points.data[stored]
        squares = self.squares[i] + self.squares - 2.0 * (self.points @ x)
        return np.maximum(squares, 0.0)[others]


# Products of sparse samples, as a dense array.
_products = partial(safe_sparse_dot, dense_output=True)


def _less(products, squares, others):
    """Return |x|² + |y|² - 2xy, not below zero, in place of products (n, m)."""
    products *= -2.0
    products += squares[:, None] + others
    return np.maximum(products, 0.0, out=products)


def nearest_sample(X_train, X, *, metric="euclidean"):
    """Return the nearest training row of each row, and how far it is.

    This is the out-of-sample rule: the edge that single linkage would add.

    Parameters
    ----------
    X_train : {ndarray, sparse} of shape (n_train, d), or None if metric="precomputed"
        Sparse samples have one of `SPARSE_METRICS`.
    X : {ndarray, sparse} of shape (m, d)
        If metric="precomputed", finite distances (m, n_train), an array.
    metric : str, callable or GowerEncoder
        As in `sklearn.metrics.pairwise_distances`; what it estimates from data is
        estimated from X_train. Or the encoder of both, dense, with missing values.

    Returns
    -------
    indices : ndarray of shape (m,), int64
        Ties go to the smallest index.
    distances : ndarray of shape (m,), float64
        Exactly 0 for a row that is equal to a training row.

    Notes
    -----
    The result for a row depends on that row and X_train only.  Euclidean and cosine
    distances use a k-d tree up to 10 features, and above that matrix products that
    only rule rows out: the rest is measured by differences.  Memory is bounded by
    blocks of both, beside the answer.
    """
    if isinstance(metric, str) and metric == "precomputed":
        indices = X.argmin(axis=1).astype(np.int64, copy=False)
        return indices, X[np.arange(len(X)), indices].astype(np.float64)
    is_dense = not (sp.issparse(X_train) or sp.issparse(X))
    if not (is_dense and isinstance(metric, str) and metric in EUCLIDEAN_FORMS):
        indices, distances = k_nearest(X_train, X, 1, metric)
        return indices[:, 0], distances[:, 0]
    indices = np.zeros(X.shape[0], dtype=np.int64)
    distances = np.full(X.shape[0], np.inf)
    for block in gen_batches(X_train.shape[0], _TRAINING_ROWS):
        nearest, near = k_nearest(X_train[block], X, 1, metric)
        is_nearer = near[:, 0] < distances
        indices[is_nearer] = block.start + nearest[is_nearer, 0]
        distances[is_nearer] = near[is_nearer, 0]
    return indices, distances


def k_nearest(T, X, k, metric="euclidean"):
    """Return the nearest training rows (m, k), int64, and how far they are.

    X (m, d) and T (n_train, d) are dense or sparse; neighbours are ordered by distance,
    then by index. As in `nearest_sample`, the result of a row does not depend on the
    other rows.
    """
    if hasattr(metric, "nearest"):
        return metric.nearest(X, T, k)
    if sp.issparse(T) or sp.issparse(X):
        return _sparse_nearest(T, X, k, metric)
    T = np.asarray(T, dtype=np.float64)
    X = np.asarray(X, dtype=np.float64)
    params = fitted_metric_params(T, metric)
    kept = first_duplicates(T, k)
    T = T[kept]
    if isinstance(metric, str) and metric in EUCLIDEAN_FORMS:
        form = EUCLIDEAN_FORMS[metric]
        T = form.prepare(T)
        X = form.prepare(X)
        refuse_overflow([T, X], np.float64)
        tree = T.shape[1] <= _TREE_MAX_FEATURES
        columns, squares = (_tree_nearest if tree else _product_nearest)(T, X, k)
        distances = form.finish(squares)
    else:
        columns, distances = _metric_nearest(T, X, k, metric, params)
    return kept[columns], distances


def neighbors_graph(X, n_neighbors):
    """Return the symmetric graph of nearest neighbours of X (n, d) as csr_array (n, n).

    An edge joins two rows if either is among the `n_neighbors` nearest of the other, by
    Euclidean distance, itself not counted; ties go to the smaller index. X is dense or
    sparse, and n is above `n_neighbors`. Stored values are distances, and the zero
    distance of two equal rows stays a stored entry. Indices are sorted, nothing is on
    the diagonal.
    """
    n = X.shape[0]
    nearest, distances = k_nearest(X, X, n_neighbors + 1)
    others = are_others(nearest, np.arange(n))
    starts = n_neighbors * np.arange(n + 1)
    directed = sp.csr_array((distances[others], nearest[others], starts), (n, n))
    directed.sort_indices()
    return symmetrised(directed)[0]


def are_others(nearest, rows):
    """Return which (m, k) of the nearest rows of each of rows (m,) are not itself.

    Exactly one in each line is not: a row with many duplicates may not be among its
    nearest rows, and then the last of these is left out.
    """
    others = nearest != rows[:, None]
    others[others.all(axis=1), -1] = False
    return others


def _sparse_nearest(X_train, X, k, metric):
    """Return (indices, distances), both (m, k), where X_train or X is sparse."""
    train = SparseSquares(X_train, metric)
    new = train if X is X_train else SparseSquares(X, metric)
    indices = np.empty((X.shape[0], k), dtype=np.int64)
    squares = np.empty((X.shape[0], k))
    step = int(np.clip(MATRIX_BLOCK_ENTRIES // X_train.shape[0], 16, _ROWS))
    for start in range(0, X.shape[0], step):
        part = slice(start, start + step)
        values = new.to(train, part)
        if k == 1:
            indices[part, 0] = values.argmin(axis=1)
            squares[part, 0] = values.min(axis=1)
        else:
            indices[part], squares[part] = _smallest(values, k)
    return indices, EUCLIDEAN_FORMS[metric].finish(squares)


def _smallest(values, k):
    """Return (columns, values) (m, k) of the smallest of each row of values (m, n)."""
    limit = np.partition(values, k - 1, axis=1)[:, k - 1]
    rows, candidates = np.nonzero(values <= limit[:, None])
    return _first_k(rows, candidates, values[rows, candidates], k)


def _tree_nearest(T, X, k):
    """Return (columns, squared distances) (m, k) with a k-d tree, ties resolved."""
    tree = cKDTree(T)
    near = np.empty((len(X), k + 1))
    nearest = np.empty((len(X), k + 1), dtype=np.int64)
    for rows in search_blocks(len(X), T):
        near[rows], nearest[rows] = tree.query(X[rows], k=k + 1)
    tied = near[:, k] <= near[:, k - 1] * (1.0 + _TREE_SLACK)
    clear = np.flatnonzero(~tied)
    columns = np.empty((len(X), k), dtype=np.int64)
    squares = np.empty((len(X), k))
    rows = np.repeat(np.arange(len(clear)), k)
    columns[clear], squares[clear] = _resolve_ties(
        T, X[clear], rows, nearest[clear, :k].ravel(), k
    )
    tied = np.flatnonzero(tied)
    step = max(1, MATRIX_BLOCK_ENTRIES // len(T))
    for start in range(0, len(tied), step):
        block = tied[start : start + step]
        radii = near[block, k - 1] * (1.0 + _TREE_SLACK)
        balls = tree.query_ball_point(X[block], radii)
        rows = np.repeat(np.arange(len(block)), [len(ball) for ball in balls])
        columns[block], squares[block] = _resolve_ties(
            T, X[block], rows, np.concatenate(balls).astype(np.int64), k
        )
    return columns, squares


def _product_nearest(T, X, k):
    """Return (columns, squared distances) (m, k), ruling rows out by products.

    |x|^2 + |t|^2 - 2xt of centred rows is off by at most c (|x|^2 + |t|^2); only
    rows whose lower bound is not above the k-th upper bound are measured. The products
    are computed in blocks that stay in a processor's cache.
    """
    means = column_means(T)
    T_centred = T - means
    T_squares = row_norms(T_centred, squared=True)
    c = 4.0 * (T.shape[1] + 8) * np.finfo(np.float64).eps
    columns = np.empty((len(X), k), dtype=np.int64)
    squares = np.empty((len(X), k))
    for done in gen_batches(len(X), _ROWS):
        centred = X[done] - means
        X_squares = row_norms(centred, squared=True)[:, None]
        centred *= -2.0
        limits = np.full((len(centred), k), np.inf)
        found = []
        n_found = 0
        for part in gen_batches(len(T), _TRAINING_ROWS_OF_PRODUCT):
            # Lower bounds, less (1 - c) |x|^2, which is the same along a row.
            lower = centred @ T_centred[part].T
            lower += (1.0 - c) * T_squares[part]
            rows = np.flatnonzero(lower.min(axis=1) <= limits[:, -1])
            lower = lower[rows]
            if k == 1:
                near = lower.argmin(axis=1)[:, None]
            else:
                last = min(k, lower.shape[1]) - 1
                near = np.argpartition(lower, last, axis=1)[:, : last + 1]
            upper = np.take_along_axis(lower, near, axis=1)
            upper += 2.0 * c * (X_squares[rows] + T_squares[part][near])
            upper = np.concatenate([limits[rows], upper], axis=1)
            limits[rows] = np.partition(upper, k - 1, axis=1)[:, :k]
            at, near = np.nonzero(lower <= limits[rows, -1:])
            found.append((rows[at], part.start + near, lower[at, near]))
            n_found += len(at)
            if n_found > MATRIX_BLOCK_ENTRIES and part.stop >= k:
                # Many are equally far: the first k of them are enough.
                best, _ = _measured(T, X[done], limits, found)
                rows = np.repeat(np.arange(len(best)), k)
                found = [(rows, best.ravel(), np.full(best.size, -np.inf))]
                n_found = best.size
        columns[done], squares[done] = _measured(T, X[done], limits, found)
    return columns, squares


def _measured(T, X, limits, found):
    """Return (columns, squared distances) (m, k) of pairs that no limit rules out.

    `found` has tuples of rows, columns and lower bounds, `limits` (m, k) upper bounds,
    of which the last of a line is the largest.
    """
    rows, columns, lower = map(np.concatenate, zip(*found, strict=True))
    kept = lower <= limits[rows, -1]
    return _resolve_ties(T, X, rows[kept], columns[kept], limits.shape[1])


def _metric_nearest(T, X, k, metric, params):
    """Return (columns, distances) (m, k) for any metric of scikit-learn."""
    columns = np.empty((len(X), k), dtype=np.int64)
    distances = np.empty((len(X), k))
    # Rounding of a metric may give equal rows a positive distance: it is 0 by
    # definition.
    T_groups, X_groups = np.split(equal_rows(np.concatenate([T, X])), [len(T)])
    step = max(1, MATRIX_BLOCK_ENTRIES // len(T))
    for start in range(0, len(X), step):
        done = slice(start, start + step)
        values = block_distances(X[done], T, metric, params)
        values[X_groups[done, None] == T_groups] = 0.0
        columns[done], distances[done] = _smallest(values, k)
    return columns, distances


def _resolve_ties(T, X, rows, columns, k):
    """Return (columns, squared distances) (m, k) among candidate pairs (p,)."""
    squares = np.empty(len(rows))
    step = max(1, MATRIX_BLOCK_ENTRIES // T.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        # Summed along a contiguous axis, so that the bits do not depend on the other
        # pairs.
        difference = np.ascontiguousarray(X[rows[part]] - T[columns[part]])
        squares[part] = np.square(difference, out=difference).sum(axis=1)
    return _first_k(rows, columns, squares, k)


def _first_k(rows, columns, values, k):
    """Return (columns, values) (m, k), first by value then column, of pairs (p,)."""
    order = np.lexsort((columns, values, rows))
    counts = np.bincount(rows)
    starts = np.cumsum(counts) - counts
    taken = order[starts[:, None] + np.arange(k)]
    return columns[taken], values[taken]
