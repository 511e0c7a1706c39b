"""SpanningForestClustering: cuts of the minimum spanning tree."""

from collections.abc import Callable
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from skdiffclust._columns import check_table
from skdiffclust._compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    available_if,
    fit_context,
    validate_params,
)
from skdiffclust._constraints import as_constraints, check_feasible, restrict
from skdiffclust._gower import gower_encoder
from skdiffclust._history import FitTask, drop_stale, keep_state_on_error
from skdiffclust._neighbors import SPARSE_METRICS
from skdiffclust._pairwise import METRICS, is_clean_distances
from skdiffclust._validation import refuse_many_clusters, validate_rows
from skdiffclust.forests._constrained._grow_tree import grow_tree
from skdiffclust.forests._constrained._search import improve_tree_cut
from skdiffclust.forests._hierarchy._condensed_tree import CondensedTree
from skdiffclust.forests._hierarchy._core_sizes import core_radii, group_radii
from skdiffclust.forests._hierarchy._outliers import outlier_scores, outlier_threshold
from skdiffclust.forests._hierarchy._spanning_tree import free_tree, renumbered
from skdiffclust.forests._minimum_spanning_tree import given_tree
from skdiffclust.forests._perturbed._memberships import (
    EdgeNoise,
    memberships_under_noise,
    perturbed_edges,
)
from skdiffclust.forests._trees._distances import lengths_of, mutual_reachability
from skdiffclust.forests._trees._index import refuse_many_samples
from skdiffclust.forests._trees._samples import checked_weights, samples_in_order

_EUCLIDEAN = ("euclidean", "l2")
# Fitted attributes that take O(n) time and memory, which most users do not need.
_WHEN_ASKED_FOR = (
    "linkage_",
    "children_",
    "distances_",
    "forest_edges_",
    "outlier_scores_",
    "n_clusters_curve_",
)


def _has_consensus(estimator):
    """Whether labels are those of the largest membership."""
    if estimator.consensus and estimator.n_perturbations:
        return True
    raise AttributeError(
        "SpanningForestClustering has predict_proba only with consensus=True and "
        "n_perturbations > 0. Use memberships_ otherwise."
    )


