"""Borůvka's algorithm on a kd-tree: the exact Euclidean minimum spanning tree.

Every vertex first finds its nearest rows, once. Then, in each round, every component
but the largest takes its first outgoing edge in the total order (length, i, j). A row
is searched again only where what is known of it, the lower bound `reach` of the
distance to any row outside that it has not seen, does not rule it out; a search skips
all nodes of its own component and all that are farther than the best edge found so far
by any row of it.

Threads share those best lengths without a lock: one that is out of date only prunes
less. Each row's own finds are written by one thread, and the edge of a component is
chosen from them afterwards, so the tree does not depend on the threads.
"""

from time import thread_time
from typing import NamedTuple

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust._duplicates import first_equal
from skdiffclust._threads import run_chunks
from skdiffclust.forests._trees._kd_tree import (
    Tree,
    box_gap,
    build_tree,
    first_step,
    next_step,
    push_children,
)
from skdiffclust.forests._trees._neighbors import (
    STACK,
    find_neighbors,
    nearest_neighbors,
)
from skdiffclust.forests._trees._tiles import (
    LANES,
    cutoff_of,
    filter_block,
    measure,
    measure_filtered,
    tile_gaps,
)
from skdiffclust.forests._trees._union_find import (
    find,
    number_components,
    singletons,
    union,
)

_MIXED = -1


class Rows(NamedTuple):
    """State of the search at each position of the tree.

    Attributes
    ----------
    distances, positions : ndarray of shape (n, k), float64 and int32
        Nearest rows by (length, row); those at the last distance may be incomplete.
    core : ndarray of shape (n,), float64
        Lengths of edges that end here are at least this; zeros if none is raised.
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
    """

    distances: np.ndarray
    positions: np.ndarray
    core: np.ndarray
    node_core: np.ndarray
    reach: np.ndarray
    skipped: np.ndarray
    length: np.ndarray
    other: np.ndarray
    component: np.ndarray


class KnownEdges(NamedTuple):
    """Edges that every component may take, besides those that are searched for.

    They are part of no result: what is wanted is which others come before them.

    Attributes
    ----------
    ends : ndarray of shape (m, 2), int32
        Positions that each edge joins.
    lengths : ndarray of shape (m,), float64
    names : ndarray of shape (m, 2), int64
        Its rows i < j in the total order, which need not be among those searched.
    """

    ends: np.ndarray
    lengths: np.ndarray
    names: np.ndarray


_NO_ENDS = np.empty((0, 2), dtype=np.int32)
_NOTHING_KNOWN = KnownEdges(_NO_ENDS, np.empty(0), _NO_ENDS.astype(np.int64))

# (rows in a leaf, whether a float32 filter is used): for data where boxes rule out most
# pairs of leaves, and for data where they rule out almost none.
_FEW_PAIRS = 56, False
_ALL_PAIRS = 256, True
# With this few features, boxes always rule out most pairs.
_LOW = 3
# Least number of nearest rows that are found first.
_N_NEIGHBORS = 6
# On a grid, at most so many: more take longer to find than rows to search again.
_N_NEIGHBORS_ON_A_GRID = 11
# And how many more than core distances need, so that few rows are searched again.
_MORE_NEIGHBORS = 1
# Largest number of differences of a feature that a probe computes.
_DIFFERENCES_PER_CHUNK = 1e9


def euclidean_boruvka(points, nodes, n_threads, *, leaves=None, n_neighbors=None):
    """Edges of the minimum spanning tree of the rows of `points` (n, d).

    Lengths are squared Euclidean distances, summed over the features in order. Rows
    with the same id in `nodes` (n,), ids 0 up, count as one vertex. Equal rows should
    be joined first, with `join_duplicates`: otherwise the search is slow.

    `leaves` are the rows in a leaf of the tree and whether to filter in float32; by
    default a probe chooses. Returns edges (m, 2) with i < j and their lengths (m,); m
    is the number of vertices less one.
    """
    if n_neighbors is None:
        n_neighbors = _neighbors_to_find(points)
    tree, near = _neighborhood(points, n_neighbors, n_threads, leaves)
    rows = _begun(tree, near, np.zeros(len(points)), nodes, n_threads)
    return _grow(tree, rows, tree.order, _NOTHING_KNOWN, n_threads)


