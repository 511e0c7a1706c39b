"""The number of clusters that centres can represent, and its candidates.

Too many centres are merged one by one, and the number is the larger of two: the largest
one at which all clusters are separated, and that of the largest simplified silhouette.
Clusters are separated if, along the line between any two centres, two normal
distributions fit the samples of both clusters better than any distribution with one
mode. Neither the splitting of one cluster, whatever its tails, nor that of a long or
bent one is separated, so no reference without clusters is needed.

The clusters of real tables are rarely all separated. Their silhouette, the mean of 1 -
d1 / d2 with the distances of a sample to the two nearest centres, is large where
samples are near to their own centre relative to the next one.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse import issparse
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score

from skdiffclust._assignments import simplified_silhouette
from skdiffclust._batches import rows_of_weight
from skdiffclust._candidates import N_SUBSAMPLES, Candidates, are_wanted

# Centres to start from, restarts of k-means for them, and steps after each merge.
_MOST_CLUSTERS = 40
_N_RESTARTS = 3
_N_STEPS = 3
# Samples used, principal components at most and at least, and samples for each. The
# best clusters of the leading k / e components have an inertia of at most 1 + e times
# the smallest one of k clusters (Cohen et al., "Dimensionality Reduction for k-Means
# Clustering", STOC 2015).
_MOST_SAMPLES = 2000
_MOST_COMPONENTS = 32
_LEAST_COMPONENTS = 5
_SAMPLES_PER_COMPONENT = 20
# Pairs of clusters that are tested, the least separated ones first, and the samples
# that each cluster must have.
_N_PAIRS = 6
_LEAST_SIZE = 5
# Log-likelihood ratio of two modes to one from which clusters are separated.
_SEPARATED = 4.0
# Share of the samples in a subsample, and divisions into halves.
_SHARE = 0.8
_N_DIVISIONS = 8
# Two modes: quantiles where they are divided at first, steps of expectation and
# maximisation, and the least variance of a mode, where the whole has one of 1.
_DIVIDED_AT = 0.15, 0.5, 0.85
_MOST_STEPS = 10
_LEAST_VARIANCE = 0.01
# One mode: the least distance of the quartiles, shifts from the median and scales of
# arcsinh, in deviations, and margins of the logit beyond the samples, relative to their
# range.
_LEAST_WIDTH = 0.1
_SHIFT = 0.7
_SCALES = 0.3, 1.0, 3.0
_MARGINS = 0.01, 0.1, 0.5
# Entries of rows that all functions are fitted to at once, in the cache.
_ENTRIES = 2000


@dataclass(frozen=True)
class ClusterCount:
    """A number of clusters, and what was found for each number that was tried.

    Attributes
    ----------
    candidates : Candidates
        The number, 1 if all samples are equal, and those that are not ruled out.
    numbers, separation, score : ndarray of shape (m,)
        Numbers in increasing order; how much better two modes fit than one, for the two
        clusters that are least separated (log-likelihood ratio), and the simplified
        silhouette. The separation is NaN for numbers that are not tested, because a
        larger one is separated or has the largest score, and of others that are not
        separated, it is that of the first two clusters which are not.
    labels : ndarray of shape (n,)
        Clusters of the samples that were used.
    rows : ndarray of shape (n,)
        The numbers of these samples.
    """

    candidates: Candidates
    numbers: np.ndarray
    separation: np.ndarray
    score: np.ndarray
    labels: np.ndarray
    rows: np.ndarray

    @property
    def best(self):
        """The number."""
        return self.candidates.chosen

    def publish(self, estimator, *, warns=True):
        """Set the fitted attributes of an estimator; warn of several candidates."""
        estimator.n_clusters_curve_ = {
            "n_clusters": self.numbers.copy(),
            "separation": self.separation.copy(),
            "score": self.score.copy(),
        }
        estimator.n_clusters_candidates_ = self.candidates.numbers
        if warns:
            self.candidates.warn_if_several(type(estimator).__name__)


def count_clusters(Z, weight, random_state, *, least=2, most=None):
    """Return the `ClusterCount` of samples Z (n, d), dense or CSR, with weights (n,).

    The number is between `least` and `most`, by default the root of n, and 40 at most.
    At most 2000 samples, which are drawn, and 32 principal components of them are used.
    """
    rows = rows_to_count(weight, random_state)
    X, weight = _points_to_count(Z[rows], weight[rows])

    def pick(part):
        return _pick(X[part], weight[part], random_state, least, most)

    n_samples = len(rows)
    chosen = pick(np.arange(n_samples))
    candidates = Candidates(chosen.best)
    if chosen.numbers.size and are_wanted():
        n_drawn = int(np.ceil(_SHARE * n_samples))
        picks = [
            pick(np.sort(random_state.permutation(n_samples)[:n_drawn])).best
            for _ in range(N_SUBSAMPLES)
        ]
        agreement = _agreement(X, weight, chosen.best, random_state)
        candidates = Candidates(chosen.best, tuple(picks), agreement, "halves")
    return ClusterCount(candidates, *chosen[1:], rows)


class _Pick(NamedTuple):
    """What the rule picks: the number, columns (m,) of the curve, and labels (n,)."""

    best: int
    numbers: np.ndarray
    separation: np.ndarray
    score: np.ndarray
    labels: np.ndarray


def _pick(X, weight, random_state, least, most):
    """Return the `_Pick` of X (n, d) with weights (n,)."""
    n_samples = len(X)
    start = min(n_samples, max(least, min(_MOST_CLUSTERS, int(np.sqrt(n_samples)))))
    path = [
        each
        for each in _merging_path(X, weight, start, random_state)
        if least <= len(each.centers) <= (most or start)
    ]
    path.reverse()
    if not path:
        empty = np.empty(0)
        return _Pick(1, empty.astype(int), empty, empty, np.zeros(len(X), np.int64))
    numbers = np.array([len(each.centers) for each in path])
    score = np.array(
        [simplified_silhouette(cdist(X, each.centers), weight) for each in path]
    )
    separation = np.full(len(path), np.nan)
    best = int(np.argmax(score))
    for at in range(len(path) - 1, best, -1):
        separation[at] = path[at].separation(X, weight, above=_SEPARATED)
        if separation[at] > _SEPARATED:
            best = at
            break
    return _Pick(int(numbers[best]), numbers, separation, score, path[best].labels)


def _agreement(X, weight, n_clusters, random_state):
    """Return the mean agreement of the clusters of two halves of X (n, d).

    The agreement is 0 if either half has a single cluster.
    """
    agreements = []
    for _ in range(_N_DIVISIONS):
        halves = np.split(random_state.permutation(len(X)), [len(X) // 2])
        one, other = (
            _nearest_of(X, weight, np.sort(part), n_clusters, random_state)
            for part in halves
        )
        is_one = one.max() == 0 or other.max() == 0
        agreements.append(0.0 if is_one else adjusted_rand_score(one, other))
    return float(np.mean(agreements))


def _nearest_of(X, weight, part, n_clusters, random_state):
    """Return the nearest centre (n,) of each of X (n, d), among clusters of a part.

    These are merged from twice as many clusters of the rows of the part.
    """
    centers = X[part[:1]]
    path = _merging_path(
        X[part], weight[part], min(2 * n_clusters, len(part)), random_state
    )
    for each in path:
        centers = each.centers
        if len(centers) <= n_clusters:
            break
    return cdist(X, centers).argmin(axis=1)


def rows_to_count(weight, random_state):
    """Return which samples (m,) of positive weight (n,) are used: all, or 2000."""
    return rows_of_weight(weight, _MOST_SAMPLES, random_state)


def are_separated(Z, weight, labels):
    """Whether clusters of labels (n,) of Z (n, d), weights (n,), are all separated."""
    X, weight = _points_to_count(Z, weight)
    clusters = Clusters.of(X, weight, np.unique(labels, return_inverse=True)[1])
    return clusters.separation(X, weight, above=_SEPARATED) > _SEPARATED


def _points_to_count(X, weight):
    """Return principal components of X (n, d), and weights (n,) with a mean of one."""
    weight = np.asarray(weight, dtype=np.float64)
    weight = weight / weight.mean()
    n_components = min(_MOST_COMPONENTS, len(weight) // _SAMPLES_PER_COMPONENT)
    n_components = max(n_components, _LEAST_COMPONENTS)
    return principal_components(X, n_components, weight), weight


@dataclass(frozen=True)
class Clusters:
    """Clusters of samples: labels (n,), centres (k, d), sizes (k,), sums of squares.

    `scatter` (k, d, d) is that of the deviations from the centres.
    """

    labels: np.ndarray
    centers: np.ndarray
    sizes: np.ndarray
    scatter: np.ndarray

    @classmethod
    def of(cls, X, weight, labels):
        """Return the clusters of labels (n,) of X (n, d) with weights (n,)."""
        n_clusters = int(labels.max()) + 1
        members = np.eye(n_clusters)[labels] * weight[:, None]
        sizes = members.sum(axis=0)
        centers = members.T @ X / sizes[:, None]
        gaps = (X - centers[labels]) * np.sqrt(weight)[:, None]
        own = [gaps[labels == k] for k in range(n_clusters)]
        scatter = np.array([rows.T @ rows for rows in own])
        return cls(labels, centers, sizes, scatter)

    def pairs(self):
        """Return pairs (p, 2) of clusters, the least separated ones first.

        The order is that of the squared distance of their centres over the variance
        along it. The variance within all clusters is added, with the weight of two
        samples, which decides for small clusters.
        """
        i, j = np.triu_indices(len(self.centers), 1)
        gaps = self.centers[i] - self.centers[j]
        within = self.scatter.sum(axis=0) / self.sizes.sum()
        sums = self.scatter[i] + self.scatter[j] + 2 * within
        along = np.einsum("pd,pde,pe->p", gaps, sums, gaps)
        along /= self.sizes[i] + self.sizes[j] + 2
        squares = np.square(np.einsum("pd,pd->p", gaps, gaps))
        ratios = np.full(len(i), np.inf)
        np.divide(squares, along, out=ratios, where=along > 0)
        return np.column_stack([i, j])[np.argsort(ratios, kind="stable")]

    def separation(self, X, weight, above=-np.inf):
        """Return the least separation of two clusters of X (n, d), weights (n,).

        It is -inf for a single cluster. The search ends at the first pair that is not
        separated by more than `above`, whose separation is then returned.
        """
        if len(self.sizes) == 1:
            return -np.inf
        least = np.inf
        for pair in self.pairs()[:_N_PAIRS]:
            least = min(least, self._separation_of(X, weight, *pair))
            if least <= above:
                break
        return least

    def _separation_of(self, X, weight, one, other):
        """Return how much better two modes fit two clusters than one mode.

        Samples are projected on the line between the two centres. The centre of a
        sample's own cluster is computed without the sample, which would attract it in
        many dimensions.
        """
        middle = (self.centers[one] + self.centers[other]) / 2
        line = []
        weights = []
        for own, sign in (one, 1.0), (other, -1.0):
            rows = np.flatnonzero(self.labels == own)
            if len(rows) < _LEAST_SIZE:
                return 0.0
            points = X[rows] - middle
            center = self.centers[own] - middle
            share = weight[rows] / (self.sizes[own] - weight[rows])
            lost = np.einsum("ij,ij->i", points, points - center) * share
            line.append(points @ (2 * sign * center) - sign * lost)
            weights.append(weight[rows])
        return float(bimodality(np.hstack(line)[None], np.hstack(weights))[0])

    def merged(self):
        """Return the centres (k - 1, d) after Ward's rule has merged two clusters."""
        gaps = cdist(self.centers, self.centers, "sqeuclidean")
        cost = gaps * np.outer(self.sizes, self.sizes)
        cost /= self.sizes[:, None] + self.sizes
        np.fill_diagonal(cost, np.inf)
        one, other = np.unravel_index(np.argmin(cost), cost.shape)
        pair = [one, other]
        mean = self.sizes[pair] @ self.centers[pair] / self.sizes[pair].sum()
        centers = self.centers.copy()
        centers[one] = mean
        return np.delete(centers, other, axis=0)


