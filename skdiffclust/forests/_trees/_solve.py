"""Choose the kernel that grows a spanning tree, by the kind and amount of data.

Every kernel follows the total order (length, i, j), so they all give the same tree, bit
for bit, and differ in time only.
"""

from functools import partial

import numpy as np

from skdiffclust._compat import effective_n_threads
from skdiffclust._validation import check_dense_size
from skdiffclust.forests._trees._compilation_threshold import is_compiled
from skdiffclust.forests._trees._small_prim import prim

# Up to this many points, comparing all pairs is faster than a k-d tree.
_MOST_FOR_PRIM = 1000


def spanning_edges(lengths, rows=None, nodes=None, *, algorithm="auto", n_jobs=None):
    """Return the edges of the minimum spanning forest of `rows` of a relation.

    Rows with the same id in `nodes` (n_samples,) count as one vertex. By default all
    rows take part, each a vertex of its own. Returns edges (m, 2) with i < j and their
    lengths (m,), in the unit of `lengths`, in no particular order; m is the number of
    vertices less the number of components.
    """
    everyone = np.arange(lengths.n_samples)
    rows = everyone if rows is None else rows
    nodes = everyone if nodes is None else nodes
    is_whole = nodes is everyone and len(rows) == lengths.n_samples
    solve = _solver(lengths, len(rows), algorithm, n_jobs, is_whole)
    if solve is None:
        return prim(lengths.row, rows, nodes)
    if len(rows) < lengths.n_samples:
        lengths = lengths.take(rows)
    vertices = np.arange(len(rows))
    if nodes is not everyone:
        vertices = np.unique(nodes[rows], return_inverse=True)[1]
    edges, edge_lengths = solve(lengths, vertices)
    return (edges if rows is everyone else rows[edges]), edge_lengths


def _solver(lengths, n_rows, algorithm, n_jobs, is_whole):
    """Return the function that grows the tree; None for the one in NumPy."""
    from skdiffclust._compiled import is_ready
    from skdiffclust.forests._trees._boruvka import search_leaves
    from skdiffclust.forests._trees._kruskal import take_edges
    from skdiffclust.forests._trees._prim import grow_on_matrix, grow_on_points

    if algorithm == "kruskal":
        return _by_kruskal
    by_prim = algorithm == "prim"
    if lengths.graph is not None:
        is_fast = is_compiled(n_rows, take_edges) and not by_prim
        return _by_kruskal if is_fast else None
    if lengths.grow is not None and is_whole and not by_prim:
        return lambda *_: lengths.grow(effective_n_threads(n_jobs))
    if lengths.encoder is not None and lengths.core is None:
        return _by_gower
    has_points = lengths.points is not None and lengths.core is None
    has_matrix = lengths.matrix is not None and lengths.core is None
    has_prim = has_matrix or (has_points and lengths.norm == 2)
    prim_kernel = grow_on_points if has_prim and has_points else grow_on_matrix
    if has_points and not by_prim:
        if algorithm == "boruvka":
            return partial(_by_boruvka, n_jobs=n_jobs)
        is_small = has_prim and n_rows <= _MOST_FOR_PRIM and is_ready(prim_kernel)
        if is_compiled(n_rows, search_leaves) and not is_small:
            return partial(_by_boruvka, n_jobs=n_jobs)
    if not is_compiled(n_rows, prim_kernel) or (by_prim and not has_prim):
        return None
    return _by_prim if has_prim else partial(_by_blocks, n_jobs=n_jobs)


def all_edges(lengths):
    """Return edges (i, j), i < j, in lexicographic order: i, j and lengths, each (m,).

    O(n²) memory unless they are those of a sparse graph.
    """
    if lengths.graph is not None:
        graph = lengths.graph
        first = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
        upper = np.flatnonzero(graph.indices > first)
        return first[upper], graph.indices[upper].astype(np.int64), graph.data[upper]
    n_samples = lengths.n_samples
    check_dense_size(
        n_samples,
        3 * n_samples // 2,
        what="the list of all edges",
        remedy="Set algorithm='auto' and give no cannot-links: then it is not needed.",
    )
    first, second = np.triu_indices(n_samples, 1)
    everyone = np.arange(n_samples)
    later = [lengths.row(i, everyone[i + 1 :]) for i in range(n_samples - 1)]
    return first, second, np.concatenate([np.empty(0), *later])


def _by_kruskal(lengths, vertices):
    """Sort all edges."""
    from skdiffclust.forests._trees._kruskal import kruskal

    first, second, values = all_edges(lengths)
    chosen = kruskal(first, second, values, vertices)
    return np.column_stack([first[chosen], second[chosen]]), values[chosen]


def _by_prim(lengths, vertices):
    """Read a matrix row by row, or compute its rows from the points."""
    from skdiffclust.forests._trees._prim import prim_on_matrix, prim_on_points

    if lengths.matrix is not None:
        return prim_on_matrix(np.ascontiguousarray(lengths.matrix), vertices)
    return prim_on_points(lengths.points, vertices)


def _by_gower(lengths, vertices):
    """Compute Gower's distances row by row."""
    from skdiffclust.forests._trees._prim import prim_on_gower

    return prim_on_gower(lengths.encoded, lengths.encoder, vertices)


def _by_blocks(lengths, vertices, n_jobs):
    """Grow the tree of each pair of blocks of rows, and merge them."""
    from skdiffclust.forests._trees._metric_blocks import edges_by_blocks

    return edges_by_blocks(lengths.between, vertices, effective_n_threads(n_jobs))


def _by_boruvka(lengths, vertices, n_jobs):
    """Join equal rows, then search a k-d tree of the others, if it rules rows out."""
    from skdiffclust.forests._trees._boruvka import boruvka
    from skdiffclust.forests._trees._duplicates import join_duplicates

    points = lengths.points
    duplicates, kept, vertices_kept = join_duplicates(points, vertices, lengths.firsts)
    if len(kept) < len(points):
        points = points[kept]
    tree = boruvka(points, vertices_kept, effective_n_threads(n_jobs), lengths.norm)
    if tree is None:
        if lengths.norm == 2:
            return _by_prim(lengths, vertices)
        return _by_blocks(lengths, vertices, n_jobs)
    edges, values = tree
    edges = np.concatenate([duplicates, kept[edges]])
    return edges, np.concatenate([np.zeros(len(duplicates)), values])
