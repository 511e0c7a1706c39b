"""Sparse X, without converting it to dense, against dense X."""

import tracemalloc
import warnings

import numpy as np
import pytest
from gemini_assignments import objective_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GEMINI, SparseGEMINI, SparseGEMINICV
from skdiffclust.gemini import gemini_score


def counts(seed=0, n=90, d=24, n_clusters=3):
    """Samples (n, d) with many zeros, whose first features tell the clusters."""
    rng = np.random.RandomState(seed)
    X = rng.poisson(0.2, size=(n, d)).astype(float)
    y = np.arange(n) % n_clusters
    for k in range(n_clusters):
        X[y == k, 3 * k : 3 * k + 3] += rng.poisson(2, size=((y == k).sum(), 3))
    return X, y


@pytest.mark.parametrize(
    "params",
    [
        {"kernel": "linear"},
        {"kernel": "rbf", "gamma": "scale"},
        {"kernel": "laplacian", "gamma": "scale"},
        {"kernel": "cosine"},
        {"kernel": "poly", "gamma": 0.1},
        {"kernel": "sigmoid", "gamma": 0.1},
        {"objective": "wasserstein"},
        {"objective": "wasserstein", "metric": "cosine"},
        {"objective": "wasserstein", "metric": "chebyshev"},
        {"objective": "kl"},
    ],
    ids=str,
)
def test_the_score_is_that_of_dense_rows(params):
    X, _ = counts(n=40)
    P = np.random.RandomState(0).dirichlet(np.ones(3), size=40)
    value, gradient = gemini_score(P, X, return_gradient=True, **params)
    form = sparse.coo_matrix(X)
    found, slope = gemini_score(P, form, return_gradient=True, **params)
    assert_allclose(found, value, rtol=1e-10)
    assert_allclose(slope, gradient, rtol=1e-7, atol=1e-10)


# ------------------------------------------------------------------ estimators


def test_equal_rows_never_part_without_a_model():
    X = np.array([[0.0, 1, 0], [2, 0, 0], [0, 1, 0], [0, 0, 0], [2, 0, 0]])
    # Entries that are stored as zero, or twice, are no difference.
    doubled = sparse.csr_array(
        ([0.0, 1, 1, 1, 1, 2], ([0, 0, 1, 1, 2, 4], [0, 1, 0, 0, 1, 0])), shape=(5, 3)
    )
    assert_array_equal(doubled.toarray(), X)
    free = GEMINI(2, model="free", l2=0.1, random_state=0).fit(doubled)
    assert_array_equal(free.assignments_[[0, 1]], free.assignments_[[2, 4]])
    assert not np.allclose(free.assignments_[0], free.assignments_[3])


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
        {"l2": 0.01, "partial_labels": np.arange(90) % 3 - (np.arange(90) > 30) * 9},
    ],
    ids=str,
)
@pytest.mark.few_epochs
def test_clusters_are_those_of_dense_rows(params):
    X, y = counts()
    params = {"max_iter": 20, "random_state": 0} | params
    known = {"partial_labels": params.pop("partial_labels", np.full(90, -9)).clip(-1)}
    dense = GEMINI(3, **params).fit(X, **known)
    for form in (sparse.csr_matrix(X), sparse.csc_array(X)):
        found = GEMINI(3, **params).fit(form, **known)
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
    restored = one.inverse_transform(one.transform(X))
    assert_array_equal(restored, np.where(one.get_support(), X, 0))
    assert_array_equal(other.inverse_transform(selected).toarray(), restored)
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
        {"kernel": "rbf", "model": "mlp", "hidden_layer_sizes": 6},
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
@pytest.mark.parametrize("factor", [None, "redundancy"])
def test_constant_columns_leave_at_once(value, factor):
    X, _ = counts(n=60, d=12)
    X[:, 11] = value
    model = SparseGEMINI(3, penalty_factor=factor, n_init=1, random_state=0)
    expected, path = (model.path(form) for form in (X, sparse.csr_array(X)))
    assert not path.supports[1:, 11].any()
    assert_allclose(path.alphas[1], expected.alphas[1], rtol=1e-6)
    assert_array_equal(model.get_support(), expected.supports[expected.chosen])


def test_a_path_on_sparse_rows_goes_on_from_its_checkpoint(tmp_path):
    X, _ = counts()
    form = sparse.csr_array(X)
    sparse_gemini = SparseGEMINI(3, n_init=1, random_state=0)
    options = {"alpha_multiplier": 1.5, "checkpoint": tmp_path}
    path = sparse_gemini.path(form, **options)
    again = sparse_gemini.path(form, **options, resume=True)
    assert_array_equal(again.objectives, path.objectives)
    with pytest.raises(ValueError, match="checkpoint"):
        sparse_gemini.path(form * 1.5, **options, resume=True)


def test_stability_on_sparse_rows():
    X, _ = counts()
    params = {"n_alphas": 2, "n_resamples": 2, "random_state": 0}
    X = X[:, :12]
    dense = SparseGEMINICV(SparseGEMINI(3, n_init=1), **params).fit(X)
    found = SparseGEMINICV(SparseGEMINI(3, n_init=1), **params).fit(sparse.csr_array(X))
    assert_array_equal(found.labels_, dense.labels_)
    assert_allclose(found.cluster_stability_, dense.cluster_stability_, atol=1e-6)


def test_what_sparse_rows_cannot_be():
    form = sparse.csr_array(counts(n=24, d=24)[0])
    given = GEMINI(3, kernel="precomputed", model="free")
    assert not given.__sklearn_tags__().input_tags.sparse
    with pytest.raises((TypeError, ValueError), match="dense"):
        given.fit(form)
    with pytest.raises(ValueError, match="'kernel' parameter must support sparse X"):
        GEMINI(3, kernel="chi2").fit(form)
    with pytest.raises(ValueError, match="'metric' parameter must not be one that is"):
        GEMINI(3, objective="wasserstein", metric="seuclidean").fit(form)


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
