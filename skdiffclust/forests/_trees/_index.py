"""The dtype of numbers of samples and edges."""

import numpy as np


def small_index(n_samples):
    """Return the dtype of numbers up to twice that of samples.

    int32 where that suffices: it halves the memory and its traffic.
    """
    return np.int32 if n_samples < 2**30 else np.int64
