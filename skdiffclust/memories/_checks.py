"""Checks of the data and parameters of `ClAM`."""

import numpy as np

from skdiffclust._history import warn_of_convergence, warn_of_small_clusters

# Beside clusters of this mean size, one of a single sample is that of an outlier.
_MEAN_SIZE = 30.0


def warn_of_clusters(name, sizes):
    """Warn of clusters that are empty, or so small that they may be outliers.

    Their sizes (k,) are sums of sample weights.
    """
    n_clusters = np.count_nonzero(sizes)
    if n_clusters < len(sizes):
        found = ", ".join(f"{size:g}" for size in sizes)
        warn_of_convergence(
            f"{name} found {n_clusters} of {len(sizes)} clusters, with {found} "
            "samples. Use fewer clusters, raise inverse_temperature, or check X for "
            "equal samples.",
        )
    warn_of_small_clusters(
        name,
        sizes,
        "far outliers take memories of their own. Remove them, or use fewer clusters.",
        beside=_MEAN_SIZE,
    )


def check_weighted(weighted, metric, max_iter):
    """Refuse to learn weights of memories where there is nothing to learn from."""
    if weighted is not True:
        return
    if metric == "manhattan":
        raise ValueError(
            "The 'weighted' parameter of ClAM must be False or an array for metric "
            "'manhattan'. Got True instead, but weighted medians have no gradient by "
            "the weights. Give the weights yourself."
        )
    if max_iter == 0:
        raise ValueError(
            "The 'weighted' parameter of ClAM must be False or an array if max_iter is "
            "0. Got True instead, but weights are learned by training. Give the "
            "weights yourself, or raise max_iter."
        )


def check_constraints(n_clusters, constraints):
    """Refuse more classes than clusters."""
    n_classes = 0 if constraints is None else constraints.n_classes
    if n_clusters != "auto" and n_classes > n_clusters:
        raise ValueError(
            f"The 'n_clusters' parameter of ClAM must be at least "
            f"{n_classes}, the number of classes. Got {n_clusters} instead. Use "
            "more clusters, or merge partial labels."
        )


def check_init(init, n_clusters, X):
    """Return the initial memories (k, d), in the dtype of X."""
    memories = np.array(init, dtype=X.dtype)
    if n_clusters == "auto":
        n_clusters = len(memories)
    expected = (n_clusters, X.shape[1])
    if memories.shape != expected or not np.isfinite(memories).all():
        raise ValueError(
            "The 'init' parameter of ClAM must be finite, of shape (n_clusters, "
            f"n_features) = {expected}. Got shape {memories.shape} instead, or NaN. "
            "Give one row per cluster."
        )
    return memories


def check_half_life(half_life, n_clusters):
    """Refuse a stream that forgets faster than clusters can be told apart."""
    if n_clusters != "auto" and (half_life or np.inf) < n_clusters:
        raise ValueError(
            "The 'half_life' parameter of ClAM must be None or at least n_clusters "
            f"({n_clusters}). Got {half_life} instead. Use some hundred "
            "samples for each cluster."
        )
