"""
=========================================================
A cross-validated search finds the number of wine growers
=========================================================

A search for the number of clusters needs no labels: the scorers of
:mod:`skdiffclust.metrics` evaluate the predictions of a pipeline for held-out samples.
The training of the best pipeline is followed by the callbacks of scikit-learn:
``ScoringMonitor`` scores every epoch, and ``ProgressBar`` (which needs rich) draws a
progress bar.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdiffclust import ClAM
from skdiffclust.metrics import get_scorer, silhouette_scorer

X, y = load_wine(return_X_y=True)

# %%
# Data sets are often sorted by class, so the folds are shuffled. Otherwise whole
# clusters would be missing from a fold.

candidates = [2, 3, 4, 5, 6]
model = make_pipeline(StandardScaler(), ClAM(random_state=0))
names = ["silhouette", "calinski_harabasz", "stability"]
search = GridSearchCV(
    model,
    {"clam__n_clusters": candidates},
    scoring={name: get_scorer(name) for name in names},
    refit="silhouette",
    cv=KFold(3, shuffle=True, random_state=0),
).fit(X)
ari = adjusted_rand_score(y, search.predict(X))
print(f"chosen: {search.best_params_}, adjusted Rand index {ari:.2f}")

# %%
# The best pipeline is fitted again, with a random initialisation, because training
# hardly changes the solution of k-means. A monitor is set on the step that is trained,
# and takes a dictionary of scorers; a progress bar is set on the pipeline.

monitor = ScoringMonitor(scoring={"silhouette": silhouette_scorer})
best = search.best_estimator_
best[-1].set_params(init="random").set_callbacks(monitor)
best.set_callbacks(ProgressBar()).fit(X)
logs = monitor.get_logs().data
epochs = [row["silhouette"] for row in logs if row["task_name"] == "epoch"]

# %%
# The mean scores of the held-out samples, with their standard deviation over the folds.

fig, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
for name, ax in zip(names, axes, strict=False):
    mean = search.cv_results_[f"mean_test_{name}"]
    std = search.cv_results_[f"std_test_{name}"]
    ax.errorbar(candidates, mean, std, marker="o", capsize=3)
    best = np.argmax(mean)
    ax.plot(candidates[best], mean[best], "o", color="C1", markersize=9)
    title = f"{name}: {candidates[best]} clusters".replace("_", "-")
    ax.set(title=title, xlabel="n_clusters", xticks=candidates)
axes[3].plot(np.arange(1, len(epochs) + 1), epochs)
axes[3].set(title="Silhouette during training", xlabel="epoch")
plt.show()

# %%
# All scores are largest for three clusters, which agree with the three growers.

for name in names:
    best_of_score = np.argmax(search.cv_results_[f"mean_test_{name}"])
    assert candidates[best_of_score] == 3
assert ari > 0.85
