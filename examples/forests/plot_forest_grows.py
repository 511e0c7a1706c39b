"""
==========================================
One tree contains the clusters for every k
==========================================

A spanning forest of 120 samples is built by adding edges in the order of their length,
without cycles. After n - k edges there are k trees, which are the clusters. The last
edges are long and cross empty regions; omitting them is single linkage. The order of
the edges determines the clusters for every k, so one fit is enough.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import dendrogram
from sklearn.datasets import make_moons
from sklearn.metrics import calinski_harabasz_score

from skdiffclust import SpanningForestClustering
from skdiffclust.plotting import SpanningForestDisplay

X, _ = make_moons(120, noise=0.08, random_state=3)

# %%
# The edges of the spanning tree are sorted by decreasing length, so the forest with k
# trees is the tree without its first k - 1 edges. Single samples are grey.

clusterer = SpanningForestClustering(n_clusters=1, cut_rule="longest").fit(X)
rank = np.arange(len(X) - 1)

fig, axes = plt.subplots(2, 2, figsize=(7, 4.5), layout="constrained")
for ax, n_clusters in zip(axes.flat, (80, 25, 5, 2), strict=True):
    labels = clusterer.cut(n_clusters)
    is_alone = np.bincount(labels)[labels] == 1
    SpanningForestDisplay(
        X, clusterer.edges_, rank < n_clusters - 1, np.where(is_alone, -1, labels)
    ).plot(ax, cut_kw={"visible": n_clusters <= 5})
    ax.set_title(f"{len(X) - n_clusters} edges, k = {n_clusters}")
plt.show()

# %%
# The two last trees are the two moons; the dashed edge is omitted.
# ``n_clusters="auto"`` finds two as well, where the scores of the cuts fall the most.
# It warns: samples along lines often have a gap as large as that between the moons.
# The dendrogram is that of scipy.

clusterer.set_params(n_clusters="auto", cut_rule="size_weighted").fit(X)
found = clusterer.n_clusters_
print(f"number of clusters found: {found}")

fig, axes = plt.subplots(1, 3, figsize=(12, 3.2), layout="constrained")
dendrogram(
    clusterer.linkage_,
    ax=axes[0],
    no_labels=True,
    color_threshold=clusterer.cut_distance_,
    above_threshold_color="0.6",
)
axes[0].set_title("The longest gap separates two clusters")

numbers = np.arange(2, 11)
scores = clusterer.n_clusters_curve_["score"]
axes[1].plot(numbers, scores[numbers - 2] / scores[numbers - 1], "o-")
axes[1].set(
    title="Ratios of cut scores select two", xlabel="number of clusters", xticks=numbers
)
clusterer.set_params(n_clusters=1, cut_rule="longest").fit(X)
index = [calinski_harabasz_score(X, clusterer.cut(k)) for k in numbers]
axes[2].plot(numbers, index, "o-")
axes[2].set(
    title="Calinski-Harabasz selects six", xlabel="number of clusters", xticks=numbers
)
plt.show()

# %%
# The edge between the moons is long and divides the samples in half, so the ratio has
# its maximum at two clusters. The Calinski-Harabasz index, which favours round
# clusters, selects six.

ratios = scores[numbers - 2] / scores[numbers - 1]
assert numbers[np.argmax(ratios)] == 2
assert ratios.max() > 2
assert found == 2
assert numbers[np.argmax(index)] == 6
