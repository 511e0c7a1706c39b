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
from matplotlib.collections import LineCollection
from sklearn.datasets import make_moons

from skdiffclust import SpanningForestClustering
from skdiffclust.forests import minimum_spanning_tree

X, _ = make_moons(120, noise=0.08, random_state=3)

# %%
# The edges of the minimum spanning tree come longest first, so the forest with k
# trees is the tree without its first k - 1 edges.

tree = minimum_spanning_tree(X)
clusterer = SpanningForestClustering(n_clusters=1, min_cluster_size=1).fit(X)

fig, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
for ax, n_clusters in zip(axes, (80, 25, 5, 2), strict=True):
    labels = clusterer.cut(n_clusters)
    left, kept = tree.edges[: n_clusters - 1], tree.edges[n_clusters - 1 :]
    sizes = np.bincount(labels)
    colours = np.where(sizes[labels] > 1, labels % 10, 10)
    ax.add_collection(LineCollection(X[kept], colors="0.35", linewidths=1))
    if n_clusters <= 5:
        ax.add_collection(
            LineCollection(X[left], colors="tab:red", linewidths=1, linestyles="--")
        )
    ax.scatter(*X.T, c=colours, s=14, cmap="tab20", zorder=2)
    ax.set_title(f"{len(kept)} edges, k = {n_clusters}")
    ax.set(xticks=[], yticks=[], aspect="equal")

plt.show()

# %%
# With two trees left, they are the two moons; the dashed edge is the one left out.
