"""Initial memories: the best of several k-means, Euclidean or on the sphere."""

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from skdiffclust._kmeans import (
    TOLERANCE,
    kmeans,
    lloyd,
    means_of,
    nearest_center,
    squared_distances,
    take,
)

# Samples used in seeding, racing and selection; more would change little.
MAX_ROWS = 8192
_EXCHANGED = 4  # largest number of memories that are moved at once
_EXCHANGE_STEPS = (4, 16)  # of Lloyd, before and after the cost is compared
_HOPELESS = 1.005  # relative cost above which an exchange is abandoned
_SINGLE = (4, 16)  # fewest and most ways to move one memory that are tried,
_SOURCES = 4  # memories of least use that are moved,
_SURE = 3.0  # times the gain of dividing a cluster: least cost of uniting two
_AXES = 64  # features up to which clusters have principal axes
_PRODUCTS = 200_000  # of about so many products of entries in all
_REASSIGNED = 500  # samples up to which single ones change their cluster
_GAIN = 1e-6  # smallest relative gain of an exchange that is kept


def sample_rows(sample_weight, random_state):
    """Return at most MAX_ROWS samples of positive weight, sorted."""
    rows = np.flatnonzero(sample_weight > 0)
    if len(rows) > MAX_ROWS:
        rows = np.sort(random_state.choice(rows, MAX_ROWS, replace=False))
    return rows


def seed_memories(
    Z,
    weight,
    n_clusters,
    init,
    n_init,
    random_state,
    *,
    spherical=False,
    tol=TOLERANCE,
):
    """Return memories (n_init, k, d) and the cost (n_init,) of each restart.

    Z (m, d), dense or CSR, are samples in training units with weights (m,); with
    `spherical` they are of unit length, and so are the memories. "k-means++" settles
    its seeds by Lloyd's steps, which are the gradient steps of eq. (8) in the limit of
    a high inverse temperature: soft steps from raw seeds lose memories, steps from
    settled ones do not; a restart ends when its cost falls by less than `tol` of
    itself. "random" takes samples without any steps.
    """
    if init == "random":
        seeds = _random_rows(Z, weight, n_clusters, n_init, random_state)
        memories, costs, _ = lloyd(Z, weight, seeds, 0, spherical=spherical)
    else:
        memories, costs, _ = kmeans(
            Z, weight, n_clusters, n_init, random_state, tol=tol, spherical=spherical
        )
    return memories.astype(Z.dtype), costs


def _random_rows(Z, weight, n_clusters, n_init, random_state):
    """Return distinct rows (n_init, k, d) of Z (m, d), dense float64, by weight."""
    share = weight / weight.sum()
    chosen = [
        random_state.choice(len(share), n_clusters, replace=False, p=share)
        for _ in range(n_init)
    ]
    return take(Z, np.stack(chosen))


