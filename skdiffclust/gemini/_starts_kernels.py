"""k-means and the ascent of the linear MMD in compiled loops, for dense samples.

The same as `_draw_centers`, `_lloyd` and `ascend` of `_starts`, which define them
and take sparse samples. On a few hundred samples those spend their time between array
operations, and ``n_clusters="auto"`` runs them thousands of times. Samples are columns,
and scores are computed for a block of them, so that loops over samples are vectorised.
"""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.gemini._fused import mixing_one_vs_all, mixing_one_vs_one

# As in `_fused`.
_loops = compiled(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})

# Samples whose scores are in the cache while their largest is found.
_BLOCK = 256


@_loops
def _position(cumulated, value):
    """Return the first position (of n) whose cumulated weight exceeds a value."""
    low = 0
    high = len(cumulated) - 1
    while low < high:
        middle = (low + high) // 2
        if cumulated[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low


@_loops
def draw_centers(columns, squares, weights, order, shares, n_draws):
    """Return the samples (k,) among the columns (d, n) that are centres.

    Greedy k-means++: the best of `n_draws` for each centre but the first. The shares
    (1 + (k - 1) n_draws,) of the cumulated weights, in an order (n,), decide.
    """
    n_features, n_samples = columns.shape
    n_clusters = 1 + (len(shares) - 1) // n_draws
    chosen = np.empty(n_clusters, dtype=np.int64)
    nearest = np.ones(n_samples)
    trial = np.empty(n_samples)
    kept = np.empty(n_samples)
    cumulated = np.empty(n_samples)
    used = 0
    for c in range(n_clusters):
        total = 0.0
        for i in range(n_samples):
            total += weights[order[i]] * nearest[order[i]]
            cumulated[i] = total
        best = np.inf
        for _ in range(1 if c == 0 else n_draws):
            row = order[_position(cumulated, shares[used] * total)]
            used += 1
            for i in range(n_samples):
                trial[i] = squares[i] + squares[row]
            for j in range(n_features):
                factor = 2 * columns[j, row]
                for i in range(n_samples):
                    trial[i] -= factor * columns[j, i]
            potential = 0.0
            for i in range(n_samples):
                distance = max(trial[i], 0.0)
                if c > 0:
                    distance = min(nearest[i], distance)
                trial[i] = distance
                potential += weights[i] * distance
            if potential < best:
                best = potential
                chosen[c] = row
                for i in range(n_samples):
                    kept[i] = trial[i]
        for i in range(n_samples):
            nearest[i] = kept[i]
    return chosen


@_loops
def _largest(columns, directions, offsets, labels, scores):
    """Write the argmax (n,) and the maximum (n,) of <x_i, T_k> + b_k by k.

    For the columns (d, n), T (k, d) and b (k,).
    """
    n_features, n_samples = columns.shape
    product = np.empty(_BLOCK)
    for start in range(0, n_samples, _BLOCK):
        size = min(_BLOCK, n_samples - start)
        for k in range(len(directions)):
            for i in range(size):
                product[i] = offsets[k]
            for j in range(n_features):
                factor = directions[k, j]
                for i in range(size):
                    product[i] += factor * columns[j, start + i]
            for i in range(size):
                if k == 0 or product[i] > scores[start + i]:
                    scores[start + i] = product[i]
                    labels[start + i] = k


@_loops
def _cluster_sums(columns, weights, labels, n_clusters):
    """Return the weighted sums (k, d) of clusters of the columns, and sizes (k,)."""
    n_features, n_samples = columns.shape
    sums = np.zeros((n_clusters, n_features))
    sizes = np.zeros(n_clusters)
    for i in range(n_samples):
        sizes[labels[i]] += weights[i]
    for j in range(n_features):
        for i in range(n_samples):
            sums[labels[i], j] += weights[i] * columns[j, i]
    return sums, sizes


@_loops
def lloyd(columns, squares, weights, centers, max_iter, tolerance):
    """Return the weighted inertia of k-means from centres (k, d), and labels (n,).

    The centres are overwritten.
    """
    n_features, n_samples = columns.shape
    n_clusters = len(centers)
    labels = np.zeros(n_samples, dtype=np.int64)
    scores = np.empty(n_samples)
    offsets = np.empty(n_clusters)
    previous = np.inf
    inertia = np.inf
    for _ in range(max_iter):
        for k in range(n_clusters):
            offsets[k] = 0.0
            for j in range(n_features):
                offsets[k] -= centers[k, j] ** 2 / 2
        _largest(columns, centers, offsets, labels, scores)
        inertia = 0.0
        for i in range(n_samples):
            scores[i] = squares[i] - 2 * scores[i]
            inertia += weights[i] * scores[i]
        if not inertia < previous * (1 - tolerance):
            break
        previous = inertia
        sums, sizes = _cluster_sums(columns, weights, labels, n_clusters)
        for k in range(n_clusters):
            if sizes[k] == 0:
                # An empty cluster moves to the sample that is farthest from its own.
                farthest = 0
                most = -np.inf
                for i in range(n_samples):
                    if weights[i] > 0 and scores[i] > most:
                        most = scores[i]
                        farthest = i
                scores[farthest] = -np.inf
                for j in range(n_features):
                    sums[k, j] = columns[j, farthest]
                sizes[k] = 1.0
            for j in range(n_features):
                centers[k, j] = sums[k, j] / sizes[k]
    return inertia, labels


@_loops
def _pull(columns, weights, labels, n_clusters, one_vs_one):
    """Return the MMD of a hard partition, and its gradient as T (k, d) and b (k,)."""
    sums, share = _cluster_sums(columns, weights, labels, n_clusters)
    n_features = columns.shape[0]
    # The columns are centred by weights that sum to one, up to rounding.
    for j in range(n_features):
        mean = 0.0
        for k in range(n_clusters):
            mean += sums[k, j]
        for k in range(n_clusters):
            sums[k, j] -= share[k] * mean
    gram = np.zeros((n_clusters, n_clusters))
    for k in range(n_clusters):
        for other in range(n_clusters):
            for j in range(n_features):
                gram[k, other] += sums[k, j] * sums[other, j]
    if one_vs_one:
        value, mixing, shift = mixing_one_vs_one(gram, share, 0.0)
    else:
        value, mixing, shift = mixing_one_vs_all(gram, 0.0)
    directions = np.zeros((n_clusters, n_features))
    for k in range(n_clusters):
        for other in range(n_clusters):
            for j in range(n_features):
                directions[k, j] += mixing[k, other] * sums[other, j]
    return value, directions, shift


@_loops
def _cells_of_means(columns, weights, labels, n_clusters):
    """Return what `_starts.voronoi` does, as T (k, d) and b (k,)."""
    means, sizes = _cluster_sums(columns, weights, labels, n_clusters)
    offsets = np.zeros(n_clusters)
    total = 0.0
    for k in range(n_clusters):
        for j in range(means.shape[1]):
            if sizes[k] > 0:
                means[k, j] /= sizes[k]
            offsets[k] -= means[k, j] ** 2 / 2
        total -= 2 * offsets[k]
    least = 0.0
    for k in range(n_clusters):
        least = min(least, offsets[k])
    for k in range(n_clusters):
        if sizes[k] == 0:
            offsets[k] = least - total
    return means, offsets


@_loops
def ascend_columns(
    columns, weights, labels, n_clusters, one_vs_one, max_iter, tolerance
):
    """Return the MMD, T (k, d) and b (k,) of the cells that `_starts.ascend` finds."""
    directions, offsets = _cells_of_means(columns, weights, labels, n_clusters)
    scores = np.empty(len(labels))
    found = np.zeros(len(labels), dtype=np.int64)
    _largest(columns, directions, offsets, found, scores)
    value, _, _ = _pull(columns, weights, found, n_clusters, one_vs_one)
    _, turned, shift = _pull(columns, weights, labels, n_clusters, one_vs_one)
    for _ in range(max_iter):
        _largest(columns, turned, shift, found, scores)
        new, following, after = _pull(columns, weights, found, n_clusters, one_vs_one)
        if not new > value * (1 + tolerance):
            break
        directions = turned
        offsets = shift
        value = new
        turned = following
        shift = after
    return value, directions, offsets
