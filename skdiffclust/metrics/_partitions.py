"""Agreement of a clustering with known classes."""

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix, pair_confusion_matrix


def clustering_accuracy(y_true, y_pred) -> float:
    """Accuracy under the best one-to-one matching of clusters and classes.

    Each cluster is matched with at most one class, and each class with at most one
    cluster, so that the number of correctly classified samples is largest. Use it when
    the clusters are expected to be the classes. :func:`connectivity_error` needs no
    matching.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, as integers or strings. Samples with -1 ("-1" in an array of strings,
        which NumPy makes of it) have no known class and are ignored.
    y_pred : array-like of shape (n_samples,)
        Cluster of each sample. Every value is a cluster, including -1. The number of
        clusters may differ from that of classes; samples in unmatched clusters count as
        errors.

    Returns
    -------
    float
        Between 0 and 1; 1 for identical partitions.

    Raises
    ------
    ValueError
        If the arrays differ in length, contain NaN, or contain no known class.

    Notes
    -----
    The assignment problem is solved exactly on the contingency table, in
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


def connectivity_error(y_true, y_pred) -> float:
    """Fraction of entries in which two connectivity matrices differ.

    The connectivity matrix M of a partition has M_ij = 1 if samples i and j share a
    cluster, and M_ij = 0 otherwise. The error is the mean absolute difference of the
    matrices of both partitions over all n_samples² entries, including the diagonal,
    which is always equal. It does not depend on the names of the clusters, and is
    defined for any number of clusters.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, as integers or strings. Samples with -1 ("-1" in an array of strings,
        which NumPy makes of it) have no known class and are ignored, as
        are all matrix entries that involve them.
    y_pred : array-like of shape (n_samples,)
        Cluster of each sample. Every value is a cluster, including -1.

    Returns
    -------
    float
        Between 0 and 1; 0 for identical partitions.

    Raises
    ------
    ValueError
        If the arrays differ in length, contain NaN, or contain no known class.

    Notes
    -----
    The error is computed exactly from the contingency table, without an n × n matrix,
    in O(n log n) time and O(n) memory. Because of the diagonal, it is (n - 1) / n times
    `1 - rand_score`, which is defined on pairs i < j.

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
    pairs = pair_confusion_matrix(y_true, y_pred)
    return float(pairs[0, 1] + pairs[1, 0]) / len(y_true) ** 2


def pair_precision(y_true, y_pred) -> float:
    """Fraction of pairs in the same class among the pairs in the same cluster.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, as integers or strings. Samples with -1 ("-1" in an array of strings,
        which NumPy makes of it) have no known class and are ignored, as
        are all pairs that contain them.
    y_pred : array-like of shape (n_samples,)
        Cluster of each sample. Every value is a cluster, including -1.

    Returns
    -------
    float
        Between 0 and 1, over pairs i < j; 1 if no two samples share a cluster.

    Raises
    ------
    ValueError
        If the arrays differ in length, contain NaN, or contain no known class.

    See Also
    --------
    pair_recall : The corresponding recall.

    Notes
    -----
    The cost is O(n log n) in time and O(n) in memory. Many small clusters have a high
    precision, so use it together with :func:`pair_recall`.

    Examples
    --------
    >>> from skdiffclust.metrics import pair_precision
    >>> pair_precision([0, 0, 0, 1], [0, 0, 1, 1])
    0.5
    """
    return _share_of_pairs(y_true, y_pred, "pair_precision", axis=0)


def pair_recall(y_true, y_pred) -> float:
    """Fraction of pairs in the same cluster among the pairs in the same class.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, as integers or strings. Samples with -1 ("-1" in an array of strings,
        which NumPy makes of it) have no known class and are ignored, as
        are all pairs that contain them.
    y_pred : array-like of shape (n_samples,)
        Cluster of each sample. Every value is a cluster, including -1.

    Returns
    -------
    float
        Between 0 and 1, over pairs i < j; 1 if no two samples share a class.

    Raises
    ------
    ValueError
        If the arrays differ in length, contain NaN, or contain no known class.

    See Also
    --------
    pair_precision : The corresponding precision.

    Notes
    -----
    The cost is O(n log n) in time and O(n) in memory. A single cluster has a recall of
    1, so use it together with :func:`pair_precision`.

    Examples
    --------
    >>> from skdiffclust.metrics import pair_recall
    >>> pair_recall([0, 0, 1, 1], [0, 0, 1, 2])
    0.5
    """
    return _share_of_pairs(y_true, y_pred, "pair_recall", axis=1)


def _share_of_pairs(y_true, y_pred, caller, axis):
    """Return the share of pairs in a cluster (axis 0) or class (axis 1) in both."""
    y_true, y_pred = _check_labels(y_true, y_pred, caller)
    pairs = pair_confusion_matrix(y_true, y_pred)
    total = pairs.sum(axis=axis)[1]
    return float(pairs[1, 1] / total) if total else 1.0


def _check_labels(y_true, y_pred, caller):
    """Return y_true and y_pred as arrays (n_known,), without unknown samples."""
    y_true = check_partition(y_true, "y_true", caller)
    y_pred = check_partition(y_pred, "y_pred", caller)
    if len(y_true) != len(y_pred):
        raise ValueError(
            f"The 'y_true' and 'y_pred' parameters of {caller} must have one entry for "
            f"each sample. Got {len(y_true)} and {len(y_pred)} entries instead."
        )
    known = y_true != ("-1" if y_true.dtype.kind == "U" else -1)
    y_true = y_true[known]
    y_pred = y_pred[known]
    if not len(y_true):
        raise ValueError(
            f"The 'y_true' parameter of {caller} must contain at least one known "
            "class. Got only -1 (unknown) instead."
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
            f"The {name!r} parameter of {caller} must not contain NaN. Got NaN in "
            f"sample {np.argmax(labels != labels)} instead. Use -1 in 'y_true' for "
            "unknown."
        )
    return labels
