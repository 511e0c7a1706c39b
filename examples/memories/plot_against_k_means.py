"""
========================================
Outliers: city blocks instead of squares
========================================

Five far rows are enough to win one of two centres under squared distances. With the
city-block distance the memories are medians and stay (B.8 of Saha et al., ICML 2023,
where ClAM with squares is said to stay too; here it does not).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from skdiffclust import ClAM

rng = np.random.RandomState(0)
X, y = make_blobs(200, centers=[[0, 0], [5, 0]], random_state=0)
outliers = rng.uniform([15, 10], [25, 20], (5, 2))
noisy = np.vstack([X, outliers])
models = {
    "k-means": KMeans(2, n_init=10, random_state=0),
    "ClAM": ClAM(2, random_state=0),
    "ClAM, manhattan": ClAM(2, metric="manhattan", init="random", random_state=0),
}

fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
for (name, model), ax in zip(models.items(), axes, strict=True):
    model.fit(noisy)
    agreement = adjusted_rand_score(y, model.labels_[: len(X)])
    print(f"{name:16s} ARI of the inliers {agreement:.3f}")
    ax.scatter(*noisy.T, c=model.labels_, s=10, cmap="coolwarm")
    ax.plot(*model.cluster_centers_.T, "k*", markersize=11)
    ax.set_title(f"{name}: ARI {agreement:.2f}")
plt.show()
