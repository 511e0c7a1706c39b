"""The compiled loops against the array operations that define them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

from skdiffclust._encoder import Encoder
from skdiffclust.gemini._objectives import OBJECTIVES, mmd_of_logits
from skdiffclust.gemini._penalties import GroupLasso, Groups
from skdiffclust.gemini._relations import make_relation

per_mode = pytest.mark.parametrize("mode", ["ova", "ovo"])


def both(logits, X, weights, mode):
    """Return the value and minus its gradient by the logits, compiled and defined."""
    relation = make_relation("kernel", X, "linear", None)
    P = softmax(logits, axis=1)
    value, slope = OBJECTIVES["mmd"].with_gradient(mode)(P, weights, relation)
    slope = P * ((P * slope).sum(axis=1, keepdims=True) - slope)
    return mmd_of_logits(logits, weights, relation, mode), (value, slope)


@per_mode
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (66, 5), (130, 33), (7, 40)])
@pytest.mark.parametrize("n_clusters", [1, 2, 5, 12])
@pytest.mark.parametrize("dtype, atol", [(np.float64, 1e-12), (np.float32, 5e-6)])
def test_value_and_gradient_are_those_of_the_definition(
    mode, shape, n_clusters, dtype, atol, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    logits = rng.normal(size=(shape[0], n_clusters)).astype(dtype)
    weights = rng.uniform(0.5, 1.5, shape[0]).astype(dtype)
    X = rng.normal(size=shape).astype(dtype)
    found, expected = both(logits, X, weights / weights.sum(), mode)
    assert np.isfinite(expected[1]).all()
    assert_allclose(found[0], expected[0], atol=atol)
    assert_allclose(found[1], expected[1], atol=atol)


@per_mode
def test_equal_rows_have_no_gradient(mode, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = np.tile(rng.normal(size=4), (30, 1))
    logits = np.tile(rng.normal(size=3), (30, 1))
    (value, slope), _ = both(logits, X, np.full(30, 1 / 30), mode)
    assert value == 0 and not slope.any()


@per_mode
def test_one_row_for_each_cluster_at_the_ends_of_the_simplex(mode):
    (value, _), (expected, _) = both(np.eye(3) * 1e4, np.eye(3), np.ones(3) / 3, mode)
    assert value > 0
    assert_allclose(value, expected, rtol=1e-14)


@pytest.mark.parametrize("order", ["C", "F"])
def test_shrinking_in_place_leaves_plus_zero(order):
    weights = np.array([[-3.0, -4.0], [-1.0, 0.0], [0.0, 0.0]], order=order)
    GroupLasso(Groups.of(None, 3), 1.0).prox(Encoder([weights], [np.zeros(2)]), 1)
    assert_allclose(weights, [[-2.4, -3.2], [0, 0], [0, 0]])
    assert not np.signbit(weights[1:]).any()
