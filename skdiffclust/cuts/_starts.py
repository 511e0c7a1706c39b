"""Labels of nodes of a low cut: whole parts, spectral clustering, or a search."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError
from sklearn.cluster import spectral_clustering
from sklearn.exceptions import ConvergenceWarning

from skdiffclust._warnings import warn
from skdiffclust.cuts._graph import find_parts, group_parts, is_small
from skdiffclust.cuts._local_search import UNBOUNDED, as_level, local_search
from skdiffclust.cuts._multilevel import coarsen, search
from skdiffclust.cuts._ratio_cut import cut_of_labels, modularity

# Vectors of ARPACK, or 2 k + 1 for k requested ones if that is more.
_N_LANCZOS = 20
# Least divisor of a node, relative to the mean.
_LEAST_DIVISOR = 1e-9
# Least size of a cluster with min_cluster_size="auto", relative to the mean size.
_AUTO_SHARE = 0.2
# Mean normalised cut of a cluster up to which clusters are nearly separate.
MEAN_CUT = 0.07
# Labels of a large modularity are searched with one start for this many of the search
# for the lowest cut.
_STARTS_OF_CUTS = 2


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
    degrees : ndarray of shape (m,), float64
        Of the samples in the whole graph, edges within a node included.
    joins_neighbors : bool
        Whether it is a graph of nearest neighbours, in which a low cut that separates a
        few samples is no accident.
    """

    graph: sp.csr_array
    divisors: np.ndarray
    sizes: np.ndarray
    parts: np.ndarray
    small: np.ndarray
    apart: np.ndarray
    degrees: np.ndarray
    joins_neighbors: bool

    @property
    def large(self):
        """The `Nodes` that are not in small parts."""
        if not self.small.any():
            return self
        kept = np.flatnonzero(~self.small)
        return Nodes(
            self.graph[kept][:, kept],
            self.divisors[kept],
            self.sizes[kept],
            self.parts[kept],
            self.small[kept],
            (np.cumsum(~self.small) - 1)[self.apart],
            self.degrees[kept],
            self.joins_neighbors,
        )

    def resampled(self, share, n_clusters, random_state):
        """Return which nodes (m',) are drawn, and their `Nodes`.

        A share of the nodes is drawn, or, in a network, of the edges; edges inside of
        nodes are kept. Parts that are then too small for one of n_clusters are left
        out.
        """
        n = len(self.sizes)
        graph = self.graph
        drawn = np.arange(n)
        if self.joins_neighbors:
            drawn = np.sort(random_state.permutation(n)[: int(np.ceil(share * n))])
            graph = graph[drawn][:, drawn]
        else:
            upper = sp.triu(graph, 1, format="coo")
            kept = random_state.uniform(size=upper.nnz) < share
            ends = upper.row[kept], upper.col[kept]
            upper = sp.csr_array((upper.data[kept], ends), shape=graph.shape)
            graph = sp.csr_array(upper + upper.T)
        inner = np.maximum(self.degrees - self.graph.sum(axis=1), 0.0)
        degrees = graph.sum(axis=1) + inner[drawn]
        place = np.full(n, -1)
        place[drawn] = np.arange(len(drawn))
        apart = place[self.apart]
        apart = apart[(apart >= 0).all(axis=1)]
        nodes = _as_nodes(
            graph,
            degrees,
            degrees,
            self.sizes[drawn],
            apart,
            n_clusters,
            joins_neighbors=self.joins_neighbors,
        )
        return drawn[~nodes.small], nodes.large

    @property
    def level(self):
        """The `Level` of the nodes."""
        return as_level(self.graph, self.divisors, self.sizes, self.apart)

    @property
    def modular(self):
        """The `Level` of the nodes on which the modularity is maximised."""
        degrees = _positive(self.degrees)
        return as_level(
            self.graph, degrees, self.sizes, self.apart, resolution=1.0 / degrees.sum()
        )

    @property
    def n_large(self):
        """Number of parts that are not small."""
        return len(np.unique(self.parts[~self.small]))


def make_nodes(graph, groups, n_clusters, *, divisors, sizes, apart, joins_neighbors):
    """Return the `Nodes` of a graph (n, n) and its groups (n,) of samples.

    divisors and sizes are (n,), apart (p, 2) pairs of groups, and `joins_neighbors`
    says whether it is a graph of nearest neighbours. A part of the graph with a node
    that must be separated from another is not small: it is not placed by nearness.
    """
    n_groups = int(groups.max()) + 1
    degrees = np.bincount(groups, graph.sum(axis=1))
    if n_groups < len(groups):
        level = coarsen(as_level(graph), groups, n_groups)
        graph = sp.csr_array(
            (level.data, level.indices, level.indptr), shape=(n_groups, n_groups)
        )
        graph.sort_indices()
        sizes = np.bincount(groups, sizes, minlength=n_groups)
        divisors = np.bincount(groups, divisors, minlength=n_groups)
    return _as_nodes(
        graph,
        divisors,
        degrees,
        sizes,
        apart,
        n_clusters,
        joins_neighbors=joins_neighbors,
    )