def _merging_path(X, weight, n_most, random_state):
    """Yield the `Clusters` of X (n, d) from at most `n_most` to two."""
    from skdiffclust._kmeans import kmeans, lloyd

    seeds, costs, _ = kmeans(X, weight, n_most, _N_RESTARTS, random_state)
    centers = seeds[int(np.argmin(costs))]
    while len(centers) > 1:
        _, _, (labels,) = lloyd(X, weight, centers[None], _N_STEPS)
        _, labels = np.unique(labels, return_inverse=True)
        clusters = Clusters.of(X, weight, labels)
        if len(clusters.centers) < 2:
            break
        yield clusters
        centers = clusters.merged()


def principal_components(X, n_components, weight):
    """Return coordinates (n, m), float64, of X (n, d) along principal components.

    X is dense or sparse, with positive weights (n,); m is `n_components`, or n or d if
    that is less. The last components are the largest. Features that are no more than
    `n_components` are only centred. O(n d min(n, d)).
    """
    n_samples, n_features = X.shape
    if issparse(X) and n_features <= n_components:
        X = X.toarray()
    n_components = min(n_components, n_samples, n_features)
    share = weight / weight.sum()
    root = np.sqrt(share)[:, None]
    if issparse(X):
        gram = (X @ X.T).toarray().astype(np.float64)
        means = gram @ share
        gram -= means + means[:, None] - share @ means
    else:
        rows = X - share @ X.astype(np.float64)
        if n_features <= n_components:
            return rows
        gram = rows @ rows.T if n_samples < n_features else None
    if gram is None:
        scaled = root * rows
        components = rows @ _leading(scaled.T @ scaled, n_components)[1]
    else:
        values, vectors = _leading(root * gram * root.T, n_components)
        components = np.sqrt(np.maximum(values, 0.0)) * vectors / root
    # The signs are the same either way.
    largest = np.abs(components).argmax(axis=0)
    return components * np.sign(components[largest, np.arange(n_components)])


