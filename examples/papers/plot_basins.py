"""
===================================================
Basins of attraction merge as the temperature rises
===================================================

A sample belongs to the memory that it converges to. With a high inverse temperature β
the basins of attraction are the Voronoi cells of the memories. With a low one, the
memories attract samples jointly, and basins merge (Figures 4, 11 and 12 of Saha et al.,
ICML 2023).
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb
from scipy.spatial import Voronoi, voronoi_plot_2d
from scipy.spatial.distance import cdist

from skdiffclust.memories import recall

memories = np.array([[0.0, 0.0], [1.0, 0.15], [1.7, 1.0], [0.3, 1.1], [1.0, 1.9]])
ticks = np.linspace(-0.6, 2.4, 100)
grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
starts = np.random.RandomState(0).uniform(-0.6, 2.4, (12, 2))

# %%
# The colour of a place is that of the memory next to which its trajectory ends, the
# same in all panels. Grey lines are the Voronoi cells of the memories, and black lines
# the trajectories of twelve samples, from the dots on.

nearest = cdist(grid, memories).argmin(axis=1)
n_basins, agreement = {}, {}
fig, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
for beta, ax in zip([1.2, 2.0, 5.0, 100.0], axes, strict=True):
    ends = recall(grid, memories, beta, n_steps=100, step_size=0.5)
    basin = cdist(ends, memories).argmin(axis=1)
    n_basins[beta] = len(np.unique(basin))
    agreement[beta] = np.mean(basin == nearest)

    colours = np.array([to_rgb(f"C{i}") for i in range(5)])
    ax.imshow(
        colours[basin].reshape(100, 100, 3),
        origin="lower",
        extent=(-0.6, 2.4, -0.6, 2.4),
        alpha=0.4,
    )
    voronoi_plot_2d(
        Voronoi(memories),
        ax=ax,
        show_points=False,
        show_vertices=False,
        line_colors="0.4",
        line_width=0.8,
    )
    path = [starts]
    for _ in range(60):
        path.append(recall(path[-1], memories, beta, n_steps=1, step_size=0.3))
    for trajectory in np.swapaxes(path, 0, 1):
        ax.plot(*trajectory.T, color="black", lw=1)
        ax.plot(*trajectory[0], "o", color="black", markersize=3)
    ax.scatter(*memories.T, c=colours, s=70, edgecolors="black", zorder=3)
    title = f"{n_basins[beta]} basin" + ("s" if n_basins[beta] > 1 else "")
    ax.set(title=f"β = {beta:g}: {title}", xticks=[], yticks=[])
    ax.set(xlim=(-0.6, 2.4), ylim=(-0.6, 2.4))
plt.show()

# %%
# At β = 100 the basins are the Voronoi cells, and the trajectories are straight lines.
# At lower values trajectories bend towards neighbouring memories, basins merge, and
# some samples do not converge to the nearest memory. At β = 1.2 all trajectories end at
# one point between the memories.

print(n_basins, {beta: round(share, 3) for beta, share in agreement.items()})
assert n_basins[1.2] == 1
assert n_basins[100.0] == 5
assert agreement[100.0] > 0.99 > agreement[2.0]
