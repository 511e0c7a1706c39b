"""The generators, against the moments that their definitions imply."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skdiffclust.datasets import make_celeux_one, make_celeux_two

SCENARIOS = {1: (30, 25), 2: (30, 25), 3: (300, 25), 4: (300, 25), 5: (300, 100)}


@pytest.mark.parametrize("scenario, shape", SCENARIOS.items())
def test_scenarios(scenario, shape, global_random_seed):
    X, y, informative = make_celeux_one(scenario, random_state=global_random_seed)
    assert X.shape == shape and y.dtype == np.int64
    assert informative.nonzero()[0].tolist() == [0, 1, 2, 3, 4]
    again = make_celeux_one(scenario, random_state=global_random_seed)
    assert_array_equal(again.X, X)


def test_moments_of_the_first_problem():
    draws = [make_celeux_one(4, random_state=seed) for seed in range(40)]
    X, y = (np.concatenate([getattr(d, name) for d in draws]) for name in "Xy")
    for component, sign in enumerate([1.7, -1.7, 0.0]):
        rows = X[y == component]
        assert abs(len(rows) / len(X) - 1 / 3) < 0.02
        assert_allclose(rows[:, :5].mean(axis=0), sign, atol=0.08)
        assert_allclose(np.cov(rows.T), np.eye(25), atol=0.1)


def test_moments_of_the_second_problem(global_random_seed):
    X, y, _ = make_celeux_two(100_000, random_state=global_random_seed)
    assert_allclose(X[y == 3][:, :2].mean(axis=0), [4, 2], atol=0.03)
    assert_allclose(X[:, 11:].mean(axis=0), [3.2, 3.6, 4], atol=0.02)
    # Regressing on the first two gives back equations (16) and (17).
    design = np.c_[np.ones(len(X)), X[:, :2]]
    fit, *_ = np.linalg.lstsq(design, X[:, 2:11], rcond=None)
    assert_allclose(fit[0], [0, 0, 0.4, 0.8, 1.2, 1.6, 2, 2.4, 2.8], atol=0.04)
    assert_allclose(fit[1], [0.5, 2, 0, -1, 2, 0.5, 4, 3, 2], atol=0.02)
    assert_allclose(fit[2], [1, 0, 3, 2, -4, 0, 0.5, 0, 1], atol=0.02)
    residual = np.cov((X[:, 2:11] - design @ fit).T)
    assert_allclose(np.diag(residual)[:5], [1, 1, 1, 0.5, 0.5], atol=0.03)
    assert_allclose(np.linalg.eigvalsh(residual[5:7, 5:7]), [1, 3], atol=0.05)
    assert_allclose(np.linalg.eigvalsh(residual[7:, 7:]), [2, 6], atol=0.1)
    assert abs(residual[0, 8]) < 0.03


@pytest.mark.parametrize(
    "function, args, message",
    [
        (make_celeux_one, (6,), "'scenario' parameter of make_celeux_one"),
        (make_celeux_one, ([1],), "'scenario' parameter of make_celeux_one"),
        (make_celeux_two, (0,), "'n_samples' parameter of make_celeux_two"),
    ],
)
def test_every_wrong_parameter_has_its_message(function, args, message):
    with pytest.raises(ValueError, match=message):
        function(*args)
