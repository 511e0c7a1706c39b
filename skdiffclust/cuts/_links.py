"""Links between samples as nodes of a graph, and pairs of nodes to separate."""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from skdiffclust._constraints import number_by_first_row


def link_groups(equal, constraints):
    """Return (groups (n,), pairs (p, 2) of groups that must be separated).

    Samples of a group stay together: linked samples, and equal samples. Equal samples
    are separated if a link requires it.

    Parameters
    ----------
    equal : ndarray of shape (n,), int64
        Group of equal samples of each sample.
    constraints : Constraints
    """
    linked = constraints.groups
    n_equal = int(equal.max()) + 1
    size = n_equal + constraints.n_groups
    both = sp.coo_array(
        (np.ones(len(equal)), (equal, n_equal + linked)), shape=(size, size)
    )
    joined = connected_components(both, directed=False)[1].astype(np.int64)
    part_of_link = joined[n_equal:]
    # All pairs of classes, each of which is one group, must be separated.
    owners = np.unique(linked[constraints.classes >= 0])
    of_classes = owners[np.column_stack(np.triu_indices(len(owners), 1))]
    pairs = np.concatenate([constraints.cannot, of_classes])
    ends = part_of_link[pairs]
    torn = np.unique(ends[ends[:, 0] == ends[:, 1]])
    of_links = np.where(
        np.isin(part_of_link, torn), size + np.arange(len(part_of_link)), part_of_link
    )
    groups = number_by_first_row(of_links[linked])
    numbers = np.empty(constraints.n_groups, dtype=np.int64)
    numbers[linked] = groups
    return groups, np.unique(np.sort(numbers[pairs], axis=1), axis=0)
