"""The forest under constraints: a tree for each component, and moves between them.

What a tree gains with a group is computed again only if that tree has changed, and what
the group's own tree loses only for the moves that are considered.
"""

from typing import NamedTuple

import numpy as np

from skdiffclust._compiled import compiled, inner
from skdiffclust.forests._constrained._dense_trees import tree_of_rows

# Largest number of rounds of moves; more than 40 have never been observed.
MAX_ROUNDS = 100
# Gains are compared in units of this, times the largest affinity, so that differences
# due to rounding or to the order of summation are ties.
UNIT = 1e-10
# Pairs of rows processed between two checks for an interruption.
_PAIRS_PER_STEP = 2**24


class Search(NamedTuple):
    """State of the search for a heavier forest.

    Attributes
    ----------
    up, heaviest : ndarray of shape (n,)
        Neighbour of each row towards its root, or -1; weight of the heaviest edge of
        the row in its tree.
    rows : ndarray of shape (n,)
        Rows tree by tree, every row after its neighbour.
    parents, above : ndarray of shape (n,)
        Position in its tree of the neighbour of each of these, and the weight of that
        edge.
    starts : ndarray of shape (k + 1,)
        Where the rows of each tree start.
    totals, least, masses : ndarray of shape (k,)
        Weight of each tree, and of its lightest edge; weight of its samples.
    changed, used : ndarray of shape (k,), bool
        Components that the last round has changed, and those that this one has.
    members, firsts : ndarray of shape (n,) and (n_groups + 1,)
        Rows group by group, and where each group starts.
    clashes : ndarray of shape (n_groups,), bool
        Groups with a conflict.
    loads : ndarray of shape (n_groups,)
        Weight of the samples of each group.
    added : ndarray of shape (n_groups, k), float64
        What a tree gains with a group, -inf where they conflict, or an upper bound of
        it that is no more than what the group's own tree loses.
    targets, top, lost, gains : ndarray of shape (n_groups,)
        Best component for each group; what it adds there, what its tree loses without
        it or a lower bound of that, and the difference of the two, in units.
    is_known : ndarray of shape (n_groups,), bool
        Whether the loss is known.
    places, scratch : ndarray of shape (n,), int64 and float64
        Scratch.
    """

    up: np.ndarray
    heaviest: np.ndarray
    rows: np.ndarray
    parents: np.ndarray
    above: np.ndarray
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
    targets: np.ndarray
    top: np.ndarray
    lost: np.ndarray
    gains: np.ndarray
    is_known: np.ndarray
    places: np.ndarray
    scratch: np.ndarray


def new_search(problem):
    """Return the arrays of a new search."""
    n = len(problem.groups)
    k = problem.n_clusters
    sizes = np.bincount(problem.groups)
    n_groups = len(sizes)
    return Search(
        up=np.full(n, -1),
        heaviest=np.empty(n),
        rows=np.empty(n, dtype=np.int64),
        parents=np.empty(n, dtype=np.int64),
        above=np.empty(n),
        starts=np.zeros(k + 1, dtype=np.int64),
        totals=np.empty(k),
        least=np.empty(k),
        masses=np.empty(k),
        changed=np.ones(k, dtype=bool),
        used=np.zeros(k, dtype=bool),
        members=np.argsort(problem.groups, kind="stable"),
        firsts=np.append(0, np.cumsum(sizes)),
        clashes=problem.conflicts.any(axis=1),
        loads=np.bincount(problem.groups, problem.weights),
        added=np.zeros((n_groups, k)),
        targets=np.empty(n_groups, dtype=np.int64),
        top=np.empty(n_groups),
        lost=np.empty(n_groups),
        gains=np.empty(n_groups),
        is_known=np.zeros(n_groups, dtype=bool),
        places=np.empty(n, dtype=np.int64),
        scratch=np.empty(n),
    )


