"""FAULTS 1 to 8: values that no distance can be made of, and too few of them."""

import time

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite(clusterer, blobs, bad):
    X = blobs.copy()
    X[7, 2] = bad
    with pytest.raises(ValueError, match="Input X contains (NaN|infinity)"):
        clusterer.fit(X)
    clusterer.fit(blobs)
    with pytest.raises(ValueError, match="Input X contains (NaN|infinity)"):
        clusterer.predict(X)


@pytest.mark.parametrize(
    "dtype, scale", [(np.float64, 1e300), (np.float64, -1e160), (np.float64, 1e200)]
)
def test_distances_that_overflow_are_refused_at_once(clusterer, dtype, scale):
    X = (np.random.default_rng(0).normal(size=(90, 3)) * scale).astype(dtype)
    start = time.perf_counter()
    with pytest.raises(ValueError, match="distances overflow: rescale X"):
        clusterer.fit(X)
    # Not a speed claim: where this fault is not caught, fit does not return.
    assert time.perf_counter() - start < 1


def test_a_constant_feature_changes_nothing(clusterer, blobs):
    X = np.column_stack([blobs, np.full(len(blobs), 3.5)])
    expected = clusterer.fit(blobs).labels_
    assert np.array_equal(clusterer.fit(X).labels_, expected)


def test_a_huge_offset_changes_nothing(clusterer, blobs):
    X = np.round(blobs * 2**20) / 2**20
    expected = clusterer.fit(X).labels_
    assert np.array_equal(clusterer.fit(X + 1e6).labels_, expected)


def test_all_rows_equal(clusterer):
    with pytest.warns(ConvergenceWarning, match="1 cluster"):
        clusterer.fit(np.ones((20, 3)))
    assert clusterer.n_clusters_ == 1
    assert clusterer.labels_.tolist() == [0] * 20


def test_fewer_distinct_rows_than_clusters(clusterer):
    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 10, axis=0)
    with pytest.warns(ConvergenceWarning, match="2 clusters instead of 3"):
        clusterer.fit(X)
    assert clusterer.n_clusters_ == 2
    assert len(set(clusterer.labels_[:10])) == len(set(clusterer.labels_[10:])) == 1


@pytest.mark.parametrize("n_clusters", [0, -1, 2.0, "2", np.nan])
def test_n_clusters_that_is_no_number_of_clusters(clusterer, blobs, n_clusters):
    clusterer.set_params(n_clusters=n_clusters)
    with pytest.raises(ValueError, match="'n_clusters' parameter"):
        clusterer.fit(blobs)


def test_more_clusters_than_rows(clusterer, blobs):
    clusterer.set_params(n_clusters=91)
    with pytest.raises(ValueError, match="n_samples=90. Got 91 instead"):
        clusterer.fit(blobs)


def test_one_row(clusterer):
    with pytest.raises(ValueError, match="n_samples=1. Got 3 instead"):
        clusterer.fit([[1.0, 2.0]])
    clusterer.set_params(n_clusters=1)
    assert clusterer.fit([[1.0, 2.0]]).labels_.tolist() == [0]
