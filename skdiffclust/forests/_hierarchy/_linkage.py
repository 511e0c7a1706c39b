"""The linkage matrix of a tree."""

import numpy as np

from skdiffclust._compat import single_linkage_label


def linkage_matrix(edges, lengths):
    """Return scipy's linkage matrix (n - 1, 4) of a tree in cut order. O(n α(n))."""
    if not len(edges):
        return np.empty((0, 4))
    merges = np.column_stack([edges, lengths])[::-1]
    return single_linkage_label(np.ascontiguousarray(merges, dtype=np.float64))
