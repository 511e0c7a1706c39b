"""The recursion and its backward pass in n_clusters dimensions, compiled by numba.

With one set of hidden features for a group of rows, the recursion of eq. (4) only needs
the products of rows and memories: `_training` computes them and their gradients. Every
function loops over restarts, then rows, and writes to arrays of its caller.
"""

from math import exp, sqrt

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.memories._block_kernels import hidden_products, memories_vjp

# Squared length, after a step on the sphere, that is rounding: the sample was opposite
# to what attracts it, a stationary point of the energy.
_OPPOSITE = 1e-14
# exp(-40) is below the rounding of one: such memories are left out of a step.
_NEGLIGIBLE = -40.0
# Sums may be reordered for vector units; NaN and infinity are kept.
_FAST = {"contract", "reassoc", "nsz", "arcp"}
_kernel = compiled(nogil=True, fastmath=_FAST, error_model="numpy")
# For helpers: a process that compiles would call the copy that it compiled first, one
# that loads from numba's cache the copy beside the caller, which may round differently.
_inlined = compiled(nogil=True, fastmath=_FAST, error_model="numpy", forceinline=True)


@_inlined
def _softmax(affinity, bias, beta, p):
    """Write softmax(beta * affinity + bias) into p; all are (k,)."""
    k = affinity.shape[0]
    top = affinity[0]
    for m in range(1, k):
        if affinity[m] > top:
            top = affinity[m]
    # beta multiplies a difference that is never positive, so it cannot overflow to
    # NaN, whatever its size.
    high = -np.inf
    for m in range(k):
        p[m] = beta * (affinity[m] - top) + bias[m]
        if p[m] > high:
            high = p[m]
    total = 0.0
    for m in range(k):
        gap = p[m] - high
        p[m] = exp(gap) if gap > _NEGLIGIBLE else 0.0
        total += p[m]
    for m in range(k):
        p[m] /= total


@_inlined
def _argmax(values):
    """Return the first position of the largest of values (k,)."""
    best = 0
    for m in range(1, values.shape[0]):
        if values[m] > values[best]:
            best = m
    return best


@_inlined
def _add_pull(p, gram, factor, s):
    """Add factor * p @ gram to s; p, s are (k,), gram (k, k)."""
    k = p.shape[0]
    for m in range(k):
        if p[m] > 0.0:
            scale = factor * p[m]
            for j in range(k):
                s[j] += scale * gram[m, j]


@_inlined
def _dot(a, b):
    """Return the inner product of a and b (k,)."""
    total = 0.0
    for m in range(a.shape[0]):
        total += a[m] * b[m]
    return total


@_inlined
def _add_outer(p, s, factor, out):
    """Add factor * outer(p, s) to out (k, k); p, s are (k,)."""
    k = p.shape[0]
    for m in range(k):
        if p[m] != 0.0:
            scale = factor * p[m]
            for j in range(k):
                out[m, j] += scale * s[j]


@_inlined
def _softmax_backward(p, dp, out):
    """Write the gradient by the logits into out; p, dp, out are (k,)."""
    mean = _dot(p, dp)
    for m in range(p.shape[0]):
        out[m] = p[m] * (dp[m] - mean)


@_inlined
def _vectors(k):
    """Return five scratch arrays (k,)."""
    return np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k)


@_inlined
def _euclidean_forward(known, first, gram, norms, bias, beta, step, p, q, s):
    """Run eq. (11) from products `first` (k,): fills p (t, k), q (k,) and s (k,).

    The recalled row is left * start + q @ memories, s its products with the memories.
    """
    n_steps, k = p.shape
    affinity = np.empty(k)
    s[:] = first
    q[:] = 0.0
    for t in range(n_steps):
        for m in range(k):
            affinity[m] = 2.0 * (s[m] + known[m]) - norms[m]
        _softmax(affinity, bias, beta, p[t])
        for m in range(k):
            s[m] *= 1.0 - step
            q[m] = (1.0 - step) * q[m] + step * p[t, m]
        _add_pull(p[t], gram, step, s)


