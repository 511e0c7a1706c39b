"""Checkpoints of long computations: a folder with one file per step.

A computation passes to `Checkpoint.append` the record of each step, which is kept, and
the state that the next step starts from, which is kept for the last two steps; both are
dicts of arrays by name. `Checkpoint.open` returns the records and the last state. Each
file is written under another name and then renamed, so that a killed process leaves
complete files. If the last one is incomplete after a power failure, its step is dropped
and computed again.

Nothing is pickled. A checkpoint is used only for the data and parameters that it was
written with, and only if the names, dtypes and shapes of its arrays are those of the
examples that `open` is given.

>>> import os, tempfile
>>> import numpy as np
>>> from skdiffclust._checkpoint import Checkpoint, identify
>>> def sums(folder, n_steps, resume=False):
...     values = np.arange(3.0)
...     identity = identify({"values": values}, {"factor": 2})
...     checkpoint = Checkpoint(folder, "sums", identity)
...     records, state = checkpoint.open(
...         resume=resume, record={"total": 0.0}, state={"values": values}
...     )
...     values = values if state is None else state["values"]
...     for _ in range(len(records), n_steps):
...         values = 2 * values
...         records.append({"total": values.sum()})
...         checkpoint.append(records[-1], {"values": values})
...     return [float(record["total"]) for record in records]
>>> with tempfile.TemporaryDirectory() as parent:
...     folder = os.path.join(parent, "sums")
...     sums(folder, 2), sums(folder, 4, resume=True)
([6.0, 12.0], [6.0, 12.0, 24.0, 48.0])
"""

import functools
import hashlib
import json
import os
import re
from pathlib import Path

import numpy as np
from scipy.sparse import issparse

from skdiffclust._compat import validate_parameter_constraints
from skdiffclust._warnings import warn

_FORMAT = 5
# Names of the files of steps, finished or not, which no other program writes.
_NAME = "skdiffclust-{:06d}.npz"
_OURS = re.compile(r"skdiffclust-\d{6,}\.npz(\.part)?")
# Prefixes of the names of arrays in the file of a step, and the name of the identity.
_RECORD = "record."
_STATE = "state."
_IDENTITY = "identity"
_N_PROBES = 10
_N_DIGITS = 16  # of a digest, which is in the file of each step


def check_checkpoint(name, checkpoint, resume):
    """Refuse invalid parameters of a method that writes checkpoints.

    Parameters
    ----------
    name : str
        Of the method, ``"ClAM.fit"`` for example.
    checkpoint : path-like or None
    resume : bool
    """
    validate_parameter_constraints(
        {"checkpoint": [str, os.PathLike, None], "resume": ["boolean"]},
        {"checkpoint": checkpoint, "resume": resume},
        caller_name=name,
    )
    if resume and checkpoint is None:
        raise ValueError(
            f"The 'checkpoint' parameter of {name} must be a folder with resume=True. "
            "Got None instead. Pass the path of the folder that was written."
        )