def _leading(matrix, n_components):
    """Return the largest eigenvalues (m,) of a matrix (p, p), and vectors (p, m)."""
    last = len(matrix) - 1
    return linalg.eigh(matrix, subset_by_index=[last - n_components + 1, last])


def bimodality(rows, weight):
    """Return how much better two modes fit each of rows (m, n) than one, as (m,).

    The log-likelihood of two normal distributions with the same variance, less the
    largest of distributions with one mode: those of Johnson, whose tails may be heavy
    or short and of different lengths. Samples have weights (n,).
    """
    rows = rows - (rows @ weight / weight.sum())[:, None]
    deviations = np.sqrt(np.square(rows) @ weight / weight.sum())
    varies = deviations > 0
    gains = np.full(len(rows), -np.inf)
    rows = rows[varies] / deviations[varies, None]
    at_once = max(1, _ENTRIES // rows.shape[1])
    parts = np.array_split(rows, np.arange(at_once, len(rows), at_once))
    ones = np.concatenate([_fit_of_one(part, weight) for part in parts])
    gains[varies] = _fit_of_two(rows, weight) - ones
    return gains


def _fit_of_two(rows, weight):
    """Return the log-likelihood (m,) of two normal distributions of rows (m, n)."""
    total = weight.sum()
    starts = np.quantile(rows, _DIVIDED_AT, axis=1).T[..., None]
    points = rows[:, None]
    second = (points > starts).astype(np.float64)  # probabilities of the second
    for _ in range(_MOST_STEPS):
        size = (second @ weight)[..., None]
        size = np.clip(size, _LEAST_SIZE, total - _LEAST_SIZE)
        above = ((second * points) @ weight)[..., None] / size
        below = -above * size / (total - size)  # the mean of all is zero
        # The variance of all is one, too.
        variance = 1 - (size * above**2 + (total - size) * below**2) / total
        variance = np.maximum(variance, _LEAST_VARIANCE)
        of_second = np.log(size / total) - (points - above) ** 2 / (2 * variance)
        of_first = np.log(1 - size / total) - (points - below) ** 2 / (2 * variance)
        density = np.logaddexp(of_first, of_second)
        second = np.exp(of_second - density)
    fits = density @ weight - total * np.log(variance[..., 0]) / 2
    return fits.max(axis=1)


def _fit_of_one(rows, weight):
    """Return the largest log-likelihood (m,) of one mode of rows (m, n).

    The distributions are Johnson's, in which arcsinh or the logit of a linear function
    is normal. The linear functions are those of a grid, and the normal distribution is
    fitted. A logit with a standard deviation above the root of two would have two
    modes.
    """
    low = rows.min(axis=1, keepdims=True)
    high = rows.max(axis=1, keepdims=True)
    first, middle, third = np.quantile(rows, [0.25, 0.5, 0.75], axis=1)[..., None]
    width = np.maximum(third - first, _LEAST_WIDTH) / 1.35
    places = [low, high, middle, low - width / 2, high + width / 2]
    places += [middle - _SHIFT * width, middle + _SHIFT * width]
    # All functions at once, as axes before that of the samples: rows are often short.
    shifted = (rows - np.array(places)).swapaxes(0, 1)[:, :, None]
    widths = np.array(_SCALES)[:, None] * width[:, None, None]
    fits = _normal_fit(np.arcsinh(shifted / widths), weight)
    fits -= np.log(np.hypot(shifted, widths)) @ weight
    best = np.maximum(_normal_fit(rows, weight), fits.max(axis=(1, 2)))
    margins = np.array(_MARGINS)[:, None] * (high - low)[:, None]
    left = (rows - low)[:, None] + margins
    right = (high - rows)[:, None] + margins
    left, right = left[:, :, None], right[:, None]
    fits = _normal_fit(np.log(left / right), weight, np.sqrt(2))
    fits -= np.log(left * right / (left + right)) @ weight
    return np.maximum(best, fits.max(axis=(1, 2)))


def _normal_fit(rows, weight, widest=np.inf):
    """Return the log-likelihood (...) of normal distributions of rows (..., n).

    Standard deviations are at most `widest`.
    """
    total = weight.sum()
    variance = np.square(rows - (rows @ weight / total)[..., None]) @ weight / total
    fitted = np.clip(variance, _LEAST_VARIANCE**2, widest**2)
    return -total / 2 * (np.log(fitted) + variance / fitted)
