"""How far a sample is from others, beside what is typical, and which are outliers."""

import numpy as np

from skdiffclust.forests._hierarchy._core_sizes import weighted_quantile


def outlier_scores(radii, labels, weights=None):
    """Return scores (n,) from 0 to 1: how sparse a sample lies for its cluster.

    With m the median of `radii` (n,) in its cluster, the score of a sample of radius r
    is r / (r + m): a half for a typical sample of a cluster, near one for a sample far
    from all others. O(n log n) time.
    """
    weights = np.ones(len(radii)) if weights is None else weights
    scores = np.zeros(len(radii))
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    for members in np.split(order, starts):
        cluster_radii = radii[members]
        typical = weighted_quantile(cluster_radii, weights[members], 0.5)
        positive = cluster_radii > 0
        scores[members[positive]] = 1 / (1 + typical / cluster_radii[positive])
    return scores


def outlier_threshold(scores, false_rate, weights=None):
    """Return the score that a share `false_rate` of samples exceeds without outliers.

    The logarithms of the radii, which are logit(scores) but for a constant, are taken
    for exponential above their upper quartile. The mean is that of a sample censored at
    the quantile 0.95, so that five per cent of outliers change it little. `scores`
    (n,) are those of `outlier_scores` with a single label.
    """
    weights = np.ones(len(scores)) if weights is None else weights
    inner = (scores > 0) & (scores < 1) & (weights > 0)
    if not inner.any():
        return 1.0
    values = np.log(scores[inner]) - np.log1p(-scores[inner])
    weights = weights[inner]
    low = weighted_quantile(values, weights, 0.75)
    high = weighted_quantile(values, weights, 0.95)
    middle = (values > low) & (values <= high)
    mean = 0.0
    if middle.any():
        beyond = weights[values > high].sum() * (high - low)
        mean = weights[middle] @ (values[middle] - low) + beyond
        mean /= weights[middle].sum()
    return 1 / (1 + np.exp(-(low + mean * np.log(0.25 / false_rate))))
