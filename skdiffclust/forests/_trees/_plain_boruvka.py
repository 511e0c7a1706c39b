"""Borůvka's algorithm in small kernels, on the k-d tree of scikit-learn.

The kernels of `_euclidean` are faster but take twenty seconds to compile, once for each
installation. Until those are compiled, these kernels are used, which compile in three
seconds and give the same tree, bit for bit. They also support lengths raised to mutual
reachability, many of which are equal: those between a sample and all that are nearer
than its core distance.

Each round, every component takes its first outgoing edge in the total order (length, i,
j). Three bounds avoid most searches: the best edge that any sample of the component has
found, the core distance of the sample, and what its earlier searches ruled out.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import KDTree

from skdiffclust._compiled import compiled
from skdiffclust._duplicates import first_equal
from skdiffclust._threads import run_chunks

_LEAF_SIZE = 16
# Samples in the first of the ranges that threads take.
_FIRST_CHUNK = 2**10
# A probe of so many samples says whether boxes rule enough out: if searches see a
# smaller part of all samples, the tree is faster than measuring all pairs in order.
_PROBED = 128
_SEEN_BY_SEARCH = 0.05


class _Tree(NamedTuple):
    """The distinct samples (n, d) in the order of a k-d tree, and its nodes (m,).

    `index` (n,) are their numbers among all samples, `counts` (n,) how many are equal.
    `firsts` (n_samples,) is for each sample the first one that is equal to it.
    """

    firsts: np.ndarray
    data: np.ndarray
    index: np.ndarray
    counts: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    is_leaf: np.ndarray
    boxes: np.ndarray


def tree_of(points):
    """Return the `_Tree` of points (n, d), float64, in any order, with duplicates."""
    firsts = first_equal(points)
    counts = np.bincount(firsts, minlength=len(points))
    kept = np.flatnonzero(counts)
    tree = KDTree(points[kept], leaf_size=_LEAF_SIZE)
    _, order, nodes, bounds = tree.get_arrays()
    index = kept[order]
    return _Tree(
        firsts,
        np.ascontiguousarray(points[index]),
        index.astype(np.int64),
        counts[index].astype(np.int64),
        np.ascontiguousarray(nodes["idx_start"], dtype=np.int64),
        np.ascontiguousarray(nodes["idx_end"], dtype=np.int64),
        np.ascontiguousarray(nodes["is_leaf"] != 0),
        np.ascontiguousarray(bounds),
    )


def plain_core_lengths(tree, min_samples, n_threads=1, norm=2):
    """Return the length (n,) to the `min_samples`-th nearest sample, itself counted.

    `norm` is 2 for squared Euclidean lengths, 1 for sums of absolute differences and 0
    for the largest of them.

    None if the boxes of the tree rule out so little that computing the distances
    between all pairs is faster.
    """
    n = len(tree.data)
    core = np.empty(n)
    seen = np.zeros(n, dtype=np.int64)
    arguments = (*_nodes_of(tree), norm, tree.counts, min_samples, core, seen)
    if not _rules_out(n, arguments):
        return None
    run_chunks(_find_core, n, arguments, n_threads, _FIRST_CHUNK)
    of_first = np.empty(len(tree.firsts))
    of_first[tree.index] = core
    return of_first[tree.firsts]


def _rules_out(n, arguments):
    """Return whether searches for `_find_core` see few of the n samples."""
    seen = arguments[-1]
    step = max(1, n // _PROBED)
    for i in range(0, n, step):
        _find_core(i, i + 1, *arguments)
    return seen[::step].mean() <= _SEEN_BY_SEARCH * n


def is_searchable(tree, norm):
    """Return whether the boxes of a `tree_of` rule out most samples of a search."""
    n = len(tree.data)
    unused = np.empty(n), np.zeros(n, dtype=np.int64)
    return _rules_out(n, (*_nodes_of(tree), norm, tree.counts, 2, *unused))


def plain_boruvka(tree, core=None, n_threads=1, norm=2):
    """Return the edges (n - 1, 2), i < j, of the minimum spanning tree.

    It is that of the points of a `tree_of`, by the lengths of a `norm`, as in
    `plain_core_lengths`. If core distances `core` (n,) are given, lengths are raised to
    those of both ends, except between equal points. Also returns the lengths (n - 1,).
    O(n log n) time where the points fill few dimensions.
    """
    firsts = tree.firsts
    n_samples = len(firsts)
    duplicates = np.flatnonzero(firsts != np.arange(n_samples))
    edges = [np.column_stack([firsts[duplicates], duplicates])]
    lengths = [np.zeros(len(duplicates))]
    index = tree.index
    n = len(index)
    core = np.zeros(n) if core is None else np.ascontiguousarray(core[index])
    node_core = _least_of_nodes(core, tree.starts)
    component = np.arange(n)
    reach = core.copy()
    shortest = np.full(n, np.inf)
    nearest = np.full(n, -1)
    n_components = n
    while n_components > 1:
        best = np.full(n_components, np.inf)
        has_edge = (nearest >= 0) & (component[nearest] != component)
        np.minimum.at(best, component[has_edge], shortest[has_edge])
        nearest[~has_edge] = -1
        uniform = _uniform_nodes(component, tree.starts, tree.stops)
        arguments = (
            *_nodes_of(tree),
            norm,
            index,
            core,
            node_core,
            uniform,
            component,
            best,
            reach,
            shortest,
            nearest,
        )
        run_chunks(_search, n, arguments, n_threads, _FIRST_CHUNK)
        chosen = _first_edges(component, index, best, shortest, nearest)
        pairs = np.column_stack([chosen, nearest[chosen]])
        ends = np.sort(index[pairs], axis=1)
        # Two components may have chosen the same edge.
        _, once = np.unique(ends[:, 0] * n_samples + ends[:, 1], return_index=True)
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


def _nodes_of(tree):
    """Return what searches read: the samples and the nodes of a tree."""
    return tree.data, tree.starts, tree.stops, tree.is_leaf, tree.boxes


def _least_of_nodes(values, starts):
    """Return the least of values (n,) in each node (m,) of a balanced tree."""
    least = np.empty(len(starts))
    first = len(starts) // 2
    least[first:] = np.minimum.reduceat(values, starts[first:])
    while first:
        children = least[first : 2 * first + 1].reshape(-1, 2)
        least[first // 2 : first] = children.min(axis=1)
        first //= 2
    return least


def _uniform_nodes(component, starts, stops):
    """Return the component of each node of the tree (m,), -1 where it has several."""
    changes = np.concatenate([[0], np.cumsum(component[1:] != component[:-1])])
    same = (stops > starts) & (changes[stops - 1] == changes[starts])
    return np.where(same, component[np.minimum(starts, len(component) - 1)], -1)


def _first_edges(component, index, best, shortest, nearest):
    """Return for each component the sample whose edge out of it comes first.

    In the total order (length, i, j). Samples without an edge have nearest = -1.
    """
    found = np.flatnonzero((nearest >= 0) & (shortest == best[component]))
    ends = np.sort(np.column_stack([index[found], index[nearest[found]]]), axis=1)
    order = np.lexsort((ends[:, 1], ends[:, 0], component[found]))
    found = found[order]
    of = component[found]
    return found[np.concatenate([[True], of[1:] != of[:-1]])]


@compiled(nogil=True, forceinline=True)
def _add(total, difference, norm):
    """Add the difference of a feature to a length."""
    if norm == 2:
        return total + difference * difference
    if norm == 1:
        return total + abs(difference)
    return max(total, abs(difference))


# The two searches below repeat the walk down the tree. A shared function for it gives
# the same bits but takes about a seventh more time to compile, and these kernels exist
# because they compile fast.
@compiled(nogil=True)
def _find_core(
    first,
    last,
    data,
    starts,
    stops,
    is_leaf,
    boxes,
    norm,
    counts,
    min_samples,
    core,
    seen,
):
    """Write the core distances of samples first <= i < last to `core`.

    ``seen[i]`` is the number of samples that were measured.
    """
    n_features = data.shape[1]
    stack = np.empty(128, dtype=np.int64)
    lengths = np.empty(min_samples)
    for i in range(first, last):
        lengths[:] = np.inf
        n_seen = 0
        stack[0] = 0
        depth = 1
        while depth:
            depth -= 1
            node = stack[depth]
            gap = 0.0
            for f in range(n_features):
                outside = max(
                    boxes[0, node, f] - data[i, f], data[i, f] - boxes[1, node, f]
                )
                if outside > 0.0:
                    gap = _add(gap, outside, norm)
            # A margin: bounds and lengths are rounded in different ways.
            if gap * (1.0 - 1e-12) >= lengths[min_samples - 1]:
                continue
            if not is_leaf[node]:
                left = 2 * node + 1
                near = left if i < stops[left] else left + 1
                stack[depth] = 4 * node + 3 - near
                stack[depth + 1] = near
                depth += 2
                continue
            n_seen += stops[node] - starts[node]
            for j in range(starts[node], stops[node]):
                length = 0.0
                for f in range(n_features):
                    length = _add(length, data[i, f] - data[j, f], norm)
                for _ in range(counts[j]):
                    if length >= lengths[min_samples - 1]:
                        break
                    at = min_samples - 1
                    while at > 0 and lengths[at - 1] > length:
                        lengths[at] = lengths[at - 1]
                        at -= 1
                    lengths[at] = length
        core[i] = lengths[min_samples - 1]
        seen[i] = n_seen


@compiled(nogil=True)
def _search(
    first,
    last,
    data,
    starts,
    stops,
    is_leaf,
    boxes,
    norm,
    index,
    core,
    node_core,
    uniform,
    component,
    best,
    reach,
    shortest,
    nearest,
):
    """Find the first edge out of its component of each sample first <= i < last.

    An edge found before is kept as long as its other end is outside. `best` holds the
    least length of each component so far; a sample that has no edge as short is left
    with a `nearest` of -1. No edge of sample i is shorter than ``reach[i]``. Threads
    share `best` without a lock: one that is out of date only prunes less.
    """
    n_features = data.shape[1]
    stack = np.empty(128, dtype=np.int64)
    for i in range(first, last):
        own = component[i]
        limit = best[own]
        if nearest[i] >= 0 or reach[i] > limit:
            continue
        found = -1
        low = 0
        high = 0
        stack[0] = 0
        depth = 1
        while depth:
            depth -= 1
            node = stack[depth]
            if uniform[node] == own or node_core[node] > limit:
                continue
            gap = 0.0
            for f in range(n_features):
                outside = max(
                    boxes[0, node, f] - data[i, f], data[i, f] - boxes[1, node, f]
                )
                if outside > 0.0:
                    gap = _add(gap, outside, norm)
            # A margin: bounds and lengths are rounded in different ways.
            if gap * (1.0 - 1e-12) > limit:
                continue
            if not is_leaf[node]:
                left = 2 * node + 1
                near = left if i < stops[left] else left + 1
                stack[depth] = 4 * node + 3 - near
                stack[depth + 1] = near
                depth += 2
                continue
            for j in range(starts[node], stops[node]):
                if component[j] == own:
                    continue
                length = 0.0
                for f in range(n_features):
                    length = _add(length, data[i, f] - data[j, f], norm)
                if length > 0.0:
                    length = max(length, max(core[i], core[j]))
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
            reach[i] = limit
            if limit < best[own]:
                best[own] = limit
        else:
            # No sample can be that near.
            reach[i] = np.nextafter(limit, np.inf)
