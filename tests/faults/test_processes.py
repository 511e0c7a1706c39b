"""FAULTS 20, 30 to 33 and 36 to 38: threads, forks, pickles, global state."""

import json
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info, threadpool_limits

from skdiffclust import SpanningForestClustering
from skdiffclust.metrics import silhouette_scorer

ROOT = Path(__file__).resolve().parents[2]
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="There is no fork here.")


def test_two_threads_give_the_serial_answer(estimator, blobs, fit, answer):
    expected = answer(fit(estimator, blobs), blobs)
    with ThreadPoolExecutor(2) as pool:
        fits = pool.map(lambda _: fit(clone(estimator), blobs), range(2))
        assert all(np.array_equal(answer(own, blobs), expected) for own in fits)
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda _: answer(estimator, blobs), range(8))
        assert all(np.array_equal(found, expected) for found in answers)


def test_eight_threads_in_compiled_kernels():
    X, _ = make_blobs(3200, n_features=3, random_state=0)
    forest = SpanningForestClustering(3).fit(X)
    with ThreadPoolExecutor(8) as pool:
        fits = pool.map(lambda _: clone(forest).fit(X).labels_, range(16))
        assert all(np.array_equal(labels, forest.labels_) for labels in fits)


LAYERS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
import numba, numpy as np
from sklearn.base import clone
from sklearn.datasets import make_blobs
from skdiffclust import GEMINI, ClAM, PRCut, SpanningForestClustering

if sys.argv[1] == "with a kernel of the user":
    @numba.njit(parallel=True)
    def total(x):
        s = 0.0
        for i in numba.prange(len(x)):
            s += x[i]
        return s
    assert total(np.ones(1000)) == 1000
    assert numba.threading_layer() == sys.argv[2]
X, _ = make_blobs(3200, n_features=3, random_state=0)
for model in (
    ClAM(3, n_init=2, random_state=0),
    GEMINI(3, max_iter=3, random_state=0),
    PRCut(3, encoder="mlp", max_iter=2, random_state=0),
    SpanningForestClustering(3, n_jobs=2),
):
    rows = X[:300] if isinstance(model, PRCut) else X
    model.fit(rows)
    with ThreadPoolExecutor(8) as pool:
        fits = pool.map(lambda _: clone(model).fit(rows).labels_, range(8))
        assert all(np.array_equal(labels, model.labels_) for labels in fits)
        found = pool.map(lambda _: model.predict(rows), range(8))
        assert all(np.array_equal(labels, model.labels_) for labels in found)
print("the serial labels")
"""


def test_no_kernel_needs_a_threading_layer_of_numba():
    # Of which one, workqueue, ends the process on concurrent parallel kernels.
    sources = (ROOT / "skdiffclust").rglob("*.py")
    texts = [path.read_text(encoding="utf-8") for path in sources]
    assert not any("parallel=True" in text or "prange" in text for text in texts)


@pytest.mark.long
@pytest.mark.parametrize("user", ["alone", "with a kernel of the user"])
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_eight_threads_under_a_layer_of_numba(layer, user):
    environment = {**os.environ, "NUMBA_THREADING_LAYER": layer}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LAYERS, user, layer],
        env=environment | {"PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
    )
    assert run.stdout == "the serial labels\n", run.stderr


def fit_in_child(fit, answer, estimator, X, queue):
    """Fit in another process and send the answer back."""
    queue.put(answer(fit(estimator, X), X))


def in_a_forked_child(*arguments):
    """Return the answer of a fit in a forked child."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads alive
        child = context.Process(target=fit_in_child, args=(*arguments, queue))
        child.start()
    found = queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    return found


@forks
def test_fit_in_a_forked_child_after_a_fit(estimator, blobs, fit, answer):
    expected = answer(fit(estimator, blobs), blobs)
    found = in_a_forked_child(fit, answer, estimator, blobs)
    assert np.array_equal(found, expected)


@forks
def test_fit_in_a_forked_child_after_kernels_on_two_threads(fit, answer):
    X, _ = make_blobs(3200, n_features=3, random_state=0)
    forest = SpanningForestClustering(3, n_jobs=2)
    expected = forest.fit(X).labels_
    assert np.array_equal(in_a_forked_child(fit, answer, forest, X), expected)


# The blobs are three parts of the graph, and two clusters are a candidate.
@pytest.mark.full
@pytest.mark.filterwarnings("ignore:The graph of .* has 3 parts:UserWarning")
def test_a_search_in_two_processes_is_the_serial_one(quick, blobs):
    grid = {"n_clusters": [2, 3]}
    scores = [
        GridSearchCV(quick, grid, scoring=silhouette_scorer, n_jobs=n_jobs, cv=3)
        .fit(blobs)
        .cv_results_["mean_test_score"]
        for n_jobs in (None, 2)
    ]
    assert np.array_equal(*scores)


