"""Choose the kernel that grows a spanning tree, by the kind and amount of data.

Every kernel follows the total order (length, i, j), so they all give the same tree, bit
for bit, and differ in time only.
"""

from functools import partial

import numpy as np

from skdiffclust._validation import check_dense_size
from skdiffclust.forests._trees import _compilation_threshold
from skdiffclust.forests._trees._compilation_threshold import tree_kernel
from skdiffclust.forests._trees._small_prim import prim
from skdiffclust.forests._trees._waiting import slow_solver

# Up to so many points, comparing all pairs is faster than a k-d tree.
_MOST_FOR_PRIM = 1000


def spanning_edges(lengths, rows=None, nodes=None, *, algorithm="auto", n_jobs=None):
    """Edges of the minimum spanning forest of `rows` of a relation.

    Rows with the same id in `nodes` (n_samples,) count as one vertex. By default all
    rows take part, each a vertex of its own.

    Returns edges (m, 2) with i < j and their lengths (m,), in the unit of `lengths`, in
    no particular order; m is the number of vertices less the number of components.
    """
    everyone = np.arange(lengths.n_samples)
    rows = everyone if rows is None else rows
    nodes = everyone if nodes is None else nodes
    is_free = nodes is everyone
    solve = _solver(lengths, len(rows), algorithm, n_jobs, is_free)
    if solve is None:
        return prim(lengths.row, rows, nodes)
    if len(rows) < lengths.n_samples:
        lengths = lengths.take(rows)
    vertices = np.arange(len(rows))
    if nodes is not everyone:
        vertices = _numbered(nodes[rows])
    edges, found = solve(lengths, vertices)
    return (edges if rows is everyone else rows[edges]), found


def _numbered(ids):
    """Ids (n,) from 0 up, as kernels count vertices; given are integers of a range."""
    ids = ids - ids.min(initial=0)
    is_used = np.zeros(ids.max(initial=-1) + 1, dtype=bool)
    is_used[ids] = True
    return (np.cumsum(is_used) - 1)[ids]


def _solver(lengths, n_rows, algorithm, n_jobs, is_free):
    """Return the function that grows the tree; None for the one in NumPy."""
    if algorithm == "kruskal":
        return _by_kruskal
    is_raised = lengths.core is not None
    is_whole = is_free and n_rows == lengths.n_samples
    is_searched = lengths.points is not None and (not is_raised or is_whole)
    if algorithm == "boruvka" and is_searched:
        return partial(_by_plain_boruvka if is_raised else _by_boruvka, n_jobs=n_jobs)
    is_small = n_rows <= _compilation_threshold.SMALL
    if is_small and not _is_compiled(lengths, algorithm, is_whole):
        return None
    if algorithm == "prim":
        return _by_prim if _has_kernel(lengths) else None
    if lengths.graph is not None:
        return _by_kruskal
    if lengths.points is not None and lengths.core is None:
        if is_small and _has_fast_prim(n_rows):
            return _by_prim
        slow = slow_solver(n_rows, lengths.points.shape[1]) if is_free else None
        if slow == "prim":
            return None
        if slow == "boruvka":
            return partial(_by_plain_boruvka, n_jobs=n_jobs)
        return partial(_by_boruvka, n_jobs=n_jobs)
    if lengths.grow is not None and is_whole:
        return partial(_by_plain_boruvka, n_jobs=n_jobs)
    has_norm = lengths.coordinates is not None and lengths.core is None
    if has_norm and is_whole and not is_small:
        return partial(_by_norm, n_jobs=n_jobs)
    return _by_prim if _has_kernel(lengths) else partial(_by_blocks, n_jobs=n_jobs)


