"""Pseudo-labels to start from: spectral clustering, k-means++ seeds, or a search."""

import warnings
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError
from sklearn.cluster import kmeans_plusplus, spectral_clustering
from sklearn.exceptions import ConvergenceWarning

from skdiffclust.cuts._components import (
    find_parts,
    group_parts,
    is_small,
    place_small,
)
from skdiffclust.cuts._neighbors import nearest_point
from skdiffclust.metrics._graphs import cut_of_labels

# Weight, relative to the mean, of the edges that make a graph connected for ARPACK.
_BRIDGE = 1e-6
# Vectors of ARPACK, or 2 k + 1 for k requested ones if that is more.
_N_LANCZOS = 20
# Least divisor of a node, relative to the mean.
_LEAST_DIVISOR = 1e-9


class Nodes(NamedTuple):
    """A graph with one node for each group of samples, and its components.

    Attributes
    ----------
    graph : csr_array of shape (m, m)
    divisors : ndarray of shape (m,), float64
        Divisors of the cut of a cluster: sizes, or degrees for the normalised cut.
    sizes : ndarray of shape (m,), float64
    parts : ndarray of shape (m,), int64
        Connected components.
    small : ndarray of shape (m,), bool
        In a part that is too small to be a cluster.
    apart : ndarray of shape (p, 2), int64
        Pairs of nodes that must be in two clusters.
    """

    graph: sp.csr_array
    divisors: np.ndarray
    sizes: np.ndarray
    parts: np.ndarray
    small: np.ndarray
    apart: np.ndarray

    @property
    def n_large(self):
        """Number of parts that are not small."""
        return len(np.unique(self.parts[~self.small]))


def make_nodes(graph, groups, n_clusters, *, divisors, sizes, apart):
    """Return the `Nodes` of a graph (n, n) and its groups (n,) of samples.

    divisors and sizes are (n,), apart (p, 2) pairs of groups. A part of the graph with
    a node that must be separated from another is not small: it is not placed by
    nearness.
    """
    n_groups = int(groups.max()) + 1
    if n_groups < len(groups):
        from skdiffclust.cuts._multilevel import coarsen

        graph, sizes = coarsen(graph, groups, n_groups, sizes)
        divisors = np.bincount(groups, divisors, minlength=n_groups)
    # A node without an edge has degree zero, but is in denominators.
    divisors = np.maximum(divisors, _LEAST_DIVISOR * (divisors.mean() or 1.0))
    parts = find_parts(graph)
    small = is_small(parts, sizes, n_clusters)
    small &= ~np.isin(parts, parts[np.unique(apart)])
    return Nodes(graph, divisors, sizes, parts, small, apart)


def pseudo_labels(
    data, X, n_clusters, *, place, init, local_search, n_init, random_state
):
    """Return labels (n,) int64 of a low cut, exactly `n_clusters` of them used.

    Parameters
    ----------
    data : Data
        Graph, groups of equal samples, nodes, and bounds on the sizes.
    X : ndarray of shape (n, d) or None
        Samples, for "k-means++" and for small parts.
    n_clusters : int
        At most the number of nodes.
    place : bool
        Whether small parts are put into clusters; otherwise they are labelled -1.
    init : {"spectral", "k-means++", "random"}
        "random" with `local_search` is the multilevel search.
    local_search : bool
    n_init : int
    random_state : RandomState instance
    """
    from skdiffclust.cuts._local_search import Bounds, as_level, search_level

    nodes = data.nodes
    groups = data.groups
    bounds = data.bounds
    bounded = bounds != (0.0, np.inf)
    first = np.unique(groups, return_index=True)[1]
    kept = np.flatnonzero(~nodes.small)
    labels = np.full(len(nodes.small), -1, dtype=np.int64)
    whole = combine_parts(nodes, n_clusters, bounds)
    options = {
        "init": init,
        "local_search": local_search,
        "n_init": n_init,
        "random_state": random_state,
    }
    if whole is not None:
        labels[kept] = whole  # nothing is cut
    elif len(kept) == len(labels):
        labels = _cut_labels(
            data.graph, nodes, groups, X, n_clusters, bounds, **options
        )
    else:
        rows = np.flatnonzero(~nodes.small[groups])
        part = Nodes(
            nodes.graph[kept][:, kept],
            nodes.divisors[kept],
            nodes.sizes[kept],
            nodes.parts[kept],
            nodes.small[kept],
            (np.cumsum(~nodes.small) - 1)[nodes.apart],
        )
        # Small parts are placed and counted later.
        missing = nodes.sizes[nodes.small].sum() / n_clusters if place else 0.0
        labels[kept] = _cut_labels(
            data.graph[rows][:, rows],
            part,
            np.unique(groups[rows], return_inverse=True)[1],
            None if X is None else X[rows],
            n_clusters,
            (max(bounds[0] - missing, 0.0), bounds[1]),
            **options,
        )
    if not place:
        return labels[groups]
    labels = place_small(
        labels,
        nodes.small,
        nodes.parts,
        nodes.sizes,
        n_clusters,
        None if X is None else X[first],
        max_size=bounds[1],
    )
    if bounded and nodes.small.any():
        sized = Bounds(nodes.sizes, *bounds)
        level = as_level(nodes.graph, nodes.divisors, sized, nodes.apart)
        labels = search_level(level, labels, n_clusters, *bounds, climbs=0)
    return labels[groups]


