"""The Euclidean recursion and its backward pass, 64 rows side by side.

As `_kernels`, with the rows of a block as the last axis of every array: its length is
known to the compiler, so that vector units are full whatever the number of memories,
and the exponential is a polynomial that they can evaluate.
"""

import numpy as np

from skdiffclust._compiled import compiled

_LANES = 64
# exp(-40) is below the rounding of one: such memories are left out of a step.
_NEGLIGIBLE = -40.0
_FAST = {"contract", "reassoc", "nsz", "arcp"}
_kernel = compiled(nogil=True, fastmath=_FAST, error_model="numpy")
# For helpers: a process that compiles would call the copy that it compiled first, one
# that loads from numba's cache the copy beside the caller, which may round differently.
_inlined = compiled(nogil=True, fastmath=_FAST, error_model="numpy", inline="always")


@_inlined
def _exp(x):
    """Return exp of a number in [-40, 0], to 1e-14 and to 2e-12 of itself.

    A power of a Taylor polynomial.
    """
    x /= 64.0
    y = 1.0 + x / 13.0
    y = 1.0 + x / 12.0 * y
    y = 1.0 + x / 11.0 * y
    y = 1.0 + x / 10.0 * y
    y = 1.0 + x / 9.0 * y
    y = 1.0 + x / 8.0 * y
    y = 1.0 + x / 7.0 * y
    y = 1.0 + x / 6.0 * y
    y = 1.0 + x / 5.0 * y
    y = 1.0 + x / 4.0 * y
    y = 1.0 + x / 3.0 * y
    y = 1.0 + x / 2.0 * y
    y = 1.0 + x * y
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    return y * y


@_inlined
def _softmax(affinity, bias, beta, p):
    """Write softmax(beta * affinity + bias) over the memories into p (k, lanes)."""
    k = affinity.shape[0]
    top = np.full(_LANES, -np.inf)
    high = np.full(_LANES, -np.inf)
    total = np.zeros(_LANES)
    for m in range(k):
        for i in range(_LANES):
            top[i] = max(top[i], affinity[m, i])
    # beta multiplies a difference that is never positive, so it cannot overflow to
    # NaN, whatever its size.
    for m in range(k):
        for i in range(_LANES):
            p[m, i] = beta * (affinity[m, i] - top[i]) + bias[m]
            high[i] = max(high[i], p[m, i])
    for m in range(k):
        for i in range(_LANES):
            gap = p[m, i] - high[i]
            value = _exp(max(gap, _NEGLIGIBLE))
            value = value if gap > _NEGLIGIBLE else 0.0
            p[m, i] = value
            total[i] += value
    for m in range(k):
        for i in range(_LANES):
            p[m, i] /= total[i]


@_inlined
def _takes_part(p):
    """Return whether any of p (lanes,) is not zero."""
    total = 0.0
    for i in range(_LANES):
        total += abs(p[i])
    return total > 0.0


@_inlined
def _forward(known, first, gram, norms, bias, beta, step, p, q, s, affinity):
    """Run eq. (11) from products `first` (k, lanes): fills p (t, k, lanes), q and s.

    The recalled row is left * start + q @ memories, s its products with the memories.
    """
    n_steps, k, _ = p.shape
    s[:] = first
    q[:] = 0.0
    for t in range(n_steps):
        for m in range(k):
            for i in range(_LANES):
                affinity[m, i] = 2.0 * (s[m, i] + known[m, i]) - norms[m]
        _softmax(affinity, bias, beta, p[t])
        for m in range(k):
            for i in range(_LANES):
                s[m, i] *= 1.0 - step
                q[m, i] = (1.0 - step) * q[m, i] + step * p[t, m, i]
        for m in range(k):
            if _takes_part(p[t, m]):
                for j in range(k):
                    pull = step * gram[m, j]
                    for i in range(_LANES):
                        s[j, i] += pull * p[t, m, i]


@_inlined
def _backward(gram, dq, beta, step, p, ds, dl, d_gram, gradient):
    """Propagate dq (k, lanes) back through the steps: fills ds and dl, adds to d_gram.

    dl is the sum over the steps of the gradient by the logits.
    """
    n_steps, k, _ = p.shape
    ds[:] = 0.0
    dl[:] = 0.0
    dp = np.empty(_LANES)
    mean = np.empty(_LANES)
    share = step
    for t in range(n_steps - 1, -1, -1):
        mean[:] = 0.0
        for m in range(k):
            gradient[m] = 0.0
            if not _takes_part(p[t, m]):
                continue
            for i in range(_LANES):
                dp[i] = share * dq[m, i]
            for j in range(k):
                outer = 0.0
                pull = step * gram[m, j]
                for i in range(_LANES):
                    dp[i] += pull * ds[j, i]
                    outer += p[t, m, i] * ds[j, i]
                d_gram[m, j] += step * outer
            for i in range(_LANES):
                gradient[m, i] = p[t, m, i] * dp[i]
                mean[i] += gradient[m, i]
        for m in range(k):
            for i in range(_LANES):
                gradient[m, i] -= p[t, m, i] * mean[i]
                dl[m, i] += gradient[m, i]
                ds[m, i] = (1.0 - step) * ds[m, i] + 2.0 * beta * gradient[m, i]
        share *= 1.0 - step


