"""Losses of an autoencoder with memories in its latent space, with gradients, in NumPy.

`_torch.AssociativeMemory.reconstruction_loss` is the twin.
"""

import numpy as np

from skdiffclust._assignments import softmax, softmax_backward
from skdiffclust._checkpoint import ArraysState
from skdiffclust._optimisers import Adam

_BLOCK_SAMPLES = 1024


def reconstruction_with_gradient(shown, Z, weight, encoder, decoder):
    """Return the loss of an autoencoder, and the gradients of all its arrays.

    The mean over samples and features of ``(d(e(shown)) - Z) ** 2``: `shown` (n, d) is
    Z (n, d) with some features hidden; weights (n,) are those of the mean. Encoder and
    decoder are an `Encoder` each; the arrays are those of the first, then the second.
    """
    code, inputs = encoder.forward(shown)
    loss, by_decoder, gradient = _decoded(code, Z, weight, decoder)
    return loss, [*encoder.backward(gradient, inputs), *by_decoder]


def recall_with_gradient(
    shown, Z, weight, encoder, decoder, memories, log_weights, dynamics, labels
):
    """Return the loss of an autoencoder whose code is recalled, and its gradients.

    The mean over samples and features of ``(d(A(e(shown))) - Z) ** 2``, A being the
    steps of `dynamics`, Euclidean, among memories (k, p) with log weights (k,), plus
    the mean of minus the log share of memory `labels` (n,) in the attraction of a code.
    The gradients are those of encoder, decoder and memories. Other arguments are as in
    `reconstruction_with_gradient`.
    """
    code, inputs = encoder.forward(shown)
    recalled, tape = _recall(code, memories, log_weights, dynamics)
    loss, by_decoder, gradient = _decoded(recalled, Z, weight, decoder)
    gradient, by_memories = _recall_backward(gradient, tape, memories, dynamics)
    pull, by_code, pulled = _pull(
        code, weight, memories, log_weights, dynamics.inverse_temperature, labels
    )
    gradient += by_code
    by_memories += pulled
    by_encoder = encoder.backward(gradient, inputs)
    return loss + pull, [*by_encoder, *by_decoder, by_memories]


def _decoded(code, Z, weight, decoder):
    """Return the mean squared error of the decoder for codes (n, p), and its gradients
    by the arrays of the decoder and by the codes.
    """
    output, inputs = decoder.forward(code)
    output -= Z
    share = (weight / (weight.sum() * Z.shape[1]))[:, None].astype(Z.dtype, copy=False)
    loss = float(np.square(output).sum(axis=1, dtype=np.float64) @ share[:, 0])
    output *= 2.0 * share
    *by_decoder, by_code = decoder.backward(output, inputs, by_samples=True)
    return loss, by_decoder, by_code


def _logits(code, memories, log_weights, beta):
    """Return log weights minus β times squared distances (n, k), up to a constant."""
    norms = np.einsum("kp,kp->k", memories, memories)
    logits = code @ memories.T
    logits *= 2.0 * beta
    logits += (log_weights - beta * norms).astype(code.dtype, copy=False)
    return logits


def _recall(code, memories, log_weights, dynamics):
    """Return codes (n, p) after the steps, and the shares (n, k) of each step."""
    step, tape = dynamics.step_size, []
    for _ in range(dynamics.n_steps):
        share = softmax(
            _logits(code, memories, log_weights, dynamics.inverse_temperature)
        )
        tape.append((code, share))
        code = code + step * (share @ memories - code)
    return code, tape


def _recall_backward(gradient, tape, memories, dynamics):
    """Return the gradients by the codes (n, p) and by the memories (k, p)."""
    step, beta = dynamics.step_size, dynamics.inverse_temperature
    by_memories = np.zeros_like(memories)
    for code, share in reversed(tape):
        by_logits = softmax_backward(share, step * (gradient @ memories.T))
        by_memories += step * (share.T @ gradient)
        by_code, pulled = _logits_backward(by_logits, code, memories, beta)
        by_memories += pulled
        gradient = (1.0 - step) * gradient + by_code
    return gradient, by_memories


def _logits_backward(by_logits, code, memories, beta):
    """Return the gradients by codes (n, p) and memories (k, p) of `_logits`."""
    by_code = (2.0 * beta) * (by_logits @ memories)
    by_memories = (2.0 * beta) * (by_logits.T @ code)
    by_memories -= (2.0 * beta) * by_logits.sum(axis=0)[:, None] * memories
    return by_code, by_memories


def _pull(code, weight, memories, log_weights, beta, labels):
    """Return the mean of minus the log share of memories `labels` (n,), and its
    gradients by codes (n, p) and memories (k, p).
    """
    share = softmax(_logits(code, memories, log_weights, beta))
    own = np.arange(len(code)), labels
    part = (weight / weight.sum()).astype(code.dtype, copy=False)
    tiny = np.finfo(code.dtype).tiny
    loss = -float(np.log(np.maximum(share[own], tiny)).astype(np.float64) @ part)
    share[own] -= 1.0
    share *= part[:, None]
    return loss, *_logits_backward(share, code, memories, beta)


class Autoencoder:
    """Encoder, decoder and memories that are trained by explicit gradients.

    Parameters
    ----------
    encoder, decoder : Encoder
        Copied.
    n_clusters : int
        Number of memories.
    learning_rate : float
    """

    def __init__(self, encoder, decoder, n_clusters, learning_rate):
        self._encoder, self._decoder = encoder.copy(), decoder.copy()
        self.memories = np.zeros((n_clusters, encoder.n_outputs), encoder.dtype)
        self._rate = learning_rate
        self.restart()

    @property
    def _arrays(self):
        """All arrays that are trained, the memories last."""
        return [*self._encoder.arrays, *self._decoder.arrays, self.memories]

    @property
    def _names(self):
        """Names of the arrays."""
        parts = {"encoder": self._encoder, "decoder": self._decoder}
        names = [f"{part}.{name}" for part in parts for name in parts[part].names]
        return [*names, "memories"]

    def restart(self):
        """Reset the moments of the gradients."""
        self._adam = Adam(self._arrays, self._rate)

    def step(self, shown, Z, weight, target):
        """Take a step of Adam; return the loss before it.

        `target` is None for plain reconstruction, else labels (n,), log weights (k,)
        and the dynamics of recall.
        """
        parts = self._encoder, self._decoder
        if target is None:
            loss, gradients = reconstruction_with_gradient(shown, Z, weight, *parts)
            gradients.append(np.zeros_like(self.memories))
        else:
            labels, log_weights, dynamics = target
            loss, gradients = recall_with_gradient(
                shown, Z, weight, *parts, self.memories, log_weights, dynamics, labels
            )
        self._adam.step(self._arrays, gradients)
        return loss

    def codes(self, Z):
        """Return the codes (n, p) of samples Z (n, d)."""
        step = range(0, len(Z), _BLOCK_SAMPLES)
        blocks = [self._encoder.forward(Z[i : i + _BLOCK_SAMPLES])[0] for i in step]
        return np.concatenate(blocks)

    @property
    def trained(self):
        """All that a step changes, for a checkpoint."""
        return ArraysState(self._names, self._arrays, self._adam)

    def state(self):
        """Return copies of all arrays, by name."""
        return self.trained.state()

    def load(self, state):
        """Load the arrays of a state."""
        self.trained.restore(state)

    def kept(self):
        """Return encoder and decoder as fitted attributes: lists of arrays."""
        parts = self._encoder.copy(), self._decoder.copy()
        return tuple((part.weights, part.biases) for part in parts)
