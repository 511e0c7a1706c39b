"""Structure, the number of clusters, and stabilities."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.stats import norm
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from skdiffclust import GEMINI, SparseGEMINI, SparseGEMINICV
from skdiffclust._assignments import adjusted_rand
from skdiffclust.gemini._stability import (
    cluster_stability,
    co_assignment_uncertainty,
    structure_of,
    with_normal_scores,
)


def blobs(n_clusters=3, seed=0, n=120, d=4):
    rng = np.random.RandomState(seed)
    y = np.arange(n) % n_clusters
    X = rng.normal(size=(n, d))
    X[:, :2] += 8 * np.array([[0, 0], [1, 0], [0, 1], [2, 2]])[y]
    return X, y


# ------------------------------------------------------------------ parts


def test_weighted_stabilities_are_sums_over_pairs(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    labels = rng.randint(3, size=(4, 30))
    weights = rng.uniform(0, 3, size=30) * (rng.rand(30) < 0.8)
    together = np.array([1.0 * (each[:, None] == each) for each in labels])
    product = np.outer(weights, weights)
    np.fill_diagonal(product, 0)
    one, other = together[:2]
    both = (product * one * other).sum()
    by_chance = (product * one).sum() * (product * other).sum() / product.sum()
    largest = ((product * one).sum() + (product * other).sum()) / 2
    expected = (both - by_chance) / (largest - by_chance)
    assert_allclose(adjusted_rand(labels[0], labels[1], weights), expected)
    assert_allclose(cluster_stability(labels[:2, None], 5 * weights), [expected])
    shares = together.mean(axis=0)
    expected = 1 - (np.square(shares) @ weights) / (shares @ weights)
    assert_allclose(co_assignment_uncertainty(labels, weights), expected)
    equal = np.ones(30)
    assert_allclose(adjusted_rand(*labels[:2], equal), adjusted_rand_score(*labels[:2]))


def test_structure_is_found_where_it_is(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X, _ = blobs(2, seed=global_random_seed)
    found = structure_of(X, rng)
    assert found.is_clear
    assert found.bimodality > found.by_chance.max() > 0
    assert len(found.by_chance) == 19
    # A third is far along one of many features, and the same holds of sparse samples.
    far = np.r_[X, X[:10] + [0, 0, 20, 0]]
    assert structure_of(far, rng).is_clear
    assert structure_of(sparse.csr_array(X), rng).is_clear
    assert not structure_of(rng.normal(size=(120, 4)), rng).is_clear
    assert structure_of(X[:15], rng) is None


def few_values(rng, n=200):
    """Return 0 and 1, five levels, a normal column, a constant, six levels, a copy."""
    X = rng.normal(size=(n, 7))
    X[:, 0] = X[:, 0] > 1
    X[:, 1] = np.clip(np.round(X[:, 1]), -2, 2)
    X[:, 2] = 3 * (X[:, 2] > 0) - 7
    X[:, 4] = 0.1
    X[:, 5] = np.arange(n) % 6
    X[:, 6] = X[:, 2]
    return X


def test_features_with_few_values_are_replaced_by_normal_scores(global_random_seed):
    X = few_values(np.random.RandomState(global_random_seed))
    found = with_normal_scores(X, np.random.RandomState(0))
    assert_array_equal(found[:, 3:6], X[:, 3:6])
    quantiles = norm.ppf((np.arange(200) + 0.5) / 200)
    for j in (0, 1, 2, 6):
        expected = X[:, j].mean() + X[:, j].std() * quantiles
        assert_allclose(np.sort(found[:, j]), expected)
        # A larger value remains a larger one.
        low, high = found[X[:, j] == X[:, j].min(), j], found[X[:, j] == X[:, j].max()]
        assert low.max() < high[:, j].min()
    # Equal values are in random order, one for each feature.
    is_high = X[:, 2] > -7
    for rows in (is_high, ~is_high):
        within = np.corrcoef(found[rows][:, 2], found[rows][:, 6])[0, 1]
        assert abs(within) < 0.5
    assert np.corrcoef(found[:, 2], found[:, 6])[0, 1] > 0.5


@pytest.mark.parametrize("form", ["standardised", "sparse"])
def test_columns_of_few_values_are_no_structure_but_classes_are(form):
    rng = np.random.RandomState(4)
    y = rng.randint(2, size=(120, 1))
    rates = np.where(rng.uniform(size=(2, 15)) < 0.5, 0.1, 0.9)
    for p, is_clear in (np.full(4, 0.4), False), (rates[y[:, 0]], True):
        X = (rng.uniform(size=(120, p.shape[-1])) < p).astype(float)
        if form == "standardised":
            X = (X - X.mean(axis=0)) / X.std(axis=0)
        found = structure_of(sparse.csr_array(X) if form == "sparse" else X, rng)
        assert found.is_clear == is_clear


# ------------------------------------------------------------------ the estimator


@pytest.mark.parametrize("n_clusters", [2, 3, 4])
def test_the_number_of_clusters_is_found(n_clusters):
    X, y = blobs(n_clusters)
    gemini = GEMINI("auto", random_state=0)
    before = gemini.get_params()
    gemini.fit(X)
    assert gemini.get_params() == before
    assert gemini.n_clusters_ == n_clusters
    assert adjusted_rand_score(y, gemini.labels_) > 0.95
    assert_array_equal(gemini.predict(X), gemini.labels_)
    assert gemini.predict_proba(X).shape == (120, n_clusters)
    table = gemini.n_clusters_curve_
    assert_array_equal(table["n_clusters"], np.arange(2, 11))
    assert table["n_clusters"][np.argmax(table["score"])] == n_clusters
    assert_array_equal(gemini.n_clusters_candidates_, [n_clusters])
    # The same in another unit, and for the same seed.
    other = clone(gemini).fit(X * 2.0**20)
    assert_array_equal(other.labels_, gemini.labels_)
    assert_allclose(other.n_clusters_curve_["score"], table["score"])
    # A fit with a number leaves no table or candidates of the one before.
    gemini.set_params(n_clusters=n_clusters).fit(X)
    assert gemini.n_clusters_curve_ is gemini.n_clusters_candidates_ is None


@pytest.mark.parametrize(
    "estimator",
    [
        GEMINI("auto"),
        GEMINI(2),
        SparseGEMINI(2),
        SparseGEMINICV(n_alphas=4, n_resamples=2),
    ],
)
def test_clusters_of_unequal_sizes_are_warned_of(estimator, global_random_seed):
    X = np.random.RandomState(global_random_seed).normal(size=(510, 5))
    X[:10] += 13 / np.sqrt(5)
    estimator = clone(estimator).set_params(random_state=0)
    match = rf"{type(estimator).__name__} finds.* k-means 98, 1\.96 %.*of similar sizes"
    with pytest.warns(ConvergenceWarning, match=match):
        assert estimator.fit(X).n_clusters_ == 2
    # A weight of two is a repeated sample, and one of zero is none.
    weight = np.repeat([1.0, 2.0, 0.0], [10, 250, 250])
    with pytest.warns(ConvergenceWarning, match=match):
        estimator.fit(X, sample_weight=weight)


def test_other_clusters_than_unclear_ones_of_k_means_need_no_warning():
    X = np.random.RandomState(0).standard_t(3, size=(300, 6))
    labels = GEMINI(3, random_state=0).fit_predict(X)
    k_means = KMeans(3, n_init=10, random_state=0).fit_predict(X)
    assert adjusted_rand_score(k_means, labels) < 0.5


def test_one_gaussian_has_no_clear_number():
    X = np.random.RandomState(1).normal(size=(150, 4))
    with pytest.warns(ConvergenceWarning, match="sees no clear number"):
        GEMINI("auto", mode="ovo", random_state=0).fit(X)


@pytest.mark.few_epochs
@pytest.mark.parametrize("form", ["name", "given", "precomputed", "features"])
def test_clusters_are_counted_in_the_space_of_a_kernel(form):
    X, y = blobs(n=60)
    gamma = 1 / X.var(axis=0).sum()
    gemini = GEMINI("auto", kernel="rbf", gamma="scale", max_iter=10, random_state=0)
    K = rbf_kernel(X, gamma=gamma)
    params, X, known = {
        "name": ({}, X, {}),
        "given": ({"kernel": "linear", "gamma": None}, X, {"precomputed": K}),
        "precomputed": ({"kernel": "precomputed", "model": "free"}, K, {}),
        "features": ({"kernel": Nystroem(n_components=60, gamma=gamma)}, X, {}),
    }[form]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gemini.set_params(**params).fit(X, **known)
    assert len(np.unique(gemini.labels_)) == 3
    if form != "precomputed":  # free assignments take more epochs
        assert adjusted_rand_score(y, gemini.labels_) > 0.9


def test_distances_have_no_number_of_clusters():
    X, _ = blobs(n=30)
    D = cdist(X, X)
    with pytest.raises(ValueError, match="an integer with distances in place of"):
        GEMINI("auto", objective="wasserstein").fit(X, precomputed=D)
    with pytest.raises(ValueError, match="'n_clusters' parameter of GEMINI must be"):
        GEMINI("best").fit(X)


@pytest.mark.filterwarnings("ignore:GEMINI.n_clusters='auto'. sees no clear")
@pytest.mark.few_epochs
@pytest.mark.parametrize(
    "form, objective",
    [(form, "mmd") for form in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr")]
    + [("csr", name) for name in ("chi2", "hellinger", "kl", "tv", "wasserstein")],
)
def test_auto_takes_sparse_samples_of_any_form(form, objective):
    X = np.random.RandomState(0).normal(size=(48, 3)) + 8 * np.eye(3)[np.arange(48) % 3]
    gemini = GEMINI("auto", objective=objective, max_iter=5, n_init=1, random_state=0)
    found = gemini.fit(sparse.csr_array(X).asformat(form))
    assert found.n_clusters_ == clone(gemini).fit(X).n_clusters_
    assert found.n_clusters_ == 3
