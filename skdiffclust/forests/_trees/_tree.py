"""A spanning tree: its edges in cut order, its components, and what may be cut.

A tree is an array of edges (n - 1, 2) with i < j and their lengths (n - 1,), sorted
in *cut order*: the longest first, ties by the larger pair, the reverse of the total
order (length, i, j) that makes the tree unique.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from skdiffclust._duplicates import order_of
from skdiffclust._short_repr import short_repr
from skdiffclust.forests._trees import _compilation_threshold

# Share of the plain length that is added to one of mutual reachability: of the many
# edges that are raised to the core distance of one row, the shortest then comes first.
TIE = 2.0**-30


@dataclass(frozen=True, eq=False)
class SpanningTree:
    """A minimum spanning tree.

    Attributes
    ----------
    edges : ndarray of shape (n_samples - 1, 2), int64
        Edges (i, j) with i < j, in order of decreasing length.
    lengths : ndarray of shape (n_samples - 1,), float64
        Lengths of the edges, in the units of the metric.
    """

    edges: np.ndarray
    lengths: np.ndarray

    __repr__ = short_repr


@dataclass(frozen=True)
class CutTree:
    """A spanning tree in cut order, with a mask of the edges that may be cut.

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


def join_parts(parts, may_cut, lengths):
    """Join edge lists into one tree, with bridges between their components."""
    edges = np.concatenate([edges for edges, _ in parts])
    firsts = np.zeros(1, dtype=np.int64)
    if len(edges) < lengths.n_samples - 1:
        separated = components(edges, lengths.n_samples)
        firsts = np.unique(separated, return_index=True)[1]
    bridges = np.column_stack([firsts[:-1], firsts[1:]])
    values = [np.full(len(bridges), np.inf), *(values for _, values in parts)]
    edges = np.concatenate([bridges, edges])
    values = np.concatenate(values)
    counts = [len(bridges), *(len(edges) for edges, _ in parts)]
    may_cut = np.repeat([True, *may_cut], counts)
    order = cut_order(edges, values)
    # Unlike edges[order], `take` copies a row at once.
    edges = edges.take(order, axis=0)
    return CutTree(edges, lengths.distances(edges, values[order]), may_cut[order])


def tree_of_points(tree, points):
    """Return the CutTree of a given SpanningTree of points (n, d).

    Raises ValueError unless it spans them, with Euclidean lengths. That no other tree
    is shorter is not checked. O(n d).
    """
    n_samples = len(points)
    edges = np.sort(tree.edges, axis=1).astype(np.int64, copy=False)
    lengths = np.asarray(tree.lengths, dtype=np.float64)
    if edges.shape != (n_samples - 1, 2) or lengths.shape != (n_samples - 1,):
        raise ValueError(
            "The 'tree' parameter of SpanningForestClustering.fit must have "
            f"{n_samples - 1} edges for {n_samples} samples. Got edges of shape "
            f"{edges.shape} and lengths of shape {lengths.shape} instead."
        )
    is_inside = not edges.size or (edges.min() >= 0 and edges.max() < n_samples)
    if not is_inside or components(edges, n_samples).any():
        raise ValueError(
            "The 'tree' parameter of SpanningForestClustering.fit must connect all "
            "samples of X. Got edges that do not instead."
        )
    squares = np.zeros(n_samples - 1)
    for feature in points.T:
        squares += np.square(feature[edges[:, 0]] - feature[edges[:, 1]])
    if not np.allclose(np.sqrt(squares), lengths, rtol=1e-6, atol=0.0):
        raise ValueError(
            "The 'tree' parameter of SpanningForestClustering.fit must have the "
            "Euclidean distances between samples of X as its lengths. Got different "
            "lengths instead. Check that it was computed from the same samples, in "
            "the same order and units."
        )
    order = cut_order(edges, lengths)
    everywhere = np.ones(n_samples - 1, dtype=bool)
    return CutTree(edges[order], lengths[order], everywhere)


def cut_order(edges, lengths):
    """Permutation that sorts edges by decreasing (length, i, j)."""
    return sort_edges(lengths, *edges.T)[::-1]


def sort_edges(lengths, *keys):
    """Permutation that sorts edges by lengths (m,), equal ones by keys (m,).

    By the first 48 bits of the lengths, in three passes of linear time, then by a
    slower sort of those for which these are equal.
    """
    # As unsigned integers, bits of negative numbers fall and are above the others.
    bits = (lengths + 0.0).view(np.int64)
    bits = (bits ^ (bits >> 63 | -(2**63))).view(np.uint64) >> np.uint64(16)
    order = order_of(bits, 3)
    ordered = bits[order]
    ties = ordered[1:] == ordered[:-1]
    tied = np.zeros(len(order), dtype=bool)
    tied[1:] |= ties
    tied[:-1] |= ties
    among = order[tied]
    keys = [key[among] for key in keys[::-1]]
    order[tied] = among[np.lexsort((*keys, lengths[among]))]
    return order


def components(edges, n_samples):
    """Component of each row (n_samples,) int64 in the forest of `edges`. O(n α(n)).

    They are numbered in the order of their first rows.
    """
    from skdiffclust.forests._trees._components import compiled_components, join_edges

    if _compilation_threshold.is_compiled(n_samples, join_edges):
        return compiled_components(edges, n_samples)
    ones = np.ones(len(edges), dtype=np.int8)
    graph = csr_array((ones, (edges[:, 0], edges[:, 1])), shape=(n_samples, n_samples))
    return connected_components(graph, directed=False)[1].astype(np.int64)
