"""Kruskal compiled, against enumeration and scipy."""

import numpy as np
import pytest
from all_forests import all_forests
from scipy.sparse import csr_array, random_array
from scipy.sparse.csgraph import minimum_spanning_tree

from skdiffclust.forests._trees._kruskal import kruskal, upper_edges


def complete(rng, n, integers=False):
    """All pairs of n rows in lexicographic order, and their lengths."""
    first, second = np.triu_indices(n, 1)
    values = rng.integers(1, 4, len(first)) if integers else rng.random(len(first))
    return first, second, values.astype(float)


@pytest.mark.instances(30)
def test_the_lightest_forest_by_enumeration(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    first, second, lengths = complete(rng, n, integers=seed % 2)
    n_wanted = int(rng.integers(1, n))
    tree = np.sort(kruskal(first, second, lengths, np.arange(n)))
    chosen = tree[np.argsort(lengths[tree], kind="stable")][:n_wanted]
    length = dict(zip(zip(first, second, strict=True), lengths, strict=True))
    weights = [sum(length[pair] for pair in f) for f in all_forests(n, n_wanted)]
    assert len(tree) == n - 1
    assert lengths[chosen].sum() == pytest.approx(min(weights), rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_the_weight_of_scipy_on_a_sparse_graph(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    graph = random_array((200, 200), density=0.03, rng=rng)
    graph = csr_array((graph + graph.T).tocsr())
    graph.sort_indices()
    first, second, lengths = upper_edges(graph.indptr, graph.indices, graph.data)
    off = first != second
    chosen = kruskal(first[off], second[off], lengths[off], np.arange(200))
    graph.setdiag(0)
    expected = minimum_spanning_tree(graph)
    assert len(chosen) == expected.nnz
    assert lengths[off][chosen].sum() == pytest.approx(expected.sum(), rel=1e-12)


def test_upper_edges_keep_stored_zeros_and_leave_the_diagonal():
    graph = csr_array(([0.0, 7.0, 0.0, 2.0, 2.0], ([0, 1, 1, 1, 2], [1, 1, 0, 2, 1])))
    graph.sort_indices()
    first, second, lengths = upper_edges(graph.indptr, graph.indices, graph.data)
    assert first.tolist() == [0, 1]
    assert second.tolist() == [1, 2]
    assert lengths.tolist() == [0.0, 2.0]


def test_rows_of_one_node_are_one_vertex_and_infinite_edges_are_none():
    first, second = np.triu_indices(4, 1)
    lengths = np.array([1.0, 5.0, 4.0, 3.0, 6.0, np.inf])
    chosen = kruskal(first, second, lengths, np.array([0, 0, 1, 2]))
    assert sorted(chosen) == [2, 3]
    alone = kruskal(first, second, np.full(6, np.inf), np.arange(4))
    assert len(alone) == 0


@pytest.mark.parametrize("n_levels", [1, 2, 50])
def test_the_tree_of_the_total_order_under_ties(n_levels, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    first, second = np.triu_indices(200, 1)
    lengths = rng.integers(0, n_levels, len(first)).astype(float)
    parents, expected = np.arange(200), []
    for e in np.argsort(lengths, kind="stable"):
        one, other = parents[first[e]], parents[second[e]]
        if one != other:
            parents[parents == one] = other
            expected.append(e)
    chosen = kruskal(first, second, lengths, np.arange(200))
    assert np.array_equal(np.sort(chosen), np.sort(expected))
