"""Compiled parts of the solver of penalised linear models, on flat vectors.

A point z is the weights of a model, sample features in groups one after the other and k
entries a feature, and then its k biases. Block g of it, from ``starts[g]`` up to
``starts[g + 1]``, holds the weights of a group.

With array operations in their place, whole paths take 1.4 to 1.9 times as long.
"""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.gemini._fused import mmd_of_columns, mmd_of_linear

# As in _fused: sums in any order, NaN and infinity are kept.
_loops = compiled(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


@_loops
def flat_mmd(X, is_turned, features, row_weights, z, n_clusters, noise, one_vs_one):
    """Return the MMD of the linear model z on X, and minus its gradient (len(z),).

    X is (n, d), or (d, n) if it `is_turned`; the rest is as for `mmd_of_linear`.
    """
    n_features = X.shape[0] if is_turned else X.shape[1]
    end = n_features * n_clusters
    weights = z[:end].copy().reshape((n_features, n_clusters))
    biases = z[end:].copy()
    gradient = np.empty(len(z))
    if is_turned:
        value, by_weights, by_biases = mmd_of_columns(
            X, features, row_weights, weights, biases, noise, one_vs_one
        )
        gradient[:end] = by_weights.ravel()
    else:
        value, by_weights, by_biases = mmd_of_linear(
            X, features, row_weights, weights.T.copy(), biases, noise, one_vs_one
        )
        gradient[:end] = by_weights.T.copy().ravel()
    gradient[end:] = by_biases
    return value, gradient


@_loops
def inner_product(one, other):
    """Return the product of two vectors (p,).

    In one thread: BLAS starts threads for some ten thousand entries, which wait for
    each other on a processor that is busy.
    """
    product = 0.0
    for i in range(len(one)):
        product += one[i] * other[i]
    return product


@_loops
def block_lengths(z, gradient, starts, step):
    """Return the norms of the blocks of z and of z - step * gradient, both (g,)."""
    n_blocks = len(starts) - 1
    norms = np.empty(n_blocks)
    moved = np.empty(n_blocks)
    for block in range(n_blocks):
        square = 0.0
        moved_square = 0.0
        for i in range(starts[block], starts[block + 1]):
            square += z[i] ** 2
            moved_square += (z[i] - step * gradient[i]) ** 2
        norms[block] = np.sqrt(square)
        moved[block] = np.sqrt(moved_square)
    return norms, moved


@_loops
def block_residuals(z, gradient, starts, moved, proximal, step):
    """Return how far a proximal step takes each block, by the step size (g,).

    `moved` (g,) are the norms of the blocks of z - step * gradient, and `proximal` (g,)
    what the proximal operator makes of them.
    """
    residuals = np.empty(len(starts) - 1)
    for block in range(len(residuals)):
        factor = proximal[block] / moved[block] if moved[block] > 0 else 0.0
        square = 0.0
        for i in range(starts[block], starts[block + 1]):
            square += (z[i] - factor * (z[i] - step * gradient[i])) ** 2
        residuals[block] = np.sqrt(square) / step
    return residuals


@_loops
def add_derivatives(z, gradient, starts, norms, derivatives):
    """Return the gradient with the derivatives (g,) of norms; zero blocks add 0."""
    whole = gradient.copy()
    for block in range(len(norms)):
        for i in range(starts[block], starts[block + 1]):
            if norms[block] > 0:
                whole[i] += derivatives[block] * z[i] / norms[block]
            else:
                whole[i] = 0.0
    return whole


@_loops
def quasi_newton(gradient, moves, changes, n_pairs):
    """Return minus the L-BFGS inverse Hessian times a gradient (p,).

    Of the rings `moves` and `changes` (m, p), of differences of points and gradients,
    the last min(n_pairs, m) were written; those without curvature are left out.
    """
    capacity, size = moves.shape
    direction = -gradient
    used = min(n_pairs, capacity)
    factors = np.zeros(used)
    curvatures = np.zeros(used)
    scale = 0.0
    for age in range(used):
        i = (n_pairs - 1 - age) % capacity
        product = 0.0
        for j in range(size):
            curvatures[age] += moves[i, j] * changes[i, j]
            product += moves[i, j] * direction[j]
        if curvatures[age] <= 0:
            continue
        factors[age] = product / curvatures[age]
        square = 0.0
        for j in range(size):
            direction[j] -= factors[age] * changes[i, j]
            square += changes[i, j] ** 2
        if scale == 0:
            scale = curvatures[age] / square
    if scale > 0:
        direction *= scale
    for age in range(used - 1, -1, -1):
        if curvatures[age] <= 0:
            continue
        i = (n_pairs - 1 - age) % capacity
        product = 0.0
        for j in range(size):
            product += changes[i, j] * direction[j]
        for j in range(size):
            direction[j] += (factors[age] - product / curvatures[age]) * moves[i, j]
    return direction


@_loops
def move(z, direction, step, starts):
    """Return z + step * direction, with 0 in each block that would turn around.

    As an orthant is not left by one step under the sum of absolute values.
    """
    moved = z + step * direction
    for block in range(len(starts) - 1):
        product = 0.0
        for i in range(starts[block], starts[block + 1]):
            product += moved[i] * z[i]
        if product <= 0:
            for i in range(starts[block], starts[block + 1]):
                moved[i] = 0.0
    return moved


@_loops
def clear_blocks(rows, starts, is_zero):
    """Set the blocks of rows (m, p) that are zero (g,) to 0, in place."""
    for block in range(len(is_zero)):
        if is_zero[block]:
            for row in rows:
                for i in range(starts[block], starts[block + 1]):
                    row[i] = 0.0
