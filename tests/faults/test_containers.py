"""FAULTS 18 to 22: what rows may come in, and what they may not."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse


def whole(X):
    """The rows rounded to whole numbers that every dtype can hold."""
    X = np.round(4 * (X - X.min(axis=0)))
    assert X.max() < 256
    return X


@pytest.mark.parametrize(
    "dtype",
    [
        np.int64,
        np.int32,
        np.uint8,
        np.float16,
        np.float32,
        np.longdouble,
        ">f8",
        object,
    ],
)
def test_any_numeric_dtype_gives_the_same_partition(clusterer, blobs, dtype):
    X = whole(blobs)
    expected = clusterer.fit(X).labels_
    assert np.array_equal(clusterer.fit(X.astype(dtype)).labels_, expected)
    assert np.array_equal(clusterer.predict(X.astype(dtype)), expected)


def test_booleans_are_zeros_and_ones(clusterer, blobs):
    X = blobs > np.median(blobs, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few distinct rows
        expected = clusterer.fit(X.astype(float)).labels_
        assert np.array_equal(clusterer.fit(X).labels_, expected)


def containers(X, folder):
    """(name, the same rows in another container)."""
    names = [f"f{i}" for i in range(X.shape[1])]
    frozen = np.lib.format.open_memmap(folder / "X.npy", "w+", X.dtype, X.shape)
    frozen[:] = X
    frozen.flush()
    twice = np.repeat(X, 2, axis=1)
    yield "list", X.tolist()
    yield "Fortran order", np.asfortranarray(X)
    yield "strided", twice[:, ::2]
    yield "read-only memmap", np.load(folder / "X.npy", mmap_mode="r")
    yield "pandas", pd.DataFrame(X, columns=names)
    yield "polars", pl.DataFrame(X, schema=names)


def test_any_container_gives_the_same_labels(clusterer, blobs, tmp_path):
    expected = clusterer.fit(blobs).labels_
    for name, X in containers(blobs, tmp_path):
        labels = clusterer.fit(X).labels_
        assert np.array_equal(labels, expected), name
        assert np.array_equal(clusterer.predict(X), expected), name
        assert hasattr(clusterer, "feature_names_in_") == (name in ("pandas", "polars"))


def test_nothing_that_was_passed_is_written(clusterer, blobs):
    X = blobs.copy()
    parameters = clusterer.get_params()
    clusterer.fit(X).predict(X)
    assert np.array_equal(X, blobs)
    assert clusterer.get_params() == parameters


@pytest.mark.parametrize(
    "X, error, message",
    [
        ([["a", "b"], ["c", "d"]], ValueError, "must be numeric. Got dtype <U1"),
        ([[1j, 2j], [3j, 4j]], ValueError, "Complex data not supported"),
        (
            np.array([["2020-01-01"], ["2020-01-02"]], dtype="M8[D]"),
            ValueError,
            "must be numeric. Got dtype datetime64",
        ),
        (
            np.array([["1", 2.0], [3.0, 4.0]], dtype=object),
            ValueError,
            "must be numeric. Got the str '1'",
        ),
        (
            pd.DataFrame({"when": pd.to_datetime(["2020-01-01", "2020-01-02"])}),
            ValueError,
            "must be numeric",
        ),
        (pd.DataFrame({"a": ["1", "2"]}), ValueError, "must be numeric"),
        (sparse.csr_array(np.eye(3)), TypeError, "use '.toarray()'|dense data is"),
        (
            np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], [[0, 1], [0, 0]]),
            ValueError,
            "masked array",
        ),
        ([1.0, 2.0], ValueError, "Expected 2D array"),
        (np.empty((0, 3)), ValueError, "0 sample"),
        (np.empty((3, 0)), ValueError, "0 feature"),
    ],
)
def test_rows_that_are_no_numbers(clusterer, X, error, message):
    clusterer.set_params(n_clusters=1)
    with pytest.raises(error, match=message):
        clusterer.fit(X)


def test_predict_with_another_number_of_features(clusterer, blobs):
    clusterer.fit(blobs)
    with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 4"):
        clusterer.predict(blobs[:, :2])
