"""The ratio-cut of labels, its exact expectation under soft assignments, its bound."""

from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
import scipy.sparse as sp

from skdiffclust._pairwise import check_precomputed
from skdiffclust._validation import (
    canonical_rows,
    refuse_container,
    refuse_silent_conversion,
)
from skdiffclust._warnings import warn

_N_NODES = 24
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_N_NODES)
_NODES = 0.5 * (_NODES + 1.0)
_WEIGHTS = 0.5 * _WEIGHTS
# The integrand is below exp(-size * t): past 45 / size it is below 3e-20.
_TAIL = 45.0
# Step and left end of the trapezoidal rule in x, with s = exp(x - exp(-x)).
_STEP = 0.125
_LEFT = -3.75
_UNDERFLOW = 1e-200
_FLOOR = 1e-12
_SIMPLEX_TOLERANCE = 1e-6


@dataclass(frozen=True)
class RatioCut:
    """Value of a cut, with the number of clusters and the smallest cluster size.

    Attributes
    ----------
    value : float
        Ratio-cut or normalised cut, which is at least 0.
    n_clusters : int
        Number of non-empty clusters. Fewer clusters have a lower cut.
    smallest_size : int
        Number of samples of the smallest cluster.
    """

    value: float
    n_clusters: int
    smallest_size: int


def ratio_cut(affinity, labels, *, normalized: bool = False) -> RatioCut:
    r"""Compute the ratio-cut of a partition of a weighted graph; smaller is better.

    .. math:: RC = \mathrm{Tr}(F^\top L F)
              = \sum_l \frac{1}{|C_l|} \sum_{i \in C_l, j \notin C_l} W_{ij}

    An edge between two clusters counts once for each of them. In the normalised cut,
    the sum of the degrees of a cluster replaces its number of samples.

    Parameters
    ----------
    affinity : array-like or sparse matrix of shape (n_samples, n_samples)
        Symmetric matrix W of non-negative affinities. The diagonal is ignored. A
        matrix that is not symmetric is symmetrised, with a warning.
    labels : array-like of shape (n_samples,)
        Cluster of each sample, as integers. Every value is a cluster, including -1.
    normalized : bool, default=False
        Whether to compute the normalised cut. Clusters of isolated vertices then
        contribute 0.

    Returns
    -------
    cut : RatioCut
        Object with the `value` of the cut, the number of clusters, and the size of the
        smallest one.

    Raises
    ------
    ValueError
        If the graph is not square, not finite or has a negative weight, or if the
        number of labels is wrong.

    Notes
    -----
    The cost is O(n_edges) in time and memory; sums are accumulated in float64.
    Equations (1) and (3) of the paper are half of this value, equation (6) and Theorem
    4.1 are equal to it.

    References
    ----------
    Ghriss, Monteleoni. Deep Clustering via Probabilistic Ratio-Cut Optimization.
    AISTATS 2025.

    Examples
    --------
    >>> from skdiffclust.cuts import ratio_cut
    >>> path = [[0, 1, 0], [1, 0, 3], [0, 3, 0]]
    >>> ratio_cut(path, [0, 1, 1])
    RatioCut(value=1.5, n_clusters=2, smallest_size=1)
    """
    graph = check_graph(affinity, caller="ratio_cut")
    refuse_container(labels, name="labels")
    labels = np.asarray(labels)
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(
            "The 'labels' parameter of ratio_cut must not contain NaN. Got NaN in "
            f"sample {np.isnan(labels).argmax()} instead. Give unknown samples a label."
        )
    if labels.shape != (graph.shape[0],):
        raise ValueError(
            "The 'labels' parameter of ratio_cut must have one entry for each sample "
            f"of the graph, {graph.shape[0]}. Got an array of shape {labels.shape} "
            "instead."
        )
    _, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    divisors = graph.sum(axis=1) if normalized else None
    value = cut_of_labels(graph, codes, len(sizes), divisors)
    return RatioCut(value, len(sizes), int(sizes.min()))


def cut_of_labels(graph, labels, n_clusters, divisors=None):
    """Return the cut (float) of labels (n,) in 0 .. k - 1; empty clusters count 0.

    The ratio-cut of a symmetric sparse `graph` (n, n), or, with `divisors` (n,), the
    cut over the sums of divisors of each cluster.
    """
    cuts = cuts_by_cluster(graph, labels, n_clusters)
    sizes = np.bincount(labels, divisors, minlength=n_clusters)
    return float((cuts[cuts > 0] / sizes[cuts > 0]).sum())


