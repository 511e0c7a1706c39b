"""The dtype of numbers of samples and edges, and how many samples there may be."""

import numpy as np

# Searches number components of samples by int32.
_MOST_SAMPLES = np.iinfo(np.int32).max


def small_index(n_samples):
    """Return the dtype of numbers up to twice that of samples.

    int32 where that suffices: it halves the memory and its traffic.
    """
    return np.int32 if n_samples < 2**30 else np.int64


def refuse_many_samples(name, X):
    """Refuse an array X of more samples than are numbered."""
    n_samples = X.shape[0] if getattr(X, "shape", ()) else 0
    if n_samples > _MOST_SAMPLES:
        raise ValueError(
            f"The 'X' parameter of {name} must have at most {_MOST_SAMPLES} samples. "
            f"Got {n_samples} instead. Take a subset, and predict the others."
        )
