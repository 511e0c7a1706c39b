"""Energy of samples among memories, and the dynamics that minimises it, in NumPy.

This is the definition; `_recursion` runs the same steps in n_clusters dimensions.
"""

from numbers import Integral, Real
from typing import Literal, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from skdiffclust._assignments import softmax
from skdiffclust._pairwise import product_by_sample, refuse_overflow, unit_rows
from skdiffclust._validation import refuse_silent_conversion
from skdiffclust.memories._recursion import medians
from skdiffclust.memories._scaling import by_blocks


class Dynamics(NamedTuple):
    """Parameters of a recall besides the memories."""

    inverse_temperature: float
    n_steps: int
    step_size: float
    metric: str


class Completion(NamedTuple):
    """Value and gradient of the loss of `r` restarts on one batch."""

    loss: np.ndarray  # (r,) sum over scored entries
    gradient: np.ndarray  # (r, k, d) by the memories
    weight_gradient: np.ndarray  # (r, k) by the log weights
    attracted: np.ndarray  # (r, k) samples that each memory attracts, seen whole


METRICS = ("euclidean", "cosine", "manhattan")
_OPPOSITE = 1e-7  # length, after a step on the sphere, that is rounding


def energy(
    X,
    memories,
    inverse_temperature: float,
    *,
    weights=None,
    metric: Literal["euclidean", "cosine", "manhattan"] = "euclidean",
) -> np.ndarray:
    r"""Compute the energy of samples, which is low near a memory.

    .. math:: E(v) = -\frac{1}{\beta} \log \sum_\mu \varepsilon_\mu
              \exp(-\beta\, d(\rho_\mu, v))

    where d is the squared Euclidean distance (equations (1) and (10) of [1]_), minus
    the cosine (equation (12)), or the city-block distance (Section B.8). The minima
    of the energy are the clusters.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples.
    memories : array-like of shape (n_clusters, n_features)
        Memories.
    inverse_temperature : float
        Inverse temperature β > 0 of the paper, in units of 1 / d.
    weights : array-like of shape (n_clusters,) or None, default=None
        Positive weight ε of each memory. With None, all weights are 1.
    metric : {"euclidean", "cosine", "manhattan"}, default="euclidean"
        Distance between samples and memories. With "cosine", both are first scaled to
        unit length.

    Returns
    -------
    energies : ndarray of shape (n_samples,), float64
        Energy of each sample, which is finite for β d between 1e-300 and 1e300.

    Raises
    ------
    ValueError
        If an argument is invalid.

    Notes
    -----
    The cost is O(n_samples × n_clusters × n_features). Overflow is avoided by factoring
    out the largest exponential.

    References
    ----------
    .. [1] B. Saha, D. Krotov, M. J. Zaki, P. Ram, "End-to-end Differentiable
       Clustering with Associative Memories", ICML 2023.

    Examples
    --------
    >>> from skdiffclust.memories import energy
    >>> energy([[0.0], [1.0]], [[0.0], [4.0]], 10.0)
    array([0., 1.])
    """
    field = _Field(memories, inverse_temperature, weights, metric)
    X = _check_rows(X, field.memories)
    return by_blocks(field.energy, X, width=len(field.memories))


def recall(
    X,
    memories,
    inverse_temperature: float,
    *,
    n_steps: int | np.integer = 3,
    step_size: float = 1.0,
    weights=None,
    metric: Literal["euclidean", "cosine", "manhattan"] = "euclidean",
    mask=None,
) -> np.ndarray:
    r"""Move samples towards their memories, or complete their hidden features.

    .. math:: v \leftarrow v + a \sum_\mu (\rho_\mu - v)\,
              \sigma(-\beta\, d(\rho_\mu, v) + \log \varepsilon_\mu)

    This step of equations (4) and (11) of [1]_ is repeated `n_steps` times (lines 19 to
    22 of Algorithm 1). With "cosine", the directions of the memories are added and the
    sample is scaled to unit length again (Section 3.5). With "manhattan", the mean of
    the memories is replaced by their weighted median, feature by feature, which follows
    from the same argument for this distance. The energy never increases. With a `mask`,
    only hidden features change (lines 8 to 12).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples, with initial values for their hidden features.
    memories : array-like of shape (n_clusters, n_features)
        Memories.
    inverse_temperature : float
        Inverse temperature β > 0 of the paper.
    n_steps : int, default=3
        Number of steps T of the paper.
    step_size : float, default=1.0
        Step size dt/τ of the paper, in (0, 2), at most 1 for "manhattan"; with larger
        steps, the energy may increase. The paper uses 1 / n_steps, with which samples
        move about 65 % of the way to their memory.
    weights : array-like of shape (n_clusters,) or None, default=None
        Positive weight of each memory. With None, all weights are 1.
    metric : {"euclidean", "cosine", "manhattan"}, default="euclidean"
        Distance between samples and memories.
    mask : array-like of bool, (n_features,) or (n_samples, n_features), default=None
        True for observed features, which do not change. With None, all features change.

    Returns
    -------
    recalled : ndarray of shape (n_samples, n_features), float64
        Samples after `n_steps` steps. With "cosine", they have unit length.

    Raises
    ------
    ValueError
        If an argument is invalid.

    References
    ----------
    .. [1] B. Saha, D. Krotov, M. J. Zaki, P. Ram, "End-to-end Differentiable
       Clustering with Associative Memories", ICML 2023.

    Examples
    --------
    >>> from skdiffclust.memories import recall
    >>> recall([[4.1, 5.0]], [[0.0, 1.0], [4.0, 9.0]], 2.0, mask=[True, False])
    array([[4.1, 9. ]])
    """
    field = _Field(memories, inverse_temperature, weights, metric)
    check_steps(n_steps, step_size, metric)
    X = _check_rows(X, field.memories)
    mask = np.asarray(False if mask is None else mask, dtype=bool)
    moves = ~np.broadcast_to(mask, X.shape)
    if metric == "cosine":
        X = unit_rows(X)
    for _ in range(n_steps):
        X = by_blocks(
            lambda rows, free: field.step(rows, step_size, free),
            X,
            moves,
            width=len(field.memories),
        )
    return X


