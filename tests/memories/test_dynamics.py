"""Energy and recall: guarantees of the dynamics, and errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from skdiffclust.memories import energy, entropy, recall

METRICS = ("euclidean", "cosine", "manhattan")


def problem(seed, n=8, d=3, k=4):
    """Return rows, memories, and weights of the memories."""
    rng = np.random.RandomState(seed)
    return rng.randn(n, d), rng.randn(k, d), rng.uniform(0.2, 3.0, k)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("weighted", [False, True])
def test_energy_is_the_formula(metric, weighted, global_random_seed):
    X, R, w = problem(global_random_seed)
    w = w if weighted else np.ones(len(R))
    if metric == "euclidean":
        far = cdist(X, R, "sqeuclidean")
    elif metric == "manhattan":
        far = cdist(X, R, "cityblock")
    else:
        far = cdist(X, R, "cosine") - 1.0
    expected = -logsumexp(-1.7 * far, b=w, axis=1) / 1.7
    np.testing.assert_allclose(energy(X, R, 1.7, weights=w, metric=metric), expected)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 12),
    d=st.integers(1, 5),
    k=st.integers(1, 6),
    step=st.floats(0.01, 1.99),
    beta=st.floats(-3, 3).map(lambda e: 10.0**e),
    metric=st.sampled_from(METRICS),
)
def test_energy_never_rises(seed, n, d, k, step, beta, metric):
    X, R, w = problem(seed, n, d, k)
    step = min(step, 1.0) if metric == "manhattan" else step
    before = energy(X, R, beta, weights=w, metric=metric)
    moved = recall(X, R, beta, n_steps=1, weights=w, metric=metric, step_size=step)
    after = energy(moved, R, beta, weights=w, metric=metric)
    assert np.all(after <= before + 1e-10 * (1 + np.abs(before)))


def test_an_invertible_map_commutes_with_the_steps(global_random_seed):
    # A Mahalanobis distance is therefore the Euclidean one of mapped samples.
    X, R, w = problem(global_random_seed + 3)
    turn = np.linalg.qr(np.random.RandomState(global_random_seed).randn(3, 3))[0]
    moved = recall(X, R, 0.8, n_steps=2, weights=w, step_size=1.5)
    turned = recall(X @ turn, R @ turn, 0.8, n_steps=2, weights=w, step_size=1.5)
    np.testing.assert_allclose(moved @ turn, turned)


@pytest.mark.parametrize("metric", METRICS)
def test_high_inverse_temperature_recalls_the_nearest_memory(
    metric, global_random_seed
):
    X, R, _ = problem(global_random_seed)
    steps = 60 if metric == "cosine" else 1
    moved = recall(X, R, 1e12, metric=metric, n_steps=steps)
    name = {"euclidean": "sqeuclidean", "manhattan": "cityblock"}.get(metric, metric)
    nearest = R[cdist(X, R, name).argmin(axis=1)]
    if metric == "cosine":
        nearest = nearest / np.linalg.norm(nearest, axis=1, keepdims=True)
    np.testing.assert_allclose(moved, nearest, atol=1e-10)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("exponent", [-300, -150, -6, 6, 150, 300])
def test_finite_at_every_temperature(metric, exponent, global_random_seed):
    X, R, w = problem(global_random_seed)
    beta = 10.0**exponent
    assert np.isfinite(energy(X, R, beta, weights=w, metric=metric)).all()
    assert np.isfinite(entropy(X, R, beta, weights=w, metric=metric)).all()
    assert np.isfinite(recall(X, R, beta, weights=w, metric=metric)).all()
    scaled = energy(X * 1e100, R * 1e100, beta, metric=metric)
    assert np.isfinite(scaled).all()


def test_mask_holds_what_is_seen(global_random_seed):
    X, R, _ = problem(global_random_seed + 7)
    mask = np.random.RandomState(global_random_seed).rand(*X.shape) < 0.5
    moved = recall(X, R, 2.0, mask=mask)
    assert np.array_equal(moved[mask], X[mask])
    assert not np.isclose(moved[~mask], X[~mask]).any()


def test_a_sample_opposite_to_its_memory_stays_where_it_is(global_random_seed):
    memory = np.random.RandomState(global_random_seed).randn(1, 3)
    opposite = -memory / np.linalg.norm(memory)
    for step_size in (0.5, 1.0, 1.5):
        found = recall(3 * opposite, memory, 2.0, step_size=step_size, metric="cosine")
        np.testing.assert_allclose(np.abs(found), np.abs(opposite))
    found = recall(3 * opposite, memory, 2.0, metric="cosine")
    np.testing.assert_allclose(found, opposite)


def test_entropy_is_between_zero_and_log_k(global_random_seed):
    X, R, _ = problem(global_random_seed)
    np.testing.assert_allclose(entropy(X, R, 1e-12), np.log(len(R)))
    np.testing.assert_allclose(entropy(X, R, 1e12), 0.0, atol=1e-12)


def test_weights_enlarge_a_basin():
    X = np.linspace(0, 1, 50)[:, None]
    R = np.array([[0.0], [1.0]])
    plain = recall(X, R, 5.0, n_steps=30)[:, 0] < 0.5
    heavy = recall(X, R, 5.0, n_steps=30, weights=[8.0, 1.0])[:, 0] < 0.5
    assert heavy.sum() > plain.sum()


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(inverse_temperature=0.0), "inverse_temperature.*positive"),
        (dict(inverse_temperature=np.nan), "inverse_temperature.*positive"),
        (dict(step_size=2.0), "step_size.*below 2"),
        (dict(step_size=0.0), "step_size.*positive"),
        (dict(step_size=np.nan), "step_size.*positive"),
        (dict(step_size=1.5, metric="manhattan"), "step_size.*at most 1"),
        (dict(metric="chebyshev"), "metric.*one of"),
        (dict(weights=[1.0, -1.0, 1.0, 1.0]), "weights.*positive"),
        (dict(weights=[1.0, 0.0, 1.0, 1.0]), "weights.*positive"),
        (dict(weights=[1.0]), "weights.*one for each of 4"),
        (dict(n_steps=-1), "n_steps.*at least 0"),
        (dict(n_steps=1.5), "n_steps.*integer"),
        (dict(X=[[np.nan, 0, 0]]), "'X' parameter must be a finite"),
        (dict(X=[[1e300, 0, 0]]), "distances overflow"),
        (dict(X=[[1.0, 2.0]]), "must have 3 features"),
        (dict(X=[[0.0, 0.0, 0.0]], metric="cosine"), "must not be zero"),
        (dict(X=np.ma.masked_array(np.ones((2, 3)))), "masked array"),
    ],
)
def test_wrong_arguments_are_refused(change, message, global_random_seed):
    X, R, _ = problem(global_random_seed)
    arguments = {"X": X, "memories": R, "inverse_temperature": 1.0, **change}
    with pytest.raises(ValueError, match=message):
        recall(**arguments)
