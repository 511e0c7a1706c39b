"""The forest under constraints: contraction, a tree for each component, moves.

The gain of a tree from a group is recomputed only if that tree has changed, and only if
an upper bound allows an improvement; the loss of the group's own tree only for the
proposals that are reached.
"""

from typing import NamedTuple

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._constrained._dense_trees import tree_of_rows
from skdiffclust.forests._constrained._partition import contract, merge_greedily

# Largest number of rounds of moves; more than 40 have never been observed.
MAX_ROUNDS = 100
# Gains are compared in units of this, times the largest similarity, so that differences
# due to rounding or to the order of summation are ties.
UNIT = 1e-10
# Rows up to which a tree is grown afresh in less time than rows are inserted.
_FEW_ROWS = 48


class Search(NamedTuple):
    """State of the search for a heavier forest.

    Attributes
    ----------
    up, above, best : ndarray of shape (n,)
        Neighbour of each row towards its root, or -1; weight of that edge; weight of
        the heaviest edge of the row in its tree.
    rows : ndarray of shape (n,)
        Rows tree by tree, every row after its neighbour.
    starts : ndarray of shape (k + 1,)
        Where the rows of each tree start.
    totals, least, masses : ndarray of shape (k,)
        Weight of each tree, and of its lightest edge; weight of its samples.
    changed, used : ndarray of shape (k,), bool
        Components whose tree is to be grown; those that this round has changed.
    members, firsts : ndarray of shape (n,) and (n_groups + 1,)
        Rows group by group, and where each group starts.
    clashes : ndarray of shape (n_groups,), bool
        Groups with a conflict.
    loads : ndarray of shape (n_groups,)
        Weight of the samples of each group.
    added : ndarray of shape (n_groups, k), float64
        What a tree gains with a group; or an upper bound of it, without the tree of the
        group alone.
    is_exact, may_join : ndarray of shape (n_groups, k), bool
        Whether that is exact; whether the component has no conflict with the group.
    targets, top, lost, gains : ndarray of shape (n_groups,)
        Best component for each group; what it adds there, what its tree loses without
        it, and the difference of the two, or an upper bound of it, in units.
    is_known : ndarray of shape (n_groups,), bool
        Whether the loss is known.
    ways, piece, some, others : ndarray of shape (n,)
        Scratch.
    """

    up: np.ndarray
    above: np.ndarray
    best: np.ndarray
    rows: np.ndarray
    starts: np.ndarray
    totals: np.ndarray
    least: np.ndarray
    masses: np.ndarray
    changed: np.ndarray
    used: np.ndarray
    members: np.ndarray
    firsts: np.ndarray
    clashes: np.ndarray
    loads: np.ndarray
    added: np.ndarray
    is_exact: np.ndarray
    may_join: np.ndarray
    targets: np.ndarray
    top: np.ndarray
    lost: np.ndarray
    gains: np.ndarray
    is_known: np.ndarray
    ways: np.ndarray
    piece: np.ndarray
    some: np.ndarray
    others: np.ndarray


@compiled(nogil=True)
def constrained_tree(similarity, problem):
    """Return a heavy spanning k-forest that satisfies constraints.

    1. *Contraction.* All coloured samples become one vertex, every other group one,
       and the heaviest edges of the maximum spanning tree of that graph are kept. With
       cannot-links, Kruskal's algorithm that skips the edges they forbid is tried
       first.
    2. *Own trees.* Each component gets its own maximum spanning tree, which is the
       best forest of that partition.
    3. *Moves.* Single samples, or groups, move to other components while the forest
       gets heavier: see `improve_forest`.

    Never lighter than the greedy forest of the paper, and exact with at most one
    labelled sample in a class; otherwise the optimum is NP-hard.

    Parameters
    ----------
    similarity : ndarray of shape (n_samples, n_samples), float64
        Symmetric; the diagonal is not read.
    problem : ConstrainedProblem

    Returns
    -------
    labels : ndarray of shape (n_samples,), int64
        Component of each sample, at the start from 0 in the order of first samples.
    up : ndarray of shape (n_samples,), int64
        Neighbour of each sample towards the root of its tree, -1 at a root.

    Notes
    -----
    O(n²) time for each round of moves and O(n² + n_groups k) memory. NeurIPS 2023,
    Definition 5; its greedy algorithm (Section 9.1) is where this one starts.
    """
    n_found = -1
    if problem.greedy:
        component, n_found = merge_greedily(similarity, problem)
    if n_found != problem.n_clusters:
        component = contract(similarity, problem)
    return improve_forest(similarity, component, problem)


