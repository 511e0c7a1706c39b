"""The number of clusters by stability, and its parts."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GEMINI, SparseGEMINICV
from skdiffclust._assignments import connectivity
from skdiffclust.gemini import _stability
from skdiffclust.gemini._stability import (
    CountStability,
    _ascend,
    adjusted_rand,
    cells_of_subset,
    cluster_stability,
    co_assignment_uncertainty,
    counts_to_try,
    gaussian_like,
    leading_components,
    stability_of_counts,
)
from skdiffclust.gemini._starts import ascend, start_partitions

COUNTS = np.arange(2, 11)
ADVANTAGES = np.array([0.91, 0.9, 0.8])


def blobs(n_clusters=3, seed=0, n=120, d=4):
    rng = np.random.RandomState(seed)
    y = np.arange(n) % n_clusters
    X = rng.normal(size=(n, d))
    X[:, :2] += 6 * np.array([[0, 0], [1, 0], [0, 1], [2, 2]])[y]
    return X, y


# ------------------------------------------------------------------ parts


def test_references_have_the_covariance_of_the_samples(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(400, 3)) @ np.array([[2, 0, 0], [1, 1, 0], [0, 0, 0.1]]) + 7
    draws = [gaussian_like(X, rng) for _ in range(300)]
    found = np.mean([np.cov(draw.T, bias=True) for draw in draws], axis=0)
    expected = np.cov(X.T, bias=True)
    scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert np.abs((found - expected) / scale).max() < 0.03
    # Of one Gaussian, whatever the samples: no kurtosis.
    X[:, 0] = np.sign(X[:, 0] - 7)
    Z = gaussian_like(X, rng)[:, 0]
    assert abs(np.mean(Z**4) / np.mean(Z**2) ** 2 - 3) < 1
    one = gaussian_like(X, np.random.RandomState(3))
    other = gaussian_like(sparse.csr_array(X), np.random.RandomState(3))
    assert_allclose(other, one, atol=1e-12)


def test_agreement_is_that_of_scikit_learn(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    for n_labels in (1, 2, 5):
        one = rng.randint(n_labels, size=50)
        for other in (rng.randint(3, size=50), one, one[::-1], np.zeros(50, int)):
            found = adjusted_rand(one, other)
            assert_allclose(found, adjusted_rand_score(one, other), atol=1e-12)


def test_weighted_stabilities_are_sums_over_pairs(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    labels = rng.randint(3, size=(4, 30))
    weights = rng.uniform(0, 3, size=30) * (rng.rand(30) < 0.8)
    together = np.array([connectivity(each) for each in labels])
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


def test_numbers_that_auto_stands_for():
    assert_array_equal(counts_to_try(5000, 1, np.inf), np.arange(2, 11))
    assert_array_equal(counts_to_try(40, 1, np.inf), np.arange(2, 6))
    # Within the bounds of links, even where few samples or many classes are left.
    assert_array_equal(counts_to_try(100, 4, 7), np.arange(4, 8))
    assert_array_equal(counts_to_try(100, 12, 60), [12])
    assert_array_equal(counts_to_try(100, 3, 3), [3])
    assert_array_equal(counts_to_try(100, 1, 1), [2])  # which is then refused


@pytest.mark.parametrize("n_clusters", [1, 2, 7])
def test_the_compiled_ascent_is_that_of_arrays(n_clusters, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(600, 4)) * [0.5, 1, 1.5, 2]
    X[5:60] = X[5]  # so that there are copies
    weights = rng.uniform(0.5, 1.5, 600)
    weights[::7] = 0
    weights /= weights.sum()
    X -= weights @ X
    columns = np.ascontiguousarray(X.T)
    start = start_partitions(X, weights, n_clusters, rng, 3)[0]
    for mode in ("ova", "ovo"):
        # Of a partition with an empty cluster as well.
        for labels in (start, np.minimum(start, max(n_clusters - 2, 1))):
            found = _ascend(columns, weights, labels, n_clusters, mode)
            expected = ascend(X, weights, labels, n_clusters, mode)
            for one, other in zip(found, expected, strict=True):
                assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_cells_of_a_subset_label_all_samples(global_random_seed):
    X, y = blobs(seed=global_random_seed)
    rng = np.random.RandomState(0)
    rows = np.arange(0, 120, 2)
    for form in (X, sparse.csr_array(X)):
        labels = cells_of_subset(form, rows, 3, "ovo", rng)
        assert labels.shape == (120,)
        assert adjusted_rand_score(y, labels) > 0.95


def test_the_advantage_is_what_its_formula_says(monkeypatch):
    # Labels that are known: of k clusters, all agree on X and none on references.
    monkeypatch.setattr(_stability, "_N_SUBSETS", 3)
    monkeypatch.setattr(_stability, "_N_REFERENCES", 3)
    X, y = blobs()

    def cluster(data, rows, n_clusters, rng):
        assert len(rows) == 60 and (np.diff(rows) > 0).all()
        if data is X and n_clusters == 3:
            return y
        return rng.randint(2, size=len(data))

    found = stability_of_counts(cluster, X, COUNTS, np.random.RandomState(0))
    assert_array_equal(found.counts, np.arange(2, 11))
    assert found.stability[1] == 1
    assert np.abs(found.stability[[0, *range(2, 9)]]).max() < 0.1
    expected = (found.stability - found.reference) / (1.05 - found.reference)
    assert_allclose(found.advantage, expected)
    assert found.best == 3 and found.is_clear
    assert len(found.by_chance) == 3 and found.by_chance.max() < 0.2
    # Of numbers that are about as good the largest.
    near = CountStability(found.counts[:3], *np.zeros((2, 3)), ADVANTAGES, np.zeros(3))
    assert near.best == 3 and near.is_clear
    level = CountStability(*np.zeros((3, 2)), np.array([0.1, 0.2]), np.array([0.3]))
    assert not level.is_clear


def test_few_samples_of_many_are_used(few_fits, monkeypatch):
    monkeypatch.setattr(_stability, "_MOST_SAMPLES", 80)
    X, _ = blobs(n=400)
    sizes = set()

    def cluster(data, rows, n_clusters, rng):
        sizes.add((len(data), len(rows)))
        return rng.randint(2, size=len(data))

    stability_of_counts(cluster, X, COUNTS, np.random.RandomState(0))
    assert sizes == {(80, 40)}


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
def test_leading_components_keep_most_of_the_distances(shape, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=shape) * 3.0 ** -np.arange(shape[1]) + 5
    for form in (X, sparse.csr_array(X)):
        # All of them have the distances of X, few are those of the largest variance.
        whole = leading_components(form, min(shape))
        assert_allclose(pdist(whole), pdist(X), rtol=1e-6)
        few = leading_components(form, 3)
        assert few.shape == (shape[0], 3) and few.dtype == np.float64
        variances = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:3] ** 2
        assert_allclose(np.sort(few.var(axis=0)), np.sort(variances) / shape[0])
        assert_allclose(few.mean(axis=0), 0, atol=1e-8)


def test_cells_are_found_in_few_components_of_wide_samples(monkeypatch):
    monkeypatch.setattr(_stability, "_MOST_COMPONENTS", 2)
    X, _ = blobs()
    widths = set()

    def cluster(data, rows, n_clusters, rng):
        widths.add(data.shape[1])
        return rng.randint(2, size=len(data))

    for is_linear, width in ((True, 2), (False, 4)):
        rng = np.random.RandomState(0)
        stability_of_counts(cluster, X, COUNTS, rng, is_linear=is_linear)
        assert widths == {width}
        widths.clear()


# ------------------------------------------------------------------ the estimator


@pytest.mark.parametrize("n_clusters", [2, 3, 4])
def test_the_number_of_clusters_is_found(n_clusters, few_fits):
    X, y = blobs(n_clusters)
    gemini = GEMINI("auto", mode="ovo", random_state=0)
    before = gemini.get_params()
    gemini.fit(X)
    assert gemini.get_params() == before
    assert gemini.n_clusters_ == n_clusters
    assert adjusted_rand_score(y, gemini.labels_) > 0.95
    assert_array_equal(gemini.predict(X), gemini.labels_)
    assert gemini.predict_proba(X).shape == (120, n_clusters)
    table = gemini.stability_
    assert_array_equal(table["counts"], np.arange(2, 6))
    best = table["counts"][np.argmax(table["advantage"])]
    assert best <= n_clusters
    # The same in another unit, and for the same seed.
    other = clone(gemini).fit(X * 2.0**20)
    assert_array_equal(other.labels_, gemini.labels_)
    assert_array_equal(other.stability_["stability"], table["stability"])
    # A fit with a number leaves no table of the one before.
    assert not hasattr(gemini.set_params(n_clusters=2).fit(X), "stability_")


def test_one_gaussian_has_no_clear_number(few_fits):
    X = np.random.RandomState(1).normal(size=(150, 4))
    with pytest.warns(ConvergenceWarning, match="sees no clear structure"):
        GEMINI("auto", mode="ovo", random_state=0).fit(X)


@pytest.mark.few_epochs
def test_other_kernels_are_fitted(few_fits):
    X, y = blobs(n=60)
    gemini = GEMINI(
        "auto", mode="ovo", kernel="rbf", gamma="scale", max_iter=10, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gemini.fit(X)
    assert gemini.n_clusters_ == 3
    assert adjusted_rand_score(y, gemini.labels_) > 0.9


@pytest.mark.parametrize(
    "params, fit_params, message",
    [
        ({"model": "free"}, {}, "must be an integer with model='free'"),
        ({}, {"affinity": np.eye(120)}, "must be an integer with an affinity"),
        ({"n_clusters": "best"}, {}, "'n_clusters' parameter of GEMINI must be"),
    ],
)
def test_where_no_number_can_be_found(params, fit_params, message):
    X, _ = blobs()
    with pytest.raises(ValueError, match=message):
        GEMINI(**{"n_clusters": "auto"} | params).fit(X, **fit_params)
    with pytest.raises(ValueError, match="for fewer than 16 samples"):
        GEMINI("auto").fit(X[:15])


@pytest.mark.filterwarnings("ignore:GEMINI sees no clear")
@pytest.mark.few_epochs
@pytest.mark.parametrize(
    "form, objective",
    [(form, "mmd") for form in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr")]
    + [("csr", name) for name in ("chi2", "hellinger", "kl", "tv", "wasserstein")],
)
def test_auto_takes_sparse_samples_of_any_form(form, objective, few_fits):
    X = np.random.RandomState(0).normal(size=(48, 3)) + 8 * np.eye(3)[np.arange(48) % 3]
    gemini = GEMINI("auto", objective=objective, max_iter=5, n_init=1, random_state=0)
    found = gemini.fit(sparse.csr_array(X).asformat(form))
    assert found.n_clusters_ == clone(gemini).fit(X).n_clusters_
    assert set(found.stability_) == {"counts", "stability", "reference", "advantage"}


@pytest.mark.filterwarnings("ignore:.*sees no clear")
@pytest.mark.few_epochs
@pytest.mark.parametrize("kernel", ["chi2", "additive_chi2"])
@pytest.mark.parametrize("estimator", [GEMINI, SparseGEMINICV])
def test_references_are_not_negative_where_a_kernel_asks_for_it(
    estimator, kernel, few_fits
):
    X = np.random.RandomState(0).poisson(1.0, size=(48, 3))
    X = X + 8.0 * np.eye(3)[np.arange(48) % 3]
    model = estimator("auto", kernel=kernel, max_iter=10, n_init=1, random_state=0)
    if estimator is SparseGEMINICV:
        model.set_params(n_alphas=2, n_resamples=2)
    assert model.fit(X).n_clusters_ >= 2
