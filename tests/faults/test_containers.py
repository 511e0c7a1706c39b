"""FAULTS 18 to 22: containers of samples that are accepted or refused."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from skdiffclust import (
    AssociativeImputer,
    ClAM,
    GraphCutClustering,
    PRCut,
    SpanningForestClustering,
    SpanningForestEmbedding,
)
from skdiffclust.forests import minimum_spanning_tree, minimum_spanning_tree_by_blocks
from skdiffclust.gemini import gemini_score
from skdiffclust.memories import energy
from skdiffclust.model_selection import compare_clusterers


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
def test_any_numeric_dtype_gives_the_same_partition(blobs, dtype):
    X = whole(blobs)
    for model in (SpanningForestClustering(3), ClAM(3, n_init=2, random_state=0)):
        expected = model.fit(X).labels_
        assert np.array_equal(model.fit(X.astype(dtype)).labels_, expected)
        assert np.array_equal(model.predict(X.astype(dtype)), expected)


def test_small_integers_and_objects_are_the_same_numbers(estimator, blobs, fit, answer):
    X = whole(blobs)
    expected = answer(fit(estimator, X), X)
    for dtype in (np.uint8, object):
        fit(estimator, X.astype(dtype))
        assert np.array_equal(answer(estimator, X.astype(dtype)), expected)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8])
def test_repeated_entries_of_small_integers_do_not_wrap(dtype):
    rows = [0, 0, 1, 1, 1, 1, 2, 2]
    columns = [1, 1, 0, 0, 2, 2, 1, 1]
    values = np.array([1 if dtype is bool else np.iinfo(dtype).max] * 4 + [1] * 4)
    X = sparse.coo_array((values.astype(dtype), (rows, columns)), shape=(3, 3))
    exact = X.astype(float).toarray()
    given = {"affinity": "precomputed", "random_state": 0}
    graph = GraphCutClustering(2, **given).fit(X).affinity_matrix_
    np.testing.assert_array_equal(graph.toarray(), exact)
    forest = SpanningForestClustering(metric="precomputed").fit(X)
    np.testing.assert_array_equal(forest.edge_lengths_, [exact[0, 1], exact[1, 2]])
    of_rows = SpanningForestClustering().fit(X)
    expected = SpanningForestClustering().fit(exact)
    np.testing.assert_allclose(of_rows.edge_lengths_, expected.edge_lengths_)


def test_booleans_are_zeros_and_ones(quick, blobs):
    X = blobs > np.median(blobs, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few distinct rows
        expected = quick.fit(X.astype(float)).labels_
        assert np.array_equal(quick.fit(X).labels_, expected)


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


def test_any_container_gives_the_same_answer(estimator, blobs, fit, answer, tmp_path):
    expected = answer(fit(estimator, blobs), blobs)
    for name, X in containers(blobs, tmp_path):
        fit(estimator, X)
        assert np.array_equal(answer(estimator, X), expected), name
        has_names = name in ("pandas", "polars")
        assert hasattr(estimator, "feature_names_in_") == has_names


def test_ties_are_resolved_alike_in_any_layout():
    rng = np.random.RandomState(0)
    for n_features in (2, 5):
        X = np.round(2 * rng.normal(size=(80, n_features))) / 1000
        for estimator in (
            GraphCutClustering(4, n_init=1, random_state=0),
            PRCut(4, n_init=1, max_iter=3, random_state=0),
        ):
            expected = estimator.fit(X).affinity_matrix_
            for layout in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
                graph = estimator.fit(layout).affinity_matrix_
                assert np.array_equal(graph.toarray(), expected.toarray())


def test_nothing_that_was_passed_is_written(estimator, blobs, fit, answer):
    X = blobs.copy()
    parameters = estimator.get_params()
    answer(fit(estimator, X), X)
    assert np.array_equal(X, blobs)
    assert estimator.get_params() == parameters


@pytest.mark.parametrize(
    "X, error, message",
    [
        (
            [["a", "b"], ["c", "d"]],
            ValueError,
            "Got the str 'a' in column 0 instead. Enc",
        ),
        ([[1j, 2j], [3j, 4j]], ValueError, "Complex data not supported"),
        (
            np.array([["2020-01-01"], ["2020-01-02"]], dtype="M8[D]"),
            ValueError,
            "Got the datetime64 2020-01-01 in column 0 instead. Convert dates",
        ),
        (
            np.array([["1", 2.0], [3.0, 4.0]], dtype=object),
            ValueError,
            "must be numeric. Got the str '1' in column 0",
        ),
        (
            pd.DataFrame({"when": pd.to_datetime(["2020-01-01", "2020-01-02"])}),
            ValueError,
            "must be numeric",
        ),
        (
            pd.DataFrame({"a": [1, 2], "colour": ["red" * 9999, "blue"]}),
            ValueError,
            "Got the str '(red){13}… in column 'colour' instead. .*OneHotEncoder",
        ),
        (["One text.", "Another."], ValueError, "documents with .*TfidfVectorizer"),
        (sparse.csr_array(np.eye(3)), TypeError, r"use '\.toarray\(\)'|dense data is"),
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
def test_rows_that_are_no_numbers(estimator, X, error, message):
    estimator.set_params(n_clusters=1)
    if sparse.issparse(X) and estimator.__sklearn_tags__().input_tags.sparse:
        estimator.fit(X, np.zeros(X.shape[0], dtype=int))
        return
    if isinstance(estimator, SpanningForestClustering | GraphCutClustering):
        message = message.replace("TfidfVectorizer", "metric='gower'")
    with pytest.raises(error, match=message):
        estimator.fit(X, np.zeros(2, dtype=int))


def test_new_rows_with_another_number_of_features(estimator, blobs, fit, answer):
    fit(estimator, blobs)
    with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 4"):
        answer(estimator, blobs[:, :2])


class Annotated:
    """A stand-in for annotated data: NumPy would read it slice by slice, forever."""

    def __init__(self, X):
        self.X = X
        self.shape = X.shape
        self.obsm = {"X_pca": X}
        self.n_read = 0

    def __len__(self):
        return len(self.X)

    def __getitem__(self, rows):
        self.n_read += 1
        raise AssertionError("It was read.")

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("It was read.")


def test_annotated_data_is_refused_unread(estimator, blobs, fit):
    given = Annotated(blobs)
    refused = pytest.raises(
        ValueError, match=r"Annotated instead.*adata\.obsm\[\"X_pca"
    )
    with refused:
        estimator.fit(given, np.arange(len(blobs)) % 3)
    fit(estimator, given.obsm["X_pca"])
    for method in ("predict", "predict_proba", "transform", "partial_fit", "score"):
        if hasattr(estimator, method):
            more = [np.arange(len(blobs)) % 3] if method == "score" else []
            with refused:
                getattr(estimator, method)(given, *more)


def test_functions_refuse_annotated_data(blobs):
    given = Annotated(blobs)
    clusterers = {"k-means": KMeans(3)}
    for call in (
        lambda: minimum_spanning_tree(given),
        lambda: compare_clusterers(given, clusterers),
        lambda: gemini_score(np.eye(3)[np.arange(len(blobs)) % 3], given),
        lambda: AssociativeImputer().fit(given),
        lambda: minimum_spanning_tree_by_blocks(given),
        lambda: energy(given, blobs[:3], inverse_temperature=1.0),
    ):
        with pytest.raises(ValueError, match="Annotated instead"):
            call()


def test_a_column_may_be_named_as_a_part_of_annotated_data(blobs):
    frame = pd.DataFrame(blobs, columns=["obsm", "b", "c", "d"])
    expected = SpanningForestClustering(3).fit(blobs).labels_
    assert np.array_equal(SpanningForestClustering(3).fit(frame).labels_, expected)


def rounded(D):
    """Return D in which entries and their mirror entries differ by rounding."""
    return D * (1 + 1e-15 * np.triu(np.ones_like(D)))


@pytest.mark.parametrize("container", [np.asarray, rounded, sparse.csr_array])
def test_a_symmetric_matrix_as_features_is_noticed(estimator, blobs, fit, container):
    if (
        container is sparse.csr_array
        and not estimator.__sklearn_tags__().input_tags.sparse
    ):
        return
    D = np.round(np.abs(blobs[:, None] - blobs).sum(axis=2))
    D[D > np.median(D)] = 0.0
    has_option = not isinstance(estimator, ClAM | SpanningForestEmbedding)
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        fit(estimator, container(D))
    texts = [str(one.message) for one in issued if one.category is UserWarning]
    noticed = [text for text in texts if "X is a symmetric matrix of 90 x 90" in text]
    assert len(noticed) >= 1
    assert "precomputed" in noticed[0] or not has_option


def test_matrices_that_hold_no_relation_are_not_noticed(blobs):
    forest = SpanningForestClustering(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        offset = 1e8 + np.random.default_rng(0).normal(size=(9, 9))
        for X in (np.eye(9), np.ones((9, 9)), blobs[:4], sparse.eye_array(9), offset):
            forest.fit(X)
    forest.set_params(metric="precomputed").fit(np.abs(blobs[:9, :1] - blobs[:9, 0]))
