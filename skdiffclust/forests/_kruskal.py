"""Kruskal's algorithm on edge lists, in the total order (length, i, j)."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._union_find import find, singletons, union

# Edges looked at between two checks for an interruption: 0.1 to 0.2 s.
_CHUNK = 2**21
# Edges sorted at a time, for each vertex: two leave one large tree and little beside.
_SORTED = 2
# Lengths that are drawn to find the longest of those.
_SAMPLE = 1001


def kruskal(first, second, lengths, nodes, *, n_wanted=None):
    """Positions of the edges (m,) of the minimum spanning forest, in total order.

    Edges ``(first[e], second[e])`` with ``first < second`` are listed in lexicographic
    order; infinite ones are no edges. Rows with the same id in `nodes` (n,), ids 0 up,
    count as one vertex. Stops at `n_wanted` edges, by default at a single tree. The
    shortest edges are sorted and taken first; of the others only those are sorted that
    still join two trees. O(m log m) time, O(m + n) memory.
    """
    n_vertices = int(nodes.max()) + 1
    n_wanted = n_vertices - 1 if n_wanted is None else n_wanted
    edges = first, second, lengths
    trees = singletons(n_vertices), np.ones(n_vertices, dtype=np.int64)
    chosen = np.empty(min(n_wanted, len(lengths)), dtype=np.int64)
    n_chosen, left = 0, np.arange(len(lengths))
    while len(left) and n_chosen < len(chosen):
        batch, left = _shortest(left, lengths[left], _SORTED * n_vertices)
        order = batch[np.argsort(lengths[batch])]
        settle_ties(lengths, order)
        for start in range(0, len(order), _CHUNK):
            chunk = order[start : start + _CHUNK]
            n_chosen = take_edges(chunk, edges, nodes, trees, chosen, n_chosen)
        if len(left):
            left = still_open(left, first, second, nodes, trees[0])
    return chosen[:n_chosen]


def _shortest(positions, lengths, n_shortest):
    """Part positions (m,) into about `n_shortest` of the shortest and the others."""
    if len(positions) < 2 * n_shortest:
        return positions, positions[:0]
    sample = np.sort(lengths[:: len(lengths) // _SAMPLE + 1])
    limit = sample[len(sample) * n_shortest // len(positions)]
    # At least one edge is short, even where NaN or one length fills the sample.
    is_short = ~(lengths > limit)
    return positions[is_short], positions[~is_short]


@compiled(nogil=True)
def settle_ties(lengths, order):
    """Sort each run of equal lengths in `order` (m,) by position, in place."""
    start = 0
    for stop in range(1, len(order) + 1):
        if stop == len(order) or lengths[order[stop]] != lengths[order[start]]:
            if stop - start > 1:
                order[start:stop] = np.sort(order[start:stop])
            start = stop


@compiled(nogil=True)
def take_edges(order, edges, nodes, components, chosen, n_chosen):
    """Append to `chosen` the edges of `order` that join two trees; return how many."""
    first, second, lengths = edges
    parents, sizes = components
    for e in order:
        if n_chosen == len(chosen) or not lengths[e] < np.inf:
            break
        one = find(parents, nodes[first[e]])
        other = find(parents, nodes[second[e]])
        if one != other:
            union(parents, sizes, one, other)
            chosen[n_chosen] = e
            n_chosen += 1
    return n_chosen


@compiled(nogil=True)
def upper_edges(indptr, indices, values):
    """Edges (i, j), i < j, of a symmetric CSR graph in lexicographic order.

    The indices of each row are sorted. Returns three arrays (m,).
    """
    n_edges = 0
    for i in range(len(indptr) - 1):
        for at in range(indptr[i], indptr[i + 1]):
            n_edges += indices[at] > i
    first = np.empty(n_edges, dtype=np.int64)
    second = np.empty(n_edges, dtype=np.int64)
    lengths = np.empty(n_edges, dtype=np.float64)
    e = 0
    for i in range(len(indptr) - 1):
        for at in range(indptr[i], indptr[i + 1]):
            if indices[at] > i:
                first[e], second[e], lengths[e] = i, indices[at], values[at]
                e += 1
    return first, second, lengths


@compiled(nogil=True)
def still_open(positions, first, second, nodes, parents):
    """Those of the edges at `positions` (m,) that join two trees."""
    kept = np.empty(len(positions), dtype=np.int64)
    n_kept = 0
    for e in positions:
        kept[n_kept] = e
        one, other = find(parents, nodes[first[e]]), find(parents, nodes[second[e]])
        n_kept += one != other
    return kept[:n_kept]
