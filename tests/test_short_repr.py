"""Result objects are described by a line, whatever their size."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from skdiffclust import SpanningForestClustering, SparseGEMINI
from skdiffclust.datasets import make_celeux_one
from skdiffclust.forests import (
    maximum_spanning_forest,
    minimum_spanning_tree,
    perturbed_forest,
)
from skdiffclust.model_selection import compare_clusterers

X, y = make_blobs(400, centers=4, n_features=3, random_state=0)
RESULTS = {
    "SyntheticClusters": lambda: make_celeux_one(5, random_state=0),
    "SpanningTree": lambda: minimum_spanning_tree(X),
    "CutHierarchy": lambda: minimum_spanning_tree(X).hierarchy(),
    "TreeCut": lambda: minimum_spanning_tree(X).hierarchy().cut(4),
    "SpanningForest": lambda: maximum_spanning_forest(X @ X.T, 3),
    "PerturbedForestResult": lambda: perturbed_forest(X @ X.T, 3, random_state=0),
    "CondensedTree": lambda: SpanningForestClustering(4).fit(X).condensed_tree(),
}


@pytest.mark.parametrize("name", RESULTS)
def test_arrays_are_described_by_their_shapes(name):
    shown = repr(RESULTS[name]())
    assert shown.startswith(f"{name}(")
    assert len(shown) < 400
    assert "float64 (" in shown or "int64 (" in shown
    assert "\n" not in shown


def test_scalars_and_sparse_matrices_are_described():
    shown = repr(maximum_spanning_forest(X @ X.T, 3))
    assert "edges=<int64 (397, 2)>, labels=<int64 (400,)>, weight=" in shown
    assert "solver='exact')" in shown
    graph = csr_array(np.eye(4, k=1) + np.eye(4, k=-1))
    shown = repr(perturbed_forest(graph, 2, random_state=0))
    assert "forest=<sparse float64 (4, 4)>" in shown


@pytest.mark.filterwarnings("ignore:SparseGEMINI did not converge")
def test_a_path_is_described_by_its_steps():
    X, y, _ = make_celeux_one(2, random_state=0)
    path = SparseGEMINI(3, max_iter=20, n_init=1, random_state=0).path(X)
    shown = repr(path)
    assert len(shown) < 200
    assert f"{len(path)} steps, 25 to {path.n_features[-1]} features" in shown
    assert f"step {path.chosen} with {path.n_features[path.chosen]} f" in shown


def test_a_comparison_is_a_line_for_each_clusterer():
    clusterers = {"k-means": KMeans(4), "forest": SpanningForestClustering(4)}
    comparison = compare_clusterers(X, clusterers, n_resamples=1, random_state=0)
    lines = repr(comparison).splitlines()
    assert [line.split(":")[0] for line in lines] == ["k-means", "forest"]
    assert str(comparison) == repr(comparison)
    assert "k-means: 4 clusters" in lines[0]
