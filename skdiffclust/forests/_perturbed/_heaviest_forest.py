"""Kruskal on noisy copies of an edge list: the kernel of perturbed forests.

An edge list holds pairs i < j in row-major order, so the index of an edge is its rank
among ties: the heavier edge first, then the smaller (i, j), as everywhere.
"""

import numpy as np

from skdiffclust._compiled import compiled, inner
from skdiffclust.forests._trees._union_find import find, union

_N_BUCKETS = 2048
_SHIFTS_PER_EDGE = 8  # more than this: many keys are in one bucket
_GROWTH = 4  # of the number of edges from one cut to the next


def cuts_of(weights, wanted):
    """Return the values at which `heaviest_forest` divides its work. O(m).

    About `wanted` of the weights (m,) are above the first, four times as many above the
    second, and so on; the last one is -inf.
    """
    cuts = []
    high = weights.max(initial=-np.inf)
    width = high - weights.min(initial=np.inf)
    if width > 1e-300:
        scale = (_N_BUCKETS - 1) / width
        buckets = ((high - weights) * scale).astype(np.int64)
        totals = np.cumsum(np.bincount(buckets))[: _N_BUCKETS - 1]
        while (b := np.searchsorted(totals, wanted)) < len(totals):
            cuts.append(high - (b + 1) / scale)
            wanted = _GROWTH * totals[b]
    return np.array([*cuts, -np.inf])


@inner
def sort_chunk(keys, chunk, n, work):
    """Sort the n edges of `chunk` by decreasing key into `order`, ties kept. O(n).

    It uses buckets of one edge on average, then an insertion sort, or a merge sort if
    many keys are in one bucket.
    """
    starts, placed, order = work
    high = low = keys[0]
    for c in range(n):
        high = max(high, keys[c])
        low = min(low, keys[c])
    scale = (n - 1) / (high - low) if high - low > 1e-300 * n else 0.0
    for b in range(n + 1):
        starts[b] = 0
    for c in range(n):
        starts[np.int32((high - keys[c]) * scale) + 1] += 1
    for b in range(n):
        starts[b + 1] += starts[b]
    for c in range(n):
        b = np.int32((high - keys[c]) * scale)
        placed[starts[b]] = keys[c]
        order[starts[b]] = chunk[c]
        starts[b] += 1
    n_shifts = 0
    for c in range(1, n):
        key = placed[c]
        e = order[c]
        d = c
        while d > 0 and placed[d - 1] < key:
            placed[d] = placed[d - 1]
            order[d] = order[d - 1]
            d -= 1
        placed[d] = key
        order[d] = e
        n_shifts += c - d
        if n_shifts > _SHIFTS_PER_EDGE * n:
            merge_sort(keys, chunk, n, placed, order)
            return


@inner
def merge_sort(keys, chunk, n, placed, order):
    """Sort as `sort_chunk` does, by merging runs from one pair of arrays to the other.

    The result is in `order` and, as it may end in the other pair, in `chunk`.
    """
    source = keys, chunk
    target = placed, order
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle = min(start + width, n)
            stop = min(middle + width, n)
            a = start
            b = middle
            for d in range(start, stop):
                is_first = b == stop or (a < middle and source[0][a] >= source[0][b])
                c = a if is_first else b
                target[0][d] = source[0][c]
                target[1][d] = source[1][c]
                a += is_first
                b += not is_first
        source, target = target, source
        width *= 2
    for d in range(n):
        order[d] = source[1][d]


@inner
def edges_between(values, low, high, ends, component, keys, chunk):
    """List the edges of values in [low, high) that join components; return how many.

    Every edge is written, and stays if it counts: no branch to mispredict.
    """
    heads, tails = ends
    n_chunk = 0
    if high == np.inf:  # the first ones: no components yet
        for e in range(len(values)):
            keys[n_chunk] = values[e]
            chunk[n_chunk] = e
            n_chunk += values[e] >= low
        return n_chunk
    for e in range(len(values)):
        value = values[e]
        keys[n_chunk] = value
        chunk[n_chunk] = e
        joins = component[heads[e]] != component[tails[e]]
        n_chunk += (value >= low) & (value < high) & joins
    return n_chunk


@compiled(nogil=True)
def heaviest_forest(values, ends, n_edges, cuts, work):
    """Accept up to n_edges edges of the maximum spanning forest, the heaviest first.

    values (m,) belong to edges between the vertices `ends`, two (m,). The edges between
    two cuts are sorted at a time, without those inside a component by then. `work` is
    from `workspace`; its last array holds the accepted edges. Returns their number.
    """
    keys, chunk, starts, placed, order, parents, sizes, component, accepted = work
    heads, tails = ends
    n = len(parents)
    for v in range(n):
        parents[v] = v
        sizes[v] = 1
        component[v] = v
    n_accepted = 0
    above = np.inf
    for cut in cuts:
        if n_accepted == n_edges:
            break
        n_chunk = edges_between(values, cut, above, ends, component, keys, chunk)
        if n_chunk:
            sort_chunk(keys, chunk, n_chunk, (starts, placed, order))
        for c in range(n_chunk):
            e = order[c]
            root = find(parents, np.int64(heads[e]))
            other = find(parents, np.int64(tails[e]))
            if root != other:
                union(parents, sizes, root, other)
                accepted[n_accepted] = e
                n_accepted += 1
                if n_accepted == n_edges:
                    break
        for v in range(n):
            component[v] = find(parents, v)
        above = cut
    return n_accepted


def workspace(m, n):
    """Return scratch arrays of `heaviest_forest` for m edges and n vertices."""
    return (
        np.empty(m),
        np.empty(m, dtype=np.int32),
        np.empty(m + 1, dtype=np.int32),
        np.empty(m),
        np.empty(m, dtype=np.int32),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int32),
    )
