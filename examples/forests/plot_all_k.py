"""
==========================================
Every number of clusters from a single fit
==========================================

The tree is grown once; ``cut`` gives the labels of any number of clusters from it, and
so do curves over all of them. Here the number of clusters is read off the ratio of
successive cut lengths, beside the dendrogram of scipy and the Calinski-Harabasz index.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import dendrogram
from sklearn.datasets import make_blobs

from skdiffclust import SpanningForestClustering
from skdiffclust.forests import calinski_harabasz_curve

centers = [[0, 0], [5, 0], [2.5, 4], [9, 4]]
X, y = make_blobs(200, centers=centers, cluster_std=0.55, random_state=1)
clusterer = SpanningForestClustering(n_clusters=None).fit(X)
print(f"clusters by the widest gap: {clusterer.n_clusters_}")

# %%
# All four panels come from that fit.

fig, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
dendrogram(
    clusterer.linkage_,
    ax=axes[0, 0],
    no_labels=True,
    color_threshold=clusterer.cut_distance_,
    above_threshold_color="0.6",
)
axes[0, 0].set_title("dendrogram, cut where labels_ are")

lengths = clusterer.edge_lengths_
axes[0, 1].plot(np.arange(2, 12), lengths[:10] / lengths[1:11], "o-")
axes[0, 1].axvline(4, color="0.8", zorder=0)
axes[0, 1].set(title="ratio of successive cut lengths", xlabel="k")

curve = calinski_harabasz_curve(X, clusterer.linkage_)
axes[1, 0].plot(np.arange(2, 12), curve[2:12], "o-")
axes[1, 0].axvline(4, color="0.8", zorder=0)
axes[1, 0].set(title="Calinski-Harabasz index of the plain cuts", xlabel="k")

axes[1, 1].scatter(*X.T, c=clusterer.labels_, s=12, cmap="tab10")
axes[1, 1].set(title="labels_", xticks=[], yticks=[], aspect="equal")
plt.show()

# %%
# Both curves have their maximum at the four groups that the points were drawn from.
