"""The forest and the tree as functions, against enumeration and checked Kruskal."""

import numpy as np
import pytest
from all_forests import all_forests
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering
from skdiffclust.forests import (
    SpanningForest,
    maximum_spanning_forest,
    minimum_spanning_tree,
    perturbed_forest,
)


def symmetric(rng, n, integers=False):
    values = rng.integers(-2, 3, (n, n)) if integers else rng.normal(size=(n, n))
    upper = np.triu(values, 1).astype(float)
    return upper + upper.T


def heaviest(affinity, n_clusters):
    """Largest total affinity of a forest with this many trees, by enumeration."""
    n = len(affinity)
    forests = all_forests(n, n - n_clusters)
    return max(sum(affinity[pair] for pair in forest) for forest in forests)


def checked_kruskal(affinity, n_clusters, labels):
    """Greedy forest: links inside classes first, then what keeps classes apart."""
    n = len(affinity)
    i, j = np.triu_indices(n, 1)
    tree, known = np.arange(n), labels.copy()
    linked = (labels[i] == labels[j]) & (labels[i] >= 0)
    edges = set()
    for e in np.lexsort((j, i, -affinity[i, j], ~linked)):
        a, b = tree[i[e]], tree[j[e]]
        both = {int(c) for c in known[(tree == a) | (tree == b)] if c >= 0}
        if a == b or len(both) > 1 or len(edges) == n - n_clusters:
            continue
        tree[tree == b] = a
        edges.add((int(i[e]), int(j[e])))
    return edges


@pytest.mark.instances(25)
def test_the_heaviest_forest_by_enumeration(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    affinity = symmetric(rng, n, integers=seed % 2)
    for n_clusters in range(1, n + 1):
        forest = maximum_spanning_forest(affinity, n_clusters)
        assert forest.weight == pytest.approx(heaviest(affinity, n_clusters))
        assert forest.edges.shape == (n - n_clusters, 2)
        i, j = forest.edges.T
        assert forest.weight == pytest.approx(affinity[i, j].sum())
        assert len(set(forest.labels)) == n_clusters
        assert np.array_equal(forest.labels[i], forest.labels[j])


def weight_of_partition(affinity, labels):
    """Weight of the best forest whose trees have these rows."""
    total = 0.0
    for c in np.unique(labels):
        rows = np.flatnonzero(labels == c)
        total += maximum_spanning_forest(affinity[np.ix_(rows, rows)], 1).weight
    return total


@pytest.mark.instances(100)
def test_partial_labels_are_never_worse_than_checked_kruskal(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 15))
    affinity = symmetric(rng, n, integers=seed % 4 == 0)
    labels = np.where(rng.random(n) < 0.5, rng.integers(0, 3, n), -1)
    if seed % 5 == 0:  # at most one row in a class, where greed is right
        labels[np.setdiff1d(np.arange(n), np.unique(labels, return_index=True)[1])] = -1
    n_classes = len(set(labels[labels >= 0]))
    n_most = n_classes + np.sum(labels < 0)
    n_clusters = int(rng.integers(max(1, n_classes), n_most + 1))
    forest = maximum_spanning_forest(affinity, n_clusters, constraints=labels)
    i, j = forest.edges.T
    assert forest.solver == "local_search"
    assert forest.weight == pytest.approx(affinity[i, j].sum())
    assert forest.weight == pytest.approx(weight_of_partition(affinity, forest.labels))
    greedy = checked_kruskal(affinity, n_clusters, labels)
    least = sum(affinity[pair] for pair in greedy)
    assert forest.weight >= least - 1e-9
    if seed % 5 == 0:
        assert set(map(tuple, forest.edges)) == greedy
    # The same through the estimator, which is given distances, and without noise.
    clusterer = SpanningForestClustering(
        n_clusters, metric="precomputed", cut_rule="longest"
    )
    distances = affinity.max() + 1 - affinity
    np.fill_diagonal(distances, 0)
    clusterer.fit(distances, partial_labels=labels)
    assert clusterer.solver_ == "local_search"
    assert adjusted_rand_score(forest.labels, clusterer.labels_) == 1
    np.testing.assert_array_equal(
        np.sort(forest.edges), np.sort(clusterer.forest_edges_)
    )
    perturbed = perturbed_forest(
        affinity, n_clusters, noise_scale=0, constraints=labels
    )
    # Without moves it is between the two.
    assert least - 1e-9 <= perturbed.weight / 2 <= forest.weight + 1e-9


