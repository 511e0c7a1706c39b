"""The solver of penalised linear models: its parts and its certificates."""

import warnings

import numpy as np
import pytest
from gemini_assignments import objective_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from skdiffclust import SparseGEMINI
from skdiffclust._constraints import as_constraints
from skdiffclust._encoder import Encoder
from skdiffclust._optimisers import Momentum
from skdiffclust.datasets import make_celeux_one
from skdiffclust.gemini import _kernels as kernels
from skdiffclust.gemini._models import MODELS
from skdiffclust.gemini._path import expand
from skdiffclust.gemini._penalties import (
    GroupLasso,
    Groups,
)
from skdiffclust.gemini._problem import Samples, make_problem
from skdiffclust.gemini._solver import GroupSolver, linear_loss
from skdiffclust.gemini._training import loss_and_gradients, train_model
from skdiffclust.gemini._walk import Task, largest_alpha

GROUPS = [None, [0, 0, 1, 2, 2, 2, 3, 4]]


def rows(seed=0, n=60, d=8):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, d))
    X[:, :2] += 1.5 * rng.normal(size=(3, 2))[rng.randint(3, size=n)]
    return X


def task_of(X, params=(), links=(None, None, None)):
    """Return the Problem of SparseGEMINI on X."""
    settings = SparseGEMINI(3, **dict(params))._settings()
    constraints = as_constraints(len(X), *links)
    return make_problem(settings, Samples.of(X, None, constraints=constraints))


def solved(task, penalty, seed=0, max_iter=2000):
    rng = np.random.RandomState(seed)
    d = task.X.shape[1]
    solver = GroupSolver(task, rng.normal(size=(d, 3)), np.zeros(3), penalty, 0.01)
    losses = []
    for _ in range(max_iter):
        solver.iterate()
        losses.append(solver.point.loss)
        if solver.is_done:
            break
    return solver, losses


def residual(task, model, penalty, alpha, ids):
    """The certificate, from its definition and nothing else."""
    _, _, (derivative, free) = loss_and_gradients(model, task)
    W, worst = model.weights[0], np.linalg.norm(free) / alpha
    for group in np.unique(ids):
        w, u = W[ids == group], derivative[ids == group]
        moved = w - u
        norm = np.linalg.norm(moved)
        target = moved * max(0, 1 - alpha / norm) if norm else moved
        worst = max(worst, np.linalg.norm(w - target) / alpha)
    return worst


# ------------------------------------------------------------------ parts


def test_directions_are_those_of_a_dense_update(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    A = rng.normal(size=(5, 5))
    A = A @ A.T + np.eye(5)
    moves = rng.normal(size=(3, 5))
    changes = moves @ A
    gradient = rng.normal(size=5)
    for n_pairs in (0, 1, 2, 3, 4, 5):
        if n_pairs == 0:
            expected = -gradient
        else:
            used = [i % 3 for i in range(max(0, n_pairs - 3), n_pairs)]
            s, y = moves[used[-1]], changes[used[-1]]
            H = np.eye(5) * (s @ y) / (y @ y)
            for i in used:
                s, y = moves[i], changes[i]
                V = np.eye(5) - np.outer(s, y) / (s @ y)
                H = V @ H @ V.T + np.outer(s, s) / (s @ y)
            expected = -H @ gradient
        found = kernels.quasi_newton(gradient, moves, changes, n_pairs)
        assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "params", [{"mode": "ova"}, {"mode": "ovo"}, {"objective": "hellinger"}]
)
@pytest.mark.parametrize("shape", [(20, 6), (9, 14)])
def test_flat_loss_and_gradient_are_those_of_the_model(params, shape):
    rng = np.random.RandomState(0)
    task = task_of(rng.normal(size=shape), {**params, "l2": 0.1})
    columns = np.array([4, 0, 5])
    W, b = np.zeros((shape[1], 3)), rng.normal(size=3)
    W[columns] = rng.normal(size=(3, 3))
    loss, value, (by_weights, by_biases) = loss_and_gradients(Encoder([W], [b]), task)
    z = np.concatenate([W[columns].ravel(), b])
    found = linear_loss(task, 3, columns)(z)
    assert_allclose(found[0], loss, rtol=1e-10)
    assert_allclose(found[1], value, rtol=1e-10)
    expected = np.concatenate([by_weights[columns].ravel(), by_biases])
    assert_allclose(found[2], expected, atol=1e-10)


# ------------------------------------------------------------------ solutions


@pytest.mark.parametrize("ids", GROUPS)
@pytest.mark.parametrize(
    "params",
    [
        {"mode": "ova"},
        {"mode": "ovo"},
        {"mode": "ovo", "l2": 0.01},
        {"kernel": "rbf", "gamma": "scale"},
        {"objective": "kl", "l2": 0.01},
        {"objective": "chi2", "l2": 0.01},
        {"objective": "hellinger", "l2": 0.01},
    ],
)
def test_solutions_are_certified_by_the_definition(params, ids, global_random_seed):
    task = task_of(rows(global_random_seed), params)
    for alpha in (0.01, 0.05, 0.2):
        penalty = GroupLasso(Groups.of(ids, 8), alpha)
        solver, losses = solved(task, penalty, global_random_seed)
        assert solver.is_done and solver.residual <= 0.01
        model = Encoder(*([array] for array in solver.arrays(np.float64)))
        every = np.arange(8) if ids is None else np.array(ids)
        expected = residual(task, model, penalty, alpha, every)
        assert_allclose(solver.residual, expected, rtol=1e-6, atol=1e-9)
        assert_allclose(
            penalty.certificate(model, loss_and_gradients(model, task)[2])[0],
            expected,
            rtol=1e-6,
            atol=1e-9,
        )
        assert losses[-1] <= losses[0]


