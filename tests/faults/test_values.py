"""FAULTS 1 to 8, 16 and 23: values without valid distances, and few samples."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score

from skdiffclust import (
    GEMINI,
    ClAM,
    GraphCutClustering,
    SpanningForestClustering,
    SpanningForestEmbedding,
)
from skdiffclust.forests import minimum_spanning_tree


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite(estimator, blobs, fit, bad):
    X = blobs.copy()
    X[7, 2] = bad
    if np.isnan(bad) and estimator.__sklearn_tags__().input_tags.allow_nan:
        assert np.isfinite(fit(estimator, X).cluster_centers_).all()
        return
    with pytest.raises(ValueError, match="Input X contains (NaN|infinity)") as refused:
        fit(estimator, pd.DataFrame(X))
    assert ("AssociativeImputer" in str(refused.value)) == np.isnan(bad)
    takes_tables = isinstance(estimator, SpanningForestClustering | GraphCutClustering)
    assert ("metric='gower'" in str(refused.value)) == (np.isnan(bad) and takes_tables)
    assert "supervised" not in str(refused.value)


def test_missing_distances_are_not_answered_with_an_imputer():
    given = SpanningForestClustering(2, metric="precomputed")
    D = np.array([[0.0, 1.0, np.nan], [1.0, 0.0, 4.0], [np.nan, 4.0, 0.0]])
    for X in (D, sparse.csr_array(D)):
        with pytest.raises(
            ValueError, match="(?s)contains NaN.*all entries"
        ) as refused:
            given.fit(X)
        assert "supervised" not in str(refused.value)


def test_a_sum_that_overflows_is_no_missing_value():
    X = np.full((4096, 3), 1e308)
    X[0] = 0.0
    with pytest.raises(ValueError, match="distances overflow"):
        GEMINI().fit(X)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_new_rows_that_are_not_finite(quick, blobs, bad):
    X = blobs.copy()
    X[7, 2] = bad
    quick.fit(blobs)
    if np.isnan(bad) and quick.__sklearn_tags__().input_tags.allow_nan:
        assert np.array_equal(quick.predict(X)[8:], quick.predict(blobs)[8:])
        return
    with pytest.raises(ValueError, match="Input X contains (NaN|infinity)"):
        quick.predict(X)


@pytest.mark.parametrize(
    "dtype, scale",
    [
        (np.float64, 1e300),
        (np.float64, -1e160),
        (np.float64, 1e200),
        (np.float32, 1e36),
    ],
)
def test_distances_that_overflow_are_refused_at_once(estimator, fit, dtype, scale):
    X = (np.random.default_rng(0).normal(size=(90, 3)) * scale).astype(dtype)
    # Where this fault is not caught, fit does not return.
    try:
        fit(estimator, X)
    except ValueError as error:
        message = str(error)
        # Squares of 1e36 fit float64: only who works in float32 refuses them.
        assert "distances overflow: rescale X" in message or "float32" in message
    else:
        assert dtype == np.float32


@pytest.mark.parametrize("model", [ClAM(3), GEMINI(3)], ids=repr)
def test_distances_that_underflow_in_float32_are_refused(model):
    X = np.random.default_rng(0).normal(size=(60, 3)) * 1e-30
    with pytest.raises(ValueError, match="float32.*distances underflow: rescale X"):
        model.fit(X.astype(np.float32))


@pytest.mark.parametrize(
    "clusterer",
    [
        SpanningForestClustering(3, metric="cosine"),
        ClAM(3, metric="cosine"),
        GraphCutClustering(3, affinity="cosine"),
        GEMINI(3, kernel="cosine"),
        GEMINI(3, objective="wasserstein", metric="cosine"),
    ],
)
def test_a_sample_of_zeros_has_no_cosine(clusterer, blobs):
    X = np.vstack([blobs, np.zeros((1, blobs.shape[1]))])
    with pytest.raises(ValueError, match=f"sample.* {len(blobs)}[ ,]"):
        clusterer.fit(X)
    if isinstance(clusterer, GEMINI):
        return  # predicts by its model, which compares nothing
    clusterer.fit(blobs)
    with pytest.raises(ValueError, match="must not be zero where cosines"):
        clusterer.predict(X)


def test_cosines_need_no_squares_of_lengths(blobs):
    forest = SpanningForestClustering(3, metric="cosine")
    expected = forest.fit(blobs).labels_
    assert np.array_equal(forest.fit(blobs * 2.0**-600).labels_, expected)


@pytest.mark.torch
@pytest.mark.few_epochs
def test_a_row_beyond_float32_is_refused_by_an_embedding_in_float32(fit):
    X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    fitted = fit(SpanningForestEmbedding(3, max_iter=1, random_state=0), X)
    with pytest.raises(ValueError, match="fits float32. Got values up to 1e.300"):
        fitted.transform([[1e300, 0.0, 0.0]])


def test_a_constant_feature_changes_nothing(clusterer, blobs):
    X = np.column_stack([blobs, np.full(len(blobs), 3.5)])
    expected = clusterer.fit(blobs).labels_
    assert np.array_equal(clusterer.fit(X).labels_, expected)


def test_a_huge_offset_changes_nothing(clusterer, blobs):
    X = np.round(blobs * 2**20) / 2**20
    expected = clusterer.fit(X).labels_
    assert np.array_equal(clusterer.fit(X + 1e6).labels_, expected)


@pytest.mark.few_epochs
def test_all_rows_equal(estimator, fit, answer):
    X = np.ones((20, 3))
    with np.errstate(all="raise"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Z = answer(fit(estimator, X), X)
    assert np.isfinite(Z).all() and (Z == Z[0]).all()
    if hasattr(estimator, "labels_"):
        assert any("1 of " in str(warning.message) for warning in caught)
        assert estimator.n_clusters_ == 1


def test_fewer_distinct_rows_than_clusters(clusterer):
    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 10, axis=0)
    with pytest.warns(ConvergenceWarning, match="2 of 3 clusters"):
        clusterer.fit(X)
    assert clusterer.n_clusters_ == 2
    assert len(set(clusterer.labels_[:10])) == len(set(clusterer.labels_[10:])) == 1


@pytest.mark.parametrize("n_clusters", [0, -1, 2.0, "2", np.nan, True])
def test_n_clusters_that_is_no_number_of_clusters(estimator, blobs, fit, n_clusters):
    estimator.set_params(n_clusters=n_clusters)
    with pytest.raises(ValueError, match="'n_clusters' parameter"):
        fit(estimator, blobs)


def test_more_clusters_than_rows(estimator, blobs, fit):
    estimator.set_params(n_clusters=91)
    name = type(estimator).__name__
    with pytest.raises(ValueError, match=f"of {name} must .*n_samples=90. Got 91"):
        fit(estimator, blobs)


def test_more_samples_than_are_numbered():
    X = np.broadcast_to(np.zeros((1, 1)), (2**31, 1))  # takes no memory
    for fit in (minimum_spanning_tree, SpanningForestClustering(2).fit):
        with pytest.raises(ValueError, match="at most 2147483647 .* Got 2147483648"):
            fit(X)


def test_one_row(estimator, fit, answer):
    X = np.array([[1.0, 2.0]])
    with pytest.raises(ValueError, match="n_samples=1. Got 3 instead"):
        fit(estimator, X)
    estimator.set_params(n_clusters=1)
    if type(estimator).__name__ in ("SpanningForestEmbedding", "SparseGEMINICV"):
        # Nothing can be learned of one row, or left out of it.
        with pytest.raises(
            ValueError, match="label or link to learn|must leave at least one"
        ):
            fit(estimator, X)
        return
    assert answer(fit(estimator, X), X).tolist() == [0]


@pytest.mark.parametrize("exponent", [-6, 0, 6])
@pytest.mark.parametrize(
    "parameters",
    [
        lambda beta: ClAM(3, n_init=2, inverse_temperature=beta, random_state=0),
        lambda beta: GraphCutClustering(3, affinity="rbf", temperature=1 / beta),
    ],
    ids=["ClAM", "PRCut"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The graph of")
def test_any_temperature_is_finite(parameters, blobs, exponent):
    model = parameters(10.0**exponent).fit(blobs)
    assert np.array_equal(model.predict(blobs), model.labels_)
    assert 1 <= model.n_clusters_ <= 3


# Two epochs may empty a cluster, with some seeds.
@pytest.mark.filterwarnings(
    r"ignore:\w*GEMINI\w* found 2 of \d+ clusters:sklearn.exceptions.ConvergenceWarning"
)
@pytest.mark.parametrize("batch_size", [1, 89, 1000])
@pytest.mark.few_epochs
def test_batches_that_do_not_divide_the_rows(estimator, blobs, fit, answer, batch_size):
    if "batch_size" not in estimator.get_params():
        return
    if type(estimator).__name__ == "SpanningForestEmbedding" and batch_size == 1:
        with pytest.raises(ValueError, match="'batch_size' parameter"):
            fit(estimator.set_params(batch_size=1), blobs)
        return
    estimator.set_params(batch_size=batch_size)
    if "max_iter" in estimator.get_params():
        estimator.set_params(max_iter=2)
    if "GEMINI" in type(estimator).__name__:
        # Steps of single rows must be short, or all clusters but one are lost.
        estimator.set_params(learning_rate=0.01)
    assert np.isfinite(answer(fit(estimator, blobs), blobs)).all()


# What the table of doc/reliability.rst names for faults that only some tests of a room
# would show otherwise.


def test_float32_rows_whose_squares_only_float64_holds(estimator, fit, answer):
    X = np.random.default_rng(0).normal(size=(90, 3)).astype(np.float32)
    X[:30] += 20
    X[30:60] -= 20
    huge = X * np.float32(1e30)
    try:
        found = answer(fit(estimator, huge), huge)
    except ValueError as error:
        assert "float32" in str(error)
    else:
        assert len(np.unique(found)) == 3
        assert np.array_equal(found, np.repeat(found[[0, 30, 60]], 30))


def test_an_offset_and_a_constant_feature_leave_an_embedding_that_separates(
    estimator, blobs, fit, answer
):
    X = np.column_stack([blobs, np.full(len(blobs), 3.5)]) + 1e6
    found = answer(fit(estimator, X), X).reshape(len(X), -1)
    assert np.isfinite(found).all()
    assert len(np.unique(found.round(6), axis=0)) > 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_cluster_of_one_far_row_leaves_all_finite(clusterer, blobs):
    X = np.concatenate([blobs, np.full((1, blobs.shape[1]), 1e4)])
    clusterer.fit(X)
    for name, value in vars(clusterer).items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            assert np.isfinite(value).all(), name


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("gamma", [1e-6, 1.0, 1e6])
def test_a_kernel_of_any_width_is_finite(clusterer, blobs, gamma):
    if "kernel" not in clusterer.get_params():
        return
    kernel = Nystroem(gamma=gamma, n_components=10, random_state=0)
    clusterer.set_params(kernel=kernel).fit(blobs)
    assert np.isfinite(clusterer.predict_proba(blobs)).all()


def test_training_that_diverges_says_so(estimator, blobs, fit, answer):
    if "learning_rate" not in estimator.get_params():
        return
    estimator.set_params(learning_rate=1e200, max_iter=20)
    if type(estimator).__name__.startswith("SparseGEMINI"):
        estimator.set_params(batch_size=30)  # all samples at once would be solved for
    if type(estimator).__name__ == "GEMINI":
        estimator.set_params(l2=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = answer(fit(estimator, blobs), blobs)
        except ValueError as error:
            assert "scale X" in str(error)
            return
    assert np.isfinite(found).all()
    assert any("diverged" in str(w.message) for w in caught)


@pytest.mark.parametrize(
    "device", [pytest.param("cuda:7", marks=pytest.mark.torch), "nowhere"]
)
def test_a_missing_device_is_refused(estimator, blobs, fit, device):
    if "device" not in estimator.get_params():
        return
    with pytest.raises(ValueError, match="'device' parameter of .*devices present"):
        fit(estimator.set_params(device=device), blobs)


def test_sparse_rows_give_the_labels_of_dense_ones(estimator, blobs, fit, answer):
    X = sparse.csr_array(blobs)
    if not estimator.__sklearn_tags__().input_tags.sparse:
        with pytest.raises(TypeError, match="use '.toarray|dense data is|Sparse"):
            estimator.fit(X, np.arange(len(blobs)) % 3)
        return
    expected = answer(fit(estimator, blobs), blobs)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    found = answer(fit(estimator, X), X)
    if found.dtype.kind == "f":  # an embedding, of products that add up otherwise
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    else:
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("unit", [1e-165, -1e-165, 1e-300])
def test_squares_that_underflow_are_refused(estimator, blobs, fit, container, unit):
    if (
        container is not np.asarray
        and not estimator.__sklearn_tags__().input_tags.sparse
    ):
        return
    with pytest.raises(ValueError, match="squared distances underflow: rescale X"):
        fit(estimator, container(blobs * unit))


@pytest.mark.parametrize("metric", ["l2", "minkowski", "nan_euclidean", "sqeuclidean"])
def test_squares_that_underflow_are_refused_by_any_name(blobs, metric):
    forest = SpanningForestClustering(3, metric=metric)
    with pytest.raises(ValueError, match="squared distances underflow"):
        forest.fit(blobs * 1e-165)


def test_a_tree_of_sparse_samples_whose_squares_underflow_is_refused(blobs):
    with pytest.raises(ValueError, match="squared distances underflow"):
        minimum_spanning_tree(sparse.csr_array(blobs * 1e-165))
    cosines = minimum_spanning_tree(sparse.csr_array(blobs * 1e-165), metric="cosine")
    expected = minimum_spanning_tree(sparse.csr_array(blobs), metric="cosine")
    np.testing.assert_allclose(cosines.lengths, expected.lengths, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1e-320, 1e-310, 1e-50, 1e300, 1e308])
def test_weights_of_any_size_are_counted(quick, blobs, size, dtype):
    X = blobs.astype(dtype)
    weight = np.full(len(X), size)
    if isinstance(quick, SpanningForestClustering):  # they are numbers of samples
        refused = pytest.raises(ValueError, match="'sample_weight' parameter of Sp")
        noticed = pytest.warns(UserWarning, match="The sample_weight of 90 samples")
        with noticed if size == 1e-50 else refused:
            quick.fit(X, sample_weight=weight)
        return
    expected = quick.fit(X).labels_
    assert (
        adjusted_rand_score(expected, quick.fit(X, sample_weight=weight).labels_) == 1
    )


@pytest.mark.parametrize("size", [1e-310, 1e-50, 1e308])
@pytest.mark.parametrize(
    "model", [ClAM("auto"), GEMINI("auto"), GEMINI(3, model="mlp")]
)
@pytest.mark.few_epochs
def test_weights_of_any_size_are_counted_by_choices(model, blobs, size):
    model = clone(model).set_params(random_state=0, max_iter=30)
    X = blobs.astype(np.float32)
    model.fit(X, sample_weight=np.full(len(X), size))
    assert model.n_clusters_ == 3
    assert np.isfinite(model.score(X, sample_weight=np.full(len(X), size)))


def test_no_warning_of_numpy_at_the_ends_of_the_range(quick, blobs):
    limits = np.finfo(np.float64)
    diagonal = np.sqrt(np.square(np.ptp(blobs, axis=0)).sum())
    accepted = []
    for unit in (
        np.sqrt(limits.max / 8) / diagonal,
        2 * np.sqrt(limits.tiny) / diagonal,
    ):
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            try:
                accepted.append(quick.fit(blobs * unit))
            except ValueError as error:
                assert "rescale X" in str(error)
        assert not [one for one in issued if one.category is RuntimeWarning]
    assert accepted


def test_distances_whose_densities_overflow(blobs):
    D = 1e-311 * np.abs(blobs[:, None] - blobs).sum(axis=2)
    forest = SpanningForestClustering(3, metric="precomputed").fit(D)
    expected = SpanningForestClustering(3, metric="manhattan").fit(blobs)
    assert adjusted_rand_score(forest.labels_, expected.labels_) == 1
    forest.condensed_tree()
