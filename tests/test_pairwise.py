"""Tests of distances, kernels and precomputed relations."""

import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import (
    haversine_distances,
    pairwise_distances,
    pairwise_kernels,
)

from skdiffclust import SpanningForestClustering, _validation
from skdiffclust._pairwise import (
    EUCLIDEAN_FORMS,
    center,
    check_precomputed,
    distance_matrix,
    kernel_matrix,
)
from skdiffclust._validation import check_dense_size, refuse_container


def manhattan(x, y):
    return np.abs(x - y).sum()


def rows_with_duplicates(seed, n, d, *, integers=False):
    rng = np.random.RandomState(seed)
    X = rng.randint(0, 4, size=(n, d)) if integers else rng.normal(size=(n, d))
    X = X.astype(float)
    X[n // 2 :: 3] = X[: len(X[n // 2 :: 3])]
    return X


# ------------------------------------------------------------------ centring


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_center_is_stable_under_a_shift(shift, global_random_seed):
    X = np.random.RandomState(global_random_seed).normal(size=(200, 3))
    result = center(X + shift)
    assert_allclose(result, X - X.mean(axis=0), atol=1e-9 if shift else 1e-15)
    assert_allclose(result.mean(axis=0), 0, atol=1e-9 if shift else 1e-15)


# ------------------------------------------------------------------ matrices


@pytest.mark.parametrize(
    "metric", ["euclidean", "sqeuclidean", "cosine", "manhattan", "mahalanobis"]
)
def test_distance_matrix_matches_sklearn(metric, global_random_seed):
    X = rows_with_duplicates(global_random_seed, 40, 3)
    D = distance_matrix(X, metric=metric)
    assert D.dtype == np.float64
    assert_array_equal(D, D.T)
    assert_array_equal(np.diag(D), 0.0)
    assert_allclose(D, pairwise_distances(X, metric=metric), atol=1e-7)


@pytest.mark.parametrize("n_samples, rank", [(1, 0), (3, 2), (40, 3)])
def test_mahalanobis_needs_an_invertible_covariance(n_samples, rank):
    X = np.random.RandomState(0).normal(size=(n_samples, 3))
    X = np.column_stack([X, X[:, 0] * 1e9])
    with pytest.raises(ValueError, match=f"must have the rank 4.*Got rank {rank}"):
        SpanningForestClustering(1, metric="mahalanobis").fit(X)


@pytest.mark.parametrize("n_samples, n_constant", [(1, 4), (40, 1)])
def test_seuclidean_needs_features_that_vary(n_samples, n_constant):
    X = np.random.RandomState(0).normal(size=(n_samples, 3))
    X = np.column_stack([X, np.ones(n_samples)])
    with pytest.raises(ValueError, match=f"of which {n_constant} are 0. Drop constant"):
        SpanningForestClustering(1, metric="seuclidean").fit(X)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_mahalanobis_takes_features_of_any_scale(scale, global_random_seed):
    X = np.random.RandomState(global_random_seed).normal(size=(40, 3))
    labels = SpanningForestClustering(3, metric="mahalanobis").fit(X).labels_
    X[:, 0] *= scale
    scaled = SpanningForestClustering(3, metric="mahalanobis").fit(X).labels_
    assert_array_equal(labels, scaled)


FORMS = {
    "euclidean": lambda a, b: np.linalg.norm(a - b),
    "l2": lambda a, b: np.linalg.norm(a - b),
    "minkowski": lambda a, b: np.linalg.norm(a - b),
    "nan_euclidean": lambda a, b: np.linalg.norm(a - b),
    "sqeuclidean": lambda a, b: np.sum((a - b) ** 2),
    "cosine": lambda a, b: 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b),
    "haversine": lambda a, b: haversine_distances([a], [b])[0, 0],
}


