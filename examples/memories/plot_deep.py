"""
=========================================================
Codes of an autoencoder cluster digits better than pixels
=========================================================

``DeepClAM`` trains an autoencoder together with memories: codes are recalled among the
memories before they are decoded. Clusters of the codes are closer to the digits than
clusters of the pixels. The encoder is a perceptron by default, here a convolutional
network; it needs torch.
"""

import matplotlib.pyplot as plt
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE
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
    "perceptron": DeepClAM(10, random_state=0).fit(X),
    "convolutions": DeepClAM(10, encoder=encoder, random_state=0).fit(X),
}
scores = {name: adjusted_rand_score(y, model.labels_) for name, model in models.items()}

# %%
# A part of the samples is drawn by t-SNE of the pixels, or of the codes that
# ``transform`` returns. Colours are those of the digits that match the clusters best;
# samples of another digit are black.

fig, axes = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
for ax, name in zip(axes, ["pixels", "convolutions"], strict=True):
    model = models[name]
    samples = X if name == "pixels" else model.transform(X)
    table = contingency_matrix(y, model.labels_)
    clusters = linear_sum_assignment(table, maximize=True)[1]
    right = model.labels_ == clusters[y]
    plane = TSNE(random_state=0).fit_transform(samples[:800])
    for digit in range(10):
        those = plane[(right & (y == digit))[:800]]
        ax.scatter(*those.T, s=8, color=f"C{digit}", label=str(digit))
    ax.scatter(*plane[~right[:800]].T, s=14, color="k", marker="x", label="other")
    title = "Clusters of the " + ("pixels" if name == "pixels" else "codes")
    ax.set(title=f"{title}: ARI {scores[name]:.2f}", xticks=[], yticks=[])
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside right", title="digit")
plt.show()

# %%
# With the codes, fewer samples are in the cluster of another digit.

print(", ".join(f"{name} {score:.2f}" for name, score in scores.items()))
assert min(scores["perceptron"], scores["convolutions"]) > scores["pixels"] + 0.05

# %%
# ``inverse_transform`` decodes the memories: these are the images that the codes of
# each cluster are attracted to.

memories = models["convolutions"].inverse_transform(
    models["convolutions"].cluster_centers_
)
fig, axes = plt.subplots(1, 10, figsize=(10, 1.4), layout="constrained")
for ax, image in zip(axes, memories, strict=True):
    ax.imshow(image.reshape(8, 8), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
plt.show()
