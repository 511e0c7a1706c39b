"""No call of a search of neighbours is longer than its stated number of products."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from skdiffclust import GraphCutClustering, SpanningForestClustering, _neighbors
from skdiffclust._compat import ArgKmin, effective_n_threads
from skdiffclust.cuts import _graph as of_cuts


@pytest.fixture
def searched(monkeypatch):
    """The numbers of rows of all calls of a search among `n_points` or more."""
    rows = []

    class Tree(cKDTree):
        def query(self, X, *args, **kwargs):
            rows.append(len(X))
            return super().query(X, *args, **kwargs)

    class Search(NearestNeighbors):
        def kneighbors(self, X=None, *args, **kwargs):
            rows.append(len(X))
            return super().kneighbors(X, *args, **kwargs)

    class Products(ArgKmin):
        @classmethod
        def compute(cls, X, **kwargs):
            rows.append(len(X))
            return super().compute(X=X, **kwargs)

    for module in (_neighbors, of_cuts):
        monkeypatch.setattr(module, "cKDTree", Tree)
    monkeypatch.setattr(of_cuts, "NearestNeighbors", Search)
    monkeypatch.setattr(of_cuts, "ArgKmin", Products)
    return rows


@pytest.mark.parametrize("n_features", [3, 12, 40])
def test_neighbors_are_searched_in_blocks(searched, monkeypatch, n_features):
    n = 1500
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, n_features)) + 9.0 * rng.randint(0, 2, (n, 1))
    model = GraphCutClustering(2, random_state=0)
    monkeypatch.setattr(_neighbors, "PRODUCTS_AT_ONCE", 2**60)
    whole = model.fit(X).affinity_matrix_
    assert searched.pop(0) == n
    searched.clear()
    least = 1 if n_features == 12 else 256 * effective_n_threads()
    monkeypatch.setattr(_neighbors, "PRODUCTS_AT_ONCE", 300 * n * n_features)
    blocks = model.fit(X).affinity_matrix_
    assert max(searched) <= max(300, least)
    assert len(searched) > 1
    np.testing.assert_array_equal(whole.indptr, blocks.indptr)
    np.testing.assert_array_equal(whole.indices, blocks.indices)
    np.testing.assert_array_equal(whole.data, blocks.data)


@pytest.mark.parametrize("n_features", [12, 20])
def test_tied_neighbors_do_not_depend_on_blocks(monkeypatch, n_features):
    X = np.random.RandomState(0).randint(0, 3, (1500, n_features)).astype(float)
    rows = np.arange(len(X))
    found = of_cuts._nearest_of_rows(X, rows, 15, "euclidean")
    monkeypatch.setattr(_neighbors, "PRODUCTS_AT_ONCE", 1)
    in_blocks = of_cuts._nearest_of_rows(X, rows, 15, "euclidean")
    distances, nearest = NearestNeighbors(n_neighbors=15).fit(X).kneighbors(X)
    np.testing.assert_array_equal(found[0], in_blocks[0])
    np.testing.assert_array_equal(found[1], in_blocks[1])
    np.testing.assert_allclose(found[1], distances, atol=1e-6)


def test_new_samples_are_searched_in_blocks(searched, monkeypatch):
    X = np.random.RandomState(0).normal(size=(1000, 3))
    forest = SpanningForestClustering(2).fit(X)
    expected = forest.predict(X[::-1] + 0.1)
    monkeypatch.setattr(_neighbors, "PRODUCTS_AT_ONCE", 1)
    searched.clear()
    np.testing.assert_array_equal(forest.predict(X[::-1] + 0.1), expected)
    assert max(searched) == 256