@_inlined
def _load(source, begin, count, restart, out):
    """Copy products (n, r, k) of some rows to the lanes of out (k, lanes)."""
    for i in range(count):
        for m in range(out.shape[0]):
            out[m, i] = source[begin + i, restart, m]


@_inlined
def _close(aim, first, w, left, q, s, dq, d_gram):
    """Write dq (k, lanes), add to d_gram (k, k); return the loss of the lanes."""
    k = aim.shape[0]
    loss = 0.0
    for m in range(k):
        for i in range(_LANES):
            loss += w[i] * q[m, i] * (s[m, i] - 2.0 * aim[m, i] + left * first[m, i])
            dq[m, i] = 2.0 * w[i] * (s[m, i] - aim[m, i])
        if not _takes_part(q[m]):
            continue
        for j in range(k):
            outer = 0.0
            for i in range(_LANES):
                outer += w[i] * q[m, i] * q[j, i]
            d_gram[m, j] += outer
    return loss


@_inlined
def _load_hidden(X, low, begin, count, x):
    """Copy features of rows X (n, d) from `low` on to the lanes of x (u, lanes)."""
    for i in range(count):
        for j in range(x.shape[0]):
            x[j, i] = X[begin + i, low + j]


@_inlined
def _project(memories, low, x, out):
    """Write products of memories (k, d) and lanes x (u, lanes) into out (k, lanes)."""
    out[:] = 0.0
    for m in range(out.shape[0]):
        for j in range(x.shape[0]):
            value = memories[m, low + j]
            for i in range(_LANES):
                out[m, i] += value * x[j, i]


@_inlined
def _add_hidden(d_hidden, low, x, gradient):
    """Add to gradient (k, d) the part due to the products of `_project`."""
    for m in range(d_hidden.shape[0]):
        for j in range(x.shape[0]):
            total = 0.0
            for i in range(_LANES):
                total += d_hidden[m, i] * x[j, i]
            gradient[m, low + j] += total


@_inlined
def hidden_products(memories, low, high, fill, gram, start):
    """Fill gram (r, k, k) and start (r, k): of memories (r, k, d) and of the fill (d,).

    Only features from low to high count.
    """
    n_init, k, _ = memories.shape
    for r in range(n_init):
        for m in range(k):
            for n in range(m + 1):
                total = 0.0
                for j in range(low, high):
                    total += memories[r, m, j] * memories[r, n, j]
                gram[r, m, n] = gram[r, n, m] = total
            total = 0.0
            for j in range(low, high):
                total += memories[r, m, j] * fill[j]
            start[r, m] = total


@_inlined
def memories_vjp(memories, low, high, fill, d_gram, d_start, gradient):
    """Add to gradient (r, k, d) the part due to `hidden_products`."""
    n_init, k, _ = memories.shape
    for r in range(n_init):
        for m in range(k):
            for j in range(low, high):
                gradient[r, m, j] += d_start[r, m] * fill[j]
            for n in range(k):
                both = d_gram[r, m, n] + d_gram[r, n, m]
                for j in range(low, high):
                    gradient[r, m, j] += both * memories[r, n, j]


@_inlined
def _rest(X, low, high, fill, weight, left):
    """Return the part of the loss of rows that does not depend on the memories."""
    total = 0.0
    for i in range(X.shape[0]):
        square = 0.0
        for j in range(low, high):
            gap = X[i, j] - left * fill[j]
            square += gap * gap
        total += weight[i] * square
    return total


@_inlined
def _close_rows(
    begin,
    count,
    r,
    plain,
    w,
    beta,
    left,
    q,
    ds,
    dl,
    d_hidden,
    d_start,
    d_products,
    d_bias,
    attracted,
):
    """Write and add up gradients by products, and the memory of each row."""
    k = q.shape[0]
    for i in range(count):
        best = 0
        for m in range(k):
            if q[m, i] > q[best, i]:
                best = m
            by_start = ds[m, i] + 2.0 * w[i] * left * q[m, i]
            by_target = -2.0 * w[i] * q[m, i]
            d_bias[r, m] += dl[m, i]
            if plain:
                d_products[begin + i, r, m] = by_target + by_start
            else:
                by_seen = 2.0 * beta * dl[m, i]
                d_products[begin + i, r, m] = by_seen
                d_hidden[m, i] = by_target - by_seen
                d_start[r, m] += by_start
        attracted[r, best] += w[i]
    d_hidden[:, count:] = 0.0


