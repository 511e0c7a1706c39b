"""The linkage matrix of a tree."""

import numpy as np

from skdiffclust._compat import single_linkage_label
from skdiffclust.forests._trees import _compilation_threshold


def linkage_matrix(edges, lengths):
    """Return scipy's linkage matrix (n - 1, 4) of a tree in cut order. O(n α(n))."""
    if not len(edges):
        return np.empty((0, 4))
    from skdiffclust.forests._hierarchy._merges import compiled_merges, merge_rows

    if _compilation_threshold.is_compiled(len(edges), merge_rows):
        return compiled_merges(edges[::-1], lengths[::-1])
    merges = np.column_stack([edges, lengths])[::-1]
    return single_linkage_label(np.ascontiguousarray(merges, dtype=np.float64))