def _is_compiled(lengths, algorithm, is_whole):
    """Whether the kernels for a tree of few samples are compiled already."""
    from skdiffclust._compiled import is_ready
    from skdiffclust.forests._trees._kruskal import take_edges
    from skdiffclust.forests._trees._prim import grow_on_matrix, grow_on_points

    if lengths.graph is not None:
        return is_ready(take_edges)
    if lengths.points is None:
        return is_ready(grow_on_matrix) and is_ready(take_edges)
    is_searched = lengths.core is None or (lengths.grow is not None and is_whole)
    if is_searched and algorithm != "prim" and is_ready(tree_kernel()):
        return True
    return is_ready(grow_on_points)


def _has_fast_prim(n_rows):
    """Whether comparing all pairs of points is faster than a k-d tree, and compiled."""
    from skdiffclust._compiled import is_ready
    from skdiffclust.forests._trees._prim import grow_on_points

    is_faster = n_rows <= _MOST_FOR_PRIM or not is_ready(tree_kernel())
    return is_faster and is_ready(grow_on_points)


def _has_kernel(lengths):
    """Whether the compiled Prim reads these lengths."""
    return lengths.points is not None or (
        lengths.matrix is not None and lengths.core is None
    )


def all_edges(lengths):
    """Edges (i, j), i < j, in lexicographic order: i, j and lengths, each (m,).

    O(n²) memory unless they are those of a sparse graph.
    """
    if lengths.graph is not None:
        from skdiffclust.forests._trees._kruskal import upper_edges

        graph = lengths.graph
        return upper_edges(graph.indptr, graph.indices, graph.data)
    n_samples = lengths.n_samples
    check_dense_size(
        n_samples,
        3 * n_samples // 2,
        what="the list of all edges",
        remedy="Set algorithm='auto' and give no cannot-links: then it is not needed.",
    )
    first, second = np.triu_indices(n_samples, 1)
    everyone = np.arange(n_samples)
    found = [lengths.row(i, everyone[i + 1 :]) for i in range(n_samples - 1)]
    return first, second, np.concatenate([np.empty(0), *found])


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
    return prim_on_points(lengths.points, vertices, lengths.core)


def _by_blocks(lengths, vertices, n_jobs):
    """Grow the tree of each pair of blocks of rows, and merge them."""
    from skdiffclust._threads import thread_count
    from skdiffclust.forests._trees._metric_blocks import edges_by_blocks

    return edges_by_blocks(lengths.between, vertices, thread_count(n_jobs))


def _by_norm(lengths, vertices, n_jobs):
    """Search scikit-learn's k-d tree if it rules most samples out, else by blocks."""
    from skdiffclust._threads import thread_count
    from skdiffclust.forests._trees._plain_boruvka import (
        is_searchable,
        plain_boruvka,
        tree_of,
    )

    tree = tree_of(lengths.coordinates)
    if not is_searchable(tree, lengths.norm):
        return _by_blocks(lengths, vertices, n_jobs)
    return plain_boruvka(tree, None, thread_count(n_jobs), norm=lengths.norm)


def _by_plain_boruvka(lengths, vertices, n_jobs):
    """Search the k-d tree of the core distances, or else that of scikit-learn."""
    from skdiffclust._threads import thread_count
    from skdiffclust.forests._trees._plain_boruvka import plain_boruvka, tree_of

    n_threads = thread_count(n_jobs)
    if lengths.grow is not None:
        return lengths.grow(n_threads)
    return plain_boruvka(tree_of(lengths.points), lengths.core, n_threads)


def _by_boruvka(lengths, vertices, n_jobs):
    """Join equal rows, then search a kd-tree of the others."""
    from skdiffclust._threads import thread_count
    from skdiffclust.forests._trees._duplicates import join_duplicates
    from skdiffclust.forests._trees._euclidean import euclidean_boruvka

    points = lengths.points
    duplicates, kept, vertices = join_duplicates(points, vertices)
    if len(kept) == len(points):
        return euclidean_boruvka(points, vertices, thread_count(n_jobs))
    edges, values = euclidean_boruvka(points[kept], vertices, thread_count(n_jobs))
    edges = np.concatenate([duplicates, kept[edges]])
    return edges, np.concatenate([np.zeros(len(duplicates)), values])
