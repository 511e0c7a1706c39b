"""
=============================================
What an encoder makes of the cut of its graph
=============================================

The free labels of ``PRCut`` belong to the rows of one graph. An encoder says what any
row's label is. A linear one can only part the plane by lines, so its cut is higher; a
perceptron reaches the cut of the free labels here. Without an encoder, a new row goes
where the cut of all rows and itself is least.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from skdiffclust import PRCut

X, _ = make_moons(300, noise=0.06, random_state=0)
grid_x, grid_y = np.meshgrid(np.linspace(-1.5, 2.5, 120), np.linspace(-1.1, 1.6, 90))
grid = np.column_stack([grid_x.ravel(), grid_y.ravel()])

# %%
# The shade is the label of every point of the plane, the colour that of the rows.

fig, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
for ax, encoder in zip(axes, (None, "linear", "mlp"), strict=True):
    model = PRCut(2, encoder=encoder, random_state=0).fit(X)
    shade = model.predict(grid).reshape(grid_x.shape)
    ax.contourf(grid_x, grid_y, shade, levels=1, cmap="coolwarm", alpha=0.25)
    ax.scatter(*X.T, c=model.labels_, cmap="coolwarm", s=8)
    ax.set_title(f"encoder={encoder!r}: ratio-cut {model.ratio_cut_:.2f}")
plt.show()

# %%
# All three predict the whole plane. The cut of the line is four times as high; that of
# the perceptron is the cut of the free labels.
