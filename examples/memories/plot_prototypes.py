"""
==========================================
Memories converge to mean images of digits
==========================================

The memories of ClAM are in the same space as the samples, so they can be plotted during
training, here from a random initialisation (Figure 6 of Saha et al., ICML 2023).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics.cluster import contingency_matrix

from skdiffclust import ClAM
from skdiffclust.memories import recall
from skdiffclust.metrics import clustering_accuracy


class Memories:
    """A callback of scikit-learn that keeps the memories of every epoch."""

    def setup(self, estimator, context):
        """Begin with an empty list."""
        self.centers = []

    def on_fit_task_begin(self, estimator, context):
        """Do nothing."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        """Keep the memories at the end of an epoch."""
        if context.task_name == "epoch":
            self.centers.append(fitted_estimator.cluster_centers_)

    def teardown(self, estimator, context):
        """Do nothing."""


X, y = load_digits(return_X_y=True)
memories = Memories()
clam = ClAM(
    10, init="random", n_init=1, max_iter=200, learning_rate=0.1, random_state=5
)
clam.set_callbacks(memories).fit(X)
print(f"{clam.n_iter_} epochs, {clam.n_clusters_} clusters, accuracy", end=" ")
print(round(clustering_accuracy(y, clam.labels_), 3))

# %%
# Each row of the figure shows the memories after one epoch.

shown = np.unique(np.geomspace(1, clam.n_iter_, 6).astype(int)) - 1
fig, axes = plt.subplots(len(shown), 10, figsize=(7, 1.0 * len(shown)))
for epoch, line in zip(shown, axes, strict=True):
    for memory, ax in zip(memories.centers[epoch], line, strict=True):
        ax.imshow(memory.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.axis("off")
    line[0].set_title(f"epoch {epoch + 1}", fontsize=8, loc="left")
fig.suptitle("Memories become means of digits")
plt.show()

# %%
# The lower half of four digits is hidden and then completed by the memories.

samples = X[[0, 11, 25, 61]]
seen = np.arange(64) < 32
start = np.where(seen, samples, X.mean(axis=0))
completed = recall(start, clam.cluster_centers_, clam.inverse_temperature_, mask=seen)
fig, axes = plt.subplots(3, 4, figsize=(4, 3.2))
names = ["sample", "lower half hidden", "completed"]
for name, pictures, line in zip(names, [samples, start, completed], axes, strict=True):
    for picture, ax in zip(pictures, line, strict=True):
        ax.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.axis("off")
    line[0].set_title(name, fontsize=8, loc="left")
fig.suptitle("Memories complete hidden halves", fontsize=10)
plt.show()

# %%
# Within a few epochs, ten samples become the means of clusters, most of which consist
# of one digit. Recall replaces the hidden half by that of the memory to which the
# sample converges.

majority = contingency_matrix(y, clam.labels_).argmax(axis=0)
print("digits of the clusters:", majority)
assert len(np.unique(majority)) >= 8
