"""Scorers without labels, alone and in a search."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin, clone
from sklearn.callback import ScoringMonitor
from sklearn.cluster import DBSCAN, KMeans
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import (
    calinski_harabasz_score,
    silhouette_score,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skdiffclust import GEMINI
from skdiffclust.metrics import (
    calinski_harabasz_scorer,
    path_silhouette_scorer,
    silhouette_scorer,
    stability_scorer,
)

FLOORS = {
    silhouette_scorer: -1.0,
    calinski_harabasz_scorer: 0.0,
    path_silhouette_scorer: -1.0,
    stability_scorer: 0.0,
}


SCORERS = list(FLOORS)


CORNERS = [[0, 0], [9, 0], [0, 9], [9, 9]]


@pytest.fixture(scope="module")
def blobs(global_random_seed):
    return make_blobs(
        200, centers=CORNERS, cluster_std=0.8, random_state=global_random_seed
    )


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
    assert all(isinstance(scorer(model, X), float) for scorer in SCORERS)


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("labels", [np.zeros(6), np.arange(6)])
def test_floor_of_degenerate_labels(scorer, labels, global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(6, 2))
    assert scorer(Fixed(), labelled(X, labels)) == FLOORS[scorer]


def test_unstable_labels_score_no_better_than_chance(blobs):
    X, _ = blobs
    # Noise draws anew each time: four standard errors of five resamples of 60 rows.
    assert stability_scorer(Noise().fit(X), X) == pytest.approx(0, abs=0.15)
    nested = Nested(Noise(random_state=0)).fit(X)
    assert stability_scorer(nested, X) == pytest.approx(0, abs=0.15)


class Noise(ClusterMixin, BaseEstimator):
    """Label rows by a random direction, another one in each fit."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        rng = np.random.RandomState(self.random_state)
        self.coefs_ = rng.normal(size=64)
        return self

    def predict(self, X):
        # The bits of a row, weighed at random: nothing that a refit finds again.
        bits = np.floor(np.asarray(X)[:, :1] * 2.0 ** np.arange(64)) % 2
        return (bits @ self.coefs_ > self.coefs_.sum() / 2).astype(int)


class Nested(ClusterMixin, BaseEstimator):
    """Label rows by another clusterer."""

    def __init__(self, clusterer):
        self.clusterer = clusterer

    def fit(self, X, y=None):
        self.fitted_ = clone(self.clusterer).fit(X)
        return self

    def predict(self, X):
        return self.fitted_.predict(X)


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
@pytest.mark.parametrize("value", [1, 10.0, "all"])
def test_max_samples_refused(scorer, value, blobs):
    name = scorer.__name__
    message = rf"'max_samples' parameter of {name} .* range \[2, inf\). Got {value!r}"
    with pytest.raises(ValueError, match=message):
        scorer(Fixed(), blobs[0], max_samples=value)


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


class Labelled(KMeans):
    """KMeans that must be given partial labels, sliced with the rows."""

    def fit(self, X, y=None, *, partial_labels):
        assert len(partial_labels) == len(X)
        return super().fit(X)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("routing", [False, True])
def test_search_with_metadata(routing, several, blobs, global_random_seed):
    X, y = blobs
    scorers = [silhouette_scorer, calinski_harabasz_scorer]
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


def test_scorers_in_a_monitor(blobs, global_random_seed):
    # stability_scorer fits copies: with callbacks they would call it again.
    X, _ = blobs
    monitor = ScoringMonitor(scoring={s.__name__: s for s in SCORERS})
    model = GEMINI(4, random_state=global_random_seed).set_callbacks(monitor).fit(X)
    scored = [row for row in monitor.get_logs().data if "stability_scorer" in row]
    # The epochs and the whole fit.
    assert len(scored) == model.n_iter_ + 1
    assert np.isfinite([[row[s.__name__] for s in SCORERS] for row in scored]).all()
