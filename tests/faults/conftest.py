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


def seeded(estimator, seed):
    """A clone with a seed, where it draws anything."""
    estimator = clone(estimator)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=seed)
    return estimator


@pytest.fixture(params=CLUSTERERS, ids=lambda estimator: type(estimator).__name__)
def clusterer(request, global_random_seed):
    """A fresh clusterer of three clusters."""
    return seeded(request.param, global_random_seed)


@pytest.fixture(
    params=[e for e in CLUSTERERS if has_fit_parameter(e, "must_link")],
    ids=lambda estimator: type(estimator).__name__,
)
def constrained(request, global_random_seed):
    """A fresh clusterer of three clusters that takes partial labels and links."""
    return seeded(request.param, global_random_seed)


@pytest.fixture(scope="session")
def blobs(global_random_seed):
    """Three groups of 30 rows with 4 features, float64, in C order."""
    centers = [[1.0, 4.0, 2.0, 1.0], [-2.0, 3.0, 9.0, -8.0], [9.0, -3.0, -6.0, 2.0]]
    X, _ = make_blobs(90, centers=centers, random_state=global_random_seed)
    X.setflags(write=False)
    return np.ascontiguousarray(X)
