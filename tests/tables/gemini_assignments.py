"""What a GEMINI was trained to, and a callback that ends its training."""

import numpy as np
from scipy.special import softmax
from sklearn.metrics import pairwise_distances

from skdiffclust.gemini import gemini_score


def trained(model, X):
    """Return the assignments (n, k) of the training, before calibration."""
    with np.errstate(divide="ignore"):
        logits = np.log(model.predict_proba(X))
    return softmax(model.temperature_ * logits, axis=1)


def objective_of(model, X, precomputed=None):
    """Return the objective of the trained assignments of X."""
    assignments = softmax(model._logits(X), axis=1)
    params = {
        name: getattr(model, name) for name in ("objective", "mode", "kernel", "metric")
    }
    params["kernel_params"] = getattr(model, "kernel_params", None)
    params["gamma"] = getattr(model, "gamma_", model.gamma)
    if model.objective == "wasserstein":
        if precomputed is None:
            precomputed = pairwise_distances(X, metric=model.metric)
        # The solver of transport loses digits of small distances.
        unit = precomputed.max()
        params["metric"] = "precomputed"
        return unit * gemini_score(assignments, precomputed / unit, **params)
    if precomputed is not None:
        return gemini_score(
            assignments, precomputed, **params | {"kernel": "precomputed"}
        )
    return gemini_score(assignments, X, **params)


class Ending:
    """A callback that raises an error after a task, or asks to stop from it on."""

    def __init__(self, n_tasks, error=None):
        self.n_left = n_tasks
        self.error = error

    def setup(self, estimator, context):
        """Do nothing."""

    on_fit_task_begin = teardown = setup

    def on_fit_task_end(self, estimator, context):
        """Count a task, and return whether to stop."""
        self.n_left -= 1
        if self.error is not None and self.n_left == 0:
            raise self.error
        return self.error is None and self.n_left <= 0
