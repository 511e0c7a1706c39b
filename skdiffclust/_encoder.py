"""Linear models and multilayer perceptrons in NumPy.

An `Encoder` is two lists of arrays, one entry per layer: ``weights[l]`` of shape
(n_in, n_out), the transpose of what a torch ``Linear`` holds, and ``biases[l]`` of
shape (n_out,). One layer is a linear model; between layers there is an activation, one
of `ACTIVATIONS`; after the last layer there is none. float32 stays float32.

`Encoder.outputs` is for ``predict``: the output for a sample does not depend on the
samples beside it. `Encoder.forward` and `Encoder.backward` are for training with
explicit gradients.

>>> import numpy as np
>>> from skdiffclust._encoder import Encoder
>>> rng = np.random.RandomState(0)
>>> X = rng.normal(size=(6, 4))
>>> encoder = Encoder.with_random_weights([4, 8, 3], rng, np.float64)
>>> outputs, inputs = encoder.forward(X)
>>> np.allclose(outputs, encoder.outputs(X))
True
>>> gradient = outputs - 1.0                      # of sum((outputs - 1) ** 2) / 2
>>> gradients = encoder.backward(gradient, inputs)
>>> for name, by_array in zip(encoder.names, gradients):
...     print(name, by_array.shape)
weights.0 (4, 8)
weights.1 (8, 3)
biases.0 (8,)
biases.1 (3,)
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from skdiffclust._pairwise import product_by_sample

# Samples of a block in `outputs`: bounds the memory of the hidden layers.
_BLOCK_SAMPLES = 4096
_BLOCK_ENTRIES = 2**21  # of these samples, which are sparse before


@dataclass(frozen=True)
class Activation:
    """A function between layers.

    Attributes
    ----------
    function : callable
        ``function(hidden, with_derivative)`` returns the activation (n, h) of hidden
        units (n, h), which it may overwrite, and its derivative there, None without
        `with_derivative`.
    module : str
        Name of the same function in ``torch.nn``.
    """

    function: Callable
    module: str


def _gelu(hidden, with_derivative):
    """Return z Φ(z) with the normal distribution function Φ, as torch does."""
    below = ndtr(hidden)
    derivative = None
    if with_derivative:
        derivative = np.exp(-0.5 * hidden * hidden)
        derivative *= hidden * hidden.dtype.type(1.0 / np.sqrt(2.0 * np.pi))
        derivative += below
    hidden *= below
    return hidden, derivative


def _relu(hidden, with_derivative):
    """Return the larger of z and 0."""
    np.maximum(hidden, 0, out=hidden)
    return hidden, hidden > 0 if with_derivative else None


def _tanh(hidden, with_derivative):
    """Return tanh(z)."""
    np.tanh(hidden, out=hidden)
    return hidden, 1 - hidden * hidden if with_derivative else None


ACTIVATIONS = {
    "gelu": Activation(_gelu, "GELU"),
    "relu": Activation(_relu, "ReLU"),
    "tanh": Activation(_tanh, "Tanh"),
}


@dataclass(frozen=True)
class Encoder:
    """A linear model or multilayer perceptron.

    Parameters
    ----------
    weights : list of ndarray of shape (n_in, n_out)
    biases : list of ndarray of shape (n_out,)
    activation : str, default="relu"
        One of `ACTIVATIONS`.
    """

    weights: list
    biases: list
    activation: str = "relu"

    @classmethod
    def with_random_weights(
        cls, layer_sizes, random_state, dtype, *, activation="relu"
    ):
        """Return an encoder with arrays that are uniform within 1 / sqrt(n_in).

        `layer_sizes` is [n_features, *hidden, n_outputs]; the scale is that of torch.
        """
        weights = []
        biases = []
        for n_in, n_out in zip(layer_sizes[:-1], layer_sizes[1:], strict=True):
            bound = 1.0 / np.sqrt(n_in)
            drawn = random_state.uniform(-bound, bound, (n_in, n_out))
            weights.append(drawn.astype(dtype))
            biases.append(random_state.uniform(-bound, bound, n_out).astype(dtype))
        return cls(weights, biases, activation)

    @classmethod
    def from_arrays(cls, arrays, activation="relu"):
        """Return the encoder of a list of weights, then biases."""
        half = len(arrays) // 2
        return cls(arrays[:half], arrays[half:], activation)

    @property
    def arrays(self):
        """Weights, then biases."""
        return [*self.weights, *self.biases]

    @property
    def names(self):
        """Names of the arrays, in their order."""
        numbers = range(len(self.weights))
        return [f"{kind}.{i}" for kind in ("weights", "biases") for i in numbers]

    @property
    def inputs(self):
        """Arrays that features are multiplied with, one row per feature."""
        return self.weights[:1]

    @property
    def input_names(self):
        """Names of `inputs`."""
        return ["weights.0"]

    @property
    def n_hidden(self):
        """Number of units of the last hidden layer, 0 without one."""
        return self.weights[-1].shape[0] if len(self.weights) > 1 else 0

    @property
    def n_outputs(self):
        """Number of outputs."""
        return self.weights[-1].shape[1]

    @property
    def dtype(self):
        """The dtype of the arrays."""
        return self.weights[0].dtype

    def copy(self):
        """Return an encoder of copies of the arrays."""
        arrays = [array.copy() for array in self.arrays]
        return self.from_arrays(arrays, self.activation)

    def outputs(self, X):
        """Return the outputs (n, n_out) for samples X (n, n_in).

        There is one product per sample, so that its output has the same bits whatever
        the other samples are, unlike in a product of blocks: see `product_by_sample`.
        """
        return self._by_sample(X, len(self.weights)).astype(self.dtype, copy=False)

    def hidden(self, X):
        """Return the last hidden layer (n, n_hidden), X itself without one.

        As for `outputs`, one product per sample.
        """
        return self._by_sample(X, len(self.weights) - 1)

    def _by_sample(self, X, n_layers):
        """Return the outputs (n, width) of the first `n_layers` layers."""
        step = max(1, min(_BLOCK_SAMPLES, _BLOCK_ENTRIES // X.shape[1]))
        return np.concatenate(
            [
                self._propagate(X[start : start + step], n_layers)
                for start in range(0, max(X.shape[0], 1), step)
            ]
        )

    def _propagate(self, X, n_layers):
        """Return the outputs of the first layers for a block of samples X (n, d)."""
        is_dense = isinstance(X, np.ndarray)
        units = X.astype(self.dtype, copy=False) if is_dense else X
        function = ACTIVATIONS[self.activation].function
        for layer in range(n_layers):
            units = product_by_sample(units, self.weights[layer])
            units += self.biases[layer]
            if layer < len(self.weights) - 1:
                units, _ = function(units, False)
        return units

    def forward(self, X):
        """Return the outputs (n, n_out), and for each layer the input of `backward`.

        That is a pair: what entered the layer, and the derivative of the activation
        there, None for the first layer.
        """
        inputs = [(X, None)]
        outputs = X @ self.weights[0]
        outputs += self.biases[0]
        function = ACTIVATIONS[self.activation].function
        for layer in range(1, len(self.weights)):
            hidden, derivative = function(outputs, True)
            inputs.append((hidden, derivative))
            outputs = hidden @ self.weights[layer]
            outputs += self.biases[layer]
        return outputs, inputs

    def backward(self, gradient, inputs):
        """Return the gradients of the arrays, in the order of `arrays`.

        `gradient` (n, n_out) is that of the outputs, `inputs` are from `forward`. The
        cost is that of about two forward passes.
        """
        by_weights = []
        by_biases = []
        for layer in reversed(range(len(self.weights))):
            entered, derivative = inputs[layer]
            by_weights.append(_transposed_product(entered, gradient))
            by_biases.append(gradient.sum(axis=0))
            if layer:
                gradient = gradient @ self.weights[layer].T
                gradient *= derivative
        return [*by_weights[::-1], *by_biases[::-1]]

    def permute_outputs(self, order):
        """Return the encoder with its outputs in another order (n_out,)."""
        return self._with_last(self.weights[-1][:, order], self.biases[-1][order])

    def scaled(self, factor):
        """Return the encoder with its outputs multiplied by a factor."""
        return self._with_last(self.weights[-1] * factor, self.biases[-1] * factor)

    def shifted(self, shift):
        """Return the encoder with a shift (n_out,) added to its outputs."""
        return self._with_last(self.weights[-1], self.biases[-1] + shift)

    def _with_last(self, weights, biases):
        """Return the encoder with another last layer."""
        return Encoder(
            [*self.weights[:-1], weights],
            [*self.biases[:-1], biases],
            self.activation,
        )


def _transposed_product(X, gradient):
    """Return X' G (d, k) of X (n, d), which may be sparse, and G (n, k)."""
    if not isinstance(X, np.ndarray):
        return X.T @ gradient
    # Where k is small, BLAS takes half of the time for the transposed one.
    return np.ascontiguousarray((gradient.T @ X).T)
