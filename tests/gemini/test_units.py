"""The unit of the features: what depends on it, and by which power."""

import warnings

import numpy as np
import pytest
from gemini_assignments import objective_of, trained
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels

from skdiffclust import GEMINI, SparseGEMINI
from skdiffclust.gemini import gemini_score

# Objective, kernel or metric -> power of the unit that the objective goes by.
DEGREES = [
    ({"objective": "mmd"}, 1),
    ({"objective": "mmd", "kernel": "cosine"}, 0),
    ({"objective": "mmd", "kernel": "rbf", "gamma": "scale"}, 0),
    ({"objective": "mmd", "kernel": "laplacian", "gamma": "scale"}, 0),
    (
        {
            "objective": "mmd",
            "kernel": "poly",
            "gamma": "scale",
            "kernel_params": {"degree": 2},
        },
        0,
    ),
    (
        {
            "objective": "mmd",
            "kernel": "sigmoid",
            "gamma": "scale",
            "kernel_params": {"coef0": 0.1},
        },
        0,
    ),
    ({"objective": "wasserstein"}, 1),
    ({"objective": "wasserstein", "metric": "sqeuclidean"}, 2),
    ({"objective": "wasserstein", "metric": "manhattan"}, 1),
    ({"objective": "wasserstein", "metric": "cosine"}, 0),
    ({"objective": "kl"}, 0),
    ({"objective": "chi2"}, 0),
    ({"objective": "tv"}, 0),
    ({"objective": "hellinger"}, 0),
]
FAST = {"max_iter": 15, "n_init": 1, "mode": "ovo", "random_state": 0}
per_objective = pytest.mark.parametrize("params, degree", DEGREES)


