"""
============================================================
A convolutional network finds most digits with a GEMINI loss
============================================================

The objectives are also losses for custom networks. Here a convolutional network
clusters the handwritten digits without any label. The network sees the pixels, and
:class:`~skdiffclust.nn.GEMINILoss` compares the clusters by a kernel, in the space of
the features of a Nyström approximation.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix
from torch import nn

from skdiffclust.nn import GEMINILoss

n_epochs = 40
torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
features = Nystroem(gamma=3e-4, n_components=100, random_state=0).fit_transform(X)
images = torch.tensor(X / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
features = torch.tensor(features, dtype=torch.float32)

network = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(32 * 16, 10),
)
criterion = GEMINILoss("mmd", mode="ovo")
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
generator = torch.Generator().manual_seed(0)

# %%
# The objective of a batch compares the samples of the batch only, so batches must
# contain many samples of each cluster.

losses = []
for _ in range(n_epochs):
    epoch = []
    for batch in torch.randperm(len(images), generator=generator).split(300):
        optimizer.zero_grad()
        loss = criterion(network(images[batch]), features[batch])
        loss.backward()
        optimizer.step()
        epoch.append(loss.item())
    losses.append(np.mean(epoch))

with torch.no_grad():
    labels = network(images).argmax(dim=1).numpy()
ari = adjusted_rand_score(y, labels)
print(f"{len(np.unique(labels))} clusters, adjusted Rand index {ari:.2f}")

# %%
# The clusters are ordered by their most frequent digit. Above the table is the mean
# image of each cluster.

table = contingency_matrix(y, labels)
order = np.argsort(table.argmax(axis=0))
table = table[:, order]
names = np.unique(labels)[order]
fig = plt.figure(figsize=(10, 4.2), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[1, 1.3])
ax = left.subplots()
ax.plot(np.arange(1, n_epochs + 1), losses)
ax.set(title="The loss converges in 40 epochs", xlabel="epoch", ylabel="−GEMINI")
grid = right.add_gridspec(2, len(names), height_ratios=[1, 7])
for i, name in enumerate(names):
    ax = right.add_subplot(grid[0, i])
    ax.imshow(X[labels == name].mean(axis=0).reshape(8, 8), cmap="gray_r")
    ax.set_axis_off()
ax = right.add_subplot(grid[1, :])
ax.imshow(table, cmap="Blues", aspect="auto")
for i, j in np.argwhere(table):
    colour = "white" if table[i, j] > table.max() / 2 else "black"
    ax.text(j, i, table[i, j], ha="center", va="center", color=colour, fontsize=8)
ax.set(xlabel="cluster", ylabel="digit", xticks=[], yticks=range(10))
right.suptitle(f"Clusters and digits: adjusted Rand index {ari:.2f}")
plt.show()

# %%
# Nine of the ten clusters are used, since two digits share one of them. The most
# frequent digit is the majority of nearly every cluster.

purity = table.max(axis=0) / table.sum(axis=0)
print("fraction of the most frequent digit in each cluster:", purity.round(2))
assert table.shape[1] >= 9
assert np.median(purity) > 0.7
assert ari > 0.5
assert losses[-1] < losses[9] < losses[0]
