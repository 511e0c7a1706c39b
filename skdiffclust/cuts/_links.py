"""Links between samples as nodes of a graph and as its edges."""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from skdiffclust._constraints import number_by_first_row
from skdiffclust.cuts._ratio_cut import check_graph

# Largest number of pairs of samples with one label that a graph can hold.
_MAX_LABEL_PAIRS = 5 * 10**7


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
    pairs = [constraints.cannot]
    owners = np.unique(linked[constraints.classes >= 0])
    if len(owners) > 1:  # each class is one group
        first, second = np.triu_indices(len(owners), 1)
        pairs.append(np.column_stack([owners[first], owners[second]]))
    pairs = np.concatenate(pairs)
    ends = part_of_link[pairs]
    torn = np.unique(ends[ends[:, 0] == ends[:, 1]])
    of_links = np.where(
        np.isin(part_of_link, torn), size + np.arange(len(part_of_link)), part_of_link
    )
    groups = number_by_first_row(of_links[linked])
    numbers = np.empty(constraints.n_groups, dtype=np.int64)
    numbers[linked] = groups
    return groups, np.unique(np.sort(numbers[pairs], axis=1), axis=0)


def add_constraints(graph, constraints, owner):
    """Return graph (n, n) with the links in its edges.

    Samples of one class are joined by the graph's largest weight, and so is each group
    of linked samples in a chain; samples that must be separated lose their edge.
    """
    joined = add_labels(graph, constraints.classes, owner)
    groups = constraints.groups
    order = np.argsort(groups, kind="stable")
    order = order[constraints.classes[order] < 0]
    linked = groups[order[1:]] == groups[order[:-1]]
    ends = order[:-1][linked], order[1:][linked]
    weight = graph.data.max(initial=0.0) or 1.0
    chain = sp.coo_array((np.full(len(ends[0]), weight), ends), shape=graph.shape)
    joined = joined + chain + chain.T
    if len(constraints.cannot):
        edges = joined.tocoo()
        first = np.minimum(groups[edges.row], groups[edges.col])
        last = np.maximum(groups[edges.row], groups[edges.col])
        n_groups = constraints.n_groups
        pairs = constraints.cannot[:, 0] * n_groups + constraints.cannot[:, 1]
        kept = ~np.isin(first.astype(np.int64) * n_groups + last, pairs)
        where = edges.row[kept], edges.col[kept]
        joined = sp.coo_array((edges.data[kept], where), shape=graph.shape)
    return check_graph(joined, caller=owner)


def add_labels(graph, classes, owner):
    """Return graph (n, n) with label similarity: classes (n,), -1 where unknown.

    Samples of one class are joined by the graph's largest weight, samples of two
    classes lose their edge.
    """
    known = np.flatnonzero(classes >= 0)
    sizes = np.bincount(classes[known])
    if np.square(sizes, dtype=float).sum() > _MAX_LABEL_PAIRS:
        raise ValueError(
            f"The 'partial_labels' parameter of {owner}.fit must have at most "
            f"{_MAX_LABEL_PAIRS:.0e} pairs of samples with the same label. Got "
            f"{np.square(sizes, dtype=float).sum():.2g} instead. Keep the labels of a "
            "subset of the samples and set the others to -1."
        )
    members = sp.csr_array(
        (np.ones(len(known)), (known, classes[known])),
        shape=(len(classes), len(sizes)),
    )
    edges = graph.tocoo()
    first = classes[edges.row]
    second = classes[edges.col]
    kept = (first < 0) | (second < 0)
    weight = graph.data.max(initial=0.0) or 1.0
    rest = sp.coo_array(
        (edges.data[kept], (edges.row[kept], edges.col[kept])), shape=graph.shape
    )
    joined = rest.tocsr() + weight * (members @ members.T)
    return check_graph(joined, caller=owner)
