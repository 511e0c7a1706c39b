"""The nearest rows of every row of a kd-tree, leaf by leaf."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._kd_tree import box_gap, first_step, next_step, push_children
from skdiffclust.forests._tiles import (
    LANES,
    bar_of,
    filter_block,
    measure,
    measure_filtered,
    tile_gaps,
)

STACK = 128

# Arrays are taken out of their tuples once, at the top of a kernel: numba counts a
# reference, atomically, each time that one is taken out.


@compiled(nogil=True)
def find_neighbors(first, last, tree, distances, positions):
    """Fill in the nearest rows of the rows of a range of leaves.

    `distances` and `positions` (n, k) are sorted by (distance, row); those at the last
    distance may be incomplete.
    """
    order, points, starts, boxes = tree.order, tree.points, tree.starts, tree.boxes
    tiles, single, single_tiles = tree.tiles, tree.single, tree.single_tiles
    bounds, n_leaves, width = tree.bounds, len(tree.starts) - 1, tree.tiles.shape[2]
    is_split = tree.is_split
    work, block = np.empty((2, width)), np.empty((LANES, width), dtype=np.float32)
    hits, active = np.empty((2, width + LANES), dtype=np.int64)
    stack, gaps = np.empty(STACK, dtype=np.int64), np.empty(STACK)
    for leaf in range(first, last):
        own = n_leaves + leaf
        for i in range(starts[leaf], starts[leaf + 1]):
            distances[i], positions[i] = np.inf, -1
        radius = np.inf
        node, at = first_step(own, is_split)
        while node > 0:
            stack[0], gaps[0] = node, box_gap(boxes, own, node)
            depth = 1
            while depth:
                depth -= 1
                node = stack[depth]
                if gaps[depth] >= radius:
                    continue
                if node < n_leaves:
                    depth = push_children(boxes, own, node, stack, gaps, depth)
                    continue
                radius = _meet(
                    points,
                    starts,
                    boxes,
                    tiles,
                    single,
                    single_tiles,
                    bounds,
                    distances,
                    positions,
                    leaf,
                    node - n_leaves,
                    gaps[depth],
                    radius,
                    work,
                    block,
                    hits,
                    active,
                )
            node, at = next_step(at)
        for i in range(starts[leaf], starts[leaf + 1]):
            _order_ties(order, distances, positions, i)


@compiled(nogil=True)
def _meet(
    points,
    starts,
    boxes,
    tiles,
    single,
    single_tiles,
    bounds,
    distances,
    positions,
    leaf,
    other,
    gap,
    radius,
    work,
    block,
    hits,
    active,
):
    """Offer the rows of leaf `other` to those of `leaf` as neighbours.

    Returns the largest distance at which one of these still takes neighbours.
    """
    found, nearest = work[0], work[1]
    start, count = starts[other], starts[other + 1] - starts[other]
    last = distances.shape[1] - 1
    # With many features boxes that nearly touch rule no row out.
    nearest[:] = 0.0
    if len(single) == 0 or 4 * gap > radius:
        tile_gaps(tiles, leaf, boxes, len(starts) - 1 + other, nearest)
    n_active = 0
    for i in range(starts[leaf], starts[leaf + 1]):
        active[n_active] = i
        n_active += nearest[i - starts[leaf]] < distances[i, last]
    for q in range(n_active):
        i = active[q]
        if len(single):
            if q % LANES == 0:
                active[n_active : n_active + LANES] = i
                filter_block(single, active, q, single_tiles, other, block)
            bar = bar_of(distances[i, last], bounds)
            n_hits = measure_filtered(
                points, i, block, q % LANES, start, count, bar, found, hits
            )
        else:
            n_hits = measure(
                points, i, tiles, other, count, distances[i, last], found, hits
            )
        for h in range(n_hits):
            j = start + hits[h]
            if j != i and found[h] < distances[i, last]:
                _insert(distances, positions, i, j, found[h])
    radius = 0.0
    for i in range(starts[leaf], starts[leaf + 1]):
        radius = max(radius, distances[i, last])
    return radius


@compiled(nogil=True)
def _insert(distances, positions, i, j, distance):
    """Insert neighbour j of i by distance, without a branch."""
    for at in range(distances.shape[1] - 1, -1, -1):
        before = distances[i, at - 1] if at else -1.0
        here = distances[i, at]
        new = j if here > distance else positions[i, at]
        if before > distance:
            new = positions[i, at - 1]
        positions[i, at] = new
        here = distance if here > distance else here
        distances[i, at] = before if before > distance else here


@compiled(nogil=True)
def _order_ties(order, distances, positions, i):
    """Sort neighbours of row i at equal distances by row."""
    for at in range(1, distances.shape[1]):
        k, j = at, positions[i, at]
        while (
            k > 0
            and distances[i, k - 1] == distances[i, at]
            and j >= 0
            and order[positions[i, k - 1]] > order[j]
        ):
            positions[i, k] = positions[i, k - 1]
            k -= 1
        positions[i, k] = j
