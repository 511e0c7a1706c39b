"""
=================================================================
One search over the parameters of several clusterers in pipelines
=================================================================

:class:`~sklearn.model_selection.GridSearchCV` searches the inverse temperature β of
``ClAM``, the width γ of a kernel of ``GEMINI``, the penalty α of ``SparseGEMINI`` and
the neighbours of ``GraphCutClustering`` at once: the clusterer is one more parameter of
the pipeline. No labels are needed: the scorers of :mod:`skdiffclust.metrics` evaluate
the predictions for held-out samples.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from skdiffclust import GEMINI, ClAM, GraphCutClustering, SparseGEMINI
from skdiffclust.metrics import silhouette_scorer

X, y = load_wine(return_X_y=True)
pipeline = Pipeline([("scale", StandardScaler()), ("cluster", ClAM())])
# Training starts from random samples, which takes more epochs than the default.
clam = ClAM(3, init="random", max_iter=200, learning_rate=0.05)
grids = {
    "ClAM, β": (clam, "inverse_temperature", [0.03, 0.3, 3]),
    "GEMINI, γ": (GEMINI(3, kernel="rbf", n_init=1), "gamma", [0.01, 0.1, 1]),
    "SparseGEMINI, α": (SparseGEMINI(3, n_init=1), "alpha", [0.01, 0.1, 1]),
    "GraphCut, neighbours": (GraphCutClustering(3), "n_neighbors", [2, 5, 10]),
}
grid = [
    {
        "cluster": [clusterer.set_params(random_state=0)],
        f"cluster__{name}": candidates,
    }
    for clusterer, name, candidates in grids.values()
]

# %%
# Data sets are often sorted by class, so the folds are shuffled. The features are the
# same for all candidates, so that the silhouette may compare them; it does not compare
# candidates that change the features, such as a PCA. ``scoring`` is needed: the
# ``score`` of each estimator ranks by something else.

# With the largest penalty, SparseGEMINI warns that it finds two clusters, not three.
warnings.filterwarnings("ignore", category=ConvergenceWarning)
search = GridSearchCV(
    pipeline,
    grid,
    scoring=silhouette_scorer,
    cv=KFold(3, shuffle=True, random_state=0),
    error_score="raise",
).fit(X)
ari = adjusted_rand_score(y, search.predict(X))
print(f"best: {search.best_params_}, adjusted Rand index {ari:.2f}")

# %%
# The training of a pipeline is followed by scikit-learn's callbacks: ``ScoringMonitor``
# scores every epoch and takes a dictionary of scorers, ``ProgressBar`` needs rich.

monitor = ScoringMonitor(scoring={"silhouette": silhouette_scorer})
followed = clone(pipeline).set_params(cluster=clone(clam))
followed[-1].set_callbacks(monitor)
followed.set_callbacks(ProgressBar()).fit(X)
logs = monitor.get_logs().data
epochs = [row["silhouette"] for row in logs if row["task_name"] == "epoch"]

# %%
# Above, the mean silhouette of the held-out samples. Clusters are worse if β is so
# small that memories attract distant samples, if few features are selected, and if
# samples have few neighbours. Below, the silhouette of the training samples by epoch.

results = search.cv_results_
fig, axes = plt.subplot_mosaic("01;23;44", figsize=(6, 6), layout="constrained")
for i, (title, (_, _, candidates)) in enumerate(grids.items()):
    rows = slice(3 * i, 3 * i + 3)
    mean, std = results["mean_test_score"][rows], results["std_test_score"][rows]
    ax = axes[str(i)]
    ax.errorbar(range(3), mean, std, marker="o", capsize=3)
    ax.set_xticks(range(3), candidates)
    ax.set(title=title, ylim=(0, 0.35))
fig.supylabel("silhouette")
axes["4"].plot(np.arange(1, len(epochs) + 1), epochs)
axes["4"].set(title="ClAM, during training", xlabel="epoch")
plt.show()

# %%
# The clusters of the best pipeline agree with the three growers.

assert ari > 0.75
