"""The estimators that can meet a fault, each with settings for a few rows."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.utils.validation import has_fit_parameter

from skdiffclust import (
    GEMINI,
    ClAM,
    PRCut,
    SpanningForestClustering,
    SparseGEMINI,
)

# Every estimator of points, cheap enough to fit a hundred rows in a moment.
CLUSTERERS = [
    ClAM(3, n_init=2, random_state=0),
    GEMINI(3, max_iter=100, random_state=0),
    PRCut(3, max_iter=20, random_state=0),
    SpanningForestClustering(3),
    SparseGEMINI(3, max_iter=100, random_state=0),
]


@pytest.fixture(params=CLUSTERERS, ids=lambda estimator: type(estimator).__name__)
def clusterer(request):
    """A fresh clusterer of three clusters."""
    return clone(request.param)


@pytest.fixture(
    params=[e for e in CLUSTERERS if has_fit_parameter(e, "must_link")],
    ids=lambda estimator: type(estimator).__name__,
)
def constrained(request):
    """A fresh clusterer of three clusters that takes partial labels and links."""
    return clone(request.param)


@pytest.fixture(scope="session")
def blobs():
    """Three groups of 30 rows with 4 features, float64, in C order."""
    X, _ = make_blobs(90, n_features=4, centers=3, random_state=0)
    X.setflags(write=False)
    return np.ascontiguousarray(X)
