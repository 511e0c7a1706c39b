"""Every estimator in pipelines, searches and frames, with and without routing."""

from functools import partial
from inspect import signature

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdiffclust import (
    GEMINI,
    ClAM,
    DeepClAM,
    PRCut,
    SpanningForestClustering,
    SpanningForestEmbedding,
    SparseGEMINI,
    SparseGEMINICV,
)
from skdiffclust.metrics import (
    calinski_harabasz_scorer,
    links_to_incidence,
    path_silhouette_scorer,
    silhouette_scorer,
    stability_scorer,
)

# One row an estimator, set to train for no longer than three far blobs need.
TRAINING = {"mode": "ovo", "n_init": 1, "max_iter": 60, "learning_rate": 0.05}
ESTIMATORS = [
    ClAM(n_init=1, max_iter=10, random_state=0),
    GEMINI(**TRAINING, random_state=0),
    PRCut(encoder="mlp", max_iter=20, random_state=0),
    SparseGEMINI(**TRAINING, random_state=0),
    SpanningForestClustering(),
]
# A third of a second a fit.
DEEP = DeepClAM(n_init=1, max_iter=10, random_state=0)


def taking(name):
    """Return the estimators whose fit takes this metadata."""
    return [e for e in ESTIMATORS if name in signature(e.fit).parameters]


pytestmark = [
    # A candidate, or a refit on few rows, may find fewer clusters than requested.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    # Blobs so far apart are parts of a neighbour graph that no edge joins.
    pytest.mark.filterwarnings("ignore:The graph of .* has 3 parts:UserWarning"),
]
FOLDS = KFold(3, shuffle=True, random_state=0)


def named(estimators):
    """Parametrise over estimators."""
    named = [pytest.param(e, id=type(e).__name__) for e in estimators]
    if ESTIMATORS[0] in estimators:
        named.append(pytest.param(DEEP, id="DeepClAM", marks=pytest.mark.paper))
    return pytest.mark.parametrize("estimator", named)


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(
        90, centers=[[0, 0], [9, 0], [0, 9]], cluster_std=0.6, random_state=0
    )


@pytest.fixture
def frame(blobs):
    return pd.DataFrame(blobs[0] * [1, 50], columns=["width", "price"])


def search_of(estimator, scoring=silhouette_scorer, candidates=(2, 3), **options):
    """Return a search for n_clusters in a pipeline that ends in the estimator."""
    model = make_pipeline(StandardScaler(), clone(estimator))
    grid = {f"{model.steps[-1][0]}__n_clusters": list(candidates)}
    options = {"cv": FOLDS, "error_score": "raise"} | options
    return GridSearchCV(model, grid, scoring=scoring, **options)


def chosen(search):
    """Return the n_clusters that a search chose."""
    (value,) = search.best_params_.values()
    return value


@named(ESTIMATORS)
def test_every_scorer_finds_the_blobs(estimator, blobs):
    X, y = blobs
    scoring = {
        "silhouette": silhouette_scorer,
        "path_silhouette": path_silhouette_scorer,
        "calinski_harabasz": calinski_harabasz_scorer,
        "stability": partial(stability_scorer, n_resamples=1),
    }
    search = search_of(estimator, scoring, refit="path_silhouette").fit(X)
    assert chosen(search) == 3
    for name in scoring:
        assert np.isfinite(search.cv_results_[f"mean_test_{name}"]).all()
    # The stability of two clusters out of three is a matter of the method.
    for name in set(scoring) - {"stability"}:
        assert_array_equal(search.cv_results_[f"rank_test_{name}"], [2, 1])
    assert adjusted_rand_score(y, search.predict(X)) == 1.0


@pytest.mark.torch
def test_a_search_over_an_encoder(blobs):
    X, y = blobs
    search = search_of(DEEP, candidates=[3], cv=2).fit(X)
    assert np.isfinite(search.best_score_)
    assert adjusted_rand_score(y, search.predict(X)) == 1.0


@named([ESTIMATORS[0], ESTIMATORS[1], ESTIMATORS[3]])
def test_a_search_without_scoring_finds_the_number(estimator, blobs):
    # What the memories explain, and the objectives, would grow with the number.
    search = search_of(estimator, scoring=None, candidates=range(1, 7)).fit(blobs[0])
    assert chosen(search) == 3


def test_a_search_over_paths(frame, blobs):
    # It selects among features, so one of them is noise.
    frame = frame.assign(noise=np.random.RandomState(0).normal(size=len(frame)))
    monitor = ScoringMonitor(scoring={"silhouette": silhouette_scorer})
    sparse = SparseGEMINICV(
        SparseGEMINI(**TRAINING),
        n_alphas=4,
        n_resamples=2,
        min_features=2,
        random_state=0,
    )
    search = search_of(sparse.set_callbacks(monitor), cv=2)
    search.estimator.set_output(transform="pandas")
    assert chosen(search.fit(frame)) == 3
    assert adjusted_rand_score(blobs[1], search.predict(frame)) == 1.0
    assert list(search.best_estimator_[-1].get_feature_names_out()) == list(frame)[:2]
    assert np.isfinite([row["silhouette"] for row in monitor.get_logs().data]).all()


