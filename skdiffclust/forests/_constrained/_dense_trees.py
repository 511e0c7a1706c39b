"""Prim on a dense similarity: trees of some rows, and of rows contracted to blocks.

The tree of a set of rows is that of the total order of edges: the heavier edge
first, then the smaller (i, j) with i < j.
"""

import numpy as np

from skdiffclust._compiled import compiled


@compiled(nogil=True)
def comes_first(value, a, b, other, c, d):
    """Whether the edge ab of weight `value` precedes the edge cd of weight `other`."""
    if value != other:
        return value > other
    first = min(a, b)
    second = min(c, d)
    return first < second or (first == second and max(a, b) < max(c, d))


@compiled(nogil=True)
def tree_of_rows(similarity, rows, up):
    """Write the maximum spanning tree of `rows` into `up`; return its weight. O(m²).

    ``up[v]`` becomes the neighbour of v towards the root rows[0], which gets -1. The
    rows (m,) are put in the order of Prim's algorithm: every row after its neighbour.
    """
    m = len(rows)
    if m == 0:
        return 0.0
    newest = rows[0]
    active = np.empty(m, dtype=np.int64)
    via = np.empty(m, dtype=np.int64)
    key = np.empty(m)
    for a in range(m - 1):
        active[a] = rows[a + 1]
        via[a] = newest
        key[a] = -np.inf
    n_active = m - 1
    total = 0.0
    up[newest] = -1
    for t in range(1, m):
        best = 0
        top = -np.inf
        for a in range(n_active):
            value = similarity[newest, active[a]]
            if value >= key[a]:
                j = active[a]
                if value > key[a] or comes_first(value, newest, j, key[a], via[a], j):
                    key[a] = value
                    via[a] = newest
            if key[a] >= top:
                if key[a] > top or comes_first(
                    key[a], via[a], active[a], top, via[best], active[best]
                ):
                    best = a
                    top = key[a]
        newest = active[best]
        rows[t] = newest
        up[newest] = via[best]
        total += top
        n_active -= 1
        active[best] = active[n_active]
        via[best] = via[n_active]
        key[best] = key[n_active]
    return total


@compiled(nogil=True)
def tree_of_blocks(similarity, rows, blocks):
    """Maximum spanning tree of the graph that contracts every block to a vertex.

    `blocks` (m,) numbers the blocks of `rows` (m,). Returns edges (n_blocks - 1, 2)
    between rows and their weights, in the order of Prim's algorithm. O(m²) time.
    """
    n_active = len(rows)
    edges = np.empty((n_active, 2), dtype=np.int64)
    weights = np.empty(n_active)
    active = np.empty(n_active, dtype=np.int64)
    block = np.empty(n_active, dtype=np.int64)
    via = np.empty(n_active, dtype=np.int64)
    key = np.empty(n_active)
    arrived = np.empty(n_active, dtype=np.int64)
    for a in range(n_active):
        active[a] = rows[a]
        block[a] = blocks[a]
        via[a] = rows[a]
        key[a] = -np.inf
    newest = blocks[0]
    n_edges = 0
    while True:
        left = 0
        n_arrived = 0
        for a in range(n_active):
            if block[a] == newest:
                arrived[n_arrived] = active[a]
                n_arrived += 1
            else:
                active[left] = active[a]
                block[left] = block[a]
                via[left] = via[a]
                key[left] = key[a]
                left += 1
        n_active = left
        if n_active == 0:
            break
        for b in range(n_arrived):
            v = arrived[b]
            for a in range(n_active):
                j = active[a]
                value = similarity[v, j]
                if value >= key[a] and comes_first(value, v, j, key[a], via[a], j):
                    key[a] = value
                    via[a] = v
        best = 0
        for a in range(1, n_active):
            if key[a] >= key[best] and comes_first(
                key[a], via[a], active[a], key[best], via[best], active[best]
            ):
                best = a
        edges[n_edges, 0] = min(via[best], active[best])
        edges[n_edges, 1] = max(via[best], active[best])
        weights[n_edges] = key[best]
        n_edges += 1
        newest = block[best]
    return edges[:n_edges], weights[:n_edges]
