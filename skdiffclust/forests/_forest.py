"""Spanning trees and forests, free or constrained, as functions of arrays."""

from dataclasses import dataclass

import numpy as np

from skdiffclust._constraints import as_constraints
from skdiffclust.forests._constrained import ConstrainedProblem
from skdiffclust.forests._solve import all_edges, spanning_edges
from skdiffclust.forests._tree import components, cut, cut_order


@dataclass(frozen=True)
class CutTree:
    """A spanning tree in cut order that knows which of its edges may be cut.

    Attributes
    ----------
    edges : ndarray of shape (n_samples - 1, 2), int64
    lengths : ndarray of shape (n_samples - 1,), float64
        Infinite for the bridges between parts that no edge joins: components of a
        sparse graph, classes of labelled rows. Bridges are always cut.
    may_cut : ndarray of shape (n_samples - 1,), bool
    """

    edges: np.ndarray
    lengths: np.ndarray
    may_cut: np.ndarray

    @property
    def n_parts(self):
        """Number of parts, the smallest number of clusters."""
        return 1 + int(np.count_nonzero(np.isinf(self.lengths)))


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
        return _join([spanning_edges(lengths, **how)], [True], lengths)
    if not len(constraints.cannot):
        nodes = np.where(constraints.classes >= 0, -1, constraints.groups)
        between = spanning_edges(lengths, nodes=nodes, **how)
        return _with_groups(between, constraints, lengths, how)
    tree = _with_groups(_checked_edges(lengths, constraints), constraints, lengths, how)
    if n_clusters is not None and tree.n_parts > n_clusters:
        colours = ConstrainedProblem(constraints, n_clusters).colours
        coloured = as_constraints(
            lengths.n_samples, colours[constraints.groups], constraints.groups
        )
        tree = grow_tree(lengths, coloured, **how)
    return tree


def _checked_edges(lengths, constraints):
    """Edges between groups that Kruskal's algorithm takes under cannot-links."""
    from skdiffclust.forests._checked import checked_kruskal

    first, second, values = all_edges(lengths)
    taken = checked_kruskal(first, second, values, constraints)
    return np.column_stack([first[taken], second[taken]]), values[taken]


def _with_groups(between, constraints, lengths, how):
    """Tree of the edges between groups and the trees inside them."""
    order = np.argsort(constraints.groups, kind="stable")
    starts = np.flatnonzero(np.diff(constraints.groups[order])) + 1
    inside = [
        _join_group(lengths, rows, how)
        for rows in np.split(order, starts)
        if len(rows) > 1
    ]
    return _join([between, *inside], [True] + [False] * len(inside), lengths)


def _join_group(lengths, rows, how):
    """Tree inside a group; where a sparse graph has no edge, a link of length zero."""
    edges, values = spanning_edges(lengths, rows, **how)
    n_missing = len(rows) - 1 - len(edges)
    if n_missing:
        parted = components(np.searchsorted(rows, edges), len(rows))
        firsts = rows[np.unique(parted, return_index=True)[1]]
        edges = np.concatenate([edges, np.column_stack([firsts[:-1], firsts[1:]])])
        values = np.concatenate([values, np.zeros(n_missing)])
    return edges, values


def cut_into(tree, n_clusters, min_size):
    """Cut a tree into clusters of at least `min_size` rows, smaller where it must.

    Returns which edges are cut (n - 1,), bool, and the minimum size that was kept to.
    """
    positions, min_size = cut(
        tree.edges,
        tree.lengths,
        n_clusters - 1,
        min_size=min_size,
        may_cut=tree.may_cut,
    )
    return _mask(positions, tree), min_size


def cut_beyond(tree, threshold, min_size):
    """Return which edges (n - 1,) are cut: those longer than `threshold`."""
    longer = tree.may_cut & (tree.lengths > threshold)
    positions, _ = cut(
        tree.edges,
        tree.lengths,
        np.count_nonzero(longer),
        min_size=min_size,
        smallest=min_size,
        may_cut=longer,
    )
    return _mask(positions, tree)


def widest_gap(tree, min_size_of, n_most=50):
    """Return the number of clusters after which the next cut is shortest, relatively.

    The number k in 2 to `n_most` with the largest ratio of the (k - 1)-th to the k-th
    cut length, both made with the minimum size ``min_size_of(k)``; 1 where nothing
    can be cut.
    """
    best, widest = min(2, 1 + np.count_nonzero(tree.may_cut)), 0.0
    for n_clusters in range(max(2, tree.n_parts), n_most + 1):
        min_size = min_size_of(n_clusters)
        positions, _ = cut(
            tree.edges,
            tree.lengths,
            n_clusters,
            min_size=min_size,
            smallest=min_size,
            may_cut=tree.may_cut,
        )
        if len(positions) < n_clusters:
            break
        last, following = tree.lengths[positions[-2:]]
        if last > widest * following:
            best, widest = n_clusters, last / following
    return best


def _mask(positions, tree):
    """Mark the edges at `positions`."""
    is_cut = np.zeros(len(tree.edges), dtype=bool)
    is_cut[positions] = True
    return is_cut


def _join(parts, may_cut, lengths):
    """Join edge lists into one tree, with bridges between what they leave apart."""
    edges = np.concatenate([edges for edges, _ in parts])
    firsts = np.zeros(1, dtype=np.int64)
    if len(edges) < lengths.n_samples - 1:
        parted = components(edges, lengths.n_samples)
        firsts = np.unique(parted, return_index=True)[1]
    bridges = np.column_stack([firsts[:-1], firsts[1:]])
    values = [np.full(len(bridges), np.inf), *(values for _, values in parts)]
    edges, values = np.concatenate([bridges, edges]), np.concatenate(values)
    counts = [len(bridges), *(len(edges) for edges, _ in parts)]
    may_cut = np.repeat([True, *may_cut], counts)
    order = cut_order(edges, values)
    return CutTree(edges[order], lengths.finish(values[order]), may_cut[order])
