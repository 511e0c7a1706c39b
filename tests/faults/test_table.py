"""The table of faults, `tables/fault_table.py`, is what its tests find.

For every cell the behaviour that it is about is broken in the estimator of its column,
and the test that the cell names has to fail. What is broken is what the estimator does
at its public methods, not a name inside: a fit that drops the links it was given, or
takes NaN for zero, or keeps a warning to itself. So a test that does not run on the
estimator, or does not look, is found out, and renaming what is private changes nothing.
"""

import contextlib
import functools
import os
import sys
import threading
import warnings

import numpy as np
import pytest
from fault_table import FAULTS
from proven import COLUMNS, Dash, run_cell
from scipy import sparse
from threadpoolctl import threadpool_limits

import skdiffclust
from skdiffclust import _checkpoint

ROWS = {int(title.split()[0]): row for title, row in FAULTS.rows.items()}


# How an estimator is broken: each takes (monkeypatch, class).


def fit_of(change):
    """Break `fit`: ``change(estimator, X, kwargs)`` returns the X it is given.

    It may change the keyword arguments, and the parameters of the estimator.
    """

    def broken(patch, cls):
        original = cls.fit

        @functools.wraps(original)
        def fit(self, X, *args, **kwargs):
            return original(self, change(self, X, kwargs), *args, **kwargs)

        patch.setattr(cls, "fit", fit)

    return broken


def around_fit(manager):
    """Break `fit` by what is done around it, in a context manager."""

    def broken(patch, cls):
        original = cls.fit

        @functools.wraps(original)
        def fit(self, *args, **kwargs):
            with manager():
                original(self, *args, **kwargs)
            return self

        patch.setattr(cls, "fit", fit)

    return broken


def answer_of(change):
    """Break `predict` or `transform`: ``change(estimator, X, answer)``."""

    def broken(patch, cls):
        name = "transform" if cls.__name__ == "SpanningForestEmbedding" else "predict"
        # As a plain function: those that are there sometimes are in these tests.
        original = cls.__dict__.get(name) or getattr(cls, name)

        def answer(self, X):
            found = original.__get__(self, cls)(X)
            return change(self, X, found)

        patch.setattr(cls, name, answer)

    return broken


def after_fit(change):
    """Break what `fit` leaves behind: ``change(estimator)``."""

    def broken(patch, cls):
        original = cls.fit

        @functools.wraps(original)
        def fit(self, *args, **kwargs):
            original(self, *args, **kwargs)
            change(self)
            return self

        patch.setattr(cls, "fit", fit)

    return broken


