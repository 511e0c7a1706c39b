"""Losses between a similarity and a known forest, known links, known connectivity."""

from numbers import Integral, Real

import numpy as np

from skdiffclust._compat import Interval, validate_params
from skdiffclust._constraints import check_pairs
from skdiffclust.forests._perturbed._hash import draw_seed
from skdiffclust.forests._perturbed._perturbation import (
    NOISE_RULES,
    checked_relation,
    constraints_for,
    score_gradient,
    sum_samples,
)
from skdiffclust.forests._perturbed._samplers import (
    Noise,
    make_sampler,
    run_samples,
    weighted_scores,
)
from skdiffclust.forests._trees._tree import components

_LOSS_RULES = {
    "noise_scale": [Interval(Real, 0, np.inf, closed="neither")],
    "n_perturbations": NOISE_RULES["n_perturbations"],
    "random_state": NOISE_RULES["random_state"],
    "return_gradient": ["boolean"],
}


@validate_params(_LOSS_RULES, prefer_skip_nested_validation=True)
def fenchel_young_loss(
    similarity,
    forest,
    *,
    noise_scale=0.1,
    n_perturbations=100,
    random_state=None,
    return_gradient=False,
):
    """Compute the Fenchel-Young loss between a similarity and a known forest.

    The loss is E[max ⟨A, Σ + εZ⟩ - ⟨A°, Σ + εZ⟩], where the maximum is over all
    k-forests A, and A° is the target. It is non-negative, convex in the similarity, and
    zero if A° is the heaviest forest for all draws. If only links or labels are known,
    use :func:`partial_fenchel_young_loss`.

    Parameters
    ----------
    similarity : array-like or sparse matrix of shape (n_samples, n_samples)
        Symmetric similarity Σ, as in :func:`perturbed_forest`.
    forest : array-like of shape (n_edges, 2)
        Target A°: edges as pairs of sample indices, without a cycle. The number of
        clusters is ``n_samples - n_edges``.
    noise_scale : float, default=0.1
        Scale ε > 0 of the noise, in the units of the similarity.
    n_perturbations : int, default=100
        Number of noise samples B, drawn in antithetic pairs.
    random_state : int, RandomState instance or None, default=None
        Determines the noise. Pass an int for reproducible results.
    return_gradient : bool, default=False
        Whether to return the gradient with respect to the similarity as well.

    Returns
    -------
    loss : float
        Loss. In ⟨A, Σ⟩, each edge counts twice, as in the paper.
    gradient : ndarray or csr_array of shape (n_samples, n_samples)
        Gradient A_ε - A°. Only returned if `return_gradient` is True.

    Raises
    ------
    ValueError
        If `forest` has a cycle, or edges that are not stored in a sparse similarity.

    Notes
    -----
    See Definition 7 of the NeurIPS 2023 paper and the equation after it; the constant
    εΩ(A°) is omitted. The cost is that of :func:`perturbed_forest`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust.forests import fenchel_young_loss
    >>> similarity = np.array([[0, 9, 1], [9, 0, 2], [1, 2, 0.0]])
    >>> fenchel_young_loss(similarity, [[0, 1]], random_state=0)
    0.0
    """
    relation = checked_relation(similarity, 1)
    n = relation.n_samples
    edges = check_pairs(forest, n, "The 'forest' parameter")
    plan = _loss_noise(noise_scale, n_perturbations, random_state)
    check_forest(edges, n)
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
    gradient = sums.edges[0] / plan.n_samples
    gradient[target] -= 1.0
    return loss, relation.spread(gradient)


