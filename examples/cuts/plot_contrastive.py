"""
===============================
Similarity from representations
===============================

The graph of nearest neighbours may be that of any representation: principal
components, or what a small network learned without labels from shifted copies of the
digits (SimCLR's loss). The clusterer is the same, only its rows differ, and it can be
read as a test of the representation. On these 8 x 8 images pixels are hard to beat; a
network wants more of them, and more training, than an example can afford.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from torch import nn
from torch.nn import functional

from skdiffclust import PRCut
from skdiffclust.metrics import clustering_accuracy

N_STEPS = 300
X, y = load_digits(return_X_y=True)
images = torch.tensor(X.reshape(-1, 1, 8, 8) / 16.0, dtype=torch.float32)

# %%
# Two views of a digit are shifted by up to a pixel and slightly noisy.

generator = torch.Generator().manual_seed(0)


def view(batch):
    """Return a randomly shifted and noisy copy of images (b, 1, 8, 8)."""
    down, right = torch.randint(-1, 2, (2,), generator=generator).tolist()
    moved = torch.roll(batch, (down, right), dims=(2, 3))
    return moved + 0.1 * torch.randn(moved.shape, generator=generator)


with torch.random.fork_rng():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 32),
    )
optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
for _ in range(N_STEPS):
    rows = torch.randint(len(images), (256,), generator=generator)
    left, right = (
        functional.normalize(network(view(images[rows])), dim=1) for _ in range(2)
    )
    loss = functional.cross_entropy(left @ right.T / 0.2, torch.arange(256))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    learned = functional.normalize(network(images), dim=1).numpy()

# %%
# The clusterer is the same each time; only the rows, and so the graph, differ.

found = {
    "pixels": X,
    "20 principal components": PCA(20, random_state=0).fit_transform(X),
    f"contrastive, {N_STEPS} steps": learned,
}
fig, ax = plt.subplots(figsize=(6, 2.2), layout="constrained")
accuracies = []
for name, rows in found.items():
    model = PRCut(10, init="random", encoder=None, random_state=0).fit(rows)
    accuracy = clustering_accuracy(y, model.labels_)
    accuracies.append(accuracy)
    bar = ax.barh(name, accuracy)
    ax.bar_label(bar, [f"{accuracy:.3f}"], padding=3)
    print(f"{name:28s} accuracy {accuracy:.3f}, sizes {np.bincount(model.labels_)}")
ax.set(xlim=(0, 1.1), xlabel="accuracy against the digits")
ax.invert_yaxis()
plt.show()

# %%
# Here the pixels win: a short contrastive training forgets more of these small images
# than it learns.

assert np.argmax(accuracies) == 0
