"""The estimators that can meet a fault, each with settings for a few rows."""

import _thread
import gc
import signal
import threading
from functools import partial
from importlib.util import find_spec
from itertools import starmap
from operator import call

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from skdiffclust import (
    GEMINI,
    ClAM,
    DeepClAM,
    GraphCutClustering,
    PRCut,
    SpanningForestClustering,
    SpanningForestEmbedding,
    SparseGEMINI,
    SparseGEMINICV,
    _threads,
)
from skdiffclust._history import EpochLoop

# Cheap enough to fit a hundred rows at once.
QUICK = {
    "ClAM": ClAM(3, n_init=2),
    "GEMINI": GEMINI(3, learning_rate=0.1),
    "PRCut": PRCut(3, encoder="mlp", hidden_layer_sizes=8, max_iter=3),
    "GraphCutClustering": GraphCutClustering(3),
    "SpanningForestClustering": SpanningForestClustering(3),
    "SparseGEMINI": SparseGEMINI(3, learning_rate=0.1),
}
CLUSTERERS = {
    **QUICK,
    "DeepClAM": DeepClAM(3, n_init=1, max_iter=5),
    "SparseGEMINICV": SparseGEMINICV(
        SparseGEMINI(n_init=1, learning_rate=0.1),
        n_clusters=3,
        n_alphas=2,
        n_resamples=2,
    ),
}
EMBEDDING = SpanningForestEmbedding(3, n_components=2, max_iter=3, n_perturbations=4)
ESTIMATORS = {**CLUSTERERS, "SpanningForestEmbedding": EMBEDDING}
LAYERED = {
    "GEMINI": GEMINI(3, model="mlp", max_iter=2),
    "PRCut": PRCut(3, encoder="mlp", max_iter=2),
    "SparseGEMINI": SparseGEMINI(3, model="mlp", max_iter=2),
    "SpanningForestEmbedding": clone(EMBEDDING).set_params(encoder="mlp"),
}
# A few epochs of these suffice here; more would take most of the time.
UNFINISHED = {"DeepClAM", "PRCut", "SpanningForestEmbedding"}
# It wraps SparseGEMINI, which meets the same faults; each of its fits takes seconds.
IN_FULL = {"SparseGEMINICV"}


def fixture_of(estimators, what):
    """A fixture that gives a fresh one of the estimators, seeded."""

    marks = {
        name: [pytest.mark.few_epochs] * (name in UNFINISHED)
        + [pytest.mark.full] * (name in IN_FULL)
        for name in estimators
    }

    @pytest.fixture(
        params=[pytest.param(name, marks=marks[name]) for name in estimators]
    )
    def fixture(request, global_random_seed):
        estimator = clone(estimators[request.param])
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=global_random_seed)
        return estimator

    fixture.__doc__ = what
    return fixture


quick = fixture_of(QUICK, "A clusterer that many fits of cost little.")
clusterer = fixture_of(CLUSTERERS, "Any clusterer.")
estimator = fixture_of(ESTIMATORS, "Any estimator; the embedding learns of labels.")
layered = fixture_of(LAYERED, "An estimator with hidden layers.")
constrained = fixture_of(
    {n: e for n, e in CLUSTERERS.items() if has_fit_parameter(e, "must_link")},
    "A clusterer that takes partial labels and links.",
)


@pytest.fixture(scope="session")
def all_estimators(global_random_seed):
    """One of each estimator but the one whose fits take seconds, seeded."""
    estimators = [clone(ESTIMATORS[name]) for name in ESTIMATORS if name not in IN_FULL]
    for one in estimators:
        if "random_state" in one.get_params():
            one.set_params(random_state=global_random_seed)
    return estimators


@pytest.fixture(scope="session")
def fit():
    """``fit(estimator, X)``, with labels of every other row if it needs labels."""

    def fit(estimator, X):
        if hasattr(estimator, "labels_") or hasattr(type(estimator), "fit_predict"):
            return estimator.fit(X)
        number = np.arange(np.shape(X)[0])
        return estimator.fit(X, np.where(number % 2, number % 3, -1))

    return fit


@pytest.fixture(scope="session")
def answer():
    """``answer(estimator, X)``: labels of rows, or their embedding."""

    def answer(estimator, X):
        return (
            estimator.predict(X)
            if hasattr(estimator, "labels_")
            else estimator.transform(X)
        )

    return answer


@pytest.fixture(scope="session")
def blobs(global_random_seed):
    """Three groups of 30 rows with 4 features, float64, in C order."""
    centers = [[1.0, 4.0, 2.0, 1.0], [-2.0, 3.0, 9.0, -8.0], [9.0, -3.0, -6.0, 2.0]]
    X, _ = make_blobs(90, centers=centers, random_state=global_random_seed)
    X.setflags(write=False)
    return np.ascontiguousarray(X)


class Checks:
    """Counts the checks for an interruption in this thread, and signals in one of them.

    A check is a call of a compiled kernel or of `Tensor.backward`, or the end of an
    epoch: between two of them there are only single calls of NumPy or torch. No clock
    is read, so a busy machine changes nothing.
    """

    def __init__(self):
        self.thread, self.count, self.signalled_in = threading.get_ident(), 0, None

    def wrap(self, function):
        """Return the function with every call of it counted as a check."""

        def wrapped(*args, **kwargs):
            if threading.get_ident() != self.thread:
                return function(*args, **kwargs)
            self.count += 1
            if self.signalled_in is not None and self.count > self.signalled_in:
                raise AssertionError("A check follows that with the signal.")
            if self.count != self.signalled_in:
                return function(*args, **kwargs)
            # In C from one to the other, so that the signal waits inside the function
            # for as long as Ctrl-C would.
            steps = (_thread.interrupt_main,), (partial(function, *args, **kwargs),)
            return list(starmap(call, steps))[1]

        return wrapped

    def count_in(self, function):
        """Return the number of checks in a call."""
        self.count, self.signalled_in = 0, None
        function()
        return self.count

    def interrupt(self, function, check):
        """Call a function with a signal in a check; no other check may follow."""
        self.count, self.signalled_in = 0, check
        with pytest.raises(KeyboardInterrupt):
            function()
        assert self.count == check
        self.signalled_in = None


@pytest.fixture
def checks(monkeypatch):
    """The `Checks` of this test; Ctrl-C raises also in the background of a shell."""
    checks = Checks()
    monkeypatch.setattr(CPUDispatcher, "__call__", checks.wrap(CPUDispatcher.__call__))
    # The number of checks must not depend on the load: chunks are sized by the time the
    # last one took, and handed to threads. There is one thread below.
    monkeypatch.setattr(_threads, "perf_counter", lambda: 0.0)
    monkeypatch.setattr(EpochLoop, "record", checks.wrap(EpochLoop.record))
    if find_spec("torch") is not None:
        import torch

        backward = checks.wrap(torch.Tensor.backward)
        monkeypatch.setattr(torch.Tensor, "backward", backward)
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    # An exception in a callback of the garbage collector is lost, and others add some.
    gc.disable()
    with threadpool_limits(1):
        yield checks
    gc.enable()
    signal.signal(signal.SIGINT, old)
