"""Training of an encoder by the partial Fenchel-Young loss, batch by batch."""

import numpy as np
from scipy.sparse import issparse

from skdiffclust._checkpoint import LoopCheckpoint, identify
from skdiffclust._optimisers import Adam, ArraysState
from skdiffclust._threads import largest_product, small_products
from skdiffclust.forests._constrained._spanning import maximum_spanning_forest
from skdiffclust.forests._embedding._start import (
    Rates,
    learning_rate_of,
    noise_scale_of,
)
from skdiffclust.forests._perturbed._affinity import (
    standardized_affinity,
    standardized_affinity_with_vjp,
)
from skdiffclust.forests._perturbed._hash import draw_seed
from skdiffclust.forests._perturbed._perturbation import partial_loss_with_gradient
from skdiffclust.forests._perturbed._relation import relation_of
from skdiffclust.forests._perturbed._samplers import Noise
from skdiffclust.metrics import connectivity_error


class EncoderTrainer:
    """An encoder trained by explicit gradients, with its optimiser, samples and noise.

    `_torch.ModuleTrainer` is its twin for modules.

    Parameters
    ----------
    settings : EmbeddingSettings
    encoder : Encoder
        Trained in place.
    X : ndarray or csr_array of shape (n_samples, n_features)
    n_clusters : int
    random_state : RandomState
    rates : Rates or None
        Scales to continue with. If None, they are computed from the settings.
    step : float
        The "auto" step size, relative to the root mean square of the first layer's
        weights.
    """

    device = "cpu"

    def __init__(
        self,
        settings,
        encoder,
        X,
        n_clusters,
        random_state,
        rates,
        step,
    ):
        self.settings = settings
        self.encoder = encoder
        self.X = X
        self.n_clusters = n_clusters
        self.rng = random_state
        self.rates = rates or start_rates(
            settings, self.embed, X, random_state, encoder.weights[0], step
        )
        self.optimiser = Adam(encoder.arrays, self.rates.learning_rate)
        self.trained = ArraysState(encoder.names, encoder.arrays, self.optimiser)

    def run(self, loop, batches, attributes, checkpoint=None):
        """Run the epochs of a loop; leave the encoder with its best weights."""
        # The twin seeds the streams of torch with this draw: both see the same batches
        # and the same noise.
        self.rng.randint(np.iinfo(np.int32).max)
        batch_size = self.settings.batch_size
        if checkpoint is not None:
            checkpoint.load(loop, self.trained)
        # The loop detects an overflow and warns of it.
        with (
            np.errstate(over="ignore", invalid="ignore"),
            small_products(largest_product(batch_size, self.encoder.arrays)),
        ):
            for _ in loop:
                losses = [
                    self.step(batch) for batch in batches.epoch(batch_size, self.rng)
                ]
                loss = float(np.mean(losses)) if losses else 0.0
                loop.record(loss, state=self.state, attributes=attributes)
                if checkpoint is not None:
                    checkpoint.save(loop, self.trained)
        self.trained.restore(loop.best_state)

    def step(self, batch):
        """Take a step for a batch; return the loss before it."""
        loss, gradients = self.loss_and_gradients(batch)
        self.optimiser.step(self.encoder.arrays, gradients)
        return loss

    def loss_and_gradients(self, batch):
        """Return the partial loss of a batch, and its gradients by the arrays.

        A batch is (rows, constraints, n_clusters). Both are NaN if the affinity is not
        finite.
        """
        rows, constraints, n_clusters = batch
        noise = noise_of_batch(self.settings, self.rates, self.rng)
        embedding, inputs = self.encoder.forward(
            dense_batch(self.X, rows).astype(self.encoder.dtype, copy=False)
        )
        affinity, vjp = standardized_affinity_with_vjp(
            embedding, self.settings.affinity
        )
        if not np.isfinite(affinity).all():
            gradients = [np.full_like(array, np.nan) for array in self.encoder.arrays]
            return np.nan, gradients
        relation = relation_of(0.5 * (affinity + affinity.T))
        loss, by_edges = partial_loss_with_gradient(
            relation, constraints, n_clusters, noise
        )
        gradient = vjp(relation.spread(by_edges)).astype(embedding.dtype)
        gradients = self.encoder.backward(gradient, inputs)
        if self.settings.affinity == "sqeuclidean":
            # Distances do not depend on the last biases. Rounding would move them, and
            # if the unit of X is tiny, by more than all samples differ.
            gradients[-1][:] = 0.0
        return loss, gradients

    def checkpoint(self, folder, params, data, *, resume):
        """Return the LoopCheckpoint in a folder, of parameters and a dict of arrays."""
        return loop_checkpoint(self, folder, params, data, {}, resume)

    def state(self):
        """Copy the weights."""
        return self.trained.state()

    def attributes(self):
        """Return the fitted attributes that hold what was trained."""
        encoder = self.encoder.copy()
        return {
            "coefs_": encoder.weights,
            "intercepts_": encoder.biases,
            "_n_features_out": encoder.n_outputs,
        }

    def embed(self, X):
        """Return the embedding (n, n_components) of samples as the encoder is now."""
        return embed_by_encoder(self.encoder, X)


