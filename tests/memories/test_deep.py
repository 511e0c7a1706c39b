"""Deep ClAM: the encoder is trained with memories, and kept as plain as can be."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from torch import nn

from skdiffclust import ClAM


def blobs(seed=0):
    """Return rows of three blobs in 12 features, and which blob."""
    return make_blobs(240, 12, centers=3, cluster_std=2.0, random_state=seed)


def test_mlp_finds_the_blobs_and_is_numpy():
    X, y = blobs()
    before = torch.get_rng_state()
    model = ClAM(3, encoder="mlp", random_state=0, n_init=3).fit(X)
    assert torch.equal(torch.get_rng_state(), before)
    assert adjusted_rand_score(y, model.labels_) > 0.9
    assert model.cluster_centers_.shape == (3, 10)
    assert np.array_equal(model.predict(X), model.labels_)
    assert all(isinstance(w, np.ndarray) for part in model.encoder_ for w in part)
    assert model.transform(X).shape == (240, 3)
    assert np.isfinite(model.score(X))
    for size in (1, 7):
        parts = [model.predict(X[i : i + size]) for i in range(0, 21, size)]
        assert np.array_equal(np.concatenate(parts), model.labels_[:21])
    loaded = pickle.loads(pickle.dumps(model))
    assert np.array_equal(loaded.predict(X), model.labels_)
    again = ClAM(3, encoder="mlp", random_state=0, n_init=3).fit(X)
    assert np.array_equal(again.cluster_centers_, model.cluster_centers_)


@pytest.mark.parametrize("self_supervised", [False, True])
def test_module_is_copied_and_trained(self_supervised):
    X, y = blobs(1)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 3))
    before = [p.clone() for p in module.parameters()]
    model = ClAM(
        3, encoder=module, self_supervised=self_supervised, random_state=0, n_init=3
    ).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.9
    assert all(
        torch.equal(a, b) for a, b in zip(module.parameters(), before, strict=True)
    )
    trained = zip(model.encoder_.parameters(), before, strict=True)
    assert not any(torch.equal(a, b) for a, b in trained)
    assert model.cluster_centers_.shape == (3, 3)
    assert model.get_params()["encoder"] is module


def test_streams_and_other_things_are_refused():
    X, _ = blobs()
    with pytest.raises(ValueError, match="encoder.*partial_fit"):
        ClAM(3, encoder="mlp").partial_fit(X)
    with pytest.raises(ValueError, match="encoder"):
        ClAM(3, encoder="cnn").fit(X)
    assert ClAM(3, max_iter=2).fit(X).encoder_ is None
