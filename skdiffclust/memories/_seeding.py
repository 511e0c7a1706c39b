"""Initial memories: the best of several k-means, Euclidean or on the sphere."""

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from skdiffclust._constraints import is_free
from skdiffclust._kmeans import (
    FINE,
    MAX_STEPS,
    TOLERANCE,
    kmeans,
    lloyd,
    squared_distances,
    take,
)
from skdiffclust.memories._constrained import constrained_lloyd
from skdiffclust.memories._medians import lloyd_medians

_CONSTRAINED = 4  # restarts of a constrained k-means
_EXCHANGE_STEPS = 16  # of Lloyd, before the cost is compared
_TRIALS = 2  # places to which a memory may be moved that are tried at once
_GAIN = 1e-6  # smallest relative gain of an exchange that is kept
_EXCHANGED = 4  # most restarts of k-means that continue to exchanges
_SAME = 1e-4  # relative difference of costs of one solution, found again
_STREAM_STEPS = 20  # of Lloyd on the samples that a stream keeps


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


def initial_memories(rows, init, n_clusters, n_init, random_state, n_seeds=1):
    """Return initial memories (r, k, d) of `TrainingRows`.

    The best solution of k-means for "k-means++", followed by its seeds if `n_seeds` is
    larger than one; `n_init` draws of samples for "random"; or memories that are given,
    in training units.
    """
    if not isinstance(init, str):
        return init[None]
    drawn = rows.drawn, rows.drawn_weight, n_clusters, n_init
    if init == "random":
        return random_rows(*drawn, random_state)
    is_spherical = rows.scaling.metric == "cosine"
    seeds, costs, _ = kmeans(*drawn, random_state, spherical=is_spherical)
    best = np.argsort(costs, kind="stable")
    centers = _best_k_means(rows, seeds[best], costs[best], random_state)
    return np.concatenate([centers[None], seeds[best[1:n_seeds]]])


def constrained_memories(rows, init, n_clusters, n_init, random_state, constraints):
    """Return memories (1, k, d) of a constrained k-means, and labels (n,).

    The labels are those of samples in `Constraints`, -1 for the others.
    """
    seeds = initial_memories(rows, init, n_clusters, n_init, random_state, _CONSTRAINED)
    Z = rows.scaling.transform(rows.X)
    metric = rows.scaling.metric
    centers, labels = constrained_lloyd(Z, rows.weight, seeds, constraints, metric)
    return centers[None], np.where(is_free(constraints), -1, labels)


def continued_k_means(rows, memories, random_state):
    """Return k-means (k, d) from memories of a stream, which keep their numbers."""
    centers, costs, _ = lloyd(
        rows.drawn,
        rows.drawn_weight,
        memories[None],
        _STREAM_STEPS,
        tol=TOLERANCE,
        spherical=rows.scaling.metric == "cosine",
    )
    centers = _best_k_means(rows, centers, costs, random_state)
    # Exchanges may move a memory to another cluster.
    far = cdist(memories, centers, "sqeuclidean")
    return centers[linear_sum_assignment(far)[1]]


def _best_k_means(rows, seeds, costs, random_state):
    """Return the best k-means solution (k, d) from seeds (r, k, d), best first."""
    drawn = rows.drawn, rows.drawn_weight
    metric = rows.scaling.metric
    is_spherical = metric == "cosine"
    best, lowest = seeds[0], np.inf
    exchanged = seeds[:_EXCHANGED]
    if len(seeds) > _EXCHANGED and costs[-1] <= (1.0 + _SAME) * costs[0]:
        exchanged = []  # what so many restarts end in is likely the best
    for memories, cost in zip(exchanged, costs, strict=False):
        memories, cost = exchange(
            *drawn, memories, cost, random_state, spherical=is_spherical
        )
        # A result of two restarts is likely the best that there is.
        is_found_again = np.isclose(cost, lowest, rtol=_SAME, atol=0.0)
        if cost < lowest:
            best = memories
            lowest = cost
        if is_found_again:
            break
    if metric == "manhattan":
        return lloyd_medians(*drawn, best)
    if drawn[0].shape[0] < rows.shape[0]:
        # A sparse table is read in large blocks.
        is_sparse = sparse.issparse(rows.X)
        Z = rows.scaling.transform(rows.X) if is_sparse else rows
        drawn = Z, rows.weight
    given = {"tol": FINE, "spherical": is_spherical}
    return lloyd(*drawn, best[None], MAX_STEPS, **given)[0][0]