def cuts_by_cluster(graph, labels, n_clusters):
    """Return the weights (k,) of the edges that leave each cluster of labels (n,).

    Edges are summed, and not subtracted from the degrees, so that a small cut of a
    heavy graph keeps its digits.
    """
    rows = np.repeat(labels, np.diff(graph.indptr))
    crosses = rows != labels[graph.indices]
    return np.bincount(rows[crosses], graph.data[crosses], minlength=n_clusters)


@overload
def expected_ratio_cut(
    affinity,
    assignments,
    *,
    normalized: bool = ...,
    return_gradient: Literal[False] = ...,
) -> float: ...


@overload
def expected_ratio_cut(
    affinity, assignments, *, normalized: bool = ..., return_gradient: Literal[True]
) -> tuple[float, np.ndarray]: ...


def expected_ratio_cut(
    affinity, assignments, *, normalized: bool = False, return_gradient: bool = False
) -> float | tuple[float, np.ndarray]:
    r"""Compute the exact expectation of the ratio-cut under independent assignments.

    Sample i is in cluster l with probability :math:`P_{il}`, independently of all
    others. With :math:`F_l(t) = \prod_m (1 - P_{ml} t)` (Theorem 4.1 of the paper)

    .. math:: E[RC] = \sum_l \int_0^1 F_l(t) \sum_{ij} W_{ij}
              \frac{P_{il}}{1 - P_{il} t} \frac{1 - P_{jl}}{1 - P_{jl} t} \, dt .

    Parameters
    ----------
    affinity : array-like or sparse matrix of shape (n_samples, n_samples)
        Symmetric matrix W of non-negative affinities. The diagonal is ignored. A
        matrix that is not symmetric is symmetrised, with a warning.
    assignments : array-like of shape (n_samples, n_clusters)
        Probabilities of the clusters; rows sum to one.
    normalized : bool, default=False
        Whether to compute the normalised cut, in which the cut of a cluster is divided
        by its sum of degrees.
    return_gradient : bool, default=False
        Whether to return the gradient with respect to the assignments as well.

    Returns
    -------
    value : float
        Expected cut.
    gradient : ndarray of shape (n_samples, n_clusters), float64
        Gradient with respect to the assignments, whose entries are treated as free
        variables. Only returned if `return_gradient` is True.

    Raises
    ------
    ValueError
        If the graph or the assignments are invalid.

    Notes
    -----
    The factor common to all pairs is computed in logarithms, so that each of the 24
    nodes of the quadrature costs one sparse product, O(n_edges n_clusters). The
    Gauss-Legendre rule on ``[0, min(1, 45 / size)]`` is exact for up to 49 samples and
    accurate to about 1e-12 otherwise. For the normalised cut, the integral is over
    :math:`[0, \infty)` and is computed by a double-exponential rule with 60 to 300
    nodes, depending on the ratio of the total volume to the smallest degree. The paper
    has this quadrature, too (Lemma 4.3), notes its instability, and trains on an upper
    bound, :func:`ratio_cut_bound`. In the weights of its rule (A.4), :math:`(1 - r)^2`
    should read :math:`1 - r^2`.

    References
    ----------
    Ghriss, Monteleoni. Deep Clustering via Probabilistic Ratio-Cut Optimization.
    AISTATS 2025.

    Examples
    --------
    >>> from skdiffclust.cuts import expected_ratio_cut
    >>> path = [[0, 1, 0], [1, 0, 3], [0, 3, 0]]
    >>> round(expected_ratio_cut(path, [[1, 0], [0, 1], [0, 1]]), 12)
    1.5
    >>> round(expected_ratio_cut(path, [[0.5, 0.5]] * 3), 12)
    3.0
    """
    graph, degrees, assignments = _check_soft_partition(
        affinity, assignments, caller="expected_ratio_cut"
    )
    value, gradient = expected_cut_with_gradient(
        graph, degrees, assignments, divisors=degrees if normalized else None
    )
    return (value, gradient) if return_gradient else value


@overload
def ratio_cut_bound(
    affinity, assignments, *, return_gradient: Literal[False] = ...
) -> float: ...


@overload
def ratio_cut_bound(
    affinity, assignments, *, return_gradient: Literal[True]
) -> tuple[float, np.ndarray]: ...


