"""Initial memories: the best of several k-means, Euclidean or on the sphere."""

import numpy as np

from skdiffclust._kmeans import TOLERANCE, lloyd, squared_distances, take

# Samples used in seeding, racing and selection; more would change little.
MAX_ROWS = 8192
_EXCHANGED = 4  # largest number of memories that are moved at once
_EXCHANGE_STEPS = (4, 16)  # of Lloyd, before and after the cost is compared
_HOPELESS = 1.005  # relative cost above which an exchange is abandoned
_SINGLE = (4, 8)  # fewest and most ways to move a single memory that are tried
_PRODUCTS = 200_000  # approximate number of products of entries of these ways together
_SOURCES = 4  # memories of least use, one of which is moved
_GAIN = 1e-6  # smallest relative gain of an exchange that is kept


def sample_rows(sample_weight, random_state):
    """Return at most MAX_ROWS samples of positive weight, sorted."""
    rows = np.flatnonzero(sample_weight > 0)
    if len(rows) > MAX_ROWS:
        rows = np.sort(random_state.choice(rows, MAX_ROWS, replace=False))
    return rows


def random_rows(Z, weight, n_clusters, n_init, random_state):
    """Return distinct rows (n_init, k, d) of Z (m, d), dense float64, by weight."""
    share = weight / weight.sum()
    chosen = [
        random_state.choice(len(share), n_clusters, replace=False, p=share)
        for _ in range(n_init)
    ]
    return take(Z, np.stack(chosen))


def exchange(Z, weight, memories, cost, random_state, *, spherical=False):
    """Return memories (k, d) of no higher cost on Z (m, d), and their cost.

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
    while n_moved and cost > 0.0:
        n_trials = n_single if n_moved == 1 else 1
        trials = _moved(Z, weight, memories, n_moved, n_trials, random_state)
        trials, costs, _ = lloyd(Z, weight, trials, few, **options)
        trials = trials[costs < _HOPELESS * cost]
        trials, costs, _ = lloyd(Z, weight, trials, more, **options)
        if (costs < (1.0 - _GAIN) * cost).any():
            best = int(np.argmin(costs))
            memories = trials[best]
            cost = float(costs[best])
        else:
            n_moved //= 2
    return memories, cost


def _moved(Z, weight, memories, n_moved, n_trials, random_state):
    """Return memories (t, k, d) of which some are moved, another way in each trial."""
    k = len(memories)
    far = squared_distances(Z, memories)
    nearest = far.argmin(axis=1)
    first, second = np.partition(far, 1, axis=1)[:, :2].T
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