@compiled(nogil=True)
def improve_forest(similarity, labels, problem):
    """Move groups to other components while their trees get heavier.

    In a round every group, a single sample or several that are linked, proposes to
    move to the component whose tree gains most with it, among those that it has no
    conflict with. What the forest gains is that, less what its own component's tree
    loses. The proposals are carried out from the largest gain down, unless they touch
    a component that has changed in this round; of equal gains the first group and the
    first component come first.

    Parameters
    ----------
    similarity : ndarray of shape (n_samples, n_samples), float64
    labels : ndarray of shape (n_samples,), int64
        Components 0 to ``problem.n_clusters - 1`` that satisfy the constraints.
    problem : ConstrainedProblem
        Its colours are not read.

    Returns
    -------
    labels, up : ndarray of shape (n_samples,), int64
        As `constrained_tree` returns.
    """
    component = labels.copy()
    search = new_search(problem)
    improve(similarity, component, problem, search)
    return component, search.up


@compiled(nogil=True)
def improve(similarity, component, problem, search):
    """Do what `improve_forest` does, in place, by a search that may have been used.

    The edges are left in ``search.up``.
    """
    search.changed[:] = True
    search.may_join[:] = True
    search.is_known[:] = False
    n_groups = len(problem.conflicts)
    unit = gain_unit(similarity)
    for _ in range(MAX_ROUNDS):
        grow_trees(similarity, component, problem, search)
        weigh_moves(similarity, component, problem, search, unit, 0, n_groups)
        search.changed[:] = False
        search.used[:] = False
        carry_out(similarity, component, search, unit, np.inf)
        if not search.used.any():
            break
    grow_trees(similarity, component, problem, search)


@compiled(nogil=True)
def new_search(problem):
    """Return the arrays of a new search."""
    n = len(problem.groups)
    k = problem.n_clusters
    n_groups = len(problem.conflicts)
    members, firsts = _by_label(problem.groups, n_groups)
    clashes = np.empty(n_groups, dtype=np.bool_)
    loads = np.zeros(n_groups)
    for g in range(n_groups):
        clashes[g] = problem.conflicts[g].any()
    for i in range(n):
        loads[problem.groups[i]] += problem.weights[i]
    return Search(
        np.full(n, -1, dtype=np.int64),
        np.empty(n),
        np.empty(n),
        np.empty(n, dtype=np.int64),
        np.zeros(k + 1, dtype=np.int64),
        np.empty(k),
        np.empty(k),
        np.empty(k),
        np.ones(k, dtype=np.bool_),
        np.zeros(k, dtype=np.bool_),
        members,
        firsts,
        clashes,
        loads,
        np.empty((n_groups, k)),
        np.empty((n_groups, k), dtype=np.bool_),
        np.ones((n_groups, k), dtype=np.bool_),
        np.empty(n_groups, dtype=np.int64),
        np.empty(n_groups),
        np.empty(n_groups),
        np.empty(n_groups),
        np.zeros(n_groups, dtype=np.bool_),
        np.empty(n),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
    )


@compiled(nogil=True)
def gain_unit(similarity):
    """Unit in which gains are compared."""
    top = 0.0
    for i in range(len(similarity) - 1):
        top = max(top, _largest(similarity[i, i + 1 : len(similarity)]))
    return UNIT * top if top > 0.0 else 1.0


# A maximum is the same in any order.
@compiled(nogil=True, fastmath={"reassoc", "nsz", "nnan"})
def _largest(values):
    """Largest absolute value (m,)."""
    top = 0.0
    for value in values:
        top = max(top, abs(value))
    return top


@compiled(nogil=True)
def _by_label(labels, k):
    """Rows in the order of their labels (n,) below k, and where each label starts."""
    starts = np.zeros(k + 1, dtype=np.int64)
    for label in labels:
        starts[label + 1] += 1
    starts = np.cumsum(starts)
    filled = starts.copy()
    order = np.empty(len(labels), dtype=np.int64)
    for i in range(len(labels)):
        order[filled[labels[i]]] = i
        filled[labels[i]] += 1
    return order, starts


