"""Mini-batch descent of the pattern-completion loss, all restarts side by side."""

import numpy as np
from sklearn.utils import gen_even_slices

from skdiffclust._batches import mini_batches
from skdiffclust._kmeans import on_sphere, squared_distances
from skdiffclust._optimisers import Adam
from skdiffclust.memories._scaling import dense
from skdiffclust.memories._training import completion_with_gradient

_ADAM_FLOOR = 1e-6  # a gradient this small, in training units, has no effect
_PATIENCE = 5  # batches without progress after which the learning rate halves
_SLOWER = 0.5  # factor of the learning rate on a plateau
_SLOWEST = 2.0**-5  # learning rate at which training ends, relative to the first
_TRIALS = 16  # largest number of batches that an epoch counts for on a plateau
_GROUP = 16  # least number of samples with the same hidden features


class Plateau:
    """A learning rate that halves when the loss stops falling, as in Table 5."""

    def __init__(self, learning_rate, tol):
        self.learning_rate = self._first_rate = learning_rate
        self._tol = tol
        self._best = np.inf
        self._n_stalled = 0

    def cool(self, loss, n_batches):
        """Record the loss of an epoch; return whether the smallest rate is used up.

        An epoch of many batches counts as several.
        """
        if self._best == np.inf or loss < self._best - self._tol * abs(self._best):
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
    recalled whole (eq. 8), as in two of three epochs of the published code: training on
    masked samples only is worse than k-means if features do not predict each other. A
    single feature is never hidden. The samples of a batch are in random order already.
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


class Descent:
    """Memories (r, k, d) and log weights (r, k), trained by Adam.

    `complete` is `completion_with_gradient` or its twin on another device.
    """

    def __init__(
        self,
        memories,
        log_weights,
        dynamics,
        scaling,
        *,
        learning_rate,
        mask_probability,
        learn_weights,
        complete=None,
    ):
        self.memories = memories.astype(np.float64)
        self.log_weights = log_weights
        self.learning_rate = learning_rate
        self._dynamics = dynamics
        self._fill = scaling.fill
        self._is_spherical = dynamics.metric == "cosine"
        # A feature of a direction is of size one over the root of their number.
        self._size = memories.shape[2] ** -0.5 if self._is_spherical else 1.0
        self._complete = complete or completion_with_gradient
        self._mask_probability = mask_probability
        self._learn_weights = learn_weights
        self._optimisers = [
            Adam([array], learning_rate, epsilon=_ADAM_FLOOR)
            for array in (self.memories, log_weights)
        ]

    def epoch(self, rows, weight, batch_size, random_state):
        """Train for one epoch on samples (n, d); return the loss (r,) per entry.

        `rows` are in training units, transformed when they are indexed, so that X is
        never copied as a whole. `weight` (n,) has a mean of about one.
        """
        loss = np.zeros(len(self.memories))
        total = 0.0
        attracted = np.zeros(self.log_weights.shape)
        for chosen in mini_batches(len(weight), batch_size, random_state):
            if not weight[chosen].any():
                continue
            shares = weight[chosen]
            # Rounding is far below the noise of a batch; decisions are in double.
            Z = rows[chosen].astype(np.float32)
            completion, order, n_scored = self._completed(Z, shares, random_state)
            gradient = np.empty_like(self.memories)
            gradient[:, :, order] = completion.gradient
            mean = Z.shape[1] / n_scored
            of_memories, of_weights = self._optimisers
            of_memories.learning_rate = self.learning_rate * self._size
            of_memories.step([self.memories], [gradient * mean])
            if self._is_spherical:
                self.memories = on_sphere(self.memories)
            if self._learn_weights:
                of_weights.learning_rate = self.learning_rate
                of_weights.step([self.log_weights], [completion.weight_gradient * mean])
                # Only their differences matter.
                self.log_weights -= self.log_weights.mean(axis=1, keepdims=True)
            loss += completion.loss
            total += n_scored
            attracted += completion.attracted
        self._relocate_empty(attracted, Z, shares)
        return loss / total

    def _completed(self, Z, weight, random_state):
        """Return the `Completion` of samples Z (m, d), and an order of its features.

        Also returns the weighted number of entries that the loss is summed over.
        """
        order, groups = slice(None), [(slice(0, len(weight)), slice(0, 0))]
        if self._mask_probability is not None:
            order, groups = mask_groups(*Z.shape, self._mask_probability, random_state)
            Z = Z[:, order]
        completion = self._complete(
            Z,
            self.memories[:, :, order].astype(Z.dtype),
            self.log_weights,
            self._dynamics,
            groups=groups,
            fill=self._fill[order],
            sample_weight=weight,
        )
        n_scored = sum(
            float(weight[rows].sum()) * (part.stop - part.start or Z.shape[1])
            for rows, part in groups
        )
        return completion, order, n_scored

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

    def evaluate(self, Z, weight):
        """Return the loss (r,) per entry of samples Z (m, d), always the same masks."""
        random_state = np.random.RandomState(0)
        rows = random_state.permutation(len(weight))
        completion, _, n_scored = self._completed(Z[rows], weight[rows], random_state)
        return completion.loss / n_scored

    def copy_state(self):
        """Return copies of memories and log weights."""
        return self.memories.copy(), self.log_weights.copy()

    def keep(self, restarts):
        """Continue with some restarts only."""
        self.memories = self.memories[restarts]
        self.log_weights = self.log_weights[restarts]
        for optimiser in self._optimisers:
            optimiser.keep(restarts)