def complete_by_memories(
    X, memories, inverse_temperature, *, n_steps, step_size, weights, metric
):
    """Return X (n, d) with NaN completed by `recall`, in its dtype.

    They start from the mean of the memories; seen entries stay. By "cosine" the
    recalled samples have unit length, and are scaled to the length of the seen entries.
    """
    seen = ~np.isnan(X)
    center = memories.mean(axis=0)
    start = np.where(seen, X, center).astype(np.float64)
    if metric == "cosine":
        start[~start.any(axis=1)] = center
    moved = recall(
        start,
        memories,
        inverse_temperature,
        n_steps=n_steps,
        step_size=step_size,
        weights=weights,
        metric=metric,
        mask=seen,
    )
    if metric == "cosine":
        length = np.linalg.norm(np.where(seen, X, 0.0), axis=1, keepdims=True)
        recalled = np.linalg.norm(np.where(seen, moved, 0.0), axis=1, keepdims=True)
        # Where seen entries are zeros, the length stays 1.
        moved *= np.divide(
            length, recalled, out=np.ones_like(moved[:, :1]), where=recalled > 0
        )
    return np.where(seen, X, moved).astype(X.dtype)


def entropy(
    X,
    memories,
    inverse_temperature: float,
    *,
    weights=None,
    metric: Literal["euclidean", "cosine", "manhattan"] = "euclidean",
) -> np.ndarray:
    r"""Compute the entropy of the attraction of each sample by the memories.

    .. math:: H(x) = -\sum_\mu p_\mu(x) \log p_\mu(x), \qquad
              p_\mu(x) = \sigma(-\beta\, d(\rho_\mu, x) + \log \varepsilon_\mu)

    (equation (13) of [1]_), in nats. It is 0 if a sample is attracted by a single
    memory; where this holds, the basins of attraction are the Voronoi cells of the
    memories.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples.
    memories : array-like of shape (n_clusters, n_features)
        Memories.
    inverse_temperature : float
        Inverse temperature β > 0 of the paper.
    weights : array-like of shape (n_clusters,) or None, default=None
        Positive weight of each memory. With None, all weights are 1.
    metric : {"euclidean", "cosine", "manhattan"}, default="euclidean"
        Distance between samples and memories.

    Returns
    -------
    entropies : ndarray of shape (n_samples,), float64
        Between 0 and the logarithm of the number of memories.

    Raises
    ------
    ValueError
        If an argument is invalid.

    References
    ----------
    .. [1] B. Saha, D. Krotov, M. J. Zaki, P. Ram, "End-to-end Differentiable
       Clustering with Associative Memories", ICML 2023.

    Examples
    --------
    >>> from skdiffclust.memories import entropy
    >>> entropy([[0.0], [2.0]], [[0.0], [4.0]], 10.0).round(3)
    array([0.   , 0.693])
    """
    field = _Field(memories, inverse_temperature, weights, metric)
    X = _check_rows(X, field.memories)
    return by_blocks(field.entropy, X, width=len(field.memories))


