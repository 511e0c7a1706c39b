"""Borůvka's algorithm on the cells of a k-d partition, for data beyond memory.

Each cell has files in a folder, which tasks of any process read and write; a task has
the rows of one cell in memory. First, each cell is searched like a tree of its own: its
rows find their nearest ones, in other cells as well where these are near enough, and
its components are joined by edges that are shorter than whatever another cell could
offer, strictly, since of equal lengths an edge that is not known here may come first.
The components that are left are the *vertices*. In each round that follows, the cells
offer the first edge that leaves each component, the largest excepted, and search only
cells that are no farther than the best edge known. The offers are merged by the total
order (length, i, j), so that the tree is the same, bit for bit, as that of all rows.

The position of a row counts the different rows of the cells before its own, too.
"""

import os
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from skdiffclust._compat import effective_n_threads
from skdiffclust._compiled import compiled
from skdiffclust._threads import run_chunks
from skdiffclust.forests._trees._boruvka import (
    MIXED,
    Rows,
    Searched,
    first_edges,
    first_found,
    join_rows,
    joined,
    nearest,
    neighbors_to_find,
    numbers_of,
    raised,
    rules_out,
    search,
    search_own,
)
from skdiffclust.forests._trees._duplicates import join_duplicates
from skdiffclust.forests._trees._kd_tree import Tree, box_gap, build_tree, tile_gaps

# Lengths are squared Euclidean distances.
_NORM = 2
# Component of rows that no row of a cell shares; -1 is that of a mixed node.
_OUTSIDE = -2
# The fields of `Rows` that change from round to round.
_STATE = "reach", "length", "other"
# Files of fewer bytes are read at once.
_SMALL = 2**16


class Cells(NamedTuple):
    """What tasks know of all cells: first positions (c + 1,) and boxes (c, 2, d).

    And the first vertices (c + 1,), once there are any.
    """

    starts: np.ndarray
    boxes: np.ndarray
    vertices: np.ndarray | None = None

    def near(self, cell):
        """Return the other cells that have rows, the nearest boxes first."""
        gaps = box_gaps(self.boxes, self.boxes[cell])
        order = np.argsort(gaps, kind="stable")
        return order[np.isfinite(gaps[order]) & (order != cell)]


class Offers(NamedTuple):
    """Edges that leave components.

    Their components and the vertices at their other ends, as columns (m, 2), rows as
    columns (m, 2), i < j, and squared lengths (m,).
    """

    ends: np.ndarray
    edges: np.ndarray
    lengths: np.ndarray


def write(folder, cell, **arrays):
    """Write arrays of a cell, each to a file that appears once it is complete."""
    for name, array in arrays.items():
        path = Path(folder, f"{name}_{cell}.npy")
        # A task whose worker is lost may run twice.
        aside = path.with_name(f"aside_{os.getpid()}_{path.name}")
        try:
            np.save(aside, array)
            os.replace(aside, path)
        except OSError as error:
            raise OSError(
                f"A tree by blocks could not be written to '{folder}': {error}. Set "
                "the 'folder' parameter of minimum_spanning_tree_by_blocks to a folder "
                "with more space that all workers can write."
            ) from error


def read(folder, cell, name, *, mapped=False):
    """Return an array of a cell; a large one that is mapped is read where it is used.

    Those that are written again are not mapped.
    """
    path = Path(folder, f"{name}_{cell}.npy")
    is_mapped = mapped and path.stat().st_size > _SMALL
    # What a kernel would write is not written to the file.
    return np.asarray(np.load(path, mmap_mode="c" if is_mapped else None))


def remove(folder, pattern):
    """Remove files of a pattern."""
    for path in Path(folder).glob(pattern):
        path.unlink()


def collect(folder):
    """Return all edges (m, 2) and lengths (m,) that were written, equal rows joined."""
    joined = [np.load(path) for path in sorted(Path(folder).glob("equal_edges_*"))]
    paths = sorted(Path(folder).glob("edges_*"))
    lengths = [np.zeros(sum(map(len, joined)))]
    lengths += [np.load(path.with_name(f"lengths{path.name[5:]}")) for path in paths]
    edges = joined + [np.load(path) for path in paths]
    return np.concatenate(edges), np.concatenate(lengths)


