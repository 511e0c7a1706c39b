"""Deep ClAM: an autoencoder trained with memories in its latent space.

The idea is that of [1]_, of which only the abstract was available; the details are
ours. An autoencoder is trained first, on samples of which some features are hidden.
Many memories among its codes are merged into clusters by `find_basins`, so that
clusters can have any shape. Then encoder, decoder and one memory per cluster are
trained by one loss, the reconstruction error from the recalled code plus minus the log
share of the cluster's memory in the attraction; every few epochs clusters are found
again and the memories move to their means, until the clusters no longer change.

.. [1] "Deep Clustering with Associative Memories", 2026.
"""

import copy
from contextlib import nullcontext
from math import ceil

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from skdiffclust._affinity import refuse_overflow
from skdiffclust._batches import mini_batches
from skdiffclust._checkpoint import LoopCheckpoint, identify, probe_rows
from skdiffclust._encoder import Encoder
from skdiffclust._kmeans import nearest_center, on_sphere, weighted_medians
from skdiffclust.memories._autoencoder import Autoencoder
from skdiffclust.memories._basins import find_basins
from skdiffclust.memories._dynamics import Dynamics, check_weights
from skdiffclust.memories._merging import count_clusters
from skdiffclust.memories._seeding import sample_rows, seed_memories

_HIDDEN = (256, 128)
_LATENT = 10
_BATCH = 256  # samples of a batch, at most,
_SMALL_BATCH = 16  # and fewer, down to this number,
_STEPS_PER_EPOCH = 8  # where an epoch would have fewer batches
_SLOWER = 0.02  # of the learning rate: networks need smaller steps than memories
_PRETRAINING = 800  # steps, about,
_ROUND = 160  # and those between two looks for clusters,
_ROUNDS = 4  # of which there are so many
_MEMORIES = 300  # among which clusters are looked for
_CONCENTRATION = 8.0  # inverse temperature times the variance of the codes, and
_SEPARATION = 6.0  # times the squared distance between neighbouring memories, at least
_PATIENCE = 10  # epochs of pretraining that together must lower its loss
_EXACT = 1e-12  # loss, in training units, that is rounding


