"""Soft assignments and hard labels, and their conversion."""

import numpy as np


def softmax(logits):
    """Return the row-wise softmax of logits (n, k), in their floating dtype."""
    logits = np.asarray(logits)
    with np.errstate(under="ignore"):
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    exponentials /= exponentials.sum(axis=1, keepdims=True)
    return exponentials


def softmax_backward(assignments, gradient):
    """Return the gradient by the logits (n, k) of one by the assignments (n, k)."""
    mean = np.sum(assignments * gradient, axis=1, keepdims=True)
    return assignments * (gradient - mean)


def order_by_size(labels, n_clusters, sample_weight=None):
    """Return old cluster numbers (n_clusters,) in the order of labels.

    The order is by decreasing size; ties go to the smallest row index, and empty
    clusters come last, in their old order. `labels` (n,) lie in 0 .. n_clusters - 1;
    position p of the result is the old number of new cluster p, so memory rows or
    output columns are permuted by ``rows[order]`` and labels by
    ``np.argsort(order)[labels]``. With `sample_weight` (n,) the size is the sum of
    weights, where differences by rounding are ties.
    """
    labels = np.asarray(labels, dtype=np.int64)
    sizes = np.bincount(labels, sample_weight, minlength=n_clusters)
    first_rows = np.full(n_clusters, labels.size, dtype=np.int64)
    np.minimum.at(first_rows, labels, np.arange(labels.size))
    shares = np.round(sizes / (sizes.sum() or 1), 12)
    return np.lexsort((first_rows, -shares))


def relabel_by_size(labels, sample_weight=None):
    """Return labels (n,) int64 renumbered by size from 0, and how many there are.

    `labels` are any integers (union-find roots, say); each distinct one is a cluster.
    Sizes and ties are those of `order_by_size`.
    """
    distinct, inverse = np.unique(labels, return_inverse=True)
    new_number = np.argsort(order_by_size(inverse, distinct.size, sample_weight))
    return new_number[inverse].astype(np.int64, copy=False), int(distinct.size)


def simplified_silhouette(distances, weight):
    """Return the mean of 1 - d1 / d2 over samples with weights (n,), 0 for one centre.

    d1 and d2 are the two smallest of the distances (n, k) of a sample to the centres.
    """
    if distances.shape[1] == 1:
        return 0.0
    first, second = np.partition(distances, 1, axis=1)[:, :2].T.astype(np.float64)
    ratio = np.divide(first, second, out=np.ones_like(first), where=second > 0)
    return float(weight @ (1.0 - ratio)) / float(weight.sum())


def adjusted_rand(one, other, weights=None):
    """Return the adjusted Rand index of labels (n,) and labels (n,), from 0 on.

    It is that of scikit-learn, without the checks that take most of its time. With
    weights (n,), a pair of samples counts as much as the product of their weights.
    """
    total = float(len(one)) if weights is None else float(weights.sum())
    alone = total if weights is None else float(np.square(weights).sum())
    n_labels = int(other.max()) + 1
    cells = one * n_labels + other
    table = np.bincount(cells, weights, minlength=(one.max() + 1) * n_labels)
    table = table.reshape(-1, n_labels).astype(np.float64)
    # Ordered pairs in one cluster of both, of the first, of the second, and all.
    both = np.square(table).sum() - alone
    first = np.square(table.sum(axis=1)).sum() - alone
    second = np.square(table.sum(axis=0)).sum() - alone
    pairs = total**2 - alone
    by_chance = first * second / pairs if pairs > 0 else 0.0
    largest = (first + second) / 2
    return 1.0 if largest == by_chance else (both - by_chance) / (largest - by_chance)
