"""Clusters of any shape: many memories, merged where samples lie between them.

The energy between two memories is low where samples lie, and a sample there is
attracted by both. The weight between two memories is therefore the attraction of
samples by both, and the groups are those of the smallest normalised cut of that graph.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from skdiffclust._assignments import order_by_size
from skdiffclust.memories._counting import (
    N_REFERENCES,
    CountCurve,
    gaussian_references,
)
from skdiffclust.memories._scaling import directions
from skdiffclust.memories._seeding import member_sums, on_sphere, seed_memories

_ATTRACTING = 5  # memories that attract a sample, the nearest ones
_SHARPNESS = 2.0  # inverse temperature times the squared distance to the last of them
_RESTARTS = 10  # of k-means among the coordinates of memories
_DISTANCE_BLOCK_ENTRIES = 2**21
_MOST = 40  # clusters that are counted, at most
_DRAWS = 10  # of memories, among whose basins clusters are counted
# Clear are basins that last over a larger share of scales than those of one Gaussian,
# by this difference, or samples that are one basin over less than the second share.
_CLEAR = 0.15
_ONE = 0.5
_REFERENCE_DRAWS = 2  # of memories of each sample without clusters
_SCALES = 400  # numbers of steps of a walk at which basins are counted


@dataclass(frozen=True)
class Basins:
    """Memories and the clusters that they are merged into."""

    memories: np.ndarray  # (m, d), float64
    groups: np.ndarray  # (m,), int64: cluster of each memory
    n_groups: int
    is_spherical: bool

    def assign(self, X):
        """Return the cluster (n,) that attracts each of samples X (n, d) most."""
        return self.shares(X).argmax(axis=1)

    def shares(self, X):
        """Return the attraction (n, k) of samples X (n, d) by each cluster."""
        members = np.eye(self.n_groups)[self.groups]
        return attraction(self._enter(X), self.memories)[0] @ members

    def distances(self, X):
        """Return distances (n, k) of X (n, d) to the nearest memory of each cluster."""
        far = np.empty((len(X), self.n_groups))
        metric = "cosine" if self.is_spherical else "euclidean"
        for group in range(self.n_groups):
            own = self.memories[self.groups == group]
            step = max(1, _DISTANCE_BLOCK_ENTRIES // len(own))
            for start in range(0, len(X), step):
                rows = slice(start, start + step)
                far[rows, group] = cdist(X[rows], own, metric).min(axis=1)
        return far

    def centers(self, X, weight, labels):
        """Return the means (k, d) of samples X (n, d) of each cluster."""
        sums = member_sums(self._enter(X), weight, labels, self.n_groups)
        sizes = np.bincount(labels, weight, minlength=self.n_groups)
        means = sums / np.where(sizes > 0, sizes, 1.0)[:, None]
        for group in np.flatnonzero(sizes == 0):
            means[group] = self.memories[self.groups == group].mean(axis=0)
        return on_sphere(means) if self.is_spherical else means

    def _enter(self, X):
        """Return samples (n, d), float64, in the space of the memories."""
        X = X.astype(np.float64, copy=False)
        return directions(X) if self.is_spherical else X


def attraction(Z, memories):
    """Return the shares (n, m), CSR, of memories (m, d) in the attraction of Z (n, d),
    and the largest squared distance (n,) that counts.

    The softmax of minus β times the squared distances to the nearest memories, where β
    is a constant divided by the largest of these, less the smallest, so that a varying
    density has no effect. Rows sum to one.
    """
    n_near = min(_ATTRACTING, len(memories))
    near = np.empty((len(Z), n_near), dtype=np.int64)
    share = np.empty((len(Z), n_near))
    scale = np.empty(len(Z))
    step = max(1, _DISTANCE_BLOCK_ENTRIES // len(memories))
    for start in range(0, len(Z), step):
        rows = slice(start, start + step)
        far = cdist(Z[rows], memories, "sqeuclidean")
        near[rows] = np.argpartition(far, n_near - 1, axis=1)[:, :n_near]
        far = np.take_along_axis(far, near[rows], axis=1)
        far -= far.min(axis=1, keepdims=True)
        scale[rows] = far.max(axis=1)
        far /= np.where(scale[rows] > 0, scale[rows], 1.0)[:, None]
        share[rows] = np.exp(-_SHARPNESS * far)
    share /= share.sum(axis=1, keepdims=True)
    edges = np.arange(0, share.size + 1, n_near)
    shape = len(Z), len(memories)
    return sparse.csr_array((share.ravel(), near.ravel(), edges), shape=shape), scale


def find_basins(X, weight, n_clusters, n_memories, random_state, *, spherical=False):
    """Return the `Basins` of samples X (n, d) with weights (n,), largest first, their
    labels (n,), the inverse temperature that is their mean, and the `CountCurve` of
    persistence, None if the number of clusters is given.
    """
    basins = Basins(np.zeros((1, X.shape[1])), np.zeros(1, np.int64), 1, spherical)
    Z = basins._enter(X)
    counts = n_clusters == "auto"
    seeds, _ = seed_memories(
        Z,
        weight,
        n_memories,
        "k-means++",
        _DRAWS if counts else 1,
        random_state,
        spherical=spherical,
    )
    memories = np.unique(seeds[0].astype(np.float64), axis=0)
    shares, scale = attraction(Z, memories)
    is_used = weight @ shares > 0
    memories = memories[is_used]
    shares = shares[:, np.flatnonzero(is_used)]
    curve = None
    if counts:
        drawn = [np.unique(other.astype(np.float64), axis=0) for other in seeds[1:]]
        others = [attraction(Z, other)[0] for other in drawn]
        draws = [shares, *others]
        curve = count_basins(draws, Z, weight, n_memories, random_state)
        n_clusters = curve.best
    groups = merge_memories(shares, weight, n_clusters, random_state)
    basins = replace(
        basins, memories=memories, groups=groups, n_groups=groups.max() + 1
    )
    order = order_by_size(basins.assign(X), basins.n_groups)
    basins = replace(basins, groups=np.argsort(order)[groups])
    width = float(weight @ scale) / float(weight.sum())
    inverse_temperature = _SHARPNESS / width if width > 0 else _SHARPNESS
    return basins, basins.assign(X), inverse_temperature, curve


def persistence(draws, weight):
    """Return the share of scales (41,) at which there are 0, 1, 2, ... basins.

    `draws` are shares (n, m) of samples, each for other memories. A random walk of t
    steps from memory to memory, by the samples that they share, has the eigenvalues of
    the graph to the power of t. At a scale t there are as many basins as eigenvalues
    before the largest gap; scales are log t, from one step to a thousand, in all draws.
    """
    lasting = np.zeros(_MOST + 1)
    for shares in draws:
        shares = shares[:, np.flatnonzero(weight @ shares > 0)]
        n_values = min(_MOST + 1, shares.shape[1])
        if n_values < 3:
            lasting[n_values] += _SCALES
            continue
        graph = _graph(shares, weight, weight @ shares)
        values = np.linalg.eigvalsh(graph)[::-1][:n_values]
        powers = np.clip(values, 0.0, 1.0)[:, None] ** np.logspace(0, 3, _SCALES)
        found = np.argmax(powers[:-1] - powers[1:], axis=0) + 1
        lasting += np.bincount(found, minlength=len(lasting))
    return lasting / (len(draws) * _SCALES)


def count_basins(draws, Z, weight, n_memories, random_state):
    """Return the `CountCurve` of persistence, by draws of shares of samples Z (n, d).

    The number that persists longest is at least two, unless there is one memory.
    """
    if draws[0].shape[1] == 1:
        return CountCurve.single()
    lasting = persistence(draws, weight)
    reference = np.zeros(len(lasting))
    for rows in gaussian_references(Z, weight, random_state):
        equal = np.ones(len(rows))
        most = min(n_memories, len(rows))
        seeds, _ = seed_memories(
            rows, equal, most, "k-means++", _REFERENCE_DRAWS, random_state
        )
        draws = [attraction(rows, one)[0] for one in seeds]
        reference += persistence(draws, equal) / N_REFERENCES
    numbers = np.arange(2, len(lasting))
    best = 2 + int(np.argmax(lasting[2:]))
    excess = lasting[best] - reference[best]
    finding = (
        f"there is one basin over {lasting[1]:.2f} of the scales, and there are {best} "
        f"over {lasting[best]:.2f} of them, for one Gaussian {reference[best]:.2f}"
    )
    is_clear = bool(lasting[1] < _ONE or excess > _CLEAR)
    return CountCurve(best, numbers, lasting[2:], reference[2:], is_clear, finding)


def merge_memories(shares, weight, n_clusters, random_state):
    """Return the group (m,), from 0, of each memory by shares (n, m) of samples."""
    if n_clusters == 1 or shares.shape[1] == 1:
        return np.zeros(shares.shape[1], dtype=np.int64)
    coordinates, sizes = embed_memories(shares, weight, n_clusters)
    centers, costs = seed_memories(
        coordinates,
        sizes,
        min(n_clusters, len(sizes)),
        "k-means++",
        _RESTARTS,
        random_state,
    )
    groups = cdist(coordinates, centers[int(np.argmin(costs))]).argmin(axis=1)
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def embed_memories(shares, weight, n_clusters):
    """Return coordinates (m, k) of memories, of unit length, and their sizes (m,).

    The leading eigenvectors of the normalised graph of the joint attraction of samples
    by shares (n, m): the relaxation of its least normalised cut.
    """
    sizes = weight @ shares
    _, vectors = np.linalg.eigh(_graph(shares, weight, sizes))
    vectors = vectors[:, ::-1][:, :n_clusters]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0), sizes


def _graph(shares, weight, sizes):
    """Return the normalised graph (m, m) of the joint attraction of samples."""
    scaled = sparse.csr_array(shares @ sparse.diags_array(1.0 / np.sqrt(sizes)))
    return (scaled.T @ sparse.diags_array(weight) @ scaled).toarray()
