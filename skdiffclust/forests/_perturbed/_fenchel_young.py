"""Losses between an affinity and a known forest, or known links."""

from numbers import Real
from typing import Literal, overload

import numpy as np
from scipy.sparse import csr_array

from skdiffclust._compat import Interval, validate_params
from skdiffclust._constraints import check_pairs
from skdiffclust.forests._perturbed._hash import draw_seed
from skdiffclust.forests._perturbed._perturbation import (
    NOISE_RULES,
    checked_relation,
    constraints_for,
    partial_loss_with_gradient,
    sum_samples,
)
from skdiffclust.forests._perturbed._samplers import (
    Noise,
    make_sampler,
    weighted_scores,
)
from skdiffclust.forests._trees._tree import components

_LOSS_RULES = {
    "noise_scale": [Interval(Real, 0, np.inf, closed="neither")],
    "n_perturbations": NOISE_RULES["n_perturbations"],
    "random_state": NOISE_RULES["random_state"],
    "return_gradient": ["boolean"],
}


@overload
def fenchel_young_loss(
    affinity,
    forest,
    *,
    noise_scale: float = ...,
    n_perturbations: int | np.integer = ...,
    random_state=...,
    return_gradient: Literal[False] = ...,
) -> float: ...


@overload
def fenchel_young_loss(
    affinity,
    forest,
    *,
    noise_scale: float = ...,
    n_perturbations: int | np.integer = ...,
    random_state=...,
    return_gradient: Literal[True],
) -> tuple[float, np.ndarray | csr_array]: ...


@validate_params(_LOSS_RULES, prefer_skip_nested_validation=True)
def fenchel_young_loss(
    affinity,
    forest,
    *,
    noise_scale: float = 0.1,
    n_perturbations: int | np.integer = 100,
    random_state=None,
    return_gradient: bool = False,
) -> float | tuple[float, np.ndarray | csr_array]:
    """Compute the Fenchel-Young loss between an affinity and a known forest.

    The loss is E[max ⟨A, Σ + εZ⟩ - ⟨A°, Σ + εZ⟩], where the maximum is over all
    k-forests A, and A° is the target. It is non-negative, convex in the affinity, and
    zero if A° is the heaviest forest for all draws. If only links or labels are known,
    use :func:`partial_fenchel_young_loss`.

    Parameters
    ----------
    affinity : array-like or sparse matrix of shape (n_samples, n_samples)
        Symmetric affinity Σ, as in :func:`perturbed_forest`.
    forest : array-like of shape (n_edges, 2)
        Target A°: edges as pairs of sample indices, without a cycle. The number of
        clusters is ``n_samples - n_edges``.
    noise_scale : float, default=0.1
        Scale ε > 0 of the noise, in the units of the affinity.
    n_perturbations : int, default=100
        Number of noise samples B, drawn in antithetic pairs.
    random_state : int, RandomState instance or None, default=None
        Determines the noise. Pass an int for reproducible results.
    return_gradient : bool, default=False
        Whether to return the gradient with respect to the affinity as well.

    Returns
    -------
    loss : float
        Loss. In ⟨A, Σ⟩, each edge counts twice, as in the paper.
    gradient : ndarray or csr_array of shape (n_samples, n_samples)
        Gradient A_ε - A°. Only returned if `return_gradient` is True.

    Raises
    ------
    ValueError
        If `forest` has a cycle, or edges that are not stored in a sparse affinity.

    Notes
    -----
    See Definition 7 of the NeurIPS 2023 paper and the equation after it; the constant
    εΩ(A°) is omitted. The cost is that of :func:`perturbed_forest`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust.forests import fenchel_young_loss
    >>> affinity = np.array([[0, 9, 1], [9, 0, 2], [1, 2, 0.0]])
    >>> fenchel_young_loss(affinity, [[0, 1]], random_state=0)
    0.0
    """
    relation = checked_relation(affinity, 1)
    n = relation.n_samples
    edges = check_forest(forest, n)
    plan = _loss_noise(noise_scale, n_perturbations, random_state)
    target = _positions(relation, np.sort(edges, axis=1))
    sampler = make_sampler(relation, None, n - len(edges), plan)
    sums = sum_samples(sampler, relation, plan)
    reached = relation.weights[target].sum()
    if plan.n_samples % 2:  # else the noise of the pairs cancels
        weights = np.full(plan.n_samples, plan.scale / plan.n_samples)
        # Standard normal noise is its own score.
        reached += weighted_scores(relation, plan, weights)[target].sum()
    loss = 2.0 * float(max(sums.totals.mean() - reached, 0.0))
    if not return_gradient:
        return loss
    gradient = sums.edges / plan.n_samples
    gradient[target] -= 1.0
    return loss, relation.spread(gradient)


@overload
def partial_fenchel_young_loss(
    affinity,
    constraints,
    n_clusters: int | np.integer,
    *,
    noise_scale: float = ...,
    n_perturbations: int | np.integer = ...,
    random_state=...,
    return_gradient: Literal[False] = ...,
) -> float: ...


