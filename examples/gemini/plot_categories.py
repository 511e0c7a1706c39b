"""
==========================================================================
Fewer measurements, with their categories, agree better with the diagnoses
==========================================================================

The breast cancer data have thirty measurements of cell nuclei for each of 569 tumours.
Here each measurement is only known as low, middle or high, so that its one-hot encoding
has three columns. With ``groups``, these leave the model together, so that a path of
increasing penalties removes whole measurements, as in Table 4 of Ohl et al. (2024). The
diagnoses are only used to evaluate the result.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

from skdiffclust import SparseGEMINI
from skdiffclust.metrics import clustering_accuracy

tumours = load_breast_cancer()
thirds = KBinsDiscretizer(
    3, encode="ordinal", quantile_method="averaged_inverted_cdf"
).fit_transform(tumours.data)
encoder = OneHotEncoder(sparse_output=False)
X = encoder.fit_transform(thirds)
measurement_of_column = np.repeat(np.arange(30), [len(c) for c in encoder.categories_])

# %%
# Two clusters are fitted to the categories alone.

sparse = SparseGEMINI(
    2, mode="ovo", groups=measurement_of_column, max_iter=100, tol=0.01, random_state=0
)
path = sparse.path(X, min_features=3)

supports = [np.unique(measurement_of_column[support]) for support in path.supports]
n_measurements = [len(support) for support in supports]
ari = [adjusted_rand_score(tumours.target, labels) for labels in path.labels]
accuracy = clustering_accuracy(tumours.target, sparse.labels_)
chosen = supports[path.chosen]
print(f"all {n_measurements[0]} measurements: adjusted Rand index {ari[0]:.2f}")
print(f"the chosen {len(chosen)}: {ari[path.chosen]:.2f}, accuracy {accuracy:.2f}")
print(", ".join(tumours.feature_names[chosen]))

# %%
# Each measurement is selected with all of its columns or with none of them.

for support, measurements in zip(path.supports, supports, strict=True):
    assert np.array_equal(support, np.isin(measurement_of_column, measurements))

# %%
# On the left, the penalty at which each measurement is removed, green for those of the
# selected step (dotted line); on the right, the agreement of the clusters with the
# diagnoses along the path.

leaves = [sparse.feature_importances_[3 * m : 3 * m + 3].max() for m in range(30)]
order = np.argsort(leaves)
colours = np.where(np.isin(order, chosen), "tab:green", "0.8")
fig, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
axes[0].barh(tumours.feature_names[order], np.take(leaves, order), color=colours)
axes[0].tick_params(axis="y", labelsize=7)
axes[0].set(xlabel="penalty at removal", title="Selected measurements (green)")
axes[1].plot(n_measurements, ari, "o-")
axes[1].axvline(len(chosen), color="tab:red", ls=":")
axes[1].set(
    xlabel="number of measurements",
    ylabel="adjusted Rand index",
    title="They agree better with the diagnoses than all",
)
axes[1].set_xlim(31, 0)
plt.show()

# %%
# Fewer than half of the measurements agree better with the diagnoses than all of them.

assert len(chosen) < 15
assert ari[path.chosen] > ari[0] + 0.02
