"""Free labels to start from: spectral clustering, k-means++ seeds, or a search."""

import warnings

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError
from sklearn.cluster import kmeans_plusplus, spectral_clustering
from sklearn.exceptions import ConvergenceWarning

from skdiffclust._affinity import nearest_row
from skdiffclust.cuts._ratio_cut import cut_of_labels

# Weight, relative to the mean, of the edges that make a graph connected for ARPACK.
_BRIDGE = 1e-6
# Vectors that ARPACK works with, or twice as many as are asked for and one.
_N_LANCZOS = 20


def free_labels(graph, X, groups, n_clusters, *, init, polished, n_init, random_state):
    """Return labels (n,) int64 of a low cut, exactly `n_clusters` of them used.

    Parameters
    ----------
    graph : csr_array of shape (n, n)
    X : ndarray of shape (n, d) or None
        Rows, for "k-means++".
    groups : ndarray of shape (n,), int64
        Equal rows, which move as one; numbered from 0.
    n_clusters : int
        At most the number of groups.
    init : {"spectral", "k-means++", "random"}
        "random" with `polished` is the multilevel search.
    polished : bool
    n_init : int
    random_state : RandomState instance
    """
    from skdiffclust.cuts._multilevel import combine_all, contract, search
    from skdiffclust.cuts._polish import polish

    n_groups = int(groups.max()) + 1
    nodes, sizes = graph, np.ones(len(groups))
    if n_groups < len(groups):
        nodes, sizes = contract(graph, groups, n_groups, sizes)
    n_parts, parts = connected_components(nodes, directed=False)
    if n_parts == n_clusters:
        return parts[groups].astype(np.int64)  # nothing is cut
    if init == "random":
        return search(nodes, n_clusters, n_init, random_state, sizes=sizes)[groups]
    if init == "spectral":
        starts = [_spectral(graph, n_clusters, n_init, random_state)]
    else:
        first = np.unique(groups, return_index=True)[1]
        seeds = (
            kmeans_plusplus(X[first], n_clusters, random_state=random_state)[0]
            for _ in range(n_init)
        )
        starts = [nearest_row(centers, X)[0] for centers in seeds]
    found = []
    for labels in starts:
        labels = _common_label(labels, groups, n_groups, n_clusters)
        labels = fill_empty(labels, n_clusters, sizes)
        if polished:
            labels = polish(nodes, labels, n_clusters, sizes=sizes)
        found.append(labels)
    if polished:
        found = combine_all(nodes, found, n_clusters, random_state, sizes=sizes)
        return found[groups]
    return min(
        found, key=lambda labels: cut_of_labels(nodes, labels, n_clusters, sizes)
    )[groups]


def _spectral(graph, n_clusters, n_init, random_state):
    """Return the labels (n,) of scikit-learn's spectral clustering of a graph.

    The same labels as SpectralClustering(affinity="precomputed") gives with the same
    random_state, where the graph is connected; ARPACK is not asked where it fails. Nor
    is it for few nodes or a complete graph of equal weights: its vectors soon span all
    that there is, and it goes on from one that no seed determines.
    """
    from skdiffclust.cuts._multilevel import search

    n = graph.shape[0]
    n_parts, parts = connected_components(graph, directed=False)
    spans_all = n <= max(_N_LANCZOS, 2 * n_clusters + 1)
    uniform = graph.nnz == n * (n - 1) > 0 and np.ptp(graph.data) == 0
    if n_clusters == 1 or spans_all or uniform or n_parts > n // 2:
        return search(graph, n_clusters, n_init, random_state, sizes=np.ones(n))
    if n_parts > 1:
        graph = _bridged(graph, parts)
    try:
        labels = spectral_clustering(
            graph, n_clusters=n_clusters, n_init=n_init, random_state=random_state
        )
    except ArpackError as error:
        warnings.warn(
            f"The eigensolver of init='spectral' failed ({error}); the search of "
            "init='random' takes its place.",
            ConvergenceWarning,
            stacklevel=5,
        )
        return search(graph, n_clusters, n_init, random_state, sizes=np.ones(n))
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
