"""No one call searches the neighbours of all samples, so that Ctrl-C is heard."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from skdiffclust import GraphCutClustering, SpanningForestClustering, _neighbors
from skdiffclust._compat import ArgKmin
from skdiffclust.cuts import _graph as of_cuts


@pytest.fixture
def searched(monkeypatch):
    """The numbers of rows of all calls of a search."""
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


@pytest.mark.parametrize(
    "n, n_features, levels", [(7600, 3, 40), (3600, 12, 3), (2600, 40, 3)]
)
@pytest.mark.parametrize("has_ties", [False, True])
def test_neighbors_are_searched_in_blocks(searched, n, n_features, levels, has_ties):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, n_features))
    if has_ties:
        X = np.unique(rng.randint(levels, size=X.shape), axis=0).astype(float)
    settings = {"affinity": "nearest_neighbors", "n_neighbors": 9, "random_state": 0}
    with threadpool_limits(1):  # more search more rows at once
        graph = GraphCutClustering(2, n_init=1, **settings).fit(X).affinity_matrix_
    assert 1 < len(searched) and max(searched) < len(X)
    # Every sample has its nearest ones, whichever they are of those at one distance; a
    # few other edges join the parts.
    far = NearestNeighbors(n_neighbors=10).fit(X).kneighbors(X)[0][:, -1] + 1e-6
    rows, columns = graph.nonzero()
    lengths = np.linalg.norm(X[rows] - X[columns], axis=1)
    assert np.mean(lengths <= np.maximum(far[rows], far[columns])) > 0.9995
    assert np.bincount(rows[lengths <= far[rows]], minlength=len(X)).min() >= 9


def test_new_samples_are_searched_in_blocks(searched):
    X = np.random.RandomState(0).normal(size=(7200, 3))
    forest = SpanningForestClustering(2).fit(X)
    searched.clear()
    labels = forest.predict(X[::-1] + 0.1)
    assert 1 < len(searched) and max(searched) < len(X)
    parts = [forest.predict(part + 0.1) for part in np.array_split(X[::-1], 5)]
    np.testing.assert_array_equal(labels, np.concatenate(parts))
