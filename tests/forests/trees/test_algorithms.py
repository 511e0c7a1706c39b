"""Every algorithm grows the tree of the total order (length, i, j), ties included."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array
from scipy.sparse.csgraph import minimum_spanning_tree as scipy_tree
from scipy.spatial.distance import pdist, squareform

from skdiffclust import SpanningForestClustering
from skdiffclust.forests import minimum_spanning_tree


@pytest.fixture(params=["in NumPy", "auto", "prim", "kruskal", "boruvka"])
def algorithm(request):
    """Return an algorithm; "auto" is plain NumPy where nothing is compiled."""
    if request.param == "in NumPy":
        request.getfixturevalue("cold")
        return "auto"
    return request.param


def tree_of(D, algorithm):
    """Return the edges (n - 1, 2) of the tree of a fit, in lexicographic order."""
    model = SpanningForestClustering(1, metric="precomputed", algorithm=algorithm)
    model.fit(D)
    return model.edges_[np.lexsort(model.edges_.T[::-1])]


def by_total_order(D):
    """Return the same edges by Kruskal's algorithm, with a list of labels."""
    i, j = np.triu_indices(len(D), 1)
    labels, edges = np.arange(len(D)), []
    for e in np.lexsort((j, i, D[i, j])):
        one, other = labels[i[e]], labels[j[e]]
        if one != other:
            labels[labels == other] = one
            edges.append((i[e], j[e]))
    edges = np.reshape(edges, (-1, 2))
    return edges[np.lexsort(edges.T[::-1])]


@pytest.mark.parametrize("n_levels", [1, 2, 50, 10**6])
def test_a_matrix(n_levels, algorithm, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    for n in (1, 2, 3, 7, 150):
        D = squareform(rng.integers(0, n_levels, n * (n - 1) // 2).astype(float))
        np.testing.assert_array_equal(tree_of(D, algorithm), by_total_order(D))


@pytest.mark.parametrize("n_features", [1, 3, 12])
@pytest.mark.parametrize("n_values", [2, 9, 10**6])
def test_samples(n_values, n_features, algorithm, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    # Some are equal, and zeros have both signs.
    X = rng.integers(1 - n_values, n_values, (90, n_features)) * 1.0
    X = X[rng.integers(0, 90, 150)] * rng.choice([1.0, -1.0], (150, 1))
    D = squareform(pdist(X))
    # A fit breaks ties by the samples, whatever their order; lengths are the same.
    model = SpanningForestClustering(1, algorithm=algorithm).fit(X)
    i, j = by_total_order(D).T
    lengths = np.sort(D[i, j])[::-1]
    np.testing.assert_allclose(model.edge_lengths_, lengths, rtol=1e-12)
    i, j = model.edges_.T
    np.testing.assert_allclose(model.edge_lengths_, D[i, j], rtol=1e-12)
    tree = minimum_spanning_tree(X).edges
    tree = tree[np.lexsort(tree.T[::-1])]
    np.testing.assert_array_equal(
        tree, by_total_order(squareform(pdist(X, "sqeuclidean")))
    )


def test_a_sparse_graph_has_the_weight_of_scipy(algorithm, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    graph = random_array((200, 200), density=0.03, rng=rng)
    graph = csr_array(graph + graph.T)
    expected = scipy_tree(graph - csr_array(np.diag(graph.diagonal())))
    model = SpanningForestClustering(
        200 - expected.nnz, metric="precomputed", algorithm=algorithm
    ).fit(graph)
    assert len(model.edges_) == expected.nnz
    assert model.edge_lengths_.sum() == pytest.approx(expected.sum(), rel=1e-12)


def test_stored_zeros_are_edges_and_the_diagonal_is_none(algorithm):
    graph = csr_array(([0.0, 7.0, 0.0, 2.0, 2.0], ([0, 1, 1, 1, 2], [1, 1, 0, 2, 1])))
    model = SpanningForestClustering(2, metric="precomputed", algorithm=algorithm)
    assert model.fit(graph).edges_.tolist() == [[1, 2], [0, 1]]
    assert model.edge_lengths_.tolist() == [2.0, 0.0]
    assert model.labels_.tolist() == [0, 0, 1]