def edges_between(points, names, known, n_threads):
    """Edges between two halves of rows that come before what is known.

    Those of the minimum spanning tree of the edges between the first n // 2 rows of
    `points` (n, d) and the others, and of others that are known: edges (e, 2) of rows,
    their lengths (e,) and their names (e, 2), i < j. The total order is (length, i, j),
    where rows have ascending `names` (n,). Returns edges (m, 2) of rows with i < j, and
    their squared lengths (m,).
    """
    choices = (_FEW_PAIRS,) if points.shape[1] <= _LOW else (_FEW_PAIRS, _ALL_PAIRS)
    n = len(points)
    ends, lengths, known_names = known
    fastest = np.inf
    for leaf_size, is_filtered in choices:
        tree = build_tree(points, leaf_size, is_filtered, n_threads, is_split=True)
        # Nothing has been found yet.
        near = np.full((n, 1), np.inf), np.full((n, 1), -1, dtype=np.int32)
        rows = _begun(tree, near, np.zeros(n), np.arange(n), n_threads)
        rows.reach[:] = 0.0
        places = np.empty(n, dtype=np.int32)
        places[tree.order] = np.arange(n, dtype=np.int32)
        known = KnownEdges(places[ends], lengths, known_names)
        seconds = _probe_search(tree, rows, known) if len(choices) > 1 else 0.0
        if seconds < fastest:
            fastest = seconds
            state = tree, rows, names[tree.order], known
    return _grow(*state, n_threads)


