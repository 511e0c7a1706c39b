"""Spanning trees and forests, free or constrained, as functions of arrays."""

import numpy as np

from skdiffclust._constraints import Constraints
from skdiffclust.forests._constrained._problem import constrained_problem
from skdiffclust.forests._hierarchy._spanning_tree import free_tree, join_parts
from skdiffclust.forests._trees._solve import all_edges, spanning_edges
from skdiffclust.forests._trees._tree import components


def grow_tree(lengths, constraints=None, *, n_clusters=None, **how):
    """Return the minimum spanning tree of a relation, free or under constraints.

    The tree is that of the total order (length, i, j) with i < j, so it is unique.
    Under constraints its cuts are forests that respect them: every group is joined by
    the spanning tree inside it, and trees between groups are added, whose edges alone
    may be cut. Without cannot-links these are the tree of the graph in which all
    labelled rows are one vertex and every other group one; this is what Kruskal's
    algorithm finds that takes must-links first and checks the classes. With
    cannot-links it is that algorithm itself; where it is stuck at more than
    `n_clusters` parts, groups in conflict are first given the clusters of a colouring.

    `how` goes to `spanning_edges`: algorithm, n_jobs.
    """
    if constraints is None:
        return free_tree(lengths, **how)
    if not len(constraints.cannot):
        nodes = np.where(constraints.classes >= 0, -1, constraints.groups)
        between = spanning_edges(lengths, nodes=nodes, **how)
        return _with_groups(between, constraints, lengths, how)
    tree = _with_groups(_checked_edges(lengths, constraints), constraints, lengths, how)
    if n_clusters is not None and tree.n_parts > n_clusters:
        colours = constrained_problem(constraints, n_clusters).colours
        coloured = Constraints(
            constraints.groups, colours[constraints.groups], constraints.cannot[:0]
        )
        tree = _with_groups(
            _checked_edges(lengths, coloured), constraints, lengths, how
        )
    return tree


def _checked_edges(lengths, constraints):
    """Return the edges between groups that Kruskal's algorithm takes.

    It takes none that a cannot-link forbids.
    """
    from skdiffclust.forests._constrained._checked import checked_kruskal

    first, second, values = all_edges(lengths)
    taken = checked_kruskal(first, second, values, constraints)
    return np.column_stack([first[taken], second[taken]]), values[taken]


def _with_groups(between, constraints, lengths, how):
    """Return the tree of the edges between groups and the trees inside them."""
    order = np.argsort(constraints.groups, kind="stable")
    starts = np.flatnonzero(np.diff(constraints.groups[order])) + 1
    inside = [
        _join_group(lengths, rows, how)
        for rows in np.split(order, starts)
        if len(rows) > 1
    ]
    return join_parts([between, *inside], [True] + [False] * len(inside), lengths)


def _join_group(lengths, rows, how):
    """Return the tree inside a group.

    Where a sparse graph has no edge, it has a link of length zero.
    """
    edges, values = spanning_edges(lengths, rows, **how)
    n_missing = len(rows) - 1 - len(edges)
    if n_missing:
        separated = components(np.searchsorted(rows, edges), len(rows))
        firsts = rows[np.unique(separated, return_index=True)[1]]
        edges = np.concatenate([edges, np.column_stack([firsts[:-1], firsts[1:]])])
        values = np.concatenate([values, np.zeros(n_missing)])
    return edges, values
