"""
========================================
Moons, by regularised mutual information
========================================

The mutual information of rows and clusters knows no distances: any confident and
balanced clustering maximises it. Regularised information maximisation (RIM) adds a
penalty on the weights, so that confident means far from the boundary. After a Nyström
transformer the boundary is no straight line any more: kernel RIM is a pipeline.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_circles, make_moons
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

from skdiffclust import GEMINI

problems = {
    "moons": make_moons(200, noise=0.05, random_state=0),
    "circles": make_circles(200, noise=0.05, factor=0.4, random_state=0),
}
fig, axes = plt.subplots(2, 2, figsize=(8, 6.4), layout="constrained")
for row, (name, (X, y)) in zip(axes, problems.items(), strict=True):
    for ax, kernel in zip(row, (False, True), strict=True):
        model = GEMINI(2, objective="kl", l2=0.01, learning_rate=0.1, random_state=0)
        if kernel:
            nystroem = Nystroem(gamma=5.0, n_components=60, random_state=0)
            model = make_pipeline(nystroem, model)
        labels = model.fit(X).predict(X)
        DecisionBoundaryDisplay.from_estimator(
            model, X, response_method="predict", ax=ax, alpha=0.3, cmap="coolwarm"
        )
        ax.scatter(*X.T, c=labels, s=8, cmap="coolwarm")
        title = "kernel RIM" if kernel else "RIM"
        ax.set_title(f"{title}, {name}: ARI {adjusted_rand_score(y, labels):.2f}")
        ax.axis("off")
plt.show()
