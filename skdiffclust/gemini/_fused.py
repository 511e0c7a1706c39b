"""MMD of the linear model with its gradients, and the group lasso, in compiled loops.

The first is the same as `Encoder.forward`, a softmax, the MMDs of `_objectives` on
`Features`, and `Encoder.backward`, which define it. On a few hundred samples those
spend most of their time between array operations; on many they read each sample from
memory more often. With more features than samples, X is stored by columns, and columns
of features that are out are not read. Sums are float64 throughout.

By the definition, paths take 2.1 times as long on scenario 5, and those of a perceptron
1.7 times on scenario 1.
"""

import numpy as np

from skdiffclust._compiled import compiled

# Sums may be computed in any order, to use vector registers. NaN and infinity are kept.
_loops = compiled(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})

# Squared distances below this many roundings of their parts count as zero.
_ROUNDINGS = 8
# Rows that are read twice while they are in the cache.
_BLOCK = 64


@_loops
def _project(rows, directions, start, stop, products):
    """Write <x_i, T_k> (n, k) for the rows x (n, d) from start to stop and T (k, d)."""
    for i in range(start, stop):
        for k in range(len(directions)):
            product = 0.0
            for j in range(rows.shape[1]):
                product += rows[i, j] * directions[k, j]
            products[i, k] = product


@_loops
def _accumulate(rows, factors, start, stop, sums):
    """Add sum_i c_ik x_i to sums (k, d), for the rows x (n, d) from start to stop.

    The factors c (n + 3, k) end with three rows of zeros.
    """
    for first in range(start, stop, 4):
        # Four rows at once; the last block repeats the last row, times zero.
        second = min(first + 1, stop - 1)
        third = min(first + 2, stop - 1)
        fourth = min(first + 3, stop - 1)
        for k in range(len(sums)):
            c0 = factors[first, k]
            c1 = factors[first + 1, k]
            c2 = factors[first + 2, k]
            c3 = factors[first + 3, k]
            for j in range(rows.shape[1]):
                near = c0 * rows[first, j] + c1 * rows[second, j]
                sums[k, j] += near + c2 * rows[third, j] + c3 * rows[fourth, j]


@_loops
def _softmax(assignments, row_weights, biases):
    """Write P = softmax(XW + b) over XW (n, k); return pi (k,)."""
    share = np.zeros(len(biases))
    for i in range(len(assignments)):
        largest = -np.inf
        total = 0.0
        for k in range(len(biases)):
            assignments[i, k] += biases[k]
            largest = max(largest, assignments[i, k])
        for k in range(len(biases)):
            assignments[i, k] = np.exp(assignments[i, k] - largest)
            total += assignments[i, k]
        for k in range(len(biases)):
            assignments[i, k] /= total
            share[k] += row_weights[i] * assignments[i, k]
    return share


@_loops
def _is_zero(row):
    """Return whether all entries of a row (k,) are zero."""
    for entry in row:
        if entry != 0:
            return False
    return True


@_loops
def _combine(columns, weights, sums):
    """Add sum_j W_jk X_j to sums (k, n), of X' (d, n) and W (d, k).

    If most rows of W are zero, the others are selected first; otherwise selecting costs
    more.
    """
    n_out = 0
    for j in range(len(weights)):
        n_out += _is_zero(weights[j])
    most_are_out = 2 * n_out > len(weights)
    for j in range(len(weights)):
        if most_are_out and _is_zero(weights[j]):
            continue
        for k in range(weights.shape[1]):
            weight = weights[j, k]
            for i in range(columns.shape[1]):
                sums[k, i] += weight * columns[j, i]


@_loops
def _differences(features, row_weights, assignments):
    """Return sum_i w_i (P_ik - pi_k) f_i and, last, sum_i w_i f_i (k + 1, r).

    And the largest sum of absolute factors.
    """
    n_samples, n_clusters = assignments.shape
    factors = np.zeros((n_samples + 3, n_clusters + 1))
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
    _accumulate(features, factors, 0, n_samples, sums)
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
def _negative_gradient(
    row_weights, assignments, shift, start, stop, by_logits, by_biases
):
    """Convert <f_i, T_k> (n, k), of rows from start to stop, to minus the gradient.

    The gradient is by the logits; its sums over the rows are added to by_biases (k,).
    """
    for i in range(start, stop):
        mean = 0.0
        for k in range(len(shift)):
            by_logits[i, k] += shift[k]
            mean += assignments[i, k] * by_logits[i, k]
        for k in range(len(shift)):
            by_logits[i, k] = (
                row_weights[i] * assignments[i, k] * (mean - by_logits[i, k])
            )
            by_biases[k] += by_logits[i, k]


