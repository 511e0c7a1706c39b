"""Clustering with associative memories as a scikit-learn estimator."""

from numbers import Integral, Real
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils import check_random_state

from skdiffclust._assignments import order_by_size
from skdiffclust._compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    fit_context,
)
from skdiffclust._constraints import as_constraints
from skdiffclust._devices import outside_torch_modes
from skdiffclust._history import EpochLoop, Training, keep_state_on_error
from skdiffclust._pairwise import refuse_overflow, refuse_underflow
from skdiffclust._validation import refuse_many_clusters, sample_weights
from skdiffclust._warnings import warn
from skdiffclust.memories._checks import (
    check_constraints,
    check_half_life,
    check_init,
    check_weighted,
    warn_of_clusters,
)
from skdiffclust.memories._dynamics import (
    METRICS,
    Dynamics,
    check_steps,
    check_weights,
)
from skdiffclust.memories._fitted import FittedMemories
from skdiffclust.memories._missing import learn_missing
from skdiffclust.memories._reservoir import Reservoir, Stream
from skdiffclust.memories._rows import TrainingRows
from skdiffclust.memories._scaling import scaling_of

# Inverse temperature times total variance, when it is "auto": see the user guide.
_CONCENTRATION = 60.0
# Later samples of a stream, relative to those before or to the half-life, after which
# the completion of missing entries is fitted again.
_SHARE_LATER = 0.2
_STREAM_EPOCHS = 50.0  # after which a stream has slowed down by the root of two


