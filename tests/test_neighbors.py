"""Nearest samples and graphs of neighbours, against brute force."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from skdiffclust import SpanningForestClustering
from skdiffclust._neighbors import k_nearest, nearest_sample, neighbors_graph


def manhattan(x, y):
    return np.abs(x - y).sum()


def rows_with_duplicates(seed, n, d, *, integers=False):
    rng = np.random.RandomState(seed)
    X = rng.randint(0, 4, size=(n, d)) if integers else rng.normal(size=(n, d))
    X = X.astype(float)
    X[n // 2 :: 3] = X[: len(X[n // 2 :: 3])]
    return X


# ------------------------------------------------------------------ nearest_sample


def brute_nearest(T, X, metric="euclidean", **params):
    D = cdist(X, T, metric, **params)
    return D.argmin(axis=1), D.min(axis=1)


@pytest.mark.parametrize("d", [1, 2, 5, 10, 11, 40])
@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_nearest_row_matches_brute_force(d, integers, shift, global_random_seed):
    seed = d + 1000 * global_random_seed
    T = rows_with_duplicates(seed, 150, d, integers=integers) + shift
    X = rows_with_duplicates(seed + 1, 60, d, integers=integers) + shift
    indices, distances = nearest_sample(T, X)
    expected = brute_nearest(T, X)
    assert indices.dtype == np.int64
    assert distances.dtype == np.float64
    assert_array_equal(indices, expected[0])
    assert_allclose(distances, expected[1], rtol=1e-13)


@pytest.mark.parametrize(
    "metric",
    [
        "euclidean",
        "sqeuclidean",
        "cosine",
        "manhattan",
        "correlation",
        "chebyshev",
        "seuclidean",
        "mahalanobis",
        manhattan,
    ],
)
@pytest.mark.parametrize("d", [4, 13])
def test_training_rows_find_themselves_in_any_chunk(metric, d, global_random_seed):
    T = rows_with_duplicates(global_random_seed, 60, d) + 10.0
    first = np.array([np.flatnonzero((row == T).all(axis=1))[0] for row in T])
    indices, distances = nearest_sample(T, T, metric=metric)
    assert_array_equal(indices, first)
    assert_array_equal(distances, 0.0)

    X = np.random.RandomState(global_random_seed + 1).normal(size=(31, d)) + 10.0
    whole = nearest_sample(T, X, metric=metric)
    for size in (1, 7):
        parts = [
            nearest_sample(T, X[i : i + size], metric=metric)
            for i in range(0, len(X), size)
        ]
        assert_array_equal(np.concatenate([p[0] for p in parts]), whole[0])
        assert_array_equal(np.concatenate([p[1] for p in parts]), whole[1])


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_many_samples_are_searched_as_few_are(metric, global_random_seed):
    T = rows_with_duplicates(global_random_seed, 2500, 13) + 10.0
    X = rows_with_duplicates(global_random_seed + 1, 2500, 13) + 10.0
    whole = nearest_sample(T, X, metric=metric)
    for start in (0, 1600, 2400):  # in more than one block, if all are asked for
        few = nearest_sample(T, X[start : start + 100], metric=metric)
        assert_array_equal(few[0], whole[0][start : start + 100])
        assert_array_equal(few[1], whole[1][start : start + 100])


@pytest.mark.parametrize("metric", ["cosine", "cityblock", "chebyshev"])
def test_nearest_row_of_other_metrics_matches_scipy(metric, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    T, X = rng.normal(size=(50, 4)), rng.normal(size=(20, 4))
    indices, distances = nearest_sample(T, X, metric=metric)
    expected = brute_nearest(T, X, metric)
    assert_array_equal(indices, expected[0])
    assert_allclose(distances, expected[1], rtol=1e-12)


def test_nearest_row_takes_minus_zero_for_zero(global_random_seed):
    # By correlation, rows are some 1e-16 from themselves before this is settled.
    T = np.random.RandomState(global_random_seed).normal(size=(40, 5))
    T[:, 0], X = 0.0, T.copy()
    X[:, 0] = -0.0
    T[::2, 0] *= -1
    indices, distances = nearest_sample(T, X, metric="correlation")
    assert_array_equal(indices, np.arange(40))
    assert_array_equal(distances, 0.0)


def test_nearest_row_estimates_metric_parameters_on_training_rows(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    T, X = rng.normal(size=(50, 4)) * [1, 10, 100, 1], rng.normal(size=(20, 4))
    _, distances = nearest_sample(T, X, metric="seuclidean")
    expected = brute_nearest(T, X, "seuclidean", V=T.var(axis=0, ddof=1))[1]
    assert_allclose(distances, expected)


@pytest.mark.parametrize("d", [2, 20])
def test_nearest_row_with_all_rows_equal(d):
    T = np.full((3000, d), 0.1)
    indices, distances = nearest_sample(T, np.vstack([T, T[:1] + 1]))
    assert_array_equal(indices, 0)
    assert_array_equal(distances[:-1], 0.0)
    assert_allclose(distances[-1], np.sqrt(d))


@pytest.mark.parametrize("d", [3, 30])
def test_nearest_row_never_loses_an_equal_row_beside_an_outlier(d, global_random_seed):
    T = np.random.RandomState(global_random_seed).normal(size=(100, d)) * 1e-4
    T[50] = 1e8  # products of centred rows are off by far more than the distances
    indices, distances = nearest_sample(T, T)
    assert_array_equal(indices, np.arange(100))
    assert_array_equal(distances, 0.0)


@pytest.mark.parametrize("d", [2, 12])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_nearest_row_in_blocks_of_training_rows(
    d, metric, monkeypatch, global_random_seed
):
    rng = np.random.default_rng(global_random_seed)
    T = rng.integers(1, 4, (500, d)) * 1.0
    X = np.concatenate([T[::7], rng.integers(1, 4, (60, d)), rng.normal(size=(60, d))])
    expected = nearest_sample(T, X, metric=metric)
    monkeypatch.setattr("skdiffclust._neighbors._TRAINING_ROWS", 64)
    found = nearest_sample(T, X, metric=metric)
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


@pytest.mark.parametrize("k", [1, 7, 1500])
@pytest.mark.parametrize("integers", [False, True])
def test_nearest_rows_are_those_of_brute_force_in_blocks(
    k, integers, global_random_seed
):
    T = rows_with_duplicates(global_random_seed, 2500, 12, integers=integers)
    X = rows_with_duplicates(global_random_seed + 1, 700, 12, integers=integers)
    X[:9] = T[:9]
    D = cdist(X, T, "sqeuclidean")
    nearest, distances = k_nearest(T, X, k)
    expected = np.argsort(D, axis=1, kind="stable")[:, :k]
    assert_array_equal(distances == 0, np.take_along_axis(D, expected, axis=1) == 0)
    assert_allclose(distances**2, np.take_along_axis(D, expected, axis=1), rtol=1e-12)
    assert_array_equal(nearest, expected)


def test_nearest_rows_are_the_first_of_millions_that_are_equally_far():
    ones = np.array(list(itertools.combinations(range(16), 8)))[:8400]
    T = np.zeros((len(ones), 16))
    np.put_along_axis(T, ones, 1.0, axis=1)
    nearest, distances = k_nearest(T, np.zeros((512, 16)), 5)
    assert_array_equal(nearest, np.tile(np.arange(5), (512, 1)))
    assert_array_equal(distances, np.sqrt(8.0))


def test_nearest_row_precomputed():
    D = np.array([[3, 1, 1], [0, 2, 0]])
    indices, distances = nearest_sample(None, D, metric="precomputed")
    assert_array_equal(indices, [1, 0])
    assert_array_equal(distances, [1.0, 0.0])
    forest = SpanningForestClustering(2, metric="precomputed").fit(1 - np.eye(3))
    assert_array_equal(forest.predict(D), forest.labels_[[1, 0]])
    with pytest.raises(ValueError, match="3 features, .* is expecting 4 features"):
        SpanningForestClustering(2, metric="precomputed").fit(1 - np.eye(4)).predict(D)
    with pytest.raises(TypeError, match="Sparse data was passed.*toarray"):
        forest.predict(sp.csr_array(D))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        forest.predict(np.where(D == 3, np.nan, D))


def test_nearest_row_refuses_overflow_and_nan(global_random_seed):
    T = np.random.RandomState(global_random_seed).normal(size=(90, 2))
    with pytest.raises(ValueError, match="distances overflow: rescale"):
        nearest_sample(T, T * 1e300)
    with pytest.raises(ValueError, match="distances overflow, rescale"):
        nearest_sample(T, T, metric=lambda x, y: np.inf)
    with pytest.raises(ValueError, match="Got NaN from"):
        nearest_sample(T, T, metric=lambda x, y: np.nan)


# ------------------------------------------------------------------ graph


def brute_graph(X, k):
    D = cdist(X, X)
    n = len(X)
    edges = np.zeros((n, n), dtype=bool)
    for i in range(n):
        order = sorted((D[i, j], j) for j in range(n) if j != i)
        edges[i, [j for _, j in order[:k]]] = True
    return edges | edges.T, D


@pytest.mark.parametrize("d", [2, 14])
@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("k", [1, 4, 39])
def test_neighbors_graph_matches_brute_force(d, integers, k, global_random_seed):
    X = rows_with_duplicates(k + 1000 * global_random_seed, 40, d, integers=integers)
    edges, D = brute_graph(X, k)
    graph = neighbors_graph(X, k)
    assert isinstance(graph, sp.csr_array)
    assert graph.has_sorted_indices
    rows, columns = graph.tocoo().coords
    assert_array_equal((rows, columns), np.nonzero(edges))
    assert_allclose(graph.data, D[rows, columns], rtol=1e-13)
    assert_array_equal(graph.data == 0, D[rows, columns] == 0)


def test_neighbors_graph_of_equal_rows_takes_the_smallest_indices():
    graph = neighbors_graph(np.ones((50, 2)), 3)
    assert_array_equal(graph.toarray(), 0.0)
    assert_array_equal(graph.indices[graph.indptr[49] :], [0, 1, 2])


@pytest.mark.parametrize("n_neighbors", [1, 4, 21])
def test_neighbours_of_sparse_samples_are_those_of_dense_ones(
    n_neighbors, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    T = rows_with_duplicates(global_random_seed, 40, 5, integers=True)
    T[:20] *= rng.uniform(0.5, 2.0, size=(20, 1))
    X = np.vstack([T, rng.normal(size=(10, 5))])
    indices, distances = k_nearest(T, X, n_neighbors)
    far = cdist(X, T)
    assert_allclose(distances, np.sort(far, axis=1)[:, :n_neighbors], atol=1e-12)
    for train, new in [(sp.csr_array(T), sp.csr_array(X)), (T, sp.csr_array(X))]:
        found, lengths = k_nearest(train, new, n_neighbors)
        assert_allclose(lengths, distances, atol=1e-6)
        at = np.arange(len(X))[:, None]
        assert_allclose(far[at, found], far[at, indices], atol=1e-6)
