"""Whether samples have structure, and the stability of clusters and of supports."""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from scipy.special import ndtri

from skdiffclust._assignments import adjusted_rand
from skdiffclust._n_clusters import Clusters, bimodality, principal_components
from skdiffclust._validation import check_dense_size
from skdiffclust.gemini._sparse_rows import centered, weighted_means

# Test of structure: samples used, samples of the reference (one in 20 is above all
# others by chance), principal components, numbers of clusters and runs of k-means.
_MOST_SAMPLES = 500
_LEAST_SAMPLES = 16
_N_REFERENCES = 19
_N_COMPONENTS = 5
_COUNTS = 2, 3, 4
_N_RUNS = 2
# Different values up to which those of a feature are categories, not measurements.
_FEW_VALUES = 5
# Log-likelihood ratio up to which skewness and heavy tails explain two modes.
LEAST_RATIO = 5.0


@dataclass(frozen=True)
class Structure:
    """How much better two modes fit samples than one, and the same of Gaussians.

    `bimodality` is the value of the samples, `by_chance` (r,) are those of the
    Gaussians.
    """

    bimodality: float
    by_chance: np.ndarray

    @property
    def is_clear(self):
        """Whether it exceeds that of each reference, and what tails explain."""
        return self.bimodality > max(self.by_chance.max(), LEAST_RATIO)


def structure_of(X, random_state):
    """Return the Structure of dense or sparse X (n, d), None of fewer than 16 samples.

    It has the largest bimodality along lines: the five leading principal components,
    the lines between the centres of two to four clusters of k-means on them, and that
    between the two least separated of these clusters, for their samples alone, since
    three clusters along one line are not bimodal.

    Lines are drawn in X, where they follow the largest variances, and in X with each
    feature divided by the width of its densest quarter. That width is the spread within
    a cluster where the variance is that between clusters, so that clusters in few of
    many standardised features are found. The same is computed for Gaussians with the
    covariance of X. Before, features with few values are replaced by normal scores.
    """
    n_samples = min(X.shape[0], _MOST_SAMPLES)
    if n_samples < _LEAST_SAMPLES:
        return None
    if X.shape[0] > n_samples:
        X = X[np.sort(random_state.choice(X.shape[0], n_samples, replace=False))]
    check_dense_size(
        n_samples,
        X.shape[1],
        what="the samples that the structure of X is compared with",
        remedy="Select features before.",
    )
    has_scales = not issparse(X)
    X = with_normal_scores(X, random_state)
    references = [
        _largest_bimodality(gaussian_like(X, random_state), has_scales, random_state)
        for _ in range(_N_REFERENCES)
    ]
    own = _largest_bimodality(X, has_scales, random_state)
    return Structure(own, np.array(references))


def _largest_bimodality(X, has_scales, random_state):
    """Return the largest bimodality of X (n, d) along lines between clusters.

    It includes the separation of the two least separated clusters. With `has_scales`,
    features in units of their densest quarters are tried as well.
    """
    from skdiffclust._kmeans import kmeans

    weight = np.ones(X.shape[0])
    lines = []
    partitions = []
    for each in [X, by_densest_quarter(X)] if has_scales else [X]:
        points = principal_components(each, _N_COMPONENTS, weight)
        lines.append(points.T)
        for count in _COUNTS:
            runs, costs, labels = kmeans(points, weight, count, _N_RUNS, random_state)
            best = np.argmin(costs)
            first, second = np.triu_indices(count, 1)
            lines.append((runs[best, first] - runs[best, second]) @ points.T)
            numbered = np.unique(labels[best], return_inverse=True)[1]
            partitions.append((points, Clusters.of(points, weight, numbered)))
    largest = bimodality(np.concatenate(lines), weight).max()
    for points, clusters in partitions:
        largest = max(largest, clusters.separation(points, weight, above=largest))
    return float(largest)


