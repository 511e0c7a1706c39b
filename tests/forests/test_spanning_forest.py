"""SpanningForestClustering, against scipy, its definition, and bad input."""

import pickle
import tracemalloc
import warnings
from itertools import product

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array, kron
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.base import clone
from sklearn.cluster import DBSCAN, AgglomerativeClustering
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import (
    ConvergenceWarning,
    DataConversionWarning,
)
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering
from skdiffclust.forests import (
    SpanningTree,
    maximum_spanning_forest,
    minimum_spanning_tree_by_blocks,
)


def plain(n_clusters=2, **params):
    return SpanningForestClustering(n_clusters, cut_rule="longest", **params)


@pytest.mark.instances(200)
def test_the_partition_of_scipy_at_every_k(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rng.integers(2, 40), rng.integers(1, 7)))
    model = plain(1).fit(X)
    expected = linkage(X, "single")
    assert np.allclose(model.distances_, expected[:, 2], rtol=1e-14)
    for k in range(1, len(X) + 1):
        scipy_labels = fcluster(expected, k, "maxclust")
        assert adjusted_rand_score(scipy_labels, model.cut(k)) == 1


@pytest.mark.parametrize("metric", ["manhattan", "cosine", "chebyshev", "correlation"])
def test_other_metrics(metric, global_random_seed):
    X, _ = make_blobs(60, n_features=5, random_state=global_random_seed)
    model = plain(4, metric=metric).fit(X)
    scipy_name = {"manhattan": "cityblock"}.get(metric, metric)
    expected = linkage(X, "single", metric=scipy_name)
    assert np.allclose(model.distances_, expected[:, 2], rtol=1e-10)
    assert np.array_equal(model.predict(X), model.labels_)


def test_a_callable_metric_is_the_metric(global_random_seed):
    X, _ = make_blobs(40, random_state=global_random_seed)
    model = plain(3, metric=lambda a, b: np.abs(a - b).sum()).fit(X)
    assert np.array_equal(model.labels_, plain(3, metric="l1").fit(X).labels_)


def test_precomputed_distances_are_those_of_the_points(global_random_seed):
    X, _ = make_blobs(50, random_state=global_random_seed)
    D = squareform(pdist(X))
    points, given = (
        SpanningForestClustering(3).fit(X),
        SpanningForestClustering(3, metric="precomputed").fit(D),
    )
    assert np.array_equal(points.labels_, given.labels_)
    assert np.array_equal(points.edges_, given.edges_)
    assert np.array_equal(given.predict(D), given.labels_)


def test_a_sparse_graph_has_the_edges_it_stores():
    ends = np.array([[0, 1], [1, 2], [3, 4], [4, 5]])
    rows, columns = np.concatenate([ends, ends[:, ::-1]]).T
    graph = csr_array(([0.0, 1.0, 2.0, 3.0] * 2, (rows, columns)), shape=(6, 6))
    model = plain(3, metric="precomputed").fit(graph)
    assert model.labels_.tolist() == [0, 0, 0, 1, 1, 2]
    assert model.forest_edges_.tolist() == [[3, 4], [1, 2], [0, 1]]
    with pytest.raises(ValueError, match="at least 2, the number of parts"):
        plain(1, metric="precomputed").fit(graph)


@pytest.mark.parametrize("seed", range(20))
def test_zero_is_an_edge_like_any_other_among_negative_distances(
    seed, global_random_seed
):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    D = np.triu(rng.integers(-3, 4, (8, 8)), 1).astype(float)
    D[0, 1] = -3.0
    D += D.T
    assert plain(8, metric="precomputed").fit(D).n_clusters_ == 8


def test_outliers_do_not_use_up_the_clusters(global_random_seed):
    centers = [[0, 0], [6, 0], [0, 6]]
    X, y = make_blobs(
        300, centers=centers, cluster_std=0.6, random_state=global_random_seed
    )
    X = np.concatenate([X, [[40.0, 40.0], [-40.0, 40.0], [40.0, -40.0]]])
    y = np.concatenate([y, [3, 3, 3]])
    assert adjusted_rand_score(y, plain(3).fit(X).labels_) < 0.1
    labels = SpanningForestClustering(3).fit(X).labels_
    assert adjusted_rand_score(y[:300], labels[:300]) > 0.95