def combine_parts(nodes, n_clusters, bounds):
    """Return labels (m,) of the nodes not in small parts that divide no part, or None.

    None if there are too few parts, or if parts combined by `group_parts` are not
    within the bounds or not separated as they must be.
    """
    if nodes.n_large < n_clusters:
        return None
    kept = ~nodes.small
    sizes = nodes.sizes[kept]
    labels = group_parts(nodes.parts[kept], sizes, n_clusters)
    totals = np.bincount(labels, sizes, minlength=n_clusters)
    ends = labels[(np.cumsum(kept) - 1)[nodes.apart]]
    within = totals.min() >= bounds[0] and totals.max() <= bounds[1]
    return labels if within and (ends[:, 0] != ends[:, 1]).all() else None


def cut_of_each(nodes, numbers, bounds, n_starts, random_state):
    """Return the lowest normalised cuts (m,) found for numbers (m,) of clusters.

    bounds are pairs of the least and largest size of a cluster, for each number.

    Also the modularities (m,) of these labels, NaN for whole parts. Of nodes in parts
    that are not small; the divisors of `nodes` are degrees.
    """
    from skdiffclust.cuts._local_search import Bounds
    from skdiffclust.cuts._multilevel import search

    kept = np.flatnonzero(~nodes.small)
    graph = nodes.graph[kept][:, kept]
    sizes = nodes.sizes[kept]
    divisors = nodes.divisors[kept]
    apart = (np.cumsum(~nodes.small) - 1)[nodes.apart]
    cuts = np.zeros(len(numbers))
    modularities = np.full(len(numbers), np.nan)
    for i, n_clusters in enumerate(numbers):
        if combine_parts(nodes, n_clusters, bounds[i]) is not None:
            continue  # whole parts, and nothing is cut
        labels = search(
            graph,
            n_clusters,
            n_starts,
            random_state,
            divisors=divisors,
            bounds=Bounds(sizes, *bounds[i]),
            apart=apart,
        )
        cuts[i] = cut_of_labels(graph, labels, n_clusters, divisors)
        modularities[i] = _modularity(graph, labels, divisors)
    return cuts, modularities


def _modularity(graph, labels, degrees):
    """Return the modularity of labels (m,) of a graph (m, m) with degrees (m,)."""
    edges = graph.tocoo()
    crosses = labels[edges.row] != labels[edges.col]
    shares = np.bincount(labels, degrees) / degrees.sum()
    return 1.0 - edges.data[crosses].sum() / degrees.sum() - (shares**2).sum()