@contextlib.contextmanager
def silent():
    """Keep every warning to oneself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def is_dense(X):
    return isinstance(X, np.ndarray) and X.dtype.kind == "f"


def zeros_for_nan(self, X, kwargs):
    return np.nan_to_num(X, posinf=0, neginf=0) if is_dense(X) else X


def rescaled(self, X, kwargs):
    size = np.abs(X).max(initial=0) if is_dense(X) else 0
    return X / size if size > 1e25 and np.isfinite(size) else X


def lost_digits(self, X, kwargs):
    """Expand squared distances in float32 without centring."""
    if not is_dense(X) or np.abs(X).max(initial=0) < 1e5:
        return X
    return X + np.random.RandomState(0).normal(scale=300.0, size=X.shape)


def known_n_clusters(self, X, kwargs):
    k = self.n_clusters
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        self.n_clusters = 3
    return X


def clipped_n_clusters(self, X, kwargs):
    self.n_clusters = min(self.n_clusters, len(X))
    return X


def without_constraints(self, X, kwargs):
    for name in ("must_link", "cannot_link", "partial_labels"):
        kwargs.pop(name, None)
    if type(self).__name__ == "SpanningForestEmbedding" and "y" not in kwargs:
        kwargs["y"] = np.arange(len(X)) % 3
    return X


def defaults_for_nan(self, X, kwargs):
    defaults = type(self)().get_params()
    for name, value in self.get_params(deep=False).items():
        if isinstance(value, float) and np.isnan(value):
            setattr(self, name, defaults[name] or 1.0)
    return X


def wrapped_integers(self, X, kwargs):
    if isinstance(X, np.ndarray) and X.dtype == np.uint8:
        return X - np.uint8(X.mean())
    return X


def numbers_of_anything(self, X, kwargs):
    if isinstance(X, np.ma.MaskedArray):
        return X.filled(0.0)
    if is_dense(X) or sparse.issparse(X):
        return X
    return np.arange(2.0 * 2).reshape(2, 2)


def misread_memory(self, X, kwargs):
    if isinstance(X, np.ndarray) and X.flags.c_contiguous and X.flags.owndata:
        return X
    return np.asarray(X)[:, ::-1] * np.arange(1, np.shape(X)[1] + 1)


def sparse_as_absolute(self, X, kwargs):
    if not sparse.issparse(X):
        return X
    can_be = self.__sklearn_tags__().input_tags.sparse
    return abs(X) if can_be else X.toarray()


def on_the_cpu(self, X, kwargs):
    self.device = "cpu"
    return X


def joined(self, X, kwargs):
    """Join the parts of a graph by edges that nobody asked for."""
    graph = kwargs.get("graph", X)
    if sparse.issparse(graph) or graph is not X:
        dense = graph.toarray() if sparse.issparse(graph) else np.array(graph)
        dense = dense + 1e-9 * (1 - np.eye(len(dense)))
        if graph is X:
            return dense
        kwargs["graph"] = dense
    return X


def of_any_matrix(change):
    """Change a matrix or graph before it is looked at."""

    def changed(self, X, kwargs):
        if "graph" in kwargs:
            kwargs["graph"] = change(np.asarray(kwargs["graph"]))
            return X
        return change(np.asarray(X))

    return fit_of(changed)


def square(matrix):
    return (
        0.5 * (matrix + matrix.T)
        if len(set(matrix.shape)) == 1
        else matrix @ matrix.T + np.ones((len(matrix), len(matrix)))
    )


def too_large_batches(self, X, kwargs):
    if self.batch_size is not None and self.batch_size > len(X):
        raise IndexError("a batch of samples that are not there")
    return X


def pairs_that_are_there(self, X, kwargs):
    links = np.asarray(kwargs.pop("must_link", np.zeros((0, 2), int)))
    kwargs["must_link"] = links[(links < len(X)).all(axis=1)] if len(links) else None
    if not len(kwargs["must_link"]):
        kwargs["must_link"] = [[0, 1]]
    return X


def nothing_at_all(patch, cls):
    patch.setattr(cls, "fit", lambda self, X, *args, **kwargs: self)


def swallowed_interrupt(patch, cls):
    original = cls.fit

    @functools.wraps(original)
    def fit(self, *args, **kwargs):
        try:
            return original(self, *args, **kwargs)
        except KeyboardInterrupt:
            return self

    patch.setattr(cls, "fit", fit)


def other_version(patch, cls):
    def refuse(self, state):
        raise ValueError("written by another version")

    patch.setattr(cls, "__setstate__", refuse)


MAIN_THREAD, MAIN_PROCESS = threading.main_thread(), os.getpid()


def in_threads(self, X, found):
    return found if threading.current_thread() is MAIN_THREAD else found + 1


def in_children(self, X, found):
    return found if os.getpid() == MAIN_PROCESS else found + 1


@contextlib.contextmanager
def more_threads():
    threadpool_limits(2)
    yield


@contextlib.contextmanager
def global_seed():
    np.random.seed(0)  # noqa: NPY002 the fault
    yield


@contextlib.contextmanager
def deep_recursion():
    raise RecursionError("a chain")
    yield


TURN = iter(range(10**9))


def random_ties(self, X, found):
    return found + next(TURN)


def nan_attributes(self):
    for name, value in vars(self).items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            setattr(self, name, value * np.nan)


def overflowed(patch, cls):
    """Take squares that are infinity in float32 as they come."""

    fit_of(rescaled)(patch, cls)
    name = "transform" if cls.__name__ == "SpanningForestEmbedding" else "predict"
    original = cls.__dict__.get(name) or getattr(cls, name)

    def answer(self, X):
        found = original.__get__(self, cls)(rescaled(self, X, {}))
        return found * 0 if np.abs(X).max(initial=0) > 1e25 else found

    patch.setattr(cls, name, answer)


def nan_of_exponentials(patch, cls):
    """Let exponentials overflow: the labels are any, the probabilities NaN."""
    answer_of(lambda self, X, found: (found + 1) % 4)(patch, cls)
    if hasattr(cls, "predict_proba"):
        patch.setattr(cls, "predict_proba", lambda self, X: np.full(len(X), np.nan))


@contextlib.contextmanager
def divergence_unsaid():
    """Say nothing of a training that diverges, and do not fail of it."""
    with silent(), contextlib.suppress(ValueError):
        yield


def nan_answer(self, X, found):
    return found * np.nan


def fewer_edges(self):
    self.forest_edges_ = self.forest_edges_[:-1]


def negative_loss(self):
    self.history_ = {name: [-1.0] * len(c) for name, c in self.history_.items()}


def stream_from_the_start(patch, cls):
    """Resume a computation, but its random stream not."""
    name = _checkpoint.restore_stream.__name__
    for module in list(sys.modules.values()):
        if module.__name__.startswith("skdiffclust") and hasattr(module, name):
            patch.setattr(module, name, lambda *args: None)


def believed(patch, cls):
    """Believe what a file says, and let an error of the disk through."""
    patch.setattr(_checkpoint, "_difference", lambda *args: None)

    def attempt(self, write, *args):
        write(*args)

    patch.setattr(_checkpoint.Checkpoint, "_attempt", attempt)


def not_told_of_full_memory(patch, cls):
    import torch

    def fail():
        raise RuntimeError("nobody halves the batch")

    patch.setattr(torch.cuda, "empty_cache", fail)


def one_answer(self, X, found):
    """Answer as if equal rows were not equal."""
    is_equal = np.ptp(np.asarray(X), axis=0).max(initial=0) == 0
    return found + np.arange(len(found)).reshape(-1, *[1] * (found.ndim - 1)) * is_equal


MUTANTS = {
    1: fit_of(zeros_for_nan),
    2: fit_of(rescaled),
    3: overflowed,
    4: fit_of(lost_digits),
    5: around_fit(silent),
    6: fit_of(known_n_clusters),
    7: fit_of(clipped_n_clusters),
    8: around_fit(silent),
    9: fit_of(without_constraints),
    10: fit_of(without_constraints),
    11: after_fit(fewer_edges),
    12: fit_of(joined),
    13: of_any_matrix(square),
    14: of_any_matrix(np.abs),
    15: after_fit(nan_attributes),
    16: nan_of_exponentials,
    17: fit_of(defaults_for_nan),
    18: fit_of(wrapped_integers),
    19: fit_of(numbers_of_anything),
    20: fit_of(misread_memory),
    21: fit_of(sparse_as_absolute),
    22: fit_of(numbers_of_anything),
    23: fit_of(too_large_batches),
    24: around_fit(divergence_unsaid),
    25: fit_of(on_the_cpu),
    26: not_told_of_full_memory,
    27: swallowed_interrupt,
    28: stream_from_the_start,
    29: believed,
    30: other_version,
    31: answer_of(in_threads),
    32: answer_of(in_children),
    33: around_fit(more_threads),
    34: nothing_at_all,
    35: around_fit(deep_recursion),
    36: around_fit(global_seed),
    37: answer_of(random_ties),
    39: fit_of(pairs_that_are_there),
}
# Where the one of the row says nothing of the estimator.
OF_ONE = {
    (4, "SpanningForestEmbedding"): answer_of(nan_answer),
    (5, "SpanningForestEmbedding"): answer_of(one_answer),
    (10, "SpanningForestEmbedding"): after_fit(negative_loss),
    (11, "SpanningForestEmbedding"): after_fit(negative_loss),
    (15, "GraphCutClustering"): around_fit(silent),
}
# Row 38 runs in a process of its own, which nothing here can break.
CELLS = [
    (fault, column)
    for fault, cells in ROWS.items()
    for column, cell in cells.items()
    if not isinstance(cell, Dash) and fault in MUTANTS
]
# Rows whose tests take a moment; one or two families of each.
QUICK = [
    (fault, column)
    for fault, columns in {
        1: ("ClAM", "SpanningForestEmbedding"),
        2: ("GEMINI", "SpanningForestClustering"),
        3: ("SpanningForestClustering",),
        5: ("PRCut",),
        6: ("SparseGEMINI", "SparseGEMINICV"),
        7: ("PRCut", "ClAM"),
        8: ("GEMINI",),
        9: ("SpanningForestClustering",),
        10: ("GEMINI", "PRCut"),
        11: ("SpanningForestClustering",),
        12: ("GraphCutClustering", "SpanningForestClustering"),
        13: ("PRCut", "SpanningForestClustering"),
        17: ("SpanningForestEmbedding", "SpanningForestClustering"),
        19: ("GEMINI", "SparseGEMINICV"),
        21: ("SpanningForestClustering",),
        22: ("ClAM",),
        25: ("PRCut", "SpanningForestEmbedding"),
        34: ("SpanningForestClustering",),
        39: ("SparseGEMINI", "SpanningForestEmbedding"),
    }.items()
    for column in columns
]


def test_every_fault_has_a_row():
    assert list(ROWS) == list(range(1, 40))


def test_every_row_and_family_has_a_mutant_and_thirty_are_quick():
    assert len(QUICK) == len(set(QUICK)) >= 30
    assert set(QUICK) <= set(CELLS)
    assert set(ROWS) - set(MUTANTS) == {38}
    assert set(OF_ONE) <= set(CELLS)
    assert {column for _, column in QUICK} == set(COLUMNS)


@pytest.mark.full
@pytest.mark.parametrize(
    "fault, column",
    QUICK
    + [
        pytest.param(*cell, marks=pytest.mark.long)
        for cell in CELLS
        if cell not in QUICK
    ],
)
def test_a_broken_estimator_is_found_out(fault, column, monkeypatch):
    mutant = OF_ONE.get((fault, column)) or MUTANTS[fault]
    mutant(monkeypatch, getattr(skdiffclust, column))
    watch = run_cell(ROWS[fault][column], column)
    assert watch.failed, watch.said[-2000:]


@pytest.mark.long
@pytest.mark.parametrize("fault, column", CELLS)
def test_an_estimator_that_is_whole_passes(fault, column):
    watch = run_cell(ROWS[fault][column], column)
    assert watch.n_passed and not watch.failed, watch.said[-2000:]