def test_the_best_way_between_linked_rows_leads_through_another():
    affinity = np.array([[0, -5, 1], [-5, 0, 1], [1, 1, 0.0]])
    links = [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert maximum_spanning_forest(affinity, 1, constraints=links).weight == 2
    perturbed = perturbed_forest(affinity, 1, noise_scale=0, constraints=links)
    assert perturbed.weight / 2 == 2
    distances = 1 - affinity - np.eye(3)
    clusterer = SpanningForestClustering(1, metric="precomputed")
    clusterer.fit(distances, must_link=[[0, 1]])
    assert sorted(map(tuple, clusterer.forest_edges_)) == [(0, 2), (1, 2)]


def test_must_links_as_a_matrix():
    affinity = np.array([[0, 9, 1, 2], [9, 0, 3, 4], [1, 3, 0, 5], [2, 4, 5, 0.0]])
    linked = np.zeros((4, 4), dtype=int)
    linked[0, 2] = 1
    forest = maximum_spanning_forest(affinity, 2, constraints=linked)
    # Greedy takes 0-2 and 0-1, a weight of 10; 0-1 and 1-2 weigh 12.
    assert forest.edges.tolist() == [[1, 2], [0, 1]]
    assert forest.labels.tolist() == [0, 0, 0, 1]
    assert forest.weight == 12


def test_linked_rows_that_a_sparse_graph_parts_are_joined():
    ends = np.array([[0, 1], [2, 3]])
    rows, columns = np.concatenate([ends, ends[:, ::-1]]).T
    graph = csr_array(([1.0, 2.0, 1.0, 2.0], (rows, columns)), shape=(4, 4))
    forest = maximum_spanning_forest(graph, 1, constraints=[0, -1, -1, 0])
    assert forest.labels.tolist() == [0, 0, 0, 0]
    assert forest.solver == "greedy"
    assert [0, 3] in forest.edges.tolist()


def test_the_total_of_a_tree_is_that_of_its_points(global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(50, 3))
    D = squareform(pdist(X))
    tree = minimum_spanning_tree(X)
    assert np.allclose(tree.lengths, D[tree.edges[:, 0], tree.edges[:, 1]])
    given = minimum_spanning_tree(D, metric="precomputed")
    assert np.array_equal(tree.edges, given.edges)


@pytest.mark.parametrize(
    "affinity, n_clusters, constraints, message",
    [
        (np.zeros((2, 3)), 1, None, "'affinity' parameter must be a square matrix"),
        ([[0, np.nan], [np.nan, 0]], 1, None, "'affinity' parameter must be finite"),
        (np.zeros((2, 2)), 3, None, "at most the number of .*n_samples=2. Got 3"),
        (csr_array((3, 3)), 2, None, "at least 3, the number of parts"),
        (np.zeros((2, 2)), 1, [0, 1], "at least 2, the number of classes"),
        (np.zeros((2, 2)), 2, [0, 0], "at most 1, the number of groups"),
    ],
)
def test_bad_requests(affinity, n_clusters, constraints, message):
    with pytest.raises(ValueError, match=message):
        maximum_spanning_forest(affinity, n_clusters, constraints=constraints)


@pytest.mark.parametrize("n, k", [(1, 1), (7, 7), (12, 3), (40, 1)])
def test_matrices_of_the_definitions(n, k, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    affinity = rng.normal(size=(n, n))
    affinity += affinity.T
    forest = maximum_spanning_forest(affinity, k)
    adjacency = forest.adjacency()
    assert adjacency.shape == (n, n)
    assert adjacency.nnz == 2 * (n - k)
    assert np.array_equal(adjacency.toarray(), adjacency.T.toarray())
    assert not adjacency.diagonal().any()
    assert (adjacency * affinity).sum() == pytest.approx(2 * forest.weight, abs=1e-12)
    connectivity = forest.connectivity()
    same = forest.labels[:, None] == forest.labels[None, :]
    assert np.array_equal(connectivity.toarray(), same.astype(float))
    reached = np.linalg.matrix_power(np.eye(n) + adjacency.toarray(), n) > 0
    assert np.array_equal(reached, same)


def test_the_connectivity_of_many_samples_is_refused():
    edges = np.column_stack([np.arange(10**6 - 1), np.arange(1, 10**6)])
    forest = SpanningForest(edges, np.zeros(10**6, dtype=np.int64), 0.0)
    with pytest.raises(ValueError, match="Compare the labels of the forest instead"):
        forest.connectivity()