@named(ESTIMATORS)
def test_frames_and_set_output(estimator, frame, blobs):
    model = make_pipeline(StandardScaler(), clone(estimator).set_params(n_clusters=3))
    plain = clone(model).fit(frame.to_numpy())
    model.set_output(transform="pandas").fit(frame)
    assert_array_equal(model[-1].feature_names_in_, ["width", "price"])
    assert_array_equal(model.predict(frame), plain.predict(frame.to_numpy()))
    assert chosen(search_of(estimator).fit(frame)) == 3
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["price", "width"]])


@named(ESTIMATORS)
def test_a_pipeline_is_cloned_and_printed(estimator):
    model = make_pipeline(StandardScaler(), estimator)
    name = type(estimator).__name__
    assert repr(clone(model)) == repr(model)
    assert f"{name}(" in repr(model)
    html = model._repr_html_()
    assert name in html
    # There is no published site of ours, and scikit-learn's has no page for it.
    assert f"{name}.html" not in html
    assert "StandardScaler.html" in html


def fit_with(search, X, routing, **known):
    """Fit a search whose last step gets metadata, with routing or without."""
    name, step = search.estimator.steps[-1]
    if routing:
        step.set_fit_request(**dict.fromkeys(known, True))
        return search.fit(X, **known)
    return search.fit(X, **{f"{name}__{key}": value for key, value in known.items()})


@pytest.mark.parametrize("routing", [False, True])
@named(taking("partial_labels"))
def test_partial_labels_in_a_search(estimator, routing, blobs):
    X, y = blobs
    # Wrong on purpose: two of the three blobs are one class, and that must be obeyed.
    merged = np.where(y == 2, 1, y)
    with sklearn.config_context(enable_metadata_routing=routing):
        search = search_of(estimator, candidates=[2])
        fit_with(search, X, routing, partial_labels=merged)
    assert adjusted_rand_score(merged, search.predict(X)) == 1.0


@pytest.mark.parametrize("routing", [False, True])
@named(taking("must_link"))
def test_links_in_a_search(estimator, routing, blobs):
    X, y = blobs
    rows = [np.flatnonzero(y == label) for label in range(3)]
    # A fold keeps some of these links, with both their ends.
    pairs = np.column_stack([rows[1], rows[2]])
    incidence = links_to_incidence(pairs, len(X))
    merged = np.where(y == 2, 1, y)
    with sklearn.config_context(enable_metadata_routing=routing):
        search = search_of(estimator, candidates=[2])
        fit_with(search, X, routing, must_link=incidence)
    assert adjusted_rand_score(merged, search.predict(X)) == 1.0
    pairs_of_rows = [[0, 89]]  # a fold has no row 89
    with sklearn.config_context(enable_metadata_routing=routing):
        search = search_of(estimator, candidates=[2])
        with pytest.raises(ValueError, match="links_to_incidence|incidence"):
            fit_with(search, X, routing, must_link=pairs_of_rows)


@pytest.mark.torch
def test_an_embedding_before_a_clusterer(frame, blobs):
    known = np.where(np.arange(len(frame)) % 3, -1, blobs[1])
    embedding = SpanningForestEmbedding(3, n_components=2, max_iter=2, random_state=0)
    model = make_pipeline(StandardScaler(), embedding, SpanningForestClustering())
    search = GridSearchCV(
        model.set_output(transform="pandas"),
        {"spanningforestclustering__n_clusters": [2, 3]},
        scoring=silhouette_scorer,
        cv=FOLDS,
        error_score="raise",
    ).fit(frame, known)
    assert chosen(search) == 3
    embedded = search.best_estimator_[:-1].transform(frame)
    assert list(embedded.columns) == [f"spanningforestembedding{i}" for i in range(2)]


@named([e for e in ESTIMATORS if "max_iter" in e.get_params()])
def test_callbacks_in_a_search(estimator, frame, capsys):
    pytest.importorskip("rich")
    monitor = ScoringMonitor(scoring={"silhouette": silhouette_scorer})
    watched = clone(estimator).set_params(max_iter=2, n_clusters=3)
    watched.set_callbacks(monitor)
    # A bar belongs to whatever is fitted outermost.
    search = search_of(watched, candidates=[3]).set_callbacks(ProgressBar())
    search.fit(frame)
    scores = [row["silhouette"] for row in monitor.get_logs().data]
    # Three folds and the refit, each with at least one epoch and its end.
    assert len(scores) >= 8
    assert np.isfinite(scores).all()
    assert "GridSearchCV - fit" in capsys.readouterr().out
    assert len(search.best_estimator_[-1].labels_) == len(frame)