@compiled(nogil=True)
def grow_trees(similarity, component, problem, search):
    """Grow the tree of each component that has changed."""
    k = len(search.changed)
    if not search.changed.any():
        return
    rows, starts = _by_label(component, k)
    for c in range(k):
        inside = rows[starts[c] : starts[c + 1]]
        if not search.changed[c]:
            inside[:] = search.rows[search.starts[c] : search.starts[c + 1]]
            continue
        search.totals[c] = tree_of_rows(similarity, inside, search.up)
        least = np.inf
        search.best[inside[0]] = -np.inf
        for v in inside[1:]:
            weight = similarity[v, search.up[v]]
            search.above[v] = weight
            search.best[v] = weight
            least = min(least, weight)
            search.best[search.up[v]] = max(search.best[search.up[v]], weight)
        search.least[c] = least
    search.rows[:] = rows
    search.starts[:] = starts
    search.masses[:] = 0.0
    for i in range(len(component)):
        search.masses[component[i]] += problem.weights[i]


@compiled(nogil=True)
def weigh_moves(similarity, component, problem, search, unit, first, last):
    """Find the best component for the groups first <= g < last, in place."""
    k = problem.n_clusters
    bounds = np.empty(k)
    asked = np.empty(k, dtype=np.bool_)
    # Taken out of the tuple once, which costs more than reading an entry.
    added = search.added
    changed = search.changed
    firsts = search.firsts
    is_exact = search.is_exact
    least = search.least
    masses = search.masses
    may_join = search.may_join
    order = search.rows
    starts = search.starts
    for g in range(first, last):
        own = search.members[firsts[g] : firsts[g + 1]]
        v = own[0]
        home = component[v]
        is_single = len(own) == 1
        for c in range(k):
            asked[c] = changed[c] and c != home
        if search.clashes[g]:
            for c in range(k):
                if asked[c]:
                    rows = order[starts[c] : starts[c + 1]]
                    may_join[g, c] = _may_join(g, rows, problem)
                    asked[c] = may_join[g, c]
        if is_single:
            _bound_joining(similarity[v], order, starts, least, asked, bounds)
        else:
            _bound_group(similarity, own, order, starts, least, asked, bounds)
        for c in range(k):
            if asked[c]:
                is_exact[g, c] = False
                added[g, c] = bounds[c]
        if changed[home]:
            search.is_known[g] = False
        search.targets[g] = -1
        search.gains[g] = 0.0
        if starts[home + 1] - starts[home] == len(own):
            continue
        if masses[home] - search.loads[g] < problem.min_size:
            continue
        # A row takes its heaviest edge along, so the rows left behind lose at least
        # that; a group takes its own tree as well, here and in what it adds.
        reach = search.best[v]
        inner = 0.0
        if not is_single:
            reach = _reach(similarity, own, component, search)
            if not _is_some_open(added[g], is_exact[g], may_join[g], home, reach):
                continue
            inner = tree_of_rows(similarity, own.copy(), search.piece)
        low = reach + inner
        top = np.rint(low / unit)
        for c in range(k):
            if c == home or not may_join[g, c]:
                continue
            if not is_exact[g, c]:
                if added[g, c] <= reach:
                    continue
                rows = order[starts[c] : starts[c + 1]]
                if is_single:
                    added[g, c] = _added(similarity, v, rows, search)
                else:
                    added[g, c] = _added_group(similarity, own, rows, component, search)
                is_exact[g, c] = True
            if added[g, c] > low and np.rint(added[g, c] / unit) > top:
                top = np.rint(added[g, c] / unit)
                search.targets[g] = c
        if search.targets[g] >= 0:
            search.top[g] = top
            lost = search.lost[g] if search.is_known[g] else np.rint(low / unit)
            search.gains[g] = top - lost


@compiled(nogil=True)
def _is_some_open(added, is_exact, may_join, home, reach):
    """Whether a group may gain by joining a component other than `home`, all (k,)."""
    for c in range(len(added)):
        if c != home and may_join[c] and (is_exact[c] or added[c] > reach):
            return True
    return False


# The order of a sum may change: the bound leaves room for rounding.
@compiled(nogil=True, fastmath={"reassoc", "nsz", "nnan"})
def _bound_joining(values, rows, starts, least, asked, bounds):
    """Bound from above what a row of values (n,) adds to the trees `asked` (k,).

    The sum of its heaviest edge and, for every further edge, what it exceeds the
    lightest edge of the tree by, since each of these replaces an edge.
    """
    for c in range(len(least)):
        if not asked[c]:
            continue
        top = -np.inf
        total = 0.0
        floor = least[c]
        for p in range(starts[c], starts[c + 1]):
            value = values[rows[p]]
            top = max(top, value)
            total += max(value - floor, 0.0)
        bounds[c] = total + min(top, floor)


