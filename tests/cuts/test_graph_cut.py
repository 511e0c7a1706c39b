"""GraphCutClustering: guarantees, bounds, refusals and predictions."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import block_diag
from sklearn.base import clone
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, ParameterGrid, cross_val_score
from sklearn.neighbors import KNeighborsTransformer, kneighbors_graph

from skdiffclust import GraphCutClustering, PRCut
from skdiffclust.cuts import ratio_cut

FREE = {"n_init": 2, "random_state": 0}
CORNERS = [[0, 0], [9, 0], [0, 9], [9, 9]]


@pytest.fixture(scope="module")
def blobs(global_random_seed):
    return make_blobs(120, centers=4, cluster_std=1.5, random_state=global_random_seed)


def symmetric(rng, n, density):
    upper = np.triu(rng.random_sample((n, n)) * (rng.rand(n, n) < density), 1)
    return upper + upper.T


@pytest.fixture(scope="module")
def giant():
    """A ring of 60 nodes, a pair and two single nodes in the middle of the numbers."""
    order = np.r_[0:20, 24:64]
    first, second = order, np.roll(order, -1)
    graph = np.zeros((64, 64))
    graph[first, second] = graph[second, first] = 1.0
    graph[20, 21] = graph[21, 20] = 1.0
    return graph


@pytest.mark.parametrize("cut", ["ratio", "normalized"])
@pytest.mark.parametrize("seed", range(3))
def test_pseudo_labels_never_cut_more_than_spectral_clustering(
    seed, cut, global_random_seed
):
    seed += 1000 * global_random_seed
    X, _ = load_digits(return_X_y=True)
    model = GraphCutClustering(
        10, cut=cut, init="spectral", min_cluster_size=1, random_state=seed
    ).fit(X)
    peer = SpectralClustering(10, affinity="precomputed", random_state=seed)
    labels = peer.fit_predict(model.affinity_matrix_)
    normalized = cut == "normalized"
    highest = ratio_cut(model.affinity_matrix_, labels, normalized=normalized).value
    found = model.normalized_cut_ if normalized else model.ratio_cut_
    assert found <= highest * (1 + 1e-12)  # sums in another order
    assert model.n_clusters_ == 10


@pytest.mark.parametrize("cut", ["ratio", "normalized"])
def test_a_new_row_goes_where_the_cut_is_least(cut, blobs):
    X, _ = blobs
    model = GraphCutClustering(4, cut=cut, **FREE).fit(X[:100])
    for row in X[100:110]:
        links = model._predictor.affinity.links(row[None])
        graph = sp.block_array([[model.affinity_matrix_, links.T], [links, None]])
        cuts = [
            ratio_cut(
                graph,
                np.append(model.labels_, label),
                normalized=cut == "normalized",
            ).value
            for label in range(4)
        ]
        assert model.predict(row[None]) == np.argmin(cuts)


@pytest.mark.parametrize("cut", ["ratio", "normalized"])
def test_new_samples_depend_on_no_unit_of_weights(cut, blobs):
    X, _ = blobs
    weights = np.random.RandomState(0).uniform(0.1, 5, size=len(X))
    model = GraphCutClustering(4, cut=cut, **FREE)
    labels = model.fit(X, sample_weight=weights).predict(X + 0.3)
    assert len(np.unique(labels)) == 4
    for factor in (1e-9, 1 / weights.sum(), 1e9):
        model.fit(X, sample_weight=factor * weights)
        np.testing.assert_array_equal(model.predict(X + 0.3), labels)


def test_weak_edges_of_new_samples_count_as_strong_ones():
    model = GraphCutClustering(2, affinity="precomputed", **FREE)
    model.fit(np.kron(np.eye(2), np.ones((5, 5))) + 0.01)
    links = np.repeat([[1.0, 0.0], [0.0, 1.0]], 5, axis=1)
    expected = model.labels_[[0, 5]]
    for factor in (1e-200, 1e-20, 1.0, 1e20, 1e200):
        np.testing.assert_array_equal(model.predict(factor * links), expected)


@pytest.mark.parametrize("cut", ["ratio", "normalized"])
@pytest.mark.parametrize("affinity", ["ranked_neighbors", "rbf", "transformer"])
def test_new_samples_do_not_depend_on_the_unit_of_a_given_graph(cut, affinity):
    X, y = load_digits(return_X_y=True)
    X, y, new, truth = X[:400] / 16, y[:400], X[400:600] / 16, y[400:600]
    graph = kneighbors_graph(X, 10)
    graph = graph.maximum(graph.T)
    if affinity == "transformer":
        affinity = KNeighborsTransformer(n_neighbors=10)
    model = GraphCutClustering(10, cut=cut, affinity=affinity, **FREE)
    labels = model.fit(X, precomputed=graph).predict(new)
    assert (
        adjusted_rand_score(truth, labels) > adjusted_rand_score(y, model.labels_) - 0.1
    )
    for factor in (2.0**-20, 2.0**20):
        model.fit(X, precomputed=factor * graph)
        assert np.array_equal(model.predict(new), labels)


def test_affinity_of_a_callable_and_of_a_transformer(blobs):
    X, _ = blobs

    def inverse(X, Y):
        return 1.0 / (1.0 + np.square(X[:, None] - Y[None]).sum(axis=2))

    for affinity in (
        inverse,
        KNeighborsTransformer(n_neighbors=8, mode="distance"),
    ):
        model = GraphCutClustering(4, affinity=affinity, **FREE).fit(X)
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        assert len(model.predict(X + 1e-3)) == 120
    assert set(model.affinity_matrix_.data) == {1.0}  # distances are not weights


def test_neighbours_are_ranked_unless_others_are_asked_for(blobs):
    X, _ = blobs
    alike = {"affinity": "nearest_neighbors", "n_neighbors": 10}
    ranked = {"affinity": "ranked_neighbors", "n_neighbors": 10}  # 120 x 2
    for other, expected in (
        ({}, ranked),
        ({"affinity": "nearest_neighbors"}, alike),
        ({"n_neighbors": 15}, ranked | {"n_neighbors": 15}),
    ):
        found = GraphCutClustering(4, **FREE, **other).fit(X)
        same = GraphCutClustering(4, **FREE, **expected).fit(X)
        assert not (found.affinity_matrix_ - same.affinity_matrix_).nnz
        np.testing.assert_array_equal(found.predict(X), found.labels_)


@pytest.mark.parametrize("init", ["multilevel", "spectral"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sparse_samples_have_the_labels_of_dense_ones(init, metric, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    topics = rng.dirichlet(np.full(40, 0.1), size=3)
    y = rng.randint(3, size=150)
    X = np.stack([rng.multinomial(30, topics[label]) for label in y]) * 1.0
    X += (X > 0) * rng.random_sample(X.shape)  # no ties
    dense = GraphCutClustering(3, metric=metric, init=init, random_state=0).fit(X[:120])
    rows = sp.csr_array(X[:120])
    model = GraphCutClustering(3, metric=metric, init=init, random_state=0).fit(rows)
    np.testing.assert_array_equal(model.labels_, dense.labels_)
    np.testing.assert_array_equal(model.predict(rows), model.labels_)
    new = sp.csr_array(X[120:])
    np.testing.assert_array_equal(model.predict(new), dense.predict(X[120:]))
    assert model.score(new) == pytest.approx(dense.score(X[120:]))
    if metric == "cosine":
        assert adjusted_rand_score(y[:120], model.labels_) > 0.8
        longer = np.linspace(0.1, 10, 120)[:, None] * X[:120]
        again = GraphCutClustering(3, metric=metric, init=init, random_state=0).fit(
            longer
        )
        np.testing.assert_array_equal(again.labels_, model.labels_)


def test_a_text_with_words_of_its_own_goes_to_the_nearest_or_is_noise(
    global_random_seed,
):
    rng = np.random.RandomState(global_random_seed)
    X = np.kron(np.eye(2), np.ones((10, 3))) * (1.0 + rng.random_sample((20, 6)))
    X = sp.block_array([[sp.csr_array(X), None], [None, sp.csr_array([[1.0]])]]).tocsr()
    settings = {"metric": "cosine", "n_neighbors": 4, "random_state": 0}
    with pytest.warns(
        UserWarning, match="The graph of GraphCutClustering has 1 nodes in 1 parts"
    ):
        assert (GraphCutClustering(2, **settings).fit(X).labels_ >= 0).all()
    with pytest.warns(
        UserWarning, match="The graph of GraphCutClustering has 1 nodes in 1 parts"
    ):
        noise = (
            GraphCutClustering(2, small_components="noise", **settings).fit(X).labels_
        )
    assert noise[-1] == -1
    np.testing.assert_array_equal(noise[:20] == noise[0], np.arange(20) < 10)


@pytest.mark.parametrize("affinity", ["rbf", "cosine"])
def test_dense_affinities_predict_sparse_samples(affinity, blobs):
    X, _ = blobs
    model = GraphCutClustering(4, affinity=affinity, min_cluster_size=1, **FREE).fit(
        X[:100]
    )
    np.testing.assert_array_equal(model.predict(sp.csr_array(X)), model.predict(X))
    with pytest.raises(ValueError, match=r"nearest_neighbors.* for sparse X"):
        model.fit(sp.csr_array(X))


@pytest.mark.filterwarnings("ignore:The graph of GraphCutClustering has")
def test_what_a_affinity_does_not_use_is_ignored(blobs):
    X, _ = blobs
    graph = GraphCutClustering(4, **FREE).fit(X).affinity_matrix_
    unused = {"n_neighbors": [5], "metric": ["cosine"], "temperature": [2.0]}
    for affinity, used in (
        ("precomputed", []),
        ("rbf", ["temperature"]),
        (KNeighborsTransformer(n_neighbors=8), []),
        ("ranked_neighbors", ["n_neighbors", "metric"]),
    ):
        given = graph if affinity == "precomputed" else X
        model = GraphCutClustering(4, affinity=affinity, min_cluster_size=1, **FREE)
        labels = model.fit(given).labels_
        others = {n: values for n, values in unused.items() if n not in used}
        for parameters in ParameterGrid(others):
            found = clone(model).set_params(**parameters).fit(given)
            np.testing.assert_array_equal(found.labels_, labels)
    search = GridSearchCV(
        GraphCutClustering(4, min_cluster_size=1, **FREE),
        {"affinity": ["rbf", "ranked_neighbors"], **unused},
        error_score="raise",
        cv=2,
    )
    assert np.isfinite(search.fit(X).cv_results_["mean_test_score"]).all()


@pytest.mark.long
def test_pynndescent_as_a_transformer():
    # Marked long: its kernels compile for a minute.
    pynndescent = pytest.importorskip("pynndescent")
    X = load_digits().data
    train, new = X[:1200], X[1200:]
    exact = GraphCutClustering(10, random_state=0).fit(train)
    affinity = pynndescent.PyNNDescentTransformer(n_neighbors=10, random_state=0)
    model = GraphCutClustering(10, affinity=affinity, random_state=0).fit(train)
    missed = (exact.affinity_matrix_ - model.affinity_matrix_) > 0
    assert missed.nnz <= 0.05 * exact.affinity_matrix_.nnz
    assert model.normalized_cut_ <= 1.05 * exact.normalized_cut_
    np.testing.assert_array_equal(model.predict(train), model.labels_)
    assert adjusted_rand_score(exact.predict(new), model.predict(new)) > 0.8
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


def test_starts_on_small_graphs_differ():
    # Moves of single nodes end at a cut of .194 if all starts merge the same nodes.
    X, _ = make_blobs(120, centers=4, cluster_std=1.5, random_state=1)
    for random_state in range(3):
        cut = GraphCutClustering(4, random_state=random_state).fit(X)
        assert cut.normalized_cut_ < 0.1671


def test_a_precomputed_graph_is_partitioned_and_predicts_by_weights(blobs):
    X, y = blobs
    whole = GraphCutClustering(4, **FREE).fit(X).affinity_matrix_
    graph = whole[:100][:, :100]
    model = GraphCutClustering(4, affinity="precomputed", **FREE)
    for given in (graph, graph.toarray(), sp.csc_matrix(graph)):
        model.fit(given)
        assert model.ratio_cut_ == ratio_cut(graph, model.labels_).value
        np.testing.assert_array_equal(model.predict(given), model.labels_)
    links = whole[100:][:, :100]
    for i, row in enumerate(links.toarray()):
        larger = sp.block_array(
            [[graph, sp.csr_array(row[:, None])], [row[None], None]]
        )
        cuts = [
            ratio_cut(larger, np.append(model.labels_, k), normalized=True).value
            for k in range(4)
        ]
        assert model.predict(links)[i] == model.predict(row[None])[0] == np.argmin(cuts)
    with pytest.raises(ValueError, match="must not have negative weights. Got -1"):
        model.predict(-np.ones((2, 100)))
    with pytest.raises(ValueError, match="99 features"):
        model.predict(np.ones((2, 99)))
    for method in ("score", "predict_proba", "transform", "partial_fit"):
        assert not hasattr(model, method)


def test_a_search_over_a_graph_takes_rows_and_columns(blobs):
    graph = GraphCutClustering(4, **FREE).fit(blobs[0]).affinity_matrix_
    model = GraphCutClustering(4, affinity="precomputed", **FREE)
    scores = cross_val_score(
        model, graph, blobs[1], cv=3, scoring="adjusted_rand_score"
    )
    assert np.isfinite(scores).all()


@pytest.mark.parametrize(
    "change, match",
    [
        ({"max_imbalance": -0.1}, "'max_imbalance' parameter of GraphCutClustering"),
        ({"min_cluster_size": 31}, "at most the mean size of a cluster, 30. Got 31"),
        ({"min_cluster_size": "none"}, "'min_cluster_size' parameter"),
        ({"init": "k-means++"}, "'init' parameter of GraphCutClustering"),
    ],
)
def test_wrong_bounds_are_refused_by_name(change, match, blobs):
    with pytest.raises(ValueError, match=match):
        GraphCutClustering(4, **FREE | change).fit(blobs[0])


def test_own_neighbours_in_more_parts_than_clusters_are_warned_of(global_random_seed):
    X, _ = make_blobs(
        90, centers=CORNERS[:3], cluster_std=0.1, random_state=global_random_seed
    )
    with pytest.warns(UserWarning, match="3 parts that no edge joins"):
        model = GraphCutClustering(2, n_neighbors=5, **FREE).fit(X)
    assert model.ratio_cut_ == 0.0 and model.n_clusters_ == 2


def test_isolated_vertices_are_warned_of(blobs):
    graph = GraphCutClustering(4, **FREE).fit(blobs[0]).affinity_matrix_.toarray()
    graph[5] = graph[:, 5] = 0.0
    with pytest.warns(UserWarning, match="1 nodes in 1 parts that no edge joins"):
        model = GraphCutClustering(4, **FREE).fit(blobs[0], precomputed=graph)
    X = blobs[0]
    nearest = np.argsort(np.linalg.norm(X - X[5], axis=1))[1]
    assert model.labels_[5] == model.labels_[nearest]
    assert np.isfinite(model.ratio_cut_) and np.isfinite(model.normalized_cut_)


@pytest.mark.parametrize("init", ["multilevel", "spectral"])
@pytest.mark.parametrize("cut", ["ratio", "normalized"])
def test_a_giant_part_is_cut_and_small_ones_are_put_to_the_largest(giant, init, cut):
    model = GraphCutClustering(3, cut=cut, init=init, affinity="precomputed")
    with pytest.warns(UserWarning, match="4 nodes in 3 parts .* into the largest"):
        model.fit(giant)
    assert set(model.labels_[20:24]) == {0}
    np.testing.assert_array_equal(model.cluster_sizes_, [24, 20, 20])
    assert model.ratio_cut_ == pytest.approx(2 / 24 + 2 / 20 + 2 / 20)


def test_small_parts_are_noise_on_request(giant):
    model = GraphCutClustering(3, small_components="noise", affinity="precomputed")
    with pytest.warns(UserWarning, match="They are labelled -1"):
        model.fit(giant)
    assert (model.labels_[20:24] == -1).all() and model.n_clusters_ == 3
    np.testing.assert_array_equal(model.cluster_sizes_, [20, 20, 20])
    assert model.ratio_cut_ == pytest.approx(6 / 20)
    assert model.normalized_cut_ == pytest.approx(6 / 40)
    rows = np.arange(64.0)[:, None]
    rows[20:24] = [[1000.0], [1001.0], [5000.0], [5001.0]]
    model = GraphCutClustering(3, small_components="noise", n_neighbors=2)
    with pytest.warns(UserWarning, match="They are labelled -1"):
        model.fit(rows, precomputed=giant)
    np.testing.assert_array_equal(model.predict(rows), model.labels_)
    assert model.predict([[1000.5]]) == -1 and model.predict([[3.5]]) >= 0
    assert 0.0 < model.score(rows) < 1.0


@pytest.mark.parametrize("init", ["multilevel", "spectral"])
@pytest.mark.parametrize("imbalance", [0.0, 0.1, 0.5])
def test_sizes_stay_within_their_bounds(init, imbalance, global_random_seed):
    sizes = [70, 25, 15, 10]
    X, _ = make_blobs(sizes, centers=CORNERS, random_state=global_random_seed)
    options = FREE | {"init": init, "random_state": global_random_seed}
    model = GraphCutClustering(4, max_imbalance=imbalance, **options).fit(X)
    mean = 30
    assert model.cluster_sizes_.max() <= (1 + imbalance) * mean
    assert model.cluster_sizes_.min() >= (1 - imbalance) * mean
    model = GraphCutClustering(4, min_cluster_size=20, **options).fit(X)
    assert model.cluster_sizes_.min() >= 20


@pytest.mark.parametrize(
    ("bound", "sizes"),
    [
        ({"max_imbalance": 0.1}, [8, 8]),
        ({"max_imbalance": 0.3}, [10, 6]),
        ({"min_cluster_size": 7}, [9, 7]),
    ],
)
def test_noise_does_not_count_in_the_bounds_on_sizes(bound, sizes):
    graph = block_diag(np.ones((10, 10)), np.ones((6, 6)), np.zeros((8, 8)))
    model = GraphCutClustering(
        2, small_components="noise", affinity="precomputed", random_state=0
    )
    model.set_params(**bound)
    with pytest.warns(UserWarning, match="They are labelled -1") as warned:
        model.fit(graph)
    assert len(warned) == 1
    np.testing.assert_array_equal(model.cluster_sizes_, sizes)
    np.testing.assert_array_equal(model.labels_ < 0, np.arange(24) >= 16)
    with pytest.raises(ValueError, match="mean size of a cluster, 8. Got 9"):
        model.set_params(min_cluster_size=9).fit(graph)


def test_a_pair_in_a_small_network_is_a_cluster_and_a_single_node_is_not():
    cliques = [1 - np.eye(n) for n in (6, 6, 2)]
    model = GraphCutClustering(3, affinity="precomputed")
    model.fit(block_diag(*cliques))
    np.testing.assert_array_equal(model.cluster_sizes_, [6, 6, 2])
    with pytest.warns(UserWarning, match="1 nodes in 1 parts"):
        model.fit(block_diag(*cliques, np.zeros((1, 1))))
    np.testing.assert_array_equal(model.cluster_sizes_, [7, 6, 2])


def test_parts_that_bounds_or_links_divide_are_not_said_to_be_whole():
    graph = np.kron(np.eye(3), np.ones((4, 4)))
    model = GraphCutClustering(
        2, affinity="precomputed", max_imbalance=0.0, random_state=0
    )
    with pytest.warns(UserWarning, match="do not satisfy the bounds .* loosen"):
        model.fit(graph)
    np.testing.assert_array_equal(model.cluster_sizes_, [6, 6])
    assert model.normalized_cut_ > 0
    model.set_params(max_imbalance=None)
    with pytest.warns(UserWarning, match="do not satisfy the bounds .* loosen"):
        model.fit(graph, cannot_link=[[0, 1]])
    with pytest.warns(UserWarning, match="the cut is 0, and whole parts"):
        model.fit(graph)
    assert model.normalized_cut_ == 0


def test_weights_that_sum_to_one_have_a_least_size_below_one():
    X, _ = make_blobs([20, 20, 4], centers=CORNERS[:3], random_state=0)
    options = FREE | {"n_neighbors": 15, "random_state": 0}
    counted = GraphCutClustering(3, min_cluster_size=0.2 * 44, **options).fit(X)
    model = GraphCutClustering(3, min_cluster_size=0.2, **options)
    model.fit(X, sample_weight=np.full(44, 1 / 44))
    np.testing.assert_array_equal(model.labels_, counted.labels_)
    assert model.cluster_sizes_.min() == 9
    # Of samples, any cluster has as many.
    np.testing.assert_array_equal(model.fit(X).cluster_sizes_, [20, 20, 4])


def test_sizes_are_weights(giant, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    weights = rng.uniform(0.5, 2.0, size=64)
    weights[20:24] = 0.0
    for bound in (
        {"max_imbalance": 0.15},
        {"min_cluster_size": 0.85 * weights.sum() / 3},
    ):
        model = GraphCutClustering(
            3, cut="ratio", affinity="precomputed", random_state=0, **bound
        )
        with pytest.warns(UserWarning, match="4 nodes in 3 parts"):
            model.fit(giant, sample_weight=weights)
        totals = np.bincount(model.labels_, weights)
        assert totals.min() >= 0.85 * weights.sum() / 3
    for wrong, match in (
        (-weights, "Negative values"),
        (0 * weights, "at least one non-zero"),
    ):
        with pytest.raises(ValueError, match=match):
            GraphCutClustering(3, affinity="precomputed").fit(
                giant, sample_weight=wrong
            )


def test_weights_of_samples_divide_the_ratio_cut(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    graph, weights = symmetric(rng, 7, 0.9), rng.uniform(0.2, 3.0, size=7)
    model = GraphCutClustering(2, cut="ratio", affinity="precomputed", random_state=0)
    model.fit(graph, sample_weight=weights)

    def weighted(labels):
        inside = np.eye(2)[labels]
        cuts = np.einsum("ik,ij,jk->k", inside, graph, 1 - inside)
        return (cuts / (weights @ inside)).sum()

    every = [np.array([i >> bit & 1 for bit in range(7)]) for i in range(1, 127)]
    best = min(weighted(labels) for labels in every)
    assert weighted(model.labels_) <= 1.1 * best


@pytest.mark.parametrize("cut", ["ratio", "normalized"])
@pytest.mark.parametrize("bound", [{"min_cluster_size": 1}, {"max_imbalance": 0.3}])
def test_on_one_graph_a_weight_of_two_is_a_repetition(cut, bound, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.uniform(size=(40, 2))
    weights = rng.randint(1, 4, size=40)
    rows = np.repeat(np.arange(40), weights)
    graph = symmetric(rng, 40, 0.3)
    # Edges between groups of equal samples add up to those of the weighted samples.
    share = graph / np.outer(weights, weights)
    model = GraphCutClustering(3, cut=cut, random_state=0, n_init=3, **bound)
    weighted = clone(model).fit(X, sample_weight=weights, precomputed=graph)
    repeated = clone(model).fit(X[rows], precomputed=share[rows][:, rows])
    assert adjusted_rand_score(weighted.labels_[rows], repeated.labels_) == 1.0
    assert weighted.normalized_cut_ == pytest.approx(repeated.normalized_cut_)


def test_a_group_too_heavy_for_the_bounds_is_refused():
    X = np.array([[0.0]] * 30 + [[float(i)] for i in range(1, 31)])
    with pytest.raises(ValueError, match="'max_imbalance' parameter .* heaviest group"):
        GraphCutClustering(4, max_imbalance=0.2).fit(X)
    X, links = np.arange(60.0)[:, None], [[0, i] for i in range(1, 30)]
    with pytest.raises(ValueError, match="equal or linked samples, of size 30,"):
        GraphCutClustering(4, max_imbalance=0.2).fit(X, must_link=links)


def test_nodes_are_clusters_where_there_are_no_others():
    graph = np.zeros((4, 4))
    graph[0, 1] = graph[1, 0] = 1.0
    model = GraphCutClustering(3, affinity="precomputed").fit(graph)
    np.testing.assert_array_equal(model.labels_, [0, 0, 1, 2])


def test_clusters_far_below_the_mean_size_are_warned_of():
    # Two stars and a leaf far out: cut off alone it costs the ratio-cut least.
    n = 600
    rng = np.random.RandomState(0)
    graph = np.triu(rng.rand(n, n) < 0.03, 1).astype(float)
    graph[: n - 1, n - 1] = 0.0
    graph[0, n - 1] = 1.0
    graph = graph + graph.T
    common = {"affinity": "precomputed", "min_cluster_size": 1, "random_state": 0}
    with pytest.warns(ConvergenceWarning, match="very small.*'normalized'"):
        GraphCutClustering(2, cut="ratio", init="multilevel", **common).fit(graph)
    sizes = GraphCutClustering(2, init="multilevel", **common).fit(graph).cluster_sizes_
    assert sizes.min() > 100


def test_an_asymmetric_graph_is_symmetrised_with_a_warning(blobs, global_random_seed):
    X, _ = blobs
    rng = np.random.RandomState(global_random_seed)
    with pytest.warns(UserWarning, match="not symmetric"):
        model = GraphCutClustering(4, **FREE).fit(X, precomputed=rng.rand(120, 120))
    assert abs(model.affinity_matrix_ - model.affinity_matrix_.T).max() == 0


def test_score_is_the_modularity():
    """As networkx counts it; a search by it finds the number of clusters."""
    networkx = pytest.importorskip("networkx")
    centers = 6.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    X, _ = make_blobs(240, centers=centers, random_state=0)
    model = GraphCutClustering(4, n_neighbors=30, n_init=3, random_state=0)
    search = GridSearchCV(model, {"n_clusters": [2, 3, 4, 5]}, cv=3).fit(X)
    assert search.best_params_["n_clusters"] == 4
    labels = model.fit_predict(X)
    communities = [set(np.flatnonzero(labels == c).tolist()) for c in range(4)]
    graph = networkx.from_scipy_sparse_array(model.affinity_matrix_)
    expected = networkx.community.modularity(graph, communities)
    assert model.score(X) == pytest.approx(expected)
    assert model.score(X[:1]) == 0.0  # one sample has no edge


def test_weights_of_new_rows_are_checked(blobs):
    X, _ = blobs

    def inverse(X, Y):
        weights = 1.0 / (1.0 + np.square(X[:, None] - Y[None]).sum(axis=2))
        return weights if len(X) == len(Y) else weights * np.nan

    model = GraphCutClustering(4, affinity=inverse, **FREE).fit(X)
    with pytest.raises(ValueError, match="must give finite weights of at least 0"):
        model.predict(X[:5] + 0.1)


@pytest.mark.parametrize("n", [5, 30])
def test_graphs_without_structure_have_the_same_labels_each_time(n):
    graph = np.ones((n, n)) - np.eye(n)
    model = GraphCutClustering(
        2, affinity="precomputed", min_cluster_size=1, random_state=0
    )
    # Of cuts that are all equal ARPACK would take one at random.
    found = {tuple(model.fit(graph).labels_) for _ in range(4)}
    assert len(found) == 1


def halves_and_a_crumb(rng, crumb):
    """Return a graph of two halves of 100 nodes, and of few nodes with one edge out."""
    sizes = [100, 100, crumb]
    graph = 1.0 * block_diag(*[rng.uniform(size=(n, n)) < 0.12 for n in sizes])
    graph[200:, 200:] = 1.0
    graph[:100, 100:200] = rng.uniform(size=(100, 100)) < 0.02
    graph[0, 200] = 1.0
    graph = np.triu(graph, 1)
    return graph + graph.T


@pytest.mark.parametrize("weight", [1.0, 0.01])
def test_crumbs_are_no_clusters_by_default(weight, global_random_seed):
    graph = halves_and_a_crumb(np.random.RandomState(global_random_seed), 6)
    weights = np.full(206, weight)
    y = np.repeat([0, 1, 2], [100, 100, 6])
    model = GraphCutClustering(2, affinity="precomputed", n_init=4, random_state=0)
    sizes = rf"of sizes {200 * weight:g}, {6 * weight:g}"
    with pytest.warns(ConvergenceWarning, match=sizes):
        model.fit(graph, sample_weight=weights)
    assert adjusted_rand_score(y[:200], model.labels_[:200]) > 0.9
    lowest = clone(model).set_params(min_cluster_size=1 * weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        lowest.fit(graph, sample_weight=weights)
    np.testing.assert_array_equal(lowest.cluster_sizes_, [200, 6])
    assert lowest.normalized_cut_ < model.normalized_cut_
    # Into three the crumb, which few edges leave, is better than half a half.
    three = clone(model).set_params(n_clusters=3).fit(graph, sample_weight=weights)
    assert three.cluster_sizes_[-1] == 6


def test_unequal_clusters_are_found_by_default(global_random_seed):
    # To halve the largest may raise the modularity a little: .58 to .65 with seed 1.
    sizes = [300, 120, 55, 25, 12]
    X, y = make_blobs(sizes, centers=8 * np.eye(5, 8), random_state=global_random_seed)
    model = GraphCutClustering(5, n_init=4, random_state=0).fit(X)
    np.testing.assert_array_equal(model.cluster_sizes_, sizes)
    assert adjusted_rand_score(y, model.labels_) == 1.0


@pytest.mark.parametrize("distance", [6.5, 9])
def test_small_clusters_of_samples_are_kept(distance, global_random_seed):
    # Below a tenth of the mean size: nearly separate, and separate.
    sizes = [800, 100, 30]
    centers = distance * np.array([[0, 0], [1, 0], [0, 1]])
    X, y = make_blobs(sizes, centers=centers, random_state=global_random_seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels = GraphCutClustering(3, random_state=0).fit_predict(X)
    assert adjusted_rand_score(y, labels) > 0.95


@pytest.mark.parametrize("n_clusters", [6, 8, 12])
def test_no_sample_is_a_cluster_only_to_fill_the_number(n_clusters):
    X = load_iris().data
    model = GraphCutClustering(n_clusters, random_state=0).fit(X)
    assert model.objective_ == "modularity"
    assert model.cluster_sizes_.min() >= 0.2 * len(X) / n_clusters


def test_communities_whose_modularity_is_larger_are_returned(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    y = np.arange(600) % 6
    # A tree in each group, whose branches have a low cut, more edges there, and others.
    tree = [(i, rng.choice(np.arange(i % 6, i, 6))) for i in range(6, 600)]
    inside = [6 * rng.randint(100, size=2) + group for group in y[:60]]
    edges = np.concatenate([tree, inside, rng.randint(600, size=(40, 2))])
    edges = edges[edges[:, 0] != edges[:, 1]]
    half = sp.coo_array((np.ones(len(edges)), edges.T), shape=(600, 600))
    graph = sp.csr_array(half + half.T)
    model = GraphCutClustering(6, affinity="precomputed", n_init=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(graph)
    assert model.cluster_sizes_.min() >= 20
    assert adjusted_rand_score(y, model.labels_) > 0.65  # the lowest cut: .36 to .57


def test_whole_components_and_rows_may_be_small(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    part = halves_and_a_crumb(rng, 6)[:200, :200]
    graph = sp.csr_array(block_diag(part, np.ones((12, 12))))
    model = GraphCutClustering(2, affinity="precomputed", random_state=0).fit(graph)
    np.testing.assert_array_equal(model.cluster_sizes_, [200, 12])
    # A group of equal samples that leaves no room for a fifth of the mean.
    X = np.concatenate([np.zeros((95, 1)), [[9.0], [9.1], [9.3], [20], [20.1]]])
    model = GraphCutClustering(3, n_neighbors=98, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(X).n_clusters_ == 3


@pytest.mark.parametrize("cls", [GraphCutClustering, PRCut])
def test_labels_of_all_classes_leave_a_clear_number_clear(cls, global_random_seed):
    centers = 20 * np.eye(4)[:3]
    X, y = make_blobs(200, centers=centers, random_state=global_random_seed)
    known = np.where(np.arange(200) % 10 == 0, y, -1)
    model = cls("auto", random_state=global_random_seed).fit(X, partial_labels=known)
    assert adjusted_rand_score(y, model.labels_) == 1


def test_the_order_of_samples_with_many_ties_does_not_change_the_clusters():
    # Answers from 1 to 5 to four questions: 600 samples have some 200 values.
    found = []
    for seed in range(3):
        rng = np.random.RandomState(seed)
        y = rng.randint(3, size=600)
        means = rng.uniform(1, 5, size=(3, 4))
        X = np.clip(np.round(rng.normal(means[y], 0.8)), 1, 5)
        labels = GraphCutClustering(3, random_state=0).fit(X).labels_
        order = rng.permutation(600)
        others = GraphCutClustering(3, random_state=0).fit(X[order]).labels_
        assert adjusted_rand_score(labels[order], others) > 0.9
        found.append(adjusted_rand_score(y, labels))
    assert np.mean(found) > 0.4
