"""
===============================================================
Similar samples complete digits with half of the pixels missing
===============================================================

Half of the pixels of handwritten digits are missing at random. ``AssociativeImputer``
imputes them from training samples with similar observed pixels. It is compared with
scikit-learn's imputers by the error of the imputed values and by the clusters of
k-means after imputation. ``ClAM`` accepts samples with missing values.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.metrics import adjusted_rand_score

from skdiffclust import AssociativeImputer, ClAM

X, y = load_digits(return_X_y=True)
X, y = X[:800], y[:800]
imputers = {
    "means": SimpleImputer(keep_empty_features=True),
    "5 nearest neighbours": KNNImputer(keep_empty_features=True),
    "AssociativeImputer": AssociativeImputer(keep_empty_features=True, random_state=0),
}

# %%
# The error is the mean squared error of the missing entries, divided by that of the
# means.

shares = [0.1, 0.3, 0.5, 0.7]
errors = {name: [] for name in imputers}
indices = {name: [] for name in [*imputers, "ClAM, not imputed"]}
pictures = {}
for share in shares:
    missing = np.random.default_rng(0).uniform(size=X.shape) < share
    holes = np.where(missing, np.nan, X)
    squares = {}
    for name, imputer in imputers.items():
        completed = imputer.fit_transform(holes)
        squares[name] = np.mean((completed - X)[missing] ** 2)
        errors[name].append(squares[name] / squares["means"])
        labels = KMeans(10, n_init=10, random_state=0).fit_predict(completed)
        indices[name].append(adjusted_rand_score(y, labels))
        if share == 0.5:
            pictures[name] = completed
    labels = ClAM(10, random_state=0).fit_predict(holes)
    indices["ClAM, not imputed"].append(adjusted_rand_score(y, labels))
    if share == 0.5:
        pictures = {"digit": X, "half is missing": holes, **pictures}

# %%
# The rows of images are the digits, their observed pixels, and the digits as completed
# by each imputer.

shown = [0, 1, 2, 3, 4, 5, 6, 7]
fig, axes = plt.subplots(5, len(shown), figsize=(7, 4.6), layout="constrained")
for line, (name, samples) in zip(axes, pictures.items(), strict=True):
    for ax, sample in zip(line, samples[shown], strict=True):
        ax.imshow(sample.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[], facecolor="#ffd9a0")
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
fig.suptitle("Similar samples complete a digit, means do not")
plt.show()

# %%
# Both measures for an increasing fraction of missing values.

colours = {"means": "C3", "5 nearest neighbours": "C1", "AssociativeImputer": "C0"}
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for name, scores in errors.items():
    axes[0].plot(shares, scores, "o-", color=colours[name])
for name, scores in indices.items():
    axes[1].plot(shares, scores, "o-", color=colours.get(name, "C2"), label=name)
axes[0].set(title="The error is lowest with AssociativeImputer", ylabel="error")
axes[1].set(title="Most missing: clusters are better", ylabel="adjusted Rand index")
for ax in axes:
    ax.set(xlabel="share of missing entries", xticks=shares, ylim=(0, 1.05))
axes[1].legend(fontsize=8, loc="lower left")
plt.show()

# %%
# The error of ``AssociativeImputer`` is the lowest at each share. Up to a half, the
# clusters are about as good with the nearest neighbours; where 70 % of the pixels are
# missing, they are clearly better with ``AssociativeImputer`` or ``ClAM``.

for name, scores in errors.items():
    print(f"error, {name:21s}", np.round(scores, 2))
for name, scores in indices.items():
    print(f"adjusted Rand index, {name:21s}", np.round(scores, 2))
assert np.less(errors["AssociativeImputer"], errors["5 nearest neighbours"]).all()
gain = indices["AssociativeImputer"][-1] - indices["5 nearest neighbours"][-1]
assert gain > 0.1
