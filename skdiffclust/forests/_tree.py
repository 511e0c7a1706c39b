"""What follows from a spanning tree: its order, its linkage matrix, its cuts.

A tree is an array of edges (n - 1, 2) with i < j and their lengths (n - 1,), sorted
in *cut order*: the longest first, ties by the larger pair, the reverse of the total
order (length, i, j) that makes the tree unique.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, depth_first_order

from skdiffclust._compat import single_linkage_label
from skdiffclust.forests._tiers import compiled_above_small


def cut_order(edges, lengths):
    """Permutation that sorts edges by decreasing (length, i, j)."""
    return np.lexsort((edges[:, 1], edges[:, 0], lengths))[::-1]


def components(edges, n_samples):
    """Component of each row (n_samples,) int64 in the forest of `edges`. O(n)."""
    return connected_components(_adjacency(edges, n_samples), directed=False)[1].astype(
        np.int64
    )


def linkage_matrix(edges, lengths):
    """Return scipy's linkage matrix (n - 1, 4) of a tree in cut order. O(n α(n))."""
    if not len(edges):
        return np.empty((0, 4))
    merges = np.column_stack([edges, lengths])[::-1]
    return single_linkage_label(np.ascontiguousarray(merges, dtype=np.float64))


def cut(edges, lengths, n_cuts, *, min_size=1, smallest=1, may_cut=None):
    """Choose the edges to cut: the longest that leave `min_size` rows on both sides.

    Edges are examined in cut order, each in the tree that earlier cuts have left. When
    none qualifies any more and cuts are still wanted, `min_size` is halved, down to
    `smallest`. Edges of infinite length are always cut, whatever they part. `may_cut`
    (n - 1,) marks the edges that may be cut, by default all.

    Returns the positions of the cut edges in the order in which they were cut, at
    most `n_cuts` of them, and the last minimum size. O(n log n) time, O(n) memory.
    """
    cuttable = np.arange(len(edges)) if may_cut is None else np.flatnonzero(may_cut)
    n_cuts = min(n_cuts, len(cuttable))
    if min_size <= 1:
        return cuttable[:n_cuts], 1
    child, subtree = _rooted(edges)
    n_forced = np.count_nonzero(np.isinf(lengths[cuttable]))
    chosen, min_size = _cut_with_minimum_size(
        subtree, child[cuttable], n_cuts, n_forced, min_size, smallest
    )
    return cuttable[chosen], min_size


def _adjacency(edges, n_samples):
    """CSR adjacency (n, n) of the forest, each edge stored once."""
    ones = np.ones(len(edges), dtype=np.int8)
    return csr_array((ones, (edges[:, 0], edges[:, 1])), shape=(n_samples, n_samples))


def _rooted(edges):
    """Root the tree at row 0 and number its rows in preorder.

    Returns the preorder position of the lower end of each edge (n - 1,) and the
    number of rows in the subtree of each position (n,).
    """
    n_samples = len(edges) + 1
    preorder, parents = depth_first_order(
        _adjacency(edges, n_samples), 0, directed=False
    )
    position = np.empty(n_samples, dtype=np.int64)
    position[preorder] = np.arange(n_samples)
    parent_position = position[parents[preorder[1:]]]
    child = position[edges].max(axis=1)
    return child, _subtree_sizes(np.concatenate([[0], parent_position]))


@compiled_above_small
def _subtree_sizes(parent):
    """Rows below each preorder position, itself included."""
    sizes = np.ones(len(parent), dtype=np.int64)
    for position in range(len(parent) - 1, 0, -1):
        sizes[parent[position]] += sizes[position]
    return sizes


@compiled_above_small
def _cut_with_minimum_size(subtree, child, n_cuts, n_forced, min_size, smallest):
    """Greedy cuts with two segment trees over the preorder.

    `roots` holds, over each range, the last position that became a root above it;
    `taken` holds the rows that cuts have taken from the subtrees above a position.
    """
    n_samples = len(subtree)
    roots = np.zeros(2 * n_samples, dtype=np.int64)
    taken = np.zeros(2 * n_samples, dtype=np.int64)
    done = np.zeros(len(child), dtype=np.bool_)
    chosen = np.empty(n_cuts, dtype=np.int64)
    sizes = np.zeros(2, dtype=np.int64)
    n_chosen = 0
    while n_chosen < n_cuts:
        for edge in range(len(child)):
            below = child[edge]
            wanted = 0 if edge < n_forced else min_size
            if done[edge] or min(subtree[below], n_samples - subtree[below]) < wanted:
                continue
            root = 0
            node = below + n_samples
            while node >= 1:
                root = max(root, roots[node])
                node //= 2
            for side, top in ((0, below), (1, root)):
                sizes[side] = subtree[top]
                left, right = top + 1 + n_samples, top + subtree[top] + n_samples
                while left < right:
                    if left % 2:
                        sizes[side] -= taken[left]
                        left += 1
                    if right % 2:
                        right -= 1
                        sizes[side] -= taken[right]
                    left //= 2
                    right //= 2
            if min(sizes[0], sizes[1] - sizes[0]) < wanted:
                continue
            done[edge] = True
            chosen[n_chosen] = edge
            n_chosen += 1
            if n_chosen == n_cuts:
                break
            # The rows below leave the subtrees of every row from here to the root,
            # but not those above the root, which had lost them before.
            for top, rows in ((below, sizes[0]), (root, -sizes[0])):
                node = top + n_samples
                while node >= 1:
                    taken[node] += rows
                    node //= 2
            left, right = below + n_samples, below + subtree[below] + n_samples
            while left < right:
                if left % 2:
                    roots[left] = max(roots[left], below)
                    left += 1
                if right % 2:
                    right -= 1
                    roots[right] = max(roots[right], below)
                left //= 2
                right //= 2
        if n_chosen < n_cuts:
            if min_size <= smallest:
                break
            min_size = max(min_size // 2, smallest)
    return chosen[:n_chosen], min_size
