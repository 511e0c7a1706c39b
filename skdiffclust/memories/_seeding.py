"""Where memories start: k-means++ rows, settled by a few of Lloyd's steps."""

import numpy as np

from skdiffclust.memories._kernels import settle_rows

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
    weight = np.asarray(weight, dtype=np.float64)
    squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    if init == "random":
        chosen = _random_rows(weight, n_clusters, n_init, random_state)
    else:
        chosen = _spread_rows(Z, squares, weight, n_clusters, n_init, random_state)
    steps = 0 if init == "random" else _LLOYD_STEPS
    memories, costs = _settle(Z, squares, weight, Z[chosen].astype(np.float64), steps)
    return memories.astype(Z.dtype), costs


def _random_rows(weight, n_clusters, n_init, random_state):
    """Return distinct rows (n_init, k), by weight, as many as there are clusters."""
    share, n_rows = weight / weight.sum(), len(weight)
    return np.stack([
        random_state.choice(n_rows, n_clusters, replace=False, p=share)
        for _ in range(n_init)
    ])  # fmt: skip


def _spread_rows(Z, squares, weight, n_clusters, n_init, random_state):
    """Return the rows (n_init, k) of greedy k-means++, all restarts at once.

    As in scikit-learn, each new row is the best of some that are drawn in proportion
    to their squared distance from the rows before.
    """
    n_trials = 2 + int(np.log(n_clusters))
    restarts = np.arange(n_init)
    chosen = np.empty((n_init, n_clusters), dtype=np.int64)
    far = np.ones((n_init, len(Z)))
    for c in range(n_clusters):
        mass = np.cumsum(far * weight, axis=1)
        drawn = random_state.uniform(size=(n_init, n_trials if c else 1))
        found = [
            np.searchsorted(line, where * line[-1], side="right")
            for line, where in zip(mass, drawn, strict=True)
        ]
        found = np.minimum(found, len(Z) - 1)
        products = (Z[found.ravel()] @ Z.T).astype(np.float64, copy=False)
        gaps = squares + squares[found][..., None]
        gaps -= 2.0 * products.reshape(gaps.shape)
        np.maximum(gaps, 0.0, out=gaps)
        if c:
            np.minimum(gaps, far[:, None], out=gaps)
        best = (gaps @ weight).argmin(axis=1)
        chosen[:, c], far = found[restarts, best], gaps[restarts, best]
    return chosen


def _settle(Z, squares, weight, memories, n_steps):
    """Return memories (r, k, d) after Lloyd's steps on Z (m, d), and costs (r,)."""
    (n_init, k, d), n_rows = memories.shape, len(Z)
    nearest = np.full((n_init, n_rows), -1)
    far, costs = np.empty((n_init, n_rows)), np.empty(n_init)
    moving = np.arange(n_init)
    for step in range(n_steps + 1):
        part = memories[moving]
        norms = np.einsum("rkd,rkd->rk", part, part)
        products = Z @ part.reshape(-1, d).T.astype(Z.dtype)
        sums, sizes = np.zeros(part.shape), np.zeros((len(moving), k))
        moved = settle_rows(
            Z, squares, weight, products, norms, moving, nearest, far, sums, sizes
        )
        costs[moving] = far[moving] @ weight
        if step == n_steps:
            break
        moving, sums, sizes = moving[moved], sums[moved], sizes[moved]
        for restart, total, size in zip(moving, sums, sizes, strict=True):
            alive = size > 0
            memories[restart, alive] = total[alive] / size[alive, None]
            dead = np.flatnonzero(~alive)
            if len(dead):
                # A memory without rows starts again on a row that is badly served.
                worst = np.argsort(-far[restart] * weight, kind="stable")[: len(dead)]
                memories[restart, dead[: len(worst)]] = Z[worst]
        if not len(moving):
            break
    return memories, costs


def nearest_memory(Z, memories):
    """Return the nearest memory (m,) of rows Z (m, d) and squared distances (m,)."""
    squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    memories = memories.astype(np.float64, copy=False)
    norms = np.einsum("kj,kj->k", memories, memories)
    gaps = norms - 2.0 * (Z @ memories.T.astype(Z.dtype)).astype(np.float64)
    nearest = gaps.argmin(axis=1)
    distances = squares + gaps[np.arange(len(Z)), nearest]
    return nearest, np.maximum(distances, 0.0)
