"""
=========================================================
Codes of an autoencoder cluster digits better than pixels
=========================================================

``DeepClAM`` trains an autoencoder together with memories: codes are recalled among the
memories before they are decoded. Clusters of the codes are closer to the digits than
clusters of the pixels. The encoder is a perceptron by default, here a convolutional
network; it needs torch. The score of the codes depends on the initial weights and on
the number of threads: over ten seeds, it was .74 to .82, and that of the pixels .67.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix
from torch import nn

from skdiffclust import ClAM, DeepClAM

X, y = load_digits(return_X_y=True)
X = (X / 16).astype("float32")
torch.manual_seed(0)
encoder = nn.Sequential(
    nn.Unflatten(1, (1, 8, 8)),
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(512, 128),
    nn.ReLU(),
    nn.Linear(128, 10),
)
models = {
    "pixels": ClAM(10, random_state=0).fit(X),
    "codes": DeepClAM(
        10, encoder=encoder, max_iter=50, learning_rate=3e-3, random_state=0
    ).fit(X),
}
scores = {name: adjusted_rand_score(y, model.labels_) for name, model in models.items()}
print(", ".join(f"{name} {score:.2f}" for name, score in scores.items()))
assert scores["codes"] > scores["pixels"]

# %%
# The rows of a table are the digits and its columns the clusters, in the order that
# matches the digits best. Above it are the memories: with codes, ``inverse_transform``
# decodes them.

fig = plt.figure(figsize=(10, 4.6), layout="constrained")
for part, (name, model) in zip(fig.subfigures(1, 2), models.items(), strict=True):
    memories = model.cluster_centers_
    if name == "codes":
        memories = model.inverse_transform(memories)
    table = contingency_matrix(y, model.labels_)
    order = linear_sum_assignment(table, maximize=True)[1]
    grid = part.add_gridspec(2, 10, height_ratios=[1, 7])
    for column, cluster in enumerate(order):
        ax = part.add_subplot(grid[0, column])
        ax.imshow(memories[cluster].reshape(8, 8), cmap="gray_r")
        ax.set_axis_off()
    ax = part.add_subplot(grid[1, :])
    table = table[:, order]
    ax.imshow(table, cmap="Blues", aspect="auto")
    for digit, column in np.argwhere(table):
        colour = "white" if table[digit, column] > table.max() / 2 else "black"
        text = table[digit, column]
        ax.text(column, digit, text, ha="center", va="center", color=colour, size=8)
    ax.set(xlabel="cluster", ylabel="digit", xticks=[], yticks=range(10))
    part.suptitle(f"Clusters of the {name}: ARI {scores[name]:.2f}")
plt.show()