def _cut_labels(
    graph,
    nodes,
    groups,
    X,
    n_clusters,
    bounds,
    *,
    init,
    local_search,
    n_init,
    random_state,
):
    """Return labels (m,) of the nodes of a graph (n, n) without small parts.

    bounds are the least and largest size of a cluster.
    """
    from skdiffclust.cuts._local_search import Bounds, as_level, search_level
    from skdiffclust.cuts._multilevel import combine_all, search

    n_groups = len(nodes.sizes)
    divisors = nodes.divisors
    sized = Bounds(nodes.sizes, *bounds)
    if init == "random":
        return search(
            nodes.graph,
            n_clusters,
            n_init,
            random_state,
            divisors=divisors,
            bounds=sized,
            apart=nodes.apart,
        )
    if init == "spectral":
        starts = [_spectral(graph, n_clusters, n_init, random_state)]
    else:
        first = np.unique(groups, return_index=True)[1]
        seeds = (
            kmeans_plusplus(X[first], n_clusters, random_state=random_state)[1]
            for _ in range(n_init)
        )
        starts = [nearest_point(X[first[seed]], X)[0] for seed in seeds]
    found = []
    level = as_level(nodes.graph, divisors, sized, nodes.apart)
    for labels in starts:
        labels = _common_label(labels, groups, n_groups, n_clusters)
        labels = fill_empty(labels, n_clusters, nodes.sizes)
        if local_search:
            labels = search_level(level, labels, n_clusters, *bounds)
        found.append(labels)
    if local_search:
        return combine_all(level, found, n_clusters, random_state, *bounds)
    return min(
        found,
        key=lambda labels: cut_of_labels(nodes.graph, labels, n_clusters, divisors),
    )


def _spectral(graph, n_clusters, n_init, random_state):
    """Return the labels (n,) of scikit-learn's spectral clustering of a graph.

    The labels are those of SpectralClustering(affinity="precomputed") with the same
    random_state, if the graph is connected. ARPACK is not used where it fails, nor for
    few nodes or a complete graph of equal weights: its vectors soon span the whole
    space, and it continues from a vector that no seed determines.
    """
    from skdiffclust.cuts._multilevel import search

    n = graph.shape[0]
    parts = find_parts(graph)
    n_parts = int(parts.max()) + 1
    spans_all = n <= max(_N_LANCZOS, 2 * n_clusters + 1)
    uniform = graph.nnz == n * (n - 1) > 0 and np.ptp(graph.data) == 0
    if n_clusters == 1 or spans_all or uniform or n_parts > n // 2:
        return search(graph, n_clusters, n_init, random_state)
    if n_parts > 1:
        graph = _bridged(graph, parts)
    try:
        labels = spectral_clustering(
            graph, n_clusters=n_clusters, n_init=n_init, random_state=random_state
        )
    except ArpackError as error:
        warnings.warn(
            f"The eigensolver of init='spectral' failed ({error}); init='random' is "
            "used instead.",
            ConvergenceWarning,
            stacklevel=5,
        )
        return search(graph, n_clusters, n_init, random_state)
    return labels.astype(np.int64)


def _bridged(graph, parts):
    """Return graph (n, n) with a chain of light edges through its parts (n,)."""
    first = np.unique(parts, return_index=True)[1]
    weight = np.full(len(first) - 1, _BRIDGE * graph.data.mean())
    chain = sp.coo_array((weight, (first[:-1], first[1:])), shape=graph.shape)
    bridged = sp.csr_array(graph + chain + chain.T)
    indices = bridged.indices.astype(graph.indices.dtype, copy=False)
    indptr = bridged.indptr.astype(graph.indptr.dtype, copy=False)
    return sp.csr_array((bridged.data, indices, indptr), shape=graph.shape)


def _common_label(labels, groups, n_groups, n_clusters):
    """Return the most frequent label (n_groups,) of each group, ties the smallest."""
    if n_groups == len(groups):
        return labels
    counts = sp.coo_array(
        (np.ones(len(groups)), (groups, labels)), shape=(n_groups, n_clusters)
    )
    return counts.tocsr().argmax(axis=1).ravel().astype(np.int64)


def fill_empty(labels, n_clusters, sizes):
    """Return labels (n,) where each empty cluster took a node of the largest one."""
    labels = labels.copy()
    for empty in np.flatnonzero(np.bincount(labels, minlength=n_clusters) == 0):
        counts = np.bincount(labels, minlength=n_clusters)
        largest = np.bincount(labels, sizes, minlength=n_clusters)
        largest[counts < 2] = -1.0
        labels[np.argmax(labels == largest.argmax())] = empty
    return labels
