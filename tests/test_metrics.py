"""Metrics against brute force over pairs, matchings and cuts; scorers in searches."""

import itertools
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin, clone
from sklearn.callback import ScoringMonitor
from sklearn.cluster import DBSCAN, KMeans
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import (
    calinski_harabasz_score,
    davies_bouldin_score,
    pair_confusion_matrix,
    rand_score,
    silhouette_score,
)
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skdiffclust._compat import CallbackSupportMixin, fit_context
from skdiffclust._history import Training, keep_state_on_error
from skdiffclust.metrics import (
    available_scorers,
    calinski_harabasz_scorer,
    clustering_accuracy,
    connectivity_error,
    correct_variable_rate,
    davies_bouldin_scorer,
    get_scorer,
    links_to_incidence,
    pair_precision,
    pair_recall,
    path_silhouette_scorer,
    ratio_cut_score,
    silhouette_scorer,
    stability_scorer,
    variable_selection_error_rate,
)

LABEL_METRICS = [clustering_accuracy, connectivity_error, pair_precision, pair_recall]
FLOORS = {
    silhouette_scorer: -1.0,
    calinski_harabasz_scorer: 0.0,
    davies_bouldin_scorer: -1e6,
    path_silhouette_scorer: -1.0,
    stability_scorer: 0.0,
}
SCORERS = list(FLOORS)
CORNERS = [[0, 0], [9, 0], [0, 9], [9, 9]]


def random_labels(seed, n=40):
    """Return classes, some unknown, and clusters of n rows."""
    rng = np.random.default_rng(seed)
    y_true = rng.integers(-1, rng.integers(1, 5), n)
    y_true[0] = 0
    return y_true, rng.integers(-1, rng.integers(1, 7), n)


@pytest.fixture(scope="module")
def blobs(global_random_seed):
    return make_blobs(
        200, centers=CORNERS, cluster_std=0.8, random_state=global_random_seed
    )


# ------------------------------------------------------------------ known classes


