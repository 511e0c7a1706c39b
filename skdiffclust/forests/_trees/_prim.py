"""Prim's algorithm, compiled: each row of the relation is read once, O(n) memory.

The state of a growing tree is, for each row, its shortest edge to the tree and the row
at the other end of it. Rows of the tree have ``shortest = -inf, nearest = -1``, which
no edge improves. Columns are worked on in blocks that stay in the first cache. LLVM
vectorises a minimum of integers but not of floats, so keys are the bits of the lengths.
"""

from typing import NamedTuple

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust._gower_kernels import sums_to_block

_BLOCK = 512
_UNIT = 2.0**-24
_LAST = np.iinfo(np.int64).max
_FIRST = np.iinfo(np.int64).min
# Smaller than any key: the lowest of the block must be searched for.
_UNKNOWN = _FIRST
# The key of -inf, which marks the rows that are in the tree.
_ARRIVED = int(np.array(-np.inf).view(np.int64)) ^ _LAST
# Entries of the relation between two checks for an interruption: about 0.1 s.
_DIFFERENCES_PER_CHUNK = 2**27
# Rows of the tree are dropped from the points once they are this fraction of them.
_DROPPED = 0.15


class _Tree(NamedTuple):
    """A growing tree, as the kernels take it.

    Attributes
    ----------
    graph : tuple of ndarray
        The vertex of each row, rows by vertex, and where each vertex begins there.
    progress : ndarray of shape (3,)
        The vertex to add next, the number of edges, the number of vertices.
    shortest : ndarray of shape (n,)
        Length of the shortest edge of each column to the tree.
    nearest : ndarray of shape (n,)
        The row at its other end, -1 for what is in the tree.
    edges : ndarray of shape (n_vertices - 1, 2)
    lengths : ndarray of shape (n_vertices - 1,)
    """

    graph: tuple
    progress: np.ndarray
    shortest: np.ndarray
    nearest: np.ndarray
    edges: np.ndarray
    lengths: np.ndarray

    def found(self):
        """Return the edges and lengths found so far."""
        n_edges = self.progress[1]
        return self.edges[:n_edges], self.lengths[:n_edges]