class _Field:
    """Memories with their geometry, checked; its functions take blocks of rows."""

    def __init__(self, memories, inverse_temperature, weights, metric):
        memories = _check_matrix(memories, "memories")
        check_metric(metric)
        check_temperature(inverse_temperature)
        self._log_weights = np.log(check_weights(weights, len(memories)))
        self.memories = unit_rows(memories) if metric == "cosine" else memories
        self._beta = float(inverse_temperature)
        self._metric = metric

    def energy(self, X):
        """Return the energies (m,) of rows (m, d)."""
        far = self._divergences(X)
        logits = self._logits(far)
        nearest = far.min(axis=1)
        top = logits.max(axis=1)
        spread = np.log(np.exp(logits - top[:, None]).sum(axis=1))
        return nearest - (top + spread) / self._beta

    def entropy(self, X):
        """Return the entropies (m,) of rows (m, d)."""
        p = softmax(self._logits(self._divergences(X)))
        return -np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=1)

    def step(self, X, step_size, moves):
        """Return rows (m, d) after one step of the features that move (m, d)."""
        p = softmax(self._logits(self._divergences(X)))
        if self._metric == "manhattan":
            middle = medians(p.T, self.memories)
            pull = self.memories[middle, np.arange(X.shape[1])] - X
        else:
            pull = product_by_sample(p, self.memories)
            if self._metric == "euclidean":
                pull -= X
        moved = np.where(moves, X + step_size * pull, X)
        if self._metric != "cosine":
            return moved
        # Opposite to what attracts it, a sample is at a stationary point.
        lengths = np.linalg.norm(moved, axis=1, keepdims=True)
        return np.where(lengths > _OPPOSITE, moved / np.maximum(lengths, _OPPOSITE), X)

    def _divergences(self, X):
        """Return d (m, k) of rows (m, d): what β multiplies, up to its sign."""
        if self._metric == "cosine":
            return -product_by_sample(unit_rows(X), self.memories.T)
        name = "sqeuclidean" if self._metric == "euclidean" else "cityblock"
        return cdist(X, self.memories, name)

    def _logits(self, far):
        """Return -β (d - min d) + log ε (m, k), which cannot overflow to NaN."""
        with np.errstate(over="ignore"):
            gap = self._beta * (far - far.min(axis=1, keepdims=True))
        return self._log_weights - gap


def _check_matrix(X, name):
    """Return X as a finite float64 matrix."""
    refuse_silent_conversion(X)
    # C-contiguous, so that sums along a row have a fixed order.
    X = np.ascontiguousarray(X, dtype=np.float64)
    if X.ndim != 2 or 0 in X.shape or not np.isfinite(X).all():
        raise ValueError(
            f"The {name!r} parameter must be a finite matrix with rows and columns. "
            f"Got shape {X.shape} instead, or NaN or infinity. Drop or impute them."
        )
    return X


def _check_rows(X, memories):
    """Return X (n, d) checked against the memories (k, d)."""
    X = _check_matrix(X, "X")
    if X.shape[1] != memories.shape[1]:
        raise ValueError(
            f"The 'X' parameter must have {memories.shape[1]} features, as the "
            f"memories. Got {X.shape[1]} instead. Pass the columns in the same order."
        )
    refuse_overflow([X, memories])
    return X


def check_metric(metric):
    """Refuse an unknown metric."""
    if metric not in METRICS:
        raise ValueError(
            f"The 'metric' parameter must be one of {', '.join(METRICS)}. Got "
            f"{metric!r} instead. Choose one of them."
        )


def check_temperature(beta):
    """Refuse an inverse temperature that is not positive and finite."""
    if not isinstance(beta, Real) or not 0 < beta < np.inf:
        raise ValueError(
            "The 'inverse_temperature' parameter must be a positive number. Got "
            f"{beta!r} instead. One over the variance of X is a start."
        )


def check_steps(n_steps, step_size, metric):
    """Refuse what is no number of steps, or a step size that may raise the energy."""
    if not isinstance(n_steps, Integral) or n_steps < 0:
        raise ValueError(
            f"The 'n_steps' parameter must be an integer, at least 0. Got {n_steps!r} "
            "instead. Pass the number of steps to take."
        )
    largest = "at most 1" if metric == "manhattan" else "below 2"
    allowed = 0 < step_size < 2 and (metric != "manhattan" or step_size <= 1)
    if not allowed:
        raise ValueError(
            f"The 'step_size' parameter must be positive and {largest} for metric "
            f"{metric!r}. Got {step_size!r} instead: the energy could increase. Use 1."
        )


def check_weights(weights, n_clusters):
    """Return attraction weights (k,), float64, ones if none are given."""
    if weights is None:
        return np.ones(n_clusters)
    weights = np.asarray(weights, dtype=np.float64)
    is_valid = np.isfinite(weights) & (weights > 0)
    if weights.shape != (n_clusters,) or not is_valid.all():
        raise ValueError(
            "The weights of the memories must be positive and finite, one for each of "
            f"{n_clusters} memories. Got {weights!r} instead. Pass None for equal ones."
        )
    return weights