@validate_params(
    {**_LOSS_RULES, "n_clusters": NOISE_RULES["n_clusters"]},
    prefer_skip_nested_validation=True,
)
def partial_fenchel_young_loss(
    similarity,
    constraints,
    n_clusters,
    *,
    noise_scale=0.1,
    n_perturbations=100,
    random_state=None,
    return_gradient=False,
):
    """Compute the partial Fenchel-Young loss between a similarity and known links.

    The loss is F_ε(Σ) - F_ε(Σ; M_Ω): the weight that the heaviest k-forest loses, on
    average over the noise, when it has to satisfy the constraints. It is non-negative,
    zero if the constraints are always satisfied, and not convex. Use it to learn an
    embedding: by the chain rule, multiply its gradient by the derivative of the
    similarity with respect to the embedding.

    Parameters
    ----------
    similarity : array-like of shape (n_samples, n_samples)
        Symmetric similarity Σ, as in :func:`perturbed_forest`.
    constraints : array-like or sparse matrix
        Partial labels of shape (n_samples,) with -1 for unknown, or a matrix of shape
        (n_samples, n_samples) with +1 for pairs that must share a component, -1 for
        pairs that must not, and 0 for unknown.
    n_clusters : int
        Number of components k of the forests.
    noise_scale : float, default=0.1
        Scale ε > 0 of the noise, in the units of the similarity, which should be
        divided by its standard deviation first.
    n_perturbations : int, default=100
        Number of noise samples B, drawn in antithetic pairs.
    random_state : int, RandomState instance or None, default=None
        Determines the noise. Pass an int for reproducible results.
    return_gradient : bool, default=False
        Whether to return the gradient with respect to the similarity as well.

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
        similarity leaves out pairs.

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
    >>> similarity = -np.subtract.outer(x, x) ** 2
    >>> loss = partial_fenchel_young_loss(similarity, [0, 1, 1, 1], 2, random_state=0)
    >>> loss > 0.5
    True
    >>> partial_fenchel_young_loss(similarity, [0, 0, -1, 1], 2, random_state=0) < 0.1
    True
    """
    relation = checked_relation(similarity, n_clusters)
    constraints = constraints_for(relation, constraints)
    plan = _loss_noise(noise_scale, n_perturbations, random_state)
    loss, gradient = partial_loss_with_gradient(relation, constraints, n_clusters, plan)
    return (loss, relation.spread(gradient)) if return_gradient else loss


@validate_params(
    {
        **_LOSS_RULES,
        "n_clusters": NOISE_RULES["n_clusters"],
        "n_perturbations": [Interval(Integral, 4, None, closed="left")],
    },
    prefer_skip_nested_validation=True,
)
def connectivity_loss(
    similarity,
    constraints,
    n_clusters,
    *,
    noise_scale=0.1,
    n_perturbations=100,
    random_state=None,
    return_gradient=False,
):
    """Compute the squared distance between perturbed connectivity and constraints.

    The loss is ‖M_ε(Σ) - M_Ω‖² over the observed pairs, in both orders. Its value can
    be read as a number of wrong pairs, but its gradient is much noisier than that of
    :func:`partial_fenchel_young_loss`.

    Parameters
    ----------
    similarity : array-like of shape (n_samples, n_samples)
        Symmetric dense similarity Σ, as in :func:`perturbed_forest`.
    constraints : array-like or sparse matrix
        Constraints, as in :func:`partial_fenchel_young_loss`. Their transitive closure
        is taken.
    n_clusters : int
        Number of components k of the forests.
    noise_scale : float, default=0.1
        Scale ε > 0 of the noise, in the units of the similarity.
    n_perturbations : int, default=100
        Number of noise samples B, drawn in antithetic pairs. It must be even and at
        least 4.
    random_state : int, RandomState instance or None, default=None
        Determines the noise. Pass an int for reproducible results.
    return_gradient : bool, default=False
        Whether to return the gradient with respect to the similarity as well.

    Returns
    -------
    loss : float
        Unbiased estimate of the loss, which may be slightly negative near the optimum.
    gradient : ndarray of shape (n_samples, n_samples)
        Unbiased, symmetric estimate of the gradient. Only returned if `return_gradient`
        is True.

    Raises
    ------
    ValueError
        If `n_perturbations` is odd, or the constraints contradict each other.

    Notes
    -----
    The loss is defined in Section 2.2 of the NeurIPS 2023 paper; the code published
    with it has no gradient. The gradient is estimated with the score function as
    E[½(c(Z) - c(-Z)) Z] / ε, where c is the inner product of the connectivity of a
    draw with 2 (M_ε - M_Ω). Using the same draws for both factors would introduce a
    bias of O(1/B), so each antithetic pair is left out of the M_ε by which it is
    multiplied. Each draw is solved twice. Memory is O(n²) for any number of draws.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust.forests import connectivity_loss
    >>> x = np.array([0.0, 0.1, 1.0, 1.3])
    >>> similarity = -np.subtract.outer(x, x) ** 2
    >>> connectivity_loss(similarity, [0, 0, 1, 1], 2, random_state=0)
    0.0
    """
    relation = checked_relation(similarity, n_clusters)
    if not relation.is_complete:
        raise ValueError(
            "The 'similarity' parameter of connectivity_loss must be dense, since the "
            "connectivity is. Got a sparse matrix instead: use .toarray()."
        )
    if n_perturbations % 2:
        raise ValueError(
            "The 'n_perturbations' parameter of connectivity_loss must be even, for "
            f"antithetic pairs. Got {n_perturbations} instead. Add one."
        )
    constraints = constraints_for(relation, constraints)
    plan = _loss_noise(noise_scale, n_perturbations, random_state)
    loss, gradient = connectivity_loss_with_gradient(
        relation, constraints, n_clusters, plan, with_gradient=return_gradient
    )
    return (loss, relation.spread(gradient)) if return_gradient else loss


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
    return loss, (free.edges[0] - bound.edges[0]) / plan.n_samples


