"""Pattern-completion loss of the memories with an explicit gradient, in Gram form.

Write R for the memories of one restart and U for the features hidden from a group of
rows. Seen features never move, so eq. (4) needs from the rows only ``S = X R^T`` over
the seen and over the hidden features, and from the memories ``K = R_U R_U^T``:

    logits = beta (2 S_seen + 2 s - |R|^2) + log weights
    s      = (1 - step) s + step softmax(logits) K

Both passes live in n_clusters dimensions (`_kernels`); only S and its pull-back
``dR = dS^T X`` touch n_features, whatever the number of steps. All restarts share the
rows and the masks, so that S is one product for all of them.
"""

import numpy as np

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
    Cosine takes rows of unit length. Cost 4 b r k d, and 6 T k^2 for each row.
    """
    if dynamics.metric == "manhattan":
        return _manhattan(X, memories, log_weights, dynamics, groups, fill,
                          sample_weight)  # fmt: skip
    (r, k, d), is_cosine = memories.shape, dynamics.metric == "cosine"
    # One layout, so that there is one kernel to compile.
    X, memories = np.ascontiguousarray(X), np.ascontiguousarray(memories)
    dtype, directions = X.dtype, memories
    if is_cosine:
        lengths = np.sqrt(np.einsum("rkd,rkd->rk", memories, memories))
        directions = memories / np.maximum(lengths, np.finfo(dtype).tiny)[:, :, None]
    # A column of features beside a column of memories: X is read once for all.
    products = X @ directions.reshape(r * k, d).T
    products = products.reshape(-1, r, k).astype(np.float64, copy=False)
    d_products, gradient = np.zeros_like(products), np.zeros((r, k, d))
    d_bias, attracted, loss = np.zeros((r, k)), np.zeros((r, k)), np.zeros(r)
    edges = np.array([[u.start, u.stop, v.start, v.stop] for u, v in groups])
    directions = directions.astype(np.float64, copy=False)
    beta, step = float(dynamics.inverse_temperature), float(dynamics.step_size)
    n_scored = (cosine_rows if is_cosine else euclidean_rows)(
        X.astype(np.float64, copy=False), directions, products, edges, fill,
        log_weights, sample_weight, beta, step, dynamics.n_steps,
        (d_products, gradient, d_bias, attracted, loss),
    )  # fmt: skip
    by_products = d_products.reshape(-1, r * k).T.astype(dtype, copy=False) @ X
    gradient += by_products.reshape(r, k, d)
    if is_cosine:
        radial = np.einsum("rkd,rkd->rk", gradient, directions)
        gradient -= radial[:, :, None] * directions
        gradient /= np.maximum(lengths, np.finfo(dtype).tiny)[:, :, None]
    else:
        gradient -= (2.0 * beta * d_bias)[:, :, None] * memories
    return Completion(loss, gradient.astype(dtype, copy=False), d_bias, attracted,
                      n_scored)  # fmt: skip


def _manhattan(X, memories, log_weights, dynamics, groups, fill, sample_weight):
    """Return the `Completion` by city-block distances (the objective of B.8)."""
    r, k, d = memories.shape
    gradient, loss = np.zeros((r, k, d)), np.zeros(r)
    attracted = np.zeros((r, k))
    n_scored = 0.0
    for rows, features in groups:
        plain = features.start == features.stop
        # The kernel wants what is scored at the end.
        tail = np.r_[features.stop : d, 0 : features.stop]
        moved = np.ascontiguousarray(memories[:, :, tail], dtype=np.float64)
        order = np.argsort(moved, axis=1, kind="stable").transpose(0, 2, 1)
        part = np.zeros_like(moved)
        first = 0 if plain else d - (features.stop - features.start)
        weight = sample_weight[rows]
        manhattan_rows(
            X[rows][:, tail].astype(np.float64), fill[tail], moved,
            np.ascontiguousarray(order), log_weights, weight, first,
            dynamics.inverse_temperature, dynamics.step_size, dynamics.n_steps, plain,
            (part, attracted, loss),
        )  # fmt: skip
        gradient[:, :, tail] += part
        n_scored += float(weight.sum()) * (d - first)
    return Completion(
        loss, gradient.astype(X.dtype), np.zeros((r, k)), attracted, n_scored
    )
