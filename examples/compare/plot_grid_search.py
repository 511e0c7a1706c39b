"""
============================================
A search for the number of clusters, watched
============================================

No labels are needed to search: the scorers of :mod:`skdiffclust.metrics` judge what a
fitted pipeline predicts on rows that were held out. The training of the winner is then
watched by scikit-learn's own callbacks: ``ScoringMonitor`` scores every epoch, and
``ProgressBar`` (which needs rich) draws a bar.
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
# The rows of a data set often come in order, so the folds are shuffled: without it,
# whole clusters would be missing from a fold.

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
# The best pipeline once more, from random rows, so that there is something to learn. A
# monitor belongs to the step that trains, and takes scorers in a dictionary; a bar
# belongs to whatever is fitted outermost.

monitor = ScoringMonitor(scoring={"silhouette": silhouette_scorer})
best = search.best_estimator_
best[-1].set_params(init="random").set_callbacks(monitor)
best.set_callbacks(ProgressBar()).fit(X)
logs = monitor.get_logs().data
epochs = [row["silhouette"] for row in logs if row["task_name"] == "epoch"]

# %%
# Scores have different units: each is drawn between its least and its greatest value.

fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for name in names:
    scores = search.cv_results_[f"mean_test_{name}"]
    scaled = (scores - scores.min()) / np.ptp(scores)
    axes[0].plot(candidates, scaled, "o-", label=name)
axes[0].set(title="held-out scores, rescaled", xlabel="n_clusters", xticks=candidates)
axes[0].legend()
axes[1].plot(np.arange(1, len(epochs) + 1), epochs)
axes[1].set(title="silhouette while the winner trains", xlabel="epoch")
plt.show()

# %%
# The scores agree on three clusters, and those are the three growers of the wines.

for name in names:
    best_of_score = np.argmax(search.cv_results_[f"mean_test_{name}"])
    assert candidates[best_of_score] == 3
assert ari > 0.85