def test_attributes_fit_together(global_random_seed):
    X, _ = make_moons(60, noise=0.05, random_state=global_random_seed)
    model = plain(4).fit(X)
    n = len(X)
    assert model.edges_.shape == (n - 1, 2)
    assert model.forest_edges_.shape == (n - 4, 2)
    assert (np.diff(model.edge_lengths_) <= 0).all()
    i, j = model.edges_.T
    assert (i < j).all()
    assert np.allclose(model.edge_lengths_, np.linalg.norm(X[i] - X[j], axis=1))
    assert np.array_equal(model.forest_edges_, model.edges_[3:])
    assert model.cut_distance_ == model.edge_lengths_[2]
    assert model.n_leaves_ == n
    assert model.linkage_.shape == (n - 1, 4)
    assert np.array_equal(model.children_, model.linkage_[:, :2])
    assert (np.diff(np.bincount(model.labels_)) <= 0).all()
    reference = AgglomerativeClustering(4, linkage="single").fit(X)
    assert adjusted_rand_score(reference.labels_, model.labels_) == 1


@pytest.mark.parametrize("min_cluster_size", [1, 6])
@pytest.mark.parametrize("cut_rule", ["size_weighted", "longest"])
def test_cut_is_a_fit_with_another_number(
    cut_rule, min_cluster_size, global_random_seed
):
    X, _ = make_blobs(80, centers=5, random_state=global_random_seed)
    model = SpanningForestClustering(
        2, cut_rule=cut_rule, min_cluster_size=min_cluster_size
    ).fit(X)
    for k in range(1, 8):
        other = clone(model).set_params(n_clusters=k).fit(X)
        assert np.array_equal(model.cut(k), other.labels_)
    for threshold in (0.3, 1.0, 3.0):
        other = clone(model).set_params(n_clusters=None, distance_threshold=threshold)
        labels = model.cut(distance_threshold=threshold)
        assert np.array_equal(labels, other.fit(X).labels_)


def test_distance_threshold_is_that_of_scikit_learn():
    # Lengths that are met exactly: 1, 1, 2, 3 and 5.
    X = np.array([[0.0], [1.0], [2.0], [4.0], [7.0], [12.0]])
    for threshold in (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0):
        model = plain(None, distance_threshold=threshold).fit(X)
        reference = AgglomerativeClustering(
            None, linkage="single", distance_threshold=threshold
        ).fit(X)
        assert model.n_clusters_ == reference.n_clusters_
        assert adjusted_rand_score(reference.labels_, model.labels_) == 1
        assert np.array_equal(model.cut(distance_threshold=threshold), model.labels_)


def test_equal_samples_stay_together_at_a_threshold_of_zero():
    model = plain(None, distance_threshold=0.0).fit([[0.0], [0.0], [1.0], [2.0]])
    assert model.labels_.tolist() == [0, 0, 1, 2]


def test_number_of_clusters_by_the_widest_gap(global_random_seed):
    X, y = make_blobs(
        400, centers=[[0, 0], [9, 0], [0, 9], [9, 9]], random_state=global_random_seed
    )
    model = SpanningForestClustering("auto").fit(X)
    assert model.n_clusters_ == 4
    assert adjusted_rand_score(y, model.labels_) == 1


def test_predict_takes_the_nearest_row_and_knows_when_it_is_far():
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    model = plain(2).fit(X)
    new = [[2.0], [9.0], [40.0]]
    assert model.predict(new).tolist() == [0, 1, 1]
    assert model.predict(new, within_cut=True).tolist() == [0, 1, -1]


def test_min_samples_is_mutual_reachability(global_random_seed):
    X, _ = make_blobs(60, random_state=global_random_seed)
    D = squareform(pdist(X))
    core = np.sort(D, axis=1)[:, 3]
    raised = np.maximum(D, np.maximum.outer(core, core))
    np.fill_diagonal(raised, 0)
    expected = linkage(squareform(raised), "single")[:, 2]
    model = plain(2, min_samples=4).fit(X)
    assert np.allclose(model.distances_, expected)
    with pytest.raises(ValueError, match="'min_samples' parameter.*at most the number"):
        plain(2, min_samples=61).fit(X)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
