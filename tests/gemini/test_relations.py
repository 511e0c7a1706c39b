"""A kernel or distances given beside X: the model sees X, the objective the matrix."""

import numpy as np
import pytest
from gemini_assignments import objective_of, trained
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.metrics.pairwise import chi2_kernel, pairwise_distances, rbf_kernel

from skdiffclust import GEMINI, SparseGEMINI, SparseGEMINICV
from skdiffclust.gemini import gemini_score

pytestmark = pytest.mark.few_epochs

FAST = {"max_iter": 15, "n_init": 1, "random_state": 0}


def blobs(seed=0, n=60, d=4):
    rng = np.random.RandomState(seed)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, d))
    X[:, :2] += 4 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    return X, y


@pytest.mark.parametrize("model", ["linear", "mlp", "free"])
@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_a_kernel_that_is_given_is_the_kernel_of_that_name(model, mode):
    X, _ = blobs()
    params = {"model": model, "mode": mode, "hidden_layer_sizes": 8} | FAST
    named = GEMINI(3, kernel="rbf", gamma=0.1, **params).fit(X)
    K = rbf_kernel(X, gamma=0.1)
    before = K.copy()
    given = GEMINI(3, **params).fit(X, precomputed=K)
    assert_array_equal(K, before)
    assert_array_equal(given.labels_, named.labels_)
    if model == "free":
        return
    # The unit of X is taken out in one and is none of the kernel in the other.
    assert_allclose(given.predict_proba(X), named.predict_proba(X), atol=1e-6)
    value = gemini_score(trained(given, X), K, kernel="precomputed", mode=mode)
    assert_allclose(objective_of(given, X, precomputed=K), value)
    half = objective_of(given, X[:30], precomputed=K[:30, :30])
    assert_allclose(half, objective_of(named, X[:30]), rtol=1e-6)


def test_the_chi2_kernel_has_the_default_gamma_of_scikit_learn():
    X = np.abs(blobs()[0])
    K = chi2_kernel(X)
    named = GEMINI(3, kernel="chi2", **FAST).fit(X)
    given = GEMINI(3, **FAST).fit(X, precomputed=K)
    assert_array_equal(given.labels_, named.labels_)
    assignments = trained(named, X)
    value = gemini_score(assignments, K, kernel="precomputed")
    assert_allclose(gemini_score(assignments, X, kernel="chi2"), value)
    assert_allclose(objective_of(named, X), value)
    path = SparseGEMINI(3, kernel="chi2", **FAST).path(X, min_features=3)
    assert path.n_features[-1] <= 3


def test_distances_that_are_given_are_those_of_the_metric():
    X, _ = blobs(n=30)
    params = {"objective": "wasserstein"} | FAST
    named = GEMINI(3, **params).fit(X)
    D = pairwise_distances(X)
    given = GEMINI(3, **params).fit(X, precomputed=D)
    assert_array_equal(given.labels_, named.labels_)
    assert_allclose(
        objective_of(given, X, precomputed=D), objective_of(named, X), rtol=1e-4
    )


def test_the_unit_of_the_features_is_none_of_a_given_kernel():
    X, _ = blobs()
    K = rbf_kernel(X)
    one = GEMINI(3, **FAST).fit(X, precomputed=K)
    other = GEMINI(3, **FAST).fit(X * 2.0**20, precomputed=K)
    assert_array_equal(other.coefs_[0] * 2.0**20, one.coefs_[0])
    assert other.history_ == one.history_


def test_batches_see_their_part_of_the_precomputed_matrix():
    X, _ = blobs()
    K = rbf_kernel(X, gamma=0.1)
    params = {"batch_size": 20} | FAST
    named = GEMINI(3, kernel="rbf", gamma=0.1, **params).fit(X)
    given = GEMINI(3, **params).fit(X, precomputed=K)
    assert_array_equal(given.labels_, named.labels_)
    objectives = given.history_["objective"]
    assert_allclose(objectives, named.history_["objective"], rtol=1e-6)


