"""Warnings show the line of the user's code."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdiffclust import GEMINI, ClAM, GraphCutClustering, SpanningForestClustering
from skdiffclust.metrics import silhouette_scorer

# Two distinct samples, too few for a number of clusters, or no clusters.
CASES = [
    (SpanningForestClustering(3), np.repeat([[0.0], [1.0]], 20, axis=0)),
    (ClAM(3, random_state=0), np.repeat([[0.0], [1.0]], 20, axis=0)),
    (GEMINI("auto"), [[9.0, 2.0, 7.0], [9.2, 2.6, 4.2]]),
    (
        GraphCutClustering("auto", random_state=0),
        np.random.RandomState(0).normal(size=(30, 2)),
    ),
]


@pytest.mark.parametrize(
    "model, X", CASES, ids=[type(model).__name__ for model, _ in CASES]
)
def test_a_warning_shows_the_line_that_fits(model, X):
    for fitted in (clone(model), make_pipeline(StandardScaler(), clone(model))):
        with pytest.warns(UserWarning, match="clusters") as caught:
            fitted.fit(X)
        assert {each.filename for each in caught} == {__file__}


def test_a_warning_in_a_search_shows_the_line_of_the_search():
    X = np.repeat([[0.0], [1.0]], 20, axis=0)
    search = GridSearchCV(
        SpanningForestClustering(), {"n_clusters": [3]}, scoring=silhouette_scorer
    )
    with pytest.warns(UserWarning, match="found 2 of 3 clusters") as caught:
        search.fit(X[np.random.RandomState(0).permutation(len(X))])
    assert {each.filename for each in caught} == {__file__}
