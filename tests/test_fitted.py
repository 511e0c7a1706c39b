"""Fitted state: left alone by what fails, and never written in place."""

import copy
import inspect
import sys

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

import skdiffclust
from skdiffclust import (
    GEMINI,
    AssociativeImputer,
    ClAM,
    DeepClAM,
    GraphCutClustering,
    PRCut,
    SpanningForestClustering,
    SpanningForestEmbedding,
    SparseGEMINI,
    SparseGEMINICV,
)

PACKAGE = skdiffclust.__file__.removesuffix("__init__.py")
FEW = {"n_init": 2, "max_iter": 3, "random_state": 0}
ESTIMATORS = {
    "AssociativeImputer": AssociativeImputer(random_state=0),
    "ClAM": ClAM(2, **FEW),
    "ClAM-auto": ClAM("auto", **FEW),
    "DeepClAM": DeepClAM(2, **FEW),
    "GEMINI": GEMINI(2, **FEW),
    "GEMINI-auto": GEMINI("auto", **FEW),
    "GraphCutClustering": GraphCutClustering(2, random_state=0),
    "GraphCutClustering-auto": GraphCutClustering("auto", random_state=0),
    "PRCut": PRCut(2, encoder="mlp", **FEW),
    "PRCut-auto": PRCut("auto", **FEW),
    "SpanningForestClustering": SpanningForestClustering(2),
    "SpanningForestEmbedding": SpanningForestEmbedding(
        2,
        n_components=2,
        max_iter=2,
        n_perturbations=4,
        warm_start=True,
        random_state=0,
    ),
    "SparseGEMINI": SparseGEMINI(2, **FEW),
    "SparseGEMINICV": SparseGEMINICV(
        SparseGEMINI(**FEW), n_clusters=[2, 3], n_alphas=2, n_resamples=2
    ),
}
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning"
)
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)
# What is one line of `fit` more than the estimator without "auto", and takes seconds.
SLOW = "GEMINI-auto", "GraphCutClustering-auto", "PRCut-auto", "SparseGEMINICV"


def samples():
    """Return sixty samples in two groups, and the numbers of these."""
    return make_blobs(60, 3, centers=2, cluster_std=0.5, random_state=0)


def writers(model):
    """Return the methods that fit a model."""
    names = ["fit", "path"]
    if getattr(model, "n_clusters", None) != "auto":
        names.append("partial_fit")
    return [getattr(model, name) for name in names if hasattr(model, name)]


@each_estimator
def test_every_method_of_an_unfitted_estimator_says_so(name):
    X, _ = samples()
    model = clone(ESTIMATORS[name])
    writes = {"fit", "fit_predict", "fit_transform", "partial_fit", "path"}
    about_itself = {"get_params", "get_metadata_routing"}
    for method in dir(type(model)):
        skipped = writes | about_itself
        if method.startswith(("_", "set_")) or method in skipped:
            continue
        if not callable(getattr(model, method, None)):
            continue
        signature = inspect.signature(getattr(model, method))
        needed = [p for p in signature.parameters.values() if p.default is p.empty]
        given = [X if p.name == "X" else 2 for p in needed if p.kind < p.VAR_POSITIONAL]
        with pytest.raises(NotFittedError):
            getattr(model, method)(*given)


def arrays_of(value, path=""):
    """Yield the arrays of a nest of containers and objects, with where they are."""
    if isinstance(value, np.ndarray):
        yield path, value
    elif issparse(value):
        yield from arrays_of(vars(value), path)
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from arrays_of(entry, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for number, entry in enumerate(value):
            yield from arrays_of(entry, f"{path}[{number}]")
    elif type(value).__module__.startswith("skdiffclust"):
        yield from arrays_of(getattr(value, "__dict__", {}), path)


@each_estimator
def test_fitted_arrays_are_never_written_in_place(name):
    X, y = samples()
    model = clone(ESTIMATORS[name]).fit(X, y)
    before = [(path, array, array.copy()) for path, array in arrays_of(vars(model))]
    histories = {
        column: (curve, list(curve))
        for column, curve in getattr(model, "history_", {}).items()
    }
    assert before
    other = X[::-1] + 0.1
    for method in ("predict", "transform"):
        if hasattr(model, method):
            getattr(model, method)(other)
    for write in writers(model):
        write(other, y)
    for path, array, old in before:
        np.testing.assert_array_equal(array, old, err_msg=path)
    assert all(curve == old for curve, old in histories.values())


class StopError(BaseException):
    """What ends a fit."""


def run_lines(call, end=None):
    """Run a call up to a line of our files, by number; return how many lines it ran."""
    n_lines = 0

    def trace(frame, event, arg):
        nonlocal n_lines
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            n_lines += 1
            if n_lines == end:
                raise StopError
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(previous)
    return n_lines


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.full] * (name in SLOW))
        for name in ESTIMATORS
    ],
)
def test_a_fit_that_fails_anywhere_leaves_the_estimator_as_it_was(name):
    X, y = samples()
    fitted, new = clone(ESTIMATORS[name]).fit(*samples()), clone(ESTIMATORS[name])
    for model in (fitted, new):
        before = vars(model).copy()
        n_lines = run_lines(lambda model=model: copy.copy(model).fit(X[::-1], y))
        for end in np.linspace(10, 0.9 * n_lines, 4).astype(int):
            with pytest.raises(StopError):
                run_lines(lambda model=model: model.fit(X[::-1], y), end)
            assert vars(model).keys() == before.keys()
            assert all(vars(model)[each] is before[each] for each in before)


@each_estimator
def test_no_fit_writes_a_parameter(name):
    X, y = samples()
    model = clone(ESTIMATORS[name])
    params, written = model.get_params(deep=False), []

    class Watched(type(model)):
        def __setattr__(self, attribute, value):
            if self is model and attribute in params:
                written.append(attribute)
            super().__setattr__(attribute, value)

    model.__class__ = Watched
    for write in writers(model):
        write(X, y)
    assert written == []
    assert all(vars(model)[each] is params[each] for each in params)
