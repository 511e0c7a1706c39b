"""
=========================================================
Five cell types and their marker genes from sparse counts
=========================================================

Counts of transcripts in single cells are mostly zeros, and their sums differ between
cells for technical reasons. After the usual normalisation, ``GraphCutClustering`` finds
the types of cells, and how many there are, from the graph of nearest neighbours. The
counts are generated: negative binomial, with five types of 60 to 500 cells, each with
twenty marker genes among 500.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GraphCutClustering

rng = np.random.default_rng(0)
sizes = [500, 350, 200, 100, 60]
y = np.repeat(range(5), sizes)
rates = np.tile(rng.lognormal(-1.0, 1.2, 500), (5, 1))
markers = rng.permutation(500)[:100].reshape(5, 20)
for kind, genes in enumerate(markers):
    rates[kind, genes] *= rng.lognormal(1.6, 0.4, 20)
means = rates[y] * rng.lognormal(0.0, 0.5, len(y))[:, None]
counts = rng.poisson(means * rng.gamma(3.0, 1 / 3, means.shape))
print(f"{np.mean(counts == 0):.0%} of the counts are zero")

# %%
# Every cell is scaled to the median of the sums, and logarithms are taken. The graph is
# that of neighbours in the space of 20 principal components.

totals = counts.sum(axis=1, keepdims=True)
logarithms = np.log1p(counts / totals * np.median(totals))
scores = {}
for name, table in {"counts": counts, "normalised": logarithms}.items():
    components = PCA(20, random_state=0).fit_transform(table)
    n_clusters = 5 if name == "counts" else "auto"
    labels = GraphCutClustering(n_clusters, random_state=0).fit_predict(components)
    scores[name] = adjusted_rand_score(y, labels)
    print(f"{name}: {labels.max() + 1} clusters, ARI {scores[name]:.2f}")

# %%
# The genes that distinguish a cluster most: the largest difference of its mean and the
# largest mean of another cluster, in standard deviations.

means = np.array([logarithms[labels == c].mean(axis=0) for c in np.unique(labels)])
standard = (means - logarithms.mean(axis=0)) / (logarithms.std(axis=0) + 1e-9)
others = np.array(
    [np.delete(standard, c, axis=0).max(axis=0) for c in range(len(means))]
)
top = np.argsort(others - standard, axis=1)[:, :6]

plane = PCA(2, random_state=0).fit_transform(logarithms)
fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
axes[0].scatter(*plane.T, c=[f"C{label}" for label in labels], s=6)
axes[0].set(title="The clusters are the five types of cells")
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
# Both the number of types and the types are found, and the genes that distinguish the
# clusters are marker genes. Without the normalisation, clusters mix types even with the
# true number of clusters, since cells with similar sums of counts are neighbours.

are_markers = np.isin(top, markers).mean()
print(f"{are_markers:.0%} of the genes of the picture are markers")
assert labels.max() + 1 == 5
assert scores["normalised"] > 0.95
assert scores["counts"] < 0.8
assert are_markers > 0.9
