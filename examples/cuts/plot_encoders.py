"""
===============================================
A perceptron reaches the cut that a line cannot
===============================================

``GraphCutClustering`` finds labels for the samples of one graph, and a new sample gets
the label for which the cut of all samples is lowest. The encoder of ``PRCut`` predicts
the label from the features. The decision boundary of a linear encoder is a line, so its
cut is higher; here, a multilayer perceptron reaches the cut of the search.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.datasets import make_moons

from skdiffclust import GraphCutClustering, PRCut

X, _ = make_moons(300, noise=0.06, random_state=0)
grid_x, grid_y = np.meshgrid(np.linspace(-1.5, 2.5, 120), np.linspace(-1.1, 1.6, 90))
grid = np.column_stack([grid_x.ravel(), grid_y.ravel()])

# %%
# The background shows the cluster that is predicted for each place.

colors = ListedColormap(["C0", "C1"])
fig, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
cuts = {}
for ax, encoder in zip(axes, (None, "linear", "mlp"), strict=True):
    model = GraphCutClustering(2, random_state=0)
    if encoder is not None:
        model = PRCut(2, encoder=encoder, random_state=0)
    model.fit(X)
    shade = model.predict(grid).reshape(grid_x.shape)
    ax.contourf(grid_x, grid_y, shade, levels=1, cmap=colors, alpha=0.25)
    ax.scatter(*X.T, c=model.labels_, cmap=colors, s=8)
    cuts[encoder] = model.normalized_cut_
    ax.set_title(f"encoder={encoder!r}: normalised cut {model.normalized_cut_:.4f}")
fig.suptitle("A linear boundary cuts the moons, a perceptron does not")
plt.show()

# %%
# All three predict new samples. The cut of the linear encoder is more than
# six times that of the search, which the perceptron reaches.

assert cuts["linear"] > 6 * cuts[None]
assert np.isclose(cuts["mlp"], cuts[None])