def connectivity_loss_with_gradient(
    relation, constraints, n_clusters, plan, *, with_gradient=True
):
    """Return the connectivity loss and its gradient by the edges (n_edges,), or None.

    `plan` has at least two whole antithetic pairs.
    """
    from skdiffclust.forests._perturbed._monte_carlo import products_with_connectivity

    observed, target = observations(relation.n_samples, constraints)
    sampler = make_sampler(relation, None, n_clusters, plan)
    sums = sum_samples(sampler, relation, plan, connectivity=True)
    n_draws = plan.n_samples // 2
    total = sums.connected[0] / 2
    squares = sums.connected[1] + 0.25 * (sums.connected[0] - 2.0 * sums.connected[1])
    error = (total**2 - squares) / (n_draws * (n_draws - 1))
    error += target * (1.0 - 2.0 * total / n_draws)
    loss = 2.0 * float((observed * error).sum())
    if not with_gradient:
        return loss, None
    derivative = observed * (2.0 * total / (n_draws - 1) - 2.0 * target)
    derivative -= observed / (n_draws - 1)
    products = np.empty(plan.n_samples)

    def add_chunk(_, samples, first, last):
        labels = samples.labels
        mirrored = labels.reshape(-1, 2, labels.shape[1])[:, ::-1].reshape(labels.shape)
        own = products_with_connectivity(labels, mirrored, observed) / (n_draws - 1)
        products[first:last] = 2.0 * (
            products_with_connectivity(labels, labels, derivative) - own
        )

    run_samples(lambda: None, add_chunk, plan, sampler)
    return loss, score_gradient(relation, plan, products)


def observations(n, constraints):
    """Return which pairs are observed and which of them are linked, (n, n) floats."""
    linked = np.zeros((n, n))
    separated = np.zeros((n, n))
    if constraints is not None:
        groups = constraints.groups
        classes = constraints.classes
        linked = (groups[:, None] == groups[None, :]).astype(np.float64)
        known = classes >= 0
        separated = known[:, None] & known[None, :] & (classes[:, None] != classes)
        by_group = np.zeros((constraints.n_groups, constraints.n_groups), dtype=bool)
        by_group[constraints.cannot[:, 0], constraints.cannot[:, 1]] = True
        separated |= (by_group | by_group.T)[np.ix_(groups, groups)]
    return np.triu(linked + separated, 1), np.triu(linked, 1)


def _loss_noise(noise_scale, n_perturbations, random_state):
    """Return the antithetic normal noise of a loss."""
    seed = draw_seed(random_state)
    n_samples = int(n_perturbations)
    return Noise(float(noise_scale), n_samples, "normal", n_samples > 1, seed)


def check_forest(edges, n):
    """Refuse edges (m, 2) between n rows that have a cycle."""
    n_trees = components(edges, n).max(initial=-1) + 1
    if n_trees > n - len(edges):
        raise ValueError(
            "The 'forest' parameter must be a forest. Got a cycle instead, since "
            f"{len(edges)} edges leave {n_trees} trees of {n} samples. Leave out one "
            "edge of every cycle."
        )


def _positions(relation, edges):
    """Positions (m,) of edges (m, 2), i < j, in the list of a relation."""
    n = relation.n_samples
    heads, columns = relation.ends
    keys = heads.astype(np.int64) * n + columns
    wanted = edges[:, 0] * n + edges[:, 1]
    is_missing = ~np.isin(wanted, keys)
    if is_missing.any():
        i, j = edges[np.argmax(is_missing)]
        raise ValueError(
            "The 'forest' parameter must hold edges of the similarity. Got the edge "
            f"({i}, {j}) instead, which is not stored. Store it, or pass a dense one."
        )
    return np.searchsorted(keys, wanted)
