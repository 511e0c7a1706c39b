"""Equal rows, label similarity and the similarities, by brute force."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsTransformer

from skdiffclust._duplicates import equal_rows
from skdiffclust._validation import canonical_rows
from skdiffclust.cuts._graph import AffinityGraph


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("n_features", [3, 12])
def test_ranked_neighbours_weigh_less_the_farther_they_are(
    metric, n_features, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    X = rng.random_sample((30, n_features))
    new = rng.random_sample((5, n_features))
    far = cdist(np.concatenate([X, new]), X, metric)
    far[np.arange(30), np.arange(30)] = np.inf
    ranks = far.argsort(axis=1, kind="stable").argsort(axis=1) + 1
    weights = np.where(ranks <= 6, 1 / (ranks + 1.0), 0.0)
    for rows, others in ((X, new), (sp.csr_array(X), sp.csr_array(new))):
        affinity = AffinityGraph("ranked_neighbors", 6, metric, 1.0, "test")
        graph = affinity.fit(rows).toarray()
        np.testing.assert_allclose(graph, weights[:30] + weights[:30].T, rtol=1e-12)
        links = affinity.links(others).toarray()
        np.testing.assert_allclose(links, weights[30:], rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((100, 3), 10), ((700, 2), 13), ((2000, 3), 20), ((100, 4), 20)],
)
def test_few_samples_of_few_features_have_few_ranked_neighbours(shape, expected):
    X = np.random.RandomState(0).normal(size=shape)
    affinity = AffinityGraph("ranked_neighbors", "auto", "euclidean", 1.0, "test")
    other = AffinityGraph("ranked_neighbors", expected, "euclidean", 1.0, "test")
    difference = affinity.fit(X) - other.fit(X)
    assert not difference.nnz
    assert not (affinity.links(X[:9]) - other.links(X[:9])).nnz


def test_a_dense_affinity_beyond_memory_is_refused_at_once():
    X = np.random.RandomState(0).normal(size=(400_000, 1))
    with pytest.raises(ValueError, match="rbf affinity of 400000 x 400000.*nearest_n"):
        AffinityGraph("rbf", 10, "euclidean", 1.0, "PRCut").fit(X)


def test_as_many_new_rows_as_old_ones_are_linked_as_one_is():
    rng = np.random.RandomState(0)
    X, new = rng.normal(size=(2, 30, 2))
    for kind in (KNeighborsTransformer(n_neighbors=3), "nearest_neighbors"):
        affinity = AffinityGraph(kind, 3, "euclidean", 1.0, "test")
        affinity.fit(X)
        links = affinity.links(new).toarray()
        for i, row in enumerate(new):
            np.testing.assert_array_equal(
                affinity.links(row[None]).toarray()[0], links[i]
            )


@pytest.mark.parametrize("n_features", [1, 3, 10, 12])
def test_neighbours_of_many_equal_rows_are_others(n_features, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(60, n_features))
    X[20:50] = X[0]  # more equal rows than neighbours
    affinity = AffinityGraph("nearest_neighbors", 4, "euclidean", 1.0, "test")
    graph = affinity.fit(X)
    assert not graph.diagonal().any() and set(graph.data) == {1.0}
    firsts = np.r_[:20, 50:60]
    distances = cdist(X[firsts], X[firsts])
    near = distances <= np.sort(distances, axis=1)[:, [4]]
    np.fill_diagonal(near, False)
    np.testing.assert_array_equal(graph[firsts][:, firsts].toarray(), near | near.T)
    # Equal rows have edges to the same others, and none to each other.
    equal = graph[20:50].toarray()
    assert (equal == equal[0]).all() and not equal[:, 20:50].any()
    np.testing.assert_array_equal(np.flatnonzero(equal[0]), firsts[near[0]])


def shared_weights(distances, weights):
    """Mean over all orders of ties of the weights of ranks; O(n²) for each row."""
    shared = np.zeros(distances.shape)
    for row, far in zip(shared, distances, strict=True):
        weight = np.zeros(len(far))
        weight[: len(weights)] = weights
        for length in np.unique(far):
            n_nearer = (far < length).sum()
            row[far == length] = weight[n_nearer : (far <= length).sum()].mean()
    return shared


@pytest.mark.parametrize("n_features", [3, 12])
@pytest.mark.parametrize("kind", ["ranked_neighbors", "nearest_neighbors"])
def test_neighbours_at_one_distance_share_the_weights_of_their_ranks(
    kind, n_features, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    X = rng.randint(3, size=(80, n_features)).astype(float)
    X[60:] = X[:20]
    new = rng.randint(3, size=(6, n_features)) + 0.5
    weights = np.ones(5) if kind == "nearest_neighbors" else 1 / np.arange(2.0, 7)
    groups = equal_rows(X)
    firsts = np.unique(groups, return_index=True)[1]
    distances = cdist(X[firsts], X[firsts], "sqeuclidean")
    np.fill_diagonal(distances, np.inf)
    one_way = np.zeros((80, 80))
    one_way[:, firsts] = shared_weights(distances, weights)[groups]
    links = np.zeros((6, 80))
    links[:, firsts] = shared_weights(cdist(new, X[firsts], "sqeuclidean"), weights)
    is_ranked = kind == "ranked_neighbors"
    both = one_way + one_way.T if is_ranked else np.maximum(one_way, one_way.T)
    for rows, others in ((X, new), (sp.csr_array(X), sp.csr_array(new))):
        affinity = AffinityGraph(kind, 5, "euclidean", 1.0, "test")
        graph = affinity.fit(rows).toarray()
        np.testing.assert_allclose(graph, both, rtol=1e-12)
        np.testing.assert_allclose(affinity.links(others).toarray(), links, rtol=1e-12)


# ---------------------------------------------------------------- sparse rows, cosines


def sparse_rows(rng, n, d, density=0.3):
    X = rng.random_sample((n, d)) * (rng.random_sample((n, d)) < density)
    X[:, :2] += rng.random_sample((n, 2))  # in no row is nothing, and there are no ties
    return X


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("n_features", [4, 40])
def test_neighbours_of_sparse_rows_are_those_of_dense_ones(
    metric, n_features, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    X = sparse_rows(rng, 60, n_features)
    new = np.concatenate([sparse_rows(rng, 10, n_features), X[:2]])
    length = np.linalg.norm(X, axis=1)
    cosines = X @ X.T / np.outer(length, length)
    far = -cosines if metric == "cosine" else cdist(X, X)
    np.fill_diagonal(far, np.inf)
    near = far <= np.sort(far, axis=1)[:, [4]]
    if metric == "cosine":
        near &= cosines > 1e-9
    for rows in (X, sp.csr_array(X)):
        affinity = AffinityGraph("nearest_neighbors", 5, metric, 1.0, "test")
        graph = affinity.fit(rows).toarray()
        np.testing.assert_array_equal(graph > 0, near | near.T)
    links = affinity.links(sp.csr_array(new)).toarray()
    for row, link in zip(new, links, strict=True):
        alone = affinity.links(sp.csr_array(row[None])).toarray()[0]
        np.testing.assert_array_equal(alone, link)
    dense = AffinityGraph("nearest_neighbors", 5, metric, 1.0, "test")
    dense.fit(X)
    np.testing.assert_array_equal(dense.links(new).toarray(), links)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_at_right_angles_are_no_neighbours_by_cosine(form):
    X = form(np.array([[3.0, 0, 0], [1, 0, 0], [0, 2, 1], [0, 1, 1]]))
    graph = AffinityGraph("nearest_neighbors", 3, "cosine", 1.0, "test").fit(X)
    edges = np.argwhere(np.triu(graph.toarray()))
    np.testing.assert_array_equal(edges, [[0, 1], [2, 3]])
    with pytest.raises(ValueError, match="must not be zero .* at index 1"):
        AffinityGraph("nearest_neighbors", 1, "cosine", 1.0, "test").fit(
            form(np.eye(3, 1))
        )


def test_equal_sparse_rows_are_those_of_dense_ones(global_random_seed):
    X = np.random.RandomState(global_random_seed).randint(0, 2, size=(50, 4)) * 1.5
    rows, columns = np.indices(X.shape)
    # Halves, which add up, and stored zeros.
    ends = np.tile(rows.ravel(), 2), np.tile(columns.ravel(), 2)
    order = np.lexsort((-ends[1], ends[0]))
    starts = np.arange(0, 401, 8)
    halves = np.tile(0.5 * X.ravel(), 2)[order]
    given = sp.csr_array((halves, ends[1][order], starts), shape=X.shape)
    kept = given.data.copy()
    found = canonical_rows(given)
    np.testing.assert_array_equal(found.toarray(), X)
    np.testing.assert_array_equal(given.data, kept)
    assert found.nnz == np.count_nonzero(X)
    np.testing.assert_array_equal(equal_rows(found), equal_rows(X))


@pytest.mark.parametrize(
    "kind", ["ranked_neighbors", "nearest_neighbors", "rbf", "cosine"]
)
@pytest.mark.parametrize("n_samples", [2, 300, 2500])
def test_new_samples_have_the_degrees_of_a_given_graph(
    kind, n_samples, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    X, new = rng.normal(size=(2, n_samples, 4))
    graph = AffinityGraph(kind, 20, "euclidean", 1.0, "test").fit(X)
    affinity = AffinityGraph(kind, 20, "euclidean", 1.0, "test")
    affinity.keep(X)
    affinity.relate(5.0 * graph)
    degrees = affinity.scale * affinity.links(new if n_samples > 2 else X).sum(axis=1)
    # Of more than 1000 samples it is an estimate.
    assert degrees.mean() == pytest.approx(5.0 * graph.sum() / n_samples, rel=0.2)


@pytest.mark.parametrize("weight", [0.0, 1e-320, 1e300])
@pytest.mark.parametrize("far", [1.0, 26.0])
def test_links_to_a_graph_without_a_unit_keep_theirs(weight, far):
    X = np.array([[0.0], [far], [2 * far], [3 * far]])
    affinity = AffinityGraph("rbf", 20, "euclidean", 1.0, "test")
    affinity.keep(X)
    affinity.relate(sp.csr_array(weight * (1.0 - np.eye(4))))
    assert 0.0 < affinity.scale < np.inf
