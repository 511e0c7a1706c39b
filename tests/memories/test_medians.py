"""Medians of clusters lower the cost, for weights of any kind, dense and sparse."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from skdiffclust.memories._medians import lloyd_medians


@pytest.mark.parametrize("is_weighted", [False, True])
def test_medians_lower_the_sum_of_distances(is_weighted, global_random_seed):
    X, _ = make_blobs(
        300, 4, centers=5, cluster_std=3.0, random_state=global_random_seed
    )
    rng = np.random.RandomState(global_random_seed)
    weight = rng.randint(4, size=300) if is_weighted else np.ones(300, dtype=int)
    start = X[weight > 0][:5]
    centers = lloyd_medians(X, weight.astype(float), start)

    def cost(centers):
        far = np.abs(X[:, None] - centers).sum(axis=-1)
        return far.min(axis=1) @ weight, far.argmin(axis=1)

    assert cost(centers)[0] < cost(start)[0]
    for m, center in enumerate(centers):
        own = (cost(centers)[1] == m) & (weight > 0)
        if not own.any():
            continue
        repeated = np.repeat(X[own], weight[own], axis=0)
        assert (np.mean(repeated < center, axis=0) <= 0.5).all()
        assert (np.mean(repeated > center, axis=0) <= 0.5).all()
