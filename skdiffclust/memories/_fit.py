"""The parts of `ClAM.fit` that need the compiled kernels: prepare, iterate, choose."""

from functools import cached_property
from math import ceil

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from skdiffclust._constraints import is_free
from skdiffclust._kmeans import (
    FINE,
    MAX_STEPS,
    TOLERANCE,
    kmeans,
    lloyd,
)
from skdiffclust._threads import small_products
from skdiffclust.memories._assign import assign
from skdiffclust.memories._constrained import constrained_lloyd, divergences
from skdiffclust.memories._dynamics import Dynamics
from skdiffclust.memories._medians import lloyd_medians
from skdiffclust.memories._optimise import Descent, Plateau
from skdiffclust.memories._seeding import exchange, random_rows, sample_rows

_RACE = {2: 0.5, 4: 0.3}  # epochs after which a share of the random starts goes on
_EXCHANGED = 4  # most restarts of k-means that continue to exchanges
_SAME = 1e-4  # relative difference of costs of one solution, found again
_LOOSER = 1.0 + 1e-9  # largest inertia of what training keeps, relative to k-means'
_STREAM_STEPS = 20  # of Lloyd on the samples that a stream keeps
_STREAM_EPOCHS = 50.0  # after which a stream has slowed down by the root of two
_EXACT = 1e-12  # loss, in training units, that is rounding
_CONSTRAINED = 4  # restarts of a constrained k-means


