"""PRCut: the probabilistic ratio-cut of a graph, with an encoder that predicts."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdiffclust._checkpoint import check_checkpoint
from skdiffclust._compat import (
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    fit_context,
    method_available_if,
)
from skdiffclust._devices import outside_torch_modes
from skdiffclust._encoder import ACTIVATIONS
from skdiffclust._history import Training, keep_state_on_error
from skdiffclust.cuts._choice import as_curve
from skdiffclust.cuts._fitting import (
    check_rows,
    choose_run,
    continue_training,
    count_starts,
    find_device,
    free_target,
    is_precomputed,
    make_affinity,
    prepare,
    refuse_checkpoint,
    torch_streams,
    warn_if_fewer,
    warn_if_joined,
    warn_if_small,
    warn_if_unbounded,
)
from skdiffclust.metrics._graphs import cut_of_labels

# Consecutive epochs without progress that end the training.
_PATIENCE = 10


def _has_rows(estimator):
    """Whether there are samples to predict from."""
    if is_precomputed(estimator):
        raise AttributeError(
            "PRCut with affinity='precomputed' has no samples to predict from; its "
            "labels_ are those of the graph. Pass the features as X and the graph as "
            "fit(X, graph=graph)."
        )
    return True


def _has_encoder(estimator):
    """Whether there is an encoder, which a stream can train."""
    if estimator.encoder is None:
        raise AttributeError(
            "PRCut with encoder=None has no partial_fit: its assignments belong to the "
            "samples of one graph. Use encoder='mlp' or 'linear'."
        )
    return _has_rows(estimator)


@method_available_if(_has_rows, "transform")
class PRCut(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    r"""Cluster by the cut of a similarity graph, and predict new samples.

    Like :class:`~sklearn.cluster.SpectralClustering`, it partitions a graph of the
    samples so that few edges join different clusters. It minimises the normalised cut
    or the ratio-cut directly, by a multilevel search without eigenvectors, optionally
    with bounds on the sizes of clusters. In addition, an encoder can be trained on the
    probabilistic cut of [1]_.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters. "auto" determines it from `cut_curve_`, and issues a warning
        if there is no clear number; see Notes.
    affinity : str, callable or neighbours transformer, default="ranked_neighbors"
        Similarity between samples:

        - "ranked_neighbors": ``1 / (r + 1)`` if one sample is the r-th nearest
          neighbour of the other and r is at most `n_neighbors`, summed over both
          directions;
        - "nearest_neighbors": 1 if one sample is among the `n_neighbors` nearest
          neighbours of the other, and 0 otherwise;
        - "nndescent": the same with approximate neighbours, for many samples with more
          than ten features. It requires pynndescent (the extra ``nndescent``), whose
          first use takes about a minute of compilation;
        - "rbf": ``exp(-d² / temperature)`` with the distance d, a dense graph;
        - "cosine": ``exp((cos - 1) / temperature)``, a dense graph;
        - "precomputed": X is the graph, a symmetric matrix of non-negative weights,
          which requires ``encoder=None``;
        - a function of (X, Y) that returns weights of shape (n_X, n_Y);
        - a transformer such as :class:`~sklearn.neighbors.KNeighborsTransformer`. Each
          stored entry is an edge of weight 1; distances are not used.
    n_neighbors : int or "auto", default="auto"
        Number of neighbours of a sample, itself excluded; at most n_samples - 1 are
        used. Applies to the affinities by name that are of neighbours. "auto" uses 10
        if the neighbours are not ranked. If they are, it uses 20, or for up to three
        features half the square root of n_samples, bounded between 10 and 20: in few
        dimensions, clusters may be thin, and are connected by too many neighbours if
        there are few samples.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance of the nearest neighbours; other affinities do not use it. With
        "cosine", for example for text, the length of a sample has no influence, and
        samples whose cosine is not positive, such as those without a common feature,
        are never neighbours.
    temperature : float, default=1.0
        Scale of "rbf" and "cosine"; other affinities do not use it.
    cut : {"normalized", "ratio"}, default="normalized"
        The objective: the sum over the clusters of the weight of the edges that leave a
        cluster, divided by the sum of the degrees of its samples ("normalized") or by
        their number ("ratio"). If the degrees differ a lot, the minimum of the
        ratio-cut has clusters of single samples.
    min_cluster_size : float, default=1
        Smallest size of a cluster, in samples or in their total weight. The default
        does not limit sizes; below 1 only weights are limited. The pseudo-labels
        satisfy it; a warning is issued if the encoder does not.
    max_imbalance : float, default=None
        Largest difference between the size of a cluster and the mean size, relative to
        the mean: with .3, sizes are between 70 % and 130 % of it, or are the next whole
        numbers to it if no others are possible. None does not limit sizes.
    small_components : {"place", "noise"}, default="place"
        How to label samples in connected components of the graph that are too small to
        be clusters: parts below a tenth of the mean size of a cluster, single nodes,
        and pairs where a cluster has more than four nodes. "place": into the cluster of
        the nearest sample, or, where there are no features, into the largest cluster.
        "noise": they are labelled -1, which needs ``encoder=None``, and do not count in
        the mean size of `max_imbalance`. Larger parts are clusters; if there are more
        of them than clusters, parts are combined, starting with the largest, by adding
        each one to the smallest cluster so far.
    objective : {"exact", "bound"}, default="exact"
        Objective of soft assignments: the bound of the expected ratio-cut, or the exact
        expectation, of which the terms that are not in the bound are updated every
        tenth epoch. See :func:`~skdiffclust.cuts.expected_ratio_cut`. "exact" requires
        ``sampling="full"``; with other samplings the bound is used.
    encoder : {"mlp", "linear"}, None or torch.nn.Module, default=None
        Model that maps samples to logits. With None, labels are the pseudo-labels with
        the lowest cut found, and new samples are assigned to the cluster that increases
        it least; `objective` and the parameters of training and of layers then have no
        effect. A module maps samples, which are not scaled, to `n_clusters` outputs; a
        copy of it is trained.
    hidden_layer_sizes : int or array-like of int, default=(128,)
        Widths of the hidden layers of "mlp".
    activation : {"gelu", "relu", "tanh"}, default="gelu"
        Activation after each hidden layer of "mlp"; "gelu" is the exact :math:`z
        \Phi(z)`.
    weight_decay : float, default=0.1
        Decoupled weight decay of an encoder.
    init : {"auto", "spectral", "k-means++", "random"}, default="auto"
        Source of the pseudo-labels. "random" with `local_search` is a multilevel search
        that coarsens the graph in random order, without eigenvectors; "auto" is that.
    local_search : bool, default=True
        Whether to improve the pseudo-labels by moving nodes, one by one and in short
        sequences, as long as the cut decreases. With False and ``init="random"`` there
        are no pseudo-labels, and training starts from random soft assignments, as in
        the paper.
    balance_weight : float or "auto", default="auto"
        Weight :math:`\gamma` of the KL divergence of the mean assignments to the
        proportions of the pseudo-labels (uniform without any). "auto" is 10 without
        pseudo-labels, where clusters may empty, and 1 with them.
    averaging_rate : float, default=0.8
        Weight of a new batch in the running proportions of ``sampling="pairs"`` and
        "neighbors" and of `partial_fit`.
    sampling : {"full", "pairs", "neighbors"}, default="full"
        Edges that a batch learns from. "full": all edges of its samples,
        to assignments as last seen. "pairs": those between two batches, as in the
        paper; "neighbors": one of each sample, drawn by weight.
    max_iter : int, default=200
        Epochs of lowering the objective. The pseudo-labels are fitted before that, for
        half as many, or 2000 batches where these are more.
    batch_size : int, default=256
        Samples of a batch, clipped to n_samples.
    learning_rate : float, default=0.01
        Step of Adam, which falls linearly to a tenth. Twice that for "linear",
        thirty times for free assignments.
    tol : float, default=1e-5
        Training stops if the relative decrease of the loss over ten epochs is smaller,
        unless a linear encoder cannot represent the pseudo-labels.
    n_init : int or "auto", default="auto"
        Number of initialisations of the pseudo-labels: runs of k-means in spectral
        clustering, draws of "k-means++", or searches of "random", which are combined.
        Without pseudo-labels, number of restarts of the training. "auto" is 10; on
        graphs of more than three million edges there are fewer searches, at least 2.
    device : str or torch.device, default="auto"
        Where an encoder is trained; "auto" is CUDA if there is one, else the CPU.
    random_state : int, RandomState instance or None, default=None
        Determines all random numbers.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int64
        Clusters 0 to ``n_clusters_ - 1`` by decreasing size, as `predict` returns them.
    n_clusters_ : int
        Number of clusters found.
    cluster_sizes_ : ndarray of shape (`n_clusters_`,), int64
        Samples of each cluster.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The graph.
    ratio_cut_, normalized_cut_ : float
        Both cuts of `labels_`, of which `cut` names the one that was lowered.
    pseudo_label_ratio_cut_, pseudo_label_normalized_cut_ : float
        Both cuts of the pseudo-labels that the encoder was fitted to; NaN without any.
    coefs_, intercepts_ : list of ndarray
        Layers of an encoder "mlp" or "linear". They take samples less their mean,
        divided by their overall spread.
    encoder_ : torch.nn.Module
        The trained copy of a module given as `encoder`, on the CPU.
    cut_curve_ : dict of ndarrays, or None
        With ``n_clusters="auto"``, by number: "n_clusters", the "normalized_cut" and
        the "modularity" of the search into so many (NaN where connected components are
        not cut), and the "score" that the number was chosen by, NaN at both ends. See
        :class:`~skdiffclust.plotting.CutCurveDisplay`.
    history_ : dict of lists
        For each epoch: "loss" (1, plus the number of empty clusters, plus the cut
        relative to that of random labels), "cut", "n_clusters", and
        "objective" and "balance". The first epoch takes no step.
    n_iter_ : int
        Epochs of the run that was kept, and of `partial_fit` since.
    device_ : str
        Where it was trained.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    sklearn.cluster.SpectralClustering : The relaxation of the same objective.
    skdiffclust.cuts.ratio_cut : The cut of any labels.
    skdiffclust.nn.RatioCutLoss : The loss for a training loop in torch.

    Notes
    -----
    With ``init="spectral"``, the search starts from the labels of scikit-learn's
    spectral clustering with the same `random_state`, and never returns a higher cut.

    **Number of clusters.** With ``n_clusters="auto"`` the graph is partitioned into 1
    to 31 clusters (fewer if they would have less than three nodes on average). With
    :math:`c_k` the normalised cut into k clusters, the k with the largest
    :math:`(c_{k+1} - 2 c_k + c_{k-1}) / (c_{k+1} + .2)` is selected, after which the
    cut increases faster than before. Only numbers for which the bounds on sizes can
    be satisfied are considered. A warning is issued if the best score is less than nine
    standard deviations (estimated from the median absolute deviation) above the median,
    as for data without clusters. Then the best of the numbers with at least 90 % of the
    largest modularity, relative to its largest possible value 1 - 1 / k, is selected,
    with .05 instead of .2 in the score.

    Samples with given labels or links (`partial_labels`, `must_link`, `cannot_link`)
    keep the labels that the search gave them, also where the encoder would predict
    others; it is trained on the graph with the links as edges. Restarts are compared by
    the cut of their labels, those that use all clusters first. Equal samples are moved
    together. The cut increases with the number of clusters: do not choose `n_clusters`
    by `score`. For large graphs, searches run in threads; the labels do not depend on
    the number of threads. Graphs with negative weights raise an error.

    With ``encoder=None`` the training samples are kept in the fitted estimator, because
    `predict` needs them. With an encoder they are not, but `affinity_matrix_` shows
    which samples were close to each other.

    While it trains a module, a fit seeds the global random streams of torch, from which
    its dropout draws, and restores them at the end; a lock makes concurrent fits of
    modules take turns, so that they give the same results as alone.

    References
    ----------
    .. [1] A. Ghriss, C. Monteleoni, "Deep Clustering via Probabilistic Ratio-Cut
       Optimization", AISTATS 2025.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from skdiffclust import PRCut
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> cut = PRCut(2, encoder=None, random_state=0).fit(X)
    >>> cut.predict([[0.0, 1.0], [1.0, -0.5]]) == cut.labels_[[0, 1]]
    array([ True,  True])
    """

    _parameter_constraints = {
        "n_clusters": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "affinity": [
            StrOptions(
                {
                    "nearest_neighbors",
                    "ranked_neighbors",
                    "nndescent",
                    "rbf",
                    "cosine",
                    "precomputed",
                }
            ),
            callable,
            HasMethods("fit_transform"),
        ],
        "n_neighbors": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "metric": [StrOptions({"euclidean", "cosine"})],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "cut": [StrOptions({"normalized", "ratio"})],
        "min_cluster_size": [Interval(Real, 0, None, closed="left")],
        "max_imbalance": [Interval(Real, 0, None, closed="left"), None],
        "small_components": [StrOptions({"place", "noise"})],
        "objective": [StrOptions({"exact", "bound"})],
        "encoder": [StrOptions({"mlp", "linear"}), callable, None],
        "hidden_layer_sizes": [
            "array-like",
            Interval(Integral, 1, None, closed="left"),
        ],
        "activation": [StrOptions(ACTIVATIONS.keys())],
        "weight_decay": [Interval(Real, 0, 1, closed="left")],
        "init": [StrOptions({"auto", "spectral", "k-means++", "random"})],
        "local_search": ["boolean"],
        "balance_weight": [
            Interval(Real, 0, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "averaging_rate": [Interval(Real, 0, 1, closed="right")],
        "sampling": [StrOptions({"full", "pairs", "neighbors"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "device": "no_validation",
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters=8,
        *,
        affinity="ranked_neighbors",
        n_neighbors="auto",
        metric="euclidean",
        temperature=1.0,
        cut="normalized",
        min_cluster_size=1,
        max_imbalance=None,
        small_components="place",
        objective="exact",
        encoder=None,
        hidden_layer_sizes=(128,),
        activation="gelu",
        weight_decay=0.1,
        init="auto",
        local_search=True,
        balance_weight="auto",
        averaging_rate=0.8,
        sampling="full",
        max_iter=200,
        batch_size=256,
        learning_rate=0.01,
        tol=1e-5,
        n_init="auto",
        device="auto",
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.temperature = temperature
        self.cut = cut
        self.min_cluster_size = min_cluster_size
        self.max_imbalance = max_imbalance
        self.small_components = small_components
        self.objective = objective
        self.encoder = encoder
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.weight_decay = weight_decay
        self.init = init
        self.local_search = local_search
        self.balance_weight = balance_weight
        self.averaging_rate = averaging_rate
        self.sampling = sampling
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.tol = tol
        self.n_init = n_init
        self.device = device
        self.random_state = random_state

    @keep_state_on_error
    @outside_torch_modes
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X,
        y=None,
        sample_weight=None,
        *,
        graph=None,
        partial_labels=None,
        must_link=None,
        cannot_link=None,
        checkpoint=None,
        resume=False,
    ):
        """Cut the graph of X, and train the encoder, if any, on the cut.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features), or \
                array-like or sparse matrix of shape (n_samples, n_samples) if \
                affinity="precomputed"
            Samples, or the graph itself. Sparse samples, which are never made dense
            whole, need ``encoder=None``.
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Sizes of the samples, >= 0, one each by default: what `min_cluster_size`
            and `max_imbalance` bound the sums of, and what divides the ratio-cut, where
            0 counts as a millionth of the mean (the normalised cut is divided by
            degrees). They do not change the graph.
        graph : array-like or sparse matrix of shape (n_samples, n_samples), \
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
        checkpoint : path-like or None, default=None
            Folder that the state of the training of an encoder is written to after each
            epoch; created if it does not exist.
        resume : bool, default=False
            Continue from the checkpoint, if there is one; bit for bit what the fit
            would have been without the interruption, for an integer `random_state`.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X, the graph or a parameter is invalid, or training diverges
            before there are any finite weights.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested, training diverges, the loss
            still falls at `max_iter`, or cannot-links are not satisfied.
        """
        check_checkpoint("PRCut.fit", checkpoint, resume)
        rng = check_random_state(self.random_state)
        data = prepare(
            self,
            X,
            graph,
            sample_weight,
            partial_labels,
            must_link,
            cannot_link,
            random_state=rng,
        )
        device = find_device(self)
        target = free_target(self, data, rng)
        if checkpoint is not None:
            refuse_checkpoint(self, target)
        training = Training(
            self,
            data.graph if data.rows is None else data.rows,
            y,
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            n_init=count_starts(self, data.graph) if target is None else 1,
            tol=self.tol,
            n_iter_no_change=_PATIENCE,
        )
        runs = []
        with torch_streams(self, device, rng):
            for loop in training:
                runs.append(choose_run(self, target)(self, data, target, rng))
                if checkpoint is None:
                    runs[-1].run(loop)
                    continue
                from skdiffclust.cuts._resuming import CutCheckpoint

                left = CutCheckpoint(self, runs[-1], checkpoint, resume=resume)
                runs[-1].run(loop, left)
        best = training.best
        run = runs[training.loops.index(best)]
        for name, value in run.attributes(best.best_state).items():
            setattr(self, name, value)
        self.pseudo_label_ratio_cut_, self.pseudo_label_normalized_cut_ = (
            (np.nan, np.nan) if target is None else data.cuts(target)
        )
        self.cut_curve_ = None if data.curve is None else as_curve(*data.curve)
        self.history_ = best.history
        self.n_iter_ = best.n_iter
        self.device_ = device
        warn_if_fewer(data.asked, self.n_clusters_, int(data.groups.max()) + 1)
        warn_if_small(self, data.asked, self.cluster_sizes_)
        warn_if_unbounded(self, data, self.labels_)
        warn_if_joined(data, self.labels_)
        training.finish()
        return self

    @available_if(_has_encoder)
    @keep_state_on_error
    @outside_torch_modes
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, *, graph=None):
        """Learn from the next samples of a stream.

        The first call is `fit`. Each later one takes the graph of its samples alone and
        trains the encoder on it for ten epochs, with running proportions, and keeps the
        weights with the lowest cut of these samples. Clusters keep their numbers from
        the first call on. A perceptron can thus follow clusters that drift; a linear
        encoder loses those that move far. Both forget clusters that have no samples in
        several batches: every batch should contain all of them. Sizes are bounded in
        the first call only.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.
        graph : array-like or sparse matrix of shape (n_samples, n_samples), \
                default=None
            A ready graph of the samples, in place of that of `affinity`.

        Returns
        -------
        self : object
            The fitted estimator; `labels_` and what belongs to them are of these
            samples, `n_clusters_` counts the clusters that have any, and
            `cluster_sizes_` has a 0 for those that have none.

        Raises
        ------
        ValueError
            As `fit`, and if `n_clusters` or the kind of `encoder` is not that of the
            first call.
        """
        if not hasattr(self, "_predictor"):
            return self.fit(X, y, graph=graph)
        n_clusters = self.n_clusters
        if n_clusters == "auto" and self._proportions is not None:
            n_clusters = len(self._proportions)
        data = prepare(self, X, graph, n_clusters=n_clusters, reset=False)
        rng = check_random_state(self.random_state)
        with torch_streams(self, self.device_, rng):
            attributes = continue_training(self, data, rng)
        for name, value in attributes.items():
            setattr(self, name, value)
        return self

    @available_if(_has_rows)
    def predict(self, X):
        """Label samples by the encoder, or, without one, by the best move.

        With ``encoder=None`` a sample that equals a training sample has its label; any
        other goes to the cluster where the cut of the training samples and itself is
        smallest.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            Cluster of each sample.
        """
        check_is_fitted(self)
        return self._predictor.labels(check_rows(self, X, reset=False))

    @available_if(_has_rows)
    def predict_proba(self, X):
        """Return the soft assignments of samples.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        assignments : ndarray of shape (n_samples, n_clusters)
            Rows sum to one. Free assignments end hard: with ``encoder=None`` they are
            0 and 1.
        """
        check_is_fitted(self)
        return self._predictor.assignments(check_rows(self, X, reset=False))

    def transform(self, X):
        """Return the last hidden layer of an "mlp", else the soft assignments.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features_out)
            Hidden units after the activation, or assignments.
        """
        check_is_fitted(self)
        return self._predictor.features(check_rows(self, X, reset=False))

    @available_if(_has_rows)
    def score(self, X, y=None):
        """Return minus the cut of the predicted labels on the graph of X itself.

        The cut is that of the `cut` parameter. It compares fits with one number of
        clusters. It does not choose that number, since the cut grows with it.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.

        Returns
        -------
        score : float
            At most 0; where not all clusters are used, minus what no partition
            exceeds: the sum of all weights, or for the normalised cut `n_clusters`.
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        labels = self._predictor.labels(X)
        graph = make_affinity(self).fit(X)
        normalized = self.cut == "normalized"
        n_clusters = self.n_clusters_ if self.n_clusters == "auto" else self.n_clusters
        if len(np.unique(labels[labels >= 0])) < n_clusters:
            worst = min(n_clusters, graph.nnz) if normalized else graph.sum()
            return -float(worst)
        kept = np.flatnonzero(labels >= 0)
        graph = graph[kept][:, kept]
        divisors = graph.sum(axis=1) if normalized else None
        return -cut_of_labels(graph, labels[kept], n_clusters, divisors)

    @property
    def coefs_(self):
        """Weights of the layers of a named encoder."""
        return self._of_encoder("weights")

    @property
    def intercepts_(self):
        """Biases of the layers of a named encoder."""
        return self._of_encoder("biases")

    @property
    def encoder_(self):
        """Trained copy of a module given as `encoder`."""
        return self._of_encoder("module")

    def _of_encoder(self, name):
        """Return an attribute of the encoder, where there is one."""
        return getattr(vars(self).get("_predictor").encoder, name)

    @property
    def _n_features_out(self):
        """Number of columns of `transform`."""
        return self._predictor.n_features_out

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self)
        tags.input_tags.sparse = self.encoder is None
        tags.input_tags.positive_only = is_precomputed(self)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
