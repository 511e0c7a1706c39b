"""The solver of penalised linear models: its parts and its certificates."""

import warnings

import numpy as np
import pytest
from gemini_assignments import objective_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from skdiffclust import SparseGEMINI
from skdiffclust.datasets import make_celeux_one
from skdiffclust.gemini import _kernels as kernels
from skdiffclust.gemini import gemini_score
from skdiffclust.gemini._penalties import Groups, hierarchical_prox


def rows(seed=0, n=60, d=8):
    """Return samples of three groups, whose unit is one."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, d))
    X[:, :2] += 1.5 * rng.normal(size=(3, 2))[rng.randint(3, size=n)]
    return X / np.sqrt(X.var(axis=0).mean())


def kkt_of(model, X):
    """Return the violation of the optimality conditions from its definition."""
    Z = X - model.means_
    weights, biases = model.coefs_[0], model.intercepts_
    logits = Z @ weights + biases[0]
    if model.model == "mlp":
        hidden, last = np.maximum(logits, 0), model.coefs_[1]
        logits = Z @ model.skip_weights_ + hidden @ last + biases[1]
    P = softmax(logits, axis=1)
    params = {name: getattr(model, name) for name in ("objective", "mode", "kernel")}
    params["gamma"] = getattr(model, "gamma_", None)
    _, slope = gemini_score(P, X, return_gradient=True, **params)
    slope = P * ((P * slope).sum(axis=1, keepdims=True) - slope)
    free = [slope.sum(axis=0)]
    if model.model == "mlp":
        through = slope @ last.T * (hidden > 0)
        free += [hidden.T @ slope, through.sum(axis=0)]
        old = [model.skip_weights_, weights]
        new = [old[0] - Z.T @ slope, weights - Z.T @ through]
    else:
        old = [weights, weights[:, :0]]
        new = [weights - Z.T @ slope - 2 * model.l2 * weights, old[1].copy()]
    groups = Groups.of(model.groups, len(weights))
    hierarchical_prox(*new, model.alpha_, model.hierarchy, groups)
    moved = [groups.norms(b - a) for a, b in zip(old, new, strict=True)]
    worst = np.sqrt(np.square(moved).sum(axis=0)).max()
    return max(worst, *map(np.linalg.norm, free)) / model.alpha_


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


# ------------------------------------------------------------------ solutions


@pytest.mark.few_epochs
@pytest.mark.parametrize("groups", [None, [1, 1, 4, 2, 2, 1, 3, 0]])
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
        {"model": "mlp", "hidden_layer_sizes": 6},
    ],
    ids=str,
)
def test_steps_are_certified_by_the_definition(params, groups, global_random_seed):
    X = rows(global_random_seed)
    sparse = SparseGEMINI(3, groups=groups, n_init=1, random_state=0, **params)
    path = sparse.path(X, alpha_multiplier=1.5)
    assert np.isnan(path.kkts[0]) and len(path) > 3
    assert (path.kkts[1:] <= (0.05 if sparse.model == "mlp" else 0.01)).all()
    for alpha, kkt in zip(path.alphas[1:], path.kkts[1:], strict=True):
        expected = kkt_of(path.select(alpha=alpha), X)
        assert_allclose(kkt, expected, rtol=1e-4, atol=1e-6)
    # A single solution is refined.
    sparse.set_params(alpha=path.alphas[len(path) // 2]).fit(X)
    assert kkt_of(sparse, X) <= (0.05 if sparse.model == "mlp" else 1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_links_and_weights_are_solved_for(dtype):
    links = {"partial_labels": np.r_[0, 0, 1, np.full(57, -1)], "cannot_link": [[3, 4]]}
    X = rows().astype(dtype)
    sparse = SparseGEMINI(3, alpha=0.03, random_state=0)
    sparse.fit(X, **links, sample_weight=np.arange(1, 61))
    assert sparse.kkt_ <= 0.01


@pytest.mark.parametrize("signs", [(1, 1), (1, -1)])
def test_a_path_begins_far_below_the_largest_penalty(global_random_seed, signs):
    # Of features beside their copies, which may cancel in a sum.
    X = rows(global_random_seed)
    X = (X[:, :, None] * np.array(signs)).reshape(len(X), -1)
    Z = X - X.mean(axis=0)
    eigenvalue = np.linalg.eigvalsh(Z @ Z.T / len(X)).max()
    largest = X.std(axis=0).max() * np.sqrt(eigenvalue / 3)
    path = SparseGEMINI(3, n_init=1, random_state=0).path(X, alpha_multiplier=2.0)
    assert_allclose(path.alphas[1], largest / 1000, rtol=0.02)


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
    sparse = SparseGEMINI(3, alpha=0.01, max_iter=3, n_init=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="violated at 1 of 1"):
        sparse.fit(rows())
    assert sparse.kkt_ > 0.01


@pytest.mark.few_epochs
@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.parametrize(
    "params", [{"objective": "tv"}, {"batch_size": 20}, {"alpha": 0.0}], ids=str
)
def test_trained_steps_have_no_certificate(model, params):
    sparse = SparseGEMINI(3, model=model, max_iter=5, n_init=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert np.isnan(sparse.set_params(**params).fit(rows()).kkt_)


def test_a_perceptron_is_trained_again_where_its_loss_stops_early():
    # Its loss stops improving more than a hundred times before that.
    X = make_celeux_one(5, random_state=0).X[:, :20]
    sparse = SparseGEMINI(
        3,
        alpha=0.22,
        mode="ova",
        model="mlp",
        hidden_layer_sizes=20,
        n_init=1,
        random_state=0,
    )
    assert sparse.fit(X).kkt_ <= 0.05
