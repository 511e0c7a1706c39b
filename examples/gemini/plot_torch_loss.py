"""
=====================================
A small network trained by GEMINILoss
=====================================

The objectives are also a loss for a custom network. Here a convolutional network
clusters the handwritten digits: it sees the pixels, and the loss compares the rows in
the space of a random-feature map of them.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score
from torch import nn

from skdiffclust.nn import GEMINILoss

n_epochs = 40
torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
features = Nystroem(gamma=1e-3, n_components=100, random_state=0).fit_transform(X)
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
loss_of = GEMINILoss("mmd", mode="ovo")
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
stream = torch.Generator().manual_seed(0)

# %%
# Batches must have many rows of each cluster, since the objective of a batch is that of
# its rows only.

for epoch in range(n_epochs):
    losses = []
    for rows in torch.randperm(len(images), generator=stream).split(300):
        optimizer.zero_grad()
        loss = loss_of(network(images[rows]), features[rows])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if epoch % 10 == 0 or epoch == n_epochs - 1:
        print(f"epoch {epoch:2d}: loss {np.mean(losses):.4f}")

with torch.no_grad():
    labels = network(images).argmax(dim=1).numpy()
print("clusters used:", len(np.unique(labels)))
print(f"ARI with the digits: {adjusted_rand_score(y, labels):.2f}")
