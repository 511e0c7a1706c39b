"""Larger moves for cannot-links: a branch of a tree goes over, two trees join."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._constrained._dense_trees import tree_of_rows
from skdiffclust.forests._constrained._partition import grow_tree

_TOLERANCE = 1e-12
_MAX_EXCHANGES = 50


@compiled(nogil=True)
def _branch(up, v, component):
    """Mark the rows (n,) of the branch that hangs on row v."""
    n = len(up)
    inside, outside = np.zeros(n, dtype=np.bool_), component != component[v]
    inside[v] = True
    path = np.empty(n, dtype=np.int64)
    for start in range(n):
        length, i = 0, start
        while not inside[i] and not outside[i]:
            path[length] = i
            length += 1
            if up[i] < 0:
                outside[i] = True
                break
            i = up[i]
        for p in path[:length]:
            if inside[i]:
                inside[p] = True
            else:
                outside[p] = True
    return inside


@compiled(nogil=True)
def _divides_group(inside, groups, home):
    """Whether a group has rows of the component `home` inside and outside."""
    side = np.full(len(groups), -1, dtype=np.int64)
    for i in np.flatnonzero(home):
        group = groups[i]
        if side[group] >= 0 and side[group] != inside[i]:
            return True
        side[group] = np.int64(inside[i])
    return False


@compiled(nogil=True)
def _in_conflict(some, others, groups, conflicts):
    """Whether a row of `some` (bool) conflicts with one of `others` (bool)."""
    members = np.flatnonzero(others)
    for i in np.flatnonzero(some):
        for j in members:
            if conflicts[groups[i], groups[j]]:
                return True
    return False


@compiled(nogil=True)
def _joining_bound(similarity, some, others, up):
    """Bound from above what joining two trees adds to their weights."""
    left, right = np.flatnonzero(some), np.flatnonzero(others)
    weakest, top, bound = np.inf, -np.inf, 0.0
    for i in np.flatnonzero(some | others):
        j = up[i]
        if j >= 0 and some[i] == some[j]:
            weakest = min(weakest, similarity[i, j])
    for i in left:
        for j in right:
            value = similarity[i, j]
            top = max(top, value)
            if value > weakest:
                bound += value - weakest
    return bound + min(top, weakest)


@compiled(nogil=True)
def _weight_of(similarity, members):
    """Weight of the tree of the rows marked in `members` (n,)."""
    trial = np.empty(len(members), dtype=np.int64)
    return tree_of_rows(similarity, np.flatnonzero(members), trial)


@compiled(nogil=True)
def _try_branch(similarity, v, component, groups, conflicts, up, totals, best, found):
    """Improve on `best` by the partitions that cut the edge above row v.

    Either side of the cut may join another component, or two others may join. The best
    partition is written to `found` (n,); returns its gain.
    """
    home = component == component[v]
    lower = _branch(up, v, component)
    if _divides_group(lower, groups, home):
        return best
    k, old = len(totals), component[v]
    pieces = (lower, home & ~lower)
    weights = _weight_of(similarity, pieces[0]), _weight_of(similarity, pieces[1])
    split = weights[0] + weights[1] - totals[old]
    for c in range(k):
        if c == old:
            continue
        members = component == c
        for p in range(2 + k):
            if p < 2:
                mover, weight = pieces[p], weights[p]
            elif p - 2 > c and p - 2 != old:
                mover, weight = component == p - 2, totals[p - 2]
            else:
                continue
            if split + _joining_bound(similarity, mover, members, up) <= best:
                continue
            if _in_conflict(mover, members, groups, conflicts):
                continue
            joined = _weight_of(similarity, mover | members)
            gain = split + joined - weight - totals[c]
            if gain > best:
                best = gain
                found[:] = component
                found[mover] = c
                if p >= 2:
                    found[lower] = p - 2
    return best


@compiled(nogil=True)
def exchange(similarity, component, groups, conflicts, state):
    """Cut one edge and join two components while that makes the forest heavier.

    Changes component (n,) and the state in place; returns whether it did.
    """
    changed = False
    up, totals = state[0], state[5]
    found = component.copy()
    for _ in range(_MAX_EXCHANGES):
        least = _TOLERANCE * (1.0 + abs(totals.sum()))
        best = least
        for v in range(len(up)):
            if up[v] >= 0:
                best = _try_branch(
                    similarity, v, component, groups, conflicts, up, totals, best, found
                )
        if best == least:
            break
        changed = True
        component[:] = found
        for c in range(len(totals)):
            grow_tree(similarity, component, c, state)
    return changed
