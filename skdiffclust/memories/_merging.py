"""The number of clusters: start with too many memories, and merge them one by one."""

import numpy as np

from skdiffclust.memories._seeding import nearest_memory, seed_memories

_MOST = 40  # memories to start from
_SETTLING_STEPS = 3
_RESTARTS = 3


def merging_path(Z, weight, n_most, random_state):
    """Return the margin (m,) for each number of memories (m,), from most to two.

    Z (n, d) are samples in training units. The two memories that merge are those whose
    union costs least (Ward's rule), and a few of Lloyd's steps follow. The margin is
    the mean of ``1 - d1 / d2`` over samples, d1 and d2 being the distances to the
    nearest and the second nearest memory: the silhouette, with centres in place of
    clusters.
    """
    seeds, costs = seed_memories(
        Z, weight, n_most, "k-means++", _RESTARTS, random_state
    )
    memories = seeds[int(np.argmin(costs))].astype(np.float64)
    numbers = []
    margins = []
    while len(memories) > 1:
        memories, sizes = _lloyd(Z, weight, memories)
        if len(memories) < 2:
            break
        numbers.append(len(memories))
        margins.append(_margin(Z, weight, memories))
        memories = _merge_cheapest(memories, sizes)
    return np.array(numbers, dtype=np.int64), np.array(margins)


def count_clusters(Z, weight, random_state):
    """Return the number of clusters of largest margin; 1 if all samples are equal."""
    n_rows = len(Z)
    n_most = int(min(_MOST, max(2, np.sqrt(n_rows)), n_rows))
    if n_rows == 1:
        return 1
    numbers, margins = merging_path(Z, weight, n_most, random_state)
    return int(numbers[np.argmax(margins)]) if len(numbers) else 1


def _lloyd(Z, weight, memories):
    """Return memories (m, d) and sizes after some of Lloyd's steps, none empty."""
    for _ in range(_SETTLING_STEPS):
        nearest, _ = nearest_memory(Z, memories)
        members = np.zeros((len(memories), len(Z)))
        members[nearest, np.arange(len(Z))] = weight
        sizes = members.sum(axis=1)
        occupied = sizes > 0
        sizes = sizes[occupied]
        memories = (members @ Z)[occupied] / sizes[:, None]
    return memories, sizes


def _margin(Z, weight, memories):
    """Return the weighted mean of 1 - d1 / d2 over samples."""
    norms = np.einsum("kj,kj->k", memories, memories)
    squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)[:, None]
    far = np.sqrt(np.maximum(squares + norms - 2.0 * (Z @ memories.T), 0.0))
    first, second = np.partition(far, 1, axis=1)[:, :2].T
    ratio = np.divide(first, second, out=np.ones_like(first), where=second > 0)
    return float(weight @ (1.0 - ratio)) / float(weight.sum())


def _merge_cheapest(memories, sizes):
    """Return memories (m - 1, d): the pair of least cost is replaced by its mean."""
    norms = np.einsum("kj,kj->k", memories, memories)
    gaps = norms[:, None] + norms - 2.0 * memories @ memories.T
    cost = gaps * (sizes[:, None] * sizes) / (sizes[:, None] + sizes)
    np.fill_diagonal(cost, np.inf)
    a, b = np.unravel_index(np.argmin(cost), cost.shape)
    mean = (sizes[a] * memories[a] + sizes[b] * memories[b]) / (sizes[a] + sizes[b])
    kept = np.delete(memories, b, axis=0)
    kept[a - (a > b)] = mean
    return kept
