"""Clusters of any shape: memories that are merged by the samples that they share."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from skdiffclust.memories import find_basins
from skdiffclust.memories._basins import attraction, embed_memories


def moons(seed):
    """Return samples of two moons, and which."""
    return make_moons(500, noise=0.06, random_state=seed)


def rings(seed):
    """Return samples of two rings, and which."""
    return make_circles(500, noise=0.05, factor=0.5, random_state=seed)


@pytest.mark.parametrize("shape", [moons, rings])
def test_shapes_that_are_no_balls(shape, global_random_seed):
    X, y = shape(global_random_seed)
    basins = find_basins(X, 2, n_memories=80, random_state=0)
    assert adjusted_rand_score(y, basins.labels) == 1.0
    assert adjusted_rand_score(y, KMeans(2, n_init=10).fit_predict(X)) < 0.6
    new, labels = shape(global_random_seed + 1)
    assert adjusted_rand_score(labels, basins.predict(new)) > 0.99


def test_digits_are_clustered_better_than_by_k_means():
    X, y = load_digits(return_X_y=True)
    ours = [
        adjusted_rand_score(
            y, find_basins(X, 10, n_memories=300, random_state=s).labels
        )
        for s in range(2)
    ]
    assert max(ours) > 0.72  # k-means .67


def test_what_is_found(global_random_seed):
    X, _ = moons(0)
    weight = np.random.RandomState(0).uniform(0.5, 1.5, len(X))
    basins = find_basins(
        X, 2, n_memories=60, sample_weight=weight, random_state=global_random_seed
    )
    assert basins.memories.shape == (60, 2)
    assert set(basins.memory_labels) == set(basins.labels) == {0, 1}
    np.testing.assert_array_equal(basins.labels, basins.predict(X))
    parts = [basins.predict(X[i : i + 1])[0] for i in range(20)]
    assert parts == list(basins.labels[:20])
    assert (np.diff(np.bincount(basins.labels, weight)) <= 0).all()
    loaded = pickle.loads(pickle.dumps(basins))
    np.testing.assert_array_equal(loaded.predict(X), basins.labels)
    # Not more than one memory for every four samples.
    assert len(find_basins(X[:100], 2, random_state=0).memories) == 25


def test_unit_and_order_of_samples_change_nothing(global_random_seed):
    X, y = moons(global_random_seed)
    labels, moved = (
        find_basins(rows, 2, n_memories=80, random_state=0).labels
        for rows in (X, 1e6 * X + 5e6)
    )
    assert adjusted_rand_score(labels, moved) == 1.0
    order = np.random.RandomState(0).permutation(len(X))
    again = find_basins(X[order], 2, n_memories=80, random_state=0).labels
    assert adjusted_rand_score(labels[order], again) == 1.0


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
    basins = find_basins(np.ones((20, 3)), 2)
    np.testing.assert_array_equal(basins.labels, 0)
    assert len(basins.memories) == 1


@pytest.mark.parametrize("n_clusters", [0, 101])
def test_a_number_of_clusters_that_there_cannot_be(n_clusters):
    with pytest.raises(ValueError, match="n_clusters.* of find_basins must be"):
        find_basins(moons(0)[0][:100], n_clusters)
