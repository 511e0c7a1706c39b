"""Maximum spanning k-forests of a dense similarity under constraints."""

import numpy as np

from skdiffclust._constraints import check_feasible

# Nodes of the search for a colouring: about a second of Python.
_MAX_COLOURING_NODES = 200_000


class ConstrainedProblem:
    """What a constrained forest needs besides the similarity, worked out once.

    Parameters
    ----------
    constraints : Constraints
    n_clusters : int

    Attributes
    ----------
    groups : ndarray of shape (n_samples,), int64
    conflicts : ndarray of shape (n_groups, n_groups), bool
        Groups that must part.
    colours : ndarray of shape (n_groups,), int64
        A partition that meets the constraints: the classes, or with cannot-links a
        colouring of the conflicts with at most `n_clusters` colours; -1 where free.
    greedy : bool
        Whether Kruskal is tried before the colours: with cannot-links.

    Raises
    ------
    ValueError
        If no forest meets the constraints, or none was found.
    """

    def __init__(self, constraints, n_clusters):
        check_feasible(constraints, n_clusters)
        self.n_clusters = n_clusters
        self.groups = constraints.groups
        n_groups = constraints.n_groups
        classes = np.full(n_groups, -1, dtype=np.int64)
        classes[constraints.groups] = constraints.classes
        labelled = classes >= 0
        conflicts = labelled[:, None] & labelled[None, :]
        np.fill_diagonal(conflicts, False)
        self.greedy = bool(len(constraints.cannot))
        if self.greedy:
            first, second = constraints.cannot.T
            conflicts[first, second] = conflicts[second, first] = True
            classes = _colour(conflicts, n_clusters)
        self.conflicts, self.colours = conflicts, _spread(classes, n_clusters)


def constrained_forest(similarity, constraints, n_clusters):
    """Return a heavy spanning k-forest that meets the constraints.

    Label constraints by contraction: all labelled rows become one vertex, every other
    group one, and the heaviest edges of the tree of that graph are kept. Pairs by
    Kruskal that skips what they forbid, or, where that is stuck, by a colouring of the
    conflicts. Then each component is solved by its own tree, and groups move one by
    one while that helps. Exact with at most one labelled row in a class; NP-hard
    otherwise.

    Parameters
    ----------
    similarity : ndarray of shape (n_samples, n_samples), float64
        Symmetric; the diagonal is not read.
    constraints : Constraints
    n_clusters : int

    Returns
    -------
    edges : ndarray of shape (n_samples - n_clusters, 2), int64
        With i < j, in row-major order.
    labels : ndarray of shape (n_samples,), int64
        Component of each row, from 0 in the order of first rows.

    Raises
    ------
    ValueError
        If no forest meets the constraints, or none was found.

    Notes
    -----
    O(n²) time and memory, times the few sweeps of moves. NeurIPS 2023, Definition 5;
    its greedy algorithm (Section 9.1) is where this one starts.
    """
    from skdiffclust.forests._constrained._solver import solve

    problem = ConstrainedProblem(constraints, n_clusters)
    labels, up = solve(
        np.ascontiguousarray(similarity, dtype=np.float64),
        problem.groups,
        problem.conflicts,
        problem.colours,
        problem.greedy,
        n_clusters,
    )
    lower = np.flatnonzero(up >= 0)
    edges = np.sort(np.column_stack([lower, up[lower]]), axis=1)
    return edges[np.lexsort((edges[:, 1], edges[:, 0]))], labels


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
    tried, chosen, n_nodes = [], [], 0
    while len(chosen) < pending:
        if len(tried) == len(chosen):
            blocked = (n_around > 0).sum(axis=1) + degree / (degree.max() + 1)
            blocked[(colours >= 0) | (degree == 0)] = -1
            group = int(np.argmax(blocked))
            # A colour that nobody has yet is as good as any other new one.
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
    """Raise the error on constraints that no forest of so many clusters meets."""
    raise ValueError(
        "The 'n_clusters' parameter must be a number of clusters that the cannot-links "
        f"can have. Got {n_clusters} instead. {finding}. Ask for more clusters or give "
        "fewer cannot-links."
    )


def _spread(colours, n_clusters):
    """Split colours until there can be n_clusters components; colours (n_groups,)."""
    colours = colours.copy()
    n_colours = int(colours.max(initial=-1)) + 1
    missing = n_clusters - n_colours - int(np.count_nonzero(colours < 0))
    for group in range(len(colours) - 1, -1, -1):
        if missing <= 0:
            break
        if colours[group] >= 0 and np.count_nonzero(colours == colours[group]) > 1:
            colours[group] = n_colours
            n_colours += 1
            missing -= 1
    return colours