def ratio_cut_bound(
    affinity, assignments, *, return_gradient: bool = False
) -> float | tuple[float, np.ndarray]:
    r"""Compute an upper bound on the expected ratio-cut with one sparse product.

    .. math:: \frac{2}{n} L_{tr}, \qquad L_{tr} = \sum_l \frac{1}{\bar P_l}
              \sum_{ij} W_{ij} (1 - P_{il}) P_{jl}

    where :math:`\bar P` are the mean assignments. For hard assignments,
    :math:`L_{tr} / n` is the ratio-cut, so that the bound is twice the ratio-cut.

    Parameters
    ----------
    affinity : array-like or sparse matrix of shape (n_samples, n_samples)
        Symmetric matrix W of non-negative affinities. The diagonal is ignored. A
        matrix that is not symmetric is symmetrised, with a warning.
    assignments : array-like of shape (n_samples, n_clusters)
        Probabilities of the clusters; rows sum to one.
    return_gradient : bool, default=False
        Whether to return the gradient with respect to the assignments as well.

    Returns
    -------
    value : float
        Upper bound.
    gradient : ndarray of shape (n_samples, n_clusters), float64
        Gradient with respect to the assignments, whose entries are treated as free
        variables. Only returned if `return_gradient` is True.

    Raises
    ------
    ValueError
        If the graph or the assignments are invalid.

    Warns
    -----
    UserWarning
        If a cluster is empty. Its proportion is then set to 1e-12 in the gradient.

    Notes
    -----
    The cost is O(n_edges n_clusters). The constant 2 is sharp. Lemma 4.5 of the paper
    has e² instead, and the statement without a constant is false. There is no such
    bound for the expected normalised cut, where the constant would have to be as large
    as the ratio of the degrees; use :func:`expected_ratio_cut`, which is exact. The
    gradient in equation (8) of the paper is wrong; for symmetric W it is
    :math:`\partial L_{tr} / \partial P =
    (d - 2 W P) / \bar P - \mathrm{colsum}((1 - P) \circ W P) / (n \bar P^2)`.

    References
    ----------
    Ghriss, Monteleoni. Deep Clustering via Probabilistic Ratio-Cut Optimization.
    AISTATS 2025.

    Examples
    --------
    >>> from skdiffclust.cuts import ratio_cut_bound
    >>> path = [[0, 1, 0], [1, 0, 3], [0, 3, 0]]
    >>> ratio_cut_bound(path, [[1, 0], [0, 1], [0, 1]])
    3.0
    """
    graph, degrees, assignments = _check_soft_partition(
        affinity, assignments, caller="ratio_cut_bound"
    )
    sizes = assignments.sum(axis=0)
    floor = _FLOOR * len(degrees)
    is_empty = sizes < floor
    if is_empty.any() and graph.nnz:
        warn(
            f"{int(is_empty.sum())} of {len(sizes)} clusters are empty: their "
            f"proportions are taken as {_FLOOR} in the gradient of ratio_cut_bound. "
            "Use fewer clusters, or keep the assignments apart.",
        )
    sizes = np.maximum(sizes, floor)
    linked = graph @ assignments
    cuts = np.einsum("ik,ik->k", assignments, degrees[:, None] - linked)
    gradient = (degrees[:, None] - 2.0 * linked) * (2.0 / sizes)
    gradient -= np.where(is_empty, 0.0, 2.0 * cuts / sizes**2)
    value = float(2.0 * (cuts / sizes).sum())
    return (value, gradient) if return_gradient else value


def cuts_of(graph, labels):
    """Return the ratio-cut and the normalised cut of labels (n,), without -1."""
    clustered = np.flatnonzero(labels >= 0)
    if len(clustered) < len(labels):
        graph = graph[clustered][:, clustered]
        labels = labels[clustered]
    n_clusters = int(labels.max(initial=0)) + 1
    return (
        cut_of_labels(graph, labels, n_clusters),
        cut_of_labels(graph, labels, n_clusters, graph.sum(axis=1)),
    )


def modularity(graph, labels, degrees):
    """Return the modularity of labels (m,), -1 for noise, of a graph with degrees (m,).

    Degrees may include edges within a node. It is 0 without any edges.
    """
    edges = graph.tocoo()
    cut = edges.data[labels[edges.row] != labels[edges.col]].sum()
    clustered = labels >= 0
    volumes = np.bincount(labels[clustered], degrees[clustered])
    total = volumes.sum()
    scale = total or 1.0
    return (total - cut) / scale - np.square(volumes / scale).sum()