def partition(sample, n_cells):
    """Return the features and thresholds (n_cells,) of a balanced k-d partition.

    Of `n_cells` cells, a power of two, by a sample (m, d). Node i has the children 2 i,
    with the values below the threshold, and 2 i + 1. A node whose rows of the sample
    are all equal is not divided: one of its children is empty.
    """
    features = np.zeros(n_cells, dtype=np.int64)
    thresholds = np.full(n_cells, np.inf)
    samples = [sample] * (2 * n_cells)
    for node in range(1, n_cells):
        rows = samples[node]
        below = np.zeros(len(rows), dtype=bool)
        if len(rows) and (rows != rows[0]).any():
            f = np.argmax(np.ptp(rows, axis=0))
            values = np.sort(rows[:, f])
            middle = values[len(values) // 2]
            # So that rows with the least value have something above them.
            above = values[np.searchsorted(values, values[0], side="right")]
            features[node] = f
            thresholds[node] = max(middle, above)
            below = rows[:, f] < thresholds[node]
        samples[2 * node] = rows[below]
        samples[2 * node + 1] = rows[~below]
    return features, thresholds


@compiled(nogil=True)
def locate(points, features, thresholds):
    """Return the cell (n,) uint16 of each row of points (n, d) in a partition."""
    n_cells = len(features)
    cells = np.empty(len(points), dtype=np.uint16)
    for i in range(len(points)):
        node = 1
        while node < n_cells:
            is_above = points[i, features[node]] >= thresholds[node]
            node = 2 * node + np.int64(is_above)
        cells[i] = node - n_cells
    return cells


def divide(folder, chunk, points, start, features, thresholds):
    """Write a chunk of rows (m, d) of X, those from `start` on, sorted by cells."""
    cells = locate(points.astype(np.float64, copy=False), features, thresholds)
    order = np.argsort(cells, kind="stable")
    counts = np.bincount(cells, minlength=len(features))
    write(
        folder,
        chunk,
        chunk_rows=start + order,
        chunk_points=points.take(order, axis=0),
        chunk_starts=np.append(0, np.cumsum(counts)),
    )


def plant(folder, cell, n_chunks):
    """Write the k-d tree of the different rows of a cell; return how many, and a box.

    Equal rows are joined by edges of length zero.
    """
    rows = []
    points = []
    for chunk in range(n_chunks):
        start, stop = read(folder, chunk, "chunk_starts")[cell : cell + 2]
        rows.append(read(folder, chunk, "chunk_rows", mapped=True)[start:stop])
        points.append(read(folder, chunk, "chunk_points", mapped=True)[start:stop])
    rows = np.concatenate(rows)
    points = np.concatenate(points).astype(np.float64, copy=False)
    if not len(rows):
        return 0, np.full((2, points.shape[1]), np.inf)
    joined, kept, _ = join_duplicates(points, np.arange(len(points)))
    tree = build_tree(points[kept], effective_n_threads(None))
    write(
        folder,
        cell,
        order=rows[kept][tree.order],
        starts=tree.starts,
        boxes=tree.boxes,
        points=tree.points,
        tiles=tree.tiles,
        equal_edges=rows[joined],
    )
    return len(kept), tree.boxes[1]


def are_few_seen(folder, cell, cells):
    """Whether searches see few of the rows of all cells; leaves of one are tried."""
    others = [_searched(folder, b, 1) for b in cells.near(cell)]
    return rules_out(_read_tree(folder, cell), _NORM, others)


def grow(folder, cell, cells):
    """Join the rows of a cell as far as no other cell matters.

    Returns how many rows (m,) the components have, the vertices of the cell.
    """
    n_threads = effective_n_threads(None)
    tree = _read_tree(folder, cell)
    n_rows = len(tree.points)
    near = nearest(tree, _NORM, neighbors_to_find(tree.points), n_threads)
    radii = np.maximum.reduceat(near.length[:, -1], tree.starts[:-1])
    asking = near._replace(reach=np.zeros(n_rows))
    best = near.length[:, -1].copy()
    for b, leaves in _cells_within(radii, tree, cell, cells):
        other = _searched(folder, b, n_rows + int(cells.starts[b]))
        asked = leaves, tree, _NORM, asking, best, -1, other
        run_chunks(search, len(leaves), asked, n_threads)
    outside = _number(near.other, n_rows)
    order = _of_positions(folder, cells, outside, "order")
    tree = tree._replace(order=np.concatenate([tree.order, order]))
    near = raised(tree, near, np.zeros(len(tree.order)), n_threads)
    component = np.full(len(tree.order), _OUTSIDE, dtype=np.int32)
    component[:n_rows] = np.arange(n_rows)
    rows = first_found(near, component)
    limits = np.full(n_rows, np.inf)
    boxes = np.ascontiguousarray(cells.boxes[cells.near(cell)])
    run_chunks(bound_rows, len(radii), (tree, _NORM, boxes, limits), n_threads)
    limits = np.maximum(limits, near.reach)
    ends, lengths = join_rows(tree, _NORM, near, rows, n_threads, limits)
    write(
        folder,
        cell,
        edges=np.sort(tree.order[ends].T, axis=1),
        lengths=lengths,
        vertex=component[:n_rows],
        outside=outside,
        outside_order=order,
        distances=near.length,
        positions=near.other,
        limits=limits,
        **{name: getattr(rows, name) for name in _STATE},
    )
    return np.bincount(component[:n_rows])


def offer(folder, cell, cells, at_round, largest):
    """Return the `Offers` of a cell for all components but the largest.

    ``roots_r`` in the folder are the components of all vertices in round r, and
    ``best_r`` lengths of edges that are known to leave them.
    """
    n_threads = effective_n_threads(None)
    roots = read(folder, at_round, "roots", mapped=True)
    best = read(folder, at_round, "best", mapped=True)
    # Components are numbered anew: those of this cell, `own`, from 0 up.
    first, last = cells.vertices[cell : cell + 2]
    own = np.unique(roots[first:last])
    numbers = np.full(len(best), _OUTSIDE, dtype=np.int32)
    numbers[own] = np.arange(len(own))
    numbers[largest] = len(own)
    roots = numbers[roots]
    largest = len(own)
    best = np.append(best[own], np.inf)
    own = np.append(own, largest)
    tree = _read_tree(folder, cell)
    n_rows = len(tree.points)
    outside = read(folder, cell, "outside")
    vertex = first + read(folder, cell, "vertex", mapped=True)
    vertex = np.concatenate([vertex, _vertices_of(folder, cells, outside)])
    order = np.concatenate([tree.order, read(folder, cell, "outside_order")])
    tree = tree._replace(order=order)
    rows = Rows(
        core=np.zeros(len(order)),
        tie=0.0,
        node_core=np.zeros(len(tree.boxes)),
        component=roots[vertex],
        uniform=np.full(len(tree.boxes), MIXED, dtype=np.int32),
        **{name: read(folder, cell, name) for name in _STATE},
    )
    near = rows._replace(
        length=read(folder, cell, "distances", mapped=True),
        other=read(folder, cell, "positions", mapped=True),
    )
    skipped = np.zeros(n_rows, dtype=np.int32)
    search_own(tree, _NORM, near, rows, skipped, best, largest, n_threads)
    chosen = first_edges(order, rows, best, largest)
    offers = [_offers(own, order, order, vertex, rows, chosen)]

    component = rows.component[:n_rows]
    limits = read(folder, cell, "limits")
    is_wanted = (component != largest) & (limits <= best[component])
    radii = np.where(is_wanted, best[component], -1.0)
    radii = np.maximum.reduceat(radii, tree.starts[:-1])
    for b, leaves in _cells_within(radii, tree, cell, cells):
        vertex = cells.vertices[b] + read(folder, b, "vertex", mapped=True)
        other = _searched(folder, b, 1, roots[vertex])
        found = rows._replace(
            reach=limits,
            length=np.full((n_rows, 1), np.inf),
            other=np.full((n_rows, 1), -1, dtype=np.int32),
        )
        asked = leaves, tree, _NORM, found, best, largest, other
        run_chunks(search, len(leaves), asked, n_threads)
        found.other[:] -= 1  # the shift
        chosen = first_edges(order, found, best, largest, other.tree.order)
        offers.append(_offers(own, order, other.tree.order, vertex, found, chosen))
    # Whatever is nearer has been seen.
    np.maximum(limits, best[component], out=limits, where=component != largest)
    write(folder, cell, limits=limits, **{name: getattr(rows, name) for name in _STATE})
    return Offers(*map(np.concatenate, zip(*offers, strict=True)))


def merge_offers(offers, roots, sizes):
    """Join components along the first edges that all cells offer.

    `roots` are the components of vertices, of as many rows as `sizes`. Returns the new
    ones, lengths of edges that leave these, and the edges (m, 2) and lengths (m,).
    """
    ends, edges, lengths = map(np.concatenate, zip(*offers, strict=True))
    first = ends[:, 0]
    second = roots[ends[:, 1]]
    order = np.lexsort((edges[:, 1], edges[:, 0], lengths, first))
    chosen = np.full(len(sizes), -1)
    chosen[first[order[::-1]]] = order[::-1]
    to = np.where(chosen < 0, np.arange(len(sizes)), second[chosen])
    components, is_new = joined(to)
    numbers = numbers_of(components)
    sizes = np.bincount(numbers, sizes).astype(np.int64)
    best = np.full(len(sizes), np.inf)
    leaves = numbers[first] != numbers[second]
    for component in (first, second):
        np.minimum.at(best, numbers[component[leaves]], lengths[leaves])
    taken = chosen[is_new]
    return numbers[roots], sizes, best, edges[taken], lengths[taken]


def box_gaps(boxes, box):
    """Return the squared distances (m,) of boxes (m, 2, d) from one (2, d)."""
    with np.errstate(invalid="ignore"):
        gaps = np.maximum(boxes[:, 0] - box[1], box[0] - boxes[:, 1])
        total = np.zeros(len(boxes))
        for gap in gaps.T:  # in the order of the kernels
            total += np.square(np.maximum(gap, 0.0))
    return total


@compiled(nogil=True)
def bound_rows(first, last, tree, norm, boxes, bounds):
    """Lower the bounds (n,) of the rows of some leaves to lengths to the boxes."""
    starts = tree.starts
    own_boxes = tree.boxes
    tiles = tree.tiles
    n_leaves = len(starts) - 1
    gaps = np.empty(tiles.shape[2])
    for leaf in range(first, last):
        start = starts[leaf]
        stop = starts[leaf + 1]
        farthest = np.inf
        for b in range(len(boxes)):
            if box_gap(own_boxes, n_leaves + leaf, boxes, b, norm) >= farthest:
                continue
            tile_gaps(tiles, leaf, boxes, b, norm, gaps)
            farthest = 0.0
            for i in range(start, stop):
                bounds[i] = min(bounds[i], gaps[i - start])
                farthest = max(farthest, bounds[i])


def _cells_within(radii, tree, cell, cells):
    """Yield the other cells within the radius (n_leaves,) of a leaf, and which leaves.

    Negative radii reach nothing.
    """
    boxes = tree.boxes[len(radii) :]
    for b in cells.near(cell):
        leaves = np.flatnonzero(box_gaps(boxes, cells.boxes[b]) <= radii)
        if len(leaves):
            yield b, leaves


def _read_tree(folder, cell):
    """Return the k-d tree of a cell."""
    mapped = (
        read(folder, cell, name, mapped=True)
        for name in ("order", "points", "starts", "boxes", "tiles")
    )
    return Tree(*mapped)


def _searched(folder, cell, shift, component=None):
    """Return a cell as `Searched`, by default of a component that no row shares."""
    tree = _read_tree(folder, cell)
    n_rows = len(tree.points)
    if component is None:
        component = np.full(n_rows, _OUTSIDE, dtype=np.int32)
    return Searched(
        tree,
        core=np.zeros(n_rows),
        node_core=np.zeros(len(tree.boxes)),
        component=component,
        uniform=np.full(len(tree.boxes), MIXED, dtype=np.int32),
        shift=shift,
    )


def _number(positions, n_rows):
    """Number rows of other cells in lists of positions, from `n_rows` up, in place.

    Returns their positions (h,), ascending, to which `n_rows` was added in the lists.
    """
    is_outside = positions >= n_rows
    outside, numbers = np.unique(positions[is_outside], return_inverse=True)
    positions[is_outside] = n_rows + numbers
    return outside - n_rows


def _of_positions(folder, cells, positions, name):
    """Return values of an array of all cells at ascending positions (h,)."""
    places = np.searchsorted(positions, cells.starts)
    parts = [
        read(folder, b, name, mapped=True)[positions[first:last] - cells.starts[b]]
        for b, (first, last) in enumerate(pairwise(places))
        if first < last
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _vertices_of(folder, cells, positions):
    """Return the vertices of rows at ascending positions (h,)."""
    cell = np.searchsorted(cells.starts, positions, side="right") - 1
    return cells.vertices[cell] + _of_positions(folder, cells, positions, "vertex")


def _offers(own, order, other_order, vertex, rows, chosen):
    """Return the `Offers` of components, numbered as in `own`, of the chosen rows.

    Orders and vertices are of the rows at the first ends and at the other ones.
    """
    is_found = chosen >= 0
    i = chosen[is_found]
    j = rows.other[i, 0]
    edges = np.sort(np.column_stack([order[i], other_order[j]]), axis=1)
    ends = np.column_stack([own[is_found], vertex[j]])
    return Offers(ends, edges, rows.length[i, 0])
