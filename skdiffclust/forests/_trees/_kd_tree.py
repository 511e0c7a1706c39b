"""A balanced k-d tree whose leaves are tiles for vector units.

Nodes are numbered as in a heap: node 1 is the root, 2 i and 2 i + 1 are the children of
i, and the last `n_leaves` nodes are the leaves. A node is split in its widest feature,
between two different values as near to the median as the largest size of a leaf
allows: boxes of integers that share values would not rule each other out.

Lengths are squared Euclidean distances (norm 2), sums of absolute differences (norm 1)
or the largest of them (norm 0). They are summed over the features in order, and so are
the bounds by boxes: rounding is monotone, so no length is less than its bound.
"""

from typing import NamedTuple

import numpy as np
from sklearn.neighbors import KDTree

from skdiffclust._compiled import compiled, inner
from skdiffclust._threads import run_chunks
from skdiffclust.forests._trees._compilation_threshold import LINEAR, is_compiled

# Leaves have at most this many rows on average, and no leaf has more than the largest.
_LEAF_SIZE = 80
_LARGEST = 96


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


def build_tree(points, n_threads=1):
    """Return the `Tree` of `points` (n, d). O(n d log n) time, O(n d) memory."""
    n_samples, n_features = points.shape
    n_leaves = 1 << int(-(-n_samples // _LEAF_SIZE) - 1).bit_length()
    if is_compiled(n_samples / LINEAR, split_nodes):
        order, firsts, boxes = _nodes(points, n_leaves, n_threads)
    else:
        order, firsts, boxes = _nodes_of_scikit_learn(points, n_leaves)
    # Unlike points[order], `take` copies a row at once.
    points = points.take(order, axis=0)
    starts = np.append(firsts[n_leaves:], n_samples)
    sizes = np.diff(starts)
    width = -8 * (-int(sizes.max()) // 8)
    is_row = np.arange(width) < sizes[:, None]
    tiles = np.full((n_leaves, n_features, width), np.inf)
    for f in range(n_features):
        tiles[:, f][is_row] = points[:, f]
    return Tree(order, points, starts, boxes, tiles)


def _nodes(points, n_leaves, n_threads):
    """Return the order of the rows, and the first position and the box of each node."""
    n_samples, n_features = points.shape
    order = np.arange(n_samples)
    spans = np.zeros((2 * n_leaves, 2), dtype=np.int64)
    spans[1, 1] = n_samples
    boxes = np.zeros((2 * n_leaves, 2, n_features))
    values = np.empty(n_samples)
    rows = np.empty(n_samples, dtype=np.int64)
    level = 1
    while level <= n_leaves:
        below = n_leaves // level // 2
        arguments = level, below, points, order, spans, boxes, values, rows
        run_chunks(split_nodes, level, arguments, n_threads)
        level *= 2
    return order, spans[:, 0], boxes


def _nodes_of_scikit_learn(points, n_leaves):
    """Return what `_nodes` does, of a tree that parts equal values.

    For a process that has not compiled `split_nodes`: it takes half a second more.
    """
    tree = KDTree(points, leaf_size=max(1, (len(points) - 1) // n_leaves))
    _, order, nodes, bounds = map(np.asarray, tree.get_arrays())
    # The root is node 1 of ours.
    firsts = np.append(0, nodes["idx_start"])
    boxes = np.concatenate([np.zeros_like(bounds[:, :1]), bounds], axis=1)
    return order.astype(np.int64), firsts, np.ascontiguousarray(boxes.swapaxes(0, 1))


@compiled(nogil=True)
def split_nodes(first, last, level, below, points, order, spans, boxes, values, rows):
    """Find the boxes of nodes of a level, and order their rows by the children.

    `order` (n,) and `spans` (2 * n_leaves, 2) are the rows at each position and the
    positions of each node; `below` is the number of leaves of a child, 0 for leaves.
    Writes to `values` and `rows` (n,).
    """
    n_features = points.shape[1]
    for node in range(level + first, level + last):
        start = spans[node, 0]
        stop = spans[node, 1]
        # Not a literal, for which numba would compile `divide` a second time.
        widest = np.int64(0)
        width = -1.0
        for f in range(n_features):
            least = np.inf
            most = -np.inf
            for at in range(start, stop):
                value = points[order[at], f]
                least = value if value < least else least
                most = value if value > most else most
            boxes[node, 0, f] = least
            boxes[node, 1, f] = most
            if most - least > width:
                width = most - least
                widest = f
        if not below:
            continue
        middle = start + divide(
            points,
            widest,
            order[start:stop],
            values[start:stop],
            rows[start:stop],
            below,
        )
        spans[2 * node, 0] = start
        spans[2 * node, 1] = middle
        spans[2 * node + 1, 0] = middle
        spans[2 * node + 1, 1] = stop


@inner
def divide(points, f, order, values, rows, below):
    """Order the rows (m,) of a node by feature f; return how many go to the left child.

    The children have `below` leaves each. Rows with the median value share a child if
    no leaf becomes too large. The median is found by passes which move the values below
    a pivot to the front, and where it is not among these, those equal to it. There are
    no branches that depend on values, which no processor predicts.
    """
    n_rows = len(order)
    half = n_rows // 2
    for at in range(n_rows):
        rows[at] = order[at]
        values[at] = points[rows[at], f]
    low = 0
    high = n_rows
    while True:
        a = values[low]
        b = values[(low + high) // 2]
        c = values[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        end = low
        for at in range(low, high):
            value = values[at]
            values[at] = values[end]
            values[end] = value
            end += value < pivot
        if half < end:
            high = end
            continue
        low = end
        for at in range(low, high):
            value = values[at]
            values[at] = values[end]
            values[end] = value
            end += value == pivot
        if half < end:
            break
        low = end
    # The rows with the median value, the last pivot, get the places `low` to `end`.
    less = 0
    equal = low
    more = end
    for at in range(n_rows):
        value = points[rows[at], f]
        is_less = value < pivot
        is_more = value > pivot
        place = less if is_less else more if is_more else equal
        order[place] = rows[at]
        less += is_less
        more += is_more
        equal += not (is_less or is_more)
    least = max(below, n_rows - below * _LARGEST)
    best = half
    fits = False
    for place in (low, end):
        if least <= place <= n_rows - least and (
            not fits or abs(place - half) < abs(best - half)
        ):
            best = place
            fits = True
    return best


@inner
def box_gap(boxes, node, other_boxes, other, norm):
    """Lower bound of the lengths between rows of two nodes, of one tree or of two."""
    total = 0.0
    for f in range(boxes.shape[2]):
        gap = _gap(
            boxes[node, 0, f],
            boxes[node, 1, f],
            other_boxes[other, 0, f],
            other_boxes[other, 1, f],
        )
        if norm == 2:
            gap *= gap
        if norm:
            total += gap
        else:
            total = gap if gap > total else total
    return total


@inner
def tile_gaps(tiles, leaf, boxes, node, norm, out):
    """Lower bounds (w,) of the lengths from rows of a leaf to those of a node."""
    for w in range(tiles.shape[2]):
        out[w] = 0.0
    for f in range(tiles.shape[1]):
        least = boxes[node, 0, f]
        most = boxes[node, 1, f]
        for w in range(tiles.shape[2]):
            gap = _gap(least, most, tiles[leaf, f, w], tiles[leaf, f, w])
            # LLVM makes a loop for each norm of this.
            if norm == 2:
                out[w] += gap * gap
            elif norm == 1:
                out[w] += gap
            else:
                out[w] = gap if gap > out[w] else out[w]


@inner
def _gap(least, most, other_least, other_most):
    """How far two intervals are apart."""
    below = least - other_most
    above = other_least - most
    gap = below if below > above else above
    return gap if gap > 0.0 else 0.0


@inner
def tile_lengths(points, i, tiles, leaf, norm, limit, out):
    """Lengths (w,) from a row to those of a leaf; whether any is within a limit."""
    for w in range(tiles.shape[2]):
        out[w] = 0.0
    for f in range(tiles.shape[1]):
        p = points[i, f]
        for w in range(tiles.shape[2]):
            difference = abs(tiles[leaf, f, w] - p)
            if norm == 2:
                out[w] += difference * difference
            elif norm == 1:
                out[w] += difference
            else:
                out[w] = difference if difference > out[w] else out[w]
    is_near = False
    for w in range(tiles.shape[2]):
        is_near |= out[w] <= limit
    return is_near


@inner
def push_children(boxes, own, other_boxes, node, norm, stack, gaps, depth):
    """Put both children of `node` on the stack, the one nearer to `own` on top."""
    left = box_gap(boxes, own, other_boxes, 2 * node, norm)
    right = box_gap(boxes, own, other_boxes, 2 * node + 1, norm)
    is_left = left <= right
    stack[depth] = 2 * node + is_left
    gaps[depth] = right if is_left else left
    stack[depth + 1] = 2 * node + 1 - is_left
    gaps[depth + 1] = left if is_left else right
    return depth + 2