def check_graph(graph, *, caller, name="affinity"):
    """Return a symmetric float64 csr_array (n, n) of weights >= 0, no diagonal."""
    refuse_silent_conversion(graph, name=name)
    graph = canonical_rows(check_precomputed(graph, name=name, kind="affinity"))
    if graph.nnz and graph.data.min() < 0:
        raise ValueError(
            f"The {name!r} parameter of {caller} must not have negative weights. Got "
            f"{graph.data.min()} instead. Convert distances to affinities first."
        )
    if graph.nnz and graph.data.max() > np.finfo(np.float64).max / (4 * graph.nnz):
        raise ValueError(
            f"The {name!r} parameter of {caller} must have weights whose sum fits "
            f"float64. Got weights up to {graph.data.max():.3g} instead: rescale them, "
            "which changes no partition."
        )
    if max(graph.nnz, graph.shape[0]) < 2**31:  # half the memory; ARPACK asks for it
        indices = graph.indices.astype(np.int32, copy=False)
        indptr = graph.indptr.astype(np.int32, copy=False)
        graph = sp.csr_array((graph.data, indices, indptr), shape=graph.shape)
    return graph


def _check_soft_partition(graph, assignments, *, caller):
    """Return a checked graph, its degrees (n,), and float64 assignments (n, k).

    Rows of the assignments are finite and sum to one.
    """
    graph = check_graph(graph, caller=caller)
    n = graph.shape[0]
    refuse_silent_conversion(assignments, name="assignments")
    assignments = np.asarray(assignments, dtype=np.float64)
    if assignments.ndim != 2 or len(assignments) != n or not assignments.shape[1]:
        raise ValueError(
            f"The 'assignments' parameter of {caller} must have shape ({n}, "
            f"n_clusters), one row for each of the graph. Got {assignments.shape} "
            "instead."
        )
    off = np.abs(assignments.sum(axis=1) - 1.0).max(initial=0.0)
    # This form refuses NaN as well.
    if not (off <= _SIMPLEX_TOLERANCE and assignments.min(initial=0.0) >= 0.0):
        raise ValueError(
            f"The 'assignments' parameter of {caller} must have rows of probabilities "
            f"that sum to one. Got a smallest entry of {assignments.min():.3g} and a "
            f"sum that is off by {off:.3g} instead. Apply a softmax first."
        )
    return graph, graph.sum(axis=1), assignments


def expected_cut_with_gradient(graph, degrees, assignments, *, divisors=None):
    """Return the exact expected cut (float) and its gradient (n, k), both float64.

    The cut of a cluster is divided by the sum of its divisors (n,), which are ones if
    None.
    """
    value = 0.0
    gradient = np.zeros(assignments.shape)
    nodes = (
        _size_nodes(assignments)
        if divisors is None
        else _volume_nodes(divisors, degrees)
    )
    for decay, weight in nodes:
        # With e = 1 - decay: F = prod(1 - p e), a = p (1 - e) / (1 - p e). Arrays (n,
        # k) are reused: only three of them and one in passing exist at a time.
        inverse = 1.0 - assignments
        inverse += assignments * decay
        np.divide(1.0, inverse, out=inverse)
        product = weight * np.exp(-np.log(inverse).sum(axis=0))
        inside = assignments * decay
        inside *= inverse
        outside = graph @ inside
        np.subtract(degrees[:, None], outside, out=outside)
        cuts = np.einsum("ik,ik->k", inside, outside)
        value += float(product @ cuts)
        outside *= 2.0
        outside -= degrees[:, None]
        derivative = np.multiply(decay, inverse, out=inside)
        derivative *= outside
        derivative -= (1.0 - decay) * cuts
        inverse *= product
        inverse *= derivative
        gradient += inverse
    return value, gradient


def _size_nodes(assignments):
    """Yield (decay (k,), weight (k,)) at each node of the integral for sizes."""
    sizes = assignments.sum(axis=0)
    upper = np.minimum(1.0, _TAIL / np.maximum(sizes, _TAIL))
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        decay = 1.0 - upper * node
        yield decay, upper * weight / decay


def _volume_nodes(divisors, degrees):
    """Yield (decay (n, 1), weight) at each node of the integral for sums of divisors.

    A sample whose divisor underflows to zero has edges of negligible weight.
    """
    positive = divisors[(degrees > 0) & (divisors > 0)]
    if not len(positive):
        return
    volume = divisors.sum()
    right = np.log(_TAIL * volume / positive.min())
    for x in np.arange(_LEFT, right + _STEP, _STEP):
        s = np.exp(x - np.exp(-x)) / volume
        decay = np.maximum(np.exp(-s * divisors), _UNDERFLOW)
        yield decay[:, None], _STEP * s * (1.0 + np.exp(-x))
