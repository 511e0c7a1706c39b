"""What a GEMINI was trained to, from the probabilities that it predicts."""

import numpy as np

from skdiffclust._assignments import softmax
from skdiffclust.gemini import gemini_score


def trained(model, X):
    """Return the assignments (n, k) of the training, before calibration."""
    with np.errstate(divide="ignore"):
        logits = np.log(model.predict_proba(X))
    return softmax(model.temperature_ * logits)


def objective_of(model, X, affinity=None):
    """Return the objective of the trained assignments of X."""
    assignments = softmax(model._logits(X))
    params = {
        name: getattr(model, name)
        for name in ("objective", "mode", "kernel", "metric", "kernel_params")
    }
    params["gamma"] = getattr(model, "gamma_", model.gamma)
    if affinity is not None:
        X = affinity
        name = {"mmd": "kernel", "wasserstein": "metric"}[model.objective]
        params[name] = "precomputed"
    return gemini_score(assignments, X, **params)