@pytest.mark.parametrize("seed", range(8))
def test_accuracy_is_the_best_matching(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n_classes, n_clusters = rng.integers(1, 5, 2)
    y_true, y_pred = rng.integers(0, n_classes, 30), rng.integers(0, n_clusters, 30)
    # Enough names for clusters that no class is left for, which are then wrong.
    names = range(max(n_classes, n_clusters))
    best = max(
        np.mean(np.array(order)[y_pred] == y_true)
        for order in itertools.permutations(names)
    )
    assert clustering_accuracy(y_true, y_pred) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_pairs_by_enumeration(seed, global_random_seed):
    seed += 1000 * global_random_seed
    y_true, y_pred = random_labels(seed)
    rows = np.flatnonzero(y_true >= 0)
    in_true = y_true[rows, None] == y_true[rows]
    in_pred = y_pred[rows, None] == y_pred[rows]
    assert connectivity_error(y_true, y_pred) == pytest.approx(
        np.mean(in_true != in_pred), abs=1e-15
    )
    pairs = np.triu_indices(len(rows), 1)
    in_true, in_pred = in_true[pairs], in_pred[pairs]
    hits = (in_true & in_pred).sum()
    if in_pred.any():
        assert pair_precision(y_true, y_pred) == pytest.approx(hits / in_pred.sum())
    if in_true.any():
        assert pair_recall(y_true, y_pred) == pytest.approx(hits / in_true.sum())


@pytest.mark.parametrize("seed", range(4))
def test_pairs_against_scikit_learn(seed, global_random_seed):
    seed += 1000 * global_random_seed
    y_true, y_pred = random_labels(seed, n=300)
    known = y_true >= 0
    n = known.sum()
    assert connectivity_error(y_true, y_pred) == pytest.approx(
        (1 - rand_score(y_true[known], y_pred[known])) * (n - 1) / n
    )
    (_, wrong), (missed, right) = pair_confusion_matrix(y_true[known], y_pred[known])
    assert pair_precision(y_true, y_pred) == pytest.approx(right / (right + wrong))
    assert pair_recall(y_true, y_pred) == pytest.approx(right / (right + missed))


@pytest.mark.parametrize("metric", LABEL_METRICS)
def test_names_of_labels_do_not_matter(metric, global_random_seed):
    y_true, y_pred = random_labels(global_random_seed)
    value = metric(y_true, y_pred)
    assert isinstance(value, float)
    assert metric(y_true, -10 * y_pred + 3) == value
    assert metric(y_true.astype(float), y_pred.astype(np.int8)) == value
    assert metric(pd.Series(y_true), list(y_pred)) == value
    names = np.array(["a", "b", "c", "d", "unknown"])[y_true]
    known = y_true >= 0
    assert metric(names[known], y_pred[known]) == value
    assert metric(names[known].astype(object), y_pred[known]) == value


@pytest.mark.parametrize("metric", LABEL_METRICS)
def test_perfect_partition(metric):
    y_true = np.array([0, 0, 1, 2, -1, 2])
    expected = 0.0 if metric is connectivity_error else 1.0
    assert metric(y_true, np.array([7, 7, 5, 6, 5, 6])) == expected
    assert metric([4], ["x"]) == expected


def test_degenerate_partitions():
    y_true = np.repeat([0, 1], 50)
    one, singletons = np.zeros(100), np.arange(100)
    assert clustering_accuracy(y_true, one) == 0.5
    assert clustering_accuracy(y_true, singletons) == 0.02
    assert connectivity_error(y_true, one) == 0.5
    assert connectivity_error(y_true, singletons) == pytest.approx(0.49)
    # No link is wrong where there is none, and none is missed.
    assert pair_precision(y_true, singletons) == 1.0
    assert pair_recall(singletons, y_true) == 1.0
    assert pair_recall(y_true, one) == 1.0
    assert pair_recall(y_true, singletons) == 0.0


def test_pairs_of_a_million_rows_do_not_overflow():
    n = 10**6
    y_true = np.arange(n) % 2
    expected = 0.5
    assert connectivity_error(y_true, np.zeros(n)) == expected
    assert connectivity_error(y_true.astype(np.int8), np.zeros(n, np.int8)) == expected


@pytest.mark.parametrize("metric", LABEL_METRICS)
@pytest.mark.parametrize(
    "y_true, y_pred, message",
    [
        ([0, 1], [0], "one entry for each sample. Got 2 and 1 entries"),
        ([[0], [1]], [0, 1], r"'y_true' .* 1-D.* Got an array of shape \(2, 1\)"),
        ([0, 1], 3, r"'y_pred' .* 1-D.* Got an array of shape \(\)"),
        (
            [-1, -1],
            [0, 1],
            "'y_true' .* class of some sample. Got no entry other than -1",
        ),
        ([], [], "'y_true' .* class of some sample"),
        ([0, np.nan], [0, 1], "'y_true' .* not hold NaN. Got NaN in sample 1"),
        ([0, 1], [np.nan, 1], "'y_pred' .* not hold NaN. Got NaN in sample 0"),
        (np.ma.masked_equal([0, 1], 1), [0, 1], "'y_true' .* Got a masked array"),
    ],
)
def test_labels_refused(metric, y_true, y_pred, message):
    with pytest.raises(ValueError, match=message) as error:
        metric(y_true, y_pred)
    assert metric.__name__ in str(error.value)


# ------------------------------------------------------------------ cuts and links


def random_graph(seed, n=12):
    """Return a symmetric similarity (n, n) with zero diagonal."""
    rng = np.random.default_rng(seed)
    weights = rng.random((n, n)) * (rng.random((n, n)) < 0.5)
    return np.triu(weights, 1) + np.triu(weights, 1).T


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_clusters", [1, 2, 5, 12])
def test_ratio_cut_is_the_trace_and_the_sum_of_cuts(
    seed, n_clusters, global_random_seed
):
    seed += 1000 * global_random_seed
    graph = random_graph(seed)
    labels = np.random.default_rng(seed).permutation(np.arange(12) % n_clusters)
    onehot = (labels[:, None] == np.arange(n_clusters)).astype(float)
    indicator = onehot / np.sqrt(onehot.sum(axis=0))
    laplacian = np.diag(graph.sum(axis=1)) - graph
    trace = np.trace(indicator.T @ laplacian @ indicator)
    cuts = sum(
        graph[np.ix_(labels == c, labels != c)].sum() / (labels == c).sum()
        for c in range(n_clusters)
    )
    score = ratio_cut_score(graph, labels)
    assert isinstance(score, float)
    assert_allclose([score, cuts], [trace, trace], rtol=1e-12, atol=1e-13)


def test_ratio_cut_of_every_container(global_random_seed):
    graph = random_graph(global_random_seed)
    labels = np.arange(12) % 3
    expected = ratio_cut_score(graph, labels)
    names = np.array(["x", "y", "z"])[labels]
    for other in [
        sparse.csr_array(graph),
        sparse.csc_matrix(graph),
        sparse.coo_array(graph),
        pd.DataFrame(graph),
        graph + 5 * np.eye(12),
    ]:
        assert ratio_cut_score(other, names) == pytest.approx(expected, rel=1e-14)
    single = graph.astype(np.float32)
    assert ratio_cut_score(single, labels - 1) == pytest.approx(expected, rel=1e-6)


def test_ratio_cut_keeps_the_digits_of_a_small_cut():
    # Taken as degree minus inner weight, 1e-12 beside 1e6 would be lost.
    graph = np.array([[0, 1e6, 1e-12], [1e6, 0, 0], [1e-12, 0, 0]])
    assert ratio_cut_score(graph, [0, 0, 1]) == pytest.approx(1.5e-12, rel=1e-12)


def test_ratio_cut_symmetrises_with_a_warning(global_random_seed):
    graph = random_graph(global_random_seed)
    tilted = graph.copy()
    tilted[0, 1] += 1
    labels = np.arange(12) % 2
    with pytest.warns(UserWarning, match="'graph' matrix is not symmetric"):
        score = ratio_cut_score(tilted, labels)
    mean = (tilted + tilted.T) / 2
    assert score == pytest.approx(ratio_cut_score(mean, labels))


@pytest.mark.parametrize(
    "graph, labels, message",
    [
        (np.ones((2, 3)), [0, 1], "'graph' .* square.* Got shape"),
        (np.full((2, 2), np.nan), [0, 1], "'graph' .* finite. Got NaN"),
        (-np.ones((2, 2)), [0, 1], "negative weights. Got -1.0 instead. Turn dist"),
        (sparse.csr_array(-np.ones((2, 2))), [0, 1], "negative weights. Got -1.0"),
        (np.ones((2, 2)), [0, 1, 1], "'labels' .* row of the graph, 2. Got 3"),
        (np.ones((2, 2)), [[0, 1]], "'labels' .* must be 1-D"),
        (np.ones((2, 2)), [0, np.nan], "'labels' .* NaN in sample 1"),
    ],
)
def test_ratio_cut_refused(graph, labels, message):
    with pytest.raises(ValueError, match=message):
        ratio_cut_score(graph, labels)


def test_incidence_has_two_ones_a_column():
    pairs = np.array([[0, 3], [2, 1], [0, 3]])
    incidence = links_to_incidence(pairs, 5)
    assert isinstance(incidence, sparse.csr_array)
    assert incidence.dtype == np.int8
    expected = np.zeros((5, 3))
    expected[pairs.T, np.arange(3)] = 1
    assert_array_equal(incidence.toarray(), expected)
    assert links_to_incidence([], 4).shape == (4, 0)


@pytest.mark.parametrize(
    "pairs, message",
    [
        ([[1, 1]], "'pairs' parameter of links_to_incidence.* Got sample 1 twice"),
        ([[0, 3]], "'pairs' parameter of links_to_incidence.* Got the index 3"),
        ([[0, -1]], "Got the index -1"),
        ([0, 1], r"index pairs of shape \(n_links, 2\). Got an array of shape \(2,\)"),
        ([[0, 0.5]], "Got the value 0.5"),
    ],
)
def test_incidence_refused(pairs, message):
    with pytest.raises(ValueError, match=message):
        links_to_incidence(pairs, 3)


# ------------------------------------------------------------------ without labels


class Fixed(ClusterMixin, BaseEstimator):
    """Predict the integer part of the last feature; refitting changes nothing."""

    def fit(self, X, y=None):
        return self

    def predict(self, X):
        return np.asarray(X)[:, -1].astype(np.int64)


class Given(Fixed):
    """Predict the labels that it was made with, for as many rows."""

    def __init__(self, labels):
        self.labels = labels

    def predict(self, X):
        return self.labels


def labelled(X, labels):
    """Return rows whose last feature, too small to matter, holds their label."""
    return np.column_stack([1e6 * np.asarray(X), labels])


def test_scores_are_those_of_scikit_learn(blobs, global_random_seed):
    X, _ = blobs
    model = KMeans(3, random_state=global_random_seed).fit(X)
    labels = model.predict(X)
    assert silhouette_scorer(model, X) == pytest.approx(silhouette_score(X, labels))
    assert calinski_harabasz_scorer(model, X) == pytest.approx(
        calinski_harabasz_score(X, labels)
    )
    assert davies_bouldin_scorer(model, X) == pytest.approx(
        -davies_bouldin_score(X, labels)
    )
    assert all(isinstance(scorer(model, X), float) for scorer in SCORERS)


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("labels", [np.zeros(6), np.arange(6)])
def test_floor_of_degenerate_labels(scorer, labels, global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(6, 2))
    assert scorer(Fixed(), labelled(X, labels)) == FLOORS[scorer]


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("n_samples", [1, 2])
def test_floor_of_tiny_folds(scorer, n_samples):
    X = labelled(np.arange(n_samples)[:, None], np.arange(n_samples))
    assert scorer(Fixed(), X) == FLOORS[scorer]


@pytest.mark.parametrize("scorer", SCORERS)
def test_real_labels_beat_the_floor(scorer, blobs, global_random_seed):
    X, _ = blobs
    assert scorer(KMeans(4, random_state=global_random_seed).fit(X), X) > FLOORS[scorer]


class Alternate(ClusterMixin, BaseEstimator):
    """Label rows 0, 1, 0, 1, ... whatever they are."""

    def fit(self, X, y=None):
        return self

    def predict(self, X):
        return np.arange(len(X)) % 2


@pytest.mark.parametrize("outer", [2.0, 1.0])
def test_davies_bouldin_does_not_reward_equal_centres(outer):
    # Two clusters around one centre: scikit-learn's index is 0, its best value.
    X = np.array([[1, 0], [outer, 0], [-1, 0], [-outer, 0], [0, 1], [0, outer]])
    X = np.vstack([X, -X[4:]])
    assert davies_bouldin_score(X, Alternate().predict(X)) == 0
    assert davies_bouldin_scorer(Alternate(), X) == -1e6


def test_davies_bouldin_of_points_is_the_best():
    X = np.array([[0.0, 0], [1, 0], [0, 0], [1, 0]])
    assert davies_bouldin_scorer(Alternate(), X) == 0


def test_unstable_labels_score_no_better_than_chance(blobs):
    X, _ = blobs
    assert stability_scorer(Noise().fit(X), X) == pytest.approx(0, abs=0.05)


class Noise(ClusterMixin, BaseEstimator):
    """Label rows by a random direction, another one in each fit."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        rng = np.random.RandomState(self.random_state)
        self.weights_ = rng.normal(size=64)
        return self

    def predict(self, X):
        # The bits of a row, weighed at random: nothing that a refit finds again.
        bits = np.floor(np.asarray(X)[:, :1] * 2.0 ** np.arange(64)) % 2
        return (bits @ self.weights_ > self.weights_.sum() / 2).astype(int)


def test_names_of_scorers():
    names = available_scorers()
    assert names == sorted(names)
    assert {get_scorer(name) for name in names} == set(SCORERS)
    with pytest.raises(ValueError, match="'name' .* one of .*'stability'.* Got 'gap'"):
        get_scorer("gap")


def test_scorer_by_name_with_options(blobs, global_random_seed):
    X, _ = blobs
    model = KMeans(4, random_state=global_random_seed).fit(X)
    scorer = pickle.loads(pickle.dumps(get_scorer("silhouette", max_samples=50)))
    assert scorer(model, X) == silhouette_scorer(model, X, max_samples=50)
    assert scorer(model, X) != silhouette_scorer(model, X)


def test_path_silhouette_by_bellman_ford(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(12, 2))
    X[5] = X[4]  # equal rows are at distance zero, which is not "no path"
    labels = np.arange(12) % 3
    paths = np.linalg.norm(X[:, None] - X, axis=-1) ** 3
    for _ in range(12):
        paths = np.min(paths[:, :, None] + paths[None], axis=1)
    model = Given(labels)
    for scale in (1.0, 1e-120, 1e120):
        assert path_silhouette_scorer(model, scale * X) == pytest.approx(
            silhouette_score(paths, labels, metric="precomputed")
        )
    assert path_silhouette_scorer(model, np.zeros((12, 2))) == 0.0


def test_path_silhouette_prefers_the_moons(global_random_seed):
    X, y = make_moons(300, noise=0.05, random_state=global_random_seed)
    halves = KMeans(2, random_state=global_random_seed, n_init=1).fit_predict(X)
    assert silhouette_scorer(Given(halves), X) > silhouette_scorer(Given(y), X)
    assert path_silhouette_scorer(Given(halves), X) < path_silhouette_scorer(
        Given(y), X
    )


def test_stability_knows_the_number_of_blobs(blobs, global_random_seed):
    X, _ = blobs
    train, test = X[:100], X[100:]
    scores = {
        k: stability_scorer(KMeans(k, random_state=global_random_seed).fit(train), test)
        for k in (1, 4, 7)
    }
    assert scores[4] == 1.0
    assert scores[7] < 0.9
    assert scores[1] == 0.0


def test_stability_is_measured_by_refits_on_the_fold(blobs, global_random_seed):
    # The labels of a model fitted elsewhere are not found again in the fold.
    X, _ = blobs
    model = KMeans(4, random_state=global_random_seed).fit(X)
    moved = clone(model).fit(X[:, ::-1] * [1, 0.01] + [0, 4])
    assert stability_scorer(moved, X) < stability_scorer(model, X)


@pytest.mark.parametrize("scorer", SCORERS)
def test_measured_in_the_space_of_the_last_step(scorer, blobs, global_random_seed):
    X, _ = blobs
    wide = np.column_stack(
        [X, 1e3 * np.random.default_rng(global_random_seed).normal(size=len(X))]
    )
    scaled = FunctionTransformer(lambda rows: np.asarray(rows)[:, :2])
    pipeline = make_pipeline(
        scaled, "passthrough", KMeans(4, random_state=global_random_seed)
    )
    pipeline.fit(wide)
    assert scorer(pipeline, wide) == scorer(pipeline[-1], X)
    nested = make_pipeline("passthrough", pipeline)
    assert scorer(nested, wide) == scorer(pipeline[-1], X)
    assert scorer(make_pipeline(pipeline[-1]), X) == scorer(pipeline[-1], X)
    search = GridSearchCV(pipeline, {"kmeans__n_clusters": [4]}, scoring=scorer)
    search.fit(wide)
    assert scorer(search, wide) == scorer(search.best_estimator_, wide)


class Spy(TransformerMixin, BaseEstimator):
    """Pass rows on and remember how many there were."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        self.seen_ = X
        return X


@pytest.mark.parametrize("scorer", SCORERS)
def test_large_folds_are_subsampled_the_same_way(scorer, blobs, global_random_seed):
    X, _ = blobs
    spy = Spy()
    model = make_pipeline(spy, KMeans(4, random_state=global_random_seed)).fit(X)
    # Sorted rows: the first ones would all be of one blob.
    ordered = X[np.argsort(model.predict(X), kind="stable")]
    few = partial(scorer, max_samples=50)
    first = few(model, ordered)
    assert spy.seen_.shape == (50, 2)
    seen = spy.seen_
    assert len(np.unique(model[-1].predict(seen))) == 4
    assert few(model, ordered) == first
    assert_array_equal(spy.seen_, seen)
    few(
        make_pipeline(spy, KMeans(2, random_state=global_random_seed + 1)).fit(X),
        ordered,
    )
    assert_array_equal(spy.seen_, seen)


@pytest.mark.parametrize("scorer", SCORERS)
def test_nothing_is_changed(scorer, blobs):
    X, _ = blobs
    X = X.copy()
    X.flags.writeable = False
    model = KMeans(4, random_state=None, n_init=1).fit(X)
    params, centers = model.get_params(), model.cluster_centers_.copy()
    first = scorer(model, X)
    assert model.get_params() == params
    assert_array_equal(model.cluster_centers_, centers)
    # The global generator is neither moved nor read.
    state = np.random.get_state()  # noqa: NPY002
    assert scorer(model, X) == first
    assert_array_equal(np.random.get_state()[1], state[1])  # noqa: NPY002
    assert np.random.get_state()[2] == state[2]  # noqa: NPY002
    np.random.random(3)  # noqa: NPY002
    assert scorer(model, X) == first


@pytest.mark.parametrize("scorer", SCORERS)
def test_estimators_without_predict_are_refused(scorer, blobs):
    X, _ = blobs
    message = f"{scorer.__name__} needs .* 'predict' .* Got DBSCAN instead. Choose one"
    with pytest.raises(TypeError, match=message):
        scorer(DBSCAN().fit(X), X)
    with pytest.raises(TypeError, match=message):
        scorer(make_pipeline(StandardScaler(), DBSCAN()).fit(X), X)


@pytest.mark.parametrize("scorer", SCORERS)
def test_precomputed_relations_are_refused(scorer):
    model = KNeighborsClassifier(1, metric="precomputed")
    model.fit(1 - np.eye(3), [0, 1, 1])
    with pytest.raises(ValueError, match="a precomputed relation has none. Got KNeigh"):
        scorer(model, 1 - np.eye(3))


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("value", [1, 10.0, "all"])
def test_max_samples_refused(scorer, value, blobs):
    message = f"'max_samples' parameter of {scorer.__name__} .* at least 2. Got {value}"
    with pytest.raises(ValueError, match=message.replace("Got all", "Got 'all'")):
        scorer(Fixed(), blobs[0], max_samples=value)


def test_n_resamples_refused(blobs, global_random_seed):
    model = KMeans(4, random_state=global_random_seed).fit(blobs[0])
    with pytest.raises(ValueError, match="'n_resamples' .* at least 1. Got 0 instead"):
        stability_scorer(model, blobs[0], n_resamples=0)


# ------------------------------------------------------------------ searches


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("with_y", [False, True])
def test_search_finds_the_blobs(scorer, with_y, blobs, global_random_seed):
    X, y = blobs
    pipeline = make_pipeline(StandardScaler(), KMeans(random_state=global_random_seed))
    grid = {"kmeans__n_clusters": range(1, 7)}
    search = GridSearchCV(pipeline, grid, scoring=scorer, error_score="raise")
    search.fit(X, y if with_y else None)
    assert search.best_params_ == {"kmeans__n_clusters": 4}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("scorer", SCORERS)
def test_scorers_pickle(scorer):
    assert pickle.loads(pickle.dumps(scorer)) is scorer


@pytest.mark.paper  # starting two processes takes seconds
def test_scorers_run_in_other_processes(blobs):
    X, _ = blobs
    model = KMeans(4, random_state=0, n_init=1)
    scoring = {scorer.__name__: scorer for scorer in SCORERS}
    serial, parallel = (
        cross_validate(model, X, scoring=scoring, n_jobs=jobs) for jobs in (None, 2)
    )
    for name in scoring:
        assert_array_equal(parallel[f"test_{name}"], serial[f"test_{name}"])


def test_several_scorers_in_one_search(blobs, global_random_seed):
    X, _ = blobs
    scoring = {scorer.__name__: scorer for scorer in SCORERS}
    search = GridSearchCV(
        KMeans(random_state=global_random_seed),
        {"n_clusters": [1, 4]},
        scoring=scoring,
        refit="stability_scorer",
        error_score="raise",
    )
    search.fit(X)
    for name in scoring:
        assert_array_equal(search.cv_results_[f"rank_test_{name}"], [2, 1])


class Labelled(KMeans):
    """KMeans that must be given partial labels, sliced with the rows."""

    def fit(self, X, y=None, *, partial_labels):
        assert len(partial_labels) == len(X)
        return super().fit(X)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("routing", [False, True])
def test_search_with_metadata(routing, several, blobs, global_random_seed):
    X, y = blobs
    scorers = [silhouette_scorer, davies_bouldin_scorer]
    with sklearn.config_context(enable_metadata_routing=routing):
        model = Labelled(random_state=global_random_seed)
        if routing:
            model.set_fit_request(partial_labels=True)
        prefix = "" if routing else "labelled__"
        search = GridSearchCV(
            make_pipeline(StandardScaler(), model),
            {"labelled__n_clusters": [2, 4]},
            scoring={s.__name__: s for s in scorers} if several else scorers[0],
            refit="silhouette_scorer" if several else True,
            error_score="raise",
        )
        search.fit(X, **{f"{prefix}partial_labels": y})
    assert search.best_params_ == {"labelled__n_clusters": 4}


@pytest.mark.parametrize("scorer", SCORERS)
def test_frames_keep_their_names(scorer, blobs, global_random_seed):
    # A step that was fitted on names warns of rows that come without them.
    X, _ = blobs
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(len(X)) + 7)
    pipeline = make_pipeline(
        StandardScaler(), KMeans(4, random_state=global_random_seed)
    )
    pipeline.set_output(transform="pandas").fit(frame)
    plain = make_pipeline(
        StandardScaler(), KMeans(4, random_state=global_random_seed)
    ).fit(X)
    assert scorer(pipeline, frame) == pytest.approx(scorer(plain, X))
    few = partial(scorer, max_samples=60)
    assert few(pipeline, frame) == pytest.approx(few(plain, X))


