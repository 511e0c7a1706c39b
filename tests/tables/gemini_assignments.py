"""What a GEMINI was trained to, from the probabilities that it predicts."""

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
