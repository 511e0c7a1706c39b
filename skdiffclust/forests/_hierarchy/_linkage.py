"""The linkage matrix of a tree, and the Calinski-Harabasz index along it."""

import numpy as np
from sklearn.utils import check_array

from skdiffclust._affinity import center
from skdiffclust._compat import single_linkage_label
from skdiffclust.forests._trees import _compilation_threshold
from skdiffclust.forests._trees._compilation_threshold import compiled_above_small


def linkage_matrix(edges, lengths):
    """Return scipy's linkage matrix (n - 1, 4) of a tree in cut order. O(n α(n))."""
    if not len(edges):
        return np.empty((0, 4))
    from skdiffclust.forests._hierarchy._merges import compiled_merges, merge_rows

    if _compilation_threshold.is_compiled(len(edges), merge_rows):
        return compiled_merges(edges[::-1], lengths[::-1])
    merges = np.column_stack([edges, lengths])[::-1]
    return single_linkage_label(np.ascontiguousarray(merges, dtype=np.float64))


def calinski_harabasz_curve(X, linkage):
    """Compute the Calinski-Harabasz index for all numbers of clusters of a hierarchy.

    The index is the ratio of the dispersion between clusters to the dispersion within
    them, each divided by its degrees of freedom, as in
    :func:`sklearn.metrics.calinski_harabasz_score`. It is computed for all numbers of
    clusters in one pass over the merges. The index favours round clusters of similar
    size; for other shapes, consider the gaps in `edge_lengths_`.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples that were clustered.
    linkage : ndarray of shape (n_samples - 1, 4)
        Linkage matrix from :class:`~skdiffclust.SpanningForestClustering` or
        :func:`scipy.cluster.hierarchy.linkage`.

    Returns
    -------
    scores : ndarray of shape (n_samples,), float64
        Index of k clusters at position k; NaN at positions 0 and 1, where it is not
        defined.

    Raises
    ------
    ValueError
        If X is not finite, or if `linkage` has another number of samples.

    Notes
    -----
    The cost is O(n d) in time and memory.

    References
    ----------
    .. [1] T. Calinski, J. Harabasz, "A dendrite method for cluster analysis",
       Communications in Statistics 3, 1974.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.cluster.hierarchy import linkage
    >>> from skdiffclust.forests import calinski_harabasz_curve
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> calinski_harabasz_curve(X, linkage(X, "single"))
    array([  nan,   nan, 200. , 100.5])
    """
    X = center(check_array(X, dtype=np.float64))
    n_samples = len(X)
    linkage = np.asarray(linkage, dtype=np.float64)
    if linkage.shape != (n_samples - 1, 4):
        raise ValueError(
            "The 'linkage' parameter of calinski_harabasz_curve must have shape "
            f"({n_samples - 1}, 4), one merge less than samples. Got {linkage.shape} "
            "instead. Pass the linkage matrix of these samples."
        )
    merges = np.ascontiguousarray(linkage[:, :2], dtype=np.int64)
    n_clusters = np.arange(2, n_samples)
    scores = np.full(n_samples, np.nan)
    within = np.cumsum(_merge_costs(X, merges))[::-1]  # at 1, 2, ... clusters
    between = within[0] - within[1:]
    within = within[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        scores[2:] = between / within * (n_samples - n_clusters) / (n_clusters - 1)
    return scores


@compiled_above_small
def _merge_costs(X, merges):
    """Dispersion within clusters (n - 1,) that each merge adds; overwrites X (n, d)."""
    n_samples, n_features = X.shape
    slot = np.concatenate((np.arange(n_samples), np.zeros(n_samples, dtype=np.int64)))
    sizes = np.ones(n_samples, dtype=np.int64)
    costs = np.zeros(n_samples - 1)
    for t in range(n_samples - 1):
        one = slot[merges[t, 0]]
        other = slot[merges[t, 1]]
        weight = sizes[one] / (sizes[one] + sizes[other])
        cost = 0.0
        for f in range(n_features):
            gap = X[other, f] - X[one, f]
            cost += gap * gap
            X[one, f] = weight * X[one, f] + (1 - weight) * X[other, f]
        costs[t] = cost * weight * sizes[other]
        sizes[one] += sizes[other]
        slot[n_samples + t] = one
    return costs