@pytest.mark.parametrize("n_samples", [40, 300])
def test_of_edges_raised_to_one_length_the_shortest_is_taken(
    n_samples, metric, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(n_samples, 5)) + 4 * rng.randint(2, size=(n_samples, 1))
    D = cdist(X, X, {"manhattan": "cityblock"}.get(metric, metric))
    core = np.sort(D, axis=1)[:, 9]
    order = rng.permutation(n_samples)
    for n_clusters in (2, 6):
        model = SpanningForestClustering(n_clusters, min_samples=10, metric=metric)
        labels = model.fit(X).labels_
        edges = {frozenset(edge) for edge in model.edges_.tolist()}
        raised = np.maximum(core[model.edges_].max(axis=1), D[tuple(model.edges_.T)])
        assert np.allclose(model.edge_lengths_, raised, rtol=1e-12)
        assert (np.diff(model.edge_lengths_) <= 0).all()
        again = model.fit(X[order])
        assert {frozenset(edge) for edge in order[again.edges_].tolist()} == edges
        assert adjusted_rand_score(again.labels_, labels[order]) == 1
    model = SpanningForestClustering(6, min_samples=10, metric="precomputed").fit(D)
    assert {frozenset(edge) for edge in model.edges_.tolist()} == edges


def test_raised_integers_stay_integers():
    X = np.stack(np.meshgrid(np.arange(9.0), np.arange(9.0)), axis=-1).reshape(-1, 2)
    forest = SpanningForestClustering(None, distance_threshold=1.2, min_samples=4)
    assert set(forest.fit(X).edge_lengths_) == {1.0, np.sqrt(2)}
    assert forest.n_clusters_ == 5  # the corners are at the root of two


def test_relaxing_the_minimum_size_is_said():
    star = np.array([[0.0, 0.0], [1.0, 0], [-1.0, 0], [0, 1.1], [0, -1.1]])
    with pytest.warns(ConvergenceWarning, match="relaxed min_cluster_size from 2 to 1"):
        model = SpanningForestClustering(2, min_cluster_size=2).fit(star)
    assert model.n_clusters_ == 2


def test_partial_labels_and_links():
    X = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    labels = plain(2).fit(X, partial_labels=[0, -1, 0, 1, -1, 0]).labels_
    assert labels[0] == labels[2] == labels[5] != labels[3]
    model = plain(2).fit(X, must_link=[[0, 5]])
    assert model.labels_[0] == model.labels_[5]
    assert model.n_clusters_ == 2
    with pytest.raises(ValueError, match="fitted with constraints"):
        model.cut(3)
    with pytest.raises(ValueError, match="at least 2, the number of classes"):
        plain(1).fit(X, partial_labels=[0, 1, -1, -1, -1, -1])


@pytest.mark.parametrize("algorithm", ["prim", "boruvka", "kruskal"])
def test_every_algorithm_gives_the_same_forest(algorithm, global_random_seed):
    X = np.random.default_rng(global_random_seed).integers(0, 5, (60, 2)).astype(float)
    expected = plain(4).fit(X)
    other = plain(4, algorithm=algorithm).fit(X)
    assert np.array_equal(expected.edges_, other.edges_)
    assert np.array_equal(expected.edge_lengths_, other.edge_lengths_)


def test_cannot_links_part_what_distance_joins():
    X = np.array([[0.0], [1.0], [2.0], [9.0], [10.0], [11.0]])
    model = plain(3).fit(X, cannot_link=[[0, 2]])
    assert model.labels_[0] != model.labels_[2]
    assert model.n_clusters_ == 3
    assert len(set(model.labels_[3:])) == 1
    with pytest.raises(ValueError, match="at least 3"):
        plain(2).fit(X, cannot_link=[[0, 2], [0, 4], [2, 4]])


def test_cannot_links_keep_to_the_minimum_size(global_random_seed):
    X, y = make_blobs(
        90, centers=[[0, 0], [3, 0], [9, 9]], random_state=global_random_seed
    )
    X = np.concatenate([X, [[60.0, 60.0]]])
    ends = [np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]]
    model = SpanningForestClustering(3).fit(X, cannot_link=[ends])
    assert model.labels_[ends[0]] != model.labels_[ends[1]]
    # The link may part one row from all others; distance parts no outlier.
    assert (y[model.labels_[:-1] == model.labels_[-1]] == 2).sum() == 30


def test_a_stuck_greedy_forest_is_repaired():
    """On a path of cannot-links greedy ends with three trees where two are feasible."""
    D = np.array(
        [
            [0.0, 5.0, 4.0, 1.0],
            [5.0, 0.0, 5.0, 4.0],
            [4.0, 5.0, 0.0, 5.0],
            [1.0, 4.0, 5.0, 0.0],
        ]
    )
    path = [[0, 1], [1, 2], [2, 3]]
    model = plain(2, metric="precomputed").fit(D, cannot_link=path)
    assert model.labels_.tolist() == [0, 1, 0, 1]
    affinity = np.where(np.eye(4), 0, 6 - D)
    forbidden = np.zeros((4, 4))
    for i, j in path:
        forbidden[i, j] = -1
    forest = maximum_spanning_forest(affinity, 2, constraints=forbidden)
    assert forest.labels.tolist() == [0, 1, 0, 1]


