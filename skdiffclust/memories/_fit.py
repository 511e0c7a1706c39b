"""The parts of `ClAM.fit` that need the compiled kernels: prepare, iterate, choose."""

from math import ceil

import numpy as np
from sklearn.metrics import silhouette_score

from skdiffclust.memories._assign import assign
from skdiffclust.memories._dynamics import Dynamics, entropy
from skdiffclust.memories._merging import count_clusters
from skdiffclust.memories._optimise import Descent, Plateau
from skdiffclust.memories._seeding import sample_rows, seed_memories

_SILHOUETTE_ROWS = 2000
_FINALISTS = 0.3  # of the restarts are trained to the end when the loss selects
_TIE = 1.02  # losses nearer than this are told apart by entropy
_RACE_EPOCHS = 5  # of restarts whose start says nothing yet
_EXACT = 16  # times the rounding of one: squared distance per entry that is none


class Fit:
    """Restarts of one `ClAM` on rows X (n, d) with weights (n,), in training units."""

    def __init__(self, clam, X, weight, frame, random_state):
        self._X, self._frame, self._random_state = X, frame, random_state
        self._weight = weight * (len(weight) / weight.sum())
        self._selection, self._batch_size = clam.selection, clam.batch_size
        self._has_masks = clam.self_supervised
        self._plateau = Plateau(clam.learning_rate, clam.tol, clam.n_iter_no_change)
        self.dynamics = Dynamics(frame.beta, clam.n_steps, clam.step_size, clam.metric)
        sample = sample_rows(len(X), weight, random_state)
        self._Z, self._sample_weight = frame.enter(X[sample]), self._weight[sample]

    def count_clusters(self):
        """Return the number of clusters that merging memories finds."""
        return count_clusters(self._Z, self._sample_weight, self._random_state)

    def start(self, clam, memories, log_weights, complete=None):
        """Make the descent from memories (k, d) in training units, or from seeds.

        `log_weights` (k,) are where the weights start.
        """
        self._raced = memories is not None
        self._is_exact = False
        if memories is None:
            seeds, costs = seed_memories(
                self._Z, self._sample_weight, len(log_weights), clam.init, clam.n_init,
                self._random_state,
            )  # fmt: skip
            # Every row sits on a memory: there is nothing to learn.
            self._is_exact = (
                costs.min() <= _EXACT * np.finfo(self._Z.dtype).eps * self._Z.size
            )
            if clam.init != "random" and self._selection == "loss":
                seeds = seeds[self._winners(costs)]
                self._raced = True
        else:
            seeds = memories[None]
        self.descent = Descent(
            seeds, np.tile(log_weights, (len(seeds), 1)), self.dynamics, self._frame,
            learning_rate=clam.learning_rate,
            mask_probability=clam.mask_probability if clam.self_supervised else None,
            learn_weights=clam.weighted is True, complete=complete,
        )  # fmt: skip
        return self

    def _winners(self, losses):
        """Return the restarts (m,) of least loss that go on, best first."""
        kept = max(1, ceil(_FINALISTS * len(losses)))
        return np.argsort(losses, kind="stable")[:kept]

    def _rows(self, chosen):
        """Return rows in training units."""
        return self._frame.enter(self._X[chosen])

    def iterate(self, loop, attributes, record_centers):
        """Train until the loop ends; record the best restart of every epoch."""
        n_batches = -(-len(self._X) // self._batch_size)
        for epoch in loop:
            descent = self.descent
            losses = descent.epoch(
                self._rows, self._weight, self._batch_size, self._random_state
            )
            if not self._raced and epoch == _RACE_EPOCHS - 1:
                if self._selection == "loss":
                    winners = self._winners(losses)
                    descent.keep(winners)
                    losses = losses[winners]
                self._raced = True
            best = int(np.argmin(losses))
            columns = {"learning_rate": descent.learning_rate}
            if record_centers:
                columns["cluster_centers"] = self._frame.leave(descent.memories[best])
            if self._plateau.cool(losses[best], n_batches):
                loop.stop("learning_rate")
            cooled = self._plateau.learning_rate < descent.learning_rate
            descent.learning_rate = self._plateau.learning_rate
            if self._is_exact:
                loop.stop("exact")
            loop.record(
                losses[best] * self._frame.loss_unit,
                state=descent.copy_state,
                attributes=lambda b=best: attributes(
                    self._frame.inverse_temperature, *self.pick(b)
                ),
                **columns,
            )
            if cooled and self._selection == "loss" and not self._has_masks:
                # Smaller steps no longer change which restart is the best.
                descent.keep([best])

    def pick(self, restart):
        """Return memories (k, d), user units, and log weights (k,) of a restart."""
        descent = self.descent
        return self._frame.leave(descent.memories[restart]), descent.log_weights[
            restart
        ]

    def choose(self, state):
        """Return the best restart of the best epoch's state, and its loss.

        Restarts that found the most clusters come first, on the rows that seeding saw.
        """
        descent = self.descent
        descent.memories, descent.log_weights = state
        losses = descent.evaluate(self._Z, self._sample_weight)
        labels = [
            assign(self._Z, memories, log_weights, self.dynamics)
            for memories, log_weights in zip(*state, strict=True)
        ]
        found = [len(np.unique(found)) for found in labels]
        merit = self._sharpness(losses, *state)
        if self._selection == "silhouette":
            merit = [self._silhouette(found) for found in labels]
        restart = int(np.lexsort((-np.asarray(merit), -np.asarray(found)))[0])
        return restart, float(losses[restart]) * self._frame.loss_unit

    def _sharpness(self, losses, memories, log_weights):
        """Return minus the entropy (eq. 13) of restarts near the least loss, else minus
        infinity; without masks, whose noise makes losses equal, minus the loss.
        """
        if not self._has_masks:
            return -losses
        sharpness = np.full(len(losses), -np.inf)
        for i in np.flatnonzero(losses <= _TIE * losses.min()):
            sharpness[i] = -self._sample_weight @ entropy(
                self._Z, memories[i], self.dynamics.inverse_temperature,
                weights=np.exp(log_weights[i]), metric=self.dynamics.metric,
            )  # fmt: skip
        return sharpness

    def _silhouette(self, labels):
        """Return the silhouette of labels (m,), -1 where there is none."""
        rows = slice(None)
        if len(labels) > _SILHOUETTE_ROWS:
            rows = np.random.RandomState(0).permutation(len(labels))[:_SILHOUETTE_ROWS]
        labels, metric = labels[rows], self.dynamics.metric
        if not 1 < len(np.unique(labels)) < len(labels):
            return -1.0
        return float(silhouette_score(self._Z[rows], labels, metric=metric))
