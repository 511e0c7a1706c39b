"""Checkpoints of a loop of epochs, to continue from after an interruption."""

import json

import numpy as np

from skdiffclust._checkpoint import (
    STREAM_VALUES,
    Checkpoint,
    restore_stream,
    stream_arrays,
    without_prefix,
)


class LoopCheckpoint:
    """All state that an epoch changes, written to a folder after each epoch.

    A resumed loop gives the same bits as an uninterrupted one.

    Parameters
    ----------
    folder : path-like
    kind : str
        The kind of computation.
    identity : dict
        What `identify` returned for the data and parameters.
    random_state : RandomState
        The stream that batches are drawn from.
    columns : list of str
        Names in the history of the loop.
    resume : bool
        Whether to continue from the folder, if there is a checkpoint in it.
    """

    def __init__(self, folder, kind, identity, random_state, *, columns, resume):
        self._checkpoint = Checkpoint(folder, kind, identity)
        self._random_state = random_state
        self._columns = columns
        self._resume = resume

    def load(self, loop, trained, n_values=None):
        """Restore the last state in the folder, if there is one.

        Parameters
        ----------
        loop : EpochLoop
            In its state before the first epoch.
        trained : object
            With the methods ``arrays()``, all arrays (dict) that an epoch changes;
            ``load(arrays)``, which restores them; and ``state()``, the arrays (dict)
            that are the `best_state` of the loop.
        n_values : dict of int or None, default=None
            The number of valid values of the arrays of `trained` that are indices.

        Returns
        -------
        bool
            Whether there was one.
        """
        records, arrays = self._checkpoint.open(
            resume=self._resume,
            record=dict.fromkeys(self._columns, 0.0),
            state=self._state(loop, trained, trained.state()),
            varying={"loop"},
            n_values=STREAM_VALUES | (n_values or {}),
        )
        if not records:
            return False
        restore_stream(self._random_state, arrays)
        trained.load(arrays)
        history = {
            name: [record[name].item() for record in records] for name in self._columns
        }
        restore_loop(loop, arrays["loop"], history, without_prefix("best.", arrays))
        return True

    def save(self, loop, trained):
        """Write the state after an epoch; warn if that cannot be done."""
        # After a divergence there is nothing to continue from.
        if loop.stop_reason != "diverged":
            record = {name: float(loop.history[name][-1]) for name in self._columns}
            self._checkpoint.append(record, self._state(loop, trained, loop.best_state))

    def _state(self, loop, trained, best_state):
        """Return the arrays that the next epoch starts from, by name."""
        return {
            **trained.arrays(),
            **stream_arrays(self._random_state),
            "loop": loop_array(loop),
            **{f"best.{name}": array for name, array in best_state.items()},
        }


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
        """Return the arrays and the running means of their gradients, by name."""
        named = {f"arrays.{name}": array for name, array in self._named.items()}
        means = zip(self._named, self._optimiser.means, strict=True)
        squares = zip(self._named, self._optimiser.squares, strict=True)
        named |= {f"adam.means.{name}": array for name, array in means}
        return named | {f"adam.squares.{name}": array for name, array in squares}


def loop_array(loop):
    """Return the state of an EpochLoop without its history, as an array of bytes."""
    state = {n: value for n, value in loop.snapshot().items() if n != "history"}
    return np.frombuffer(json.dumps(state, default=float).encode(), dtype=np.uint8)


def restore_loop(loop, array, history, best_state):
    """Continue an EpochLoop from what `loop_array` returned."""
    state = json.loads(array.tobytes())
    loop.restore(state | {"history": history}, best_state)
