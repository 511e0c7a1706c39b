"""The linkage matrix of a tree."""

import numpy as np

from skdiffclust._compat import single_linkage_label
from skdiffclust.forests._trees._compilation_threshold import is_compiled


def linkage_matrix(edges, lengths):
    """Return scipy's linkage matrix (n - 1, 4) of a tree in cut order. O(n α(n))."""
    from skdiffclust.forests._trees._components import small_singletons, write_merges

    n_samples = len(edges) + 1
    if is_compiled(n_samples, write_merges):
        linkage = np.empty((n_samples - 1, 4))
        linkage[:, 2] = lengths[::-1]
        write_merges(edges, *small_singletons(n_samples), linkage)
        return linkage
    if n_samples == 1:
        return np.empty((0, 4))
    return single_linkage_label(np.column_stack([edges[::-1], lengths[::-1]]))
