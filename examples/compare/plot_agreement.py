"""
==================================
Where methods agree on real digits
==================================

A partition that several methods with different objectives find is more credible than
that of a single one. Six methods cluster scikit-learn's digits; a table shows the
agreement of each pair, and a matrix which samples they put together.
"""

import os
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GEMINI, ClAM, PRCut, SpanningForestClustering
from skdiffclust.plotting import ConnectivityDisplay

# Fewer rows and epochs where the gallery is only tested.
REDUCED = os.environ.get("SKDIFFCLUST_REDUCED") == "1"
n_rows, epochs = (150, 2) if REDUCED else (1797, 60)

X, y = load_digits(return_X_y=True)
X, y = PCA(20, random_state=0).fit_transform(X)[:n_rows], y[:n_rows]
clusterers = {
    "forest": SpanningForestClustering(10),
    "PRCut": PRCut(10, random_state=0),
    "Ward": AgglomerativeClustering(10),
    "k-means": KMeans(10, n_init=5, random_state=0),
    "ClAM": ClAM(10, n_init=1, max_iter=epochs, random_state=0),
    "GEMINI": GEMINI(10, mode="ovo", n_init=1, max_iter=5 * epochs, random_state=0),
}
with warnings.catch_warnings():
    # With so few epochs a method may find fewer clusters than it was asked for.
    warnings.simplefilter("ignore", ConvergenceWarning)
    labels = {name: c.fit_predict(X) for name, c in clusterers.items()}

# %%
# Left, the adjusted Rand index of each pair; the last row is that with the true digits.
# Right, the fraction of the methods that put two samples into the same cluster; samples
# are ordered by the clusters of the first method.

known = labels | {"digits": y}
names = list(known)
table = [[adjusted_rand_score(known[a], known[b]) for b in names] for a in names]
fig, axes = plt.subplots(1, 2, figsize=(11.5, 4.8), layout="constrained")
axes[0].imshow(table, vmin=0, vmax=1, cmap="viridis")
for i, j in np.ndindex(len(names), len(names)):
    colour = "black" if table[i][j] > 0.6 else "white"
    axes[0].text(j, i, f"{table[i][j]:.2f}", ha="center", va="center", color=colour)
ticks = range(len(names))
axes[0].set_xticks(ticks, names, rotation=40, ha="right")
axes[0].set_yticks(ticks, names)
axes[0].set_title("adjusted Rand index of two methods")
ConnectivityDisplay.from_labels(list(labels.values()), ax=axes[1])
axes[1].set_title("fraction of methods that agree")
plt.show()

# %%
# The forest is closest to the true digits, and PRCut to the forest. ClAM and GEMINI are
# nearly the same: both start from k-means. Bright blocks are digits that all methods
# find; the methods disagree on those whose blocks are broken up.
