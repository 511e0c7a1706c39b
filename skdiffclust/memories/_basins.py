"""Clusters of any shape: many memories, merged where samples lie between them.

The energy between two memories is low where samples lie, and a sample there is
attracted by both. The weight between two memories is therefore the attraction of
samples by both, and the groups are those of the smallest normalised cut of that graph.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.utils import check_array, check_random_state

from skdiffclust._affinity import refuse_overflow
from skdiffclust._assignments import order_by_size
from skdiffclust._compat import check_sample_weight

_ATTRACTING = 5  # memories that attract a sample, the nearest ones
_SHARPNESS = 2.0  # inverse temperature times the squared distance to the last of them
_MEMBERS = 4  # samples for each memory, at least
_DISTANCE_BLOCK_ENTRIES = 2**21


@dataclass(frozen=True)
class Basins:
    """Memories and the clusters that they are merged into.

    Attributes
    ----------
    memories : ndarray of shape (n_memories, n_features), float64
        The memories; fewer than requested if samples are equal.
    memory_labels : ndarray of shape (n_memories,), int64
        Cluster of each memory.
    labels : ndarray of shape (n_samples,), int64
        Clusters of the samples, by decreasing size.
    """

    memories: np.ndarray
    memory_labels: np.ndarray
    labels: np.ndarray

    def predict(self, X):
        """Return the cluster that attracts each sample most.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            Clusters.
        """
        X = check_array(X, dtype=np.float64)
        members = np.eye(self.memory_labels.max() + 1)[self.memory_labels]
        return (attraction(X, self.memories) @ members).argmax(axis=1)


def find_basins(
    X, n_clusters, *, n_memories=200, n_init=10, sample_weight=None, random_state=None
):
    """Find clusters of any shape by merging the basins of many memories.

    The memories are the centres of k-means. A sample is attracted by the five nearest,
    at an inverse temperature that is determined for each sample, and memories that
    attract the same samples are merged by the normalised cut of their graph, as in
    spectral clustering with landmarks.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples.
    n_clusters : int
        Number of clusters. Fewer are found if fewer samples differ.
    n_memories : int, default=200
        Number of memories, at most one for every four samples. Several should lie
        across the thinnest cluster.
    n_init : int, default=10
        Number of restarts of the division of the graph of memories.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Weight of each sample. None is one for each.
    random_state : int, RandomState instance or None, default=None
        Determines the initial memories.

    Returns
    -------
    basins : Basins
        With `memories`, `memory_labels`, `labels`, and `predict` for new samples.

    Raises
    ------
    ValueError
        If an argument is invalid.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from skdiffclust.memories import find_basins
    >>> X, y = make_moons(300, noise=0.05, random_state=0)
    >>> basins = find_basins(X, 2, n_memories=60, random_state=0)
    >>> [int(sum(basins.labels == cluster)) for cluster in range(2)]
    [150, 150]
    """
    X = check_array(X, dtype=np.float64)
    refuse_overflow([X])
    if not 1 <= n_clusters <= len(X):
        raise ValueError(
            "The 'n_clusters' parameter of find_basins must be at least 1 and at most "
            f"the number of samples, {len(X)}. Got {n_clusters} instead. Use fewer "
            "clusters."
        )
    weight = check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    random_state = check_random_state(random_state)
    # numba is imported here, because it would slow down the import of the package.
    from skdiffclust._kmeans import kmeans

    n_memories = max(n_clusters, min(n_memories, len(X) // _MEMBERS))
    seeds, _, _ = kmeans(X, weight, n_memories, 1, random_state)
    memories = np.unique(seeds[0], axis=0)
    shares = attraction(X, memories)
    is_used = weight @ shares > 0
    memories = memories[is_used]
    shares = shares[:, np.flatnonzero(is_used)]
    groups = merge_memories(shares, weight, n_clusters, n_init, random_state)
    labels = (shares @ np.eye(groups.max() + 1)[groups]).argmax(axis=1)
    order = order_by_size(labels, groups.max() + 1, weight)
    rank = np.argsort(order)
    return Basins(memories, rank[groups], rank[labels])


def attraction(Z, memories):
    """Return the shares (n, m), CSR, of memories (m, d) in the attraction of Z (n, d).

    The softmax of minus β times the squared distances to the nearest memories, where β
    is a constant divided by the largest of these, less the smallest, so that a varying
    density has no effect. Rows sum to one.
    """
    n_near = min(_ATTRACTING, len(memories))
    near = np.empty((len(Z), n_near), dtype=np.int64)
    share = np.empty((len(Z), n_near))
    step = max(1, _DISTANCE_BLOCK_ENTRIES // len(memories))
    for start in range(0, len(Z), step):
        rows = slice(start, start + step)
        far = cdist(Z[rows], memories, "sqeuclidean")
        near[rows] = np.argpartition(far, n_near - 1, axis=1)[:, :n_near]
        far = np.take_along_axis(far, near[rows], axis=1)
        far -= far.min(axis=1, keepdims=True)
        last = far.max(axis=1, keepdims=True)
        share[rows] = np.exp(-_SHARPNESS * far / np.where(last > 0, last, 1.0))
    share /= share.sum(axis=1, keepdims=True)
    edges = np.arange(0, share.size + 1, n_near)
    shape = len(Z), len(memories)
    return sparse.csr_array((share.ravel(), near.ravel(), edges), shape=shape)


def merge_memories(shares, weight, n_clusters, n_init, random_state):
    """Return the group (m,), from 0, of each memory by shares (n, m) of samples."""
    from skdiffclust._kmeans import kmeans

    coordinates, sizes = embed_memories(shares, weight, n_clusters)
    n_groups = min(n_clusters, len(sizes))
    _, costs, labels = kmeans(coordinates, sizes, n_groups, n_init, random_state)
    groups = labels[int(np.argmin(costs))]
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def embed_memories(shares, weight, n_clusters):
    """Return coordinates (m, k) of memories, of unit length, and their sizes (m,).

    The leading eigenvectors of the normalised graph of the joint attraction of samples
    by shares (n, m): the relaxation of its least normalised cut.
    """
    sizes = weight @ shares
    scaled = sparse.csr_array(shares @ sparse.diags_array(1.0 / np.sqrt(sizes)))
    graph = (scaled.T @ sparse.diags_array(weight) @ scaled).toarray()
    _, vectors = np.linalg.eigh(graph)
    vectors = vectors[:, ::-1][:, :n_clusters]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0), sizes
