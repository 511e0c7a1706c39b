"""Pattern-completion loss of the memories with an explicit gradient, in Gram form.

Write R for the memories of one restart and U for the features hidden from a group of
rows. Seen features never move, so eq. (4) needs from the rows only ``S = R X^T`` over
the seen and over the hidden features, and from the memories ``K = R_U R_U^T``:

    logits = beta (2 S_seen + 2 s - |R|^2) + log weights
    s      = (1 - step) s + step K softmax(logits)

Both passes are in n_clusters dimensions (`_recursion`); only S and its gradient ``dR =
dS X`` involve n_features, whatever the number of steps. All restarts share the rows
and the masks, so that S is one product for all of them. A row that is recalled whole is
one whose features are all hidden, and start from themselves.
"""

import numpy as np
from scipy.spatial.distance import cdist

from skdiffclust._kmeans import squared_lengths
from skdiffclust.memories._dynamics import Completion
from skdiffclust.memories._recursion import (
    Grams,
    attraction,
    euclidean_backward,
    euclidean_steps,
    medians,
    sphere_backward,
    sphere_steps,
)


def completion_with_gradient(
    X,
    memories,
    log_weights,
    dynamics,
    *,
    groups,
    fill,
    sample_weight,
    has_gradient=True,
):
    """Return the `Completion` of eq. (9) and eq. (8) on a batch.

    X (b, d) and memories (r, k, d) in one floating dtype, which is that of the
    computation; log_weights (r, k), fill (d,), sample_weight (b,). `groups` are (rows
    slice, features slice) pairs, which cover all rows: those rows have those features
    hidden, filled, and scored; an empty features slice means that the rows are recalled
    whole and all of their features are scored (eq. 8). X may be CSR if nothing is
    hidden. Cosine takes rows of unit length. Cost 4 b r k d, and 6 T k^2 for each row.
    Without `has_gradient`, the gradients may be None, in half of the time.
    """
    if dynamics.metric == "manhattan":
        return _by_city_blocks(
            X, memories, log_weights, dynamics, groups, fill, sample_weight
        )
    bias = log_weights[:, :, None].astype(X.dtype) if log_weights.any() else None
    # Larger values are infinite: one memory attracts a row.
    largest = float(np.sqrt(np.finfo(X.dtype).max))
    beta = min(dynamics.inverse_temperature, largest)
    dynamics = dynamics._replace(inverse_temperature=beta)
    weight = sample_weight.astype(X.dtype)
    if dynamics.metric == "cosine":
        error, held, backward = _by_cosines(X, memories, bias, dynamics, weight)
    else:
        error, held, backward = _by_squares(
            X, memories, bias, dynamics, weight, groups, fill.astype(X.dtype)
        )
    gradients = backward() if has_gradient else (None, None)
    loss = (error @ weight)[:, 0].astype(np.float64)
    return Completion(loss, *gradients, held)


def _products(rows, memories):
    """Return products (r, k, b) of rows (b, d) and memories (r, k, d)."""
    r, k, d = memories.shape
    # One product for the memories of all restarts, so that rows are read once.
    products = rows @ memories.reshape(r * k, d).T
    return np.ascontiguousarray(products.T).reshape(r, k, -1)


def _weighted_rows(by_products, rows):
    """Return sums (r, k, d) of rows (b, d), weighted by (r, k, b)."""
    r, k, b = by_products.shape
    return (by_products.reshape(r * k, b) @ rows).reshape(r, k, -1)


def _held(products, norms, bias, beta, weight):
    """Return the weight (r, k) of the rows that each memory attracts when seen whole.

    `products` (r, k, b) are those with the memories, whose squared lengths are `norms`
    (r, k, 1). Which memory a row with hidden features converges to depends on what is
    hidden: a memory of a single sample would attract nothing.
    """
    r, k, _ = products.shape
    closeness = products - 0.5 * norms
    if bias is not None:
        closeness += bias / (2.0 * beta)
    numbers = closeness.argmax(axis=1) + k * np.arange(r)[:, None]
    held = np.bincount(numbers.ravel(), np.tile(weight, r), minlength=r * k)
    return held.reshape(r, k)


