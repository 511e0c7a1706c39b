"""Labels from fitted memories, by blocks of samples."""

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from skdiffclust._pairwise import product_by_sample, unit_rows
from skdiffclust.memories._dynamics import recall
from skdiffclust.memories._recursion import euclidean_steps, sphere_steps
from skdiffclust.memories._scaling import blocks


def assign(X, memories, log_weights, dynamics):
    """Return the memory (n,), int64, that each sample of X (n, d) converges to.

    These are lines 19 to 23 of Algorithm 1. X, dense or CSR, and memories (k, d) are in
    the same units.
    """
    shift = memories.mean(axis=0, dtype=np.float64)
    if dynamics.metric == "cosine" or sparse.issparse(X):
        shift = np.zeros_like(shift)
    memories = _prepare(memories, shift, dynamics.metric)
    gram = memories @ memories.T

    def times(shares):
        """Return gram @ shares (k, m), one product for each sample."""
        return np.ascontiguousarray(product_by_sample(shares.T, gram).T)

    norms = np.diag(gram)[:, None]
    bias = log_weights[:, None]
    labels = np.empty(X.shape[0], dtype=np.int64)
    width = len(memories) if sparse.issparse(X) else max(memories.shape)
    for rows in blocks(X.shape[0], width):
        Z = _prepare(X[rows], shift, dynamics.metric)
        if dynamics.metric == "manhattan":
            recalled = recall(
                Z,
                memories,
                dynamics.inverse_temperature,
                n_steps=dynamics.n_steps,
                step_size=dynamics.step_size,
                weights=np.exp(log_weights),
                metric="manhattan",
            )
            labels[rows] = cdist(recalled, memories, "cityblock").argmin(axis=1)
            continue
        # Sums over memories take a sixth of the time in this order.
        products = np.ascontiguousarray(product_by_sample(Z, memories.T).T)
        if dynamics.metric == "cosine":
            closeness = sphere_steps(products, times, bias, dynamics)[-1].products
        else:
            _, _, ends = euclidean_steps(0.0, products, times, norms, bias, dynamics)
            closeness = 2.0 * ends - norms
        labels[rows] = closeness.argmax(axis=0)
    return labels


def _prepare(X, shift, metric):
    """Return samples (m, d), float64, without the shift, or as directions."""
    rows = X.astype(np.float64)
    if not sparse.issparse(X):
        rows = np.ascontiguousarray(rows - shift)
    return unit_rows(rows) if metric == "cosine" else rows