@pytest.mark.parametrize("metric", EUCLIDEAN_FORMS)
def test_distance_matrix_of_every_form(metric, global_random_seed):
    # A new row of EUCLIDEAN_FORMS needs its definition here.
    n_features = 2 if metric == "haversine" else 4
    X = np.random.default_rng(global_random_seed).random((20, n_features))
    expected = cdist(X, X, FORMS[metric])
    assert_allclose(distance_matrix(X, metric=metric), expected, atol=1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", manhattan])
def test_equal_rows_are_at_zero_in_the_distance_matrix(metric, global_random_seed):
    X = rows_with_duplicates(global_random_seed, 40, 17) + 1e3
    equal = (X[:, None] == X[None]).all(axis=2)
    D = distance_matrix(X, metric=metric)
    assert_array_equal(D[equal], 0.0)
    assert np.all(D[~equal] > 0)


def test_cosines_of_rows_without_a_direction_are_refused():
    X, Y = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [5e-324, 0.0]])
    assert_allclose(distance_matrix(Y, metric="cosine"), 0)
    for matrix in (
        partial(distance_matrix, metric="cosine"),
        partial(kernel_matrix, kernel="cosine"),
    ):
        with pytest.raises(ValueError, match=r"1 sample\(s\), at index 1"):
            matrix(X)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "polynomial"])