class DeepTraining:
    """Training of an autoencoder with memories on samples X (n, d).

    Parameters
    ----------
    clam : ClAM
        Read for its parameters.
    X : ndarray of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,)
    scaling : MemoryScaling
        Units of training for X.
    random_state : RandomState
    device : str
    """

    def __init__(self, clam, X, weight, scaling, random_state, device):
        self._clam, self._X, self._scaling = clam, X, scaling
        self._weight = (weight * (len(weight) / weight.sum())).astype(X.dtype)
        self._random_state = random_state
        self._chosen = sample_rows(weight, random_state)
        self.curve = None
        is_flag = isinstance(clam.weighted, (bool, np.bool_))
        n_clusters = self._n_clusters()
        self._log_weights = np.log(
            check_weights(None if is_flag else clam.weighted, n_clusters)
        )
        self._rate = _SLOWER * clam.learning_rate
        self._in_torch = not _is_numpy(clam, device)
        self._network = self._first_network(n_clusters, device)
        self._n_batches = ceil(len(X) / self._batch_size)
        self._stage, self._n_left = 0, self._n_epochs(0)
        self._labels = np.zeros(len(X), dtype=np.int64)
        self._beta = 1.0
        self._checkpoint = None

    @property
    def _batch_size(self):
        """Samples of a batch."""
        n_samples = len(self._X)
        few = max(_SMALL_BATCH, n_samples // _STEPS_PER_EPOCH)
        return min(self._clam.batch_size, _BATCH, few, n_samples)

    def _n_clusters(self):
        """Return the number of memories; keep the curve that it was read from."""
        if self._clam.n_clusters != "auto":
            return self._clam.n_clusters
        Z = self._scaling.transform(self._X[self._chosen])
        weight = self._weight[self._chosen]
        self.curve = count_clusters(Z, weight, self._random_state)
        return self.curve.best

    def _n_epochs(self, stage):
        """Return the epochs of pretraining (stage 0), or of a round."""
        most = self._clam.max_iter
        first = min(ceil(_PRETRAINING / self._n_batches), max(1, most // 2))
        if stage == 0:
            return first
        rest = max(1, (most - first) // _ROUNDS)
        return min(ceil(_ROUND / self._n_batches), rest)

    def _first_network(self, n_clusters, device):
        """Return the initial autoencoder."""
        clam = self._clam
        n_features, dtype = self._X.shape[1], self._X.dtype
        width = min(_LATENT, n_features)
        if not self._in_torch:
            parts = self._perceptrons(n_features, width, dtype)
            return Autoencoder(*parts, n_clusters, self._rate)
        from skdiffclust._torch import encoder_module, to_tensor
        from skdiffclust.memories._torch import AssociativeMemory, AutoencoderModule

        if clam.encoder == "mlp":
            parts = self._perceptrons(n_features, width, dtype)
            encoder, decoder = (encoder_module(part) for part in parts)
        else:
            encoder = copy.deepcopy(clam.encoder)
            decoder = clam.decoder
        kind = to_tensor(self._X[:0]).dtype
        encoder = encoder.to(device, kind)
        sample = self._scaling.transform(self._X[self._chosen[:2]])
        width = encode(encoder, sample).shape[1]
        if decoder is None:
            sizes = [width, *_HIDDEN[::-1], n_features]
            decoder = encoder_module(
                Encoder.with_random_weights(sizes, self._random_state, dtype)
            )
        elif clam.encoder != "mlp":
            decoder = copy.deepcopy(decoder)
        memory = AssociativeMemory(
            n_clusters,
            width,
            inverse_temperature=1.0,
            memories=np.zeros((n_clusters, width)),
        )
        return AutoencoderModule(
            encoder, decoder.to(device, kind), memory.to(device, kind), self._rate
        )

    def _perceptrons(self, n_features, width, dtype):
        """Return the encoder and the decoder of "mlp"."""
        sizes = [n_features, *_HIDDEN, width]
        return tuple(
            Encoder.with_random_weights(layers, self._random_state, dtype)
            for layers in (sizes, sizes[::-1])
        )

    def checkpoint(self, folder, *, resume):
        """Write a checkpoint to a folder after each epoch, or continue from it."""
        start = [array.tobytes() for array in self._network.state().values()]
        data = {
            "X": self._X,
            "sample_weight": self._weight,
            "first weights": np.frombuffer(b"".join(start), np.uint8),
        }
        outputs = {}
        if self._clam.encoder != "mlp":
            outputs = self._module_identities()
        identity = identify(data, self._clam.get_params(deep=False), outputs)
        self._checkpoint = LoopCheckpoint(
            folder,
            "ClAM",
            identity,
            self._random_state,
            resume=resume,
        )

    def _module_identities(self):
        """Return what identifies the modules of a user."""
        from skdiffclust._torch import module_identity

        rows = self._scaling.transform(self._X[probe_rows(len(self._X))])
        found = {
            "encoder": module_identity(
                self._clam.encoder, encode(self._clam.encoder, rows)
            )
        }
        if self._clam.decoder is not None:
            found["decoder"] = module_identity(self._clam.decoder, None)
        return found

    def run(self, loop, attributes):
        """Run the epochs of a loop, and restore the best weights."""
        with self._streams():
            if self._checkpoint is not None:
                n_values = {"labels": len(self._log_weights), "stage": _ROUNDS + 1}
                self._checkpoint.load(loop, self, n_values)
            for _ in loop:
                self._close(loop, self._epoch(), attributes)
                if self._checkpoint is not None:
                    self._checkpoint.save(loop, self)
            self._network.load(loop.best_state)
            if self._stage == 0:
                self._find_clusters()
                self._stage = 1
            else:
                self._centre_memories()

    def _streams(self):
        """Return a context in which modules' random numbers depend on the seed only."""
        if not self._in_torch:
            return nullcontext()
        from skdiffclust._torch import isolated_streams

        return isolated_streams(self._random_state, "cpu")

    def _epoch(self):
        """Take one step per batch; return the mean loss."""
        losses = []
        for chosen in mini_batches(len(self._X), self._batch_size, self._random_state):
            weight = self._weight[chosen]
            if weight.any():
                Z = self._scaling.transform(self._X[chosen])
                target = self._target(chosen) if self._stage else None
                shown = self._hide(Z) if self._clam.self_supervised else Z
                losses.append(self._network.step(shown, Z, weight, target))
        return float(np.mean(losses)) if losses else 0.0

    def _target(self, chosen):
        """Return labels, log weights and dynamics for samples by number."""
        clam = self._clam
        # About a third of the way to a memory: at its end a code would only contain the
        # cluster.
        step = clam.step_size / (2.0 * clam.n_steps)
        dynamics = Dynamics(self._beta, clam.n_steps, step, "euclidean")
        return self._labels[chosen], self._log_weights, dynamics

    def _hide(self, Z):
        """Return samples (b, d) with a share of the features of each hidden."""
        hidden = self._random_state.uniform(size=Z.shape) < self._clam.mask_probability
        return np.where(hidden, self._scaling.fill.astype(Z.dtype), Z)

    def _close(self, loop, loss, attributes):
        """Record an epoch; continue to the next stage, or end."""
        columns = {"learning_rate": self._rate}
        self._n_left -= 1
        is_over = self._n_left == 0 or loss <= _EXACT
        if self._stage == 0:
            is_over |= self._has_converged(loop, loss)
        loop.record(
            loss * self._scaling.loss_unit,
            state=self._network.state,
            attributes=attributes,
            **columns,
        )
        if is_over and loop.stop_reason is None:
            self._network.load(loop.best_state)
            before = self._labels
            if self._stage < _ROUNDS:
                self._find_clusters()
            if self._stage == _ROUNDS:
                loop.stop("rounds")
            elif self._stage and np.mean(before != self._labels) <= self._clam.tol:
                loop.stop("stable")
            else:
                self._stage += 1
                self._n_left = self._n_epochs(self._stage)
                loop.best_loss = np.inf  # losses of another stage are not comparable

    def _has_converged(self, loop, loss):
        """Return whether the loss of pretraining no longer falls by `tol`."""
        losses = [*loop.history.get("loss", []), loss * self._scaling.loss_unit]
        before, last = losses[:-_PATIENCE], losses[-_PATIENCE:]
        return bool(before) and min(last) > (1.0 - self._clam.tol) * min(before)

    def _codes(self, chosen):
        """Return the codes (m, p), float64, of samples by number."""
        step = range(0, len(chosen), 8192)
        parts = [chosen[i : i + 8192] for i in step]
        codes = [
            self._network.codes(self._scaling.transform(self._X[part]))
            for part in parts
        ]
        return checked_codes(np.concatenate(codes)).astype(np.float64)

    def _find_clusters(self):
        """Find clusters among the codes, and move the memories to their means."""
        memories = self._network.memories
        k, codes = len(memories), self._codes(np.arange(len(self._X)))
        sample, weight = codes[self._chosen], self._weight[self._chosen]
        basins = find_basins(
            sample,
            k,
            n_memories=_MEMORIES,
            sample_weight=weight.astype(np.float64),
            random_state=self._random_state,
        )
        labels = basins.predict(codes)
        self._labels = _matched(labels, self._labels, k) if self._stage else labels
        self._put_memories(codes)

    def _centre_memories(self):
        """Move the memories to the means of the codes that are nearest to each.

        In training the codes of a cluster move away from the other clusters, and not
        towards their memory: in the end memories can be so near each other that
        several attract the same samples.
        """
        codes = self._codes(np.arange(len(self._X)))
        self._labels, _ = nearest_center(codes, self._network.memories)
        self._put_memories(codes)

    def _put_memories(self, codes):
        """Move the memories to the means of their codes (n, p).

        A memory without codes stays or, the first time, moves to any code.
        """
        memories = self._network.memories
        weight, k = self._weight.astype(np.float64), len(memories)
        sizes = np.bincount(self._labels, weight, minlength=k)
        for m in np.flatnonzero(sizes):
            own = self._labels == m
            memories[m] = weight[own] @ codes[own] / sizes[m]
        if self._stage == 0:
            empty = np.flatnonzero(sizes == 0)
            chosen = self._random_state.randint(len(codes), size=len(empty))
            memories[empty] = codes[chosen]
        self._network.memories = memories
        self._network.restart()
        self._set_temperature(codes)

    def _set_temperature(self, codes):
        """Fix the inverse temperature by codes (n, p)."""
        variance = float(codes.var(axis=0).sum())
        size = float(np.square(codes).sum(axis=1).mean())
        if variance <= 1e-10 * size:  # rounding: all codes are equal
            variance = size
        given = self._clam.inverse_temperature
        if given != "auto":
            self._beta = float(given)
            return
        self._beta = _CONCENTRATION / max(variance, 1e-12)
        memories = self._network.memories.astype(np.float64)
        far = cdist(memories, memories, "sqeuclidean")
        np.fill_diagonal(far, np.inf)
        apart = float(far.min(axis=1).mean())
        if 1e-10 * size < apart < np.inf:
            self._beta = max(self._beta, _SEPARATION / apart)

    def state(self):
        """Return copies of the arrays of the networks, by name."""
        return self._network.state()

    def arrays(self):
        """Return the state that an epoch leaves to the next, by name."""
        return {
            "stage": self._stage,
            "n_left": self._n_left,
            "labels": np.asarray(self._labels, dtype=np.int64),
            "beta": float(self._beta),
            **self._network.trained.arrays(),
        }

    def load(self, arrays):
        """Continue from what `arrays` returned."""
        self._stage = arrays["stage"].item()
        self._n_left = arrays["n_left"].item()
        self._labels = arrays["labels"]
        self._beta = arrays["beta"].item()
        self._network.trained.load(arrays)

    def networks(self):
        """Return encoder and decoder as they are kept."""
        if self._in_torch and self._clam.encoder == "mlp":
            return self._network.kept_arrays()
        return self._network.kept()

    def memories(self):
        """Return inverse temperature, memories (k, p) and log weights (k,)."""
        memories = self._network.memories.astype(np.float64)
        if self._stage == 0:
            # For callbacks, which must not change later random numbers.
            codes, weight = self._codes(self._chosen), self._weight[self._chosen]
            seeds, _ = seed_memories(
                codes,
                weight,
                len(memories),
                "k-means++",
                1,
                np.random.RandomState(0),
            )
            memories = seeds[0].astype(np.float64)
        return self._beta, memories, self._log_weights

    def centers(self, code):
        """Return the memories (k, p); for other geometries than Euclidean the centres,
        in that of `metric`, of the codes (n, p) of each cluster.
        """
        centers = self.memories()[1]
        if self._clam.metric == "euclidean":
            return centers
        weight = self._weight.astype(np.float64)
        code = code.astype(np.float64)
        if self._clam.metric == "cosine":
            code = on_sphere(code)
        for m in range(len(centers)):
            own = np.flatnonzero((self._labels == m) & (weight > 0))
            if not len(own):
                continue
            if self._clam.metric == "manhattan":
                centers[m] = weighted_medians(code[own], weight[own])
            else:
                centers[m] = weight[own] @ code[own]
        return centers


def _is_numpy(clam, device):
    """Return whether the gradients are explicit."""
    return clam.encoder == "mlp" and device == "cpu"


def _matched(labels, before, n_clusters):
    """Return labels (n,) renumbered so that as many as possible equal `before` (n,)."""
    overlap = np.zeros((n_clusters, n_clusters))
    np.add.at(overlap, (labels, before), 1.0)
    return linear_sum_assignment(-overlap)[1][labels]


def encode(encoder, Z):
    """Return the codes (n, p) of samples Z (n, d) in training units.

    On the CPU the code of a sample does not depend on the other samples.
    """
    if isinstance(encoder, tuple):
        return checked_codes(Encoder(*encoder).outputs(Z))
    from skdiffclust.memories._torch import encode_by_module

    parameter = next(encoder.parameters(), None)
    on_cpu = parameter is None or parameter.device.type == "cpu"
    block_samples = 1 if on_cpu else _BATCH
    return checked_codes(encode_by_module(encoder, Z, block_samples=block_samples))


def checked_codes(code):
    """Return codes (n, p); refuse codes that are not finite or overflow."""
    if not np.isfinite(code).all():
        raise ValueError(
            "The 'encoder' parameter of ClAM must give finite codes. Got NaN or "
            "infinity instead. Rescale X, or check the module."
        )
    refuse_overflow([code], code.dtype)
    return code
