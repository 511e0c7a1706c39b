"""The nearest rows of every row of a k-d tree, leaf by leaf."""

import numpy as np

from skdiffclust._compiled import compiled, inner
from skdiffclust.forests._trees._kd_tree import (
    box_gap,
    push_children,
    tile_gaps,
    tile_lengths,
)

STACK = 128


# Arrays are taken out of their tuples once, at the top of a kernel: numba counts a
# reference, atomically, each time that one is taken out.


@compiled(nogil=True)
def find_neighbors(first, last, tree, norm, offset, distances, positions):
    """Find the nearest rows of the rows of some leaves; return how many were measured.

    The neighbours of position i are written to row i - `offset` of `distances` and
    `positions` (n, k), sorted by length; those at the last length may be incomplete.
    """
    points = tree.points
    starts = tree.starts
    boxes = tree.boxes
    tiles = tree.tiles
    n_leaves = len(starts) - 1
    width = tiles.shape[2]
    k = distances.shape[1]
    measured = np.empty(width)
    nearest = np.empty(width)
    lists = np.empty((k, width))
    places = np.empty((k, width), dtype=np.int64)
    stack = np.empty(STACK, dtype=np.int64)
    gaps = np.empty(STACK)
    n_seen = 0
    for leaf in range(first, last):
        own = n_leaves + leaf
        start = starts[leaf]
        n_rows = starts[leaf + 1] - start
        search_own_leaf(
            points, start, n_rows, tiles, leaf, norm, measured, lists, places
        )
        radius = 0.0
        for w in range(n_rows):
            for at in range(k):
                distances[start + w - offset, at] = lists[at, w]
                positions[start + w - offset, at] = places[at, w]
            radius = max(radius, lists[k - 1, w])
        climbed = own
        while climbed > 1:
            stack[0] = climbed ^ 1
            gaps[0] = box_gap(boxes, own, climbed ^ 1, norm)
            climbed >>= 1
            depth = 1
            while depth:
                depth -= 1
                node = stack[depth]
                if gaps[depth] >= radius:
                    continue
                if node < n_leaves:
                    depth = push_children(boxes, own, node, norm, stack, gaps, depth)
                    continue
                other = node - n_leaves
                begin = starts[other]
                n_others = starts[other + 1] - begin
                tile_gaps(tiles, leaf, boxes, node, norm, nearest)
                radius = 0.0
                for w in range(n_rows):
                    i = start + w - offset
                    limit = distances[i, k - 1]
                    if nearest[w] < limit:
                        n_seen += n_others
                        near = tile_lengths(
                            points, start + w, tiles, other, norm, limit, measured
                        )
                        for v in range(n_others if near else 0):
                            if measured[v] < limit:
                                insert(distances, positions, i, begin + v, measured[v])
                                limit = distances[i, k - 1]
                    radius = max(radius, limit)
    return n_seen


@inner
def search_own_leaf(points, start, n_rows, tiles, leaf, norm, measured, lists, places):
    """Fill lists (k, w) of the nearest rows of each row within its own leaf.

    Each row in turn is offered to all rows at once, so vector units do the work.
    """
    for at in range(len(lists)):
        for w in range(len(measured)):
            lists[at, w] = np.inf
            places[at, w] = -1
    carried = np.empty(len(measured), dtype=np.int64)
    for own in range(n_rows):
        tile_lengths(points, start + own, tiles, leaf, norm, 0.0, measured)
        measured[own] = np.inf
        for w in range(len(measured)):
            carried[w] = start + own
        for at in range(len(lists)):
            for w in range(len(measured)):
                here = lists[at, w]
                new = measured[w]
                place = places[at, w]
                new_place = carried[w]
                closer = new < here
                lists[at, w] = new if closer else here
                measured[w] = here if closer else new
                places[at, w] = new_place if closer else place
                carried[w] = place if closer else new_place


@inner
def insert(distances, positions, i, j, distance):
    """Insert neighbour j of i by distance in place of the last one."""
    at = distances.shape[1] - 1
    while at > 0 and distances[i, at - 1] > distance:
        distances[i, at] = distances[i, at - 1]
        positions[i, at] = positions[i, at - 1]
        at -= 1
    distances[i, at] = distance
    positions[i, at] = j


@compiled(nogil=True)
def sort_neighbors(first, last, order, core, tie, distances, positions):
    """Sort the neighbours of a range of positions by (length, row).

    Lengths are first raised to the `core` (n,) of both ends, and `tie` times what they
    were is added.
    """
    for i in range(first, last):
        for k in range(distances.shape[1]):
            length = distances[i, k]
            j = positions[i, k]
            if j >= 0:
                length = max(length, max(core[i], core[j])) + tie * length
            at = k
            while (
                at > 0
                and j >= 0
                and (
                    distances[i, at - 1] > length
                    or (
                        distances[i, at - 1] == length
                        and order[positions[i, at - 1]] > order[j]
                    )
                )
            ):
                distances[i, at] = distances[i, at - 1]
                positions[i, at] = positions[i, at - 1]
                at -= 1
            distances[i, at] = length
            positions[i, at] = j
