"""A balanced k-d tree whose leaves are tiles for vector units.

It is scikit-learn's. Nodes are numbered as in a heap: node 1 is the root, 2 i and
2 i + 1 are the children of i, and the last `n_leaves` nodes are the leaves.

Lengths are squared Euclidean distances (norm 2), sums of absolute differences (norm 1)
or the largest of them (norm 0). They are summed over the features in order, and so are
the bounds by boxes: rounding is monotone, so no length is less than its bound.
"""

from typing import NamedTuple

import numpy as np
from sklearn.neighbors import KDTree

from skdiffclust._compiled import compiled

# A leaf has more rows than this, and at most twice as many.
LEAF_SIZE = 28


class Tree(NamedTuple):
    """Arrays of a tree over n rows with d features and leaves of at most w rows.

    Attributes
    ----------
    order : ndarray of shape (n,), int64
        Row at each position.
    points : ndarray of shape (n, d), float64
        The rows in that order.
    starts : ndarray of shape (n_leaves + 1,), int64
        First position of each leaf.
    boxes : ndarray of shape (2 * n_leaves, 2, d), float64
        Smallest box around the rows of each node: least and largest values.
    tiles : ndarray of shape (n_leaves, d, w), float64
        The rows of each leaf as columns, filled up with infinity; w is a multiple of 8.
    """

    order: np.ndarray
    points: np.ndarray
    starts: np.ndarray
    boxes: np.ndarray
    tiles: np.ndarray


def build_tree(points, numbers=None, leaf_size=LEAF_SIZE):
    """Return the `Tree` of `points` (n, d). O(n d log n) time, O(n d) memory.

    `numbers` (n,) are those of the rows in its `order`, by default from 0 up.
    """
    _, order, nodes, bounds = KDTree(points, leaf_size=leaf_size).get_arrays()
    points = np.ascontiguousarray(points[order])
    n_leaves = (len(nodes) + 1) // 2
    starts = np.append(nodes["idx_start"][n_leaves - 1 :], len(points))
    starts = starts.astype(np.int64)
    boxes = np.zeros((2 * n_leaves, 2, points.shape[1]))
    boxes[1:] = bounds.transpose(1, 0, 2)
    width = -8 * (-int(np.diff(starts).max()) // 8)
    places = starts[:-1, None] + np.arange(width)
    tiles = points[np.minimum(places, len(points) - 1)]
    tiles[places >= starts[1:, None]] = np.inf
    tiles = np.ascontiguousarray(tiles.transpose(0, 2, 1))
    order = order.astype(np.int64) if numbers is None else numbers[order]
    return Tree(order, points, starts, boxes, tiles)


@compiled(nogil=True)
def box_gap(boxes, node, other, norm):
    """Lower bound of the lengths between rows of two nodes."""
    total = 0.0
    for f in range(boxes.shape[2]):
        below = boxes[node, 0, f] - boxes[other, 1, f]
        above = boxes[other, 0, f] - boxes[node, 1, f]
        gap = below if below > above else above
        gap = gap if gap > 0.0 else 0.0
        if norm == 2:
            gap *= gap
        if norm:
            total += gap
        else:
            total = gap if gap > total else total
    return total


@compiled(nogil=True)
def tile_gaps(tiles, leaf, boxes, node, norm, out):
    """Lower bounds (w,) of the lengths from rows of a leaf to those of a node."""
    out[:] = 0.0
    for f in range(tiles.shape[1]):
        least = boxes[node, 0, f]
        most = boxes[node, 1, f]
        # One loop for each norm, since a branch inside would not be vectorised.
        if norm == 2:
            for w in range(tiles.shape[2]):
                gap = _outside(tiles[leaf, f, w], least, most)
                out[w] += gap * gap
        elif norm == 1:
            for w in range(tiles.shape[2]):
                out[w] += _outside(tiles[leaf, f, w], least, most)
        else:
            for w in range(tiles.shape[2]):
                gap = _outside(tiles[leaf, f, w], least, most)
                out[w] = gap if gap > out[w] else out[w]


@compiled(nogil=True)
def _outside(value, least, most):
    """How far a value is outside of an interval."""
    below = least - value
    above = value - most
    gap = below if below > above else above
    return gap if gap > 0.0 else 0.0


@compiled(nogil=True)
def tile_lengths(points, i, tiles, leaf, norm, out):
    """Lengths (w,) from a row to those of a leaf."""
    n_features = tiles.shape[1]
    width = tiles.shape[2]
    f = 0
    if norm == 2 and n_features > 1:
        p = points[i, 0]
        q = points[i, 1]
        for w in range(width):
            out[w] = (tiles[leaf, 0, w] - p) ** 2 + (tiles[leaf, 1, w] - q) ** 2
        f = 2
        # Four features at a time, which saves three of four passes over `out`.
        while f + 4 <= n_features:
            p = points[i, f]
            q = points[i, f + 1]
            r = points[i, f + 2]
            s = points[i, f + 3]
            for w in range(width):
                total = out[w] + (tiles[leaf, f, w] - p) ** 2
                total = total + (tiles[leaf, f + 1, w] - q) ** 2
                total = total + (tiles[leaf, f + 2, w] - r) ** 2
                out[w] = total + (tiles[leaf, f + 3, w] - s) ** 2
            f += 4
    else:
        out[:] = 0.0
    while f < n_features:
        p = points[i, f]
        if norm == 2:
            for w in range(width):
                out[w] += (tiles[leaf, f, w] - p) ** 2
        elif norm == 1:
            for w in range(width):
                out[w] += abs(tiles[leaf, f, w] - p)
        else:
            for w in range(width):
                difference = abs(tiles[leaf, f, w] - p)
                out[w] = difference if difference > out[w] else out[w]
        f += 1


@compiled(nogil=True)
def push_children(boxes, own, node, norm, stack, gaps, depth):
    """Put both children of `node` on the stack, the one nearer to `own` on top."""
    left = box_gap(boxes, own, 2 * node, norm)
    right = box_gap(boxes, own, 2 * node + 1, norm)
    is_left = left <= right
    stack[depth] = 2 * node + is_left
    gaps[depth] = right if is_left else left
    stack[depth + 1] = 2 * node + 1 - is_left
    gaps[depth + 1] = left if is_left else right
    return depth + 2
