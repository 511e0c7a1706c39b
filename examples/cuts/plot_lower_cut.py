"""
==================================================
A search finds lower cuts than spectral clustering
==================================================

Spectral clustering minimises a relaxation of the ratio-cut of a graph of neighbours.
``GraphCutClustering`` minimises the cut itself: by moving samples from the labels of
spectral clustering, or by a search without eigenvectors. The encoder of ``PRCut``
predicts new digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skdiffclust import GraphCutClustering, PRCut
from skdiffclust.cuts import ratio_cut
from skdiffclust.metrics import clustering_accuracy

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.2, random_state=0)

# %%
# All methods use the same graph, in which each digit is joined to its twenty nearest
# neighbours, with weights that decrease with their rank. Empty clusters would decrease
# the cut, so the smallest size is printed.

ratio = {"n_clusters": 10, "cut": "ratio", "random_state": 0}
free = GraphCutClustering(**ratio, min_cluster_size=1, init="spectral").fit(X)
graph = free.affinity_matrix_
spectral = SpectralClustering(10, affinity="precomputed", random_state=0).fit(graph)
searched = GraphCutClustering(**ratio, min_cluster_size=1).fit(X, graph=graph)
encoder = PRCut(**ratio, hidden_layer_sizes=(64,), init=searched.labels_)
encoder.fit(X, graph=graph)

models = {
    "spectral clustering": spectral,
    "graph cut, spectral start": free,
    "graph cut, search": searched,
    "PRCut, perceptron": encoder,
}
print(f"{'':26s} ratio-cut  clusters  smallest  accuracy")
for name, model in models.items():
    cut = ratio_cut(graph, model.labels_)
    accuracy = clustering_accuracy(y, model.labels_)
    print(
        f"{name:26s} {cut.value:9.3f} {cut.n_clusters:9d} {cut.smallest_size:9d}"
        f" {accuracy:9.3f}"
    )
print(f"new digits: accuracy {clustering_accuracy(y_new, encoder.predict(X_new)):.3f}")

# %%
# The contribution of a cluster to the ratio-cut is the weight of the edges that leave
# it, divided by its size.

fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for name, model in list(models.items())[:3]:
    labels = model.labels_
    shares = []
    for cluster in range(10):
        inside = labels == cluster
        shares.append(graph[inside][:, ~inside].sum() / inside.sum())
    ax.plot(np.sort(shares)[::-1], "o-", label=name)
ax.set(
    xlabel="clusters in the order of their contribution",
    ylabel="contribution to the ratio-cut",
    title="Graph cuts lower the largest contributions",
    xticks=range(10),
)
ax.legend()
plt.show()

# %%
# Moving single digits decreases the cut of spectral clustering, and the search, which
# computes no eigenvectors, finds a cut that is at least as low.

cuts = {name: ratio_cut(graph, model.labels_).value for name, model in models.items()}
assert cuts["graph cut, search"] <= cuts["graph cut, spectral start"]
assert cuts["graph cut, spectral start"] < cuts["spectral clustering"]
