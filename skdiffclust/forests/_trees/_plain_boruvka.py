"""Borůvka's algorithm in one small kernel, on the k-d tree of scikit-learn.

The kernels of `_euclidean` are faster but take twenty seconds to compile, once for each
installation. Until they are there, this one, which takes three, does the work. It gives
the same tree, bit for bit.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import KDTree

from skdiffclust._compiled import compiled

_LEAF_SIZE = 16
# Samples searched between two checks for an interruption.
_SAMPLES_PER_CHUNK = 2**14


def join_duplicates(points):
    """Return for each of points (n, d) the first one that is equal to it, (n,)."""
    points = points + 0.0  # -0.0 is 0.0
    order = np.lexsort(points.T)
    ordered = points[order]
    is_new = np.ones(len(points), dtype=bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    firsts = np.empty(len(points), dtype=np.int64)
    # lexsort is stable, so the first of each group has the smallest index.
    firsts[order] = order[np.flatnonzero(is_new)[np.cumsum(is_new) - 1]]
    return firsts


def plain_boruvka(points):
    """Return the edges (n - 1, 2), i < j, of the Euclidean minimum spanning tree.

    points (n, d) are float64, in any order, with duplicates. Also returns the squared
    lengths (n - 1,). O(n log n) time where the points fill few dimensions.
    """
    firsts = join_duplicates(points)
    everyone = np.arange(len(points))
    duplicates = np.flatnonzero(firsts != everyone)
    kept = np.flatnonzero(firsts == everyone)
    edges = [np.column_stack([firsts[duplicates], duplicates])]
    lengths = [np.zeros(len(duplicates))]
    tree = KDTree(points[kept], leaf_size=_LEAF_SIZE)
    _, order, nodes, bounds = tree.get_arrays()
    order = np.ascontiguousarray(order, dtype=np.int64)
    index = kept[order]
    data = np.ascontiguousarray(points[index])
    starts = np.ascontiguousarray(nodes["idx_start"], dtype=np.int64)
    stops = np.ascontiguousarray(nodes["idx_end"], dtype=np.int64)
    is_leaf = np.ascontiguousarray(nodes["is_leaf"] != 0)
    boxes = np.ascontiguousarray(bounds)
    n = len(kept)
    component = np.arange(n)
    shortest = np.zeros(n)
    nearest = np.full(n, -1)
    n_components = n
    while n_components > 1:
        best = np.full(n_components, np.inf)
        uniform = _uniform_nodes(component, starts, stops)
        for first in range(0, n, _SAMPLES_PER_CHUNK):
            _search(
                first,
                min(first + _SAMPLES_PER_CHUNK, n),
                data,
                index,
                starts,
                stops,
                is_leaf,
                boxes,
                uniform,
                component,
                best,
                shortest,
                nearest,
            )
        chosen = _first_edges(component, index, shortest, nearest)
        pairs = np.column_stack([chosen, nearest[chosen]])
        ends = np.sort(index[pairs], axis=1)
        # Two components may have chosen the same edge.
        _, once = np.unique(ends[:, 0] * len(points) + ends[:, 1], return_index=True)
        edges.append(ends[once])
        lengths.append(shortest[chosen[once]])
        joined = component[pairs]
        graph = csr_array(
            (np.ones(len(joined), dtype=np.int8), (joined[:, 0], joined[:, 1])),
            shape=(n_components, n_components),
        )
        n_components, labels = connected_components(graph, directed=False)
        component = labels[component].astype(np.int64)
    return np.concatenate(edges), np.concatenate(lengths)


def _uniform_nodes(component, starts, stops):
    """Return the component of each node of the tree (m,), -1 where it has several."""
    changes = np.concatenate([[0], np.cumsum(component[1:] != component[:-1])])
    same = (stops > starts) & (changes[stops - 1] == changes[starts])
    return np.where(same, component[np.minimum(starts, len(component) - 1)], -1)


def _first_edges(component, index, shortest, nearest):
    """Return for each component the sample whose edge out of it comes first.

    In the total order (length, i, j). Samples without an edge have shortest = inf.
    """
    found = np.flatnonzero(np.isfinite(shortest))
    ends = np.sort(np.column_stack([index[found], index[nearest[found]]]), axis=1)
    order = np.lexsort((ends[:, 1], ends[:, 0], shortest[found], component[found]))
    found = found[order]
    of = component[found]
    return found[np.concatenate([[True], of[1:] != of[:-1]])]


@compiled(nogil=True)
def _search(
    first,
    last,
    data,
    index,
    starts,
    stops,
    is_leaf,
    boxes,
    uniform,
    component,
    best,
    shortest,
    nearest,
):
    """Find the first edge out of its component of each sample first <= i < last.

    An edge found before is kept as long as its other end is outside. `best` holds the
    least length of each component so far; a sample that has no edge as short is left
    with an infinite length and a `nearest` of -1.
    """
    n_features = data.shape[1]
    stack = np.empty(128, dtype=np.int64)
    for i in range(first, last):
        own = component[i]
        if nearest[i] >= 0 and component[nearest[i]] != own:
            if shortest[i] < best[own]:
                best[own] = shortest[i]
            continue
        limit = best[own]
        found = -1
        low = 0
        high = 0
        stack[0] = 0
        depth = 1
        while depth:
            depth -= 1
            node = stack[depth]
            if uniform[node] == own:
                continue
            gap = 0.0
            for f in range(n_features):
                outside = max(
                    boxes[0, node, f] - data[i, f], data[i, f] - boxes[1, node, f]
                )
                if outside > 0.0:
                    gap += outside * outside
            # A margin: bounds and lengths are rounded in different ways.
            if gap * (1.0 - 1e-12) > limit:
                continue
            if not is_leaf[node]:
                left = 2 * node + 1
                middle = stops[left]
                if i < middle:
                    stack[depth] = left + 1
                    stack[depth + 1] = left
                else:
                    stack[depth] = left
                    stack[depth + 1] = left + 1
                depth += 2
                continue
            for j in range(starts[node], stops[node]):
                if component[j] == own:
                    continue
                length = 0.0
                for f in range(n_features):
                    difference = data[i, f] - data[j, f]
                    length += difference * difference
                if length > limit:
                    continue
                smaller = min(index[i], index[j])
                larger = max(index[i], index[j])
                if (
                    length < limit
                    or found < 0
                    or smaller < low
                    or (smaller == low and larger < high)
                ):
                    limit = length
                    found = j
                    low = smaller
                    high = larger
        nearest[i] = found
        if found >= 0:
            shortest[i] = limit
            if limit < best[own]:
                best[own] = limit
        else:
            shortest[i] = np.inf
