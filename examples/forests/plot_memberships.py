"""
=====================================
Memberships show where clusters touch
=====================================

A partition does not show how certain its labels are, or which other clusters the data
have. ``SpanningForestClustering`` has two tools for this. Memberships are the fractions
of randomly perturbed trees in which a sample belongs to each cluster. The condensed
tree of HDBSCAN has the clusters at every density.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from skdiffclust import SpanningForestClustering

X, y = make_blobs(
    [150, 150, 100, 40],
    centers=[[0, 0], [3.2, 0], [1.5, 6], [8, 3]],
    cluster_std=[0.8, 0.8, 0.9, 0.3],
    random_state=0,
)
noise = np.random.default_rng(0).uniform(X.min(axis=0) - 1, X.max(axis=0) + 1, (20, 2))
X = np.vstack([X, noise])
forest = SpanningForestClustering(
    4, n_perturbations=100, consensus=True, min_samples=5, random_state=0
).fit(X)
tree = forest.condensed_tree(min_cluster_size=15)
found = tree.labels()
print("sizes of the clusters:", np.bincount(forest.labels_))
print("clusters of HDBSCAN:", found.max() + 1, "and", np.sum(found < 0), "outliers")

# %%
# On the left, the larger the black ring of a sample, the more often it was in another
# cluster than that of its colour. On the right are the clusters of the condensed tree;
# samples that belong to none are grey.

certainty = forest.memberships_.max(axis=1)
fig, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
axes[0].scatter(*X.T, c=[f"C{label}" for label in forest.labels_], s=12)
rings = {"facecolors": "none", "edgecolors": "k", "linewidths": 0.8}
axes[0].scatter(*X.T, s=150 * (1 - certainty), **rings)
axes[0].set(title="Uncertain samples are between clusters", xticks=[], yticks=[])
axes[1].scatter(*X.T, c=[f"C{label}" if label >= 0 else "0.7" for label in found], s=12)
axes[1].set(title="HDBSCAN joins the two that touch", xticks=[], yticks=[])
plt.show()

# %%
# The uncertain samples are noise, or lie where the two lower clusters meet. HDBSCAN
# joins these two, and finds three clusters.

uncertain = certainty[: len(y)] < 0.8
print("uncertain samples of each cluster:", np.bincount(y[uncertain], minlength=4))
assert uncertain.sum() >= 5
assert set(y[uncertain]) == {0, 1}
assert found.max() + 1 == 3
assert forest.n_clusters_ == 4
