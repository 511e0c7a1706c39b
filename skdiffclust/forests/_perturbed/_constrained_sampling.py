"""Constrained forests of noisy copies of a dense similarity."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._constrained._checked import take
from skdiffclust.forests._constrained._compiled_tree import improve
from skdiffclust.forests._perturbed._heaviest_forest import sort_chunk, workspace
from skdiffclust.forests._perturbed._noise import draw_list, noise_workspace
from skdiffclust.forests._trees._union_find import number_components, singletons

# Where n is a power of 2, the rows of a column would share one line of the cache.
_PADDING = 8


@compiled(nogil=True)
def _record(up, noisy, forest):
    """Write the edges (n - k,) of `up` (n,) as positions in the row-major list.

    Returns their weight.
    """
    n = len(up)
    a = 0
    total = 0.0
    for v in range(n):
        if up[v] >= 0:
            i = min(v, up[v])
            j = max(v, up[v])
            forest[a] = i * (2 * n - i - 1) // 2 + j - i - 1
            total += noisy[i, j]
            a += 1
    return total


@compiled(nogil=True)
def improve_samples(
    seed, samples, samples_per_draw, scale, table, edges, problem, search, labels
):
    """Move groups between the components of the samples first <= s < last, in place.

    The edges are all pairs of n rows, problem is a ConstrainedProblem, search a Search
    for it, and labels (s, n) are components to start from. Returns the edges of every
    forest (s, n - k) as positions in the list, and its weight (s,).
    """
    weights, indptr, columns, _, _ = edges
    n_samples, n = labels.shape
    noisy = np.empty((n, n + _PADDING))
    noise = np.empty(len(weights))
    scratch = noise_workspace(n)
    component = np.empty(n, dtype=np.int64)
    forests = np.empty((n_samples, n - problem.n_clusters), dtype=np.int32)
    totals = np.empty(n_samples)
    for s in range(n_samples):
        draw = (samples[0] + s) // samples_per_draw
        antithetic_index = (samples[0] + s) % samples_per_draw
        sign = 1.0
        if antithetic_index and s and table[0, 0] == -table[512, 0]:
            # The mirror image of a symmetric draw is its negative, bit for bit.
            sign = -1.0
        else:
            draw_list(
                seed, draw, antithetic_index, indptr, columns, table, scratch, noise
            )
        e = 0
        for i in range(n):
            component[i] = labels[s, i]
            for j in range(i + 1, n):
                value = weights[e] + sign * scale * noise[e]
                noisy[i, j] = value
                noisy[j, i] = value
                e += 1
        improve(noisy, component, problem, search)
        for i in range(n):
            labels[s, i] = component[i]
        totals[s] = _record(search.up, noisy, forests[s])
    return forests, totals


@compiled(nogil=True)
def join_greedily(
    seed,
    samples,
    samples_per_draw,
    scale,
    table,
    edges,
    groups,
    classes,
    enemies,
    n_clusters,
    labels,
):
    """Find the components of the samples by Kruskal's algorithm under cannot-links.

    The edges are all pairs of rows in groups (n,); classes (n_groups,) and enemies,
    from `linked_lists`, say which groups must be separated. Writes to labels (s, n),
    but leaves a sample as it is where the algorithm ends with more than `n_clusters`.
    """
    weights, indptr, columns, heads, tails = edges
    n = len(groups)
    m = len(weights)
    n_joins = len(classes) - n_clusters
    scratch = noise_workspace(n)
    noise = np.empty(m)
    values = np.empty(m)
    lengths = np.empty(m)
    everything = np.arange(m).astype(np.int32)
    _, _, starts, placed, order, _, _, _, _ = workspace(m, n)
    who, following, first, last, counts = enemies
    for s in range(len(labels)):
        draw, antithetic_index = divmod(samples[0] + s, samples_per_draw)
        draw_list(seed, draw, antithetic_index, indptr, columns, table, scratch, noise)
        for e in range(m):
            values[e] = weights[e] + scale * noise[e]
            lengths[e] = -values[e]
        sort_chunk(values, everything, m, (starts, placed, order))
        parents = singletons(len(classes))
        trees = parents, np.ones(len(classes), dtype=np.int64), classes.copy()
        lists = who, following.copy(), first.copy(), last.copy(), counts.copy()
        taken = take(order, (heads, tails, lengths, groups), trees, lists, n_joins)
        if len(taken) == n_joins:
            component, _ = number_components(parents)
            for i in range(n):
                labels[s, i] = component[groups[i]]