@compiled(nogil=True)
def _bound_group(similarity, own, rows, starts, least, asked, bounds):
    """Bound what the rows `own` (a,) add to trees, as `_bound_joining` does for one.

    Without the weight of the tree of the rows alone. Of the edges between the two, all
    but one replace an edge of either tree, none of which is lighter than the lightest
    pair of `own` or the lightest edge of the other tree.
    """
    lightest = np.inf
    for v in own:
        for u in own:
            if u > v:
                lightest = min(lightest, similarity[v, u])
    for c in range(len(least)):
        if not asked[c]:
            continue
        floor = min(least[c], lightest)
        top = -np.inf
        total = 0.0
        for v in own:
            for p in range(starts[c], starts[c + 1]):
                value = similarity[v, rows[p]]
                top = max(top, value)
                total += max(value - floor, 0.0)
        bounds[c] = total + min(top, floor)


@compiled(nogil=True)
def _may_join(group, rows, problem):
    """Whether no row of `rows` (m,) is in a group that conflicts with `group`."""
    for j in rows:
        if problem.conflicts[group, problem.groups[j]]:
            return False
    return True


@compiled(nogil=True)
def _added(similarity, v, rows, search):
    """What row v adds to the weight of the tree of `rows` (m,). O(m).

    From the leaves up, each row compares its heaviest connection to v with the edge to
    its parent: the lighter of the two is passed on to the parent, the heavier one
    stays.
    """
    ways = search.ways
    above = search.above
    up = search.up
    total = 0.0
    for u in rows:
        ways[u] = similarity[v, u]
    for a in range(len(rows) - 1, 0, -1):
        u = rows[a]
        total += max(ways[u], above[u]) - above[u]
        ways[up[u]] = max(ways[up[u]], min(ways[u], above[u]))
    return total + ways[rows[0]]


@compiled(nogil=True)
def _added_group(similarity, own, rows, component, search):
    """What the rows `own` (a,) add to the weight of the tree of `rows` (m,). O(a m)."""
    m = len(rows)
    n = m + len(own)
    if n <= _FEW_ROWS:
        both = np.sort(np.concatenate((rows, own)))
        total = search.totals[component[rows[0]]]
        return tree_of_rows(similarity, both, search.piece) - total
    nodes = np.empty(n, dtype=np.int64)
    up = np.empty(n, dtype=np.int64)
    above = np.empty(n)
    for a in range(m):
        nodes[a] = rows[a]
        search.piece[rows[a]] = a
    for a in range(1, m):
        up[a] = search.piece[search.up[rows[a]]]
        above[a] = search.above[rows[a]]
    total = 0.0
    for v in own:
        total += _insert(similarity[v], v, nodes, up, above, m)
        m += 1
    return total


@compiled(nogil=True)
def _insert(values, v, nodes, up, above, m):
    """Insert row v, of similarities `values` (n,), into a tree of m nodes, in place.

    Nodes are numbered so that each comes after its neighbour ``up`` towards the root 0,
    to which its edge weighs ``above``. As in `_added`, the heavier of the best way to v
    and the edge above stays; the tree is then numbered again from v. Returns what its
    weight gains. O(m).
    """
    ways = np.empty(m)
    ends = np.empty((m, 2), dtype=np.int64)
    kept = np.empty((m, 2), dtype=np.int64)
    weights = np.empty(m)
    gain = 0.0
    for a in range(m):
        ways[a] = values[nodes[a]]
        ends[a, 0] = a
        ends[a, 1] = m
    for a in range(m - 1, 0, -1):
        b = up[a]
        weight = above[a]
        first = a
        second = b
        if ways[a] > weight:
            gain += ways[a] - weight
            weights[a] = ways[a]
            kept[a] = ends[a]
        else:
            weights[a] = weight
            kept[a, 0] = a
            kept[a, 1] = b
            weight = ways[a]
            first = ends[a, 0]
            second = ends[a, 1]
        if weight > ways[b]:
            ways[b] = weight
            ends[b, 0] = first
            ends[b, 1] = second
    weights[0] = ways[0]
    kept[0] = ends[0]
    nodes[m] = v

    starts = np.zeros(m + 2, dtype=np.int64)
    for e in range(m):
        starts[kept[e, 0] + 1] += 1
        starts[kept[e, 1] + 1] += 1
    starts = np.cumsum(starts)
    filled = starts[:-1].copy()
    incident = np.empty(2 * m, dtype=np.int64)
    for e in range(m):
        for side in range(2):
            a = kept[e, side]
            incident[filled[a]] = e
            filled[a] += 1
    old = nodes[: m + 1].copy()
    order = np.empty(m + 1, dtype=np.int64)
    edge_up = np.full(m + 1, -1)
    order[0] = m
    n_found = 1
    for t in range(m + 1):
        a = order[t]
        nodes[t] = old[a]
        for e in incident[starts[a] : starts[a + 1]]:
            if e != edge_up[t]:
                order[n_found] = kept[e, 0] + kept[e, 1] - a
                edge_up[n_found] = e
                up[n_found] = t
                above[n_found] = weights[e]
                n_found += 1
    return gain + ways[0]


