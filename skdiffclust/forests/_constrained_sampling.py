"""Constrained forests of noisy copies of a dense similarity."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._exchange import exchange
from skdiffclust.forests._noise import pair_bits, quantiles, row_keys
from skdiffclust.forests._partition import (
    contract,
    forest_state,
    grow_tree,
    joined_components,
    merge_greedily,
    move_groups,
)

_BAND = 32
_PADDING = (
    8  # or the rows of a band share one line of the cache where n is a power of 2
)


@compiled(nogil=True)
def solve(similarity, groups, conflicts, colours, greedy, n_clusters):
    """Return a constrained forest: components (n,) and its edges as `up` (n,).

    ``up[v]`` is the neighbour of v towards the root of its tree, -1 at a root.
    """
    n_found = -1
    if greedy:
        component, n_found = merge_greedily(similarity, groups, conflicts, n_clusters)
    if n_found != n_clusters:
        component = contract(similarity, groups, colours, n_clusters)
    return component, improve(
        similarity, component, groups, conflicts, greedy, n_clusters
    )


@compiled(nogil=True)
def improve(similarity, component, groups, conflicts, greedy, n_clusters):
    """Solve the trees of components (n,) and move groups; return `up` (n,)."""
    state = forest_state(len(groups), n_clusters)
    for c in range(n_clusters):
        grow_tree(similarity, component, c, state)
    move_groups(similarity, component, groups, conflicts, state)
    while greedy and exchange(similarity, component, groups, conflicts, state):
        move_groups(similarity, component, groups, conflicts, state)
    return state[0]


@compiled(nogil=True)
def _draw_pairs(seed, unit, mirror, table, n, draws):
    """Write the noise (m,) of all pairs of n rows, row by row."""
    keys, columns = np.empty((2, n), dtype=np.uint32), np.arange(n).astype(np.int32)
    bits, depth = np.empty(n, dtype=np.uint32), np.empty(n)
    row_keys(seed, unit, n, keys[0], keys[1])
    start = 0
    for i in range(n - 1):
        m = n - i - 1
        pair_bits(keys[0, i], keys[1, i], columns[i + 1 :], bits[:m], depth[:m])
        quantiles(bits[:m], depth[:m], mirror, table, draws[start : start + m])
        start += m


@compiled(nogil=True)
def _add_noise(weights, scale, draws, noisy):
    """Write weights plus scaled draws (m,) of all pairs to the first n columns (n, .).

    Band by band of rows, each with its mirror image: a column at a time misses the
    cache.
    """
    n, start = len(noisy), 0
    for top in range(0, n, _BAND):
        bottom = min(top + _BAND, n)
        for i in range(top, bottom):
            m = n - i - 1
            row, clean = noisy[i, i + 1 : n], weights[start : start + m]
            noise = draws[start : start + m]
            for e in range(m):
                row[e] = clean[e] + scale * noise[e]
            start += m
        for j in range(top + 1, n):
            row = noisy[j]
            for i in range(top, min(bottom, j)):
                row[i] = noisy[i, j]


@compiled(nogil=True)
def sample_constrained(
    seed, samples, mirrors, scale, table, weights, problem, merged, ends
):
    """Solve the constrained samples first <= s < last of all pairs of weights (m,).

    problem is (groups, conflicts, colours, greedy, n_clusters). Where it is not greedy,
    merged (s, m) are the edges of the contracted graph that join components, as
    positions in `ends`, two arrays. Returns what `sample_free` returns, with edges as
    positions in the row-major list of all pairs.
    """
    groups, conflicts, colours, greedy, n_clusters = problem
    n, n_samples = len(groups), samples[1] - samples[0]
    noisy, draws = np.empty((n, n + _PADDING)), np.empty(len(weights))
    forests = np.empty((n_samples, n - n_clusters), dtype=np.int32)
    labels = np.empty((n_samples, n), dtype=np.int32)
    totals, lows = np.zeros(n_samples), np.full(n_samples, np.inf)
    for s in range(n_samples):
        unit, mirror = (samples[0] + s) // mirrors, (samples[0] + s) % mirrors
        if mirror and s and table[0, 0] == -table[512, 0]:
            # The mirror image of a symmetric draw is its negative, bit for bit.
            _add_noise(weights, -scale, draws, noisy)
        else:
            _draw_pairs(seed, unit, mirror, table, n, draws)
            _add_noise(weights, scale, draws, noisy)
        if greedy:
            component, up = solve(noisy, groups, conflicts, colours, greedy, n_clusters)
        else:
            heads, tails = ends[0][merged[s]], ends[1][merged[s]]
            component = joined_components(groups, colours, heads, tails)
            up = improve(noisy, component, groups, conflicts, greedy, n_clusters)
        labels[s] = component
        a = 0
        for v in range(n):
            if up[v] >= 0:
                i, j = min(v, up[v]), max(v, up[v])
                forests[s, a] = i * (2 * n - i - 1) // 2 + j - i - 1
                totals[s] += noisy[i, j]
                lows[s] = min(lows[s], noisy[i, j])
                a += 1
    return forests, labels, totals, lows
