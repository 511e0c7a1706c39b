"""Kruskal's algorithm that skips every edge that a cannot-link forbids.

A module of its own, because it is compiled separately from the search that may follow
it.
"""

import numpy as np

from skdiffclust._compiled import compiled, inner
from skdiffclust.forests._trees._union_find import find, union

# Edges processed between two checks for an interruption, at most 0.2 s.
_EDGES_PER_CHUNK = 2**20


def checked_kruskal(first, second, lengths, constraints):
    """Return the positions of the edges (m,) that join groups without a conflict.

    Edges are as in `kruskal`. It continues until all edges that are left would join two
    classes or the two sides of a cannot-link. O(m log m) time, times the cannot-links
    of the smaller tree at every edge; O(m + n) memory.
    """
    n_groups = constraints.n_groups
    classes = np.full(n_groups, -1)
    classes[constraints.groups] = constraints.classes
    trees = np.arange(n_groups), np.ones(n_groups, dtype=np.int64), classes
    enemies = linked_lists(constraints.cannot, n_groups)
    order = np.argsort(lengths, kind="stable")
    edges = (first, second, lengths, constraints.groups)
    taken = []
    for start in range(0, len(order), _EDGES_PER_CHUNK):
        chunk = order[start : start + _EDGES_PER_CHUNK]
        taken.append(take(chunk, edges, trees, enemies, n_groups))
    return np.concatenate(taken)


def linked_lists(pairs, n_groups):
    """Return the groups that each group conflicts with, as linked lists.

    Two lists are joined in constant time. Entry e says that a group conflicts with
    group ``who[e]``, and ``following[e]`` is the next entry of the same group, -1 at
    the end; the list of a group goes from `heads` to `tails`, and has `counts` entries.
    """
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    owner, who = both.T
    counts = np.bincount(owner, minlength=n_groups)
    ends = np.cumsum(counts)
    following = np.arange(1, len(who) + 1)
    following[ends[counts > 0] - 1] = -1
    heads = np.where(counts > 0, ends - counts, -1)
    tails = np.where(counts > 0, ends - 1, -1)
    return np.ascontiguousarray(who), following, heads, tails, counts


@inner
def _are_linked(one, other, parents, enemies):
    """Whether a cannot-link separates the trees of two roots."""
    who, following, heads, _, counts = enemies
    if counts[other] < counts[one]:
        one, other = other, one
    entry = heads[one]
    while entry >= 0:
        if find(parents, who[entry]) == other:
            return True
        entry = following[entry]
    return False


@compiled(nogil=True)
def take(order, edges, trees, enemies, n_most):
    """Take the edges of `order` that join two trees which may be joined.

    It stops at `n_most` edges.
    """
    first, second, lengths, groups = edges
    parents, sizes, classes = trees
    _, following, heads, tails, counts = enemies
    taken = np.empty(min(len(order), len(parents)), dtype=np.int64)
    n_taken = 0
    for e in order:
        if n_taken == n_most or not lengths[e] < np.inf:
            break
        one = find(parents, groups[first[e]])
        other = find(parents, groups[second[e]])
        if one == other or (classes[one] != classes[other] >= 0 and classes[one] >= 0):
            continue
        # A call takes longer than all of the above.
        has_links = counts[one] > 0 and counts[other] > 0
        if has_links and _are_linked(one, other, parents, enemies):
            continue
        root = union(parents, sizes, one, other)
        gone = other if root == one else one
        classes[root] = max(classes[root], classes[gone])
        if heads[gone] >= 0:
            if heads[root] >= 0:
                following[tails[root]] = heads[gone]
            else:
                heads[root] = heads[gone]
            tails[root] = tails[gone]
            counts[root] += counts[gone]
        taken[n_taken] = e
        n_taken += 1
    return taken[:n_taken]
