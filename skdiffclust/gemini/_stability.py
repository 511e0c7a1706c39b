"""Stability over subsets of the samples: of clusters, of supports, and of their number.

True clusters are found again in other samples. But two clusters of any elongated
distribution are found again as well, so the stability of a number of clusters is
compared with that on samples without clusters: of one Gaussian with the covariance of
the data.
"""

import itertools
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import linalg
from scipy.sparse import issparse

from skdiffclust._history import warn_of_convergence
from skdiffclust._validation import check_dense_size
from skdiffclust.gemini._sparse_rows import centered, weighted_means
from skdiffclust.gemini._starts import (
    MAX_ITER,
    ascend,
    start_partitions,
)

# Largest number of clusters tried, samples per cluster, and samples used.
MOST_CLUSTERS = 10
_SAMPLES_PER_CLUSTER = 8
_MOST_SAMPLES = 1000
# Principal components of the samples that cells are found in. The best clusters of the
# leading k / e have an inertia of at most 1 + e times the smallest one of k clusters
# (Cohen et al., "Dimensionality Reduction for k-Means Clustering", STOC 2015).
_MOST_COMPONENTS = 32
# Subsets of half of the samples, and samples of the reference.
_N_SUBSETS = 10
_N_REFERENCES = 9
# Runs of k-means in each subset.
_N_RUNS = 10
# Added to the distance of a reference from full stability: if two clusters of any data
# are stable, two stable clusters of the samples mean little.
_SLACK = 0.05
# Smaller differences between advantages are due to chance.
_TIE = 0.03
# Test of structure: samples used, references (one in 40 is above all others by chance),
# principal components, numbers of clusters from 2 on, subsets, and runs of k-means.
_MOST_TESTED = 500
_N_TESTS = 39
_N_TESTED = 5
_MOST_COUNTS_TESTED = 4
_N_SUBSETS_TESTED = 8
_N_RUNS_TESTED = 2


@dataclass(frozen=True)
class CountStability:
    """Stability of each number of clusters, and the same for one Gaussian.

    Arrays have one entry for each of `counts`; `by_chance` is the largest advantage
    that each of the references has over the others.
    """

    counts: np.ndarray
    stability: np.ndarray
    reference: np.ndarray
    advantage: np.ndarray
    by_chance: np.ndarray

    @property
    def best(self):
        """The largest of the numbers with nearly the largest advantage.

        Two clusters that are merged into one are as stable as both.
        """
        is_near = self.advantage >= self.advantage.max() - _TIE
        return int(self.counts[is_near].max())

    @property
    def is_clear(self):
        """Whether the advantage is larger than that of any reference."""
        return bool(self.advantage.max() > self.by_chance.max())

    def to_dict(self):
        """Return the columns of a table with a row for each number of clusters."""
        names = "counts", "stability", "reference", "advantage"
        return {name: getattr(self, name).copy() for name in names}


