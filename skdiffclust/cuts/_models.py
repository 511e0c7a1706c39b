"""Models of PRCut, in training and as predictors: encoders, modules, free logits."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from skdiffclust._assignments import softmax
from skdiffclust._batches import RowsOnDemand
from skdiffclust._encoder import Encoder
from skdiffclust._optimisers import Adam, ArraysState
from skdiffclust._pairwise import center

_BLOCK_ENTRIES = 2**21  # of the temporary arrays of a block of samples
_FREE_MARGIN = 4.0  # of free logits that start from labels


@dataclass(frozen=True)
class Scaling:
    """The scaling of an encoder's inputs: less their means, divided by their spread."""

    means: np.ndarray
    scale: float
    dtype: type

    @classmethod
    def of(cls, X):
        """Return the scaling of finite samples X (n, d), dense or CSR, read by blocks.

        A feature that is constant becomes exactly 0.
        """
        n_samples = X.shape[0]
        rows = RowsOnDemand(X) if sp.issparse(X) else X
        first = rows[:1].astype(np.float64)[0]
        blocks = list(gen_batches(n_samples, max(1, _BLOCK_ENTRIES // X.shape[1])))
        total = np.zeros(X.shape[1])
        for block in blocks:
            # This order gives the same sums for any layout of X.
            total += np.subtract(rows[block], first, order="C").sum(axis=0)
        means = first + total / n_samples
        squares = 0.0
        for block in blocks:
            centred = center(rows[block], means, dtype=X.dtype.type)
            squares += np.einsum("ij,ij->", centred, centred, dtype=np.float64)
        spread = float(np.sqrt(squares / (n_samples * X.shape[1])))
        return cls(means, spread or 1.0, X.dtype.type)

    def __call__(self, X):
        """Return scaled rows (n, d), a new array; CSR rows are scaled when taken."""
        if sp.issparse(X):
            return RowsOnDemand(X, self)
        centred = center(X, self.means, dtype=self.dtype)
        centred /= self.dtype(self.scale)
        return centred


class EncoderModel:
    """A copy of an encoder, with its optimiser."""

    def __init__(self, encoder, weight_decay):
        self.encoder = encoder.copy()
        arrays = self.encoder.arrays
        self.optimiser = Adam(arrays, 0.0, weight_decay=weight_decay)
        self.trained = ArraysState(self.encoder.names, arrays, self.optimiser)

    @property
    def weights(self):
        """The arrays that samples are multiplied with."""
        return self.encoder.arrays

    def logits(self, X):
        """Return the outputs (n, k) for samples X (n, d)."""
        return self.encoder.outputs(X)

    def step(self, X, gradient_of, rate):
        """Take a step; gradient_of maps logits (b, k) to their gradient (b, k)."""
        logits, inputs = self.encoder.forward(X)
        gradient = gradient_of(logits).astype(logits.dtype, copy=False)
        self.optimiser.learning_rate = rate
        self.optimiser.step(
            self.encoder.arrays, self.encoder.backward(gradient, inputs)
        )

    def predictor(self, state, scaling, order):
        """Return the predictor of a state whose cluster p is the output order[p]."""
        encoder = Encoder.from_arrays(list(state.values()), self.encoder.activation)
        return EncoderPredictor(encoder.permute_outputs(order), scaling)


class FreeLogits:
    """Logits of each sample as parameters; X is then the column of sample numbers.

    They start from labels (n,), or at random.
    """

    weights = ()

    def __init__(self, n, n_clusters, labels, random_state):
        self.values = random_state.normal(scale=0.01, size=(n, n_clusters))
        if labels is not None:
            self.values[np.arange(n), labels] += _FREE_MARGIN
        self.optimiser = Adam([self.values], 0.0)
        self.trained = ArraysState(["logits"], [self.values], self.optimiser)

    def logits(self, X):
        """Return the logits (n, k) of the samples numbered in X (n, 1)."""
        return self.values[X[:, 0]]

    def step(self, X, gradient_of, rate):
        """Take a step on all samples; the gradient is 0 for those not in X.

        A sample that is in X twice, left and right of a block, has the sum of both.
        """
        gradient = np.zeros_like(self.values)
        np.add.at(gradient, X[:, 0], gradient_of(self.values[X[:, 0]]))
        self.optimiser.learning_rate = rate
        self.optimiser.step([self.values], [gradient])


@dataclass(frozen=True)
class EncoderPredictor:
    """An encoder of scaled samples; without a scaling, it takes samples as they are."""

    encoder: Any  # an `Encoder`, or a module with what is used of it here
    scaling: Scaling | None

    def assignments(self, X):
        """Return the soft assignments (n, k) of samples X (n, d)."""
        return softmax(self.encoder.outputs(self._scaled(X)))

    def labels(self, X):
        """Return the labels (n,) of samples X (n, d)."""
        return self.encoder.outputs(self._scaled(X)).argmax(axis=1)

    def embedding(self, X):
        """Return the last hidden layer (n, h) of samples X (n, d)."""
        return self.encoder.hidden(self._scaled(X))

    def _scaled(self, X):
        """Return the input of the encoder for samples X (n, d)."""
        if self.scaling is not None:
            return self.scaling(X)
        return RowsOnDemand(X) if sp.issparse(X) else X

    @property
    def attributes(self):
        """The fitted attributes (dict) of the encoder."""
        if self.scaling is None:
            return {"encoder_": self.encoder.module}
        return {"coefs_": self.encoder.weights, "intercepts_": self.encoder.biases}
