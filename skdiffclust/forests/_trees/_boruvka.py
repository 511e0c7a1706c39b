"""Borůvka's algorithm on a k-d tree: the exact minimum spanning tree of points.

Every row first finds its nearest rows, once, as a component of its own. Then, in each
round, every component but the largest takes its first outgoing edge in the total order
(length, i, j). A row is searched again only where what is known of it, the lower bound
`reach` of the length to any row outside that it has not seen, does not rule it out; a
search skips all nodes of its own component and all that are farther than the best edge
found so far by any row of it.

Threads share those best lengths without a lock: one that is out of date only prunes
less. Each row's own finds are written by one thread, and the edge of a component is
chosen from them afterwards, so the tree does not depend on the threads.

Kernels are compiled in a first fit that waits for them: there are few, and what they
need is allocated by NumPy, whose functions numba would compile for each kernel.
"""

from typing import NamedTuple

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust._duplicates import first_equal
from skdiffclust._threads import run_chunks
from skdiffclust.forests._trees._kd_tree import (
    Tree,
    box_gap,
    build_tree,
    push_children,
    tile_gaps,
    tile_lengths,
)
from skdiffclust.forests._trees._tree import TIE

MIXED = -1
# Nodes that wait in a walk down the tree: at most one a level, and two at the last.
_STACK = 128
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

    Where the tree is that of a cell, see `_cells`, rows of other cells that are among
    the nearest follow, h of them, with a core and a component.

    Attributes
    ----------
    core : ndarray of shape (n + h,), float64
        Lengths of edges that end here are at least this; zeros if none is raised.
    tie : float
        Share of the plain length that is added to a raised one; 0 if none is raised.
    node_core : ndarray of shape (2 * n_leaves,), float64
        The least core of the rows of each node.
    reach : ndarray of shape (n,), float64
        No row outside the component, found ones excepted, is nearer than this.
    length, other : ndarray of shape (n, k), float64 and int32
        Nearest rows outside that were found, by (length, row); -1 for none.
    component : ndarray of shape (n + h,), int32
        Components, numbered from 0 up.
    uniform : ndarray of shape (2 * n_leaves,), int32
        Component of each node, -1 where it has several.
    """

    core: np.ndarray
    tie: float
    node_core: np.ndarray
    reach: np.ndarray
    length: np.ndarray
    other: np.ndarray
    component: np.ndarray
    uniform: np.ndarray

    def searched(self, tree, shift=0):
        """Return the `Searched` of these rows."""
        return Searched(
            tree, self.core, self.node_core, self.component, self.uniform, shift
        )


class Searched(NamedTuple):
    """A tree that is searched, and what `Rows` has of it.

    Positions are found plus a `shift`, which is 0 for the tree of the rows that search,
    and positive for the tree of another cell.
    """

    tree: Tree
    core: np.ndarray
    node_core: np.ndarray
    component: np.ndarray
    uniform: np.ndarray
    shift: int


def boruvka(points, nodes, n_threads, norm=2):
    """Return the edges of the minimum spanning tree of the rows of `points` (n, d).

    Lengths are those of a `norm`, see `_kd_tree`. Rows with the same id in `nodes`
    (n,), ids 0 up, count as one vertex. Equal rows should be joined first, with
    `join_duplicates`: otherwise the search is slow. Returns edges (m, 2) with i < j and
    their lengths (m,); m is the number of vertices less one. The result is None if
    boxes rule out so little that measuring all pairs is faster.
    """
    tree = build_tree(points, n_threads)
    if not rules_out(tree, norm):
        return None
    near = nearest(tree, norm, neighbors_to_find(points), n_threads)
    return _grow(tree, norm, near, nodes[tree.order], n_threads)


def rules_out(tree, norm, others=()):
    """Whether searches for neighbours see few of the rows; some leaves are tried.

    `others` are `Searched`, too. In few dimensions they always do.
    """
    if tree.points.shape[1] <= _LOW:
        return True
    n_leaves = len(tree.starts) - 1
    n_samples = tree.starts[-1] + sum(other.tree.starts[-1] for other in others)
    # Of a leaf, at most.
    n_differences = tree.tiles.shape[2] * n_samples * tree.points.shape[1]
    n_tried = max(1, min(n_leaves // 128, int(_DIFFERENCES_PER_CHUNK / n_differences)))
    first = n_leaves // 2
    n_rows = tree.starts[first + n_tried] - tree.starts[first]
    leaves = np.arange(first, first + n_tried)
    rows, best = separate(tree, _N_NEIGHBORS)
    n_seen = search(0, n_tried, leaves, tree, norm, rows, best, -1, rows.searched(tree))
    rows.reach[:] = 0.0
    for other in others:
        n_seen += search(0, n_tried, leaves, tree, norm, rows, best, -1, other)
    return n_seen <= _SEEN_BY_SEARCH * n_rows * n_samples


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
    near = nearest(tree, norm, max(min_samples + 1, _N_NEIGHBORS), n_threads)
    find_cores(near.length, near.other, counts, min_samples, core)
    near = raised(tree, near, core, n_threads)

    def grow(n_threads):
        edges, lengths = _grow(tree, norm, near, np.arange(len(kept)), n_threads)
        duplicates = np.flatnonzero(firsts != np.arange(len(firsts)))
        joined = np.column_stack([firsts[duplicates], duplicates])
        return (
            np.concatenate([joined, kept[edges]]),
            np.concatenate([np.zeros(len(duplicates)), lengths]),
        )

    of_first = np.empty(len(firsts))
    of_first[kept[tree.order]] = core
    return of_first[firsts], grow


def neighbors_to_find(points):
    """Return how many nearest rows are found before the first round.

    On a grid of d features a row has up to 2 d others at the same distance, and one
    more says that there are no others at it: without it, all are searched again.
    """
    n_features = points.shape[1]
    if n_features > _LOW and (points % 1).any():
        return _N_NEIGHBORS
    return np.clip(2 * n_features + 1, *_N_NEIGHBORS_ON_A_GRID)


def separate(tree, n_neighbors):
    """Return `Rows` that are components of their own, and their best lengths (n,)."""
    n_samples = len(tree.points)
    n_nodes = len(tree.boxes)
    rows = Rows(
        core=np.zeros(n_samples),
        tie=0.0,
        node_core=np.zeros(n_nodes),
        reach=np.zeros(n_samples),
        length=np.full((n_samples, n_neighbors), np.inf),
        other=np.full((n_samples, n_neighbors), -1, dtype=np.int32),
        component=np.arange(n_samples, dtype=np.int32),
        uniform=np.full(n_nodes, MIXED, dtype=np.int32),
    )
    return rows, np.full(n_samples, np.inf)


def nearest(tree, norm, n_neighbors, n_threads):
    """Return `Rows` that have found their `n_neighbors` nearest ones."""
    rows, best = separate(tree, n_neighbors)
    leaves = np.arange(len(tree.starts) - 1)
    asked = leaves, tree, norm, rows, best, -1, rows.searched(tree)
    run_chunks(search, len(leaves), asked, n_threads)
    return rows


def raised(tree, near, core, n_threads):
    """Raise the lengths of the nearest rows to the `core` (n + h,) of both ends."""
    length = near.length
    other = near.other
    n_samples = len(length)
    if length.shape[1] > _LONGEST_LIST:
        length = np.ascontiguousarray(length[:, :_N_NEIGHBORS])
        other = np.ascontiguousarray(other[:, :_N_NEIGHBORS])
    reach = np.maximum(length[:, -1], core[:n_samples])
    tie = TIE if core.any() else 0.0
    run_chunks(
        sort_neighbors, n_samples, (tree.order, core, tie, length, other), n_threads
    )
    node_core = np.empty(len(tree.boxes))
    of_leaves = np.minimum.reduceat(core[:n_samples], tree.starts[:-1])
    node_core[len(node_core) // 2 :] = of_leaves
    _fill_inner_nodes(node_core, np.minimum)
    return near._replace(
        core=core,
        tie=tie,
        node_core=node_core,
        reach=reach,
        length=length,
        other=other,
    )


def _grow(tree, norm, near, vertices, n_threads):
    """Return the edges and lengths of a tree, from the nearest rows of each position.

    Positions of the same vertex (n,), ids 0 up, count as one.
    """
    n_samples = len(tree.points)
    if vertices.max() == n_samples - 1:
        # Numbers of vertices are free, and near rows with similar ones use caches well.
        vertices = np.arange(n_samples)
    rows = first_found(near, vertices.astype(np.int32))
    ends, lengths = join_rows(tree, norm, near, rows, n_threads)
    first, second = tree.order[ends]
    # Sorting rows of two would take ten times as long.
    edges = np.column_stack([np.minimum(first, second), np.maximum(first, second)])
    return edges, lengths


def first_found(near, component):
    """Return `Rows` of these components that have found the first of the near rows."""
    return near._replace(
        reach=near.reach.copy(),
        length=near.length[:, :1].copy(),
        other=near.other[:, :1].copy(),
        component=component,
        uniform=near.uniform.copy(),
    )


def join_rows(tree, norm, near, rows, n_threads, limits=None):
    """Join the components of `rows`, round by round, as far as it is known how.

    With limits, those of each row (n,), which is a component of its own then, only
    edges to rows of the tree are taken that are shorter than the limits of all rows of
    the component: others may be preceded by edges that are not known here. Without, the
    result is a tree. Returns the positions (2, m) of its edges and their lengths (m,);
    the components in `rows` are numbered anew.
    """
    n_samples = len(tree.points)
    component = rows.component[:n_samples]
    skipped = np.zeros(n_samples, dtype=np.int32)
    sizes = np.bincount(component)
    # With one vertex there are no edges.
    ends = [np.empty((2, 0), dtype=np.int64)]
    lengths = [np.empty(0)]
    while len(sizes) > 1:
        best = np.full(len(sizes), np.inf)
        largest = np.argmax(sizes)
        search_own(tree, norm, near, rows, skipped, best, largest, n_threads)
        chosen = first_edges(tree.order, rows, best, largest)
        if limits is not None:
            is_final = rows.length[chosen, 0] < limits
            chosen[~is_final | (rows.other[chosen, 0] >= n_samples)] = -1
        others = rows.other[chosen, 0]
        to = np.where(chosen < 0, np.arange(len(sizes)), rows.component[others])
        roots, is_new = joined(to)
        if not is_new.any():
            break
        taken = chosen[is_new]
        ends.append((taken, others[is_new]))
        lengths.append(rows.length[taken, 0])
        numbers = numbers_of(roots)
        component[:] = numbers[component]
        sizes = np.bincount(component)
        if limits is not None:
            of_rows = limits
            limits = np.full(len(sizes), np.inf)
            np.minimum.at(limits, numbers, of_rows)
    return np.concatenate(ends, axis=1), np.concatenate(lengths)


def search_own(tree, norm, near, rows, skipped, best, largest, n_threads):
    """Find the first edges out of all components but the largest, in one tree.

    `skipped` (n,) of the `near` rows are known to be in the component.
    """
    known = near.length, near.other, skipped
    found = rows.length, rows.other, rows.component
    n_samples = len(tree.points)
    run_chunks(renew, n_samples, (*known, *found, best, largest), n_threads)
    least = np.minimum.reduceat(rows.component[:n_samples], tree.starts[:-1])
    most = np.maximum.reduceat(rows.component[:n_samples], tree.starts[:-1])
    rows.uniform[len(least) :] = _common(least, most)
    _fill_inner_nodes(rows.uniform, _common)
    leaves = np.arange(len(least))
    asked = leaves, tree, norm, rows, best, largest, rows.searched(tree)
    run_chunks(search, len(leaves), asked, n_threads)


def first_edges(order, rows, best, largest, other_order=None):
    """Return the row whose edge out of each component is the first, -1 for one.

    That is the `largest`, whose edges are not searched for. The other ends are
    positions of `other_order`, by default of `order`.
    """
    length = rows.length[:, 0]
    other = rows.other[:, 0]
    other_order = order if other_order is None else other_order
    component = rows.component[: len(length)]
    chosen = np.full(len(best), -1)
    found = np.flatnonzero((length == best[component]) & (other >= 0))
    own = component[found]
    is_tied = np.bincount(own, minlength=len(best))[own] > 1
    tied = found[is_tied]
    ends = np.sort([order[tied], other_order[other[tied]]], axis=0)
    # The first of each component comes last.
    tied = tied[np.lexsort((ends[1], ends[0]))[::-1]]
    found = np.concatenate([found[~is_tied], tied])
    chosen[component[found]] = found
    chosen[largest] = -1
    return chosen


def joined(to):
    """Join each component to the one that its first edge leads to (m,), itself if none.

    Returns the roots (m,) of what is joined, and which components have an edge (m,)
    that no other has chosen: of two that lead to each other, whose edges are the same,
    the first is a root. As edges are in a total order, there are no longer circles.
    """
    everyone = np.arange(len(to))
    is_root = (to[to] == everyone) & (everyone <= to)
    roots = np.where(is_root, everyone, to)
    while (roots[roots] != roots).any():
        roots = roots[roots]
    return roots, ~is_root


def numbers_of(roots):
    """Return numbers (m,) from 0 up for the roots (m,) of what is joined."""
    numbers = np.cumsum(roots == np.arange(len(roots)), dtype=np.int32) - 1
    return numbers[roots]


def _fill_inner_nodes(values, combine):
    """Combine the values of the leaves, the second half, up to those of the root."""
    first = len(values) // 2
    while first > 1:
        children = values[first : 2 * first].reshape(-1, 2)
        first //= 2
        values[first : 2 * first] = combine(children[:, 0], children[:, 1])


def _common(left, right):
    """Return what left and right nodes have in common, else `MIXED`."""
    return np.where(left == right, left, MIXED)


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


@compiled(nogil=True)
def renew(
    first,
    last,
    distances,
    positions,
    skipped,
    length,
    other,
    component,
    best,
    largest,
):
    """Update after a merge the nearest row outside of a range of rows.

    Of the nearest rows, `distances` and `positions` (n, k), the first that are
    `skipped` (n,) are in the own component. Shares the best length of each component as
    far as it is known.
    """
    n_neighbors = distances.shape[1]
    for i in range(first, last):
        own = component[i]
        # No edge of this row can be the first of the component.
        if own == largest or length[i, 0] > best[own]:
            continue
        if other[i, 0] < 0 or component[other[i, 0]] == own:
            at = skipped[i]
            while at < n_neighbors and distances[i, at] <= best[own]:
                if positions[i, at] >= 0 and component[positions[i, at]] != own:
                    break
                at += 1
            skipped[i] = at
            length[i, 0] = np.inf
            other[i, 0] = -1
            if at < n_neighbors:
                length[i, 0] = distances[i, at]
                other[i, 0] = positions[i, at]
        if length[i, 0] < best[own]:
            best[own] = length[i, 0]


def search(first, last, leaves, tree, norm, rows, best, largest, others):
    """Call `search_leaves` with what it writes to."""
    size = max(_STACK, tree.tiles.shape[2], others.tree.tiles.shape[2])
    numbers = np.empty((4, size))
    places = np.empty((3, size), dtype=np.int64)
    asked = tree, norm, rows, best, largest, others, numbers, places
    return search_leaves(leaves[first:last], *asked)


# Arrays are taken out of their tuples once, at the top of a kernel: numba counts a
# reference, atomically, each time that one is taken out.


@compiled(nogil=True)
def search_leaves(leaves, tree, norm, rows, best, largest, others, numbers, places):
    """Find the nearest rows outside for the rows of some leaves that need some.

    Those are rows of components other than the `largest` whose edges may be as short as
    the `best` (n_components,). The `others` are `Searched`: what is known of other
    trees than the own one is not renewed. Returns how many rows were measured.
    """
    points = tree.points
    starts = tree.starts
    boxes = tree.boxes
    tiles = tree.tiles
    other_order = others.tree.order
    other_starts = others.tree.starts
    other_boxes = others.tree.boxes
    other_tiles = others.tree.tiles
    other_component = others.component
    other_core = others.core
    other_node_core = others.node_core
    other_uniform = others.uniform
    shift = others.shift
    is_own = shift == 0
    length = rows.length
    other = rows.other
    component = rows.component
    core = rows.core
    tie = rows.tie
    reach = rows.reach
    uniform = rows.uniform
    n_leaves = len(starts) - 1
    n_other_leaves = len(other_starts) - 1
    n_lists = length.shape[1]
    is_first = largest < 0 and is_own
    measured = numbers[0]
    nearest = numbers[1]
    radii = numbers[2]
    gaps = numbers[3]
    wanted = places[0]
    stack = places[1]
    picked = places[2]
    n_seen = 0
    for leaf in leaves:
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
        # Of another tree, all nodes; of the own one, first those near the leaf.
        node = own if is_own else 1
        climbed = node
        while n_wanted:
            stack[0] = node
            gaps[0] = box_gap(boxes, own, other_boxes, node, norm)
            depth = 1
            while depth:
                depth -= 1
                node = stack[depth]
                if (
                    gaps[depth] > radius
                    or other_node_core[node] > radius
                    or (
                        other_uniform[node] != MIXED
                        and other_uniform[node] == uniform[own]
                    )
                ):
                    continue
                if node < n_other_leaves:
                    depth = push_children(
                        boxes, own, other_boxes, node, norm, stack, gaps, depth
                    )
                    continue
                searched = node - n_other_leaves
                begin = other_starts[searched]
                n_others = other_starts[searched + 1] - begin
                tile_gaps(tiles, leaf, other_boxes, node, norm, nearest)
                radius = -1.0
                for q in range(n_wanted):
                    i = wanted[q]
                    limit = min(radii[q], best[component[i]])
                    if nearest[i - start] <= limit:
                        n_seen += n_others
                        near = tile_lengths(
                            points, i, other_tiles, searched, norm, limit, measured
                        )
                        n_near = 0
                        # For a row without neighbours, the first limit is a guess from
                        # the row before, which is raised until there are enough.
                        bound = (
                            radii[q - 1] if is_first and node == own and q else limit
                        )
                        while near:
                            n_near = 0
                            for v in range(n_others):
                                picked[n_near] = v
                                n_near += measured[v] <= bound
                            if n_near > n_lists or bound == limit:
                                limit = bound
                                break
                            bound = 1.5 * bound if bound > 0.0 else limit
                        for p in range(n_near):
                            v = picked[p]
                            if measured[v] > limit:
                                continue
                            j = begin + v
                            distance = max(measured[v], max(core[i], other_core[j]))
                            distance += tie * measured[v]
                            if distance > limit or other_component[j] == component[i]:
                                continue
                            at = n_lists
                            while at and distance <= length[i, at - 1]:
                                if distance == length[i, at - 1]:
                                    # Those of different trees are sorted afterwards.
                                    known = other[i, at - 1] - shift
                                    if (
                                        0 <= known < len(other_order)
                                        and other_order[known] < other_order[j]
                                    ):
                                        break
                                at -= 1
                                if at + 1 < n_lists:
                                    length[i, at + 1] = length[i, at]
                                    other[i, at + 1] = other[i, at]
                                length[i, at] = distance
                                other[i, at] = shift + j
                            limit = min(limit, length[i, n_lists - 1])
                        if limit < best[component[i]]:
                            best[component[i]] = limit
                    radii[q] = limit
                    radius = max(radius, limit)
            if climbed == 1:
                break
            node = climbed ^ 1
            climbed >>= 1
        for q in range(n_wanted if is_own else 0):
            reach[wanted[q]] = max(reach[wanted[q]], radii[q])
    return n_seen
