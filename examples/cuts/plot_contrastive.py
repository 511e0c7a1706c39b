"""
=============================================
A learned representation makes a better graph
=============================================

The clusters of ``GraphCutClustering`` are those of a graph of neighbours, and a better
representation gives a better graph. Here digits are at random places of a larger frame.
Two images of the same digit may have no pixel in common, so nearest neighbours in the
space of the pixels are often other digits. A small network that learns from pairs of
shifted copies, without any label (the loss of SimCLR), gives a representation that
depends on the place much less.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from torch import nn
from torch.nn import functional

from skdiffclust import GraphCutClustering
from skdiffclust.metrics import clustering_accuracy

N_STEPS = 150
generator = torch.Generator().manual_seed(0)
X, y = load_digits(return_X_y=True)
digits = torch.tensor(X.reshape(-1, 1, 8, 8) / 16.0, dtype=torch.float32)


def place(batch):
    """Return images of 8 x 8 pixels at random places of frames of 12 x 12."""
    framed = torch.zeros(len(batch), 1, 12, 12)
    for image, frame in zip(batch, framed, strict=True):
        down, right = torch.randint(5, (2,), generator=generator).tolist()
        frame[:, down : down + 8, right : right + 8] = image
    return framed


images = place(digits)

# %%
# Two views of an image are copies that are shifted at random around the frame. The loss
# is small if the two views of an image are more similar than views of different images.
# As usual in contrastive learning, the last layer is only used for the loss, and the
# representation is its input.


def view(batch):
    """Return copies that are shifted by up to four pixels, with some noise."""
    shifts = torch.randint(-4, 5, (len(batch), 2), generator=generator).tolist()
    pairs = zip(batch, shifts, strict=True)
    moved = torch.stack([torch.roll(image, shift, (1, 2)) for image, shift in pairs])
    return moved + 0.1 * torch.randn(moved.shape, generator=generator)


def convolution(n_in, n_out):
    """Return a layer that treats all places of the frame alike."""
    return nn.Conv2d(n_in, n_out, 3, padding=1, padding_mode="circular")


with torch.random.fork_rng():
    torch.manual_seed(0)
    body = nn.Sequential(
        *(convolution(1, 16), nn.ReLU(), convolution(16, 32), nn.ReLU()),
        *(nn.MaxPool2d(2), convolution(32, 64), nn.ReLU()),
        *(nn.AdaptiveMaxPool2d(1), nn.Flatten()),
    )
    network = nn.Sequential(body, nn.Linear(64, 32))
optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
for _ in range(N_STEPS):
    batch = images[torch.randint(len(images), (128,), generator=generator)]
    left, right = (functional.normalize(network(view(batch)), dim=1) for _ in range(2))
    loss = functional.cross_entropy(left @ right.T / 0.2, torch.arange(128))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    learned = functional.normalize(body(images), dim=1).numpy()

# %%
# The clusterer is the same for all representations.

flat = images.reshape(len(images), -1).numpy()
spaces = {
    "pixels": flat,
    "20 principal components": PCA(20, random_state=0).fit_transform(flat),
    "contrastive network": learned,
}
accuracies = {}
for name, samples in spaces.items():
    labels = GraphCutClustering(10, min_cluster_size=36, random_state=0).fit_predict(
        samples
    )
    accuracies[name] = clustering_accuracy(y, labels)
fig = plt.figure(figsize=(9, 2.8), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[1, 2])
shown = images[[0, 10, 20, 30, 1, 11, 21, 42]]
for ax, image in zip(left.subplots(2, 4).flat, shown, strict=True):
    ax.imshow(image[0], cmap="gray_r")
    ax.set(xticks=[], yticks=[])
left.suptitle("Digits at random places")
ax = right.subplots()
bars = ax.barh(list(accuracies), list(accuracies.values()), color=["0.6", "0.6", "C0"])
ax.bar_label(bars, [f"{accuracy:.2f}" for accuracy in accuracies.values()], padding=3)
ax.set(xlim=(0, 1), title="Accuracy of GraphCutClustering for three representations")
ax.invert_yaxis()
plt.show()

# %%
# In the graph of the pixels, and in that of their principal components, the digits are
# hardly found. In the graph of the learned representation, most of them are.

print(accuracies)
best = accuracies.pop("contrastive network")
assert best > 0.7
assert max(accuracies.values()) < 0.25
