"""Saha et al., ICML 2023: reproduced and not reproduced entries of Tables 1 and 10.

The tables of doc/reproductions are printed by ``benchmarks/reproduce_clam.py``.
"""

import numpy as np
import pytest
import reproduce_clam
from reproduce_clam import measured, methods, silhouette
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score as ari

from skdiffclust import ClAM

pytestmark = [
    pytest.mark.paper,
    # Settings of the paper lose clusters.
    pytest.mark.filterwarnings("ignore"),
]


def load(shared_data, name):
    """Return standardised rows and classes, or skip."""
    shared_data(name)
    return reproduce_clam.load(name)


@pytest.mark.parametrize("name", ["zoo", "ecoli", "movlib"])
def test_100_starts_reach_k_means_by_silhouette(shared_data, name):
    X, y = load(shared_data, name)
    k = len(np.unique(y))
    best = []
    models = methods(name, X, k)
    for title in ("ClAM, 100 starts", "k-means, 100 starts"):
        labels = np.array(measured(models[title], X)["labels"])
        assert len(np.unique(labels)) == k
        best.append(silhouette(X, labels))
    assert best[0] > best[1] - 0.02


def test_table_10_outliers():
    rng = np.random.RandomState(0)
    X, y = make_blobs(200, centers=[[0, 0], [5, 0]], random_state=0)
    noisy = np.vstack([X, rng.uniform([15, 10], [25, 20], (5, 2))])
    model = ClAM(
        2,
        metric="manhattan",
        init="random",
        max_iter=200,
        learning_rate=0.05,
        random_state=0,
    ).fit(noisy)
    assert ari(y, model.labels_[:200]) > 0.9
    for model in (KMeans(2, n_init=10, random_state=0), ClAM(2, random_state=0)):
        assert ari(y, model.fit(noisy).labels_[:200]) < 0.1
