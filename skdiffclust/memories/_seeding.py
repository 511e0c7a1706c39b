"""Where memories start: k-means++ rows, settled by a few of Lloyd's steps."""

import numpy as np
from sklearn.cluster import kmeans_plusplus

# Rows that seeding, racing and selection look at; more would change little.
MAX_ROWS = 8192
_LLOYD_STEPS = 50


def sample_rows(n_samples, sample_weight, random_state):
    """Return at most MAX_ROWS rows of positive weight, sorted."""
    rows = np.flatnonzero(sample_weight > 0)
    if len(rows) > MAX_ROWS:
        rows = np.sort(random_state.choice(rows, MAX_ROWS, replace=False))
    return rows


def seed_memories(Z, weight, n_clusters, init, n_init, random_state):
    """Return memories (n_init, k, d) and the cost (n_init,) of each restart.

    Z (m, d) are rows in training units with weights (m,). "k-means++" settles its
    seeds by Lloyd's steps, which are the gradient steps of eq. (8) in the limit of a
    high inverse temperature: soft steps from raw seeds lose memories, steps from
    settled ones do not. "random" takes rows as they are.
    """
    seeds, costs = [], []
    for _ in range(n_init):
        if init == "random":
            start = Z[_weighted_rows(len(Z), weight, n_clusters, random_state)]
        else:
            start, _ = kmeans_plusplus(
                Z, n_clusters, sample_weight=weight, random_state=random_state
            )
        steps = 0 if init == "random" else _LLOYD_STEPS
        memories, cost = _settle(Z, weight, start.astype(np.float64), steps)
        seeds.append(memories)
        costs.append(cost)
    return np.stack(seeds).astype(Z.dtype), np.array(costs)


def _weighted_rows(n_rows, weight, n_clusters, random_state):
    """Return distinct rows, by weight, as many as there are clusters."""
    share = weight / weight.sum()
    return random_state.choice(n_rows, n_clusters, replace=False, p=share)


def _settle(Z, weight, memories, n_steps):
    """Return memories (k, d) after Lloyd's steps on Z (m, d), and their cost."""
    squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    previous = None
    for step in range(n_steps + 1):
        nearest, distances = nearest_memory(Z, memories, squares)
        cost = float(weight @ distances)
        if step == n_steps or np.array_equal(nearest, previous):
            break
        previous = nearest
        members = np.zeros((len(memories), len(Z)), dtype=Z.dtype)
        members[nearest, np.arange(len(Z))] = weight
        sizes = members.sum(axis=1, dtype=np.float64)
        alive = sizes > 0
        memories = memories.copy()
        memories[alive] = (members @ Z)[alive] / sizes[alive, None]
        dead = np.flatnonzero(~alive)
        # A memory without rows starts again on a row that is badly served.
        worst = np.argsort(-distances * weight, kind="stable")[: len(dead)]
        memories[dead[: len(worst)]] = Z[worst]
    return memories, cost


def nearest_memory(Z, memories, squares=None):
    """Return the nearest memory (m,) of rows Z (m, d) and squared distances (m,)."""
    if squares is None:
        squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    memories = memories.astype(np.float64, copy=False)
    norms = np.einsum("kj,kj->k", memories, memories)
    gaps = norms - 2.0 * (Z @ memories.T.astype(Z.dtype)).astype(np.float64)
    nearest = gaps.argmin(axis=1)
    distances = squares + gaps[np.arange(len(Z)), nearest]
    return nearest, np.maximum(distances, 0.0)
