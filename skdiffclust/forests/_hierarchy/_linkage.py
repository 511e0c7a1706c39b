"""The linkage matrix of a tree."""

import numpy as np

from skdiffclust._compat import single_linkage_label
from skdiffclust._compiled import compiled
from skdiffclust.forests._trees._compilation_threshold import is_compiled
from skdiffclust.forests._trees._components import small_singletons
from skdiffclust.forests._trees._union_find import find, union


def linkage_matrix(edges, lengths):
    """Return scipy's linkage matrix (n - 1, 4) of a tree in cut order. O(n α(n))."""
    n_samples = len(edges) + 1
    if is_compiled(n_samples, write_merges):
        linkage = np.empty((n_samples - 1, 4))
        linkage[:, 2] = lengths[::-1]
        write_merges(edges, *small_singletons(n_samples), linkage)
        return linkage
    if n_samples == 1:
        return np.empty((0, 4))
    return single_linkage_label(np.column_stack([edges[::-1], lengths[::-1]]))


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