class Checkpoint:
    """The steps of one computation in a folder.

    Parameters
    ----------
    folder : path-like
        Created if it does not exist; its parent must exist. A folder with anything in
        it that is not a checkpoint is refused and left as it is.
    kind : str
        The kind of computation.
    identity : dict of str
        What `identify` returned for the data and parameters: a computation is continued
        only with those that it was started with.
    """

    def __init__(self, folder, kind, identity):
        self.folder = Path(folder)
        self._identity = {"format": _FORMAT, "kind": kind, **identity}
        self._records = []
        self._n_written = 0

    def open(self, *, resume, record, state, varying=(), n_values=None):
        """Return the records (list of dicts) and the last state (dict), or ([], None).

        Without `resume` the steps that are there are deleted. ValueError if the folder
        holds anything else, or, with `resume`, steps of another computation; OSError if
        it cannot be created.

        Parameters
        ----------
        resume : bool
        record, state : dict of array or number
            Examples, with the names, dtypes and shapes that are valid.
        varying : collection of str, default=()
            Names of arrays whose length may differ from that of the example.
        n_values : dict of int or None, default=None
            For names of arrays that are used as indices, the number of valid ones: they
            are from 0 to that number, excluded.
        """
        names = self._read_folder()
        old = [name for name in names if name.endswith(".part") or not resume]
        # The last step goes first, so that a killed process leaves the first ones.
        for name in sorted(old, reverse=True):
            (self.folder / name).unlink()
        steps = self._read_steps(len(names) - len(old))
        for number, (saved, start) in enumerate(steps):
            problem = _difference(saved, record, varying, n_values or {}) or (
                start and _difference(start, state, varying, n_values or {})
            )
            if problem:
                raise self.refusal(f"{problem} in step {number}")
        self._records = [saved for saved, _ in steps]
        self._n_written = len(steps)
        return self._records.copy(), steps[-1][1] if steps else None

    def append(self, record, state):
        """Write a step, and warn if that is impossible.

        A step that could not be written is tried again with the next one.

        Parameters
        ----------
        record, state : dict of array or number
            The arrays of the record must not change afterwards.
        """
        self._records.append(record)
        last = len(self._records) - 1
        try:
            for number in range(self._n_written, last):
                self._write(number, {})
            self._write(last, state)
            self._n_written = last + 1
            # Two states are kept, because the last step may be incomplete.
            if last >= 2:
                self._write(last - 2, {})
        except OSError as error:
            for part in list(self.folder.glob("*.part")):
                part.unlink()
            # The message names no file, so that the warning is shown once.
            warn(
                f"The checkpoint {str(self.folder)!r} could not be written: "
                f"{error.strerror or error}. The computation continues without it. "
                "Free space or choose another folder, to be able to resume.",
            )

    def refusal(self, problem):
        """Return the ValueError for a checkpoint of another computation."""
        return ValueError(
            f"The checkpoint {str(self.folder)!r} must have been written by this "
            "version of skdiffclust for the same data and parameters. Got "
            f"{problem} instead. Pass those that it was written with, or resume=False "
            "to start again."
        )

    def _read_folder(self):
        """Return the names of our files in the folder, which is created if needed.

        ValueError for anything but a checkpoint and an empty folder.
        """
        if not os.path.lexists(self.folder):
            self.folder.mkdir(exist_ok=True)  # another process may make it meanwhile
        is_folder = self.folder.is_dir()
        names = os.listdir(self.folder) if is_folder else []
        others = [n for n in names if n[0] != "." and not _OURS.fullmatch(n)]
        if others or not is_folder:
            what = f"one with {min(others)!r} in it" if others else "a file"
            raise ValueError(
                f"The checkpoint {str(self.folder)!r} must be an empty folder, the "
                "path of one to create, or a checkpoint of skdiffclust. Got "
                f"{what} instead. Choose another name."
            )
        return [name for name in names if _OURS.fullmatch(name)]

    def _read_steps(self, n_files):
        """Return the record and the state of each step, without an incomplete last."""
        steps = []
        for number in range(n_files):
            path = self.folder / _NAME.format(number)
            try:
                with (
                    path.open("rb") as file,
                    np.load(file, allow_pickle=False) as saved,
                ):
                    arrays = {name: saved[name] for name in saved.files}
            except Exception:  # missing, or whatever NumPy makes of damaged bytes
                break
            identity = json.loads(arrays.pop(_IDENTITY).item())
            different = dict(identity.items() ^ self._identity.items())
            if different:
                raise self.refusal(f"different values of {sorted(different)}")
            steps.append([without_prefix(p, arrays) for p in (_RECORD, _STATE)])
        if len(steps) < n_files - 1:
            raise self.refusal(f"step {len(steps)} missing or damaged")
        # After a full disk there may be records without the state of their step.
        while steps and not steps[-1][1]:
            steps.pop()
        if len(steps) < n_files:
            warn(
                f"The last step of the checkpoint {str(self.folder)!r} is incomplete, "
                "and is computed again.",
            )
        return steps

    def _write(self, number, state):
        """Write the file of a step aside, and rename it when it is complete."""
        arrays = {
            **{_RECORD + n: array for n, array in self._records[number].items()},
            **{_STATE + n: array for n, array in state.items()},
            _IDENTITY: json.dumps(self._identity).encode(),
        }
        path = self.folder / _NAME.format(number)
        part = path.with_name(f"{path.name}.part")
        with part.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)


def _difference(arrays, examples, varying, n_values):
    """Return how arrays differ from examples, None if they fit."""
    if arrays.keys() != examples.keys():
        return f"other arrays {sorted(arrays.keys() ^ examples.keys())}"
    for name, array in arrays.items():
        example = np.asarray(examples[name])
        first = int(name in varying)  # the axes from this one on have the same lengths
        if (
            array.dtype != example.dtype
            or array.ndim != example.ndim
            or array.shape[first:] != example.shape[first:]
        ):
            return f"{array.dtype} {array.shape} for {name!r}"
        if name in n_values and ((array < 0) | (array >= n_values[name])).any():
            return f"indices out of range for {name!r}"
    return None


