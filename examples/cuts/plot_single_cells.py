"""
==========================================================
Types of cells, their marker genes, and cells that are new
==========================================================

Counts of transcripts in single cells are mostly zeros, and their sums differ between
cells for technical reasons. After the usual normalisation, the graph of nearest
neighbours has communities, the types of cells. ``GraphCutClustering`` finds them, and
how many there are; beside it is Louvain's algorithm, which with Leiden's is the usual
tool. The counts are generated, since none come with scikit-learn: negative binomial,
with five types, each with twenty marker genes among 500.
"""

import matplotlib.pyplot as plt
import networkx
import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.neighbors import kneighbors_graph

from skdiffclust import GraphCutClustering

rng = np.random.default_rng(0)
y = rng.permutation(np.repeat(range(5), [500, 350, 200, 100, 60]))
rates = np.tile(rng.lognormal(-1.0, 1.2, 500), (5, 1))
markers = rng.permutation(500)[:100].reshape(5, 20)
for kind, genes in enumerate(markers):
    rates[kind, genes] *= rng.lognormal(1.6, 0.4, 20)
means = rates[y] * rng.lognormal(0.0, 0.5, len(y))[:, None]
counts = rng.poisson(means * rng.gamma(3.0, 1 / 3, means.shape))
print(f"{np.mean(counts == 0):.0%} of the counts are zero")

# %%
# Every cell is scaled to a sum of 1000, and logarithms are taken. A fifth of the cells
# is new: it takes no part in the principal components and in the graph.

logarithms = np.log1p(1000 * counts / counts.sum(axis=1, keepdims=True))
n_known = 968
reducer = PCA(20, random_state=0).fit(logarithms[:n_known])
known, new = np.split(reducer.transform(logarithms), [n_known])

# %%
# Any graph can be given, for example ``adata.obsp["connectivities"]`` of scanpy; here
# that of fifteen neighbours. With the samples and their graph, ``predict`` is there.

graph = kneighbors_graph(known, 15)
graph = graph.maximum(graph.T)
cut = GraphCutClustering("auto", random_state=0).fit(known, precomputed=graph)
network = networkx.from_scipy_sparse_array(graph)
communities = networkx.community.louvain_communities(network, seed=0)
louvain = np.empty(n_known, dtype=int)
for label, cells in enumerate(communities):
    louvain[list(cells)] = label

scores = {
    "graph cut": adjusted_rand_score(y[:n_known], cut.labels_),
    "Louvain": adjusted_rand_score(y[:n_known], louvain),
    "graph cut, new cells": adjusted_rand_score(y[n_known:], cut.predict(new)),
}
print(f"clusters: {cut.n_clusters_} of the cut, {len(communities)} of Louvain")
print(", ".join(f"{name}: ARI {score:.2f}" for name, score in scores.items()))

# %%
# There is no resolution: ``n_clusters`` goes from coarse to fine. Coarse clusters are
# unions of the five types, fine ones are parts of them, and the curve has the score of
# each number, of which "auto" takes the largest.

for n_clusters in (2, 3, 5, 8):
    model = GraphCutClustering(n_clusters, random_state=0).fit(known, precomputed=graph)
    shared = contingency_matrix(y[:n_known], model.labels_)
    wholes = shared.max(axis=1).sum() / n_known
    parts = shared.max(axis=0).sum() / n_known
    print(
        f"{n_clusters} clusters of {np.bincount(model.labels_)} cells: {wholes:.0%} "
        f"are with most of their type, {parts:.0%} in a cluster mostly of it"
    )
print("scores of 2 to 8 clusters:", cut.n_clusters_curve_["score"][1:8].round(2))

# %%
# The genes that distinguish a cluster most: the largest difference of its mean and the
# largest mean of another cluster, in standard deviations.

labels, logarithms = cut.labels_, logarithms[:n_known]
means = np.array([logarithms[labels == c].mean(axis=0) for c in np.unique(labels)])
standard = (means - logarithms.mean(axis=0)) / (logarithms.std(axis=0) + 1e-9)
others = np.array(
    [np.delete(standard, c, axis=0).max(axis=0) for c in range(len(means))]
)
top = np.argsort(others - standard, axis=1)[:, :6]

fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
axes[0].scatter(*known[:, :2].T, c=[f"C{label}" for label in labels], s=6)
axes[0].scatter(*new[:, :2].T, c=[f"C{c}" for c in cut.predict(new)], s=18, marker="x")
axes[0].set(title="The five types of cells, and new cells (crosses)")
axes[0].set(xticks=[], yticks=[])
image = axes[1].imshow(standard[:, top.ravel()], cmap="PuOr_r", vmin=-2.5, vmax=2.5)
image.axes.set_aspect("auto")
axes[1].set(title="Genes that distinguish a cluster", xlabel="gene", xticks=[])
axes[1].set(ylabel="cluster", yticks=range(len(means)))
for tick, label in zip(axes[1].get_yticklabels(), range(len(means)), strict=True):
    tick.set_color(f"C{label}")
fig.colorbar(image, ax=axes[1], label="mean expression, standardised")
plt.show()

# %%
# Both the number of types and the types are found, those of new cells too, and the
# genes that distinguish the clusters are marker genes.

are_markers = np.isin(top, markers).mean()
print(f"{are_markers:.0%} of the genes of the picture are markers")
assert cut.n_clusters_ == 5
assert min(scores["graph cut"], scores["graph cut, new cells"]) > 0.95
assert are_markers > 0.9
