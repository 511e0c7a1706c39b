"""
=========================================================
Codes of an autoencoder cluster digits better than pixels
=========================================================

With an encoder, ``ClAM`` trains an autoencoder together with its memories: codes are
recalled among the memories before they are decoded. Clusters of the codes are closer to
the digits than clusters of the pixels. The encoder "mlp" needs no torch.
"""

import matplotlib.pyplot as plt
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from skdiffclust import ClAM

X, y = load_digits(return_X_y=True)
X = X / 16
plain = ClAM(10, random_state=0).fit(X)
deep = ClAM(10, encoder="mlp", random_state=0).fit(X)

# %%
# ``transform`` returns the distances to the ten memories, for the encoder those of the
# codes. A part of the samples is drawn by t-SNE, pixels on the left and distances of
# codes on the right. Colours are those of the digits that match the clusters best;
# samples of another digit are black.

panels = {
    "Clusters of the pixels": (plain, X),
    "Clusters of the codes": (deep, deep.transform(X)),
}
fig, axes = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
scores = []
for ax, (title, (model, samples)) in zip(axes, panels.items(), strict=True):
    table = contingency_matrix(y, model.labels_)
    clusters = linear_sum_assignment(table, maximize=True)[1]
    right = model.labels_ == clusters[y]
    plane = TSNE(random_state=0).fit_transform(samples[:800])
    for digit in range(10):
        those = plane[(right & (y == digit))[:800]]
        ax.scatter(*those.T, s=8, color=f"C{digit}", label=str(digit))
    ax.scatter(*plane[~right[:800]].T, s=14, color="k", marker="x", label="other")
    scores.append(adjusted_rand_score(y, model.labels_))
    ax.set(title=f"{title}: ARI {scores[-1]:.2f}", xticks=[], yticks=[])
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside right", title="digit")
plt.show()

# %%
# With the codes, fewer samples are in the cluster of another digit.

print(f"adjusted Rand index: pixels {scores[0]:.2f}, codes {scores[1]:.2f}")
assert scores[1] > scores[0] + 0.05
