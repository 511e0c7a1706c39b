"""Which edges of a spanning tree are cut: the longest, with a minimum cluster size."""

import numpy as np
from scipy.sparse.csgraph import depth_first_order

from skdiffclust.forests._trees._compilation_threshold import compiled_above_small
from skdiffclust.forests._trees._tree import adjacency


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


def _rooted(edges):
    """Root the tree at row 0 and number its rows in preorder.

    Returns the preorder position of the lower end of each edge (n - 1,) and the
    number of rows in the subtree of each position (n,).
    """
    n_samples = len(edges) + 1
    preorder, parents = depth_first_order(
        adjacency(edges, n_samples), 0, directed=False
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
