"""
====================================================
Selecting five informative features out of a hundred
====================================================

Three Gaussian clusters differ in five features; ninety-five others are noise (scenario
5 of Celeux et al.). A path of increasing penalties removes the noise, one feature after
another, and the number of features is selected by the objective.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SparseGEMINI
from skdiffclust.datasets import make_celeux_one

X, y, informative = make_celeux_one(scenario=5, random_state=0)
sparse = SparseGEMINI(3, mode="ovo", random_state=0)
path = sparse.path(X, min_features=1)

print(
    f"{len(path)} steps, from {path.n_features[0]} variables to {path.n_features[-1]}"
)
print("variables of the chosen step:", sparse.get_support(indices=True))
everything = KMeans(3, n_init=10, random_state=0).fit_predict(X)
print(f"ARI, k-means on all variables: {adjusted_rand_score(y, everything):.2f}")
print(f"ARI, all variables:            {adjusted_rand_score(y, path.labels[0]):.2f}")
print(f"ARI, chosen variables:         {adjusted_rand_score(y, sparse.labels_):.2f}")

# %%
# Any other step is one call away: ``path.select(n_features=3)`` is a fitted estimator.

print(path.select(n_features=3).get_support(indices=True))

# %%
# Left the objective, then the number of variables and the weights of each: green those
# of the informative variables. The dotted line is the chosen step.

display = path.plot()
for line, is_informative in zip(display.lines_["weights"], informative, strict=True):
    line.set_color("tab:green" if is_informative else "lightgrey")
plt.show()

# %%
# The objective stays while the noise leaves, and falls when the informative variables
# begin to shrink; the chosen step has these five and nothing else.

assert np.array_equal(sparse.get_support(), informative)
assert adjusted_rand_score(y, sparse.labels_) > adjusted_rand_score(y, path.labels[0])
