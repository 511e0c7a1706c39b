"""GEMINI.partial_fit, against autograd, on streams that stay and that drift."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import linear_kernel

from skdiffclust import GEMINI

CENTERS = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]])
pytestmark = pytest.mark.few_epochs


def batches(seed, *, drift=0.0, n_batches=6):
    """Yield samples (240, 2) of four groups that move by `drift` a batch, and y."""
    rng = np.random.RandomState(seed)
    directions = 0.5 * rng.normal(size=CENTERS.shape)
    for step in range(n_batches):
        y = rng.randint(4, size=240)
        centers = CENTERS + drift * step * directions
        yield centers[y] + rng.normal(size=(240, 2)), y


def make(**params):
    """Return a model for four groups."""
    params = {"mode": "ovo", "max_iter": 100, "random_state": 0} | params
    return GEMINI(4, **params)


def one_vs_all(outputs, X):
    """Return the MMD one-vs-all of outputs (n, k) with the linear kernel of X."""
    assignments = outputs.softmax(dim=1)
    proportions = assignments.mean(dim=0)
    means = assignments.T @ X / len(X) / proportions[:, None]
    return (proportions * (means - X.mean(dim=0)).norm(dim=1)).sum()


def test_steps_are_those_of_autograd_and_the_moments_are_kept():
    streams = [X for X, _ in batches(0, n_batches=3)]
    model = GEMINI(4, mode="ova", max_iter=5, learning_rate=1e-3, random_state=0).fit(
        streams[0]
    )
    # Far from any optimum, so that the last step is the best.
    model.coefs_ = [0.1 * np.random.RandomState(0).normal(size=(2, 4))]
    means = streams[0].mean(axis=0)
    scale = np.sqrt(streams[0].var(axis=0).mean())
    weights = torch.tensor(scale * model.coefs_[0], requires_grad=True)
    biases = torch.tensor(model.intercepts_[0], requires_grad=True)
    adam = torch.optim.Adam([weights, biases], lr=1e-3)
    for X in streams[1:]:
        model.partial_fit(X)
        X = torch.tensor((X - means) / scale)
        for _ in range(10):
            adam.zero_grad()
            loss = -one_vs_all(X @ weights + biases, X)
            loss.backward()
            adam.step()
        found = scale * model.coefs_[0]
        assert_allclose(found, weights.detach(), rtol=0, atol=1e-8)
        assert_allclose(model.intercepts_[0], biases.detach(), rtol=0, atol=1e-8)
    assert not np.array_equal(model.coefs_[0], weights.detach())
    assert model.n_iter_ == len(model.history_["loss"]) == 1 + 2 * 11


@pytest.mark.parametrize("kind, drift", [("linear", 0), ("mlp", 0), ("mlp", 1)])
def test_a_stream_that_stays_and_one_that_drifts(kind, drift, global_random_seed):
    model = make(model=kind, random_state=global_random_seed)
    first = None
    stream = list(batches(global_random_seed, drift=drift, n_batches=5))
    for X, _ in stream:
        model.partial_fit(X)
        first = first or pickle.loads(pickle.dumps(model))
        assert_array_equal(model.labels_, model.predict(X))
    X, y = stream[-1]
    found = adjusted_rand_score(y, model.predict(X))
    before = adjusted_rand_score(y, first.predict(X))
    assert found > (0.85 if drift else 0.98)
    if drift:
        assert found > before
    else:  # clusters keep their numbers
        assert np.mean(first.predict(X) == model.labels_) > 0.98


def test_weights_are_repeats_and_sparse_samples_are_samples(global_random_seed):
    first, second = (X for X, _ in batches(global_random_seed, n_batches=2))
    counts = np.random.RandomState(global_random_seed).randint(0, 3, size=len(second))
    repeated = make().partial_fit(first).partial_fit(np.repeat(second, counts, axis=0))
    for X in second, sparse.csr_array(second):
        weighted = make().partial_fit(first).partial_fit(X, sample_weight=counts)
        assert_allclose(weighted.coefs_[0], repeated.coefs_[0], rtol=1e-6, atol=1e-9)


def test_a_pickled_stream_goes_on_and_a_failed_call_changes_nothing():
    first, second = (X for X, _ in batches(1, n_batches=2))
    model = make(batch_size=50, model="mlp", hidden_layer_sizes=(8,))
    model.partial_fit(first).partial_fit(second)
    again = pickle.loads(pickle.dumps(model))
    with pytest.raises(ValueError, match="NaN"):
        again.partial_fit(np.full((5, 2), np.nan))
    with pytest.raises(ValueError, match="diverged"):
        again.set_params(learning_rate=1e200).partial_fit(second)
    again.set_params(learning_rate=0.01)
    for one in model, again:
        one.partial_fit(first)
    assert_array_equal(model.coefs_[0], again.coefs_[0])
    # The moments and the draws continue: a stream is more than its weights.
    stateless = pickle.loads(pickle.dumps(model))
    del stateless._stream
    assert not np.array_equal(
        stateless.partial_fit(second).coefs_[0], model.partial_fit(second).coefs_[0]
    )
    # `fit` begins anew.
    whole = make(batch_size=50, model="mlp", hidden_layer_sizes=(8,)).fit(first)
    assert_array_equal(model.fit(first).coefs_[0], whole.coefs_[0])
    assert not hasattr(model, "_stream")


@pytest.mark.parametrize("kind", ["one", "few", "equal", "weightless"])
def test_samples_that_are_few_or_of_one_cluster_change_no_temperature(kind):
    X = CENTERS[np.arange(240) % 4] / 3 + np.random.RandomState(0).normal(size=(240, 2))
    model = make().fit(X)
    before = model.temperature_
    batch = {"one": X[:1], "few": X[:8], "equal": np.repeat(X[:1], 99, axis=0)}
    weights = None
    if kind == "weightless":
        weights = (np.arange(240) < 8).astype(float)
    model.partial_fit(batch.get(kind, X), sample_weight=weights)
    assert model.temperature_ == before
    certainty = model.predict_proba(X).max(axis=1)
    assert 0.6 < certainty.mean() < 0.95
    model.partial_fit(X[:100])
    assert model.temperature_ != before


def test_a_matrix_in_every_call():
    first, second = (X for X, _ in batches(2, n_batches=2))
    model = make(batch_size=50).partial_fit(first, precomputed=linear_kernel(first))
    with pytest.raises(ValueError, match="precomputed.*in every call.*Got None"):
        model.partial_fit(second)
    model.partial_fit(second, precomputed=linear_kernel(second))
    with pytest.raises(ValueError, match="precomputed.*Got a matrix"):
        make().fit(first).partial_fit(second, precomputed=linear_kernel(second))


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "wasserstein"},
        {"kernel": "rbf", "gamma": "scale"},
        {"objective": "kl", "l2": 0.1},
        {"model": "mlp", "hidden_layer_sizes": (9, 9)},
    ],
)
def test_every_objective_and_dtype(params):
    rows = slice(60 if "objective" in params else None)
    model = make(**params, n_init=1)
    stream = list(batches(3, n_batches=3))
    for X, _ in stream:
        model.partial_fit(X[rows].astype(np.float32))
    X, y = stream[-1]
    assert model.coefs_[0].dtype == np.float32
    assert adjusted_rand_score(y[rows], model.predict(X[rows])) > 0.9
    # A batch of float64, and of fewer samples than clusters.
    model.partial_fit(X[:3])
    assert model.coefs_[0].dtype == np.float32 and model.n_clusters_ <= 3
