"""Checkpoints of long computations: a folder with a manifest and one file per step.

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
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np

_MANIFEST = "skdiffclust.json"
# The key of the manifest that says that it is ours; its value is the format.
_PROGRAM = "skdiffclust checkpoint"
_FORMAT = 4
_OURS = re.compile(r"(skdiffclust\.json|step-\d{6,}\.npz)(\.part)?")
# Prefixes of the names of arrays in the file of a step.
_RECORD = "record."
_STATE = "state."
_N_PROBES = 10


def check_checkpoint(name, checkpoint, resume):
    """Refuse invalid parameters of a method that writes checkpoints.

    Parameters
    ----------
    name : str
        Of the method, ``"ClAM.fit"`` for example.
    checkpoint : path-like or None
    resume : bool
    """
    if not isinstance(checkpoint, str | os.PathLike | None):
        raise ValueError(
            f"The 'checkpoint' parameter of {name} must be the path of a folder or "
            f"None. Got {checkpoint!r} instead. Pass a path."
        )
    if not isinstance(resume, bool | np.bool_):
        raise ValueError(
            f"The 'resume' parameter of {name} must be a boolean. Got {resume!r} "
            "instead. Pass True or False."
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
        What `identify` returned for the data and parameters: a computation continues
        only with those that it began with.
    """

    def __init__(self, folder, kind, identity):
        self.folder = Path(folder)
        self._manifest = {_PROGRAM: _FORMAT, "kind": kind, **identity}
        self._records = []
        self._n_written = 0
        self._has_begun = False

    def open(self, *, resume, record, state, varying=(), n_values=None):
        """Return the records (list of dicts) and the last state (dict), or ([], None).

        Without `resume`, or if there is none, a new checkpoint replaces any existing
        one. ValueError if the folder holds anything else, or, with `resume`, if it is
        not one of this computation.

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
        names, manifest = self._read_folder()
        # The first step is removed first: without it there is no checkpoint.
        if resume and _file_of(0) in names:
            self._compare(manifest)
            self._attempt(self._remove, [n for n in names if n.endswith(".part")])
            steps = self._read_steps(sum(name.endswith(".npz") for name in names))
            for number, (saved, start) in enumerate(steps):
                problem = _difference(saved, record, varying, n_values or {})
                if start and not problem:
                    problem = _difference(start, state, varying, n_values or {})
                if problem:
                    raise self.refusal(f"{problem} in step {number}")
            if steps:
                self._records = [saved for saved, _ in steps]
                self._n_written = len(steps)
                self._has_begun = True
                return self._records.copy(), steps[-1][1]
        self._attempt(self._begin)
        return [], None

    def append(self, record, state):
        """Write a step, and warn if that is impossible.

        A step that could not be written is tried again with the next one.

        Parameters
        ----------
        record, state : dict of array or number
            The arrays of the record must not change afterwards.
        """
        self._records.append(record)
        self._attempt(self._write_steps, state)

    def refusal(self, problem):
        """Return the ValueError for a checkpoint of another computation."""
        return ValueError(
            f"The checkpoint {str(self.folder)!r} must have been written by this "
            "version of skdiffclust for the same data and parameters. Got "
            f"{problem} instead. Pass those that it was written with, or resume=False "
            "to start again."
        )

    def _read_folder(self):
        """Return the names of the files there and the manifest, None without one.

        ValueError for anything but a checkpoint and an empty folder.
        """
        if not os.path.lexists(self.folder):
            return [], None
        if not self.folder.is_dir():
            raise self._not_ours("a file")
        names = [path.name for path in self.folder.iterdir() if path.name[0] != "."]
        others = [name for name in names if not _OURS.fullmatch(name)]
        manifest = _read_manifest(self.folder / _MANIFEST)
        # A process that is killed while it writes the manifest leaves part of it.
        if manifest is None:
            others += {*names} - {f"{_MANIFEST}.part"}
        if others:
            raise self._not_ours(f"one with {min(others)!r} in it")
        return names, manifest

    def _not_ours(self, content):
        """Return the ValueError for a path where nothing may be written."""
        return ValueError(
            f"The checkpoint {str(self.folder)!r} must be an empty folder, the path of "
            f"one to create, or a checkpoint of skdiffclust. Got {content} instead. "
            "Choose another name."
        )

    def _compare(self, manifest):
        """Refuse the manifest of another version, data or parameters."""
        names = sorted(manifest.keys() | self._manifest.keys())
        different = [n for n in names if manifest.get(n) != self._manifest.get(n)]
        if _PROGRAM in different:
            raise self.refusal(f"format {manifest[_PROGRAM]}, not {_FORMAT},")
        if different:
            raise self.refusal(f"different values of {different}")

    def _read_steps(self, n_files):
        """Return the record and the state of each step, without an incomplete last."""
        steps = []
        for number in range(n_files):
            arrays = _read_arrays(self.folder / _file_of(number))
            if arrays is None:
                break
            steps.append([without_prefix(p, arrays) for p in (_RECORD, _STATE)])
        if len(steps) < n_files - 1:
            raise self.refusal(f"step {len(steps)} missing or damaged")
        # After a full disk there may be records without the state of their step.
        while steps and not steps[-1][1]:
            steps.pop()
        if len(steps) < n_files:
            warnings.warn(
                f"The last step of the checkpoint {str(self.folder)!r} is incomplete, "
                "and is computed again.",
                UserWarning,
                stacklevel=4,
            )
        return steps

    def _begin(self):
        """Leave a folder with nothing but a manifest."""
        self.folder.mkdir(exist_ok=True)
        names = self._read_folder()[0]
        self._remove(sorted(name for name in names if name.startswith("step")))
        with _written_aside(self.folder / _MANIFEST) as file:
            file.write(json.dumps(self._manifest).encode())
        self._has_begun = True

    def _write_steps(self, state):
        """Write the last steps, and drop the state of the last but two."""
        if not self._has_begun:
            self._begin()
        last = len(self._records) - 1
        for number in range(self._n_written, last):
            self._write(number, {})
            self._n_written += 1
        self._write(last, state)
        self._n_written = last + 1
        # Two states are kept, because the last step may be incomplete.
        if last >= 2:
            self._write(last - 2, {})

    def _write(self, number, state):
        """Write the file of a step."""
        arrays = {_RECORD + n: array for n, array in self._records[number].items()}
        arrays |= {_STATE + name: array for name, array in state.items()}
        with _written_aside(self.folder / _file_of(number)) as file:
            np.savez(file, **arrays)

    def _attempt(self, write, *args):
        """Write, and warn if that is impossible."""
        try:
            write(*args)
        except OSError as error:
            # Without the name of a file, so that the warning is shown once.
            warnings.warn(
                f"The checkpoint {str(self.folder)!r} could not be written: "
                f"{error.strerror or error}. The computation continues without it. "
                "Free space or choose another folder, to be able to resume.",
                UserWarning,
                stacklevel=4,
            )

    def _remove(self, names):
        """Remove files of the folder, in this order."""
        for name in names:
            (self.folder / name).unlink()


def _file_of(number):
    """Return the name of the file of a step."""
    return f"step-{number:06d}.npz"


def _read_manifest(path):
    """Return the content (dict) of a manifest, None if there is none of ours."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_ours = isinstance(content, dict) and _PROGRAM in content
    return content if is_ours else None


