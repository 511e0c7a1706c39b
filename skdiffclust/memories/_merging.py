"""The number of clusters: start with too many memories, and merge them one by one."""

import numpy as np

from skdiffclust._kmeans import kmeans, lloyd, squared_distances
from skdiffclust.memories._counting import CountCurve, gaussian_references

_MOST = 40  # memories to start from
_SETTLING_STEPS = 3
_RESTARTS = 3
# Least odds of the best margin, times those of one Gaussian, that are clear. Uniform
# samples have up to 1.36; the difference of margins is small in many dimensions.
_CLEAR = 1.4
_TINY = 1e-6


def merging_path(Z, weight, n_most, random_state):
    """Return the margin (m,) for each number of memories (m,), from most to two.

    Z (n, d), dense or CSR, are samples in training units. The two memories that merge
    are those whose union costs least (Ward's rule), and a few of Lloyd's steps follow.
    The margin is the mean of ``1 - d1 / d2`` over samples, d1 and d2 being the
    distances to the nearest and the second nearest memory: the silhouette, with centres
    in place of clusters.
    """
    seeds, costs, _ = kmeans(Z, weight, n_most, _RESTARTS, random_state)
    memories = seeds[int(np.argmin(costs))]
    numbers = []
    margins = []
    while len(memories) > 1:
        memories, sizes = _settle(Z, weight, memories)
        if len(memories) < 2:
            break
        numbers.append(len(memories))
        margins.append(_margin(Z, weight, memories))
        memories = _merge_cheapest(memories, sizes)
    return np.array(numbers, dtype=np.int64), np.array(margins)


def count_clusters(Z, weight, random_state):
    """Return the `CountCurve` of margins of samples Z (n, d); 1 if all are equal."""
    n_rows = Z.shape[0]
    n_most = int(min(_MOST, max(2, np.sqrt(n_rows)), n_rows))
    if n_rows == 1:
        return CountCurve.single()
    numbers, margins = merging_path(Z, weight, n_most, random_state)
    if not len(numbers):
        return CountCurve.single()
    numbers = numbers[::-1]
    margins = margins[::-1]
    references = []
    for rows in gaussian_references(Z, weight, random_state):
        path = merging_path(rows, np.ones(len(rows)), n_most, random_state)
        references.append(np.interp(numbers, path[0][::-1], path[1][::-1]))
    reference = np.mean(references, axis=0)
    # Dividing by the root is between the score alone, which prefers two clusters where
    # they overlap, and the ratio to one Gaussian, which prefers many.
    at = int(np.argmax(_odds(margins) / np.sqrt(_odds(reference))))
    odds = _odds(margins[at]) / _odds(reference[at])
    finding = (
        f"the odds of the score of {numbers[at]} clusters are {odds:.3g} times those "
        f"for one Gaussian, and data without clusters reach {_CLEAR:g}"
    )
    is_clear = bool(odds > _CLEAR)
    return CountCurve(int(numbers[at]), numbers, margins, reference, is_clear, finding)


def _odds(margin):
    """Return the odds of a margin, bounded where a memory has each sample."""
    return (margin + _TINY) / (1.0 - margin + _TINY)


def _settle(Z, weight, memories):
    """Return memories (m, d) and sizes after some of Lloyd's steps, none empty."""
    (memories,), _, (labels,) = lloyd(Z, weight, memories[None], _SETTLING_STEPS)
    sizes = np.bincount(labels, weight, minlength=len(memories))
    occupied = sizes > 0
    return memories[occupied], sizes[occupied]


def _margin(Z, weight, memories):
    """Return the weighted mean of 1 - d1 / d2 over samples."""
    far = np.sqrt(squared_distances(Z, memories))
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
