"""The compiled loops against the array operations that define them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_approximation import Nystroem

from skdiffclust._encoder import Encoder
from skdiffclust.gemini._objectives import OBJECTIVES
from skdiffclust.gemini._penalties import GroupLasso, Groups
from skdiffclust.gemini._problem import Problem
from skdiffclust.gemini._relations import make_relation
from skdiffclust.gemini._training import loss_and_gradients

per_mode = pytest.mark.parametrize("mode", ["ova", "ovo"])


def task(X, mode, n_clusters, kernel="linear", seed=0, **params):
    rng = np.random.RandomState(seed)
    relation = make_relation("kernel", X, kernel, None)
    weights = rng.uniform(0.5, 1.5, len(X)).astype(X.dtype)
    problem = Problem(
        X,
        weights / weights.sum(),
        relation,
        OBJECTIVES["mmd"].with_gradient(mode),
        compiled_mode=mode,
        **params,
    )
    sizes = [X.shape[1], n_clusters]
    return problem, Encoder.with_random_weights(sizes, rng, X.dtype)


def both(problem, model, rows=None):
    defined = loss_and_gradients(model, replace(problem, compiled_mode=None), rows)
    return loss_and_gradients(model, problem, rows), defined


# NumPy once reported an invalid value in a product of finite float32 arrays (66, 5) and
# (5, 1), not seen again since; all values are checked to be finite below.
@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul")
@per_mode
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (66, 5), (130, 33), (7, 40)])
@pytest.mark.parametrize("n_clusters", [1, 2, 5, 12])
@pytest.mark.parametrize("dtype, atol", [(np.float64, 1e-12), (np.float32, 5e-6)])
def test_value_and_gradients_are_those_of_the_definition(
    mode, shape, n_clusters, dtype, atol, global_random_seed
):
    X = np.random.RandomState(global_random_seed + 1).normal(size=shape).astype(dtype)
    for rows in (None, np.arange(0, len(X), 2)):
        found, expected = both(
            *task(X, mode, n_clusters, l2=0.1, seed=global_random_seed), rows
        )
        assert_allclose(found[:2], expected[:2], atol=atol)
        assert np.isfinite(expected[:2]).all()
        for one, other in zip(found[2], expected[2], strict=True):
            assert one.dtype == other.dtype == dtype
            assert np.isfinite(other).all()
            assert_allclose(one, other, atol=atol)


@per_mode
def test_features_of_a_transformer(mode, global_random_seed):
    X = np.random.RandomState(global_random_seed + 1).normal(size=(50, 3))
    nystroem = Nystroem(n_components=9, random_state=global_random_seed)
    found, expected = both(*task(X, mode, 3, nystroem, global_random_seed))
    assert_allclose(found[1], expected[1], atol=1e-14)
    assert_allclose(found[2][0], expected[2][0], atol=1e-14)


@per_mode
@pytest.mark.parametrize("n_clusters", [1, 2, 5])
@pytest.mark.parametrize("dtype, atol", [(np.float64, 1e-12), (np.float32, 5e-6)])
def test_logits_of_perceptrons(mode, n_clusters, dtype, atol, global_random_seed):
    rng = np.random.RandomState(global_random_seed + 1)
    X = rng.normal(size=(70, 6)).astype(dtype)
    problem, _ = task(X, mode, n_clusters, l2=0.1, seed=global_random_seed)
    model = Encoder.with_random_weights([6, 4, n_clusters], rng, dtype)
    for rows in (None, np.arange(0, len(X), 2)):
        found, expected = both(problem, model, rows)
        assert_allclose(found[:2], expected[:2], atol=atol)
        for one, other in zip(found[2], expected[2], strict=True):
            assert one.dtype == other.dtype == dtype
            assert_allclose(one, other, atol=atol)


@per_mode
def test_equal_rows_have_no_gradient(mode, global_random_seed):
    row = np.random.RandomState(global_random_seed + 1).normal(size=4)
    X = np.tile(row, (30, 1)) - 0.3
    _, value, gradients = both(*task(X, mode, 3, seed=global_random_seed))[0]
    assert value == 0
    assert all((gradient == 0).all() for gradient in gradients)


@pytest.mark.parametrize("order", ["C", "F"])
def test_shrinking_in_place_leaves_plus_zero(order):
    weights = np.array([[-3.0, -4.0], [-1.0, 0.0], [0.0, 0.0]], order=order)
    GroupLasso(Groups.of(None, 3), 1.0).prox(Encoder([weights], [np.zeros(2)]), 1)
    assert_allclose(weights, [[-2.4, -3.2], [0, 0], [0, 0]])
    assert not np.signbit(weights[1:]).any()


@per_mode
def test_no_numbers_are_no_objective_of_zero(mode):
    problem, model = task(np.random.RandomState(0).normal(size=(30, 4)), mode, 3)
    model.weights[0][0, 0] = np.nan
    found, defined = both(problem, model)
    assert np.isnan(found[0]) and np.isnan(defined[0])
