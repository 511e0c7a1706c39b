"""Search for a heavier constrained forest."""

from dataclasses import replace

import numpy as np

from skdiffclust._constraints import number_by_first_row
from skdiffclust._validation import is_small_dense
from skdiffclust.forests._constrained._problem import ConstrainedProblem, conflicts_of
from skdiffclust.forests._hierarchy._cut_hierarchy import labels_by_size
from skdiffclust.forests._hierarchy._spanning_tree import SpanningTree
from skdiffclust.forests._trees._tree import components, cut_order

# Lengths computed at a time, 8 MB of them.
_LENGTHS_AT_ONCE = 2**20


def improve_tree_cut(cut, lengths, samples, constraints, can_move=True):
    """Return a TreeCut under constraints after moves that make its forest shorter.

    Moves need a dense table of distances, O(n²) memory. Row i of the Lengths and the
    Constraints is number ``order[i]`` of the Samples.
    """
    is_small = is_small_dense(lengths.n_samples) and lengths.between is not None
    if not (can_move and is_small):
        return replace(cut, solver="greedy")
    order = samples.positions()
    weights = samples.weights
    affinity = _affinities(lengths)
    groups = constraints.groups
    if affinity.max(initial=0.0) <= 0:  # otherwise zero is a length like any other
        rows = np.argsort(order)
        groups = join_groups(groups, rows[cut.edges[cut.lengths == 0]])
    edges, labels = improve_cut(
        affinity,
        cut.labels[order],
        groups,
        constraints,
        cut.min_cluster_size if cut.min_cluster_size > 1 else 0,
        None if weights is None else weights[order],
    )
    values = -affinity[edges[:, 0], edges[:, 1]]
    edges = order[edges]
    in_order = cut_order(edges, values)
    forest = SpanningTree(edges[in_order], values[in_order])
    parts = np.empty_like(labels)
    parts[order] = labels
    return replace(
        cut,
        labels=labels_by_size(parts, weights),
        tree=forest,
        is_cut=np.zeros(len(values), dtype=bool),
        solver="local_search",
    )


def _affinities(lengths):
    """Return the negative distances (n, n), the same bits on both sides."""
    n_samples = lengths.n_samples
    affinity = np.empty((n_samples, n_samples))
    everyone = np.arange(n_samples)
    step = max(1, _LENGTHS_AT_ONCE // n_samples)
    for start in range(0, n_samples, step):
        rows = everyone[start : start + step]
        block = -lengths.finish(lengths.between(rows, everyone[start:]))
        affinity[start : start + step, start:] = block
        affinity[start:, start : start + step] = block.T
    return affinity


def improve_cut(affinity, labels, groups, constraints, min_size=0, weights=None):
    """Return the forest that moves reach from a partition that satisfies constraints.

    Parameters
    ----------
    affinity : ndarray of shape (n_samples, n_samples), float64
    labels : ndarray of shape (n_samples,), int64
        Components to start from.
    groups : ndarray of shape (n_samples,), int64
        Samples that move together, at least those of a group of the constraints.
    constraints : Constraints
    min_size : float, default=0
        No move leaves less weight behind.
    weights : ndarray of shape (n_samples,), float64, default=None
        Weights of samples; None is one each.

    Returns
    -------
    edges : ndarray of shape (n_samples - n_clusters, 2), int64
        With i < j.
    labels : ndarray of shape (n_samples,), int64
    """
    from skdiffclust.forests._constrained._compiled_tree import improve, new_search

    labels = number_by_first_row(labels)
    groups = number_by_first_row(groups)
    conflicts = np.zeros((groups.max() + 1,) * 2, dtype=bool)
    first, second = np.nonzero(conflicts_of(constraints))
    group_of = groups[np.unique(constraints.groups, return_index=True)[1]]
    conflicts[group_of[first], group_of[second]] = True
    colours = np.full(len(conflicts), -1, dtype=np.int64)
    weights = np.ones(len(labels)) if weights is None else weights.astype(np.float64)
    problem = ConstrainedProblem(
        groups,
        conflicts,
        colours,
        int(labels.max()) + 1,
        weights,
        float(min_size),
    )
    search = new_search(problem)
    # It runs as Python, which checks for an interruption between the steps; without
    # numba it is a Python function anyway.
    run = getattr(improve, "py_func", improve)
    run(affinity, labels, problem, search)
    lower = np.flatnonzero(search.up >= 0)
    return np.sort(np.column_stack([lower, search.up[lower]]), axis=1), labels


def join_groups(groups, edges):
    """Join groups (n,) by edges (m, 2)."""
    return components(np.concatenate([chains(groups), edges]), len(groups))


def chains(ids):
    """Return edges (m, 2) that join the rows with the same id (n,)."""
    order = np.argsort(ids, kind="stable")
    joined = ids[order[:-1]] == ids[order[1:]]
    return np.column_stack([order[:-1][joined], order[1:][joined]])
