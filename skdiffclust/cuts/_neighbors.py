"""Graphs of nearest neighbours, by distance or cosine, and their weights by rank."""

import math

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from skdiffclust._affinity import center, unit_rows
from skdiffclust._neighbors import are_others, k_nearest

# Largest number of features for a tree; samples of one call of it.
_TREE_MAX_FEATURES = 10
_TREE_ROWS = 20_000
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
    return X if metric == "euclidean" else unit_rows(X.astype(np.float64, copy=False))


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
    found, distances = _nearest_of_all(points, n_neighbors + 1)
    others = are_others(found)
    shape = n, n_neighbors
    return _links(
        found[others].reshape(shape), distances[others].reshape(shape), n, metric
    )


def neighbor_links(points, new, n_neighbors, metric):
    """Return the 0/1 csr_array (m, n) of the nearest of points (n, d) to new rows."""
    return _links(*_nearest(points, new, n_neighbors), points.shape[0], metric)


def _links(found, distances, n_points, metric):
    """Return the 0/1 csr_array (m, n) of neighbours (m, k) at distances (m, k)."""
    kept = np.ones(found.shape, dtype=bool)
    if metric == "cosine":
        kept = 1.0 - 0.5 * np.square(distances) > _LEAST_COSINE
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    columns = found[kept]
    shape = len(found), n_points
    return sp.csr_array((np.ones(len(columns)), columns, starts), shape=shape)


def ranked(links):
    """Return links (m, n), neighbours in order of distance, weighted by their rank.

    The r-th neighbour has the weight 1 / (r + 1).
    """
    ranks = np.arange(links.nnz) - np.repeat(links.indptr[:-1], np.diff(links.indptr))
    weights = 1.0 / (ranks + _FIRST_RANK)
    return sp.csr_array((weights, links.indices, links.indptr), shape=links.shape)


def _nearest(points, new, k):
    """Return the nearest of points (n, d) to new rows (m, k), and how far they are.

    Ties, of which data of few values have many, go to samples in a random order: those
    of the first classes would gain if samples are sorted by class.
    """
    order = np.random.RandomState(0).permutation(points.shape[0])
    found, distances = k_nearest(points[order], new, k)
    return order[found], distances


def _nearest_of_all(points, k):
    """Return the nearest rows (n, k) of each of points (n, d), and how far they are.

    Two to three times as fast as `_nearest` of dense samples, because ties are
    resolved as they come.
    """
    if sp.issparse(points):
        return _nearest(points, points, k)
    # Centred, because products of samples with a large offset lose digits.
    X = center(points)
    if X.shape[1] > _TREE_MAX_FEATURES:
        distances, found = NearestNeighbors(n_neighbors=k).fit(X).kneighbors(X)
        return found, distances
    tree = cKDTree(X, leafsize=32, balanced_tree=False)
    # In the order of the leaves, so that one query finds in the cache what the last one
    # read.
    order = tree.indices
    found = np.empty((len(X), k), dtype=np.int64)
    distances = np.empty((len(X), k))
    for start in range(0, len(X), _TREE_ROWS):  # Ctrl-C waits for at most this long
        rows = order[start : start + _TREE_ROWS]
        distances[rows], found[rows] = tree.query(X[rows], k=k)
    return found, distances
