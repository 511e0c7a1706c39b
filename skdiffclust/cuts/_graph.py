"""From samples to their weighted graph, its parts, and from new samples to it."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from skdiffclust._compat import ArgKmin, effective_n_threads
from skdiffclust._duplicates import equal_rows
from skdiffclust._neighbors import (
    ROWS_AT_LEAST,
    are_others,
    k_nearest,
    nearest_sample,
    search_blocks,
)
from skdiffclust._pairwise import (
    block_distances,
    center,
    product_by_sample,
    refuse_overflow,
    refuse_underflow,
    unit_rows,
)
from skdiffclust._validation import (
    canonical_rows,
    check_dense_size,
    refuse_container,
    validate_rows,
)
from skdiffclust._warnings import warn
from skdiffclust.cuts._ratio_cut import check_graph

# Affinities whose edges are neighbours of `metric`.
_OF_NEIGHBORS = ("nearest_neighbors", "ranked_neighbors")
# Largest numbers of features for a tree of SciPy and for one of scikit-learn.
_TREE_MAX_FEATURES = 10
_SCIKIT_TREE_FEATURES = 15
# n_neighbors="auto": of neighbours of equal weight, and bounds of those weighted by
# rank. Up to this many features, where clusters may be thin, few samples have fewer.
_N_ALIKE = 10
_LEAST_RANKED = 10
_MOST_RANKED = 20
_FEW_FEATURES = 3
# The weight of the r-th neighbour is 1 / (r - 1 + this).
_FIRST_RANK = 2.0
# Distances are tied if they differ by less than this, relatively: by rounding, also of
# float32. Among this many times as many neighbours, tied ones share the last weights.
_TIED = 1e-6
_WIDE = 5
# Samples with a smaller cosine are not neighbours by "cosine".
_LEAST_COSINE = 1e-9
# A part smaller than this, relative to the mean size of a cluster, is not a cluster.
_LEAST_PART = 0.1
# Samples whose links are computed for the mean degree of all.
_N_SCALED = 1000


@dataclass(frozen=True)
class GraphSettings:
    """The graph and its cut: parameters of PRCut and GraphCutClustering.

    `owner` is the class that messages name.
    """

    owner: str
    affinity: object
    n_neighbors: int | str
    metric: str
    temperature: float
    cut: str

    @classmethod
    def of(cls, params, owner):
        """Return the settings among parameters (dict), which may have others."""
        names = "affinity", "n_neighbors", "metric", "temperature", "cut"
        return cls(owner, **{name: params[name] for name in names})

    @property
    def normalized(self):
        """Whether the cut is the normalised one."""
        return self.cut == "normalized"

    @property
    def new_affinity(self):
        """An `AffinityGraph` that is not fitted."""
        return AffinityGraph(
            self.affinity, self.n_neighbors, self.metric, self.temperature, self.owner
        )


@dataclass(frozen=True)
class Samples:
    """Checked samples and their graph.

    Attributes
    ----------
    rows : ndarray or csr_array of shape (n, d), or None for a precomputed graph
    graph : csr_array of shape (n, n)
    groups : ndarray of shape (n,), int64
        Groups of equal samples.
    affinity : AffinityGraph or None
    joins_neighbors : bool, default=False
        Whether the graph was made of the samples, by their nearest neighbours.
    """

    rows: np.ndarray | sp.csr_array | None
    graph: sp.csr_array
    groups: np.ndarray
    affinity: "AffinityGraph | None"
    joins_neighbors: bool = False

    @property
    def nearest(self):
        """`AffinityGraph.nearest`, None for a precomputed graph."""
        return None if self.affinity is None else self.affinity.nearest


def read_samples(settings, X, precomputed=None):
    """Return the `Samples` of checked X (n, d), whose graph may be given.

    With affinity="precomputed", X (n, n) is the graph.
    """
    owner = settings.owner
    if is_precomputed(settings.affinity):
        if precomputed is not None:
            raise ValueError(
                f"The 'precomputed' parameter of {owner}.fit must be None with "
                "affinity='precomputed', where X is the graph. Pass it once."
            )
        graph = check_graph(X, caller=owner, name="X")
        return Samples(None, graph, np.arange(graph.shape[0]), None)
    rows = canonical_rows(X) if sp.issparse(X) else X
    affinity = settings.new_affinity
    if isinstance(affinity.metric, str):
        refuse_overflow([rows])
        refuse_underflow(rows)
    if precomputed is None:
        graph = affinity.fit(rows)
        kind = affinity.kind
        joins_neighbors = kind in _OF_NEIGHBORS or hasattr(kind, "fit_transform")
        return Samples(rows, graph, affinity.groups, affinity, joins_neighbors)
    graph = check_graph(precomputed, caller=owner, name="precomputed")
    if graph.shape[0] != rows.shape[0]:
        raise ValueError(
            f"The 'precomputed' parameter of {owner}.fit must have one vertex for each "
            f"sample of X, {rows.shape[0]}. Got {graph.shape[0]} instead."
        )
    affinity.keep(rows)
    return Samples(rows, graph, affinity.groups, affinity)


def check_rows(estimator, X):
    """Return samples (n, d) for a fitted estimator, dense or a canonical csr_array."""
    X = validate_rows(estimator, X, reset=False, accept_sparse="csr")
    return canonical_rows(X) if sp.issparse(X) else X


def check_links(X):
    """Return weights (m, n) of new samples to those of a graph; refuse negative ones.

    All other checks of X have been made.
    """
    X = canonical_rows(sp.csr_array(X))
    if (X.data < 0).any():
        raise ValueError(
            "The 'X' parameter of GraphCutClustering.predict must not have negative "
            f"weights. Got {X.data.min():.3g} instead. Convert distances to "
            "affinities, as for fit."
        )
    return X


def is_precomputed(affinity):
    """Whether X is the graph."""
    return isinstance(affinity, str) and affinity == "precomputed"


class AffinityGraph:
    """The affinity of samples.

    Parameters
    ----------
    kind : {"nearest_neighbors", "ranked_neighbors", "rbf", "cosine"}, callable or \
            neighbours transformer
    n_neighbors : int or "auto"
        Clipped to what the number of samples allows; "auto" is chosen from X.
    metric : {"euclidean", "cosine"} or GowerEncoder
        Of nearest neighbours.
    temperature : float
    owner : str
        Class named in messages.
    """

    def __init__(self, kind, n_neighbors, metric, temperature, owner):
        self.kind = kind
        self.is_ranked = kind == "ranked_neighbors"
        self.owner = owner
        self.n_neighbors = n_neighbors
        # Other affinities do not use it, or a transformer has its own.
        self.metric = metric if kind in _OF_NEIGHBORS else "euclidean"
        self.temperature = temperature
        self.scale = 1.0  # of the weights of links

    def fit(self, X):
        """Return the graph, a checked csr_array (n, n), of samples X, which are kept.

        Neighbours are exact: by a tree up to 10 features, by scikit-learn's beyond,
        which are O(n² d) from some 15 features on; of sparse samples by products.
        """
        self.keep(X)
        if hasattr(self.kind, "fit_transform"):
            self.transformer = clone(self.kind)
            graph = either_way(_pattern(self.transformer.fit_transform(X)))
        elif self.kind in _OF_NEIGHBORS:
            graph = self._neighbors(None)[self.groups]
            graph = graph + graph.T if self.is_ranked else either_way(graph)
        else:
            graph = self._weights(X)
        return check_graph(graph, caller=self.owner, name="affinity")

    @property
    def points(self):
        """The fitted samples as points (n, d) or (n, d + 1), compared by distances."""
        return as_points(self.X, self.metric)

    def nearest(self, kept, others):
        """Return where in `kept` the nearest sample to each of others is, and how far.

        Both are numbers of fitted samples, (m,) and (p,).
        """
        points = self.points
        metric = _metric_of_points(self.metric)
        return nearest_sample(points[kept], points[others], metric=metric)

    def relate(self, graph):
        """Scale links to the unit of a given graph (n, n) of the samples that are kept.

        New samples then have on average the degrees of the given graph, as estimated
        from at most 1000 samples.
        """
        X = self.X
        n_samples = X.shape[0]
        if hasattr(self.kind, "fit_transform"):
            self.transformer = clone(self.kind).fit(X)
        some = np.linspace(0, n_samples - 1, min(n_samples, _N_SCALED), dtype=np.int64)
        own = float(self.links(X[some]).sum()) / len(some)
        scale = float(graph.sum()) / n_samples / own if own > 0 else 0.0
        # A graph without an edge has no unit, and one of weights near 0 overflows it.
        if 0 < scale < np.inf:
            self.scale = scale

    def keep(self, X):
        """Keep the samples X (n, d), and choose the number of their neighbours."""
        self.X = X
        self.groups = equal_rows(X)
        if self.n_neighbors == "auto":
            self.n_neighbors = count_ranked(*X.shape) if self.is_ranked else _N_ALIKE

    def links(self, X):
        """Return the weights, a csr_array (m, n), of new samples X to fitted ones."""
        if hasattr(self.kind, "fit_transform"):
            return _pattern(self.transformer.transform(X))
        if self.kind not in _OF_NEIGHBORS:
            weights = self._weights(X)
            refuse_container(weights, name="affinity")
            links = sp.csr_array(weights)
            if not (links.data >= 0).all() or np.isinf(links.data).any():
                raise ValueError(
                    f"The 'affinity' parameter of {self.owner} must give finite "
                    "weights of at least 0. Got others for the samples to predict "
                    "instead. Correct the function."
                )
            return links
        return self._neighbors(as_points(X, self.metric))

    def _neighbors(self, new):
        """Return the links (m, n) of new points (m, d) to their nearest fitted ones.

        The first of equal fitted samples stands for all of them. If `new` is None, the
        rows are the distinct fitted samples.
        """
        firsts = np.unique(self.groups, return_index=True)[1]
        links = neighbor_links(
            self.points[firsts],
            new,
            self.n_neighbors,
            self.metric,
            is_ranked=self.is_ranked,
        )
        columns = firsts[links.indices]
        shape = links.shape[0], len(self.groups)
        return sp.csr_array((links.data, columns, links.indptr), shape=shape)

    def _weights(self, X):
        """Return the weights (m, n), sparse only if a callable returns that."""
        shape = (X.shape[0], self.X.shape[0])
        if callable(self.kind):
            weights = self.kind(X, self.X)
            if getattr(weights, "shape", None) != shape:
                raise ValueError(
                    f"The 'affinity' parameter of {self.owner} must, as a function "
                    f"of (X, Y), return weights of shape {shape}. Got "
                    f"{getattr(weights, 'shape', type(weights).__name__)} instead."
                )
            return weights
        if sp.issparse(X):
            raise ValueError(
                f"The 'affinity' parameter of {self.owner} must be "
                "'ranked_neighbors', 'nearest_neighbors', a function or a neighbours "
                f"transformer for sparse X. Got {self.kind!r} instead, whose graph is "
                "dense. Use metric='cosine' for neighbours by cosine."
            )
        check_dense_size(
            *shape,
            what=f"the {self.kind} affinity",
            remedy="Use affinity='nearest_neighbors', whose graph is sparse.",
        )
        if self.kind == "cosine":
            # New samples one by one: the links of each must not depend on the others.
            product = np.matmul if X is self.X else product_by_sample
            cosines = product(
                unit_rows(X.astype(np.float64)), unit_rows(self.X.astype(np.float64)).T
            )
            # The 1 is a factor of all weights, with which a low temperature does not
            # overflow.
            return np.exp((cosines - 1.0) / self.temperature)
        distances = block_distances(X, self.X, "euclidean", {})
        return np.exp(-(distances**2) / self.temperature)


def as_points(X, metric):
    """Return the points (n, d) whose Euclidean distances order neighbours.

    For "cosine" they have length one; ValueError for rows of zeros. Rows that a
    GowerEncoder encoded stay as they are.
    """
    return unit_rows(X.astype(np.float64, copy=False)) if metric == "cosine" else X


def _metric_of_points(metric):
    """Return the metric that compares the points of `as_points`."""
    return "euclidean" if isinstance(metric, str) else metric


def count_ranked(n_samples, n_features):
    """Return the number of neighbours, weighted by rank, that "auto" stands for."""
    if n_features > _FEW_FEATURES:
        return _MOST_RANKED
    return min(max(round(math.sqrt(n_samples) / 2), _LEAST_RANKED), _MOST_RANKED)


def neighbor_links(points, new, n_neighbors, metric, *, is_ranked):
    """Return the weights, a csr_array (m, n), of the nearest of points (n, d) to rows.

    The rows are new (m, d), or those of points if new is None, which are no neighbours
    of themselves. The r-th neighbour has the weight 1 / (r + 1), or 1 if they are not
    ranked. Neighbours at the same distance share the weights of their ranks, so that no
    order of the samples decides. By "cosine", samples at right angles or beyond are not
    neighbours.
    """
    n_points = points.shape[0]
    most = n_points if new is not None else n_points - 1
    k = min(n_neighbors, most)
    n_rows = n_points if new is None else new.shape[0]
    if k < 1:
        return sp.csr_array((n_rows, n_points))
    weights = np.zeros(min(_WIDE * k, most))
    weights[:k] = 1.0 / np.arange(_FIRST_RANK, _FIRST_RANK + k) if is_ranked else 1.0

    def find(rows, n_found):
        if new is not None:
            return _nearest(points, new[rows], n_found, metric)
        neighbors, distances = _nearest_of_rows(points, rows, n_found + 1, metric)
        others = are_others(neighbors, rows)
        shape = len(rows), n_found
        return neighbors[others].reshape(shape), distances[others].reshape(shape)

    def links_of(rows, n_found):
        neighbors, distances = find(rows, n_found)
        links = _links(neighbors, distances, weights[:n_found], n_points, metric)
        # One more neighbour than needed tells whether others are as near as the last.
        return links, ~_are_farther(distances)[:, k:].any(axis=1)

    links, is_tied = links_of(np.arange(n_rows), min(k + 1, most))
    if len(weights) == k or not is_tied.any():
        return links
    tied, clear = np.flatnonzero(is_tied), np.flatnonzero(~is_tied)
    wide, _ = links_of(tied, len(weights))
    order = np.argsort(np.concatenate([clear, tied]))
    return sp.csr_array(sp.vstack([links[clear], wide], format="csr")[order])


def _are_farther(distances):
    """Whether each of distances (m, k), which ascend, is above the one before."""
    farther = np.ones(distances.shape, dtype=bool)
    farther[:, 1:] = distances[:, 1:] > distances[:, :-1] * (1.0 + _TIED)
    return farther


def _links(neighbors, distances, weights, n_points, metric):
    """Return the csr_array (m, n) of neighbours (m, k) with the weights (k,) of ranks.

    Neighbours at equal distances (m, k) get the mean of the weights of their ranks.
    """
    lengths = np.cumsum(_are_farther(distances)) - 1
    totals = np.bincount(lengths, np.tile(weights, len(neighbors)))
    shared = (totals / np.bincount(lengths))[lengths].reshape(neighbors.shape)
    if metric == "cosine":
        shared[1.0 - 0.5 * np.square(distances) <= _LEAST_COSINE] = 0.0
    kept = shared > 0
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    shape = len(neighbors), n_points
    return sp.csr_array((shared[kept], neighbors[kept], starts), shape=shape)


def _nearest(points, new, k, metric):
    """Return the nearest of points (n, d) to new rows (m, k), and how far they are.

    Ties, which are frequent in data of few values, are broken at random: broken by
    index, they would favour the first classes of sorted samples.
    """
    order = np.random.RandomState(0).permutation(points.shape[0])
    points = points[order]
    neighbors, distances = k_nearest(points, new, k, _metric_of_points(metric))
    return order[neighbors], distances


def _nearest_of_rows(points, rows, k, metric):
    """Return the nearest of points (n, d) to its own rows (m,), and how far they are.

    Two to seven times as fast as `_nearest` of dense samples, because ties are resolved
    as they come, and are equal up to rounding only.
    """
    if sp.issparse(points) or not isinstance(metric, str):
        return _nearest(points, points[rows], k, metric)
    # Samples are centred, because their products lose digits with a large offset.
    X = center(points)
    nearest = np.empty((len(rows), k), dtype=np.int64)
    distances = np.empty((len(rows), k))
    order = np.arange(len(rows))
    if X.shape[1] > _TREE_MAX_FEATURES:
        search, least = _searcher(X, len(rows), k)
    else:
        tree = cKDTree(X, leafsize=32, balanced_tree=False)
        search, least = partial(tree.query, k=k), ROWS_AT_LEAST
        # Queries follow the order of the leaves: each finds in the cache what the last
        # one read.
        order = np.argsort(np.argsort(tree.indices)[rows])
    for block in search_blocks(len(rows), X, least):  # Ctrl-C waits for at most one
        part = order[block]
        distances[part], nearest[part] = search(X[rows[part]])
    return nearest, distances


def _searcher(X, n_rows, k):
    """Return scikit-learn's search of the k nearest of X (n, d), and rows of a block.

    Products are shared out among threads as for all `n_rows` rows at once, because the
    order of ties depends on it. Without them, a row does not depend on the others.
    """
    # The default of scikit-learn.
    is_by_tree = X.shape[1] <= _SCIKIT_TREE_FEATURES and k < len(X) // 2
    algorithm = "kd_tree" if is_by_tree else "brute"
    search = NearestNeighbors(n_neighbors=k, algorithm=algorithm).fit(X)
    if is_by_tree:
        return search.kneighbors, 1
    n_threads = effective_n_threads()
    if n_rows <= 4 * ROWS_AT_LEAST * n_threads:
        return search.kneighbors, n_rows
    products = partial(
        ArgKmin.compute, Y=X, k=k, strategy="parallel_on_X", return_distance=True
    )
    return products, ROWS_AT_LEAST * n_threads


def _pattern(graph):
    """Return the 0/1 csr_array of the stored entries of a sparse matrix (n, m).

    A distance of zero is an edge as well.
    """
    refuse_container(graph, name="affinity")
    graph = sp.csr_array(graph)
    return sp.csr_array(
        (np.ones(len(graph.data)), graph.indices, graph.indptr), shape=graph.shape
    )


def either_way(graph):
    """Return the csr_array (n, n) with the edges of a graph and of its transpose."""
    if graph.shape[0] != graph.shape[1]:
        return graph  # refused later, unchanged
    return graph.maximum(graph.T.tocsr())


def find_parts(graph):
    """Return the part (n,) of each node of a graph (n, n), numbered from 0."""
    return connected_components(graph, directed=False)[1].astype(np.int64)


def is_small(parts, sizes, n_clusters, *, joins_neighbors):
    """Whether each node (n,) is in a part too small to be a cluster.

    Those are parts below a tenth of the mean size of a cluster, and single nodes if a
    cluster has more than two nodes on average. None is small if too few nodes would be
    left. The tenth does not count in graphs of nearest neighbours, in which such parts
    are rare, of no more parts than clusters.

    Parameters
    ----------
    parts : ndarray of shape (n,), int64
    sizes : ndarray of shape (n,), float64
    n_clusters : int
    joins_neighbors : bool
        Whether the graph is one of nearest neighbours.
    """
    n_nodes = np.bincount(parts)
    part_sizes = np.bincount(parts, sizes)
    is_single = (n_nodes == 1) & (len(parts) > 2 * n_clusters)
    least = _LEAST_PART * sizes.sum() / n_clusters
    if joins_neighbors and len(n_nodes) <= n_clusters:
        least = 0.0
    small = (is_single | (part_sizes < least))[parts]
    return small & (np.count_nonzero(~small) >= n_clusters)


def group_parts(parts, sizes, n_clusters):
    """Return labels (n,) that put whole parts (n,) together, as evenly as possible.

    The largest part comes first, and each goes to the cluster that is smallest so far.
    """
    part_sizes = np.bincount(parts, sizes)
    totals = np.zeros(n_clusters)
    counts = np.zeros(n_clusters, dtype=np.int64)
    owner = np.empty(len(part_sizes), dtype=np.int64)
    for part in np.argsort(-part_sizes, kind="stable"):
        # Parts of size 0 must not leave a cluster empty.
        owner[part] = np.lexsort((counts, totals))[0]
        totals[owner[part]] += part_sizes[part]
        counts[owner[part]] += 1
    return owner[parts]


def warn_of_parts(nodes, n_clusters, owner, remedy, *, are_whole):
    """Warn of connected components that determine the clusters.

    `remedy` is a sentence on small parts and how to change that, `are_whole` says
    whether whole parts are combined where there are more than clusters.
    """
    n_parts = nodes.n_large
    if n_parts > n_clusters:
        what = (
            "the cut is 0, and whole parts were combined into clusters of similar "
            "size. Set n_clusters to the number of parts, or give the graph more edges "
            "(a larger n_neighbors)."
            if are_whole
            else "whole parts, combined into clusters of similar size, do not satisfy "
            "the bounds on sizes or the cannot-links, and parts may be divided. Set "
            "n_clusters to the number of parts, or loosen the bounds or links."
        )
        warn(
            f"The graph of {owner} has {n_parts} parts that no edge joins, more than "
            f"n_clusters={n_clusters}: {what}",
        )
    if nodes.small.any():
        n_small = len(np.unique(nodes.parts[nodes.small]))
        warn(
            f"The graph of {owner} has {int(nodes.small.sum())} nodes in {n_small} "
            "parts that no edge joins to the others and that are too small to be "
            f"clusters (below a tenth of the mean size, or single nodes). {remedy}",
        )
