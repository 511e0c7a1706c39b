"""Labels from fitted memories, by blocks of samples."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from skdiffclust._products import product_by_sample
from skdiffclust.memories._dynamics import recall
from skdiffclust.memories._recursion import euclidean_steps, sphere_steps
from skdiffclust.memories._scaling import blocks, directions


def assign(X, memories, log_weights, dynamics):
    """Return the memory (n,), int64, that each sample of X (n, d) converges to.

    Lines 19 to 23 of Algorithm 1. X, dense or CSR, and memories (k, d) are in the same
    units.
    """
    shift = memories.mean(axis=0, dtype=np.float64)
    if dynamics.metric == "cosine" or sparse.issparse(X):
        shift = np.zeros_like(shift)
    memories = _prepare(memories, shift, dynamics.metric)
    nearest = {"euclidean": _nearest, "cosine": _most_alike}.get(dynamics.metric)
    labels = np.empty(X.shape[0], dtype=np.int64)
    for rows in blocks(X.shape[0], max(memories.shape)):
        Z = _prepare(X[rows], shift, dynamics.metric)
        if nearest is None:
            labels[rows] = _nearest_city_block(Z, memories, log_weights, dynamics)
        else:
            # Sums over memories take a sixth of the time in this order.
            products = np.ascontiguousarray(product_by_sample(Z, memories.T).T)
            gram = memories @ memories.T
            labels[rows] = nearest(products, gram, log_weights, dynamics)
    return labels


def _nearest(products, gram, log_weights, dynamics):
    """Return labels (m,) from products (k, m) of the memories with samples."""
    norms = np.diag(gram)[:, None]
    steps = euclidean_steps(
        0.0, products, _BySample(gram), norms, log_weights[:, None], dynamics
    )
    return (2.0 * steps.products - norms).argmax(axis=0)


def _most_alike(products, gram, log_weights, dynamics):
    """Return labels (m,) from products (k, m) of memories with directions."""
    steps = sphere_steps(products, _BySample(gram), log_weights[:, None], dynamics)
    return steps[-1].products.argmax(axis=0)


@dataclass(frozen=True)
class _BySample:
    """Products (k, k) of memories that are multiplied sample by sample."""

    gram: np.ndarray

    def times(self, shares):
        """Return gram @ shares (k, m), one product for each sample."""
        return np.ascontiguousarray(product_by_sample(shares.T, self.gram).T)


def _nearest_city_block(Z, memories, log_weights, dynamics):
    """Return labels (m,) of samples Z (m, d) by city-block distances."""
    recalled = recall(
        Z,
        memories,
        dynamics.inverse_temperature,
        n_steps=dynamics.n_steps,
        step_size=dynamics.step_size,
        weights=np.exp(log_weights),
        metric="manhattan",
    )
    return cdist(recalled, memories, "cityblock").argmin(axis=1)


def _prepare(X, shift, metric):
    """Return samples (m, d), float64, without the shift, or as directions."""
    if sparse.issparse(X):
        return directions(X) if metric == "cosine" else X.astype(np.float64)
    rows = X.astype(np.float64) - shift
    if metric == "cosine":
        rows = directions(rows)
    return np.ascontiguousarray(rows)
