"""Sparse X, without converting it to dense, against dense X."""

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from gemini_assignments import objective_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GEMINI, SparseGEMINI
from skdiffclust._pairwise import distance_matrix, kernel_matrix
from skdiffclust._validation import canonical_rows
from skdiffclust.gemini import _sparse_rows as rows_of
from skdiffclust.gemini import gemini_score
from skdiffclust.gemini._models import MODELS
from skdiffclust.gemini._problem import Samples, make_problem
from skdiffclust.gemini._starts import group_means
from skdiffclust.gemini._training import loss_and_gradients


def counts(seed=0, n=90, d=24, n_clusters=3):
    """Samples (n, d) with many zeros, whose first features tell the clusters."""
    rng = np.random.RandomState(seed)
    X = rng.poisson(0.2, size=(n, d)).astype(float)
    y = np.arange(n) % n_clusters
    for k in range(n_clusters):
        X[y == k, 3 * k : 3 * k + 3] += rng.poisson(2, size=((y == k).sum(), 3))
    return X, y


def pair(X, seed=0):
    """Return the centred rows of X, dense and sparse, and weights that sum to one."""
    weights = np.random.RandomState(seed).uniform(size=len(X))
    weights /= weights.sum()
    canonical = canonical_rows(X)
    means = rows_of.weighted_means(X, weights)
    assert_allclose(rows_of.weighted_means(canonical, weights), means, atol=1e-12)
    dense = rows_of.centered(X, means)
    return dense, rows_of.centered(canonical, means), weights


# ------------------------------------------------------------------ rows


def test_parts_of_rows_are_those_of_an_array(global_random_seed):
    X, _ = counts(global_random_seed)
    X[:, 5] = 0
    dense, rows, weights = pair(X, global_random_seed)
    rng = np.random.RandomState(global_random_seed)
    W, G = rng.normal(size=(24, 3)), rng.normal(size=(90, 3))
    tolerance = {"rtol": 1e-12, "atol": 1e-12}
    assert_allclose(rows @ W, dense @ W, **tolerance)
    assert_allclose(rows @ W[:, 0], dense @ W[:, 0], **tolerance)
    assert_allclose(rows.T @ G, dense.T @ G, **tolerance)
    assert_allclose(rows.T @ weights, weights @ dense, **tolerance)
    whole = np.eye(dense.shape[1], dtype=dense.dtype)
    assert_allclose(rows @ whole, dense, **tolerance)
    assert_allclose((rows / 3) @ whole, dense / 3, **tolerance)
    assert_allclose(rows[[4, 1]] @ whole, dense[[4, 1]], **tolerance)
    columns = np.array([7, 2, 3])
    for taken in (rows[:, columns], rows_of.take_columns(rows, columns)):
        assert_allclose(taken @ np.eye(3), dense[:, columns], **tolerance)
    for function in (rows_of.column_squares, rows_of.covariance):
        found, expected = function(rows, weights), function(dense, weights)
        assert_allclose(found, expected, **tolerance)
    assert_allclose(rows_of.covariance(dense, weights), dense.T * weights @ dense)
    assert_allclose(rows_of.column_squares(dense, weights), weights @ dense**2)
    squares = np.square(dense).sum(axis=1)
    assert_allclose(rows_of.squared_norms(rows), squares, **tolerance)
    assert_allclose(rows_of.squared_norms(dense), squares, **tolerance)
    groups = np.arange(90) // 4
    found = group_means(rows, weights, groups) @ whole
    assert_allclose(found, group_means(dense, weights, groups), **tolerance)


@pytest.mark.parametrize("kind", ["linear", "mlp", "skip"])
@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_loss_and_gradients_are_those_of_dense_rows(kind, mode, global_random_seed):
    X, _ = counts(global_random_seed)
    settings = GEMINI(3, mode=mode, l2=0.01)._settings()
    sizes = [24, 3] if kind == "linear" else [24, 8, 3]
    rng = np.random.RandomState(0)
    model = MODELS[kind].with_random_weights(sizes, rng, X.dtype)
    found = []
    for form in (X, sparse.csr_array(X)):
        task = make_problem(settings, Samples.of(form, np.arange(1, 91)))
        if kind != "linear":
            # As for perceptrons, which have no compiled loops.
            task = rows_of_definition(task)
        for rows in (None, np.arange(10, 50)):
            loss, value, gradients = loss_and_gradients(model, task, rows)
            found.append([loss, value, *gradients])
    for one, other in zip(found[:2], found[2:], strict=True):
        for a, b in zip(one, other, strict=True):
            assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def rows_of_definition(task):
    """Return a Problem without compiled loops."""
    return replace(task, compiled_mode=None)


