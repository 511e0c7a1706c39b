"""Pattern-completion loss of the memories with an explicit gradient, in Gram form.

Write R for the memories of one restart and U for the features hidden from a group of
rows. Seen features never move, so eq. (4) needs from the rows only ``S = X R^T`` over
the seen and over the hidden features, and from the memories ``K = R_U R_U^T``:

    logits = beta (2 S_seen + 2 s - |R|^2) + log weights
    s      = (1 - step) s + step softmax(logits) K

Both passes are in n_clusters dimensions (`_kernels`); only S and its gradient ``dR =
dS^T X`` involve n_features, whatever the number of steps. All restarts share the rows
and the masks, so that S is one product for all of them.
"""

import numpy as np
from scipy import sparse

from skdiffclust._kmeans import squared_lengths
from skdiffclust.memories._block_kernels import euclidean_rows
from skdiffclust.memories._dynamics import Completion
from skdiffclust.memories._kernels import cosine_rows, manhattan_rows


def completion_with_gradient(
    X, memories, log_weights, dynamics, *, groups, fill, sample_weight
):
    """Return the `Completion` of eq. (9) and eq. (8) on a batch.

    X (b, d) and memories (r, k, d) in one floating dtype; log_weights (r, k), fill
    (d,), sample_weight (b,). `groups` are (rows slice, features slice) pairs: those
    rows have those features hidden, filled, and scored; an empty features slice means
    that the rows are recalled whole and all of their features are scored (eq. 8).
    X may be CSR if nothing is hidden. Cosine takes rows of unit length. Cost 4 b r k d,
    and 6 T k^2 for each row.
    """
    if dynamics.metric == "manhattan":
        return _manhattan(
            X, memories, log_weights, dynamics, groups, fill, sample_weight
        )
    # One layout, so that only one kernel is compiled.
    memories = np.ascontiguousarray(memories)
    if not sparse.issparse(X):
        X = np.ascontiguousarray(X)
    run = _cosine if dynamics.metric == "cosine" else _euclidean
    return run(X, memories, log_weights, dynamics, groups, fill, sample_weight)


def _products(X, memories):
    """Return products (b, r, k), float64, of rows X (b, d) and memories (r, k, d)."""
    r, k, d = memories.shape
    # One product for the memories of all restarts, so that X is read once.
    products = X @ memories.reshape(r * k, d).T
    return products.reshape(-1, r, k).astype(np.float64, copy=False)


def _pulled(d_products, X):
    """Return the gradient (r, k, d) by the memories of `_products`."""
    _, r, k = d_products.shape
    by_products = d_products.reshape(-1, r * k).T.astype(X.dtype, copy=False) @ X
    return by_products.reshape(r, k, X.shape[1])


def _euclidean(X, memories, log_weights, dynamics, groups, fill, sample_weight):
    """Return the `Completion` by Euclidean distances."""
    rows = X
    (r, k, d) = memories.shape
    if sparse.issparse(X):  # nothing is hidden: products and lengths are sufficient
        rows = np.sqrt(squared_lengths(X))[:, None]
    products = _products(X, memories)
    d_products = np.zeros_like(products)
    gradient = np.zeros((r, k, d))
    d_bias = np.zeros((r, k))
    attracted = np.zeros((r, k))
    loss = np.zeros(r)
    beta = float(dynamics.inverse_temperature)
    step = float(dynamics.step_size)
    n_scored = euclidean_rows(
        rows.astype(np.float64, copy=False),
        memories.astype(np.float64, copy=False),
        products,
        _edges(groups),
        fill,
        log_weights,
        sample_weight,
        beta,
        step,
        dynamics.n_steps,
        (d_products, gradient, d_bias, attracted, loss),
    )
    gradient += _pulled(d_products, X)
    gradient -= (2.0 * beta * d_bias)[:, :, None] * memories
    return Completion(
        loss, gradient.astype(X.dtype, copy=False), d_bias, attracted, n_scored
    )


def _cosine(X, memories, log_weights, dynamics, groups, fill, sample_weight):
    """Return the `Completion` by cosines."""
    r, k, d = memories.shape
    lengths = np.sqrt(np.einsum("rkd,rkd->rk", memories, memories))
    lengths = np.maximum(lengths, np.finfo(X.dtype).tiny)[:, :, None]
    directions = memories / lengths
    products = _products(X, directions)
    hidden = np.zeros_like(products)
    rest = np.zeros((X.shape[0], 2))
    masked = [group for group in groups if group[1].start < group[1].stop]
    for rows, features in masked:
        part = X[rows, features]
        hidden[rows] = _products(part, directions[:, :, features])
        whole = np.einsum("ij,ij->i", X[rows], X[rows], dtype=np.float64)
        rest[rows, 0] = whole - np.einsum("ij,ij->i", part, part, dtype=np.float64)
        rest[rows, 1] = part @ fill[features]
    np.maximum(rest[:, 0], 0.0, out=rest[:, 0])
    d_products = np.zeros_like(products)
    d_hidden = np.zeros_like(products)
    gradient = np.zeros((r, k, d))
    loss = np.zeros(r)
    d_bias = np.zeros((r, k))
    attracted = np.zeros((r, k))
    n_scored = cosine_rows(
        directions.astype(np.float64, copy=False),
        products,
        hidden,
        rest,
        _edges(groups),
        fill,
        log_weights,
        sample_weight,
        float(dynamics.inverse_temperature),
        float(dynamics.step_size),
        dynamics.n_steps,
        (d_products, d_hidden, gradient, d_bias, attracted, loss),
    )
    gradient += _pulled(d_products, X)
    for rows, features in masked:
        gradient[:, :, features] += _pulled(d_hidden[rows], X[rows, features])
    radial = np.einsum("rkd,rkd->rk", gradient, directions)
    gradient -= radial[:, :, None] * directions
    gradient /= lengths
    return Completion(
        loss, gradient.astype(X.dtype, copy=False), d_bias, attracted, n_scored
    )


def _edges(groups):
    """Return groups (g, 4) as the kernels take them: first and last row and feature."""
    return np.array([[u.start, u.stop, v.start, v.stop] for u, v in groups])


def _manhattan(X, memories, log_weights, dynamics, groups, fill, sample_weight):
    """Return the `Completion` by city-block distances (the objective of B.8)."""
    r, k, d = memories.shape
    gradient = np.zeros((r, k, d))
    loss = np.zeros(r)
    attracted = np.zeros((r, k))
    n_scored = 0.0
    for rows, features in groups:
        plain = features.start == features.stop
        # The kernel expects scored features at the end.
        tail = np.r_[features.stop : d, 0 : features.stop]
        moved = np.ascontiguousarray(memories[:, :, tail], dtype=np.float64)
        order = np.argsort(moved, axis=1, kind="stable").transpose(0, 2, 1)
        part = np.zeros_like(moved)
        first = 0 if plain else d - (features.stop - features.start)
        weight = sample_weight[rows]
        manhattan_rows(
            X[rows][:, tail].astype(np.float64),
            fill[tail],
            moved,
            np.ascontiguousarray(order),
            log_weights,
            weight,
            first,
            dynamics.inverse_temperature,
            dynamics.step_size,
            dynamics.n_steps,
            plain,
            (part, attracted, loss),
        )
        gradient[:, :, tail] += part
        n_scored += float(weight.sum()) * (d - first)
    return Completion(
        loss, gradient.astype(X.dtype), np.zeros((r, k)), attracted, n_scored
    )