def _probe_search(tree, rows, known):
    """Return about how many seconds it takes to search all leaves in the first round.

    It searches a few of them; what it finds is kept.
    """
    n_leaves = len(tree.starts) - 1
    n_tried = max(1, n_leaves // 64)
    best = np.full(len(rows.length), np.inf)
    join_components(known.ends, known.lengths, rows.component, best)
    uniform = np.full(2 * n_leaves, _MIXED, dtype=np.int32)
    search_leaves(0, 0, tree, rows, uniform, best, -1)  # compiles, if it must
    begun = thread_time()
    first = n_leaves // 2
    search_leaves(first, first + n_tried, tree, rows, uniform, best, -1)
    return (thread_time() - begun) * n_leaves / n_tried


def _begun(tree, near, core, nodes, n_threads):
    """Return the Rows before the first round, with lengths raised to the `core`."""
    n_samples = len(tree.points)
    n_leaves = len(tree.starts) - 1
    node_core = np.empty(2 * n_leaves)
    node_core[n_leaves:] = np.minimum.reduceat(core, tree.starts[:-1])
    least_of_nodes(node_core)
    rows = Rows(
        *near,
        core,
        node_core,
        near[0][:, -1].copy(),
        np.empty(n_samples, dtype=np.int32),
        np.empty(n_samples),
        np.empty(n_samples, dtype=np.int32),
        by_first_place(nodes[tree.order], nodes.max() + 1),
    )
    run_chunks(begin, n_samples, (tree.order, rows, core.any()), n_threads)
    return rows


def _grow(tree, rows, names, known, n_threads):
    """Edges and lengths of `euclidean_boruvka` or `edges_between`, from Rows.

    `names` (n,) are those of the positions, in the total order.
    """
    n_samples = len(tree.points)
    n_leaves = len(tree.starts) - 1
    sizes = np.bincount(rows.component)
    edges = np.empty((len(sizes) - 1, 2), dtype=np.int64)
    lengths = np.empty(len(sizes) - 1)
    uniform = np.full(2 * n_leaves, _MIXED, dtype=np.int32)
    chosen = np.empty(n_samples, dtype=np.int32), np.empty(n_leaves, dtype=np.int32)
    n_found = 0
    while len(sizes) > 1:
        best = np.full(len(sizes), np.inf)
        is_open = join_components(known.ends, known.lengths, rows.component, best)
        if not is_open.all():
            known = KnownEdges(*(array[is_open] for array in known))
        largest = np.argmax(sizes)
        asked = (tree, rows, uniform, best, largest)
        run_chunks(renew, n_leaves, asked, n_threads)
        mark_nodes(uniform)
        run_chunks(search_leaves, n_leaves, asked, n_threads)
        run_chunks(choose, n_leaves, (*asked, *chosen), n_threads)
        found = edges, lengths, n_found
        numbers, sizes, n_found = merge_components(
            tree.order, names, tree.starts, rows, sizes, chosen, known, found
        )
        run_chunks(relabel, n_samples, (rows.component, numbers), n_threads)
    return edges[:n_found], lengths[:n_found]


def _neighbors_to_find(points):
    """Return how many nearest rows are found before the first round.

    On a grid of d features a row has up to 2 d others at the same distance, and one
    more says that there are no others at it: without it, all are searched again.
    """
    n_features = points.shape[1]
    if n_features > _LOW and (points % 1).any():
        return _N_NEIGHBORS
    return max(_N_NEIGHBORS, min(2 * n_features + 1, _N_NEIGHBORS_ON_A_GRID))


class RaisedNeighbors(NamedTuple):
    """What a tree by mutual reachability is grown from; see `raised_neighbors`.

    Attributes
    ----------
    firsts : ndarray of shape (n,), int64
        The first row that is equal to each row.
    kept : ndarray of shape (m,), int64
        The rows that are first of their kind, which the others describe.
    tree : Tree
    distances, positions : ndarray of shape (m, k), float64 and int32
        Nearest rows of each position of the tree.
    core : ndarray of shape (m,), float64
        Squared core distance of each position.
    """

    firsts: np.ndarray
    kept: np.ndarray
    tree: Tree
    distances: np.ndarray
    positions: np.ndarray
    core: np.ndarray


def raised_neighbors(points, min_samples, n_threads):
    """Find the core distances of the rows of `points` (n, d), and what a tree needs.

    The core distance is that to the `min_samples`-th nearest row, itself counted.
    Returns the squared ones (n,) and the `RaisedNeighbors`.
    """
    firsts = first_equal(points)
    counts = np.bincount(firsts, minlength=len(points))
    kept = np.flatnonzero(counts)
    n_neighbors = max(min_samples + _MORE_NEIGHBORS, _N_NEIGHBORS)
    tree, near = _neighborhood(points[kept], n_neighbors, n_threads)
    core = np.empty(len(kept))
    asked = (*near, counts[kept][tree.order], min_samples, core)
    run_chunks(find_cores, len(kept), asked, n_threads)
    of_first = np.empty(len(points))
    of_first[kept[tree.order]] = core
    return of_first[firsts], RaisedNeighbors(firsts, kept, tree, *near, core)


def raised_boruvka(raised, n_threads):
    """Edges (n - 1, 2), i < j, and squared lengths of the tree of `RaisedNeighbors`.

    Lengths between different rows are raised to the core distances of both ends.
    """
    firsts, kept, tree, distances, positions, core = raised
    near = distances.copy(), positions.copy()
    rows = _begun(tree, near, core, np.arange(len(kept)), n_threads)
    edges, lengths = _grow(tree, rows, tree.order, _NOTHING_KNOWN, n_threads)
    duplicates = np.flatnonzero(firsts != np.arange(len(firsts)))
    joined = np.column_stack([firsts[duplicates], duplicates])
    return (
        np.concatenate([joined, kept[edges]]),
        np.concatenate([np.zeros(len(duplicates)), lengths]),
    )


def _neighborhood(points, n_neighbors, n_threads, leaves=None):
    """Build a tree of the points and find the nearest rows of each."""
    near = (
        np.empty((len(points), n_neighbors)),
        np.empty((len(points), n_neighbors), dtype=np.int32),
    )
    if leaves is None and points.shape[1] > _LOW:
        tree = _probe(points, near, n_threads)
    else:
        tree = build_tree(points, *(leaves or _FEW_PAIRS), n_threads)
    nearest_neighbors(tree, near, n_threads)
    return tree, near


def _probe(points, near, n_threads):
    """Return the tree in which the neighbours of a sample of rows are found sooner."""
    best = None
    fastest = np.inf
    for leaf_size, is_filtered in (_FEW_PAIRS, _ALL_PAIRS):
        tree = build_tree(points, leaf_size, is_filtered, n_threads)
        n_leaves = len(tree.starts) - 1
        n_tried = max(
            1,
            min(n_leaves // 64, int(_DIFFERENCES_PER_CHUNK / leaf_size / points.size)),
        )
        find_neighbors(0, 0, tree, *near, 0)  # compiles, if it must
        begun = thread_time()
        find_neighbors(n_leaves // 2, n_leaves // 2 + n_tried, tree, *near, 0)
        seconds = (thread_time() - begun) * n_leaves / n_tried
        # The filter compares each pair of leaves once, not twice.
        seconds *= 0.6 if is_filtered else 1.0
        if seconds < fastest:
            best = tree
            fastest = seconds
    return best


@compiled(nogil=True)
def by_first_place(nodes, n_vertices):
    """Number the vertices, (n,) int32, in the order of their first positions.

    Rows that are near each other then have similar numbers, which uses caches well.
    """
    numbers = np.full(n_vertices, -1, dtype=np.int32)
    component = np.empty(len(nodes), dtype=np.int32)
    n_seen = 0
    for i in range(len(nodes)):
        if numbers[nodes[i]] < 0:
            numbers[nodes[i]] = n_seen
            n_seen += 1
        component[i] = numbers[nodes[i]]
    return component


@compiled(nogil=True)
def find_cores(first, last, distances, positions, counts, min_samples, core):
    """Distance at which a range of positions has `min_samples` rows, itself counted.

    `counts` (n,) are the numbers of rows that are equal to each.
    """
    for i in range(first, last):
        n_near = counts[i]
        core[i] = 0.0
        at = 0
        while n_near < min_samples:
            core[i] = distances[i, at]
            n_near += counts[positions[i, at]]
            at += 1


@compiled(nogil=True)
def least_of_nodes(values):
    """Least value of each inner node from those of its children."""
    for node in range(len(values) // 2 - 1, 0, -1):
        values[node] = min(values[2 * node], values[2 * node + 1])


@compiled(nogil=True)
def begin(first, last, order, rows, is_raised):
    """Set what is known of a range of positions before the first round.

    Where lengths are raised, the nearest rows are sorted anew.
    """
    distances = rows.distances
    positions = rows.positions
    core = rows.core
    n_neighbors = distances.shape[1]
    for i in range(first, last):
        if is_raised:
            for k in range(n_neighbors):
                j = positions[i, k]
                if j < 0:
                    break
                length = max(distances[i, k], max(core[i], core[j]))
                at = k
                while at > 0 and (
                    distances[i, at - 1] > length
                    or (
                        distances[i, at - 1] == length
                        and order[positions[i, at - 1]] > order[j]
                    )
                ):
                    distances[i, at] = distances[i, at - 1]
                    positions[i, at] = positions[i, at - 1]
                    at -= 1
                distances[i, at] = length
                positions[i, at] = j
        rows.skipped[i] = 0
        rows.length[i] = distances[i, 0]
        rows.other[i] = positions[i, 0]


@compiled(nogil=True)
def renew(first, last, tree, rows, uniform, best, largest):
    """Update after a merge what is outside for each row and which leaves are uniform.

    Shares the best length of each component as far as it is known.
    """
    distances = rows.distances
    positions = rows.positions
    skipped = rows.skipped
    length = rows.length
    other = rows.other
    component = rows.component
    starts = tree.starts
    n_leaves = len(tree.starts) - 1
    n_neighbors = distances.shape[1]
    for leaf in range(first, last):
        start = starts[leaf]
        stop = starts[leaf + 1]
        # Once uniform, a leaf stays so.
        was_uniform = uniform[n_leaves + leaf] != _MIXED
        uniform[n_leaves + leaf] = component[start]
        if was_uniform and component[start] == largest:
            continue
        for i in range(start, stop):
            own = component[i]
            if own != component[start]:
                uniform[n_leaves + leaf] = _MIXED
            # No edge of this row can be the first of the component.
            if length[i] > best[own]:
                continue
            if other[i] < 0 or component[other[i]] == own:
                length[i] = np.inf
                other[i] = -1
                at = skipped[i]
                while at < n_neighbors:
                    length[i] = distances[i, at]
                    other[i] = positions[i, at]
                    if length[i] > best[own]:
                        break
                    if other[i] >= 0 and component[other[i]] != own:
                        break
                    at += 1
                    length[i] = np.inf
                    other[i] = -1
                skipped[i] = at
            if length[i] < best[own]:
                best[own] = length[i]


@compiled(nogil=True)
def mark_nodes(uniform):
    """Component of each inner node whose rows are all in one, else `_MIXED`."""
    for node in range(len(uniform) // 2 - 1, 0, -1):
        left = uniform[2 * node]
        right = uniform[2 * node + 1]
        uniform[node] = left if left == right else _MIXED


@compiled(nogil=True)
def search_leaves(first, last, tree, rows, uniform, best, largest):
    """Find the nearest row outside for the rows of a range of leaves that need one."""
    order = tree.order
    points = tree.points
    starts = tree.starts
    boxes = tree.boxes
    tiles = tree.tiles
    single = tree.single
    single_tiles = tree.single_tiles
    length = rows.length
    other = rows.other
    component = rows.component
    core = rows.core
    node_core = rows.node_core
    reach = rows.reach
    bounds = tree.bounds
    n_leaves = len(tree.starts) - 1
    width = tree.tiles.shape[2]
    is_split = tree.is_split
    work = np.empty((3, width))
    block = np.empty((LANES, width), dtype=np.float32)
    hits, active, wanted = np.empty((3, width + LANES), dtype=np.int64)
    stack = np.empty(STACK, dtype=np.int64)
    gaps = np.empty(STACK)
    for leaf in range(first, last):
        own = n_leaves + leaf
        radii = work[2]
        n_wanted = 0
        radius = -1.0
        for i in range(starts[leaf], starts[leaf + 1]):
            limit = best[component[i]]
            if reach[i] <= limit and component[i] != largest:
                wanted[n_wanted] = i
                radii[n_wanted] = limit
                n_wanted += 1
                radius = max(radius, limit)
        node, at = first_step(own, is_split)
        while node > 0 and n_wanted:
            stack[0] = node
            gaps[0] = box_gap(boxes, own, node)
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
                    depth = push_children(boxes, own, node, stack, gaps, depth)
                    continue
                tile_gaps(tiles, leaf, boxes, node, work[1])
                radius = _search_leaf(
                    order,
                    points,
                    starts,
                    tiles,
                    single,
                    single_tiles,
                    bounds,
                    component,
                    core,
                    length,
                    other,
                    best,
                    wanted,
                    n_wanted,
                    leaf,
                    node - n_leaves,
                    work,
                    block,
                    hits,
                    active,
                )
            node, at = next_step(at, 0)
        for q in range(n_wanted):
            i = wanted[q]
            reach[i] = max(reach[i], radii[q])


@compiled(nogil=True, forceinline=True)
def _search_leaf(
    order,
    points,
    starts,
    tiles,
    single,
    single_tiles,
    bounds,
    component,
    core,
    length,
    other,
    best,
    wanted,
    n_wanted,
    own_leaf,
    leaf,
    work,
    block,
    hits,
    active,
):
    """Search a leaf for nearer rows outside the component of each searching row.

    Returns the largest distance within which any of them still searches.
    """
    found = work[0]
    nearest = work[1]
    radii = work[2]
    start = starts[leaf]
    count = starts[leaf + 1] - starts[leaf]
    n_active = 0
    for q in range(n_wanted):
        radii[q] = min(radii[q], best[component[wanted[q]]])
        active[n_active] = wanted[q]
        n_active += nearest[wanted[q] - starts[own_leaf]] <= radii[q]
    a = 0
    for q in range(n_wanted):
        i = wanted[q]
        if a == n_active or active[a] != i:
            continue
        if len(single):
            if a % LANES == 0:
                active[n_active : n_active + LANES] = i
                filter_block(single, active, a, single_tiles, leaf, block)
            cutoff = cutoff_of(radii[q], bounds)
            n_hits = measure_filtered(
                points, i, block, a % LANES, start, count, cutoff, found, hits
            )
        else:
            n_hits = measure(points, i, tiles, leaf, count, radii[q], found, hits)
        a += 1
        for h in range(n_hits):
            j = start + hits[h]
            distance = max(found[h], max(core[i], core[j]))
            if distance <= radii[q] and component[j] != component[i]:
                radii[q] = distance
                if _comes_first(order, length, other, i, j, distance):
                    length[i] = distance
                    other[i] = j
        if radii[q] < best[component[i]]:
            best[component[i]] = radii[q]
    return radii[:n_wanted].max()


@compiled(nogil=True)
def _comes_first(order, length, other, i, j, distance):
    """Whether row j comes before what row i has found outside of its component."""
    return distance < length[i] or (
        distance == length[i] and (other[i] < 0 or order[j] < order[other[i]])
    )


@compiled(nogil=True)
def choose(first, last, tree, rows, uniform, best, largest, chosen, counts):
    """List the finds of each leaf that may be the first edge of their component.

    ``counts[leaf]`` positions, one for each run of rows of the same component, from
    ``chosen[starts[leaf]]`` on.
    """
    order = tree.order
    starts = tree.starts
    component = rows.component
    length = rows.length
    other = rows.other
    n_leaves = len(starts) - 1
    for leaf in range(first, last):
        start = starts[leaf]
        counts[leaf] = 0
        if uniform[n_leaves + leaf] == largest:
            continue
        at = start - 1
        for i in range(start, starts[leaf + 1]):
            own = component[i]
            if own == largest or other[i] < 0 or length[i] > best[own]:
                continue
            if at < start or component[chosen[at]] != own:
                at += 1
                chosen[at] = i
            elif _precedes(order, length, other, i, chosen[at]):
                chosen[at] = i
        counts[leaf] = at + 1 - start


@compiled(nogil=True)
def join_components(ends, lengths, component, best):
    """Whether each edge is between components; writes the best length of each."""
    is_open = np.empty(len(lengths), dtype=np.bool_)
    for e in range(len(lengths)):
        one = component[ends[e, 0]]
        other = component[ends[e, 1]]
        is_open[e] = one != other
        if is_open[e]:
            best[one] = min(best[one], lengths[e])
            best[other] = min(best[other], lengths[e])
    return is_open


@compiled(nogil=True)
def merge_components(order, names, starts, rows, sizes, listed, known, found):
    """Join every component but the largest along its first outgoing edge.

    Of the edges that were found, and of those known. Returns new numbers
    (n_components,) of the components, their sizes, and the number of edges found.
    """
    component = rows.component
    length = rows.length
    other = rows.other
    edges, lengths, n_found = found
    listed_rows, counts = listed
    chosen = np.full(len(sizes), -1, dtype=np.int32)
    for leaf in range(len(counts)):
        for at in range(starts[leaf], starts[leaf] + counts[leaf]):
            i = listed_rows[at]
            k = chosen[component[i]]
            if k < 0 or _precedes(names, length, other, i, k):
                chosen[component[i]] = i
    known_ends, known_lengths, known_names = known
    taken = np.full(len(sizes) if len(known_lengths) else 0, -1)
    largest = np.argmax(sizes)
    for e in range(len(known_lengths)):
        for end in known_ends[e]:
            own = component[end]
            k = taken[own]
            if own == largest:
                continue
            if k < 0 or _comes_before(
                known_lengths[e], known_names[e], known_lengths[k], known_names[k]
            ):
                taken[own] = e
    parents = singletons(len(sizes))
    pair = np.empty(2, dtype=np.int64)
    for own in range(len(sizes)):
        i = chosen[own]
        e = taken[own] if len(taken) else -1
        if i >= 0 and e >= 0:
            pair[0] = min(names[i], names[other[i]])
            pair[1] = max(names[i], names[other[i]])
            if _comes_before(known_lengths[e], known_names[e], length[i], pair):
                i = -1
        if i >= 0:
            j = other[i]
        elif e >= 0:
            j = known_ends[e, 0]
            if component[j] == own:
                j = known_ends[e, 1]
        else:
            continue
        one = find(parents, own)
        two = find(parents, component[j])
        if one != two:
            union(parents, sizes, one, two)
            if i >= 0:
                edges[n_found, 0] = min(order[i], order[j])
                edges[n_found, 1] = max(order[i], order[j])
                lengths[n_found] = length[i]
                n_found += 1
    labels, n_left = number_components(parents)
    numbers = labels.astype(np.int32)
    for own in range(len(sizes)):
        if parents[own] == own:
            sizes[numbers[own]] = sizes[own]
    return numbers, sizes[:n_left], n_found


@compiled(nogil=True)
def _comes_before(length, name, other_length, other_name):
    """Whether an edge comes before another in the total order."""
    if length != other_length:
        return length < other_length
    if name[0] != other_name[0]:
        return name[0] < other_name[0]
    return name[1] < other_name[1]


@compiled(nogil=True)
def _precedes(order, length, other, i, k):
    """Whether the edge found from i comes before that from k in the total order."""
    if length[i] != length[k]:
        return length[i] < length[k]
    a = order[i]
    b = order[other[i]]
    c = order[k]
    d = order[other[k]]
    if min(a, b) != min(c, d):
        return min(a, b) < min(c, d)
    return max(a, b) < max(c, d)


@compiled(nogil=True)
def relabel(first, last, component, numbers):
    """Give the rows of a range the new numbers of their components."""
    for i in range(first, last):
        component[i] = numbers[component[i]]
