"""GraphCutClustering: a partition of a graph of the samples of a low cut."""

from numbers import Integral, Real
from typing import Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from skdiffclust._assignments import relabel_by_size
from skdiffclust._columns import check_table
from skdiffclust._compat import (
    HasMethods,
    Interval,
    StrOptions,
    available_if,
    fit_context,
)
from skdiffclust._gower import gower_encoder
from skdiffclust._history import keep_state_on_error
from skdiffclust._validation import sample_weights, validate_rows
from skdiffclust.cuts._graph import (
    GraphSettings,
    check_links,
    check_rows,
    is_precomputed,
    read_samples,
)
from skdiffclust.cuts._predictors import GraphPredictor
from skdiffclust.cuts._ratio_cut import cuts_of, modularity

# Parameters that describe the graph, which PRCut has as well.
GRAPH_CONSTRAINTS = {
    "n_clusters": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "affinity": [
        StrOptions(
            {
                "nearest_neighbors",
                "ranked_neighbors",
                "rbf",
                "cosine",
                "precomputed",
            }
        ),
        callable,
        HasMethods("fit_transform"),
    ],
    "n_neighbors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "metric": [StrOptions({"euclidean", "cosine"})],
    "temperature": [Interval(Real, 0, None, closed="neither")],
    "cut": [StrOptions({"normalized", "ratio"})],
    "n_init": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "random_state": ["random_state"],
}


def modularity_score(settings, predictor, X):
    """Return the modularity of predicted labels on the graph of samples X (m, d)."""
    labels = predictor.labels(X)
    graph = settings.new_affinity.fit(X)
    clustered = np.flatnonzero(labels >= 0)
    graph = graph[clustered][:, clustered]
    return float(modularity(graph, labels[clustered], graph.sum(axis=1)))


def _has_rows(estimator):
    """Whether there are samples that a graph can be made of."""
    if is_precomputed(estimator.affinity):
        raise AttributeError(
            "GraphCutClustering with affinity='precomputed' has no score, because "
            "affinities to training samples say nothing of edges between new ones."
        )
    return True


