"""The temperature at which probabilities are those of a mixture of normal clusters.

The objectives grow with the certainty of the assignments, on new samples, too, so that
they cannot choose it: a model of the clusters has to.
"""

import numpy as np
from scipy import optimize

from skdiffclust._assignments import softmax
from skdiffclust._batches import rows_of_weight

# Samples used, steps of expectation and maximisation, and the least and the largest
# temperature, relative to the size of the logits.
_MOST_SAMPLES = 500
_N_STEPS = 100
_LEAST_CHANGE = 1e-3  # of the probability of a sample, on average
_LEAST = 1e-6
_MOST = 1e3
_LEAST_VARIANCE = 1e-6  # within clusters, where the whole has a variance of one
_SAME = 1e-12  # share of the largest variance of logits that is rounding


def some_rows(row_weights):
    """Return at most 500 rows (m,) of weights (n,) above 0, always the same ones."""
    # They are drawn, because every tenth row, say, may be of one cluster.
    return rows_of_weight(row_weights, _MOST_SAMPLES, np.random.RandomState(0))


def temperature_of(logits, weights):
    """Return the temperature of logits (n, k) of samples with weights (n,) above 0.

    Softmax of the logits divided by it is closest, in cross entropy, to the
    probabilities of a mixture of normal distributions with one covariance matrix. The
    mixture is fitted to the logits themselves, from the labels: its means are free,
    because those of clusters that overlap are further apart than those of the classes.
    Labels are the same at any temperature. 1 if all samples have the same label.
    """
    logits = logits - logits.mean(axis=1, keepdims=True, dtype=np.float64)
    weights = weights / weights.sum(dtype=np.float64)
    labels = logits.argmax(axis=1)
    if np.unique(labels).size < 2:
        return 1.0
    size = np.abs(logits).max()
    logits /= size
    targets = _responsibilities(logits, labels, weights)

    def slope(logarithm):
        """Return how fast the cross entropy falls with the temperature."""
        gaps = (softmax(logits / np.exp(logarithm)) - targets) * logits
        return weights @ gaps.sum(axis=1)

    least = np.log(_LEAST)
    most = np.log(_MOST)
    if slope(least) <= 0:
        return float(size * _LEAST)
    if slope(most) >= 0:
        return float(size * _MOST)
    return float(size * np.exp(optimize.brentq(slope, least, most)))


def _responsibilities(logits, labels, weights):
    """Return the probabilities (n, k) of a mixture of the logits (n, k).

    It is fitted from the labels (n,) of samples with weights (n,). The clusters have
    one covariance matrix.
    """
    points = logits - weights @ logits
    values, vectors = np.linalg.eigh((weights[:, None] * points).T @ points)
    varies = values > _SAME * values[-1]
    points = points @ (vectors[:, varies] / np.sqrt(values[varies]))
    total = (weights[:, None] * points).T @ points
    responsibilities = np.eye(logits.shape[1])[labels]
    for _ in range(_N_STEPS):
        shares = weights @ responsibilities
        means = (weights[:, None] * responsibilities).T @ points
        occupied = shares > 0
        means[occupied] /= shares[occupied, None]
        within = total - (means.T * shares) @ means
        within += _LEAST_VARIANCE * np.eye(len(within))
        directions = np.linalg.solve(within, means.T)
        scores = points @ directions - (means.T * directions).sum(axis=0) / 2
        scores[:, occupied] += np.log(shares[occupied])
        scores[:, ~occupied] = -np.inf
        before = responsibilities
        responsibilities = softmax(scores)
        if weights @ np.abs(responsibilities - before).max(axis=1) < _LEAST_CHANGE:
            break
    return responsibilities
