"""Clustering with associative memories as a scikit-learn estimator."""

from numbers import Integral, Real
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.metrics import pairwise_distances
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from skdiffclust._affinity import (
    block_distances,
    refuse_overflow,
    refuse_underflow,
    refuse_zero_rows,
)
from skdiffclust._assignments import order_by_size, simplified_silhouette, softmax
from skdiffclust._compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    fit_context,
)
from skdiffclust._constraints import as_constraints
from skdiffclust._devices import outside_torch_modes, resolve_device
from skdiffclust._history import EpochLoop, Training, keep_state_on_error
from skdiffclust._validation import check_dense_size, sample_weights, validate_rows
from skdiffclust.memories._checks import (
    check_constraints,
    check_half_life,
    check_init,
    check_problem,
    count_memories,
    refuse_many_clusters,
    warn_of_clusters,
)
from skdiffclust.memories._dynamics import (
    METRICS,
    Dynamics,
    check_weights,
    complete_by_memories,
    energy,
    entropy,
    recall,
)
from skdiffclust.memories._reservoir import Reservoir
from skdiffclust.memories._scaling import by_blocks, dense, scaling_of

# Inverse temperature times total variance, when it is "auto": see the user guide.
_CONCENTRATION = 60.0
_WORTH_A_GPU = 1e10
# Later samples of a stream, relative to those before or to the half-life, after which
# the completion of missing entries is fitted again.
_SHARE_LATER = 0.2
_COMPLETING = 2000  # largest number of samples kept to complete missing entries