def test_kernel_matrix_matches_sklearn(kernel, global_random_seed):
    X = rows_with_duplicates(global_random_seed, 40, 3)
    K = kernel_matrix(X, kernel=kernel)
    assert_array_equal(K, K.T)
    assert_allclose(K, pairwise_kernels(X, metric=kernel), rtol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_translation_invariant_kernels_survive_an_offset(kernel, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = np.round(rng.normal(size=(40, 3)), 3) * 1024
    params = {"gamma": 1e-4}
    moved = kernel_matrix(X + 1e9, kernel=kernel, kernel_params=params)
    assert_allclose(
        moved, kernel_matrix(X, kernel=kernel, kernel_params=params), atol=1e-6
    )


def test_the_diagonal_of_a_kernel_is_kept():
    square = np.array([[5.0, 1.0], [1.0, 7.0]])
    assert_array_equal(check_precomputed(square), [[0, 1], [1, 0]])
    assert_array_equal(check_precomputed(square, kind="kernel"), square)


# ------------------------------------------------------------------ precomputed


@pytest.mark.parametrize("order", ["C", "F"])
def test_one_entry_of_a_large_matrix_is_found(order, global_random_seed):
    # Larger than a tile.
    rng = np.random.RandomState(global_random_seed)
    D = rng.uniform(1, 2, size=(600, 600))
    D = np.asarray(D + D.T, order=order)
    np.fill_diagonal(D, 0.0)
    assert check_precomputed(D) is D
    for i, j in [
        (0, 599),
        (599, 0),
        (520, 511),
        (513, 520),
        *rng.randint(600, size=(9, 2)),
    ]:
        changed = D.copy(order)
        changed[i, j] = 3.0 if i != j else 1.0
        expected = changed + changed.T
        np.fill_diagonal(expected, 0.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert_array_equal(2 * check_precomputed(changed), expected)
        assert len(caught) == (i != j)
        changed[i, j] = changed[j, i] = np.inf
        if i != j:
            with pytest.raises(ValueError, match="contains infinity|Got infinity"):
                check_precomputed(changed)


def test_check_precomputed_symmetrises_with_a_warning(global_random_seed):
    D = np.random.RandomState(global_random_seed).uniform(size=(9, 9))
    D.flags.writeable = False
    expected = (D + D.T) / 2
    gap = np.abs(D - D.T).max()
    with pytest.warns(UserWarning, match=f"not symmetric.*{gap:.3g}"):
        kernel = check_precomputed(D, kind="kernel")
    assert_allclose(kernel, expected)
    assert_array_equal(kernel, kernel.T)
    np.fill_diagonal(expected, 0.0)
    with pytest.warns(UserWarning, match="'graph' matrix is not symmetric"):
        assert_allclose(check_precomputed(D, name="graph"), expected)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_check_precomputed_refuses_what_is_not_finite(value, container):
    D = np.ones((4, 4))
    D[2, 1] = D[1, 2] = value
    with pytest.raises(ValueError, match="must be finite. Got (NaN|infinity)"):
        check_precomputed(container(D))
    D = np.ones((4, 4)) - np.eye(4)
    D[3, 3] = value  # the diagonal is ignored
    assert_array_equal(check_precomputed(D), np.ones((4, 4)) - np.eye(4))


def test_check_precomputed_refuses_masked_not_square_and_sparse_kernels():
    with pytest.raises(ValueError, match="Got a masked array"):
        check_precomputed(np.ma.masked_equal(np.eye(3), 1))
    with pytest.raises(ValueError, match="'X' parameter must be a plain array"):
        refuse_container(np.ma.masked_equal(np.eye(3), 1))
    for container in (np.array, sp.csr_array, sp.coo_matrix):
        with pytest.raises(ValueError, match=r"'X' .*square.*\(2, 3\)"):
            check_precomputed(container(np.ones((2, 3))))
    with pytest.raises(ValueError, match="sparse is not supported"):
        check_precomputed(sp.eye_array(3), kind="kernel")
    with pytest.raises(ValueError, match="Complex data not supported"):
        check_precomputed(np.eye(3) * 1j)


@pytest.mark.parametrize("form", ["tocsr", "tocsc", "tocoo"])
@pytest.mark.parametrize("container", [sp.coo_array, sp.coo_matrix])
def test_check_precomputed_sparse_takes_the_union(form, container):
    # 0-1 both ways (once in two parts), 1-2 one way, 2-3 a stored zero, 4 alone.
    rows = np.array([0, 1, 1, 1, 3, 2, 4])
    columns = np.array([1, 0, 0, 2, 2, 3, 4])
    D = container(([2.0, 1.5, 0.5, 5.0, 0.0, 0.0, 9.0], (rows, columns)), shape=(5, 5))
    D = getattr(D, form)()
    with pytest.warns(UserWarning, match="differ by up to 5"):
        graph = check_precomputed(D)
    assert isinstance(graph, sp.csr_array)
    assert graph.nnz == 6
    assert graph.has_sorted_indices
    expected = np.zeros((5, 5))
    expected[[0, 1, 1, 2], [1, 0, 2, 1]] = [2, 2, 5, 5]
    assert_array_equal(graph.toarray(), expected)
    assert {(2, 3), (3, 2)} <= set(zip(*graph.tocoo().coords, strict=True))


def test_check_precomputed_sparse_int64_indices_and_input_kept(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    D = sp.random_array((30, 30), density=0.2, rng=rng).tocsr()
    D.indices, D.indptr = D.indices.astype(np.int64), D.indptr.astype(np.int64)
    before = D.copy()
    with pytest.warns(UserWarning, match="not symmetric"):
        graph = check_precomputed(D, kind="affinity")
    assert_array_equal(D.data, before.data)
    assert_array_equal(D.indices, before.indices)
    dense = D.toarray()
    both = (dense != 0) & (dense.T != 0)
    expected = np.where(both, (dense + dense.T) / 2, dense + dense.T)
    np.fill_diagonal(expected, 0)
    assert_allclose(graph.toarray(), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = check_precomputed(graph)
    assert_array_equal(again.toarray(), graph.toarray())


# ------------------------------------------------------------------ size


def test_check_dense_size(monkeypatch):
    text = {"what": "the distance matrix", "remedy": "Use a sparse graph."}
    monkeypatch.setattr(_validation, "_memory_limit", lambda: 8 * 2.0**30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_dense_size(16_384, **text)  # 2 GiB exactly
    with pytest.warns(UserWarning, match=r"20000 x 20000.*3.0 GiB. Use a sparse graph"):
        check_dense_size(20_000, **text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_dense_size(20_000, 100, **text)
        check_dense_size(20_000, itemsize=4, **text)
    with pytest.raises(ValueError, match=r"298.0 GiB, more than the 8.0 GiB.*Use a"):
        check_dense_size(200_000, **text)
