"""Comparisons of clusterers: labels, stability and the picture."""

import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdiffclust import SpanningForestClustering
from skdiffclust.model_selection import compare_clusterers
from skdiffclust.plotting import ClustererComparisonDisplay

mpl.use("Agg")


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(120, centers=3, n_features=4, cluster_std=0.5, random_state=0)


def test_what_is_compared(blobs):
    X, y = blobs
    clusterers = {
        "forest": SpanningForestClustering(3),
        "k-means": make_pipeline(StandardScaler(), KMeans(3)),
        "Ward": AgglomerativeClustering(2),
    }
    found = compare_clusterers(X, clusterers, n_resamples=4, random_state=0)
    assert found.names == tuple(clusterers)
    assert found.left_out == {}
    assert found.n_fitted == len(X)
    assert found.reference == "gaussian"
    for name, clusterer in clusterers.items():
        assert len(found.stability[name]) == 4
        assert len(found.null_stability[name]) == 15
        if name != "k-means":  # which draws
            expected = clusterer.fit_predict(X)
            assert_array_equal(found.labels[name], expected)
        score = silhouette_score(X, found.labels[name])
        assert found.scores[name]["silhouette"] == pytest.approx(score)
    assert found.n_clusters == {"forest": 3, "k-means": 3, "Ward": 2}
    expected = adjusted_rand_score(found.labels["Ward"], found.labels["forest"])
    assert found.agreement[0, 2] == found.agreement[2, 0] == pytest.approx(expected)
    assert_array_equal(found.stability["forest"], 1)
    assert "forest: 3 clusters, stability 1.00" in str(found)
    # Parameters of the user are left alone.
    assert clusterers["k-means"][-1].random_state is None
    with pytest.raises(AttributeError):
        found.names = ()


def test_the_stability_is_that_of_subsets_drawn_alike(blobs):
    X, _ = blobs
    rows = []

    class Recorder(KMeans):
        def fit(self, X, y=None, sample_weight=None):
            rows.append(np.asarray(X))
            return super().fit(X)

    clusterers = {"a": Recorder(2, random_state=0), "b": Recorder(3, random_state=0)}
    found = compare_clusterers(X, clusterers, n_resamples=2, random_state=0)
    # Of each: the whole, the subsets, and reference data with a subset each.
    half = 3 + 2 * len(found.null_stability["a"])
    assert len(rows) == half + 3 + 2 * len(found.null_stability["b"])
    for i in (1, 2):
        assert_array_equal(rows[i], rows[half + i])
        labels = KMeans(2, random_state=0).fit_predict(rows[i])
        inside = (rows[i][:, None] == X).all(axis=2).argmax(axis=1)
        expected = adjusted_rand_score(found.labels["a"][inside], labels)
        assert found.stability["a"][i - 1] == pytest.approx(expected)
        assert len(inside) == round(0.8 * len(X))


def reference_of(X, seed):
    """Return what a clusterer of X (n, d) is fitted to as reference data."""
    fitted = []

    class Recorder(ClusterMixin, BaseEstimator):
        def fit(self, X, y=None):
            fitted.append(X)
            self.labels_ = np.arange(X.shape[0]) % 2
            return self

    compare_clusterers(
        X, [Recorder()], n_resamples=1, max_samples=X.shape[0], random_state=seed
    )
    # The whole and a subset came before.
    return fitted[2]


def test_reference_data_have_the_moments_of_X(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.exponential(size=(4000, 3)) @ rng.normal(size=(3, 3)) + 7
    drawn = reference_of(X, global_random_seed)
    np.testing.assert_allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.3)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(X.T), rtol=0.3, atol=0.3)
    wide = rng.normal(size=(5, 40))
    assert reference_of(wide, global_random_seed).shape == wide.shape


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_permuted_columns_keep_their_values(form, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(30, 4)) * (rng.uniform(size=(30, 4)) < 0.7)
    X[0, 0] = np.nan
    found = reference_of(form(X), global_random_seed)
    assert type(found) is type(form(X))
    found = found.toarray() if sparse.issparse(found) else np.asarray(found)
    assert (found != X).any(axis=0).all()
    assert_array_equal(np.sort(found, axis=0), np.sort(X, axis=0))


