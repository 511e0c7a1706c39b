"""
=============================================
Digits are clustered by the pixels of strokes
=============================================

A sparse path removes one pixel after another from a clustering of digits. The pixels
at the margin leave it first, also where the black background is replaced by noise
(Figure 3 of Ohl et al., Statistics and Computing 2024, there with MNIST and a
perceptron).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SparseGEMINI

X, y = load_digits(return_X_y=True)
X /= 16
noise = np.random.RandomState(0).uniform(size=X.shape)
tables = {"digits": X, "digits on noise": np.where(X < 0.2, noise, X)}

# %%
# The importance of a pixel is the share of the steps of the path that keep it.

fig, axes = plt.subplots(2, 3, figsize=(9, 5.6), layout="constrained")
centre = np.pad(np.ones((6, 4)), ((1, 1), (2, 2))).astype(bool)
importance = {}
for line, (name, table) in zip(axes, tables.items(), strict=True):
    sparse = SparseGEMINI(10, mode="ova", n_init=1, random_state=0)
    path = sparse.path(table, min_features=5, alpha_multiplier=1.4)
    aris = [adjusted_rand_score(y, labels) for labels in path.labels]
    importance[name] = path.supports.mean(axis=0).reshape(8, 8)
    line[0].imshow(table[0].reshape(8, 8), cmap="gray")
    line[0].set(title=name, xticks=[], yticks=[])
    line[1].imshow(importance[name], vmin=0, vmax=1)
    line[1].set(title="importance of the pixels", xticks=[], yticks=[])
    line[2].plot(path.n_features, aris, "o-", markersize=3)
    line[2].axvline(sparse.get_support().sum(), color="0.6", linestyle=":")
    line[2].set(xlabel="selected pixels", ylabel="adjusted Rand index", ylim=(0, 0.8))
    print(f"{name}: {sparse.get_support().sum()} pixels, ARI {aris[path.chosen]:.2f}")
plt.show()

# %%
# The dotted lines are the steps that ``path`` chooses. In both tables the centre is
# more important than the margin, which is nothing but noise in the second.

for name, pixels in importance.items():
    print(name, pixels[centre].mean().round(2), pixels[~centre].mean().round(2))
    assert pixels[centre].mean() > 1.5 * pixels[~centre].mean()
