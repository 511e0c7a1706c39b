"""k-means: against scikit-learn, under weights and permutations, sparse, in blocks."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from skdiffclust._kmeans import (
    kmeans,
    lloyd,
    on_sphere,
)


def blobs(seed, n_samples=300, n_features=4, n_clusters=5):
    """Return centred samples of overlapping blobs, and weights from 0 to 3."""
    X, _ = make_blobs(
        n_samples, n_features, centers=n_clusters, cluster_std=3.0, random_state=seed
    )
    weight = np.random.RandomState(seed).randint(4, size=n_samples).astype(float)
    return X - X.mean(axis=0), weight


def rng(seed):
    """Return a generator."""
    return np.random.RandomState(seed)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_lloyd_is_that_of_scikit_learn(container, global_random_seed):
    X, weight = blobs(global_random_seed)
    starts = np.stack([X[i : i + 5] for i in (0, 50, 100)])
    centers, costs, labels = lloyd(container(X), weight, starts, 300)
    for r, start in enumerate(starts):
        peer = KMeans(5, init=start, n_init=1, tol=0).fit(X, sample_weight=weight)
        np.testing.assert_array_equal(labels[r], peer.labels_)
        np.testing.assert_allclose(centers[r], peer.cluster_centers_, atol=1e-9)
        assert costs[r] == pytest.approx(peer.inertia_)


def test_costs_and_labels_are_those_of_the_centres(global_random_seed):
    X, weight = blobs(global_random_seed)
    for spherical in (False, True):
        Z = on_sphere(X) if spherical else X
        centers, costs, labels = kmeans(
            Z, weight, 5, 4, rng(global_random_seed), spherical=spherical
        )
        far = np.square(Z[:, None] - centers[:, None]).sum(axis=-1)
        np.testing.assert_array_equal(labels, far.argmin(axis=-1))
        np.testing.assert_allclose(costs, far.min(axis=-1) @ weight)
        if spherical:
            np.testing.assert_allclose(np.linalg.norm(centers, axis=-1), 1.0)


def test_a_weight_of_two_is_a_repetition_in_any_order(global_random_seed):
    X, weight = blobs(global_random_seed)
    weight = weight.astype(int)
    order = rng(global_random_seed).permutation(weight.sum())
    repeated = np.repeat(X, weight, axis=0)[order]
    of_sample = np.repeat(np.arange(len(X)), weight)[order]
    plain = kmeans(repeated, np.ones(len(order)), 5, 3, rng(global_random_seed))
    weighted = kmeans(X, weight, 5, 3, rng(global_random_seed))
    np.testing.assert_allclose(plain[0], weighted[0], atol=1e-9)
    np.testing.assert_array_equal(plain[2], weighted[2][:, of_sample])


def test_seeds_are_as_good_as_those_of_scikit_learn():
    ours, theirs = [], []
    for seed in range(10):
        X, _ = blobs(seed, n_samples=500, n_features=8, n_clusters=12)
        ours.append(kmeans(X, np.ones(500), 12, 10, rng(seed))[1].mean())
        peers = [KMeans(12, n_init=1, random_state=10 * seed + i) for i in range(10)]
        theirs.append(np.mean([peer.fit(X).inertia_ for peer in peers]))
    assert np.mean(ours) < 1.01 * np.mean(theirs)


def test_an_empty_cluster_moves_to_a_far_sample():
    X = np.r_[np.zeros((5, 2)), np.full((5, 2), 9.0)]
    start = np.array([[[0.0, 0.0], [-50.0, 0.0]]])
    _, costs, labels = lloyd(X, np.ones(10), start, 10)
    assert costs[0] == 0.0
    assert adjusted_rand_score(np.repeat([0, 1], 5), labels[0]) == 1.0
