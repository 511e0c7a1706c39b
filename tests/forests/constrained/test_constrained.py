"""Constrained forests against brute force, greedy, and contradictory requests."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from skdiffclust._constraints import as_constraints
from skdiffclust.forests._constrained._dense_trees import tree_of_rows
from skdiffclust.forests._constrained._exchange import _branch
from skdiffclust.forests._constrained._partition import (
    _weight_with,
    contract,
    forest_state,
    grow_tree,
    merge_greedily,
    move_groups,
)
from skdiffclust.forests._constrained._problem import (
    ConstrainedProblem,
    constrained_forest,
)


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
    first = np.unique(constraints.groups, return_index=True)[1]
    by_group = labels[first]  # of the first row of each group
    if (by_group[constraints.groups] != labels).any():
        return False
    by_class = by_group[np.unique(constraints.groups[constraints.classes >= 0])]
    parted = by_group[constraints.cannot]
    return len(set(by_class)) == len(by_class) and (parted[:, 0] != parted[:, 1]).all()


def weight_of(similarity, labels):
    up = np.empty(len(labels), dtype=np.int64)
    parts = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    return sum(tree_of_rows(similarity, rows, up) for rows in parts)


def optimum(similarity, constraints, k):
    weights = [
        weight_of(similarity, labels)
        for labels in partitions(len(similarity), k)
        if meets(labels, constraints)
    ]
    return max(weights, default=-np.inf)


def free_weight(similarity, k):
    up = np.empty(len(similarity), dtype=np.int64)
    rows = np.arange(len(similarity))
    tree_of_rows(similarity, rows, up)
    return np.sort(similarity[rows[1:], up[rows[1:]]])[::-1][: len(rows) - k].sum()


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


def cut_and_joined(edges, n):
    """Yield the labels (n,) of a forest with one edge cut and two trees joined."""
    for e in range(len(edges)):
        heads, tails = np.delete(edges, e, axis=0).T
        graph = coo_array((np.ones(len(heads)), (heads, tails)), shape=(n, n))
        n_trees, tree = connected_components(graph, directed=False)
        for a, b in combinations(range(n_trees), 2):
            yield np.where(tree == b, a, tree)


def crowded_instance(seed):
    """Similarity, many cannot-links, and k: where greedy leaves much to do."""
    rng = np.random.RandomState(seed)
    n, k = rng.randint(8, 12), rng.randint(3, 6)
    similarity = np.triu(rng.randn(n, n), 1)
    similarity = similarity + similarity.T
    pairs = rng.randint(0, n, size=(rng.randint(8, 20), 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return similarity, as_constraints(n, cannot_link=pairs), k


# Of the seeds 0 to 599, the last two see a kind of exchange that is left out.
@pytest.mark.parametrize("seed", [*range(9), 83, 203])
def test_no_cut_and_join_makes_a_forest_under_links_heavier(seed, global_random_seed):
    seed += 1000 * global_random_seed
    similarity, constraints, k = crowded_instance(seed)
    edges, labels = constrained_forest(similarity, constraints, k)
    weight = weight_of(similarity, labels)
    for other in cut_and_joined(edges, len(labels)):
        if meets(other, constraints):
            assert weight_of(similarity, other) <= weight + 1e-9


def test_moves_end_where_no_row_makes_the_forest_heavier(global_random_seed):
    rng, n, k = np.random.RandomState(global_random_seed), 12, 3
    similarity = np.triu(rng.randn(n, n), 1)
    similarity = similarity + similarity.T
    component, state = np.arange(n) % k, forest_state(n, k)
    for c in range(k):
        grow_tree(similarity, component, c, state)
    conflicts = np.zeros((n, n), dtype=bool)
    move_groups(similarity, component, np.arange(n), conflicts, state)
    weight = weight_of(similarity, component)
    for v, c in product(range(n), range(k)):
        moved = component.copy()
        moved[v] = c
        if len(np.unique(moved)) == k:
            assert weight_of(similarity, moved) <= weight + 1e-9


def test_the_weight_of_a_tree_and_one_more_row(global_random_seed):
    rng, n = np.random.RandomState(global_random_seed), 9
    similarity = np.triu(rng.randn(n, n), 1)
    similarity = similarity + similarity.T
    for v in range(n):
        component = (np.arange(n) == v).astype(np.int64)
        state = forest_state(n, 2)
        grow_tree(similarity, component, 0, state)
        found = _weight_with(similarity, v, 0, state, np.empty(n))
        assert found == pytest.approx(weight_of(similarity, np.zeros(n)))


def test_a_branch_is_all_that_hangs_on_a_row(global_random_seed):
    rng, n = np.random.RandomState(global_random_seed), 30
    above, tree = np.full(n, -1), np.arange(n)
    order = rng.permutation(n)
    for i in range(3, n):
        above[order[i]] = order[rng.randint(i)]
        tree[order[i]] = tree[above[order[i]]]
    for v in np.flatnonzero(above >= 0):
        for i in range(n):
            up = i
            while up >= 0 and up != v:
                up = above[up]
            assert _branch(above, v, tree)[i] == (up == v)


def compare_with_brute_force(kind, n_instances, seed):
    """Return relative gaps and the number of feasible instances that were missed."""
    rng = np.random.RandomState(seed)
    gaps, n_missed, n_feasible = [], 0, 0
    while n_feasible < n_instances:
        instance = random_instance(rng, kind)
        if instance is None:
            continue
        similarity, constraints, k = instance
        best = optimum(similarity, constraints, k)
        try:
            edges, labels = constrained_forest(similarity, constraints, k)
        except ValueError:
            n_missed += best > -np.inf
            n_feasible += best > -np.inf
            continue
        n_feasible += 1
        assert len(edges) == len(similarity) - k and meets(labels, constraints)
        assert len(np.unique(labels)) == k
        weight = similarity[edges[:, 0], edges[:, 1]].sum()
        assert weight == pytest.approx(weight_of(similarity, labels))
        assert weight <= best + 1e-9
        greedy = greedy_weight(similarity, constraints, k)
        assert weight >= greedy - 1e-9
        scale = free_weight(similarity, k) - greedy
        if 1e-9 < scale < np.inf:
            gaps.append((best - weight) / scale)
    return np.array(gaps), n_missed


@pytest.mark.parametrize("kind", ["labels", "pairs"])
def test_against_brute_force(kind, global_random_seed):
    gaps, n_missed = compare_with_brute_force(kind, 100, global_random_seed)
    assert n_missed == 0
    assert gaps.mean() <= 0.05  # of few instances; of many it is .02


@pytest.mark.paper
@pytest.mark.parametrize("kind", ["labels", "pairs"])
def test_against_brute_force_on_many_instances(kind):
    gaps, n_missed = compare_with_brute_force(kind, 2000, 1)
    assert n_missed <= (0 if kind == "labels" else 20)
    assert gaps.mean() <= 0.02


def test_the_example_on_which_greedy_fails():
    # Must-link (0, 1) at -5 while 2 is close to both: greedy has -4, the best is +2.
    similarity = np.array([[0, -5.0, 1], [-5, 0, 1], [1, 1, 0]])
    constraints = as_constraints(3, partial_labels=[0, 0, -1])
    edges, _ = constrained_forest(similarity, constraints, 1)
    assert similarity[edges[:, 0], edges[:, 1]].sum() == 2
    assert greedy_weight(similarity, constraints, 1) == -4


def test_the_path_on_which_greedy_is_stuck():
    # Cannot-links 0-1-2-3 and k = 2: {0, 2}, {1, 3} only; greedy joins 0 and 3 first.
    similarity = np.zeros((4, 4))
    similarity[0, 3] = similarity[3, 0] = 5.0
    constraints = as_constraints(4, cannot_link=[[0, 1], [1, 2], [2, 3]])
    problem = ConstrainedProblem(constraints, 2)
    assert merge_greedily(similarity, problem.groups, problem.conflicts, 2)[1] == 3
    edges, labels = constrained_forest(similarity, constraints, 2)
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
        problem = ConstrainedProblem(constraints, k)
        labels = contract(similarity, problem.groups, problem.colours, k)
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
        constrained_forest(np.zeros((7, 7)), constraints, k)


def test_a_search_that_was_cut_short_is_honest(monkeypatch):
    from skdiffclust.forests._constrained import _problem

    monkeypatch.setattr(_problem, "_MAX_COLOURING_NODES", 3)
    constraints = as_constraints(7, cannot_link=[*cycle(5), [0, 5], [2, 5]])
    with pytest.raises(ValueError, match="No feasible forest was found, though"):
        constrained_forest(np.zeros((7, 7)), constraints, 3)


def test_links_of_a_tree_are_coloured_without_a_step_back(
    monkeypatch, global_random_seed
):
    # DSATUR is exact where two colours do (Brélaz 1979).
    from skdiffclust.forests._constrained import _problem

    rng, n = np.random.RandomState(global_random_seed), 60
    monkeypatch.setattr(_problem, "_MAX_COLOURING_NODES", n)
    order = rng.permutation(n)
    links = [[order[i], order[rng.randint(max(0, i - 4), i)]] for i in range(1, n)]
    problem = ConstrainedProblem(as_constraints(n, cannot_link=links), 2)
    first, second = problem.colours[problem.groups[links].T]
    np.testing.assert_array_equal(np.sort([first, second], axis=0).T, [[0, 1]] * 59)


def test_more_clusters_than_colours():
    # The colouring needs two colours, but seven components are asked for.
    constraints = as_constraints(8, cannot_link=cycle(8))
    edges, labels = constrained_forest(np.zeros((8, 8)), constraints, 7)
    assert len(edges) == 1 and meets(labels, constraints)


def test_equal_weights_are_settled_by_the_smaller_pair():
    constraints = as_constraints(5, partial_labels=[0, -1, -1, -1, 1])
    edges, _ = constrained_forest(np.zeros((5, 5)), constraints, 2)
    np.testing.assert_array_equal(edges, [[0, 1], [0, 2], [0, 3]])