@compiled(nogil=True)
def _reach(similarity, own, component, search):
    """Heaviest edge between the rows `own` (a,) of a group and others of its component.

    Such an edge can join the tree of the others to that of the group, and the tree of
    all is no lighter: what it loses without the group is at least this and the weight
    of the tree of the group.
    """
    home = component[own[0]]
    rows = search.rows[search.starts[home] : search.starts[home + 1]]
    piece = search.piece
    for u in rows:
        piece[u] = 1
    for u in own:
        piece[u] = 0
    top = -np.inf
    for v in own:
        for u in rows:
            if piece[u] and similarity[v, u] > top:
                top = similarity[v, u]
    return top


@compiled(nogil=True)
def _lost(similarity, group, component, search):
    """What the tree of a group's component loses without it."""
    own = search.members[search.firsts[group] : search.firsts[group + 1]]
    home = component[own[0]]
    rows = search.rows[search.starts[home] : search.starts[home + 1]]
    if len(own) == 1:
        return _lost_with_row(similarity, own[0], rows, search)
    for u in rows:
        search.piece[u] = 1
    for u in own:
        search.piece[u] = 0
    rest = np.sort(rows[search.piece[rows] > 0])
    return search.totals[home] - tree_of_rows(similarity, rest, search.piece)


@compiled(nogil=True)
def _lost_with_row(similarity, v, rows, search):
    """What the tree of `rows` (m,) loses without row v, in O(m) for a leaf.

    The pieces that are left are joined by the heaviest edge of the smallest one, again
    and again.
    """
    up = search.up
    piece = search.piece
    some = search.some
    others = search.others
    sizes = np.zeros(len(rows), dtype=np.int64)
    n_pieces = 0
    lost = 0.0
    for u in rows:
        if u == v:
            lost += search.above[v] if up[v] >= 0 else 0.0
            continue
        if up[u] == v or up[u] < 0:
            lost += search.above[u] if up[u] == v else 0.0
            piece[u] = n_pieces
            n_pieces += 1
        else:
            piece[u] = piece[up[u]]
        sizes[piece[u]] += 1
    for _ in range(n_pieces - 1):
        p = -1
        for q in range(n_pieces):
            if sizes[q] > 0 and (p < 0 or sizes[q] < sizes[p]):
                p = q
        n_some = n_others = 0
        for u in rows:
            if u != v and piece[u] == p:
                some[n_some] = u
                n_some += 1
            elif u != v:
                others[n_others] = u
                n_others += 1
        top = -np.inf
        nearest = -1
        for u in some[:n_some]:
            for w in others[:n_others]:
                if similarity[u, w] > top:
                    top = similarity[u, w]
                    nearest = w
        lost -= top
        into = piece[nearest]
        for u in some[:n_some]:
            piece[u] = into
        sizes[into] += sizes[p]
        sizes[p] = 0
    return lost


@compiled(nogil=True)
def carry_out(similarity, component, search, unit, n_most):
    """Carry out the proposals of a round, in place, from the largest gain down.

    Continues until none is left, or `n_most` losses have been computed; returns whether
    none is left.
    """
    n_weighed = 0
    while n_weighed < n_most:
        g = -1
        gain = 0.0
        for h in range(len(search.gains)):
            if search.gains[h] > gain:
                g = h
                gain = search.gains[h]
        if g < 0:
            return True
        own = search.members[search.firsts[g] : search.firsts[g + 1]]
        home = component[own[0]]
        target = search.targets[g]
        if search.used[home] or search.used[target]:
            search.gains[g] = 0.0
        elif not search.is_known[g]:
            lost = _lost(similarity, g, component, search)
            search.lost[g] = np.rint(lost / unit)
            search.is_known[g] = True
            search.gains[g] = search.top[g] - search.lost[g]
            n_weighed += 1
        else:
            for u in own:
                component[u] = target
            search.gains[g] = 0.0
            for c in (home, target):
                search.used[c] = True
                search.changed[c] = True
    return False
