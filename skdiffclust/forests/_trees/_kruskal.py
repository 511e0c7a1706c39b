"""Kruskal's algorithm on edge lists, in the total order (length, i, j)."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._trees._tree import sort_edges
from skdiffclust.forests._trees._union_find import find, union

# Edges processed between two checks for an interruption: 0.1 to 0.2 s.
_EDGES_PER_CHUNK = 2**21
# Size of the sample of lengths from which the longest of these is estimated.
_SAMPLE = 1001


def kruskal(first, second, lengths, nodes):
    """Return the positions of the edges (m,) of the minimum spanning forest.

    Edges ``(first[e], second[e])`` with ``first < second`` are listed in lexicographic
    order; infinite ones are no edges. Rows with the same id in `nodes` (n,), ids 0 up,
    count as one vertex. The shortest edges, about as many as there are trees, are
    sorted and taken, and of the others only those are kept that still join two trees,
    again and again. O(m log m) time, O(m + n) memory.
    """
    n_vertices = int(nodes.max()) + 1
    edges = first, second, lengths
    trees = np.arange(n_vertices), np.ones(n_vertices, dtype=np.int64)
    chosen = np.empty(min(n_vertices - 1, len(lengths)), dtype=np.int64)
    left = np.arange(len(lengths))
    n_chosen = 0
    while n_chosen < len(chosen):
        roots = roots_of(nodes, trees[0])
        left = still_open(left, edges, roots)
        if not len(left):
            break
        batch, left = _shortest(left, lengths, n_vertices - n_chosen)
        order = batch[sort_edges(lengths[batch], batch)]
        for start in range(0, len(order), _EDGES_PER_CHUNK):
            chunk = order[start : start + _EDGES_PER_CHUNK]
            n_chosen = take_edges(chunk, edges, roots, trees, chosen, n_chosen)
    return chosen[:n_chosen]


def merge_edges(forests, nodes):
    """Return the minimum spanning forest of lists of edges (m, 2) and lengths (m,)."""
    edges = np.concatenate([edges for edges, _ in forests])
    lengths = np.concatenate([lengths for _, lengths in forests])
    order = np.lexsort(edges.T[::-1])
    edges = edges[order]
    lengths = lengths[order]
    first, second = np.ascontiguousarray(edges.T)
    chosen = kruskal(first, second, lengths, nodes)
    return edges[chosen], lengths[chosen]


def _shortest(positions, lengths, n_shortest):
    """Part positions (m,) into about `n_shortest` of the shortest and the others."""
    if len(positions) < 2 * n_shortest:
        return positions, positions[:0]
    sample = np.sort(lengths[positions[:: len(positions) // _SAMPLE + 1]])
    limit = sample[len(sample) * n_shortest // len(positions)]
    return part(positions, lengths, limit)


@compiled(nogil=True)
def part(positions, lengths, limit):
    """Return positions (m,) of the edges no longer than `limit`, and of the others."""
    short = np.empty(len(positions), np.int64)
    long = np.empty(len(positions), np.int64)
    n_short = n_long = 0
    for e in positions:
        short[n_short] = e
        long[n_long] = e
        # At least one edge is short, even where one length fills the sample.
        n_short += lengths[e] <= limit
        n_long += lengths[e] > limit
    return short[:n_short], long[:n_long]


@compiled(nogil=True)
def take_edges(order, edges, roots, trees, chosen, n_chosen):
    """Append to `chosen` the edges of `order` that join two trees; return how many.

    `roots` (n,) are vertices of the rows whose trees have not been separated since.
    """
    first, second, _ = edges
    parents, sizes = trees
    # Read ahead of the loop, where each result depends on the one before.
    ends = np.empty((len(order), 2), dtype=np.int32)
    for at in range(len(order)):
        e = order[at]
        ends[at, 0] = roots[first[e]]
        ends[at, 1] = roots[second[e]]
    for at in range(len(order)):
        one = find(parents, ends[at, 0])
        other = find(parents, ends[at, 1])
        if one != other:
            union(parents, sizes, one, other)
            chosen[n_chosen] = order[at]
            n_chosen += 1
    return n_chosen


@compiled(nogil=True)
def roots_of(nodes, parents):
    """Return the root (n,) int32 of the tree of each row."""
    roots = np.empty(len(nodes), dtype=np.int32)
    for i in range(len(nodes)):
        roots[i] = find(parents, nodes[i])
    return roots


@compiled(nogil=True)
def still_open(positions, edges, roots):
    """Return those of the edges at `positions` (m,) that join two trees."""
    first, second, lengths = edges
    kept = np.empty(len(positions), dtype=np.int64)
    n_kept = 0
    for e in positions:
        kept[n_kept] = e
        n_kept += (roots[first[e]] != roots[second[e]]) & (lengths[e] < np.inf)
    return kept[:n_kept]