def with_normal_scores(X, random_state):
    """Return X (n, d) with normal scores in place of features with few values.

    A feature with two to five values has several modes itself. Its samples are ranked,
    equal ones in random order, and have the quantiles of a Gaussian with its mean and
    variance: independent features become independent Gaussians, and values that occur
    together in several features remain together. The result is dense if there are such
    features.
    """
    values = X.toarray() if issparse(X) else X
    n_changes = np.count_nonzero(np.diff(np.sort(values, axis=0), axis=0), axis=0)
    few = np.flatnonzero((n_changes > 0) & (n_changes < _FEW_VALUES))
    if not len(few):
        return X
    # The same draws for a feature, in whatever order the features are.
    few = few[np.lexsort(values[:, few])]
    columns = values[:, few].astype(np.float64)
    order = np.lexsort((random_state.uniform(size=columns.shape), columns), axis=0)
    scores = ndtri((np.arange(len(columns)) + 0.5) / len(columns))
    ranked = columns.mean(axis=0) + columns.std(axis=0) * scores[:, None]
    np.put_along_axis(columns, order, ranked, axis=0)
    values = values.copy()
    values[:, few] = columns
    return values


def by_densest_quarter(X):
    """Return X (n, d) in units of the width of a quarter of each feature's values.

    The unit is the narrowest interval with a quarter of the values, over that of a
    Gaussian of the same variance, but at least a fifth of it. If a quarter of the
    values are equal, it is the standard deviation.
    """
    n_quarter = max(round(len(X) / 4), 3)
    ordered = np.sort(X, axis=0).astype(np.float64)
    widths = (ordered[n_quarter:] - ordered[:-n_quarter]).min(axis=0)
    deviations = X.std(axis=0, dtype=np.float64)
    deviations = np.where(deviations > 0, deviations, 1.0)
    # A quarter of a Gaussian is within .3186 standard deviations of its mean.
    shares = widths / (2 * 0.3186 * deviations)
    shares = np.where(shares > 0, np.maximum(shares, 0.2), 1.0)
    return X / (deviations * shares)


def gaussian_like(X, random_state):
    """Return samples (n, d) of one Gaussian with means and covariance of X (n, d).

    Each is a sum of all centred samples, with independent normal factors.
    """
    n_samples = X.shape[0]
    weights = np.full(n_samples, 1 / n_samples)
    means = weighted_means(X, weights)
    rows = centered(X, means)
    factors = random_state.normal(scale=n_samples**-0.5, size=(n_samples, n_samples))
    samples = (rows.T @ factors).T + means
    return np.ascontiguousarray(samples).astype(X.dtype, copy=False)


def cluster_stability(labels, weights=None):
    """Return the mean adjusted Rand index of pairs of labels (m, a, n), for each a.

    Labels with a single cluster agree on any data, and count as 0. The samples may have
    weights (n,).
    """
    scores = np.zeros(labels.shape[1])
    pairs = list(itertools.combinations(range(len(labels)), 2))
    for first, second in pairs:
        for a in range(len(scores)):
            one = labels[first, a]
            other = labels[second, a]
            if one.min() < one.max() and other.min() < other.max():
                scores[a] += adjusted_rand(one, other, weights)
    return scores / len(pairs)


def co_assignment_uncertainty(labels, weights=None):
    """Return 1 - sum_j c_ij² / sum_j c_ij (n,) of labels (m, n), from 0 on.

    The c_ij are the shares of the m labellings that put i and j together; sums may have
    weights (n,). It takes O(m² n), since sum_j c_ij² is the mean size of what the
    clusters of i in two of them share. The result is 0 for samples with whom no weight
    is ever together.
    """
    n_labels = int(labels.max()) + 1
    n_labellings, n_samples = labels.shape
    together = np.zeros(n_samples)
    squared = np.zeros(n_samples)
    for one in labels:
        together += np.bincount(one, weights)[one]
        for other in labels:
            both = one * n_labels + other
            squared += np.bincount(both, weights)[both]
    share = np.ones(n_samples)
    np.divide(squared, n_labellings * together, out=share, where=together > 0)
    return 1 - share


def support_stability(supports):
    """Return the agreement of supports (m, a, d) beyond chance, for each a."""
    frequency = supports.mean(axis=0)
    n_resamples = len(supports)
    variance = (frequency * (1 - frequency)).mean(axis=1)
    variance *= n_resamples / (n_resamples - 1)
    share = frequency.mean(axis=1)
    by_chance = share * (1 - share)
    agreement = np.zeros_like(share)
    np.divide(variance, by_chance, out=agreement, where=by_chance > 0)
    return np.where(by_chance > 0, 1 - agreement, 0.0)
