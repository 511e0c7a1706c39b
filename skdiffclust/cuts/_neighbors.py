"""Exact nearest neighbours of dense and sparse samples, by distance or cosine."""

import math

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from skdiffclust._affinity import (
    center,
    k_nearest,
    nearest_sample,
    refuse_zero_rows,
    unit_rows,
)

# Largest number of features for a tree; samples of one call of it.
_TREE_MAX_FEATURES = 10
_TREE_ROWS = 20_000
# Entries of a block of products of sparse samples.
_PRODUCT_BLOCK_ENTRIES = 2**22
# n_neighbors="auto": of neighbours of equal weight, and bounds of those weighted by
# rank. Up to this many features, where clusters may be thin, few samples have fewer.
N_ALIKE = 10
_LEAST_RANKED = 10
_MOST_RANKED = 20
_FEW_FEATURES = 3
# The weight of the r-th neighbour is 1 / (r - 1 + this).
_FIRST_RANK = 2.0
# Samples with a smaller cosine are not neighbours by "cosine".
_LEAST_COSINE = 1e-9


def as_points(X, metric):
    """Return the points (n, d) whose Euclidean distances order neighbours.

    For "cosine" they have length one; ValueError for rows of zeros.
    """
    if metric == "euclidean":
        return X
    if not sp.issparse(X):
        return unit_rows(X.astype(np.float64, copy=False))
    refuse_zero_rows(X)
    X = sp.csr_array(X, dtype=np.float64)
    starts = X.indptr[:-1]
    counts = np.diff(X.indptr)
    # Divided by the largest entry first, because squares of huge entries overflow.
    data = X.data / np.repeat(np.maximum.reduceat(np.abs(X.data), starts), counts)
    data /= np.repeat(np.sqrt(np.add.reduceat(np.square(data), starts)), counts)
    return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)


def count_ranked(n_samples, n_features):
    """Return the number of neighbours, weighted by rank, that "auto" stands for."""
    if n_features > _FEW_FEATURES:
        return _MOST_RANKED
    return min(max(round(math.sqrt(n_samples) / 2), _LEAST_RANKED), _MOST_RANKED)


def neighbors_graph(points, n_neighbors, metric):
    """Return the 0/1 csr_array (n, n) of the nearest other rows of each of points.

    Those of a row are in order of distance. By "cosine", samples at right angles or
    beyond are not neighbours.
    """
    n = points.shape[0]
    if n_neighbors < 1:
        return sp.csr_array((n, n))
    if sp.issparse(points):
        return _sparse_links(points, points, n_neighbors, metric, apart=True)
    # Centred, because products of samples with a large offset lose digits.
    centered = center(points)
    if points.shape[1] <= _TREE_MAX_FEATURES:
        graph = _tree_graph(centered, n_neighbors)
    else:
        neighbors = NearestNeighbors(n_neighbors=n_neighbors).fit(centered)
        graph = sp.csr_array(neighbors.kneighbors_graph())
    return _acute(graph, points, points) if metric == "cosine" else graph


def neighbor_links(points, new, n_neighbors, metric):
    """Return the 0/1 csr_array (m, n) of the nearest of points (n, d) to new rows."""
    if sp.issparse(points):
        return _sparse_links(points, new, n_neighbors, metric, apart=False)
    found = k_nearest(points.astype(np.float64), new.astype(np.float64), n_neighbors)
    starts = np.arange(0, found.size + 1, n_neighbors)
    shape = len(new), len(points)
    links = sp.csr_array((np.ones(found.size), found.ravel(), starts), shape=shape)
    return _acute(links, new, points) if metric == "cosine" else links


def ranked(links):
    """Return links (m, n), neighbours in order of distance, weighted by their rank.

    The r-th neighbour has the weight 1 / (r + 1).
    """
    ranks = np.arange(links.nnz) - np.repeat(links.indptr[:-1], np.diff(links.indptr))
    return sp.csr_array(
        (rank_weights(ranks), links.indices, links.indptr), shape=links.shape
    )


def rank_weights(ranks):
    """Return the weights (m,) of neighbours by their ranks (m,), from 0 on."""
    return 1.0 / (ranks + _FIRST_RANK)