class SpanningForestClustering(CallbackSupportMixin, ClusterMixin, BaseEstimator):
    """Cluster by cutting the minimum spanning tree, with cuts weighted by size.

    Edges are cut that are long *and* divide their tree into large parts, so that
    outliers do not form clusters. With ``cut_rule="longest"`` the result is single
    linkage, exactly the maximum spanning k-forest of [1]_, Definition 2.

    The estimator finds well-separated clusters of any shape and size, and one fit gives
    the labels for every number of clusters. Clusters that touch are not separated by
    gaps: use k-means or a mixture for them.

    Parameters
    ----------
    n_clusters : int, "auto" or None, default=2
        Number of clusters. "auto" determines it from the tree, at least 2 where a cut
        is possible, and warns if it is in doubt. None requires a `distance_threshold`.
    distance_threshold : float or None, default=None
        Cut every edge at least as long as this, as AgglomerativeClustering does, unless
        a part would be smaller than `min_cluster_size`; requires ``n_clusters=None``.
        Edges of length zero are never cut.
    metric : str or callable, default="euclidean"
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed": X is
        then a symmetric matrix of distances, dense, or sparse, where every stored entry
        is an edge, zeros too. Euclidean, cosine and "haversine" distances are the
        fastest, then Manhattan and Chebyshev distances in few dimensions. "gower" is
        for tables of numbers and categories with missing values, see
        :doc:`/user_guide/mixed_data`.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Columns of categories, with metric="gower": a mask, indices or names.
        "from_dtype" is those of strings, categories, Booleans and objects of a data
        frame; None is none.
    cut_rule : {"size_weighted", "longest"}, default="size_weighted"
        Which edge is cut next: the longest, as in single linkage, or the one with the
        largest score, its length times ``(a * b / (a + b)) ** 0.75``, where a and b are
        the sizes of the parts into which it divides its tree, and first edges that are
        longer by far than those on both sides. Outliers have hardly any size.
    min_cluster_size : int, default=1
        Smallest number of samples on each side of a cut. If no edge satisfies it, it
        is halved, with a warning. Parts that constraints separate may be smaller.
    min_samples : int or None, default=None
        If given, distances are first raised to the mutual reachability of HDBSCAN:
        at least the distance of either end to its `min_samples`-th neighbour, itself
        counted, as in :class:`sklearn.cluster.HDBSCAN`. Equal samples stay at zero.
    n_perturbations : int, default=0
        Number of perturbed trees that `memberships_` are of, for example 100. Must be 0
        with constraints or a `distance_threshold`.
    edge_noise : float, default=0.2
        Standard deviation of the logarithms of the random factors of the lengths.
    consensus : bool, default=False
        Whether `labels_` are the clusters of the largest memberships, which usually
        agree better with known classes if clusters overlap. Needs `n_perturbations`.
    algorithm : {"auto", "prim", "boruvka", "kruskal"}, default="auto"
        Algorithm that computes the tree. All give the same tree, and "auto" chooses the
        fastest. "boruvka" searches a k-d tree of points; "auto" takes its place where
        there are none. "kruskal" sorts all pairs, in O(n²) memory, and is for tests.
    n_jobs : int or None, default=None
        Number of threads of the compiled kernels; None uses as many as joblib and
        OpenMP allow, -1 all processors. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Determines the noise of the perturbations; nothing else is random.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int64
        Clusters 0 to ``n_clusters_ - 1`` by decreasing size.
    n_clusters_ : int
        Number of clusters found, at most that of distinct samples.
    n_clusters_candidates_ : ndarray of shape (n_candidates,), int64, or None
        With "auto", the numbers that win if a cut costs half to twice as much.
    structure_p_value_ : float or None
        With "auto", the share of samples without structure whose cuts gain more;
        1 where they gain nothing. None for constraints and other rules, and where
        cuts gain for sparse X, other metrics, `min_samples` and up to 20 samples.
    outlier_scores_ : ndarray of shape (n_samples,), float64
        Outlier score r / (r + m) of each sample, whatever the clusters: r is the
        geometric mean of the lengths at which single linkage joins it to components of
        20 and of 50 samples (at most a tenth of all), and m the median of r.
    memberships_ : ndarray of shape (n_samples, n_clusters), float64
        Fraction of the perturbed trees in which each sample is in each cluster. Only
        with `n_perturbations`.
    probabilities_ : ndarray of shape (n_samples,), float64
        Largest of `memberships_` of each sample. Only with ``consensus=True``.
    hierarchy_ : CutHierarchy
        The tree, the order of its cuts, and their scores.
    n_leaves_ : int
        Number of samples of positive weight, the leaves of the tree.
    edges_ : ndarray of shape (`n_leaves_ - 1`, 2), int64
        Minimum spanning tree of the leaves, the longest edge first. The components of a
        sparse graph are joined by edges of infinite length.
    edge_lengths_ : ndarray of shape (`n_leaves_ - 1`,), float64
        Lengths of the edges, in the units of the metric.
    forest_edges_ : ndarray of shape (`n_leaves_ - n_clusters_`, 2), int64
        Edges of the forest whose trees are the clusters, without noise.
    solver_ : {"exact", "local_search", "greedy"}
        How it was found: "exact" without constraints, else "local_search", or "greedy"
        for more than 16384 samples, a sparse graph, and with a `distance_threshold`.
    children_, distances_, linkage_ : ndarray
        The tree as in :class:`~sklearn.cluster.AgglomerativeClustering` and as scipy's
        linkage matrix, without constraints; made when asked for. Leaves are numbered
        from 0 up.
    cut_distance_ : float
        Length of the shortest edge that was cut, before moves; infinite if none was.
    n_clusters_curve_ : dict of ndarrays, or None
        Columns "n_clusters", from 2 to `n_clusters` or at least min(61, `n_leaves_`),
        and "score", that of the cut into this number of clusters; infinite where parts
        are divided that no edge joins. None with a `distance_threshold`.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    Notes
    -----
    Cuts are nested in the number of clusters, their scores never increase, and the unit
    of the lengths does not matter. `sample_weight` multiplies sizes: a weight of 2 is a
    sample repeated. Of equal lengths, the edge is taken that first joins samples in
    dense regions, so that labels do not depend on the order of the samples; with more
    than 5000 distinct samples, large sparse X and given distances they may.

    A fit takes at most O(n² d) time, close to O(n log n) if the intrinsic dimension is
    low, and O(n d) memory, with `min_samples` O(n (d + min_samples)). The training
    samples are kept for `predict`. :doc:`/user_guide/how_auto_decides` has the rules of
    cuts and of "auto". Searches need ``scoring=silhouette_scorer``.

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
    >>> SpanningForestClustering(n_clusters="auto").fit(X).n_clusters_
    2
    """

    _parameter_constraints = {
        "n_clusters": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
            None,
        ],
        "distance_threshold": [Interval(Real, 0, None, closed="left"), None],
        "metric": [StrOptions(METRICS | {"precomputed", "gower"}), callable],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "cut_rule": [StrOptions({"size_weighted", "longest"})],
        "min_cluster_size": [Interval(Integral, 1, None, closed="left")],
        "min_samples": [Interval(Integral, 1, None, closed="left"), None],
        "n_perturbations": [Interval(Integral, 0, None, closed="left")],
        "edge_noise": [Interval(Real, 0, None, closed="neither")],
        "consensus": ["boolean"],
        "algorithm": [StrOptions({"auto", "prim", "boruvka", "kruskal"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int | np.integer | Literal["auto"] | None = 2,
        *,
        distance_threshold: float | None = None,
        metric: str | Callable[..., Any] = "euclidean",
        categorical_features: object = "from_dtype",
        cut_rule: Literal["size_weighted", "longest"] = "size_weighted",
        min_cluster_size: int | np.integer = 1,
        min_samples: int | np.integer | None = None,
        n_perturbations: int | np.integer = 0,
        edge_noise: float = 0.2,
        consensus: bool = False,
        algorithm: Literal["auto", "prim", "boruvka", "kruskal"] = "auto",
        n_jobs: int | np.integer | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.distance_threshold = distance_threshold
        self.metric = metric
        self.categorical_features = categorical_features
        self.cut_rule = cut_rule
        self.min_cluster_size = min_cluster_size
        self.min_samples = min_samples
        self.n_perturbations = n_perturbations
        self.edge_noise = edge_noise
        self.consensus = consensus
        self.algorithm = algorithm
        self.n_jobs = n_jobs
        self.random_state = random_state

    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X,
        y=None,
        sample_weight=None,
        *,
        partial_labels=None,
        must_link=None,
        cannot_link=None,
        tree=None,
    ) -> Self:
        """Grow the tree of X and cut it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or of shape \
                (n_samples, n_samples) if metric="precomputed"
            Samples, or distances between samples. Sparse samples need one of the
            metrics "euclidean", "l2", "sqeuclidean" and "cosine". With metric="gower",
            a data frame or an array, with missing values.
        y : None
            Ignored. Known labels go to `partial_labels`.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative sizes of the samples: a weight of 2 is a sample repeated. They
            count in the size-weighted rule, in "auto" and in `min_cluster_size`, not in
            `min_samples`. Samples of weight zero take no part, whatever their links:
            they are left out first, and get the label that `predict` gives them.
        partial_labels : array-like of shape (n_samples,), default=None
            Integers, or strings in an object array: samples with the same label
            share a cluster, samples with different ones do not; -1 where unknown.
        must_link : array-like or sparse matrix, default=None
            Samples that share a cluster: index pairs (n_links, 2), group ids
            (n_samples,) with -1 for none, or a sparse incidence matrix
            (n_samples, n_links). Use one of the last two in a cross-validation.
        cannot_link : array-like or sparse matrix, default=None
            Samples that do not share one: index pairs or incidence. O(n²) memory.
        tree : SpanningTree, default=None
            The Euclidean minimum spanning tree of X, for example of
            :func:`~skdiffclust.forests.minimum_spanning_tree_by_blocks`. Its lengths
            are checked; that it is the shortest is not. Not with constraints,
            `min_samples` or samples of weight zero.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is invalid, or constraints contradict each other or the
            number of clusters.

        Warns
        -----
        ConvergenceWarning
            As of :meth:`skdiffclust.forests.CutHierarchy.cut`.
        """
        refuse_many_samples("SpanningForestClustering", X)
        X, is_clean = self._check_samples(X)
        constraints = as_constraints(X.shape[0], partial_labels, must_link, cannot_link)
        self._check_perturbations(constraints)
        weights = checked_weights(sample_weight, X, self.metric)
        task = FitTask.root(self, X, y, 1 + self.n_perturbations)
        metric = self.metric
        if metric == "gower":
            metric, X = gower_encoder(X, self.categorical_features, weights)
        samples = samples_in_order(X, weights, metric, by_index=tree is not None)
        order = samples.order
        n_samples = samples.X.shape[0]
        refuse_many_clusters("SpanningForestClustering", self.n_clusters, n_samples)
        if constraints is not None:
            rows = samples.numbers(np.arange(n_samples))
            constraints = restrict(constraints, rows)

        growth = task.subtask("tree")
        lengths = lengths_of(samples.X, metric, samples.firsts, is_clean=is_clean)
        lengths = mutual_reachability(lengths, self.min_samples, self.n_jobs)
        n_clusters = None if self.n_clusters == "auto" else self.n_clusters
        if n_clusters is not None:
            check_feasible(constraints, n_clusters)
        how = {"algorithm": self.algorithm, "n_jobs": self.n_jobs}
        if constraints is not None:
            constrained = grow_tree(lengths, constraints, n_clusters=n_clusters, **how)
        is_free = constraints is None and samples.kept is None
        if tree is None:
            grown = free_tree(lengths, **how)
        else:
            grown = given_tree(tree, lengths, is_free and self.metric in _EUCLIDEAN)
        tree = renumbered(grown, order)
        hierarchy = tree.hierarchy(
            cut_rule=self.cut_rule,
            sample_weight=samples.weights,
            min_cluster_size=self.min_cluster_size,
        )
        if constraints is not None:
            hierarchy = hierarchy.with_tree(renumbered(constrained, order))
        growth.end()
        cut = hierarchy.cut(
            self.n_clusters,
            distance_threshold=self.distance_threshold,
            samples=self._samples_of_null(self.n_clusters, samples.X),
        )
        if constraints is not None:
            can_move = self.distance_threshold is None
            cut = improve_tree_cut(cut, lengths, samples, constraints, can_move)
        labels = cut.labels
        memberships = None
        if self.n_perturbations:
            noise = EdgeNoise(self.edge_noise, self.n_perturbations, self.consensus)
            rng = check_random_state(self.random_state)
            graph = perturbed_edges(lengths, grown)
            memberships = memberships_under_noise(
                cut, hierarchy, graph, samples.positions(), noise, rng, task
            )
            labels = memberships.argmax(axis=1) if self.consensus else labels

        self._publish(tree, hierarchy, cut, samples)
        self._metric = metric
        self._weights = weights
        self._place, *self._aside = samples.predicted(X, metric)
        self.labels_ = self._of_all(labels)
        if memberships is not None:
            self.memberships_ = self._of_all(memberships)
            if self.consensus:
                self.probabilities_ = self.memberships_.max(axis=1)
            self.n_clusters_ = memberships.shape[1]
        task.end(dict)
        return self

    def _publish(self, tree, hierarchy, cut, samples):
        """Assign the fitted attributes of the samples of positive weight."""
        drop_stale(self, ("memberships_", "probabilities_", *_WHEN_ASKED_FOR))
        kept = samples.kept
        self.hierarchy_ = hierarchy
        self.edges_ = tree.edges if kept is None else kept[tree.edges]
        self.edge_lengths_ = tree.lengths
        self.n_leaves_ = len(tree.edges) + 1
        self.solver_ = cut.solver
        self.cut_distance_ = cut.distance
        self.n_clusters_ = cut.n_clusters
        self.n_clusters_candidates_ = cut.candidates
        self.structure_p_value_ = cut.p_value
        self._cut = cut
        self._samples = samples.without_distances(self.metric)

    def _of_all(self, values):
        """Return values of all samples (n, ...) from those of positive weight."""
        return values if self._place is None else values[self._place]

    @cached_property
    def linkage_(self):
        """The tree as scipy's linkage matrix; made when asked for."""
        check_is_fitted(self)
        return self.hierarchy_.linkage

    @cached_property
    def children_(self):
        """The tree as of AgglomerativeClustering; made when asked for."""
        return self.linkage_[:, :2].astype(np.int64)

    @cached_property
    def distances_(self):
        """Lengths at which `children_` are joined; made when asked for."""
        return self.linkage_[:, 2]

    @cached_property
    def forest_edges_(self):
        """Edges of the forest of the clusters; made when asked for."""
        check_is_fitted(self)
        kept = self._samples.kept
        return self._cut.edges if kept is None else kept[self._cut.edges]

    @cached_property
    def outlier_scores_(self):
        """Outlier score of each sample among all samples; computed when asked for."""
        check_is_fitted(self)
        return self._outlier_scores(group_radii, np.zeros_like(self.labels_))

    @cached_property
    def n_clusters_curve_(self):
        """Scores of the first cuts; those after `n_clusters` when asked for."""
        check_is_fitted(self)
        return self.hierarchy_.curve(self._cut)

    def predict(self, X, *, within_cut=False) -> np.ndarray:
        """Give each sample the label of the nearest training sample.

        That is the one edge by which single linkage would join it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New samples, or, if metric="precomputed", their distances to the training
            samples, (n_samples, n_training_samples).
        within_cut : bool, default=False
            Give -1 to samples that are farther from the nearest training sample than
            the longest edge in its cluster, which their own edge would exceed.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            Cluster of each sample.
        """
        nearest, distances = self._nearest(X)
        labels = self.labels_[nearest]
        if within_cut:
            kept = self._samples.kept
            own = self.labels_ if kept is None else self.labels_[kept]
            longest = self._cut.longest_edges(own)
            labels = np.where(distances <= longest[labels], labels, -1)
        return labels

    @available_if(_has_consensus)
    def predict_proba(self, X) -> np.ndarray:
        """Give each sample the memberships of the nearest training sample.

        Only with ``consensus=True`` and `n_perturbations`: then the place of the
        largest is what `predict` returns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            As in `predict`.

        Returns
        -------
        memberships : ndarray of shape (n_samples, n_clusters), float64
            Rows sum to one.
        """
        nearest, _ = self._nearest(X)
        return self.memberships_[nearest]

    def _nearest(self, X):
        """Return the nearest training sample (m,) of each sample, and how far it is."""
        check_is_fitted(self)
        if self.metric == "gower":
            X = self._metric.encode(check_table(self, X, reset=False))
        else:
            formats = self._sparse_formats()
            X = validate_rows(self, X, reset=False, accept_sparse=formats)
        return self._samples.nearest(X, self._metric)

    @validate_params(
        {
            "n_clusters": _parameter_constraints["n_clusters"],
            "distance_threshold": _parameter_constraints["distance_threshold"],
            "max_outlier_score": [Interval(Real, 0, 1, closed="both"), None],
            "min_size": [Interval(Real, 1, None, closed="left"), None],
        },
        prefer_skip_nested_validation=True,
    )
    def cut(
        self,
        n_clusters: int | np.integer | Literal["auto"] | None = None,
        *,
        distance_threshold: float | None = None,
        max_outlier_score: float | None = None,
        min_size: float | None = None,
    ) -> np.ndarray:
        """Cut the fitted tree with other parameters, without growing it again.

        Parameters
        ----------
        n_clusters : int, "auto" or None, default=None
            Number of clusters. With None for this and `distance_threshold`, both are
            those of the constructor.
        distance_threshold : float or None, default=None
            Cut every edge at least as long as this, unless a part would be smaller than
            `min_cluster_size`; needs ``n_clusters=None``.
        max_outlier_score : float or None, default=None
            Samples that are outliers of their cluster get the label -1, noise: with r
            the length at which single linkage joins a sample to a component of five
            samples, and m the median of r in the cluster, those whose r / (r + m) is
            larger. At 0.8, r is more than four times what is typical of the cluster.
        min_size : float or None, default=None
            Clusters of less weight get the label -1, noise. With a
            `distance_threshold` and `min_samples`, the rest is as in DBSCAN.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            The `labels_` of a fit with these parameters, but for noise and consensus.

        Raises
        ------
        ValueError
            After a fit with constraints, whose forests are not cuts of `edges_`.
        """
        check_is_fitted(self)
        if n_clusters is None and distance_threshold is None:
            n_clusters = self.n_clusters
            distance_threshold = self.distance_threshold
        if self.solver_ != "exact":
            raise ValueError(
                "SpanningForestClustering was fitted with constraints, and cut() is "
                "defined for the tree without constraints only. Fit again with the "
                "desired number of clusters."
            )
        cut = self.hierarchy_.cut(
            n_clusters,
            distance_threshold=distance_threshold,
            samples=self._samples_of_null(n_clusters, self._samples.X),
        )
        labels = self._of_all(cut.labels)
        is_noise = np.zeros(len(labels), dtype=bool)
        if max_outlier_score is not None:
            is_noise |= self._outlier_scores(core_radii, labels) > max_outlier_score
        if min_size is not None:
            is_noise |= np.bincount(labels, self._weights)[labels] < min_size
        return np.where(is_noise, -1, labels)

    def _outlier_scores(self, radii_of, labels):
        """Return scores by radii, which are at least the distance for weight zero."""
        aside, distances = self._aside
        radii = radii_of(self.hierarchy_.plain_tree, self.hierarchy_.weights)
        radii = self._of_all(radii)
        radii[aside] = np.maximum(radii[aside], distances)
        return outlier_scores(radii, labels, self._weights)

    @validate_params(
        {"false_rate": [Interval(Real, 0, 0.25, closed="neither")]},
        prefer_skip_nested_validation=True,
    )
    def find_outliers(self, false_rate=0.01) -> np.ndarray:
        """Mark samples whose `outlier_scores_` are high, at a stated false rate.

        The threshold is extrapolated from the upper quarter of the scores without the
        highest twentieth. So it holds as long as less than one in twenty samples is an
        outlier; of more, some are missed.

        Parameters
        ----------
        false_rate : float, default=0.01
            The share of samples, above 0 and below 0.25, that may be marked if there
            are no outliers. To mark a given number of them, sort `outlier_scores_`.

        Returns
        -------
        is_outlier : ndarray of shape (n_samples,), bool
            Whether each sample of the fit is an outlier.
        """
        check_is_fitted(self)
        scores = self.outlier_scores_
        return scores > outlier_threshold(scores, false_rate, self._weights)

    def condensed_tree(self, min_cluster_size=5) -> CondensedTree:
        """Return the hierarchy of clusters of at least this many samples.

        Its densities are inverse lengths of `edges_`; set `min_samples` for those of
        HDBSCAN. Constraints have no influence.

        Parameters
        ----------
        min_cluster_size : int, default=5
            As in :meth:`skdiffclust.forests.CutHierarchy.condensed_tree`.

        Returns
        -------
        tree : CondensedTree
            The samples of positive weight are numbered from 0 up.
        """
        check_is_fitted(self)
        return self.hierarchy_.condensed_tree(min_cluster_size)

    def _check_samples(self, X):
        """Return X checked, and whether it is a matrix with nothing left to check.

        A matrix is checked as a whole first; errors are located afterwards.
        """
        if self.metric == "gower":
            return check_table(self, X), False
        if self.metric != "precomputed":
            return validate_rows(self, X, accept_sparse=self._sparse_formats()), False
        checked = validate_rows(self, X, accept_sparse="csr", ensure_all_finite=False)
        if is_clean_distances(checked):
            return checked, True
        return validate_rows(self, X, accept_sparse="csr"), False

    def _sparse_formats(self):
        """Return what `accept_sparse` is for samples."""
        takes_sparse = isinstance(self.metric, str) and self.metric in SPARSE_METRICS
        return "csr" if takes_sparse else False

    def _check_perturbations(self, constraints):
        """Refuse perturbations where they are undefined."""
        if self.consensus and not self.n_perturbations:
            raise ValueError(
                "The 'n_perturbations' parameter of SpanningForestClustering must be "
                "positive with consensus=True. Got 0 instead. Set it, for example to "
                "100, or consensus=False."
            )
        is_cut_by_number = constraints is None and self.distance_threshold is None
        if self.n_perturbations and not is_cut_by_number:
            what = "a distance_threshold" if constraints is None else "constraints"
            raise ValueError(
                "The 'n_perturbations' parameter of SpanningForestClustering must be 0 "
                f"with {what}. Got {self.n_perturbations} instead. Cuts under noise "
                "are defined for a number of clusters, without constraints."
            )

    def _samples_of_null(self, n_clusters, X):
        """Return samples of which the p-value of "auto" is known, or None."""
        is_euclidean = self.metric in _EUCLIDEAN and not issparse(X)
        is_plain = is_euclidean and self.min_samples is None
        return X if n_clusters == "auto" and is_plain else None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        is_given = self.metric == "precomputed"
        tags.input_tags.pairwise = is_given
        tags.input_tags.sparse = is_given or bool(self._sparse_formats())
        is_mixed = self.metric == "gower"
        tags.input_tags.allow_nan = is_mixed
        tags.input_tags.categorical = is_mixed
        return tags