@_inlined
def _add_group(
    X,
    memories,
    products,
    low,
    high,
    fill,
    norms,
    bias,
    weight,
    beta,
    step,
    n_steps,
    out,
):
    """Add a group of rows X (n, d) with hidden features from low to high, if any."""
    d_products, gradient, d_bias, attracted, loss = out
    n_rows, n_init, k = products.shape
    plain = low == high
    x = np.zeros((high - low, _LANES))
    gram = np.zeros((n_init, k, k))
    start = np.zeros((n_init, k))
    d_gram = np.zeros((n_init, k, k))
    d_start = np.zeros((n_init, k))
    p = np.zeros((n_steps, k, _LANES))
    known = np.zeros((k, _LANES))
    first = np.zeros((k, _LANES))
    aim = np.zeros((k, _LANES))
    q = np.zeros((k, _LANES))
    s = np.zeros((k, _LANES))
    dq = np.zeros((k, _LANES))
    ds = np.zeros((k, _LANES))
    dl = np.zeros((k, _LANES))
    scratch = np.zeros((k, _LANES))
    w = np.zeros(_LANES)
    left = (1.0 - step) ** n_steps
    if plain:
        # The recall starts from the row itself, and all features are scored.
        high = memories.shape[2]
        fill = np.zeros(memories.shape[2])
    low = 0 if plain else low
    hidden_products(memories, low, high, fill, gram, start)
    share = (1.0 - left) ** 2 if plain else 1.0
    last = X.shape[1] if plain else high
    loss += share * _rest(X, low, last, fill, weight, left)
    for begin in range(0, n_rows, _LANES):
        count = min(_LANES, n_rows - begin)
        w[:] = 0.0
        w[:count] = weight[begin : begin + count]
        _load_hidden(X, low, begin, count, x)
        for r in range(n_init):
            _load(products, begin, count, r, known)
            if plain:
                aim[:] = known
                first[:] = known
                known[:] = 0.0
            else:
                _project(memories[r], low, x, aim)
                known -= aim
                for m in range(k):
                    first[m] = start[r, m]
            _forward(
                known, first, gram[r], norms[r], bias[r], beta, step, p, q, s, scratch
            )
            loss[r] += _close(aim, first, w, left, q, s, dq, d_gram[r])
            _backward(gram[r], dq, beta, step, p, ds, dl, d_gram[r], scratch)
            _close_rows(
                begin,
                count,
                r,
                plain,
                w,
                beta,
                left,
                q,
                ds,
                dl,
                scratch,
                d_start,
                d_products,
                d_bias,
                attracted,
            )
            _add_hidden(scratch, low, x, gradient[r])
    memories_vjp(memories, low, high, fill, d_gram, d_start, gradient)


@_kernel
def euclidean_rows(
    X, memories, products, groups, fill, bias, weight, beta, step, n_steps, out
):
    """Add up loss and gradients of a batch, Euclidean; return its scored entries.

    X (b, d), memories (r, k, d), products (b, r, k) of both; groups (g, 4): the first
    row and the one after the last, and the same of hidden features; fill (d,); bias (r,
    k); weight (b,); `out`: gradients by products, memories and bias, weight that each
    memory attracted (r, k), and loss (r,), to which the part of a row that does not
    depend on the memories is added. Rows of no weight fill the last block up, with
    zeros. Rows with nothing hidden enter by their products and their length only: X may
    then be any rows of the same lengths.
    """
    d_products, gradient, d_bias, attracted, loss = out
    norms = np.zeros(bias.shape)
    for r in range(norms.shape[0]):
        for m in range(norms.shape[1]):
            for j in range(memories.shape[2]):
                norms[r, m] += memories[r, m, j] ** 2
    n_scored = 0.0
    for g in range(groups.shape[0]):
        begin, end, low, high = groups[g]
        n_features = high - low if high > low else memories.shape[2]
        n_scored += weight[begin:end].sum() * n_features
        _add_group(
            X[begin:end],
            memories,
            products[begin:end],
            low,
            high,
            fill,
            norms,
            bias,
            weight[begin:end],
            beta,
            step,
            n_steps,
            (d_products[begin:end], gradient, d_bias, attracted, loss),
        )
    return n_scored