# ------------------------------------------------------------------ relations


@pytest.mark.parametrize(
    "kernel", ["rbf", "laplacian", "cosine", "poly", "sigmoid", "linear"]
)
def test_kernels_of_sparse_rows(kernel):
    X, _ = counts()
    params = {} if kernel in ("cosine", "linear") else {"gamma": 0.1}
    found = kernel_matrix(canonical_rows(X), kernel=kernel, kernel_params=params)
    expected = kernel_matrix(X, kernel=kernel, kernel_params=params)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_metrics_of_sparse_rows():
    X, _ = counts()
    metrics = ["euclidean", "sqeuclidean", "cosine", "manhattan", "chebyshev"]
    for metric in [*metrics, lambda a, b: np.abs(a - b).max()]:
        found = distance_matrix(canonical_rows(X), metric=metric)
        assert_allclose(found, distance_matrix(X, metric=metric), rtol=1e-12)
        assert not found.diagonal().any()
    with pytest.raises(ValueError, match="'metric' parameter must not be one that is"):
        distance_matrix(canonical_rows(X), metric="seuclidean")
    with pytest.raises(ValueError, match="'kernel' parameter must support sparse X"):
        kernel_matrix(canonical_rows(X), kernel="chi2")


@pytest.mark.parametrize("objective", ["mmd", "wasserstein", "kl"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "cosine"])
def test_the_score_is_that_of_dense_rows(objective, kernel):
    X, _ = counts(n=40)
    P = np.random.RandomState(0).dirichlet(np.ones(3), size=40)
    params = {"objective": objective, "kernel": kernel, "return_gradient": True}
    if kernel == "rbf":
        params["gamma"] = "scale"
    value, gradient = gemini_score(P, X, **params)
    found, slope = gemini_score(P, sparse.coo_matrix(X), **params)
    assert_allclose(found, value, rtol=1e-10)
    assert_allclose(slope, gradient, rtol=1e-7, atol=1e-10)


# ------------------------------------------------------------------ estimators


@pytest.mark.parametrize(
    "params",
    [
        {"mode": "ova"},
        {"mode": "ovo", "batch_size": 30},
        {"kernel": "rbf", "gamma": "scale"},
        {"kernel": "cosine"},
        {"kernel": "poly", "kernel_params": {"degree": 2}},
        {"kernel": Nystroem(n_components=20, gamma=0.05, random_state=0)},
        {"objective": "wasserstein", "max_iter": 3},
        {"objective": "kl", "l2": 0.01},
        {"mode": "ova", "model": "mlp", "hidden_layer_sizes": 8},
        {"model": "free"},
    ],
    ids=str,
)
@pytest.mark.few_epochs
def test_clusters_are_those_of_dense_rows(params):
    X, y = counts()
    params = {"max_iter": 20, "random_state": 0} | params
    dense = GEMINI(3, **params).fit(X)
    for form in (sparse.csr_matrix(X), sparse.csc_array(X)):
        found = GEMINI(3, **params).fit(form)
        assert_array_equal(found.labels_, dense.labels_)
        objectives = found.history_["objective"]
        assert_allclose(objectives, dense.history_["objective"], rtol=1e-8)
        if params.get("model") == "free":
            assert_allclose(found.assignments_, dense.assignments_, atol=1e-8)
            continue
        assert_allclose(found.means_, X.mean(axis=0))
        assert_array_equal(found.predict(form), found.labels_)
        assert_array_equal(found.predict(form[:7]), found.labels_[:7])
        shares = dense.predict_proba(X)
        assert_allclose(found.predict_proba(form), shares, atol=1e-8)
        assert_allclose(found.predict_proba(X), shares, atol=1e-8)
        assert_allclose(objective_of(found, form), objective_of(dense, X), rtol=1e-8)


