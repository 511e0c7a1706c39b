"""What a GEMINI was trained to, from the probabilities that it predicts."""

import numpy as np

from skdiffclust._assignments import softmax


def trained(model, X):
    """Return the assignments (n, k) of the training, before calibration."""
    with np.errstate(divide="ignore"):
        logits = np.log(model.predict_proba(X))
    return softmax(model.temperature_ * logits)


def objective_of(model, X, affinity=None):
    """Return the objective of the trained assignments of X."""
    return model._objective_of(X, affinity=affinity)