def test_saved_and_loaded(estimator, blobs, fit, answer, tmp_path):
    expected = answer(fit(estimator, blobs), blobs)
    joblib.dump(estimator, tmp_path / "model.joblib")
    data = skops.io.dumps(estimator)
    untrusted = skops.io.get_untrusted_types(data=data)
    # Nothing of torch, and nothing that is code.
    ours = ("skdiffclust.", "scipy.sparse.")
    assert all(name.startswith(ours) for name in untrusted)
    for copy in (
        pickle.loads(pickle.dumps(estimator)),
        joblib.load(tmp_path / "model.joblib"),
        skops.io.loads(data, trusted=untrusted),
    ):
        assert np.array_equal(answer(copy, blobs), expected)


def test_saved_by_another_version(estimator, blobs, fit, answer):
    state = fit(estimator, blobs).__getstate__()
    state["_sklearn_version"] = "0.0"
    copy = clone(estimator)
    # scikit-learn compares versions of estimators in its own modules; ours carry the
    # same mark, so that the state loads whatever wrote it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        copy.__setstate__(state)
    assert np.array_equal(answer(copy, blobs), answer(estimator, blobs))


def torch_stream():
    """The state of torch's global stream, or None where torch is not installed."""
    if find_spec("torch") is None:
        return None
    import torch

    return torch.get_rng_state().tolist()


def test_global_state_is_left_alone(estimator, blobs, fit, answer):
    def state():
        stream = np.random.get_state()  # noqa: NPY002 the global one is meant
        threads = [pool["num_threads"] for pool in threadpool_info()]
        return (
            stream[1].tolist(),
            torch_stream(),
            random.getstate(),
            list(warnings.filters),
            dict(os.environ),
            threads,
        )

    fit(estimator, blobs)  # what is loaded on first use is loaded
    # A fit that seeds a stream leaves another state now.
    np.random.random()  # noqa: NPY002 the global one is meant
    random.random()
    if find_spec("torch") is not None:
        import torch

        torch.rand(1)
    before = state()
    answer(fit(estimator, blobs), blobs)
    assert state() == before


def test_limits_of_threads_are_respected(estimator, blobs, fit, answer):
    expected = answer(fit(estimator, blobs), blobs)
    with threadpool_limits(1):
        before = threadpool_info()
        found = answer(fit(estimator, blobs), blobs)
        assert threadpool_info() == before
    assert np.array_equal(found, expected)


# What an estimator answers in a process of its own, as one line.
ALONE = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from sklearn.datasets import make_blobs
import skdiffclust
X, _ = make_blobs(90, n_features=4, centers=3, random_state=0)
y = np.where(np.arange(90) % 2, np.arange(90) % 3, -1)
found = {}
for name, params in json.loads(sys.argv[1]):
    model = getattr(skdiffclust, name)(n_clusters=3, **params).fit(X, y)
    answer = model.predict(X) if hasattr(model, "predict") else model.transform(X)
    found[name] = np.round(answer, 6).tolist()
print(json.dumps(found))
"""
PROMISED = [
    ("ClAM", {"n_init": 2, "random_state": 0}),
    ("DeepClAM", {"max_iter": 5, "random_state": 0}),
    ("GEMINI", {"max_iter": 20, "random_state": 0}),
    ("PRCut", {"max_iter": 5, "random_state": 0}),
    ("GraphCutClustering", {"random_state": 0}),
    ("SpanningForestClustering", {}),
    ("SpanningForestEmbedding", {"max_iter": 3, "random_state": 0}),
    ("SparseGEMINI", {"max_iter": 20, "random_state": 0}),
    (
        "SparseGEMINICV",
        {"n_alphas": 2, "n_resamples": 2, "random_state": 0},
    ),
]


def alone(hash_seed, n_threads):
    """Return {estimator: answer} of a fresh process."""
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "OMP_NUM_THREADS": n_threads,
        "PYTHONPATH": str(ROOT),
    }
    run = subprocess.run(
        [sys.executable, "-c", ALONE, json.dumps(PROMISED)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


@pytest.mark.full
def test_another_hash_seed_and_two_threads_give_the_same_answers():
    # Small fits give the same labels for any number of threads; what is promised of
    # large ones is in doc/reliability.rst.
    assert alone("1", "2") == alone("0", "1")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ties_are_broken_by_the_indices_of_rows(estimator, fit, answer):
    X = np.array([[i, j] for i in range(6) for j in range(6)], dtype=float)
    found = answer(fit(estimator, X), X)
    assert np.array_equal(answer(fit(clone(estimator), X), X), found)
    assert np.array_equal(answer(estimator, X), found)
    if hasattr(estimator, "labels_"):
        assert np.array_equal(estimator.labels_, found)
