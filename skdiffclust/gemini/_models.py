"""The models p(y|x): an encoder, an encoder with a skip layer, and none.

All have the members of `Encoder`: ``arrays``, the list of what is trained, in place,
and their ``names``; ``forward(X)`` with what ``backward`` needs;
``backward(gradient, inputs)``, the gradients in the order of ``arrays``;
``outputs(X)``, which gives a sample the same bits wherever it stands. ``from_arrays``
makes a model from a list, ``with_random_weights`` one of some widths of layers.
"""

from dataclasses import dataclass

import numpy as np

from skdiffclust._encoder import Encoder


@dataclass(frozen=True)
class SkipPerceptron:
    """LassoNet: a perceptron plus a linear layer without bias, equation (8)."""

    skip: np.ndarray
    perceptron: Encoder

    @classmethod
    def with_random_weights(cls, layer_sizes, random_state, dtype):
        """Return a model with random arrays; `layer_sizes` is [d, *hidden, k]."""
        perceptron = Encoder.with_random_weights(layer_sizes, random_state, dtype)
        ends = layer_sizes[:: len(layer_sizes) - 1]
        skip = Encoder.with_random_weights(ends, random_state, dtype)
        return cls(skip.weights[0], perceptron)

    @classmethod
    def from_arrays(cls, arrays):
        """Return the model of skip weights, weights, then biases."""
        return cls(arrays[0], Encoder.from_arrays(arrays[1:]))

    @property
    def arrays(self):
        """Skip weights, weights, then biases."""
        return [self.skip, *self.perceptron.arrays]

    @property
    def names(self):
        """Names of the arrays, in their order."""
        return ["skip", *self.perceptron.names]

    @property
    def inputs(self):
        """Arrays that features are multiplied with, one row a feature."""
        return [self.skip, *self.perceptron.inputs]

    @property
    def input_names(self):
        """Names of `inputs`."""
        return ["skip", *self.perceptron.input_names]

    def forward(self, X):
        """Return logits (n, k) and what entered each layer."""
        logits, inputs = self.perceptron.forward(X)
        return logits + X @ self.skip, inputs

    def backward(self, gradient, inputs):
        """Return the gradients of all arrays."""
        others = self.perceptron.backward(gradient, inputs)
        return [inputs[0][0].T @ gradient, *others]

    def outputs(self, X):
        """Return logits (n, k); those of a sample do not depend on the others."""
        no_bias = np.zeros(self.skip.shape[1], dtype=self.skip.dtype)
        skip = Encoder([self.skip], [no_bias])
        return self.perceptron.outputs(X) + skip.outputs(X)

    def permute_outputs(self, order):
        """Return the model with its clusters in another order."""
        perceptron = self.perceptron.permute_outputs(order)
        return SkipPerceptron(self.skip[:, order], perceptron)

    def scaled(self, factor):
        """Return the model with its logits times a factor."""
        return SkipPerceptron(self.skip * factor, self.perceptron.scaled(factor))


@dataclass(frozen=True)
class FreeAssignments:
    """A logit for each distinct training sample and cluster; X has their numbers.

    Equal samples have one number, so that they share a cluster.
    """

    table: np.ndarray

    @classmethod
    def with_random_weights(cls, layer_sizes, random_state, dtype):
        """Return a model with random arrays for [n_distinct, ..., k]."""
        # The spread of a linear model's logits on standardised features.
        size = layer_sizes[0], layer_sizes[-1]
        return cls(random_state.normal(scale=0.5, size=size).astype(dtype))

    @classmethod
    def from_arrays(cls, arrays):
        """Return the model of one table."""
        return cls(*arrays)

    @property
    def arrays(self):
        """The table of logits (n, k)."""
        return [self.table]

    @property
    def names(self):
        """Names of the arrays."""
        return ["table"]

    @property
    def input_names(self):
        """Names of arrays that features are multiplied with: there are none."""
        return []

    def forward(self, X):
        """Return logits (n, k) of the rows X (n,), and X."""
        return self.table[X], X

    def backward(self, gradient, inputs):
        """Return the gradient of the table."""
        whole = np.zeros_like(self.table)
        np.add.at(whole, inputs, gradient)
        return [whole]

    def outputs(self, X):
        """Return logits (n, k) of the rows X (n,)."""
        return self.table[X]

    def permute_outputs(self, order):
        """Return the model with its clusters in another order."""
        return FreeAssignments(self.table[:, order])


# By kind, as the user names them; "skip" is a perceptron whose features are selected.
MODELS = {
    "linear": Encoder,
    "mlp": Encoder,
    "skip": SkipPerceptron,
    "free": FreeAssignments,
}
