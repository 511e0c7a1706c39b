"""Equal rows are joined before a tree is grown: many of them tie in every pair."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._trees._kruskal import kruskal
from skdiffclust.forests._trees._union_find import find, singletons, union


def join_duplicates(points, nodes):
    """Join equal rows of `points` (n, d) by the edges of length 0 of the tree.

    In the total order (length, i, j) these are edges from the first copy to the
    others, and no other edge ever ends at a copy in the same vertex as the first.

    Returns those edges (m, 2), the rows (k,) that are first of their kind, ascending,
    and their vertices (k,), ids 0 up, where rows with the same id in `nodes` (n,) and
    those that the edges join are one vertex. O(n d + n log n).
    """
    keys = row_keys(points)
    ordered = np.sort(keys)
    everyone = np.arange(len(points))
    if (ordered[1:] != ordered[:-1]).all():
        return np.empty((0, 2), dtype=np.int64), everyone, nodes
    firsts = first_duplicates(points, np.argsort(keys, kind="stable"), keys)
    duplicates = np.flatnonzero(firsts != everyone)
    duplicates = duplicates[np.argsort(firsts[duplicates], kind="stable")]
    chosen = kruskal(firsts[duplicates], duplicates, np.zeros(len(duplicates)), nodes)
    edges = np.column_stack([firsts[duplicates], duplicates])[chosen]
    kept = np.flatnonzero(firsts == everyone)
    roots = joined_vertices(nodes, edges)
    return edges, kept, np.unique(roots[kept], return_inverse=True)[1]


@compiled(nogil=True)
def row_keys(points):
    """Hash (n,) of each row: equal rows have equal keys, others nearly never."""
    keys = np.empty(len(points), dtype=np.uint64)
    bits = np.empty(1)
    word = bits.view(np.uint64)
    for i in range(len(points)):
        key = np.uint64(0)
        for f in range(points.shape[1]):
            bits[0] = points[i, f] + 0.0  # -0.0 is 0.0
            key = (key ^ word[0]) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        keys[i] = key
    return keys


@compiled(nogil=True)
def first_duplicates(points, order, keys):
    """First row (n,) that is equal to each row; `order` sorts by (key, row)."""
    firsts = np.empty(len(order), dtype=np.int64)
    start = 0
    for at in range(len(order)):
        i = order[at]
        if keys[i] != keys[order[start]]:
            start = at
        firsts[i] = i
        for before in range(start, at):
            j = order[before]
            if firsts[j] == j and (points[i] == points[j]).all():
                firsts[i] = j
                break
    return firsts


@compiled(nogil=True)
def joined_vertices(nodes, edges):
    """Ids (n,) of the vertices of the rows after the edges have joined some."""
    parents = singletons(nodes.max() + 1)
    sizes = np.ones(len(parents), dtype=np.int64)
    for e in range(len(edges)):
        one = find(parents, nodes[edges[e, 0]])
        other = find(parents, nodes[edges[e, 1]])
        if one != other:
            union(parents, sizes, one, other)
    roots = np.empty(len(nodes), dtype=np.int64)
    for i in range(len(nodes)):
        roots[i] = find(parents, nodes[i])
    return roots
