"""Forests of noisy copies of an edge list, free and constrained."""

import numpy as np

from skdiffclust._compiled import compiled, inner
from skdiffclust.forests._constrained._checked import take
from skdiffclust.forests._constrained._dense_trees import tree_of_rows
from skdiffclust.forests._perturbed._heaviest_forest import (
    edges_between,
    heaviest_forest,
    sort_chunk,
    workspace,
)
from skdiffclust.forests._perturbed._noise import draw_sample, noise_workspace
from skdiffclust.forests._trees._components import number_components
from skdiffclust.forests._trees._union_find import find

# Where n is a power of 2, the rows of a column would share one line of the cache.
_PADDING = 8


def heaviest_forests(weights, draws, n_samples, ends, n_edges, cuts):
    """Find the heaviest forests of noisy copies of the weights (m,) of an edge list.

    draws are those of `draw_sample`, ends (heads, tails) the vertices that edges join,
    cuts from `cuts_of`. Returns the edges of every forest (n_samples, n_edges) as
    positions in the list, heaviest first, its components (n_samples, n), and its weight
    (n_samples,).
    """
    n = len(draws[-2]) - 1
    m = len(weights)
    forests = _empty_forests(n_samples, n_edges, n)
    work = np.empty(m), workspace(m, n), noise_workspace(n, m)
    _write_heaviest(weights, draws, ends, cuts, work, forests)
    return forests


def _empty_forests(n_samples, n_edges, n):
    """Return arrays for what `heaviest_forests` returns."""
    return (
        np.empty((n_samples, n_edges), dtype=np.int32),
        np.empty((n_samples, n), dtype=np.int64),
        np.zeros(n_samples),
    )


@compiled(nogil=True)
def _write_heaviest(weights, draws, ends, cuts, work, results):
    """Write the results of `heaviest_forests`."""
    values, own, noise_work = work
    component = own[7]
    accepted = own[8]
    forests, labels, totals = results
    n_edges = forests.shape[1]
    for s in range(len(totals)):
        scale = draw_sample(draws, s, noise_work)
        for e in range(len(weights)):
            values[e] = weights[e] + scale * noise_work[-1][e]
        heaviest_forest(values, ends, n_edges, cuts, own)
        for v in range(len(component)):
            labels[s, v] = component[v]
        for a in range(n_edges):
            forests[s, a] = accepted[a]
            totals[s] += values[accepted[a]]


def constrained_forests(
    weights, draws, n_samples, kept, rules, groups, n_clusters, cuts
):
    """Find constrained forests of noisy copies of the weights (m,) of all pairs.

    Kruskal's algorithm leaves out the edges that would join two classes or the sides of
    a conflict; each of its components then gets a maximum spanning tree. draws are
    those of `draw_sample`, kept the positions of the edges that may be needed, and the
    groups that they join. rules are classes (n_groups,), whether each is a single
    group, and conflicts, as of `linked_lists`; the second ones are for samples in which
    the algorithm ends with more than `n_clusters` components under the first. groups
    (n,) are samples that must share a component. Returns what `heaviest_forests` does.
    """
    n = len(groups)
    n_kept = len(kept[0])
    forests = _empty_forests(n_samples, n - n_clusters, n)
    noisy = np.empty((n, n + _PADDING))
    noise_work = noise_workspace(n, len(weights))
    places = np.empty((2, n), dtype=np.int64)
    work = noisy, np.empty(n_kept), workspace(n_kept, n), noise_work, places
    _write_constrained(
        weights, draws, kept, rules, groups, n_clusters, cuts, work, forests
    )
    return forests


@compiled(nogil=True)
def _write_constrained(
    weights, draws, kept, rules, groups, n_clusters, cuts, work, results
):
    """Write the results of `constrained_forests`."""
    n = len(groups)
    places, ends = kept
    noisy, values, own, noise_work, lists = work
    rows = lists[0]
    up = lists[1]
    forests, labels, totals = results
    for s in range(len(totals)):
        scale = draw_sample(draws, s, noise_work)
        e = 0
        for i in range(n):
            for j in range(i + 1, n):
                noisy[i, j] = weights[e] + scale * noise_work[-1][e]
                noisy[j, i] = noisy[i, j]
                e += 1
        for c in range(len(places)):
            values[c] = weights[places[c]] + scale * noise_work[-1][places[c]]
        numbers, n_found = join(values, ends, rules[0], n_clusters, cuts, own)
        if n_found > n_clusters:
            numbers, _ = join(values, ends, rules[1], n_clusters, cuts, own)
        starts = np.zeros(n_clusters + 1, dtype=np.int64)
        for v in range(n):
            labels[s, v] = numbers[groups[v]]
            starts[labels[s, v] + 1] += 1
        for c in range(n_clusters):
            starts[c + 1] += starts[c]
        filled = starts.copy()
        for v in range(n):
            rows[filled[labels[s, v]]] = v
            filled[labels[s, v]] += 1
        for c in range(n_clusters):
            tree_of_rows(noisy, rows[starts[c] : starts[c + 1]], up)
        a = 0
        for v in range(n):
            if up[v] >= 0:
                i = min(v, up[v])
                j = max(v, up[v])
                forests[s, a] = i * (2 * n - i - 1) // 2 + j - i - 1
                totals[s] += noisy[i, j]
                a += 1


@inner
def join(values, ends, rules, n_clusters, cuts, work):
    """Return the component (n_groups,) of each group, and their number.

    Components are joined by the heaviest edges that the rules allow, down to
    `n_clusters` components or until no edge is left. As in `heaviest_forest`, the edges
    between two cuts are sorted at a time.
    """
    classes, is_class, (who, following, first, last, counts) = rules
    keys, chunk, starts, placed, order, _, _, root, _ = work
    n_groups = len(classes)
    everyone = np.arange(n_groups)
    parents = everyone.copy()
    classes_of_trees = classes.copy()
    trees = parents, np.ones(n_groups, dtype=np.int64), classes_of_trees
    lists = who, following.copy(), first.copy(), last.copy(), counts.copy()
    edges = ends[0], ends[1], values, everyone
    missing = n_groups - n_clusters
    above = np.inf
    for cut in cuts:
        if missing == 0:
            break
        for g in range(n_groups):
            root[g] = find(parents, g)
            # Two trees that have a class never join.
            if is_class and classes_of_trees[root[g]] >= 0:
                root[g] = n_groups
        n_chunk = edges_between(values, cut, above, ends, root, keys, chunk)
        if n_chunk:
            sort_chunk(keys, chunk, n_chunk, (starts, placed, order))
            taken = take(order[:n_chunk], edges, trees, lists, missing)
            missing -= len(taken)
        above = cut
    return number_components(parents)