def exchange(Z, weight, memories, cost, random_state, *, spherical=False):
    """Return memories (k, d) of no higher cost on Z (m, d), their cost, and whether the
    clusters are so far apart that no other place of one memory lowers it.

    Memories whose samples are almost as near to another one are moved into the clusters
    of the largest cost, and Lloyd's steps follow; moves that do not lower the cost are
    undone, and fewer memories are moved the next time, a single one in several ways at
    once. This corrects an error that restarts share: two memories in one group of
    samples, and one for two groups.
    """
    n_moved = min(_EXCHANGED, len(memories) // 2)
    n_single = int(np.clip(_PRODUCTS // (memories.size * Z.shape[0]), *_SINGLE))
    options = {"tol": TOLERANCE, "spherical": spherical}
    few, more = _EXCHANGE_STEPS
    is_best = False
    while n_moved and cost > 0.0:
        near = _two_nearest(Z, memories)
        is_best = _has_no_better_place(Z, weight, memories, near, spherical)
        if is_best:
            break
        n_trials = n_single if n_moved == 1 else 1
        trials = _moved(Z, weight, memories, near, n_moved, n_trials, random_state)
        trials, costs, _ = lloyd(Z, weight, trials, few, **options)
        trials = trials[costs < _HOPELESS * cost]
        trials, costs, _ = lloyd(Z, weight, trials, more, **options)
        if (costs < (1.0 - _GAIN) * cost).any():
            best = int(np.argmin(costs))
            memories = trials[best]
            cost = float(costs[best])
        else:
            n_moved //= 2
    if Z.shape[0] <= _REASSIGNED and not spherical:
        memories, cost = reassign(Z, weight, memories, cost)
    return memories, cost, is_best


def _two_nearest(Z, memories):
    """Return the nearest memory (m,), and squared distances to it and to the next."""
    far = squared_distances(Z, memories)
    first, second = np.partition(far, 1, axis=1)[:, :2].T
    return far.argmin(axis=1), first, second


def reassign(Z, weight, memories, cost):
    """Return memories (k, d) of no higher cost on Z (m, d), and their cost.

    Samples change their cluster one by one where that lowers the cost of clusters whose
    means follow (Hartigan's rule), which is possible after Lloyd's steps have ended.
    """
    rows = np.arange(Z.shape[0])
    labels, _ = nearest_center(Z, memories)
    for _ in rows:
        means, sizes = means_of(Z, weight, labels, memories)
        far = squared_distances(Z, means)
        left = sizes[labels] - weight
        share = np.divide(sizes[labels], left, out=np.zeros(len(rows)), where=left > 0)
        saved = weight * share * far[rows, labels]
        far *= weight[:, None] * sizes / (sizes + weight[:, None])
        far[rows, labels] = np.inf
        gain = saved - far.min(axis=1)
        moved = int(np.argmax(gain))
        if gain[moved] <= _GAIN * cost:
            break
        labels[moved] = far[moved].argmin()
    means, _ = means_of(Z, weight, labels, memories)
    lower = float(weight @ squared_distances(Z, means)[rows, labels])
    return (means, lower) if lower < cost else (memories, cost)


def _has_no_better_place(Z, weight, memories, near, spherical):
    """Return whether uniting any two clusters costs much more than dividing one gains.

    `near` is what `_two_nearest` returns for Z (m, d) and memories (k, d). The gain is
    at most the sum of squares along the first principal axis of a cluster. Other
    clusters adapt to a move, so that it must be several times smaller than the cost.
    """
    k, d = memories.shape
    nearest, first, _ = near
    # On the sphere the cost falls with the length of the sum of a cluster's samples.
    size = weight * (1.0 - 0.5 * first) if spherical else weight
    rise = _least_union(memories, np.bincount(nearest, size, minlength=k)) / _SURE
    error = np.bincount(nearest, weight * first, minlength=k)
    if rise > error.max():
        return True
    if rise * d <= error.max() or d > _AXES or spherical or sparse.issparse(Z):
        return False
    for m in np.flatnonzero(error >= rise):
        own = nearest == m
        gaps = Z[own] - memories[m]
        squares = (weight[own, None] * gaps).T @ gaps
        if np.linalg.eigvalsh(squares)[-1] >= rise:
            return False
    return True


def _moved(Z, weight, memories, near, n_moved, n_trials, random_state):
    """Return memories (t, k, d) of which some are moved, another way in each trial.

    `near` is what `_two_nearest` returns for Z (m, d) and memories (k, d).
    """
    k = len(memories)
    nearest, first, second = near
    error = np.bincount(nearest, weight * first, minlength=k)
    use = np.bincount(nearest, weight * (second - first), minlength=k)
    skipped = np.zeros(n_trials, dtype=np.int64)
    if n_moved == 1:
        skipped = np.arange(n_trials) // 2 % min(k - 1, _SOURCES)
    sources = np.argsort(use, kind="stable")[skipped[:, None] + np.arange(n_moved)]
    left = np.tile(error, (n_trials, 1))
    np.put_along_axis(left, sources, -np.inf, axis=1)
    targets = np.argsort(-left, axis=1, kind="stable")[:, :n_moved]
    drawn = random_state.uniform(size=targets.shape)
    rows = np.empty(targets.shape, dtype=np.int64)
    for target in np.unique(targets):
        mass = np.cumsum(np.where(nearest == target, weight * first, 0.0))
        here = targets == target
        found = np.searchsorted(mass, drawn[here] * mass[-1], side="right")
        rows[here] = np.minimum(found, len(mass) - 1)
    trials = np.tile(memories, (n_trials, 1, 1))
    trials[np.arange(n_trials)[:, None], sources] = take(Z, rows)
    return trials


def _least_union(memories, sizes):
    """Return the least rise of the cost if two of the memories (k, d) become one.

    Ward's rule for sizes (k,), at most the rise on the sphere for lengths of sums.
    """
    used = sizes > 0
    memories, sizes = memories[used], sizes[used]
    if len(sizes) < len(used):
        return 0.0
    gaps = cdist(memories, memories, "sqeuclidean")
    gaps *= sizes[:, None] * sizes / (sizes[:, None] + sizes)
    np.fill_diagonal(gaps, np.inf)
    return gaps.min()
