"""The proximal operators, against their optimality conditions and random points."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import FunctionTransformer

from skdiffclust import SparseGEMINI
from skdiffclust._encoder import Encoder
from skdiffclust.gemini._penalties import GroupLasso, Groups, hierarchical_prox

GROUPS = [None, [0, 0, 1, 2, 2, 2, 3], [5, 1, 5, 1, 5, 1, 1]]


def problem(seed, dtype=np.float64):
    rng = np.random.RandomState(seed)
    skip = rng.normal(size=(7, 3)).astype(dtype)
    hidden = rng.normal(scale=rng.choice([0.01, 1, 10]), size=(7, 4)).astype(dtype)
    return skip, hidden, rng.uniform(0, 2), rng


@pytest.mark.parametrize("ids", GROUPS)
@pytest.mark.parametrize("seed", range(5))
def test_group_lasso_meets_its_optimality_conditions(ids, seed, global_random_seed):
    v, _, threshold, _ = problem(seed + 1000 * global_random_seed)
    shrunk = v.copy()
    model = Encoder([shrunk], [np.zeros(3)])
    penalty = GroupLasso(Groups.of(ids, 7), threshold)
    penalty.prox(model, 1.0)
    total = 0.0
    ids = np.arange(7) if ids is None else np.array(ids)
    for group in np.unique(ids):
        before, after = v[ids == group], shrunk[ids == group]
        norm = np.linalg.norm(after)
        total += norm
        if norm == 0:
            assert np.linalg.norm(before) <= threshold
        else:
            assert_allclose(before - after, threshold * after / norm, atol=1e-12)
        assert set(penalty.support(model)[ids == group]) == {norm > 0}
    assert_allclose(penalty.value(model), total)


@pytest.mark.parametrize("ids", GROUPS)
@pytest.mark.parametrize("hierarchy", [0.0, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("seed", range(5))
def test_hierarchical_prox_beats_feasible_points(
    ids, hierarchy, seed, global_random_seed
):
    seed += 1000 * global_random_seed
    skip, hidden, threshold, rng = problem(seed)
    groups = Groups.of(ids, 7)
    theta, W = skip.copy(), hidden.copy()
    hierarchical_prox(theta, W, threshold, hierarchy, groups)

    def objective(theta, W):
        gaps = np.square(theta - skip).sum() + np.square(W - hidden).sum()
        return gaps / 2 + threshold * groups.norms(theta).sum()

    bound = hierarchy * groups.by_feature(groups.norms(theta))[:, None]
    assert (np.abs(W) <= bound * (1 + 1e-12)).all()
    best = objective(theta, W)
    for scale in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(50):
            other = theta + scale * rng.normal(size=theta.shape)
            other *= rng.uniform(size=(7, 1)) < 0.8
            box = hierarchy * groups.by_feature(groups.norms(other))[:, None]
            inside = np.clip(W + scale * rng.normal(size=W.shape), -box, box)
            assert objective(other, inside) >= best - 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_hierarchical_prox_is_the_best_of_a_fine_search_over_the_norm(
    seed, global_random_seed
):
    # With the norm s of one group given, theta and W follow; s is searched.
    seed += 1000 * global_random_seed
    rng = np.random.RandomState(seed)
    skip, hidden = rng.normal(size=(1, 3)), rng.normal(size=(1, 5))
    threshold, hierarchy = 0.5, 0.7
    theta, W = skip.copy(), hidden.copy()
    hierarchical_prox(theta, W, threshold, hierarchy, Groups.of(None, 1))
    norm = np.linalg.norm(skip)
    s = np.linspace(0, 5, 200_001)
    outside = np.maximum(np.abs(hidden[0]) - hierarchy * s[:, None], 0)
    values = (s - norm) ** 2 / 2 + np.square(outside).sum(axis=1) / 2 + threshold * s
    assert abs(np.linalg.norm(theta) - s[values.argmin()]) < 1e-4


def test_a_skip_weight_of_zero_is_defined():
    groups = Groups.of(None, 2)
    theta, W = np.zeros((2, 4)), np.array([[1.0, -2.0], [0.0, 0.0]])
    with np.errstate(all="raise"):
        hierarchical_prox(theta, W, 0.0, 1.0, groups)
    # min s² / 2 + (1 - s)₊² / 2 + (2 - s)₊² / 2 is at s = 1, theta of equal entries.
    assert_allclose(theta, [[0.5] * 4, [0.0] * 4])
    assert_allclose(W, [[1.0, -1.0], [0.0, 0.0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_group_that_leaves_is_exactly_zero_in_both(dtype, global_random_seed):
    skip, hidden, _, _ = problem(global_random_seed, dtype)
    groups = Groups.of([0, 0, 0, 1, 1, 1, 1], 7)
    skip[:3] *= 1e-3
    hidden[:3] *= 1e-3 / np.abs(hidden).max()
    hierarchical_prox(skip, hidden, 1.0, 10.0, groups)
    assert_array_equal(skip[:3], 0)
    assert_array_equal(hidden[:3], 0)
    assert skip[3:].any() and hidden[3:].any()
    assert skip.dtype == hidden.dtype == dtype


# ------------------------------------------------------------------ factors


@pytest.mark.few_epochs
@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_a_factor_is_a_scale_of_the_features_that_the_model_sees(model):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 6))
    X[:, :2] += 3 * np.repeat([-1, 1], 30)[:, None]
    factors = rng.uniform(0.5, 2, 6)
    shrunk = FunctionTransformer(lambda X: X * factors)
    params = {"model": model, "mode": "ovo", "n_init": 1, "random_state": 0}
    params |= {"hidden_layer_sizes": 8, "hierarchy": 0.0}
    with_factors = SparseGEMINI(2, penalty_factor=factors, **params)
    by_scale = SparseGEMINI(2, kernel=shrunk, **params)
    with_factors.path(X)
    by_scale.path(X / factors)
    assert_array_equal(with_factors.get_support(), by_scale.get_support())


def test_a_small_factor_does_not_delay_the_first_penalty():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(90, 8))
    X[:, :2] += 4 * np.repeat([[0, 0], [1, 0], [0, 1]], 30, axis=0)
    factors = np.r_[np.ones(7), 1e-4]
    options = {"alpha_multiplier": 1.2, "min_features": 2}
    plain = SparseGEMINI(3, n_init=1, random_state=0).path(X, **options)
    sparse = SparseGEMINI(3, penalty_factor=factors, n_init=1, random_state=0)
    path = sparse.path(X, **options)
    assert_allclose(path.alphas[1], plain.alphas[1])
    assert_array_equal(sparse.get_support(indices=True), [0, 1, 7])


def test_redundancy_is_what_regressions_leave(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(60, 6))
    X[:, :2] += 2 * np.repeat([-1, 1], 30)[:, None]
    X[:, 2] = X[:, 1] + 0.01 * X[:, 2]  # a share below the least factor
    X[:, 3] += X[:, 0]
    X[:, 5] = 3.0
    Z = X - X.mean(axis=0)
    squares = np.maximum(np.square(Z).sum(axis=0), 1e-9)
    for ids in (np.arange(6), np.array([1, 0, 1, 2, 2, 3])):
        factors = np.ones(6)  # that of the constant feature, too
        for own in (ids == group for group in set(ids[:5])):
            rest = Z - Z[:, ~own] @ np.linalg.lstsq(Z[:, ~own], Z)[0]
            share = np.square(rest).sum(axis=0) / squares
            factors[own] = max(np.sqrt(share[own].mean()), 0.05)
        params = {"groups": ids, "n_init": 1, "random_state": 0}
        given = SparseGEMINI(2, penalty_factor=factors, **params)
        found = SparseGEMINI(2, penalty_factor="redundancy", **params)
        expected, path = (each.path(X, alpha_multiplier=1.3) for each in (given, found))
        assert_allclose(path.alphas, expected.alphas, rtol=1e-4)
        assert_allclose(path.penalties[0], expected.penalties[0], rtol=1e-4)
        assert_array_equal(path.supports, expected.supports)
    with pytest.raises(ValueError, match="n_features=6 and n_samples=5 instead"):
        found.fit(X[:5])


def test_exact_copies_leave_a_path_of_redundancy(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(150, 8))
    X[:, :2] += 5 * np.repeat([[0, 0], [1, 0], [0, 1]], 50, axis=0)
    X[:, 6] = X[:, 0]
    sparse = SparseGEMINI(3, penalty_factor="redundancy", n_init=1, random_state=0)
    sparse.path(X)
    assert_array_equal(sparse.get_support(indices=True), [0, 1, 6])
    # The two columns of a category are one group, which the others do not explain.
    X[:, 2] = rng.randint(2, size=150)
    X[:, 7] = 1 - X[:, 2]
    sparse.set_params(groups=[0, 1, 2, 3, 4, 5, 6, 2]).path(X)
    assert_array_equal(sparse.get_support(indices=True), [0, 1, 6])


@pytest.mark.parametrize("factors", [np.ones(3), np.zeros(6), -np.ones(6), "no"])
def test_factors_are_refused(factors):
    X = np.random.RandomState(0).normal(size=(20, 6))
    with pytest.raises(ValueError, match="'penalty_factor' parameter of SparseGEMINI"):
        SparseGEMINI(2, penalty_factor=factors).fit(X)
    with pytest.raises(ValueError, match="the same for all features of a group"):
        groups = [0, 0, 1, 1, 2, 2]
        SparseGEMINI(2, groups=groups, penalty_factor=np.arange(1, 7)).fit(X)


@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.few_epochs
def test_penalties_of_a_path_have_the_factors(model, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(40, 4)) + 3 * np.repeat([-1, 1], 20)[:, None]
    factors = np.array([0.5, 1.0, 2.0, 4.0])
    sparse = SparseGEMINI(
        2,
        model=model,
        penalty_factor=factors,
        hidden_layer_sizes=4,
        max_iter=5,
        n_init=1,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = sparse.path(X, alpha_multiplier=2)
    norms = [np.linalg.norm(path.weights(step)[0], axis=1) for step in range(len(path))]
    assert_allclose(path.penalties, norms @ factors)
