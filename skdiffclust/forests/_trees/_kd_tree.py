"""A balanced kd-tree without pointers, whose leaves are tiles for vector units.

Nodes are numbered as in a heap: node 1 is the root, 2 i and 2 i + 1 are the children of
i, and the last `n_leaves` nodes are the leaves. Every leaf holds the same number of
rows, give or take one, so a node is a range of positions that follows from its number.
"""

from typing import NamedTuple

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust._threads import run_chunks
from skdiffclust.forests._trees._tiles import LANES, single_rows


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
    single, single_tiles : ndarray of shape (n, e) and (n_leaves, e, w), float32
        The same for the float32 filter, centred, with e, d rounded up; empty without a
        filter.
    bounds : ndarray of shape (3,), float64
        What bounds the error of the filter.
    is_split : bool
        Whether only rows of different children of the root are joined by an edge.
    """

    order: np.ndarray
    points: np.ndarray
    starts: np.ndarray
    boxes: np.ndarray
    tiles: np.ndarray
    single: np.ndarray
    single_tiles: np.ndarray
    bounds: np.ndarray
    is_split: bool


def build_tree(points, leaf_size, is_filtered, n_threads, *, is_split=False):
    """Return the `Tree` of `points` (n, d). O(n d log n) time, O(n d) memory.

    With `is_split`, the children of the root are the first n // 2 rows and the others.
    """
    n_samples, n_features = points.shape
    depth = max(int(is_split), int(np.ceil(np.log2(n_samples / leaf_size))))
    n_leaves = 2**depth
    starts = np.arange(n_leaves + 1) * n_samples // n_leaves
    most = leaf_size + leaf_size // 4
    order = np.arange(n_samples)
    points = points.copy()
    # The upper nodes one level after the other, then the subtrees below them.
    n_upper = min(depth, max(1, (4 * n_threads - 1).bit_length()))
    for level in range(int(is_split), n_upper):
        arrays = (points, order, starts, most, level, 1)
        run_chunks(split_nodes, 2**level, arrays, n_threads)
    arrays = (points, order, starts, most, n_upper, depth - n_upper)
    run_chunks(split_nodes, 2**n_upper, arrays, n_threads)
    width = -8 * (-int(np.diff(starts).max()) // 8)
    single = np.zeros((0, LANES), dtype=np.float32)
    bounds = np.zeros(3)
    if is_filtered:
        single, bounds = single_rows(points)
    tree = Tree(
        order,
        points,
        starts,
        np.empty((2 * n_leaves, 2, n_features)),
        np.empty((n_leaves, n_features, width)),
        single,
        np.empty((n_leaves * is_filtered, single.shape[1], width), dtype=np.float32),
        bounds,
        is_split,
    )
    run_chunks(fill_leaves, n_leaves, (tree,), n_threads)
    bound_nodes(tree.boxes)
    return tree


@compiled(nogil=True)
def split_nodes(first, last, points, order, starts, most, level, n_levels):
    """Split a range of nodes of a level, and those `n_levels` - 1 levels below.

    Equal values go to the same side if no leaf becomes empty or larger than `most`, and
    `starts` follows: with integers, boxes would otherwise touch each other.
    """
    n_leaves = len(starts) - 1
    for below in range(n_levels):
        span = n_leaves >> (level + below)
        half = span // 2
        for node in range(first << below, last << below):
            start = starts[node * span]
            stop = starts[(node + 1) * span]
            middle = (start + stop) // 2
            feature = _widest(points, start, stop)
            _select(points, order, start, stop, middle, feature)
            least = max(start + half, stop - most * half)
            greatest = min(stop - half, start + most * half)
            split = _between_values(points, start, stop, middle, feature)
            if split != middle and least <= split <= greatest:
                _select(points, order, start, stop, split, feature)
                middle = split
            starts[node * span + half] = middle


@compiled(nogil=True)
def _between_values(points, start, stop, middle, feature):
    """Number of the row nearest to `middle` before which all values are smaller."""
    value = points[middle, feature]
    for i in range(middle + 1, stop):
        value = min(value, points[i, feature])
    first = start
    last = start
    for i in range(start, stop):
        first += points[i, feature] < value
        last += points[i, feature] <= value
    return first if middle - first <= last - middle else last


@compiled(nogil=True)
def _widest(points, start, stop):
    """Feature in which the rows of a range differ most."""
    n_features = points.shape[1]
    low = points[start].copy()
    high = points[start].copy()
    for i in range(start + 1, stop):
        for f in range(n_features):
            value = points[i, f]
            low[f] = value if value < low[f] else low[f]
            high[f] = value if value > high[f] else high[f]
    return np.argmax(high - low)


@compiled(nogil=True)
def _select(points, order, start, stop, middle, feature):
    """Move rows so that no row before `middle` exceeds one after it (quickselect)."""
    left = start
    right = stop
    while right - left > 1:
        step = (right - left) // 8
        a = points[left + step, feature]
        b = points[(left + right) // 2, feature]
        c = points[right - 1 - step, feature]
        pivot = max(min(a, b), min(max(a, b), c))
        # Every row is moved, even if it need not be: a branch would be mispredicted
        # half of the time.
        low = left
        for i in range(left, right):
            is_low = points[i, feature] < pivot
            _swap(points, order, i, low)
            low += is_low
        if middle < low:
            right = low
            continue
        left = low
        for i in range(low, right):
            if points[i, feature] == pivot:
                _swap(points, order, i, left)
                left += 1
        if middle < left:
            return


@compiled(nogil=True, forceinline=True)
def _swap(points, order, i, j):
    """Swap two positions."""
    for f in range(points.shape[1]):
        points[i, f], points[j, f] = points[j, f], points[i, f]
    order[i], order[j] = order[j], order[i]


@compiled(nogil=True)
def fill_leaves(first, last, tree):
    """Fill the tiles and boxes of a range of leaves."""
    points = tree.points
    starts = tree.starts
    boxes = tree.boxes
    tiles = tree.tiles
    single = tree.single
    single_tiles = tree.single_tiles
    for leaf in range(first, last):
        node = len(starts) - 1 + leaf
        start = starts[leaf]
        count = starts[leaf + 1] - start
        for f in range(points.shape[1]):
            boxes[node, 0, f] = boxes[node, 1, f] = points[start, f]
            tiles[leaf, f, count:] = np.inf
            for w in range(count):
                value = points[start + w, f]
                tiles[leaf, f, w] = value
                boxes[node, 0, f] = min(boxes[node, 0, f], value)
                boxes[node, 1, f] = max(boxes[node, 1, f], value)
        if len(single):
            for f in range(single.shape[1]):
                single_tiles[leaf, f, count:] = np.float32(np.inf)
                for w in range(count):
                    single_tiles[leaf, f, w] = single[start + w, f]


@compiled(nogil=True)
def bound_nodes(boxes):
    """Boxes of the inner nodes from those of their children."""
    for node in range(len(boxes) // 2 - 1, 0, -1):
        for f in range(boxes.shape[2]):
            boxes[node, 0, f] = min(boxes[2 * node, 0, f], boxes[2 * node + 1, 0, f])
            boxes[node, 1, f] = max(boxes[2 * node, 1, f], boxes[2 * node + 1, 1, f])


@compiled(nogil=True, forceinline=True)
def box_gap(boxes, node, other):
    """Lower bound of the squared distances between rows of two nodes.

    It is rounded like a distance, feature by feature, and rounding is monotone: no
    computed distance is smaller than the computed bound.
    """
    total = 0.0
    for f in range(boxes.shape[2]):
        below = boxes[node, 0, f] - boxes[other, 1, f]
        above = boxes[other, 0, f] - boxes[node, 1, f]
        gap = below if below > above else above
        gap = gap if gap > 0.0 else 0.0
        total += gap * gap
    return total


@compiled(nogil=True)
def first_step(own, is_split):
    """Where a search from leaf `own` begins: a node, and the ancestor to climb from.

    A search continues with the sibling of each ancestor, `next_step`, up to node 0.
    """
    if not is_split:
        return own, own
    while own > 3:
        own >>= 1
    return own ^ 1, 1


@compiled(nogil=True)
def next_step(at, level):
    """The sibling of ancestor `at` and the ancestor above it; 0 above `level`."""
    return (at ^ 1, at >> 1) if at >> (level + 1) else (0, 0)


@compiled(nogil=True, forceinline=True)
def push_children(boxes, own, node, stack, gaps, depth):
    """Put both children of `node` on the stack, the one nearer to `own` on top."""
    left = box_gap(boxes, own, 2 * node)
    right = box_gap(boxes, own, 2 * node + 1)
    near = 2 * node if left <= right else 2 * node + 1
    stack[depth] = near ^ 1
    gaps[depth] = max(left, right)
    stack[depth + 1] = near
    gaps[depth + 1] = min(left, right)
    return depth + 2
