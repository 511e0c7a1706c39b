"""Graphs of nearest neighbours, by distance or cosine, and their weights by rank."""

import math
from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from skdiffclust._affinity import center, unit_rows
from skdiffclust._compat import ArgKmin, effective_n_threads
from skdiffclust._neighbors import ROWS_AT_LEAST, are_others, k_nearest, search_blocks

# Largest numbers of features for a tree of SciPy and for one of scikit-learn.
_TREE_MAX_FEATURES = 10
_SCIKIT_TREE_FEATURES = 15
# n_neighbors="auto": of neighbours of equal weight, and bounds of those weighted by
# rank. Up to this many features, where clusters may be thin, few samples have fewer.
N_ALIKE = 10
_LEAST_RANKED = 10
_MOST_RANKED = 20
_FEW_FEATURES = 3
# The weight of the r-th neighbour is 1 / (r - 1 + this).
_FIRST_RANK = 2.0
# Distances are tied if they differ by less than this, relatively: by rounding, also of
# float32. Among this many times as many neighbours, tied ones share the last weights.
_TIED = 1e-6
_WIDE = 5
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


def neighbor_links(points, new, n_neighbors, metric, *, is_ranked):
    """Return the weights, a csr_array (m, n), of the nearest of points (n, d) to rows.

    The rows are new (m, d), or those of points if new is None, which are no neighbours
    of themselves. The r-th neighbour has the weight 1 / (r + 1), or 1 if they are not
    ranked. Neighbours at the same distance share the weights of their ranks, so that no
    order of the samples decides. By "cosine", samples at right angles or beyond are not
    neighbours.
    """
    n_points = points.shape[0]
    most = n_points if new is not None else n_points - 1
    k = min(n_neighbors, most)
    n_rows = n_points if new is None else new.shape[0]
    if k < 1:
        return sp.csr_array((n_rows, n_points))
    weights = np.zeros(min(_WIDE * k, most))
    weights[:k] = 1.0 / np.arange(_FIRST_RANK, _FIRST_RANK + k) if is_ranked else 1.0

    def find(rows, n_found):
        if new is not None:
            return _nearest(points, new[rows], n_found)
        neighbors, distances = _nearest_of_rows(points, rows, n_found + 1)
        others = are_others(neighbors, rows)
        shape = len(rows), n_found
        return neighbors[others].reshape(shape), distances[others].reshape(shape)

    def links_of(rows, n_found):
        neighbors, distances = find(rows, n_found)
        links = _links(neighbors, distances, weights[:n_found], n_points, metric)
        # One more neighbour than needed tells whether others are as near as the last.
        return links, ~_are_farther(distances)[:, k:].any(axis=1)

    links, is_tied = links_of(np.arange(n_rows), min(k + 1, most))
    if len(weights) == k or not is_tied.any():
        return links
    tied, clear = np.flatnonzero(is_tied), np.flatnonzero(~is_tied)
    wide, _ = links_of(tied, len(weights))
    order = np.argsort(np.concatenate([clear, tied]))
    return sp.csr_array(sp.vstack([links[clear], wide], format="csr")[order])


def _are_farther(distances):
    """Whether each of distances (m, k) in ascending order is above the last one."""
    farther = np.ones(distances.shape, dtype=bool)
    farther[:, 1:] = distances[:, 1:] > distances[:, :-1] * (1.0 + _TIED)
    return farther


def _links(neighbors, distances, weights, n_points, metric):
    """Return the csr_array (m, n) of neighbours (m, k) with the weights (k,) of ranks.

    Those of ranks at the same one of the distances (m, k) are averaged.
    """
    lengths = np.cumsum(_are_farther(distances)) - 1
    totals = np.bincount(lengths, np.tile(weights, len(neighbors)))
    shared = (totals / np.bincount(lengths))[lengths].reshape(neighbors.shape)
    if metric == "cosine":
        shared[1.0 - 0.5 * np.square(distances) <= _LEAST_COSINE] = 0.0
    kept = shared > 0
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    shape = len(neighbors), n_points
    return sp.csr_array((shared[kept], neighbors[kept], starts), shape=shape)


def _nearest(points, new, k):
    """Return the nearest of points (n, d) to new rows (m, k), and how far they are.

    Ties, of which data of few values have many, go to samples in a random order: those
    of the first classes would gain if samples are sorted by class.
    """
    order = np.random.RandomState(0).permutation(points.shape[0])
    neighbors, distances = k_nearest(points[order], new, k)
    return order[neighbors], distances


def _nearest_of_rows(points, rows, k):
    """Return the nearest of points (n, d) to its own rows (m,), and how far they are.

    Two to seven times as fast as `_nearest` of dense samples, because ties are resolved
    as they come, and are equal up to rounding only.
    """
    if sp.issparse(points):
        return _nearest(points, points[rows], k)
    # Centred, because products of samples with a large offset lose digits.
    X = center(points)
    nearest = np.empty((len(rows), k), dtype=np.int64)
    distances = np.empty((len(rows), k))
    order = np.arange(len(rows))
    if X.shape[1] > _TREE_MAX_FEATURES:
        search, least = _searcher(X, len(rows), k)
    else:
        tree = cKDTree(X, leafsize=32, balanced_tree=False)
        search, least = partial(tree.query, k=k), ROWS_AT_LEAST
        # In the order of the leaves, so that one query finds in the cache what the last
        # one read.
        order = np.argsort(np.argsort(tree.indices)[rows])
    for block in search_blocks(len(rows), X, least):  # Ctrl-C waits for at most one
        part = order[block]
        distances[part], nearest[part] = search(X[rows[part]])
    return nearest, distances


def _searcher(X, n_rows, k):
    """Return scikit-learn's search of the k nearest of X (n, d), and rows of a block.

    Products are shared out among threads as for all `n_rows` rows at once, because the
    order of ties depends on it. Without them, a row does not depend on the others.
    """
    # As by default.
    is_by_tree = X.shape[1] <= _SCIKIT_TREE_FEATURES and k < len(X) // 2
    algorithm = "kd_tree" if is_by_tree else "brute"
    search = NearestNeighbors(n_neighbors=k, algorithm=algorithm).fit(X)
    if is_by_tree:
        return search.kneighbors, 1
    n_threads = effective_n_threads()
    if n_rows <= 4 * ROWS_AT_LEAST * n_threads:
        return search.kneighbors, n_rows
    products = partial(
        ArgKmin.compute, Y=X, k=k, strategy="parallel_on_X", return_distance=True
    )
    return products, ROWS_AT_LEAST * n_threads
