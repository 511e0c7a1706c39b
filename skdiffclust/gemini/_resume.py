"""Checkpoints of a path, from which it continues bit for bit.

Separate from these, which do not depend on files.
"""

from numbers import Integral

import numpy as np

from skdiffclust._checkpoint import (
    STREAM_VALUES,
    Checkpoint,
    check_checkpoint,
)
from skdiffclust.gemini._path import Step

_KIND = "SparseGEMINI.path"
_SCALARS = ("alpha", "objective", "penalty", "kkt", "n_iter")
_COLUMNS = (*_SCALARS, "support", "labels", "logits")


class PathCheckpoint:
    """The steps of a path in a folder: the first one, without penalty, and all others.

    Parameters
    ----------
    folder : path-like
    identity : dict
        What `identify` returned for the data and the parameters.
    model : Encoder or SkipPerceptron
        One with arrays of the shapes of those of the steps, of any values.
    problem : Problem
    """

    def __init__(self, folder, identity, model, problem):
        self._checkpoint = Checkpoint(folder, _KIND, identity)
        self._names = [f"model.{name}" for name in model.names]
        self._inputs = [f"model.{name}" for name in model.input_names]
        biases = model.arrays[-1]
        self._n_clusters = len(biases)
        self._example = {
            **dict.fromkeys(("alpha", "objective", "penalty", "kkt"), 0.0),
            "n_iter": 0,
            "support": np.zeros(len(model.inputs[0]), dtype=bool),
            "labels": np.zeros(len(problem.X), dtype=np.int64),
            "logits": np.zeros((len(problem.some_rows), len(biases)), biases.dtype),
            **dict(zip(self._names, model.arrays, strict=True)),
        }

    def open(self, walk, *, resume):
        """Return the finished Steps, and restore the Walk after the last of them.

        ValueError if the folder does not hold a path of this data and these parameters.
        """
        records, state = self._checkpoint.open(
            resume=resume,
            record=self._example,
            state=walk.state(),
            varying=self._inputs,
            n_values=STREAM_VALUES | {"labels": self._n_clusters},
        )
        for number, record in enumerate(records):
            n_selected = np.count_nonzero(record["support"])
            if any(len(record[name]) != n_selected for name in self._inputs):
                raise self._checkpoint.refusal(f"other weights in step {number}")
        if records:
            walk.load(state)
        return [self._step(record) for record in records]

    def append(self, step, walk):
        """Write a Step and the state after it; warn if that cannot be done."""
        record = {column: getattr(step, column) for column in _COLUMNS}
        record |= zip(self._names, step.weights, strict=True)
        self._checkpoint.append(record, walk.state())

    def _step(self, record):
        """Return the Step of a record."""
        columns = {
            name: record[name] if record[name].ndim else record[name].item()
            for name in _COLUMNS
        }
        return Step(**columns, weights=[record[name] for name in self._names])


def check_seed(name, checkpoint, resume, random_state):
    """Refuse invalid parameters of a method that draws the same samples again."""
    check_checkpoint(name, checkpoint, resume)
    if checkpoint is not None and not isinstance(random_state, Integral):
        raise ValueError(
            f"The 'random_state' parameter of {name.partition('.')[0]} must be an "
            "integer with a checkpoint, so that the same samples and weights are drawn "
            f"again. Got {random_state!r} instead. Set it."
        )
