"""Agreement of a clustering with known classes."""

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix


def clustering_accuracy(y_true, y_pred):
    """Fraction of samples in the right class, under the best matching of clusters.

    Each cluster is matched with at most one class and each class with at most one
    cluster, such that most samples are right. The right choice where clusters are meant
    to be classes; `connectivity_error` needs no matching.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, as integers or names. Samples where a number is -1 are unknown and left
        out.
    y_pred : array-like of shape (n_samples,)
        Cluster of each sample. Every value is a cluster, -1 too. The number of clusters
        need not be the number of classes: samples of unmatched clusters are wrong.

    Returns
    -------
    float
        Between 0 and 1, 1 for equal partitions.

    Raises
    ------
    ValueError
        If the two differ in length, hold NaN or no known class.

    Notes
    -----
    Exact: the assignment problem is solved on the contingency table, in
    O(n log n + min(c, k)² max(c, k)) time and O(n + c k) memory for c classes and k
    clusters.

    Examples
    --------
    >>> from skdiffclust.metrics import clustering_accuracy
    >>> clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 2])
    0.75
    """
    y_true, y_pred = _check_labels(y_true, y_pred, "clustering_accuracy")
    table = contingency_matrix(y_true, y_pred)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / len(y_true))


def connectivity_error(y_true, y_pred):
    """Fraction of wrong entries in the connectivity matrix: the clustering error.

    The connectivity matrix M of a partition has M_ij = 1 where samples i and j share a
    cluster, 0 elsewhere. The error is the mean absolute difference of the two over all
    n_samples² entries, the diagonal (always right) among them. It does not depend on
    how clusters are named, nor on their number being right.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, as integers or names. Samples where a number is -1 are unknown and left
        out: only entries between two known samples count.
    y_pred : array-like of shape (n_samples,)
        Cluster of each sample. Every value is a cluster, -1 too.

    Returns
    -------
    float
        Between 0 and 1, 0 for equal partitions.

    Raises
    ------
    ValueError
        If the two differ in length, hold NaN or no known class.

    Notes
    -----
    Counted on the contingency table, exactly and without an n × n matrix: O(n log n)
    time, O(n) memory. The diagonal makes it (n - 1) / n times `1 - rand_score`, which
    is over pairs i < j.

    References
    ----------
    Stewart, Bach, Llinares-López, Berthet. Differentiable Clustering with Perturbed
    Spanning Forests. NeurIPS 2023. Section 4.

    Examples
    --------
    >>> from skdiffclust.metrics import connectivity_error
    >>> connectivity_error([0, 0, 1, 1], [5, 5, 3, 3])
    0.0
    >>> connectivity_error([0, 0, 1, -1], [0, 0, 0, 0])
    0.4444444444444444
    """
    y_true, y_pred = _check_labels(y_true, y_pred, "connectivity_error")
    both, in_true, in_pred = _count_linked(y_true, y_pred)
    return (in_true + in_pred - 2 * both) / len(y_true) ** 2


def pair_precision(y_true, y_pred):
    """Fraction of the pairs that share a cluster which also share a class.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, as integers or names. Samples where a number is -1 are unknown and left
        out: only pairs of two known samples count.
    y_pred : array-like of shape (n_samples,)
        Cluster of each sample. Every value is a cluster, -1 too.

    Returns
    -------
    float
        Over pairs i < j, between 0 and 1; 1 where no pair shares a cluster.

    Raises
    ------
    ValueError
        If the two differ in length, hold NaN or no known class.

    See Also
    --------
    pair_recall : Its counterpart, which misses links instead of wrong ones.

    Notes
    -----
    Exact, O(n log n) time, O(n) memory. Many small clusters are precise: use it
    together with `pair_recall`.

    Examples
    --------
    >>> from skdiffclust.metrics import pair_precision
    >>> pair_precision([0, 0, 0, 1], [0, 0, 1, 1])
    0.5
    """
    y_true, y_pred = _check_labels(y_true, y_pred, "pair_precision")
    both, _, in_pred = _count_linked(y_true, y_pred)
    return _fraction_of_pairs(both, in_pred, len(y_true))


def pair_recall(y_true, y_pred):
    """Fraction of the pairs that share a class which also share a cluster.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, as integers or names. Samples where a number is -1 are unknown and left
        out: only pairs of two known samples count.
    y_pred : array-like of shape (n_samples,)
        Cluster of each sample. Every value is a cluster, -1 too.

    Returns
    -------
    float
        Over pairs i < j, between 0 and 1; 1 where no pair shares a class.

    Raises
    ------
    ValueError
        If the two differ in length, hold NaN or no known class.

    See Also
    --------
    pair_precision : Its counterpart, which counts wrong links.

    Notes
    -----
    Exact, O(n log n) time, O(n) memory. A single cluster recalls everything: use it
    together with `pair_precision`.

    Examples
    --------
    >>> from skdiffclust.metrics import pair_recall
    >>> pair_recall([0, 0, 1, 1], [0, 0, 1, 2])
    0.5
    """
    y_true, y_pred = _check_labels(y_true, y_pred, "pair_recall")
    both, in_true, _ = _count_linked(y_true, y_pred)
    return _fraction_of_pairs(both, in_true, len(y_true))


def _check_labels(y_true, y_pred, caller):
    """Return y_true and y_pred as arrays (n_known,), without unknown samples."""
    y_true = check_partition(y_true, "y_true", caller)
    y_pred = check_partition(y_pred, "y_pred", caller)
    if len(y_true) != len(y_pred):
        raise ValueError(
            f"The 'y_true' and 'y_pred' parameters of {caller} must have one entry for "
            f"each sample. Got {len(y_true)} and {len(y_pred)} entries instead."
        )
    if y_true.dtype.kind in ("i", "f", "O"):
        known = y_true != -1
        y_true = y_true[known]
        y_pred = y_pred[known]
    if not len(y_true):
        raise ValueError(
            f"The 'y_true' parameter of {caller} must know the class of some sample. "
            "Got no entry other than -1 (unknown) instead."
        )
    return y_true, y_pred


def check_partition(labels, name, caller):
    """Return labels as a 1-D array, refused if masked or with NaN."""
    if np.ma.isMaskedArray(labels):
        raise ValueError(
            f"The {name!r} parameter of {caller} must be a plain array. Got a masked "
            "array instead. Select the samples to count first."
        )
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(
            f"The {name!r} parameter of {caller} must be 1-D, one label for each "
            f"sample. Got an array of shape {labels.shape} instead."
        )
    if labels.dtype.kind in ("f", "O") and (labels != labels).any():
        raise ValueError(
            f"The {name!r} parameter of {caller} must not hold NaN. Got NaN in sample "
            f"{np.argmax(labels != labels)} instead. Use -1 in 'y_true' for unknown."
        )
    return labels


def _count_linked(y_true, y_pred):
    """Count ordered pairs (i, j), i = j too: linked in both, in y_true, in y_pred."""
    table = contingency_matrix(y_true, y_pred, sparse=True)
    sizes = table.data, table.sum(axis=1), table.sum(axis=0)
    return tuple(int(np.square(size, dtype=np.int64).sum()) for size in sizes)


def _fraction_of_pairs(hits, total, n_samples):
    """Return the ratio of two counts of ordered pairs, once i = j is taken out."""
    if total == n_samples:
        return 1.0
    return (hits - n_samples) / (total - n_samples)
