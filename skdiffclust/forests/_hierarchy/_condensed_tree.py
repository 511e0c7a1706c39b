"""The condensed tree: what is left of single linkage without its small branches.

From the root down, a merge whose two sides both have `min_cluster_size` samples divides
a cluster into two new ones. Samples on a smaller side leave the cluster instead, at the
density at which they would be separated from it, the inverse of the length of the
merge.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from skdiffclust._assignments import relabel_by_size
from skdiffclust._compat import StrOptions, check_pandas_support, validate_params
from skdiffclust._short_repr import short_repr
from skdiffclust.forests._trees._compilation_threshold import compiled_above_small

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class CondensedTree:
    """Hierarchy of the clusters with at least `min_cluster_size` samples.

    This is the condensed tree of HDBSCAN*: as the density (the inverse of a length)
    increases, samples leave a cluster until the remaining samples divide into two
    clusters. Nodes are numbered from 0, first the samples and then the clusters,
    starting with the root, which contains all samples.

    Attributes
    ----------
    parent : ndarray of shape (n_nodes - 1,), int64
        Parent cluster of each node except the root.
    child : ndarray of shape (n_nodes - 1,), int64
        Index of the node. Samples come first.
    density : ndarray of shape (n_nodes - 1,), float64
        Density at which the node leaves its parent, i.e. the inverse of the length of
        the merge (`lambda_val` in hdbscan). Zero for parts that are not connected by
        an edge, and infinite for equal samples.
    size : ndarray of shape (n_nodes - 1,), float64
        Sum of the weights of the samples of the node (`child_size` in hdbscan).
    n_samples : int
        Number of samples, which is also the index of the root.
    stability : ndarray of shape (n_clusters,), float64
        Excess of mass of each cluster, starting with the root: the sum over its samples
        of the density at which they leave it minus the density at which it appears.
    outlier_scores : ndarray of shape (n_samples,), float64
        GLOSH outlier scores between 0 and 1: one minus the ratio of the density at
        which the sample leaves its cluster to the largest finite density in that
        cluster and the clusters within it.

    See Also
    --------
    skdiffclust.SpanningForestClustering.condensed_tree : Condensed tree of a clusterer.

    References
    ----------
    .. [1] R. Campello, D. Moulavi, A. Zimek, J. Sander, "Hierarchical Density Estimates
       for Data Clustering, Visualization, and Outlier Detection", ACM Transactions on
       Knowledge Discovery from Data 10, 2015.

    Examples
    --------
    >>> from skdiffclust import SpanningForestClustering
    >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0], [40.0]]
    >>> tree = SpanningForestClustering(2).fit(X).condensed_tree(min_cluster_size=3)
    >>> tree.labels()
    array([ 0,  0,  0,  1,  1,  1, -1])
    >>> tree.child[tree.parent == tree.n_samples]  # what leaves the root
    array([6, 8, 9])
    >>> tree.stability[1:]  # three samples from 1 / 8 to 1
    array([2.625, 2.625])
    """

    parent: np.ndarray
    child: np.ndarray
    density: np.ndarray
    size: np.ndarray
    n_samples: int
    stability: np.ndarray
    outlier_scores: np.ndarray

    __repr__ = short_repr

    def to_frame(self) -> "pandas.DataFrame":
        """Return the tree as a table with a row for each node except the root.

        Returns
        -------
        pandas.DataFrame
            Columns "parent", "child", "density" and "size".

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = check_pandas_support("CondensedTree.to_frame")
        names = ("parent", "child", "density", "size")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    @validate_params(
        {"method": [StrOptions({"excess_of_mass", "leaf"})]},
        prefer_skip_nested_validation=True,
    )
    def labels(
        self, method: Literal["excess_of_mass", "leaf"] = "excess_of_mass"
    ) -> np.ndarray:
        """Select a flat clustering with noise, as HDBSCAN does.

        Parameters
        ----------
        method : {"excess_of_mass", "leaf"}, default="excess_of_mass"
            How clusters are selected. "excess_of_mass" maximises the sum of the
            stabilities of disjoint clusters, the root excluded. "leaf" selects the
            clusters that do not divide.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            Clusters in order of decreasing size, and -1 for samples that belong to none
            of the selected clusters.

        Notes
        -----
        The cost is O(n).
        """
        # The parent of each cluster, both numbered from 0.
        above = np.append(0, self.parent[self.n_samples :] - self.n_samples)
        taken = np.bincount(above, minlength=len(above)) == 0
        if method == "excess_of_mass":
            taken = _excess_of_mass(self.stability, above)
        # The first cluster taken that each one is a part of; parents come before.
        within = np.where(taken, np.arange(len(above)), -1)
        for cluster, parent in enumerate(above):
            if within[parent] >= 0:
                within[cluster] = within[parent]
        labels = within[self.parent[: self.n_samples] - self.n_samples]
        known = labels >= 0
        if known.any():
            numbers = np.unique(labels[known], return_inverse=True)[1]
            weights = self.size[: self.n_samples][known]
            labels[known] = relabel_by_size(numbers, weights)[0]
        return labels


