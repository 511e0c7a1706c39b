"""
===============================================
Beside k-means: elongated clusters and outliers
===============================================

Memories with squared distances see what centres see. Where k-means fails, they fail
with it, and the remedy is another geometry: a linear map for clusters that are long,
the city-block distance for far rows (Figures 1 and 13 and B.8 of Saha et al., 2023,
where ClAM finds both without a remedy; here it does not).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

from skdiffclust import ClAM

rng = np.random.RandomState(0)
rows, y = make_blobs(200, centers=[[0, 0], [0, 5]], random_state=0)
turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
elongated = rows * [8, 1] @ turn
outliers = rng.uniform([10, 15], [20, 25], (5, 2))
noisy = np.vstack([rows, outliers])

# %%
# Whitening makes all directions equally wide, which is a Mahalanobis distance.
# City-block distances make the memories medians.

k_means = KMeans(2, n_init=10, random_state=0)
plain = ClAM(2, random_state=0)
problems = {
    "elongated": (elongated, PCA(whiten=True), plain, "whitened ClAM"),
    "outliers": (
        noisy,
        "passthrough",
        ClAM(2, metric="manhattan", init="random", random_state=0),
        "ClAM, manhattan",
    ),
}
fig, axes = plt.subplots(2, 3, figsize=(10, 5.6), layout="constrained")
for line, (problem, (X, first, remedy, name)) in zip(
    axes, problems.items(), strict=True
):
    models = {"k-means": k_means, "ClAM": plain, name: make_pipeline(first, remedy)}
    line[0].set_ylabel(problem, fontsize=12)
    for (title, model), ax in zip(models.items(), line, strict=True):
        labels = model.fit(X).predict(X)
        ari = round(adjusted_rand_score(y, labels[: len(y)]), 2) + 0.0
        print(f"{problem:10s} {title:16s} ARI {ari:.2f}")
        ax.scatter(*X.T, color=plt.get_cmap("tab10")(labels), s=8)
        ax.set(title=f"{title}: ARI {ari:.2f}", xticks=[], yticks=[])
plt.show()

# %%
# k-means and ClAM cut the long clusters across, and give the five far rows a cluster of
# their own; after the remedy, ClAM has nearly all rows right.
