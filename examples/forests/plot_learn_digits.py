"""
==================================================================
An embedding from 100 labels also separates classes without labels
==================================================================

A small network learns an embedding of handwritten digits whose spanning forest agrees
with 100 labels. The digits 0, 1 and 2 have no labels. They still form groups in the
embedding, because the unlabelled samples are vertices of the forests, too.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold import TSNE

from skdiffclust import SpanningForestEmbedding
from skdiffclust.forests import maximum_spanning_forest
from skdiffclust.metrics import connectivity_error

X, y = load_digits(return_X_y=True)
order = np.random.RandomState(0).permutation(len(X))
X, y = X[order].astype(np.float32) / 16, y[order]
train, test = slice(0, 1200), slice(1200, None)

labels = np.full(1200, -1)
known = np.flatnonzero(y[train] >= 3)[:100]
labels[known] = y[train][known]

# %%
# Half of every batch is drawn from the 100 labelled samples. The number of clusters is
# ten, and includes the three classes without labels. Training is short, so the warning
# that the loss still decreases is ignored.

embedding = SpanningForestEmbedding(
    10,
    encoder="mlp",
    hidden_layer_sizes=(256,),
    learning_rate=3e-3,
    max_iter=20,
    random_state=0,
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    embedding.fit(X[train], labels)


def batch_errors(samples):
    """Return the clustering error of forests of ten trees, in batches of 64."""
    errors = []
    for start in range(0, len(samples) - 63, 64):
        part = samples[start : start + 64]
        similarity = -((part[:, None] - part[None]) ** 2).sum(axis=2)
        np.fill_diagonal(similarity, 0)
        found = maximum_spanning_forest(0.5 * (similarity + similarity.T), 10).labels
        errors.append(connectivity_error(y[test][start : start + 64], found))
    return np.mean(errors)


embedded = embedding.transform(X[test])
error, raw_error = batch_errors(embedded), batch_errors(X[test])
print(f"clustering error of raw pixels {raw_error:.3f}")
print(f"clustering error of the embedding {error:.3f}")

# %%
# The test samples in the plane, by t-SNE, in the same colours for both spaces. The
# classes without labels are drawn as crosses.

spaces = {
    f"Pixels: clustering error {raw_error:.2f}": X[test],
    f"Embedding: clustering error {error:.2f}": embedded,
}
fig, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for ax, (title, samples) in zip(axes, spaces.items(), strict=True):
    plane = TSNE(random_state=0).fit_transform(samples)
    for digit in range(10):
        style = {"marker": "x", "s": 30} if digit < 3 else {"marker": "o", "s": 10}
        of_digit = plane[y[test] == digit]
        ax.scatter(*of_digit.T, label=str(digit), color=f"C{digit}", **style)
    ax.set(xticks=[], yticks=[], title=title)
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside right", title="digit")
plt.show()

# %%
# The error in batches of 64 test samples is less than half of that of the pixels.

assert error < 0.45 * raw_error
