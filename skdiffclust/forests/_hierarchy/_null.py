"""How large the sum of gains becomes in samples without structure.

In two and more dimensions it is hardly ever positive. On a line it often is, since a
single large gap divides it, and so on curves. The table is that of uniform samples,
where gaps are larger beside those within than of normal ones; the script bench_rules.py
in benchmarks prints it, ``trees null``.
"""

import numpy as np

from skdiffclust._neighbors import k_nearest

# Shares of samples, and the sums that they exceed for numbers of samples, in one and in
# two or more dimensions.
_SHARES = np.array([0.5, 0.2, 0.1, 0.05, 0.02, 0.01])
_SIZES = np.array([50, 200, 1000, 5000])
_SUMS = {
    1: np.array(
        [
            [-0.207, 0.035, 0.217, 0.339, 0.470, 0.636],
            [0.006, 0.220, 0.335, 0.433, 0.586, 0.761],
            [0.038, 0.265, 0.396, 0.480, 0.594, 0.713],
            [-0.009, 0.197, 0.258, 0.313, 0.328, 0.351],
        ]
    ),
    2: np.array(
        [
            [-0.457, -0.312, -0.246, -0.192, -0.114, -0.058],
            [-0.248, -0.167, -0.115, -0.070, -0.035, 0.014],
            [-0.194, -0.138, -0.108, -0.084, -0.056, -0.044],
            [-0.165, -0.129, -0.106, -0.101, -0.095, -0.092],
        ]
    ),
}
# The number of neighbours sees the scale of gaps between samples, not that of noise.
N_NEIGHBORS = 20
# Below this, samples lie along lines: of uniform ones in the plane it is 1.73 to 1.89.
_LINE = 1.75
# The dimension is measured at about this many samples.
_N_MEASURED = 1000


def p_value(largest_sum, n_samples, dimension):
    """Return the share of samples without structure whose largest sum is larger.

    Sums below zero count as zero. Logarithms of shares are interpolated; those that the
    table does not have are 0.5 or 0.01.
    """
    if largest_sum <= 0:
        return 1.0
    rows = _SUMS[1 if dimension < _LINE else 2].T
    sums = [np.interp(np.log(n_samples), np.log(_SIZES), row) for row in rows]
    return float(np.exp(np.interp(largest_sum, sums, np.log(_SHARES))))


def intrinsic_dimension(X):
    """Return the maximum-likelihood estimate from 20 neighbours of samples (n, d).

    The inverse of the mean of log(r_20 / r_j), where r_j is the distance of a sample to
    its neighbour j from 1 to 19; equal samples are left out.
    """
    rows = X[:: max(1, len(X) // _N_MEASURED)]
    distances = k_nearest(X, rows, N_NEIGHBORS + 1)[1]
    nearer, last = distances[:, 1:-1], distances[:, -1:]
    logs = np.log(np.divide(last, nearer, out=np.ones(nearer.shape), where=nearer > 0))
    total = logs.sum()
    return np.count_nonzero(nearer) / total if total > 0 else np.inf
