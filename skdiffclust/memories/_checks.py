"""Checks of the data and parameters of `ClAM`."""

import numpy as np

from skdiffclust._history import warn_of_convergence, warn_of_small_clusters
from skdiffclust.memories._dynamics import check_steps

# Beside clusters of this mean size, one of a single sample is that of an outlier.
_MEAN_SIZE = 30.0


def refuse_many_clusters(estimator, weight):
    """Refuse more clusters than samples of positive weight (n,)."""
    n_samples = np.count_nonzero(weight)
    if estimator.n_clusters != "auto" and estimator.n_clusters > n_samples:
        raise ValueError(
            f"The 'n_clusters' parameter of {type(estimator).__name__} must be at most "
            f"the number of samples, n_samples={n_samples}. Got "
            f"{estimator.n_clusters} instead. Use fewer clusters."
        )


def count_memories(estimator, Z, weight, random_state):
    """Return the number of clusters of samples Z (m, d); keep curve and candidates.

    Warns where there are several candidates.
    """
    # numba is imported here, because it would slow down the import of the package.
    from skdiffclust._n_clusters import count_clusters

    count = count_clusters(Z, weight, random_state)
    count.publish(estimator)
    return count.best


def warn_of_clusters(name, sizes):
    """Warn of clusters that are empty, or so small as to be outliers.

    Their sizes (k,) are sums of sample weights.
    """
    n_clusters = np.count_nonzero(sizes)
    if n_clusters < len(sizes):
        found = ", ".join(f"{size:g}" for size in sizes)
        warn_of_convergence(
            f"{name} found {n_clusters} clusters instead of {len(sizes)}, with {found} "
            "samples. Use fewer clusters, raise inverse_temperature, or check X for "
            "equal samples.",
        )
    warn_of_small_clusters(
        name,
        sizes,
        "far outliers take memories of their own. Remove them, or use fewer clusters.",
        beside=_MEAN_SIZE,
    )


def check_problem(clam):
    """Refuse parameters that do not go together."""
    check_steps(clam.n_steps, clam.step_size, clam.metric)
    if clam.metric == "manhattan" and clam.weighted is True:
        raise ValueError(
            "The 'weighted' parameter of ClAM must be False or an array for metric "
            "'manhattan'. Got True instead, but weighted medians have no gradient by "
            "the weights. Give the weights yourself."
        )


def check_constraints(clam, constraints):
    """Refuse more classes than clusters."""
    n_classes = 0 if constraints is None else constraints.n_classes
    if clam.n_clusters != "auto" and n_classes > clam.n_clusters:
        raise ValueError(
            f"The 'n_clusters' parameter of ClAM must be at least "
            f"{n_classes}, the number of classes. Got {clam.n_clusters} instead. Use "
            "more clusters, or merge partial labels."
        )


def check_init(clam, memories, X):
    """Return the initial memories (k, d), in the dtype of X."""
    memories = np.array(memories, dtype=X.dtype)
    n_clusters = len(memories) if clam.n_clusters == "auto" else clam.n_clusters
    expected = (n_clusters, X.shape[1])
    if memories.shape != expected or not np.isfinite(memories).all():
        raise ValueError(
            "The 'init' parameter of ClAM must be finite, of shape (n_clusters, "
            f"n_features) = {expected}. Got shape {memories.shape} instead, or NaN. "
            "Give one row per cluster."
        )
    return memories


def check_half_life(clam):
    """Refuse a stream that forgets faster than clusters can be told apart."""
    if clam.n_clusters != "auto" and (clam.half_life or np.inf) < clam.n_clusters:
        raise ValueError(
            "The 'half_life' parameter of ClAM must be None or at least n_clusters "
            f"({clam.n_clusters}). Got {clam.half_life} instead. Use some hundred "
            "samples for each cluster."
        )
