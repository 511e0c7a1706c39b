"""Partitions under constraints: contraction, greedy with conflicts, single moves."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._dense_trees import (
    heaviest_first,
    tree_of_blocks,
    tree_of_rows,
)
from skdiffclust.forests._union_find import find, singletons, union

_MAX_SWEEPS = 20
_TOLERANCE = 1e-12


@compiled(nogil=True)
def _number_components(parents):
    """Components (n,) from 0 in the order of their first row, and how many."""
    n = len(parents)
    number, component = np.full(n, -1, dtype=np.int64), np.empty(n, dtype=np.int64)
    n_components = 0
    for i in range(n):
        root = find(parents, i)
        if number[root] < 0:
            number[root] = n_components
            n_components += 1
        component[i] = number[root]
    return component, n_components


@compiled(nogil=True)
def contract(similarity, groups, colours, n_clusters):
    """Partition (n,) of the best forest in which every colour is one component.

    groups (n,) number the rows that share a component; colours (n_groups,) are -1, or
    0 to c - 1. All coloured rows are contracted into one vertex and every other group
    into one; the heaviest edges of the tree of that graph are kept. Needs
    c <= n_clusters <= c + number of groups without a colour.
    """
    n, n_groups = len(groups), len(colours)
    block, first = np.empty(n, dtype=np.int64), np.full(n_groups + 1, -1)
    number, n_blocks, n_colours = np.full(n_groups + 1, -1), 0, 0
    for i in range(n):
        group = groups[i]
        slot = n_groups if colours[group] >= 0 else group
        n_colours = max(n_colours, colours[group] + 1)
        if number[slot] < 0:
            number[slot] = n_blocks
            n_blocks += 1
        block[i] = number[slot]
    edges, weights = tree_of_blocks(similarity, block, n_blocks)
    order = heaviest_first(edges, weights, n)
    parents, sizes = singletons(n), np.ones(n, dtype=np.int64)
    first_of_colour = np.full(n_colours, -1)
    for i in range(n):
        group, colour = groups[i], colours[groups[i]]
        if first[group] < 0:
            first[group] = i
        anchor = first[group]
        if colour >= 0:
            if first_of_colour[colour] < 0:
                first_of_colour[colour] = i
            anchor = first_of_colour[colour]
        root, other = find(parents, anchor), find(parents, i)
        if root != other:
            union(parents, sizes, root, other)
    n_kept = n_blocks - (n_colours > 0) + n_colours - n_clusters
    for e in order[:n_kept]:
        union(parents, sizes, find(parents, edges[e, 0]), find(parents, edges[e, 1]))
    return _number_components(parents)[0]


@compiled(nogil=True)
def merge_greedily(similarity, groups, conflicts, n_clusters):
    """Partition (n,) by Kruskal between groups that skips what conflicts forbid.

    conflicts (n_groups, n_groups) is bool and symmetric. Stops at n_clusters
    components, or earlier where all pairs left conflict: returns their number too.
    """
    n, n_groups = len(groups), len(conflicts)
    best = np.full((n_groups, n_groups), -np.inf)
    for i in range(n):
        for j in range(n):
            a, b = groups[i], groups[j]
            best[a, b] = max(best[a, b], similarity[i, j])
    clashes = conflicts.copy()
    parents, sizes = singletons(n_groups), np.ones(n_groups, dtype=np.int64)
    left, right = np.triu_indices(n_groups, 1)
    values = np.empty(len(left))
    for e in range(len(left)):
        values[e] = best[left[e], right[e]]
    n_components = n_groups
    for e in np.argsort(-values, kind="mergesort"):
        if n_components == n_clusters:
            break
        a, b = find(parents, left[e]), find(parents, right[e])
        if a == b or clashes[a, b]:
            continue
        root = union(parents, sizes, a, b)
        both = clashes[a] | clashes[b]
        clashes[root, :] = both
        clashes[:, root] = both
        n_components -= 1
    component, _ = _number_components(parents)
    return component[groups], n_components


@compiled(nogil=True)
def forest_state(n, n_clusters):
    """Arrays of a forest: of rows (n,) up, previous, above; of trees (k,) last, total.

    ``up[v]`` is the neighbour of v towards its root and ``above[v]`` the weight of that
    edge; from ``last[c]`` along `previous` every row comes before its neighbour.
    """
    return (
        np.full(n, -1, dtype=np.int64),
        np.full(n, -1, dtype=np.int64),
        np.zeros(n),
        np.full(n_clusters, -1, dtype=np.int64),
        np.zeros(n_clusters),
    )


@compiled(nogil=True)
def grow_tree(similarity, component, c, state):
    """Solve component c by its own tree."""
    up, previous, above, last, totals = state
    rows = np.flatnonzero(component == c)
    totals[c] = tree_of_rows(similarity, rows, up)
    earlier = -1
    for v in rows:
        previous[v] = earlier
        if up[v] >= 0:
            above[v] = similarity[v, up[v]]
        earlier = v
    last[c] = earlier


@compiled(nogil=True)
def _weight_with(similarity, v, c, state, best):
    """Weight of the tree of component c and row v. O(size).

    From the leaves up, each row sends its best way to v, or the edge above it if that
    is the lighter of the two, to the row above; the heavier one stays. best (n,) is
    scratch.
    """
    up, previous, above, last, _ = state
    u, total = last[c], 0.0
    while u >= 0:
        best[u] = similarity[v, u]
        u = previous[u]
    u = last[c]
    while up[u] >= 0:
        total += max(best[u], above[u])
        best[up[u]] = max(best[up[u]], min(best[u], above[u]))
        u = previous[u]
    return total + best[u]


@compiled(nogil=True)
def _may_join(group, target, groups, component, conflicts):
    """Whether no group in component `target` conflicts with `group`."""
    for j in range(len(groups)):
        if component[j] == target and conflicts[group, groups[j]]:
            return False
    return True


@compiled(nogil=True)
def _best_move(similarity, rows, component, groups, conflicts, state, news, scratch):
    """Best component for the rows of a group, or the one where they are.

    Components without news (k,) have been tried; scratch is (n,) float64 and int64.
    """
    totals, k = state[4], len(state[4])
    group, home, v = groups[rows[0]], component[rows[0]], rows[0]
    target, gain, without = home, _TOLERANCE * (1.0 + abs(totals[home])), np.nan
    most = np.inf
    if len(rows) == 1:
        # A row leaves with at least its best edge: those left behind lose no less.
        most = -np.inf
        u = state[3][home]
        while u >= 0:
            if u != v:
                most = max(most, similarity[v, u])
            u = state[1][u]
        most = totals[home] - most
    for c in range(k):
        if c == home or not (news[c] or news[home]):
            continue
        if len(rows) == 1:
            joined = _weight_with(similarity, v, c, state, scratch[0])
            if joined + most - totals[c] - totals[home] <= gain:
                continue
        if not _may_join(group, c, groups, component, conflicts):
            continue
        if np.isnan(without):
            kept = np.flatnonzero((component == home) & (groups != group))
            without = tree_of_rows(similarity, kept, scratch[1])
        if len(rows) > 1:
            members = np.flatnonzero((component == c) | (groups == group))
            joined = tree_of_rows(similarity, members, scratch[1])
        change = joined + without - totals[c] - totals[home]
        if change > gain:
            target, gain = c, change
    return target


@compiled(nogil=True)
def move_groups(similarity, component, groups, conflicts, state):
    """Move one group at a time to another component while the forest gets heavier.

    Changes component (n,) and the state in place.
    """
    n, n_groups = len(groups), len(conflicts)
    order = np.argsort(groups, kind="mergesort")
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    sizes = np.zeros(len(state[4]), dtype=np.int64)
    for i in range(n):
        starts[groups[i] + 1] += 1
        sizes[component[i]] += 1
    starts = np.cumsum(starts)
    scratch = np.empty(n), np.empty(n, dtype=np.int64)
    # When a component last changed, and when a group was last tried, in steps.
    changed = np.zeros(len(state[4]), dtype=np.int64)
    tried = np.full(n_groups, -1, dtype=np.int64)
    n_idle, group = 0, 0
    for step in range(_MAX_SWEEPS * n_groups):
        rows = order[starts[group] : starts[group + 1]]
        home = component[rows[0]]
        n_idle += 1
        if sizes[home] > len(rows):
            news = changed > tried[group]
            tried[group] = step
            target = _best_move(
                similarity, rows, component, groups, conflicts, state, news, scratch
            )
            if target != home:
                changed[home] = changed[target] = step
                component[rows] = target
                sizes[home] -= len(rows)
                sizes[target] += len(rows)
                grow_tree(similarity, component, home, state)
                grow_tree(similarity, component, target, state)
                n_idle = 0
        if n_idle == n_groups:
            break
        group = (group + 1) % n_groups