class ClAM(CallbackSupportMixin, FittedMemories):
    r"""Cluster with associative memories (ClAM), a relaxation of k-means.

    Samples are attracted by `n_clusters` memories, which are trained to reconstruct
    hidden features of a sample (eq. 9 of [1]_), or all of its features (eq. 8, without
    `self_supervised`). The memories are the centres of clusters, and a sample belongs
    to the memory that it converges to. The estimator is suitable for missing values,
    which it imputes, and whenever k-means would be adequate but constraints, streams,
    other metrics or a differentiable loss are needed.

    Training starts from the best solution of k-means. What is kept is the epoch of
    least loss, the start included, on samples and hidden features that are the same
    for all epochs. ``max_iter=0`` keeps the start: set it if clusters should be those
    of k-means, of least inertia, with missing values, links, streams or cosines. With
    ``init="random"`` the memories are trained from samples as in [1]_, which needs a
    higher `learning_rate` and more epochs; the user guide has its settings.

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
        Weights of the memories (eq. 10): equal (False), learned (True), or given. They
        are learned by training, so raise `max_iter` and `learning_rate`.
    init : {"k-means++", "random"} or array-like, default="k-means++"
        Initial memories. "k-means++" is the best solution of k-means from `n_init`
        draws of k-means++ (spherical k-means for "cosine", k-medians for "manhattan"),
        on at most 8192 samples, followed by iterations on all samples; "random" draws
        samples; an array of shape (n_clusters, n_features) has the memories.
    half_life : int or None, default=None
        For `partial_fit` on a stream that drifts: number of samples after which half
        of the samples that are kept have been replaced by later ones; at least
        `n_clusters`. None keeps a sample of the whole stream.
    max_iter : int, default=8
        Largest number of epochs. With 0, or with links, nothing is trained.
    batch_size : int, default=1024
        Number of samples of a batch.
    learning_rate : float, default=0.005
        Initial step size of Adam, relative to the scale of the features of X. It is
        halved when the loss stops decreasing; training ends at 1/32 of it.
    tol : float, default=1e-3
        Smallest relative decrease of the loss that is not a plateau.
    n_init : int, default=10
        Number of restarts. With an array as `init`, one.
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
    probabilities_ : ndarray of shape (n_samples,), float64
        Largest of `predict_proba` of each sample.
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
        Loss per scored entry of the memories that are kept, in squared units of X; of
        at most 8192 samples.
    inverse_temperature_ : float
        The paper's β that was used.
    n_iter_ : int
        Number of epochs.
    history_ : dict of lists
        "loss" and "learning_rate" by epoch, of the best restart after the epoch; empty
        where nothing is trained.
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
    to two samples with ``max_iter=0``; training draws batches and masks by sample
    index, and completion uses all samples of positive weight alike.

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
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
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
        max_iter: int | np.integer = 8,
        batch_size: int | np.integer = 1024,
        learning_rate: float = 0.005,
        tol: float = 1e-3,
        n_init: int | np.integer = 10,
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
        UserWarning
            If a feature has no observed value.
        ConvergenceWarning
            If fewer clusters are found than requested, an outlier is a cluster of its
            own, training diverges, ``n_clusters="auto"`` has several candidates, or the
            loss still falls at `max_iter`, unless k-means is refined with the automatic
            `inverse_temperature` and equal or given weights.
        """
        X, weight = self._check(X, sample_weight)
        constraints = as_constraints(X.shape[0], partial_labels, must_link, cannot_link)
        check_constraints(self.n_clusters, constraints)
        random_state = check_random_state(self.random_state)
        self._missing = learn_missing(X, weight, random_state)
        if self._missing.is_empty.any():
            names = getattr(self, "feature_names_in_", np.arange(X.shape[1]))
            warn(
                "ClAM takes features without any observed value as zeros: "
                f"{names[self._missing.is_empty]}. Drop them."
            )
        X = self._completed(X)
        # Training ignores links: the constrained k-means is kept.
        n_epochs = self.max_iter if constraints is None else 0
        training = Training(
            self,
            X,
            y,
            max_iter=n_epochs,
            learning_rate=self.learning_rate,
            tol=self.tol,
        )
        scaling = self._scaling(X, weight)
        rows = TrainingRows(X, weight, scaling, random_state)
        seeds, labels = self._initial_memories(rows, random_state, constraints)
        start = seeds, self._initial_weights(seeds.shape[1]), self.learning_rate
        found = self._train(training if n_epochs else (), rows, *start, random_state)
        self.history_ = training.best.history if n_epochs else _no_history()
        self._publish(found, rows, X, weight, labels)
        vars(self).pop("_stream", None)
        # By default the start has converged already, and training refines it.
        is_refined = (
            isinstance(self.init, str)
            and self.init == "k-means++"
            and self.inverse_temperature == "auto"
            and self.weighted is not True
        )
        training.finish([] if is_refined else training.loops)
        return self

    @keep_state_on_error
    @outside_torch_modes
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None) -> Self:
        """Learn from a batch of samples of a stream.

        The first call seeds the memories and fixes the scale of the data and the order
        of the clusters; later ones continue from the current memories. At most 8192 of
        all samples seen so far, drawn at random, are kept in the estimator, and each
        call continues k-means on these and trains for one epoch (none with
        ``max_iter=0``), so that a stream may be sorted by cluster. Set `half_life`
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
        is_first = not hasattr(self, "_stream")
        X, weight = self._check(X, sample_weight, first=is_first)
        check_half_life(self.half_life, self.n_clusters)
        if is_first:
            random_state = check_random_state(self.random_state)
            stream = Stream(None, random_state, None, 0)
        else:
            stream = self._stream
            random_state = stream.random_state
        given = X[weight > 0], weight[weight > 0], random_state, self.half_life
        kept = Reservoir.extended(stream.kept, *given)
        n_learned = stream.n_learned
        n_later = kept.n_seen - n_learned
        is_due = n_later >= _SHARE_LATER * min(n_learned, self.half_life or n_learned)
        if is_due or self._missing.completer is None:
            learned = (X, weight) if is_first else (kept.rows, kept.weight)
            self._missing = learn_missing(*learned, random_state)
            n_learned = kept.n_seen
        samples = self._fill(kept.rows)
        X = self._completed(X)
        scaling = stream.scaling or self._scaling(samples, kept.weight)
        rows = TrainingRows(samples, kept.weight, scaling, random_state)
        if is_first:
            seeds, _ = self._initial_memories(rows, random_state)
            log_weights = self._initial_weights(seeds.shape[1])
            learning_rate = self.learning_rate
        else:
            seeds = self._continued_memories(rows, random_state)
            log_weights = np.log(self.cluster_weights_)
            slower = np.sqrt(1.0 + self.n_iter_ / _STREAM_EPOCHS)
            learning_rate = self.learning_rate / slower
        loop = EpochLoop(
            type(self).__name__,
            max_iter=1,
            learning_rate=self.learning_rate,
            history=_no_history() if is_first else self.history_,
        )
        loops = [loop] if self.max_iter else []
        start = seeds, log_weights, learning_rate
        found = self._train(loops, rows, *start, random_state)
        self.history_ = loop.history
        self._publish(found, rows, X, weight, reorder=is_first)
        self._stream = Stream(scaling, random_state, kept, n_learned)
        return self

    def _check(self, X, sample_weight, *, first=True):
        """Return samples and weights, checked against the parameters."""
        X = self._validate(X, reset=first)
        refuse_overflow([X], X.dtype)
        weight = sample_weights(sample_weight, X)
        if first:
            refuse_underflow(X, X.dtype)
            refuse_many_clusters("ClAM", self.n_clusters, np.count_nonzero(weight))
        check_steps(self.n_steps, self.step_size, self.metric)
        check_weighted(self.weighted, self.metric, self.max_iter)
        return X, weight

    def _scaling(self, X, weight):
        """Return the scale of samples X (n, d) with weights (n,)."""
        given = self.metric, self.mask_value, self.inverse_temperature
        return scaling_of(X, weight, *given, _CONCENTRATION)

    def _initial_memories(self, rows, random_state, constraints=None):
        """Return initial memories (r, k, d), and labels (n,) of samples in constraints.

        There are no labels without constraints.
        """
        # numba is imported here, because it would slow down the import of the package.
        from skdiffclust._n_clusters import count_clusters
        from skdiffclust.memories._seeding import constrained_memories, initial_memories

        self.n_clusters_curve_ = self.n_clusters_candidates_ = None
        init, n_clusters = self.init, self.n_clusters
        if not isinstance(init, str):
            init = rows.scaling.transform(check_init(init, n_clusters, rows.X))
            n_clusters = len(init)
        elif n_clusters == "auto":
            count = count_clusters(rows.drawn, rows.drawn_weight, random_state)
            count.publish(self)
            n_clusters = count.best
            if constraints is not None:
                n_clusters = max(n_clusters, constraints.n_classes)
        # A small NumPy integer would overflow.
        given = rows, init, int(n_clusters), self.n_init, random_state
        if constraints is None:
            return initial_memories(*given), None
        return constrained_memories(*given, constraints)

    def _initial_weights(self, n_clusters):
        """Return the logarithms (k,) of the initial weights of memories."""
        is_given = not isinstance(self.weighted, (bool, np.bool_))
        return np.log(check_weights(self.weighted if is_given else None, n_clusters))

    def _continued_memories(self, rows, random_state):
        """Return initial memories (r, k, d) of the next batch of a stream.

        They are what k-means makes of the current ones, and these, if they are trained.
        """
        # numba is imported here, because it would slow down the import of the package.
        from skdiffclust.memories._seeding import continued_k_means

        memories = rows.scaling.transform(self.cluster_centers_)
        continued = continued_k_means(rows, memories, random_state)
        return np.stack([continued, memories] if self.max_iter else [continued])

    def _train(self, loops, rows, seeds, log_weights, learning_rate, random_state):
        """Return the `Trained` of the epochs of loops, or of initial memories."""
        # numba is imported here, because it would slow down the import of the package.
        from skdiffclust.memories._optimise import TrainingSettings, train

        # By cosines, training without masks finds better clusters.
        has_masks = self.self_supervised and not (
            sparse.issparse(rows.X) or self.metric == "cosine"
        )
        settings = TrainingSettings(
            Dynamics(rows.scaling.beta, self.n_steps, self.step_size, self.metric),
            rows.scaling,
            learning_rate=learning_rate,
            tol=self.tol,
            batch_size=self.batch_size,
            mask_probability=self.mask_probability if has_masks else None,
            learns_weights=self.weighted is True,
        )
        return train(
            loops,
            rows,
            seeds,
            log_weights,
            settings,
            random_state,
            lambda trained: self._fitted(trained, rows),
        )

    def _fitted(self, trained, rows):
        """Return the fitted attributes that `predict` needs."""
        memories = rows.scaling.inverse_transform(trained.memories)
        return {
            "cluster_centers_": memories.astype(rows.X.dtype),
            "cluster_weights_": np.exp(trained.log_weights),
            "inverse_temperature_": rows.scaling.inverse_temperature,
            "_missing": self._missing,
        }

    def _publish(self, trained, rows, X, weight, given=None, *, reorder=True):
        """Assign the fitted attributes, clusters by size.

        Clusters are counted in the samples of `rows`, which a stream keeps. Labels that
        are `given` (n,), where not -1, are those of links.
        """
        vars(self).update(self._fitted(trained, rows))
        self.loss_ = trained.loss
        self.n_iter_ = len(self.history_["loss"])
        n_clusters = len(self.cluster_centers_)
        if given is None:
            given = np.full(X.shape[0], -1)
        order = np.arange(n_clusters)
        if reorder:
            labels = np.where(given < 0, self._assign(X), given)
            order = order_by_size(labels, n_clusters, weight)
            self.cluster_centers_ = self.cluster_centers_[order]
            self.cluster_weights_ = self.cluster_weights_[order]
        numbers = np.argsort(order)[given]
        self.labels_ = np.where(given < 0, self._assign(X), numbers)
        far = self._divergences(X)
        self.probabilities_ = self._shares(far).max(axis=1)
        self.inertia_ = float(weight @ far[np.arange(len(weight)), self.labels_])
        labels = self.labels_ if rows.X is X else self._assign(rows.X)
        sizes = np.bincount(labels, rows.sample_weight, minlength=n_clusters)
        self.n_clusters_ = int(np.count_nonzero(sizes))
        warn_of_clusters("ClAM", sizes)


def _no_history():
    """Return the training history before the first epoch."""
    return {"loss": [], "learning_rate": []}
