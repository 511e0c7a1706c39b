"""The models p(y|x): linear, perceptron, perceptron with a skip layer, and none.

All have the same four members: ``arrays``, the list of what is trained, in place;
``forward(X, masks)`` with what ``backward`` needs; ``backward(gradient, inputs,
masks)``, the gradients in the order of ``arrays``; ``logits(X)``, which gives a row
the same bits wherever it stands. ``from_arrays`` is the way back from a list.
"""

from dataclasses import dataclass

import numpy as np

from skdiffclust._encoder import (
    activate,
    backward,
    dropout_masks,
    forward,
    forward_with_inputs,
    init_layers,
)
from skdiffclust.gemini._sparse_rows import SparseRows


@dataclass(frozen=True)
class Perceptron:
    """Layers with ReLUs between them; one layer is the linear (logistic) model."""

    weights: list
    biases: list

    @classmethod
    def from_arrays(cls, arrays):
        """Return the model of weights, then biases."""
        half = len(arrays) // 2
        return cls(arrays[:half], arrays[half:])

    @property
    def arrays(self):
        """Weights, then biases."""
        return [*self.weights, *self.biases]

    @property
    def names(self):
        """What the arrays are called in a file."""
        numbers = range(len(self.weights))
        return [f"{kind}.{i}" for kind in ("weights", "biases") for i in numbers]

    @property
    def decayed(self):
        """What an l2 penalty shrinks."""
        return self.weights

    @property
    def inputs(self):
        """What is multiplied with features, one row a feature."""
        return self.weights[:1]

    def masks(self, n_rows, dropout, random_state):
        """Draw dropout masks for a batch."""
        return dropout_masks(n_rows, self.weights, dropout, random_state)

    def forward(self, X, masks=None):
        """Return logits (n, k) and what entered each layer."""
        return forward_with_inputs(X, self.weights, self.biases, masks)

    def backward(self, gradient, inputs, masks=None):
        """Return the gradients of all arrays."""
        by_weights, by_biases = backward(gradient, inputs, self.weights, masks)
        return [*by_weights, *by_biases]

    def logits(self, X):
        """Return logits (n, k) that depend on their row only."""
        if isinstance(X, SparseRows):
            hidden = X @ self.weights[0] + self.biases[0]
            if len(self.weights) == 1:
                return hidden
            hidden = activate(hidden, "relu")
            return forward(hidden, self.weights[1:], self.biases[1:])
        return forward(X, self.weights, self.biases)

    def permute_outputs(self, order):
        """Return the model with its clusters in another order."""
        return Perceptron(
            [*self.weights[:-1], self.weights[-1][:, order]],
            [*self.biases[:-1], self.biases[-1][order]],
        )

    def scaled(self, factor):
        """Return the model with its logits times a factor."""
        return Perceptron(
            [*self.weights[:-1], self.weights[-1] * factor],
            [*self.biases[:-1], self.biases[-1] * factor],
        )


@dataclass(frozen=True)
class SkipPerceptron:
    """LassoNet: a perceptron plus a linear layer without bias, equation (8)."""

    skip: np.ndarray
    perceptron: Perceptron

    @classmethod
    def from_arrays(cls, arrays):
        """Return the model of skip weights, weights, then biases."""
        return cls(arrays[0], Perceptron.from_arrays(arrays[1:]))

    @property
    def arrays(self):
        """Skip weights, weights, then biases."""
        return [self.skip, *self.perceptron.arrays]

    @property
    def names(self):
        """What the arrays are called in a file."""
        return ["skip", *self.perceptron.names]

    @property
    def decayed(self):
        """What an l2 penalty shrinks."""
        return [self.skip, *self.perceptron.weights]

    @property
    def inputs(self):
        """What is multiplied with features, one row a feature."""
        return [self.skip, self.perceptron.weights[0]]

    def masks(self, n_rows, dropout, random_state):
        """Draw dropout masks for a batch."""
        return self.perceptron.masks(n_rows, dropout, random_state)

    def forward(self, X, masks=None):
        """Return logits (n, k) and what entered each layer."""
        logits, inputs = self.perceptron.forward(X, masks)
        return logits + X @ self.skip, inputs

    def backward(self, gradient, inputs, masks=None):
        """Return the gradients of all arrays."""
        others = self.perceptron.backward(gradient, inputs, masks)
        return [inputs[0][0].T @ gradient, *others]

    def logits(self, X):
        """Return logits (n, k) that depend on their row only."""
        no_bias = np.zeros(self.skip.shape[1], dtype=self.skip.dtype)
        beside = Perceptron([self.skip], [no_bias])
        return self.perceptron.logits(X) + beside.logits(X)

    def permute_outputs(self, order):
        """Return the model with its clusters in another order."""
        perceptron = self.perceptron.permute_outputs(order)
        return SkipPerceptron(self.skip[:, order], perceptron)

    def scaled(self, factor):
        """Return the model with its logits times a factor."""
        return SkipPerceptron(self.skip * factor, self.perceptron.scaled(factor))


@dataclass(frozen=True)
class FreeAssignments:
    """A logit for every distinct training row and cluster; X is the numbers of rows.

    Rows that are equal have one number, so that they never part.
    """

    table: np.ndarray

    @classmethod
    def from_arrays(cls, arrays):
        """Return the model of one table."""
        return cls(*arrays)

    @property
    def arrays(self):
        """The table of logits (n, k)."""
        return [self.table]

    @property
    def decayed(self):
        """What an l2 penalty shrinks."""
        return [self.table]

    def masks(self, n_rows, dropout, random_state):
        """Draw nothing: there are no hidden units."""
        return None

    def forward(self, X, masks=None):
        """Return logits (n, k) of the rows X (n,), and X."""
        return self.table[X], X

    def backward(self, gradient, inputs, masks=None):
        """Return the gradient of the table."""
        whole = np.zeros_like(self.table)
        np.add.at(whole, inputs, gradient)
        return [whole]

    def logits(self, X):
        """Return logits (n, k) of the rows X (n,)."""
        return self.table[X]

    def permute_outputs(self, order):
        """Return the model with its clusters in another order."""
        return FreeAssignments(self.table[:, order])


def new_model(kind, n_distinct, layer_sizes, random_state, dtype):
    """Return a model with random arrays; `layer_sizes` is [d, *hidden, k].

    `kind` is "linear" (the hidden layers are ignored), "mlp", "skip" or "free", for
    which `n_distinct` is the number of distinct rows.
    """
    n_features = layer_sizes[0]
    n_clusters = layer_sizes[-1]
    if kind == "free":
        # The spread of a linear model's logits on standardised features.
        table = random_state.normal(scale=0.5, size=(n_distinct, n_clusters))
        return FreeAssignments(table.astype(dtype))
    if kind == "linear":
        layer_sizes = [n_features, n_clusters]
    perceptron = Perceptron(*init_layers(layer_sizes, random_state, dtype))
    if kind != "skip":
        return perceptron
    (skip,), _ = init_layers([n_features, n_clusters], random_state, dtype)
    return SkipPerceptron(skip, perceptron)


MODELS = {
    "linear": Perceptron,
    "mlp": Perceptron,
    "skip": SkipPerceptron,
    "free": FreeAssignments,
}
