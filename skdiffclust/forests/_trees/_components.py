"""Components and merges of a forest of many samples, by union-find."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._trees._index import small_index
from skdiffclust.forests._trees._union_find import find, union

# Edges processed between two checks for an interruption: 0.1 to 0.2 s.
_EDGES_PER_CHUNK = 2**20


def small_singletons(n_samples):
    """Return parents and sizes (n,) of components of one sample."""
    dtype = small_index(n_samples)
    return np.arange(n_samples, dtype=dtype), np.ones(n_samples, dtype=dtype)


def compiled_components(edges, n_samples, is_taken=None):
    """Return the component (n,) int64 of each row in a forest, by its first row.

    `is_taken` (m,) says which of the edges count; None is all.
    """
    trees = small_singletons(n_samples)
    for start in range(0, len(edges), _EDGES_PER_CHUNK):
        chunk = edges[start : start + _EDGES_PER_CHUNK]
        if is_taken is not None:
            chunk = chunk[is_taken[start : start + _EDGES_PER_CHUNK]]
        join_edges(chunk, *trees)
    return number_components(trees[0])[0]


@compiled(nogil=True)
def join_edges(edges, parents, sizes):
    """Join the ends of each edge (m, 2)."""
    for e in range(len(edges)):
        one = find(parents, edges[e, 0])
        other = find(parents, edges[e, 1])
        if one != other:
            union(parents, sizes, one, other)


@compiled(nogil=True)
def write_merges(edges, parents, sizes, linkage):
    """Write the two nodes that each edge joins, and the size of the new one."""
    nodes = np.arange(len(parents))
    for t in range(len(edges)):
        one = find(parents, edges[-1 - t, 0])
        other = find(parents, edges[-1 - t, 1])
        linkage[t, 0] = nodes[one]
        linkage[t, 1] = nodes[other]
        root = union(parents, sizes, one, other)
        nodes[root] = len(parents) + t
        linkage[t, 3] = sizes[root]


@compiled(nogil=True)
def number_components(parents):
    """Return components (n,) int64 in the order of first rows, and their number."""
    numbers = np.full(len(parents), -1)
    labels = np.empty(len(parents), dtype=np.int64)
    n_components = 0
    for i in range(len(parents)):
        root = find(parents, i)
        if numbers[root] < 0:
            numbers[root] = n_components
            n_components += 1
        labels[i] = numbers[root]
    return labels, n_components