def identify(data, params, outputs=None):
    """Return digests (dict) of data and parameters, by which a computation is known.

    Parameters
    ----------
    data : dict of array or None
        Compared byte for byte, with their dtypes; a CSR as the arrays of its parts.
    params : dict
        Compared by value: ``np.int64(2)`` is 2, and a list is a tuple or an array.
        Functions and objects are compared by name.
    outputs : dict or None, default=None
        What parameters that are functions, transformers or modules return on
        `probe_rows` of the data: an array, or a nest of lists of arrays and strings.
        They are compared in single precision.
    """
    identity = {}
    for name, array in data.items():
        digest = hashlib.sha256()
        parts = [] if array is None else [array]
        if issparse(array):
            parts = [array.data, array.indices, array.indptr]
        for part in parts:
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype.str} {array.shape};".encode())
            digest.update(array.tobytes())
        identity[name] = digest.hexdigest()[:_N_DIGITS]
    for name, value in params.items():
        text = json.dumps(value, default=_plain, sort_keys=True)
        text += json.dumps((outputs or {}).get(name), default=_single_precision)
        identity[name] = hashlib.sha256(text.encode()).hexdigest()[:_N_DIGITS]
    return identity


def probe_rows(n_samples):
    """Return the numbers of the samples on which functions are compared."""
    return np.unique(np.linspace(0, n_samples - 1, _N_PROBES).astype(int))


def _plain(value):
    """Return lists, dicts, numbers and text in place of a parameter of another type."""
    if isinstance(value, type):
        return value.__qualname__
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    if isinstance(value, np.random.RandomState):
        return value.get_state(legacy=False)
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if hasattr(value, "get_params"):
        return [type(value), value.get_params(deep=False)]
    if callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    return str(value)


def _single_precision(values):
    """Return an array of float32 as nested lists, without negative zeros."""
    return (np.asarray(values, dtype=np.float32) + 0.0).tolist()


def stream_arrays(random_state):
    """Return the state of a RandomState as arrays by name."""
    return dict(zip(_STREAM, random_state.get_state()[1:], strict=True))


# The parts of the state of a RandomState.
_STREAM = ("stream.keys", "stream.position", "stream.has_gauss", "stream.gauss")
# For `Checkpoint.open`: NumPy does not check the position, which is an index.
STREAM_VALUES = {"stream.position": 625}


def restore_stream(random_state, arrays):
    """Restore a RandomState from `stream_arrays`."""
    random_state.set_state(("MT19937", *(arrays[name] for name in _STREAM)))


def without_prefix(prefix, arrays):
    """Return the arrays (dict) whose names have a prefix, without the prefix."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


class LoopCheckpoint:
    """All state that an epoch of a loop changes, written to a folder after each epoch.

    What a resumed loop gives back are the same arrays, so that it continues as an
    uninterrupted one would.

    Parameters
    ----------
    folder : path-like
    kind : str
        The kind of computation.
    identity : dict
        What `identify` returned for the data and parameters.
    random_state : RandomState
        The stream that batches are drawn from.
    resume : bool
        Whether to continue from the folder, if there is a checkpoint in it.
    """

    def __init__(self, folder, kind, identity, random_state, *, resume):
        self._checkpoint = Checkpoint(folder, kind, identity)
        self._random_state = random_state
        self._resume = resume

    def load(self, loop, trained):
        """Restore the last state in the folder, if there is one.

        Parameters
        ----------
        loop : EpochLoop
            In its state before the first epoch.
        trained : object
            With the methods ``arrays()``, all arrays (dict) that an epoch changes;
            ``load(arrays)``, which restores them; and ``state()``, the arrays (dict)
            that are the `best_state` of the loop.

        Returns
        -------
        bool
            Whether there was one.
        """
        _, arrays = self._checkpoint.open(
            resume=self._resume,
            record={},
            state=self._state(loop, trained, trained.state()),
            varying={"loop"},
            n_values=STREAM_VALUES,
        )
        if arrays is not None:
            restore_stream(self._random_state, arrays)
            trained.load(arrays)
            loop.restore(arrays["loop"], without_prefix("best.", arrays))
        return arrays is not None

    def save(self, loop, trained):
        """Write the state after an epoch; warn if that cannot be done."""
        # After a divergence there is nothing to continue from.
        if loop.stop_reason != "diverged":
            self._checkpoint.append({}, self._state(loop, trained, loop.best_state))

    def _state(self, loop, trained, best_state):
        """Return the arrays that the next epoch starts from, by name."""
        return {
            **trained.arrays(),
            **stream_arrays(self._random_state),
            "loop": loop.snapshot(),
            **{f"best.{name}": array for name, array in best_state.items()},
        }