def counts_to_try(n_samples, least, most):
    """Return the numbers of clusters that "auto" stands for.

    From 2 to 10, and at most one for eight samples, within the bounds that links set.
    """
    first = max(2, least)
    last = min(MOST_CLUSTERS, min(n_samples, _MOST_SAMPLES) // _SAMPLES_PER_CLUSTER)
    last = min(max(first, last), most)
    return np.arange(first, max(first, last) + 1)


def stability_of_counts(
    cluster, X, counts, random_state, *, is_linear=False, is_not_negative=False
):
    """Return the CountStability of numbers of clusters of dense or sparse X (n, d).

    ``cluster(X, rows, n_clusters, random_state)`` fits the samples `rows` of X and
    returns the labels (n,) of all. At most `_MOST_SAMPLES` samples are used, and if
    `is_linear`, so that only distances between samples matter, at most
    `_MOST_COMPONENTS` principal components of them. The advantage of k clusters of
    stability s over the mean m of the references is (s - m) / (1 + slack - m). If
    features must be at least 0 (`is_not_negative`), so are those of the references.
    """
    n_samples = X.shape[0]
    if n_samples > _MOST_SAMPLES:
        X = X[np.sort(random_state.choice(n_samples, _MOST_SAMPLES, replace=False))]
        n_samples = _MOST_SAMPLES
    if is_linear and X.shape[1] > _MOST_COMPONENTS:
        X = leading_components(X, _MOST_COMPONENTS)
    n_features = X.shape[1]
    check_dense_size(
        n_samples,
        n_features,
        what="the samples that the stability of clusters is compared with",
        remedy="Set n_clusters, or select features before.",
    )
    counts = np.asarray(counts)
    subsets = [
        np.sort(random_state.choice(n_samples, n_samples // 2, replace=False))
        for _ in range(_N_SUBSETS)
    ]

    def stability(X):
        return np.array(
            [_stability_of(cluster, X, subsets, k, random_state) for k in counts]
        )

    own = stability(X)
    lowest = 0.0 if is_not_negative else -np.inf
    references = np.array(
        [
            stability(np.maximum(gaussian_like(X, random_state), lowest))
            for _ in range(_N_REFERENCES)
        ]
    )
    by_chance = [
        _advantage(one, np.delete(references, i, axis=0)).max()
        for i, one in enumerate(references)
    ]
    return CountStability(
        counts,
        own,
        references.mean(axis=0),
        _advantage(own, references),
        np.array(by_chance),
    )


@dataclass(frozen=True)
class Structure:
    """How much more stable clusters are than those of one Gaussian, and of Gaussians.

    `advantage` is that of the samples, `by_chance` (r,) those of the references.
    """

    advantage: float
    by_chance: np.ndarray

    @property
    def is_clear(self):
        """Whether no reference has as large an advantage."""
        return bool(self.advantage > self.by_chance.max())

    def to_dict(self):
        """Return the parts by name."""
        return {"advantage": self.advantage, "by_chance": self.by_chance.copy()}


def structure_of(X, n_clusters, random_state):
    """Return the Structure of dense or sparse X (n, d), None of fewer than 16 samples.

    The stability of k-means' partitions of halves, into two to four clusters and into
    `n_clusters`, on the leading principal components: of X, and of X with each feature
    divided by the width of its densest quarter. The latter is the spread within a
    cluster where the variance is that between clusters, and finds clusters in few of
    many standardised features; the former finds those along the largest variances.
    Both are compared with Gaussians of the same covariance as in `stability_of_counts`;
    the advantage is the largest over all numbers and both spaces. Inertia and
    likelihood would take heavy tails for clusters, which stability does not.
    """
    n_samples = min(X.shape[0], _MOST_TESTED)
    if n_samples < 2 * _SAMPLES_PER_CLUSTER:
        return None
    if X.shape[0] > n_samples:
        X = X[np.sort(random_state.choice(X.shape[0], n_samples, replace=False))]
    check_dense_size(
        n_samples,
        X.shape[1],
        what="the samples that the structure of X is compared with",
        remedy="Select features before.",
    )
    most = n_samples // _SAMPLES_PER_CLUSTER
    counts = {*range(2, min(_MOST_COUNTS_TESTED, most) + 1), n_clusters}
    counts = sorted(count for count in counts if 2 <= count <= most)
    subsets = [
        np.sort(random_state.choice(n_samples, n_samples // 2, replace=False))
        for _ in range(_N_SUBSETS_TESTED)
    ]

    def stability(X):
        spaces = [X] if issparse(own) else [X, by_densest_quarter(X)]
        return [
            _stability_of(_means_of_subset, points, subsets, count, random_state)
            for points in (leading_components(each, _N_TESTED) for each in spaces)
            for count in counts
        ]

    own = X
    found = np.array(
        [stability(X)]
        + [stability(gaussian_like(X, random_state)) for _ in range(_N_TESTS)]
    )
    advantages = _advantage(found, found[1:]).max(axis=1)
    return Structure(float(advantages[0]), advantages[1:])


def by_densest_quarter(X):
    """Return X (n, d) in units of the width of a quarter of each feature's values.

    The narrowest interval with a quarter of the values, over that of a Gaussian of the
    same variance, but at least a fifth of it; the standard deviation where a quarter
    of the values are equal.
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


def _means_of_subset(X, rows, n_clusters, random_state):
    """Return the labels (n,) of X (n, d) by the means of k-means on some samples."""
    from skdiffclust._kmeans import kmeans

    mean = X[rows].mean(axis=0)
    runs, costs, _ = kmeans(
        X[rows] - mean, np.ones(len(rows)), n_clusters, _N_RUNS_TESTED, random_state
    )
    centers = runs[np.argmin(costs)]
    offsets = np.einsum("ij,ij->i", centers, centers) / 2
    return ((X - mean) @ centers.T - offsets).argmax(axis=1)


def warn_of_no_structure(name, structure, more=""):
    """Warn if Gaussians have as much structure; `more` is said about the result."""
    if structure is not None and not structure.is_clear:
        n_references = len(structure.by_chance)
        warn_of_convergence(
            f"{name} sees no more structure than in a Gaussian: the advantage of its "
            f"clusters in stability is {structure.advantage:.2f}, and up to "
            f"{structure.by_chance.max():.2f} in {n_references} samples of a Gaussian "
            f"with the same covariance. {more}Do not interpret the clusters, unless "
            "something else supports them. Inspect structure_, or add samples.",
            stacklevel=4,
        )


def has_reference(X, n_clusters):
    """Return whether stability can be compared up to a number of clusters of X."""
    n_samples = min(X.shape[0], _MOST_SAMPLES)
    return 2 <= n_clusters <= n_samples // _SAMPLES_PER_CLUSTER


def warn_of_chance(name, stability):
    """Warn if a Gaussian has clusters as stable as those of the samples."""
    if not stability.is_clear:
        warn_of_convergence(
            f"{name} sees no clear structure: the stability of {stability.best} "
            f"clusters has an advantage of {stability.advantage.max():.2f} over "
            "samples of one Gaussian, which have up to "
            f"{stability.by_chance.max():.2f} over each other. It takes "
            f"{stability.best} clusters. Inspect stability_, and use the clusters (and "
            "features) only if something else supports them.",
            stacklevel=4,
        )


def _stability_of(cluster, X, subsets, n_clusters, random_state):
    """Return the mean adjusted Rand index of the labels found from pairs of subsets."""
    labels = [cluster(X, rows, n_clusters, random_state) for rows in subsets]
    return float(cluster_stability(np.array(labels)[:, None])[0])


def _advantage(stability, references):
    """Return the advantage (m,) of stabilities (m,) over references (r, m)."""
    mean = references.mean(axis=0)
    return (stability - mean) / (1 + _SLACK - mean)


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


def leading_components(X, n_components):
    """Return coordinates (n, m), float64, of X (n, d) along principal components.

    Dense or sparse X; m is `n_components`, or n or d if that is less. O(n d min(n, d)).
    """
    n_samples, n_features = X.shape
    n_components = min(n_components, n_samples, n_features)
    if issparse(X):
        gram = (X @ X.T).toarray().astype(np.float64)
        gram -= gram.mean(axis=0)
        gram -= gram.mean(axis=1)[:, None]
    else:
        rows = X - X.mean(axis=0, dtype=np.float64)
        gram = rows @ rows.T if n_samples < n_features else rows.T @ rows
    last = len(gram) - 1
    values, vectors = linalg.eigh(gram, subset_by_index=[last - n_components + 1, last])
    if not issparse(X) and n_samples >= n_features:
        return rows @ vectors
    return vectors * np.sqrt(np.maximum(values, 0))


def cells_of_subset(X, rows, n_clusters, mode, random_state):
    """Return the labels (n,) in the best cells for the linear MMD of some samples.

    X is (n, d). The best partition of k-means, improved, is the one with the largest
    objective, at or near which training ends: see `_starts`.
    """
    part = X[rows]
    weights = np.full(len(rows), 1 / len(rows))
    means = weighted_means(part, weights)
    points = centered(part, means)
    if issparse(X):
        weights = weights.astype(X.dtype)
        improve = partial(ascend, points)
    else:
        columns = np.ascontiguousarray(points.T, dtype=np.float64)
        improve = partial(_ascend, columns)
    partitions = start_partitions(points, weights, n_clusters, random_state, _N_RUNS)
    found = [improve(weights, labels, n_clusters, mode) for labels in partitions]
    _, directions, offsets = max(found, key=lambda cells: cells[0])
    return (centered(X, means) @ directions + offsets).argmax(axis=1)


def _ascend(columns, weights, labels, n_clusters, mode):
    """Return what `ascend` does from the samples as columns (d, n), compiled."""
    from skdiffclust.gemini._starts_kernels import ascend_columns

    value, directions, offsets = ascend_columns(
        columns, weights, labels, n_clusters, mode == "ovo", MAX_ITER, 1e-12
    )
    return value, directions.T, offsets


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
    weights (n,). In O(m² n): sum_j c_ij² is the mean size of what the clusters of i in
    two of them share. 0 for samples with whom no weight is ever together.
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


def adjusted_rand(one, other, weights=None):
    """Return the adjusted Rand index of labels (n,) and labels (n,), from 0 on.

    As scikit-learn's, without its checks, which take most of its time. With weights
    (n,) a pair of samples counts as much as the product of theirs.
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
