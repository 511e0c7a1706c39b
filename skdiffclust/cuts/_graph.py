"""From samples to their weighted graph, and from new samples to its vertices."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from skdiffclust._affinity import (
    block_distances,
    product_by_sample,
    refuse_overflow,
    refuse_underflow,
    unit_rows,
)
from skdiffclust._duplicates import equal_rows
from skdiffclust._validation import (
    canonical_rows,
    check_dense_size,
    refuse_container,
    validate_rows,
)
from skdiffclust._warnings import warn
from skdiffclust.cuts._neighbors import (
    N_ALIKE,
    as_points,
    count_ranked,
    neighbor_links,
)
from skdiffclust.cuts._ratio_cut import check_graph

# Affinities whose edges are neighbours of `metric`.
_OF_NEIGHBORS = ("nearest_neighbors", "ranked_neighbors")
# Samples whose links are computed for the mean degree of all.
_N_SCALED = 1000


@dataclass(frozen=True)
class Samples:
    """Checked samples and their graph.

    Attributes
    ----------
    rows : ndarray or csr_array of shape (n, d), or None for a precomputed graph
    graph : csr_array of shape (n, n)
    groups : ndarray of shape (n,), int64
        Groups of equal samples.
    affinity : Affinity or None
    joins_neighbors : bool, default=False
        Whether the graph was made of the samples, by their nearest neighbours.
    """

    rows: np.ndarray | sp.csr_array | None
    graph: sp.csr_array
    groups: np.ndarray
    affinity: "Affinity | None"
    joins_neighbors: bool = False


def read_samples(estimator, X, graph=None, *, reset=True):
    """Return the `Samples` of what a fit was given, and of a ready graph or None."""
    owner = type(estimator).__name__
    if is_precomputed(estimator):
        if graph is not None:
            raise ValueError(
                f"The 'graph' parameter of {owner}.fit must be None with "
                "affinity='precomputed', where X is the graph. Pass it once."
            )
        X = validate_rows(estimator, X, reset=reset, accept_sparse="csr")
        graph = check_graph(X, caller=owner, name="X")
        return Samples(None, graph, np.arange(graph.shape[0]), None)
    rows = check_rows(estimator, X, reset=reset)
    refuse_overflow([rows])
    refuse_underflow(rows)
    affinity = Affinity.of(estimator)
    if graph is None:
        graph = affinity.fit(rows)
        kind = affinity.kind
        joins_neighbors = kind in _OF_NEIGHBORS or hasattr(kind, "fit_transform")
        return Samples(rows, graph, affinity.groups, affinity, joins_neighbors)
    graph = check_graph(graph, caller=owner)
    if graph.shape[0] != rows.shape[0]:
        raise ValueError(
            f"The 'graph' parameter of {owner}.fit must have one vertex for each "
            f"sample of X, {rows.shape[0]}. Got {graph.shape[0]} instead."
        )
    affinity.keep(rows)
    return Samples(rows, graph, affinity.groups, affinity)


def check_rows(estimator, X, *, reset=False):
    """Return samples (n, d), dense or a canonical csr_array."""
    X = validate_rows(estimator, X, reset=reset, accept_sparse="csr")
    return canonical_rows(X) if sp.issparse(X) else X


def check_links(X):
    """Return weights (m, n) of new samples to those of a graph; refuse negative ones.

    X is checked otherwise.
    """
    X = canonical_rows(sp.csr_array(X))
    if (X.data < 0).any():
        raise ValueError(
            "The 'X' parameter of GraphCutClustering.predict must not have negative "
            f"weights. Got {X.data.min():.3g} instead. Convert distances to affinities "
            "as for fit."
        )
    return X


def is_precomputed(estimator):
    """Whether X is the graph."""
    return isinstance(estimator.affinity, str) and estimator.affinity == "precomputed"


class Affinity:
    """The similarity of samples, from the parameters of an estimator.

    Parameters
    ----------
    kind : {"nearest_neighbors", "ranked_neighbors", "rbf", "cosine"}, callable or \
            neighbours transformer
    n_neighbors : int or "auto"
        Clipped to what the number of samples allows; "auto" is chosen from X.
    metric : {"euclidean", "cosine"}
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
        # Others do not use it, or a transformer has its own.
        self.metric = metric if kind in _OF_NEIGHBORS else "euclidean"
        self.temperature = temperature
        self.scale = 1.0  # of the weights of links

    @classmethod
    def of(cls, estimator):
        """Return the affinity of the parameters of an estimator."""
        return cls(
            estimator.affinity,
            estimator.n_neighbors,
            estimator.metric,
            estimator.temperature,
            type(estimator).__name__,
        )

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
        """The fitted samples (n, d), or (n, d + 1), whose distances decide."""
        return as_points(self.X, self.metric)

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
            self.n_neighbors = count_ranked(*X.shape) if self.is_ranked else N_ALIKE

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

        Of equal samples, the first stands for all of them. If new is None, the rows are
        the distinct samples.
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
                    f"The 'affinity' parameter of {self.owner} must, as a function of "
                    f"(X, Y), return weights of shape {shape}. Got "
                    f"{getattr(weights, 'shape', type(weights).__name__)} instead."
                )
            return weights
        if sp.issparse(X):
            raise ValueError(
                f"The 'affinity' parameter of {self.owner} must be 'ranked_neighbors', "
                "'nearest_neighbors', a function or a neighbours transformer for "
                "sparse X. Got "
                f"{self.kind!r} instead, whose graph is dense. Use metric='cosine' for "
                "neighbours by cosine."
            )
        check_dense_size(
            *shape,
            what=f"the {self.kind} affinity",
            remedy="Use affinity='nearest_neighbors', whose graph is sparse.",
        )
        if self.kind == "cosine":
            # New samples one by one: their links must not depend on each other.
            product = np.matmul if X is self.X else product_by_sample
            cosines = product(
                unit_rows(X.astype(np.float64)), unit_rows(self.X.astype(np.float64)).T
            )
            # Less 1, a factor of all weights, so that a low temperature does not
            # overflow.
            return np.exp((cosines - 1.0) / self.temperature)
        distances = block_distances(X, self.X, "euclidean", {})
        return np.exp(-(distances**2) / self.temperature)


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
