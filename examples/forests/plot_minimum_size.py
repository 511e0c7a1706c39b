"""
=============================
Outliers and the rule of cuts
=============================

One far point is a cluster of its own in single linkage, and k - 1 of them use up all
cuts. The default rule weighs the length of an edge by the sizes of the parts that it
joins, and outliers have hardly any size. The tree is the same; only the choice of cuts
differs.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering

rng = np.random.default_rng(0)
X, y = make_moons(300, noise=0.06, random_state=0)
outliers = rng.uniform([-2, -1.6], [3, 2.1], (20, 2))
X, y = np.concatenate([X, outliers]), np.concatenate([y, np.full(20, -1)])

# %%
# The agreement is measured on the points of the moons alone. HDBSCAN leaves outliers
# unlabelled (black); the forest gives each the label of the cluster that its edge
# leads to.

clusterers = {
    "single linkage": SpanningForestClustering(2, cut_rule="longest"),
    "size-weighted cut": SpanningForestClustering(2),
    "HDBSCAN": HDBSCAN(min_cluster_size=20, copy=True),
}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.3), layout="constrained")
for ax, (name, clusterer) in zip(axes, clusterers.items(), strict=True):
    labels = clusterer.fit_predict(X)
    score = adjusted_rand_score(y[y >= 0], labels[y >= 0])
    ax.scatter(*X.T, c=np.where(labels < 0, 10, labels), s=10, cmap="tab10", vmax=10)
    ax.scatter(*X[labels < 0].T, s=10, color="black")
    ax.set_title(f"{name}: ARI {score:.2f}")
    ax.set(xticks=[], yticks=[], aspect="equal")
    print(f"{name:25s} ARI {score:.3f}, sizes {np.bincount(labels[labels >= 0])}")
plt.show()

# %%
# Single linkage cuts off two outliers and leaves the moons together; weighted by sizes,
# cuts of the same tree give the two moons.

for name, expected in {"single linkage": 0.0, "size-weighted cut": 1.0}.items():
    labels = clusterers[name].labels_
    assert adjusted_rand_score(y[y >= 0], labels[y >= 0]) == expected
