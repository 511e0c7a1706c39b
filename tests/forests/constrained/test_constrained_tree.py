"""Constrained forests against brute force, greedy, each other, and contradictions."""

from functools import cache
from itertools import product

import constrained_definition as definition
import numpy as np
import pytest
from constrained_definition import solve_by_kernels, solve_by_numpy

from skdiffclust._constraints import as_constraints
from skdiffclust.forests._constrained._dense_trees import tree_of_rows
from skdiffclust.forests._constrained._partition import contract, merge_greedily
from skdiffclust.forests._constrained._problem import (
    ConstrainedProblem,
    constrained_problem,
)
from skdiffclust.forests._constrained._search import improve_forest


@cache
def partitions(n, k):
    """All partitions of n rows into k parts, as restricted growth strings."""
    strings = [((0,), 1)]
    for _ in range(n - 1):
        strings = [
            ((*string, c), max(used, c + 1))
            for string, used in strings
            for c in range(min(used + 1, k))
        ]
    return np.array([string for string, used in strings if used == k])


def meets(labels, constraints):
    """Whether partitions (..., n) meet the constraints."""
    first = np.unique(constraints.groups, return_index=True)[1]
    by_group = labels[..., first]  # of the first row of each group
    met = (by_group[..., constraints.groups] == labels).all(axis=-1)
    classes = np.unique(constraints.groups[constraints.classes >= 0])
    pairs = [(a, b) for a, b in product(classes, classes) if a < b]
    for a, b in [*pairs, *constraints.cannot]:
        met = met & (by_group[..., a] != by_group[..., b])
    return met


def weights_of_subsets(similarity):
    """Weight of the tree of each set of rows, by its bits."""
    n = len(similarity)
    up = np.empty(n, dtype=np.int64)
    rows = [np.flatnonzero((s >> np.arange(n)) & 1) for s in range(2**n)]
    return np.array([tree_of_rows(similarity, members, up) for members in rows])


def weight_of(similarity, labels):
    up = np.empty(len(labels), dtype=np.int64)
    parts = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    return sum(tree_of_rows(similarity, rows, up) for rows in parts)


def optimum(similarity, constraints, k):
    """Weight of the best constrained forest by enumeration, -inf if there is none."""
    n = len(similarity)
    labels = partitions(n, k)
    labels = labels[meets(labels, constraints)]
    if not len(labels):
        return -np.inf
    sets = [(labels == c) @ (1 << np.arange(n)) for c in range(k)]
    return weights_of_subsets(similarity)[sets].sum(axis=0).max()


def greedy_weight(similarity, constraints, k):
    """Weight of the published greedy, must-links first; -inf where it is stuck."""
    n = len(similarity)
    groups, classes = constraints.groups, constraints.classes
    raised = np.where(groups[:, None] == groups[None, :], 1e6, 0.0)
    i, j = np.triu_indices(n, 1)
    component, total, n_components = np.arange(n), 0.0, n
    clash = np.zeros((n, n), dtype=bool)
    clash[np.ix_(classes >= 0, classes >= 0)] = True
    clash &= classes[:, None] != classes[None, :]
    for a, b in constraints.cannot:
        clash |= np.outer(groups == a, groups == b) | np.outer(groups == b, groups == a)
    for e in np.argsort(-(similarity + raised)[i, j], kind="stable"):
        one, other = component == component[i[e]], component == component[j[e]]
        if one[j[e]] or clash[np.ix_(one, other)].any() or n_components == k:
            continue
        component[other] = component[i[e]]
        total += similarity[i[e], j[e]]
        n_components -= 1
    return total if n_components == k and meets(component, constraints) else -np.inf


def random_instance(rng, kind):
    """Similarity, constraints and k; None where the constraints contradict."""
    n = rng.randint(4, 8)
    k = rng.randint(1, n)
    similarity = rng.randn(n, n)
    if rng.rand() < 0.5:
        points = rng.randn(n, 2)
        similarity = -((points[:, None] - points[None]) ** 2).sum(axis=2)
    similarity = np.triu(similarity, 1)
    similarity = similarity + similarity.T
    try:
        if kind == "labels":
            labels = rng.randint(-1, 3, size=n)
            return similarity, as_constraints(n, partial_labels=labels), k
        must, cannot = (rng.randint(0, n, size=(m, 2)) for m in rng.randint(0, 7, 2))
        cannot = cannot[cannot[:, 0] != cannot[:, 1]]
        return similarity, as_constraints(n, must_link=must, cannot_link=cannot), k
    except ValueError:
        return None


def without_constraints(n, k, min_size=0.0):
    conflicts, colours = np.zeros((n, n), dtype=bool), np.full(n, -1)
    weights = 1.0 + np.arange(n) % 2
    return ConstrainedProblem(
        np.arange(n), conflicts, colours, False, k, weights, min_size
    )


