"""What follows from a spanning tree: its order, its linkage matrix, its cuts.

A tree is an array of edges (n - 1, 2) with i < j and their lengths (n - 1,), sorted
in *cut order*: the longest first, ties by the larger pair, the reverse of the total
order (length, i, j) that makes the tree unique.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, depth_first_order
from sklearn.utils import check_array

from skdiffclust._affinity import center
from skdiffclust._compat import single_linkage_label
from skdiffclust.forests import _tiers
from skdiffclust.forests._tiers import compiled_above_small


def cut_order(edges, lengths):
    """Permutation that sorts edges by decreasing (length, i, j)."""
    order = np.argsort(lengths)
    ordered = lengths[order]
    if (ordered[1:] == ordered[:-1]).any():
        order = np.lexsort((edges[:, 1], edges[:, 0], lengths))
    return order[::-1]


def components(edges, n_samples):
    """Component of each row (n_samples,) int64 in the forest of `edges`. O(n α(n)).

    They are numbered in the order of their first rows.
    """
    if n_samples > _tiers.SMALL:
        from skdiffclust.forests._hierarchy import compiled_components

        return compiled_components(edges, n_samples)
    return connected_components(_adjacency(edges, n_samples), directed=False)[1].astype(
        np.int64
    )


def linkage_matrix(edges, lengths):
    """Return scipy's linkage matrix (n - 1, 4) of a tree in cut order. O(n α(n))."""
    if not len(edges):
        return np.empty((0, 4))
    if len(edges) > _tiers.SMALL:
        from skdiffclust.forests._hierarchy import compiled_merges

        return compiled_merges(edges[::-1], lengths[::-1])
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


def calinski_harabasz_curve(X, linkage):
    """Return the Calinski-Harabasz index at every number of clusters of a hierarchy.

    It is the ratio of the dispersion between clusters to that within them, each over
    its degrees of freedom, as :func:`sklearn.metrics.calinski_harabasz_score` has it;
    here from one pass over the merges, for all k at once. It favours round clusters of
    like size, so read it beside the gaps of `edge_lengths_`.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The rows that were clustered.
    linkage : ndarray of shape (n_samples - 1, 4)
        Their linkage matrix, of :class:`~skdiffclust.SpanningForestClustering` or of
        :func:`scipy.cluster.hierarchy.linkage`.

    Returns
    -------
    scores : ndarray of shape (n_samples,), float64
        The index of k clusters at position k; NaN at 0 and 1, where it is not defined.

    Raises
    ------
    ValueError
        If X is not finite, or `linkage` is not of its rows.

    Notes
    -----
    O(n d) time and memory.

    References
    ----------
    .. [1] T. Calinski, J. Harabasz, "A dendrite method for cluster analysis",
       Communications in Statistics 3, 1974.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.cluster.hierarchy import linkage
    >>> from skdiffclust.forests import calinski_harabasz_curve
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> calinski_harabasz_curve(X, linkage(X, "single"))
    array([  nan,   nan, 200. , 100.5])
    """
    X = center(check_array(X, dtype=np.float64))
    n_samples = len(X)
    linkage = np.asarray(linkage, dtype=np.float64)
    if linkage.shape != (n_samples - 1, 4):
        raise ValueError(
            "The 'linkage' parameter of calinski_harabasz_curve must have shape "
            f"({n_samples - 1}, 4), one merge less than rows. Got {linkage.shape} "
            "instead. Pass the linkage matrix of these rows."
        )
    merges = np.ascontiguousarray(linkage[:, :2], dtype=np.int64)
    n_clusters = np.arange(2, n_samples)
    scores = np.full(n_samples, np.nan)
    within = np.cumsum(_merge_costs(X, merges))[::-1]  # at 1, 2, ... clusters
    between, within = within[0] - within[1:], within[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        scores[2:] = between / within * (n_samples - n_clusters) / (n_clusters - 1)
    return scores


@compiled_above_small
def _merge_costs(X, merges):
    """Dispersion within clusters (n - 1,) that each merge adds; X (n, d) is spoilt."""
    n_samples, n_features = X.shape
    slot = np.concatenate((np.arange(n_samples), np.zeros(n_samples, dtype=np.int64)))
    sizes = np.ones(n_samples, dtype=np.int64)
    costs = np.zeros(n_samples - 1)
    for t in range(n_samples - 1):
        one, other = slot[merges[t, 0]], slot[merges[t, 1]]
        weight = sizes[one] / (sizes[one] + sizes[other])
        cost = 0.0
        for f in range(n_features):
            gap = X[other, f] - X[one, f]
            cost += gap * gap
            X[one, f] = weight * X[one, f] + (1 - weight) * X[other, f]
        costs[t] = cost * weight * sizes[other]
        sizes[one] += sizes[other]
        slot[n_samples + t] = one
    return costs


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
