"""Soft assignments, hard labels and connectivity matrices, and the ways between."""

import numpy as np


def softmax(logits):
    """Return the row-wise softmax of logits (n, k), in their floating dtype."""
    logits = np.asarray(logits)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    exponentials /= exponentials.sum(axis=1, keepdims=True)
    return exponentials


def softmax_backward(assignments, gradient):
    """Pull a gradient by the assignments (n, k) back to the logits (n, k)."""
    mean = np.sum(assignments * gradient, axis=1, keepdims=True)
    return assignments * (gradient - mean)


def proportions(assignments):
    """Return the column means (k,) of assignments (n, k), summed in float64."""
    means = np.mean(assignments, axis=0, dtype=np.float64)
    return means.astype(assignments.dtype, copy=False)


def order_by_size(labels, n_clusters, sample_weight=None):
    """Return old cluster numbers (n_clusters,) in the order of the house.

    Decreasing size, ties by the smallest row index, empty ones last (in their old
    order).  `labels` (n,) lie in 0 .. n_clusters - 1; position p of the result is the
    old number of new cluster p, so memory rows or output columns are permuted by
    ``rows[order]`` and labels by ``np.argsort(order)[labels]``.  With `sample_weight`
    (n,) the size is the sum of weights.
    """
    labels = np.asarray(labels, dtype=np.int64)
    sizes = np.bincount(labels, sample_weight, minlength=n_clusters)
    first_rows = np.full(n_clusters, labels.size, dtype=np.int64)
    np.minimum.at(first_rows, labels, np.arange(labels.size))
    return np.lexsort((first_rows, -sizes))


def relabel_by_size(labels):
    """Return labels (n,) int64 renumbered by size from 0, and how many there are.

    `labels` are any integers (union-find roots, say); each distinct one is a cluster.
    """
    found, inverse = np.unique(labels, return_inverse=True)
    new_number = np.argsort(order_by_size(inverse, found.size))
    return new_number[inverse].astype(np.int64, copy=False), int(found.size)


def connectivity(labels):
    """Return M (n, n), float64: 1 where two rows share a label, else 0."""
    labels = np.asarray(labels)
    return (labels[:, None] == labels[None, :]).astype(np.float64)


def labels_from_connectivity(matrix):
    """Return labels (n,) int64, by size, of the blocks of a 0/1 matrix (n, n).

    The diagonal is ignored.  ValueError when the matrix is not square, holds other
    values, or does not describe a partition.  O(n^2).
    """
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            "The connectivity matrix must be square. "
            f"Got shape {matrix.shape} instead. Pass one row and column per sample."
        )
    linked = matrix == 1
    if not np.all(linked | (matrix == 0)):
        raise ValueError(
            "The connectivity matrix must be made of 0 and 1. "
            "Got other values instead. Round it, or cluster it as a similarity."
        )
    np.fill_diagonal(linked, True)
    # In a partition the first row linked to a row names its block.
    first = linked.argmax(axis=1)
    wrong = np.argwhere(linked != (first[:, None] == first[None, :]))
    if wrong.size:
        i, j = wrong[0]
        raise ValueError(
            "The connectivity matrix must be symmetric and transitive. "
            f"Got rows {i} and {j} instead, which disagree on what they are linked to. "
            "Take the transitive closure of the links first."
        )
    return relabel_by_size(first)[0]
