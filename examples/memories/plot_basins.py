"""
==========================================
Basins of attraction, and ways into memory
==========================================

A row belongs to the memory that it converges to. With a high inverse temperature β the
basins of attraction are the Voronoi cells of the memories; with a low one all memories
pull together, and basins vanish (Figures 4, 11 and 12 of Saha et al., ICML 2023). The
lines are recall trajectories: the way of a row, step by step, to where it falls.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import Voronoi, voronoi_plot_2d
from scipy.spatial.distance import cdist
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.metrics import adjusted_rand_score

from skdiffclust import ClAM
from skdiffclust.memories import attraction_step, recall

memories = np.array([[0.0, 0.0], [1.0, 0.15], [1.7, 1.0], [0.3, 1.1], [1.0, 1.9]])
rows = np.random.RandomState(0).uniform(-0.6, 2.4, (400, 2))

# %%
# The memories are given, and training for one epoch with a vanishing learning rate
# leaves them where they are, so that only β differs between the panels.

agreement, ends = {}, {}
fig, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
for beta, ax in zip([1.2, 2.0, 5.0, 100.0], axes, strict=True):
    clam = ClAM(
        5,
        inverse_temperature=beta,
        n_steps=10,
        init=memories,
        max_iter=1,
        learning_rate=1e-9,
        warm_start=True,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # basins vanish here on purpose
        clam.fit(rows)
    DecisionBoundaryDisplay.from_estimator(
        clam,
        rows,
        response_method="predict",
        multiclass_colors="Pastel1",
        ax=ax,
        plot_method="pcolormesh",
        grid_resolution=200,
    )
    voronoi_plot_2d(
        Voronoi(memories),
        ax=ax,
        show_points=False,
        show_vertices=False,
        line_colors="0.5",
        line_width=0.8,
    )
    nearest = cdist(rows, memories).argmin(axis=1)
    agreement[beta] = adjusted_rand_score(nearest, clam.predict(rows))
    ends[beta] = recall(rows, memories, beta, n_steps=1000, step_size=0.3)
    way = [rows[:12]]
    for _ in range(30):
        way.append(attraction_step(way[-1], memories, beta, step_size=0.3))
    for trajectory in np.swapaxes(way, 0, 1):
        ax.plot(*trajectory.T, color="tab:blue", lw=1)
        ax.plot(*trajectory[0], "o", color="tab:blue", markersize=3)
    ax.plot(*memories.T, "k.", markersize=8)
    ax.set(title=f"β = {beta:g}: {clam.n_clusters_} basins", xticks=[], yticks=[])
    ax.set(xlim=(-0.6, 2.4), ylim=(-0.6, 2.4))
plt.show()

# %%
# At β = 100 the basins are the Voronoi cells, drawn as lines, and rows go straight to
# their memory. In between, a way bends where neighbours pull in the same direction, and
# a memory may win rows that are nearer to another one; at β = 1.2 ways end between the
# memories.

assert agreement[100.0] == 1 > agreement[2.0]
assert cdist(ends[1.2], memories).min() > 0.1