@pytest.mark.instances(40)
def test_cannot_links_are_met_or_refused(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 12)), int(rng.integers(2, 5))
    X = rng.normal(size=(n, 2))
    links = rng.integers(0, n, (int(rng.integers(1, n)), 2))
    links = links[links[:, 0] != links[:, 1]]
    feasible = any(
        len(set(colours)) == k and all(colours[i] != colours[j] for i, j in links)
        for colours in product(range(k), repeat=n if n < 8 else 0)
    )
    try:
        model = plain(k).fit(X, cannot_link=links)
    except ValueError as error:
        assert "n_clusters" in str(error)
        assert not feasible
        return
    assert model.n_clusters_ == k
    assert len(model.forest_edges_) == n - k
    assert all(model.labels_[i] != model.labels_[j] for i, j in links)


@pytest.mark.parametrize("cut_rule", ["size_weighted", "longest"])
@pytest.mark.parametrize("given", [False, True])
def test_weights_are_repeats_and_zero_is_absence(cut_rule, given, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, _ = make_blobs(60, centers=4, random_state=global_random_seed)
    weights = rng.integers(0, 4, 60)
    repeated = np.repeat(X, weights, axis=0)
    params = {"cut_rule": cut_rule, "min_cluster_size": 5}
    if given:
        params["metric"] = "precomputed"
    for n_clusters in (2, 4, "auto"):
        model = SpanningForestClustering(n_clusters, **params)
        other = clone(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            if given:
                labels = model.fit(squareform(pdist(X)), None, weights).labels_
                other.fit(squareform(pdist(repeated)))
                assert np.array_equal(model.predict(squareform(pdist(X))), labels)
            else:
                labels = model.fit(X, sample_weight=weights).labels_
                other.fit(repeated)
                assert np.array_equal(model.predict(X), labels)
                new = rng.normal(size=(50, 2)) * 5
                assert np.array_equal(model.predict(new), other.predict(new))
            assert np.array_equal(model.cut(n_clusters), labels)
        assert np.array_equal(np.repeat(labels, weights), other.labels_)


def test_weights_that_cannot_be():
    X = [[0.0], [1.0], [5.0]]
    with pytest.raises(ValueError, match="at least one non-zero"):
        SpanningForestClustering().fit(X, sample_weight=[0, 0, 0])
    with pytest.raises(ValueError, match="[Nn]egative"):
        SpanningForestClustering().fit(X, sample_weight=[1, 1, -1])
    graph = csr_array(np.array([[0, 1.0, 2], [1, 0, 3], [2, 3, 0]]))
    with pytest.raises(ValueError, match="positive for a sparse graph"):
        SpanningForestClustering(metric="precomputed").fit(graph, None, [1, 0, 1])


def test_weights_of_less_than_two_samples_are_a_warning():
    X = np.arange(6.0)[:, None]
    with pytest.warns(UserWarning, match="sums to 1, .* Divide the weights"):
        SpanningForestClustering().fit(X, sample_weight=np.full(6, 1 / 6))


def test_groups_that_links_leave_are_counted_in_the_warning():
    X = [[0.0], [0.0], [1.0], [2.0]]
    with pytest.warns(ConvergenceWarning, match="linked .* leaves 2 groups"):
        model = SpanningForestClustering(3).fit(X, must_link=[[1, 2]])
    assert model.labels_.tolist() == [0, 0, 0, 1]


def test_boolean_samples_need_no_conversion():
    X = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 1, 1, 1]], dtype=bool)
    model = SpanningForestClustering(2, metric="jaccard").fit(X)
    assert model.labels_.tolist() == model.predict(X).tolist() == [0, 0, 1, 1]
    with pytest.warns(DataConversionWarning, match="boolean for metric jaccard"):
        model.fit(2.0 * X)


