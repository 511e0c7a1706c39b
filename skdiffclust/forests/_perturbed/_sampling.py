"""Forests of noisy copies of an edge list, free and constrained."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._constrained._checked import take
from skdiffclust.forests._constrained._compiled_tree import improve
from skdiffclust.forests._perturbed._heaviest_forest import (
    heaviest_forest,
    sort_chunk,
    workspace,
)
from skdiffclust.forests._perturbed._noise import draw_sample, noise_workspace
from skdiffclust.forests._trees._union_find import number_components, singletons

# Where n is a power of 2, the rows of a column would share one line of the cache.
_PADDING = 8


@compiled(nogil=True)
def heaviest_forests(weights, draws, n_samples, ends, n_edges, cuts):
    """Find the heaviest forests of noisy copies of the weights (m,) of an edge list.

    draws are those of `draw_sample`, ends (heads, tails) the vertices that edges join,
    cuts from `cuts_of`. Returns the edges of every forest (n_samples, n_edges) as
    positions in the list, heaviest first, its components (n_samples, n), and its weight
    (n_samples,).
    """
    heads, tails = ends
    n = len(draws[-2]) - 1
    m = len(weights)
    work = workspace(m, n)
    component = work[7]
    accepted = work[8]
    noise_work = noise_workspace(n, m)
    values = np.empty(m)
    forests = np.empty((n_samples, n_edges), dtype=np.int32)
    labels = np.empty((n_samples, n), dtype=np.int64)
    totals = np.zeros(n_samples)
    for s in range(n_samples):
        scale = draw_sample(draws, s, noise_work)
        for e in range(m):
            values[e] = weights[e] + scale * noise_work[-1][e]
        heaviest_forest(values, heads, tails, n_edges, cuts, work)
        for v in range(n):
            labels[s, v] = component[v]
        for a in range(n_edges):
            forests[s, a] = accepted[a]
            totals[s] += values[accepted[a]]
    return forests, labels, totals


@compiled(nogil=True)
def improve_samples(weights, draws, problem, search, labels):
    """Move groups between the components of noisy copies of weights (m,), in place.

    The edges are all pairs of n rows, draws those of `draw_sample`, problem is a
    ConstrainedProblem, search a Search for it, and labels (s, n) are components to
    start from. Returns the edges of every forest (s, n - k) as positions in the list,
    and its weight (s,).
    """
    n_samples, n = labels.shape
    noisy = np.empty((n, n + _PADDING))
    work = noise_workspace(n, len(weights))
    component = np.empty(n, dtype=np.int64)
    forests = np.empty((n_samples, n - problem.n_clusters), dtype=np.int32)
    totals = np.zeros(n_samples)
    for s in range(n_samples):
        scale = draw_sample(draws, s, work)
        e = 0
        for i in range(n):
            component[i] = labels[s, i]
            for j in range(i + 1, n):
                value = weights[e] + scale * work[-1][e]
                noisy[i, j] = value
                noisy[j, i] = value
                e += 1
        improve(noisy, component, problem, search)
        a = 0
        for v in range(n):
            labels[s, v] = component[v]
            if search.up[v] >= 0:
                i = min(v, search.up[v])
                j = max(v, search.up[v])
                forests[s, a] = i * (2 * n - i - 1) // 2 + j - i - 1
                totals[s] += noisy[i, j]
                a += 1
    return forests, totals


@compiled(nogil=True)
def join_greedily(weights, draws, ends, groups, classes, enemies, n_clusters, labels):
    """Find components of noisy copies of weights (m,) by greedy joins under links.

    By Kruskal's algorithm without the edges that the links forbid. draws are those of
    `draw_sample`, ends (heads, tails) of pairs of rows in groups (n,); classes
    (n_groups,) and enemies, from `linked_lists`, say which groups must be separated.
    Writes to labels (s, n), but leaves a sample as it is where the algorithm ends with
    more than `n_clusters` components.
    """
    heads, tails = ends
    n = len(groups)
    m = len(weights)
    n_joins = len(classes) - n_clusters
    values = np.empty(m)
    noise_work = noise_workspace(n, m)
    everything = np.arange(m).astype(np.int32)
    _, _, starts, placed, order, _, _, _, _ = workspace(m, n)
    who, following, first, last, counts = enemies
    for s in range(len(labels)):
        scale = draw_sample(draws, s, noise_work)
        for e in range(m):
            values[e] = weights[e] + scale * noise_work[-1][e]
        sort_chunk(values, everything, m, (starts, placed, order))
        parents = singletons(len(classes))
        trees = parents, np.ones(len(classes), dtype=np.int64), classes.copy()
        lists = who, following.copy(), first.copy(), last.copy(), counts.copy()
        taken = take(order, (heads, tails, -values, groups), trees, lists, n_joins)
        if len(taken) == n_joins:
            component, _ = number_components(parents)
            for i in range(n):
                labels[s, i] = component[groups[i]]
