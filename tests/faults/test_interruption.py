"""FAULTS 27: Ctrl-C in the middle of a fit."""

import numpy as np
import pytest
from sklearn.base import clone

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

# Fits of many checks: an estimator and the shape of its rows.
LONG_FITS = {
    "ClAM": (ClAM(10, max_iter=10**4), (5_000, 10)),
    "DeepClAM": (DeepClAM(10, max_iter=10**4), (2_000, 10)),
    "GEMINI": (GEMINI(3, max_iter=10**5, learning_rate=1e-5, tol=0), (500, 5)),
    "PRCut": (PRCut(10, encoder="mlp", max_iter=10**4), (1000, 5)),
    "SpanningForestClustering": (SpanningForestClustering(10), (20_000, 10)),
    "a forest of a table": (
        SpanningForestClustering(10, metric="gower"),
        (20_000, 10),
    ),
    "SpanningForestEmbedding": (SpanningForestEmbedding(2, max_iter=10**5), (200, 5)),
    "SparseGEMINI": (
        SparseGEMINI(3, max_iter=10**5, learning_rate=1e-5, tol=0),
        (500, 5),
    ),
    "SparseGEMINICV": (
        SparseGEMINICV(SparseGEMINI(3, max_iter=10**5), n_alphas=5, n_resamples=2),
        (100, 5),
    ),
}


def answer(model, X):
    """Labels, or the embedding, of the rows that it was fitted to."""
    return model.predict(X) if hasattr(model, "predict") else model.transform(X)


def interrupt(name, checks, n_moments):
    """Fit a few rows, signal in some checks of a long fit, and fit the few again."""
    model, shape = clone(LONG_FITS[name][0]), LONG_FITS[name][1]
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    X = np.random.default_rng(0).normal(size=shape)
    X[: len(X) // 2] += 3.0
    few = np.concatenate([X[:10], X[-10:]])
    y = np.arange(len(X)) % 2
    short = clone(model)
    if "max_iter" in short.get_params():
        short.set_params(max_iter=2)
    expected = answer(short.fit(few, y[:20]), few)
    model.__dict__.update(short.__dict__ | model.get_params())
    for check in np.unique(np.linspace(1, 30, n_moments).astype(int)):
        checks.interrupt(lambda: model.fit(X, y), check)
        assert np.array_equal(answer(model, few), expected)
        assert np.array_equal(answer(clone(short).fit(few, y[:20]), few), expected)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", LONG_FITS)
def test_control_c(name, checks):
    interrupt(name, checks, 3)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", LONG_FITS)
def test_control_c_at_thirty_moments(name, checks):
    interrupt(name, checks, 30)
