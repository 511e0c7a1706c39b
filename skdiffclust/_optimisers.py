"""Adam and momentum on lists of arrays, updated in place.

An optimiser is constructed from the arrays, whose shapes and dtypes its state has, and
a learning rate, which may be changed between steps; ``step(arrays, gradients)`` then
updates the arrays in place. The state is a list of arrays, ``state``, and, of Adam,
``n_steps``. L-BFGS is scipy's.

>>> import numpy as np
>>> from skdiffclust._optimisers import Adam
>>> arrays = [np.array([2.0, -1.0])]
>>> optimiser = Adam(arrays, 0.1)
>>> for _ in range(200):
...     optimiser.step(arrays, [2 * arrays[0]])  # of the sum of squares
>>> bool(np.abs(arrays[0]).max() < 1e-3)
True
"""

import math

import numpy as np

# Decays of the running means of gradients and of their squares.
_OF_MEANS = 0.9
_OF_SQUARES = 0.999


class Adam:
    """Adam with bias correction and, optionally, decoupled weight decay.

    A step moves an array x with gradient g by ``-learning_rate m̂ / (√v̂ + epsilon)``,
    where m̂ and v̂ are the running means of g and g², with factors .9 and .999,
    divided by their sums of weights [1]_; epsilon is added after that division, as in
    the paper and in ``torch.optim``. Before it, x is multiplied by
    ``1 - learning_rate weight_decay`` [2]_.

    Parameters
    ----------
    arrays : list of ndarray
        Arrays to be updated; only shapes and dtypes are read.
    learning_rate : float
    weight_decay : float, default=0.0
    epsilon : float, default=1e-8
        Gradients much smaller than this have almost no effect.

    References
    ----------
    .. [1] D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.
    .. [2] I. Loshchilov, F. Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.
    """

    def __init__(
        self,
        arrays,
        learning_rate,
        *,
        weight_decay=0.0,
        epsilon=1e-8,
    ):
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.epsilon = epsilon
        self.means = [np.zeros_like(array) for array in arrays]
        self.squares = [np.zeros_like(array) for array in arrays]
        self.n_steps = 0

    @property
    def state(self):
        """Running means of gradients, then of their squares."""
        return [*self.means, *self.squares]

    def step(self, arrays, gradients):
        """Move the arrays against their gradients."""
        self.n_steps += 1
        # Python floats leave float32 arrays in float32. The roots of both sides are
        # multiplied by √(1 - 0.999^t), which saves an array.
        root = math.sqrt(1.0 - _OF_SQUARES**self.n_steps)
        rate = self.learning_rate * root / (1.0 - _OF_MEANS**self.n_steps)
        epsilon = self.epsilon * root
        for array, gradient, mean, square in zip(
            arrays, gradients, self.means, self.squares, strict=True
        ):
            mean += (1.0 - _OF_MEANS) * (gradient - mean)
            square += (1.0 - _OF_SQUARES) * (gradient * gradient - square)
            if self.weight_decay:
                array *= 1.0 - self.learning_rate * self.weight_decay
            size = np.sqrt(square)
            size += epsilon
            moved = mean / size
            moved *= rate
            array -= moved

    def reset(self, index):
        """Reset the moments of the entries at an index of every array."""
        for array in self.state:
            array[index] = 0.0


class Momentum:
    """Gradient descent with momentum 0.9.

    The velocity is the change of the arrays including the proximal operator, so that
    the fixed points of the method are exactly the solutions of the penalised problem.
    With the usual velocity they are those of a tenth of the penalty, because the
    velocity accumulates ten gradients but only one proximal step.

    Parameters
    ----------
    arrays : list of ndarray
        Arrays to be updated; copied, as the origin of the first step.
    learning_rate : float
    """

    def __init__(self, arrays, learning_rate):
        self.learning_rate = learning_rate
        self.state = [array.copy() for array in arrays]

    def step(self, arrays, gradients):
        """Move the arrays against their gradients."""
        for array, gradient, previous in zip(
            arrays, gradients, self.state, strict=True
        ):
            velocity = array - previous
            velocity *= 0.9
            velocity -= self.learning_rate * gradient
            previous[...] = array
            array += velocity


class ArraysState:
    """Named arrays, and the Adam that trains them, for a checkpoint.

    Parameters
    ----------
    names : list of str
    arrays : list of ndarray
        Written in place by `load`.
    optimiser : Adam
        Of these arrays.
    """

    def __init__(self, names, arrays, optimiser):
        self._named = dict(zip(names, arrays, strict=True))
        self._optimiser = optimiser

    def state(self):
        """Return copies of the arrays by name, as the ``best_state`` of a loop."""
        return {name: array.copy() for name, array in self._named.items()}

    def restore(self, state):
        """Write back what `state` returned."""
        for name, array in self._named.items():
            array[...] = state[name]

    def arrays(self):
        """Return all arrays that a step changes, by name."""
        return self._changing() | {"adam.n_steps": self._optimiser.n_steps}

    def load(self, arrays):
        """Write back what `arrays` returned."""
        for name, array in self._changing().items():
            array[...] = arrays[name]
        self._optimiser.n_steps = arrays["adam.n_steps"].item()

    def _changing(self):
        """Return the arrays and the running means of Adam, by name."""
        named = {f"arrays.{name}": array for name, array in self._named.items()}
        moments = enumerate(self._optimiser.state)
        return named | {f"adam.{i}": array for i, array in moments}