def dense_batch(X, rows):
    """Return samples of X (n, ...), dense or sparse, as a dense array."""
    batch = X[rows]
    return batch.toarray() if issparse(batch) else batch


def embed_by_encoder(encoder, X):
    """Return the outputs (n, n_components) of an encoder for dense or sparse X."""
    if issparse(X):
        X = X.astype(encoder.dtype, copy=False)
    return encoder.outputs(X)


def noise_of_batch(settings, rates, random_state):
    """Return the noise of a batch, whose seed is drawn here."""
    return Noise(
        rates.noise_scale,
        int(settings.n_perturbations),
        "normal",
        draw_seed(random_state),
    )


def start_rates(settings, embed, X, random_state, first_weights=None, step=None):
    """Return the Rates of EmbeddingSettings for an encoder as it is at the start.

    ``embed(rows)`` are its outputs for rows of X. `first_weights` (n_in, n_out) are
    those of the first layer, None for a module; a step of Adam is `step` of them.
    """
    noise_scale = noise_scale_of(
        settings.noise_scale,
        lambda rows: standardized_affinity(embed(X[rows]), settings.affinity),
        X.shape[0],
        settings.batch_size,
        random_state,
    )
    learning_rate = learning_rate_of(settings.learning_rate, first_weights, step)
    return Rates(noise_scale, learning_rate)


def loop_checkpoint(trainer, folder, params, data, outputs, resume):
    """Return the LoopCheckpoint of a trainer in a folder.

    `params` are those of the estimator, `data` is a dict of arrays, `outputs` as for
    `identify`.
    """
    start = b"".join(array.tobytes() for array in trainer.state().values())
    samples = {"X": trainer.X}
    if issparse(trainer.X):
        parts = ("data", "indices", "indptr")
        samples = {f"X.{part}": getattr(trainer.X, part) for part in parts}
    data = samples | data | {"first weights": np.frombuffer(start, np.uint8)}
    return LoopCheckpoint(
        folder,
        "SpanningForestEmbedding",
        identify(data, params, outputs),
        trainer.rng,
        resume=resume,
    )


def units_of(embedding, affinity):
    """Return the center and scale of an embedding, which training leaves undetermined.

    (embedding - center) / scale has mean 0, unless the affinity is the cosine, and
    a root mean square of 1. A float or an array (n_components,), and a float, in the
    dtype of the embedding (n, n_components).
    """
    zero = embedding.dtype.type(0)
    one = embedding.dtype.type(1)
    if not np.isfinite(embedding).all():
        return zero, one
    wide = embedding.astype(np.float64)
    center = zero if affinity == "cosine" else wide.mean(axis=0)
    scale = np.sqrt(np.mean((wide - center) ** 2))
    if not np.finfo(embedding.dtype).tiny < scale < np.inf:
        return zero, one
    return np.asarray(center, dtype=embedding.dtype), embedding.dtype.type(scale)


def batch_error(embedding, y, n_clusters, batch_size, affinity):
    """Return the connectivity error of labels (n,) and forests of batches of samples.

    Batches are taken in the order of the samples; a last one of a single sample is left
    out. If all labels of a batch are known, the forest has as
    many clusters as there are classes, else `n_clusters`. Only pairs of labelled
    samples count.
    """
    wrong = 0.0
    n_pairs = 0
    for first in range(0, len(y), batch_size):
        labels = y[first : first + batch_size]
        n_known = int(np.count_nonzero(labels >= 0))
        if len(labels) < 2 or not n_known:
            continue
        k = min(n_clusters, len(labels))
        if n_known == len(labels):
            k = len(np.unique(labels))
        samples = embedding[first : first + batch_size]
        matrix = standardized_affinity(samples, affinity)
        predicted = maximum_spanning_forest(0.5 * (matrix + matrix.T), k).labels
        wrong += n_known**2 * connectivity_error(labels, predicted)
        n_pairs += n_known**2
    return wrong / n_pairs if n_pairs else np.nan
