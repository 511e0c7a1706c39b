"""
=======================================================
Six methods agree on some digits and disagree on others
=======================================================

A partition that is found by several methods with different objectives is more credible
than that of a single method. Six methods cluster the digits of scikit-learn. A table
shows the agreement of each pair of methods, and a matrix the samples that they put
together.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from skdiffclust import (
    GEMINI,
    ClAM,
    GraphCutClustering,
    SpanningForestClustering,
)
from skdiffclust.plotting import ConnectivityDisplay

X, y = load_digits(return_X_y=True)
X = PCA(20, random_state=0).fit_transform(X)
clusterers = {
    "forest": SpanningForestClustering(10),
    "graph cut": GraphCutClustering(10, min_cluster_size=36, random_state=0),
    "Ward": AgglomerativeClustering(10),
    "k-means": KMeans(10, n_init=5, random_state=0),
    "ClAM": ClAM(10, random_state=0),
    "GEMINI": GEMINI(10, mode="ovo", n_init=1, random_state=0),
}
labels = {name: c.fit_predict(X) for name, c in clusterers.items()}

# %%
# On the left, the adjusted Rand index of each pair of methods, and of each method and
# the true digits (last row). On the right, the fraction of methods that put two samples
# into the same cluster, with the samples in the order of the clusters of the first
# method.

known = labels | {"digits": y}
names = list(known)
table = [[adjusted_rand_score(known[a], known[b]) for b in names] for a in names]
fig, axes = plt.subplots(1, 2, figsize=(11.5, 4.8), layout="constrained")
axes[0].imshow(table, vmin=0, vmax=1, cmap="viridis")
for i, j in np.ndindex(len(names), len(names)):
    is_best = {names[i], names[j]} == {"graph cut", "digits"}
    colour = "black" if table[i][j] > 0.6 else "white"
    weight = "bold" if is_best else "normal"
    text = f"{table[i][j]:.2f}"
    axes[0].text(j, i, text, ha="center", va="center", color=colour, weight=weight)
ticks = range(len(names))
axes[0].set_xticks(ticks, names, rotation=40, ha="right")
axes[0].set_yticks(ticks, names)
axes[0].set_title("Adjusted Rand index: the graph cut is closest to the digits")
ConnectivityDisplay.from_labels(list(labels.values()), ax=axes[1])
axes[1].set_title("Fraction of the methods that join two samples")
plt.show()

# %%
# The graph cut is closest to the true digits, and the forest comes next. ClAM and
# GEMINI are nearly equal, since both start from k-means. Bright blocks are digits that
# all methods find; the methods disagree on digits whose blocks are divided.

agreement = {
    a: dict(zip(names, row, strict=True)) for a, row in zip(names, table, strict=True)
}
with_digits = {name: agreement[name]["digits"] for name in labels}
assert sorted(with_digits, key=with_digits.get)[-2:] == ["forest", "graph cut"]
assert agreement["ClAM"]["GEMINI"] > 0.9
