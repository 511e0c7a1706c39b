"""The objectives as a public function of assignments and data."""

from numbers import Real
from typing import Any, Literal, overload

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from skdiffclust._compat import Interval, StrOptions, validate_params
from skdiffclust._validation import canonical_rows, refuse_silent_conversion
from skdiffclust.gemini._objectives import OBJECTIVES, ObjectiveName
from skdiffclust.gemini._problem import Units
from skdiffclust.gemini._relations import (
    KERNELS,
    METRICS,
    PRECOMPUTED,
    make_relation,
    scale_gamma,
)
from skdiffclust.gemini._sparse_rows import centered, weighted_means


def available_objectives() -> list[str]:
    """Return the names of the objectives.

    Returns
    -------
    list of str
        Possible values of the parameter `objective` of
        :func:`~skdiffclust.gemini.gemini_score`, :class:`~skdiffclust.GEMINI` and
        :class:`~skdiffclust.SparseGEMINI`, in alphabetical order.

    Examples
    --------
    >>> from skdiffclust.gemini import available_objectives
    >>> available_objectives()
    ['chi2', 'hellinger', 'kl', 'mmd', 'tv', 'wasserstein']
    """
    return sorted(OBJECTIVES)


@overload
def gemini_score(
    assignments,
    X,
    *,
    objective: ObjectiveName = ...,
    mode: Literal["auto", "ova", "ovo"] = ...,
    kernel: object = ...,
    metric: object = ...,
    gamma: float | Literal["scale"] | None = ...,
    kernel_params: dict[str, Any] | None = ...,
    return_gradient: Literal[False] = ...,
) -> float: ...


@overload
def gemini_score(
    assignments,
    X,
    *,
    objective: ObjectiveName = ...,
    mode: Literal["auto", "ova", "ovo"] = ...,
    kernel: object = ...,
    metric: object = ...,
    gamma: float | Literal["scale"] | None = ...,
    kernel_params: dict[str, Any] | None = ...,
    return_gradient: Literal[True],
) -> tuple[float, np.ndarray]: ...


