"""Spanning trees and forests, free or constrained, as functions of arrays."""

from dataclasses import dataclass

import numpy as np

from skdiffclust.forests._solve import spanning_edges
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


def grow_tree(lengths, constraints=None):
    """Return the minimum spanning tree of a relation, free or under constraints.

    The tree is that of the total order (length, i, j) with i < j, so it is unique.
    Under constraints its cuts are the forests that respect them: every group is joined
    by the spanning tree inside it; all labelled rows are then contracted into one
    vertex and every other group into one, and the tree of that graph is added, whose
    edges alone may be cut. Exact with at most one labelled row in a class; otherwise a
    class could also be joined through unlabelled rows, and to choose those best is
    NP-hard.
    """
    if constraints is None:
        return _join([spanning_edges(lengths)], [True], lengths)
    groups, classes = constraints.groups, constraints.classes
    between = spanning_edges(lengths, nodes=np.where(classes >= 0, -1, groups))
    order = np.argsort(groups, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    inside = [_join_group(lengths, rows) for rows in members if len(rows) > 1]
    return _join([between, *inside], [True] + [False] * len(inside), lengths)


def _join_group(lengths, rows):
    """Tree inside a group; where a sparse graph has no edge, a link of length zero."""
    edges, values = spanning_edges(lengths, rows)
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
    parted = components(edges, lengths.n_samples)
    firsts = np.unique(parted, return_index=True)[1]
    bridges = np.column_stack([firsts[:-1], firsts[1:]])
    values = [np.full(len(bridges), np.inf), *(values for _, values in parts)]
    edges, values = np.concatenate([bridges, edges]), np.concatenate(values)
    counts = [len(bridges), *(len(edges) for edges, _ in parts)]
    may_cut = np.repeat([True, *may_cut], counts)
    order = cut_order(edges, values)
    return CutTree(edges[order], lengths.finish(values[order]), may_cut[order])
