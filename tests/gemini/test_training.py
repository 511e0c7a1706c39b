"""Every gradient of every model, objective and mode."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skdiffclust._constraints import as_constraints
from skdiffclust.gemini._models import MODELS
from skdiffclust.gemini._objectives import OBJECTIVES
from skdiffclust.gemini._problem import Problem
from skdiffclust.gemini._relations import make_relation
from skdiffclust.gemini._training import loss_and_gradients

RELATIONS = {"kernel": ["linear", "rbf"], "distance": ["euclidean"], None: [None]}
CASES = [
    (name, mode, relation)
    for name, row in OBJECTIVES.items()
    for mode in ("ova", "ovo")
    for relation in RELATIONS[row.relation]
]
per_model = pytest.mark.parametrize("kind", list(MODELS))


def problem(
    kind, name="mmd", mode="ova", choice="linear", n=7, d=3, k=3, *, seed, **params
):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, d))
    weights = rng.uniform(0.5, 1.5, n)
    relation = make_relation(OBJECTIVES[name].relation, X, choice, choice)
    sizes = {"linear": [d, k], "free": [n, k]}.get(kind, [d, 5, 4, k])
    model = MODELS[kind].with_random_weights(sizes, rng, np.float64)
    objective = OBJECTIVES[name].with_gradient(mode)
    rows = np.arange(n) if kind == "free" else X
    return (
        model,
        Problem(rows, weights / weights.sum(), relation, objective, **params),
        rng,
    )


def check_central_differences(model, task, rows=None):
    _, _, gradients = loss_and_gradients(model, task, rows)
    for array, gradient in zip(model.arrays, gradients, strict=True):
        assert array.shape == gradient.shape
        for index in np.ndindex(array.shape):
            value, sides = array[index], []
            for step in (1e-6, -1e-6):
                array[index] = value + step
                sides.append(loss_and_gradients(model, task, rows)[0])
            array[index] = value
            assert_allclose(gradient[index], (sides[0] - sides[1]) / 2e-6, atol=1e-6)


@per_model
@pytest.mark.parametrize("name, mode, choice", CASES)
def test_every_weight_against_central_differences(
    kind, name, mode, choice, global_random_seed
):
    model, task, _ = problem(kind, name, mode, choice, seed=global_random_seed)
    check_central_differences(model, task)


@per_model
def test_everything_else_in_the_loss_against_central_differences(
    kind, global_random_seed
):
    constraints = as_constraints(7, [0, 0, 1, -1, -1, -1, -1], [[3, 4]], [[3, 5]])
    model, task, _ = problem(
        kind, l2=(0.3, 0.2), constraints=constraints, seed=global_random_seed
    )
    check_central_differences(model, task)
    check_central_differences(model, task, np.array([0, 1, 3, 4, 5]))
