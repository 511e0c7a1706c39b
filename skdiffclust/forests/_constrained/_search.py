"""Search for a heavier constrained forest."""

import numpy as np

from skdiffclust._constraints import number_by_first_row
from skdiffclust.forests._constrained._problem import ConstrainedProblem, conflicts_of
from skdiffclust.forests._trees._tree import components


def improve_cut(similarity, labels, groups, constraints, min_size=0, weights=None):
    """Return the forest that moves reach from a partition that satisfies constraints.

    Parameters
    ----------
    similarity : ndarray of shape (n_samples, n_samples), float64
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
    # As Python, which checks for an interruption between the steps. Without a compiler
    # there is nothing but the function.
    run = getattr(improve, "py_func", improve)
    run(similarity, labels, problem, search)
    lower = np.flatnonzero(search.up >= 0)
    return np.sort(np.column_stack([lower, search.up[lower]]), axis=1), labels


def join_groups(groups, edges):
    """Join groups (n,) by edges (m, 2); those with an end at -1 are none."""
    edges = edges[(edges >= 0).all(axis=1)]
    return components(np.concatenate([chains(groups), edges]), len(groups))


def chains(ids):
    """Edges (m, 2) that join the rows with the same id (n,)."""
    order = np.argsort(ids, kind="stable")
    joined = ids[order[:-1]] == ids[order[1:]]
    return np.column_stack([order[:-1][joined], order[1:][joined]])
