"""Constrained forests of noisy copies of a dense similarity."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._exchange import exchange
from skdiffclust.forests._noise import pair_bits, quantiles, row_keys
from skdiffclust.forests._partition import (
    contract,
    forest_state,
    grow_tree,
    merge_greedily,
    move_groups,
)

_TILE = 32


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
    state = forest_state(len(groups), n_clusters)
    for c in range(n_clusters):
        grow_tree(similarity, component, c, state)
    move_groups(similarity, component, groups, conflicts, state)
    while greedy and exchange(similarity, component, groups, conflicts, state):
        move_groups(similarity, component, groups, conflicts, state)
    return component, state[0]


@compiled(nogil=True)
def _perturb(seed, unit, mirror, scale, table, similarity, noisy):
    """Write the noisy copy (n, n) of a similarity that a sample is solved on."""
    n = len(similarity)
    keys, columns = np.empty((2, n), dtype=np.uint32), np.arange(n).astype(np.int32)
    bits, depth, draws = np.empty(n, dtype=np.uint32), np.empty(n), np.empty(n)
    row_keys(seed, unit, n, keys[0], keys[1])
    for i in range(n - 1):
        m = n - i - 1
        pair_bits(keys[0, i], keys[1, i], columns[i + 1 :], bits[:m], depth[:m])
        quantiles(bits[:m], depth[:m], mirror, table, draws[:m])
        for e in range(m):
            noisy[i, i + 1 + e] = similarity[i, i + 1 + e] + scale * draws[e]
    # Tile by tile, since a column at a time misses the cache.
    for top in range(0, n, _TILE):
        for left in range(top, n, _TILE):
            for i in range(top, min(top + _TILE, n)):
                for j in range(max(left, i + 1), min(left + _TILE, n)):
                    noisy[j, i] = noisy[i, j]


@compiled(nogil=True)
def sample_constrained(seed, samples, mirrors, scale, table, similarity, problem):
    """Solve the constrained samples first <= s < last of a dense similarity.

    problem is (groups, conflicts, colours, greedy, n_clusters). Returns what
    `sample_free` returns, with edges as positions in the row-major list of all pairs.
    """
    groups, conflicts, colours, greedy, n_clusters = problem
    n, n_samples = len(similarity), samples[1] - samples[0]
    noisy = np.empty((n, n))
    forests = np.empty((n_samples, n - n_clusters), dtype=np.int32)
    labels = np.empty((n_samples, n), dtype=np.int32)
    totals, lows = np.zeros(n_samples), np.full(n_samples, np.inf)
    for s in range(n_samples):
        unit, mirror = (samples[0] + s) // mirrors, (samples[0] + s) % mirrors
        _perturb(seed, unit, mirror, scale, table, similarity, noisy)
        labels[s], up = solve(noisy, groups, conflicts, colours, greedy, n_clusters)
        a = 0
        for v in range(n):
            if up[v] >= 0:
                i, j = min(v, up[v]), max(v, up[v])
                forests[s, a] = i * (2 * n - i - 1) // 2 + j - i - 1
                totals[s] += noisy[i, j]
                lows[s] = min(lows[s], noisy[i, j])
                a += 1
    return forests, labels, totals, lows
