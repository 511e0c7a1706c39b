"""The merges of a tree of many samples, by union-find."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._trees._components import small_singletons
from skdiffclust.forests._trees._union_find import find, union

# Edges examined between two checks for an interruption: 0.1 to 0.2 s.
_EDGES_PER_CHUNK = 2**20


def compiled_merges(edges, lengths):
    """Linkage matrix (n - 1, 4) of a tree whose shortest edge comes first."""
    n_samples = len(edges) + 1
    # Reversed rows are another type to numba, except where there is only one.
    edges = np.ascontiguousarray(edges)
    merges = np.empty((n_samples - 1, 4))
    merges[:, 2] = lengths
    trees = small_singletons(n_samples)
    clusters = trees[0].copy()
    for start in range(0, len(edges), _EDGES_PER_CHUNK):
        part = slice(start, start + _EDGES_PER_CHUNK)
        merge_rows(edges[part], *trees, clusters, n_samples + start, merges[part])
    return merges


@compiled(nogil=True)
def merge_rows(edges, parents, sizes, clusters, following, merges):
    """Write the clusters that each edge (m, 2) merges, and their size, to `merges`.

    ``clusters[root]`` is the number of a cluster; new ones count up from `following`.
    """
    for e in range(len(edges)):
        one = find(parents, edges[e, 0])
        other = find(parents, edges[e, 1])
        merges[e, 0] = clusters[one]
        merges[e, 1] = clusters[other]
        merges[e, 3] = sizes[one] + sizes[other]
        clusters[union(parents, sizes, one, other)] = following + e
