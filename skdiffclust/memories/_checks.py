"""Checks of the data and parameters of `ClAM`."""

import numpy as np

from skdiffclust._affinity import refuse_zero_rows


def check_problem(clam, weight, first):
    """Refuse parameters that do not fit samples of these weights (n,)."""
    n_samples = np.count_nonzero(weight)
    if first and clam.n_clusters != "auto" and clam.n_clusters > n_samples:
        raise ValueError(
            "The 'n_clusters' parameter of ClAM must be at most the number of samples, "
            f"n_samples={n_samples}. Got {clam.n_clusters} instead. Use fewer "
            "clusters."
        )
    if clam.encoder is not None and not isinstance(clam.init, str):
        raise ValueError(
            "The 'init' parameter of ClAM must be 'k-means++' or 'random' with an "
            "encoder. Got an array instead, but codes are not known before training. "
            "Leave it out."
        )
    if clam.metric != "manhattan":
        return
    if clam.step_size > 1:
        raise ValueError(
            "The 'step_size' parameter of ClAM must be at most 1 for metric "
            f"'manhattan'. Got {clam.step_size} instead: the energy could increase. "
            "Use 1."
        )
    if clam.weighted is True:
        raise ValueError(
            "The 'weighted' parameter of ClAM must be False or an array for metric "
            "'manhattan'. Got True instead, but weighted medians have no gradient by "
            "the weights. Give the weights yourself."
        )


def check_constraints(clam, constraints):
    """Refuse more classes than clusters."""
    if constraints is None or clam.n_clusters == "auto":
        return
    if constraints.n_classes > clam.n_clusters:
        raise ValueError(
            f"The 'n_clusters' parameter of ClAM must be at least "
            f"{constraints.n_classes}, the number of classes. Got {clam.n_clusters} "
            "instead. Use more clusters, or merge partial labels."
        )


def refuse_checkpoint(clam, checkpoint):
    """Refuse a checkpoint if nothing would be written, or not everything could be."""
    if checkpoint is not None and clam.encoder is None:
        raise ValueError(
            "The 'checkpoint' parameter of ClAM.fit must be None without an encoder. "
            f"Got {checkpoint!r} instead. Leave it out: memories alone take seconds, "
            "and partial_fit continues where it was."
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
    if clam.metric == "cosine":
        refuse_zero_rows(memories)
    return memories


def check_half_life(clam):
    """Refuse a stream that forgets faster than clusters can be told apart."""
    if clam.half_life is None or clam.n_clusters == "auto":
        return
    if clam.half_life < clam.n_clusters:
        raise ValueError(
            "The 'half_life' parameter of ClAM must be None or at least n_clusters "
            f"({clam.n_clusters}). Got {clam.half_life} instead. Use some hundred "
            "samples for each cluster."
        )
