"""The standardised affinity of samples, with its vector-Jacobian product.

The NumPy twin of the function in `_torch`, which works without torch.
"""

import numpy as np

_TINY = np.finfo(np.float64).tiny ** 0.5


def standardized_affinity(embedding, kind):
    """Return the affinity (n, n), float64, of samples (n, d) with mean 0 and std 1.

    `kind` is "sqeuclidean" or "cosine"; the twin of the function of this name in torch,
    which has the formulas. It is zero if all entries are equal.
    """
    return standardized_affinity_with_vjp(embedding, kind)[0]


def standardized_affinity_with_vjp(embedding, kind):
    """Return the standardised affinity (n, n), and how to differentiate through it.

    The second is a function from the gradient (n, n) by the affinity to that (n, d)
    by the embedding, both in float64. O(n² d) each.
    """
    rows = embedding.astype(np.float64)
    affinity, vjp_of_rows = (_cosine if kind == "cosine" else _sqeuclidean)(rows)
    # A factor that is a power of two changes no other bit; no square underflows.
    unit = np.ldexp(1.0, np.frexp(np.abs(affinity).max())[1] - 1)
    affinity = affinity / unit
    centred = affinity - affinity.mean()
    variance = np.mean(centred * centred)
    deviation = np.sqrt(max(variance, _TINY))
    standardized = centred / deviation

    def vjp(gradient):
        # It goes through the division by the deviation, then through the mean.
        gradient = gradient / deviation
        if variance > _TINY:
            slant = np.vdot(gradient, standardized) / gradient.size
            gradient -= slant * standardized
        gradient -= gradient.mean()
        return vjp_of_rows(gradient / unit)

    return standardized, vjp


def _sqeuclidean(rows):
    """Return minus the squared distances of rows, and their backward pass."""
    rows = rows - rows.mean(axis=0)
    squares = np.einsum("ij,ij->i", rows, rows)
    affinity = 2.0 * (rows @ rows.T) - squares[:, None] - squares[None, :]
    np.fill_diagonal(affinity, 0.0)
    # Distances that are negative by rounding become zero, without a gradient.
    inside = affinity <= 0.0
    np.minimum(affinity, 0.0, out=affinity)

    def vjp_of_rows(gradient):
        both = np.where(inside, gradient, 0.0)
        both = both + both.T
        np.fill_diagonal(both, 0.0)
        return 2.0 * (both @ rows - both.sum(axis=1)[:, None] * rows)

    return affinity, vjp_of_rows


def _cosine(rows):
    """Return the cosines of rows, and their backward pass."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    lengths = np.maximum(lengths, 1e-12)
    directions = rows / lengths

    def vjp_of_rows(gradient):
        by_directions = (gradient + gradient.T) @ directions
        radial = np.einsum("ij,ij->i", by_directions, directions)[:, None]
        return (by_directions - radial * directions) / lengths

    return directions @ directions.T, vjp_of_rows
