"""Constrained forests of noisy copies of a dense similarity."""

from typing import NamedTuple

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._constrained._compiled_tree import (
    constrained_tree,
    improve,
)
from skdiffclust.forests._constrained._partition import joined_components
from skdiffclust.forests._perturbed._heaviest_forest import heaviest_forest, workspace
from skdiffclust.forests._perturbed._noise import hash_keys, pair_bits, quantiles

_BAND = 32
# Where n is a power of 2, the rows of a band would share one line of the cache.
_PADDING = 8


class Merging(NamedTuple):
    """Edges that can join the components of labelled samples, and their forests.

    Attributes
    ----------
    heads, columns : ndarray of shape (m,), int32
        Rows that each edge joins.
    first_blocks, second_blocks : ndarray of shape (m,), int32
        Vertices of the contracted graph that it joins.
    n_edges : int
        Edges of each forest of that graph.
    cuts : ndarray
        From `cuts_of`.
    """

    heads: np.ndarray
    columns: np.ndarray
    first_blocks: np.ndarray
    second_blocks: np.ndarray
    n_edges: int
    cuts: np.ndarray


@compiled(nogil=True)
def _draw_pairs(seed, draw, antithetic_index, table, n, noise):
    """Write the noise (m,) of all pairs of n rows, row by row."""
    keys = np.empty((2, n), dtype=np.uint32)
    columns = np.arange(n).astype(np.int32)
    bits = np.empty(n, dtype=np.uint32)
    depth = np.empty(n)
    hash_keys(seed, draw, n, keys[0], keys[1])
    start = 0
    for i in range(n - 1):
        m = n - i - 1
        pair_bits(keys[0, i], keys[1, i], columns[i + 1 :], bits[:m], depth[:m])
        quantiles(
            bits[:m], depth[:m], antithetic_index, table, noise[start : start + m]
        )
        start += m


@compiled(nogil=True)
def _add_noise(weights, scale, noise, noisy):
    """Write weights plus scaled noise (m,) of all pairs to the first n columns (n, .).

    Band by band of rows, each with its mirror image: a column at a time misses the
    cache.
    """
    n = len(noisy)
    start = 0
    for top in range(0, n, _BAND):
        bottom = min(top + _BAND, n)
        for i in range(top, bottom):
            m = n - i - 1
            row = noisy[i, i + 1 : n]
            clean = weights[start : start + m]
            part = noise[start : start + m]
            for e in range(m):
                row[e] = clean[e] + scale * part[e]
            start += m
        for j in range(top + 1, n):
            row = noisy[j]
            for i in range(top, min(bottom, j)):
                row[i] = noisy[i, j]


@compiled(nogil=True)
def _perturb(
    seed, sample, is_first, samples_per_draw, scale, table, weights, noise, noisy
):
    """Write the noisy copy of a sample; `noise` (m,) is kept for its mirror image."""
    draw = sample // samples_per_draw
    antithetic_index = sample % samples_per_draw
    if antithetic_index and not is_first and table[0, 0] == -table[512, 0]:
        # The mirror image of a symmetric draw is its negative, bit for bit.
        _add_noise(weights, -scale, noise, noisy)
    else:
        _draw_pairs(seed, draw, antithetic_index, table, len(noisy), noise)
        _add_noise(weights, scale, noise, noisy)


@compiled(nogil=True)
def _record(up, noisy, forest):
    """Write the edges (n - k,) of `up` (n,) as positions in the row-major list.

    Returns their weight and the lowest one.
    """
    n = len(up)
    a = 0
    total = 0.0
    low = np.inf
    for v in range(n):
        if up[v] >= 0:
            i = min(v, up[v])
            j = max(v, up[v])
            forest[a] = i * (2 * n - i - 1) // 2 + j - i - 1
            total += noisy[i, j]
            low = min(low, noisy[i, j])
            a += 1
    return total, low


@compiled(nogil=True)
def _results(n_samples, n, n_clusters):
    """Arrays that `sample_free` returns, to be filled."""
    return (
        np.empty((n_samples, n - n_clusters), dtype=np.int32),
        np.empty((n_samples, n), dtype=np.int32),
        np.empty(n_samples),
        np.empty(n_samples),
    )


@compiled(nogil=True)
def sample_labelled(
    seed, samples, samples_per_draw, scale, table, weights, problem, search, merging
):
    """Solve the samples first <= s < last of all pairs of weights (m,), under labels.

    problem is a ConstrainedProblem, search a Search for it, merging a Merging. Returns
    what `sample_free` returns, with edges as positions in the row-major list of all
    pairs.
    """
    n = len(problem.groups)
    n_samples = samples[1] - samples[0]
    noisy = np.empty((n, n + _PADDING))
    noise = np.empty(len(weights))
    forests, labels, totals, minimum_weights = _results(
        n_samples, n, problem.n_clusters
    )
    values = np.empty(len(merging.heads))
    work = workspace(len(values), n)
    accepted = work[8]
    for s in range(n_samples):
        sample = samples[0] + s
        _perturb(
            seed, sample, s == 0, samples_per_draw, scale, table, weights, noise, noisy
        )
        for e in range(len(values)):
            values[e] = noisy[merging.heads[e], merging.columns[e]]
        n_edges = heaviest_forest(
            values,
            merging.first_blocks,
            merging.second_blocks,
            merging.n_edges,
            merging.cuts,
            work,
        )
        joining = accepted[:n_edges]
        heads = merging.heads[joining]
        columns = merging.columns[joining]
        component = joined_components(problem.groups, problem.colours, heads, columns)
        improve(noisy, component, problem, search)
        labels[s] = component
        totals[s], minimum_weights[s] = _record(search.up, noisy, forests[s])
    return forests, labels, totals, minimum_weights


@compiled(nogil=True)
def sample_linked(
    seed, samples, samples_per_draw, scale, table, weights, problem, search
):
    """As `sample_labelled`, under cannot-links, from greedy or coloured partitions."""
    n = len(problem.groups)
    n_samples = samples[1] - samples[0]
    noisy = np.empty((n, n + _PADDING))
    noise = np.empty(len(weights))
    forests, labels, totals, minimum_weights = _results(
        n_samples, n, problem.n_clusters
    )
    component = np.empty(n, dtype=np.int64)
    for s in range(n_samples):
        sample = samples[0] + s
        _perturb(
            seed, sample, s == 0, samples_per_draw, scale, table, weights, noise, noisy
        )
        constrained_tree(noisy, component, problem, search)
        labels[s] = component
        totals[s], minimum_weights[s] = _record(search.up, noisy, forests[s])
    return forests, labels, totals, minimum_weights