@compiled(nogil=True)
def improve(affinity, component, problem, search):
    """Move groups to other components, in place, while their trees get heavier.

    In a round every group, a single sample or several that are linked, proposes to
    move to the component whose tree gains most with it, among those that it has no
    conflict with. What the forest gains is that, less what its own component's tree
    loses. The proposals are carried out from the largest gain down, unless they touch
    a component that has changed in this round; of equal gains the first group and the
    first component come first.

    `component` (n,), from 0 to ``problem.n_clusters - 1``, satisfies the constraints;
    the colours of the problem are not read. The edges are left in ``search.up``.

    Other kernels call it as compiled. `improve_cut` runs it as Python, which checks
    for an interruption between the steps.
    """
    n_trees = len(search.used)
    n_groups = len(search.targets)
    step = max(1, _PAIRS_PER_STEP // len(component))
    search.changed[:] = True
    unit = gain_unit(affinity)
    for _ in range(MAX_ROUNDS):
        grow_trees(affinity, component, problem, search)
        for first in range(0, n_groups, step):
            last = min(first + step, n_groups)
            weigh_moves(affinity, component, problem, search, unit, first, last)
        search.used[:] = False
        largest = 1
        for c in range(n_trees):
            largest = max(largest, search.starts[c + 1] - search.starts[c])
        n_most = max(1.0, _PAIRS_PER_STEP / largest**2)
        while not carry_out(affinity, component, search, unit, n_most):
            pass
        # Loops compile in a fraction of the time of an assignment and of `any`.
        any_used = False
        for c in range(n_trees):
            search.changed[c] = search.used[c]
            any_used |= search.used[c]
        if not any_used:
            break
    else:
        grow_trees(affinity, component, problem, search)


# A maximum is the same in any order.
@compiled(nogil=True, fastmath={"reassoc", "nsz", "nnan"})
def gain_unit(affinity):
    """Return the unit in which gains are compared."""
    top = 0.0
    for i in range(len(affinity)):
        for j in range(i + 1, len(affinity)):
            value = abs(affinity[i, j])
            top = value if value > top else top
    return UNIT * top if top > 0.0 else 1.0


@compiled(nogil=True)
def grow_trees(affinity, component, problem, search):
    """Grow the tree of each component that has changed."""
    rows = search.places
    starts = np.zeros(len(search.starts), dtype=np.int64)
    for c in component:
        starts[c + 1] += 1
    for c in range(len(search.changed)):
        starts[c + 1] += starts[c]
        search.masses[c] = 0.0
    filled = starts.copy()
    for i in range(len(component)):
        c = component[i]
        rows[filled[c]] = i
        filled[c] += 1
        search.masses[c] += problem.weights[i]
    for c in range(len(search.changed)):
        inside = rows[starts[c] : starts[c + 1]]
        if search.changed[c]:
            search.totals[c] = tree_of_rows(affinity, inside, search.up)
        else:
            for p in range(len(inside)):
                inside[p] = search.rows[search.starts[c] + p]
    for p in range(len(component)):
        search.rows[p] = rows[p]
    for c in range(len(starts)):
        search.starts[c] = starts[c]
    for c in range(len(search.changed)):
        search.least[c] = np.inf
        for p in range(starts[c], starts[c + 1]):
            v = search.rows[p]
            u = search.up[v]
            search.places[v] = p - starts[c]
            search.heaviest[v] = -np.inf
            if u >= 0:
                weight = affinity[v, u]
                search.parents[p] = search.places[u]
                search.above[p] = weight
                search.heaviest[v] = weight
                search.heaviest[u] = max(search.heaviest[u], weight)
                search.least[c] = min(search.least[c], weight)


# The order of a sum may change: where a bound decides, rounding is a tie. Entries are
# read from whole arrays, because making a slice takes as long as reading ten of them.
@compiled(nogil=True, fastmath={"reassoc", "nsz", "nnan"})
def weigh_moves(affinity, component, problem, search, unit, first, last):
    """Find the best component for the groups first <= g < last, in place.

    The lightest edge of a tree is replaced by each further edge that a row adds. So the
    row adds at most its heaviest edge and, for each further one, the amount by which it
    exceeds the lightest edge of the tree.
    """
    changed = search.changed
    starts = search.starts
    added = search.added
    rows = search.rows
    clashes = search.clashes
    for g in range(first, last):
        size = search.firsts[g + 1] - search.firsts[g]
        v = search.members[search.firsts[g]]
        home = component[v]
        is_single = size == 1
        reach = search.heaviest[v]
        for c in range(len(changed)):
            # A bound holds as long as the row's own tree does.
            is_old = not (changed[c] or (is_single and changed[home]))
            if is_old or c == home:
                continue
            if clashes[g] and _is_apart(g, rows, starts[c], starts[c + 1], problem):
                added[g, c] = -np.inf
            elif is_single:
                floor = search.least[c]
                top = -np.inf
                total = 0.0
                for p in range(starts[c], starts[c + 1]):
                    value = affinity[v, rows[p]]
                    top = value if value > top else top
                    total += value - floor if value > floor else 0.0
                added[g, c] = total + (top if top < floor else floor)
                if added[g, c] > reach:
                    added[g, c] = _added(affinity, v, c, search)
            else:
                weight = _joined(affinity, g, c, search)
                added[g, c] = weight - search.totals[c]
        search.gains[g] = 0.0
        if changed[home]:
            search.is_known[g] = False
        is_whole = starts[home + 1] - starts[home] == size
        if is_whole or search.masses[home] - search.loads[g] < problem.min_size:
            continue
        top = -np.inf
        for c in range(len(changed)):
            gain = np.rint(added[g, c] / unit)
            if c != home and gain > top:
                top = gain
                search.targets[g] = c
        if not search.is_known[g]:
            # A row takes its heaviest edge along: those left behind lose at least that.
            search.lost[g] = -np.inf
            if is_single:
                search.lost[g] = np.rint(reach / unit)
        search.top[g] = top
        if top > search.lost[g]:
            search.gains[g] = top - search.lost[g]


@inner
def _is_apart(group, rows, first, last, problem):
    """Whether one of ``rows[first:last]`` is in a group that conflicts with `group`."""
    for p in range(first, last):
        if problem.conflicts[group, problem.groups[rows[p]]]:
            return True
    return False


@inner
def _added(affinity, v, c, search):
    """Return what row v adds to the tree of component c, of m rows. O(m).

    From the leaves up, each row compares its heaviest connection to v with the edge to
    its parent: the lighter of the two is passed on to the parent, the heavier one
    stays.
    """
    first = search.starts[c]
    parents = search.parents
    above = search.above
    connections = search.scratch
    m = search.starts[c + 1] - first
    for p in range(m):
        connections[p] = affinity[v, search.rows[first + p]]
    total = 0.0
    for p in range(m - 1, 0, -1):
        connection = connections[p]
        edge = above[first + p]
        total += (connection if connection > edge else edge) - edge
        connection = edge if connection > edge else connection
        other = connections[parents[first + p]]
        connections[parents[first + p]] = connection if connection > other else other
    return total + connections[0]


@inner
def _joined(affinity, group, c, search):
    """Return the weight of the tree of component c with a group."""
    own = search.members[search.firsts[group] : search.firsts[group + 1]]
    rows = search.rows[search.starts[c] : search.starts[c + 1]]
    return tree_of_rows(affinity, np.concatenate((rows, own)), search.places)


@inner
def _lost(affinity, own, home, search):
    """Return what the tree of the component `home` loses without the rows `own` (a,).

    O(m²) for a tree of m rows.
    """
    first = search.starts[home]
    last = search.starts[home + 1]
    is_taken = search.places
    for p in range(first, last):
        is_taken[search.rows[p]] = 0
    for v in own:
        is_taken[v] = 1
    rest = np.empty(last - first - len(own), dtype=np.int64)
    n_rest = 0
    n_cut = 0
    cut = 0.0
    for p in range(first, last):
        v = search.rows[p]
        u = search.up[v]
        if not is_taken[v]:
            rest[n_rest] = v
            n_rest += 1
        if u >= 0 and (is_taken[v] or is_taken[u]):
            cut += search.above[p]
            n_cut += 1
    # If as many edges as rows go, those that are left are still one tree.
    if n_cut == len(own):
        return cut
    return search.totals[home] - tree_of_rows(affinity, rest, search.places)


@compiled(nogil=True)
def carry_out(affinity, component, search, unit, n_most):
    """Make the moves that a round proposes, in place, from the largest gain down.

    It ends when no move is left, or `n_most` losses have been computed; returns whether
    no move is left.
    """
    used = search.used
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
        if used[home] or used[target]:
            search.gains[g] = 0.0
        elif not search.is_known[g]:
            lost = _lost(affinity, own, home, search)
            search.lost[g] = np.rint(lost / unit)
            search.is_known[g] = True
            search.gains[g] = search.top[g] - search.lost[g]
            n_weighed += 1
        else:
            for u in own:
                component[u] = target
            search.gains[g] = 0.0
            used[home] = True
            used[target] = True
    return False
