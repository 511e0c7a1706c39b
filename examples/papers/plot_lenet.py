"""
=====================================================
A small LeNet that learns from few labels by the loss
=====================================================

The experiment of Section 4.2 of the paper in a training loop of one's own: a
convolutional network is trained by :class:`~skdiffclust.nn.PartialFenchelYoungLoss` on
batches of which half of the images are labelled, here the 8 × 8 digits of scikit-learn
with 100 labels. Beside it, the same network is trained by cross-entropy on the labelled
images alone. In which embedding do the clusters of new images agree with the digits?
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from torch import nn

from skdiffclust import SpanningForestClustering
from skdiffclust.nn import PartialFenchelYoungLoss, standardized_affinity

N_LABELS, N_STEPS, BATCH = 100, 200, 64

pixels, digits = load_digits(return_X_y=True)
order = np.random.RandomState(0).permutation(len(pixels))
images = torch.tensor(pixels[order].reshape(-1, 1, 8, 8) / 16, dtype=torch.float32)
y = torch.tensor(digits[order])
X, X_test, y_test = images[:1200], images[1200:], y[1200:]
labels = torch.where(torch.arange(1200) < N_LABELS, y[:1200], -1)


def lenet():
    """Return two convolutions and two dense layers, for 8 × 8 images."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 32)),
    )


# %%
# A batch has labelled and other images; -1 is a missing label. The affinity is
# standardised, so that the scale of the noise has the same meaning at every step.


def train_by_forests(seed):
    """Train by the partial loss on labelled and unlabelled images."""
    rng = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    network = lenet()
    loss_of = PartialFenchelYoungLoss(10, n_perturbations=20, generator=rng)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(N_STEPS):
        known = torch.randperm(N_LABELS, generator=rng)[: BATCH // 2]
        others = torch.randperm(1200 - N_LABELS, generator=rng)[: BATCH // 2]
        rows = torch.cat([known, N_LABELS + others])
        loss = loss_of(standardized_affinity(network(X[rows])), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


def train_by_cross_entropy(seed):
    """Train by cross-entropy on the labelled images; return without the last layer."""
    rng = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    network = lenet()
    classifier = nn.Sequential(network, nn.Linear(32, 10))
    optimizer = torch.optim.Adam(classifier.parameters(), lr=2e-3)
    for _ in range(N_STEPS):
        rows = torch.randperm(N_LABELS, generator=rng)[:BATCH]
        loss = nn.functional.cross_entropy(classifier(X[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


# %%
# The test images are clustered in each embedding, and in pixels. Both networks see the
# same 100 labels, and are trained with the same steps from three random starts.

with torch.random.fork_rng():
    networks = {
        "partial loss": [train_by_forests(seed) for seed in range(3)],
        "cross-entropy": [train_by_cross_entropy(seed) for seed in range(3)],
        "pixels": [nn.Flatten()],
    }


def embed(network):
    """Return the embedding of the test images."""
    with torch.no_grad():
        return network(X_test).double().numpy()


fig, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
scores = {}
for ax, (name, trained) in zip(axes, networks.items(), strict=True):
    scores[name] = [
        adjusted_rand_score(
            y_test, SpanningForestClustering(10).fit_predict(embed(network))
        )
        for network in trained
    ]
    plane = PCA(2).fit_transform(embed(trained[0]))
    ax.scatter(*plane.T, c=y_test, cmap="tab10", s=8)
    ax.set(title=f"{name}: ARI {np.mean(scores[name]):.2f}", xticks=[], yticks=[])
plt.show()

# %%
# The colours are the digits, in the first two principal components. The mean adjusted
# Rand index of the clusters is highest in the embedding learned by the partial loss:
# unlabelled images are vertices of its forests, and take part in the training.

for name, values in scores.items():
    print(f"{name:14s} adjusted Rand index of test images:", np.round(values, 2))
assert np.mean(scores["partial loss"]) > np.mean(scores["cross-entropy"]) + 0.1
