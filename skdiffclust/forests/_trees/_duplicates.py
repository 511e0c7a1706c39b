"""Join equal rows before a tree is grown, since all edges between them tie."""

import numpy as np

from skdiffclust._duplicates import first_equal
from skdiffclust.forests._trees._kruskal import kruskal
from skdiffclust.forests._trees._tree import components


def join_duplicates(points, nodes, firsts=None):
    """Join equal rows of `points` (n, d) by the edges of length 0 of the tree.

    In the total order (length, i, j) these are the edges from the first of equal rows
    to the others, and no other edge ends at a duplicate in the same vertex as the
    first.

    Returns those edges (m, 2), the rows (k,) that are first of their kind, ascending,
    and their vertices (k,), ids 0 up, where rows with the same id in `nodes` (n,) and
    those that the edges join are one vertex. `firsts` (n,) are those of `first_equal`,
    if they are known. O(n d + n log n).
    """
    firsts = first_equal(points) if firsts is None else firsts
    everyone = np.arange(len(points))
    duplicates = np.flatnonzero(firsts != everyone)
    if not len(duplicates):
        return np.empty((0, 2), dtype=np.int64), everyone, nodes
    kept = np.flatnonzero(firsts == everyone)
    duplicates = duplicates[np.argsort(firsts[duplicates], kind="stable")]
    chosen = kruskal(firsts[duplicates], duplicates, np.zeros(len(duplicates)), nodes)
    edges = np.column_stack([firsts[duplicates], duplicates])[chosen]
    vertices = components(nodes[edges], nodes.max() + 1)[nodes[kept]]
    return edges, kept, np.unique(vertices, return_inverse=True)[1]