def prim_on_matrix(D, nodes):
    """Return the edges of the minimum spanning forest of symmetric `D` (n, n).

    Rows with the same id in `nodes` (n,), ids 0 up, count as one vertex; infinite
    entries are no edges; the diagonal is not read as one. Returns edges (m, 2) with i <
    j and their lengths (m,).
    """
    tree = _start(nodes)
    n_steps = max(1, _DIFFERENCES_PER_CHUNK // len(D))
    while grow_on_matrix(D, *tree, n_steps):
        pass
    return tree.found()


def prim_on_points(points, nodes, n_first=0):
    """Return the edges of the minimum spanning forest of the rows of points (n, d).

    Lengths are squared Euclidean distances, summed over the features in order. With
    `n_first`, only edges between the first so many rows and the others count. All else
    is as in `prim_on_matrix`. A filter in float32, half of the memory traffic, leaves
    few pairs to be measured.
    """
    tree = _start(nodes)
    kept = np.arange(len(points))
    single, bounds = _single_rows(points)
    columns = np.ascontiguousarray(single.T)
    limits = np.full(len(points), np.inf, dtype=np.float32)
    n_steps = max(1, _DIFFERENCES_PER_CHUNK // points.size)
    filtered = single, bounds, columns, kept, limits
    while grow_on_points(points, n_first, *filtered, *tree, n_steps):
        kept, columns, n_steps = _without_arrived(tree, kept, columns, limits)
        filtered = single, bounds, columns, kept, limits
    return tree.found()


def prim_on_gower(rows, encoder, nodes):
    """Return the edges of the minimum spanning forest of encoded rows (n, d).

    Lengths are the distances of a GowerEncoder. All else is as in `prim_on_matrix`.
    """
    tree = _start(nodes)
    kept = np.arange(len(rows))
    columns = np.ascontiguousarray(rows.T)
    features = encoder.is_category, encoder.gaps
    n_steps = max(1, _DIFFERENCES_PER_CHUNK // rows.size)
    while grow_on_gower(rows, columns, features, kept, *tree, n_steps):
        kept, columns, n_steps = _without_arrived(tree, kept, columns)
    return tree.found()


def _without_arrived(tree, kept, columns, *others):
    """Return kept (m,) and columns (d, m) without rows of the tree, if they are many.

    The state of the tree and others (n,) are compacted in place. Also returns how many
    vertices to add next.
    """
    waiting = tree.nearest[: len(kept)] != -1
    if np.count_nonzero(waiting) < (1 - _DROPPED) * len(kept):
        kept = kept[waiting]
        columns = np.ascontiguousarray(columns[:, waiting])
        for values in (tree.shortest, tree.nearest, *others):
            values[: len(kept)] = values[: len(waiting)][waiting]
    n_steps = min(_DIFFERENCES_PER_CHUNK // columns.size, int(0.05 * len(kept)))
    return kept, columns, max(1, n_steps)


def _single_rows(points):
    """Return centred rows in float32 (n, d rounded up to 4), and bounds of their error.

    Rows are scaled by a power of two so that no square overflows. The bounds are
    (scale, absolute error of a scaled distance, relative error of one): 3 floats, (3,).
    """
    n_samples, n_features = points.shape
    single = np.zeros((n_samples, -4 * (-n_features // 4)), dtype=np.float32)
    centred = points - points.mean(axis=0)
    largest = np.sqrt(n_features) * np.abs(centred).max(initial=0.0)
    scale = 2.0 ** -np.ceil(np.log2(largest)) if largest > 0 else 1.0
    np.multiply(centred, scale, out=single[:, :n_features], casting="same_kind")
    # Each end is rounded twice, centred and as float32; norms are at most 1.
    return single, np.array([scale, 8 * _UNIT, (n_features + 16) * _UNIT])


def _start(nodes):
    """Return a tree without rows."""
    n_samples = len(nodes)
    n_vertices = int(nodes.max()) + 1
    members = np.argsort(nodes, kind="stable")
    starts = np.searchsorted(nodes[members], np.arange(n_vertices + 1))
    return _Tree(
        (nodes, members, starts),
        np.array([nodes[0], 0, n_vertices]),
        np.full(n_samples, np.inf),
        np.full(n_samples, n_samples),
        np.empty((n_vertices - 1, 2), dtype=np.int64),
        np.empty(n_vertices - 1),
    )


@compiled(nogil=True)
def _any_closer(values, shortest):
    """Whether any new edge is as short as the one known; usually none is."""
    n_closer = np.int64(0)
    for j in range(len(values)):
        n_closer += values[j] <= shortest[j]
    return n_closer > 0


@compiled(nogil=True)
def _lower(values, shortest, nearest, i):
    """Update the shortest edges of one block of columns by those from row i."""
    for j in range(len(values)):
        # For a fixed end j, (i, j) precedes (i', j) exactly when i < i'.
        closer = (values[j] < shortest[j]) | (
            (values[j] == shortest[j]) & (i < nearest[j])
        )
        shortest[j] = values[j] if closer else shortest[j]
        nearest[j] = i if closer else nearest[j]


@compiled(nogil=True)
def _lowest(bits):
    """Return the smallest key of a block; `_LAST` if all its rows are in the tree."""
    lowest = _LAST
    for j in range(len(bits)):
        key = bits[j]
        key = 0 if key == _FIRST else key
        key = key ^ ((key >> 63) & _LAST)
        key = _LAST if key == _ARRIVED else key
        lowest = min(lowest, key)
    return lowest


@compiled(nogil=True)
def _first(shortest, nearest, kept, block_minima, lowest):
    """Return the column of the first edge in the order (length, smaller, larger)."""
    best = -1
    low = 0
    high = 0
    length = np.inf
    for block in range(len(block_minima)):
        if block_minima[block] != lowest:
            continue
        start = block * _BLOCK
        for at in range(start, min(start + _BLOCK, len(kept))):
            if nearest[at] == -1 or shortest[at] > length:
                continue
            i = min(kept[at], nearest[at])
            j = max(kept[at], nearest[at])
            tied = best >= 0 and shortest[at] == length
            if tied and (i > low or (i == low and j > high)):
                continue
            best = at
            low = i
            high = j
            length = shortest[at]
    return best


@compiled(nogil=True)
def _join(at, row, graph, state, shortest, nearest, edges, lengths):
    """Add the edge of column `at` to the tree; its vertex is added next."""
    if shortest[at] < np.inf:
        e = state[1]
        edges[e, 0] = min(row, nearest[at])
        edges[e, 1] = max(row, nearest[at])
        lengths[e] = shortest[at]
        state[1] += 1
    state[0] = graph[0][row]


@compiled(nogil=True)
def grow_on_matrix(D, graph, state, shortest, nearest, edges, lengths, n_steps):
    """Add `n_steps` vertices to the tree; return whether any are left."""
    _, members, starts = graph
    n_samples = len(D)
    everyone = np.arange(n_samples)
    bits = shortest.view(np.int64)
    block_minima = np.empty((n_samples + _BLOCK - 1) // _BLOCK, dtype=np.int64)
    block_minima[:] = _UNKNOWN
    for _ in range(n_steps):
        arrivals = members[starts[state[0]] : starts[state[0] + 1]]
        for i in arrivals:
            shortest[i] = -np.inf
            nearest[i] = -1
            block_minima[i // _BLOCK] = _UNKNOWN
        for block in range(len(block_minima)):
            b = slice(block * _BLOCK, min((block + 1) * _BLOCK, n_samples))
            if block_minima[block] == _LAST:
                continue
            for i in arrivals:
                if _any_closer(D[i, b], shortest[b]):
                    _lower(D[i, b], shortest[b], nearest[b], i)
                    block_minima[block] = _UNKNOWN
            if block_minima[block] == _UNKNOWN:
                block_minima[block] = _lowest(bits[b])
        lowest = block_minima.min()
        if lowest == _LAST:
            return False
        at = _first(shortest, nearest, everyone, block_minima, lowest)
        _join(at, at, graph, state, shortest, nearest, edges, lengths)
    return True


@compiled(nogil=True)
def _cutoff(limit, bounds):
    """Return a float32 length that no row within the squared distance exceeds."""
    distance = (np.sqrt(limit) * bounds[0] + bounds[1]) * (1.0 + bounds[2])
    return np.float32(distance * distance * (1.0 + 1e-6))


# Contraction to fused multiply-add only makes the result more accurate.
@compiled(nogil=True, fastmath={"contract"})
def _filter(single, i, columns, start, limits, values):
    """Write float32 squared distances (b,) from a row to a block of columns (e, m).

    Returns how many are within their limits.
    """
    width = len(values)
    values[:] = np.float32(0.0)
    for f in range(0, single.shape[1], 4):
        p = single[i, f]
        q = single[i, f + 1]
        r = single[i, f + 2]
        s = single[i, f + 3]
        a = columns[f, start : start + width]
        b = columns[f + 1, start : start + width]
        c = columns[f + 2, start : start + width]
        d = columns[f + 3, start : start + width]
        for j in range(width):
            total = values[j] + (a[j] - p) * (a[j] - p) + (b[j] - q) * (b[j] - q)
            values[j] = total + (c[j] - r) * (c[j] - r) + (d[j] - s) * (d[j] - s)
    n_near = np.int32(0)
    for j in range(width):
        n_near += np.int32(values[j] <= limits[start + j])
    return n_near


@compiled(nogil=True)
def grow_on_points(
    points,
    n_first,
    single,
    bounds,
    columns,
    kept,
    limits,
    graph,
    state,
    shortest,
    nearest,
    edges,
    lengths,
    n_steps,
):
    """Add `n_steps` vertices to the tree of points; return whether any are left.

    The points `kept` (m,) are not in the tree, and their columns are (e, m). `limits`
    (m,) are float32 lengths of which no column is nearer to the tree. If `n_first` is
    not zero, a row has edges to those on the other side of it only.
    """
    _, members, starts = graph
    n_kept = len(kept)
    n_kept_first = np.searchsorted(kept, n_first)
    bits = shortest.view(np.int64)
    n_blocks = (n_kept + _BLOCK - 1) // _BLOCK
    block_minima = np.empty(n_blocks, dtype=np.int64)
    block_minima[:] = _UNKNOWN
    values = np.empty(_BLOCK, dtype=np.float32)
    for _ in range(n_steps):
        arrivals = members[starts[state[0]] : starts[state[0] + 1]]
        for i in arrivals:
            at = np.searchsorted(kept, i)
            shortest[at] = -np.inf
            nearest[at] = -1
            limits[at] = np.float32(-1.0)
            block_minima[at // _BLOCK] = _UNKNOWN
        lowest = _LAST
        for block in range(n_blocks):
            start = block * _BLOCK
            stop = min(start + _BLOCK, n_kept)
            if block_minima[block] == _LAST:
                continue
            for i in arrivals:
                begin = start
                end = stop
                if n_first and i < n_first:
                    begin = max(start, n_kept_first)
                elif n_first:
                    end = min(stop, n_kept_first)
                if begin >= end:
                    continue
                measured = values[: end - begin]
                if _filter(single, i, columns, begin, limits, measured) == 0:
                    continue
                for at in range(begin, end):
                    if measured[at - begin] > limits[at]:
                        continue
                    j = kept[at]
                    length = 0.0
                    for f in range(points.shape[1]):
                        length += (points[i, f] - points[j, f]) ** 2
                    # For a fixed end j, (i, j) precedes (i', j) exactly when i < i'.
                    if length < shortest[at] or (
                        length == shortest[at] and i < nearest[at]
                    ):
                        shortest[at] = length
                        nearest[at] = i
                        limits[at] = _cutoff(length, bounds)
                        block_minima[block] = _UNKNOWN
            if block_minima[block] == _UNKNOWN:
                block_minima[block] = _lowest(bits[start:stop])
            lowest = min(lowest, block_minima[block])
        if lowest == _LAST:
            return False
        at = _first(shortest, nearest, kept, block_minima, lowest)
        _join(at, kept[at], graph, state, shortest, nearest, edges, lengths)
    return True


@compiled(nogil=True)
def grow_on_gower(
    rows,
    columns,
    features,
    kept,
    graph,
    state,
    shortest,
    nearest,
    edges,
    lengths,
    n_steps,
):
    """Add `n_steps` vertices to the tree of encoded rows; return whether any are left.

    The rows `kept` (m,) are not in the tree, and their columns are (d, m). `features`
    are which ones are categories (d,), and what their gaps add (d,).
    """
    _, members, starts = graph
    is_category, gaps = features
    n_kept = len(kept)
    bits = shortest.view(np.int64)
    n_blocks = (n_kept + _BLOCK - 1) // _BLOCK
    block_minima = np.empty(n_blocks, dtype=np.int64)
    block_minima[:] = _UNKNOWN
    values = np.empty(_BLOCK)
    for _ in range(n_steps):
        arrivals = members[starts[state[0]] : starts[state[0] + 1]]
        for i in arrivals:
            at = np.searchsorted(kept, i)
            shortest[at] = -np.inf
            nearest[at] = -1
            block_minima[at // _BLOCK] = _UNKNOWN
        lowest = _LAST
        for block in range(n_blocks):
            start = block * _BLOCK
            stop = min(start + _BLOCK, n_kept)
            if block_minima[block] == _LAST:
                continue
            measured = values[: stop - start]
            for i in arrivals:
                sums_to_block(rows[i], columns, start, is_category, gaps, measured)
                for j in range(len(measured)):
                    measured[j] /= len(gaps)
                if _any_closer(measured, shortest[start:stop]):
                    _lower(measured, shortest[start:stop], nearest[start:stop], i)
                    block_minima[block] = _UNKNOWN
            if block_minima[block] == _UNKNOWN:
                block_minima[block] = _lowest(bits[start:stop])
            lowest = min(lowest, block_minima[block])
        if lowest == _LAST:
            return False
        at = _first(shortest, nearest, kept, block_minima, lowest)
        _join(at, kept[at], graph, state, shortest, nearest, edges, lengths)
    return True