def improved(similarity, labels, problem):
    """Labels that moves lead to, by both twins."""
    found = improve_forest(similarity, labels, problem)
    defined = definition.improve_forest(similarity, labels, problem)
    np.testing.assert_array_equal(found, defined)
    return found[0]


@pytest.mark.parametrize("min_size", [0.0, 5.0])
def test_moves_end_where_no_row_makes_the_forest_heavier(min_size, global_random_seed):
    rng, n, k = np.random.RandomState(global_random_seed), 12, 3
    similarity = np.triu(rng.randn(n, n), 1)
    similarity = similarity + similarity.T
    problem = without_constraints(n, k, min_size)
    labels = improved(similarity, np.arange(n) % k, problem)
    assert np.bincount(labels, problem.weights).min() >= max(min_size, 1)
    weight = weight_of(similarity, labels)
    for v, c in product(range(n), range(k)):
        moved = labels.copy()
        moved[v] = c
        left = np.bincount(moved, problem.weights, minlength=k)[labels[v]]
        if left >= max(min_size, 1):
            assert weight_of(similarity, moved) <= weight + 1e-9


def solved(solve, similarity, constraints, k):
    """Labels and edges of a constrained forest, checked."""
    labels, edges = solve(similarity, constrained_problem(constraints, k))
    assert len(edges) == len(similarity) - k and meets(labels, constraints)
    assert len(np.unique(labels)) == k
    assert (labels[edges[:, 0]] == labels[edges[:, 1]]).all()
    weight = similarity[edges[:, 0], edges[:, 1]].sum()
    assert weight == pytest.approx(weight_of(similarity, labels))
    return labels, edges


def compare_with_brute_force(solve, kind, n_instances, seed):
    """Return the sum of the gaps over that of the optima, and how many were missed."""
    rng = np.random.RandomState(seed)
    gap, total, n_missed, n_feasible = 0.0, 0.0, 0, 0
    while n_feasible < n_instances:
        instance = random_instance(rng, kind)
        if instance is None:
            continue
        similarity, constraints, k = instance
        best = optimum(similarity, constraints, k)
        try:
            _, edges = solved(solve, similarity, constraints, k)
        except ValueError:
            n_missed += best > -np.inf
            n_feasible += best > -np.inf
            continue
        n_feasible += 1
        weight = similarity[edges[:, 0], edges[:, 1]].sum()
        assert weight <= best + 1e-9
        assert weight >= greedy_weight(similarity, constraints, k) - 1e-9
        gap, total = gap + best - weight, total + abs(best)
    return gap / total, n_missed


@pytest.mark.parametrize("kind, bound", [("labels", 0.01), ("pairs", 0.02)])
def test_against_brute_force(backend, kind, bound, global_random_seed):
    gap, n_missed = compare_with_brute_force(backend, kind, 100, global_random_seed)
    assert n_missed == 0
    assert gap <= 2.5 * bound  # of few instances


@pytest.mark.paper
@pytest.mark.parametrize("kind, bound", [("labels", 0.01), ("pairs", 0.02)])
@pytest.mark.parametrize("seed", range(3))
def test_against_brute_force_on_many_instances(backend, kind, bound, seed):
    gap, n_missed = compare_with_brute_force(backend, kind, 1000, seed)
    print(f"{kind}, seed {seed}: gap {gap:.2%}, missed {n_missed}")
    assert n_missed == 0
    assert gap <= bound


