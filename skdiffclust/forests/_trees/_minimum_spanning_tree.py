"""The minimum spanning tree as a function of points, distances or a sparse graph."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_array

from skdiffclust._affinity import METRICS
from skdiffclust._compat import StrOptions, validate_params
from skdiffclust._validation import refuse_silent_conversion
from skdiffclust.forests._trees._distances import lengths_of
from skdiffclust.forests._trees._solve import spanning_edges
from skdiffclust.forests._trees._tree import SpanningTree, join_parts


@validate_params(
    {
        "X": ["array-like", "sparse matrix"],
        "metric": [StrOptions(METRICS | {"precomputed"}), callable],
    },
    prefer_skip_nested_validation=True,
)
def minimum_spanning_tree(
    X, *, metric: str | Callable[..., Any] = "euclidean"
) -> SpanningTree:
    """Compute the minimum spanning tree of the samples of X.

    This is the tree that underlies single linkage. Unlike the function of the same name
    in SciPy, it keeps edges of length zero and is unique in the presence of ties.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), or array-like or sparse matrix \
            of shape (n_samples, n_samples) if metric="precomputed"
        Samples, or symmetric distances between samples. The stored entries of a sparse
        matrix are the edges.
    metric : str or callable, default="euclidean"
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed".

    Returns
    -------
    tree : SpanningTree
        Tree with the attributes `edges` and `lengths`. The components of a sparse
        matrix are joined by edges of infinite length.

    Raises
    ------
    ValueError
        If X is not finite, or not square where metric="precomputed".

    Notes
    -----
    Ties are broken by the order of (length, i, j). The cost is O(n² d) in time at most,
    close to O(n log n) for data of low intrinsic dimension, and O(n d) in memory. For a
    sparse matrix with m entries, it is O(m log m).

    Examples
    --------
    >>> from skdiffclust.forests import minimum_spanning_tree
    >>> tree = minimum_spanning_tree([[0.0], [5.0], [1.0]])
    >>> tree.edges, tree.lengths
    (array([[1, 2],
           [0, 2]]), array([4., 1.]))
    """
    refuse_silent_conversion(X)
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    return tree_of(X, metric)


def tree_of(X, metric):
    """Return the SpanningTree of checked samples, or of a relation between them."""
    lengths = lengths_of(X, metric)
    tree = join_parts([spanning_edges(lengths)], [True], lengths)
    return SpanningTree(tree.edges, tree.lengths)
