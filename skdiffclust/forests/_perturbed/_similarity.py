"""The standardised similarity of samples, with its vector-Jacobian product.

The NumPy twin of the function in `_torch`, which works without torch.
"""

import numpy as np

_TINY = np.finfo(np.float64).tiny ** 0.5


def standardized_similarity(embedding, kind):
    """Return the similarity (n, n), float64, of samples (n, d) with mean 0 and std 1.

    `kind` is "sqeuclidean", "rbf" or "cosine"; the twin of the function of this name in
    torch, which has the formulas. It is zero if all entries are equal.
    """
    return standardized_similarity_with_vjp(embedding, kind)[0]


def standardized_similarity_with_vjp(embedding, kind):
    """Return the standardised similarity (n, n), and how to differentiate through it.

    The second is a function from the gradient (n, n) by the similarity to that (n, d)
    by the embedding, both in float64. O(n² d) each.
    """
    rows = embedding.astype(np.float64)
    similarity, vjp_of_rows = _KINDS[kind](rows)
    centred = similarity - similarity.mean()
    variance = np.mean(centred * centred)
    deviation = np.sqrt(max(variance, _TINY))
    standardized = centred / deviation

    def vjp(gradient):
        # Through the division by the deviation, then through the mean.
        gradient = gradient / deviation
        if variance > _TINY:
            slant = np.vdot(gradient, standardized) / gradient.size
            gradient -= slant * standardized
        gradient -= gradient.mean()
        return vjp_of_rows(gradient)

    return standardized, vjp


def _squared_distances(rows):
    """Return squared distances (n, n) of rows (n, d), and how to differentiate them."""
    rows = rows - rows.mean(axis=0)
    squares = np.einsum("ij,ij->i", rows, rows)
    distances = squares[:, None] + squares[None, :] - 2.0 * (rows @ rows.T)
    np.fill_diagonal(distances, 0.0)
    # Distances that are negative by rounding become zero, without a gradient.
    inside = distances >= 0.0
    np.maximum(distances, 0.0, out=distances)

    def vjp_of_rows(gradient):
        both = np.where(inside, gradient, 0.0)
        both = both + both.T
        np.fill_diagonal(both, 0.0)
        return 2.0 * (both.sum(axis=1)[:, None] * rows - both @ rows)

    return distances, vjp_of_rows


def _sqeuclidean(rows):
    """Return minus the squared distances, and how to differentiate them."""
    distances, vjp_of_rows = _squared_distances(rows)
    return -distances, lambda gradient: vjp_of_rows(-gradient)


def _rbf(rows):
    """Return exp(-d² / mean d²), and how to differentiate it."""
    distances, vjp_of_rows = _squared_distances(rows)
    mean = distances.mean()
    width = max(mean, _TINY)
    similarity = np.exp(-distances / width)

    def vjp(gradient):
        by_ratio = -gradient * similarity  # by d² / width
        by_distances = by_ratio / width
        if mean > _TINY:
            by_distances -= np.vdot(by_ratio, distances) / width**2 / distances.size
        return vjp_of_rows(by_distances)

    return similarity, vjp


def _cosine(rows):
    """Return the cosines of rows, and how to differentiate them."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    lengths = np.maximum(lengths, 1e-12)
    directions = rows / lengths

    def vjp_of_rows(gradient):
        by_directions = (gradient + gradient.T) @ directions
        radial = np.einsum("ij,ij->i", by_directions, directions)[:, None]
        return (by_directions - radial * directions) / lengths

    return directions @ directions.T, vjp_of_rows


_KINDS = {"sqeuclidean": _sqeuclidean, "rbf": _rbf, "cosine": _cosine}
