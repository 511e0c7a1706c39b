"""The maximum spanning k-forest as a function of a similarity."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from scipy.sparse import issparse

from skdiffclust._affinity import check_precomputed
from skdiffclust._assignments import relabel_by_size
from skdiffclust._compat import Interval, validate_params
from skdiffclust._constraints import check_feasible, constraints_from_matrix
from skdiffclust.forests._constrained._grow_tree import grow_tree
from skdiffclust.forests._constrained._search import improve_cut
from skdiffclust.forests._hierarchy._tree_cuts import cut, mask
from skdiffclust.forests._trees._distances import (
    lengths_of_graph,
    lengths_of_matrix,
)
from skdiffclust.forests._trees._tree import components, cut_order


@dataclass(frozen=True, eq=False)
class SpanningForest:
    """A maximum spanning k-forest.

    Attributes
    ----------
    edges : ndarray of shape (n_samples - n_clusters, 2), int64
        Its edges (i, j) with i < j, the least similar first.
    labels : ndarray of shape (n_samples,), int64
        Its trees, numbered by decreasing size.
    weight : float
        Sum of the similarities of its edges, each edge once.
    search : str
        How it was found: "exact"; "moves" under constraints; "greedy" under those of a
        sparse similarity.
    """

    edges: np.ndarray
    labels: np.ndarray
    weight: float
    search: str = "exact"


@validate_params(
    {
        "similarity": ["array-like", "sparse matrix"],
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "constraints": ["array-like", "sparse matrix", None],
    },
    prefer_skip_nested_validation=True,
)
def maximum_spanning_forest(similarity, n_clusters, *, constraints=None):
    """Return the spanning forest of k trees with the largest total similarity.

    This is the clustering operator of [1]_, Definitions 2 and 5: single linkage with
    k clusters, where the similarity need not come from points. Exact without
    constraints, and with at most one labelled sample in a class. Otherwise the exact
    optimum is NP-hard, since samples may be joined through others: a greedy forest is
    made heavier by moving samples and groups between its trees, each of which is the
    best one of its samples. That is within 1 % of the optimum on average of small
    problems. Of a sparse similarity it is the greedy forest.

    Parameters
    ----------
    similarity : array-like or sparse matrix of shape (n_samples, n_samples)
        Symmetric and finite, of any sign; the diagonal is ignored. In a sparse matrix
        every stored entry is an edge, zeros too, and all others are no edge.
    n_clusters : int
        Number of trees k, from 1 (or the number of components of a sparse matrix, or
        of classes) to n_samples.
    constraints : array-like or sparse matrix, default=None
        Partial labels (n_samples,), integers with -1 for unknown, or an (n_samples,
        n_samples) array or sparse matrix of +1 (must link), -1 (must not) and 0.

    Returns
    -------
    forest : SpanningForest
        With attributes `edges`, `labels`, `weight` and `search`.

    Raises
    ------
    ValueError
        If the similarity is not square or not finite, the constraints contradict each
        other, or no forest of `n_clusters` trees satisfies them.

    Notes
    -----
    Of equal similarities the pair with the smaller indices is taken first, so the
    forest is unique. O(n²) time, O(n) memory beyond the input. Under constraints O(n²)
    time for every round of moves, of which there are few, and O(n²) memory; the first
    call with more than 200 samples compiles, which takes time
    (:func:`skdiffclust.warmup`).

    References
    ----------
    .. [1] L. Stewart, F. Bach, F. Llinares-López, Q. Berthet, "Differentiable
       Clustering with Perturbed Spanning Forests", NeurIPS 2023.

    Examples
    --------
    >>> from skdiffclust.forests import maximum_spanning_forest
    >>> similarity = [[0, 5, 1], [5, 0, 2], [1, 2, 0]]
    >>> forest = maximum_spanning_forest(similarity, n_clusters=2)
    >>> forest.edges, forest.labels, forest.weight
    (array([[0, 1]]), array([0, 0, 1]), 5.0)
    """
    similarity = check_precomputed(similarity, name="similarity", kind="similarity")
    n_samples = similarity.shape[0]
    if n_clusters > n_samples:
        raise ValueError(
            "The 'n_clusters' parameter of maximum_spanning_forest must be at most the "
            f"number of samples, {n_samples}. Got {n_clusters} instead. Use fewer "
            "clusters."
        )
    constraints = constraints_from_matrix(constraints, n_samples)
    check_feasible(constraints, n_clusters)
    make_lengths = lengths_of_graph if issparse(similarity) else lengths_of_matrix
    tree = grow_tree(make_lengths(-similarity), constraints, n_clusters=n_clusters)
    if n_clusters < tree.n_parts:
        raise ValueError(
            "The 'n_clusters' parameter of maximum_spanning_forest must be at least "
            f"{tree.n_parts}, the number of parts that no edge joins. Got {n_clusters} "
            "instead. Use more clusters, or store more similarities."
        )
    is_cut = mask(cut(tree, n_clusters - 1)[0], tree)
    edges = tree.edges[~is_cut]
    labels = components(edges, n_samples)
    if constraints is None or issparse(similarity):
        weight = float(-tree.lengths[~is_cut].sum())
        search = "exact" if constraints is None else "greedy"
        return SpanningForest(edges, relabel_by_size(labels)[0], weight, search)
    edges, labels = improve_cut(similarity, labels, constraints.groups, constraints)
    values = similarity[edges[:, 0], edges[:, 1]]
    edges = edges[cut_order(edges, -values)]
    return SpanningForest(
        edges, relabel_by_size(labels)[0], float(values.sum()), "moves"
    )
