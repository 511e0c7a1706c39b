"""Constrained forests against brute force, greedy, their definition, contradictions."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from constrained_definition import constrained_forest
from scipy.sparse.csgraph import minimum_spanning_tree

from skdiffclust import SpanningForestClustering
from skdiffclust.forests import maximum_spanning_forest, perturbed_forest


def sampled(affinity, known, k):
    """Labels and edges of the forest that perturbed forests are made of."""
    found = perturbed_forest(
        affinity, k, noise_scale=0, constraints=known, return_connectivity=True
    )
    edges = np.column_stack(np.nonzero(np.triu(found.forest)))
    labels = np.unique(found.connectivity, axis=0, return_inverse=True)[1]
    return labels.ravel(), edges  # NumPy 2.0 returns (n, 1)


def single(affinity, known, k):
    """Labels and edges of one forest."""
    forest = maximum_spanning_forest(affinity, k, constraints=known)
    return forest.labels, forest.edges


@pytest.fixture(params=[sampled, single])
def solve(request):
    """``solve(affinity, known, k) -> labels (n,), edges (m, 2)``, checked."""

    def solve(affinity, known, k):
        labels, edges = request.param(affinity, known, k)
        assert len(edges) == len(affinity) - k and meets(labels, links_of(known))
        assert len(np.unique(labels)) == k
        assert (labels[edges[:, 0]] == labels[edges[:, 1]]).all()
        weight = affinity[edges[:, 0], edges[:, 1]].sum()
        assert weight == pytest.approx(weight_of(affinity, labels))
        return labels, edges

    return solve


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


def links_of(known):
    """Links (n, n) of partial labels, or links as they are."""
    known = np.asarray(known)
    if known.ndim == 2:
        return known
    links = np.where(known[:, None] == known, 1, -1)
    links[known < 0] = links[:, known < 0] = 0
    return links


def meets(labels, links):
    """Whether partitions (..., n) meet links (n, n)."""
    same = labels[..., :, None] == labels[..., None, :]
    return ~((same & (links < 0)) | (~same & (links > 0))).any(axis=(-2, -1))


def tree_weight(affinity, rows):
    """Weight of the heaviest tree of some rows, by scipy."""
    if len(rows) < 2:
        return 0.0
    inside = affinity[np.ix_(rows, rows)]
    shift = inside.max() + 1.0
    shortest = minimum_spanning_tree(np.triu(shift - inside, 1)).sum()
    return shift * (len(rows) - 1) - shortest


def weight_of(affinity, labels):
    parts = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    return sum(tree_weight(affinity, rows) for rows in parts)


def optimum(affinity, links, k):
    """Weight of the best constrained forest by enumeration, -inf if there is none."""
    n = len(affinity)
    labels = partitions(n, k)
    labels = labels[meets(labels, links)]
    if not len(labels):
        return -np.inf
    sets = np.stack([(labels == c) @ (1 << np.arange(n)) for c in range(k)])
    needed, inverse = np.unique(sets, return_inverse=True)
    weights = [
        tree_weight(affinity, np.flatnonzero((s >> np.arange(n)) & 1)) for s in needed
    ]
    return np.array(weights)[inverse.reshape(sets.shape)].sum(axis=0).max()


def greedy_weight(affinity, links, k):
    """Weight of the published greedy, must-links first; -inf where it is stuck."""
    n = len(affinity)
    i, j = np.triu_indices(n, 1)
    component, total, n_components = np.arange(n), 0.0, n
    raised = affinity + 1e6 * (links > 0)
    for e in np.argsort(-raised[i, j], kind="stable"):
        one, other = component == component[i[e]], component == component[j[e]]
        if one[j[e]] or (links[np.ix_(one, other)] < 0).any() or n_components == k:
            continue
        component[other] = component[i[e]]
        total += affinity[i[e], j[e]]
        n_components -= 1
    return total if n_components == k and meets(component, links) else -np.inf


def random_links(rng, n, n_must, n_cannot):
    """Links (n, n) between random rows, which may contradict each other."""
    links = np.zeros((n, n), dtype=int)
    for value, m in ((1, n_must), (-1, n_cannot)):
        i, j = rng.randint(0, n, size=(2, m))
        links[i, j] = links[j, i] = value
    np.fill_diagonal(links, 0)
    return links


def random_instance(rng, kind):
    """Affinity, partial labels or links, and k."""
    n = rng.randint(4, 8)
    k = rng.randint(1, n)
    affinity = rng.randn(n, n)
    if rng.rand() < 0.5:
        points = rng.randn(n, 2)
        affinity = -((points[:, None] - points[None]) ** 2).sum(axis=2)
    affinity = np.triu(affinity, 1)
    affinity = affinity + affinity.T
    if kind == "labels":
        return affinity, rng.randint(-1, 3, size=n), k
    return affinity, random_links(rng, n, *rng.randint(0, 7, 2)), k


def gap_to_brute_force(solve, kind, n_instances, seed):
    """Return the sum of the gaps over that of the optima.

    Never below greedy, and an error exactly where there is no forest.
    """
    rng = np.random.RandomState(seed)
    gap, total, n_feasible = 0.0, 0.0, 0
    while n_feasible < n_instances:
        affinity, known, k = random_instance(rng, kind)
        links = links_of(known)
        best = optimum(affinity, links, k)
        if best == -np.inf:
            with pytest.raises(ValueError, match="parameter|contradict"):
                solve(affinity, known, k)
            continue
        n_feasible += 1
        _, edges = solve(affinity, known, k)
        weight = affinity[edges[:, 0], edges[:, 1]].sum()
        assert weight <= best + 1e-9
        assert weight >= greedy_weight(affinity, links, k) - 1e-9
        gap, total = gap + best - weight, total + abs(best)
    return gap / total


@pytest.mark.parametrize("kind", ["labels", "pairs"])
def test_against_brute_force(solve, kind, global_random_seed):
    # A bound of few instances.
    assert gap_to_brute_force(solve, kind, 40, global_random_seed) <= 0.04


@pytest.mark.paper
@pytest.mark.parametrize("kind", ["labels", "pairs"])
@pytest.mark.parametrize("seed", range(3))
def test_against_brute_force_on_many_instances(solve, kind, seed):
    gap = gap_to_brute_force(solve, kind, 1000, seed)
    print(f"{kind}, seed {seed}: gap {gap:.2%}")
    assert gap <= 0.01


def test_the_forest_of_the_definition(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    n_compared = 0
    for case in range(60):
        n, k = rng.randint(5, 40), rng.randint(1, 8)
        ties = rng.randint(-3, 4, size=(n, n)).astype(float)
        affinity = np.triu(rng.randn(n, n) if case % 3 else ties, 1)
        affinity = affinity + affinity.T
        known = random_links(rng, n, n // 4, n // 2)
        if case % 2:
            known = np.where(rng.rand(n) < 0.5, rng.randint(0, k, n), -1)
        try:
            found = [sampled(affinity, known, k), single(affinity, known, k)]
        except ValueError:
            continue
        for (labels, edges), moves in zip(found, (False, True), strict=True):
            expected = constrained_forest(affinity, known, k, moves=moves)
            same = labels[:, None] == labels
            assert np.array_equal(same, expected[0][:, None] == expected[0])
            assert set(map(tuple, edges)) == set(map(tuple, expected[1]))
        n_compared += 1
    assert n_compared > 20


@pytest.mark.parametrize("min_size", [1, 4])
def test_moves_end_where_no_row_makes_the_forest_heavier(min_size, global_random_seed):
    rng, n, k = np.random.RandomState(global_random_seed), 15, 3
    affinity = np.triu(rng.randn(n, n), 1)
    affinity = affinity + affinity.T
    known = np.where(np.arange(n) < 6, np.arange(n) % k, -1)
    distances = affinity.max() + 1 - affinity
    np.fill_diagonal(distances, 0)
    model = SpanningForestClustering(
        k, metric="precomputed", cut_rule="longest", min_cluster_size=min_size
    ).fit(distances, partial_labels=known)
    assert model.solver_ == "local_search"
    labels = model.labels_
    weight = weight_of(affinity, labels)
    for v, c in product(np.flatnonzero(known < 0), range(k)):
        moved = labels.copy()
        moved[v] = c
        if np.bincount(moved, minlength=k)[labels[v]] >= min_size:
            assert weight_of(affinity, moved) <= weight + 1e-9


def test_the_example_on_which_greedy_fails(solve):
    # Must-link (0, 1) at -5 while 2 is close to both: greedy has -4, the best is +2.
    affinity = np.array([[0, -5.0, 1], [-5, 0, 1], [1, 1, 0]])
    _, edges = solve(affinity, [0, 0, -1], 1)
    assert affinity[edges[:, 0], edges[:, 1]].sum() == 2
    assert greedy_weight(affinity, links_of([0, 0, -1]), 1) == -4


def links_between(n, pairs):
    links = np.zeros((n, n), dtype=int)
    for i, j in pairs:
        links[i, j] = links[j, i] = -1
    return links


def cycle(n):
    return [[i, (i + 1) % n] for i in range(n)]


def test_the_path_on_which_greedy_is_stuck(solve):
    # Cannot-links 0-1-2-3 and k = 2: {0, 2}, {1, 3} only; greedy joins 0 and 3 first.
    affinity = np.zeros((4, 4))
    affinity[0, 3] = affinity[3, 0] = 5.0
    links = links_between(4, [[0, 1], [1, 2], [2, 3]])
    assert greedy_weight(affinity, links, 2) == -np.inf
    _, edges = solve(affinity, links, 2)
    assert sorted(edges.tolist()) == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    "pairs, k, match",
    [
        (cycle(5), 2, "odd length"),
        ([[0, 1], [0, 2], [1, 2]], 2, "at least 3"),
        # A wheel of five spokes has no clique of four and needs four colours.
        ([*cycle(5), *[[i, 5] for i in range(5)]], 3, "There is no feasible forest"),
    ],
)
def test_infeasible_cannot_links_are_refused(solve, pairs, k, match):
    with pytest.raises(ValueError, match=match):
        solve(np.zeros((7, 7)), links_between(7, pairs), k)


def test_links_of_a_tree_are_coloured(global_random_seed):
    # DSATUR is exact where two colours do (Brélaz 1979).
    rng, n = np.random.RandomState(global_random_seed), 60
    order = rng.permutation(n)
    pairs = [[order[i], order[rng.randint(max(0, i - 4), i)]] for i in range(1, n)]
    links = links_between(n, pairs)
    labels, _ = sampled(np.zeros((n, n)), links, 2)
    assert meets(labels, links)


def test_equal_weights_are_settled_by_the_smaller_pair(solve):
    _, edges = solve(np.zeros((5, 5)), [0, -1, -1, -1, 1], 2)
    assert sorted(edges.tolist()) == [[0, 1], [0, 2], [0, 3]]