def quiet(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return function(*args, **kwargs)


def rows(n=36):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, 5))
    X[:, 0] += np.repeat([-4, 0, 4], n // 3)
    return X


@pytest.mark.parametrize("model", ["linear", "mlp"])
@per_objective
def test_a_power_of_two_changes_no_bit(params, degree, model):
    X, factor = rows(), 2.0**-20
    gemini = GEMINI(3, model=model, hidden_layer_sizes=4, l2=1e-3, **params, **FAST)
    quiet(gemini.fit, X)
    scaled = clone(gemini).set_params(l2=1e-3 * factor ** (degree + 2))
    if model == "mlp":  # its layers have l2 of different units
        quiet(gemini.set_params(l2=0).fit, X)
        scaled.set_params(l2=0)
    quiet(scaled.fit, X * factor)
    assert_array_equal(scaled.labels_, gemini.labels_)
    assert_array_equal(scaled.coefs_[0] * factor, gemini.coefs_[0])
    assert_array_equal(scaled.intercepts_[0], gemini.intercepts_[0])
    assert_array_equal(scaled.predict_proba(X * factor), gemini.predict_proba(X))
    assert_allclose(
        objective_of(scaled, X * factor),
        objective_of(gemini, X) * factor**degree,
        rtol=1e-8,
    )
    for name, curve in gemini.history_.items():
        expected = np.array(curve) * factor**degree
        assert_array_equal(scaled.history_[name], expected)


@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("params, degree", DEGREES[:3])
def test_a_power_of_two_changes_no_bit_of_a_path(params, degree, dynamic, model):
    X, factor = rows(), 2.0**-20
    sparse = SparseGEMINI(
        3, model=model, hidden_layer_sizes=4, dynamic=dynamic, **params, **FAST
    )
    options = {"alpha_multiplier": 1.5, "min_features": 2}
    path = quiet(sparse.path, X, **options)
    scaled = clone(sparse)
    other = quiet(scaled.path, X * factor, **options)
    assert_array_equal(other.alphas, path.alphas * factor ** (degree + 1))
    assert_array_equal(other.objectives, path.objectives * factor**degree)
    assert_array_equal(other.penalties * factor, path.penalties)
    assert_array_equal(other.supports, path.supports)
    assert_array_equal(other.labels, path.labels)
    assert_array_equal(scaled.predict_proba(X * factor), sparse.predict_proba(X))
    # A penalty that is given is in the unit of X as well.
    alpha = path.alphas[len(path) // 2]
    one = quiet(clone(sparse).set_params(alpha=alpha).fit, X)
    alpha *= factor ** (degree + 1)
    two = quiet(clone(sparse).set_params(alpha=alpha).fit, X * factor)
    assert_array_equal(one.get_support(), two.get_support())
    assert_array_equal(one.feature_norms_, two.feature_norms_ * factor)


def test_gamma_reaches_the_kernel():
    X = rows()
    kernels = [
        ({"kernel": "rbf", "gamma": 0.3}, {"gamma": 0.3}),
        ({"kernel": "rbf"}, {}),
        ({"kernel": "poly", "gamma": 0.1}, {"gamma": 0.1, "degree": 2, "coef0": 0.5}),
        ({"kernel": "sigmoid", "gamma": 0.01}, {"gamma": 0.01, "coef0": 0.5}),
    ]
    X -= X.mean(axis=0)
    P = np.random.RandomState(0).dirichlet(np.ones(3), len(X))
    for params, known in kernels:
        others = {name: value for name, value in known.items() if name != "gamma"}
        params = params | {"kernel_params": others}
        K = pairwise_kernels(X, metric=params["kernel"], **known)
        expected = gemini_score(P, K, kernel="precomputed")
        assert_allclose(gemini_score(P, X, **params), expected, rtol=1e-9)
        gemini = quiet(GEMINI(3, **params, **FAST).fit, X)
        found = gemini_score(trained(gemini, X), K, kernel="precomputed", mode="ovo")
        assert_allclose(objective_of(gemini, X), found, rtol=1e-9)


def test_gamma_scale_is_one_over_the_sum_of_variances():
    X = rows()
    gemini = quiet(GEMINI(3, kernel="rbf", gamma="scale", **FAST).fit, X)
    assert_allclose(gemini.gamma_, 1 / X.var(axis=0).sum())
    fixed = quiet(GEMINI(3, kernel="rbf", gamma=gemini.gamma_, **FAST).fit, X)
    assert_allclose(objective_of(fixed, X), objective_of(gemini, X), rtol=1e-6)
    assert not hasattr(fixed, "gamma_")
    score = gemini_score(trained(gemini, X), X, kernel="rbf", gamma="scale", mode="ovo")
    assert_allclose(objective_of(gemini, X), score, rtol=1e-9)
    # Other rows are scored with the gamma of the training rows.
    assert objective_of(gemini, X[:20] * 3) == pytest.approx(
        objective_of(fixed, X[:20] * 3)
    )


def test_a_function_as_a_kernel_gets_its_parameters():
    def kernel(a, b, factor):
        return factor * (a @ b)

    X = rows() - rows().mean(axis=0)
    P = np.random.RandomState(0).dirichlet(np.ones(3), len(X))
    value = gemini_score(P, X, kernel=kernel, kernel_params={"factor": 4.0})
    assert_allclose(value, 2 * gemini_score(P, X), rtol=1e-9)
    gemini = GEMINI(3, kernel=kernel, kernel_params={"factor": 4.0}, **FAST)
    plain = quiet(GEMINI(3, **FAST).fit, X)
    assert objective_of(quiet(gemini.fit, X), X) == pytest.approx(
        2 * objective_of(plain, X), rel=0.2
    )


def test_a_unit_that_underflows_or_is_zero():
    X = rows().astype(np.float32)
    small = GEMINI(3, mode="ovo", random_state=0).fit((X * 1e-15).astype(np.float32))
    labels = GEMINI(3, mode="ovo", random_state=0).fit(X).labels_
    assert_array_equal(small.labels_, labels)
    # The cube of this unit underflows, which only l2 is relative to.
    X = rows()
    expected = quiet(GEMINI(3, **FAST).fit, X)
    small = quiet(GEMINI(3, **FAST).fit, X * 2.0**-490)
    assert_array_equal(small.labels_, expected.labels_)
    assert objective_of(small, X * 2.0**-490) > 0
    with pytest.raises(ValueError, match="The 'l2' parameter must be 0 .* Rescale X"):
        GEMINI(3, l2=0.1, **FAST).fit(X * 2.0**-490)


@pytest.mark.parametrize(
    ("objective", "degree", "scale"),
    [("mmd", 3, 1e-12), ("mmd", 3, 1e-18), ("kl", 2, 1e-18)],
)
def test_l2_that_single_precision_cannot_hold_is_refused(objective, degree, scale):
    X = (np.random.RandomState(0).normal(size=(60, 4)) * scale).astype(np.float32)
    gemini = GEMINI(2, objective=objective, l2=0.1, **FAST)
    with pytest.raises(ValueError, match="The 'l2' parameter must be 0 .* Rescale X"):
        gemini.fit(X)
    # In proportion to the objective, it can be held.
    gemini.set_params(l2=1e-3 * scale**degree)
    assert quiet(gemini.fit, X).n_clusters_ == 2