class Monitored(CallbackSupportMixin, ClusterMixin, BaseEstimator):
    """KMeans in two monitored rounds."""

    _parameter_constraints: dict = {}

    def __init__(self, random_state=None):
        self.random_state = random_state

    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        training = Training(self, X, y, max_iter=2, learning_rate=1.0)
        for loop in training:
            for epoch in loop:
                model = KMeans(4, random_state=self.random_state, max_iter=epoch + 1)
                loss = model.fit(X).inertia_
                loop.record(
                    loss,
                    state=lambda model=model: model,
                    attributes=lambda model=model: {"model_": model},
                )
        self.model_ = training.best.best_state
        training.finish()
        return self

    def predict(self, X):
        return self.model_.predict(X)


def test_scorers_in_a_monitor(blobs, global_random_seed):
    # stability_scorer fits copies: with callbacks they would call it again.
    X, _ = blobs
    monitor = ScoringMonitor(scoring={s.__name__: s for s in SCORERS})
    Monitored(random_state=global_random_seed).set_callbacks(monitor).fit(X)
    scored = [row for row in monitor.get_logs().data if "stability_scorer" in row]
    # Two epochs and the whole fit.
    assert len(scored) == 3
    assert np.isfinite([[row[s.__name__] for s in SCORERS] for row in scored]).all()


def test_rates_of_a_selection():
    true = np.array([True, True, False, False, False])
    assert variable_selection_error_rate(true, true) == 0
    assert correct_variable_rate(true, true) == 1
    everything = np.ones(5, dtype=bool)
    assert variable_selection_error_rate(true, everything) == 1 - 2 / 5
    assert correct_variable_rate(true, everything) == 1
    assert correct_variable_rate(true, ~true) == 0
    with pytest.raises(
        ValueError, match="'support' parameter of correct_variable_rate"
    ):
        correct_variable_rate(true, [0, 1])
    with pytest.raises(ValueError, match="must have an informative feature"):
        correct_variable_rate(~everything, true)
