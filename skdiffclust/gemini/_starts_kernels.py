"""The ascent of the linear MMD in compiled loops, for dense samples.

The same as `ascend` of `_starts`, which defines it and takes sparse samples. On a few
hundred samples that spends its time between array operations, and
``n_clusters="auto"`` runs it thousands of times. Samples are columns, and scores are
computed for a block of them, so that loops over samples are vectorised.
"""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.gemini._fused import mixing_one_vs_all, mixing_one_vs_one

# As in `_fused`.
_loops = compiled(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})

# Samples whose scores are in the cache while their largest is found.
_BLOCK = 256


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
