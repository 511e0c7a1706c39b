"""Perturbed spanning forests: their means and the gradients of these."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

import numpy as np

from skdiffclust._compat import Interval, StrOptions, validate_params
from skdiffclust._constraints import constraints_from_matrix
from skdiffclust._pairwise import check_precomputed
from skdiffclust._short_repr import short_repr
from skdiffclust._validation import check_dense_size
from skdiffclust.forests._perturbed._hash import draw_seed
from skdiffclust.forests._perturbed._relation import relation_of
from skdiffclust.forests._perturbed._samplers import (
    Noise,
    make_sampler,
    run_samples,
    weighted_scores,
)

# Shared by the functions of this room that draw noise.
NOISE_RULES = {
    "n_clusters": [Interval(Integral, 1, None, closed="left")],
    "noise_scale": [Interval(Real, 0, np.inf, closed="left")],
    "n_perturbations": [Interval(Integral, 1, None, closed="left")],
    "noise": [StrOptions({"normal", "gumbel"})],
    "random_state": ["random_state"],
}


@dataclass(frozen=True, eq=False)
class PerturbedForestResult:
    """Means over perturbed maximum spanning forests, returned by `perturbed_forest`.

    Attributes
    ----------
    forest : ndarray or csr_array of shape (n_samples, n_samples), float64
        Perturbed forest A_ε: fraction of the draws whose forest contains each edge. It
        is symmetric with a zero diagonal, its upper triangle sums to ``n_samples -
        n_clusters``, and it is the gradient of `weight`.
    weight : float
        Perturbed weight F_ε, the mean of ⟨A, Σ + εZ⟩, in which each edge counts twice.
    connectivity : ndarray of shape (n_samples, n_samples), float64, or None
        Perturbed connectivity M_ε: fraction of the draws in which two samples share a
        component. Its diagonal is 1.
    """

    forest: object
    weight: float
    connectivity: np.ndarray | None = None

    __repr__ = short_repr


@validate_params(
    {**NOISE_RULES, "return_connectivity": ["boolean"]},
    prefer_skip_nested_validation=False,
)
def perturbed_forest(
    affinity,
    n_clusters: int | np.integer,
    *,
    noise_scale: float = 0.1,
    n_perturbations: int | np.integer = 100,
    noise: Literal["normal", "gumbel"] = "normal",
    constraints=None,
    random_state=None,
    return_connectivity: bool = False,
) -> PerturbedForestResult:
    """Average the maximum spanning k-forests of noisy copies of an affinity.

    This is a Monte Carlo estimate of the perturbed forest A_ε(Σ) = E[A_k*(Σ + εZ)]
    (Definition 6 of the paper). Unlike the forest itself, which is piecewise constant,
    it is a smooth function of the affinity. Use it to see which edges of a clustering
    are certain or, with :func:`partial_fenchel_young_loss` and :mod:`skdiffclust.nn`,
    to learn an affinity.

    Parameters
    ----------
    affinity : array-like or sparse matrix of shape (n_samples, n_samples)
        Symmetric affinity Σ of any sign. The diagonal is ignored. In a sparse matrix,
        the stored entries are the edges.
    n_clusters : int
        Number of components k of each forest.
    noise_scale : float, default=0.1
        Scale ε of the noise, in the units of the affinity, which should be divided by
        its standard deviation first. With 0, the result is the exact forest.
    n_perturbations : int, default=100
        Number of noise samples B, drawn in antithetic pairs.
    noise : {"normal", "gumbel"}, default="normal"
        Distribution of the noise, standard normal or standard Gumbel. It is independent
        for each pair i < j.
    constraints : array-like or sparse matrix, default=None
        Constraints M_Ω: partial labels of shape (n_samples,) with -1 for unknown, or a
        matrix of shape (n_samples, n_samples) with +1 for pairs that must share a
        component, -1 for pairs that must not, and 0 for unknown. They need an affinity
        of all pairs.
    random_state : int, RandomState instance or None, default=None
        Determines the noise. Pass an int for reproducible results.
    return_connectivity : bool, default=False
        Whether to compute M_ε, which is always dense.

    Returns
    -------
    PerturbedForestResult
        Result with the attributes `forest`, `weight` and `connectivity`.

    Raises
    ------
    ValueError
        If the affinity is not square and finite, the graph has more components than
        `n_clusters`, or the constraints contradict each other or the number of
        clusters.

    See Also
    --------
    partial_fenchel_young_loss : Loss between an affinity and known links.

    Notes
    -----
    The forests are computed by Kruskal's algorithm in O(n²) memory for any number of
    perturbations, or in O(n_edges) for a sparse affinity. The noise is a function of
    (seed, draw, i, j), so that the result does not depend on the number of threads, and
    free and constrained forests of the same seed share their noise. It is computed with
    32 bits and is therefore bounded: ``|z| < 6.34`` for normal noise. Without
    constraints, edges that cannot enter a forest under such noise are dropped
    beforehand, which does not change the result.

    Unlike in the code published with the paper, the noise is symmetric. With n × n
    noise of which only one triangle is used, the value would not be F_ε. Constrained
    forests are heavier than the greedy forests of the paper: after greedy merging, a
    maximum spanning tree is computed for each component of the partition. Finding the
    heaviest constrained forest is NP-hard, and :func:`maximum_spanning_forest` searches
    further than this mean.

    References
    ----------
    L. Stewart, F. Bach, F. Llinares-López, Q. Berthet, "Differentiable Clustering with
    Perturbed Spanning Forests", NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust.forests import perturbed_forest
    >>> x = np.array([0.0, 0.1, 1.0, 1.3])
    >>> affinity = -np.subtract.outer(x, x) ** 2
    >>> result = perturbed_forest(affinity, 2, random_state=0)
    >>> result.forest.shape, float(result.forest.sum() / 2)
    ((4, 4), 2.0)
    """
    relation = checked_relation(affinity, n_clusters)
    constraints = constraints_for(relation, constraints)
    n_perturbations = int(n_perturbations) if noise_scale > 0 else 1
    plan = Noise(
        float(noise_scale),
        n_perturbations,
        noise,
        draw_seed(random_state),
    )
    sampler = make_sampler(relation, constraints, n_clusters, plan)
    sums = sum_samples(sampler, relation, plan, connectivity=return_connectivity)
    return PerturbedForestResult(
        relation.spread(sums.edges / plan.n_samples),
        2.0 * float(sums.totals.sum() / plan.n_samples),
        connectivity_of(sums, plan) if return_connectivity else None,
    )


@dataclass(frozen=True, eq=False)
class SampleSums:
    """Counts of edges (n_edges,) and of connected pairs (n, n); weights (s,)."""

    edges: np.ndarray
    connected: np.ndarray
    totals: np.ndarray


def checked_relation(affinity, n_clusters):
    """Check an affinity and list its edges."""
    affinity = check_precomputed(affinity, name="affinity", kind="affinity")
    n = affinity.shape[0]
    if n_clusters > n:
        raise ValueError(
            f"The 'n_clusters' parameter must be at most the number of samples, {n}. "
            f"Got {n_clusters} instead. Use fewer clusters."
        )
    return relation_of(affinity)


def constraints_for(relation, constraints):
    """Return the Constraints of a relation, None if there are none."""
    constraints = constraints_from_matrix(constraints, relation.n_samples)
    if constraints is not None and not relation.is_complete:
        raise ValueError(
            "The 'constraints' parameter must be None for a sparse affinity that "
            "leaves out pairs. Got constraints instead. Pass a dense affinity."
        )
    return constraints


def sum_samples(sampler, relation, plan, *, connectivity=False):
    """Solve all samples and add them up; O(n²) memory whatever their number."""
    from skdiffclust.forests._perturbed._monte_carlo import count_connected

    n = relation.n_samples
    if connectivity:
        check_dense_size(n, what="the connectivity matrix", remedy="Leave it out.")
    totals = np.empty(plan.n_samples)

    def new_sums():
        n_rows = n if connectivity else 0
        return (
            np.zeros(len(relation.weights), dtype=np.int64),
            np.zeros((n_rows, n_rows), dtype=np.int32),
        )

    def add_chunk(sums, samples, first, last):
        totals[first:last] = samples.totals
        edges = samples.forests.ravel()
        sums[0][:] += np.bincount(edges, minlength=len(relation.weights))
        if connectivity:
            count_connected(samples.labels, sums[1])

    parts = run_samples(new_sums, add_chunk, plan, sampler)
    edges, connected = (
        sum(counts[1:], counts[0]) for counts in zip(*parts, strict=True)
    )
    return SampleSums(edges, connected, totals)


def connectivity_of(sums, plan):
    """Return the mean connectivity (n, n) of counted samples."""
    upper = sums.connected / plan.n_samples
    matrix = upper + upper.T
    np.fill_diagonal(matrix, 1.0)
    return matrix


def vjp(relation, sampler, plan, *, forest=None, connectivity=None):
    """Pull cotangents of A_ε or M_ε back to the affinity, by the score function.

    Parameters
    ----------
    relation : Relation
        Complete for a cotangent of M_ε.
    sampler : sampler of the forests
    plan : Noise
    forest, connectivity : ndarray of shape (n_samples, n_samples), or None
        Symmetric cotangents; one of the two is given.

    Returns
    -------
    ndarray of shape (n_edges,)
        Half of the derivative by the affinity of each pair, so that the symmetric
        matrix of it is the gradient by the entries of the affinity.
    """
    from skdiffclust.forests._perturbed._monte_carlo import products_with_connectivity

    products = np.empty(plan.n_samples)
    if forest is not None:
        forest = forest[relation.ends]

    def add_chunk(_, samples, first, last):
        # A matrix entry and its mirror image both move.
        if forest is not None:
            products[first:last] = 2.0 * forest[samples.forests].sum(axis=1)
        else:
            products[first:last] = 2.0 * products_with_connectivity(
                samples.labels, connectivity
            )

    run_samples(lambda: None, add_chunk, plan, sampler)
    return 0.5 * weighted_scores(relation, plan, score_coefficients(plan, products))


def partial_loss_with_gradient(relation, constraints, n_clusters, plan):
    """Return the partial loss and its gradient by the edges (n_edges,)."""
    if constraints is None:
        return 0.0, np.zeros(len(relation.weights))
    free = make_sampler(relation, None, n_clusters, plan)
    bound = make_sampler(relation, constraints, n_clusters, plan)
    free = sum_samples(free, relation, plan)
    bound = sum_samples(bound, relation, plan)
    # Two sums of the same edges may differ by rounding.
    loss = 2.0 * float(np.maximum(free.totals - bound.totals, 0.0).mean())
    return loss, (free.edges - bound.edges) / plan.n_samples


def score_coefficients(plan, products):
    """Return by what the scores of the samples are multiplied to differentiate (s,).

    E[c(Σ + εZ)] has the derivative E[c v'(Z)] / ε. The mean of c over the other draws
    is subtracted from every c, which does not change the expectation; a draw is a whole
    antithetic pair, whose normal scores cancel that mean anyway.
    """
    draws = np.arange(plan.n_samples) // 2
    sizes = np.bincount(draws)
    n_draws = len(sizes)
    if n_draws > 1:
        means = np.bincount(draws, products) / sizes
        products = products - ((means.sum() - means) / (n_draws - 1))[draws]
    return products / (n_draws * sizes[draws] * plan.scale)
