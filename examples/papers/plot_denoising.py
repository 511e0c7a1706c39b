"""
==================================================
A custom training loop that learns to ignore noise
==================================================

The partial Fenchel-Young loss is a torch module of a similarity matrix and the known
labels. Here it trains a linear projection of four features, two of which are noise of
large variance that hides four clusters (Section 4.1 and Figure 6 of Stewart et al.,
NeurIPS 2023).
"""

import matplotlib.pyplot as plt
import torch
from sklearn.decomposition import PCA
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
# The training loop. Each batch has 32 of the 60 samples.

weights = torch.randn(4, 2, generator=generator, requires_grad=True)
criterion = PartialFenchelYoungLoss(4, n_perturbations=100, generator=generator)
optimizer = torch.optim.Adam([weights], lr=0.05)
losses = []
for _ in range(n_steps):
    batch = torch.randperm(60, generator=generator)[:32]
    loss = criterion(standardized_similarity(X[batch] @ weights), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

# %%
# Colours are the true clusters, in both scatter plots.

embedded = (X @ weights).detach()
components = PCA(2).fit_transform(X)
spaces = {"two principal components": components, "the learned projection": embedded}
found = {}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
for ax, (name, points) in zip(axes, spaces.items(), strict=False):
    predicted = SpanningForestClustering(4).fit_predict(points)
    found[name] = round(adjusted_rand_score(labels, predicted), 2) + 0.0
    ax.scatter(*points.T, c=[f"C{label}" for label in labels], s=16)
    ax.set(xticks=[], yticks=[], title=f"{name}: ARI {found[name]:.2f}")
size = weights.detach().norm(dim=1)
names = ["signal 1", "signal 2", "noise 1", "noise 2"]
axes[2].bar(names, size, color=["C0", "C0", "0.6", "0.6"])
axes[2].set(title="Norms of the weights: noise is ignored")
plt.show()

# %%
# The weights of the noise features are less than a fifteenth of the first weight, so
# the forest of the projection recovers all four clusters. The principal components are
# dominated by the noise. The loss stops decreasing after about fifty steps.

print(found)
assert max(size[2:]) < size[0] / 15
assert found["the learned projection"] == 1 > 0.5 > found["two principal components"]
assert abs(sum(losses[60:80]) - sum(losses[-20:])) < 0.1 * sum(losses[:20])
