"""PRCut: the probabilistic cut of a graph, by a model that predicts."""

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from skdiffclust._checkpoint import check_checkpoint
from skdiffclust._compat import (
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    available_if,
    fit_context,
    method_available_if,
)
from skdiffclust._devices import outside_torch_modes
from skdiffclust._encoder import ACTIVATIONS
from skdiffclust._history import (
    EpochLoop,
    Training,
    drop_stale,
    keep_state_on_error,
)
from skdiffclust._validation import validate_rows
from skdiffclust.cuts._graph import (
    GraphSettings,
    check_rows,
    is_precomputed,
    read_samples,
)
from skdiffclust.cuts._graph_cut import (
    GRAPH_CONSTRAINTS,
    modularity_score,
)
from skdiffclust.cuts._ratio_cut import cuts_of
from skdiffclust.cuts._training import (
    CutTraining,
    continue_training,
    first_labels,
    make_checkpoint,
    make_settings,
    refuse_other_stream,
    torch_streams,
)

# Consecutive epochs without progress that end the training.
_PATIENCE = 10
# Trainings from random weights with n_init="auto".
_STARTS = 10
# Epochs on each batch of a stream after the first. The first epoch takes no step.
_STREAM_EPOCHS = 11


def _has_rows(estimator):
    """Whether there are samples to predict from."""
    if is_precomputed(estimator.affinity):
        raise AttributeError(
            "PRCut with affinity='precomputed' trains the logits of the nodes of one "
            "graph, and has nothing to predict from. Pass the features as X and the "
            "graph as fit(X, precomputed=graph), or use GraphCutClustering."
        )
    return True


def _has_embedding(estimator):
    """Whether there is a hidden layer that embeds samples."""
    if not isinstance(estimator.encoder, str) or estimator.encoder != "mlp":
        raise AttributeError(
            "PRCut embeds samples only with encoder='mlp', by its last hidden layer. "
            "Use predict_proba for the assignments, or the module encoder_ itself."
        )
    return _has_rows(estimator)


