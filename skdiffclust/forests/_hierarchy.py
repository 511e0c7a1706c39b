"""Components and merges of a tree of many rows, by union-find."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._union_find import find, union

# Edges looked at between two checks for an interruption: 0.1 to 0.2 s.
_CHUNK = 2**20


def _singletons(n_samples):
    """Parents and sizes (n,) of components of one row; short, since memory waits."""
    dtype = np.int32 if n_samples < 2**30 else np.int64
    return np.arange(n_samples, dtype=dtype), np.ones(n_samples, dtype=dtype)


def compiled_components(edges, n_samples):
    """Component (n,) int64 of each row in the forest of `edges`, by its first row."""
    trees = _singletons(n_samples)
    for start in range(0, len(edges), _CHUNK):
        join_edges(edges[start : start + _CHUNK], *trees)
    return number_components(trees[0])


def compiled_merges(edges, lengths):
    """Linkage matrix (n - 1, 4) of a tree whose shortest edge comes first."""
    n_samples = len(edges) + 1
    merges = np.empty((n_samples - 1, 4))
    merges[:, 2] = lengths
    trees = _singletons(n_samples)
    clusters = trees[0].copy()
    for start in range(0, len(edges), _CHUNK):
        part = slice(start, start + _CHUNK)
        merge_rows(edges[part], *trees, clusters, n_samples + start, merges[part])
    return merges


@compiled(nogil=True)
def join_edges(edges, parents, sizes):
    """Join the ends of each edge (m, 2)."""
    for e in range(len(edges)):
        one, other = find(parents, edges[e, 0]), find(parents, edges[e, 1])
        if one != other:
            union(parents, sizes, one, other)


@compiled(nogil=True)
def number_components(parents):
    """Components (n,) of a union-find, numbered in the order of their first rows."""
    numbers, n_found = np.full(len(parents), -1), 0
    labels = np.empty(len(parents), dtype=np.int64)
    for i in range(len(parents)):
        root = find(parents, i)
        if numbers[root] < 0:
            numbers[root] = n_found
            n_found += 1
        labels[i] = numbers[root]
    return labels


@compiled(nogil=True)
def merge_rows(edges, parents, sizes, clusters, following, merges):
    """Write the clusters that each edge (m, 2) merges, and their size, to `merges`.

    ``clusters[root]`` is the number of a cluster; new ones count up from `following`.
    """
    for e in range(len(edges)):
        one, other = find(parents, edges[e, 0]), find(parents, edges[e, 1])
        merges[e, 0], merges[e, 1] = clusters[one], clusters[other]
        merges[e, 3] = sizes[one] + sizes[other]
        clusters[union(parents, sizes, one, other)] = following + e
