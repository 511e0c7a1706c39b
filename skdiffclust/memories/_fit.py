"""The parts of `ClAM.fit` that need the compiled kernels: prepare, iterate, choose."""

from math import ceil

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from skdiffclust._kmeans import (
    FINE,
    MAX_STEPS,
    TOLERANCE,
    lloyd,
    lloyd_medians,
    nearest_center,
)
from skdiffclust._n_clusters import count_clusters
from skdiffclust.memories._assign import assign
from skdiffclust.memories._constrained import constrained_lloyd
from skdiffclust.memories._dynamics import Dynamics
from skdiffclust.memories._optimise import Descent, Plateau
from skdiffclust.memories._scaling import dense
from skdiffclust.memories._seeding import exchange, sample_rows, seed_memories

_PATIENCE = 5  # batches without progress after which the learning rate halves
_FINALISTS = 0.3  # of the restarts are trained to the end when the loss selects
_RACE_EPOCHS = 5  # of restarts whose start is random
_EXCHANGED = (2, 4)  # fewest and most restarts of k-means that continue to exchanges,
_EXCHANGED_MEMORIES = 40  # of about so many memories in all
_SAME = 1e-4  # relative difference of costs of one solution, found twice
_OFTEN = 0.3  # share of restarts that end in the best solution if no other is tried
_SMALL = 1e5  # entries of X up to which near ties are settled to the last digits
_LOOSER = 1.0 + 1e-9  # largest inertia of what training keeps, relative to k-means'
_STREAM_STEPS = 20  # of Lloyd on the samples that a stream keeps
_CONSTRAINED = 4  # restarts of a constrained k-means
_LOOSE = 5e-3  # tolerance of Lloyd's steps on seeds of which few continue
_REPORTED = 512  # samples of the reported loss if it decides nothing
_EXACT = 16  # times the rounding of one: squared distance per entry that counts as zero


