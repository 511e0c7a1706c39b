"""
====================
A forest under noise
====================

Noise on the similarity turns the one maximum spanning forest into a distribution of
forests. How often an edge is in them says how certain it is, and is the gradient of the
mean weight: the smooth function that one can learn through.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from sklearn.datasets import make_blobs

from skdiffclust.forests import perturbed_forest

X, _ = make_blobs(40, centers=3, cluster_std=1.3, random_state=1)
similarity = -((X[:, None] - X[None]) ** 2).sum(axis=2)
similarity = (similarity - similarity.mean()) / similarity.std()

# %%
# Without noise this is the forest of three trees. With more and more of it, edges that
# are nearly as good take their turn, and the number of edges stays 37 on average.

n_edges = []
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for noise_scale, ax in zip([0.0, 0.05, 0.3], axes, strict=True):
    result = perturbed_forest(
        similarity, 3, noise_scale=noise_scale, n_perturbations=1000, random_state=0
    )
    i, j = np.nonzero(np.triu(result.forest))
    n_edges.append(len(i))
    assert np.isclose(result.forest.sum() / 2, 37)
    lines = LineCollection(
        np.stack([X[i], X[j]], axis=1), color="tab:blue", alpha=result.forest[i, j]
    )
    ax.add_collection(lines)
    ax.scatter(*X.T, s=14, color="black", zorder=2)
    ax.set_title(f"noise scale {noise_scale}: {len(i)} edges seen")
    ax.set(xticks=[], yticks=[])
    print(
        f"{noise_scale}: F = {result.weight:.2f}, edges {result.forest.sum() / 2:.0f}"
    )

if "sphinx_gallery" not in sys.modules:
    picture = Path("perturbed_forest.png")
    fig.savefig(picture, dpi=120)
    print(f"The picture is in {picture.resolve()}.")

# %%
# Noise spreads the same 37 edges over ever more pairs: first inside the clusters, then
# between the two that are near.

assert n_edges[0] == 37 < n_edges[1] < n_edges[2]