class Fit:
    """Restarts of a `ClAM` on samples X (n, d) with weights (n,).

    Its missing entries are completed. `labels` (n,) are those of samples in
    constraints, -1 for the others.
    """

    def __init__(self, clam, X, weight, scaling, random_state, constraints=None):
        self._clam = clam
        self.X = X
        self.weight = weight
        self.scaling = scaling
        self._random_state = random_state
        self._weight = weight * (len(weight) / weight.sum())
        # By cosines, training without masks finds better clusters.
        self._has_masks = clam.self_supervised and not (
            sparse.issparse(X) or clam.metric == "cosine"
        )
        self._is_guarded = (
            clam.weighted is not True and clam.inverse_temperature == "auto"
        )
        self._plateau = Plateau(clam.learning_rate, clam.tol)
        self.dynamics = Dynamics(
            scaling.beta, clam.n_steps, clam.step_size, clam.metric
        )
        self._is_spherical = clam.metric == "cosine"
        self._converged = None
        self._constraints = constraints
        self.start_is_kept = False
        self.labels = None
        sample = sample_rows(weight, random_state)
        self.drawn = scaling.transform(X[sample]), self._weight[sample]
        self._Z, self._sample_weight = self.drawn

    def start(self, memories, log_weights, complete=None):
        """Make the descent from memories (k, d) in training units, or from seeds.

        `log_weights` (k,) are the initial weights.
        """
        clam = self._clam
        drawn = self._Z, self._sample_weight, len(log_weights), clam.n_init
        if memories is not None:
            seeds = memories[None]
        elif clam.init == "random":
            seeds = random_rows(*drawn, self._random_state)
        else:
            seeds, costs, _ = kmeans(
                *drawn, self._random_state, spherical=self._is_spherical
            )
            best = np.argsort(costs, kind="stable")
            centers = self._run_lloyd(seeds[best], costs[best])
            self._converged = centers, log_weights
            n_seeds = 1 if self._constraints is None else _CONSTRAINED
            seeds = np.concatenate([centers[None], seeds[best[1:n_seeds]]])
        if self._constraints is not None:
            Z = self.scaling.transform(self.X)
            centers, labels = constrained_lloyd(
                Z, self._weight, seeds, self._constraints, self.dynamics.metric
            )
            self.labels = np.where(is_free(self._constraints), -1, labels)
            self._converged = centers, log_weights
            seeds = centers[None]
        self.descent = Descent(
            seeds,
            np.tile(log_weights, (len(seeds), 1)),
            self.dynamics,
            self.scaling,
            learning_rate=clam.learning_rate,
            mask_probability=clam.mask_probability if self._has_masks else None,
            learn_weights=clam.weighted is True,
            complete=complete,
        )
        return self

    def continue_stream(self, n_epochs):
        """Train more slowly after some epochs, and let k-means continue beside it."""
        descent = self.descent
        descent.learning_rate /= np.sqrt(1.0 + n_epochs / _STREAM_EPOCHS)
        centers, costs, _ = lloyd(
            self._Z,
            self._sample_weight,
            descent.memories,
            _STREAM_STEPS,
            tol=TOLERANCE,
            spherical=self._is_spherical,
        )
        centers = self._run_lloyd(centers, costs)
        # Exchanges may move a memory to another cluster: each keeps its number.
        far = cdist(descent.memories[0], centers, "sqeuclidean")
        order = linear_sum_assignment(far)[1]
        self._converged = centers[order], descent.log_weights[0]

    def _run_lloyd(self, seeds, costs):
        """Return the best k-means solution (k, d) from seeds (r, k, d), best first."""
        best, lowest = seeds[0], np.inf
        exchanged = seeds[:_EXCHANGED]
        if len(seeds) > _EXCHANGED and costs[-1] <= (1.0 + _SAME) * costs[0]:
            exchanged = []  # what so many restarts end in is likely the best
        for memories, cost in zip(exchanged, costs, strict=False):
            memories, cost = exchange(
                self._Z,
                self._sample_weight,
                memories,
                cost,
                self._random_state,
                spherical=self._is_spherical,
            )
            # What two restarts end in is likely the best that there is.
            is_found_again = np.isclose(cost, lowest, rtol=_SAME, atol=0.0)
            if cost < lowest:
                best = memories
                lowest = cost
            if is_found_again:
                break
        if self.dynamics.metric == "manhattan":
            return lloyd_medians(self._Z, self._sample_weight, best)
        rows, weight = self._Z, self._sample_weight
        if rows.shape[0] < self.X.shape[0]:
            rows, weight = _Transformed(self.X, self.scaling), self._weight
        memories, _, _ = lloyd(
            rows,
            weight,
            best[None],
            MAX_STEPS,
            tol=FINE,
            spherical=self._is_spherical,
        )
        return memories[0]

    def iterate(self, loop):
        """Train until the loop ends; record the best restart of every epoch."""
        n_batches = -(-self.X.shape[0] // self._clam.batch_size)
        rows = _Transformed(self.X, self.scaling)
        is_guarded = self._is_guarded and self._converged is not None
        n_starts = len(self.descent.memories)
        n_rows = min(self._clam.batch_size, len(self.weight))
        with small_products(n_rows * self.descent.memories.size):
            for epoch in loop:
                descent = self.descent
                losses = descent.epoch(
                    rows, self._weight, self._clam.batch_size, self._random_state
                )
                if epoch + 1 in _RACE:
                    kept = ceil(_RACE[epoch + 1] * n_starts)
                    winners = np.argsort(losses, kind="stable")[:kept]
                    descent.keep(winners)
                    losses = losses[winners]
                best = int(np.argmin(losses))
                rate = descent.learning_rate
                if self._plateau.cool(losses[best], n_batches):
                    loop.stop("learning_rate")
                descent.learning_rate = self._plateau.learning_rate
                if losses[best] <= _EXACT:
                    loop.stop("exact")
                if self._constraints is not None:
                    # Training ignores links: the constrained k-means is kept.
                    loop.stop("constraints")
                trained = descent.memories[best]
                # Training that raises the inertia ends. Where it overflows, the loss of
                # the next epoch says so.
                if is_guarded and self._bound < self._inertia(trained) < np.inf:
                    loop.stop("k-means")
                loop.record(
                    losses[best] * self.scaling.loss_unit,
                    state=descent.copy_state,
                    attributes=lambda b=best: self.fitted(b),
                    learning_rate=rate,
                )

    def fitted(self, restart):
        """Return the fitted attributes that `predict` needs, of a restart."""
        memories = self.descent.memories[restart]
        return {
            "cluster_centers_": self.scaling.inverse_transform(memories),
            "cluster_weights_": np.exp(self.descent.log_weights[restart]),
            "inverse_temperature_": self.scaling.inverse_temperature,
            "_completer": self._clam._completer,
            "_is_empty": self._clam._is_empty,
        }

    def choose(self, loop):
        """Return the best restart of the best epoch of a loop, and its loss.

        Restarts that found the most clusters come first, on the samples used in
        seeding. The solution of k-means is one of them; with all defaults, training
        replaces it only if it lowers the loss and does not raise the inertia.
        """
        descent = self.descent
        candidates = list(zip(*loop.best_state, strict=True))
        if self._converged is not None:
            trained, _ = candidates[0]
            is_worse = self._is_guarded and self._inertia(trained) > self._bound
            if is_worse or self._constraints is not None:
                candidates = []
            candidates.append(self._converged)
        descent.memories, descent.log_weights = map(
            np.stack, zip(*candidates, strict=True)
        )
        counts = [
            len(np.unique(assign(self._Z, *each, self.dynamics))) for each in candidates
        ]
        losses = descent.evaluate(self._Z, self._sample_weight)
        restart = int(np.lexsort((losses, np.negative(counts)))[0])
        before, after = loop.history["loss"][0], min(loop.history["loss"])
        if self._converged is not None:
            before, after = losses[-1], losses[restart]
            self.start_is_kept = restart == len(losses) - 1
        self.gain = float(1.0 - after / before) if before > 0 else 0.0
        return restart, float(losses[restart]) * self.scaling.loss_unit

    @cached_property
    def _bound(self):
        """The largest inertia of what training keeps."""
        return _LOOSER * self._inertia(self._converged[0])

    def _inertia(self, memories):
        """Return the weighted sum of distances to the nearest of memories (k, d)."""
        far = divergences(self._Z, memories, self.dynamics.metric)
        return float(far.min(axis=1) @ self._sample_weight)


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
