"""The maximum spanning k-forest as a function of an affinity."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from scipy.sparse import csr_array, issparse

from skdiffclust._assignments import relabel_by_size
from skdiffclust._compat import Interval, validate_params
from skdiffclust._constraints import check_feasible, constraints_from_matrix
from skdiffclust._pairwise import check_precomputed
from skdiffclust._short_repr import short_repr
from skdiffclust._validation import check_dense_size, refuse_many_clusters
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
        Edges (i, j) with i < j, in order of increasing affinity.
    labels : ndarray of shape (n_samples,), int64
        Tree of each sample. Trees are numbered in order of decreasing size.
    weight : float
        Sum of the affinities of the edges, in which each edge counts once.
    solver : str
        Algorithm that found the forest: "exact" without constraints, "local_search"
        with constraints, and "greedy" with constraints on a sparse affinity.
    """

    edges: np.ndarray
    labels: np.ndarray
    weight: float
    solver: str = "exact"

    __repr__ = short_repr

    def adjacency(self) -> csr_array:
        """Return the matrix of the forest, A of [1]_, Definition 2.

        Returns
        -------
        adjacency : csr_array of shape (n_samples, n_samples), float64
            1 for both entries of each edge, 0 elsewhere. So ``<A, affinity>``, the
            sum of the products of all entries, is twice the `weight`.

        References
        ----------
        .. [1] L. Stewart, F. Bach, F. Llinares-López, Q. Berthet, "Differentiable
           Clustering with Perturbed Spanning Forests", NeurIPS 2023.
        """
        n_samples = len(self.labels)
        ones = np.ones(len(self.edges))
        upper = csr_array((ones, tuple(self.edges.T)), shape=(n_samples, n_samples))
        return upper + upper.T

    def connectivity(self) -> csr_array:
        """Return which samples share a tree, the matrix M of [1]_, Definition 3.

        Returns
        -------
        connectivity : csr_array of shape (n_samples, n_samples), float64
            1 where two samples share a tree, the diagonal included, 0 elsewhere. It
            stores the sum of the squared sizes of the trees; `labels` say the same.

        References
        ----------
        .. [1] L. Stewart, F. Bach, F. Llinares-López, Q. Berthet, "Differentiable
           Clustering with Perturbed Spanning Forests", NeurIPS 2023.
        """
        n_samples = len(self.labels)
        sizes = np.bincount(self.labels)
        check_dense_size(
            int((sizes**2).sum()),
            1,
            itemsize=16,
            what="the connectivity",
            remedy="Compare the labels of the forest instead.",
        )
        shape = (n_samples, len(sizes))
        of_tree = csr_array(
            (np.ones(n_samples), (np.arange(n_samples), self.labels)), shape=shape
        )
        return of_tree @ of_tree.T


@validate_params(
    {
        "affinity": ["array-like", "sparse matrix"],
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "constraints": ["array-like", "sparse matrix", None],
    },
    prefer_skip_nested_validation=True,
)
def maximum_spanning_forest(
    affinity, n_clusters, *, constraints=None
) -> SpanningForest:
    """Compute the spanning forest of k trees with the largest total affinity.

    This is the clustering operator of [1]_ (Definitions 2 and 5): single linkage with k
    clusters, for any affinity. Without constraints, and with at most one labelled
    sample per class, the forest is exact. With other constraints, the problem is
    NP-hard. A greedy forest is then improved by moving samples and groups between its
    trees, which comes within 1 % of the optimum on average on small problems. For a
    sparse affinity, the greedy forest is returned.

    Parameters
    ----------
    affinity : array-like or sparse matrix of shape (n_samples, n_samples)
        Symmetric, finite affinity of any sign. The diagonal is ignored. In a sparse
        matrix, the stored entries, including zeros, are the edges.
    n_clusters : int
        Number of trees k. It must be at most n_samples, and at least 1, the number of
        classes, and the number of components of a sparse matrix.
    constraints : array-like or sparse matrix, default=None
        Partial labels of shape (n_samples,), which are integers with -1 for unknown, or
        an array or sparse matrix of shape (n_samples, n_samples) with +1 for
        must-links, -1 for cannot-links and 0 for unknown.

    Returns
    -------
    forest : SpanningForest
        Forest with the attributes `edges`, `labels`, `weight` and `search`, and methods
        that return the matrices of [1]_.

    Raises
    ------
    ValueError
        If the affinity is not square or not finite, the constraints contradict each
        other, or no forest of `n_clusters` trees satisfies them.

    Notes
    -----
    Among equal affinities, the pair with the smaller indices is taken first, so the
    forest is unique. The cost is O(n²) in time and O(n) in memory in addition to the
    input. With constraints, it is O(n²) in memory and O(n²) in time for each of a few
    rounds of moves; the first such call compiles kernels, see
    :func:`skdiffclust.warmup`.

    References
    ----------
    .. [1] L. Stewart, F. Bach, F. Llinares-López, Q. Berthet, "Differentiable
       Clustering with Perturbed Spanning Forests", NeurIPS 2023.

    Examples
    --------
    >>> from skdiffclust.forests import maximum_spanning_forest
    >>> affinity = [[0, 5, 1], [5, 0, 2], [1, 2, 0]]
    >>> forest = maximum_spanning_forest(affinity, n_clusters=2)
    >>> forest.edges, forest.labels, forest.weight
    (array([[0, 1]]), array([0, 0, 1]), 5.0)
    >>> forest.connectivity().toarray()
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    affinity = check_precomputed(affinity, name="affinity", kind="affinity")
    n_samples = affinity.shape[0]
    refuse_many_clusters("maximum_spanning_forest", n_clusters, n_samples)
    constraints = constraints_from_matrix(constraints, n_samples)
    check_feasible(constraints, n_clusters)
    make_lengths = lengths_of_graph if issparse(affinity) else lengths_of_matrix
    tree = grow_tree(make_lengths(-affinity), constraints, n_clusters=n_clusters)
    if n_clusters < tree.n_parts:
        raise ValueError(
            "The 'n_clusters' parameter of maximum_spanning_forest must be at least "
            f"{tree.n_parts}, the number of parts that no edge joins. Got {n_clusters} "
            "instead. Use more clusters, or store more affinities."
        )
    is_cut = mask(cut(tree, n_clusters - 1)[0], tree)
    edges = tree.edges[~is_cut]
    labels = components(edges, n_samples)
    if constraints is None or issparse(affinity):
        weight = float(-tree.lengths[~is_cut].sum())
        search = "exact" if constraints is None else "greedy"
        return SpanningForest(edges, relabel_by_size(labels)[0], weight, search)
    edges, labels = improve_cut(affinity, labels, constraints.groups, constraints)
    values = affinity[edges[:, 0], edges[:, 1]]
    edges = edges[cut_order(edges, -values)]
    return SpanningForest(
        edges, relabel_by_size(labels)[0], float(values.sum()), "local_search"
    )
