"""
==============
A forest grows
==============

A spanning forest of 120 points, one edge after the other: the most similar pair first,
no cycles. After n - k edges there are k trees, and they are the clusters. The last
edges are long: they cross what is empty, and leaving them out is single linkage.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from skdiffclust import SpanningForestClustering
from skdiffclust.plotting import SpanningForestDisplay

X, _ = make_moons(120, noise=0.08, random_state=3)

# %%
# The edges of the spanning tree come longest first, so the forest with k trees is the
# tree without its first k - 1 edges. Rows that are still alone are grey.

clusterer = SpanningForestClustering(n_clusters=1, min_cluster_size=1).fit(X)
rank = np.arange(len(X) - 1)

fig, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
for ax, n_clusters in zip(axes, (80, 25, 5, 2), strict=True):
    labels = clusterer.cut(n_clusters)
    is_alone = np.bincount(labels)[labels] == 1
    SpanningForestDisplay(
        X, clusterer.edges_, rank < n_clusters - 1, np.where(is_alone, -1, labels)
    ).plot(ax, cut_kw={"visible": n_clusters <= 5})
    ax.set_title(f"{len(X) - n_clusters} edges, k = {n_clusters}")

plt.show()

# %%
# With two trees left, they are the two moons; the dashed edge is the one left out.
