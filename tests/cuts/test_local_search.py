"""Moves, swaps, coarsening and combining against brute force and guarantees."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from skdiffclust.cuts._local_search import (
    as_level,
    local_search,
)
from skdiffclust.cuts._multilevel import (
    coarsen,
    match,
    merge,
    multilevel,
    search,
)
from skdiffclust.cuts._ratio_cut import check_graph, cut_of_labels


def random_graph(seed, n, density=0.5):
    rng = np.random.RandomState(seed)
    dense = np.triu(rng.rand(n, n) * (rng.rand(n, n) < density), 1)
    return check_graph(dense + dense.T, caller="test")


def blocks(seed, n_blocks, size):
    """Return a graph of dense blocks with few edges between, and its blocks."""
    rng = np.random.RandomState(seed)
    labels = np.repeat(np.arange(n_blocks), size)
    same = labels[:, None] == labels
    dense = np.triu(rng.rand(len(labels), len(labels)) < np.where(same, 0.5, 0.01), 1)
    return check_graph((dense + dense.T).astype(float), caller="test"), labels


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("divide", ["rows", "degrees", "weights"])
def test_local_search_ends_where_no_move_lowers_the_cut(
    seed, divide, global_random_seed
):
    seed += 1000 * global_random_seed
    graph = random_graph(seed, 12)
    rng = np.random.RandomState(seed)
    sizes = {
        "rows": np.ones(12),
        "degrees": graph.sum(axis=1),
        "weights": rng.randint(1, 5, size=12).astype(float),
    }[divide]
    start = np.concatenate([np.arange(3), rng.randint(3, size=9)])
    before = start.copy()
    labels = local_search(as_level(graph, sizes), start, 3)
    np.testing.assert_array_equal(start, before)
    cut = cut_of_labels(graph, labels, 3, sizes)
    assert cut <= cut_of_labels(graph, start, 3, sizes)
    assert len(np.unique(labels)) == 3
    counts = np.bincount(labels, minlength=3)
    for i in range(12):
        linked = graph[[i]].toarray().ravel() > 0
        for b in np.unique(labels[linked]):
            moved = labels.copy()
            moved[i] = b
            if counts[labels[i]] > 1:
                assert cut_of_labels(graph, moved, 3, sizes) >= cut - 1e-9


def test_nodes_are_exchanged_within_bounds():
    # Two squares of four whose corners were exchanged: each single move is worse.
    dense = np.zeros((8, 8))
    dense[:4, :4] = dense[4:, 4:] = 1.0
    np.fill_diagonal(dense, 0.0)
    dense[0, 4] = dense[4, 0] = 0.5
    graph = check_graph(dense, caller="test")
    start = np.array([1, 0, 0, 0, 0, 1, 1, 1])
    labels = local_search(as_level(graph), start, 2, (3.0, 5.0))
    assert cut_of_labels(graph, labels, 2) == 2 * 0.5 / 4


@pytest.mark.parametrize("seed", range(10))
def test_bounds_hold_after_any_start(seed, global_random_seed):
    rng = np.random.RandomState(seed + 1000 * global_random_seed)
    graph = random_graph(seed, 60, density=0.1)
    labels = np.zeros(60, dtype=np.int64)
    labels[:5] = np.arange(5)
    sizes = rng.uniform(0.8, 1.2, size=60)
    mean = sizes.sum() / 5
    bounds = (0.8 * mean, 1.2 * mean)
    level = as_level(graph, sizes=sizes)
    for found in (
        local_search(level, labels, 5, bounds),
        search(level, 5, 3, rng, bounds),
    ):
        totals = np.bincount(found, sizes)
        assert 0.8 * mean <= totals.min() and totals.max() <= 1.2 * mean


def test_bounded_search_is_the_best_balanced_partition_of_small_graphs():
    found, best = [], []
    for seed in range(10):
        graph = random_graph(seed, 8)
        rng = np.random.RandomState(seed)
        labels = search(as_level(graph), 2, 20, rng, (4.0, 4.0))
        assert (np.bincount(labels) == 4).all()
        found.append(cut_of_labels(graph, labels, 2))
        halves = itertools.combinations(range(8), 4)
        every = [np.isin(np.arange(8), half).astype(int) for half in halves]
        best.append(min(cut_of_labels(graph, labels, 2) for labels in every))
    assert np.mean(np.isclose(found, best)) >= 0.8
    assert np.mean(found) <= 1.05 * np.mean(best)


def test_contraction_keeps_the_cut(global_random_seed):
    graph = random_graph(global_random_seed, 40)
    rng = np.random.RandomState(global_random_seed)
    groups, coarse_labels = rng.randint(9, size=40), rng.randint(3, size=9)
    groups[:9] = np.arange(9)
    sizes = rng.randint(1, 4, size=40).astype(float)
    level = coarsen(as_level(graph, sizes), groups, 9)
    coarse = sp.csr_array((level.data, level.indices, level.indptr), shape=(9, 9))
    assert cut_of_labels(coarse, coarse_labels, 3, level.divisors) == pytest.approx(
        cut_of_labels(graph, coarse_labels[groups], 3, sizes)
    )
    assert abs(coarse - coarse.T).max() < 1e-12
    assert not coarse.diagonal().any()


def test_matching_pairs_linked_nodes_and_leaves_no_two_that_are(global_random_seed):
    graph = random_graph(global_random_seed, 20, density=0.15)
    linked, rng = graph.toarray() > 0, np.random.RandomState(global_random_seed)
    for _ in range(30):
        groups, n_groups = match(as_level(graph), rng.permutation(20))
        sizes = np.bincount(groups, minlength=n_groups)
        assert 1 <= sizes.min() <= sizes.max() <= 2
        together = groups[:, None] == groups
        np.fill_diagonal(together, False)
        # Pairs without an edge have a neighbour in common.
        assert (linked @ linked)[together & ~linked].all()
        alone = sizes[groups] == 1
        assert not linked[np.ix_(alone, alone)].any()


def modular_level(graph):
    degrees = graph.sum(axis=1)
    return as_level(graph, degrees, resolution=1.0 / degrees.sum())


def minus_modularity(graph, labels, n_clusters):
    """Newman's definition, with dense matrices."""
    degrees = graph.sum(axis=1)
    joined = labels[:, None] == labels
    expected = np.outer(degrees, degrees) / degrees.sum()
    return -((graph.toarray() - expected) * joined).sum() / degrees.sum()


