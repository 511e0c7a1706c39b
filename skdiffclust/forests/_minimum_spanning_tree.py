"""The minimum spanning tree as a function of points, distances or a sparse graph."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_array, gen_batches

from skdiffclust._compat import StrOptions, validate_params
from skdiffclust._pairwise import METRICS
from skdiffclust._validation import refuse_silent_conversion
from skdiffclust.forests._hierarchy._spanning_tree import (
    SpanningTree,
    check_spans,
    free_tree,
)
from skdiffclust.forests._trees._distances import lengths_of
from skdiffclust.forests._trees._index import refuse_many_samples
from skdiffclust.forests._trees._tree import cut_order, is_in_cut_order

# Edges that are checked at once.
_AT_ONCE = 2**18


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
    refuse_many_samples("minimum_spanning_tree", X)
    refuse_silent_conversion(X)
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    return tree_of(X, metric)


def tree_of(X, metric):
    """Return the SpanningTree of checked samples, or of a relation between them."""
    return free_tree(lengths_of(X, metric))


def given_tree(tree, lengths, is_euclidean):
    """Return a tree that the user gives, checked and in cut order. O(n d).

    It is compared with the points of the Lengths if distances are Euclidean and neither
    raised nor constrained. That no other tree is shorter is not checked.
    """
    is_tree = hasattr(tree, "edges") and hasattr(tree, "lengths")
    points = lengths.points
    if not (is_euclidean and is_tree and points is not None and lengths.core is None):
        raise ValueError(
            "The 'tree' parameter of SpanningForestClustering.fit must be None, "
            "unless X is dense, metric='euclidean', min_samples=None, no sample "
            "has weight zero and there are no constraints; it is a SpanningTree "
            f"then. Got a {type(tree).__name__} instead. Leave it out; the tree is "
            "then computed."
        )
    n_samples = len(points)
    edges = np.asarray(tree.edges)
    lengths = np.asarray(tree.lengths, dtype=np.float64)
    title = "The 'tree' parameter of SpanningForestClustering.fit"
    if edges.shape != (n_samples - 1, 2) or lengths.shape != (n_samples - 1,):
        raise ValueError(
            f"{title} must have {n_samples - 1} edges for {n_samples} samples. Got "
            f"edges of shape {edges.shape} and lengths of shape {lengths.shape} "
            "instead."
        )
    check_spans(edges, n_samples, title)
    # What is given in order is not copied.
    if (edges[:, 0] > edges[:, 1]).any():
        edges = np.sort(edges, axis=1)
    if not all(
        _are_distances(points, edges[block], lengths[block])
        for block in gen_batches(n_samples - 1, _AT_ONCE)
    ):
        raise ValueError(
            f"{title} must have the Euclidean distances between samples of X as its "
            "lengths. Got different lengths instead. Check that it was computed from "
            "the same samples, in the same order and units."
        )
    if not is_in_cut_order(edges, lengths):
        order = cut_order(edges, lengths)
        edges = edges[order]
        lengths = lengths[order]
    return SpanningTree(edges, lengths)


def _are_distances(points, edges, lengths):
    """Whether lengths (m,) are the Euclidean distances of the ends of edges (m, 2)."""
    squares = np.zeros(len(edges))
    for feature in points.T:
        first, second = feature[edges.T].astype(np.float64)
        squares += np.square(first - second)
    return np.allclose(np.sqrt(squares), lengths, rtol=1e-6, atol=0.0)
