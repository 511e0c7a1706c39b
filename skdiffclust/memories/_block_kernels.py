"""The Euclidean recursion and its backward pass, 64 rows side by side.

As `_kernels`, with the rows of a block as the last axis of every array: its length is
known to the compiler, so that vector units are full whatever the number of memories,
and the exponential is a polynomial that they can evaluate.
"""

import numpy as np

from skdiffclust._compiled import compiled

_LANES = 64
# exp(-40) is below the rounding of one: such memories take no part in a step.
_NEGLIGIBLE = -40.0
_FAST = {"contract", "reassoc", "nsz", "arcp"}
_kernel = compiled(nogil=True, fastmath=_FAST, error_model="numpy")


@_kernel
def _exp(x):
    """Return exp of a number in [-40, 0], to 1e-14: a power of a Taylor polynomial."""
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


@_kernel
def _softmax(affinity, bias, beta, p):
    """Write softmax(beta * affinity + bias) over the memories into p (k, lanes)."""
    k = affinity.shape[0]
    top, high = np.full(_LANES, -np.inf), np.full(_LANES, -np.inf)
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


@_kernel
def _takes_part(p):
    """Tell whether any of p (lanes,) is not zero."""
    total = 0.0
    for i in range(_LANES):
        total += abs(p[i])
    return total > 0.0


@_kernel
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


@_kernel
def _backward(gram, dq, beta, step, p, ds, dl, d_gram, gradient):
    """Pull dq (k, lanes) back through the steps: fills ds and dl, adds to d_gram.

    dl is the sum over the steps of the gradient by the logits.
    """
    n_steps, k, _ = p.shape
    ds[:] = 0.0
    dl[:] = 0.0
    dp, mean = np.empty(_LANES), np.empty(_LANES)
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
                outer, pull = 0.0, step * gram[m, j]
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


@_kernel
def _load(source, begin, count, restart, out):
    """Copy products (n, r, k) of some rows to the lanes of out (k, lanes)."""
    for i in range(count):
        for m in range(out.shape[0]):
            out[m, i] = source[begin + i, restart, m]


@_kernel
def _close(aim, first, w, left, q, s, dq, d_gram):
    """Write dq (k, lanes), add to d_gram (k, k); return the loss of the lanes."""
    k, loss = aim.shape[0], 0.0
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


@_kernel
def euclidean_rows(
    products, target, start, gram, norms, bias, weight, beta, step, n_steps, plain, out
):
    """Add up loss and gradients of rows, Euclidean; `out` as in `_training`.

    products, target (b, r, k): of rows and memories over all and over the hidden
    features, d_all and d_hidden the gradients by them; start (r, k): of the fill; gram
    (r, k, k): of memories, hidden features; norms, bias (r, k); weight (b,). If
    `plain`, nothing is hidden: start is target. The part of the loss that no memory
    enters is left to the caller. Rows of no weight fill the last block up, with zeros.
    """
    d_all, d_hidden, d_gram, d_bias, d_start, attracted, loss = out
    n_rows, n_init, k = target.shape
    p = np.zeros((n_steps, k, _LANES))
    known, first = np.zeros((k, _LANES)), np.zeros((k, _LANES))
    aim, q, s = np.zeros((k, _LANES)), np.zeros((k, _LANES)), np.zeros((k, _LANES))
    dq, ds, dl = np.zeros((k, _LANES)), np.zeros((k, _LANES)), np.zeros((k, _LANES))
    scratch = np.zeros((k, _LANES))
    w = np.zeros(_LANES)
    left = (1.0 - step) ** n_steps
    for r in range(n_init):
        for begin in range(0, n_rows, _LANES):
            count = min(_LANES, n_rows - begin)
            w[:] = 0.0
            w[:count] = weight[begin : begin + count]
            _load(target, begin, count, r, aim)
            if plain:
                first[:] = aim
            else:
                _load(products, begin, count, r, known)
                for m in range(k):
                    for i in range(_LANES):
                        known[m, i] -= aim[m, i]
                        first[m, i] = start[r, m]
            _forward(
                known, first, gram[r], norms[r], bias[r], beta, step, p, q, s, scratch
            )
            loss[r] += _close(aim, first, w, left, q, s, dq, d_gram[r])
            _backward(gram[r], dq, beta, step, p, ds, dl, d_gram[r], scratch)
            for i in range(count):
                best = 0
                for m in range(k):
                    if q[m, i] > q[best, i]:
                        best = m
                    by_start = ds[m, i] + 2.0 * w[i] * left * q[m, i]
                    d_bias[r, m] += dl[m, i]
                    by_target = -2.0 * w[i] * q[m, i]
                    if plain:
                        d_all[begin + i, r, m] = by_target + by_start
                    else:
                        by_seen = 2.0 * beta * dl[m, i]
                        d_all[begin + i, r, m] = by_seen
                        d_hidden[begin + i, r, m] = by_target - by_seen
                        d_start[r, m] += by_start
                attracted[r, best] += w[i]
