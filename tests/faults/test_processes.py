"""FAULTS 20, 30 to 33 and 36 to 38: threads, forks, pickles, global state."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.model_selection import GridSearchCV

from skdiffclust import SpanningForestClustering
from skdiffclust.metrics import silhouette_scorer

ROOT = Path(__file__).resolve().parents[2]


def test_eight_threads_give_the_serial_labels(clusterer, blobs):
    expected = clusterer.fit(blobs).labels_

    def fit_and_predict(seed):
        rows = np.random.default_rng(seed).permutation(len(blobs))
        own = clone(clusterer).fit(blobs)
        return own.labels_, clusterer.predict(blobs[rows]), rows

    with ThreadPoolExecutor(8) as pool:
        for labels, predicted, rows in pool.map(fit_and_predict, range(32)):
            assert np.array_equal(labels, expected)
            assert np.array_equal(predicted, expected[rows])


def test_eight_threads_in_compiled_kernels():
    X, _ = make_blobs(3200, n_features=3, random_state=0)
    forest = SpanningForestClustering(3).fit(X)
    with ThreadPoolExecutor(8) as pool:
        fits = pool.map(lambda _: clone(forest).fit(X).labels_, range(16))
        assert all(np.array_equal(labels, forest.labels_) for labels in fits)


def fit_in_child(clusterer, X, queue):
    """Fit in another process and send the labels back."""
    queue.put(clusterer.fit(X).labels_)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="There is no fork here.")
def test_fit_in_a_forked_child_after_a_fit(clusterer, blobs):
    expected = clusterer.fit(blobs).labels_
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads alive
        child = context.Process(target=fit_in_child, args=(clusterer, blobs, queue))
        child.start()
    labels = queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    assert np.array_equal(labels, expected)


@pytest.mark.filterwarnings("ignore::UserWarning")  # workers' own filters differ
def test_a_search_in_two_processes_is_the_serial_one(clusterer, blobs):
    grid = {"n_clusters": [2, 3]}
    scores = [
        GridSearchCV(clusterer, grid, scoring=silhouette_scorer, n_jobs=n_jobs, cv=3)
        .fit(blobs)
        .cv_results_["mean_test_score"]
        for n_jobs in (None, 2)
    ]
    assert np.array_equal(*scores)


def test_saved_and_loaded(clusterer, blobs, tmp_path):
    expected = clusterer.fit(blobs).labels_
    joblib.dump(clusterer, tmp_path / "model.joblib")
    untrusted = skops.io.get_untrusted_types(data=skops.io.dumps(clusterer))
    ours = ("skdiffclust.", "scipy.sparse.")
    assert all(name.startswith(ours) for name in untrusted)
    for copy in (
        pickle.loads(pickle.dumps(clusterer)),
        joblib.load(tmp_path / "model.joblib"),
        skops.io.loads(skops.io.dumps(clusterer), trusted=untrusted),
    ):
        assert np.array_equal(copy.predict(blobs), expected)


def test_saved_by_another_version(clusterer, blobs):
    state = clusterer.fit(blobs).__getstate__()
    state["_sklearn_version"] = "0.0"
    copy = clone(clusterer)
    # scikit-learn compares versions of estimators in its own modules; ours carry the
    # same mark, so that the state loads whatever wrote it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        copy.__setstate__(state)
    assert np.array_equal(copy.predict(blobs), clusterer.labels_)


def test_global_state_is_left_alone(clusterer, blobs):
    def state():
        stream = np.random.get_state()  # noqa: NPY002 the global one is meant
        return stream[1].tolist(), list(warnings.filters), dict(os.environ)

    before = state()
    clusterer.fit(blobs).predict(blobs)
    assert state() == before


def test_predict_in_chunks(clusterer, blobs):
    expected = clusterer.fit(blobs).labels_
    for size in (1, 7, len(blobs)):
        parts = [
            clusterer.predict(blobs[i : i + size]) for i in range(0, len(blobs), size)
        ]
        assert np.array_equal(np.concatenate(parts), expected)


def test_three_processes_with_different_hash_seeds(blobs):
    code = (
        "import numpy as np\n"
        "from sklearn.datasets import make_blobs\n"
        "from skdiffclust import SpanningForestClustering\n"
        "X, _ = make_blobs(90, n_features=4, centers=3, random_state=0)\n"
        "print(SpanningForestClustering(3).fit(X).labels_.tolist())\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(printed) == 1


def test_ties_are_broken_by_the_indices_of_rows(clusterer):
    X = np.array([[i, j] for i in range(6) for j in range(6)], dtype=float)
    clusterer.set_params(n_clusters=3)
    labels = clusterer.fit(X).labels_
    assert np.array_equal(clone(clusterer).fit(X).labels_, labels)