def _as_nodes(graph, divisors, degrees, sizes, apart, n_clusters, *, joins_neighbors):
    """Return the `Nodes` of a graph, with the parts that are small for n_clusters."""
    parts = find_parts(graph)
    small = is_small(parts, sizes, n_clusters, joins_neighbors=joins_neighbors)
    small &= ~np.isin(parts, parts[np.unique(apart)])
    return Nodes(
        graph,
        _positive(divisors),
        sizes,
        parts,
        small,
        apart,
        degrees,
        joins_neighbors,
    )


def _positive(divisors):
    """Return divisors (m,) above zero; a node without an edge has degree zero."""
    return np.maximum(divisors, _LEAST_DIVISOR * (divisors.mean() or 1.0))


def search_labels(
    nodes, n_clusters, bounds, *, modular, homes, place, init, n_init, random_state
):
    """Return labels (m,) int64 of nodes of a low cut, exactly `n_clusters` of them.

    With `modular` they are those of `search_communities` instead; the bounds must be
    none then.

    Parameters
    ----------
    nodes : Nodes
    n_clusters : int
        At most the number of nodes.
    bounds : (float, float)
        Least and largest size of a cluster.
    homes : ndarray of shape (m,), int64, or None
        What `find_homes` returned; without it small parts are put into the largest
        cluster.
    place : bool
        Whether small parts are put into clusters; otherwise they are labelled -1.
    init : {"multilevel", "spectral"}
    n_init : int
    random_state : RandomState instance
    """
    labels = np.full(len(nodes.small), -1, dtype=np.int64)
    partition = combine_parts(nodes, n_clusters, bounds)
    if partition is None:
        # Small parts are placed and counted later.
        missing = nodes.sizes[nodes.small].sum() / n_clusters if place else 0.0
        within = (max(bounds[0] - missing, 0.0), bounds[1])
        large = nodes.large
        if modular:
            partition = search_communities(large, n_clusters, n_init, random_state)
        elif init == "spectral":
            start = spectral_labels(large.graph, n_clusters, n_init, random_state)
            partition = local_search(large.level, start, n_clusters, within)
        else:
            partition = search(large.level, n_clusters, n_init, random_state, within)
    labels[~nodes.small] = partition
    if not place or not nodes.small.any():
        return labels
    labels = place_small(labels, nodes.small, nodes.sizes, homes)
    if bounds != UNBOUNDED:
        labels = local_search(nodes.level, labels, n_clusters, bounds)
    return labels


def least_size(nodes, n_clusters):
    """Return the least size of a community: a fifth of the mean of a cluster."""
    return _AUTO_SHARE * nodes.sizes.sum() / n_clusters


def search_modular(nodes, n_clusters, n_starts, random_state):
    """Return labels (m,) of a large modularity.

    In a network, no cluster is below `least_size`. Fewer starts suffice than for a low
    cut.
    """
    bounds = least_size(nodes, n_clusters), np.inf
    if nodes.joins_neighbors:
        bounds = UNBOUNDED
    return _search_within(nodes, n_clusters, n_starts, random_state, bounds)


def search_communities(nodes, n_clusters, n_starts, random_state):
    """Return labels (m,) of a large modularity, all of them of communities.

    If two clusters had a larger modularity as one, there are fewer communities than
    clusters, and single nodes may only fill the number: then no cluster is below
    `least_size` among neighbours, too.
    """
    labels = search_modular(nodes, n_clusters, n_starts, random_state)
    if nodes.joins_neighbors and _gains_by_merging(nodes, labels):
        bounds = least_size(nodes, n_clusters), np.inf
        labels = _search_within(nodes, n_clusters, n_starts, random_state, bounds)
    return labels


