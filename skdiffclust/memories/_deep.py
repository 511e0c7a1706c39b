"""Training of an autoencoder with memories in its latent space, in torch.

The idea is that of [1]_, of which only the abstract was available; the details are
ours. An autoencoder is trained first, on samples of which some features are hidden.
Many memories among its codes are merged into clusters by `find_basins`, so that
clusters can have any shape. Then encoder, decoder and one memory per cluster are
trained by one loss, the reconstruction error from the recalled code plus minus the log
share of the cluster's memory in the attraction; every few epochs clusters are found
again and the memories move to their means, until the clusters no longer change.

.. [1] B. Saha, D. Krotov, M. J. Zaki, P. Ram, "Deep Clustering with Associative
   Memories", arXiv:2601.00963, 2026.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from torch import nn

from skdiffclust._batches import by_batches, mini_batches, rows_of_weight
from skdiffclust._encoder import Encoder
from skdiffclust._kmeans import means_of, squared_distances
from skdiffclust._torch import (
    encoder_module,
    load_module_state,
    module_state,
    own_module,
    to_numpy,
    to_tensor,
    train_module,
)
from skdiffclust.memories._basins import find_basins
from skdiffclust.memories._codes import BLOCK, codes_of, dynamics_of_codes, outputs_of
from skdiffclust.memories._rows import MAX_ROWS
from skdiffclust.memories._torch import AssociativeMemory

_HIDDEN = (256, 128)
_LATENT = 10
_PRETRAINING = 800  # approximate number of steps
_ROUNDS = 4  # times that clusters are found anew
_ROUND = 100  # approximate number of steps from one of them to the next
_CONCENTRATION = 8.0  # inverse temperature times the variance of the codes
# Least inverse temperature times the mean squared distance to the nearest memory.
_SEPARATION = 6.0
# Batches are smaller if an epoch would have fewer of them, with at least these samples.
_STEPS_PER_EPOCH = 8
_SMALL_BATCH = 100
_PATIENCE = 10  # epochs of pretraining that together must lower its loss
_EXACT = 1e-12  # loss, in training units, that is rounding


class Autoencoder(nn.Module):
    """Encoder, decoder and memories, with what the current stage of training aims at.

    Parameters
    ----------
    encoder, decoder : nn.Module
    memories : ndarray of shape (n_clusters, n_outputs)
    n_samples : int
    """

    def __init__(self, encoder, decoder, memories, n_samples):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.memory = AssociativeMemory(
            *memories.shape, inverse_temperature=1.0, memories=memories
        )
        none = torch.zeros((), dtype=torch.int64)
        self.register_buffer("stage", none)  # 0: pretraining
        self.register_buffer("first_epoch", none.clone())  # of the stage
        self.register_buffer("labels", torch.zeros(n_samples, dtype=torch.int64))
        self.register_buffer("beta", torch.ones((), dtype=torch.float64))

    @property
    def memories(self):
        """Memories (k, p), a copy, float64."""
        return to_numpy(self.memory.memories).astype(np.float64)


def make_autoencoder(encoder, decoder, shown, n_clusters, n_samples, random_state):
    """Return the initial `Autoencoder` for parameters of a `DeepClAM`.

    `shown` (m, d) are some samples in training units. Modules are copied.
    """
    n_features = shown.shape[1]
    kind = to_tensor(shown[:0]).dtype

    def perceptron(sizes):
        return encoder_module(
            Encoder.with_random_weights(sizes, random_state, shown.dtype)
        )

    if isinstance(encoder, str):
        encoder = perceptron([n_features, *_HIDDEN, min(_LATENT, n_features)])
    else:
        encoder = own_module(encoder, "'encoder' parameter of DeepClAM", "'mlp'")
        encoder = encoder.to(kind)
    codes = codes_of(encoder, shown)
    if decoder is None:
        decoder = perceptron([codes.shape[1], *_HIDDEN[::-1], n_features])
    else:
        what = "'decoder' parameter of DeepClAM"
        decoder = own_module(decoder, what, "None").to(kind)
        samples = outputs_of(decoder, codes[:1], "decoder")
        if samples.shape != (1, n_features):
            raise ValueError(
                f"The {what} must map codes to samples of {n_features} features. Got "
                f"shape {samples.shape} for one code instead. Set the width of its "
                "last layer to n_features."
            )
    # For callbacks, until clusters are found.
    memories = codes[np.arange(n_clusters) % len(codes)]
    model = Autoencoder(encoder, decoder, memories, n_samples)
    model.memory.to(kind)
    return model


@dataclass(frozen=True)
class DeepSettings:
    """The parameters of `DeepClAM` that its training needs."""

    inverse_temperature: float | str
    n_steps: int
    step_size: float
    mask_probability: float
    max_iter: int
    batch_size: int
    learning_rate: float
    tol: float
    n_init: int


class DeepTraining:
    """Training of an `Autoencoder` on samples X (n, d) with weights (n,).

    X is dense, or `RowsOnDemand`.
    """

    def __init__(self, settings, model, X, weight, scaling, random_state):
        self.settings = settings
        self.model = model
        self.X = X
        self.weight = (weight / weight.mean()).astype(X.dtype)
        self.scaling = scaling
        self.random_state = random_state
        least = max(_SMALL_BATCH, len(X) // _STEPS_PER_EPOCH)
        self.batch_size = min(settings.batch_size, least, len(X))
        self._chosen = rows_of_weight(self.weight, MAX_ROWS, random_state)
        self._n_batches = ceil(len(X) / self.batch_size)

    def run(self, loop, attributes, checkpoint):
        """Run the epochs of a loop; leave the best weights and the last clusters."""
        self._attributes = attributes
        self._adam = torch.optim.Adam(
            [part for part in self.model.parameters() if part.requires_grad],
            lr=self.settings.learning_rate,
            fused=True,
        )
        networks = (*self.model.encoder.parameters(), *self.model.decoder.parameters())
        if not any(part.requires_grad for part in networks):
            # The user's networks are trained already, and are not to change.
            self._find_clusters()
            self.model.stage += 1
        train_module(
            loop,
            self.model,
            self._batches,
            self._loss,
            self._adam,
            batch_size=self.batch_size,
            close=self._close,
            checkpoint=checkpoint,
        )
        load_module_state(self.model, loop.best_state)
        if self._stage == 0:
            self._find_clusters()
        else:
            # In training the codes of a cluster move away from the other clusters, and
            # not towards their memory: in the end memories can be so near each other
            # that several attract the same samples.
            codes = self._codes()
            self._put_memories(
                codes, squared_distances(codes, self.model.memories).argmin(axis=1)
            )

    @property
    def _stage(self):
        """0 in the pretraining, then the number of the round."""
        return int(self.model.stage)

    def _n_epochs(self):
        """Return the epochs of the pretraining (stage 0), or of a round."""
        first = min(
            ceil(_PRETRAINING / self._n_batches), max(1, self.settings.max_iter // 2)
        )
        if self._stage == 0:
            return first
        rest = max(1, (self.settings.max_iter - first) // _ROUNDS)
        return min(ceil(_ROUND / self._n_batches), rest)

    def _batches(self, batch_size):
        """Yield samples, what is shown of them, weights and labels, by batches."""
        device = self.model.beta.device
        for chosen in mini_batches(len(self.X), batch_size, self.random_state):
            Z = self.scaling.transform(self.X[chosen])
            drawn = self.random_state.uniform(size=Z.shape)
            shown = np.where(drawn < self.settings.mask_probability, Z.dtype.type(0), Z)
            tensors = [
                to_tensor(array, device) for array in (Z, shown, self.weight[chosen])
            ]
            yield *tensors, self.model.labels[torch.as_tensor(chosen, device=device)]

    def _loss(self, batch):
        """Return the loss of a batch, None if it has no weight."""
        Z, shown, weight, labels = batch
        model = self.model
        if not weight.any():
            return None
        if self._stage == 0:
            error = (model.decoder(model.encoder(shown)) - Z).square().mean(dim=1)
            return (error * weight).sum() / weight.sum()
        model.memory.dynamics = dynamics_of_codes(
            self.settings.n_steps, self.settings.step_size, float(model.beta)
        )
        return model.memory.reconstruction_loss(
            model.encoder,
            model.decoder,
            Z,
            start=shown,
            sample_weight=weight,
            labels=labels,
        )

    def _close(self, loop, loss):
        """Record an epoch; continue to the next stage, or end."""
        n_epochs = loop.n_iter - int(self.model.first_epoch)
        is_over = n_epochs == self._n_epochs() or loss <= _EXACT
        if self._stage == 0:
            is_over |= self._has_converged(loop, loss)
        loop.record(
            loss * self.scaling.loss_unit,
            state=lambda: module_state(self.model),
            attributes=self._attributes,
            learning_rate=self.settings.learning_rate,
        )
        if not is_over or loop.stop_reason is not None:
            return
        load_module_state(self.model, loop.best_state)
        before = to_numpy(self.model.labels)
        if self._stage < _ROUNDS:
            self._find_clusters()
        change = np.mean(before != to_numpy(self.model.labels))
        if self._stage == _ROUNDS:
            loop.stop("rounds")
        elif self._stage and change <= self.settings.tol:
            loop.stop("stable")
        else:
            self.model.stage += 1
            self.model.first_epoch.fill_(loop.n_iter)
            loop.begin_stage()

    def _has_converged(self, loop, loss):
        """Return whether the loss of pretraining no longer falls by `tol`."""
        losses = [*loop.history.get("loss", []), loss * self.scaling.loss_unit]
        before, last = losses[:-_PATIENCE], losses[-_PATIENCE:]
        return bool(before) and min(last) > (1.0 - self.settings.tol) * min(before)

    def _codes(self):
        """Return the codes (n, p), float64, of all samples."""
        encoder = self.model.encoder
        return by_batches(
            lambda rows: codes_of(
                encoder, self.scaling.transform(rows), in_blocks=True
            ),
            self.X,
            BLOCK,
        ).astype(np.float64)

    def _find_clusters(self):
        """Find clusters among the codes, and move the memories to their means."""
        codes = self._codes()
        n_clusters = len(self.model.memories)
        labels = find_basins(
            codes,
            self._chosen,
            self.weight.astype(np.float64),
            n_clusters,
            self.settings.n_init,
            self.random_state,
        )
        if self._stage:
            overlap = np.zeros((n_clusters, n_clusters))
            np.add.at(overlap, (labels, to_numpy(self.model.labels)), 1.0)
            labels = linear_sum_assignment(-overlap)[1][labels]
        self._put_memories(codes, labels)

    def _put_memories(self, codes, labels):
        """Move the memories to the means of codes (n, p) with labels (n,).

        A memory without codes stays or, the first time, moves to any code. Adam starts
        again.
        """
        weight = self.weight.astype(np.float64)
        memories, sizes = means_of(codes, weight, labels, self.model.memories)
        if self._stage == 0:
            empty = np.flatnonzero(sizes == 0)
            chosen = self.random_state.choice(self._chosen, len(empty))
            memories[empty] = codes[chosen]
        with torch.no_grad():
            self.model.memory.memories.copy_(torch.from_numpy(memories))
            self.model.labels.copy_(torch.from_numpy(labels))
            self.model.beta.fill_(self._temperature(codes, weight, memories))
        self._adam.state.clear()

    def _temperature(self, codes, weight, memories):
        """Return the inverse temperature for codes (n, p) and memories (k, p).

        `weight` (n,) are those of the codes.
        """
        if self.settings.inverse_temperature != "auto":
            return float(self.settings.inverse_temperature)
        size = float(weight @ np.square(codes).sum(axis=1) / weight.sum())
        codes = codes - weight @ codes / weight.sum()
        variance = float(weight @ np.square(codes).sum(axis=1) / weight.sum())
        if variance <= 1e-10 * size:  # rounding: all codes are equal
            variance = size
        beta = _CONCENTRATION / max(variance, 1e-12)
        far = cdist(memories, memories, "sqeuclidean")
        np.fill_diagonal(far, np.inf)
        apart = float(far.min(axis=1).mean())
        if 1e-10 * size < apart < np.inf:
            beta = max(beta, _SEPARATION / apart)
        return beta