@_loops
def mmd_of_linear(X, features, row_weights, weights, biases, noise, one_vs_one):
    """Return the MMD, and minus its gradients by W' (k, d) and b (k,), float64.

    X (n, d) are the rows, `features` (n, r) those of the kernel, `row_weights` (n,) sum
    to one, `weights` is W' (k, d); `noise` is that of `Features`.
    """
    n_samples = len(X)
    n_clusters = len(biases)
    assignments = np.empty((n_samples, n_clusters))
    _project(X, weights, 0, n_samples, assignments)
    share = _softmax(assignments, row_weights, biases)
    value, directions, shift = _directions(
        features, row_weights, assignments, share, noise, one_vs_one
    )
    by_weights = np.zeros((n_clusters, X.shape[1]))
    by_biases = np.zeros(n_clusters)
    by_logits = np.zeros((n_samples + 3, n_clusters))
    for start in range(0, n_samples, _BLOCK):
        stop = min(start + _BLOCK, n_samples)
        _project(features, directions, start, stop, by_logits)
        _negative_gradient(
            row_weights, assignments, shift, start, stop, by_logits, by_biases
        )
        _accumulate(X, by_logits, start, stop, by_weights)
    return value, by_weights, by_biases


@_loops
def mmd_of_columns(columns, features, row_weights, weights, biases, noise, one_vs_one):
    """Return what `mmd_of_linear` does, the gradient by W as (d, k).

    `columns` is X' (d, n), `weights` is W (d, k).
    """
    n_samples = columns.shape[1]
    n_clusters = len(biases)
    logits = np.zeros((n_clusters, n_samples))
    _combine(columns, weights, logits)
    assignments = logits.T.copy()
    share = _softmax(assignments, row_weights, biases)
    value, directions, shift = _directions(
        features, row_weights, assignments, share, noise, one_vs_one
    )
    by_logits = np.empty((n_samples, n_clusters))
    by_biases = np.zeros(n_clusters)
    _project(features, directions, 0, n_samples, by_logits)
    _negative_gradient(
        row_weights, assignments, shift, 0, n_samples, by_logits, by_biases
    )
    by_weights = np.empty((len(columns), n_clusters))
    _project(columns, by_logits.T.copy(), 0, len(columns), by_weights)
    return value, by_weights, by_biases


@_loops
def mmd_of_logits(logits, features, row_weights, noise, one_vs_one):
    """Return the MMD, and minus its gradient by the logits (n, k), float64."""
    n_samples, n_clusters = logits.shape
    assignments = logits.astype(np.float64)
    share = _softmax(assignments, row_weights, np.zeros(n_clusters))
    value, directions, shift = _directions(
        features, row_weights, assignments, share, noise, one_vs_one
    )
    by_logits = np.empty((n_samples, n_clusters))
    _project(features, directions, 0, n_samples, by_logits)
    _negative_gradient(
        row_weights,
        assignments,
        shift,
        0,
        n_samples,
        by_logits,
        np.zeros(n_clusters),
    )
    return value, by_logits


@_loops
def _norm(weights, columns):
    """Return the norm of the rows `columns` of weights (d, k)."""
    square = 0.0
    for j in columns:
        for k in range(weights.shape[1]):
            square += np.float64(weights[j, k]) ** 2
    return np.sqrt(square)


@_loops
def sum_of_norms(weights, groups):
    """Return the sum of the norms of groups (g, size) of rows of weights (d, k)."""
    total = 0.0
    for columns in groups:
        total += _norm(weights, columns)
    return total


@_loops
def shrink_groups(weights, threshold, groups):
    """Multiply groups (g, size) of rows of weights (d, k) by 1 - threshold / norm."""
    for columns in groups:
        norm = _norm(weights, columns)
        factor = 1 - threshold / norm if norm > threshold else 0.0
        for j in columns:
            for k in range(weights.shape[1]):
                # Zero times infinity or a negative number is not +0.
                weights[j, k] = weights[j, k] * factor if factor > 0 else 0.0


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
        norm = _norm(skip, columns)
        largest = 0.0
        total = 0.0
        at = 0
        for j in columns:
            for h in range(n_hidden):
                sizes[at] = abs(hidden[j, h])
                largest = max(largest, sizes[at])
                total += sizes[at]
                at += 1
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