def test_structure_is_more_stability_than_without(blobs, global_random_seed):
    clusterers = {"forest": SpanningForestClustering(3), "HDBSCAN": HDBSCAN(copy=True)}
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(150, 4))
    many = {"n_resamples": 10, "random_state": global_random_seed}
    found = compare_clusterers(blobs[0], clusterers, **many)
    assert found.has_structure == {"forest": True, "HDBSCAN": True}
    found = compare_clusterers(X, {"forest": SpanningForestClustering(3)}, **many)
    null = found.null_stability["forest"]
    value = found.stability["forest"].mean() * found.consistency["forest"]
    reached = null * found.null_consistency["forest"] >= value
    assert found.has_structure == {"forest": reached.sum() <= 3}
    assert (found.p_values["forest"] <= 0.1) == (reached.sum() <= 3)
    assert abs(found.stability["forest"].mean() - null.mean()) < 0.4
    single = compare_clusterers(X, {"one": KMeans(1)}, **many)
    assert not single.has_structure["one"]
    assert single.stability["one"].max() == 0
    note = single.to_frame().loc["one", "note"]
    assert note == "no structure: as stable on one Gaussian (p = 1.00)"
    noise = compare_clusterers(X, {"noise": HDBSCAN(149, copy=True)}, n_resamples=2)
    assert noise.n_clusters == {"noise": 0}
    assert noise.stability["noise"].max() == 0


def test_features_of_other_units_are_pointed_out():
    X, _ = load_wine(return_X_y=True)
    clusterers = {"k-means": KMeans(3)}
    with pytest.warns(UserWarning, match="12 of 13 features have together less than"):
        compare_clusterers(X, clusterers, n_resamples=1)
    # No warning, which would be an error.
    scaled = {"k-means": make_pipeline(StandardScaler(), KMeans(3))}
    compare_clusterers(X, scaled, n_resamples=1)
    for load in (load_iris, load_digits):
        compare_clusterers(load(return_X_y=True)[0][::9], clusterers, n_resamples=1)


def test_consistency_is_the_share_of_neighbours_in_the_cluster(blobs):
    X, _ = blobs
    labels = compare_clusterers(X, [HDBSCAN(30, copy=True)], n_resamples=1)
    found, labels = labels.consistency["HDBSCAN"], labels.labels["HDBSCAN"]
    nearest = cdist(X, X).argsort(axis=1)[:, 1:11]
    same = (labels[nearest] == labels[:, None])[labels >= 0]
    assert 0 < found == pytest.approx(same.mean())


@pytest.mark.parametrize("data", ["blobs", "noise"])
def test_a_seed_makes_it_reproducible(blobs, data):
    X = blobs[0]
    if data == "noise":
        X = np.random.RandomState(0).normal(size=X.shape)
    runs = [
        compare_clusterers(X, [KMeans(5, n_init=1)], random_state=3, n_jobs=n_jobs)
        for n_jobs in (None, 2)
    ]
    assert data == "blobs" or len(runs[0].null_stability["KMeans"]) < 19
    for name in ("labels", "stability", "null_stability"):
        one, other = (getattr(run, name)["KMeans"] for run in runs)
        assert_array_equal(one, other)


def test_many_samples_are_predicted(blobs):
    X, y = blobs
    clusterers = {"k-means": KMeans(3), "Ward": AgglomerativeClustering(3)}
    found = compare_clusterers(X, clusterers, max_samples=50, random_state=0)
    assert found.n_fitted == 50
    assert adjusted_rand_score(found.labels["k-means"], y) == 1
    # Without predict only the subsample has labels.
    assert np.sum(found.labels["Ward"] >= 0) == 50
    assert found.agreement[0, 1] == 1
    assert found.to_frame().loc["Ward", "note"] == "fitted to 50 samples"


