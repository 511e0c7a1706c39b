"""
========================================================
Four labels, or one link, change which groups are joined
========================================================

Four groups of samples form two clusters. Without constraints, distances determine which
groups are joined. Four labels, one in each group, select the other two clusters: in the
constrained forest, samples of one class are in the same tree and samples of different
classes are not. A must-link joins two distant groups.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering
from skdiffclust.plotting import SpanningForestDisplay

centers = np.array([[0, 0], [4, 0], [0, 5], [4, 5]])
X, group = make_blobs(200, centers=centers, cluster_std=0.7, random_state=4)
firsts = np.array([np.argmax(group == g) for g in range(4)])

# %%
# One sample of each group is labelled, with class 0 on the left and 1 on the right. The
# label -1 means unknown.

partial_labels = np.full(len(X), -1)
partial_labels[firsts] = [0, 1, 0, 1]

# %%
# A must-link is a pair of indices of samples. This one joins two opposite corners.

must_link = [[firsts[0], firsts[3]]]

# %%
# Dashed lines are the edges of the unconstrained tree that are not in the forest.

clusterer = SpanningForestClustering(n_clusters=2)
runs = {
    "no constraint, k = 2": (2, {}),
    "4 labels, k = 2": (2, {"partial_labels": partial_labels}),
    "a must-link, k = 3": (3, {"must_link": must_link}),
}
found = {}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for ax, (name, (n_clusters, known)) in zip(axes, runs.items(), strict=True):
    clusterer.set_params(n_clusters=n_clusters).fit(X, **known)
    SpanningForestDisplay.from_estimator(clusterer, X, ax=ax)
    ax.set_title(name)
    found[name] = clusterer.labels_
axes[1].scatter(*X[firsts].T, s=60, facecolors="none", edgecolors="black", zorder=3)
axes[2].plot(*X[must_link[0]].T, "k-", linewidth=1.5)
plt.show()

# %%
# Without constraints the lower and the upper groups are joined, with four labels the
# left and the right ones, and the must-link joins two opposite corners.

expected = [group // 2, group % 2, np.array([0, 1, 2, 0])[group]]
for labels, truth in zip(found.values(), expected, strict=True):
    assert adjusted_rand_score(truth, labels) == 1
