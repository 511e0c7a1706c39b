"""
=======================================
UMAP, then a forest: how many clusters?
=======================================

Images, texts and cells are often embedded by UMAP first and clustered then. The
embedding pulls clusters apart, but leaves them of any shape and density. HDBSCAN needs
a smallest size of a cluster for them, and a mixture the number of clusters. The
spanning forest needs neither: ``n_clusters="auto"`` finds the number in the tree.

The pictures need the package umap-learn (``pip install umap-learn``). Where it is
missing, t-SNE takes its place; the title says so, and the numbers differ.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold import TSNE
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from skdiffclust import SpanningForestClustering

try:
    from umap import UMAP
except ImportError:
    UMAP = None

X, y = load_digits(return_X_y=True)


def embed(n_components):
    """Return an embedding for clustering: no minimal distance between samples."""
    if UMAP is None:
        reducer = TSNE(max_iter=500, random_state=0)
    else:
        reducer = UMAP(n_components=n_components, min_dist=0.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of UMAP and a dependency of it
        return reducer.fit_transform(X).astype(float)


# %%
# Ten components for the clusters, and two for the pictures. Nobody tells the forest and
# HDBSCAN how many digits there are. The mixture has to be told. A warning names a
# second number where the forest is in doubt.

embedding = embed(10)
plane = embedding if UMAP is None else embed(2)
forest = SpanningForestClustering("auto")
with warnings.catch_warnings(record=True) as doubts:
    warnings.simplefilter("always", ConvergenceWarning)
    forest.fit(embedding)
for doubt in doubts:
    print(doubt.message)

labels = {
    "classes": y,
    "forest, auto": forest.labels_,
    "forest, 10": forest.cut(10),
    "mixture, 10": GaussianMixture(10, random_state=0).fit_predict(embedding),
    "HDBSCAN, 5": HDBSCAN(min_cluster_size=5, copy=True).fit_predict(embedding),
    "HDBSCAN, 15": HDBSCAN(min_cluster_size=15, copy=True).fit_predict(embedding),
}
index = {name: adjusted_rand_score(y, found) for name, found in labels.items()}
for name, found in labels.items():
    noise = np.mean(found == -1)
    print(
        f"{name:14s}{len(np.unique(found[found >= 0])):3d} clusters, "
        f"{noise:4.0%} noise, adjusted Rand index {index[name]:.2f}"
    )

# %%
# The numbers after the names are the true number of clusters, or HDBSCAN's smallest
# size of a cluster, which decides what it finds. Noise is grey.

fig, axes = plt.subplots(2, 3, figsize=(10, 6.6), layout="constrained")
for ax, (name, found) in zip(axes.flat, labels.items(), strict=True):
    for label in np.unique(found):
        colour = "0.7" if label < 0 else plt.colormaps["tab20"](label % 20)
        ax.scatter(*plane[found == label].T, s=3, color=colour)
    title = name if name == "classes" else f"{name}: ARI {index[name]:.2f}"
    ax.set(title=title, xticks=[], yticks=[])
fig.suptitle(
    "Digits after t-SNE (no umap-learn)" if UMAP is None else "Digits after UMAP"
)
plt.show()

# %%
# UMAP divides some digits, ones and nines for example, into several islands, and "auto"
# counts the islands. Where the number of classes is known, pass it, or cut again.

assert index["forest, auto"] > (0.65 if UMAP is None else 0.75)
