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
    r, k, d = memories.shape
    directions = memories
    if dynamics.metric == "cosine":
        lengths = np.sqrt(np.einsum("rkd,rkd->rk", memories, memories))
        directions = memories / np.maximum(lengths, _tiny(X))[:, :, None]
    flat = directions.reshape(r * k, d)
    # A column of features beside a column of memories: X is read once for all.
    products = (X @ flat.T).astype(np.float64, copy=False)
    d_products = np.zeros_like(products)
    gradient = np.zeros((r * k, d), dtype=X.dtype)
    norms = np.einsum("rkd,rkd->rk", directions, directions, dtype=np.float64)
    totals = [np.zeros((r, k)) for _ in range(2)] + [np.zeros(r)]
    n_scored = 0.0
    for rows, features in groups:
        n_scored += _add_group(
            X[rows], features, flat, products[rows], d_products[rows], gradient,
            norms, log_weights, dynamics, fill, sample_weight[rows], totals,
        )  # fmt: skip
    d_bias, attracted, loss = totals
    gradient += d_products.T.astype(X.dtype, copy=False) @ X
    gradient = gradient.reshape(r, k, d)
    if dynamics.metric == "euclidean":
        scale = (2.0 * dynamics.inverse_temperature * d_bias).astype(X.dtype)
        gradient -= scale[:, :, None] * memories
    else:
        radial = np.einsum("rkd,rkd->rk", gradient, directions)
        gradient -= radial[:, :, None] * directions
        gradient /= np.maximum(lengths, _tiny(X))[:, :, None]
    return Completion(loss, gradient, d_bias, attracted, n_scored)


def _tiny(X):
    """Return the smallest normal number of the dtype of X."""
    return np.finfo(X.dtype).tiny


def _add_group(
    X, features, flat, products, d_products, gradient, norms, log_weights, dynamics,
    fill, weight, totals,
):  # fmt: skip
    """Add one group of rows; write d_products, return the number of scored entries."""
    (r, k), n_rows = norms.shape, len(X)
    plain = features.start == features.stop
    scored = slice(None) if plain else features
    hidden = np.ascontiguousarray(X[:, scored])
    flat_hidden = np.ascontiguousarray(flat[:, scored])
    target = products
    if not plain:
        target = (hidden @ flat_hidden.T).astype(np.float64, copy=False)
    by_restart = flat_hidden.reshape(r, k, -1)
    gram = np.matmul(by_restart, by_restart.transpose(0, 2, 1))
    start_row = None if plain else fill[features]
    is_filled = not plain and start_row.any()
    start = np.zeros((r, k))
    if is_filled:
        start = by_restart.astype(np.float64) @ start_row
    shape = (n_rows, r, k)
    d_hidden = np.empty(shape)
    d_gram, d_start = np.zeros((r, k, k)), np.zeros((r, k))
    d_bias, attracted, loss = totals
    d_all = d_products.reshape(shape)  # a view
    out = (d_all, d_hidden, d_gram, d_bias, d_start, attracted, loss)
    loss += _run(
        X, hidden, start_row, products.reshape(shape), target.reshape(shape), start,
        gram.astype(np.float64, copy=False), norms, log_weights, weight, dynamics,
        plain, out,
    )  # fmt: skip
    inside = _pull_back(d_gram, by_restart)
    if not plain:
        d_hidden = d_hidden.reshape(n_rows, r * k)
        inside += d_hidden.T.astype(X.dtype, copy=False) @ hidden
    if is_filled:
        inside += np.outer(d_start.ravel(), start_row)
    gradient[:, scored] += inside
    return float(weight.sum()) * hidden.shape[1]


def _pull_back(d_gram, memories):
    """Return the gradient (r * k, d) by memories (r, k, d) of their products."""
    both = d_gram + d_gram.transpose(0, 2, 1)
    gradient = np.matmul(both.astype(memories.dtype, copy=False), memories)
    return gradient.reshape(-1, memories.shape[2])


def _run(
    X, hidden, start_row, products, target, start, gram, norms, log_weights, weight,
    dynamics, plain, out,
):  # fmt: skip
    """Run the kernel of the metric; return the part of the loss without memories."""
    beta, step = dynamics.inverse_temperature, dynamics.step_size
    n_steps = dynamics.n_steps
    if dynamics.metric == "euclidean":
        euclidean_rows(
            products, target, start, gram, norms, log_weights, weight, beta, step,
            n_steps, plain, out,
        )  # fmt: skip
        left = (1.0 - step) ** n_steps
        rest = hidden if plain else hidden - left * start_row
        share = (1.0 - left) ** 2 if plain else 1.0
        return share * (weight @ np.einsum("ij,ij->i", rest, rest, dtype=np.float64))
    inner = np.einsum("ij,ij->i", hidden, hidden, dtype=np.float64)
    outside = np.einsum("ij,ij->i", X, X, dtype=np.float64) - inner
    own, scale = np.zeros(len(X)), np.zeros(len(X))
    if not plain:
        own = hidden.astype(np.float64) @ start_row
        length = np.sqrt(np.maximum(outside, 0.0) + start_row @ start_row)
        scale = np.divide(1.0, length, out=scale, where=length > 0)
    cosine_rows(
        products, target, start, gram, log_weights, np.column_stack([weight, outside]),
        scale, own, beta, step, n_steps, plain, out,
    )  # fmt: skip
    return weight @ inner


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
