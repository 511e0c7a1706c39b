"""Structure, the number of clusters, and stabilities."""

import itertools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import norm
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from skdiffclust import GEMINI, SparseGEMINI, SparseGEMINICV
from skdiffclust.gemini._stability import (
    by_densest_quarter,
    cluster_stability,
    co_assignment_uncertainty,
    gaussian_like,
    structure_of,
    support_stability,
    with_normal_scores,
)


def blobs(n_clusters=3, seed=0, n=120, d=4):
    rng = np.random.RandomState(seed)
    y = np.arange(n) % n_clusters
    X = rng.normal(size=(n, d))
    X[:, :2] += 8 * np.array([[0, 0], [1, 0], [0, 1], [2, 2]])[y]
    return X, y


# ------------------------------------------------------------------ parts


@pytest.mark.parametrize("weighted", [False, True])
def test_stabilities_are_sums_over_pairs(weighted, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    labels = rng.randint(3, size=(4, 30))
    weights = rng.uniform(0, 3, size=30) * (rng.rand(30) < 0.8) if weighted else None
    together = np.array([1.0 * (each[:, None] == each) for each in labels])
    w = np.ones(30) if weights is None else weights
    product = np.outer(w, w) - np.diag(w**2)
    scores = []
    for i, j in itertools.combinations(range(4), 2):
        one, other = ((product * each).sum() for each in together[[i, j]])
        both = (product * together[i] * together[j]).sum()
        by_chance = one * other / product.sum()
        scores.append((both - by_chance) / ((one + other) / 2 - by_chance))
        if not weighted:
            assert_allclose(scores[-1], adjusted_rand_score(labels[i], labels[j]))
    # A second number of clusters, one, agrees on any samples.
    labels = np.stack([labels, np.zeros_like(labels)], axis=1)
    found = cluster_stability(labels, weights)
    assert_allclose(found, [np.mean(scores), 0], atol=1e-12)
    shares = together.mean(axis=0)
    expected = 1 - (np.square(shares) @ w) / (shares @ w)
    assert_allclose(co_assignment_uncertainty(labels[:, 0], weights), expected)


def test_agreement_of_supports_is_beyond_chance(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    supports = np.zeros((200, 3, 50), dtype=bool)
    supports[:, 0, :9] = supports[:, 1] = True
    supports[:, 2] = rng.uniform(size=(200, 50)) < 0.3
    assert_allclose(support_stability(supports), [1, 0, 0], atol=0.02)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_references_have_the_covariance_of_the_samples(container, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(400, 3)) @ np.array([[2, 0, 0], [1, 1, 0], [0, 0, 0.1]]) + 7
    X[:, 0] = np.sign(X[:, 0] - 7)
    draws = [gaussian_like(container(X), rng) for _ in range(100)]
    found = np.mean([np.cov(draw.T, bias=True) for draw in draws], axis=0)
    expected = np.cov(X.T, bias=True)
    scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert np.abs((found - expected) / scale).max() < 0.03
    # Of one Gaussian, whatever the samples: no kurtosis.
    Z = np.concatenate(draws)[:, 0]
    assert abs(np.mean(Z**4) / np.mean(Z**2) ** 2 - 3) < 0.1


def test_features_with_few_values_are_replaced_by_normal_scores(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(200, 6))
    X[:, 0] = np.clip(np.round(X[:, 0]), -2, 2)
    X[:, 1] = 3 * (X[:, 1] > 0) - 7
    X[:, 3] = np.arange(200) % 6
    X[:, 4] = 0.1
    X[:, 5] = X[:, 1]
    before = X.copy()
    found = with_normal_scores(X, np.random.RandomState(0))
    assert_array_equal(X, before)
    assert_array_equal(found[:, 2:5], X[:, 2:5])
    quantiles = norm.ppf((np.arange(200) + 0.5) / 200)
    for old, new in zip(X.T, found.T, strict=True):
        if len(set(old)) in range(2, 6):
            assert_allclose(np.sort(new), old.mean() + old.std() * quantiles)
            # A larger value remains a larger one.
            assert new[old == old.min()].max() < new[old == old.max()].min()
    # Equal values are in random order, one for each feature.
    is_high = X[:, 1] > -7
    assert abs(np.corrcoef(found[is_high][:, [1, 5]].T)[0, 1]) < 0.5
    # The draws depend on no order, unit or container.
    found = with_normal_scores(X[:, :5], np.random.RandomState(0))
    order = rng.permutation(5)
    for same in (4 * X[:, order], sparse.csr_array(4 * X[:, order])):
        again = with_normal_scores(same, np.random.RandomState(0))
        assert_array_equal(again, 4 * found[:, order])


def test_a_feature_is_measured_in_its_densest_quarter(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = np.c_[rng.normal(size=(400, 2)) * [1, 5], np.full(400, 3.0), np.zeros(400)]
    X[::8, 0] += 8  # which adds to the deviation, not to the width
    X[::4, 3] = 7  # most values are equal: the deviation is the unit
    deviations = by_densest_quarter(X).std(axis=0)
    assert_allclose(deviations[1:], [1, 0, 1], atol=0.3)
    assert deviations[0] > 2 * deviations[1]


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
