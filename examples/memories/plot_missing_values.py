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
X = X.reshape(-1, 8, 8)[:, :, 1:7].reshape(-1, 48)  # nothing is in the outer columns
X, y = X[:300], y[:300]
imputers = {
    "means": SimpleImputer(keep_empty_features=True),
    "5 nearest neighbours": KNNImputer(keep_empty_features=True),
    "AssociativeImputer": AssociativeImputer(keep_empty_features=True, random_state=0),
}

# %%
# The error is the mean squared error of the missing entries, divided by that of the
# means. The clusters are compared with the digits.

error, ari = {}, {}
pictures = {"digit": X}
for share in (0.5, 0.7):
    missing = np.random.default_rng(0).uniform(size=X.shape) < share
    holes = np.where(missing, np.nan, X)
    labels = {"ClAM, not imputed": ClAM(10, random_state=0).fit_predict(holes)}
    for name, imputer in imputers.items():
        completed = imputer.fit_transform(holes)
        error[name] = np.mean((completed - X)[missing] ** 2)
        labels[name] = KMeans(10, n_init=10, random_state=0).fit_predict(completed)
        if share == 0.5:
            pictures |= {"half is missing": holes, name: completed}
    print(f"{share:.0%} missing")
    for name, found in labels.items():
        ari[name] = adjusted_rand_score(y, found)
        ratio = f"error {error[name] / error['means']:.2f}, " if name in error else ""
        print(f"  {name:21s}{ratio}adjusted Rand index {ari[name]:.2f}")

# %%
# The rows of images are the digits, their observed pixels, and the digits as completed
# by each imputer.

fig, axes = plt.subplots(5, 8, figsize=(6.4, 5), layout="constrained")
for line, (name, samples) in zip(axes, pictures.items(), strict=True):
    for ax, sample in zip(line, samples[:8], strict=True):
        ax.imshow(sample.reshape(8, 6), cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[], facecolor="#ffd9a0")
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
fig.suptitle("Similar samples complete a digit, means do not")
plt.show()

# %%
# The error of ``AssociativeImputer`` is the lowest. Where 70 % of the pixels are
# missing, its clusters and those of ``ClAM`` are clearly better than with the nearest
# neighbours.

assert error["AssociativeImputer"] < error["5 nearest neighbours"]
assert ari["AssociativeImputer"] > ari["5 nearest neighbours"] + 0.1
