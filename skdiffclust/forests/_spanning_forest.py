"""SpanningForestClustering: single linkage that predicts and survives outliers."""

import warnings
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from skdiffclust._affinity import nearest_row
from skdiffclust._assignments import order_by_size
from skdiffclust._compat import PAIRWISE_METRICS, Interval, StrOptions, fit_context
from skdiffclust._constraints import as_constraints, check_feasible
from skdiffclust._fitted import reads_whole
from skdiffclust._history import keep_state_on_error
from skdiffclust._validation import validate_rows
from skdiffclust.forests._constrained._grow_tree import grow_tree
from skdiffclust.forests._hierarchy._linkage import linkage_matrix
from skdiffclust.forests._hierarchy._tree_cuts import cut_beyond, cut_into, widest_gap
from skdiffclust.forests._trees._distances import lengths_of, mutual_reachability
from skdiffclust.forests._trees._tree import CutTree, components

# The plateau of good values is wide: 0.2 to 0.4 of the mean cluster size.
_AUTO_FRACTION = 0.25


@reads_whole("predict", "cut")
class SpanningForestClustering(ClusterMixin, BaseEstimator):
    """Cluster by the maximum spanning k-forest, which is single linkage.

    With ``min_cluster_size=1`` the forest is exactly the maximum spanning k-forest of
    [1]_, Definition 2: the k - 1 longest edges of the minimum spanning tree are cut.
    The default, ``"auto"``, cuts the longest edges that leave a quarter of the mean
    cluster size on both sides, so that outliers do not use up the clusters.

    It finds clusters of any shape, as long as something empties the space between
    them, and gives every number of clusters from one fit.

    Parameters
    ----------
    n_clusters : int or None, default=2
        Number of clusters. With None they are counted by `distance_threshold`, or, if
        that is None too, by the largest ratio of successive cut lengths.
    distance_threshold : float or None, default=None
        Cut every edge longer than this; needs ``n_clusters=None``.
    metric : str or callable, default="euclidean"
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed": X is
        then a symmetric matrix of distances, dense, or sparse, where every stored
        entry is an edge, zeros too, and all others are no edge.
    min_cluster_size : int or "auto", default="auto"
        A cut leaves at least so many rows on both sides. "auto" is ``0.25 *
        n_samples / n_clusters``, or 1 with a `distance_threshold`. If no edge
        qualifies, it is halved, with a warning, until one does. Constraints come
        first: what they part may be of any size.
    min_samples : int or None, default=None
        If given, distances are first raised to the mutual reachability of HDBSCAN:
        at least the distance of either end to its `min_samples`-th neighbour, itself
        counted.
    algorithm : {"auto", "prim", "boruvka", "kruskal"}, default="auto"
        How the tree is grown. All give the same tree, and "auto" takes what a probe of
        the data says is fastest. "boruvka" searches a k-d tree, for Euclidean
        distances of low intrinsic dimension; "kruskal" sorts all pairs of rows in
        O(n²) memory and is there to check the others.
    n_jobs : int or None, default=None
        Number of threads of the compiled kernels; None is all that joblib and OpenMP
        settings leave, -1 all processors. The forest does not depend on it.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int64
        Clusters 0 to ``n_clusters_ - 1`` by decreasing size.
    n_clusters_ : int
        Number of clusters found. Rows that are equal never part, so it is smaller
        than asked where there are fewer distinct rows.
    edges_ : ndarray of shape (n_samples - 1, 2), int64
        Minimum spanning tree, in cut order: the longest edge first, ties by the larger
        row indices. The components of a sparse graph are joined by edges of infinite
        length.
    edge_lengths_ : ndarray of shape (n_samples - 1,), float64
        Their lengths, in the unit of the metric.
    forest_edges_ : ndarray of shape (`n_samples - n_clusters_`, 2), int64
        The forest that `labels_` is made of.
    children_, distances_, linkage_ : ndarray
        The tree as in :class:`~sklearn.cluster.AgglomerativeClustering` and as scipy's
        linkage matrix (n_samples - 1, 4); always the plain, unconstrained tree.
    cut_distance_ : float
        Length of the shortest edge that was cut; infinite with one cluster.
    n_leaves_ : int
        Number of rows.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    Notes
    -----
    Ties are broken by a total order (length, smaller row, larger row), so the tree is
    unique. At most O(n² d) time, near O(n log n) where the data fill few dimensions,
    and O(n d) memory. The training rows are kept in the fitted estimator, because
    `predict` needs them.

    References
    ----------
    .. [1] L. Stewart, F. Bach, F. Llinares-López, Q. Berthet, "Differentiable
       Clustering with Perturbed Spanning Forests", NeurIPS 2023.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from skdiffclust import SpanningForestClustering
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> forest = SpanningForestClustering(n_clusters=2).fit(X)
    >>> forest.predict([[0.0, 1.0], [1.0, -0.5]]) == forest.labels_[[0, 1]]
    array([ True,  True])
    """

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "distance_threshold": [Interval(Real, 0, None, closed="left"), None],
        "metric": [StrOptions(PAIRWISE_METRICS | {"precomputed"}), callable],
        "min_cluster_size": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
        ],
        "min_samples": [Interval(Integral, 1, None, closed="left"), None],
        "algorithm": [StrOptions({"auto", "prim", "boruvka", "kruskal"})],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        distance_threshold=None,
        metric="euclidean",
        min_cluster_size="auto",
        min_samples=None,
        algorithm="auto",
        n_jobs=None,
    ):
        self.n_clusters = n_clusters
        self.distance_threshold = distance_threshold
        self.metric = metric
        self.min_cluster_size = min_cluster_size
        self.min_samples = min_samples
        self.algorithm = algorithm
        self.n_jobs = n_jobs

    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, partial_labels=None, must_link=None, cannot_link=None):
        """Grow the tree of X and cut it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or array-like or sparse \
                matrix of shape (n_samples, n_samples) if metric="precomputed"
            Rows, or distances between rows.
        y : None
            Ignored, present for API consistency.
        partial_labels : array-like of shape (n_samples,), default=None
            Integers: rows with the same label share a cluster, rows with different
            ones do not; -1 where unknown.
        must_link : array-like or sparse matrix, default=None
            Rows that share a cluster: index pairs (n_links, 2), group ids
            (n_samples,) with -1 for none, or a sparse incidence matrix
            (n_samples, n_links) with two non-zeros in a column. In a cross-validation
            use one of the last two, since pairs do not follow the rows.
        cannot_link : array-like or sparse matrix, default=None
            Rows that do not share a cluster: index pairs or a sparse incidence matrix.
            Needs the list of all edges, O(n²) memory.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is not as described, or constraints contradict each
            other or the number of clusters.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than asked, or the minimum size is relaxed.
        """
        is_given = self.metric == "precomputed"
        X = validate_rows(self, X, accept_sparse="csr" if is_given else False)
        lengths = self._lengths(X)
        constraints = as_constraints(
            lengths.n_samples, partial_labels, must_link, cannot_link
        )
        if self.n_clusters is not None:
            check_feasible(constraints, self.n_clusters)
        how = {"algorithm": self.algorithm, "n_jobs": self.n_jobs}
        tree = grow_tree(lengths, constraints, n_clusters=self.n_clusters, **how)
        _check_request(tree, self.n_clusters, self.distance_threshold)
        plain = tree
        if constraints is not None:
            plain = grow_tree(lengths, **how)
        tree = _hold_equal_rows(tree)
        is_cut = self._cut(tree, self.n_clusters, self.distance_threshold)

        self.edges_, self.edge_lengths_ = plain.edges, plain.lengths
        self.linkage_ = linkage_matrix(plain.edges, plain.lengths)
        self.children_ = self.linkage_[:, :2].astype(np.int64)
        self.distances_ = self.linkage_[:, 2]
        self.n_leaves_ = lengths.n_samples
        self.forest_edges_ = tree.edges[~is_cut]
        self.cut_distance_ = tree.lengths[is_cut].min(initial=np.inf)
        self.labels_, self.n_clusters_ = _labels(tree, is_cut)
        self._fit_X = None if is_given else X
        self._is_constrained = constraints is not None
        return self

    def predict(self, X, *, within_cut=False):
        """Give each row the label of the nearest training row.

        That is the one edge by which single linkage would join it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows, or, if metric="precomputed", their distances to the training
            rows, (n_samples, n_training_rows).
        within_cut : bool, default=False
            Give -1 to rows that are no nearer than `cut_distance_`: they would be
            clusters of their own.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            Cluster of each row.
        """
        check_is_fitted(self)
        X = validate_rows(self, X, reset=False)
        nearest, distances = nearest_row(self._fit_X, X, metric=self.metric)
        labels = self.labels_[nearest]
        if within_cut:
            labels = np.where(distances < self.cut_distance_, labels, -1)
        return labels

    def cut(self, n_clusters=None, *, distance_threshold=None):
        """Cut the fitted tree elsewhere, without growing it again.

        Parameters
        ----------
        n_clusters : int or None, default=None
            Number of clusters; None as in the constructor.
        distance_threshold : float or None, default=None
            Cut every edge longer than this; needs ``n_clusters=None``.

        Returns
        -------
        labels : ndarray of shape (`n_leaves_`,), int64
            What `fit` with these parameters would have given as `labels_`.

        Raises
        ------
        ValueError
            After a fit with constraints, whose forests are not cuts of `edges_`.
        """
        check_is_fitted(self)
        if self._is_constrained:
            raise ValueError(
                "SpanningForestClustering was fitted with constraints, and cut() knows "
                "the plain tree only. Fit again with the number of clusters that you "
                "want."
            )
        tree = CutTree(self.edges_, self.edge_lengths_, np.ones(len(self.edges_), bool))
        tree = _hold_equal_rows(tree)
        _check_request(tree, n_clusters, distance_threshold)
        return _labels(tree, self._cut(tree, n_clusters, distance_threshold))[0]

    def _lengths(self, X):
        """Make the relation between the rows of X."""
        lengths = lengths_of(X, self.metric)
        if self.min_samples is None:
            return lengths
        if issparse(X) or self.min_samples > len(X):
            raise ValueError(
                "The 'min_samples' parameter of SpanningForestClustering must be None "
                "for a sparse graph, and at most the number of rows. Got "
                f"{self.min_samples} instead, with {X.shape[0]} rows."
            )
        return mutual_reachability(lengths, self.min_samples)

    def _cut(self, tree, n_clusters, distance_threshold):
        """Return which edges of the tree are cut; say what could not be had."""
        n_samples = len(tree.edges) + 1

        def min_size(n_clusters):
            if self.min_cluster_size != "auto":
                return self.min_cluster_size
            return max(1, int(_AUTO_FRACTION * n_samples / n_clusters))

        if distance_threshold is not None:
            size = 1 if self.min_cluster_size == "auto" else self.min_cluster_size
            return cut_beyond(tree, distance_threshold, size)
        if n_clusters is None:
            n_clusters = widest_gap(tree, min_size)
        wanted = min_size(n_clusters)
        is_cut, kept = cut_into(tree, n_clusters, wanted)
        n_found = 1 + np.count_nonzero(is_cut)
        if n_found < n_clusters:
            warnings.warn(
                f"SpanningForestClustering found {n_found} clusters instead of "
                f"{n_clusters}: the rows have no more than {n_found} distinct values, "
                "and equal rows never part. Ask for fewer clusters.",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif kept < wanted:
            warnings.warn(
                f"SpanningForestClustering relaxed min_cluster_size from {wanted} to "
                f"{kept}: no edge leaves {wanted} rows on both sides. Ask for fewer "
                "clusters, or set min_cluster_size.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return is_cut

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.input_tags.sparse = self.metric == "precomputed"
        return tags


def _check_request(tree, n_clusters, distance_threshold):
    """Refuse a number of clusters that the tree cannot have."""
    n_samples = len(tree.edges) + 1
    if n_clusters is None:
        return
    if distance_threshold is not None:
        raise ValueError(
            "The 'n_clusters' parameter of SpanningForestClustering must be None where "
            f"distance_threshold is given. Got {n_clusters!r} instead. Set one of the "
            "two to None."
        )
    if n_clusters > n_samples:
        raise ValueError(
            "The 'n_clusters' parameter of SpanningForestClustering must be at most "
            f"the number of samples, n_samples={n_samples}. Got {n_clusters} instead. "
            "Ask for fewer clusters."
        )
    if n_clusters < tree.n_parts:
        raise ValueError(
            "The 'n_clusters' parameter of SpanningForestClustering must be at least "
            f"{tree.n_parts}, the number of parts that no edge joins, or none that the "
            f"constraints allow. Got {n_clusters} instead: no feasible forest was "
            "found. Ask for more clusters, or give more edges or fewer cannot-links."
        )


def _hold_equal_rows(tree):
    """Never cut edges of length zero, which join equal rows.

    Where some lengths are negative, zero is a length like any other.
    """
    if len(tree.lengths) and tree.lengths[-1] < 0:
        return tree
    return replace(tree, may_cut=tree.may_cut & (tree.lengths > 0))


def _labels(tree, is_cut):
    """Labels by size of what the cuts leave, and how many there are."""
    n_clusters = 1 + int(np.count_nonzero(is_cut))
    parted = components(tree.edges[~is_cut], len(tree.edges) + 1)
    return np.argsort(order_by_size(parted, n_clusters))[parted], n_clusters
