"""Deep ClAM: an encoder trained end to end with memories in its latent space."""

import copy
from dataclasses import replace

import numpy as np

from skdiffclust._affinity import refuse_overflow
from skdiffclust._batches import mini_batches
from skdiffclust._checkpoint import identify, probe_rows
from skdiffclust._encoder import Encoder
from skdiffclust._loop_checkpoint import LoopCheckpoint
from skdiffclust.memories._dynamics import check_weights
from skdiffclust.memories._merging import count_clusters
from skdiffclust.memories._optimise import Plateau
from skdiffclust.memories._seeding import sample_rows, seed_memories

_HIDDEN = 64
_LATENT = 10
_SLOWER = 0.1  # of the learning rate: an encoder wants smaller steps than memories
_EXACT = 1e-12  # loss, in training units, that is rounding
_BLOCK_ROWS = 256


class DeepTraining:
    """Encoder, linear decoder and memories, trained as an autoencoder of rows X (n, d).

    Parameters
    ----------
    clam : ClAM
        Read for its parameters and, if training continues, its last fit.
    X : ndarray of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,)
    scaling : MemoryScaling
        Units of training for X.
    random_state : RandomState
    device : str
    centers : ndarray of shape (n_clusters, n_outputs) or None
        Memories of the last fit, if training continues from them and its encoder.
    concentration : float
        Inverse temperature "auto" times the total variance of the first codes.
    """

    def __init__(
        self, clam, X, weight, scaling, random_state, device, centers, concentration
    ):
        import torch

        from skdiffclust._torch import isolated_streams
        from skdiffclust.memories._torch import Carried

        self._clam = clam
        self._X = X
        self._scaling = scaling
        self._weight = (weight * (len(weight) / weight.sum())).astype(X.dtype)
        self._random_state = random_state
        self._device = device
        self._concentration = concentration
        sample = sample_rows(weight, random_state)
        self._sample = scaling.transform(X[sample]), self._weight[sample]
        # Codes of a new module are arbitrary, and memories would keep them.
        self._warms_up = clam.encoder != "mlp" and centers is None
        with isolated_streams(random_state, device):
            self._parts = self._start(centers)
        trained = [p for p in self._parts.parameters() if p.requires_grad]
        self._parts["memory"].memories.requires_grad_(not self._warms_up)
        self._plateau = Plateau(clam.learning_rate, clam.tol, clam.n_iter_no_change)
        self._optimizer = torch.optim.Adam(trained, lr=_SLOWER * clam.learning_rate)
        self._parts["carried"] = Carried(self._carried, self._carry)

    def _carried(self):
        """Return what an epoch leaves to the next besides weights, as floats."""
        temperature = self._parts["memory"].dynamics.inverse_temperature
        return [*self._plateau.state, float(self._warms_up), temperature]

    def _carry(self, numbers):
        """Continue from what `_carried` returned."""
        *plateau, warms_up, temperature = numbers
        if not (temperature > 0 and np.isfinite(temperature) and warms_up in (0, 1)):
            raise ValueError(numbers)
        self._plateau.state = plateau
        self._warms_up = bool(warms_up)
        memory = self._parts["memory"]
        memory.memories.requires_grad_(not self._warms_up)
        memory.dynamics = replace(memory.dynamics, inverse_temperature=temperature)
        self._set_rate()

    def _set_rate(self):
        """Give the optimizer the learning rate of the plateau."""
        for group in self._optimizer.param_groups:
            group["lr"] = _SLOWER * self._plateau.learning_rate

    def checkpoint(self, folder, *, resume):
        """Return the LoopCheckpoint in a folder."""
        import torch

        from skdiffclust._torch import module_identity, module_state

        start = [array.tobytes() for array in module_state(self._parts).values()]
        data = {
            "X": self._X,
            "sample_weight": self._weight,
            "first weights": np.frombuffer(b"".join(start), np.uint8),
        }
        outputs = {}
        if self._clam.encoder != "mlp":
            encoder = self._parts["encoder"]
            rows = self._scaling.transform(self._X[probe_rows(len(self._X))])
            # What a module draws is not to change what is drawn later.
            with torch.random.fork_rng(devices=[]):
                outputs["encoder"] = module_identity(encoder, encode(encoder, rows))
        return LoopCheckpoint(
            folder,
            "ClAM",
            identify(data, self._clam.get_params(deep=False), outputs),
            self._random_state,
            columns=["loss", "learning_rate"],
            reasons=["learning_rate", "exact"],
            resume=resume,
        )

    def _start(self, centers):
        """Return encoder, decoder and memories where training starts, on the device.

        The decoder is fitted to a sample, so that a warm start need not keep one.
        """
        from torch import nn

        from skdiffclust._torch import to_tensor

        clam = self._clam
        rows = self._sample[0]
        encoder = _first_encoder(clam, rows, self._random_state, centers is not None)
        code = self._codes(encoder.to(self._device))
        if centers is not None:
            memories = centers
            shares = clam.cluster_weights_
        else:
            is_flag = isinstance(clam.weighted, (bool, np.bool_))
            k = self._n_clusters()
            shares = check_weights(None if is_flag else clam.weighted, k)
            memories = np.tile(code.mean(axis=0), (k, 1))
            if not self._warms_up:
                memories = self._seeds(code, k)
        parts = nn.ModuleDict(
            {
                "encoder": encoder,
                "decoder": _isometry(code, rows),
                "memory": _memory(clam, memories, shares, self._temperature(code)),
            }
        )
        return parts.to(self._device, to_tensor(rows[:0]).dtype)

    def _n_clusters(self):
        """Return the number of memories."""
        if self._clam.n_clusters == "auto":
            return count_clusters(*self._sample, self._random_state)
        return self._clam.n_clusters

    def _codes(self, encoder):
        """Return the codes (m, p), float64, of the sample, on the sphere for cosine."""
        code = encode(encoder, self._sample[0]).astype(np.float64)
        if self._clam.metric == "cosine":
            code /= np.linalg.norm(code, axis=1, keepdims=True)
        return code

    def _seeds(self, code, n_clusters):
        """Return memories (k, p) among codes (m, p) of the sample."""
        clam = self._clam
        weight = self._sample[1]
        seeds = seed_memories(
            code, weight, n_clusters, clam.init, 1, self._random_state
        )[0]
        return seeds[0]

    def _temperature(self, code):
        """Return the inverse temperature for codes (m, p)."""
        given = self._clam.inverse_temperature
        variance = max(float(code.var(axis=0).sum()), 1e-12)
        return self._concentration / variance if given == "auto" else given

    def _end_warm_up(self):
        """Put the memories, all of which were the mean code, on seeds."""
        import torch

        self._warms_up = False
        memory = self._parts["memory"]
        code = self._codes(self._parts["encoder"])
        seeds = self._seeds(code, len(memory.memories))
        with torch.no_grad():
            memory.memories.copy_(torch.from_numpy(seeds))
        memory.memories.requires_grad_()
        memory.dynamics = replace(
            memory.dynamics, inverse_temperature=self._temperature(code)
        )

    def run(self, loop, attributes, checkpoint=None):
        """Run the epochs of a loop, and go back to the best weights."""
        from skdiffclust._torch import (
            isolated_streams,
            load_module_state,
            module_state,
            train_module,
        )

        clam = self._clam
        n_batches = -(-len(self._X) // self._clam.batch_size)

        def close(loop, loss):
            columns = {"learning_rate": self._plateau.learning_rate}
            if clam.record_centers:
                columns["cluster_centers"] = self.memories()[1]
            if self._plateau.cool(loss, n_batches):
                loop.stop("learning_rate")
            if loss <= _EXACT:
                loop.stop("exact")
            if self._warms_up and self._plateau.learning_rate < clam.learning_rate:
                self._end_warm_up()
            self._set_rate()
            loop.record(
                loss * self._scaling.loss_unit,
                state=lambda: module_state(self._parts),
                attributes=attributes,
                **columns,
            )

        needed = clam.encoder != "mlp" or checkpoint is not None
        with isolated_streams(self._random_state, self._device, needed=needed):
            train_module(
                loop,
                self._parts,
                lambda size: mini_batches(len(self._X), size, self._random_state),
                self._loss,
                self._optimizer,
                batch_size=min(clam.batch_size, len(self._X)),
                close=close,
                checkpoint=checkpoint,
            )
        load_module_state(self._parts, loop.best_state)
        self._parts.eval()

    def _loss(self, chosen):
        """Return the loss of a batch of row numbers, None without any weight."""
        from skdiffclust._torch import to_tensor

        if not self._weight[chosen].any():
            return None
        rows = self._scaling.transform(self._X[chosen])
        start = self._hide(rows) if self._clam.self_supervised else rows
        rows, start, weight = (
            to_tensor(a, self._device) for a in (rows, start, self._weight[chosen])
        )
        encoder = self._parts["encoder"]
        decoder = self._parts["decoder"]
        return self._parts["memory"].reconstruction_loss(
            rows, encoder, decoder, start, weight
        )

    def _hide(self, rows):
        """Return rows (b, d) with a share of the features hidden from half of them."""
        n_features = rows.shape[1]
        n_hidden = max(1, round(self._clam.mask_probability * n_features))
        hidden = self._random_state.permutation(n_features)[:n_hidden]
        start = rows.copy()
        start[: len(rows) // 2, hidden] = self._scaling.fill[hidden]
        return start

    def encoder(self):
        """Return the encoder as it is kept: lists of arrays, or a module on the CPU."""
        from skdiffclust._torch import module_encoder

        if self._clam.encoder == "mlp":
            encoder = module_encoder(self._parts["encoder"])
            return encoder.weights, encoder.biases
        return copy.deepcopy(self._parts["encoder"]).cpu().eval()

    def memories(self):
        """Return inverse temperature, memories (k, p) and log weights (k,)."""
        from skdiffclust._torch import to_numpy

        memory = self._parts["memory"]
        found = to_numpy(memory.memories), to_numpy(memory.log_weights)
        return memory.dynamics.inverse_temperature, *found


def _first_encoder(clam, rows, random_state, continues):
    """Return the module to train: that of the last fit, a copy, or a new one."""
    from skdiffclust._torch import encoder_module, to_tensor

    if clam.encoder != "mlp":
        module = copy.deepcopy(clam.encoder_ if continues else clam.encoder)
        return module.to(to_tensor(rows[:0]).dtype)
    if continues:
        return encoder_module(Encoder(*clam.encoder_))
    return encoder_module(_principal_encoder(rows, random_state))


def _principal_encoder(rows, random_state):
    """Return the encoder "mlp" that starts as principal components.

    A component is the difference of its positive and its negative part, two hidden
    units; the others start at random and without any say. Seeds among codes of random
    layers would be bad ones, and training would keep them.
    """
    n_features = rows.shape[1]
    width = min(_LATENT, n_features)
    encoder = Encoder.with_random_weights(
        [n_features, _HIDDEN, width], random_state, rows.dtype
    )
    weights = encoder.weights
    biases = encoder.biases
    centred = rows - rows.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:width]
    k = len(directions)
    weights[0][:, : 2 * k] = np.concatenate([directions, -directions]).T
    biases[0][: 2 * k] = 0.0
    weights[1][:] = 0.0
    weights[1][:k, :k] = np.eye(k)
    weights[1][k : 2 * k, :k] = -np.eye(k)
    biases[1][:] = 0.0
    return encoder


def _isometry(code, rows):
    """Return a linear module from codes (m, p) to rows (m, d) that keeps distances.

    It starts as the best isometry (Procrustes) and stays one, so that codes are as far
    from each other as the rows that they stand for: a free decoder would leave the
    encoder to scale its outputs freely, and with them the clusters.
    """
    from torch.nn.utils.parametrizations import orthogonal

    from skdiffclust._torch import encoder_module

    centred = code - code.mean(axis=0)
    left, _, right = np.linalg.svd(centred.T @ rows, full_matrices=False)
    turn = left @ right
    bias = rows.mean(axis=0) - code.mean(axis=0) @ turn
    linear = encoder_module(Encoder([turn], [bias]))[0]
    return orthogonal(linear, orthogonal_map="cayley")


def _memory(clam, memories, shares, inverse_temperature):
    """Return the layer of memories (k, p) with their weights (k,)."""
    import torch

    from skdiffclust.memories._torch import AssociativeMemory

    layer = AssociativeMemory(
        *memories.shape,
        inverse_temperature=float(inverse_temperature),
        n_steps=clam.n_steps,
        step_size=clam.step_size,
        metric=clam.metric,
        weighted=clam.weighted is True,
    ).double()
    with torch.no_grad():
        layer.memories.copy_(torch.from_numpy(memories))
        layer.log_weights.copy_(torch.from_numpy(np.log(shares)))
    return layer


def encode(encoder, Z):
    """Return the codes (n, p) of rows Z (n, d) in training units.

    On the CPU the code of a row does not depend on the rows beside it.
    """
    if isinstance(encoder, tuple):
        return _checked(Encoder(*encoder).outputs(Z))
    from skdiffclust._torch import module_outputs

    def check(code, n_rows):
        if code.ndim != 2 or len(code) != n_rows:
            raise ValueError(
                "The 'encoder' parameter of ClAM must map samples (n, n_features) to "
                f"codes (n, n_outputs). Got {tuple(code.shape)} for samples "
                f"{(n_rows, Z.shape[1])} instead. Flatten its output."
            )

    parameter = next(encoder.parameters(), None)
    on_cpu = parameter is None or parameter.device.type == "cpu"
    block_samples = 1 if on_cpu else _BLOCK_ROWS
    return _checked(module_outputs(encoder, Z, check, block_samples=block_samples))


def _checked(code):
    """Return codes (n, p), refused if they are not finite or overflow."""
    if not np.isfinite(code).all():
        raise ValueError(
            "The 'encoder' parameter of ClAM must give finite codes. Got NaN or "
            "infinity instead. Rescale X, or check the module."
        )
    refuse_overflow([code], code.dtype)
    return code
