"""MMD of a model with features as its relation, and LassoNet's proximal operator.

Compiled loops for float64 arrays. The first is the same as a softmax, the MMDs of
`_objectives` on `Features`, and the way back to the logits (or the weights of a linear
model), which define it. On a few hundred samples those spend most of their time between
array operations; on many they read each sample from memory more often.
"""

import numpy as np

from skdiffclust._compiled import compiled

# Sums may be computed in any order, to use vector registers. NaN and infinity are kept.
_loops = compiled(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})

# Squared distances below this many roundings of their parts count as zero.
_ROUNDINGS = 8


@_loops
def _project(rows, directions, products):
    """Write <x_i, T_k> (n, k), for rows x (n, d) and directions T (k, d)."""
    for i in range(len(rows)):
        for k in range(len(directions)):
            product = 0.0
            for j in range(rows.shape[1]):
                product += rows[i, j] * directions[k, j]
            products[i, k] = product


@_loops
def _accumulate(rows, factors, sums):
    """Add sum_i c_ik x_i to sums (k, d), for rows x (n, d) and factors c (n, k)."""
    n_rows = len(rows)
    n_in_fours = n_rows - n_rows % 4
    for first in range(0, n_in_fours, 4):
        for k in range(len(sums)):
            c0 = factors[first, k]
            c1 = factors[first + 1, k]
            c2 = factors[first + 2, k]
            c3 = factors[first + 3, k]
            for j in range(rows.shape[1]):
                near = c0 * rows[first, j] + c1 * rows[first + 1, j]
                far = c2 * rows[first + 2, j] + c3 * rows[first + 3, j]
                sums[k, j] += near + far
    for i in range(n_in_fours, n_rows):
        for k in range(len(sums)):
            for j in range(rows.shape[1]):
                sums[k, j] += factors[i, k] * rows[i, j]


@_loops
def _softmax(logits, row_weights, assignments):
    """Write P = softmax of logits (n, k); return pi (k,)."""
    n_clusters = logits.shape[1]
    share = np.zeros(n_clusters)
    for i in range(len(logits)):
        largest = -np.inf
        for k in range(n_clusters):
            largest = max(largest, logits[i, k])
        total = 0.0
        for k in range(n_clusters):
            assignments[i, k] = np.exp(logits[i, k] - largest)
            total += assignments[i, k]
        for k in range(n_clusters):
            assignments[i, k] /= total
            share[k] += row_weights[i] * assignments[i, k]
    return share


@_loops
def _differences(features, row_weights, assignments):
    """Return sum_i w_i (P_ik - pi_k) f_i and, last, sum_i w_i f_i (k + 1, r).

    And the largest sum of absolute factors.
    """
    n_samples, n_clusters = assignments.shape
    factors = np.empty((n_samples, n_clusters + 1))
    sizes = np.zeros(n_clusters)
    # As differences from a row: exactly zero where all assignments are equal.
    shift = np.zeros(n_clusters)
    for i in range(n_samples):
        for k in range(n_clusters):
            shift[k] += row_weights[i] * (assignments[i, k] - assignments[0, k])
    for i in range(n_samples):
        factors[i, n_clusters] = row_weights[i]
        for k in range(n_clusters):
            difference = assignments[i, k] - assignments[0, k] - shift[k]
            factors[i, k] = row_weights[i] * difference
            sizes[k] += abs(factors[i, k])
    sums = np.zeros((n_clusters + 1, features.shape[1]))
    _accumulate(features, factors, sums)
    largest = 0.0
    for k in range(n_clusters):
        largest = max(largest, sizes[k])
    return sums, largest


@_loops
def mixing_one_vs_all(gram, noise):
    """Return the value, its derivatives by S as a factor (k, k) of S, and by pi."""
    mixing = np.zeros_like(gram)
    value = 0.0
    for k in range(len(gram)):
        if not gram[k, k] <= noise:  # NaN is not zero
            mixing[k, k] = 1 / np.sqrt(gram[k, k])
            value += np.sqrt(gram[k, k])
    return value, mixing, np.zeros(len(gram))