def large_instance(rng, case):
    """Similarity, constraints and k of 5 to 40 rows; None where they contradict."""
    n, k = rng.randint(5, 40), rng.randint(1, 8)
    ties = case % 3 == 0
    similarity = (
        rng.randint(-3, 4, size=(n, n)).astype(float) if ties else rng.randn(n, n)
    )
    similarity = np.triu(similarity, 1)
    similarity = similarity + similarity.T
    try:
        if case % 2:
            labels = np.where(rng.rand(n) < 0.5, rng.randint(0, k, n), -1)
            return similarity, as_constraints(n, partial_labels=labels), k
        must, cannot = rng.randint(0, n, (n // 4, 2)), rng.randint(0, n, (n // 2, 2))
        cannot = cannot[cannot[:, 0] != cannot[:, 1]]
        return similarity, as_constraints(n, must_link=must, cannot_link=cannot), k
    except ValueError:
        return None


def test_the_kernels_find_the_forest_of_the_definition(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    n_compared = 0
    for case in range(60):
        instance = large_instance(rng, case)
        if instance is None:
            continue
        similarity, constraints, k = instance
        try:
            labels, edges = solved(solve_by_kernels, similarity, constraints, k)
        except ValueError:
            continue
        expected = solved(solve_by_numpy, similarity, constraints, k)
        np.testing.assert_array_equal(labels, expected[0])
        np.testing.assert_array_equal(edges, expected[1])
        n_compared += 1
    assert n_compared > 20


def test_the_example_on_which_greedy_fails(backend):
    # Must-link (0, 1) at -5 while 2 is close to both: greedy has -4, the best is +2.
    similarity = np.array([[0, -5.0, 1], [-5, 0, 1], [1, 1, 0]])
    constraints = as_constraints(3, partial_labels=[0, 0, -1])
    _, edges = solved(backend, similarity, constraints, 1)
    assert similarity[edges[:, 0], edges[:, 1]].sum() == 2
    assert greedy_weight(similarity, constraints, 1) == -4


def test_the_path_on_which_greedy_is_stuck(backend):
    # Cannot-links 0-1-2-3 and k = 2: {0, 2}, {1, 3} only; greedy joins 0 and 3 first.
    similarity = np.zeros((4, 4))
    similarity[0, 3] = similarity[3, 0] = 5.0
    constraints = as_constraints(4, cannot_link=[[0, 1], [1, 2], [2, 3]])
    problem = constrained_problem(constraints, 2)
    assert merge_greedily(similarity, problem, np.empty(4, dtype=np.int64)) == 3
    assert definition.merge_greedily(similarity, problem) is None
    labels, edges = solved(backend, similarity, constraints, 2)
    np.testing.assert_array_equal(edges, [[0, 2], [1, 3]])
    np.testing.assert_array_equal(labels, [0, 1, 0, 1])


def test_contraction_is_greedy_with_must_links_first(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    n_compared = 0
    while n_compared < 200:
        instance = random_instance(rng, "labels")
        if instance is None:
            continue
        similarity, constraints, k = instance
        greedy = greedy_weight(similarity, constraints, k)
        if greedy == -np.inf:
            continue
        problem = constrained_problem(constraints, k)
        labels = np.empty(len(similarity), dtype=np.int64)
        contract(similarity, problem, labels)
        defined = definition.contract(similarity, problem)
        np.testing.assert_array_equal(labels, defined)
        same = problem.groups[:, None] == problem.groups[None, :]
        inside = np.bincount(problem.groups).sum() - len(np.unique(problem.groups))
        raised = weight_of(similarity + np.where(same, 1e4, 0.0), labels)
        assert raised - 1e4 * inside == pytest.approx(greedy, abs=1e-6)
        n_compared += 1


def cycle(n):
    return [[i, (i + 1) % n] for i in range(n)]


@pytest.mark.parametrize(
    "links, k, match",
    [
        (cycle(5), 2, "odd length"),
        ([[0, 1], [0, 2], [1, 2]], 2, "at least 3"),
        # A wheel of five spokes has no clique of four and needs four colours.
        ([*cycle(5), *[[i, 5] for i in range(5)]], 3, "There is no feasible forest"),
    ],
)
def test_infeasible_cannot_links_are_refused(links, k, match):
    constraints = as_constraints(7, cannot_link=links)
    with pytest.raises(ValueError, match=match):
        constrained_problem(constraints, k)


def test_a_search_that_was_cut_short_is_honest(monkeypatch):
    from skdiffclust.forests._constrained import _problem

    monkeypatch.setattr(_problem, "_MAX_COLOURING_NODES", 3)
    constraints = as_constraints(7, cannot_link=[*cycle(5), [0, 5], [2, 5]])
    with pytest.raises(ValueError, match="No feasible forest was found, though"):
        constrained_problem(constraints, 3)


def test_links_of_a_tree_are_coloured_without_a_step_back(
    monkeypatch, global_random_seed
):
    # DSATUR is exact where two colours do (Brélaz 1979).
    from skdiffclust.forests._constrained import _problem

    rng, n = np.random.RandomState(global_random_seed), 60
    monkeypatch.setattr(_problem, "_MAX_COLOURING_NODES", n)
    order = rng.permutation(n)
    links = [[order[i], order[rng.randint(max(0, i - 4), i)]] for i in range(1, n)]
    problem = constrained_problem(as_constraints(n, cannot_link=links), 2)
    first, second = problem.colours[problem.groups[links].T]
    np.testing.assert_array_equal(np.sort([first, second], axis=0).T, [[0, 1]] * 59)


def test_more_clusters_than_colours(backend):
    # The colouring needs two colours, but seven components are requested.
    constraints = as_constraints(8, cannot_link=cycle(8))
    _, edges = solved(backend, np.zeros((8, 8)), constraints, 7)
    assert len(edges) == 1


def test_equal_weights_are_settled_by_the_smaller_pair(backend):
    constraints = as_constraints(5, partial_labels=[0, -1, -1, -1, 1])
    _, edges = solved(backend, np.zeros((5, 5)), constraints, 2)
    np.testing.assert_array_equal(edges, [[0, 1], [0, 2], [0, 3]])