def test_constraints_of_weightless_samples_do_not_count():
    X = np.array([[0.0], [0.1], [5.0], [5.1], [5.2]])
    model = SpanningForestClustering(2).fit(
        X, sample_weight=[1, 1, 1, 1, 0], partial_labels=[0, -1, 1, -1, 0]
    )
    assert model.labels_.tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "far",
    [
        [[1e4, 0.0]],
        [[1e9, 0.0]],
        [[1e4, 0.0], [1e4, 0.3]],
        np.random.default_rng(0).normal(size=(10, 2)) * 1e3,
    ],
)
def test_far_outliers_are_no_clusters(far, global_random_seed):
    X, y = make_blobs(
        300, centers=[[0, 0], [6, 0], [0, 6]], random_state=global_random_seed
    )
    labels = SpanningForestClustering(3).fit(np.concatenate([X, far])).labels_
    assert adjusted_rand_score(y, labels[:300]) > 0.9


@pytest.mark.parametrize("degrees, gap", [(3, 12), (2, 24), (1.5, 48)])
def test_heavy_tails_are_no_clusters(degrees, gap, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y = np.repeat(np.arange(3), 200)
    X = gap * np.array([[0, 0], [1, 0], [0, 1]])[y]
    X = X + rng.standard_t(degrees, size=(600, 2))
    assert adjusted_rand_score(y, SpanningForestClustering(3).fit(X).labels_) > 0.9


def test_a_cluster_of_one_percent_is_found(global_random_seed):
    X, y = make_blobs(
        [2000, 20], centers=[[0, 0], [9, 0]], random_state=global_random_seed
    )
    assert adjusted_rand_score(y, SpanningForestClustering(2).fit(X).labels_) > 0.95


def test_no_clear_structure_is_a_warning(global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(400, 3))
    with pytest.warns(ConvergenceWarning, match="no cut is clear.*set n_clusters"):
        SpanningForestClustering("auto").fit(X)


def test_near_blobs_on_a_grid_are_found_without_a_warning(global_random_seed):
    places = np.stack(np.meshgrid(range(5), range(5)), axis=-1).reshape(25, 2)
    X, y = make_blobs(1500, centers=5.5 * places, random_state=global_random_seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SpanningForestClustering("auto").fit(X)
    scores = model.n_clusters_curve_["score"]
    assert scores[23] < 2.8 * scores[24]
    assert model.n_clusters_ == 25
    assert adjusted_rand_score(y, model.labels_) > 0.9


def test_negative_distances_need_the_longest_rule():
    D = np.array([[0, -1.0, 2], [-1, 0, 3], [2, 3, 0]])
    with pytest.raises(ValueError, match="'cut_rule' parameter.*'longest'"):
        SpanningForestClustering(metric="precomputed").fit(D)


def test_a_number_or_a_threshold():
    with pytest.raises(ValueError, match="'n_clusters' parameter.*'auto'.*Got None"):
        SpanningForestClustering(None).fit([[0.0], [1.0]])
    with pytest.raises(ValueError, match="'n_clusters' parameter.*must be None"):
        SpanningForestClustering("auto", distance_threshold=1.0).fit([[0.0], [1.0]])


def answers(rng, n_samples, n_features, n_clusters=4):
    """Return answers from 1 to 5 to questions, and the cluster of each sample."""
    usual = rng.uniform(1, 5, size=(n_clusters, n_features))
    y = rng.integers(n_clusters, size=n_samples)
    noise = 0.8 * rng.normal(size=(n_samples, n_features))
    return np.clip(np.round(usual[y] + noise), 1, 5), y


@pytest.mark.parametrize(
    ("n_clusters", "params"),
    [
        (4, {}),
        (4, {"cut_rule": "longest"}),
        (4, {"min_samples": 5}),
        (4, {"metric": "manhattan"}),
        # Answers overlap, so that the number is in doubt for some draws.
        pytest.param(
            "auto",
            {},
            marks=pytest.mark.filterwarnings("ignore:n_clusters='auto' takes"),
        ),
    ],
)
@pytest.mark.parametrize("n_features", [3, 8])
def test_on_a_grid_the_order_of_the_samples_does_not_matter(
    n_clusters, params, n_features, global_random_seed
):
    rng = np.random.default_rng(global_random_seed)
    X, _ = answers(rng, 400, n_features)
    order = rng.permutation(len(X))
    model = SpanningForestClustering(n_clusters, **params)
    labels = model.fit(X).labels_
    assert np.array_equal(model.predict(X), labels)
    assert np.array_equal(model.cut(model.n_clusters_), labels)
    lengths = model.edge_lengths_
    if params.get("metric") is None and "min_samples" not in params:
        ends = X[model.edges_]
        assert np.allclose(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1), lengths)
    again = model.fit(X[order])
    assert np.array_equal(again.edge_lengths_, lengths)
    assert adjusted_rand_score(again.labels_, labels[order]) == 1
    if "metric" not in params:
        assert np.array_equal(model.fit(csr_array(X)).labels_, labels)


def test_on_a_grid_clusters_grow_together_inside_first():
    chosen = []
    by_order = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = answers(rng, 300, 5)
        labels = SpanningForestClustering(4).fit(X).labels_
        chosen.append(adjusted_rand_score(labels, y))
        D = cdist(X, X)  # of which ties are broken by the order of the samples
        labels = SpanningForestClustering(4, metric="precomputed").fit(D).labels_
        by_order.append(adjusted_rand_score(labels, y))
    assert np.mean(chosen) > np.mean(by_order) + 0.03


def test_within_cut_is_the_longest_edge_of_the_own_cluster():
    X = np.array([[0.0], [1.0], [2.0], [10.0], [13.0], [16.0]])
    model = SpanningForestClustering(2).fit(X)
    new = [[-1.0], [-1.1], [19.0], [19.1]]
    assert model.predict(new).tolist() == [0, 0, 1, 1]
    assert model.predict(new, within_cut=True).tolist() == [0, -1, 1, -1]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cut_rule", ["size_weighted", "longest"])
def test_constrained_forests_know_weights_and_equal_samples(
    seed, cut_rule, global_random_seed
):
    rng = np.random.default_rng(seed + 1000 * global_random_seed)
    X = rng.normal(size=(30, 2))
    labels = np.where(rng.random(30) < 0.4, rng.integers(0, 3, 30), -1)
    weights = rng.integers(0, 3, 30)
    weights[np.unique(labels, return_index=True)[1]] = 1
    clusterer = SpanningForestClustering(3, cut_rule=cut_rule, min_cluster_size=3)
    clusterer.fit(X, partial_labels=labels, sample_weight=weights)
    assert clusterer.solver_ == "local_search"
    known = labels[(weights > 0) & (labels >= 0)]
    found = clusterer.labels_[(weights > 0) & (labels >= 0)]
    assert adjusted_rand_score(known, found) == 1
    repeated = np.repeat(np.arange(30), weights)
    other = clone(clusterer).fit(X[repeated], partial_labels=labels[repeated])
    kept = weights > 0
    assert adjusted_rand_score(clusterer.labels_[repeated], other.labels_) == 1
    nearest = np.argmin(cdist(X, X[kept]), axis=1)
    np.testing.assert_array_equal(clusterer.labels_, clusterer.labels_[kept][nearest])
    i, j = clusterer.forest_edges_.T
    np.testing.assert_array_equal(clusterer.labels_[i], clusterer.labels_[j])
    assert len(i) == kept.sum() - 3


@pytest.mark.parametrize("cut_rule", ["size_weighted", "longest"])
def test_outliers_have_the_highest_scores(cut_rule, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, _ = make_blobs(300, centers=3, random_state=global_random_seed)
    far = X.mean(axis=0) + rng.choice([-1, 1], (6, 2)) * rng.uniform(60, 90, (6, 2))
    model = SpanningForestClustering(3, cut_rule=cut_rule).fit(np.concatenate([X, far]))
    scores = model.outlier_scores_
    assert scores.shape == (306,)
    assert (0 <= scores).all() and (scores < 1).all()
    if cut_rule == "size_weighted":
        assert scores[300:].min() > scores[:300].max()
    moved = SpanningForestClustering(3, cut_rule=cut_rule)
    moved.fit(np.concatenate([X, far]) * 1024)
    assert np.array_equal(moved.outlier_scores_, scores)


@pytest.mark.parametrize("d", [2, 5, 50])
def test_few_gaussian_samples_are_outliers_and_groups_of_others_are(
    d, global_random_seed
):
    rng = np.random.default_rng(global_random_seed)
    shares = []
    for _ in range(4):
        X = rng.normal(size=(2000, d))
        scores = SpanningForestClustering(7).fit(X).outlier_scores_
        shares.append((scores > 0.8).mean())
    assert np.mean(shares) < (0.03 if d == 2 else 0.002)
    far = rng.normal(size=(20, d)) * 0.5
    far[:, 0] += 30 * d**0.5
    found = SpanningForestClustering(2).fit(np.concatenate([X, far]))
    assert np.bincount(found.labels_).tolist() == [2000, 20]
    assert found.outlier_scores_[2000:].min() > np.quantile(scores, 0.99)
    assert found.find_outliers(0.001)[2000:].all()
    huge = SpanningForestClustering(2).fit(np.concatenate([X, far]) * 2.0**500)
    assert np.array_equal(huge.outlier_scores_, found.outlier_scores_)


@pytest.mark.parametrize("d", [2, 5, 50])
@pytest.mark.parametrize("n", [200, 2000])
def test_outliers_are_found_at_a_false_rate(n, d, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    for k, draw in ((1, rng.normal), (3, rng.uniform)):
        models = [SpanningForestClustering(k).fit(draw(size=(n, d))) for _ in range(8)]
        for rate in (0.01, 0.05):
            found = [model.find_outliers(rate).mean() for model in models]
            assert np.mean(found) <= 1.5 * rate + 2 / n
    weights = rng.integers(1, 3, size=n)
    X = rng.normal(size=(n, d))
    once = SpanningForestClustering(1).fit(X, sample_weight=weights)
    repeated = SpanningForestClustering(1).fit(np.repeat(X, weights, axis=0))
    for rate in (0.01, 0.05):
        found = np.repeat(once.find_outliers(rate), weights)
        assert np.array_equal(found, repeated.find_outliers(rate))
    for wrong in (0.0, 0.25, None):
        with pytest.raises(ValueError, match="'false_rate' parameter"):
            models[0].find_outliers(wrong)
    equal = SpanningForestClustering(1).fit(np.zeros((n, d)))
    assert not equal.find_outliers().any()


def test_a_given_tree_is_cut(global_random_seed):
    X, _ = make_blobs(300, centers=4, random_state=global_random_seed)
    grown = SpanningForestClustering(4).fit(X)
    tree = minimum_spanning_tree_by_blocks(X, n_blocks=3)
    given = SpanningForestClustering(4).fit(X, tree=tree)
    shuffled = np.random.default_rng(global_random_seed).permutation(len(X) - 1)
    turned = SpanningTree(tree.edges[shuffled, ::-1], tree.lengths[shuffled])
    for model in (given, SpanningForestClustering(4).fit(X, tree=turned)):
        for name in ("edges_", "edge_lengths_", "labels_", "outlier_scores_"):
            assert np.array_equal(getattr(model, name), getattr(grown, name))
        assert np.array_equal(model.predict(X + 0.1), grown.predict(X + 0.1))
        assert np.array_equal(model.cut(2), grown.cut(2))


def test_the_given_tree_is_used():
    X = np.array([[0.0], [1.0], [3.0]])
    # Not the shortest.
    tree = SpanningTree(np.array([[0, 2], [0, 1]]), np.array([3.0, 1.0]))
    model = SpanningForestClustering(2, min_cluster_size=1).fit(X, tree=tree)
    assert model.edges_.tolist() == [[0, 2], [0, 1]]


def test_a_fit_to_a_file_with_a_tree_does_not_copy_it(tmp_path, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    np.save(tmp_path / "X.npy", rng.normal(size=(500, 4000)))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    tree = minimum_spanning_tree_by_blocks(X, n_blocks=2)
    model = SpanningForestClustering(3).fit(X, tree=tree)  # kernels are loaded
    tracemalloc.start()
    model.fit(X, tree=tree)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < X.nbytes / 2


@pytest.mark.parametrize("cut_rule", ["size_weighted", "longest"])
def test_a_fit_with_a_tree_is_lean(cut_rule, tmp_path, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    np.save(tmp_path / "X.npy", rng.normal(size=(200_000, 3)))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    tree = minimum_spanning_tree_by_blocks(X)
    model = SpanningForestClustering(3, cut_rule=cut_rule)
    model.fit(X, tree=tree)  # kernels are loaded
    model = SpanningForestClustering(3, cut_rule=cut_rule)
    tracemalloc.start()
    model.fit(X, tree=tree)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 70 * len(X)  # and 24 of the tree
    assert kept < 24 * len(X)
    assert np.shares_memory(model.edges_, tree.edges)


def test_attributes_that_are_made_when_asked_for(global_random_seed):
    X, _ = make_blobs(300, centers=4, random_state=global_random_seed)
    names = "linkage_", "children_", "distances_", "forest_edges_", "outlier_scores_"
    model = SpanningForestClustering(4)
    assert not any(hasattr(model, name) for name in names)
    model.fit(X)
    assert not set(names) & set(vars(model))
    loaded = pickle.loads(pickle.dumps(model))
    for name in names:
        assert np.array_equal(getattr(model, name), getattr(loaded, name))
    assert np.array_equal(model.linkage_[:, :2], model.children_)
    model.fit(X[:100])
    assert not set(names) & set(vars(model))
    assert len(model.children_) == 99


def test_trees_of_other_samples_are_refused():
    X = np.random.default_rng(0).normal(size=(30, 2))
    tree = minimum_spanning_tree_by_blocks(X)
    model = SpanningForestClustering(2)
    cycle = SpanningTree(tree.edges[[0, *range(28)]], tree.lengths[[0, *range(28)]])
    beyond = SpanningTree(tree.edges + 1, tree.lengths)
    for wrong, samples, message in (
        (tree, X[:20], "must have 19 edges for 20 samples"),
        (cycle, X, "must connect all samples"),
        (beyond, X, "must connect all samples"),
        (tree, X[::-1].copy(), "as its lengths"),
        (tree, 1000 * X, "as its lengths"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(samples, tree=wrong)
    for parameters, arguments in (
        ({"metric": "cosine"}, {}),
        ({"min_samples": 3}, {}),
        ({}, {"sample_weight": [0.0] + [1.0] * 29}),
        ({}, {"must_link": [[0, 1]]}),
    ):
        with pytest.raises(ValueError, match="The 'tree' parameter .* must be None"):
            SpanningForestClustering(2, **parameters).fit(X, tree=tree, **arguments)
    with pytest.raises(ValueError, match="X is dense"):
        model.fit(csr_array(X), tree=tree)
    with pytest.raises(ValueError, match="a SpanningTree then. Got a list instead"):
        model.fit(X, tree=tree.edges.tolist())


def test_a_group_of_outliers_is_not_cut_before_a_gap(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    centers = np.repeat([[0.0, 0.0], [6.5, 0.0], [40.0, 0.0]], 400, axis=0)
    group = [40, 9] + 2 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 0], [2, 1]])
    group = group + rng.normal(scale=0.2, size=(6, 2))
    X = np.concatenate([centers + rng.normal(size=centers.shape), group])
    labels = SpanningForestClustering(3).fit_predict(X)
    assert len(np.unique(labels[:1200])) == 3


@pytest.mark.parametrize("n_parts", [12, 80])
def test_auto_takes_all_parts_of_a_graph(n_parts):
    graph = kron(csr_array(np.eye(n_parts)), [[0.0, 1.0], [1.0, 0.0]], format="csr")
    graph.eliminate_zeros()
    model = SpanningForestClustering("auto", metric="precomputed").fit(graph)
    assert model.n_clusters_ == n_parts


def test_the_recipe_for_users_of_dbscan(global_random_seed):
    """Of doc/coming_from.rst: the core samples of DBSCAN in the same clusters."""
    rng = np.random.default_rng(global_random_seed)
    X = np.concatenate(
        [
            rng.normal(0, 0.5, (100, 2)),
            rng.normal(8, 0.5, (100, 2)),
            rng.uniform(-6, 14, (30, 2)),
        ]
    )
    eps, m = 1.0, 5
    forest = SpanningForestClustering(None, distance_threshold=eps, min_samples=m)
    labels = forest.fit(X).cut(min_size=m)
    theirs = DBSCAN(eps=eps, min_samples=m).fit(X)
    core = np.zeros(len(X), dtype=bool)
    core[theirs.core_sample_indices_] = True
    groups = np.where(core, theirs.labels_, -1)
    n_core = np.bincount(groups + 1)[groups + 1]
    groups[n_core < m] = -1
    assert np.array_equal(labels >= 0, groups >= 0)
    assert adjusted_rand_score(labels, groups) == 1
    assert (labels[theirs.labels_ < 0] == -1).all()
    assert labels.max() == 1
    assert set(forest.cut(max_outlier_score=0.5)) > {-1, 0}
    assert np.array_equal(forest.cut(), forest.labels_)


def test_sizes_of_noise_count_weights():
    X = np.array([[0.0], [0.1], [5.0], [9.0], [9.1], [9.2]])
    forest = SpanningForestClustering(3).fit(X, sample_weight=[1, 1, 4, 1, 1, 1])
    assert forest.cut(3).tolist() == [2, 2, 0, 1, 1, 1]
    assert forest.cut(3, min_size=3).tolist() == [-1, -1, 0, 1, 1, 1]
    with pytest.raises(ValueError, match=r"'min_size' .* \[1.0, inf\).*Got 0 "):
        forest.cut(3, min_size=0)
