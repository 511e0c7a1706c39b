"""Checkpoints of a path, from which it continues bit for bit.

Separate from the path, which does not depend on files.
"""

import numpy as np

from skdiffclust._checkpoint import STREAM, AtMost, Checkpoint, Field
from skdiffclust.gemini._path import Step

_KIND = "SparseGEMINI.path"
_COLUMNS = ("alpha", "objective", "penalty", "kkt", "n_iter", "support", "labels")


class PathCheckpoint:
    """The steps of a path in a folder: the first one, without penalty, and all others.

    Parameters
    ----------
    folder : path-like
    identity : dict
        What `identify` returned for the data and the parameters.
    model : Encoder or SkipPerceptron
        One with arrays of the shapes of those of the steps, of any values.
    n_samples : int
    """

    def __init__(self, folder, identity, model, n_samples):
        n_clusters = model.arrays[-1].shape[-1]
        n_features = len(model.inputs[0])
        record = {
            "alpha": Field("float64", low=0),
            "objective": Field("float64"),
            "penalty": Field("float64", low=0),
            "kkt": Field("float64", finite=False),
            "n_iter": Field("int64", low=0),
            "support": Field("bool", (n_features,)),
            "labels": Field("int64", (n_samples,), low=0, high=n_clusters - 1),
        }
        state = dict(STREAM)
        for name, array in zip(model.names, model.arrays, strict=True):
            state[f"model.{name}"] = Field(array.dtype, array.shape)
            state[f"previous.{name}"] = Field(array.dtype, array.shape)
            shape = array.shape
            if name in model.input_names:
                shape = (AtMost(n_features), *shape[1:])
            record[f"model.{name}"] = Field(array.dtype, shape)
        self._is_input = [name in model.input_names for name in model.names]
        self._names = [f"model.{name}" for name in model.names]
        self._checkpoint = Checkpoint(
            folder, _KIND, identity, record=record, state=state
        )

    def open(self, walk_of, *, resume):
        """Return the finished Steps and the Walk after the last, or ([], None).

        `walk_of` makes a Walk of the right arrays. ValueError if the folder does not
        hold a path of this data and these parameters.
        """
        records, state = self._checkpoint.open(resume=resume)
        if not records:
            return [], None
        steps = [self._step(record) for record in records]
        alphas = np.array([step.alpha for step in steps])
        if alphas[0] or not (np.diff(alphas) > 0).all():
            raise self._checkpoint.refusal("one whose penalties do not grow")
        walk = walk_of()
        if not walk.continue_from(state):
            raise self._checkpoint.refusal("one with a random stream of zeros")
        return steps, walk

    def append(self, step, walk):
        """Write a Step and the state after it; warn if that cannot be done."""
        record = {column: getattr(step, column) for column in _COLUMNS}
        record |= zip(self._names, step.weights, strict=True)
        self._checkpoint.append(record, walk.state())

    def _step(self, record):
        """Return the Step of a record; refuse one whose arrays do not fit together."""
        weights = [record[name] for name in self._names]
        n_in = np.count_nonzero(record["support"])
        for array, is_input in zip(weights, self._is_input, strict=True):
            if is_input and len(array) != n_in:
                raise self._checkpoint.refusal("one with weights of other features")
        columns = {name: _scalar(record[name]) for name in _COLUMNS}
        return Step(**columns, weights=weights)


def _scalar(value):
    """Return an entry as an array, or a number as a Python number."""
    return value if value.ndim else value.item()