@method_available_if(_has_embedding, "transform")
class PRCut(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    r"""Train a model of cluster probabilities on the expected cut of a graph.

    The probabilistic ratio-cut of [1]_: an encoder maps samples to probabilities
    p(cluster | x), and is trained to lower the expectation of the cut of an affinity
    graph, exactly or by its upper bound. It predicts new samples by their features, and
    learns from streams. By default it starts from the labels of
    :class:`~skdiffclust.GraphCutClustering`, which finds lower cuts and trains nothing;
    training makes them predictable.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters. "auto" determines it as
        :class:`~skdiffclust.GraphCutClustering` does, whatever `init` is.
    affinity : str, callable or neighbours transformer, default="ranked_neighbors"
        Affinity between samples:

        - "ranked_neighbors", "nearest_neighbors", "rbf", "cosine", a function or a
          transformer, as in :class:`~skdiffclust.GraphCutClustering`;
        - "precomputed": X is the graph, a symmetric matrix of non-negative weights; the
          logits of its nodes are then free parameters, and there is no `predict`.
    n_neighbors : int or "auto", default="auto"
        Number of neighbours of a sample, as in
        :class:`~skdiffclust.GraphCutClustering`.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance of the nearest neighbours; other affinities do not use it.
    temperature : float, default=1.0
        Scale of "rbf" and "cosine"; other affinities do not use it.
    cut : {"normalized", "ratio"}, default="normalized"
        The objective: the sum over the clusters of the weight of the edges that leave a
        cluster, divided by the sum of the degrees of its samples ("normalized") or by
        their number ("ratio"). If the degrees differ a lot, the minimum of the
        ratio-cut has clusters of single samples.
    objective : {"exact", "bound"}, default="exact"
        Expectation of the cut under the soft assignments that is lowered. "exact": its
        value, from all edges of the samples of a batch to assignments as last seen, of
        which the terms that are not in the bound are updated every tenth epoch; see
        :func:`~skdiffclust.cuts.expected_ratio_cut`. "bound": the upper bound of the
        paper, from the edges between pairs of batches, with running proportions
        (Algorithm 1).
    encoder : {"mlp", "linear"} or torch.nn.Module, default="mlp"
        Model that maps samples to logits. A module maps samples, which are not scaled,
        to `n_clusters` outputs; a copy of it is trained. A precomputed graph does not
        use it.
    hidden_layer_sizes : int or array-like of int, default=(128,)
        Widths of the hidden layers of "mlp"; not used otherwise.
    activation : {"gelu", "relu", "tanh"}, default="gelu"
        Activation after each hidden layer of "mlp"; not used otherwise. "gelu" is the
        exact :math:`z \Phi(z)`.
    weight_decay : float, default=0.1
        Decoupled weight decay of an encoder.
    init : None, "random", array-like of shape (n_samples,) or clusterer, default=None
        What the training starts from:

        - None: the labels of :class:`~skdiffclust.GraphCutClustering` with the same
          graph, cut and `random_state`, of the lowest cut if the graph is one of
          nearest neighbours (``min_cluster_size=1``);
        - "random": random weights, as in the paper;
        - labels;
        - a clusterer, such as ``SpectralClustering(affinity="precomputed")``: the
          labels of a clone with this `n_clusters` and, if its own is None, this
          `random_state`. It is fitted to the graph if it has
          ``affinity="precomputed"``, else to X.

        The model is fitted to labels before it is trained.
    balance_weight : float or "auto", default="auto"
        Weight :math:`\gamma` of the KL divergence of the mean assignments to the
        proportions of the first labels (uniform without any). "auto" is 10 without
        labels, where clusters may empty, and 1 with them.
    averaging_rate : float or "decreasing", default=0.8
        Weight of a new batch in the running proportions of ``objective="bound"`` and
        of `partial_fit`; "decreasing" is .8 divided by the number of batches.
    max_iter : int, default=200
        Epochs of lowering the objective. The first labels are fitted before that, for
        half as many, or 2000 batches where these are more.
    batch_size : int, default=256
        Samples of a batch, clipped to n_samples. A precomputed graph is one batch.
    learning_rate : float, default=0.01
        Step of Adam, which falls linearly to a tenth. Twice that for "linear",
        thirty times for a precomputed graph.
    tol : float, default=1e-5
        Training stops if the relative decrease of the loss over ten epochs is smaller,
        unless a linear encoder cannot represent the first labels.
    n_init : int or "auto", default="auto"
        Number of searches with ``init=None``, "auto" as in
        :class:`~skdiffclust.GraphCutClustering`; with ``init="random"`` of trainings,
        of which that with the lowest cut is kept, "auto" is 10. Labels and clusterers
        do not use it.
    device : str or torch.device, default="auto"
        Where an encoder is trained; "auto" is CUDA if there is one, else the CPU. A
        precomputed graph does not use it.
    random_state : int, RandomState instance or None, default=None
        Determines all random numbers.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int64
        Clusters 0 to ``n_clusters_ - 1`` by decreasing size, which is the sum of sample
        weights, as `predict` returns them.
    probabilities_ : ndarray of shape (n_samples,), float64
        Largest of `predict_proba` of each sample, where it exists.
    n_clusters_ : int
        Number of clusters found.
    cluster_sizes_ : ndarray of shape (`n_clusters_`,), int64
        Samples of each cluster.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The graph.
    ratio_cut_, normalized_cut_ : float
        Both cuts of `labels_`, of which `cut` names the one that was lowered.
    init_labels_ : ndarray of shape (n_samples,), int64, or None
        Labels that the training started from, with `partial_fit` those of its first
        call; None with ``init="random"``.
    init_ratio_cut_, init_normalized_cut_ : float
        Both cuts of `init_labels_`, NaN without any: what training changed.
    coefs_, intercepts_ : list of ndarray
        Layers of an encoder "mlp" or "linear". They take samples less their mean,
        divided by their overall spread.
    encoder_ : torch.nn.Module
        The trained copy of a module given as `encoder`, on the CPU.
    n_clusters_curve_ : dict of ndarrays, or None
        As that of :class:`~skdiffclust.GraphCutClustering`, with ``n_clusters="auto"``.
    n_clusters_candidates_ : ndarray of shape (n_candidates,), int64, or None
        As those of :class:`~skdiffclust.GraphCutClustering`.
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
    GraphCutClustering : The partition of the graph, without a model.
    skdiffclust.cuts.ratio_cut : The cut of any labels.
    skdiffclust.nn.RatioCutLoss : The loss for a training loop in torch.

    Notes
    -----
    The epoch with the lowest cut of the hard labels is kept, those with all clusters
    first, and so are restarts compared.

    Samples with given labels or links (`partial_labels`, `must_link`, `cannot_link`)
    keep the label that the search gave them, also where the encoder would predict
    another. Training samples are not kept, but `affinity_matrix_` shows which samples
    were close to each other.

    While it trains a module, a fit seeds the global random streams of torch, from which
    dropout draws, and restores them; a lock makes concurrent fits of modules take
    turns, so that they give the same results as alone.

    **Settings of the paper.** ``objective="bound"``, ``init="random"``, ``n_init=1``,
    ``balance_weight=100``, ``learning_rate=1e-4``, ``affinity="nearest_neighbors"``,
    ``n_neighbors=150`` and ``cut="ratio"``. The paper takes RMSProp, not Adam, keeps
    the learning rate constant, and normalises the weights of its first and last layer,
    which a module as `encoder` can do. Its text has ``averaging_rate="decreasing"``,
    its published code .8.

    References
    ----------
    .. [1] A. Ghriss, C. Monteleoni, "Deep Clustering via Probabilistic Ratio-Cut
       Optimization", AISTATS 2025.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from skdiffclust import PRCut
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> cut = PRCut(2, max_iter=20, random_state=0).fit(X)
    >>> cut.predict_proba([[0.0, 1.0], [1.0, -0.5]]).shape
    (2, 2)
    """

    _parameter_constraints = {
        **GRAPH_CONSTRAINTS,
        "objective": [StrOptions({"exact", "bound"})],
        "encoder": [StrOptions({"mlp", "linear"}), callable],
        "hidden_layer_sizes": [
            "array-like",
            Interval(Integral, 1, None, closed="left"),
        ],
        "activation": [StrOptions(ACTIVATIONS.keys())],
        "weight_decay": [Interval(Real, 0, 1, closed="left")],
        "init": [
            None,
            StrOptions({"random"}),
            "array-like",
            HasMethods("fit_predict"),
        ],
        "balance_weight": [
            Interval(Real, 0, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "averaging_rate": [
            Interval(Real, 0, 1, closed="right"),
            StrOptions({"decreasing"}),
        ],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "device": "no_validation",
    }

    def __init__(
        self,
        n_clusters: int | np.integer | Literal["auto"] = 8,
        *,
        affinity: object = "ranked_neighbors",
        n_neighbors: int | np.integer | Literal["auto"] = "auto",
        metric: Literal["euclidean", "cosine"] = "euclidean",
        temperature: float = 1.0,
        cut: Literal["normalized", "ratio"] = "normalized",
        objective: Literal["exact", "bound"] = "exact",
        encoder: Literal["mlp", "linear"] | Callable[..., Any] = "mlp",
        hidden_layer_sizes: int | np.integer | ArrayLike = (128,),
        activation: Literal["gelu", "relu", "tanh"] = "gelu",
        weight_decay: float = 0.1,
        init: Literal["random"] | ArrayLike | ClusterMixin | None = None,
        balance_weight: float | Literal["auto"] = "auto",
        averaging_rate: float | Literal["decreasing"] = 0.8,
        max_iter: int | np.integer = 200,
        batch_size: int | np.integer = 256,
        learning_rate: float = 0.01,
        tol: float = 1e-5,
        n_init: int | np.integer | Literal["auto"] = "auto",
        device: object = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.temperature = temperature
        self.cut = cut
        self.objective = objective
        self.encoder = encoder
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.weight_decay = weight_decay
        self.init = init
        self.balance_weight = balance_weight
        self.averaging_rate = averaging_rate
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.tol = tol
        self.n_init = n_init
        self.device = device
        self.random_state = random_state

    @keep_state_on_error
    @outside_torch_modes
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
        checkpoint=None,
        resume=False,
    ) -> Self:
        """Find labels to start from, and train the model on the cut of the graph of X.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features), or \
                array-like or sparse matrix of shape (n_samples, n_samples) if \
                affinity="precomputed"
            Samples, or the graph itself. Sparse samples are made dense a batch at a
            time.
        y : None
            Ignored. Known labels go to `partial_labels`.
        sample_weight : array-like of shape (n_samples,), default=None
            Sizes of the samples, >= 0, one each by default: what clusters are ordered
            by, and what divides the ratio-cut, where 0 counts as a millionth of the
            mean (the normalised cut is divided by degrees). They do not change the
            graph.
        precomputed : array-like or sparse matrix of shape (n_samples, n_samples), \
                default=None
            A ready graph of the samples of X, weights >= 0, in place of that of
            `affinity`. Not within a cross-validation, which takes its rows but not
            its columns.
        partial_labels : array-like of shape (n_samples,), default=None
            Integers, or strings in an object array; -1 where unknown. Samples of one
            label share a cluster, samples of two labels do not. Labels and links need
            ``init=None``, whose search satisfies them.
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
            Folder that the state of the training is written to after each epoch;
            created if it does not exist. With ``init="random"`` it needs ``n_init=1``.
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
            still falls at `max_iter`, cannot-links are not satisfied, the lowest cut of
            a network has very small clusters, or ``n_clusters="auto"`` sees no clear
            number.
        """
        from skdiffclust.cuts._partition import (
            SearchSettings,
            read_problem,
            warn_of_labels,
        )

        if checkpoint is not None or resume:
            check_checkpoint("PRCut.fit", checkpoint, resume)
        rng = check_random_state(self.random_state)
        X = validate_rows(self, X, accept_sparse="csr")
        params = self.get_params(deep=False)
        search = SearchSettings(
            GraphSettings.of(params, "PRCut"), self.n_clusters, n_init=self.n_init
        )
        samples = read_samples(search.graph, X, precomputed)
        problem, n_clusters, number = read_problem(
            search,
            samples.graph,
            samples.groups,
            sample_weight,
            (partial_labels, must_link, cannot_link),
            rng,
            joins_neighbors=samples.joins_neighbors,
        )
        if problem.constraints is not None and self.init is not None:
            raise ValueError(
                "The 'partial_labels', 'must_link' and 'cannot_link' parameters of "
                "PRCut.fit need init=None, whose search satisfies them. Got "
                f"{self.init!r} instead."
            )
        labels = first_labels(self.init, samples, problem, n_clusters, search, rng)
        settings = make_settings(params, "PRCut", is_labelled=labels is not None)
        n_init = 1
        if labels is None:
            n_init = _STARTS if self.n_init == "auto" else self.n_init
        if checkpoint is not None and n_init > 1:
            raise ValueError(
                "The 'checkpoint' parameter of PRCut.fit must be None with "
                "init='random' and several restarts. Set n_init=1, or leave it out."
            )
        begin = partial(
            CutTraining, samples.rows, problem, n_clusters, labels, settings, rng
        )
        with torch_streams(settings.encoder, settings.device, rng):
            run = begin()
            # A linear encoder that does not reach the labels is trained to the end: the
            # cut rises before it falls.
            is_patient = not run.fit_labels() and settings.encoder == "linear"
            training = Training(
                self,
                samples.graph if samples.rows is None else samples.rows,
                y,
                max_iter=self.max_iter,
                learning_rate=self.learning_rate,
                n_init=n_init,
                tol=self.tol,
                n_iter_no_change=None if is_patient else _PATIENCE,
            )
            saved = None
            if checkpoint is not None:
                saved = make_checkpoint(params, run, checkpoint, resume=resume)
            for loop in training:
                if len(training.loops) > 1:
                    run = begin()
                run.run(loop, saved)
        best = training.best
        drop_stale(self, ("coefs_", "intercepts_", "encoder_", "probabilities_"))
        vars(self).update(run.attributes(best.best_state))
        self.n_clusters_curve_ = self.n_clusters_candidates_ = None
        if number is not None:
            vars(self).update(number.attributes(self.labels_, "PRCut"))
        self.init_labels_ = labels
        self.init_ratio_cut_, self.init_normalized_cut_ = (
            (np.nan, np.nan) if labels is None else cuts_of(samples.graph, labels)
        )
        self.history_ = best.history
        self.n_iter_ = best.n_iter
        self.device_ = settings.device
        warn_of_labels(
            "PRCut",
            problem,
            n_clusters,
            self.labels_,
            "Raise balance_weight, set cut='normalized' or a larger n_neighbors, or "
            "use fewer clusters.",
        )
        training.finish()
        return self

    @available_if(_has_rows)
    @keep_state_on_error
    @outside_torch_modes
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X, y=None, *, precomputed=None) -> Self:
        """Learn from the next samples of a stream.

        The first call is `fit`. Each later one takes the graph of its samples alone and
        trains the encoder on it for ten epochs, with running proportions, and keeps the
        weights with the lowest cut of these samples. Clusters keep their numbers from
        the first call on. A perceptron can thus follow clusters that drift; a linear
        encoder loses those that move far. Both forget clusters that have no samples in
        several batches: every batch should contain all of them.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.
        precomputed : array-like or sparse matrix of shape (n_samples, n_samples), \
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
        if getattr(self, "_predictor", None) is None:
            return self.fit(X, y, precomputed=precomputed)
        from skdiffclust.cuts._partition import pose

        refuse_other_stream(self.n_clusters, self.encoder, self._predictor)
        X = validate_rows(self, X, reset=False, accept_sparse="csr")
        params = self.get_params(deep=False)
        samples = read_samples(GraphSettings.of(params, "PRCut"), X, precomputed)
        problem = pose(
            samples.graph,
            samples.groups,
            None,
            None,
            normalized=self.cut == "normalized",
            joins_neighbors=samples.joins_neighbors,
        )
        params |= {"max_iter": _STREAM_EPOCHS, "device": self.device_}
        settings = make_settings(params, "PRCut", is_labelled=False)
        loop = EpochLoop(
            "PRCut",
            max_iter=settings.max_iter,
            learning_rate=self.learning_rate,
            history=self.history_,
        )
        rng = check_random_state(self.random_state)
        with torch_streams(self.encoder, self.device_, rng):
            attributes = continue_training(
                samples.rows,
                problem,
                self._predictor,
                self._proportions,
                settings,
                loop,
                rng,
            )
        vars(self).update(attributes)
        self.history_ = loop.history
        self.n_iter_ += loop.n_iter
        return self

    @available_if(_has_rows)
    def predict(self, X) -> np.ndarray:
        """Label samples by the encoder.

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
        return self._predictor.labels(check_rows(self, X))

    @available_if(_has_rows)
    def predict_proba(self, X) -> np.ndarray:
        """Return the soft assignments of samples.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        assignments : ndarray of shape (n_samples, n_clusters)
            Rows sum to one.
        """
        check_is_fitted(self)
        return self._predictor.assignments(check_rows(self, X))

    def transform(self, X) -> np.ndarray:
        """Embed samples by the last hidden layer, after its activation.

        Only available with ``encoder="mlp"``.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        embedding : ndarray of shape (n_samples, n_hidden)
            In the dtype of the weights.
        """
        check_is_fitted(self)
        return self._predictor.embedding(check_rows(self, X))

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
        settings = GraphSettings.of(self.get_params(deep=False), type(self).__name__)
        return modularity_score(settings, self._predictor, check_rows(self, X))

    @property
    def _n_features_out(self):
        """Number of columns of `transform`."""
        return self._predictor.encoder.n_hidden

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.affinity)
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = is_precomputed(self.affinity)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
