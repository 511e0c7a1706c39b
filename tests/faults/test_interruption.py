"""FAULTS 27: Ctrl-C in the middle of a fit."""

import time

import numpy as np
import pytest
from sklearn.base import clone

from skdiffclust import (
    GEMINI,
    ClAM,
    PRCut,
    SpanningForestClustering,
    SpanningForestEmbedding,
    SparseGEMINI,
    SparseGEMINICV,
)


def slow_metric(a, b):
    """Distance that takes a fifth of a millisecond."""
    time.sleep(2e-4)
    return np.abs(a - b).sum()


# Fits of many seconds: an estimator and the shape of its rows.
LONG_FITS = {
    "ClAM": (ClAM(10, max_iter=10**4), (200_000, 10)),
    "ClAM-deep": (ClAM(10, encoder="mlp", max_iter=10**4), (20_000, 10)),
    "GEMINI": (GEMINI(3, max_iter=10**5, n_iter_no_change=None), (500, 5)),
    "PRCut": (PRCut(10, encoder="mlp", max_iter=10**4), (4000, 5)),
    "SpanningForestClustering-callable": (
        SpanningForestClustering(2, metric=slow_metric),
        (500, 2),
    ),
    "SpanningForestClustering-prim": (
        SpanningForestClustering(2, algorithm="prim"),
        (60_000, 20),
    ),
    "SpanningForestClustering-kruskal": (
        SpanningForestClustering(2, algorithm="kruskal"),
        (6_000, 20),
    ),
    "SpanningForestEmbedding": (SpanningForestEmbedding(2, max_iter=10**5), (200, 5)),
    "SparseGEMINI": (SparseGEMINI(3, max_iter=10**5, n_iter_no_change=None), (500, 5)),
    "SparseGEMINICV": (SparseGEMINICV(3, max_iter=10**5), (500, 5)),
}


def answer(model, X):
    """Labels, or the embedding, of the rows that it was fitted to."""
    return model.predict(X) if hasattr(model, "predict") else model.transform(X)


def interrupt(name, moments, interrupt_after):
    """Fit a few rows, interrupt a long fit at the moments, and fit the few again."""
    model, shape = clone(LONG_FITS[name][0]), LONG_FITS[name][1]
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    X = np.random.default_rng(0).normal(size=shape)
    X[: len(X) // 2] += 3.0
    few = np.concatenate([X[:10], X[-10:]])
    y = np.arange(len(X)) % 2
    short = clone(model)
    if "max_iter" in model.get_params():
        short.set_params(max_iter=2)
    if name.startswith("SpanningForestClustering") and shape[0] > 3000:
        clone(model).fit(X[:3100])  # so that the kernels are compiled
    expected = answer(short.fit(few, y[:20]), few)
    model.__dict__.update(short.__dict__ | model.get_params())
    for moment in moments:
        with pytest.raises(KeyboardInterrupt):
            interrupt_after(moment)
            model.fit(X, y)
        assert time.perf_counter() - interrupt_after.sent < 1
        assert np.array_equal(answer(model, few), expected)
        assert np.array_equal(answer(clone(short).fit(few, y[:20]), few), expected)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", LONG_FITS)
def test_control_c(name, interrupt_after):
    moments = np.random.default_rng(1).uniform(0.01, 0.3, 3)
    interrupt(name, moments, interrupt_after)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", LONG_FITS)
def test_control_c_at_fifty_moments(name, interrupt_after):
    last = 1.0 if name.endswith(("kruskal", "CV")) else 2.0  # those fits end sooner
    moments = np.random.default_rng(0).uniform(0.01, last, 50)
    interrupt(name, moments, interrupt_after)