OBJECTIVES = [(as_level, cut_of_labels), (modular_level, minus_modularity)]


@pytest.mark.parametrize(("make_level", "cost"), OBJECTIVES)
def test_merging_takes_the_best_pair_each_time(make_level, cost, global_random_seed):
    graph = random_graph(global_random_seed, 9, density=1.0)
    merged = merge(make_level(graph), 4)
    labels = np.arange(9)
    for _ in range(5):
        pairs = itertools.combinations(np.unique(labels), 2)
        candidates = [np.where(labels == b, a, labels) for a, b in pairs]
        labels = min(candidates, key=lambda found: cost(graph, found, 9))
    np.testing.assert_array_equal(labels[:, None] == labels, merged[:, None] == merged)


@pytest.mark.parametrize(("make_level", "cost"), OBJECTIVES)
def test_search_is_the_best_partition_of_small_graphs(make_level, cost):
    found, best = [], []
    for seed in range(10):
        graph = random_graph(seed, 7)
        labels = search(make_level(graph), 3, 5, np.random.RandomState(seed))
        found.append(cost(graph, labels, 3))
        best.append(
            min(
                cost(graph, np.array(partition), 3)
                for partition in itertools.product(range(3), repeat=7)
                if len(set(partition)) == 3
            )
        )
    close = np.isclose(found, best)
    assert np.mean(close) > 0.7 and np.all(np.array(found) > np.array(best) - 1e-9)


def test_multilevel_finds_planted_blocks_of_a_graph_that_has_to_be_coarsened(
    global_random_seed,
):
    graph, planted = blocks(global_random_seed, 5, 120)
    level = as_level(graph)
    labels = multilevel(level, 5, np.random.RandomState(global_random_seed))
    assert len(np.unique(labels * 5 + planted)) == 5


@pytest.mark.parametrize("n", [1000, 9000])
def test_graphs_of_isolated_nodes_and_stars_are_coarsened(n, global_random_seed):
    leaves = np.arange(1, n // 2)
    star = sp.coo_array((np.ones(len(leaves)), (0 * leaves, leaves)), shape=(n, n))
    graph = check_graph(star + star.T, caller="test")
    labels = search(as_level(graph), 3, 1, np.random.RandomState(global_random_seed))
    assert len(np.unique(labels)) == 3
