"""Deep clustering with associative memories as a scikit-learn estimator."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Literal, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_array, check_is_fitted

from skdiffclust._assignments import order_by_size, simplified_silhouette, softmax
from skdiffclust._batches import RowsOnDemand, by_batches
from skdiffclust._checkpoint import (
    LoopCheckpoint,
    check_checkpoint,
    identify,
    probe_rows,
)
from skdiffclust._compat import (
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    fit_context,
)
from skdiffclust._devices import outside_torch_modes, require_torch, resolve_device
from skdiffclust._history import Training, keep_state_on_error
from skdiffclust._pairwise import (
    block_distances,
    refuse_overflow,
    refuse_underflow,
)
from skdiffclust._validation import (
    canonical_rows,
    refuse_many_clusters,
    sample_weights,
    validate_rows,
)
from skdiffclust.memories._checks import (
    warn_of_clusters,
)
from skdiffclust.memories._codes import BLOCK, codes_of, dynamics_of_codes, outputs_of
from skdiffclust.memories._scaling import drawn_in, reach_of, scaling_of


class DeepClAM(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    r"""Cluster the codes of an autoencoder that is trained with associative memories.

    After an idea of [1]_, an autoencoder is trained to reconstruct samples from which
    some features are hidden, clusters of any shape are found among its codes, and
    encoder, decoder and one memory for each cluster are then trained so that the
    decoder reconstructs samples from codes that the memories attract. It is suitable
    for at least about a thousand images, spectra or other samples of many related
    features; for tables whose features differ in kind, try :class:`ClAM` first. It
    needs torch.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of memories. "auto" is determined among the samples, as in
        :class:`ClAM`.
    encoder : "mlp" or torch.nn.Module, default="mlp"
        From samples to codes. "mlp" is a perceptron with hidden layers of 256 and 128
        units and at most 10 outputs. A module is copied, not changed; it maps samples
        (n, n_features) to (n, n_outputs) and begins with ``nn.Unflatten`` for images.
    decoder : torch.nn.Module or None, default=None
        From codes to samples (n, n_features); copied. None is a perceptron with hidden
        layers of 128 and 256 units.
    inverse_temperature : float or "auto", default="auto"
        The β of :class:`ClAM`, in units of one over the squared distance of codes.
        "auto" is determined from the codes at the beginning of each round: 8 over
        their total variance, or 6 over the mean squared distance of neighbouring
        memories if that is larger.
    n_steps : int, default=3
        Steps of the dynamics, the paper's T.
    step_size : float, default=1.0
        The paper's dt/τ times ``2 n_steps``, in (0, 2). With 1 the steps cover about
        40 % of the way to a memory: a code that reached it would only contain the
        cluster.
    mask_probability : float, default=0.15
        Probability with which a feature of a sample is hidden, at most 0.5.
    max_iter : int, default=200
        Largest number of epochs, of which at most half are pretraining.
    batch_size : int, default=256
        Largest number of samples of a batch. Batches are smaller, but not below 100
        samples, if an epoch would have fewer than 8 of them.
    learning_rate : float, default=1e-3
        Step size of Adam.
    tol : float, default=1e-3
        Pretraining ends when ten epochs have not decreased the loss by this share, and
        training when at most this share of the samples change clusters from one round
        to the next.
    n_init : int, default=10
        Number of restarts of the k-means that merges 300 memories into clusters. The
        networks are trained once.
    device : str, default="auto"
        Device of the training. "auto" is CUDA if it is available, else the CPU.
    random_state : int, RandomState instance or None, default=None
        Determines the initial networks, the order of the samples, and what is hidden.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_outputs)
        Memories in the space of the codes, in the order of the clusters.
    labels_ : ndarray of shape (n_samples,), int64
        Clusters by decreasing size, which is the sum of sample weights.
    probabilities_ : ndarray of shape (n_samples,), float64
        Largest of `predict_proba` of each sample.
    n_clusters_ : int
        Clusters that have samples of positive weight.
    n_clusters_curve_ : dict of ndarrays, or None
        With ``n_clusters="auto"``, that of :class:`ClAM`.
    n_clusters_candidates_ : ndarray of shape (n_candidates,), int64, or None
        With ``n_clusters="auto"``, those of :class:`ClAM`.
    inverse_temperature_ : float
        The β that was used in the last round.
    encoder_, decoder_ : tuple of lists of ndarray, or torch.nn.Module
        Weights and biases of the perceptrons; the trained copy of a module, on the CPU.
    loss_ : float
        Training loss of the last round that was kept, in squared units of X.
    n_iter_ : int
        Number of epochs.
    history_ : dict of lists
        "loss" and "learning_rate" by epoch. The loss jumps where a round begins.
    device_ : str
        Device that was used for training.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    ClAM : Memories without networks, for tables, missing values, links and streams.
    PRCut : An encoder that is trained by the cut of a graph.

    Notes
    -----
    Clusters are found again, and memories move to their means, about every 100 steps,
    at most four times; the user guide has the loss. A sample that is more than five
    times as far from the median of the samples as the median one is moved to that
    distance before it is encoded, unless more than 5 % of the samples are.

    Codes of perceptrons are computed in NumPy, so that a fitted estimator with the
    "mlp" needs no torch. While it trains a module, a fit seeds the global random
    streams of torch and restores them at the end; a lock makes concurrent fits of
    modules take turns.

    For links, other metrics or streams, cluster the codes: ``ClAM(k).fit(
    deep.transform(X), must_link=...)``.

    References
    ----------
    .. [1] B. Saha, D. Krotov, M. J. Zaki, P. Ram, "Deep Clustering with Associative
       Memories", arXiv:2601.00963, 2026.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from skdiffclust import DeepClAM
    >>> X, y = make_blobs(120, 8, centers=3, random_state=0)
    >>> deep = DeepClAM(n_clusters=3, tol=0.5, random_state=0).fit(X)
    >>> deep.transform(X).shape, deep.n_clusters_
    ((120, 8), 3)
    """

    _parameter_constraints = {
        "n_clusters": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
        ],
        "encoder": [StrOptions({"mlp"}), HasMethods("state_dict")],
        "decoder": [HasMethods("state_dict"), None],
        "inverse_temperature": [
            StrOptions({"auto"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "n_steps": [Interval(Integral, 1, None, closed="left")],
        "step_size": [Interval(Real, 0, 2, closed="neither")],
        "mask_probability": [Interval(Real, 0, 0.5, closed="both")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int | np.integer | Literal["auto"] = 8,
        *,
        encoder: object = "mlp",
        decoder: object = None,
        inverse_temperature: float | Literal["auto"] = "auto",
        n_steps: int | np.integer = 3,
        step_size: float = 1.0,
        mask_probability: float = 0.15,
        max_iter: int | np.integer = 200,
        batch_size: int | np.integer = 256,
        learning_rate: float = 1e-3,
        tol: float = 1e-3,
        n_init: int | np.integer = 10,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.decoder = decoder
        self.inverse_temperature = inverse_temperature
        self.n_steps = n_steps
        self.step_size = step_size
        self.mask_probability = mask_probability
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
        self, X, y=None, sample_weight=None, *, checkpoint=None, resume=False
    ) -> Self:
        """Train the networks and the memories.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples. Sparse ones are made dense a batch at a time.
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the loss, in the memories and in the scale of X.
        checkpoint : path-like or None, default=None
            Folder in which each epoch is stored; created if it does not exist.
        resume : bool, default=False
            Whether to continue from the checkpoint, if there is one. The result is that
            of an uninterrupted fit, bit for bit, if `random_state` is an integer.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ImportError
            If torch is not installed.
        ValueError
            If X or a parameter is invalid, or the checkpoint is not one of the same
            data and parameters.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested, an outlier is a cluster of its
            own, training diverges, or ``n_clusters="auto"`` has several candidates.
        """
        require_torch("DeepClAM")
        from skdiffclust._n_clusters import count_clusters
        from skdiffclust._torch import isolated_streams
        from skdiffclust.memories._deep import (
            DeepSettings,
            DeepTraining,
            make_autoencoder,
        )

        X = self._check_rows(X, reset=True)
        refuse_underflow(X, X.dtype)
        weight = sample_weights(sample_weight, X)
        refuse_many_clusters("DeepClAM", self.n_clusters, np.count_nonzero(weight))
        check_checkpoint("DeepClAM.fit", checkpoint, resume)
        device = resolve_device(self.device, "DeepClAM")
        random_state = check_random_state(self.random_state)
        rows = RowsOnDemand(X) if issparse(X) else X
        reach = reach_of(rows, weight)
        near = RowsOnDemand(X, lambda taken: drawn_in(taken, *reach))
        scaling = replace(
            scaling_of(near, weight, "euclidean", "mean", 1.0, 1.0), reach=reach
        )
        self.n_clusters_curve_ = self.n_clusters_candidates_ = None
        n_clusters = self.n_clusters
        if n_clusters == "auto":
            # Distances do not depend on the shift, which would make them dense.
            units = drawn_in(X, *reach) / scaling.scale
            count = count_clusters(units, weight, random_state)
            count.publish(self)
            n_clusters = count.best
        model = make_autoencoder(
            self.encoder,
            self.decoder,
            scaling.transform(rows[probe_rows(len(weight))]),
            n_clusters,
            len(weight),
            random_state,
        ).to(device)
        settings = DeepSettings(
            self.inverse_temperature,
            n_steps=self.n_steps,
            step_size=self.step_size,
            mask_probability=self.mask_probability,
            max_iter=self.max_iter,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            tol=self.tol,
            n_init=self.n_init,
        )
        run = DeepTraining(settings, model, rows, weight, scaling, random_state)
        written = self._checkpoint(X, weight, scaling, checkpoint, resume, random_state)
        training = Training(
            self,
            X,
            y,
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            tol=self.tol,
        )
        has_modules = not (isinstance(self.encoder, str) and self.decoder is None)
        for loop in training:
            with isolated_streams(random_state, device, needed=has_modules):
                run.run(loop, lambda: self._attributes(model, scaling, X), written)
        vars(self).update(self._attributes(model, scaling, X), device_=device)
        self._publish(X, weight, n_clusters)
        best = training.best
        self.loss_ = best.best_loss
        self.history_ = best.history
        self.n_iter_ = best.n_iter
        training.finish()
        return self

    def _checkpoint(self, X, weight, scaling, folder, resume, random_state):
        """Return the checkpoint of the epochs in a folder, None without a folder."""
        if folder is None:
            return None
        from skdiffclust._torch import module_identity

        rows = scaling.transform(RowsOnDemand(X)[probe_rows(len(weight))])
        outputs = {}
        if not isinstance(self.encoder, str):
            codes = codes_of(self.encoder, rows)
            outputs["encoder"] = module_identity(self.encoder, codes)
        if self.decoder is not None:
            outputs["decoder"] = module_identity(self.decoder, None)
        identity = identify(
            {"X": X, "sample_weight": weight}, self.get_params(deep=False), outputs
        )
        return LoopCheckpoint(folder, "DeepClAM", identity, random_state, resume=resume)

    def _attributes(self, model, scaling, X):
        """Return the fitted attributes that `predict` needs."""
        from skdiffclust._torch import module_encoder, module_on_cpu, module_state

        def fitted(given, part):
            if given is None or isinstance(given, str):
                arrays = module_encoder(part)
                return arrays.weights, arrays.biases
            return module_on_cpu(part, module_state(part))

        return {
            "cluster_centers_": model.memories.astype(X.dtype),
            "inverse_temperature_": float(model.beta),
            "encoder_": fitted(self.encoder, model.encoder),
            "decoder_": fitted(self.decoder, model.decoder),
            "_input_scaling": scaling,
        }

    def _publish(self, X, weight, n_clusters):
        """Assign labels, clusters by size; warn if some have no samples."""
        codes = self._codes(X)
        order = order_by_size(self._assign(codes), n_clusters, weight)
        self.cluster_centers_ = self.cluster_centers_[order]
        self.labels_ = self._assign(codes)
        self.probabilities_ = self._shares(codes).max(axis=1)
        sizes = np.bincount(self.labels_, weight, minlength=n_clusters)
        self.n_clusters_ = int(np.count_nonzero(sizes))
        warn_of_clusters("DeepClAM", sizes)

    def _codes(self, X):
        """Return the codes (n, p) of validated samples, in the dtype of X."""
        codes = by_batches(
            lambda rows: codes_of(self.encoder_, self._input_scaling.transform(rows)),
            RowsOnDemand(X),
            BLOCK,
        )
        return codes.astype(X.dtype, copy=False)

    def _check_rows(self, X, *, reset):
        """Return samples (n, d), dense or a canonical csr_array, that are finite."""
        X = validate_rows(self, X, reset=reset, order="C", accept_sparse="csr")
        refuse_overflow([X], X.dtype)
        return canonical_rows(X) if issparse(X) else X

    def _assign(self, codes):
        """Return the labels (n,) of codes (n, p)."""
        # numba is imported here, because it would slow down the import of the package.
        from skdiffclust.memories._assign import assign

        dynamics = dynamics_of_codes(
            self.n_steps, self.step_size, self.inverse_temperature_
        )
        equal = np.zeros(len(self.cluster_centers_))
        return assign(codes, self.cluster_centers_, equal, dynamics)

    def _encoded(self, X):
        """Return the codes (n, p) of new samples."""
        check_is_fitted(self)
        return self._codes(self._check_rows(X, reset=False))

    def _distances(self, codes):
        """Return distances (n, k), float64, of codes (n, p) to the memories."""
        return block_distances(codes, self.cluster_centers_, "euclidean", {})

    def _shares(self, codes):
        """Return how strongly the memories attract codes (n, p), (n, k)."""
        return softmax(-self.inverse_temperature_ * np.square(self._distances(codes)))

    def predict(self, X) -> np.ndarray:
        """Return the memory that the code of each sample converges to.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            The memory nearest to the code after `n_steps` steps of the dynamics.
        """
        return self._assign(self._encoded(X))

    def predict_proba(self, X) -> np.ndarray:
        """Return how strongly each memory attracts the code of each sample.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        shares : ndarray of shape (n_samples, n_clusters), float64
            Shares of the first attraction step; rows sum to one.
        """
        return self._shares(self._encoded(X))

    def transform(self, X) -> np.ndarray:
        """Embed samples by the encoder.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        embedding : ndarray of shape (n_samples, n_outputs)
            Their codes, in the dtype of X.
        """
        return self._encoded(X)

    def inverse_transform(self, X) -> np.ndarray:
        """Decode codes to samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_outputs)
            Codes, such as `cluster_centers_` or those that `transform` returns.

        Returns
        -------
        samples : ndarray of shape (n_samples, n_features)
            In the units of the samples of `fit`.
        """
        check_is_fitted(self)
        codes = check_array(X, dtype=[np.float64, np.float32])
        samples = outputs_of(
            self.decoder_,
            codes.astype(self.cluster_centers_.dtype, copy=False),
            "decoder",
        )
        return self._input_scaling.inverse_transform(samples).astype(codes.dtype)

    def score(self, X, y=None, sample_weight=None) -> float:
        """Return the simplified silhouette of the codes among the memories.

        As :meth:`ClAM.score`, in the space of the codes. It can be used to choose the
        number of clusters, but not to compare encoders, whose codes are in different
        spaces.

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
        """
        far = self._distances(self._encoded(X))
        weight = sample_weights(sample_weight, far)
        return simplified_silhouette(far, weight)

    @property
    def _n_features_out(self):
        """Number of columns of `transform`."""
        return self.cluster_centers_.shape[1]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
