"""Initial memories: the best of several k-means, Euclidean or on the sphere."""

import numpy as np

from skdiffclust._kmeans import TOLERANCE, lloyd, squared_distances, take

# Samples used in seeding, racing and selection; more would change little.
MAX_ROWS = 8192
_EXCHANGE_STEPS = 16  # of Lloyd, before the cost is compared
_TRIALS = 2  # places to which a memory may be moved that are tried at once
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

    The memory whose samples are almost as near to another one is moved to a sample of a
    cluster of large cost, and Lloyd's steps follow; several such samples are tried at
    once, until none lowers the cost. This corrects an error that restarts share: two
    memories in one group of samples, and one for two groups.
    """
    k = len(memories)
    while k > 1 and cost > 0.0:
        far = squared_distances(Z, memories)
        nearest = far.argmin(axis=1)
        first, second = np.partition(far, 1, axis=1)[:, :2].T
        use = np.bincount(nearest, weight * (second - first), minlength=k)
        source = int(np.argmin(use))
        error = np.bincount(nearest, weight * first, minlength=k)
        error[source] = -np.inf
        mass = np.cumsum(np.where(nearest == error.argmax(), weight * first, 0.0))
        drawn = random_state.uniform(size=_TRIALS) * mass[-1]
        rows = np.searchsorted(mass, drawn, side="right")
        trials = np.tile(memories, (_TRIALS, 1, 1))
        trials[:, source] = take(Z, np.minimum(rows, len(mass) - 1))
        trials, costs, _ = lloyd(
            Z, weight, trials, _EXCHANGE_STEPS, tol=TOLERANCE, spherical=spherical
        )
        best = int(np.argmin(costs))
        if costs[best] >= (1.0 - _GAIN) * cost:
            break
        memories = trials[best]
        cost = float(costs[best])
    return memories, cost
