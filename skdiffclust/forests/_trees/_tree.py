"""The order of edges, and the components of a forest.

The edges (n - 1, 2) of a tree have i < j and are in *cut order*: the longest first,
ties by the larger pair, the reverse of the total order (length, i, j) that makes the
minimum spanning tree unique.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from skdiffclust._duplicates import order_of
from skdiffclust.forests._trees._compilation_threshold import LINEAR, is_compiled

# Share of the plain length that is added to one of mutual reachability: of the many
# edges that are raised to the core distance of one row, the shortest then comes first.
TIE = 2.0**-30


def cut_order(edges, lengths):
    """Return the permutation that sorts edges by decreasing (length, i, j)."""
    return sort_edges(lengths, *edges.T)[::-1]


def is_in_cut_order(edges, lengths):
    """Whether edges (m, 2), i < j, come by decreasing (length, i, j)."""
    is_shorter = lengths[1:] < lengths[:-1]
    places = np.flatnonzero(~is_shorter)
    if not (lengths[places] == lengths[places + 1]).all():
        return False
    one, other = edges[places].T, edges[places + 1].T
    is_before = (other[0] < one[0]) | ((other[0] == one[0]) & (other[1] < one[1]))
    return bool(is_before.all())


def sort_edges(lengths, *keys):
    """Return the permutation that sorts edges by lengths (m,), then by keys (m,).

    The first 48 bits of the lengths are sorted in three passes of linear time, then
    those lengths of which these are equal, by a slower sort.
    """
    # Read as unsigned integers, negative numbers descend and are above the others.
    bits = (lengths + 0.0).view(np.int64)
    bits = (bits ^ (bits >> 63 | -(2**63))).view(np.uint64) >> np.uint64(16)
    order = order_of(bits, 3)
    ordered = bits[order]
    ties = ordered[1:] == ordered[:-1]
    tied = np.zeros(len(order), dtype=bool)
    tied[1:] |= ties
    tied[:-1] |= ties
    among = order[tied]
    keys = [key[among] for key in keys[::-1]]
    order[tied] = among[np.lexsort((*keys, lengths[among]))]
    return order


def components(edges, n_samples, is_taken=None):
    """Return the component (n_samples,) int64 of each row in a forest. O(n α(n)).

    They are numbered in the order of their first rows. `is_taken` (m,) says which of
    the edges count; None is all.
    """
    from skdiffclust.forests._trees._components import compiled_components, join_edges

    if is_compiled(n_samples / LINEAR, join_edges):
        return compiled_components(edges, n_samples, is_taken)
    edges = edges if is_taken is None else edges[is_taken]
    ones = np.ones(len(edges), dtype=np.int8)
    graph = csr_array((ones, (edges[:, 0], edges[:, 1])), shape=(n_samples, n_samples))
    return connected_components(graph, directed=False)[1].astype(np.int64)