def _search_within(nodes, n_clusters, n_starts, random_state, bounds):
    """Return labels (m,) of a large modularity, with sizes within bounds."""
    n_starts = -(-n_starts // _STARTS_OF_CUTS)
    return search(nodes.modular, n_clusters, n_starts, random_state, bounds)


def _gains_by_merging(nodes, labels):
    """Whether two clusters of labels (m,) have a larger modularity as one."""
    edges = nodes.graph.tocoo()
    ends = labels[edges.row], labels[edges.col]
    between = sp.csr_array((edges.data, ends)).tocoo()
    volumes = np.bincount(labels, nodes.degrees)
    expected = volumes[between.row] * volumes[between.col] / volumes.sum()
    differ = between.row != between.col
    return bool((between.data > (1.0 + 1e-9) * expected)[differ].any())


def is_better(nodes, n_clusters, labels, other):
    """Whether labels (m,) of a large modularity are better than others of a low cut.

    They are if the modularity is larger and the lowest cut is above `MEAN_CUT` for each
    cluster. In a network, they also are if the modularity over the cut is larger, since
    the lowest cut often separates a few nodes from all others, or has one giant
    cluster. They are not if the modularity is not positive, or if a cluster is smaller
    than `least_size`. Labels of a cut of 0 are always kept.
    """
    cut, other_cut = (
        cut_of_labels(nodes.graph, found, n_clusters, nodes.divisors)
        for found in (labels, other)
    )
    before, after = (
        modularity(nodes.graph, found, nodes.degrees) for found in (labels, other)
    )
    is_more_modular = cut > MEAN_CUT * n_clusters and after > before
    if nodes.joins_neighbors:
        return is_more_modular
    sizes = np.bincount(other, nodes.sizes, minlength=n_clusters)
    is_large = sizes.min() >= (1.0 - 1e-9) * least_size(nodes, n_clusters)
    is_better_for_its_cut = after * cut > before * other_cut
    return is_large and after > 0.0 and (is_more_modular or is_better_for_its_cut)


def combine_parts(nodes, n_clusters, bounds):
    """Return labels (m,) of the nodes not in small parts that divide no part, or None.

    The result is None if there are too few parts, or if parts combined by `group_parts`
    are not within the bounds or not separated as they must be.
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


def spectral_labels(graph, n_clusters, n_init, random_state):
    """Return the labels (n,) of scikit-learn's spectral clustering of a graph.

    The labels are those of SpectralClustering(affinity="precomputed") with the same
    random_state. They are those of the search if the graph is not connected, if ARPACK
    fails, or if a cluster is empty. The same holds for few nodes and for a complete
    graph of equal weights: the vectors of ARPACK soon span the whole space there, and
    it continues from one that no seed determines.
    """
    n = graph.shape[0]
    spans_all = n <= max(_N_LANCZOS, 2 * n_clusters + 1)
    uniform = graph.nnz == n * (n - 1) > 0 and np.ptp(graph.data) == 0
    if not spans_all and not uniform and not find_parts(graph).any():
        try:
            labels = spectral_clustering(
                graph, n_clusters=n_clusters, n_init=n_init, random_state=random_state
            )
            if len(np.unique(labels)) == n_clusters:
                return labels.astype(np.int64)
        except ArpackError as error:
            warn(
                f"The eigensolver of init='spectral' failed ({error}); "
                "init='multilevel' is used instead.",
                ConvergenceWarning,
            )
    return search(as_level(graph), n_clusters, n_init, random_state)


def place_small(labels, small, sizes, homes):
    """Return labels (n,) that assign small parts to clusters as well.

    Bounds on sizes are not considered.

    Parameters
    ----------
    labels : ndarray of shape (n,), int64
        Of all nodes that are not small.
    small : ndarray of shape (n,), bool
    sizes : ndarray of shape (n,), float64
    homes : ndarray of shape (n,), int64, or None
        The node whose label a small one gets; None: the largest cluster.
    """
    if homes is not None:
        return labels[homes]
    kept = ~small
    return np.where(small, np.bincount(labels[kept], sizes[kept]).argmax(), labels)


def find_homes(nodes, firsts, nearest):
    """Return for each of the `Nodes` the node (m,) whose label it gets.

    A node in a small part gets the label of the sample, in no small part, that is
    nearest to any of the part; all others keep their own. `firsts` (m,) are samples of
    the nodes, and `nearest` returns the nearest of some samples to others, and how far
    it is.
    """
    homes = np.arange(len(nodes.small))
    small = np.flatnonzero(nodes.small)
    kept = np.flatnonzero(~nodes.small)
    if len(small):
        found, distances = nearest(firsts[kept], firsts[small])
        order = np.argsort(-distances, kind="stable")  # the nearest is written last
        target = np.zeros(int(nodes.parts.max()) + 1, dtype=np.int64)
        target[nodes.parts[small[order]]] = kept[found[order]]
        homes[small] = target[nodes.parts[small]]
    return homes
