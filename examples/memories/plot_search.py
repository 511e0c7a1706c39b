"""
=======================================
How many memories? Search in a pipeline
=======================================

Clustering has no classes to score against, but a scorer that predicts the labels of
the held-out rows and takes their silhouette can choose the number of clusters in a
cross-validated search.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdiffclust import ClAM
from skdiffclust.metrics import silhouette_scorer

centers = [[0, 0], [5, 1], [1, 6], [6, 6], [10, 3]]
X, y = make_blobs(400, centers=centers, random_state=1)
X = X * [1.0, 30.0]  # two units of measurement

search = GridSearchCV(
    make_pipeline(StandardScaler(), ClAM(random_state=0)),
    {"clam__n_clusters": range(2, 9)},
    scoring=silhouette_scorer,
    cv=3,
).fit(X)
print(search.best_params_)

# %%
# Left: the score of every candidate. Right: rows, with the entropy of their attraction
# (eq. 13 of Saha et al., ICML 2023), which is large between two memories.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
tried = search.cv_results_["param_clam__n_clusters"].data.astype(int)
axes[0].plot(tried, search.cv_results_["mean_test_score"], "o-")
axes[0].set(xlabel="n_clusters", ylabel="silhouette of held-out rows")

scaler, clam = search.best_estimator_
entropy = clam.entropy(scaler.transform(X))
points = axes[1].scatter(*X.T, c=entropy, s=12, cmap="viridis")
axes[1].plot(*scaler.inverse_transform(clam.cluster_centers_).T, "r*", markersize=10)
fig.colorbar(points, label="entropy of attraction")
plt.show()

print("rows between clusters:", int(np.sum(entropy > 0.05)), "of", len(X))