@validate_params(
    {
        "objective": [StrOptions(set(OBJECTIVES))],
        "mode": [StrOptions({"auto", "ova", "ovo"})],
        "kernel": [*KERNELS, PRECOMPUTED],
        "metric": [*METRICS, PRECOMPUTED],
        "gamma": [StrOptions({"scale"}), Interval(Real, 0, None, closed="left"), None],
        "kernel_params": [dict, None],
        "return_gradient": ["boolean"],
    },
    prefer_skip_nested_validation=False,
)
def gemini_score(
    assignments,
    X,
    *,
    objective: ObjectiveName = "mmd",
    mode: Literal["auto", "ova", "ovo"] = "auto",
    kernel: object = "linear",
    metric: object = "euclidean",
    gamma: float | Literal["scale"] | None = None,
    kernel_params: dict[str, Any] | None = None,
    return_gradient: bool = False,
) -> float | tuple[float, np.ndarray]:
    r"""Compute the generalised mutual information (GEMINI) of a clustering.

    .. math::
        I^{ova} = \sum_k \pi_k D(p(x|y=k), p(x)), \qquad
        I^{ovo} = \sum_{kl} \pi_k \pi_l D(p(x|y=k), p(x|y=l))

    The value is the mean divergence between the distribution of a cluster and that of
    all samples, or that of another cluster (equations (2) and (3) of [1]_). Larger is
    better.

    Parameters
    ----------
    assignments : array-like of shape (n_samples, n_clusters)
        Probabilities of the clusters; rows sum to one. float32 is preserved.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Samples, or the dense (n_samples, n_samples) matrix of kernels or distances
        between them if `kernel` or `metric` is "precomputed". Ignored by the objectives
        "kl", "tv", "hellinger" and "chi2", which depend on the assignments only.
    objective : str, default="mmd"
        One of :func:`~skdiffclust.gemini.available_objectives`: "mmd", the distance
        between means in the space of a kernel; "wasserstein", the cost of optimal
        transport under a metric; or an f-divergence, which is "kl" (its one-vs-all form
        is the mutual information), "tv" (half the sum of absolute differences),
        "hellinger" (one minus the affinity) or "chi2".
    mode : {"auto", "ova", "ovo"}, default="auto"
        One-vs-all or one-vs-one; "auto" is resolved as in :class:`~skdiffclust.GEMINI`.
    kernel : str, callable or transformer, default="linear"
        Kernel of "mmd": a name of :func:`sklearn.metrics.pairwise.pairwise_kernels`, a
        function of two samples, "precomputed", or a transformer to explicit features
        such as :class:`~sklearn.kernel_approximation.Nystroem`.
    metric : str or callable, default="euclidean"
        Metric of "wasserstein", one of :func:`sklearn.metrics.pairwise_distances` or
        "precomputed".
    gamma : float, "scale" or None, default=None
        Coefficient of the kernels "rbf", "laplacian", "chi2", "poly", "polynomial" and
        "sigmoid". None uses the default of scikit-learn. "scale" uses one over the sum
        of the variances of the features (for "laplacian" and "chi2", one over the
        square root of n_features times that sum).
    kernel_params : dict or None, default=None
        Further parameters of `kernel`: "degree" (by default 3) and "coef0" (1) of
        "poly" and "polynomial", "coef0" of "sigmoid", or keyword arguments of a
        function.
    return_gradient : bool, default=False
        Whether to return the gradient as well.

    Returns
    -------
    value : float
        Objective, which is at least 0, and 0 if the distributions of all clusters are
        equal.
    gradient : ndarray of shape (n_samples, n_clusters)
        Gradient with respect to the assignments. Only returned if `return_gradient` is
        True. The assignments are treated as free positive numbers; within the simplex,
        the gradient is defined up to a constant for each sample. It is zero where a
        distance is zero.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    Notes
    -----
    "mmd" costs O(n d k) with the linear kernel or a transformer and O(n² k) with other
    kernels. The f-divergences cost O(n k) in one-vs-all mode and O(n k²) in one-vs-one
    mode. "wasserstein" solves k (one-vs-one, k (k - 1) / 2) transport problems between
    n points exactly, with POT if it is installed and with
    :func:`scipy.optimize.linprog` otherwise. If the dual potentials are not unique,
    neither is the gradient.

    In f-divergences, probabilities are clipped from below at 2e-12 (6e-6 in float32).
    Otherwise, "kl" and "chi2" of hard assignments would be infinite in one-vs-one mode.
    Their values in this case (18 and 4e11 for three clusters of equal size) depend on
    the clipping.

    References
    ----------
    .. [1] L. Ohl et al., "Sparse and geometry-aware generalisation of the mutual
       information for joint discriminative clustering and feature selection",
       Statistics and Computing 34:155, 2024.

    Examples
    --------
    >>> from skdiffclust.gemini import gemini_score
    >>> X = [[0.0], [1.0], [4.0], [5.0]]
    >>> gemini_score([[1, 0], [1, 0], [0, 1], [0, 1]], X)
    2.0
    >>> gemini_score([[1, 0], [0, 1], [1, 0], [0, 1]], X)
    0.5
    """
    refuse_silent_conversion(X)
    refuse_silent_conversion(assignments, name="assignments")
    X = check_array(X, dtype=[np.float64, np.float32], accept_sparse="csr")
    X = canonical_rows(X) if issparse(X) else X
    n_samples, n_features = X.shape
    assignments = check_array(assignments, dtype=[np.float64, np.float32])
    if len(assignments) != n_samples:
        raise ValueError(
            "The 'assignments' parameter of gemini_score must have one row for each "
            f"of the {n_samples} samples of X. Got {len(assignments)} instead."
        )
    _check_simplex(assignments)
    row = OBJECTIVES[objective]
    weights = np.full(n_samples, 1 / n_samples)
    is_linear = row.relation == "kernel" and kernel == "linear"
    if is_linear or gamma == "scale":
        rows = centered(X, weighted_means(X, weights))
    if gamma == "scale":
        gamma = scale_gamma(
            kernel, n_features, Units.of_rows(rows, weights, 0).features
        )
    X = rows if is_linear else X
    relation = make_relation(row.relation, X, kernel, metric, gamma, kernel_params)
    weights = weights.astype(assignments.dtype)
    value, gradient = row.with_gradient(mode)(assignments, weights, relation)
    gradient = gradient.astype(assignments.dtype, copy=False)
    return (value, gradient) if return_gradient else value


def _check_simplex(assignments):
    """Refuse rows that are not probabilities."""
    worst = np.abs(assignments.sum(axis=1) - 1).max()
    if assignments.min() < 0 or worst > 1e-3:
        raise ValueError(
            "The 'assignments' parameter of gemini_score must be probabilities: not "
            f"negative, rows summing to one. Got a smallest entry {assignments.min()} "
            f"and a sum that is off by {worst:.3g} instead. Divide each row by its sum."
        )
