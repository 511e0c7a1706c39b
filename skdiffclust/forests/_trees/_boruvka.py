"""Borůvka's algorithm on a k-d tree: the exact minimum spanning tree of points.

Every vertex first finds its nearest rows, once. Then, in each round, every component
but the largest takes its first outgoing edge in the total order (length, i, j). A row
is searched again only where what is known of it, the lower bound `reach` of the length
to any row outside that it has not seen, does not rule it out; a search skips all nodes
of its own component and all that are farther than the best edge found so far by any row
of it.

Threads share those best lengths without a lock: one that is out of date only prunes
less. Each row's own finds are written by one thread, and the edge of a component is
chosen from them afterwards, so the tree does not depend on the threads.
"""

from typing import NamedTuple

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust._duplicates import first_equal
from skdiffclust._threads import run_chunks
from skdiffclust.forests._trees._components import number_components
from skdiffclust.forests._trees._kd_tree import (
    box_gap,
    build_tree,
    push_children,
    tile_gaps,
    tile_lengths,
)
from skdiffclust.forests._trees._neighbors import (
    STACK,
    find_neighbors,
    sort_neighbors,
)
from skdiffclust.forests._trees._tree import TIE
from skdiffclust.forests._trees._union_find import find, precedes, union

_MIXED = -1
# Least number of nearest rows that are found first.
_N_NEIGHBORS = 6
# On a grid at least and at most: more take longer to find than rows to search again.
_N_NEIGHBORS_ON_A_GRID = 8, 11
# With this few features, rows may lie on a grid by their rounding.
_LOW = 3
# Longer lists are searched for core lengths only.
_LONGEST_LIST = 64
# Largest number of differences of a feature that a probe computes.
_DIFFERENCES_PER_CHUNK = 1e9
# Share of all rows that a search for neighbours sees, in a probe of some leaves, above
# which measuring all pairs of rows in order is faster.
_SEEN_BY_SEARCH = 0.6


class Rows(NamedTuple):
    """State of the search at each position of the tree.

    Attributes
    ----------
    distances, positions : ndarray of shape (n, k), float64 and int32
        Nearest rows by (length, row); those at the last length may be incomplete.
    core : ndarray of shape (n,), float64
        Lengths of edges that end here are at least this; zeros if none is raised.
    tie : float
        Share of the plain length that is added to a raised one; 0 if none is raised.
    node_core : ndarray of shape (2 * n_leaves,), float64
        The least core of the rows of each node.
    reach : ndarray of shape (n,), float64
        No row outside the component, found ones excepted, is nearer than this.
    skipped : ndarray of shape (n,), int32
        How many of the nearest rows are in the own component.
    length, other : ndarray of shape (n,), float64 and int32
        Nearest row outside that was found, -1 if none.
    component : ndarray of shape (n,), int32
        Components, numbered from 0 up.
    uniform : ndarray of shape (2 * n_leaves,), int32
        Component of each node, -1 where it has several.
    """

    distances: np.ndarray
    positions: np.ndarray
    core: np.ndarray
    tie: float
    node_core: np.ndarray
    reach: np.ndarray
    skipped: np.ndarray
    length: np.ndarray
    other: np.ndarray
    component: np.ndarray
    uniform: np.ndarray


def boruvka(points, nodes, n_threads, norm=2):
    """Return the edges of the minimum spanning tree of the rows of `points` (n, d).

    Lengths are those of a `norm`, see `_kd_tree`. Rows with the same id in `nodes`
    (n,), ids 0 up, count as one vertex. Equal rows should be joined first, with
    `join_duplicates`: otherwise the search is slow. Returns edges (m, 2) with i < j and
    their lengths (m,); m is the number of vertices less one. The result is None if
    boxes rule out so little that measuring all pairs is faster.
    """
    tree = build_tree(points, n_threads)
    if points.shape[1] > _LOW and not rules_out(tree, norm):
        return None
    near = _nearest(tree, norm, _neighbors_to_find(points), n_threads)
    near = _raised(tree, near, np.zeros(len(points)), n_threads)
    return _grow(tree, norm, near, nodes[tree.order], n_threads)