def test_a_path_of_wide_data_begins_where_it_can_be_solved():
    # Separated with room to spare: a tenth of the first penalty selects more features,
    # and is not solved within these iterations.
    X = np.random.RandomState(0).normal(size=(40, 400))
    shifts = np.random.RandomState(1).normal(size=(3, 60))
    X[:, :60] += shifts[np.arange(40) % 3]
    sparse = SparseGEMINI(3, max_iter=150, random_state=0)
    path = sparse.path(X, alpha_multiplier=1.3)
    assert len(path) > 20 and (path.kkts[1:] <= 0.01).all()
    # Fewer iterations do not solve it there either, but at ten times that penalty.
    later = sparse.set_params(max_iter=40, n_init=1).path(X, alpha_multiplier=1.3)
    assert_allclose(later.alphas[1], 10 * path.alphas[1])
    assert (later.kkts[1:] <= 0.01).all()


@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize(
    "name",
    [
        "wine",
        "cancer",
        1,
        3,
        *(pytest.param(n, marks=pytest.mark.long) for n in (2, 5)),
    ],
)
def test_every_step_of_default_paths_is_certified(name, mode):
    if isinstance(name, int):
        X = make_celeux_one(name, random_state=0).X
    else:
        X = scale({"wine": load_wine, "cancer": load_breast_cancer}[name]().data)
    sparse = SparseGEMINI(3, mode=mode, n_init=1, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "SparseGEMINI found", ConvergenceWarning)
        path = sparse.path(X)
        assert np.isnan(path.kkts[0]) and (path.kkts[1:] <= 0.01).all()
        assert sparse.kkt_ == path.kkts[path.chosen] or path.chosen == 0
        # One penalty of the path, alone: the same solution.
        step = len(path) // 3
        alone = SparseGEMINI(
            3, mode=mode, n_init=1, random_state=0, alpha=path.alphas[step]
        ).fit(X)
        assert_array_equal(alone.get_support(), path.supports[step])
        assert_allclose(objective_of(alone, X), path.objectives[step], rtol=1e-3)
        assert alone.kkt_ <= 0.01


def test_what_is_not_solved_is_said():
    X = rows()
    sparse = SparseGEMINI(3, alpha=0.01, max_iter=3, n_init=1, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sparse.fit(X)
    assert any("violated at 1 of 1" in str(w.message) for w in caught)
    assert sparse.kkt_ > 0.01
    for params in ({"objective": "tv"}, {"batch_size": 20}, {"alpha": 0.0}):
        sparse = SparseGEMINI(3, max_iter=5, n_init=1, random_state=0, **params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert np.isnan(sparse.fit(X).kkt_)


def test_a_perceptron_is_trained_until_its_certificate_is_met():
    X = make_celeux_one(4, random_state=0).X[:150]
    sparse = SparseGEMINI(
        3, mode="ovo", model="mlp", hidden_layer_sizes=20, n_init=1, random_state=0
    )
    path = sparse.path(X, min_features=5, alpha_multiplier=1.3)
    assert np.isnan(path.kkts[0]) and (path.kkts[1:] <= 0.05).all()
    # By the definition, on the scaled features.
    task = Task.of(sparse._settings(), Samples.of(X, None))
    problem = task.problem
    units = problem.units
    step = path.steps[3]
    model = MODELS["skip"].from_arrays(expand("skip", step.weights, step.support, 25))
    for array in model.inputs:
        array *= units.features
    _, _, gradients = loss_and_gradients(model, problem)
    penalty = task.penalty.at(step.alpha / units.alpha)
    assert_allclose(penalty.certificate(model, gradients)[0], step.kkt, rtol=1e-6)
    for params in ({"batch_size": 20}, {"objective": "tv"}):
        sparse.set_params(max_iter=5, l2=1e-3, alpha=0.1, **params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert np.isnan(sparse.fit(X).kkt_)


@pytest.mark.parametrize("signs", [(1, 1), (1, -1)])
def test_largest_penalty_of_features_beside_their_copies(global_random_seed, signs):
    X = rows(global_random_seed)
    X = (X[:, :, None] * np.array(signs)).reshape(len(X), -1)
    task = task_of(X)
    model = Encoder([np.zeros((16, 3))], [np.zeros(3)])
    penalty = GroupLasso(Groups.of(None, 16))
    eigenvalue = np.linalg.eigvalsh(task.X @ task.X.T / len(X)).max()
    expected = task.X.std(axis=0).max() * np.sqrt(eigenvalue / 3)
    assert_allclose(largest_alpha(task, model, penalty), expected, rtol=0.02)


def test_the_proximal_method_and_the_contract_agree(global_random_seed):
    task = task_of(rows(global_random_seed), {"mode": "ovo"})
    penalty = GroupLasso(Groups.of(None, 8), 0.05)
    solver, _ = solved(task, penalty, global_random_seed)
    model = Encoder(*([array] for array in solver.arrays(np.float64)))

    class Loop(list):
        stop_reason = None

        def record(self, loss, **others):
            self.losses = [*getattr(self, "losses", []), loss]

    loop = Loop(range(50))
    train_model(
        model,
        task,
        loop,
        Momentum(model.arrays, 0.01),
        batch_size=60,
        random_state=None,
        penalty=penalty,
    )
    assert_allclose(loop.losses, solver.point.loss, rtol=1e-3)