def _excess_of_mass(stability, above):
    """Mark the clusters (n_clusters,) that are more stable than those within them.

    The first ones from the root down are the selection of the largest total stability.
    """
    within = np.zeros(len(above))
    taken = np.ones(len(above), dtype=bool)
    for cluster in range(len(above) - 1, 0, -1):
        # If both sums are equal, the larger cluster is taken.
        taken[cluster] = not within[cluster] > stability[cluster]
        within[above[cluster]] += max(within[cluster], stability[cluster])
    taken[0] = False
    return taken


def condense(linkage, min_cluster_size, weights=None):
    """Return the `CondensedTree` of a linkage matrix.

    Parameters
    ----------
    linkage : ndarray of shape (n_samples - 1, 4), float64
        As scipy's; lengths are >= 0, and infinite between parts that no edge joins.
    min_cluster_size : float
        At least 2: a cluster divides only into parts of this weight.
    weights : ndarray of shape (n_samples,), float64, default=None
        What `min_cluster_size` counts; None counts samples.

    Notes
    -----
    O(n) time and memory. Merges of length zero divide nothing: equal samples leave
    together, at an infinite density.
    """
    n_samples = len(linkage) + 1
    weights = np.ones(n_samples) if weights is None else weights.astype(np.float64)
    merges = np.ascontiguousarray(linkage[:, :2], dtype=np.int64)
    with np.errstate(divide="ignore", over="ignore"):
        density = 1.0 / linkage[:, 2]
    owner, left, size, parent, birth = _condense(
        merges, density, weights, float(min_cluster_size)
    )
    n_clusters = len(parent)
    rows = np.concatenate([owner, parent[1:]])
    densities = np.concatenate([left, birth[1:]])
    sizes = np.concatenate([weights, size[1:]])

    finite = np.where(np.isfinite(densities), densities, 0.0)
    last = np.zeros(n_clusters)
    np.maximum.at(last, rows, finite)
    for cluster in range(n_clusters - 1, 0, -1):
        above = parent[cluster]
        last[above] = max(last[above], last[cluster])

    # An infinite density counts as the largest finite one, or as the birth.
    counted = np.where(np.isfinite(densities), densities, last[rows])
    counted = np.maximum(counted, birth[rows])
    stability = np.bincount(
        rows, weights=(counted - birth[rows]) * sizes, minlength=n_clusters
    )
    densest = last[owner]
    scores = np.zeros(n_samples)
    sparse = left < densest
    scores[sparse] = 1.0 - left[sparse] / densest[sparse]
    return CondensedTree(
        rows + n_samples,
        np.delete(np.arange(n_samples + n_clusters), n_samples),
        densities,
        sizes,
        n_samples,
        stability,
        scores,
    )


@compiled_above_small
def _condense(merges, density, weights, min_size):
    """Walk down the merges (n - 1, 2), the shortest first.

    Returns for each sample the cluster that it leaves last and the density there,
    (n,), and for each cluster its weight, its parent and the density at which it
    appears, (n_clusters,); the parent of the root is -1.
    """
    n_merges = len(merges)
    n_samples = n_merges + 1
    below = np.zeros(n_samples + n_merges)
    for i in range(n_samples):  # assigned as arrays, these compile for seconds
        below[i] = weights[i]
    for t in range(n_merges):
        below[n_samples + t] = below[merges[t, 0]] + below[merges[t, 1]]
    cluster = np.zeros(n_samples + n_merges, dtype=np.int64)
    # Negative as long as the node is a part of its cluster.
    left = np.full(n_samples + n_merges, -1.0)
    # With weights, each sample may be a cluster.
    parent = np.full(2 * n_samples, -1)
    size = np.zeros(2 * n_samples)
    birth = np.zeros(2 * n_samples)
    size[0] = below[n_samples + n_merges - 1]
    n_clusters = 1
    for t in range(n_merges - 1, -1, -1):
        node = n_samples + t
        own = cluster[node]
        one = merges[t, 0]
        other = merges[t, 1]
        cluster[one] = own
        cluster[other] = own
        if left[node] >= 0.0 or density[t] == np.inf:
            gone = left[node] if left[node] >= 0.0 else density[t]
            left[one] = gone
            left[other] = gone
        elif below[one] >= min_size and below[other] >= min_size:
            for part in (one, other):
                cluster[part] = n_clusters
                parent[n_clusters] = own
                size[n_clusters] = below[part]
                birth[n_clusters] = density[t]
                n_clusters += 1
        else:
            if below[one] < min_size:
                left[one] = density[t]
            if below[other] < min_size:
                left[other] = density[t]
    for i in range(n_samples):
        if left[i] < 0.0:
            left[i] = np.inf
    return (
        cluster[:n_samples],
        left[:n_samples],
        size[:n_clusters],
        parent[:n_clusters],
        birth[:n_clusters],
    )
