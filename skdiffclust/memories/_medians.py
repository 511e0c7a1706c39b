"""Medians of clusters by city-block distances."""

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

_MEDIAN_STEPS = 30
_HALF = 0.5 - 1e-9  # so that lower medians are taken in spite of rounding


def lloyd_medians(Z, weight, centers):
    """Return centres (k, d) after Lloyd's steps by city-block distances on Z (m, d).

    Each centre becomes the weighted median of its samples, feature by feature.
    """
    Z = Z.astype(np.float64, copy=False)
    centers = centers.copy()
    labels = np.full(len(Z), -1)
    for _ in range(_MEDIAN_STEPS):
        before = labels
        labels = cdist(Z, centers, "cityblock").argmin(axis=1)
        moved = before != labels
        if not moved.any():
            break
        move_to_medians(
            centers, np.union1d(before[moved], labels[moved]), Z, weight, labels
        )
    return centers


def move_to_medians(centers, chosen, Z, weight, labels):
    """Move chosen centres, in place, to the weighted medians of their samples Z."""
    for m in chosen:
        own = np.flatnonzero((labels == m) & (weight > 0))
        if len(own):
            centers[m] = weighted_medians(Z[own].astype(np.float64), weight[own])


def weighted_medians(Z, weight):
    """Return the weighted lower medians (d,) of rows Z (m, d), an array or CSR."""
    if sparse.issparse(Z):
        return _sparse_medians(Z, weight)
    if (weight == weight[0]).all():
        # NumPy's sort is faster than its partition on most processors.
        return np.sort(np.ascontiguousarray(Z.T))[:, (len(Z) - 1) // 2]
    return np.quantile(Z, _HALF, axis=0, weights=weight, method="inverted_cdf")


def _sparse_medians(Z, weight):
    """Return the weighted lower medians (d,) of CSR rows Z (m, d).

    The stored entries of each column are sorted together with one zero, which has the
    weight of all rows without an entry.
    """
    if (weight == weight[0]).all():
        weight = np.ones(len(weight))  # sums are exact
    n_columns = Z.shape[1]
    total = weight.sum()
    listed = Z.tocoo()
    rows, columns = listed.coords
    stored = np.bincount(columns, weight[rows], minlength=n_columns)
    owners = np.concatenate([columns, np.arange(n_columns)])
    values = np.concatenate([listed.data, np.zeros(n_columns)])
    order = np.lexsort((values, owners))
    weights = np.concatenate([weight[rows], np.maximum(total - stored, 0.0)])[order]
    ends = np.cumsum(np.bincount(owners, minlength=n_columns))
    sums = np.cumsum(weights)
    before = np.concatenate([[0.0], sums[ends[:-1] - 1]])
    at = np.searchsorted(sums, before + _HALF * total)
    return values[order][np.minimum(at, ends - 1)]