def test_paths_and_their_checkpoints(tmp_path):
    X, _ = blobs()
    K = rbf_kernel(X, gamma=0.1)
    sparse = SparseGEMINI(3, mode="ovo", n_init=1, random_state=0)
    options = {"alpha_multiplier": 1.5}
    path = sparse.path(X, precomputed=K, checkpoint=tmp_path, **options)
    assert path.kkts[1:].max() <= 0.01
    named = SparseGEMINI(
        3, mode="ovo", kernel="rbf", gamma=0.1, n_init=1, random_state=0
    ).path(X, **options)
    assert_array_equal(path.n_features[:3], named.n_features[:3])
    chosen = path.select()
    assert_allclose(
        objective_of(chosen, X, precomputed=K),
        gemini_score(trained(chosen, X), K, kernel="precomputed", mode="ovo"),
    )
    with pytest.raises(
        ValueError, match="'precomputed' parameter of SparseGEMINI.score"
    ):
        chosen.score(X)
    with pytest.raises(ValueError, match="checkpoint"):
        sparse.path(X, precomputed=K**2, checkpoint=tmp_path, resume=True, **options)
    with pytest.raises(ValueError, match="checkpoint"):
        sparse.path(X, checkpoint=tmp_path, resume=True, **options)
    again = sparse.path(X, precomputed=K, checkpoint=tmp_path, resume=True, **options)
    assert_array_equal(again.objectives, path.objectives)


def test_resamples_take_rows_and_columns():
    X, _ = blobs()
    K = rbf_kernel(X, gamma=0.1)
    params = {"n_alphas": 2, "n_resamples": 2, "random_state": 0}
    given = SparseGEMINICV(SparseGEMINI(3, n_init=1), **params).fit(X, precomputed=K)
    named = SparseGEMINICV(
        SparseGEMINI(3, n_init=1, kernel="rbf", gamma=0.1), **params
    ).fit(X)
    assert_array_equal(given.labels_, named.labels_)
    assert given.score(X, precomputed=K) == pytest.approx(named.score(X), rel=1e-6)


@pytest.mark.parametrize(
    "params, precomputed, message",
    [
        (
            {"kernel": "rbf"},
            np.eye(60),
            "'kernel' parameter of GEMINI must be",
        ),
        (
            {"kernel": np.dot},
            np.eye(60),
            "'kernel' parameter of GEMINI must be",
        ),
        ({"kernel": "precomputed", "model": "free"}, np.eye(60), "must be 'linear'"),
        (
            {"objective": "wasserstein", "metric": "cosine"},
            np.eye(60),
            "'metric' parameter of GEMINI must be 'euclidean'",
        ),
        (
            {"objective": "kl"},
            np.eye(60),
            "None for GEMINI with objective='kl'",
        ),
        ({}, np.eye(59), "dense array of shape \\(60, 60\\)"),
        ({}, np.ones((60, 3)), "dense array of shape \\(60, 60\\)"),
        ({}, csr_array(np.eye(60)), "Got a sparse matrix instead"),
        ({}, np.full((60, 60), np.nan), "'precomputed' parameter must be finite"),
        ({"objective": "wasserstein"}, np.eye(60)[::-1] - 1, "distances of at least 0"),
    ],
)
def test_what_a_precomputed_matrix_cannot_be(params, precomputed, message):
    X, _ = blobs()
    with pytest.raises(ValueError, match=message):
        GEMINI(3, **params, **FAST).fit(
            X if params.get("kernel") != "precomputed" else np.eye(60),
            precomputed=precomputed,
        )


def test_what_a_path_takes_no_precomputed_matrix_with():
    X, _ = blobs()
    with pytest.raises(ValueError, match="with dynamic=True"):
        SparseGEMINI(3, dynamic=True).path(X, precomputed=np.eye(60))
    with pytest.raises(ValueError, match=r"as fit\(X, precomputed=K\)"):
        GEMINI(3, kernel="precomputed").fit(np.eye(60))
