"""Compiled parts of the solver of penalised linear models, on flat vectors.

A point z is the weights of a model, sample features in groups one after the other and k
entries a feature, and then its k biases. Block g of it, from ``starts[g]`` up to
``starts[g + 1]``, holds the weights of a group.
"""

import numpy as np

from skdiffclust._compiled import compiled

# As in _fused: sums in any order, NaN and infinity are kept.
_loops = compiled(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


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
    whole = np.empty_like(gradient)
    for block in range(len(norms)):
        factor = derivatives[block] / norms[block] if norms[block] > 0 else 0.0
        for i in range(starts[block], starts[block + 1]):
            whole[i] = gradient[i] + factor * z[i] if norms[block] > 0 else 0.0
    for i in range(starts[-1], len(z)):
        whole[i] = gradient[i]
    return whole


@_loops
def quasi_newton(gradient, moves, changes, n_pairs):
    """Return minus the L-BFGS inverse Hessian times a gradient (p,).

    Of the rings `moves` and `changes` (m, p), of differences of points and gradients,
    the last min(n_pairs, m) were written; those without curvature are left out.
    """
    capacity = len(moves)
    used = min(n_pairs, capacity)
    direction = -gradient
    factors = np.zeros(used)
    scale = 0.0
    for age in range(used):
        i = (n_pairs - 1 - age) % capacity
        curvature = (moves[i] * changes[i]).sum()
        if curvature <= 0:
            continue
        factors[age] = (moves[i] * direction).sum() / curvature
        direction -= factors[age] * changes[i]
        if scale == 0:
            scale = curvature / np.square(changes[i]).sum()
    if scale > 0:
        direction *= scale
    for age in range(used - 1, -1, -1):
        i = (n_pairs - 1 - age) % capacity
        curvature = (moves[i] * changes[i]).sum()
        if curvature > 0:
            product = (changes[i] * direction).sum()
            direction += (factors[age] - product / curvature) * moves[i]
    return direction


@_loops
def move(z, direction, step, starts):
    """Return z + step * direction, with 0 in each block that would turn around.

    As an orthant is not left by one step under the sum of absolute values.
    """
    moved = np.empty_like(z)
    for i in range(len(z)):
        moved[i] = z[i] + step * direction[i]
    for block in range(len(starts) - 1):
        product = 0.0
        for i in range(starts[block], starts[block + 1]):
            product += moved[i] * z[i]
        if product <= 0:
            for i in range(starts[block], starts[block + 1]):
                moved[i] = 0.0
    return moved