def rules_out(tree, norm):
    """Whether searches for neighbours see few of the rows; some leaves are tried."""
    n_leaves = len(tree.starts) - 1
    n_differences = tree.tiles.shape[2] * tree.points.size  # of a leaf, at most
    n_tried = max(1, min(n_leaves // 128, int(_DIFFERENCES_PER_CHUNK / n_differences)))
    first = n_leaves // 2
    offset = tree.starts[first]
    n_rows = tree.starts[first + n_tried] - offset
    near = _new_lists(n_rows, _N_NEIGHBORS)
    n_seen = find_neighbors(first, first + n_tried, tree, norm, offset, *near)
    return n_seen <= _SEEN_BY_SEARCH * n_rows * len(tree.points)


def raised_neighbors(points, min_samples, n_threads, norm=2, firsts=None):
    """Find the core lengths of the rows of `points` (n, d), and how their tree grows.

    The core length is that to the `min_samples`-th nearest row, itself counted. Returns
    them (n,) and a function of the number of threads that returns the edges (n - 1, 2),
    i < j, and lengths of the tree, where lengths between different rows are raised to
    the core lengths of both ends; None if lengths are not Euclidean and boxes rule out
    little. `firsts` (n,) are those of `first_equal`, if they are known.
    """
    firsts = first_equal(points) if firsts is None else firsts
    counts = np.bincount(firsts, minlength=len(points))
    kept = np.flatnonzero(counts)
    if len(kept) < len(points):
        points = points[kept]
    tree = build_tree(points, n_threads)
    if norm != 2 and not rules_out(tree, norm):
        return None
    counts = counts[kept][tree.order]
    core = np.empty(len(kept))
    # One more than core lengths need, so that few rows are searched again.
    near = _nearest(tree, norm, max(min_samples + 1, _N_NEIGHBORS), n_threads)
    find_cores(*near, counts, min_samples, core)
    if min_samples > _LONGEST_LIST:
        near = [np.ascontiguousarray(lists[:, :_N_NEIGHBORS]) for lists in near]
    lists = _raised(tree, near, core, n_threads)

    def grow(n_threads):
        edges, lengths = _grow(tree, norm, lists, np.arange(len(kept)), n_threads)
        duplicates = np.flatnonzero(firsts != np.arange(len(firsts)))
        joined = np.column_stack([firsts[duplicates], duplicates])
        return (
            np.concatenate([joined, kept[edges]]),
            np.concatenate([np.zeros(len(duplicates)), lengths]),
        )

    of_first = np.empty(len(firsts))
    of_first[kept[tree.order]] = core
    return of_first[firsts], grow


def _neighbors_to_find(points):
    """Return how many nearest rows are found before the first round.

    On a grid of d features a row has up to 2 d others at the same distance, and one
    more says that there are no others at it: without it, all are searched again.
    """
    n_features = points.shape[1]
    if n_features > _LOW and (points % 1).any():
        return _N_NEIGHBORS
    return np.clip(2 * n_features + 1, *_N_NEIGHBORS_ON_A_GRID)


def _new_lists(n_rows, n_neighbors):
    """Return distances and positions (n_rows, n_neighbors) to be filled."""
    shape = n_rows, n_neighbors
    return np.empty(shape), np.empty(shape, dtype=np.int32)


def _nearest(tree, norm, n_neighbors, n_threads):
    """Return the lengths and positions (n, n_neighbors) of the nearest rows."""
    near = _new_lists(len(tree.points), n_neighbors)
    n_leaves = len(tree.starts) - 1
    run_chunks(find_neighbors, n_leaves, (tree, norm, 0, *near), n_threads)
    return near


def _raised(tree, near, core, n_threads):
    """Raise the lengths of the nearest rows, in place, and sort them.

    Returns the first five of `Rows`, and the reach.
    """
    reach = np.maximum(near[0][:, -1], core)
    tie = TIE if core.any() else 0.0
    run_chunks(sort_neighbors, len(core), (tree.order, core, tie, *near), n_threads)
    node_core = np.empty(2 * (len(tree.starts) - 1))
    node_core[len(node_core) // 2 :] = np.minimum.reduceat(core, tree.starts[:-1])
    _fill_inner_nodes(node_core, np.minimum)
    return *near, core, tie, node_core, reach


def _grow(tree, norm, lists, vertices, n_threads):
    """Return the edges and lengths of a tree, from the nearest rows of each position.

    `lists` are those of `_raised`. Positions of the same vertex (n,), ids 0 up, count
    as one.
    """
    n_samples = len(tree.points)
    n_leaves = len(tree.starts) - 1
    distances, positions, *_, reach = lists
    if vertices.max() == n_samples - 1:
        # Numbers of vertices are free, and near rows with similar ones use caches well.
        vertices = np.arange(n_samples)
    rows = Rows(
        *lists[:-1],
        reach.copy(),
        np.zeros(n_samples, dtype=np.int32),
        distances[:, 0].copy(),
        positions[:, 0].copy(),
        vertices.astype(np.int32),
        np.full(2 * n_leaves, _MIXED, dtype=np.int32),
    )
    sizes = np.bincount(rows.component)
    # With one vertex there are no edges.
    ends = [np.empty((2, 0), dtype=np.int64)]
    lengths = [np.empty(0)]
    while len(sizes) > 1:
        best = np.full(len(sizes), np.inf)
        largest = np.argmax(sizes)
        run_chunks(renew, n_leaves, (tree, rows, best, largest), n_threads)
        _fill_inner_nodes(rows.uniform, _common)
        asked = (tree, norm, rows, best, largest)
        run_chunks(search_leaves, n_leaves, asked, n_threads)
        taken, sizes = merge_components(tree.order, rows, best, largest)
        ends.append((taken, rows.other[taken]))
        lengths.append(rows.length[taken])
    first, second = tree.order[np.concatenate(ends, axis=1)]
    # Sorting rows of two would take ten times as long.
    edges = np.column_stack([np.minimum(first, second), np.maximum(first, second)])
    return edges, np.concatenate(lengths)


def _fill_inner_nodes(values, combine):
    """Combine the values of the leaves, the second half, up to those of the root."""
    first = len(values) // 2
    while first > 1:
        children = values[first : 2 * first].reshape(-1, 2)
        first //= 2
        values[first : 2 * first] = combine(children[:, 0], children[:, 1])


def _common(left, right):
    """Return the values (m,) that left and right nodes share, `_MIXED` elsewhere."""
    return np.where(left == right, left, _MIXED)


@compiled(nogil=True)
def find_cores(distances, positions, counts, min_samples, core):
    """Write the length at which positions (n,) have `min_samples` rows, itself counted.

    `counts` (n,) are the numbers of rows that are equal to each.
    """
    for i in range(len(distances)):
        n_near = counts[i]
        length = 0.0
        at = 0
        while n_near < min_samples:
            length = distances[i, at]
            n_near += counts[positions[i, at]]
            at += 1
        core[i] = length


@compiled(nogil=True)
def renew(first, last, tree, rows, best, largest):
    """Update after a merge what is outside for each row and which leaves are uniform.

    The best length of each component is shared as far as it is known.
    """
    distances = rows.distances
    positions = rows.positions
    skipped = rows.skipped
    length = rows.length
    other = rows.other
    component = rows.component
    uniform = rows.uniform
    starts = tree.starts
    n_leaves = len(starts) - 1
    n_neighbors = distances.shape[1]
    for leaf in range(first, last):
        start = starts[leaf]
        # Once uniform, a leaf stays so.
        was_uniform = uniform[n_leaves + leaf] != _MIXED
        uniform[n_leaves + leaf] = component[start]
        if was_uniform and component[start] == largest:
            continue
        for i in range(start, starts[leaf + 1]):
            own = component[i]
            if own != component[start]:
                uniform[n_leaves + leaf] = _MIXED
            # No edge of this row can be the first of the component.
            if length[i] > best[own]:
                continue
            if other[i] < 0 or component[other[i]] == own:
                at = skipped[i]
                while at < n_neighbors and distances[i, at] <= best[own]:
                    if positions[i, at] >= 0 and component[positions[i, at]] != own:
                        break
                    at += 1
                skipped[i] = at
                length[i] = np.inf
                other[i] = -1
                if at < n_neighbors:
                    length[i] = distances[i, at]
                    other[i] = positions[i, at]
            if length[i] < best[own]:
                best[own] = length[i]


@compiled(nogil=True)
def search_leaves(first, last, tree, norm, rows, best, largest):
    """Find the nearest row outside for the rows of a range of leaves that need one."""
    order = tree.order
    points = tree.points
    starts = tree.starts
    boxes = tree.boxes
    tiles = tree.tiles
    length = rows.length
    other = rows.other
    component = rows.component
    core = rows.core
    tie = rows.tie
    node_core = rows.node_core
    reach = rows.reach
    uniform = rows.uniform
    n_leaves = len(starts) - 1
    width = tiles.shape[2]
    measured = np.empty(width)
    nearest = np.empty(width)
    radii = np.empty(width)
    wanted = np.empty(width, dtype=np.int64)
    stack = np.empty(STACK, dtype=np.int64)
    gaps = np.empty(STACK)
    for leaf in range(first, last):
        own = n_leaves + leaf
        start = starts[leaf]
        n_wanted = 0
        radius = -1.0
        for i in range(start, starts[leaf + 1]):
            limit = best[component[i]]
            if reach[i] <= limit and component[i] != largest:
                wanted[n_wanted] = i
                radii[n_wanted] = limit
                n_wanted += 1
                radius = max(radius, limit)
        node = own
        climbed = own
        while n_wanted:
            stack[0] = node
            gaps[0] = box_gap(boxes, own, node, norm)
            depth = 1
            while depth:
                depth -= 1
                node = stack[depth]
                if (
                    gaps[depth] > radius
                    or node_core[node] > radius
                    or (uniform[node] != _MIXED and uniform[node] == uniform[own])
                ):
                    continue
                if node < n_leaves:
                    depth = push_children(boxes, own, node, norm, stack, gaps, depth)
                    continue
                searched = node - n_leaves
                begin = starts[searched]
                tile_gaps(tiles, leaf, boxes, node, norm, nearest)
                radius = -1.0
                for q in range(n_wanted):
                    i = wanted[q]
                    limit = min(radii[q], best[component[i]])
                    if nearest[i - start] <= limit:
                        near = tile_lengths(
                            points, i, tiles, searched, norm, limit, measured
                        )
                        for v in range(starts[searched + 1] - begin if near else 0):
                            if measured[v] > limit:
                                continue
                            j = begin + v
                            distance = max(measured[v], max(core[i], core[j]))
                            distance += tie * measured[v]
                            if distance > limit or component[j] == component[i]:
                                continue
                            limit = distance
                            if distance < length[i] or (
                                distance == length[i]
                                and (other[i] < 0 or order[j] < order[other[i]])
                            ):
                                length[i] = distance
                                other[i] = j
                        if limit < best[component[i]]:
                            best[component[i]] = limit
                    radii[q] = limit
                    radius = max(radius, limit)
            if climbed == 1:
                break
            node = climbed ^ 1
            climbed >>= 1
        for q in range(n_wanted):
            reach[wanted[q]] = max(reach[wanted[q]], radii[q])


@compiled(nogil=True)
def merge_components(order, rows, best, largest):
    """Join every component but the largest along its first outgoing edge.

    Numbers the components anew. Returns the positions (m,) whose edges are taken, and
    how many rows the new components have.
    """
    component = rows.component
    length = rows.length
    other = rows.other
    n_components = len(best)
    chosen = np.full(n_components, -1)
    parents = np.arange(n_components, dtype=np.int32)
    sizes = np.ones(n_components, dtype=np.int32)
    for i in range(len(component)):
        own = component[i]
        if own == largest or other[i] < 0 or length[i] > best[own]:
            continue
        k = chosen[own]
        if k < 0 or precedes(
            length[i], order[i], order[other[i]], length[k], order[k], order[other[k]]
        ):
            chosen[own] = i
    taken = np.empty(n_components, dtype=np.int64)
    n_taken = 0
    for own in range(n_components):
        i = chosen[own]
        if i < 0:
            continue
        one = find(parents, own)
        # It has the type of `own`, for which `find` is compiled already.
        two = find(parents, np.int64(component[other[i]]))
        if one != two:
            union(parents, sizes, one, two)
            taken[n_taken] = i
            n_taken += 1
    numbers, n_left = number_components(parents)
    rows_of = np.zeros(n_left, dtype=np.int64)
    for i in range(len(component)):
        component[i] = numbers[component[i]]
        rows_of[component[i]] += 1
    return taken[:n_taken], rows_of
