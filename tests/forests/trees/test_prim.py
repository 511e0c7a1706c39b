"""Prim compiled, against Prim in NumPy, bit for bit."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from skdiffclust._gower import gower_encoder
from skdiffclust.forests._trees._distances import (
    lengths_of_matrix,
    lengths_of_points,
    lengths_of_table,
)
from skdiffclust.forests._trees._prim import (
    prim_on_gower,
    prim_on_matrix,
    prim_on_points,
)
from skdiffclust.forests._trees._small_prim import prim


def sorted_forest(forest):
    edges, lengths = forest
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    return edges[order], lengths[order]


def assert_same_forest(forest, expected):
    for ours, theirs in zip(
        sorted_forest(forest), sorted_forest(expected), strict=True
    ):
        assert np.array_equal(ours, theirs)


def vertices(rng, n):
    """Ids from 0 up, with and without rows that share one."""
    shared = rng.integers(0, max(1, n // 2), n)
    return np.arange(n), np.unique(shared, return_inverse=True)[1]


@pytest.mark.instances(40)
def test_matrix(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 90))
    D = rng.normal(size=(n, n)) if seed % 2 else rng.integers(-2, 3, (n, n)) * 1.0
    D = D + D.T
    D[D == 0] *= rng.choice([-1.0, 1.0], np.count_nonzero(D == 0))
    if seed % 3 == 0:
        missing = np.triu(rng.random((n, n)) < 0.97, 1)
        D[missing | missing.T] = np.inf
    for nodes in vertices(rng, n):
        expected = prim(lengths_of_matrix(D).row, np.arange(n), nodes)
        assert_same_forest(prim_on_matrix(D, nodes), expected)


@pytest.mark.instances(30)
def test_points(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 90)), int(rng.integers(1, 12))
    X = rng.normal(size=(n, d)) + 1e6 * (seed % 2)
    X = np.round(X[rng.integers(0, n, n)], 0 if seed % 3 else 8)
    lengths = lengths_of_points(X, "euclidean")
    for nodes in vertices(rng, n):
        expected = prim(lengths.row, np.arange(n), nodes)
        assert_same_forest(prim_on_points(X, nodes), expected)


@pytest.mark.instances(20)
def test_tables(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 90)), int(rng.integers(1, 6))
    X = np.round(rng.normal(size=(n, d)), 0 if seed % 3 else 8)
    X[rng.random((n, d)) < 0.2] = np.nan
    encoder, encoded = gower_encoder(X, rng.random(d) < 0.5)
    row = lengths_of_table(encoded, encoder).row
    for nodes in vertices(rng, n):
        expected = prim(row, np.arange(n), nodes)
        assert_same_forest(prim_on_gower(encoded, encoder, nodes), expected)


def test_more_rows_than_a_block(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.integers(0, 12, (1300, 3)).astype(float)
    expected = prim(
        lengths_of_points(X, "euclidean").row, np.arange(1300), np.arange(1300)
    )
    assert_same_forest(prim_on_points(X, np.arange(1300)), expected)
    D = cdist(X, X, "sqeuclidean")
    assert_same_forest(prim_on_matrix(D, np.arange(1300)), expected)
    X[rng.random(X.shape) < 0.1] = np.nan
    encoder, encoded = gower_encoder(X, [0])
    row = lengths_of_table(encoded, encoder).row
    expected = prim(row, np.arange(1300), np.arange(1300))
    found = prim_on_gower(encoded, encoder, np.arange(1300))
    assert_same_forest(found, expected)
