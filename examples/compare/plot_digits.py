"""
========================================
The spanning forest finds the ten digits
========================================

The 1797 handwritten digits of scikit-learn are projected onto the principal components
that keep 95 % of their variance and grouped into ten clusters, in a pipeline. With the
rule of single linkage all cuts separate outliers; the default, the size-weighted cuts
of the same tree, finds the digits.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.pipeline import make_pipeline

from skdiffclust import SpanningForestClustering
from skdiffclust.metrics import clustering_accuracy

X, y = load_digits(return_X_y=True)
clusterers = {
    "spanning forest": SpanningForestClustering(10),
    "plain single linkage": SpanningForestClustering(10, cut_rule="longest"),
    "k-means": KMeans(10, n_init=10, random_state=0),
    "Ward": AgglomerativeClustering(10),
    "HDBSCAN": HDBSCAN(copy=True),
}

# %%
# The scores compare the labels with the true digits, which no method has seen. HDBSCAN
# chooses the number of clusters itself.

print(f"{'method':22s} clusters     ARI     AMI  accuracy")
labels = {}
for name, clusterer in clusterers.items():
    labels[name] = make_pipeline(PCA(0.95), clusterer).fit_predict(X)
    scores = [
        score(y, labels[name])
        for score in (
            adjusted_rand_score,
            adjusted_mutual_info_score,
            clustering_accuracy,
        )
    ]
    n_clusters = len(np.unique(labels[name][labels[name] >= 0]))
    print(f"{name:22s} {n_clusters:8d} " + " ".join(f"{s:7.3f}" for s in scores))

# %%
# The mean image of each cluster, largest cluster first.

found = labels["spanning forest"]
fig, axes = plt.subplots(2, 5, figsize=(7, 3.4), layout="constrained")
for cluster, ax in enumerate(axes.flat):
    ax.imshow(X[found == cluster].mean(axis=0).reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{np.sum(found == cluster)} samples", fontsize=9)
    ax.axis("off")
fig.suptitle("Ten clusters of the spanning forest")

if "sphinx_gallery" not in sys.modules:
    picture = Path("digits.png")
    fig.savefig(picture, dpi=120)
    print(f"The picture is in {picture.resolve()}.")

# %%
# Each digit has a cluster of its own, and the forest agrees with the true digits better
# than the four other methods do.

of_cluster = contingency_matrix(y, found).argmax(axis=0)
assert sorted(of_cluster) == list(range(10))
ari = {name: adjusted_rand_score(y, labels[name]) for name in labels}
assert max(ari, key=ari.get) == "spanning forest"
