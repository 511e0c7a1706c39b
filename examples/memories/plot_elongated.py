"""
===========================================
One memory for each cluster, and its limits
===========================================

With one memory for each cluster and squared distances, ClAM divides elongated clusters,
as k-means does. (Figures 1 and 13 of Saha et al., ICML 2023, show that it may not: see
:ref:`clam-reproduction`.) Whitening, which amounts to a Mahalanobis
distance, helps for two clusters; a cut of the neighbours graph finds any shape.
Outliers are handled by the city-block distance (B.8 of the paper).
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.pipeline import make_pipeline

from skdiffclust import ClAM, GraphCutClustering


def strips(n_clusters, elongation):
    """Return samples of parallel strips, three units apart, and their strips."""
    rng = np.random.RandomState(0)
    y = np.repeat(range(n_clusters), 200)
    samples = rng.randn(len(y), 2) * [elongation, 0.5] + np.c_[0 * y, 3 * y]
    rotation = np.array([[0.8, 0.6], [-0.6, 0.8]])
    return samples @ rotation, y


def methods(k):
    """Return the models of the panels."""
    return {
        "k-means": KMeans(k, n_init=10, random_state=0),
        "ClAM": ClAM(k, random_state=0),
        "whitened ClAM": make_pipeline(PCA(whiten=True), ClAM(k, random_state=0)),
        "graph cut": GraphCutClustering(k, random_state=0),
    }


def cluster(model, X):
    """Return labels, and centres in the space of the samples, if there are any."""
    labels = model.fit_predict(X)
    if hasattr(model, "steps"):
        return labels, model[0].inverse_transform(model[-1].cluster_centers_)
    return labels, getattr(model, "cluster_centers_", np.empty((0, 2)))


# %%
# Whitening separates two strips, but not three, since the strips together are as wide
# as they are long. Squares are the memories, in the space of the samples. Colours are
# those of the strip that a cluster overlaps most.


def colours(y, labels):
    """Return a colour for each sample, that of the class that matches its cluster."""
    _, columns = linear_sum_assignment(contingency_matrix(y, labels), maximize=True)
    return [f"C{np.argmax(columns == label)}" for label in labels]


score = {}
fig, axes = plt.subplots(2, 4, figsize=(12, 5.4), layout="constrained")
for k, line in zip((2, 3), axes, strict=True):
    X, y = strips(k, 3.0)
    for (name, model), ax in zip(methods(k).items(), line, strict=True):
        labels, centers = cluster(model, X)
        ax.scatter(*X.T, c=colours(y, labels), s=8)
        ax.plot(*centers.T, "ks", markersize=4)
        score[name, k] = adjusted_rand_score(y, labels)
        # The sum makes a zero of minus zero.
        ax.set_title(f"{name}: ARI {round(score[name, k], 2) + 0.0:.2f}")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[], aspect="equal")
plt.show()

# %%
# The strips are three units apart and half a unit thick. With one memory for each, two
# of them are found up to a standard deviation of 1.5 along the strips. From 2 on,
# whitening or another method is needed.

assert min(score["graph cut", k] for k in (2, 3)) > 0.9
assert max(score["k-means", 3], score["ClAM", 3], score["whitened ClAM", 3]) < 0.9

lengths = [1.0, 1.5, 2.0, 2.5, 3.0]
found = {name: [] for name in methods(2)}
for length in lengths:
    X, y = strips(2, length)
    for name, model in methods(2).items():
        found[name].append(adjusted_rand_score(y, cluster(model, X)[0]))
fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
for (name, scores), mark in zip(found.items(), "osv^", strict=True):
    ax.plot(lengths, scores, marker=mark, label=name)
for name, scores in found.items():
    assert min(scores[:2]) > 0.9
    assert (min(scores[2:]) > 0.9) == (name in ("whitened ClAM", "graph cut"))
ax.set(xlabel="standard deviation along the strips", ylabel="ARI")
ax.set_title("One memory finds short strips only")
ax.legend()
plt.show()

# %%
# Under squared distances, five outliers form one of two clusters. With city-block
# distances the memories are medians, which are robust to outliers.

inliers, y = make_blobs(200, centers=[[0, 0], [5, 0]], random_state=0)
outliers = np.random.RandomState(0).uniform([15, 10], [25, 20], (5, 2))
noisy = np.vstack([inliers, outliers])
models = {
    "k-means": KMeans(2, n_init=10, random_state=0),
    "ClAM": ClAM(2, random_state=0),
    "ClAM, manhattan": ClAM(
        2,
        metric="manhattan",
        init="random",
        max_iter=200,
        learning_rate=0.05,
        random_state=0,
    ),
}
of_outliers = {}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
for (name, model), ax in zip(models.items(), axes, strict=True):
    labels = model.fit_predict(noisy)
    # The sum makes a zero of minus zero.
    ari = round(adjusted_rand_score(y, labels[: len(y)]), 2) + 0.0
    ax.scatter(*noisy.T, c=[f"C{label}" for label in labels], s=8)
    ax.plot(*model.cluster_centers_.T, "ks", markersize=6)
    ax.set_title(f"{name}: ARI {ari:.2f}")
    of_outliers[name] = ari
plt.show()

# %%
# The outliers form a cluster of their own, except with medians.

assert max(of_outliers["k-means"], of_outliers["ClAM"]) < 0.1
assert of_outliers["ClAM, manhattan"] > 0.9
