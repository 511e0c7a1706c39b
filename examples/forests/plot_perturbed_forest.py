"""
=================================================
Noise spreads the forest over more and more edges
=================================================

With noise on the affinity, the maximum spanning forest becomes a random forest. The
probability that an edge is in the forest measures its certainty. It is also the
gradient of the expected weight, a smooth function by which encoders can be trained.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from sklearn.datasets import make_blobs

from skdiffclust.forests import perturbed_forest

X, _ = make_blobs(40, centers=3, cluster_std=1.3, random_state=1)
affinity = -((X[:, None] - X[None]) ** 2).sum(axis=2)
affinity = (affinity - affinity.mean()) / affinity.std()

# %%
# Without noise this is the forest of three trees. With increasing noise, other edges of
# similar weight are selected, too. The expected number of edges is always 37.

n_edges = []
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for noise_scale, ax in zip([0.0, 0.05, 0.3], axes, strict=True):
    result = perturbed_forest(
        affinity, 3, noise_scale=noise_scale, n_perturbations=1000, random_state=0
    )
    i, j = np.nonzero(np.triu(result.forest))
    n_edges.append(len(i))
    assert np.isclose(result.forest.sum() / 2, 37)
    lines = LineCollection(
        np.stack([X[i], X[j]], axis=1), color="C0", alpha=result.forest[i, j]
    )
    ax.add_collection(lines)
    ax.scatter(*X.T, s=14, color="black", zorder=2)
    ax.set_title(f"noise scale {noise_scale}: {len(i)} possible edges")
    ax.set(xticks=[], yticks=[])
    print(
        f"{noise_scale}: F = {result.weight:.2f}, edges {result.forest.sum() / 2:.0f}"
    )

plt.show()

# %%
# Noise distributes the 37 edges over more and more pairs of samples.

assert n_edges[0] == 37 < n_edges[1] < n_edges[2]
