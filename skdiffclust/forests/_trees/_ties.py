"""The order of samples by which edges of equal lengths are chosen.

On a grid, as of integers, many spanning trees are equally short, and which of them is
grown decides what is cut. Chosen by the order of the samples, the edges between
clusters are as likely as those inside them, and another order gives other clusters.
"""

import numpy as np
from scipy.spatial.distance import cdist

from skdiffclust._duplicates import first_equal

# Distinct samples, at most: finding the neighbours of more takes longer than the tree.
_MOST_DISTINCT = 5000
_N_NEIGHBORS = 10
# Features, and samples whose distances are examined, and the share of these values that
# differ where no order is needed.
_N_PROBES = 10
_SHARE_WITHOUT_TIES = 0.95


def order_of_ties(points, weights=None):
    """Return an order (n,) of samples that does not depend on the one they are in.

    Those with the smallest mean distance to their ten nearest, of `points` (n, d) with
    positive weights (n,), come first, so that clusters grow together inside before they
    do between each other; and of equal ones that with the smaller features. None where
    few distances are equal, and of more than 5000 distinct samples.
    """
    # Mostly a feature tells that no two distances, or too few samples, are equal.
    some = points[: 2 * _MOST_DISTINCT]
    most = _SHARE_WITHOUT_TIES * len(some)
    if any(len(np.unique(feature)) > most for feature in some.T[:_N_PROBES]):
        return None
    firsts = first_equal(points)
    kept = np.flatnonzero(firsts == np.arange(len(points)))
    if not _N_NEIGHBORS < len(kept) <= _MOST_DISTINCT:
        return None
    # From here on, nothing depends on the order of the samples.
    kept = kept[np.lexsort(points[kept].T)]
    distinct = points[kept]
    probes = distinct[:: max(1, len(kept) // _N_PROBES)]
    n_different = [len(np.unique(line)) for line in cdist(probes, distinct)]
    if np.mean(n_different) > _SHARE_WITHOUT_TIES * len(kept):
        return None
    place = np.empty(len(points), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    place = place[firsts]
    means = _mean_distances(distinct, np.bincount(place, weights))
    rank = np.empty(len(kept), dtype=np.int64)
    rank[np.argsort(means, kind="stable")] = np.arange(len(kept))
    return np.argsort(rank[place], kind="stable")


def _mean_distances(distinct, weights):
    """Return the mean distance (m,) of each row (m, d) to its ten nearest, itself one.

    A row of weight two counts twice; weights are (m,).
    """
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=_N_NEIGHBORS).fit(distinct)
    distances, nearest = search.kneighbors(distinct)
    sizes = weights[nearest]
    before = np.cumsum(sizes, axis=1) - sizes
    counted = np.clip(_N_NEIGHBORS - before, 0, sizes)
    return np.sum(counted * distances, axis=1) / counted.sum(axis=1)