class ClAM(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    r"""Cluster with associative memories (ClAM), a relaxation of k-means.

    By default this is the best solution of k-means, trained further, and the trained
    memories are kept only if they are better. `start_kept_` says which won, and
    `training_gain_` what training gained, mostly nothing. With ``init="random"`` the
    memories are trained from samples as in [1]_; the user guide has its settings.

    Samples are attracted by `n_clusters` memories, which are trained to reconstruct
    hidden features of a sample (eq. 9 of [1]_), or all of its features (eq. 8, without
    `self_supervised`). The memories are the centres of clusters, and a sample belongs
    to the memory that it converges to. The estimator is suitable for missing values,
    which it imputes, and whenever k-means would be adequate but constraints, streams,
    other metrics or a differentiable loss are needed.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of memories. "auto" merges many centres one by one, and takes the larger
        of the largest number at which all clusters are separated and the number of the
        largest simplified silhouette; see the user guide and `n_clusters_candidates_`.
        It never gives one cluster while samples differ.
    inverse_temperature : float or "auto", default="auto"
        The paper's β, in units of one over the squared distance (over the distance for
        "manhattan"). "auto" is 60 over the total variance of X, in which, unless X is
        sparse, no sample counts more than ten times the median squared distance from
        the median: the unit of X and a few far samples have no effect.
    n_steps : int, default=3
        Steps of the dynamics, the paper's T.
    step_size : float, default=1.0
        The paper's dt/τ, in (0, 2), at most 1 for "manhattan". With the paper's ``1 /
        n_steps`` a sample ends 65 % of the way to its memory, so that the memories lie
        1.5 times too far out.
    mask_probability : float, default=0.15
        Fraction of the features that are hidden from a masked sample, at most 0.5. Half
        of the samples of a batch are masked. Used with `self_supervised` and dense X,
        but not with "cosine".
    mask_value : {"mean", "min", "max"}, default="mean"
        Initial value of a hidden feature, over the samples of `fit`. Used like
        `mask_probability`.
    self_supervised : bool, default=True
        Whether features are hidden from half of the samples (eq. 9), or no features are
        hidden (eq. 8), as in k-means and always with "cosine".
    metric : {"euclidean", "cosine", "manhattan"}, default="euclidean"
        Distance: the squared Euclidean distance, the cosine distance on the unit
        sphere, or the city-block distance, which is robust to outliers.
    weighted : bool or array-like of shape (n_clusters,), default=False
        Weights of the memories (eq. 10): equal (False), learned (True), or given.
    init : {"k-means++", "random"} or array-like, default="k-means++"
        Initial memories. "k-means++" is the best solution of k-means from `n_init`
        draws of k-means++ (spherical k-means for "cosine", k-medians for "manhattan"),
        on at most 8192 samples, followed by iterations on all samples; "random" draws
        samples; an array of shape (n_clusters, n_features) has the memories.
    half_life : int or None, default=None
        For `partial_fit` on a stream that drifts: number of samples after which half
        of the samples that are kept have been replaced by later ones; at least
        `n_clusters`. None keeps a sample of the whole stream.
    max_iter : int, default=200
        Largest number of epochs.
    batch_size : int, default=1024
        Number of samples of a batch.
    learning_rate : float, default=0.05
        Initial step size of Adam, relative to the scale of the features of X. It is
        halved when the loss stops decreasing; training ends at 1/32 of it.
    tol : float, default=1e-3
        Smallest relative decrease of the loss that is not a plateau.
    n_init : int, default=10
        Number of restarts. With an array as `init`, one.
    device : str, default="auto"
        Device of the training. "auto" is CUDA if it is available and an epoch of all
        restarts takes at least 1e10 multiplications, else the CPU, which is faster for
        small data. Sparse X is trained on the CPU.
    random_state : int, RandomState instance or None, default=None
        Determines initial memories, the order of the samples and the masks.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Memories, in the order of the clusters.
    cluster_weights_ : ndarray of shape (n_clusters,)
        Attraction of each memory.
    labels_ : ndarray of shape (n_samples,), int64
        Clusters by decreasing size, which is the sum of sample weights.
    n_clusters_ : int
        Clusters that have samples of positive weight.
    n_clusters_curve_ : dict of ndarrays, or None
        With ``n_clusters="auto"``, by number: "n_clusters", the "separation", how much
        better two modes fit than one for the two clusters that are least separated
        (log-likelihood ratio; NaN where it is not tested), and the "score", the mean
        over samples of one minus the ratio of the distances to the nearest two centres.
    n_clusters_candidates_ : ndarray of shape (n_candidates,), int64, or None
        With ``n_clusters="auto"``, the numbers that are not ruled out, increasing; see
        the user guide. If there are several, a warning lists them.
    inertia_ : float
        Sum over samples of the squared distance to the memory of their cluster (of the
        distance, with "cosine" and "manhattan").
    loss_ : float
        Training loss per scored entry of the kept restart, in squared units of X; of at
        most 8192 samples.
    start_kept_ : bool
        Whether the solution of k-means is kept as it is, untrained.
    training_gain_ : float
        What training gained: 0 where the solution of k-means is kept as it is, else
        the decrease of the training loss, relative to that of this solution or, with
        other initial memories, of the first epoch.
    inverse_temperature_ : float
        The paper's β that was used.
    n_iter_ : int
        Number of epochs.
    device_ : str
        Device that was used for training.
    history_ : dict of lists
        "loss" and "learning_rate" by epoch, of the best restart of the epoch.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    AssociativeImputer : Impute missing values for other estimators.
    sklearn.cluster.KMeans : The limit of a high inverse temperature without masks.

    Notes
    -----
    An epoch costs O(n (k d + T k²)) for each restart: the cost of the steps does not
    depend on d. Beyond X it needs memory for one batch. The user guide lists the
    differences from the paper. Sparse X is never converted to a dense array; none of
    its features are hidden.

    Missing entries (NaN) of dense X are completed first, in `fit` and in all other
    methods, as :class:`AssociativeImputer` does among at most 2000 of the training
    samples, which are kept for that; clusters and distances are those of completed
    samples. Features without any value in `fit` are zero for all samples.

    Sample weights multiply the loss of a sample. A sample of weight two is equivalent
    to two samples where the solution of k-means is kept; training draws batches and
    masks by sample index, and completion uses all samples of positive weight alike.

    References
    ----------
    .. [1] B. Saha, D. Krotov, M. J. Zaki, P. Ram, "End-to-end Differentiable
       Clustering with Associative Memories", ICML 2023.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from skdiffclust import ClAM
    >>> X, y = make_blobs(90, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    >>> clam = ClAM(n_clusters=3, random_state=0).fit(X)
    >>> clam.cluster_centers_.shape, clam.predict(X[:2]) == clam.labels_[:2]
    ((3, 2), array([ True,  True]))
    """

    _parameter_constraints = {
        "n_clusters": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
        ],
        "inverse_temperature": [
            StrOptions({"auto"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "n_steps": [Interval(Integral, 1, None, closed="left")],
        "step_size": [Interval(Real, 0, 2, closed="neither")],
        "mask_probability": [Interval(Real, 0, 0.5, closed="right")],
        "mask_value": [StrOptions({"mean", "min", "max"})],
        "self_supervised": ["boolean"],
        "metric": [StrOptions(set(METRICS))],
        "weighted": ["boolean", "array-like"],
        "init": [StrOptions({"k-means++", "random"}), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "device": [str],
        "half_life": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int | np.integer | Literal["auto"] = 8,
        *,
        inverse_temperature: float | Literal["auto"] = "auto",
        n_steps: int | np.integer = 3,
        step_size: float = 1.0,
        mask_probability: float = 0.15,
        mask_value: Literal["mean", "min", "max"] = "mean",
        self_supervised: bool = True,
        metric: Literal["euclidean", "cosine", "manhattan"] = "euclidean",
        weighted: bool | ArrayLike = False,
        init: Literal["k-means++", "random"] | ArrayLike = "k-means++",
        half_life: int | np.integer | None = None,
        max_iter: int | np.integer = 200,
        batch_size: int | np.integer = 1024,
        learning_rate: float = 0.05,
        tol: float = 1e-3,
        n_init: int | np.integer = 10,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.inverse_temperature = inverse_temperature
        self.n_steps = n_steps
        self.step_size = step_size
        self.mask_probability = mask_probability
        self.mask_value = mask_value
        self.self_supervised = self_supervised
        self.metric = metric
        self.weighted = weighted
        self.init = init
        self.half_life = half_life
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
        partial_labels=None,
        must_link=None,
        cannot_link=None,
    ) -> Self:
        """Store the clusters of X in memories.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples; NaN where an entry is missing, if dense.
        y : None
            Ignored. Known labels go to `partial_labels`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the loss, in the seeds and in the scale of X.
        partial_labels : array-like of shape (n_samples,), default=None
            Integers, or strings in an object array: samples with the same label
            share a cluster, samples with different ones do not; -1 where unknown.
        must_link : array-like or sparse matrix, default=None
            Samples that share a cluster: index pairs (n_links, 2), group ids
            (n_samples,) with -1 for none, or a sparse incidence matrix (n_samples,
            n_links) with two non-zeros in a column. In a cross-validation use one of
            the last two, since pairs do not follow the samples.
        cannot_link : array-like or sparse matrix, default=None
            Samples that do not share a cluster, as pairs or incidence matrix. With any
            of these three the memories are those of a constrained k-means, and nothing
            is trained; `labels_` satisfy them, while `predict` knows only the memories.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is invalid.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested, an outlier is a cluster of its
            own, training diverges, the loss still falls at `max_iter`, or
            ``n_clusters="auto"`` has several candidates.
        """
        X, weight = self._check(X, sample_weight)
        constraints = as_constraints(X.shape[0], partial_labels, must_link, cannot_link)
        check_constraints(self, constraints)
        random_state = check_random_state(self.random_state)
        self._learn_missing(X, weight, random_state)
        X = self._completed(X)
        training = Training(
            self,
            X,
            y,
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            tol=self.tol,
        )
        run = self._start(X, weight, random_state, constraints=constraints)
        for loop in training:
            run.iterate(loop)
        self._publish(run, training.best, X, weight)
        vars(self).pop("_stream", None)
        training.finish()
        return self

    @keep_state_on_error
    @outside_torch_modes
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None) -> Self:
        """Learn from a batch of samples of a stream.

        The first call seeds the memories and fixes the scale of the data and the order
        of the clusters; later ones continue from the current memories. At most 2048 of
        all samples seen so far, drawn at random, are kept in the estimator, and each
        call trains on these, so that a stream may be sorted by cluster. Set `half_life`
        for a stream that drifts, so that early samples are forgotten. A pickled
        estimator contains these samples. Missing entries are completed from them, by a
        model that is fitted again whenever a fifth more samples, or a fifth of
        `half_life`, have been seen.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples; at least `n_clusters` in the first call.
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample.

        Returns
        -------
        self : object
            The fitted estimator; `labels_` are those of this batch.

        Raises
        ------
        ValueError
            If X or a parameter is invalid.
        """
        first = not hasattr(self, "_stream")
        X, weight = self._check(X, sample_weight, first=first)
        check_half_life(self)
        if first:
            random_state = check_random_state(self.random_state)
            scaling = past = None
            n_learned = 0
        else:
            scaling, random_state, past, n_learned = self._stream
        has_weight = weight > 0
        past = Reservoir.extended(
            past, X[has_weight], weight[has_weight], random_state, self.half_life
        )
        n_later = past.n_seen - n_learned
        is_due = n_later >= _SHARE_LATER * min(n_learned, self.half_life or n_learned)
        if is_due or self._completer is None:
            kept = (X, weight) if first else (past.rows, past.weight)
            self._learn_missing(*kept, random_state)
            n_learned = past.n_seen
        rows = self._fill(past.rows)
        X = self._completed(X)
        run = self._start(rows, past.weight, random_state, scaling)
        if not first:
            run.continue_stream(self.n_iter_)
        loop = EpochLoop(
            type(self).__name__,
            max_iter=1,
            learning_rate=self.learning_rate,
            history=None if first else self.history_,
        )
        run.iterate(loop)
        self._publish(run, loop, X, weight, reorder=first)
        self._stream = run.scaling, random_state, past, n_learned
        return self

    def _check(self, X, sample_weight, *, first=True):
        """Return samples and weights, checked against the parameters."""
        X = self._validate(X, reset=first)
        refuse_overflow([X], X.dtype)
        weight = sample_weights(sample_weight, X)
        if first:
            refuse_underflow(X, X.dtype)
            refuse_many_clusters(self, weight)
        check_problem(self)
        return X, weight

    def _validate(self, X, *, reset):
        """Return X as finite samples, in C order, or CSR without duplicate entries."""
        X = validate_rows(
            self,
            X,
            reset=reset,
            order="C",
            ensure_all_finite="allow-nan",
            accept_sparse="csr" if self.metric != "manhattan" else False,
        )
        if sparse.issparse(X):
            X = sparse.csr_array(X, copy=not X.has_canonical_format)
            X.sum_duplicates()
            if np.isnan(X.data).any():
                raise ValueError(
                    "The 'X' parameter of ClAM must not contain NaN if it is sparse. "
                    "Got NaN instead. Pass a dense array to impute missing values."
                )
        return X

    def _fill(self, X):
        """Return validated samples, missing entries completed, in the dtype of X."""
        if sparse.issparse(X):
            return X
        if self._is_empty.any():
            X = np.where(self._is_empty, 0, X)
        if not np.isnan(X).any():
            return X
        if self._completer is not None:
            return self._completer.complete(X).astype(X.dtype)
        return complete_by_memories(
            X, n_steps=self.n_steps, step_size=self.step_size, **self._field()
        )

    def _completed(self, X):
        """Return validated samples, completed, with directions if metric is cosine."""
        X = self._fill(X)
        if self.metric == "cosine":
            refuse_zero_rows(X)
        return X

    def _learn_missing(self, X, weight, random_state):
        """Fit the completion of missing entries among samples of positive weight."""
        self._completer = None
        self._is_empty = np.zeros(X.shape[1], dtype=bool)
        if not sparse.issparse(X) and np.isnan(X).any():
            from skdiffclust.memories._completion import fit_completer

            X = X[weight > 0]
            self._is_empty = np.isnan(X).all(axis=0)
            if self._is_empty.all():
                raise ValueError(
                    "The 'X' parameter of ClAM must have an entry that is not missing. "
                    "Got NaN only instead. Drop samples without any values."
                )
            self._completer = fit_completer(
                np.where(self._is_empty, 0, X),
                n_memories=_COMPLETING,
                inverse_temperature="auto",
                linear_correction="auto",
                random_state=random_state,
            )

    def _start(self, X, weight, random_state, scaling=None, constraints=None):
        """Return the restarts to train.

        With the `scaling` of a stream, from the memories that it has.
        """
        from skdiffclust.memories._fit import Fit

        continues = scaling is not None
        if not continues:
            self.n_clusters_curve_ = self.n_clusters_candidates_ = None
            scaling = scaling_of(
                X,
                weight,
                self.metric,
                self.mask_value,
                self.inverse_temperature,
                _CONCENTRATION,
            )
        run = Fit(self, X, weight, scaling, random_state, constraints)
        memories = None
        n_clusters = self.n_clusters
        given = self.cluster_centers_ if continues else self.init
        if not isinstance(given, str):
            memories = scaling.transform(check_init(self, given, X))
            n_clusters = len(memories)
        elif n_clusters == "auto":
            n_clusters = count_memories(self, *run.drawn, random_state)
            if constraints is not None:
                n_clusters = max(n_clusters, constraints.n_classes)
        weights = self.cluster_weights_ if continues else self.weighted
        if isinstance(weights, (bool, np.bool_)):
            weights = None
        log_weights = np.log(check_weights(weights, n_clusters))
        self.device_, complete = self._resolve_device(X, n_clusters)
        return run.start(memories, log_weights, complete)

    def _resolve_device(self, X, n_clusters):
        """Return the name of the device, and its loss with gradient if not the CPU."""
        is_sparse = sparse.issparse(X)
        size = X.shape[0] * X.shape[1] * int(n_clusters) * int(self.n_init)
        device = "cpu"
        if self.device != "auto" or not (is_sparse or size < _WORTH_A_GPU):
            device = resolve_device(self.device, "ClAM")
        if is_sparse or device == "cpu":
            return "cpu", None
        # torch is imported here, because most fits do not need it.
        from skdiffclust.memories._torch import completion_on_device

        return device, completion_on_device(device)

    def _publish(self, run, loop, X, weight, *, reorder=True):
        """Assign the fitted attributes, clusters by size.

        Clusters are counted in the samples of the run, which a stream keeps.
        """
        restart, self.loss_ = run.choose(loop)
        self.start_kept_ = run.start_is_kept
        self.training_gain_ = run.gain
        self.history_ = loop.history
        self.n_iter_ = len(loop.history["loss"])
        vars(self).update(run.fitted(restart))
        self.cluster_centers_ = self.cluster_centers_.astype(X.dtype)
        n_clusters = len(self.cluster_centers_)
        if reorder:
            labels = self._assign(X)
            if run.labels is not None:
                labels = np.where(run.labels < 0, labels, run.labels)
            order = order_by_size(labels, n_clusters, weight)
            self.cluster_centers_ = self.cluster_centers_[order]
            self.cluster_weights_ = self.cluster_weights_[order]
        self.labels_ = self._assign(X)
        if run.labels is not None:
            numbers = np.argsort(order)[run.labels]
            self.labels_ = np.where(run.labels < 0, self.labels_, numbers)
        far = self._divergences(X)[np.arange(len(weight)), self.labels_]
        self.inertia_ = float(weight @ far)
        labels = self.labels_ if run.X is X else self._assign(run.X)
        sizes = np.bincount(labels, run.weight, minlength=n_clusters)
        self.n_clusters_ = int(np.count_nonzero(sizes))
        warn_of_clusters("ClAM", sizes)

    def _assign(self, X):
        """Return the labels (n,) of validated samples."""
        # numba is imported here, because it would slow down the import of the package.
        from skdiffclust.memories._assign import assign

        dynamics = Dynamics(
            self.inverse_temperature_, self.n_steps, self.step_size, self.metric
        )
        return assign(X, self.cluster_centers_, np.log(self.cluster_weights_), dynamics)

    def _divergences(self, X):
        """Return what β multiplies (n, k): distances, squared if Euclidean."""
        far = self._distances(X)
        return np.square(far) if self.metric == "euclidean" else far

    def _distances(self, X):
        """Return distances (n, k), float64, of samples to the memories of clusters."""
        memories = self.cluster_centers_.astype(np.float64)
        if sparse.issparse(X):
            return pairwise_distances(X, memories, metric=self.metric)
        return by_blocks(
            lambda rows: block_distances(
                rows.astype(np.float64, copy=False), memories, self.metric, {}
            ),
            X,
        )

    def predict(self, X) -> np.ndarray:
        """Return the memory that each sample converges to.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            The memory nearest to the sample after `n_steps` steps of the dynamics.
        """
        return self._assign(self._rows(X))

    def predict_proba(self, X) -> np.ndarray:
        """Return how strongly each memory attracts each sample.

        The softmax of minus `inverse_temperature_` times the squared Euclidean distance
        (minus the cosine, the city-block distance) plus the log weight of each memory:
        the shares of the first attraction step (eq. 4), whose entropy is `entropy`. A
        lower `inverse_temperature` gives softer shares. The largest may differ from
        `predict`, which first follows the dynamics, where several memories are near.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        shares : ndarray of shape (n_samples, n_clusters), float64
            Not negative; rows sum to one.
        """
        far = self._divergences(self._rows(X))
        return softmax(np.log(self.cluster_weights_) - self.inverse_temperature_ * far)

    def transform(self, X) -> np.ndarray:
        """Return the distances of samples to the memories.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_clusters)
            In the geometry of `metric`, and the dtype of X.
        """
        X = self._rows(X)
        return self._distances(X).astype(X.dtype)

    def complete(self, X) -> np.ndarray:
        """Fill the missing entries of samples by attraction.

        If there were missing entries in `fit`, they are completed as by
        :class:`AssociativeImputer`, among at most 2000 of the training samples. If
        there were none, the cluster memories attract the samples, as in training: seen
        entries stay, missing ones start from the mean of the memories and move.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, NaN where an entry is missing.

        Returns
        -------
        completed : ndarray of shape (n_samples, n_features)
            A copy of X without NaN, float64, or float32 if X is.
        """
        check_is_fitted(self)
        return np.array(self._fill(dense(self._validate(X, reset=False))))

    def recall(self, X) -> np.ndarray:
        """Move samples towards their memories.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        recalled : ndarray of shape (n_samples, n_features), float64
            Samples after `n_steps` steps; of unit length with metric "cosine".
            :func:`skdiffclust.memories.recall` with the fitted memories takes any
            number of steps.
        """
        X = self._rows(X)
        if sparse.issparse(X):
            check_dense_size(
                *X.shape,
                what="The recalled array",
                remedy="Recall fewer samples at a time.",
            )
        return recall(
            dense(X), n_steps=self.n_steps, step_size=self.step_size, **self._field()
        )

    def energy(self, X) -> np.ndarray:
        """Return the energy of samples, small near a memory.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        energies : ndarray of shape (n_samples,), float64
            See :func:`skdiffclust.memories.energy`.
        """
        return self._of_field(energy, X)

    def entropy(self, X) -> np.ndarray:
        """Return the entropy of the attraction of samples (eq. 13).

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        entropies : ndarray of shape (n_samples,), float64
            0 where a single memory attracts the sample; see
            :func:`skdiffclust.memories.entropy`.
        """
        return self._of_field(entropy, X)

    def score(self, X, y=None, sample_weight=None) -> float:
        """Return the simplified silhouette of samples among the memories.

        The mean of 1 - d1 / d2, where d1 and d2 are the distances to the nearest and to
        the second nearest memory. It ranks candidates on the same features with the
        same `metric`. Unlike the loss, it does not grow with the number of clusters,
        so that a parameter search can choose it.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample.

        Returns
        -------
        score : float
            Between 0 and 1, larger is better; 0 for a single memory.

        References
        ----------
        Hruschka, Campello, de Castro. Evolving clusters in gene-expression data.
        Information Sciences 176, 2006.
        """
        far = self.transform(X)
        weight = sample_weights(sample_weight, far)
        return simplified_silhouette(far, weight)

    def _rows(self, X):
        """Return samples to predict, checked and completed."""
        check_is_fitted(self)
        X = self._completed(self._validate(X, reset=False))
        refuse_overflow([X, self.cluster_centers_])
        return X

    def _of_field(self, function, X):
        """Return a function of the dynamics (n,) of samples, block by block."""
        X = self._rows(X)
        field = self._field()
        return by_blocks(lambda rows: function(dense(rows), **field), X)

    def _field(self):
        """Return the keyword arguments of the functions of the dynamics."""
        return {
            "memories": self.cluster_centers_.astype(np.float64),
            "inverse_temperature": self.inverse_temperature_,
            "weights": self.cluster_weights_,
            "metric": self.metric,
        }

    @property
    def _n_features_out(self):
        """Number of columns of `transform`."""
        return len(self.cluster_centers_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self.metric != "manhattan"
        return tags
