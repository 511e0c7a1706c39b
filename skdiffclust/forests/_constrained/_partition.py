"""Partitions under constraints: contraction, greedy with conflicts, single moves."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._constrained._dense_trees import (
    heaviest_first,
    tree_of_blocks,
    tree_of_rows,
)
from skdiffclust.forests._trees._union_find import find, singletons, union

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
    block = np.empty(n, dtype=np.int64)
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
    n_kept = n_blocks - (n_colours > 0) + n_colours - n_clusters
    kept = edges[order[:n_kept]]
    return joined_components(groups, colours, kept[:, 0], kept[:, 1])


@compiled(nogil=True)
def joined_components(groups, colours, heads, tails):
    """Components (n,) of the rows that groups, colours and edges (m,) join."""
    n, n_groups = len(groups), len(colours)
    # The first row of each group, or of each colour.
    first = np.full(2 * n_groups, -1)
    parents, sizes = singletons(n), np.ones(n, dtype=np.int64)
    for i in range(n):
        colour = colours[groups[i]]
        slot = groups[i] if colour < 0 else n_groups + colour
        if first[slot] < 0:
            first[slot] = i
        root, other = find(parents, first[slot]), find(parents, i)
        if root != other:
            union(parents, sizes, root, other)
    for e in range(len(heads)):
        union(parents, sizes, find(parents, heads[e]), find(parents, tails[e]))
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
    """Arrays of rows (n,) up, previous, above, best; of trees (k,) last, total, least.

    ``up[v]`` is the neighbour of v towards its root and ``above[v]`` the weight of that
    edge; from ``last[c]`` along `previous` every row comes before its neighbour. The
    heaviest edge of v in its tree weighs ``best[v]``, the lightest of a tree
    ``least[c]``.
    """
    return (
        np.full(n, -1, dtype=np.int64),
        np.full(n, -1, dtype=np.int64),
        np.zeros(n),
        np.zeros(n),
        np.full(n_clusters, -1, dtype=np.int64),
        np.zeros(n_clusters),
        np.zeros(n_clusters),
    )


@compiled(nogil=True)
def grow_tree(similarity, component, c, state):
    """Solve component c by its own tree."""
    up, previous, above, best, last, totals, least = state
    rows = np.flatnonzero(component == c)
    totals[c], least[c] = tree_of_rows(similarity, rows, up), np.inf
    best[rows], earlier = -np.inf, -1
    for v in rows:
        previous[v] = earlier
        if up[v] >= 0:
            above[v] = similarity[v, up[v]]
            least[c] = min(least[c], above[v])
            best[v] = max(best[v], above[v])
            best[up[v]] = max(best[up[v]], above[v])
        earlier = v
    last[c] = earlier


@compiled(nogil=True)
def _weight_with(similarity, v, c, state, best):
    """Weight of the tree of component c and row v. O(size).

    From the leaves up, each row sends its best way to v, or the edge above it if that
    is the lighter of the two, to the row above; the heavier one stays. best (n,) is
    scratch.
    """
    up, previous, above, _, last, _, _ = state
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
def _members(labels, k):
    """Rows in the order of their labels (n,) below k, and where each label starts."""
    starts = np.zeros(k + 1, dtype=np.int64)
    for label in labels:
        starts[label + 1] += 1
    starts = np.cumsum(starts)
    filled, order = starts.copy(), np.empty(len(labels), dtype=np.int64)
    for i in range(len(labels)):
        order[filled[labels[i]]] = i
        filled[labels[i]] += 1
    return order, starts


@compiled(nogil=True)
def _may_join(group, members, groups, conflicts):
    """Whether no row of `members` (m,) is in a group that conflicts with `group`."""
    for j in members:
        if conflicts[group, groups[j]]:
            return False
    return True


# The order of a sum may change: a bound has room for the last bits.
@compiled(nogil=True, fastmath={"reassoc", "nsz", "nnan"})
def _bound_joining(values, order, starts, least, asked, bounds):
    """Bound from above (k,) what a row adds to the trees `asked`, by its values (n,).

    The best of its edges to the members, and of all what they have over the lightest
    edge of the tree: each one more takes the place of an edge.
    """
    for c in range(len(least)):
        if not asked[c]:
            continue
        top, total, floor = -np.inf, 0.0, least[c]
        for p in range(starts[c], starts[c + 1]):
            value = values[order[p]]
            top = max(top, value)
            total += max(value - floor, 0.0)
        bounds[c] = total + min(top, floor)


@compiled(nogil=True)
def _best_move(
    similarity, rows, inside, component, groups, conflicts, state, asked, scratch
):
    """Best component for the rows of a group, or the one where they are.

    `inside` are the `_members` of the components; those not `asked` (k,) were tried;
    scratch is (k,) and (n,) float64 and (n,) int64.
    """
    best, totals = state[3], state[5]
    bounds, work, trial = scratch
    group, home, v = groups[rows[0]], component[rows[0]], rows[0]
    target, gain, without = home, _TOLERANCE * (1.0 + abs(totals[home])), np.nan
    if len(rows) == 1:
        _bound_joining(similarity[v], inside[0], inside[1], state[6], asked, bounds)
    for c in range(len(totals)):
        if c == home or not asked[c]:
            continue
        # A row leaves with at least its best edge: those left behind lose no less.
        if len(rows) == 1 and bounds[c] - best[v] <= 0.5 * gain:
            continue
        members = inside[0][inside[1][c] : inside[1][c + 1]]
        if not _may_join(group, members, groups, conflicts):
            continue
        if len(rows) == 1:
            joined = _weight_with(similarity, v, c, state, work)
            if joined - totals[c] - best[v] <= gain:
                continue
        if np.isnan(without):
            kept = np.flatnonzero((component == home) & (groups != group))
            without = tree_of_rows(similarity, kept, trial)
        if len(rows) > 1:
            both = np.flatnonzero((component == c) | (groups == group))
            joined = tree_of_rows(similarity, both, trial)
        change = joined + without - totals[c] - totals[home]
        if change > gain:
            target, gain = c, change
    return target


@compiled(nogil=True)
def move_groups(similarity, component, groups, conflicts, state):
    """Move one group at a time to another component while the forest gets heavier.

    Changes component (n,) and the state in place.
    """
    n_groups, k = len(conflicts), len(state[5])
    order, starts = _members(groups, n_groups)
    inside = _members(component, k)
    scratch = np.empty(k), np.empty(len(groups)), np.empty(len(groups), dtype=np.int64)
    # When a component last changed, and when a group was last tried, in steps.
    changed, latest = np.zeros(k, dtype=np.int64), 0
    tried = np.full(n_groups, -1, dtype=np.int64)
    asked = np.empty(k, dtype=np.bool_)
    n_idle, group = 0, 0
    for step in range(_MAX_SWEEPS * n_groups):
        rows = order[starts[group] : starts[group + 1]]
        home = component[rows[0]]
        n_idle += 1
        if inside[1][home + 1] - inside[1][home] > len(rows):
            since, tried[group], target = tried[group], step, home
            for c in range(k):
                asked[c] = max(changed[c], changed[home]) > since
            if latest > since:
                target = _best_move(
                    similarity,
                    rows,
                    inside,
                    component,
                    groups,
                    conflicts,
                    state,
                    asked,
                    scratch,
                )
            if target != home:
                changed[home] = changed[target] = latest = step
                component[rows] = target
                inside = _members(component, k)
                grow_tree(similarity, component, home, state)
                grow_tree(similarity, component, target, state)
                n_idle = 0
        if n_idle == n_groups:
            break
        group = (group + 1) % n_groups
