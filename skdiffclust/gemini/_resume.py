"""Checkpoints of a path and of restarts, from which they continue bit for bit.

Separate from these, which do not depend on files.
"""

import os
from numbers import Integral

import numpy as np

from skdiffclust._checkpoint import (
    STREAM,
    AtMost,
    Checkpoint,
    Field,
    restore_stream,
    stream_arrays,
)
from skdiffclust._history import STOP_REASONS
from skdiffclust._loop_checkpoint import numbers_of
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


class RestartsCheckpoint:
    """The finished restarts of a training in a folder, and the random stream after.

    Parameters
    ----------
    folder : path-like
    identity : dict
        What `identify` returned for the data and the parameters.
    model : Encoder or FreeAssignments
        One with arrays of the shapes of those of the restarts, of any values.
    loop : EpochLoop
        One of the parameters of those of the restarts.
    max_iter : int
        Largest number of epochs of a restart.
    resume : bool
        Whether to continue from the folder, if there is one.
    """

    def __init__(self, folder, identity, model, loop, max_iter, *, resume):
        curve = Field("float64", (AtMost(max_iter),), finite=False)
        reasons = tuple(reason.encode() for reason in STOP_REASONS)
        record = {
            "stop_reason": Field("S16", choices=reasons),
            "history.loss": curve,
            "history.objective": curve,
        }
        for name, value in numbers_of(loop).items():
            is_count = not isinstance(value, float)
            record[f"loop.{name}"] = Field("int64" if is_count else "float64")
        for name, array in zip(model.names, model.arrays, strict=True):
            record[f"best.{name}"] = Field(array.dtype, array.shape)
        self._names = [f"best.{name}" for name in model.names]
        self._checkpoint = Checkpoint(
            folder, "GEMINI.fit", identity, record=record, state=dict(STREAM)
        )
        self._records, self._stream = self._checkpoint.open(resume=resume)

    def restore(self, number, loop, random_state):
        """Restore the loop of a restart, if it is finished; return whether it is.

        After the last of them the stream is as it was.
        """
        if number >= len(self._records):
            return False
        record = self._records[number]
        history = {
            name: record[f"history.{name}"].tolist() for name in ("loss", "objective")
        }
        n_iter = len(history["loss"])
        best_epoch = record["loop.best_epoch"].item()
        is_whole = n_iter == len(history["objective"]) and 0 <= best_epoch < n_iter
        is_last = number == len(self._records) - 1
        if not is_whole or (is_last and not restore_stream(random_state, self._stream)):
            raise self._checkpoint.refusal("one whose restarts are not whole")
        loop.restore(
            {
                **{name: record[f"loop.{name}"].item() for name in numbers_of(loop)},
                "history": history,
                "n_iter": n_iter,
                "stop_reason": record["stop_reason"].item().decode(),
            },
            [record[name] for name in self._names],
        )
        return True

    def append(self, loop, random_state):
        """Write the loop of a restart that has ended; warn if that cannot be done."""
        record = {f"loop.{name}": value for name, value in numbers_of(loop).items()}
        record |= {f"history.{name}": curve for name, curve in loop.history.items()}
        record["stop_reason"] = loop.stop_reason.encode()
        record |= zip(self._names, loop.best_state, strict=True)
        self._checkpoint.append(record, stream_arrays(random_state))


def check_checkpoint(name, checkpoint, resume, random_state):
    """Refuse a checkpoint of an estimator that is no folder or could not be resumed."""
    if not isinstance(checkpoint, str | os.PathLike | None):
        raise ValueError(
            f"The 'checkpoint' parameter of {name}.fit must be a folder or None. Got "
            f"{checkpoint!r} instead. Pass the path of a folder."
        )
    if resume and checkpoint is None:
        raise ValueError(
            f"The 'checkpoint' parameter of {name}.fit must be a folder with "
            "resume=True. Got None instead. Pass the path of the folder that was "
            "written."
        )
    if checkpoint is not None and not isinstance(random_state, Integral):
        raise ValueError(
            f"The 'random_state' parameter of {name} must be an integer with a "
            "checkpoint, so that the same samples and weights are drawn again. Got "
            f"{random_state!r} instead. Set it."
        )
