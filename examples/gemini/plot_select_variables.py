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
# ``path.select(n_features=3)`` returns the fitted estimator of another step.

print(path.select(n_features=3).get_support(indices=True))

# %%
# The plots show the objective, the number of features and the norm of the weights of
# each feature, green for the informative ones. The dotted line is the selected step.

display = path.plot()
for line, is_informative in zip(display.lines_["weights"], informative, strict=True):
    line.set_color("tab:green" if is_informative else "lightgrey")
display.figure_.suptitle("The selected step has exactly the five informative features")
plt.show()

# %%
# The objective hardly changes while noise features are removed, and decreases when the
# weights of the informative ones begin to shrink. The selected step has exactly these
# five.

assert np.array_equal(sparse.get_support(), informative)
assert adjusted_rand_score(y, sparse.labels_) > adjusted_rand_score(y, path.labels[0])
