"""How large the sum of evidence becomes in samples without structure.

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
            [-0.155, 0.091, 0.268, 0.396, 0.558, 0.686],
            [0.094, 0.305, 0.437, 0.573, 0.676, 0.913],
            [0.203, 0.482, 0.619, 0.767, 0.950, 1.060],
            [0.171, 0.382, 0.533, 0.651, 0.678, 1.001],
        ]
    ),
    2: np.array(
        [
            [-0.407, -0.262, -0.196, -0.142, -0.064, -0.008],
            [-0.198, -0.117, -0.064, -0.020, 0.015, 0.064],
            [-0.143, -0.088, -0.058, -0.034, -0.006, 0.010],
            [-0.115, -0.079, -0.056, -0.051, -0.045, -0.042],
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