@_inlined
def _cosine_forward(
    known, first, aim, scale, size, gram, bias, beta, step, p, s, y, g, n
):
    """Run eq. (12)'s dynamics: fills p (t, k), s (t + 1, k), y, g (t + 1,), n (t,).

    The row after t steps is g * (seen part) + u; s are u's products with the memories,
    y with the row itself, over the hidden features; n is the squared length that the
    step had before it was put back on the sphere, or 0 where it left the row in its
    place. `size` is that of the start: 1, or 0 for a row of zeros, which has no
    direction until the first step. Returns that of the end.
    """
    n_steps, k = p.shape
    affinity = np.empty(k)
    g[0] = scale
    y[0] = aim[k]
    s[0] = first
    for t in range(n_steps):
        for m in range(k):
            affinity[m] = g[t] * known[m] + s[t, m]
        _softmax(affinity, bias, beta, p[t])
        s[t + 1] = 0.0
        _add_pull(p[t], gram, 1.0, s[t + 1])
        n[t] = size + step * (2.0 * _dot(p[t], s[t]) + step * _dot(p[t], s[t + 1]))
        if n[t] <= _OPPOSITE:
            n[t] = 0.0
            s[t + 1] = s[t]
            y[t + 1] = y[t]
            g[t + 1] = g[t]
            continue
        shrink = 1.0 / sqrt(n[t])
        size = 1.0
        for m in range(k):
            s[t + 1, m] = (s[t, m] + step * s[t + 1, m]) * shrink
        y[t + 1] = (y[t] + step * _dot(p[t], aim[:k])) * shrink
        g[t + 1] = g[t] * shrink
    return size


@_inlined
def _cosine_backward(
    known, aim, gram, beta, step, p, s, y, g, n, dy, dg, ds, dl, d_known, d_aim, d_gram
):
    """Propagate dy, dg back: fill ds, dl, d_known, d_aim (k,), add to d_gram.

    Returns dy. ds is the gradient by the products of the start, dy by its product with
    the row.
    """
    n_steps, k = p.shape
    pull = np.empty(k)
    dp = np.empty(k)
    gradient = np.empty(k)
    ds[:] = 0.0
    dl[:] = 0.0
    d_known[:] = 0.0
    d_aim[:] = 0.0
    for t in range(n_steps - 1, -1, -1):
        if n[t] == 0.0:
            continue
        shrink = 1.0 / sqrt(n[t])
        dn = -(dg * g[t + 1] + dy * y[t + 1] + _dot(ds, s[t + 1])) / (2.0 * n[t])
        pull[:] = 0.0
        _add_pull(p[t], gram, step, pull)
        for m in range(k):
            dp[m] = 0.0
            if p[t, m] > 0.0:
                dp[m] = step * shrink * (_dot(gram[m], ds) + dy * aim[m])
                dp[m] += 2.0 * step * dn * (s[t, m] + pull[m])
                d_aim[m] += step * shrink * dy * p[t, m]
        _add_outer(p[t], ds, step * shrink, d_gram)
        _add_outer(p[t], p[t], step * step * dn, d_gram)
        _softmax_backward(p[t], dp, gradient)
        dg *= shrink
        dy *= shrink
        for m in range(k):
            dl[m] += gradient[m]
            d_known[m] += beta * g[t] * gradient[m]
            dg += beta * known[m] * gradient[m]
            ds[m] = shrink * ds[m] + 2.0 * step * dn * p[t, m] + beta * gradient[m]
    return dy