def test_warnings_and_errors_are_kept_by_name(blobs):
    X, _ = blobs

    class Warns(KMeans):
        def fit(self, X, y=None, sample_weight=None):
            warnings.warn("careful", stacklevel=2)
            return super().fit(X)

    clusterers = {"warns": Warns(2), "fails": KMeans(1000)}
    found = compare_clusterers(X, clusterers, random_state=0)
    assert found.messages == {"warns": ("careful",)}
    assert "n_samples=120 should be >= n_clusters" in found.left_out["fails"]
    assert "careful" in found.to_frame().loc["warns", "note"]
    assert "n_clusters" in found.to_frame().loc["fails", "note"]


def test_text_columns_missing_values_and_sparse_rows(blobs):
    X, y = blobs
    table = pd.DataFrame({"kind": np.array(["a", "b", "c"])[y], "unit": ["cm"] * 120})
    model = make_pipeline(OneHotEncoder(sparse_output=False), KMeans(3))
    found = compare_clusterers(table, {"k-means": model}, random_state=0)
    assert found.reference == "permuted columns"
    assert np.isnan(found.scores["k-means"]["silhouette"])
    assert found.consistency["k-means"] == 1
    assert_array_equal(found.null_consistency["k-means"], 1)
    assert found.n_clusters == {"k-means": 3}
    rows = sparse.csr_array(np.maximum(X, 0))
    found = compare_clusterers(rows, [KMeans(3)], random_state=0)
    assert found.reference == "permuted columns"
    assert np.isfinite(found.scores["KMeans"]["silhouette"])
    assert np.isnan(found.scores["KMeans"]["davies_bouldin"])


def test_wrong_input_is_refused(blobs):
    X, _ = blobs
    with pytest.raises(ValueError, match="at least 4 samples. Got 3"):
        compare_clusterers(X[:3])
    with pytest.raises(ValueError, match="dict of names and estimators"):
        compare_clusterers(X, [KMeans(2), KMeans(3)])
    with pytest.raises(ValueError, match="'max_samples' parameter"):
        compare_clusterers(X, [KMeans(2)], max_samples=0)
    found = compare_clusterers(X, [KMeans(2, algorithm="loyd")])
    assert "'algorithm' parameter of KMeans must be" in found.left_out["KMeans"]
    assert found.names == ()
    assert list(found.to_frame().columns) == ["note"]
    with pytest.raises(ValueError, match="must hold at least one clusterer"):
        ClustererComparisonDisplay(found, X).plot()


def test_the_picture_shows_what_was_found(blobs):
    X, _ = blobs
    clusterers = {"forest": SpanningForestClustering(3), "HDBSCAN": HDBSCAN(copy=True)}
    found = compare_clusterers(X, clusterers, random_state=0)
    display = ClustererComparisonDisplay.from_comparison(found, X)
    assert_array_equal(display.image_.get_array(), found.agreement)
    widths = [bar.get_width() for bar in display.bars_]
    assert widths == [found.stability[name].mean() for name in found.names]
    for line, name in zip(display.null_points_, found.names, strict=True):
        assert_array_equal(line.get_xdata(), found.null_stability[name])
    assert set(display.points_) == set(found.names)
    artists = [display.image_, display.bars_[0], *display.points_.values()]
    assert [artist.axes for artist in artists] == [*display.axes_]
    colours = display.points_["forest"].get_facecolors()
    assert len(np.unique(colours, axis=0)) == 3
    with pytest.raises(ValueError, match=r"must have shape \(120, 2\)"):
        ClustererComparisonDisplay(found, X).plot()
    for n_features in (1, 2, X.shape[1]):
        dense = np.maximum(X[:, :n_features], 0)
        places = [
            ClustererComparisonDisplay.from_comparison(found, form(dense)).positions
            for form in (np.asarray, sparse.csr_array)
        ]
        assert_allclose(cdist(places[0], places[0]), cdist(places[1], places[1]))
        plt.close("all")
    plt.close("all")
