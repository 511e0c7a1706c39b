"""Links between samples as nodes of a graph and as its edges."""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from skdiffclust._constraints import number_by_first_row
from skdiffclust.cuts._ratio_cut import check_graph


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
    n = len(equal)
    linked = constraints.groups
    n_equal = int(equal.max()) + 1
    size = n_equal + constraints.n_groups
    both = sp.coo_array((np.ones(n), (equal, n_equal + linked)), shape=(size, size))
    joined = connected_components(both, directed=False)[1].astype(np.int64)
    part_of_link = joined[n_equal:]
    pairs = pairs_apart(constraints)
    ends = part_of_link[pairs]
    torn = np.unique(ends[ends[:, 0] == ends[:, 1]])
    of_links = np.where(
        np.isin(part_of_link, torn), size + np.arange(len(part_of_link)), part_of_link
    )
    groups = number_by_first_row(of_links[linked])
    numbers = np.empty(constraints.n_groups, dtype=np.int64)
    numbers[linked] = groups
    return groups, np.unique(np.sort(numbers[pairs], axis=1), axis=0)


def pairs_apart(constraints):
    """Return all pairs (p, 2) of groups that must be separated, the smaller first."""
    # Each class is one group.
    owners = np.unique(constraints.groups[constraints.classes >= 0])
    first, second = np.triu_indices(len(owners), 1)
    of_classes = np.column_stack([owners[first], owners[second]])
    return np.concatenate([constraints.cannot, of_classes])


def add_constraints(graph, constraints, owner):
    """Return graph (n, n) with the links in its edges.

    Each class and each group of linked samples is joined in a chain, by the graph's
    largest weight; samples that must be separated lose their edge.
    """
    groups = constraints.groups
    order = np.argsort(groups, kind="stable")
    linked = groups[order[1:]] == groups[order[:-1]]
    ends = order[:-1][linked], order[1:][linked]
    weight = graph.data.max(initial=0.0) or 1.0
    chain = sp.coo_array((np.full(len(ends[0]), weight), ends), shape=graph.shape)
    edges = sp.coo_array(graph + chain + chain.T)
    first = np.minimum(groups[edges.row], groups[edges.col]).astype(np.int64)
    last = np.maximum(groups[edges.row], groups[edges.col])
    pairs = pairs_apart(constraints) @ [constraints.n_groups, 1]
    kept = ~np.isin(first * constraints.n_groups + last, pairs)
    where = edges.row[kept], edges.col[kept]
    joined = sp.coo_array((edges.data[kept], where), shape=graph.shape)
    return check_graph(joined, caller=owner)
