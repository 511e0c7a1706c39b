"""The samples that take part, in the order by which edges of equal lengths are chosen.

On a grid, as of integers, many spanning trees are equally short, and which of them is
grown decides what is cut. If the order of the samples decided, edges between clusters
would be as likely as those inside them, and another order would give other clusters.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.spatial.distance import cdist

from skdiffclust._compat import check_sample_weight
from skdiffclust._duplicates import first_equal
from skdiffclust._neighbors import nearest_sample

# Largest number of distinct samples: to find the neighbours of more takes longer than
# to grow the tree.
_MOST_DISTINCT = 5000
_N_NEIGHBORS = 10
# Number of features that are examined, and of samples whose distances are; and the
# share of different values above which there are few ties.
_N_PROBES = 10
_SHARE_WITHOUT_TIES = 0.95
# Products of two sums of weights are finite and positive.
_LEAST_WEIGHT = 1e-100
_MOST_WEIGHT = 1e100
# Sparse samples of at most this many entries are made dense, 8 MB.
_MOST_ENTRIES = 2**20


class Samples(NamedTuple):
    """The samples of positive weight, in the order by which ties are broken.

    Row i of `X` is the sample number ``order[i]`` of those with positive weight, and
    number ``kept[order[i]]`` of all; None stands for their own order, and for all.
    `weights` (m,) are those of the former, in their own order. `firsts` are those of
    `order_of_ties`.
    """

    X: Any
    kept: np.ndarray | None
    order: np.ndarray | None
    weights: np.ndarray | None
    firsts: np.ndarray | None

    def positions(self):
        """Return which of the samples of positive weight (m,) the rows are."""
        return np.arange(self.X.shape[0]) if self.order is None else self.order

    def numbers(self, rows):
        """Return which of all samples some rows are."""
        rows = rows if self.order is None else self.order[rows]
        return rows if self.kept is None else self.kept[rows]

    def without_distances(self, metric):
        """Return the Samples without X where X is a matrix of distances."""
        return self._replace(X=None) if metric == "precomputed" else self

    def nearest(self, X, metric):
        """Return the nearest of these samples to each of X, and how far it is.

        The numbers (m,) are those among all samples. X (m, d) are samples, or (m, n)
        distances to all samples.
        """
        # The order of distances is their own.
        if metric == "precomputed" and self.kept is not None:
            X = X[:, self.kept]
        nearest, distances = nearest_sample(self.X, X, metric=metric)
        return self.numbers(nearest), distances

    def predicted(self, X, metric):
        """Return for each sample of X its own number, or that of its nearest one here.

        None if all are here. Also returns which samples (p,) are not, and their
        distances (p,) to the nearest.
        """
        if self.kept is None:
            return None, np.empty(0, dtype=np.int64), np.empty(0)
        ends = np.arange(X.shape[0])
        aside = np.delete(ends, self.kept)
        ends[aside], distances = self.nearest(X[aside], metric)
        return np.searchsorted(self.kept, ends), aside, distances


def samples_in_order(X, weights, metric, *, by_index):
    """Return the Samples of positive weight, of all weights (n,) or None.

    They keep the order of X where it holds distances, and with `by_index`.
    """
    is_given = metric == "precomputed"
    kept = None
    if weights is not None and not weights.all():
        kept = np.flatnonzero(weights)
        X = X[kept][:, kept] if is_given else X[kept]
        weights = weights[kept]
    order = firsts = None
    if not (is_given or by_index):
        order, firsts = order_of_ties(X, weights, metric)
    return Samples(X if order is None else X[order], kept, order, weights, firsts)


def checked_weights(sample_weight, X, metric):
    """Return weights (n,) of the samples of X, or None; refuse what has no meaning."""
    if sample_weight is None:
        return None
    weights = check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    title = "The 'sample_weight' parameter of SpanningForestClustering.fit"
    check_total(weights, title)
    n_zeros = np.count_nonzero(weights == 0)
    if n_zeros and issparse(X) and metric == "precomputed":
        raise ValueError(
            f"{title} must be positive for a sparse graph, where a sample of weight "
            f"zero may have no neighbor. Got {n_zeros} zeros instead. Leave those "
            "samples out."
        )
    return weights


def check_total(weights, title):
    """Refuse weights (n,) whose sum is too small or large for products of two sums."""
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not _LEAST_WEIGHT <= total <= _MOST_WEIGHT:
        raise ValueError(
            f"{title} must have a sum of {_LEAST_WEIGHT:g} to {_MOST_WEIGHT:g}. Got "
            f"{total:g} instead. Multiply the weights by a constant, such that a "
            "single sample has a weight of about 1."
        )


def order_of_ties(points, weights=None, metric="euclidean"):
    """Return an order (n,) of samples by which ties are broken, and equal samples.

    Samples of `points` (n, d), with positive weights (n,), that have the smallest mean
    distance to their ten nearest come first, so that clusters are joined inside before
    they are joined to each other; it is Euclidean, or that of a GowerEncoder. Where
    these distances are equal, too, features are compared. So the order is the same
    however the samples are ordered. It is None if there are few ties, or more than 5000
    distinct samples. The second array (n,) is as of `first_equal` after the samples are
    put in that order; None if features tell that few are equal. Both are None for large
    sparse samples. O(m² d) time for m distinct samples, less in few dimensions.
    """
    if issparse(points):
        if points.shape[0] * points.shape[1] > _MOST_ENTRIES:
            return None, None
        points = points.toarray()
    # One feature is mostly enough to tell that few samples are equally far apart, or
    # that too many are distinct; but not where values may be missing.
    is_table = hasattr(metric, "nearest")
    some = points[: 0 if is_table else 2 * _MOST_DISTINCT]
    most = _SHARE_WITHOUT_TIES * len(some)
    if any(len(np.unique(feature)) > most for feature in some.T[:_N_PROBES]):
        return None, None
    firsts = first_equal(points)
    kept = np.flatnonzero(firsts == np.arange(len(points)))
    if len(kept) > _MOST_DISTINCT:
        return None, firsts
    # From here on, nothing depends on the order of the samples.
    kept = kept[np.lexsort(points[kept].T)]
    distinct = points[kept]
    probes = distinct[:: max(1, len(kept) // _N_PROBES)]
    if not is_table:
        n_different = [len(np.unique(line)) for line in cdist(probes, distinct)]
        if np.mean(n_different) > _SHARE_WITHOUT_TIES * len(kept):
            return None, firsts
    place = np.empty(len(points), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    place = place[firsts]
    means = _mean_distances(distinct, np.bincount(place, weights), metric)
    ranks = np.argsort(np.argsort(means, kind="stable"))[place]
    counts = np.bincount(ranks)
    # Equal samples follow each other.
    firsts = np.repeat(np.cumsum(counts) - counts, counts)
    return np.argsort(ranks, kind="stable"), firsts


def _mean_distances(distinct, weights, metric):
    """Return the mean distance (m,) of each row (m, d) to the ten nearest, or all.

    A row is one of its own nearest, and one of weight two, of (m,), counts twice.
    """
    from sklearn.neighbors import NearestNeighbors

    n_neighbors = min(_N_NEIGHBORS, len(distinct))
    if hasattr(metric, "nearest"):
        nearest, distances = metric.nearest(distinct, distinct, n_neighbors)
    else:
        search = NearestNeighbors(n_neighbors=n_neighbors).fit(distinct)
        distances, nearest = search.kneighbors(distinct)
    sizes = weights[nearest]
    before = np.cumsum(sizes, axis=1) - sizes
    counted = np.clip(_N_NEIGHBORS - before, 0, sizes)
    return np.sum(counted * distances, axis=1) / counted.sum(axis=1)