def _by_squares(X, memories, bias, dynamics, weight, groups, fill):
    """Return errors (r, 1, b), what memories attract (r, k), and the backward pass.

    Distances are squared Euclidean ones. The backward pass returns the gradients by
    memories (r, k, d) and by log weights (r, k).
    """
    left = (1.0 - dynamics.step_size) ** dynamics.n_steps  # share of the start, at last
    # Products (r, k, b) of memories with seen features, and with the start and the true
    # values of hidden ones; rows start from themselves if recalled whole.
    target = _products(X, memories)
    norms = np.einsum("rkd,rkd->rk", memories, memories)[:, :, None]
    held = _held(target, norms, bias, dynamics.inverse_temperature, weight)
    first = target.copy()
    known = np.zeros_like(target)
    error = (1.0 - left) ** 2 * squared_lengths(X).astype(X.dtype)  # unattracted
    parts = []
    for rows, features in groups:
        own = memories
        if features.start < features.stop:
            own = memories[:, :, features]
            part = X[rows, features]
            start = fill[features]
            products = _products(part, own)
            known[:, :, rows] = target[:, :, rows] - products
            target[:, :, rows] = products
            first[:, :, rows] = (own @ start)[:, :, None]
            error[rows] = squared_lengths(part - left * start)
        parts.append((rows, own @ own.swapaxes(1, 2)))
    grams = Grams(parts)
    shares, pull, ends = euclidean_steps(
        known, first, grams.times, norms, bias, dynamics
    )
    gap = ends - target
    change = gap - target + left * first if left else gap - target
    change *= pull
    error = error + change.sum(axis=1, keepdims=True)

    def backward():
        """Return the gradients by memories and by log weights."""
        weighted = weight * pull
        by_pull = 2.0 * weight * gap
        by_first, by_logits, by_grams = euclidean_backward(
            shares, by_pull, grams, dynamics
        )
        grams.add_outer(by_grams, weighted, pull)
        if left:
            by_first += 2.0 * left * weighted
        by_target = -2.0 * weighted
        by_products = 2.0 * dynamics.inverse_temperature * by_logits
        gradient = -by_products.sum(axis=2, keepdims=True) * memories
        for (rows, features), by_gram in zip(groups, by_grams, strict=True):
            both = by_gram + by_gram.swapaxes(1, 2)
            if features.start == features.stop:
                by_products[:, :, rows] = by_first[:, :, rows] + by_target[:, :, rows]
                gradient += both @ memories
                continue
            by_hidden = by_target[:, :, rows] - by_products[:, :, rows]
            gradient[:, :, features] += (
                _weighted_rows(by_hidden, X[rows, features])
                + by_first[:, :, rows].sum(axis=2, keepdims=True) * fill[features]
                + both @ memories[:, :, features]
            )
        gradient += _weighted_rows(by_products, X)
        return gradient, by_logits.sum(axis=2, dtype=np.float64)

    return error, held, backward


def _by_cosines(X, memories, bias, dynamics, weight):
    """Return what `_by_squares` returns, for cosines of rows of unit length.

    Nothing of the rows is hidden.
    """
    lengths = np.sqrt(np.einsum("rkd,rkd->rk", memories, memories))
    lengths = np.maximum(lengths, np.finfo(X.dtype).tiny)[:, :, None]
    memories = memories / lengths
    products = _products(X, memories)
    beta = 0.5 * dynamics.inverse_temperature
    held = _held(products, 0.0, bias, beta, weight)
    grams = Grams([(slice(None), memories @ memories.swapaxes(1, 2))])
    steps = sphere_steps(products, grams.times, bias, dynamics)

    def backward():
        """Return the gradients by memories and by log weights."""
        by_products, by_logits, (by_gram,) = sphere_backward(
            products, steps, -2.0 * weight, grams, dynamics
        )
        gradient = _weighted_rows(by_products, X)
        gradient += (by_gram + by_gram.swapaxes(1, 2)) @ memories
        radial = np.einsum("rkd,rkd->rk", gradient, memories)
        gradient = (gradient - radial[:, :, None] * memories) / lengths
        return gradient, by_logits.sum(axis=2, dtype=np.float64)

    return 2.0 - 2.0 * steps[-1].cosine, held, backward


def _by_city_blocks(X, memories, log_weights, dynamics, groups, fill, sample_weight):
    """Return the `Completion` by city-block distances (the objective of B.8).

    The gradient is that of the chosen medians, which is exact except where a choice
    changes.
    """
    r, k, d = memories.shape
    gradient = np.zeros((r, k, d))
    loss = np.zeros(r)
    attracted = np.zeros((r, k))
    step = dynamics.step_size
    for rows, features in groups:
        is_plain = features.start == features.stop
        moving = np.arange(d) if is_plain else np.arange(d)[features]
        weight = sample_weight[rows]
        part = X[rows].astype(np.float64)
        for i, places in enumerate(memories.astype(np.float64)):
            row = part.copy()
            if not is_plain:
                row[:, moving] = fill[moving]
            chosen = []
            for _ in range(dynamics.n_steps):
                near = -cdist(places, row, "cityblock")
                share = attraction(
                    near, log_weights[i][:, None], dynamics.inverse_temperature
                )
                chosen.append(medians(share, places[:, moving]))
                row[:, moving] += step * (places[chosen[-1], moving] - row[:, moving])
            whole = cdist(part, places, "cityblock")
            whole -= log_weights[i] / dynamics.inverse_temperature
            attracted[i] += np.bincount(whole.argmin(axis=1), weight, minlength=k)
            error = row[:, moving] - part[:, moving]
            loss[i] += weight @ np.abs(error).sum(axis=1)
            pull = step * weight[:, None] * np.sign(error)
            for median in reversed(chosen):
                where = (median * d + moving).ravel()
                flat = np.bincount(where, pull.ravel(), minlength=k * d)
                gradient[i] += flat.reshape(k, d)
                pull *= 1.0 - step
    return Completion(loss, gradient.astype(X.dtype), np.zeros((r, k)), attracted)
