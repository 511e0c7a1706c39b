"""Clusters of any shape: many memories, merged where samples lie between them.

The energy between two memories is low where samples lie, and a sample there is
attracted by both. The weight between two memories is therefore the attraction of
samples by both, and the groups are those of the smallest normalised cut of that graph,
as in spectral clustering with landmarks.
"""

import numpy as np
from scipy import sparse

from skdiffclust._kmeans import kmeans
from skdiffclust._neighbors import k_nearest

_MEMORIES = 300  # largest number of memories
_MEMBERS = 4  # samples for each memory, at least
_ATTRACTING = 5  # memories that attract a sample, the nearest ones
_SHARPNESS = 2.0  # inverse temperature times the squared distance to the last of them
_UNUSED = 1e-300  # size of a memory that attracts no sample


def find_basins(Z, rows, weight, n_clusters, n_init, random_state):
    """Return labels (n,) of samples Z (n, d), of at most `n_clusters` clusters.

    The memories are centres of k-means among the samples `rows` (m,), of positive
    weights (n,). A sample belongs to the group of memories that attracts it most. Fewer
    clusters are found if fewer samples differ.
    """
    weight = weight[rows]
    n_memories = max(n_clusters, min(_MEMORIES, len(rows) // _MEMBERS))
    seeds, _, _ = kmeans(Z[rows], weight, n_memories, 1, random_state)
    memories = np.unique(seeds[0], axis=0)
    shares = attraction(Z[rows], memories)
    coordinates, sizes = embed_memories(shares, weight, n_clusters)
    n_groups = min(n_clusters, len(sizes))
    _, costs, labels = kmeans(coordinates, sizes, n_groups, n_init, random_state)
    groups = np.unique(labels[np.argmin(costs)], return_inverse=True)[1]
    members = np.eye(groups.max() + 1)[groups]
    return (attraction(Z, memories) @ members).argmax(axis=1)


def attraction(Z, memories):
    """Return the shares (n, m), CSR, of memories (m, d) in the attraction of Z (n, d).

    The softmax of minus β times the squared distances to the nearest memories, where β
    is a constant divided by the largest of these, less the smallest, so that a varying
    density has no effect. Rows sum to one.
    """
    n_near = min(_ATTRACTING, len(memories))
    near, far = k_nearest(memories, Z, n_near)
    far = np.square(far) - np.square(far[:, :1])
    last = far[:, -1:]
    share = np.exp(-_SHARPNESS * far / np.where(last > 0, last, 1.0))
    share /= share.sum(axis=1, keepdims=True)
    edges = np.arange(0, share.size + 1, n_near)
    shape = len(Z), len(memories)
    return sparse.csr_array((share.ravel(), near.ravel(), edges), shape=shape)


def embed_memories(shares, weight, n_clusters):
    """Return coordinates (m, k) of memories, of unit length, and their sizes (m,).

    The coordinates are the leading eigenvectors of the normalised graph of the joint
    attraction of samples by shares (n, m): the relaxation of its least normalised cut.
    """
    sizes = weight @ shares
    scaled = sparse.csr_array(
        shares @ sparse.diags_array(1.0 / np.sqrt(np.maximum(sizes, _UNUSED)))
    )
    graph = (scaled.T @ sparse.diags_array(weight) @ scaled).toarray()
    _, vectors = np.linalg.eigh(graph)
    vectors = vectors[:, ::-1][:, :n_clusters]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0), sizes