@_loops
def mixing_one_vs_one(gram, share, noise):
    """Return the value, its derivatives by S as a factor (k, k) of S, and by pi."""
    mixing = np.zeros_like(gram)
    shift = np.zeros(len(gram))
    value = 0.0
    largest = 0.0
    for k in range(len(gram)):
        for other in range(len(gram)):
            largest = max(largest, gram[k, k] * share[other] ** 2)
    noise += _ROUNDINGS * 2.0**-52 * largest
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
def _directions(features, row_weights, assignments, share, noise, one_vs_one):
    """Return the MMD, and its gradient by P as directions T (k, r) and a shift (k,).

    The gradient by P_ik is w_i (<f_i, T_k> + t_k).
    """
    sums, size = _differences(features, row_weights, assignments)
    n_clusters = len(share)
    n_features = features.shape[1]
    gram = np.zeros((n_clusters, n_clusters))
    for k in range(n_clusters):
        for other in range(n_clusters):
            for j in range(n_features):
                gram[k, other] += sums[k, j] * sums[other, j]
    noise = _ROUNDINGS * noise * size**2
    if one_vs_one:
        value, mixing, shift = mixing_one_vs_one(gram, share, noise)
    else:
        value, mixing, shift = mixing_one_vs_all(gram, noise)
    directions = np.zeros((n_clusters, n_features))
    for k in range(n_clusters):
        for other in range(n_clusters):
            for j in range(n_features):
                directions[k, j] += mixing[k, other] * sums[other, j]
        for j in range(n_features):
            # The features are centred in passing.
            shift[k] -= directions[k, j] * sums[n_clusters, j]
    return value, directions, shift


@_loops
def mmd_of_logits(logits, features, row_weights, noise, one_vs_one):
    """Return the MMD, and minus its gradient by the logits (n, k).

    `features` (n, r) are those of the kernel, `row_weights` (n,) sum to one; `noise` is
    that of `Features`.
    """
    n_samples, n_clusters = logits.shape
    assignments = np.empty((n_samples, n_clusters))
    share = _softmax(logits, row_weights, assignments)
    value, directions, shift = _directions(
        features, row_weights, assignments, share, noise, one_vs_one
    )
    by_logits = np.empty((n_samples, n_clusters))
    _project(features, directions, by_logits)
    for i in range(n_samples):
        mean = 0.0
        for k in range(n_clusters):
            by_logits[i, k] += shift[k]
            mean += assignments[i, k] * by_logits[i, k]
        for k in range(n_clusters):
            by_logits[i, k] = (
                row_weights[i] * assignments[i, k] * (mean - by_logits[i, k])
            )
    return value, by_logits


@_loops
def mmd_of_linear(X, features, row_weights, weights, biases, noise, one_vs_one):
    """Return the MMD, and minus its gradients by W' (k, d) and b (k,).

    X (n, d) are the rows, `weights` is W' (k, d); the rest is as for `mmd_of_logits`.
    """
    logits = np.empty((len(X), len(biases)))
    _project(X, weights, logits)
    for i in range(len(X)):
        for k in range(len(biases)):
            logits[i, k] += biases[k]
    value, by_logits = mmd_of_logits(logits, features, row_weights, noise, one_vs_one)
    by_weights = np.zeros((len(biases), X.shape[1]))
    _accumulate(X, by_logits, by_weights)
    by_biases = np.zeros(len(biases))
    for i in range(len(X)):
        for k in range(len(biases)):
            by_biases[k] += by_logits[i, k]
    return value, by_weights, by_biases


@_loops
def shrink_hierarchically(skip, hidden, thresholds, hierarchy, groups):
    """Shrink groups (g, size) of rows of skip (d, k), and bound those of hidden (d, h).

    As `hierarchical_prox` defines it, with a threshold for each group.
    """
    n_clusters = skip.shape[1]
    n_hidden = hidden.shape[1]
    sizes = np.empty(groups.shape[1] * n_hidden)
    for g in range(len(groups)):
        columns = groups[g]
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
        equal = length / np.sqrt(columns.size * n_clusters)
        for j in columns:
            for k in range(n_clusters):
                skip[j, k] = skip[j, k] * factor if norm > 0 else equal
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
