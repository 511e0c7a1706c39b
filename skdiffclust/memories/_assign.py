"""Labels from fitted memories, by blocks of samples, with the compiled recursion."""

import numpy as np
from scipy import sparse

from skdiffclust._kmeans import squared_lengths
from skdiffclust.memories._kernels import (
    assign_rows,
    assign_rows_manhattan,
    row_products,
    sparse_row_products,
)
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
    labels = np.empty(X.shape[0], dtype=np.int64)
    beta = dynamics.inverse_temperature
    n_steps = dynamics.n_steps
    order = np.ascontiguousarray(np.argsort(memories, axis=0, kind="stable").T)
    by_feature = np.ascontiguousarray(memories.T)
    geometry = int(dynamics.metric == "cosine")
    for rows in blocks(X):
        Z = _prepare(X[rows], shift, dynamics.metric)
        if dynamics.metric == "manhattan":
            assign_rows_manhattan(
                Z,
                memories,
                order,
                log_weights,
                beta,
                dynamics.step_size,
                n_steps,
                labels[rows],
            )
            continue
        if sparse.issparse(Z):
            products = _sparse_products(Z, by_feature)
        else:
            products = np.empty((len(Z), len(memories)))
            row_products(Z, by_feature, products)
        assign_rows(
            products,
            memories,
            log_weights,
            beta,
            dynamics.step_size,
            n_steps,
            geometry,
            labels[rows],
        )
    return labels


def sparse_distances(X, memories, metric):
    """Return Euclidean or cosine distances (m, k) of CSR rows to memories (k, d)."""
    zero = np.zeros(memories.shape[1])
    Z = _prepare(X, zero, metric)
    memories = _prepare(memories, zero, metric)
    products = _sparse_products(Z, np.ascontiguousarray(memories.T))
    norms = np.square(memories).sum(axis=1)
    squares = squared_lengths(Z)[:, None] + norms - 2.0 * products
    np.maximum(squares, 0.0, out=squares)
    return 0.5 * squares if metric == "cosine" else np.sqrt(squares)


def _sparse_products(Z, by_feature):
    """Return products (m, k) of CSR rows and memories (d, k), row by row."""
    products = np.empty((Z.shape[0], by_feature.shape[1]))
    sparse_row_products(Z.data, Z.indices, Z.indptr, by_feature, products)
    return products


def _prepare(X, shift, metric):
    """Return samples (m, d), float64, without the shift, or as directions."""
    if sparse.issparse(X):
        return directions(X) if metric == "cosine" else X.astype(np.float64)
    rows = X.astype(np.float64) - shift
    if metric == "cosine":
        rows = directions(rows)
    return np.ascontiguousarray(rows)