def _read_arrays(path):
    """Return the arrays (dict) of a file, None if it is missing or damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception:  # whatever NumPy and zipfile make of such bytes
        return None


def _difference(arrays, examples, varying, n_values):
    """Return how arrays differ from examples, None if they fit."""
    if arrays.keys() != examples.keys():
        return f"other arrays {sorted(arrays.keys() ^ examples.keys())}"
    for name, array in arrays.items():
        example = np.asarray(examples[name])
        shape = array.shape
        if name in varying and array.ndim:
            shape = (*example.shape[:1], *shape[1:])
        if array.dtype != example.dtype or shape != example.shape:
            return f"{array.dtype} {array.shape} for {name!r}"
        high = n_values.get(name)
        if high is not None and ((array < 0) | (array >= high)).any():
            return f"indices out of range for {name!r}"
    return None


@contextmanager
def _written_aside(path):
    """Open a file that replaces `path`, complete, at the end of the block."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def identify(data, params, outputs=None):
    """Return digests (dict) of data and parameters, for a computation to continue with.

    Parameters
    ----------
    data : dict of array or None
        Compared byte for byte, with their dtypes.
    params : dict
        Compared by value: ``np.int64(2)`` is 2, and a list is a tuple or an array.
        Functions and objects are compared by name.
    outputs : dict or None, default=None
        What parameters that are functions, transformers or modules return on
        `probe_rows` of the data: an array, or a nest of lists of arrays and strings.
        They are compared to seven digits.
    """
    outputs = outputs or {}
    identity = {}
    for name, array in data.items():
        digest = hashlib.sha256()
        if array is not None:
            array = np.ascontiguousarray(array)
            digest.update(f"{array.dtype.str} {array.shape};".encode())
            digest.update(array.tobytes())
        identity[name] = digest.hexdigest()
    for name, value in params.items():
        text = json.dumps([_plain(value), _plain(outputs.get(name), "{:.6e}".format)])
        identity[name] = hashlib.sha256(text.encode()).hexdigest()
    return identity


def probe_rows(n_samples):
    """Return the numbers of the samples on which functions are compared."""
    return np.unique(np.linspace(0, n_samples - 1, _N_PROBES).astype(int))


def _plain(value, number=float):
    """Return a parameter as a nest of lists, numbers and text; `number` maps floats."""
    plain = functools.partial(_plain, number=number)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return number(value + 0.0)  # zero has no sign
    if isinstance(value, dict):
        return {str(name): plain(value[name]) for name in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.random.RandomState):
        return plain(value.get_state(legacy=False))
    if isinstance(value, functools.partial):
        return plain([value.func, value.args, value.keywords])
    if callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    if hasattr(value, "get_params"):
        return plain([type(value), value.get_params(deep=False)])
    if hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    return str(value)


def stream_arrays(random_state):
    """Return the state of a RandomState as arrays by name."""
    state = random_state.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise ValueError(
            "The 'random_state' parameter must be an integer with a checkpoint, or a "
            "RandomState that was made from one. Got a RandomState of "
            f"{state['bit_generator']} instead. Pass an integer."
        )
    return {
        "stream.keys": state["state"]["key"],
        "stream.position": state["state"]["pos"],
        "stream.has_gauss": state["has_gauss"],
        "stream.gauss": state["gauss"],
    }


# For `Checkpoint.open`: NumPy does not check the position, which is an index.
STREAM_VALUES = {"stream.position": 625}


def restore_stream(random_state, arrays):
    """Restore a RandomState from `stream_arrays`."""
    names = "position", "has_gauss", "gauss"
    rest = (arrays[f"stream.{name}"].item() for name in names)
    random_state.set_state(("MT19937", arrays["stream.keys"], *rest))


def without_prefix(prefix, arrays):
    """Return the arrays (dict) whose names have a prefix, without the prefix."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
