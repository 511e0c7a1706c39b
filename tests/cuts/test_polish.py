"""Moves, swaps, coarsening and combining against brute force and their promises."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from skdiffclust.cuts._multilevel import (
    combine,
    contract,
    match,
    merge_pairs,
    multilevel,
    search,
)
from skdiffclust.cuts._polish import cluster_sums, polish, swap_nodes
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
def test_polish_ends_where_no_move_lowers_the_cut(seed, divide, global_random_seed):
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
    labels = polish(graph, start, 3, sizes=sizes)
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
    for i, j in itertools.combinations(range(12), 2):
        if graph[i, j] > 0:
            swapped = labels.copy()
            swapped[[i, j]] = labels[[j, i]]
            assert cut_of_labels(graph, swapped, 3, sizes) >= cut - 1e-9


def test_swap_sums_stay_those_of_the_labels(global_random_seed):
    graph = random_graph(global_random_seed, 30)
    rng = np.random.RandomState(global_random_seed)
    labels, sizes = rng.randint(3, size=30), rng.randint(1, 4, size=30).astype(float)
    csr = graph.indptr, graph.indices, graph.data
    cuts, volumes, counts = cluster_sums(*csr, sizes, labels, 3)
    degrees = graph.sum(axis=1)
    assert swap_nodes(*csr, degrees, sizes, labels, cuts, volumes, counts, 0, 30) > 0
    expected = cluster_sums(*csr, sizes, labels, 3)
    for found, right in zip((cuts, volumes, counts), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)


def test_a_swap_that_lowers_nothing_is_not_made():
    graph = check_graph(1.0 - np.eye(6), caller="test")
    labels, sizes = np.array([0, 0, 0, 1, 1, 1]), np.ones(6)
    csr = graph.indptr, graph.indices, graph.data
    sums = cluster_sums(*csr, sizes, labels, 2)
    assert swap_nodes(*csr, graph.sum(axis=1), sizes, labels, *sums, 0, 6) == 0
    np.testing.assert_array_equal(labels, [0, 0, 0, 1, 1, 1])


def test_polish_puts_isolated_nodes_where_they_lower_most():
    # Two triangles joined by an edge, and a node alone in the cluster without a cut.
    dense = np.zeros((8, 8))
    for a, b in [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]:
        dense[a, b] = dense[b, a] = 1.0
    graph = check_graph(dense, caller="test")
    labels = polish(graph, np.array([0, 0, 0, 1, 1, 1, 2, 2]), 3)
    assert np.bincount(labels, minlength=3).min() == 1
    assert cut_of_labels(graph, labels, 3) < 2 / 3


def test_contraction_keeps_the_cut(global_random_seed):
    graph = random_graph(global_random_seed, 40)
    rng = np.random.RandomState(global_random_seed)
    groups, coarse_labels = rng.randint(9, size=40), rng.randint(3, size=9)
    groups[:9] = np.arange(9)
    sizes = rng.randint(1, 4, size=40).astype(float)
    coarse, coarse_sizes = contract(graph, groups, 9, sizes)
    assert cut_of_labels(coarse, coarse_labels, 3, coarse_sizes) == pytest.approx(
        cut_of_labels(graph, coarse_labels[groups], 3, sizes)
    )
    assert abs(coarse - coarse.T).max() < 1e-12
    assert not coarse.diagonal().any()


def test_matching_pairs_linked_nodes_and_leaves_no_two_that_are(global_random_seed):
    graph = random_graph(global_random_seed, 20, density=0.15)
    linked, rng = graph.toarray() > 0, np.random.RandomState(global_random_seed)
    for _ in range(30):
        groups, n_groups = match(
            graph.indptr, graph.indices, graph.data, np.ones(20), rng.permutation(20)
        )
        sizes = np.bincount(groups, minlength=n_groups)
        assert 1 <= sizes.min() <= sizes.max() <= 2
        together = groups[:, None] == groups
        assert (together & linked).sum() == 2 * (sizes == 2).sum()
        alone = sizes[groups] == 1
        assert not linked[np.ix_(alone, alone)].any()


def test_merging_takes_the_best_pair_each_time(global_random_seed):
    graph = random_graph(global_random_seed, 9, density=1.0)
    owner = merge_pairs(graph.toarray(), np.ones(9), graph.sum(axis=1), 4)
    labels = np.arange(9)
    for _ in range(5):
        pairs = itertools.combinations(np.unique(labels), 2)
        merged = [np.where(labels == b, a, labels) for a, b in pairs]
        labels = min(merged, key=lambda found: cut_of_labels(graph, found, 9))
    np.testing.assert_array_equal(labels, owner)


def test_search_is_the_best_partition_of_small_graphs():
    found, best = [], []
    for seed in range(10):
        graph = random_graph(seed, 7)
        labels = search(graph, 3, 5, np.random.RandomState(seed), sizes=np.ones(7))
        found.append(cut_of_labels(graph, labels, 3))
        best.append(
            min(
                cut_of_labels(graph, np.array(partition), 3)
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
    labels = multilevel(
        graph, 5, np.random.RandomState(global_random_seed), sizes=np.ones(600)
    )
    assert len(np.unique(labels * 5 + planted)) == 5


def test_combining_never_raises_the_cut(global_random_seed):
    graph = random_graph(global_random_seed, 60, density=0.1)
    rng, sizes = np.random.RandomState(global_random_seed), np.ones(60)
    labels, other = (
        polish(graph, rng.permutation(60) % 4, 4, sizes=sizes) for _ in range(2)
    )
    combined = combine(graph, labels, other, 4, rng, sizes=sizes)
    cuts = [cut_of_labels(graph, found, 4) for found in (combined, labels, other)]
    assert cuts[0] <= cuts[1]
    assert len(np.unique(combined)) == 4


@pytest.mark.parametrize("n", [1000, 9000])
def test_graphs_of_isolated_nodes_and_stars_are_coarsened(n, global_random_seed):
    leaves = np.arange(1, n // 2)
    star = sp.coo_array((np.ones(len(leaves)), (0 * leaves, leaves)), shape=(n, n))
    graph = check_graph(star + star.T, caller="test")
    labels = search(
        graph, 3, 1, np.random.RandomState(global_random_seed), sizes=np.ones(n)
    )
    assert len(np.unique(labels)) == 3


def test_the_same_seed_gives_the_same_labels(global_random_seed):
    graph, _ = blocks(global_random_seed, 4, 100)
    first, second = (
        search(graph, 4, 3, np.random.RandomState(7), sizes=np.ones(400))
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