@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_paths_are_those_of_dense_rows(mode, global_random_seed):
    X, y = counts(global_random_seed)
    form = sparse.csr_array(X)
    params = {"mode": mode, "n_init": 1, "random_state": 0}
    one, other = SparseGEMINI(3, **params), SparseGEMINI(3, **params)
    path = one.path(X, alpha_multiplier=1.3)
    found = other.path(form, alpha_multiplier=1.3)
    # Where these begin is a bound, found by power iterations.
    assert_allclose(found.alphas, path.alphas, rtol=1e-8)
    assert_allclose(found.objectives, path.objectives, rtol=1e-4)
    assert found.kkts[1:].max() <= 0.01
    assert_array_equal(other.labels_, one.labels_)
    assert_array_equal(other.get_support(), one.get_support())
    assert adjusted_rand_score(y, other.labels_) > 0.6
    selected = other.transform(form)
    assert sparse.issparse(selected)
    assert_array_equal(selected.toarray(), one.transform(X))
    # A solution that is refined is one, to many digits.
    alpha = path.alphas[len(path) // 2]
    one.set_params(alpha=alpha).fit(X)
    other.set_params(alpha=alpha).fit(form)
    assert_allclose(other.coefs_[0], one.coefs_[0], atol=1e-6)


@pytest.mark.parametrize(
    "params",
    [
        {"model": "mlp", "hidden_layer_sizes": 6},
        {"batch_size": 40},
        {"dynamic": True},
        {"penalty_factor": "redundancy"},
        {"kernel": "rbf", "gamma": "scale", "dynamic": True},
    ],
    ids=str,
)
@pytest.mark.few_epochs
def test_other_paths_are_those_of_dense_rows(params):
    X, _ = counts(n=60, d=12)
    params = {"n_init": 1, "max_iter": 20, "random_state": 0} | params
    options = {"alpha_multiplier": 2.0, "min_features": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = SparseGEMINI(3, **params).path(X, **options)
        found = SparseGEMINI(3, **params).path(sparse.csr_array(X), **options)
    assert_array_equal(found.supports, path.supports)
    assert_allclose(found.objectives, path.objectives, rtol=1e-6)


@pytest.mark.parametrize("value", [0.1, 1e6])
def test_constant_columns_are_not_redundant(value):
    X, _ = counts(n=60, d=10)
    X[:, 2] = value
    sparse_gemini = SparseGEMINI(
        3, penalty_factor="redundancy", n_init=1, random_state=0
    )
    path = sparse_gemini.path(sparse.csr_array(X))
    assert not path.supports[1:, 2].any()
    sparse_gemini.path(X)
    assert_array_equal(path.select().get_support(), sparse_gemini.get_support())


def test_what_sparse_rows_cannot_be():
    X, _ = counts(n=24, d=24)
    form = sparse.csr_array(X)
    with pytest.raises((TypeError, ValueError), match="dense"):
        GEMINI(3, kernel="precomputed", model="free").fit(form)
    with_kernel = GEMINI(kernel="precomputed", model="free")
    assert not with_kernel.__sklearn_tags__().input_tags.sparse
    with pytest.raises(ValueError, match="overflow: rescale X"):
        GEMINI(3).fit(form * 1e300)
    with pytest.raises(ValueError, match="contains NaN"):
        GEMINI(3).fit(form * np.nan)
    with pytest.raises(ValueError, match="'kernel' parameter must support sparse X"):
        GEMINI(3, kernel="chi2").fit(form)


def test_nothing_dense_is_made():
    X = sparse.random(200, 40_000, density=1e-4, random_state=0, format="csr")
    sparse_gemini = SparseGEMINI(2, max_iter=5, n_init=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # What is imported and compiled on the way is not counted.
        sparse_gemini.path(X[:, :50], alpha_multiplier=4.0)
        tracemalloc.start()
        sparse_gemini.path(X, alpha_multiplier=4.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * 40_000 * 8 / 2
