"""SpanningForestEmbedding: an encoder whose clusters agree with partial labels."""

import copy
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from skdiffclust._checkpoint import check_checkpoint
from skdiffclust._compat import CallbackSupportMixin, Interval, StrOptions, fit_context
from skdiffclust._devices import (
    outside_torch_modes,
    require_torch,
    resolve_device,
)
from skdiffclust._encoder import Encoder
from skdiffclust._history import EpochLoop, Training, drop_stale, keep_state_on_error
from skdiffclust._pairwise import refuse_overflow, refuse_underflow
from skdiffclust._threads import small_products
from skdiffclust._validation import (
    canonical_rows,
    hidden_widths,
    validate_rows,
)
from skdiffclust.forests._embedding._informed_batches import InformedBatches
from skdiffclust.forests._embedding._start import (
    STEPS,
    EmbeddingSettings,
    Rates,
    linear_encoder,
    neighbors_of,
)
from skdiffclust.forests._embedding._targets import (
    check_number_of_clusters,
    check_target,
    known_constraints,
    link_pairs,
)
from skdiffclust.forests._embedding._training import (
    EncoderTrainer,
    batch_error,
    embed_by_encoder,
    units_of,
)

# The relative decrease of the loss in ten epochs that gives a warning at `max_iter`.
_STILL_FALLS = 0.2


