"""
==================================
Size-weighted cuts ignore outliers
==================================

In single linkage every distant outlier forms a cluster, so k - 1 outliers use all cuts.
The default rule weights the length of an edge by the sizes of the parts that it joins,
and the size of outliers is close to zero. The tree is the same; only the selected cuts
differ.
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
# The adjusted Rand index (ARI) is that of the samples of the moons. HDBSCAN labels
# outliers as noise (black); the forest assigns each to the cluster that its edge leads
# to.

clusterers = {
    "single linkage": SpanningForestClustering(2, cut_rule="longest"),
    "size-weighted cut": SpanningForestClustering(2),
    "HDBSCAN": HDBSCAN(min_cluster_size=20, copy=True),
}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.3), layout="constrained")
for ax, (name, clusterer) in zip(axes, clusterers.items(), strict=True):
    labels = clusterer.fit_predict(X)
    score = adjusted_rand_score(y[y >= 0], labels[y >= 0])
    ax.scatter(*X.T, c=[f"C{k}" if k >= 0 else "black" for k in labels], s=10)
    ax.set_title(f"{name}: ARI {score:.2f}")
    ax.set(xticks=[], yticks=[], aspect="equal")
    print(f"{name:25s} ARI {score:.3f}, sizes {np.bincount(labels[labels >= 0])}")
plt.show()

# %%
# Single linkage separates outliers and leaves the moons together; the size-weighted cut
# of the same tree separates the two moons.

for name, expected in {"single linkage": 0.0, "size-weighted cut": 1.0}.items():
    labels = clusterers[name].labels_
    assert adjusted_rand_score(y[y >= 0], labels[y >= 0]) == expected
