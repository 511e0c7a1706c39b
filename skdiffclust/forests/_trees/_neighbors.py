"""The nearest rows of every row of a kd-tree, leaf by leaf.

If boxes rule out little, nearly all pairs of leaves are compared. Then each pair is
compared once, for the rows of both: the leaves are divided into groups, and in round r
group g is compared with group g XOR r, so that no two threads ever write to the same
rows.
"""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust._threads import run_chunks
from skdiffclust.forests._trees._kd_tree import (
    box_gap,
    next_step,
    push_children,
)
from skdiffclust.forests._trees._tiles import (
    LANES,
    cutoff_of,
    filter_block,
    measure,
    measure_filtered,
    tile_distances,
    tile_gaps,
)

STACK = 128
# Float32 differences of a feature that one call of a kernel computes: under 0.1 s.
_DIFFERENCES_PER_CHUNK = 1e9


def nearest_neighbors(tree, near, n_threads):
    """Fill in `near`: squared distances and positions (n, k) of the nearest rows.

    They are sorted by (distance, row); those at the last distance may be incomplete.
    """
    n_samples = len(tree.points)
    n_leaves = len(tree.starts) - 1
    if not len(tree.single):
        run_chunks(find_neighbors, n_leaves, (tree, *near, 0), n_threads)
        run_chunks(order_ties, n_samples, (tree.order, *near), n_threads)
        return
    rows_in_group = np.sqrt(_DIFFERENCES_PER_CHUNK / tree.single.shape[1])
    level = int(np.log2(max(4 * n_threads, n_samples / rows_in_group))) + 1
    level = min(level, n_leaves.bit_length() - 1)
    run_chunks(find_neighbors, n_leaves, (tree, *near, level), n_threads)
    cutoffs = np.empty(n_samples, dtype=np.float32)
    run_chunks(set_cutoffs, n_samples, (near[0], tree.bounds, cutoffs), n_threads)
    n_groups = 2**level
    for other in range(1, n_groups):
        asked = (tree, *near, cutoffs, level, other)
        run_chunks(join_groups, n_groups // 2, asked, n_threads)
    run_chunks(order_ties, n_samples, (tree.order, *near), n_threads)


# Arrays are taken out of their tuples once, at the top of a kernel: numba counts a
# reference, atomically, each time that one is taken out.


@compiled(nogil=True)
def find_neighbors(first, last, tree, distances, positions, level):
    """Fill in the nearest rows of the rows of a range of leaves.

    Only among the rows of the same node at depth `level`.
    """
    points = tree.points
    starts = tree.starts
    boxes = tree.boxes
    tiles = tree.tiles
    single = tree.single
    single_tiles = tree.single_tiles
    bounds = tree.bounds
    n_leaves = len(tree.starts) - 1
    width = tree.tiles.shape[2]
    work = np.empty((3, width))
    block = np.empty((LANES, width), dtype=np.float32)
    hits, active = np.empty((2, width + LANES), dtype=np.int64)
    lists = np.empty((distances.shape[1], width))
    places = np.empty(lists.shape, dtype=np.int64)
    stack = np.empty(STACK, dtype=np.int64)
    gaps = np.empty(STACK)
    for leaf in range(first, last):
        own = n_leaves + leaf
        start = starts[leaf]
        count = starts[leaf + 1] - start
        lists[:] = np.inf
        places[:] = -1
        node, at = own, own
        if len(single) == 0:
            _update_own_leaf(points, start, count, tiles, leaf, work[0], lists, places)
            node, at = next_step(at, level)
        work[2] = -np.inf
        for w in range(count):
            distances[start + w] = lists[:, w]
            positions[start + w] = places[:, w]
            work[2, w] = lists[-1, w]
        radius = work[2].max()
        while node > 0:
            stack[0] = node
            gaps[0] = box_gap(boxes, own, node)
            depth = 1
            while depth:
                depth -= 1
                node = stack[depth]
                if gaps[depth] >= radius:
                    continue
                if node < n_leaves:
                    depth = push_children(boxes, own, node, stack, gaps, depth)
                    continue
                _update_neighbors(
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
                radius = work[2].max()
            node, at = next_step(at, level)


@compiled(nogil=True)
def _update_own_leaf(points, start, count, tiles, leaf, found, lists, places):
    """Fill lists (k, w) of the nearest rows of each row within its own leaf.

    Each row in turn is offered to all rows at once, so vector units do the work.
    """
    carried = np.empty(len(found), dtype=np.int64)
    for own in range(count):
        tile_distances(points, start + own, tiles, leaf, found)
        found[own] = np.inf
        carried[:] = start + own
        for at in range(len(lists)):
            _keep_nearer(found, carried, lists[at], places[at])


@compiled(nogil=True)
def _keep_nearer(found, carried, distances, places):
    """Swap the distances (w,) found with those kept wherever they are smaller."""
    for w in range(len(found)):
        here = distances[w]
        new = found[w]
        place = places[w]
        new_place = carried[w]
        closer = new < here
        distances[w] = new if closer else here
        found[w] = here if closer else new
        places[w] = new_place if closer else place
        carried[w] = place if closer else new_place


@compiled(nogil=True, forceinline=True)
def _update_neighbors(
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

    ``work[2]`` holds the distances within which these still need neighbours.
    """
    found = work[0]
    nearest = work[1]
    radii = work[2]
    start = starts[other]
    count = starts[other + 1] - starts[other]
    last = distances.shape[1] - 1
    # With many features, boxes that nearly touch rule out no row.
    nearest[:] = 0.0
    if len(single) == 0 or 4 * gap > radius:
        tile_gaps(tiles, leaf, boxes, len(starts) - 1 + other, nearest)
    n_active = 0
    for i in range(starts[leaf], starts[leaf + 1]):
        active[n_active] = i
        n_active += nearest[i - starts[leaf]] < radii[i - starts[leaf]]
    for q in range(n_active):
        i = active[q]
        if len(single):
            if q % LANES == 0:
                active[n_active : n_active + LANES] = i
                filter_block(single, active, q, single_tiles, other, block)
            cutoff = cutoff_of(distances[i, last], bounds)
            n_hits = measure_filtered(
                points, i, block, q % LANES, start, count, cutoff, found, hits
            )
        else:
            n_hits = measure(
                points, i, tiles, other, count, distances[i, last], found, hits
            )
        for h in range(n_hits):
            j = start + hits[h]
            if j != i and found[h] < distances[i, last]:
                _insert(distances, positions, i, j, found[h])
        radii[i - starts[leaf]] = distances[i, last]


@compiled(nogil=True, forceinline=True)
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
def order_ties(first, last, order, distances, positions):
    """Sort neighbours at equal distances by row, for a range of positions."""
    for i in range(first, last):
        for at in range(1, distances.shape[1]):
            k = at
            j = positions[i, at]
            while (
                k > 0
                and distances[i, k - 1] == distances[i, at]
                and j >= 0
                and order[positions[i, k - 1]] > order[j]
            ):
                positions[i, k] = positions[i, k - 1]
                k -= 1
            positions[i, k] = j


@compiled(nogil=True)
def set_cutoffs(first, last, distances, bounds, cutoffs):
    """Set the float32 length beyond which each row of a range needs no neighbour."""
    for i in range(first, last):
        cutoffs[i] = cutoff_of(distances[i, distances.shape[1] - 1], bounds)


@compiled(nogil=True)
def join_groups(first, last, tree, distances, positions, cutoffs, level, other):
    """Offer rows to each other in a range of the pairs of groups (g, g XOR `other`)."""
    points = tree.points
    starts = tree.starts
    boxes = tree.boxes
    tiles = tree.tiles
    single = tree.single
    single_tiles = tree.single_tiles
    bounds = tree.bounds
    n_leaves = len(starts) - 1
    width = tiles.shape[2]
    k = distances.shape[1] - 1
    nearest = np.empty(width)
    block = np.empty((LANES, width), dtype=np.float32)
    hits, active = np.empty((2, width + LANES), dtype=np.int64)
    span = n_leaves >> level
    top = 1
    while 2 * top <= other:
        top *= 2
    for pair in range(first, last):
        # The groups without the highest bit of `other`, counted.
        group = pair % top + pair // top * 2 * top
        for leaf in range(group * span, (group + 1) * span):
            for b in range((group ^ other) * span, ((group ^ other) + 1) * span):
                radius = max(
                    distances[starts[leaf] : starts[leaf + 1], k].max(),
                    distances[starts[b] : starts[b + 1], k].max(),
                )
                gap = box_gap(boxes, n_leaves + leaf, n_leaves + b)
                if gap >= radius:
                    continue
                nearest[:] = 0.0
                if 4 * gap > radius:
                    tile_gaps(tiles, leaf, boxes, n_leaves + b, nearest)
                n_active = 0
                for i in range(starts[leaf], starts[leaf + 1]):
                    active[n_active] = i
                    n_active += nearest[i - starts[leaf]] < radius
                start = starts[b]
                count = starts[b + 1] - starts[b]
                for q in range(n_active):
                    i = active[q]
                    if q % LANES == 0:
                        active[n_active : n_active + LANES] = i
                        filter_block(single, active, q, single_tiles, b, block)
                        is_near = _any_near(block, active, q, cutoffs, start, count)
                    if not is_near:
                        continue
                    _update_both(
                        points,
                        block,
                        q % LANES,
                        distances,
                        positions,
                        cutoffs,
                        bounds,
                        i,
                        start,
                        count,
                        hits,
                    )


@compiled(nogil=True)
def _any_near(block, active, q, cutoffs, start, count):
    """Whether any length of a block may give a neighbour to either end."""
    cutoff = max(
        max(cutoffs[active[q]], cutoffs[active[q + 1]]),
        max(cutoffs[active[q + 2]], cutoffs[active[q + 3]]),
    )
    n_near = np.int32(0)
    for w in range(count):
        a = block[0, w]
        b = block[1, w]
        c = block[2, w]
        d = block[3, w]
        a = a if a < b else b
        c = c if c < d else d
        a = a if a < c else c
        limit = cutoffs[start + w] if cutoffs[start + w] > cutoff else cutoff
        n_near += np.int32(a <= limit)
    return n_near > 0


@compiled(nogil=True)
def _update_both(
    points,
    block,
    k,
    distances,
    positions,
    cutoffs,
    bounds,
    i,
    start,
    count,
    hits,
):
    """Offer row i, row k of the `block`, and the rows of a leaf to each other."""
    n_near = np.int32(0)
    for w in range(count):
        cutoff = cutoffs[start + w] if cutoffs[start + w] > cutoffs[i] else cutoffs[i]
        n_near += np.int32(block[k, w] <= cutoff)
    if n_near == 0:
        return
    n_hits = 0
    last = distances.shape[1] - 1
    for w in range(count):
        hits[n_hits] = start + w
        n_hits += block[k, w] <= max(cutoffs[start + w], cutoffs[i])
    for h in range(n_hits):
        j = hits[h]
        distance = 0.0
        for f in range(points.shape[1]):
            distance += (points[i, f] - points[j, f]) ** 2
        if distance < distances[i, last]:
            _insert(distances, positions, i, j, distance)
            cutoffs[i] = cutoff_of(distances[i, last], bounds)
        if distance < distances[j, last]:
            _insert(distances, positions, j, i, distance)
            cutoffs[j] = cutoff_of(distances[j, last], bounds)