@overload
def partial_fenchel_young_loss(
    affinity,
    constraints,
    n_clusters: int | np.integer,
    *,
    noise_scale: float = ...,
    n_perturbations: int | np.integer = ...,
    random_state=...,
    return_gradient: Literal[True],
) -> tuple[float, np.ndarray]: ...


@validate_params(
    {**_LOSS_RULES, "n_clusters": NOISE_RULES["n_clusters"]},
    prefer_skip_nested_validation=True,
)
def partial_fenchel_young_loss(
    affinity,
    constraints,
    n_clusters: int | np.integer,
    *,
    noise_scale: float = 0.1,
    n_perturbations: int | np.integer = 100,
    random_state=None,
    return_gradient: bool = False,
) -> float | tuple[float, np.ndarray]:
    """Compute the partial Fenchel-Young loss between an affinity and known links.

    The loss is F_ε(Σ) - F_ε(Σ; M_Ω): the weight that the heaviest k-forest loses, on
    average over the noise, when it has to satisfy the constraints. It is non-negative,
    zero if the constraints are always satisfied, and not convex. Use it to learn an
    embedding: by the chain rule, multiply its gradient by the derivative of the
    affinity with respect to the embedding.

    Parameters
    ----------
    affinity : array-like of shape (n_samples, n_samples)
        Symmetric affinity Σ, as in :func:`perturbed_forest`.
    constraints : array-like or sparse matrix
        Partial labels of shape (n_samples,) with -1 for unknown, or a matrix of shape
        (n_samples, n_samples) with +1 for pairs that must share a component, -1 for
        pairs that must not, and 0 for unknown.
    n_clusters : int
        Number of components k of the forests.
    noise_scale : float, default=0.1
        Scale ε > 0 of the noise, in the units of the affinity, which should be
        divided by its standard deviation first.
    n_perturbations : int, default=100
        Number of noise samples B, drawn in antithetic pairs.
    random_state : int, RandomState instance or None, default=None
        Determines the noise. Pass an int for reproducible results.
    return_gradient : bool, default=False
        Whether to return the gradient with respect to the affinity as well.

    Returns
    -------
    loss : float
        Loss. In ⟨A, Σ⟩, each edge counts twice, as in the paper.
    gradient : ndarray of shape (n_samples, n_samples)
        Gradient A_ε(Σ) - A_ε(Σ; M_Ω), which is symmetric: (i, j) and (j, i) are treated
        as separate variables. Only returned if `return_gradient` is True.

    Raises
    ------
    ValueError
        If the constraints contradict each other or the number of clusters, or the
        affinity leaves out pairs.

    See Also
    --------
    perturbed_forest : The means whose difference is the loss.

    Notes
    -----
    See Definition 8 and Proposition 1 of the NeurIPS 2023 paper. The free and the
    constrained forest of a draw share their noise, so that each draw contributes a
    non-negative value. Because finding the best constrained forest is NP-hard, the
    forest found is not always optimal, and the loss is an upper bound on that of the
    paper.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust.forests import partial_fenchel_young_loss
    >>> x = np.array([0.0, 0.1, 1.0, 1.3])
    >>> affinity = -np.subtract.outer(x, x) ** 2
    >>> loss = partial_fenchel_young_loss(affinity, [0, 1, 1, 1], 2, random_state=0)
    >>> loss > 0.5
    True
    >>> partial_fenchel_young_loss(affinity, [0, 0, -1, 1], 2, random_state=0) < 0.1
    True
    """
    relation = checked_relation(affinity, n_clusters)
    constraints = constraints_for(relation, constraints)
    plan = _loss_noise(noise_scale, n_perturbations, random_state)
    loss, gradient = partial_loss_with_gradient(relation, constraints, n_clusters, plan)
    return (loss, relation.spread(gradient)) if return_gradient else loss


def _loss_noise(noise_scale, n_perturbations, random_state):
    """Return the normal noise of a loss."""
    seed = draw_seed(random_state)
    return Noise(float(noise_scale), int(n_perturbations), "normal", seed)


def check_forest(forest, n):
    """Return the edges (m, 2) of a forest of n rows; refuse a cycle."""
    edges = check_pairs(forest, n, "The 'forest' parameter")
    n_trees = components(edges, n).max(initial=-1) + 1
    if n_trees > n - len(edges):
        raise ValueError(
            "The 'forest' parameter must be a forest. Got a cycle instead, since "
            f"{len(edges)} edges leave {n_trees} trees of {n} samples. Leave out one "
            "edge of every cycle."
        )
    return edges


def _positions(relation, edges):
    """Return the positions (m,) of edges (m, 2), i < j, in the list of a relation."""
    n = relation.n_samples
    heads, columns = relation.ends
    keys = heads.astype(np.int64) * n + columns
    wanted = edges[:, 0] * n + edges[:, 1]
    is_missing = ~np.isin(wanted, keys)
    if is_missing.any():
        i, j = edges[np.argmax(is_missing)]
        raise ValueError(
            "The 'forest' parameter must hold edges of the affinity. Got the edge "
            f"({i}, {j}) instead, which is not stored. Store it, or pass a dense one."
        )
    return np.searchsorted(keys, wanted)
