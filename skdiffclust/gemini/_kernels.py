"""Compiled loops for float64 arrays: the MMD, LassoNet's prox, and the solver's parts.

A point z of the solver is the weights of a model, features in groups one after the
other and k entries a feature, and then its k biases. Block g of it, from ``starts[g]``
up to ``starts[g + 1]``, holds the weights of a group.
"""

import numpy as np

from skdiffclust._compiled import compiled

# Sums may be computed in any order, to use vector registers. NaN and infinity are kept.
_loops = compiled(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


@_loops
def _centred(assignments, row_weights):
    """Return w_i (P_ik - pi_k) (n, k), pi (k,), and the largest sum of sizes of a k.

    P (n, k) is stored column by column, and so is the result.
    """
    n_samples, n_clusters = assignments.shape
    columns = np.empty((n_clusters, n_samples)).T
    share = np.empty(n_clusters)
    largest = 0.0
    for k in range(n_clusters):
        # Differences from a row are exactly zero where all assignments are equal.
        first = assignments[0, k]
        shift = 0.0
        for i in range(n_samples):
            shift += row_weights[i] * (assignments[i, k] - first)
        size = 0.0
        for i in range(n_samples):
            columns[i, k] = row_weights[i] * (assignments[i, k] - first - shift)
            size += abs(columns[i, k])
        share[k] = first + shift
        largest = max(largest, size)
    return columns, share, largest


@_loops
def mmd_one_vs_all(gram, share, noise, rounding):
    """Return the MMD from <S_k, S_l> (k, k) and pi (k,), and its derivatives.

    The derivatives by S are a matrix (k, k) times S; those by pi are (k,). Squared
    lengths up to `noise` count as zero, and so do those up to `rounding` of their parts
    with one-vs-one.
    """
    mixing = np.zeros_like(gram)
    value = 0.0
    for k in range(len(gram)):
        if not gram[k, k] <= noise:  # NaN is not zero
            length = np.sqrt(gram[k, k])
            mixing[k, k] = 1 / length
            value += length
    return value, mixing, np.zeros_like(share)


@_loops
def mmd_one_vs_one(gram, share, noise, rounding):
    """Return the MMD of the distances between clusters, as `mmd_one_vs_all` does."""
    mixing = np.zeros_like(gram)
    shift = np.zeros_like(share)
    value = 0.0
    largest = 0.0
    for k in range(len(gram)):
        for other in range(len(gram)):
            largest = max(largest, gram[k, k] * share[other] ** 2)
    noise += rounding * largest
    for k in range(len(gram)):
        for other in range(len(gram)):
            a = share[k]
            b = share[other]
            square = b * b * gram[k, k] + a * a * gram[other, other]
            square -= 2 * a * b * gram[k, other]
            if k != other and not square <= noise:
                length = np.sqrt(square)
                value += length
                mixing[k, k] += 2 * b * b / length
                mixing[k, other] -= 2 * a * b / length
                shift[k] += 2 * (a * gram[other, other] - b * gram[k, other]) / length
    return value, mixing, shift


@_loops
def mmd_of_logits(logits, features, row_weights, one_vs_one, noise, rounding):
    """Return the MMD, and minus its gradient by the logits (n, k), both as `mmd` does.

    `features` (n, r) are those of the kernel, `row_weights` (n,) sum to one.
    """
    n_samples, n_clusters = logits.shape
    assignments = np.empty((n_clusters, n_samples)).T
    for i in range(n_samples):
        largest = -np.inf
        for k in range(n_clusters):
            largest = max(largest, logits[i, k])
        total = 0.0
        for k in range(n_clusters):
            assignments[i, k] = np.exp(logits[i, k] - largest)
            total += assignments[i, k]
        for k in range(n_clusters):
            assignments[i, k] /= total
    columns, share, size = _centred(assignments, row_weights)
    sums = columns.T @ features
    gram = sums @ sums.T
    noise *= size**2
    if one_vs_one:
        value, mixing, shift = mmd_one_vs_one(gram, share, noise, rounding)
    else:
        value, mixing, shift = mmd_one_vs_all(gram, share, noise, rounding)
    directions = mixing @ sums
    shift -= directions @ (row_weights @ features)
    gradient = np.asfortranarray(features @ directions.T)
    means = np.zeros(n_samples)
    for k in range(n_clusters):
        for i in range(n_samples):
            gradient[i, k] += shift[k]
            means[i] += assignments[i, k] * gradient[i, k]
    for k in range(n_clusters):
        for i in range(n_samples):
            change = means[i] - gradient[i, k]
            gradient[i, k] = row_weights[i] * assignments[i, k] * change
    return value, gradient


@_loops
def shrink_hierarchically(skip, hidden, thresholds, hierarchy, order, starts):
    """Shrink groups of rows of skip (d, k), and bound those of hidden (d, h).

    This is `hierarchical_prox`, with a threshold for each group. Group g has the rows
    order[starts[g]] up to order[starts[g + 1] - 1].
    """
    n_clusters = skip.shape[1]
    n_hidden = hidden.shape[1]
    for g in range(len(starts) - 1):
        columns = order[starts[g] : starts[g + 1]]
        sizes = np.empty(columns.size * n_hidden)
        norm = 0.0
        largest = 0.0
        total = 0.0
        at = 0
        for j in columns:
            for k in range(n_clusters):
                norm += skip[j, k] ** 2
            for h in range(n_hidden):
                sizes[at] = abs(hidden[j, h])
                largest = max(largest, sizes[at])
                total += sizes[at]
                at += 1
        norm = np.sqrt(norm)
        length = norm - thresholds[g]
        reach = length + hierarchy * total
        length = 0.0 if length < 0 else length
        # If no hidden weight is outside the box, the two do not interact; nor if all of
        # them on the box would not give a norm.
        if largest > hierarchy * length and reach > 0:
            length = _joint_length(norm - thresholds[g], sizes, hierarchy)
        bound = hierarchy * length
        factor = length / norm if norm > 0 else 0.0
        # Also of a length of zero, since zero times a negative number is not +0.
        equal = length / np.sqrt(columns.size * n_clusters)
        for j in columns:
            for k in range(n_clusters):
                skip[j, k] = skip[j, k] * factor if factor != 0 else equal
            for h in range(n_hidden):
                hidden[j, h] = min(max(hidden[j, h], -bound), bound)


@_loops
def _joint_length(excess, sizes, hierarchy):
    """Return the norm of theta where the box is active.

    The root of L - excess - hierarchy * sum_i max(sizes_i - hierarchy L, 0), by
    Newton's method from below: the function is concave and piecewise linear. `excess`
    is the norm less the threshold, `sizes` (s,) are absolute values.
    """
    length = max(excess, 0.0)
    while True:
        total = 0.0
        count = 0
        for size in sizes:
            if size > hierarchy * length:
                total += size
                count += 1
        further = (excess + hierarchy * total) / (1 + count * hierarchy**2)
        if not further > length:
            return length
        length = further


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
def block_residuals(z, gradient, starts, moved, proximal):
    """Return how far a proximal step of length one takes each block (g,).

    `moved` (g,) are the norms of the blocks of z - gradient, and `proximal` (g,) what
    the proximal operator makes of them.
    """
    residuals = np.empty(len(starts) - 1)
    for block in range(len(residuals)):
        factor = proximal[block] / moved[block] if moved[block] > 0 else 0.0
        square = 0.0
        for i in range(starts[block], starts[block + 1]):
            square += (z[i] - factor * (z[i] - gradient[i])) ** 2
        residuals[block] = np.sqrt(square)
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

    `moves` and `changes` (m, p) are rings of differences of points and of gradients, in
    which the last min(n_pairs, m) are valid; those without curvature are left out.
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

    Likewise, under a sum of absolute values, one step does not leave an orthant.
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
