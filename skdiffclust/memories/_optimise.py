"""Mini-batch descent of the pattern-completion loss, all restarts side by side."""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from sklearn.utils import gen_even_slices

from skdiffclust._batches import mini_batches
from skdiffclust._kmeans import on_sphere, squared_distances
from skdiffclust._optimisers import Adam
from skdiffclust._threads import small_products
from skdiffclust.memories._dynamics import Dynamics
from skdiffclust.memories._scaling import MemoryScaling, dense
from skdiffclust.memories._training import completion_with_gradient

_ADAM_FLOOR = 1e-6  # a gradient this small, in training units, has no effect
_PATIENCE = 5  # batches without progress after which the learning rate halves
_SLOWER = 0.5  # factor of the learning rate on a plateau
_SLOWEST = 2.0**-5  # learning rate at which training ends, relative to the first
_TRIALS = 16  # largest number of batches that an epoch counts for on a plateau
_GROUP = 16  # least number of samples with the same hidden features
# Steps of directions, relative to those of other memories: see the row of texts in
# `bench_memories.py trains`. With 2, docstrings gain a third of what they gain with 4,
# and with 10, search snippets lose.
_ON_SPHERE = 4.0


@dataclass(frozen=True)
class TrainingSettings:
    """What training needs to know besides samples and initial memories."""

    dynamics: Dynamics
    scaling: MemoryScaling
    learning_rate: float
    tol: float
    batch_size: int
    mask_probability: float | None  # None if no features are hidden
    learns_weights: bool


class Trained(NamedTuple):
    """Memories (k, d) in training units, log weights (k,), and loss in units of X."""

    memories: np.ndarray
    log_weights: np.ndarray
    loss: float


class Plateau:
    """A learning rate that halves when the loss stops falling (Table 5: times .8)."""

    def __init__(self, learning_rate, tol, loss):
        self.learning_rate = self._first_rate = learning_rate
        self._tol = tol
        self._best = loss
        self._n_stalled = 0

    def cool(self, loss, n_batches):
        """Record the loss of an epoch; return whether the smallest rate is used up.

        An epoch of many batches counts as several.
        """
        if loss < self._best - self._tol * abs(self._best):
            self._best = loss
            self._n_stalled = 0
            return False
        self._n_stalled += min(n_batches, _TRIALS)
        n_times, self._n_stalled = divmod(self._n_stalled, _PATIENCE)
        self.learning_rate *= _SLOWER**n_times
        return self.learning_rate < _SLOWEST * self._first_rate


