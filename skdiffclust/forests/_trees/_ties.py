"""The order of samples by which edges of equal lengths are chosen.

On a grid, as of integers, many spanning trees are equally short, and which of them is
grown decides what is cut. If the order of the samples decided, edges between clusters
would be as likely as those inside them, and another order would give other clusters.
"""

import numpy as np
from scipy.spatial.distance import cdist

from skdiffclust._duplicates import first_equal

# Largest number of distinct samples: to find the neighbours of more takes longer than
# to grow the tree.
_MOST_DISTINCT = 5000
_N_NEIGHBORS = 10
# Number of features that are examined, and of samples whose distances are; and the
# share of different values above which there are few ties.
_N_PROBES = 10
_SHARE_WITHOUT_TIES = 0.95


def order_of_ties(points, weights=None):
    """Return an order (n,) of samples by which ties are broken, and equal samples.

    Samples of `points` (n, d), with positive weights (n,), that have the smallest mean
    distance to their ten nearest come first, so that clusters are joined inside before
    they are joined to each other. Where these distances are equal, too, features are
    compared. So the order is the same however the samples are ordered. It is None if
    there are few ties, or more than 5000 distinct samples. The second array (n,) is as
    of `first_equal` after the samples are put in that order; None if features tell that
    few are equal. O(m² d) time for m distinct samples, less in few dimensions.
    """
    # One feature is mostly enough to tell that few samples are equally far apart, or
    # that too many are distinct.
    some = points[: 2 * _MOST_DISTINCT]
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
    n_different = [len(np.unique(line)) for line in cdist(probes, distinct)]
    if np.mean(n_different) > _SHARE_WITHOUT_TIES * len(kept):
        return None, firsts
    place = np.empty(len(points), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    place = place[firsts]
    means = _mean_distances(distinct, np.bincount(place, weights))
    ranks = np.argsort(np.argsort(means, kind="stable"))[place]
    counts = np.bincount(ranks)
    # Equal samples follow each other.
    firsts = np.repeat(np.cumsum(counts) - counts, counts)
    return np.argsort(ranks, kind="stable"), firsts


def _mean_distances(distinct, weights):
    """Return the mean distance (m,) of each row (m, d) to the ten nearest, or all.

    A row is one of its own nearest, and one of weight two, of (m,), counts twice.
    """
    from sklearn.neighbors import NearestNeighbors

    n_neighbors = min(_N_NEIGHBORS, len(distinct))
    search = NearestNeighbors(n_neighbors=n_neighbors).fit(distinct)
    distances, nearest = search.kneighbors(distinct)
    sizes = weights[nearest]
    before = np.cumsum(sizes, axis=1) - sizes
    counted = np.clip(_N_NEIGHBORS - before, 0, sizes)
    return np.sum(counted * distances, axis=1) / counted.sum(axis=1)
