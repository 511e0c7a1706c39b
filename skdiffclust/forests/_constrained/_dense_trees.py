"""Prim on a dense affinity: trees of some rows, and of rows contracted to blocks.

The tree of a set of rows is that of the total order of edges: the heavier edge
first, then the smaller (i, j) with i < j.
"""

import numpy as np

from skdiffclust._compiled import inner
from skdiffclust.forests._trees._union_find import precedes


@inner
def tree_of_rows(affinity, rows, up):
    """Write the maximum spanning tree of `rows` into `up`; return its weight. O(m²).

    ``up[v]`` becomes the neighbour of v towards the root rows[0], which gets -1. The
    rows (m,) are put in the order of Prim's algorithm: every row after its neighbour.
    """
    m = len(rows)
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
            value = affinity[newest, active[a]]
            if value >= key[a]:
                j = active[a]
                if value > key[a] or precedes(-value, newest, j, -key[a], via[a], j):
                    key[a] = value
                    via[a] = newest
            if key[a] >= top:
                if key[a] > top or precedes(
                    -key[a], via[a], active[a], -top, via[best], active[best]
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