def nearest_point(points, new):
    """Return the nearest of points (n, d) to new rows (m, d): (indices, distances)."""
    if not sp.issparse(points):
        return nearest_sample(points, new)
    indices = np.empty(new.shape[0], dtype=np.int64)
    distances = np.empty(new.shape[0])
    for rows, squares in _square_blocks(points, new):
        indices[rows] = squares.argmin(axis=1)
        distances[rows] = np.sqrt(np.maximum(squares.min(axis=1), 0.0))
    return indices, distances


def _tree_graph(X, n_neighbors):
    """Return the 0/1 csr_array (n, n) of the nearest other rows of each of X (n, d)."""
    n = len(X)
    tree = cKDTree(X, leafsize=32, balanced_tree=False)
    # In the order of the leaves, so that one query finds in the cache what the last one
    # read.
    order = tree.indices
    found = np.empty((n, n_neighbors + 1), dtype=np.int64)
    for start in range(0, n, _TREE_ROWS):  # Ctrl-C waits for at most this long
        rows = order[start : start + _TREE_ROWS]
        found[rows] = tree.query(X[rows], k=n_neighbors + 1)[1]
    others = found != np.arange(n)[:, None]
    others[others.all(axis=1), -1] = False  # many duplicates may hide a sample
    starts = np.arange(0, n * n_neighbors + 1, n_neighbors)
    ones = np.ones(n * n_neighbors)
    return sp.csr_array((ones, found[others], starts), shape=(n, n))


def _acute(links, new, points):
    """Return the links (m, n) of unit rows whose cosine is positive."""
    rows = np.repeat(np.arange(len(new)), np.diff(links.indptr))
    squares = np.empty(len(rows))
    step = max(1, _PRODUCT_BLOCK_ENTRIES // new.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        gaps = new[rows[part]] - points[links.indices[part]]
        squares[part] = np.square(gaps, out=gaps).sum(axis=1)
    kept = 1.0 - 0.5 * squares > _LEAST_COSINE
    counts = np.bincount(rows[kept], minlength=len(new))
    starts = np.concatenate([[0], np.cumsum(counts)])
    ones = np.ones(int(kept.sum()))
    return sp.csr_array((ones, links.indices[kept], starts), shape=links.shape)


def _square_blocks(points, new):
    """Yield (rows, squared distances (b, n)) of blocks of new rows to sparse points.

    Row by row, so that a result does not depend on the other rows.
    """
    points = points.astype(np.float64)
    transposed = points.T.tocsr()
    squares = points.multiply(points).sum(axis=1)
    step = max(1, _PRODUCT_BLOCK_ENTRIES // points.shape[0])
    for start in range(0, new.shape[0], step):
        rows = slice(start, min(start + step, new.shape[0]))
        block = sp.csr_array(new[rows]).astype(np.float64)
        products = (block @ transposed).toarray()
        own = block.multiply(block).sum(axis=1)
        products *= -2.0
        products += squares
        products += own[:, None]
        yield rows, products


def _sparse_links(points, new, n_neighbors, metric, *, apart):
    """Return the 0/1 csr_array (m, n) of the nearest of sparse points to new rows.

    Ties go to the smallest index. With `apart` new rows are the points, and no row is
    its own neighbour.
    """
    columns = []
    counts = [np.zeros(1, dtype=np.int64)]
    for rows, squares in _square_blocks(points, new):
        if apart:
            own = np.arange(rows.stop - rows.start)
            squares[own, rows.start + own] = np.inf
        if metric == "cosine":
            squares[squares >= 2.0 - 2.0 * _LEAST_COSINE] = np.inf
        limit = np.partition(squares, n_neighbors - 1, axis=1)[:, n_neighbors - 1]
        found, candidates = np.nonzero((squares <= limit[:, None]) & (squares < np.inf))
        order = np.lexsort((candidates, squares[found, candidates], found))
        found = found[order]
        candidates = candidates[order]
        sizes = np.bincount(found, minlength=rows.stop - rows.start)
        rank = np.arange(len(found)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        kept = rank < n_neighbors
        columns.append(candidates[kept])
        counts.append(np.minimum(sizes, n_neighbors))
    columns = np.concatenate(columns)
    starts = np.cumsum(np.concatenate(counts))
    shape = new.shape[0], points.shape[0]
    return sp.csr_array((np.ones(len(columns)), columns, starts), shape=shape)
