"""
==========================================
Denoising, by a training loop of one's own
==========================================

The partial Fenchel-Young loss is a torch module: it takes a similarity and what is
known of the rows, and its gradient does the rest. Here it learns to leave out two
dimensions of noise that drown four clusters: Section 4.1 of the paper.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering
from skdiffclust.nn import PartialFenchelYoungLoss, standardized_similarity

n_steps = 150
generator = torch.Generator().manual_seed(0)
labels = torch.arange(4).repeat_interleave(15)
centers = torch.tensor([[0.98, 4.30], [2.06, 0.90], [-1.53, 2.92], [-1.25, 7.84]])
signal = centers[labels] + 0.2 * torch.randn(60, 2, generator=generator)
X = torch.cat([signal, 10 * torch.rand(60, 2, generator=generator)], dim=1)

# %%
# Every line of the loop.

weights = torch.randn(4, 2, generator=generator, requires_grad=True)
criterion = PartialFenchelYoungLoss(4, n_perturbations=100, generator=generator)
optimizer = torch.optim.Adam([weights], lr=0.05)
losses = []
for _ in range(n_steps):
    rows = torch.randperm(60, generator=generator)[:32]
    loss = criterion(standardized_similarity(X[rows] @ weights), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

# %%
# One row of weights for each column.

print(weights.detach())

fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
embedded = (X @ weights).detach()
for ax, points, title in [
    (axes[0], X[:, 1:3], "two of the four columns"),
    (axes[1], embedded, "learned projection"),
]:
    ax.scatter(*points.T, c=labels, cmap="tab10", s=14)
    ax.set(xticks=[], yticks=[], title=title)
axes[2].plot(losses)
axes[2].set(title="loss", xlabel="step")

if "sphinx_gallery" not in sys.modules:
    picture = Path("own_loop.png")
    fig.savefig(picture, dpi=120)
    print(f"The picture is in {picture.resolve()}.")

# %%
# The third and the fourth column, which are noise, have a twentieth of the weight of
# the first, and four clusters are left. The loss ends its fall after some fifty steps.

size = weights.detach().norm(dim=1)
assert max(size[2:]) < size[0] / 15
found = SpanningForestClustering(4).fit_predict(embedded)
assert adjusted_rand_score(labels, found) == 1
assert abs(sum(losses[60:80]) - sum(losses[-20:])) < 0.1 * sum(losses[:20])
