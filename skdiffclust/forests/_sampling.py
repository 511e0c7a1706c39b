"""Kruskal on noisy copies of an edge list: the kernel of perturbed forests.

An edge list holds pairs i < j in row-major order, so the index of an edge is its rank
among ties: the heavier edge first, then the smaller (i, j), as everywhere.
"""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._noise import draw_list
from skdiffclust.forests._union_find import find, union

_N_BUCKETS = 2048
_SHIFTS_PER_EDGE = 8  # an insertion sort that needs more was given a clump


@compiled(nogil=True)
def _sort_chunk(values, chunk, n, order):
    """Sort the n edges of `chunk` by decreasing value into `order`, ties kept. O(n).

    Buckets of one edge on average, then an insertion sort; a merge sort for clumps.
    """
    high = values[chunk[0]]
    low = high
    for c in range(n):
        high = max(high, values[chunk[c]])
        low = min(low, values[chunk[c]])
    scale = (n - 1) / (high - low) if high - low > 1e-300 * n else 0.0
    starts = np.zeros(n + 1, dtype=np.int32)
    for c in range(n):
        starts[int((high - values[chunk[c]]) * scale) + 1] += 1
    for b in range(n):
        starts[b + 1] += starts[b]
    for c in range(n):
        b = int((high - values[chunk[c]]) * scale)
        order[starts[b]] = chunk[c]
        starts[b] += 1
    n_shifts = 0
    for c in range(1, n):
        e = order[c]
        d = c
        while d > 0 and values[order[d - 1]] < values[e]:
            order[d] = order[d - 1]
            d -= 1
        order[d] = e
        n_shifts += c - d
        if n_shifts > _SHIFTS_PER_EDGE * n:
            ranks = np.argsort(-values[chunk[:n]], kind="mergesort")
            for r in range(n):
                order[r] = chunk[ranks[r]]
            return


@compiled(nogil=True)
def heaviest_forest(values, heads, tails, n_edges, high, low, work):
    """Accept up to n_edges edges of the maximum spanning forest, the heaviest first.

    values (m,) lie in [low, high]; heads and tails (m,) are vertices. Only the top
    buckets are sorted, and edges inside a component are dropped before. `work` is from
    `workspace`; its last array holds the accepted edges. Returns their number.
    """
    buckets, chunk, order, parents, sizes, component, accepted = work
    n, m = len(parents), len(values)
    n_buckets = min(_N_BUCKETS, m + 1)
    counts = np.zeros(n_buckets, dtype=np.int64)
    scale = (n_buckets - 1) / (high - low) if high - low > 1e-300 else 0.0
    for e in range(m):
        buckets[e] = np.uint16(np.int32((high - values[e]) * scale))
    for e in range(m):
        counts[min(buckets[e], np.uint16(n_buckets - 1))] += 1
    for v in range(n):
        parents[v], sizes[v], component[v] = v, 1, v
    n_accepted, first, wanted = 0, 0, 2 * n
    while first < n_buckets and n_accepted < n_edges:
        last, total = first, 0
        while last < n_buckets and total < wanted:
            total += counts[last]
            last += 1
        n_chunk = 0
        for e in range(m):
            if (
                first <= buckets[e] < last
                and component[heads[e]] != component[tails[e]]
            ):
                chunk[n_chunk] = e
                n_chunk += 1
        if n_chunk:
            _sort_chunk(values, chunk, n_chunk, order)
        for c in range(n_chunk):
            root, other = find(parents, heads[order[c]]), find(parents, tails[order[c]])
            if root != other:
                union(parents, sizes, root, other)
                accepted[n_accepted] = order[c]
                n_accepted += 1
                if n_accepted == n_edges:
                    break
        for v in range(n):
            component[v] = find(parents, v)
        first, wanted = last, 4 * wanted
    return n_accepted


@compiled(nogil=True)
def workspace(m, n):
    """Scratch arrays of `heaviest_forest` for m edges and n vertices."""
    return (
        np.empty(m, dtype=np.uint16),
        np.empty(m, dtype=np.int32),
        np.empty(m, dtype=np.int32),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int32),
    )


@compiled(nogil=True)
def sample_free(seed, samples, mirrors, scale, table, edges, n_edges):
    """Solve the samples first <= s < last of an edge list.

    edges is (weights, indptr, columns, heads, tails); mirrors is 1, or 2 for antithetic
    pairs, whose samples 2u and 2u + 1 share the unit u. Returns the edges of every
    forest (s, n_edges) as positions in the list, heaviest first, its components (s, n),
    its weights (s,) and its lowest accepted values (s,).
    """
    weights, indptr, columns, heads, tails = edges
    n, m, n_samples = len(indptr) - 1, len(weights), samples[1] - samples[0]
    work = workspace(m, n)
    component, accepted = work[5], work[6]
    keys = np.empty((2, n), dtype=np.uint32)
    buffers = np.empty(n, dtype=np.uint32), np.empty(n)
    draws, values = np.empty(m), np.empty(m)
    forests = np.empty((n_samples, n_edges), dtype=np.int32)
    labels = np.empty((n_samples, n), dtype=np.int32)
    totals, lows = np.zeros(n_samples), np.full(n_samples, np.inf)
    low, high = (weights.min(), weights.max()) if m else (0.0, 0.0)
    low, high = low + scale * table[0, 0], high + scale * table[512, 0]
    for s in range(n_samples):
        sample = samples[0] + s
        unit, mirror = sample // mirrors, sample % mirrors
        if mirror and s and table[0, 0] == -table[512, 0]:
            # The mirror image of a symmetric draw is its negative, bit for bit.
            for e in range(m):
                draws[e] = -draws[e]
        else:
            draw_list(seed, unit, mirror, indptr, columns, table, keys, buffers, draws)
        for e in range(m):
            values[e] = weights[e] + scale * draws[e]
        heaviest_forest(values, heads, tails, n_edges, high, low, work)
        forests[s] = accepted[:n_edges]
        labels[s] = component
        for a in range(n_edges):
            totals[s] += values[accepted[a]]
            lows[s] = values[accepted[a]]
    return forests, labels, totals, lows
