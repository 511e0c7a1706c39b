"""Prim on a dense similarity: trees of some rows, and of rows contracted to blocks.

The tree of a set of rows is that of the total order of edges: the heavier edge
first, then the smaller (i, j) with i < j.
"""

import numpy as np

from skdiffclust._compiled import inner


@inner
def comes_first(value, a, b, other, c, d):
    """Whether the edge ab of weight `value` precedes the edge cd of weight `other`."""
    if value != other:
        return value > other
    first = min(a, b)
    second = min(c, d)
    return first < second or (first == second and max(a, b) < max(c, d))


@inner
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
