"""Medians of clusters: they lower the cost, and agree for all kinds of weights."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs

from skdiffclust.memories._medians import lloyd_medians, weighted_medians


def test_medians_lower_the_sum_of_distances(global_random_seed):
    X, _ = make_blobs(
        300, 4, centers=5, cluster_std=3.0, random_state=global_random_seed
    )
    rng = np.random.RandomState(global_random_seed)
    weight = rng.randint(4, size=300).astype(float)
    start = X[weight > 0][:5]
    centers = lloyd_medians(X, weight, start)

    def cost(centers):
        far = np.abs(X[:, None] - centers).sum(axis=-1)
        return far.min(axis=1) @ weight, far.argmin(axis=1)

    assert cost(centers)[0] < cost(start)[0]
    labels = cost(centers)[1]
    for m in range(5):
        own = (labels == m) & (weight > 0)
        repeated = np.repeat(X[own], weight[own].astype(int), axis=0)
        below = (repeated < centers[m]).mean(axis=0)
        above = (repeated > centers[m]).mean(axis=0)
        assert max(below.max(), above.max()) <= 0.5


@pytest.mark.parametrize("n_samples", [1, 2, 7, 8])
def test_medians_of_equal_weights_are_those_of_any_weights(n_samples):
    Z = np.random.RandomState(n_samples).normal(size=(n_samples, 3))
    equal = weighted_medians(Z, np.full(n_samples, 0.5))
    # A sample of hardly any weight that is the first in every feature changes nothing.
    longer = np.vstack([Z, np.full((1, 3), -9.0)])
    tiny = np.r_[np.full(n_samples, 0.5), 1e-9]
    np.testing.assert_array_equal(equal, weighted_medians(longer, tiny))
    assert (np.mean(Z < equal, axis=0) < 0.5).all()
    assert (np.mean(Z <= equal, axis=0) >= 0.5).all()


@pytest.mark.instances(20)
def test_medians_of_sparse_rows_are_those_of_dense_ones(seed):
    rng = np.random.RandomState(seed)
    n_rows, n_columns = rng.randint(1, 30, 2)
    Z = rng.randint(-3, 4, (n_rows, n_columns)).astype(float)
    Z[rng.random_sample(Z.shape) < rng.random_sample()] = 0.0
    for weight in (np.full(n_rows, 0.3), rng.randint(1, 4, n_rows), rng.rand(n_rows)):
        np.testing.assert_array_equal(
            weighted_medians(sparse.csr_array(Z), weight), weighted_medians(Z, weight)
        )