def mask_groups(n_rows, n_features, mask_probability, random_state):
    """Return an order of the features (d,) and groups (rows, features) of slices.

    Each of ``round(1 / mask_probability)`` groups has one block of features hidden, so
    that among their samples every feature is hidden equally often; with few samples,
    fewer blocks are drawn, for groups of at least 16. The other half of the samples are
    recalled whole (eq. 8): training on masked samples only, as in Algorithm 1, is worse
    than k-means if features do not predict each other. A single feature is never
    hidden. The samples of a batch are in random order already.
    """
    order = random_state.permutation(n_features)
    n_groups = max(2, round(1.0 / mask_probability))
    blocks = []
    if n_features > 1:
        blocks = list(gen_even_slices(n_features, min(n_groups, n_features)))
    whole = round(n_rows * (1.0 - 0.5 * len(blocks) / n_groups))
    groups = [(slice(0, whole), slice(0, 0))] if whole else []
    drawn = random_state.permutation(len(blocks))[: max(1, (n_rows - whole) // _GROUP)]
    edges = np.linspace(whole, n_rows, len(drawn) + 1).round().astype(int).tolist()
    for i, block in enumerate(drawn):
        if edges[i] < edges[i + 1]:
            groups.append((slice(edges[i], edges[i + 1]), blocks[block]))
    return order, groups


class MaskedBatch:
    """Samples Z (m, d) with weights (m,), of which some features are hidden.

    The features are in a random `order`, in which hidden ones are slices.
    """

    def __init__(self, Z, weight, settings, random_state):
        self.order = slice(None)
        groups = [(slice(0, len(weight)), slice(0, 0))]
        if settings.mask_probability is not None:
            self.order, groups = mask_groups(
                *Z.shape, settings.mask_probability, random_state
            )
            Z = Z[:, self.order]
        self._given = {
            "groups": groups,
            "fill": settings.scaling.fill[self.order],
            "sample_weight": weight,
        }
        self._Z = Z
        self._dynamics = settings.dynamics
        # Weighted number of entries that the loss is summed over.
        self.n_scored = sum(
            float(weight[rows].sum()) * (part.stop - part.start or Z.shape[1])
            for rows, part in groups
        )

    def complete(self, memories, log_weights, *, has_gradient=True):
        """Return the `Completion` by memories (r, k, d), in the order of features."""
        return completion_with_gradient(
            self._Z,
            memories[:, :, self.order].astype(self._Z.dtype),
            log_weights,
            self._dynamics,
            **self._given,
            has_gradient=has_gradient,
        )


class Descent:
    """Memories (r, k, d) and log weights (r, k), trained by Adam.

    `judged` is the `MaskedBatch` whose loss compares restarts and epochs.
    """

    def __init__(self, seeds, log_weights, settings, judged):
        self.memories = seeds.astype(np.float64)
        self.log_weights = np.tile(log_weights, (len(seeds), 1))
        self._settings = settings
        self._judged = judged
        self._is_spherical = settings.dynamics.metric == "cosine"
        # A feature of a direction is of size one over the root of their number.
        size = _ON_SPHERE * seeds.shape[2] ** -0.5
        self._size = size if self._is_spherical else 1.0
        self._optimisers = [
            Adam([array], settings.learning_rate, epsilon=_ADAM_FLOOR)
            for array in (self.memories, self.log_weights)
        ]

    def epoch(self, rows, learning_rate, random_state):
        """Train for one epoch on the `TrainingRows`."""
        of_memories, of_weights = self._optimisers
        of_memories.learning_rate = learning_rate * self._size
        of_weights.learning_rate = learning_rate
        attracted = np.zeros(self.log_weights.shape)
        batches = mini_batches(
            len(rows.weight), self._settings.batch_size, random_state
        )
        for chosen in batches:
            weight = rows.weight[chosen]
            if not weight.any():
                continue
            # Rounding is far below the noise of a batch; decisions are in double.
            Z = rows[chosen].astype(np.float32)
            batch = MaskedBatch(Z, weight, self._settings, random_state)
            completion = batch.complete(self.memories, self.log_weights)
            gradient = np.empty_like(self.memories)
            gradient[:, :, batch.order] = completion.gradient
            mean = Z.shape[1] / batch.n_scored
            of_memories.step([self.memories], [gradient * mean])
            if self._is_spherical:
                self.memories = on_sphere(self.memories)
            if self._settings.learns_weights:
                of_weights.step([self.log_weights], [completion.weight_gradient * mean])
                # Only their differences matter.
                self.log_weights -= self.log_weights.mean(axis=1, keepdims=True)
            attracted += completion.attracted
        self._relocate_empty(attracted, Z, weight)

    def _relocate_empty(self, attracted, Z, weight):
        """Move memories that attracted no sample to the farthest samples of Z.

        Samples of weight zero attract none.
        """
        for restart in np.flatnonzero((attracted == 0).any(axis=1)):
            empty = np.flatnonzero(attracted[restart] == 0)
            distances = squared_distances(Z, self.memories[restart]).min(axis=1)
            distances = np.where(weight > 0, distances, -1.0)
            worst = np.argsort(-distances, kind="stable")[: len(empty)]
            self.memories[restart, empty[: len(worst)]] = dense(Z[worst])
            self._optimisers[0].reset((restart, empty))

    def best(self):
        """Return a copy of the restart of least loss, always by the same masks."""
        judged = self._judged.complete(
            self.memories, self.log_weights, has_gradient=False
        )
        number = int(np.argmin(judged.loss))
        unit = self._settings.scaling.loss_unit
        loss = float(judged.loss[number]) * unit / self._judged.n_scored
        return Trained(
            self.memories[number].copy(), self.log_weights[number].copy(), loss
        )


def train(loops, rows, seeds, log_weights, settings, random_state, attributes):
    """Return the `Trained` of least loss, of the epochs of a loop and of the seeds.

    All are compared on the same samples with the same hidden features. `loops` has one
    `EpochLoop`, or none if nothing is trained; seeds (r, k, d) are initial memories of
    restarts, which have `log_weights` (k,). `attributes` returns what callbacks need of
    a `Trained`.
    """
    fixed = np.random.RandomState(0)
    chosen = fixed.permutation(len(rows.drawn_weight))
    judged = MaskedBatch(rows.drawn[chosen], rows.drawn_weight[chosen], settings, fixed)
    descent = Descent(seeds, log_weights, settings, judged)
    n_batches = ceil(len(rows.weight) / settings.batch_size)
    n_rows = min(settings.batch_size, len(rows.weight))
    with small_products(n_rows * seeds.size):
        found = descent.best()
        plateau = Plateau(settings.learning_rate, settings.tol, found.loss)
        for loop in loops:
            for _ in loop:
                rate = plateau.learning_rate
                descent.epoch(rows, rate, random_state)
                trained = descent.best()
                if plateau.cool(trained.loss, n_batches):
                    loop.stop("learning_rate")
                loop.record(
                    trained.loss,
                    state=lambda kept=trained: kept,
                    attributes=lambda kept=trained: attributes(kept),
                    learning_rate=rate,
                )
            if loop.best_loss < found.loss:
                found = loop.best_state
    return found
