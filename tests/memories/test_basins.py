"""Clusters of any shape: memories that are merged by the samples that they share."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from skdiffclust.memories._basins import attraction, embed_memories, find_basins


def labels_of(X, n_clusters, weight=None):
    """Return labels of X with weights, the first 400 samples of which have memories."""
    weight = np.ones(len(X)) if weight is None else weight
    random_state = np.random.RandomState(0)
    rows = np.arange(min(len(X), 400))
    return find_basins(X, rows, weight, n_clusters, 10, random_state)


def moons(seed):
    """Return samples of two moons, and which."""
    return make_moons(500, noise=0.06, random_state=seed)


def rings(seed):
    """Return samples of two rings, and which."""
    return make_circles(500, noise=0.05, factor=0.5, random_state=seed)


@pytest.mark.parametrize("shape", [moons, rings])
def test_shapes_that_are_no_balls(shape, global_random_seed):
    X, y = shape(global_random_seed)
    labels = labels_of(X, 2)
    assert adjusted_rand_score(y, labels) > 0.99
    moved = labels_of(1e6 * X + 5e6, 2)
    assert adjusted_rand_score(labels, moved) == 1.0


def test_digits_are_clustered_better_than_by_k_means():
    X, y = load_digits(return_X_y=True)
    random_state = np.random.RandomState(0)
    labels = find_basins(X, np.arange(len(X)), np.ones(len(X)), 10, 10, random_state)
    assert adjusted_rand_score(y, labels) > 0.72  # k-means .67


def test_weights_are_repetitions_in_the_graph(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X, memories = rng.randn(40, 3), rng.randn(12, 3)
    weight = rng.randint(1, 4, 40).astype(float)
    rows = np.repeat(np.arange(40), weight.astype(int))
    shares = attraction(X, memories)
    one, sizes = embed_memories(shares, weight, 3)
    other, repeated = embed_memories(shares[rows], np.ones(len(rows)), 3)
    np.testing.assert_allclose(sizes, repeated)
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-8)


def test_coordinates_are_those_of_the_dense_graph(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X, memories = rng.randn(60, 2), rng.randn(9, 2)
    shares = attraction(X, memories).toarray()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert ((shares > 0).sum(axis=1) == 5).all()
    graph = shares.T @ shares
    degree = np.sqrt(graph.sum(axis=1))
    values, vectors = np.linalg.eigh(graph / degree[:, None] / degree)
    assert values[-1] == pytest.approx(1.0)
    expected = vectors[:, -2:] / np.linalg.norm(vectors[:, -2:], axis=1)[:, None]
    found, sizes = embed_memories(sparse.csr_array(shares), np.ones(60), 2)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-8)
    np.testing.assert_allclose(sizes, shares.sum(axis=0))


def test_equal_samples():
    np.testing.assert_array_equal(labels_of(np.ones((20, 3)), 2), 0)
