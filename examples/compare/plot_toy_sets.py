"""
===============================================
Toy data sets and the methods that cluster them
===============================================

Data sets of scikit-learn's comparison of clusterers, with two methods of scikit-learn
and four of this package. ``n_clusters`` is the true number of clusters (HDBSCAN has no
such parameter); all other parameters have their defaults.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn import datasets
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import (
    GEMINI,
    ClAM,
    GraphCutClustering,
    SpanningForestClustering,
)

n_samples = 240

# %%
# Two of the five data sets cannot be separated by straight lines, two consist of blobs
# (of unequal width, and stretched), and one has no structure.

blobs = {"n_samples": n_samples, "random_state": 170}
stretched, stretched_y = datasets.make_blobs(**blobs)
rng = np.random.default_rng(30)
sets = [
    datasets.make_circles(n_samples, factor=0.5, noise=0.05, random_state=30),
    datasets.make_moons(n_samples, noise=0.05, random_state=30),
    datasets.make_blobs(**blobs, cluster_std=[1.0, 2.5, 0.5]),
    (stretched @ [[0.6, -0.6], [-0.4, 0.8]], stretched_y),
    (rng.uniform(size=(n_samples, 2)), None),
]


def clusterers(k):
    """Return {name: clusterer} for k clusters."""
    return {
        "k-means": KMeans(k, n_init=3, random_state=0),
        "HDBSCAN": HDBSCAN(min_cluster_size=15, copy=True),
        "forest": SpanningForestClustering(k),
        "ClAM": ClAM(k, random_state=0),
        "graph cut": GraphCutClustering(k, random_state=0),
        "GEMINI": GEMINI(k, random_state=0),
    }


# %%
# Above each picture is the adjusted Rand index.

# Some sets have fewer clusters to find than a method was asked for, and a graph of
# neighbours may fall into more parts; both are warned of.
warnings.simplefilter("ignore", ConvergenceWarning)
warnings.filterwarnings("ignore", message="The graph of GraphCut", category=UserWarning)

names = list(clusterers(2))
found = {name: [] for name in names}
fig, axes = plt.subplots(
    len(sets), len(names), figsize=(10, 8.5), layout="constrained", squeeze=False
)
for row, (X, y) in zip(axes, sets, strict=True):
    X = StandardScaler().fit_transform(X)
    k = 3 if y is None else len(np.unique(y))
    for ax, (name, clusterer) in zip(row, clusterers(k).items(), strict=True):
        labels = clusterer.fit_predict(X)
        ax.scatter(*X.T, c=[f"C{k}" if k >= 0 else "0.6" for k in labels], s=4)
        # The sum makes a zero of minus zero.
        ari = None if y is None else round(adjusted_rand_score(y, labels), 2) + 0.0
        found[name].append(ari)
        ax.set_title(name if ari is None else f"{name} {ari:.2f}", fontsize=11)
        ax.set(xticks=[], yticks=[])
plt.show()

# %%
# The forest and the graph cut find the circles and the moons, and the forest also finds
# the stretched blobs. ClAM and GEMINI, which compare samples with centres and means,
# find round blobs. Every method divides the last set, which has no clusters.

circles, moons, _, long_blobs, _ = range(5)
for name in ("forest", "graph cut"):
    assert found[name][circles] == found[name][moons] == 1
assert found["forest"][long_blobs] > 0.95