class SpanningForestEmbedding(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    CallbackSupportMixin,
    BaseEstimator,
):
    """Learn an embedding whose spanning forest agrees with labels or links.

    An encoder is trained on mini-batches by the partial Fenchel-Young loss of [1]_,
    which compares perturbed spanning forests of the embedded samples with those that
    satisfy the labels or links of the batch. Few labels are sufficient, and some
    classes may have none, because unlabelled samples are vertices of the forests, too.
    To cluster, use ``make_pipeline(SpanningForestEmbedding(10),
    SpanningForestClustering(10))``; to classify, use a classifier as the second step.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Number of clusters, including classes without labelled samples. In a batch it is
        reduced to the largest possible number. "auto" is the number of classes, if
        every sample is labelled.
    encoder : {"linear", "mlp"} or torch.nn.Module, default="linear"
        Model that embeds the samples. A module, of which a copy is trained, takes X of
        any shape (n_samples, ...) and returns (n_samples, n_components).
    init : {"auto", "pca", "lda", "random"}, default="auto"
        Initial weights of "linear". "pca": the principal components of all samples, so
        that training starts from the distances of X. "lda": directions that separate
        classes, and small default steps, since distances are good from the start. If
        all `n_clusters` classes have labelled samples, these are the directions of
        linear discriminant analysis, one fewer than classes; else those of large
        variance over all samples relative to that among samples which share a class or
        a must-link. It is "pca" where no two samples are known to belong together.
        "auto": "lda" if a hold-out of labelled samples says that it is no worse. To see
        this, a quarter of them at a time is left out, or a quarter of the classes if
        some class has no label, and those are counted whose nearest labelled sample is
        of their class; of classes, there must be four. Else "pca". `init_` is what was
        taken. "random": random weights, as "mlp" always has.
    n_components : int, default=32
        Dimension of the embedding; not for a module.
    hidden_layer_sizes : int or array-like of int, default=(100,)
        Hidden layers of "mlp", with ReLU.
    affinity : {"sqeuclidean", "cosine"}, default="sqeuclidean"
        Affinity of embedded samples, standardised in every batch: minus their squared
        distance, or their cosine. Cluster an embedding that is learned by cosines with
        ``metric="cosine"``.
    noise_scale : float or "auto", default="auto"
        Scale ε > 0 of the noise, relative to the standard deviation of the affinity.
        "auto" is the mean gap, over the samples of a few batches at the start, between
        the affinities of the nearest and the second nearest other sample, over √2:
        noise that exchanges the two in one of six draws.
    n_perturbations : int, default=20
        Number of samples of the noise in a batch.
    n_neighbors : int or None, default=3
        Half of the unlabelled samples of a batch are drawn together with one of their
        `n_neighbors` nearest neighbours in X, and linked to it by a must-link, unless
        labels or links separate the two. This separates classes without any labelled
        sample. None draws single samples.
    warm_start : bool, default=False
        Start from the weights of the last fit, whose layers must have the same sizes.
    max_iter : int, default=20
        Largest number of epochs, passes over the unlabelled samples of at least five
        batches.
    batch_size : int, default=64
        Samples of a batch.
    learning_rate : float or "auto", default="auto"
        Step size of Adam. "auto" is a fiftieth of the root mean square of the first
        layer's weights at the start, a thousandth if `init_` is "lda", and 0.001 for a
        module.
    device : str or torch.device, default="auto"
        Device for the training of a module; "auto" is CUDA if it is available. "linear"
        and "mlp" are trained on the CPU, where forests are found in any case.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, batches and noise.

    Attributes
    ----------
    coefs_, intercepts_ : list of ndarray
        Weights (n_in, n_out) and biases of the layers; not for a module.
    encoder_ : torch.nn.Module
        The trained copy of the module, on the CPU; only for a module. `transform`
        puts what it returns into the units described in the notes.
    init_ : {"pca", "lda", "random"}
        What training started from; not for a module.
    n_clusters_ : int
        Number of clusters of the forests.
    noise_scale_ : float
        Scale of the noise.
    learning_rate_ : float
        Step size of Adam.
    history_ : dict of lists
        The ``"loss"`` of each epoch. The weights with the smallest loss are kept.
    n_iter_ : int
        Number of epochs.
    device_ : str
        Where it was trained.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    skdiffclust.forests.partial_fenchel_young_loss : The loss.
    SpanningForestClustering : Clusters the embedding.

    Notes
    -----
    The affinity "sqeuclidean" depends neither on the origin nor on the scale of the
    embedding, and "cosine" not on its scale, so training does not determine them. At
    the end of a fit the embedding of X gets mean 0 (but for "cosine") and a root mean
    square of 1 over all its entries: in the last layer of "linear" and "mlp", behind
    the output of a module. For other affinities write a training loop with
    `skdiffclust.nn.PartialFenchelYoungLoss`.

    "linear" and "mlp" are trained on the CPU by explicit gradients in NumPy; the result
    does not depend on whether torch is installed, which is needed for a module only.
    While it trains a module, it seeds the global random streams of torch, and restores
    them at the end: a lock makes concurrent fits of modules take turns, so that they
    give the same results as alone. Other threads can still draw from these streams
    meanwhile.

    The links of `n_neighbors`, the starts of `init` but "random", and the automatic
    `noise_scale` are additions to [1]_. A batch of b samples costs
    O(b² n_perturbations). The affinity is standardised,
    which the paper does not mention, because noise has no meaning without a scale.
    Scale the features of X for "linear" and "mlp".

    References
    ----------
    .. [1] L. Stewart, F. Bach, F. Llinares-López, Q. Berthet, "Differentiable
       Clustering with Perturbed Spanning Forests", NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust import SpanningForestEmbedding
    >>> rng = np.random.RandomState(0)
    >>> y = np.repeat([0, 1, 2], 20)
    >>> X = np.column_stack([y + 0.1 * rng.randn(60), 5 * rng.randn(60)])
    >>> y[::2] = -1
    >>> embedding = SpanningForestEmbedding(3, n_components=1, max_iter=60,
    ...                                     learning_rate=0.05, random_state=0)
    >>> embedding.fit_transform(X, y).shape
    (60, 1)
    """

    _parameter_constraints = {
        "n_clusters": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "encoder": [StrOptions({"linear", "mlp"}), callable],
        "init": [StrOptions({"auto", "pca", "lda", "random"})],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "hidden_layer_sizes": [
            "array-like",
            Interval(Integral, 1, None, closed="left"),
        ],
        "affinity": [StrOptions({"sqeuclidean", "cosine"})],
        "noise_scale": [
            Interval(Real, 0, np.inf, closed="neither"),
            StrOptions({"auto"}),
        ],
        "n_perturbations": [Interval(Integral, 1, None, closed="left")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left"), None],
        "warm_start": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 2, None, closed="left")],
        "learning_rate": [
            Interval(Real, 0, np.inf, closed="neither"),
            StrOptions({"auto"}),
        ],
        "device": "no_validation",  # resolve_device lists the devices
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int | np.integer | Literal["auto"] = "auto",
        *,
        encoder: Literal["linear", "mlp"] | Callable[..., Any] = "linear",
        init: Literal["auto", "pca", "lda", "random"] = "auto",
        n_components: int | np.integer = 32,
        hidden_layer_sizes: int | np.integer | ArrayLike = (100,),
        affinity: Literal["sqeuclidean", "cosine"] = "sqeuclidean",
        noise_scale: float | Literal["auto"] = "auto",
        n_perturbations: int | np.integer = 20,
        n_neighbors: int | np.integer | None = 3,
        warm_start: bool = False,
        max_iter: int | np.integer = 20,
        batch_size: int | np.integer = 64,
        learning_rate: float | Literal["auto"] = "auto",
        device: object = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.init = init
        self.n_components = n_components
        self.hidden_layer_sizes = hidden_layer_sizes
        self.affinity = affinity
        self.noise_scale = noise_scale
        self.n_perturbations = n_perturbations
        self.n_neighbors = n_neighbors
        self.warm_start = warm_start
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.random_state = random_state

    @keep_state_on_error
    @outside_torch_modes
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X,
        y=None,
        *,
        must_link=None,
        cannot_link=None,
        checkpoint=None,
        resume=False,
    ) -> Self:
        """Learn the embedding from labels or links.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples; dense, of shape (n_samples, ...), for a module.
        y : array-like of shape (n_samples,), default=None
            Classes, as integers with -1 where unknown, or as strings with -1, None or
            NaN where unknown. Names are not kept: they only say same or different.
            More classes than `n_clusters` give a warning, and are taken.
        must_link : array-like or sparse matrix, default=None
            Samples that share a cluster: index pairs (n_links, 2), group ids
            (n_samples,) with -1 for none, or a sparse incidence matrix
            (n_samples, n_links). Use one of the last two in a cross-validation.
        cannot_link : array-like or sparse matrix, default=None
            Samples that do not share one: index pairs or incidence.
        checkpoint : path-like or None, default=None
            Folder that each epoch is written to; made if it is not there.
        resume : bool, default=False
            Continue from the checkpoint, if there is one. For an integer
            `random_state`, the weights are those of an uninterrupted fit, within 1e-6
            of their size; for a module, bit for bit.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If there are neither labels nor links, `y` is neither integers nor strings,
            the number of clusters is not known, X is invalid, or the
            checkpoint is not one of the same data and parameters.

        Warns
        -----
        ConvergenceWarning
            If the training diverges; the best weights are kept. Also if the loss still
            falls at `max_iter`, by a fifth in ten epochs.
        """
        check_checkpoint("SpanningForestEmbedding.fit", checkpoint, resume)
        X, y, batches, device = self._check_data(
            X, y, must_link, cannot_link, reset=True
        )
        rng = check_random_state(self.random_state)
        trainer = self._trainer(X, batches, rng, device, resume=self.warm_start)
        if checkpoint is not None:
            known = vars(batches.constraints)
            params = self.get_params(deep=False)
            checkpoint = trainer.checkpoint(checkpoint, params, known, resume=resume)
        training = Training(
            self,
            X,
            y,
            max_iter=self.max_iter,
            learning_rate=trainer.rates.learning_rate,
            # The loss is a mean of samples: a tiny decrease is not progress.
            tol=_STILL_FALLS,
        )
        for loop in training:
            trainer.run(loop, batches, lambda: self._fitted(trainer), checkpoint)
        self._publish(trainer, training.best)
        training.finish()
        return self

    @keep_state_on_error
    @outside_torch_modes
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, *, must_link=None, cannot_link=None) -> Self:
        """Train for one epoch, from the current weights.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples; dense, of shape (n_samples, ...), for a module.
        y : array-like of shape (n_samples,), default=None
            As for `fit`.
        must_link : array-like or sparse matrix, default=None
            As for `fit`.
        cannot_link : array-like or sparse matrix, default=None
            As for `fit`.

        Returns
        -------
        self : object
            The estimator after one more epoch.

        Raises
        ------
        ValueError
            As for `fit`.
        """
        begins = not hasattr(self, "n_iter_")
        X, y, batches, device = self._check_data(
            X, y, must_link, cannot_link, reset=begins
        )
        if begins or not isinstance(self.random_state, Integral):
            rng = check_random_state(self.random_state)
        else:
            # An integer gives different noise at every call, but the same in every run.
            rng = np.random.RandomState([self.random_state % 2**32, self.n_iter_])
        trainer = self._trainer(X, batches, rng, device, resume=not begins)
        loop = EpochLoop(
            type(self).__name__,
            max_iter=1,
            learning_rate=trainer.rates.learning_rate,
            history=None if begins else self.history_,
        )
        trainer.run(loop, batches, None)
        n_before = 0 if begins else self.n_iter_
        self._publish(trainer, loop)
        self.n_iter_ = n_before + 1
        return self

    def transform(self, X) -> np.ndarray:
        """Embed samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples; dense, of shape (n_samples, ...), for a module.

        Returns
        -------
        embedding : ndarray of shape (n_samples, n_components)
            A sample's embedding does not depend on the other samples, unless a module
            makes it so. The dtype is that of the weights.

        Raises
        ------
        ValueError
            If the embedding overflows.
        """
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            if hasattr(self, "coefs_"):
                encoder = Encoder(self.coefs_, self.intercepts_)
                embedding = embed_by_encoder(encoder, X)
            else:
                embedding = self._embed_by_module(X)
        if not np.isfinite(embedding).all():
            raise ValueError(
                "The samples of X must have an embedding that fits "
                f"{embedding.dtype}. Got values up to {abs(X).max():.3g} instead, "
                "whose embedding overflows: rescale X like the samples of the fit."
            )
        return embedding

    def score(self, X, y) -> float:
        """Return minus the connectivity error of the forest of the embedding.

        The samples are clustered in batches of `batch_size`, in their order, as in the
        paper, and pairs of samples of one batch that both have a label are counted.
        It ranks embeddings by the classes of y, which it needs, and does not choose the
        number of clusters, which the classes decide.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples; dense, of shape (n_samples, ...), for a module.
        y : array-like of shape (n_samples,)
            Classes, as for `fit`.

        Returns
        -------
        score : float
            Between -1 and 0, larger is better; NaN if no sample has a label.
        """
        self._check_torch()
        embedding = self.transform(X)
        y = check_target(y, len(embedding))
        return -batch_error(
            embedding, y, self.n_clusters_, self.batch_size, self.affinity
        )

    def _check_rows(self, X, *, reset):
        """Return X as a finite array or csr_array that the encoder takes."""
        by_module = not isinstance(self.encoder, str)
        accepted = False if by_module else "csr"
        X = validate_rows(
            self, X, reset=reset, allow_nd=by_module, accept_sparse=accepted
        )
        if issparse(X):
            X = canonical_rows(X)
        rows = X if issparse(X) else X.reshape(len(X), -1)
        refuse_overflow([rows], dtype=X.dtype)
        if reset:
            refuse_underflow(rows, X.dtype)
        return X

    def _check_data(self, X, y, must_link, cannot_link, *, reset):
        """Return X and y checked, the generator of batches and the device."""
        self._check_torch()
        X = self._check_rows(X, reset=reset)
        y = None if y is None else check_target(y, X.shape[0])
        known = known_constraints(X.shape[0], y, must_link, cannot_link)
        n_clusters = check_number_of_clusters(self.n_clusters, y, known)
        device = resolve_device(self.device, type(self).__name__)
        links = link_pairs(known) if y is None else None
        batches = InformedBatches(known, links, n_clusters)
        if self.n_neighbors is not None and len(batches.others):
            batches.neighbors = neighbors_of(X, self.n_neighbors)
        return X, y, batches, device

    def _check_torch(self):
        """Refuse what needs torch where it is not installed."""
        if not isinstance(self.encoder, str):
            require_torch(f"{type(self).__name__} with a module as encoder")

    def _trainer(self, X, batches, rng, device, *, resume):
        """Return the trainer of the encoder, from new weights or those of the last fit.

        Explicit gradients in NumPy, or autograd for modules.
        """
        n_clusters = batches.n_clusters
        rates = self._kept_rates() if resume else None
        settings = EmbeddingSettings(
            self.affinity,
            self.n_perturbations,
            self.batch_size,
            self.noise_scale,
            self.learning_rate,
        )
        if isinstance(self.encoder, str):
            encoder, step = self._start_encoder(X, batches, rng, resume=resume)
            return EncoderTrainer(settings, encoder, X, n_clusters, rng, rates, step)
        from skdiffclust._torch import isolated_streams
        from skdiffclust.forests._embedding._torch import ModuleTrainer

        drop_stale(self, ["init_"])
        resume = resume and hasattr(self, "encoder_")
        with isolated_streams(rng):
            module = copy.deepcopy(self.encoder_ if resume else self.encoder)
        return ModuleTrainer(settings, module, X, n_clusters, rng, device, rates)

    def _kept_rates(self):
        """Return the Rates of the last fit where they are "auto"; None without one."""
        if not hasattr(self, "noise_scale_"):
            return None
        kept = self.noise_scale_, self.learning_rate_
        asked = self.noise_scale, self.learning_rate
        return Rates(
            *(k if a == "auto" else float(a) for k, a in zip(kept, asked, strict=True))
        )

    def _start_encoder(self, X, batches, rng, *, resume):
        """Return the encoder to train, new or a copy of that of the last fit, its step.

        The step is what "auto" is, in root mean squares of the first layer's weights.
        """
        hidden = hidden_widths(self.hidden_layer_sizes, type(self).__name__)
        if self.encoder == "linear":
            hidden = []
        sizes = [X.shape[1], *hidden, self.n_components]
        if resume and hasattr(self, "coefs_"):
            kept = [len(self.coefs_[0]), *(array.shape[1] for array in self.coefs_)]
            if kept != sizes:
                raise ValueError(
                    "SpanningForestEmbedding must have layers of the same sizes as in "
                    f"the last fit to continue from it, {kept}. Got {sizes} instead, "
                    "from the features of X, encoder, hidden_layer_sizes and "
                    "n_components. Set warm_start=False, or fit a clone."
                )
            # The state when training ended, before the change of units.
            center, scale = self._units
            encoder = Encoder(self.coefs_, self.intercepts_).copy()
            return encoder.scaled(scale).shifted(center), STEPS[self.init_]
        if self.encoder == "linear" and self.init != "random":
            known = batches.constraints
            with small_products(X.shape[1] ** 3):  # eigenvectors
                encoder, self.init_ = linear_encoder(
                    self.init, X, known, batches.n_clusters, self.n_components, rng
                )
        else:
            encoder = Encoder.with_random_weights(sizes, rng, X.dtype)
            self.init_ = "random"
        return encoder, STEPS[self.init_]

    def _fitted(self, trainer):
        """Return the attributes that transform and score need, as of now."""
        return {
            "n_clusters_": trainer.n_clusters,
            "noise_scale_": trainer.rates.noise_scale,
            "learning_rate_": trainer.rates.learning_rate,
            "_units": (0.0, 1.0),
            **trainer.attributes(),
        }

    def _publish(self, trainer, loop):
        """Assign the fitted attributes, with the embedding in its units."""
        drop_stale(self, ("coefs_", "intercepts_", "encoder_"))
        vars(self).update(self._fitted(trainer))
        self._units = center, scale = units_of(trainer.embed(trainer.X), self.affinity)
        if isinstance(self.encoder, str):
            self.coefs_[-1] = self.coefs_[-1] / scale
            self.intercepts_[-1] = (self.intercepts_[-1] - center) / scale
        self.history_ = loop.history
        self.n_iter_ = loop.n_iter
        self.device_ = trainer.device

    def _embed_by_module(self, X):
        """Embed validated samples by the trained module, on the CPU."""
        from skdiffclust.forests._embedding._torch import embed_by_module

        center, scale = self._units
        return (embed_by_module(self.encoder_, X) - center) / scale

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = isinstance(self.encoder, str)
        return tags
