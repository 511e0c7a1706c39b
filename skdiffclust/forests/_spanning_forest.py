"""SpanningForestClustering: cuts of the minimum spanning tree."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from skdiffclust._affinity import METRICS, is_clean_distances
from skdiffclust._assignments import order_by_size
from skdiffclust._compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    available_if,
    check_sample_weight,
    fit_context,
    validate_params,
)
from skdiffclust._constraints import as_constraints, check_feasible, restrict
from skdiffclust._history import (
    FitTask,
    drop_stale,
    keep_state_on_error,
    warn_of_convergence,
)
from skdiffclust._neighbors import SPARSE_METRICS, nearest_sample
from skdiffclust._validation import is_small_dense, validate_rows
from skdiffclust._warnings import warn
from skdiffclust.forests._constrained._grow_tree import grow_tree
from skdiffclust.forests._constrained._search import improve_cut, join_groups
from skdiffclust.forests._hierarchy._condensed_tree import CondensedTree, condense
from skdiffclust.forests._hierarchy._core_sizes import (
    core_radii,
    core_sizes,
    group_radii,
)
from skdiffclust.forests._hierarchy._linkage import linkage_matrix
from skdiffclust.forests._hierarchy._null import (
    N_NEIGHBORS,
    intrinsic_dimension,
    p_value,
)
from skdiffclust.forests._hierarchy._number import (
    Choice,
    choose_number,
    evidence_of_cuts,
    falls_of,
    highest_number,
)
from skdiffclust.forests._hierarchy._outliers import (
    outlier_scores,
    outlier_threshold,
)
from skdiffclust.forests._hierarchy._tree_cuts import (
    cut,
    cut_beyond,
    mask,
)
from skdiffclust.forests._perturbed._memberships import (
    consensus,
    memberships_of,
    perturbed_edges,
    perturbed_labels,
)
from skdiffclust.forests._trees._distances import (
    lengths_of,
    lengths_of_matrix,
    mutual_reachability,
)
from skdiffclust.forests._trees._ties import order_of_ties
from skdiffclust.forests._trees._tree import (
    CutTree,
    components,
    cut_order,
    tree_of_points,
)

# Products of two sums of weights are finite and positive.
_LEAST_WEIGHT = 1e-100
_MOST_WEIGHT = 1e100
# Scores of cuts that every fit has.
_N_SCORES = 60
# A number of clusters is in doubt if its p-value is larger.
_LARGEST_P_VALUE = 0.05
# Lengths computed at a time, 8 MB of them, and entries of sparse X made dense at most.
_LENGTHS_AT_ONCE = 2**20


def _has_consensus(estimator):
    """Whether labels are those of the largest membership."""
    if estimator.consensus and estimator.n_perturbations:
        return True
    raise AttributeError(
        "SpanningForestClustering has predict_proba only with consensus=True and "
        "n_perturbations > 0, where labels_ are the clusters of largest probability. "
        "Use memberships_ otherwise."
    )


class SpanningForestClustering(CallbackSupportMixin, ClusterMixin, BaseEstimator):
    """Cluster by cutting the minimum spanning tree, with cuts weighted by size.

    Edges are cut that are long *and* divide their tree into large parts, so that
    outliers do not form clusters. With ``cut_rule="longest"`` the k - 1 longest edges
    are cut, as in single linkage; the result is then exactly the maximum spanning
    k-forest of [1]_, Definition 2.

    The estimator finds well-separated clusters of any shape and size, and one fit gives
    the labels for every number of clusters. Clusters that touch are not separated by
    gaps: use k-means or a mixture for them.

    Parameters
    ----------
    n_clusters : int, "auto" or None, default=2
        Number of clusters. "auto" determines it from the tree, at least 2, and warns
        if it is in doubt. None requires a `distance_threshold`.
    distance_threshold : float or None, default=None
        Cut every edge at least as long as this, whatever the rule, as
        `sklearn.cluster.AgglomerativeClustering` does, unless a part were smaller than
        `min_cluster_size`; requires ``n_clusters=None``. Edges of length zero are never
        cut.
    metric : str or callable, default="euclidean"
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed": X is
        then a symmetric matrix of distances, dense, or sparse, where every stored entry
        is an edge, zeros too. With "haversine", X has latitudes and longitudes in
        radians. Euclidean and cosine distances, also of sparse samples, and angles on
        the sphere are the fastest, then Manhattan and Chebyshev distances in few
        dimensions.
    cut_rule : {"size_weighted", "longest"}, default="size_weighted"
        Which edge is cut next. "size_weighted" takes the one with the largest score,
        its length times ``(a * b / (a + b)) ** 0.75``, where a and b are the sizes of
        the parts into which it divides its tree, and first edges that are longer by far
        than those on both sides. Samples far from all others have hardly any size.
        "longest" takes the longest edge: single linkage.
    min_cluster_size : int, default=1
        Smallest number of samples on each side of a cut. If no edge satisfies it, it
        is halved, with a warning. Parts that constraints separate may be smaller.
    min_samples : int or None, default=None
        If given, distances are first raised to the mutual reachability of HDBSCAN:
        at least the distance of either end to its `min_samples`-th neighbour, itself
        counted, as in :class:`sklearn.cluster.HDBSCAN`; the packages hdbscan,
        quitefastmst and genieclust do not count it. Equal samples stay at distance
        zero.
    n_perturbations : int, default=0
        Number of perturbed trees from which `memberships_` are computed, for example
        100. Must be 0 with constraints or a `distance_threshold`.
    edge_noise : float, default=0.2
        Standard deviation of the logarithms of the random factors by which
        perturbations multiply the lengths of the edges.
    consensus : bool, default=False
        Whether `labels_` are the clusters of the largest memberships, instead of the
        cut of the tree without noise. Ignored where `n_perturbations` is 0. If
        clusters overlap, it usually agrees better with known classes.
    algorithm : {"auto", "prim", "boruvka", "kruskal"}, default="auto"
        Algorithm that computes the tree. All give the same tree; "auto" chooses by
        the metric, the numbers of samples and features, and which kernels are compiled
        already. "boruvka" searches a k-d tree of points, or compares all pairs in many
        dimensions; "auto" takes its place where there are no points. "kruskal" sorts
        all pairs, in O(n²) memory, and is meant for tests.
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
        Number of clusters found. Equal samples always share a cluster, so it is smaller
        than requested if there are fewer distinct samples.
    n_clusters_candidates_ : ndarray of shape (n_candidates,), int64, or None
        With "auto", the numbers of clusters that win if a cut takes between half and
        twice the evidence, ascending; else None.
    structure_p_value_ : float or None
        With "auto", the share of samples without structure that have more evidence of
        clusters; 1 without evidence. None but for Euclidean distances of more than 20
        distinct dense samples, without `min_samples` and constraints, and with
        "size_weighted" cuts.
    outlier_scores_ : ndarray of shape (n_samples,), float64
        Outlier score of each sample, from 0 to 1, whatever the clusters: with r the
        geometric mean of the lengths at which single linkage joins it to components of
        20 and of 50 samples (at most a tenth of all), and m the median of r, r / (r +
        m). So groups of outliers have high scores, too; see `find_outliers`.
    memberships_ : ndarray of shape (n_samples, n_clusters), float64
        Fraction of the perturbed trees in which each sample is in each cluster; rows
        sum to one. Only with `n_perturbations`.
    edges_ : ndarray of shape (n_samples - 1, 2), int64
        Minimum spanning tree, the longest edge first. The components of a sparse graph
        are joined by edges of infinite length.
    edge_lengths_ : ndarray of shape (n_samples - 1,), float64
        Lengths of the edges, in the units of the metric.
    forest_edges_ : ndarray of shape (`n_samples - n_clusters_`, 2), int64
        Edges of the forest whose trees are the clusters; with ``consensus=True``, that
        of the cut without noise.
    search_ : {"exact", "moves", "greedy"}
        How that forest was found: "exact" without constraints. With these, the cut of
        the greedy tree is followed by "moves" of samples and groups to other clusters,
        as long as the forest becomes shorter; not ("greedy") for more than 16384
        samples, a sparse graph, and with a `distance_threshold`.
    children_, distances_, linkage_ : ndarray
        The tree as in :class:`~sklearn.cluster.AgglomerativeClustering` and as scipy's
        linkage matrix (n_samples - 1, 4); always the plain, unconstrained tree.
    cut_distance_ : float
        Length of the shortest edge that was cut, under constraints before any moves;
        infinite with one cluster.
    n_clusters_curve_ : dict of ndarrays, or None
        Columns "n_clusters", from 2 to `n_clusters` or at least min(61, n_samples), and
        "score", the largest score of an edge at the cut into this number of clusters,
        or the length with ``cut_rule="longest"``; infinite where parts are divided that
        no edge joins or constraints separate. None with a `distance_threshold`.
    n_leaves_ : int
        Number of samples.
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
    samples are kept, because `predict` needs them. The rules of cuts and of "auto", and
    what each part of them is worth, are in :doc:`/user_guide/how_auto_decides`.
    Searches need ``scoring=silhouette_scorer``.

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
        "metric": [StrOptions(METRICS | {"precomputed"}), callable],
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
            metrics "euclidean", "l2", "sqeuclidean" and "cosine".
        y : None
            Ignored. Known labels go to `partial_labels`.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative sizes of the samples: a weight of 2 is a sample repeated. They
            count in the size-weighted rule, in "auto" and in `min_cluster_size`, not in
            `min_samples`. Divide weights of sum 1 by their mean: together they would
            count as one sample. Samples of weight zero take no part, whatever their
            links: they get the label of the nearest other sample, and in `edges_` they
            are its leaves.
        partial_labels : array-like of shape (n_samples,), default=None
            Integers, or strings in an object array: samples with the same label
            share a cluster, samples with different ones do not; -1 where unknown.
        must_link : array-like or sparse matrix, default=None
            Samples that share a cluster: index pairs (n_links, 2), group ids
            (n_samples,) with -1 for none, or a sparse incidence matrix
            (n_samples, n_links) with two non-zeros in a column. In a cross-validation
            use one of the last two, since pairs do not follow the samples.
        cannot_link : array-like or sparse matrix, default=None
            Samples that do not share a cluster: index pairs or a sparse incidence
            matrix. Needs the list of all edges, O(n²) memory.
        tree : SpanningTree, default=None
            The Euclidean minimum spanning tree of X, for example of
            :func:`~skdiffclust.forests.minimum_spanning_tree_by_blocks`, which is cut
            instead of being grown again. That it spans X and has the lengths of its
            edges is checked, that it is the shortest is not. Not with constraints,
            `min_samples` or samples of weight zero.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is invalid, or constraints contradict each
            other or the number of clusters.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested, or the minimum size is relaxed.
            With "auto", if `structure_p_value_` exceeds 0.05, or there are several
            `n_clusters_candidates_` and the largest falls of the scores show a number
            other than `n_clusters_`.
        """
        is_given = self.metric == "precomputed"
        X, is_clean = self._check_samples(X)
        constraints = as_constraints(X.shape[0], partial_labels, must_link, cannot_link)
        weights, kept = self._check_weights(sample_weight, X)
        everything = X
        firsts = None
        if tree is None and not is_given:
            kept, firsts = _in_order_of_ties(X, weights, kept)
        if kept is not None:
            X = X[kept][:, kept] if is_given else X[kept]
            constraints = None if constraints is None else restrict(constraints, kept)
        self._check_perturbations(constraints)
        task = FitTask.root(self, everything, y, 1 + self.n_perturbations)
        growth = task.subtask("tree")
        if is_clean:
            lengths = lengths_of_matrix(X)
        else:
            lengths = lengths_of(X, self.metric, firsts)
        lengths = self._raised(lengths)
        n_clusters = None if self.n_clusters == "auto" else self.n_clusters
        if n_clusters is not None:
            check_feasible(constraints, n_clusters)
        how = {"algorithm": self.algorithm, "n_jobs": self.n_jobs}
        if tree is None:
            tree = grow_tree(lengths, constraints, n_clusters=n_clusters, **how)
        else:
            self._refuse_tree(tree, lengths, constraints, kept)
            tree = tree_of_points(tree, lengths.points)
        _check_request(tree, self.n_clusters, self.distance_threshold)
        plain = tree
        if constraints is not None:
            plain = grow_tree(lengths, **how)
        growth.end()
        inner = plain
        if kept is not None:
            leaves = self._leaves(X, everything, kept)
            plain = _with_leaves(plain, kept, *leaves)
            tree = _with_leaves(tree, kept, *leaves)
        linkage = linkage_matrix(plain.edges, plain.lengths)
        sizes = None
        if self.cut_rule == "size_weighted":
            _refuse_negative(tree.lengths, "cut_rule", "'longest'")
            sizes = core_sizes(core_radii(linkage, weights), linkage, weights)
        tree = _hold_samples(tree, weights)
        is_cut, scores, min_size, choice = self._cut(
            tree, self.n_clusters, self.distance_threshold, sizes, weights, X
        )
        forest = _Forest.of_cut(tree, is_cut)
        can_move = is_small_dense(lengths.n_samples) and lengths.between is not None
        if constraints is not None and can_move and self.distance_threshold is None:
            leaves = None if kept is None else (kept, *leaves)
            forest = _improve(forest, lengths, constraints, min_size, weights, leaves)
        elif constraints is not None:
            forest = forest._replace(search="greedy")

        self.edges_ = plain.edges
        self.edge_lengths_ = plain.lengths
        self.linkage_ = linkage
        self.children_ = self.linkage_[:, :2].astype(np.int64)
        self.distances_ = self.linkage_[:, 2]
        self.n_leaves_ = everything.shape[0]
        self.forest_edges_ = forest.edges
        self.search_ = forest.search
        self.cut_distance_ = tree.lengths[is_cut].min(initial=np.inf)
        self.labels_, self.n_clusters_ = _labels(forest, weights)
        self.n_clusters_candidates_ = choice and choice.candidates
        self.structure_p_value_ = choice and choice.p_value
        drop_stale(self, ["memberships_", "outlier_scores_", "n_clusters_curve_"])
        if self.n_perturbations:
            graph = *perturbed_edges(lengths, inner), lengths.n_samples
            self._perturb(graph, sizes, weights, kept, min_size, task)
            if kept is not None:
                zero, nearest, _ = leaves
                self.memberships_[zero] = self.memberships_[nearest]
                self.labels_[zero] = self.labels_[nearest]
        self._scores = scores
        self._min_sizes = self.min_cluster_size, min_size
        self._tree = tree
        self._forest_lengths = forest.lengths
        self._sizes = sizes
        self._weights = weights
        self._fit_X = None if is_given else X
        self._kept = kept
        self._is_constrained = constraints is not None
        task.end(dict)
        return self

    @cached_property
    def outlier_scores_(self):
        """Outlier score of each sample among all samples; computed when asked for."""
        check_is_fitted(self)
        alone = np.zeros(self.n_leaves_, dtype=np.int64)
        radii = group_radii(self.linkage_, self._weights)
        return outlier_scores(radii, alone, self._weights)

    @cached_property
    def n_clusters_curve_(self):
        """Scores of the first cuts; those after `n_clusters` when asked for."""
        check_is_fitted(self)
        scores = self._scores
        if scores is None:
            return None
        n_cuts = min(_N_SCORES, len(self.edges_))
        if len(scores) < n_cuts:
            wanted, smallest = self._min_sizes
            _, scores, _ = cut(
                self._tree,
                n_cuts,
                sizes=self._sizes,
                weights=self._weights,
                min_size=wanted,
                smallest=smallest,
            )
        return {"n_clusters": np.arange(2, len(scores) + 2), "score": scores}

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
            longest = _longest_edges(
                self.forest_edges_, self._forest_lengths, self.labels_
            )
            labels = np.where(distances <= longest[labels], labels, -1)
        return labels

    @available_if(_has_consensus)
    def predict_proba(self, X) -> np.ndarray:
        """Give each sample the memberships of the nearest training sample.

        Available after a fit with ``consensus=True`` and `n_perturbations`: then the
        place of the largest is what `predict` returns.

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
        X = validate_rows(self, X, reset=False, accept_sparse=self._sparse_formats())
        if self._kept is not None and self.metric == "precomputed":
            X = X[:, self._kept]
        nearest, distances = nearest_sample(self._fit_X, X, metric=self.metric)
        return nearest if self._kept is None else self._kept[nearest], distances

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
            Cut every edge at least as long as this, unless a part were smaller than
            `min_cluster_size`; needs ``n_clusters=None``.
        max_outlier_score : float or None, default=None
            Samples that are outliers of their cluster get the label -1, noise: with r
            the length at which single linkage joins a sample to a component of five
            samples, and m the median of r in the cluster, those whose r / (r + m) is
            larger. At 0.8, r is more than four times what is typical of the cluster.
            None labels all samples. `outlier_scores_` does not depend on clusters.
        min_size : float or None, default=None
            Clusters of fewer samples, by `sample_weight` if there was one, get the
            label -1, noise. With a `distance_threshold` and `min_samples`, which makes
            samples in sparse regions clusters of their own, the rest is as in DBSCAN.

        Returns
        -------
        labels : ndarray of shape (`n_leaves_`,), int64
            The `labels_` of a fit with these parameters, except for noise, and without
            a consensus.

        Raises
        ------
        ValueError
            After a fit with constraints, whose forests are not cuts of `edges_`.
        """
        check_is_fitted(self)
        if n_clusters is None and distance_threshold is None:
            n_clusters = self.n_clusters
            distance_threshold = self.distance_threshold
        if self._is_constrained:
            raise ValueError(
                "SpanningForestClustering was fitted with constraints, and cut() is "
                "defined for the tree without constraints only. Fit again with the "
                "desired number of clusters."
            )
        tree = self._tree
        _check_request(tree, n_clusters, distance_threshold)
        is_cut, *_ = self._cut(
            tree,
            n_clusters,
            distance_threshold,
            self._sizes,
            self._weights,
            self._fit_X,
        )
        labels = _labels(_Forest.of_cut(tree, is_cut), self._weights)[0]
        is_noise = np.zeros(len(labels), dtype=bool)
        if max_outlier_score is not None:
            radii = core_radii(self.linkage_, self._weights)
            scores = outlier_scores(radii, labels, self._weights)
            is_noise |= scores > max_outlier_score
        if min_size is not None:
            is_noise |= np.bincount(labels, self._weights)[labels] < min_size
        return np.where(is_noise, -1, labels)

    @validate_params(
        {"false_rate": [Interval(Real, 0, 0.25, closed="neither")]},
        prefer_skip_nested_validation=True,
    )
    def find_outliers(self, false_rate=0.01) -> np.ndarray:
        """Mark samples whose `outlier_scores_` are high, at a stated false rate.

        The threshold is extrapolated from the upper quarter of the scores without the
        highest twentieth. So it holds as long as less than one in twenty samples is an
        outlier; of more, some are missed. On Gaussians, cubes, and mixtures of three
        scales in 2 to 50 dimensions, the mean share that is marked is near
        `false_rate` or below: the largest is 0.0142 for 0.01, and 0.056 for 0.05.

        Parameters
        ----------
        false_rate : float, default=0.01
            The share of samples, above 0 and below 0.25, that may be marked if there
            are no outliers. To mark a given number of them, sort `outlier_scores_`.

        Returns
        -------
        is_outlier : ndarray of shape (`n_leaves_`,), bool
            Whether each sample of the fit is an outlier.
        """
        check_is_fitted(self)
        scores = self.outlier_scores_
        return scores > outlier_threshold(scores, false_rate, self._weights)

    @validate_params(
        {"min_cluster_size": [Interval(Integral, 2, None, closed="left")]},
        prefer_skip_nested_validation=True,
    )
    def condensed_tree(self, min_cluster_size=5) -> CondensedTree:
        """Return the hierarchy of clusters of at least this many samples.

        It is the tree of HDBSCAN*, of the lengths of `edges_`: by single linkage,
        whatever `cut_rule` is, and without constraints. Its densities are inverse
        lengths; set `min_samples` for those of HDBSCAN.

        Parameters
        ----------
        min_cluster_size : int, default=5
            A cluster divides only where both parts have this many samples, by
            `sample_weight` if there was one; other parts leave it, sample by sample.

        Returns
        -------
        tree : CondensedTree
            With `parent`, `child`, `density` and `size` of each node, `stability` of
            each cluster, GLOSH `outlier_scores` of each sample, and a method `labels`,
            which chooses clusters and noise as HDBSCAN does.

        Raises
        ------
        ValueError
            If distances are negative, which have no density.
        """
        check_is_fitted(self)
        if len(self.edge_lengths_) and self.edge_lengths_[-1] < 0:
            raise ValueError(
                "The 'X' parameter of SpanningForestClustering.fit must have no "
                "negative distances for condensed_tree. Got a length of "
                f"{self.edge_lengths_[-1]:g} instead. Use linkage_."
            )
        return condense(self.linkage_, min_cluster_size, self._weights)

    def _check_samples(self, X):
        """Return X checked, and whether it is a matrix with nothing left to check.

        A matrix is checked as a whole first; errors are located afterwards.
        """
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

    def _raised(self, lengths):
        """Return lengths of mutual reachability, if that is requested."""
        if self.min_samples is None:
            return lengths
        if lengths.graph is not None or self.min_samples > lengths.n_samples:
            raise ValueError(
                "The 'min_samples' parameter of SpanningForestClustering must be None "
                "for a sparse graph, and at most the number of samples. Got "
                f"{self.min_samples} instead, with {lengths.n_samples} samples."
            )
        return mutual_reachability(lengths, self.min_samples, self.n_jobs)

    def _check_perturbations(self, constraints):
        """Refuse perturbations where they are undefined."""
        is_cut_by_number = constraints is None and self.distance_threshold is None
        if self.n_perturbations and not is_cut_by_number:
            what = "a distance_threshold" if constraints is None else "constraints"
            raise ValueError(
                "The 'n_perturbations' parameter of SpanningForestClustering must be 0 "
                f"with {what}. Got {self.n_perturbations} instead. Cuts under noise "
                "are defined for a number of clusters, without constraints."
            )

    def _refuse_tree(self, tree, lengths, constraints, kept):
        """Refuse a given tree where it is not that of the fit."""
        is_euclidean = self.metric in ("euclidean", "l2") and lengths.points is not None
        is_free = constraints is None and kept is None and lengths.core is None
        is_tree = hasattr(tree, "edges") and hasattr(tree, "lengths")
        if not (is_euclidean and is_free and is_tree):
            raise ValueError(
                "The 'tree' parameter of SpanningForestClustering.fit must be None, "
                "unless X is dense, metric='euclidean', min_samples=None, no sample "
                "has weight zero and there are no constraints; it is a SpanningTree "
                f"then. Got a {type(tree).__name__} instead. Leave it out; the tree is "
                "then computed."
            )

    def _perturb(self, graph, sizes, weights, kept, min_size, task):
        """Set the memberships, and with a consensus the labels, from trees under noise.

        Those of samples of weight zero, which are not in `kept`, are left as they are.
        """
        _refuse_negative(graph[1], "n_perturbations", 0)
        everyone = np.arange(self.n_leaves_) if kept is None else kept
        chosen = None if weights is None else weights[everyone]
        labels = self.labels_[everyone]
        rule = {
            "sizes": None if sizes is None else sizes[everyone],
            "weights": chosen,
            "min_size": min_size,
        }
        rng = check_random_state(self.random_state)
        draws = []
        for _ in range(self.n_perturbations):
            step = task.subtask("perturbation")
            draws.append(
                perturbed_labels(graph, self.n_clusters_, self.edge_noise, rng, **rule)
            )
            if step.end():
                break
        if self.consensus:
            memberships = consensus(draws, labels, self.n_clusters_, chosen)
            labels = memberships.argmax(axis=1)
            n_found = memberships.shape[1]
            if n_found < self.n_clusters_:
                warn_of_convergence(
                    f"SpanningForestClustering found {n_found} clusters instead of "
                    f"{self.n_clusters_} on which its trees under noise agree. Use "
                    "fewer clusters, or lower edge_noise.",
                )
            self.n_clusters_ = n_found
            self.labels_[everyone] = labels
        else:
            memberships = memberships_of(draws, labels, self.n_clusters_, chosen)
        self.memberships_ = np.zeros((self.n_leaves_, memberships.shape[1]))
        self.memberships_[everyone] = memberships

    def _check_weights(self, sample_weight, X):
        """Return weights (n_samples,) or None, and the samples of positive weight.

        The latter are None where that is all samples.
        """
        if sample_weight is None:
            return None, None
        weights = check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
        with np.errstate(over="ignore"):
            total = weights.sum()
        if not _LEAST_WEIGHT <= total <= _MOST_WEIGHT:
            raise ValueError(
                "The 'sample_weight' parameter of SpanningForestClustering.fit must "
                f"have a sum of {_LEAST_WEIGHT:g} to {_MOST_WEIGHT:g}. Got "
                f"{total:g} instead. Multiply the weights by a constant, such that "
                "a single sample has a weight of about 1."
            )
        kept = np.flatnonzero(weights)
        if total < 2 <= len(kept):
            warn(
                f"The sample_weight of {len(kept)} samples sums to {total:g}, so they "
                "count as less than two samples: too few for a cluster. Divide the "
                "weights by their mean.",
            )
        if len(kept) == len(weights):
            return weights, None
        if issparse(X) and self.metric == "precomputed":
            raise ValueError(
                "The 'sample_weight' parameter of SpanningForestClustering.fit must be "
                "positive for a sparse graph, where a sample of weight zero may have "
                f"no neighbor. Got {len(weights) - len(kept)} zeros instead. Leave "
                "those samples out."
            )
        return weights, kept

    def _leaves(self, X, everything, kept):
        """Return the samples of weight zero, the nearest others, and the distances."""
        zero = np.setdiff1d(np.arange(everything.shape[0]), kept)
        if not len(zero):
            return zero, zero, np.empty(0)
        if self.metric == "precomputed":
            nearest, distances = nearest_sample(
                None, everything[zero][:, kept], metric="precomputed"
            )
        else:
            nearest, distances = nearest_sample(X, everything[zero], metric=self.metric)
        return zero, kept[nearest], distances

    def _cut(self, tree, n_clusters, distance_threshold, sizes, weights, X):
        """Return what is cut of the tree, the scores, the minimum size and the Choice.

        Warns if the request cannot be satisfied.
        """
        if distance_threshold is not None:
            is_cut = cut_beyond(
                tree,
                distance_threshold,
                weights=weights,
                min_size=self.min_cluster_size,
            )
            return is_cut, None, self.min_cluster_size, None
        wanted = self.min_cluster_size
        how = {"sizes": sizes, "weights": weights, "min_size": wanted}
        choice = None
        if n_clusters == "auto":
            n_samples = len(tree.edges) + 1 if weights is None else int(weights.sum())
            n_curve = max(1, highest_number(n_samples), tree.n_parts - 1)
            positions, scores, kept = cut(tree, n_curve, smallest=wanted, **how)
            choice = self._choose(positions, scores, tree, sizes, n_samples, X)
            n_clusters = choice.n_clusters
        else:
            positions, scores, kept = cut(tree, n_clusters - 1, smallest=wanted, **how)
        n_cuts = n_clusters - 1
        if len(positions) < n_cuts and wanted > 1:
            positions, scores, kept = cut(tree, n_cuts, **how)
        is_cut = mask(positions[:n_cuts], tree)
        n_found = 1 + np.count_nonzero(is_cut)
        if n_found < n_clusters:
            warn(
                f"SpanningForestClustering found {n_found} clusters instead of "
                f"{n_clusters}: samples that are equal or linked share a cluster, and "
                f"so do those with the same label, which leaves {n_found} groups of "
                "positive weight. Use fewer clusters.",
                ConvergenceWarning,
            )
        elif kept < wanted:
            warn(
                f"SpanningForestClustering relaxed min_cluster_size from {wanted} to "
                f"{kept:g}: no edge leaves {wanted} samples on both sides. Use "
                "fewer clusters, or set min_cluster_size.",
                ConvergenceWarning,
            )
        return is_cut, scores, kept, choice

    def _choose(self, positions, scores, tree, sizes, n_samples, X):
        """Return the Choice of the number of clusters that successive cuts show.

        Warns if it is in doubt.
        """
        if sizes is None:
            first = max(2, tree.n_parts)
            falls = falls_of(scores[first - 2 : highest_number(n_samples)])[:-1]
            most = first + int(np.argmax(falls)) if len(falls) else tree.n_parts
            return Choice(most, np.array([most]), None, most)
        evidence, costs = evidence_of_cuts(tree, positions, sizes)
        choice = choose_number(scores, evidence, costs, tree.n_parts, n_samples)
        choice = choice._replace(p_value=self._p_value(choice.largest_sum, tree, X))
        others = choice.candidates[choice.candidates != choice.n_clusters]
        said = None
        if choice.p_value is not None and choice.p_value > _LARGEST_P_VALUE:
            said = (
                "no cut is clear: structureless samples look like this in "
                f"{100 * choice.p_value:.0f} of 100 cases"
            )
        elif len(others) and choice.by_falls != choice.n_clusters:
            *first, last = map(str, others)
            names = f"{', '.join(first)} or {last} win" if first else f"{last} wins"
            said = f"{names} if a cut takes between half and twice the evidence"
        if said is not None:
            warn(
                "SpanningForestClustering(n_clusters='auto') takes "
                f"{choice.n_clusters} clusters, but {said}; see "
                "n_clusters_candidates_, or set n_clusters.",
                ConvergenceWarning,
            )
        return choice

    def _p_value(self, largest_sum, tree, X):
        """Return the p-value of structure, or None where no null applies."""
        n_distinct = 1 + np.count_nonzero(tree.may_cut)
        is_euclidean = self.metric in ("euclidean", "l2") and not issparse(X)
        has_null = is_euclidean and self.min_samples is None
        if tree.n_parts > 1:
            return None
        if largest_sum <= 0:
            return 1.0
        if not has_null or n_distinct <= N_NEIGHBORS:
            return None
        return p_value(largest_sum, n_distinct, intrinsic_dimension(X))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        is_given = self.metric == "precomputed"
        tags.input_tags.pairwise = is_given
        tags.input_tags.sparse = is_given or bool(self._sparse_formats())
        return tags


def _check_request(tree, n_clusters, distance_threshold):
    """Refuse a number of clusters that the tree does not have."""
    n_samples = len(tree.edges) + 1
    if n_clusters is None and distance_threshold is None:
        raise ValueError(
            "The 'n_clusters' parameter of SpanningForestClustering must be an int or "
            "'auto' where no distance_threshold is given. Got None instead. Set "
            "n_clusters='auto' to choose it from the tree."
        )
    if n_clusters is not None and distance_threshold is not None:
        raise ValueError(
            "The 'n_clusters' parameter of SpanningForestClustering must be None where "
            f"distance_threshold is given. Got {n_clusters!r} instead. Set one of the "
            "two to None."
        )
    if n_clusters in (None, "auto"):
        return
    if n_clusters > n_samples:
        raise ValueError(
            "The 'n_clusters' parameter of SpanningForestClustering must be at most "
            f"the number of samples, n_samples={n_samples}. Got {n_clusters} instead. "
            "Use fewer clusters."
        )
    if n_clusters < tree.n_parts:
        raise ValueError(
            "The 'n_clusters' parameter of SpanningForestClustering must be at least "
            f"{tree.n_parts}, the number of parts that no edge joins or that the "
            f"constraints separate. Got {n_clusters} instead: no feasible forest was "
            "found. Use more clusters, or give more edges or fewer cannot-links."
        )


def _refuse_negative(lengths, name, value):
    """Refuse lengths that sizes or noise multiply, of which none may be negative."""
    if len(lengths) and lengths.min() < 0:
        raise ValueError(
            f"The '{name}' parameter of SpanningForestClustering must be {value} where "
            f"distances are negative. Got a length of {lengths.min():g}, which the "
            "size-weighted rule and noise would multiply."
        )


def _with_leaves(tree, kept, leaves, nearest, distances):
    """Return a tree of the samples `kept` that has the others as leaves, never cut."""
    added = np.sort(np.column_stack([leaves, nearest]), axis=1)
    edges = np.concatenate([np.sort(kept[tree.edges], axis=1), added])
    lengths = np.concatenate([tree.lengths, distances])
    may_cut = np.concatenate([tree.may_cut, np.zeros(len(leaves), dtype=bool)])
    # Of equal lengths those of the tree first, in its own order.
    order = np.argsort(-lengths, kind="stable")
    return CutTree(edges[order], lengths[order], may_cut[order])


def _in_order_of_ties(X, weights, kept):
    """Return the samples of positive weight in the order by which ties are broken.

    None where these are all samples in their own order. And the first one, in that
    order, that is equal to each, or None, see `order_of_ties`.
    """
    if issparse(X):
        if X.shape[0] * X.shape[1] > _LENGTHS_AT_ONCE:
            return kept, None
        X = X.toarray()
    rows = np.arange(len(X)) if kept is None else kept
    order, firsts = order_of_ties(
        X if kept is None else X[kept], None if weights is None else weights[rows]
    )
    return (kept if order is None else rows[order]), firsts


def _hold_samples(tree, weights):
    """Mark edges that join equal or weightless samples as not to be cut.

    Where some lengths are negative, zero is a length like any other.
    """
    may_cut = tree.may_cut
    if not len(tree.lengths) or tree.lengths[-1] >= 0:
        may_cut = may_cut & (tree.lengths > 0)
    if weights is not None:
        may_cut = may_cut & (weights[tree.edges] > 0).all(axis=1)
    return replace(tree, may_cut=may_cut)


class _Forest(NamedTuple):
    """Edges (m, 2), lengths (m,) and components (n,) of a forest, in cut order.

    Components are numbered from 0 up.
    """

    edges: np.ndarray
    lengths: np.ndarray
    parts: np.ndarray
    search: str

    @classmethod
    def of_cut(cls, tree, is_cut):
        """Make the forest that cuts leave of a tree."""
        edges = tree.edges.compress(~is_cut, axis=0)
        parts = components(edges, len(tree.edges) + 1)
        return cls(edges, tree.lengths[~is_cut], parts, "exact")


def _improve(forest, lengths, constraints, min_size, weights, leaves):
    """Return the forest that moves make of a constrained cut.

    `leaves` are the samples of positive weight, the others, the samples that these are
    attached to, and the distances; or None.
    """
    n_samples = lengths.n_samples
    similarity = _similarities(lengths)
    kept = np.arange(n_samples) if leaves is None else leaves[0]
    groups = constraints.groups
    if similarity.max(initial=0.0) <= 0:  # otherwise zero is a length like any other
        equal = forest.edges[forest.lengths == 0]
        position = np.full(len(forest.parts), -1)
        position[kept] = np.arange(n_samples)
        groups = join_groups(groups, position[equal])
    edges, labels = improve_cut(
        similarity,
        forest.parts[kept],
        groups,
        constraints,
        min_size if min_size > 1 else 0,
        None if weights is None else weights[kept],
    )
    values = -similarity[edges[:, 0], edges[:, 1]]
    edges = kept[edges]
    parts = np.empty(len(forest.parts), dtype=np.int64)
    parts[kept] = labels
    if leaves is not None:
        _, zero, nearest, distances = leaves
        parts[zero] = parts[nearest]
        hung = np.sort(np.column_stack([zero, nearest]), axis=1)
        edges = np.concatenate([edges, hung])
        values = np.append(values, distances)
    order = cut_order(edges, values)
    return _Forest(edges[order], values[order], parts, "moves")


def _similarities(lengths):
    """Return the negative distances (n, n), the same bits on both sides."""
    n_samples = lengths.n_samples
    similarity = np.empty((n_samples, n_samples))
    everyone = np.arange(n_samples)
    step = max(1, _LENGTHS_AT_ONCE // n_samples)
    for start in range(0, n_samples, step):
        rows = everyone[start : start + step]
        block = -lengths.finish(lengths.between(rows, everyone[start:]))
        similarity[start : start + step, start:] = block
        similarity[start:, start : start + step] = block.T
    return similarity


def _labels(forest, weights):
    """Labels by size of the components of a forest, and how many there are."""
    n_clusters = len(forest.parts) - len(forest.edges)
    order = order_by_size(forest.parts, n_clusters, weights)
    return np.argsort(order)[forest.parts], n_clusters


def _longest_edges(edges, lengths, labels):
    """Return the length of the longest edge within each cluster, 0 where none is.

    Of a forest in cut order.
    """
    longest = np.zeros(labels.max() + 1)
    first, second = labels[edges].T
    # A consensus may separate the ends of an edge.
    same = first == second
    # Of several assignments the last counts, that of the first in cut order.
    longest[first[same][::-1]] = lengths[same][::-1]
    return longest
