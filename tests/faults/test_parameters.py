"""FAULTS 13, 14, 17 and 34: invalid parameters and matrices."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.neighbors import KNeighborsTransformer

from skdiffclust import (
    GEMINI,
    GraphCutClustering,
    PRCut,
    SpanningForestClustering,
    SparseGEMINI,
    SparseGEMINICV,
)

GIVEN = SpanningForestClustering(2, metric="precomputed", cut_rule="longest")


def test_a_matrix_that_is_not_square():
    with pytest.raises(ValueError, match="must be a square matrix of distances"):
        GIVEN.fit(np.zeros((3, 4)))


def test_a_matrix_that_is_not_symmetric_is_symmetrised_with_a_warning():
    D = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 4.0], [5.0, 4.2, 0.0]])
    with pytest.warns(UserWarning, match="symmetric.*0.2"):
        model = GIVEN.fit(D)
    assert model.edge_lengths_.tolist() == pytest.approx([4.1, 1.0])
    assert D[2, 1] == 4.2


def test_the_diagonal_is_ignored():
    D = np.array([[7.0, 1.0, 5.0], [1.0, -3.0, 4.0], [5.0, 4.0, 2.0]])
    assert GIVEN.fit(D).edge_lengths_.tolist() == [4.0, 1.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite(bad):
    D = np.array([[0.0, 1.0, bad], [1.0, 0.0, 4.0], [bad, 4.0, 0.0]])
    with pytest.raises(ValueError, match="NaN|infinity|finite"):
        GIVEN.fit(D)
    with pytest.raises(ValueError, match="NaN|infinity|finite"):
        GIVEN.fit(sparse.csr_array(D))


def test_indices_of_64_bits():
    graph = sparse.coo_array(
        ([1.0, 1.0, 2.0, 2.0], (np.array([0, 1, 1, 2]), np.array([1, 0, 2, 1]))),
        shape=(3, 3),
    ).tocsr()
    graph.indices = graph.indices.astype(np.int64)
    graph.indptr = graph.indptr.astype(np.int64)
    assert GIVEN.fit(graph).labels_.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "params, message",
    [
        ({"metric": "cosinus"}, "'metric' parameter"),
        ({"min_cluster_size": 0}, "'min_cluster_size' parameter"),
        ({"min_cluster_size": "automatic"}, "'min_cluster_size' parameter"),
        ({"min_samples": 0}, "'min_samples' parameter"),
        (
            {"n_clusters": None, "distance_threshold": -1.0},
            "'distance_threshold' param",
        ),
        (
            {"n_clusters": None, "distance_threshold": np.nan},
            "'distance_threshold' par",
        ),
    ],
)
def test_parameters_out_of_range(params, message):
    with pytest.raises(ValueError, match=message):
        SpanningForestClustering(**{"n_clusters": 2, **params}).fit(
            [[0.0], [1.0], [5.0]]
        )


def test_a_metric_that_gives_nan():
    forest = SpanningForestClustering(2, metric=lambda a, b: np.nan)
    with pytest.raises(ValueError, match="'metric' parameter must give finite"):
        forest.fit([[0.0], [1.0], [5.0]])


@pytest.mark.parametrize(
    "model, metadata",
    [
        (SpanningForestClustering(2, algorithm="kruskal"), {}),
        (SpanningForestClustering(2), {"cannot_link": [[0, 1]]}),
        (GEMINI(2, kernel="rbf"), {}),
        (GEMINI(2, objective="wasserstein"), {}),
        (SparseGEMINI(2, kernel="rbf"), {}),
        (SparseGEMINICV(SparseGEMINI(2, kernel="rbf")), {}),
        (GraphCutClustering(2, affinity="rbf"), {}),
    ],
    ids=repr,
)
def test_all_pairs_of_many_rows_are_refused_at_once(model, metadata):
    X = np.random.default_rng(0).normal(size=(200_000, 2))
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, MemoryError), match=r"GiB"):
            model.fit(X, **metadata)
        # Some copies of X, and nothing of the size of all pairs.
        assert tracemalloc.get_traced_memory()[1] < 16 * X.nbytes
    finally:
        tracemalloc.stop()


def test_nan_in_any_parameter_that_is_a_number(estimator, blobs, fit):
    params = estimator.get_params()
    numbers = [name for name, value in params.items() if isinstance(value, float)]
    for name in numbers:
        estimator.set_params(**{name: np.nan})
        with pytest.raises(ValueError, match=f"'{name.split('__')[-1]}' parameter"):
            fit(estimator, blobs)
        estimator.set_params(**{name: params[name]})


def test_a_long_chain():
    X = np.arange(20_000.0)[:, None] + np.linspace(0, 0.1, 20_000)[:, None] ** 2
    model = SpanningForestClustering(4).fit(X)
    assert model.n_clusters_ == 4
    assert np.bincount(model.labels_).min() >= 0.25 * 20_000 / 4


def test_a_graph_in_more_parts_than_clusters_is_refused():
    graph = sparse.coo_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(5, 5))
    with pytest.raises(ValueError, match=r"'n_clusters' parameter.* 4.*Got 2"):
        GIVEN.fit(graph)


@pytest.mark.filterwarnings("ignore:SparseGEMINI found 2 of 3 clusters")
def test_scalars_of_numpy_are_numbers(quick, blobs):
    expected = quick.fit(blobs).labels_
    params = quick.get_params()
    numbers = {
        name: (np.uint8 if 0 <= value < 256 else np.int64)(value)
        for name, value in params.items()
        if type(value) is int
    }
    numbers |= {n: np.float64(v) for n, v in params.items() if type(v) is float}
    numbers |= {n: np.bool_(v) for n, v in params.items() if type(v) is bool}
    numbers |= {n: np.str_(v) for n, v in params.items() if type(v) is str}
    quick.set_params(**numbers)
    assert np.array_equal(quick.fit(blobs).labels_, expected)
    assert np.array_equal(quick.predict(blobs), expected)
    assert all(quick.get_params()[name] is numbers[name] for name in numbers)


@pytest.mark.parametrize(
    "model",
    [
        GEMINI(2, kernel=lambda a, b: a * b),
        GEMINI(2, kernel=lambda a, b: [a @ b]),
        GEMINI(2, objective="wasserstein", metric=lambda a, b: np.abs(a - b)),
        SpanningForestClustering(2, metric=lambda a, b: np.abs(a - b)),
    ],
    ids=["product", "list", "wasserstein", "forest"],
)
def test_a_function_that_gives_an_array(model, blobs):
    with pytest.raises(ValueError, match="'(kernel|metric)' parameter.*shape .*preco"):
        model.fit(blobs)


@pytest.mark.few_epochs
@pytest.mark.filterwarnings("ignore:.*GEMINI:sklearn.exceptions.ConvergenceWarning")
def test_hidden_layer_sizes_is_an_int_or_a_sequence(layered, blobs, fit, answer):
    expected = answer(fit(layered.set_params(hidden_layer_sizes=(8,)), blobs), blobs)
    for same in (8, np.uint8(8), [8], np.array([8]), np.array([8], dtype=np.uint8)):
        fit(layered.set_params(hidden_layer_sizes=same), blobs)
        assert np.array_equal(answer(layered, blobs), expected)


@pytest.mark.parametrize("sizes", [0, -1, 2.0, True, (), [0], [2.5], (True,), ["8"]])
def test_hidden_layer_sizes_that_are_no_widths(layered, blobs, fit, sizes):
    layered.set_params(hidden_layer_sizes=sizes)
    with pytest.raises(ValueError, match="'hidden_layer_sizes' parameter of"):
        fit(layered, blobs)


@pytest.mark.parametrize(
    "model",
    [
        GEMINI(3, kernel=Nystroem(n_components=-3)),
        SparseGEMINI(3, kernel=Nystroem(n_components=-3)),
        GraphCutClustering(3, affinity=KNeighborsTransformer(n_neighbors=-3)),
        PRCut(3, affinity=KNeighborsTransformer(n_neighbors=-3)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_parameters_of_a_transformer_of_the_user_are_validated(model, blobs):
    with pytest.raises(ValueError, match=r"must be an int in the range \[1, inf\)"):
        model.fit(blobs)
