"""
==========================================================
Gower's distance finds customers that numbers alone do not
==========================================================

The Euclidean distance does not apply to tables of numbers and categories. Gower's
distance is the mean over the features of a difference between 0 and 1: for numbers the
difference divided by the range, for categories 0 if they are equal and 1 otherwise.

:class:`~skdiffclust.SpanningForestClustering` takes it as a function of two samples.
Categories are numbered, because X must be numeric, but the order of the numbers does
not matter, and there is no column for each category as with a one-hot encoding.
"""

# %%
# Customers of three kinds: they differ in age and income, in the channel they use and
# in the plan they have. Some have the channel and the plan of another kind.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import SpanningForestClustering

rng = np.random.default_rng(0)
kind = np.repeat([0, 1, 2], [100, 60, 40])
age = np.array([30, 45, 60])[kind] + rng.normal(0, 8, len(kind))
income = np.array([30, 60, 40])[kind] + rng.normal(0, 12, len(kind))
channel = np.where(rng.random(len(kind)) < 0.05, rng.integers(0, 3, len(kind)), kind)
plan = np.where(rng.random(len(kind)) < 0.05, rng.integers(0, 3, len(kind)), kind)
X = np.column_stack([age, income, channel, plan])

# %%
# Gower's distance, which is the same however the categories are numbered.
is_category = np.array([False, False, True, True])
spans = np.ptp(X, axis=0)


def gower(a, b):
    """Return the mean difference of two samples over the columns."""
    differences = np.where(is_category, a != b, np.abs(a - b) / spans)
    return differences.mean()


by_gower = SpanningForestClustering(3, metric=gower).fit(X)
renumbered = np.where(is_category, 7 - 3 * X, X)
assert gower(*renumbered[:2]) == gower(*X[:2])
by_numbers = SpanningForestClustering(3).fit(StandardScaler().fit_transform(X[:, :2]))

# %%
# The clusters of both, plotted over the two numbers. The categories separate customers
# of similar age and income.
figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
scores = {}
for ax, (name, model) in zip(
    axes,
    {"Two numbers": by_numbers, "Gower, all columns": by_gower}.items(),
    strict=True,
):
    scores[name] = adjusted_rand_score(kind, model.labels_)
    ax.scatter(age, income, c=[f"C{label}" for label in model.labels_], s=12)
    ax.set(title=f"{name}: ARI {scores[name]:.2f}", xlabel="age", ylabel="income")
figure.suptitle("With the categories, the three kinds of customers are found")
plt.show()

# %%
# The same distance is used to predict new samples.
new = np.array([[31.0, 29.0, 0, 0], [61.0, 42.0, 2, 2]])
print(by_gower.predict(new))
print({name: round(float(score), 2) for name, score in scores.items()})
assert scores["Gower, all columns"] > max(0.95, scores["Two numbers"])