class Fit:
    """Restarts of a `ClAM` on samples X (n, d), weights (n,), in training units."""

    def __init__(self, clam, X, weight, scaling, random_state, constraints=None):
        self._X = X
        self._scaling = scaling
        self._random_state = random_state
        self._weight = weight * (len(weight) / weight.sum())
        self._batch_size = clam.batch_size
        self._has_masks = clam.self_supervised and not sparse.issparse(X)
        self._is_guarded = (
            clam.weighted is not True and clam.inverse_temperature == "auto"
        )
        self._plateau = Plateau(clam.learning_rate, clam.tol, _PATIENCE)
        self.dynamics = Dynamics(
            scaling.beta, clam.n_steps, clam.step_size, clam.metric
        )
        self._is_spherical = clam.metric == "cosine"
        self._converged = None
        self._constraints = constraints
        self._gain = None
        self.start_is_kept = False
        self.labels = None
        sample = sample_rows(weight, random_state)
        self._Z = scaling.transform(X[sample])
        self._sample_weight = self._weight[sample]

    def count_clusters(self):
        """Return the `ClusterCount` of the samples."""
        return count_clusters(self._Z, self._sample_weight, self._random_state)

    def start(self, clam, memories, log_weights, complete=None):
        """Make the descent from memories (k, d) in training units, or from seeds.

        `log_weights` (k,) are the initial weights.
        """
        self._raced = memories is not None
        self._is_exact = False
        if memories is None:
            seeds, costs = seed_memories(
                self._Z,
                self._sample_weight,
                len(log_weights),
                clam.init,
                clam.n_init,
                self._random_state,
                spherical=self._is_spherical,
                tol=_LOOSE,
            )
            # Every sample equals a memory: there is nothing to learn.
            self._is_exact = costs.min() <= _EXACT * np.finfo(
                self._Z.dtype
            ).eps * _size(self._Z)
            if clam.init != "random":
                best = int(np.argmin(costs))
                self._converged = self._run_lloyd(seeds, costs), log_weights
                seeds[best] = self._converged[0]
                self._raced = True
                if self._constraints is not None:
                    seeds = seeds[np.argsort(costs, kind="stable")[:_CONSTRAINED]]
                else:
                    seeds = seeds[[best]]
        else:
            seeds = memories[None]
        if self._constraints is not None:
            Z = self._scaling.transform(self._X)
            found, self.labels = constrained_lloyd(
                Z, self._weight, seeds, self._constraints, self.dynamics.metric
            )
            self._converged = (found, log_weights)
            seeds = found[None]
        self.descent = Descent(
            seeds,
            np.tile(log_weights, (len(seeds), 1)),
            self.dynamics,
            self._scaling,
            learning_rate=clam.learning_rate,
            mask_probability=clam.mask_probability if self._has_masks else None,
            learn_weights=clam.weighted is True,
            complete=complete,
        )
        return self

    def rerun_lloyd(self):
        """Let k-means continue from the memories that a stream has, as one finalist."""
        descent = self.descent
        memories = descent.memories[0]
        log_weights = descent.log_weights[0]
        found, costs, _ = lloyd(
            self._Z,
            self._sample_weight,
            memories[None],
            _STREAM_STEPS,
            tol=TOLERANCE,
            spherical=self._is_spherical,
        )
        found = self._run_lloyd(found, costs)
        # Exchanges may move a memory to another cluster: each keeps its number.
        order = linear_sum_assignment(cdist(memories, found, "sqeuclidean"))[1]
        self._converged = found[order], log_weights

    def _run_lloyd(self, seeds, costs):
        """Return the best k-means solution (k, d) that starts from seeds (r, k, d)."""
        seeds, costs = self._settle_ties(seeds, costs)
        found = []
        n_exchanged = _EXCHANGED_MEMORIES // seeds.shape[1]
        n_exchanged = int(np.clip(n_exchanged, *_EXCHANGED))
        for restart in np.argsort(costs, kind="stable")[:n_exchanged]:
            memories, cost, is_best = exchange(
                self._Z,
                self._sample_weight,
                seeds[restart].astype(np.float64),
                costs[restart],
                self._random_state,
                spherical=self._is_spherical,
            )
            found.append((memories, cost))
            lowest = sorted(pair[1] for pair in found)[:2]
            # What two restarts end in is likely the best that there is.
            if len(lowest) == 2 and lowest[1] <= (1.0 + _SAME) * lowest[0]:
                break
            if is_best and cost == lowest[0]:
                break
        memories = min(found, key=lambda pair: pair[1])[0]
        if self.dynamics.metric == "manhattan":
            return lloyd_medians(self._Z, self._sample_weight, memories)
        rows, weight = self._Z, self._sample_weight
        if _size(rows) < _size(self._X):
            rows, weight = _Transformed(self._X, self._scaling), self._weight
        memories, _, _ = lloyd(
            rows,
            weight,
            memories[None],
            MAX_STEPS,
            tol=FINE,
            spherical=self._is_spherical,
        )
        return memories[0]

    def _settle_ties(self, seeds, costs):
        """Return distinct seeds (s, k, d) and costs (s,), the best ones settled.

        Lloyd's steps ended early: solutions that are nearly as good as the best one
        are told apart only once they have converged.
        """
        near = np.flatnonzero(costs <= (1.0 + _LOOSE) * costs.min())
        if len(near) == 1:
            return seeds, costs
        settled, lower, _ = lloyd(
            self._Z,
            self._sample_weight,
            seeds[near].astype(np.float64),
            MAX_STEPS,
            tol=FINE if _size(self._Z) <= _SMALL else TOLERANCE,
            spherical=self._is_spherical,
        )
        seeds = seeds.astype(np.float64)
        seeds[near] = settled
        costs = costs.copy()
        costs[near] = lower
        # The same solution needs no second exchange.
        is_same = lower <= (1.0 + _SAME) * lower.min()
        best = near[np.argmin(lower)]
        if np.count_nonzero(is_same) >= _OFTEN * len(costs):
            return seeds[[best]], costs[[best]]
        is_kept = np.ones(len(costs), dtype=bool)
        is_kept[near[is_same]] = False
        is_kept[best] = True
        return seeds[is_kept], costs[is_kept]

    def _rows(self, chosen):
        """Return samples in training units."""
        return self._scaling.transform(self._X[chosen])

    def iterate(self, loop, attributes):
        """Train until the loop ends; record the best restart of every epoch."""
        n_batches = -(-self._X.shape[0] // self._batch_size)
        for epoch in loop:
            descent = self.descent
            losses = descent.epoch(
                self._rows, self._weight, self._batch_size, self._random_state
            )
            if not self._raced and epoch == _RACE_EPOCHS - 1:
                kept = ceil(_FINALISTS * len(losses))
                winners = np.argsort(losses, kind="stable")[:kept]
                descent.keep(winners)
                losses = losses[winners]
                self._raced = True
            best = int(np.argmin(losses))
            columns = {"learning_rate": descent.learning_rate}
            if self._plateau.cool(losses[best], n_batches):
                loop.stop("learning_rate")
            cooled = self._plateau.learning_rate < descent.learning_rate
            descent.learning_rate = self._plateau.learning_rate
            if self._is_exact:
                loop.stop("exact")
            if self._constraints is not None:
                # Training ignores links: the result of the constrained k-means is kept.
                loop.stop("constraints")
            if self._is_guarded:
                # Training that raises the inertia ends. Where it overflows, the loss of
                # the next epoch says so.
                if 0.0 < self._excess_inertia(best) < np.inf:
                    loop.stop("k-means")
            loop.record(
                losses[best] * self._scaling.loss_unit,
                state=descent.copy_state,
                attributes=lambda b=best: attributes(
                    self._scaling.inverse_temperature, *self.pick(b)
                ),
                **columns,
            )
            if cooled and not self._has_masks:
                # Smaller steps do not change any more which restart is best.
                descent.keep([best])

    def pick(self, restart):
        """Return memories (k, d), user units, and log weights (k,) of a restart."""
        descent = self.descent
        return self._scaling.inverse_transform(
            descent.memories[restart]
        ), descent.log_weights[restart]

    def choose(self, state):
        """Return the best restart of the best epoch's state, and its loss.

        Restarts that found the most clusters come first, on the samples used in
        seeding. The solution of k-means is one of them; with all defaults, training
        replaces it only if it lowers the loss and does not raise the inertia.
        """
        descent = self.descent
        descent.memories, descent.log_weights = state
        if self._converged is not None:
            descent.append(*self._converged)
            has_links = self._constraints is not None
            if has_links or (self._is_guarded and self._excess_inertia(0) > 0.0):
                descent.keep([len(descent.memories) - 1])
                self._gain = 0.0
                self.start_is_kept = True
        if len(descent.memories) == 1:
            n_rows = self._Z.shape[0]
            chosen = np.unique(np.linspace(0, n_rows - 1, _REPORTED).astype(int))
            if not self._sample_weight[chosen].any():
                chosen = slice(None)
            loss = descent.evaluate(self._Z[chosen], self._sample_weight[chosen])[0]
            return 0, float(loss) * self._scaling.loss_unit
        losses = descent.evaluate(self._Z, self._sample_weight)
        labels = [
            assign(self._Z, memories, log_weights, self.dynamics)
            for memories, log_weights in zip(
                descent.memories, descent.log_weights, strict=True
            )
        ]
        found = np.array([len(np.unique(chosen)) for chosen in labels])
        restart = int(np.lexsort((losses, -found))[0])
        if self._converged is not None:
            last = losses[-1]
            self.start_is_kept = restart == len(losses) - 1
            self._gain = float(1.0 - losses[restart] / last) if last > 0 else 0.0
        return restart, float(losses[restart]) * self._scaling.loss_unit

    def _excess_inertia(self, restart):
        """Return the inertia of memories less that of k-means; -inf without k-means."""
        if self._converged is None:
            return -np.inf
        descent = self.descent
        trained = descent.memories[restart], descent.log_weights[restart]
        return self._inertia(*trained) - _LOOSER * self._inertia(*self._converged)

    def _inertia(self, memories, log_weights):
        """Return the weighted sum of distances of the sample to its memories."""
        labels = assign(self._Z, memories, log_weights, self.dynamics)
        if self.dynamics.metric == "manhattan":
            far = np.abs(self._Z - memories[labels]).sum(axis=1)
        else:
            nearest, far = nearest_center(self._Z, memories)
            wrong = np.flatnonzero(nearest != labels)
            gaps = dense(self._Z[wrong]) - memories[labels[wrong]]
            far[wrong] = np.square(gaps).sum(axis=1)
        return float(far @ self._sample_weight)

    def gain(self, losses):
        """Return what training gained on its start, by the losses of its epochs."""
        if self._gain is None:
            return max(0.0, 1.0 - min(losses) / losses[0]) if losses[0] > 0 else 0.0
        return self._gain


class _Transformed:
    """Samples (n, d) in training units, transformed when they are read."""

    def __init__(self, X, scaling):
        self._X = X
        self._scaling = scaling
        self.shape = X.shape
        self.dtype = scaling.transform(X[:1]).dtype

    def __getitem__(self, rows):
        """Return some samples in training units."""
        return self._scaling.transform(self._X[rows])


def _size(X):
    """Return the number of entries of X (n, d), including zeros of a sparse one."""
    return X.shape[0] * X.shape[1]
