"""The dynamics, and their backward pass, in n_clusters dimensions.

With one set of hidden features for a group of samples, the steps of eq. (4) need of
samples and memories only their products. Arrays (..., k, b) are of k memories and b
samples; the leading dimension is that of restarts.
"""

from typing import NamedTuple

import numpy as np

# Squared length, after a step on the sphere, that is rounding: the sample was opposite
# to what attracts it, a stationary point of the energy.
_OPPOSITE = 1e-14
_LEAST = -80.0  # a logit whose exponential is no share, but a normal number
_CLEAR = 0.5 + 1e-9  # share of a memory that is the median of every feature


def attraction(affinity, bias, beta):
    """Return softmax(beta * affinity + bias) over the memories (..., k, b).

    `bias` (..., k, 1) is None for memories of equal weights.
    """
    logits = affinity - affinity.max(axis=-2, keepdims=True)
    # beta multiplies a difference that is never positive, so it cannot overflow to
    # NaN, whatever its size.
    with np.errstate(over="ignore", under="ignore"):
        logits *= beta
        if bias is not None:
            logits += bias
            logits -= logits.max(axis=-2, keepdims=True)
        shares = np.exp(np.maximum(logits, _LEAST, out=logits), out=logits)
        # Smaller shares are lost in every sum, and denormal products are slow.
        shares *= shares > np.finfo(shares.dtype).eps ** 2
        shares /= shares.sum(axis=-2, keepdims=True)
    return shares


def _through_softmax(share, by_share):
    """Return the gradient (..., k, b) by the logits of one by the shares, in place."""
    by_share -= np.sum(share * by_share, axis=-2, keepdims=True)
    by_share *= share
    return by_share


class Grams(NamedTuple):
    """Products of the memories in the features that move, by groups of samples.

    `parts` are pairs of a slice of samples and products (..., k, k).
    """

    parts: list

    def times(self, shares):
        """Return the products with the memories (..., k, b) of shares (..., k, b)."""
        products = np.zeros_like(shares)
        for rows, gram in self.parts:
            products[..., rows] = gram @ shares[..., rows]
        return products

    def zeros(self):
        """Return a gradient (..., k, k) by the products of each group."""
        return [np.zeros_like(gram) for _, gram in self.parts]

    def add_outer(self, totals, left, right):
        """Add the sums over samples of left (..., k, b) times right to each group."""
        for total, (rows, _) in zip(totals, self.parts, strict=True):
            total += left[..., rows] @ right[..., rows].swapaxes(-1, -2)


def euclidean_steps(known, first, times, norms, bias, dynamics):
    """Return the T attractions of eq. (11), the pull, and the products of the end.

    The end is ``(1 - step)^T start + memories^T pull``; the products (..., k, b) are
    those with the memories. `known` are the products of seen features with the
    memories, `first` those of the start of hidden ones, `times` is that of the `Grams`
    of hidden features, and `norms` (..., k, 1) are the squared lengths of the memories.
    """
    step = dynamics.step_size
    fixed = known - 0.5 * norms
    products = first
    pull = 0.0
    shares = []
    for _ in range(dynamics.n_steps):
        share = attraction(products + fixed, bias, 2.0 * dynamics.inverse_temperature)
        shares.append(share)
        products = (1.0 - step) * products + step * times(share)
        pull = (1.0 - step) * pull + step * share
    return shares, pull, products


def euclidean_backward(shares, by_pull, grams, dynamics):
    """Return gradients by first products, logits (summed over the steps), and grams.

    `shares` are the attractions, `by_pull` is the gradient by the pull.
    """
    step = dynamics.step_size
    left = 1.0 - step
    by_products = np.zeros_like(by_pull)
    by_logits = np.zeros_like(by_pull)
    by_gram = grams.zeros()
    for t, share in enumerate(reversed(shares)):
        by_share = step * grams.times(by_products) + step * left**t * by_pull
        grams.add_outer(by_gram, step * share, by_products)
        gradient = _through_softmax(share, by_share)
        by_logits += gradient
        gradient *= 2.0 * dynamics.inverse_temperature
        by_products = left * by_products + gradient
    return by_products, by_logits, by_gram


class SphereStep(NamedTuple):
    """A step of rows on the sphere."""

    share: np.ndarray  # (..., k, b)
    moved: np.ndarray  # (..., k, b) products of the moved row with the memories,
    products: np.ndarray  # (..., k, b) and when it is back on the sphere
    cosine: np.ndarray  # (..., 1, b) of the row after the step, and of its start
    length: np.ndarray  # (..., 1, b) before it is put back on the sphere
    step: np.ndarray  # (..., 1, b) step size, 0 where the row is at a stationary point


def sphere_steps(start, times, bias, dynamics):
    """Return the steps of Section 3.5, from products (..., k, b) with the memories.

    `times` is that of the `Grams`.
    """
    products = start
    cosine = 1.0
    steps = []
    for _ in range(dynamics.n_steps):
        share = attraction(products, bias, dynamics.inverse_temperature)
        pull = times(share)
        change = share * (2.0 * products + dynamics.step_size * pull)
        square = 1.0 + dynamics.step_size * change.sum(axis=-2, keepdims=True)
        moves = square > _OPPOSITE
        step = np.where(moves, dynamics.step_size, 0.0)
        length = np.sqrt(np.where(moves, square, 1.0))
        moved = products + step * pull
        products = moved / length
        pulled = step * np.sum(share * start, axis=-2, keepdims=True)
        cosine = (cosine + pulled) / length
        steps.append(SphereStep(share, moved, products, cosine, length, step))
    return steps


def sphere_backward(start, steps, by_cosine, grams, dynamics):
    """Return gradients by the start, by logits (summed over the steps), and grams.

    `by_cosine` (..., 1, b) is that by the cosine of the start and the last step.
    """
    by_products = np.zeros_like(start)
    by_logits = np.zeros_like(start)
    by_start = np.zeros_like(start)
    by_gram = grams.zeros()
    for taken in reversed(steps):
        share = taken.share
        by_length = np.sum(by_products * taken.products, axis=-2, keepdims=True)
        by_length += by_cosine * taken.cosine
        by_length *= -taken.step / np.square(taken.length)
        by_products /= taken.length
        by_cosine = by_cosine / taken.length
        by_share = taken.step * (grams.times(by_products) + by_cosine * start)
        by_share += by_length * taken.moved
        by_start += taken.step * by_cosine * share
        outer = taken.step * (by_products + 0.5 * by_length * share)
        grams.add_outer(by_gram, share, outer)
        gradient = _through_softmax(share, by_share)
        by_logits += gradient
        by_products += by_length * share + dynamics.inverse_temperature * gradient
    return by_start + by_products, by_logits, by_gram


def medians(shares, memories):
    """Return the memory (b, d) of (k, d) that is the weighted median of each feature.

    The weights are the shares (k, b) of the memories in the attraction of samples.
    """
    # A memory with more than half of the shares is the median of every feature.
    nearest = shares.argmax(axis=0)
    chosen = np.repeat(nearest[:, None], memories.shape[1], axis=1)
    unclear = np.flatnonzero(shares.max(axis=0) < _CLEAR)
    if len(unclear):
        shares = shares[:, unclear]
        for j, order in enumerate(np.argsort(memories, axis=0, kind="stable").T):
            reached = np.cumsum(shares[order], axis=0) >= 0.5
            reached[-1] = True  # the sum may be a little less than one
            chosen[unclear, j] = order[reached.argmax(axis=0)]
    return chosen
