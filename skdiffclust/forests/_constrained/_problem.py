"""The problem of a constrained forest: groups, conflicts and a colouring."""

from typing import NamedTuple

import numpy as np

from skdiffclust._constraints import check_feasible

# Nodes of the search for a colouring: about a second of Python.
_MAX_COLOURING_NODES = 200_000


class ConstrainedProblem(NamedTuple):
    """What a constrained forest needs besides the affinity, computed once.

    Attributes
    ----------
    groups : ndarray of shape (n_samples,), int64
        Samples with the same id share a component.
    conflicts : ndarray of shape (n_groups, n_groups), bool
        Groups that must be separated.
    colours : ndarray of shape (n_groups,), int64
        A partition that satisfies the constraints: the classes, or with cannot-links a
        colouring of the conflicts with at most `n_clusters` colours; -1 where free.
    n_clusters : int
        Number of components.
    weights : ndarray of shape (n_samples,), float64
        Weights of samples.
    min_size : float
        Least weight that a move leaves behind, besides at least one sample.
    """

    groups: np.ndarray
    conflicts: np.ndarray
    colours: np.ndarray
    n_clusters: int
    weights: np.ndarray
    min_size: float


def constrained_problem(constraints, n_clusters):
    """Return the ConstrainedProblem of constraints and a number of components.

    Raises
    ------
    ValueError
        If no forest satisfies the constraints, or none was found.
    """
    check_feasible(constraints, n_clusters)
    conflicts = conflicts_of(constraints)
    if len(constraints.cannot):
        colours = _colour(conflicts, n_clusters)
    else:
        colours = np.full(constraints.n_groups, -1, dtype=np.int64)
        colours[constraints.groups] = constraints.classes
    groups = constraints.groups
    weights = np.ones(len(groups))
    return ConstrainedProblem(groups, conflicts, colours, int(n_clusters), weights, 0.0)


def conflicts_of(constraints):
    """Return which groups must be separated, (n_groups, n_groups) bool."""
    labelled = np.zeros(constraints.n_groups, dtype=bool)
    labelled[constraints.groups] = constraints.classes >= 0
    conflicts = labelled[:, None] & labelled[None, :]
    np.fill_diagonal(conflicts, False)
    first, second = constraints.cannot.T
    conflicts[first, second] = conflicts[second, first] = True
    return conflicts


def _colour(conflicts, n_colours):
    """Colour the groups that have conflicts so that those in conflict differ.

    The group with most colours around it is coloured next, backtracking where none is
    left (DSATUR). Returns colours (n_groups,), -1 for groups without conflicts.
    """
    neighbours = [np.flatnonzero(row) for row in conflicts]
    colours = np.full(len(conflicts), -1, dtype=np.int64)
    n_around = np.zeros((len(conflicts), n_colours), dtype=np.int64)
    degree = conflicts.sum(axis=1)
    pending = int(np.count_nonzero(degree))
    tried = []
    chosen = []
    n_nodes = 0
    while len(chosen) < pending:
        if len(tried) == len(chosen):
            blocked = (n_around > 0).sum(axis=1) + degree / (degree.max() + 1)
            blocked[(colours >= 0) | (degree == 0)] = -1
            group = int(np.argmax(blocked))
            # Unused colours are interchangeable: trying one is enough.
            n_open = min(colours.max() + 2, n_colours)
            options = np.flatnonzero(n_around[group, :n_open] == 0).tolist()
            tried.append((group, options[::-1]))
        group, options = tried[-1]
        if options:
            n_nodes += 1
            colours[group] = options.pop()
            n_around[neighbours[group], colours[group]] += 1
            chosen.append(group)
        else:
            tried.pop()
            if not chosen:
                _refuse(n_colours, "There is no feasible forest")
            group = chosen.pop()
            n_around[neighbours[group], colours[group]] -= 1
            colours[group] = -1
        if n_nodes > _MAX_COLOURING_NODES:
            _refuse(n_colours, "No feasible forest was found, though there may be one")
    return colours


def _refuse(n_clusters, finding):
    """Raise the error on constraints that no forest of this many clusters satisfies."""
    raise ValueError(
        "The 'n_clusters' parameter must be a number of clusters that the cannot-links "
        f"allow. Got {n_clusters} instead. {finding}. Use more clusters or give "
        "fewer cannot-links."
    )
