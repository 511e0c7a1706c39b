"""
=================================================
Digits from 100 labels, three classes without any
=================================================

A small network learns an embedding of handwritten digits whose spanning forest agrees
with 100 labels. The digits 0, 1 and 2 have none: they find their places because
unlabelled rows take part in the forests.
"""

import sys
import warnings
from pathlib import Path

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
# Half of every batch is drawn from the 100 labelled rows. The number of clusters, ten,
# counts the classes that nobody has named. Training is kept short, and warns that the
# loss still falls.

embedding = SpanningForestEmbedding(
    10,
    encoder="mlp",
    hidden_layer_sizes=(256,),
    n_components=16,
    noise_scale=0.1,
    n_neighbors=None,
    learning_rate=3e-3,
    max_iter=20,
    random_state=0,
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    embedding.fit(X[train], labels)


def batch_errors(rows):
    """Clustering error of the forest of ten trees in batches of 64 test rows."""
    errors = []
    for start in range(0, len(rows) - 63, 64):
        part = rows[start : start + 64]
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
# The test rows, projected to the plane. Withheld classes are drawn as crosses.

plane = TSNE(random_state=0).fit_transform(embedded)
fig, ax = plt.subplots(figsize=(6, 5), layout="constrained")
for digit in range(10):
    rows = y[test] == digit
    style = {"marker": "x", "s": 26} if digit < 3 else {"marker": "o", "s": 9}
    color = plt.get_cmap("tab10")(digit)
    ax.scatter(*plane[rows].T, label=str(digit), color=color, **style)
ax.legend(ncols=2, fontsize=8)
ax.set(xticks=[], yticks=[], title="No label was seen of 0, 1 and 2")

if "sphinx_gallery" not in sys.modules:
    picture = Path("learn_digits.png")
    fig.savefig(picture, dpi=120)
    print(f"The picture is in {picture.resolve()}.")

# %%
# The error in batches of 64 test rows is less than half of that of the raw pixels. The
# three withheld digits lie together, though zero is near to five, and two to three.

assert error < 0.45 * raw_error