@_inlined
def _add_cosine_group(
    memories,
    products,
    hidden,
    lengths,
    low,
    high,
    fill,
    bias,
    weight,
    beta,
    step,
    n_steps,
    out,
):
    """Add a group of rows with hidden features from low to high, if any."""
    d_products, d_hidden, gradient, d_bias, attracted, loss = out
    n_rows, n_init, k = products.shape
    plain = low == high
    p = np.zeros((n_steps, k))
    s = np.zeros((n_steps + 1, k))
    y = np.zeros(n_steps + 1)
    g = np.zeros(n_steps + 1)
    n = np.zeros(n_steps)
    known, first, ds, dl, d_known = _vectors(k)
    aim = np.zeros(k + 1)
    d_aim = np.zeros(k)
    gram = np.zeros((n_init, k, k))
    start = np.zeros((n_init, k))
    d_gram = np.zeros((n_init, k, k))
    d_start = np.zeros((n_init, k))
    filled = 0.0
    for j in range(low, high):
        filled += fill[j] * fill[j]
    high = memories.shape[2] if plain else high
    low = 0 if plain else low
    hidden_products(memories, low, high, fill, gram, start)
    for r in range(n_init):
        for i in range(n_rows):
            w = weight[i]
            scale = 0.0
            outside = 0.0
            size = 1.0
            if plain:
                aim[:k] = products[i, r]
                aim[k] = 1.0
                first[:] = products[i, r]
            else:
                outside = lengths[i, 0]
                length = outside + filled
                scale = 1.0 / sqrt(length) if length > 0.0 else 0.0
                size = 1.0 if scale > 0.0 else 0.0
                aim[:k] = hidden[i, r]
                aim[k] = scale * lengths[i, 1]
                for m in range(k):
                    known[m] = products[i, r, m] - aim[m]
                    first[m] = scale * start[r, m]
            size = _cosine_forward(
                known,
                first,
                aim,
                scale,
                size,
                gram[r],
                bias[r],
                beta,
                step,
                p,
                s,
                y,
                g,
                n,
            )
            y_end = y[n_steps]
            g_end = g[n_steps]
            loss[r] += w * (
                1.0 + size - outside - 2.0 * y_end - g_end * g_end * outside
            )
            attracted[r, _argmax(p[n_steps - 1])] += w
            _cosine_backward(
                known,
                aim,
                gram[r],
                beta,
                step,
                p,
                s,
                y,
                g,
                n,
                -2.0 * w,
                -2.0 * w * g_end * outside,
                ds,
                dl,
                d_known,
                d_aim,
                d_gram[r],
            )
            for m in range(k):
                d_bias[r, m] += dl[m]
                if plain:
                    d_products[i, r, m] = d_aim[m] + ds[m]
                    continue
                d_products[i, r, m] = d_known[m]
                d_start[r, m] += scale * ds[m]
                d_hidden[i, r, m] = d_aim[m] - d_known[m]
    memories_vjp(memories, low, high, fill, d_gram, d_start, gradient)


@_kernel
def cosine_rows(
    memories,
    products,
    hidden,
    lengths,
    groups,
    fill,
    bias,
    weight,
    beta,
    step,
    n_steps,
    out,
):
    """Add up loss and gradients of a batch of unit length; return its scored entries.

    As `euclidean_rows`, but rows enter by their products (b, r, k) with the memories
    over all and over their hidden features, and by `lengths` (b, 2): the squared
    length of what is seen, and the product of row and fill over what is hidden. `out`
    has the gradient by the hidden products after that by the products.
    """
    d_products, d_hidden, gradient, d_bias, attracted, loss = out
    n_scored = 0.0
    for g in range(groups.shape[0]):
        begin, end, low, high = groups[g]
        n_features = high - low if high > low else memories.shape[2]
        n_scored += weight[begin:end].sum() * n_features
        _add_cosine_group(
            memories,
            products[begin:end],
            hidden[begin:end],
            lengths[begin:end],
            low,
            high,
            fill,
            bias,
            weight[begin:end],
            beta,
            step,
            n_steps,
            (
                d_products[begin:end],
                d_hidden[begin:end],
                gradient,
                d_bias,
                attracted,
                loss,
            ),
        )
    return n_scored


@_inlined
def _manhattan_step(row, memories, order, p, step, first, chosen):
    """Move row (d,) from feature `first` on to the weighted medians; note which."""
    for j in range(first, row.shape[0]):
        total = 0.0
        for m in order[j]:
            total += p[m]
            chosen[j] = m
            if total >= 0.5:
                break
        row[j] += step * (memories[chosen[j], j] - row[j])


