"""
======================================
Basins of attraction, from cold to hot
======================================

A row belongs to the memory that it falls to. With a high inverse temperature β the
basins of attraction are the Voronoi cells of the memories; with a low one all memories
pull together, and basins vanish (Figures 4, 11 and 12 of Saha et al., ICML 2023).
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import Voronoi, voronoi_plot_2d
from sklearn.inspection import DecisionBoundaryDisplay

from skdiffclust import ClAM

memories = np.array([[0.0, 0.0], [1.0, 0.15], [1.7, 1.0], [0.3, 1.1], [1.0, 1.9]])
rows = np.random.RandomState(0).uniform(-0.6, 2.4, (400, 2))

# %%
# The memories are given, and training for one epoch with a vanishing learning rate
# leaves them where they are, so that only β differs between the panels.

fig, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
for beta, ax in zip([1.2, 2.0, 5.0, 100.0], axes, strict=True):
    clam = ClAM(
        5, inverse_temperature=beta, n_steps=10, init=memories, max_iter=1,
        learning_rate=1e-9, warm_start=True, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # basins vanish here on purpose
        clam.fit(rows)
    DecisionBoundaryDisplay.from_estimator(
        clam, rows, response_method="predict", multiclass_colors="Pastel1", ax=ax,
        plot_method="pcolormesh", grid_resolution=200,
    )  # fmt: skip
    voronoi_plot_2d(Voronoi(memories), ax=ax, show_points=False, show_vertices=False)
    ax.plot(*memories.T, "k.", markersize=8)
    ax.set(title=f"β = {beta:g}: {clam.n_clusters_} basins", xticks=[], yticks=[])
    ax.set(xlim=(-0.6, 2.4), ylim=(-0.6, 2.4))
plt.show()

# %%
# At β = 100 the basins are the Voronoi cells, drawn as lines. In between, a memory may
# win rows that are nearer to another one, because its neighbours pull in the same
# direction.
