"""
======================
Memories become digits
======================

The memories of ClAM are rows of the same space as the data, so they can be looked at
while they are learned, here from random rows (Figure 6 of Saha et al., ICML 2023).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics.cluster import contingency_matrix

from skdiffclust import ClAM
from skdiffclust.memories import recall
from skdiffclust.metrics import clustering_accuracy

X, y = load_digits(return_X_y=True)
clam = ClAM(
    10, init="random", n_init=1, learning_rate=0.1, record_centers=True, random_state=5
).fit(X)
print(f"{clam.n_iter_} epochs, {clam.n_clusters_} clusters, accuracy", end=" ")
print(round(clustering_accuracy(y, clam.labels_), 3))

# %%
# One row of pictures an epoch, most of them early, when the memories still move.

shown = np.unique(np.geomspace(1, clam.n_iter_, 6).astype(int)) - 1
fig, axes = plt.subplots(len(shown), 10, figsize=(7, 1.0 * len(shown)))
for epoch, line in zip(shown, axes, strict=True):
    for memory, ax in zip(clam.history_["cluster_centers"][epoch], line, strict=True):
        ax.imshow(memory.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.axis("off")
    line[0].set_title(f"epoch {epoch + 1}", fontsize=8, loc="left")
plt.show()

# %%
# Half a picture is enough for a memory: the lower half of four digits is hidden, and
# recall completes it.

rows = X[[0, 11, 25, 61]]
seen = np.arange(64) < 32
start = np.where(seen, rows, X.mean(axis=0))
completed = recall(start, clam.cluster_centers_, clam.inverse_temperature_, mask=seen)
fig, axes = plt.subplots(3, 4, figsize=(4, 3.2))
names = ["row", "lower half hidden", "completed"]
for name, pictures, line in zip(names, [rows, start, completed], axes, strict=True):
    for picture, ax in zip(pictures, line, strict=True):
        ax.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.axis("off")
    line[0].set_title(name, fontsize=8, loc="left")
plt.show()

# %%
# Ten samples become blurred means within some epochs, and in the end nearly every digit
# is that of most samples of a cluster. Recall fills a hidden half with that of the
# memory that the sample converges to.

majority = contingency_matrix(y, clam.labels_).argmax(axis=0)
print("digits of the clusters:", majority)
assert len(np.unique(majority)) >= 8
