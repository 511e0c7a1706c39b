"""Connected components of a graph: which are clusters, and where the others go.

Separate from `_starts`, because it only needs the graph.
"""

import numpy as np
from scipy.sparse.csgraph import connected_components

# A part smaller than this, relative to the mean size of a cluster, is not a cluster.
_LEAST_PART = 0.1


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

    Largest part first, each to the cluster that is smallest so far.
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


def place_small(labels, small, parts, sizes, X=None):
    """Return labels (n,) that assign small parts to clusters as well.

    With samples X (n, d) a part goes to the cluster of the sample that is nearest to
    any of its own, without to the largest cluster. Bounds on sizes are not considered.

    Parameters
    ----------
    labels : ndarray of shape (n,), int64
        Of all nodes that are not small.
    small : ndarray of shape (n,), bool
    parts, sizes : ndarrays of shape (n,)
    X : ndarray of shape (n, d) or None
    """
    nodes = np.flatnonzero(small)
    kept = np.flatnonzero(~small)
    largest = np.bincount(labels[kept], sizes[kept]).argmax()
    target = np.full(int(parts.max()) + 1, largest)
    if X is not None:
        from skdiffclust._neighbors import nearest_sample

        nearest, distances = nearest_sample(X[kept], X[nodes])
        order = np.argsort(-distances, kind="stable")  # the nearest is written last
        target[parts[nodes[order]]] = labels[kept[nearest[order]]]
    return np.where(small, target[parts], labels)