class GraphCutClustering(ClusterMixin, BaseEstimator):
    r"""Partition a graph of the samples so that few edges join different clusters.

    Like :class:`~sklearn.cluster.SpectralClustering`, it partitions an affinity graph
    by the normalised cut [2]_ or the ratio-cut. It minimises the cut itself, by a
    multilevel search [1]_ without eigenvectors, optionally with bounds on the sizes of
    clusters, and it predicts new samples. Where clusters are not nearly separate, a
    partition of a larger modularity may be returned: `objective_` names what the
    labels are of. Nothing is trained;
    :class:`~skdiffclust.PRCut` trains a model of the features on the cut.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters. "auto" determines it from `n_clusters_curve_`, and issues a
        warning if there are several `n_clusters_candidates_`.
    affinity : str, callable or neighbours transformer, default="ranked_neighbors"
        Affinity between samples:

        - "ranked_neighbors": ``1 / (r + 1)`` if one sample is the r-th nearest
          neighbour of the other and r is at most `n_neighbors`, summed over both
          directions;
        - "nearest_neighbors": 1 if one sample is among the `n_neighbors` nearest
          neighbours of the other, and 0 otherwise;
        - "rbf": ``exp(-d² / temperature)`` with the distance d, a dense graph;
        - "cosine": ``exp((cos - 1) / temperature)``, a dense graph;
        - "precomputed": X is the graph, a symmetric matrix of non-negative weights;
        - a function of (X, Y) that returns weights of shape (n_X, n_Y);
        - a transformer such as :class:`~sklearn.neighbors.KNeighborsTransformer`, or
          pynndescent's for approximate neighbours of many samples. Each stored entry is
          an edge of weight 1; distances are not used.
    n_neighbors : int or "auto", default="auto"
        Number of neighbours of a sample, itself excluded, at most all others.
        Applies to the affinities by name that are of neighbours. Equal samples are
        not neighbours of each other, and count as one neighbour of others. Neighbours
        at the same distance share the weights of their ranks. "auto" is 10 if the
        neighbours are not ranked, else 20, or for up to three features half the square
        root of n_samples, between 10 and 20, since clusters may be thin.
    metric : {"euclidean", "cosine", "gower"}, default="euclidean"
        Distance of the nearest neighbours; other affinities do not use it. With
        "cosine", as for text, the length of a sample has no influence, and samples
        whose cosine is not positive are never neighbours. "gower" is for tables of
        numbers and categories with missing values, see :doc:`/user_guide/mixed_data`.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Columns of categories, with metric="gower": a mask, indices or names.
        "from_dtype" is those of strings, categories, Booleans and objects of a data
        frame; None is none.
    temperature : float, default=1.0
        Scale of "rbf" and "cosine"; other affinities do not use it.
    cut : {"normalized", "ratio"}, default="normalized"
        The objective: the sum over the clusters of the weight of the edges that leave a
        cluster, divided by the sum of the degrees of its samples ("normalized") or by
        their number ("ratio"). If the degrees differ a lot, the minimum of the
        ratio-cut has clusters of single samples.
    min_cluster_size : float or "auto", default="auto"
        Smallest size of a cluster, in samples or in their total weight; below 1 only
        weights are limited, and 1 does not limit sizes of samples. "auto" is 1, but the
        lowest normalised cut is compared with a partition of a large modularity, which
        is returned if its modularity is larger and the lowest cut above .07 for each
        cluster; of a network, also if its modularity over its cut is larger. In a
        network, and where there are fewer communities than clusters, it has no clusters
        below a fifth of the mean size. Set 1 for the lowest cut. Sizes of connected
        components are not limited.
    max_imbalance : float, default=None
        Largest difference between the size of a cluster and the mean size, relative to
        the mean: with .3, sizes are between 70 % and 130 % of it, or are the next whole
        numbers to it if no others are possible. None does not limit sizes.
    small_components : {"place", "noise"}, default="place"
        How to label samples in connected components of the graph that are too small to
        be clusters: parts below a tenth of the mean size of a cluster (not of nearest
        neighbours, if there are no more parts than clusters), and single nodes where a
        cluster has more than two nodes. "place": into the cluster of the nearest
        sample, or, where there are no features, into the largest cluster.
        "noise": they are labelled -1, and do not count in the mean size. Larger parts
        are clusters; if there are too many, they are combined, each, from the largest
        on, with the smallest cluster so far.
    init : {"multilevel", "spectral"}, default="multilevel"
        Where the search starts: "multilevel" coarsens the graph in random order,
        without eigenvectors, "spectral" starts from the labels of spectral clustering.
    n_init : int or "auto", default="auto"
        Number of searches, which are combined; with "spectral", of runs of k-means.
        "auto" is 10 for graphs of a hundred thousand to three million edges, up to 20
        for smaller and at least 2 for larger ones.
    random_state : int, RandomState instance or None, default=None
        Determines all random numbers.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int64
        Clusters 0 to ``n_clusters_ - 1`` by decreasing size, which is the sum of sample
        weights, as `predict` returns them.
    n_clusters_ : int
        Number of clusters found.
    cluster_sizes_ : ndarray of shape (`n_clusters_`,), int64
        Samples of each cluster.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The graph.
    objective_ : {"normalized cut", "ratio cut", "modularity"}
        What `labels_` are the best found partition of: the lowest cut, or a larger
        modularity; see `min_cluster_size`.
    ratio_cut_, normalized_cut_ : float
        Both cuts of `labels_`.
    n_clusters_curve_ : dict of ndarrays, or None
        With ``n_clusters="auto"``, for each number that was tried: "n_clusters", the
        "normalized_cut" and the "modularity" of a search into this number without
        bounds on sizes, and the "score", NaN at both ends.
    n_clusters_candidates_ : ndarray of shape (n_candidates,), int64, or None
        With ``n_clusters="auto"``, the numbers that are not ruled out, increasing; see
        the user guide. If there are several, a warning lists them.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    PRCut : Train a model of the features on the same objective.
    sklearn.cluster.SpectralClustering : The relaxation of the same objective.
    skdiffclust.cuts.ratio_cut : The cut of any labels.

    Notes
    -----
    With ``init="spectral"``, the search starts from the labels of scikit-learn's
    spectral clustering with the same `random_state`, and never returns a higher cut,
    unless sizes are bounded or samples are equal.

    Equal samples share a cluster. The cut increases with the number of clusters, and
    does not choose it; the modularity, which `score` returns, may be compared over
    numbers of clusters on networks, but errs on graphs of neighbours: use
    ``n_clusters="auto"`` there. For large graphs, searches run in threads; the
    labels do not depend on the number of threads. The training samples are kept for
    `predict`. The cost is O(n_edges) for each search, and that of the neighbours.

    References
    ----------
    .. [1] G. Karypis, V. Kumar, "A Fast and High Quality Multilevel Scheme for
       Partitioning Irregular Graphs", SIAM Journal on Scientific Computing 20, 1998.
    .. [2] J. Shi, J. Malik, "Normalized Cuts and Image Segmentation", IEEE Transactions
       on Pattern Analysis and Machine Intelligence 22, 2000.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from skdiffclust import GraphCutClustering
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> cut = GraphCutClustering(2, random_state=0).fit(X)
    >>> cut.predict([[0.0, 1.0], [1.0, -0.5]]) == cut.labels_[[0, 1]]
    array([ True,  True])
    """

    _parameter_constraints = {
        **GRAPH_CONSTRAINTS,
        "metric": [StrOptions({"euclidean", "cosine", "gower"})],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "min_cluster_size": [
            Interval(Real, 0, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "max_imbalance": [Interval(Real, 0, None, closed="left"), None],
        "small_components": [StrOptions({"place", "noise"})],
        "init": [StrOptions({"multilevel", "spectral"})],
    }

    def __init__(
        self,
        n_clusters: int | np.integer | Literal["auto"] = 8,
        *,
        affinity: object = "ranked_neighbors",
        n_neighbors: int | np.integer | Literal["auto"] = "auto",
        metric: Literal["euclidean", "cosine", "gower"] = "euclidean",
        categorical_features: object = "from_dtype",
        temperature: float = 1.0,
        cut: Literal["normalized", "ratio"] = "normalized",
        min_cluster_size: float | Literal["auto"] = "auto",
        max_imbalance: float | None = None,
        small_components: Literal["place", "noise"] = "place",
        init: Literal["multilevel", "spectral"] = "multilevel",
        n_init: int | np.integer | Literal["auto"] = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.categorical_features = categorical_features
        self.temperature = temperature
        self.cut = cut
        self.min_cluster_size = min_cluster_size
        self.max_imbalance = max_imbalance
        self.small_components = small_components
        self.init = init
        self.n_init = n_init
        self.random_state = random_state

    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X,
        y=None,
        sample_weight=None,
        *,
        precomputed=None,
        partial_labels=None,
        must_link=None,
        cannot_link=None,
    ) -> Self:
        """Cut the graph of X.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features), or \
                array-like or sparse matrix of shape (n_samples, n_samples) if \
                affinity="precomputed"
            Samples, or the graph itself. Sparse samples are never made dense whole.
            With metric="gower", a data frame or an array, with missing values.
        y : None
            Ignored. Known labels go to `partial_labels`.
        sample_weight : array-like of shape (n_samples,), default=None
            Sizes of the samples, >= 0, one each by default: what clusters are ordered
            by, what `min_cluster_size` and `max_imbalance` bound the sums of, and what
            divides the ratio-cut, where 0 counts as a millionth of the mean (the
            normalised cut is divided by degrees). They do not change the graph.
        precomputed : array-like or sparse matrix of shape (n_samples, n_samples), \
                default=None
            A ready graph of the samples of X, weights >= 0, in place of that of
            `affinity`; the latter still relates new samples to these, with weights in
            the unit of the graph. Not within a cross-validation, which takes its rows
            but not its columns.
        partial_labels : array-like of shape (n_samples,), default=None
            Integers, or strings in an object array; -1 where unknown. Samples of one
            label share a cluster, samples of two labels do not.
        must_link : array-like or sparse matrix, default=None
            Samples that share a cluster: index pairs (n_links, 2), group ids
            (n_samples,) with -1 for none, or a sparse incidence matrix (n_samples,
            n_links) with two non-zeros in a column. `labels_` satisfy it.
        cannot_link : array-like or sparse matrix, default=None
            Samples that do not share a cluster, as index pairs or incidence. `labels_`
            satisfy it, or a warning gives the number of pairs that they do not
            separate: whether they can be separated is in general as hard as the
            colouring of a graph.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X, the graph, a parameter or a constraint is invalid.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested, bounds or cannot-links are not
            satisfied, the lowest cut of a network has very small clusters, or
            ``n_clusters="auto"`` sees no clear number.
        """
        from skdiffclust.cuts._partition import (
            SearchSettings,
            find_partition,
            read_problem,
            warn_if_unbounded,
            warn_of_labels,
        )

        rng = check_random_state(self.random_state)
        X, metric = self._encoded(X, sample_weight)
        settings = SearchSettings(
            self._graph_settings(metric),
            self.n_clusters,
            min_cluster_size=self.min_cluster_size,
            max_imbalance=self.max_imbalance,
            place=self.small_components == "place",
            init=self.init,
            n_init=self.n_init,
        )
        samples = read_samples(settings.graph, X, precomputed)
        problem, n_clusters, number = read_problem(
            settings,
            samples.graph,
            samples.groups,
            sample_weight,
            (partial_labels, must_link, cannot_link),
            rng,
            joins_neighbors=samples.joins_neighbors,
        )
        self.n_clusters_curve_ = self.n_clusters_candidates_ = None
        if precomputed is not None:
            samples.affinity.relate(samples.graph)
        found = find_partition(problem, n_clusters, settings, samples.nearest, rng)
        if number is not None:
            vars(self).update(number.attributes(found.labels, settings.owner))
        self.objective_ = "modularity" if found.is_modular else f"{self.cut} cut"
        labels = found.labels
        clustered = labels >= 0
        labels[clustered], _ = relabel_by_size(
            labels[clustered], problem.sizes[clustered]
        )
        self._metric = metric
        self.labels_ = labels
        self.cluster_sizes_ = np.bincount(labels[clustered])
        self.n_clusters_ = len(self.cluster_sizes_)
        self.affinity_matrix_ = samples.graph
        self.ratio_cut_, self.normalized_cut_ = cuts_of(samples.graph, labels)
        self._predictor = GraphPredictor(
            samples,
            labels,
            divisors=problem.divisors,
            normalized=settings.graph.normalized,
        )
        warn_of_labels(
            "GraphCutClustering",
            problem,
            n_clusters,
            labels,
            "Set max_imbalance or a larger min_cluster_size, cut='normalized', more "
            "neighbours, or fewer clusters.",
        )
        warn_if_unbounded(labels, problem.sizes, self.n_clusters_, found.bounds)
        return self

    def predict(self, X) -> np.ndarray:
        """Label samples by the best move.

        A sample that equals a training sample has its label; any other goes to the
        cluster where the cut of the training samples and itself is smallest. In the
        ratio-cut it has the mean weight of the training samples. It is noise, -1, if
        all its neighbours are.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features), or \
                (n_samples, n_training_samples) if affinity="precomputed"
            Samples, or their weights to the training samples, as
            :class:`~sklearn.neighbors.KNeighborsClassifier` takes distances.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            Cluster of each sample.
        """
        check_is_fitted(self)
        X = self._check_new(X)
        if is_precomputed(self.affinity):
            X = check_links(X)
        return self._predictor.labels(X)

    @available_if(_has_rows)
    def score(self, X, y=None) -> float:
        """Return the modularity of the predicted labels on the graph of X itself.

        That is the share of the weights of edges inside clusters, less what it would be
        if the edges were drawn at random with the same degrees (Newman, 2006). It ranks
        partitions of one graph, not candidates that change the graph. The modularity
        may be compared over numbers of clusters on networks, but errs on graphs of
        neighbours, where it increases if long, bent or large clusters are divided: use
        ``n_clusters="auto"`` there to choose the number.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.

        Returns
        -------
        score : float
            Between -1/2 and 1; 0 for a single cluster, or without edges.
        """
        check_is_fitted(self)
        settings = self._graph_settings(self._metric)
        return modularity_score(settings, self._predictor, self._check_new(X))

    def _encoded(self, X, sample_weight):
        """Return checked samples (n, d), and their metric: an encoder for a table."""
        if self.metric != "gower":
            return validate_rows(self, X, accept_sparse="csr"), self.metric
        if self.affinity not in ("ranked_neighbors", "nearest_neighbors"):
            raise ValueError(
                "The 'affinity' parameter of GraphCutClustering must be "
                "'ranked_neighbors' or 'nearest_neighbors' with metric='gower'. Got "
                f"{self.affinity!r} instead."
            )
        X = check_table(self, X)
        weights = None if sample_weight is None else sample_weights(sample_weight, X)
        return gower_encoder(X, self.categorical_features, weights)[::-1]

    def _check_new(self, X):
        """Return checked samples (m, d) of a fitted estimator."""
        if self.metric == "gower":
            return self._metric.encode(check_table(self, X, reset=False))
        return check_rows(self, X)

    def _graph_settings(self, metric):
        """Return the settings of the graph, with the metric or its encoder."""
        params = {**self.get_params(deep=False), "metric": metric}
        return GraphSettings.of(params, type(self).__name__)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.affinity)
        is_mixed = self.metric == "gower"
        tags.input_tags.sparse = not is_mixed
        tags.input_tags.allow_nan = is_mixed
        tags.input_tags.categorical = is_mixed
        tags.input_tags.positive_only = is_precomputed(self.affinity)
        return tags
