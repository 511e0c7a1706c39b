"""Cuts of a tree, against their definition carried out naively."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import is_valid_linkage, linkage
from scipy.spatial.distance import squareform

from skdiffclust import SpanningForestClustering
from skdiffclust.forests import SpanningTree
from skdiffclust.forests._hierarchy._tree_cuts import cut
from skdiffclust.forests._trees._tree import components


def tree_of(edges, lengths):
    return SpanningTree(edges, lengths, np.ones(len(edges), dtype=bool))


def random_tree(rng, n):
    """Edges of a random labelled tree in a random order, and decreasing lengths."""
    order = rng.permutation(n)
    parents = [rng.integers(max(0, t - rng.integers(1, n)), t) for t in range(1, n)]
    edges = np.sort(np.column_stack([order[1:], order[parents]]), axis=1)
    return edges, np.sort(rng.random(n - 1))[::-1]


def naive_cut(edges, n_cuts, min_size):
    """Cut, one after the other, the first edge with enough rows on both sides."""
    cuts, n = [], len(edges) + 1
    while len(cuts) < n_cuts:
        before = components(np.delete(edges, cuts, axis=0), n)
        for e in np.setdiff1d(np.arange(n - 1), cuts):
            after = components(np.delete(edges, [*cuts, e], axis=0), n)
            sides = [np.sum(after == after[end]) for end in edges[e]]
            assert sum(sides) == np.sum(before == before[edges[e, 0]])
            if min(sides) >= min_size:
                cuts.append(e)
                break
        else:
            if min_size == 1:
                return cuts, min_size
            min_size //= 2
    return cuts, min_size


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.instances(40)
def test_cut_with_a_minimum_size(seed, compiled, cold, monkeypatch, global_random_seed):
    seed += 1000 * global_random_seed
    if compiled:
        monkeypatch.setattr("skdiffclust._compiled.is_ready", lambda kernel: True)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    edges, lengths = random_tree(rng, n)
    n_cuts, min_size = int(rng.integers(1, n)), int(rng.integers(1, n))
    positions, _, kept = cut(tree_of(edges, lengths), n_cuts, min_size=min_size)
    expected, expected_kept = naive_cut(edges, n_cuts, min_size)
    assert list(positions) == expected
    assert kept == (expected_kept if min_size > 1 else 1)


def test_infinite_edges_are_cut_whatever_they_part():
    edges = np.array([[3, 4], [0, 1], [1, 2], [2, 3]])
    lengths = np.array([np.inf, 3.0, 2.0, 1.0])
    positions, _, kept = cut(tree_of(edges, lengths), 2, min_size=2)
    assert list(positions) == [0, 2]
    assert kept == 2


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_linkage_matrix_is_that_of_scipy(
    seed, compiled, cold, monkeypatch, global_random_seed
):
    seed += 1000 * global_random_seed
    if compiled:
        monkeypatch.setattr("skdiffclust._compiled.is_ready", lambda kernel: True)
    rng = np.random.default_rng(seed)
    D = np.triu(rng.random((40, 40)), 1)
    D += D.T
    ours = SpanningForestClustering(1, metric="precomputed").fit(D).linkage_
    assert is_valid_linkage(ours)
    expected = linkage(squareform(D), "single")
    assert np.array_equal(ours[:, 2:], expected[:, 2:])
    assert np.array_equal(np.sort(ours[:, :2]), np.sort(expected[:, :2]))


def test_a_long_chain_does_not_recurse():
    X = np.arange(20_000.0)[:, None]
    edges = np.column_stack([np.arange(19_999), np.arange(1, 20_000)])
    tree = tree_of(edges, np.diff(X[:, 0]))
    positions, _, _ = cut(tree, 3, min_size=4000)
    labels = components(np.delete(edges, positions, axis=0), len(X))
    assert np.bincount(labels).min() >= 4000
