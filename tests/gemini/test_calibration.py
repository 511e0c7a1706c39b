"""The temperature of probabilities."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import norm

from skdiffclust import GEMINI, SparseGEMINI, SparseGEMINICV

FAST = {"n_init": 1, "random_state": 0, "learning_rate": 0.1, "max_iter": 100}


def overlapping(seed, noise="normal", distance=3.0, n=600, d=3):
    """Return two clusters that overlap, and their classes."""
    rng = np.random.RandomState(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, d))
    if noise == "t(5)":
        X = np.sqrt(0.6) * rng.standard_t(5, size=(n, d))
    if noise == "gamma":
        X = (rng.gamma(3, size=(n, d)) - 3) / np.sqrt(3)
    X[:, 0] += distance * y
    return X, y


@pytest.mark.parametrize(
    "noise, most", [("normal", 0.06), ("t(5)", 0.06), ("gamma", 0.12)]
)
@pytest.mark.parametrize("params", [{}, {"model": "mlp", "hidden_layer_sizes": 10}])
def test_probabilities_are_shares_of_right_labels(
    noise, most, params, global_random_seed
):
    gaps = np.zeros((5, 2, 3))
    for draw in range(5):
        X, y = overlapping(100 * global_random_seed + draw, noise)
        gemini = GEMINI(2, **FAST, **params).fit(X[:400])
        for i, rows in enumerate((slice(400), slice(400, None))):
            certainty = gemini.predict_proba(X[rows]).max(axis=1)
            is_right = gemini.predict(X[rows]) == y[rows]
            is_right = is_right if is_right.mean() > 0.5 else ~is_right
            # Thirds of the samples, from uncertain to certain ones.
            for j, part in enumerate(np.array_split(np.argsort(certainty), 3)):
                gaps[draw, i, j] = certainty[part].mean() - is_right[part].mean()
        assert certainty.mean() < 0.98
    assert np.abs(gaps.mean(axis=0)).max() < most


@pytest.mark.parametrize("weighted", [True, False])
def test_the_temperature_does_not_depend_on_the_order_of_samples(weighted):
    # Every second sample has no weight, or all of them are of one cluster.
    X, _ = overlapping(0, n=1200)
    weights = np.arange(1200) % 4 // 2 + 0.0 if weighted else np.ones(1200)
    order = np.random.RandomState(0).permutation(1200)
    path = SparseGEMINI(2, **FAST)
    path.path(X, sample_weight=weights)
    for found, expected in (
        (GEMINI(2, **FAST).fit(X, sample_weight=weights), X),
        (path, X[:, path.get_support()]),
    ):
        shuffled = GEMINI(2, **FAST).fit(expected[order], sample_weight=weights[order])
        sure = found.predict_proba(X).max(axis=1)
        others = shuffled.predict_proba(expected).max(axis=1)
        assert 0.8 < sure.mean() < 0.98
        assert np.abs(sure - others).mean() < 0.02


def test_probabilities_of_normal_clusters_are_those_of_bayes(global_random_seed):
    X, _ = overlapping(global_random_seed, n=4000, d=1)
    gemini = GEMINI(2, **FAST).fit(X)
    grid = np.linspace(-1, 4, 20)[:, None]
    found = gemini.predict_proba(grid)
    density = norm.pdf(grid - [0, 3])
    expected = density / density.sum(axis=1, keepdims=True)
    expected = expected[:, np.argsort(found[0])[::-1].argsort()]
    assert np.abs(found - expected).max() < 0.1


def test_features_that_are_dropped_change_no_probability(global_random_seed):
    X, _ = overlapping(global_random_seed, d=6, n=200)
    sparse = SparseGEMINI(2, **FAST)
    path = sparse.path(X, min_features=1)
    for model in (path.select(n_features=1), path.select(n_features=3)):
        dropped = np.flatnonzero(model.feature_norms_ == 0)
        assert len(dropped) > 2
        assert (model.coefs_[0][dropped] == 0).all()
        moved = X.copy()
        moved[:, dropped] += 100
        found = model.predict_proba(moved)
        assert_array_equal(found, model.predict_proba(X))
        assert 0.8 < found.max(axis=1).mean() < 0.99
        assert model.temperature_ > 0
    search = SparseGEMINICV(sparse, n_alphas=4, n_resamples=3, random_state=0).fit(X)
    assert 0.8 < search.predict_proba(X).max(axis=1).mean() < 0.99


def test_one_cluster_has_no_temperature_to_find():
    X = np.random.RandomState(0).normal(size=(30, 3))
    assert GEMINI(1, **FAST).fit(X).temperature_ == 1.0
    assert not hasattr(GEMINI(2, model="free", **FAST).fit(X), "temperature_")
