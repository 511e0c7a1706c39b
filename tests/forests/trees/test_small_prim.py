"""Prim in NumPy, against enumeration, scipy, and its own total order."""

import numpy as np
import pytest
from all_forests import all_forests
from scipy.sparse.csgraph import minimum_spanning_tree

from skdiffclust.forests._trees._distances import lengths_of_matrix
from skdiffclust.forests._trees._small_prim import prim


def symmetric(rng, n, integers=False):
    values = rng.integers(1, 4, (n, n)) if integers else rng.random((n, n))
    D = np.triu(values, 1).astype(float)
    return D + D.T


def prim_of(D, nodes=None):
    rows = np.arange(len(D))
    nodes = rows if nodes is None else nodes
    return prim(lengths_of_matrix(D).row, rows, nodes)


@pytest.mark.instances(30)
def test_the_lightest_tree_by_enumeration(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    D = symmetric(rng, n, integers=seed % 2)
    edges, lengths = prim_of(D)
    weights = [sum(D[pair] for pair in tree) for tree in all_forests(n, n - 1)]
    assert lengths.sum() == pytest.approx(min(weights), rel=1e-12)
    assert np.array_equal(lengths, D[edges[:, 0], edges[:, 1]])


@pytest.mark.parametrize("seed", range(10))
def test_the_weight_of_scipy(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    D = symmetric(rng, 80)
    assert prim_of(D)[1].sum() == pytest.approx(minimum_spanning_tree(D).sum())


@pytest.mark.instances(30)
def test_ties_follow_the_order_of_pairs(seed, global_random_seed):
    """The tree is the one Kruskal finds when edges are sorted by (length, i, j)."""
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 20))
    D = symmetric(rng, n, integers=True)
    i, j = np.triu_indices(n, 1)
    label, expected = np.arange(n), set()
    for e in np.lexsort((j, i, D[i, j])):
        if label[i[e]] != label[j[e]]:
            expected.add((i[e], j[e]))
            label[label == label[j[e]]] = label[i[e]]
    assert set(map(tuple, prim_of(D)[0])) == expected


def test_rows_of_one_node_are_one_vertex():
    D = np.array(
        [
            [0.0, 9.0, 5.0, 8.0],
            [9.0, 0.0, 7.0, 1.0],
            [5.0, 7.0, 0.0, 6.0],
            [8.0, 1.0, 6.0, 0.0],
        ]
    )
    edges, lengths = prim_of(D, nodes=np.array([0, 0, 2, 3]))
    assert dict(zip(map(tuple, edges), lengths, strict=True)) == {
        (1, 3): 1.0,
        (0, 2): 5.0,
    }


def test_infinite_lengths_are_no_edges():
    D = np.full((4, 4), np.inf)
    D[0, 2] = D[2, 0] = 3.0
    D[1, 3] = D[3, 1] = 2.0
    assert sorted(map(tuple, prim_of(D)[0])) == [(0, 2), (1, 3)]
