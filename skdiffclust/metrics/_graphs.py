"""The ratio-cut of a partition of a graph, and links for a cross-validation."""

import numpy as np
from scipy import sparse

from skdiffclust._affinity import check_precomputed
from skdiffclust._constraints import check_pairs
from skdiffclust.metrics._partitions import check_partition


def ratio_cut_score(graph, labels):
    r"""Ratio-cut of a partition of a weighted graph; smaller is better.

    .. math:: RC = \mathrm{Tr}(F^\top L F)
              = \sum_l \frac{1}{|C_l|} \sum_{i \in C_l, j \notin C_l} W_{ij}

    An edge between two clusters counts once for each of them. The ratio-cut of a single
    cluster is 0, so take the number of clusters and their sizes into account when
    comparing partitions.

    Parameters
    ----------
    graph : array-like or sparse matrix of shape (n_samples, n_samples)
        Symmetric matrix W of non-negative similarities. The diagonal is ignored. A
        matrix that is not symmetric is symmetrised, with a warning.
    labels : array-like of shape (n_samples,)
        Cluster of each sample. Every value is a cluster, including -1.

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    ValueError
        If the graph is not square, not finite or has a negative weight, or if the
        number of labels is wrong.

    Notes
    -----
    The cost is O(n_edges) in time and memory; sums are accumulated in float64.
    Equations (1) and (3) of the paper are half of this value, equation (6) and Theorem
    4.1 are equal to it.

    References
    ----------
    Ghriss, Monteleoni. Deep Clustering via Probabilistic Ratio-Cut Optimization.
    AISTATS 2025.

    Examples
    --------
    >>> from skdiffclust.metrics import ratio_cut_score
    >>> path = [[0, 1, 0], [1, 0, 3], [0, 3, 0]]
    >>> ratio_cut_score(path, [0, 1, 1])
    1.5
    """
    graph = check_precomputed(graph, name="graph", kind="similarity")
    labels = check_partition(labels, "labels", "ratio_cut_score")
    if graph.min() < 0:
        raise ValueError(
            "The 'graph' parameter of ratio_cut_score must not have negative weights. "
            f"Got {graph.min()} instead. Convert distances to similarities first."
        )
    if len(labels) != graph.shape[0]:
        raise ValueError(
            "The 'labels' parameter of ratio_cut_score must have one entry for each "
            f"row of the graph, {graph.shape[0]}. Got {len(labels)} instead."
        )
    clusters, codes = np.unique(labels, return_inverse=True)
    return cut_of_labels(sparse.csr_array(graph), codes, len(clusters))


def cut_of_labels(graph, labels, n_clusters, divisors=None):
    """Return the cut (float) of labels (n,) in 0 .. k - 1; empty clusters count 0.

    The ratio-cut of a symmetric sparse `graph` (n, n), or, with `divisors` (n,), the
    cut over the sums of divisors of each cluster. The weights of edges that are cut
    are added, rather than taken from the degrees: a small cut of a heavy graph keeps
    its digits.
    """
    edges = graph.tocoo()
    crosses = labels[edges.row] != labels[edges.col]
    cuts = np.bincount(
        labels[edges.row[crosses]], edges.data[crosses], minlength=n_clusters
    )
    sizes = np.bincount(labels, divisors, minlength=n_clusters)
    return float((cuts[cuts > 0] / sizes[cuts > 0]).sum())


def links_to_incidence(pairs, n_samples):
    """Convert pairs of indices to an incidence matrix for use in cross-validation.

    Pairs of indices refer to the samples of the whole X, and are wrong once a search
    has taken a subset of X. If there are as many pairs as samples, the search even
    takes a subset of the pairs. The rows of an incidence matrix follow the samples, and
    links of which one sample is missing are dropped. Pass links to a search in this
    form.

    Parameters
    ----------
    pairs : array-like of shape (n_links, 2)
        Indices of the two different samples of each link, from 0 to `n_samples` - 1.
    n_samples : int
        Number of samples of X.

    Returns
    -------
    scipy.sparse.csr_array of shape (n_samples, n_links), int8
        Incidence matrix with two ones in each column.

    Raises
    ------
    ValueError
        If an index is out of range, or a pair links a sample to itself.

    Notes
    -----
    The cost is O(n_samples + n_links) in time and memory. For `must_link`, group
    identifiers of shape (n_samples,) are an alternative: they follow the samples, too.

    Examples
    --------
    >>> from skdiffclust.metrics import links_to_incidence
    >>> links_to_incidence([[0, 2], [1, 2]], 3).toarray()
    array([[1, 0],
           [0, 1],
           [1, 1]], dtype=int8)
    """
    pairs = check_pairs(pairs, n_samples, "The 'pairs' parameter of links_to_incidence")
    alone = pairs[:, 0] == pairs[:, 1]
    if alone.any():
        raise ValueError(
            "The 'pairs' parameter of links_to_incidence must join different samples. "
            f"Got sample {pairs[alone][0, 0]} twice instead. Remove that pair."
        )
    columns = np.repeat(np.arange(len(pairs)), 2)
    ones = np.ones(len(columns), dtype=np.int8)
    return sparse.csr_array(
        (ones, (pairs.ravel(), columns)), shape=(n_samples, len(pairs))
    )