@_kernel
def manhattan_rows(
    rows, fill, memories, order, bias, weight, first, beta, step, n_steps, plain, out
):
    """Add up loss and gradient of rows (b, d) by city-block distances.

    Features from `first` on are hidden, or, if `plain`, only scored. memories (r, k,
    d), order (r, d, k): their order in each feature; bias (r, k). The gradient is that
    of the chosen medians, which is exact except where a choice changes.
    """
    gradient, attracted, loss = out
    n_init, k, d = memories.shape
    row = np.empty(d)
    affinity = np.empty(k)
    p = np.empty(k)
    chosen = np.zeros((n_steps, d), dtype=np.int64)
    for r in range(n_init):
        for i in range(rows.shape[0]):
            for j in range(d):
                row[j] = fill[j] if j >= first and not plain else rows[i, j]
            for t in range(n_steps):
                for m in range(k):
                    affinity[m] = 0.0
                    for j in range(d):
                        affinity[m] -= abs(row[j] - memories[r, m, j])
                _softmax(affinity, bias[r], beta, p)
                _manhattan_step(row, memories[r], order[r], p, step, first, chosen[t])
            attracted[r, _argmax(p)] += weight[i]
            for j in range(first, d):
                residual = row[j] - rows[i, j]
                loss[r] += weight[i] * abs(residual)
                share = weight[i] * step * np.sign(residual)
                for t in range(n_steps - 1, -1, -1):
                    gradient[r, chosen[t, j], j] += share
                    share *= 1.0 - step


@_kernel
def row_products(rows, by_feature, products):
    """Write products (b, k) of rows (b, d) and memories (d, k).

    Row by row and in a fixed order, so that equal rows have equal products in any
    chunks.
    """
    products[:] = 0.0
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            value = rows[i, j]
            for m in range(by_feature.shape[1]):
                products[i, m] += value * by_feature[j, m]


@_kernel
def sparse_row_products(data, indices, indptr, by_feature, products):
    """As `row_products`, for CSR rows."""
    products[:] = 0.0
    for i in range(products.shape[0]):
        for j in range(indptr[i], indptr[i + 1]):
            value = data[j]
            feature = indices[j]
            for m in range(by_feature.shape[1]):
                products[i, m] += value * by_feature[feature, m]


@_kernel
def assign_rows(products, memories, bias, beta, step, n_steps, geometry, labels):
    """Write the memory nearest to the recalled row, from products (b, k) with it.

    memories (k, d); geometry: 0 Euclidean, 1 cosine (rows and memories of unit
    length).
    """
    n_rows = products.shape[0]
    k = memories.shape[0]
    gram = np.zeros((k, k))
    for m in range(k):
        for j in range(k):
            gram[m, j] = _dot(memories[m], memories[j])
    norms = np.diag(gram).copy()
    p = np.zeros((n_steps, k))
    s = np.zeros((n_steps + 1, k))
    y = np.zeros(n_steps + 1)
    g = np.zeros(n_steps + 1)
    n = np.zeros(n_steps)
    known, _, q, end, _ = _vectors(k)
    aim = np.zeros(k + 1)
    for i in range(n_rows):
        first = products[i]
        if geometry == 0:
            _euclidean_forward(known, first, gram, norms, bias, beta, step, p, q, end)
            for m in range(k):
                end[m] = 2.0 * end[m] - norms[m]
        else:
            _cosine_forward(
                known, first, aim, 0.0, 1.0, gram, bias, beta, step, p, s, y, g, n
            )
            end[:] = s[n_steps]
        labels[i] = _argmax(end)


@_kernel
def assign_rows_manhattan(rows, memories, order, bias, beta, step, n_steps, labels):
    """Write the memory nearest to the recalled row, by city-block distances."""
    k, d = memories.shape
    row = np.empty(d)
    affinity = np.empty(k)
    p = np.empty(k)
    chosen = np.zeros(d, dtype=np.int64)
    for i in range(rows.shape[0]):
        row[:] = rows[i]
        for t in range(n_steps + 1):
            for m in range(k):
                affinity[m] = 0.0
                for j in range(d):
                    affinity[m] -= abs(row[j] - memories[m, j])
            if t < n_steps:
                _softmax(affinity, bias, beta, p)
                _manhattan_step(row, memories, order, p, step, 0, chosen)
        labels[i] = _argmax(affinity)
