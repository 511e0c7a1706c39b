"""From fitted memories to labels, by blocks of rows, with the compiled recursion."""

import numpy as np

from skdiffclust.memories._frame import blocks
from skdiffclust.memories._kernels import assign_rows, assign_rows_manhattan


def assign(X, memories, log_weights, dynamics):
    """Return the memory (n,), int64, nearest to where each row of X (n, d) ends up.

    Lines 19 to 23 of Algorithm 1. Rows of X and memories (k, d) are in the same units.
    """
    shift = memories.mean(axis=0, dtype=np.float64)
    if dynamics.metric == "cosine":
        shift = np.zeros_like(shift)
    memories = _prepare(memories, shift, dynamics.metric)
    labels = np.empty(len(X), dtype=np.int64)
    beta, n_steps = dynamics.inverse_temperature, dynamics.n_steps
    order = np.ascontiguousarray(np.argsort(memories, axis=0, kind="stable").T)
    for rows in blocks(X):
        Z = _prepare(X[rows], shift, dynamics.metric)
        if dynamics.metric == "manhattan":
            assign_rows_manhattan(
                Z, memories, order, log_weights, beta, dynamics.step_size, n_steps,
                labels[rows],
            )  # fmt: skip
        else:
            geometry = int(dynamics.metric == "cosine")
            assign_rows(
                Z, memories, log_weights, beta, dynamics.step_size, n_steps, geometry,
                labels[rows],
            )  # fmt: skip
    return labels


def _prepare(X, shift, metric):
    """Return rows (m, d), float64, without the shift, or as directions."""
    rows = X.astype(np.float64) - shift
    if metric == "cosine":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(rows)
