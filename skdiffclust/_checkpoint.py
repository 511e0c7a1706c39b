"""Checkpoints of long computations: a folder with a manifest and one file per step.

A computation passes to `Checkpoint.append` the record of a step, which is kept, and the
state that the next step starts from, of which the last two are kept, each as a dict of
arrays by name. `Checkpoint.open` returns the records and the last state. Every file is
written under another name and then renamed, so that a killed process leaves complete
files; a last step that is incomplete anyway, after a power failure, is dropped and
computed again. The bytes written are linear in the number of steps.

Nothing is pickled, and nothing is trusted: names, shapes, dtypes and sizes are compared
with those expected before an array is read, and values with their ranges afterwards, so
that a forged file takes no more memory than a valid one and never reaches a compiled
kernel. The valid contents of a record or a state are a dict of `Field` by name.

>>> import os, tempfile
>>> import numpy as np
>>> from skdiffclust._checkpoint import Checkpoint, Field, identify
>>> def sums(folder, n_steps, resume=False):
...     values = np.arange(3.0)
...     checkpoint = Checkpoint(
...         folder,
...         "sums",
...         identify({"values": values}, {"factor": 2}),
...         record={"total": Field("float64", low=0)},
...         state={"values": Field("float64", (3,))},
...     )
...     records, state = checkpoint.open(resume=resume)
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
import math
import os
import re
import stat
import warnings
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

# 1: one file, digest of the arrays. 2: digest of the header, too. 3: a folder.
_FORMAT = 3
_MANIFEST = "manifest.json"
_HEADER = "header"
_STEP = re.compile(r"step-\d{6,}\.npz")
_OURS = re.compile(r"(manifest\.json|(step|state)-\d{6,}\.npz)(\.part)?")
# Largest numbers of bytes of a manifest, of a header, of the header of an array, and of
# an entry of an archive besides its name.
_LARGEST_MANIFEST = 2**18
_LARGEST_HEADER = 2**10
_ARRAY_HEADER = 2**9
_SLACK = 2**9
_N_PROBES = 32


class AtMost(int):
    """A length of an array that may also be smaller."""


@dataclass(frozen=True)
class Field:
    """Valid dtype, shape and values of an array of a record or a state.

    Parameters
    ----------
    dtype : str or dtype
    shape : tuple of int or AtMost, default=()
        The empty tuple is a number.
    low, high : float, default=-inf, inf
        Range of the values, both ends included.
    finite : bool, default=True
        Whether NaN and infinity are refused.
    choices : tuple of bytes or None, default=None
        Valid values of a dtype "S".
    """

    dtype: object
    shape: tuple = ()
    low: float = -np.inf
    high: float = np.inf
    finite: bool = True
    choices: tuple | None = None

    @property
    def n_bytes(self):
        """The largest number of bytes of such an array."""
        n_bytes = np.dtype(self.dtype).itemsize
        for length in self.shape:
            n_bytes *= int(length)
        return n_bytes

    def admits(self, shape):
        """Whether an array may have this shape."""
        return len(shape) == len(self.shape) and all(
            0 <= found <= length if isinstance(length, AtMost) else found == length
            for found, length in zip(shape, self.shape, strict=True)
        )

    def fault(self, array):
        """Return what is wrong with the values of an array, None if nothing is."""
        if self.choices is not None:
            return None if array.item() in self.choices else "a word out of place"
        if not array.size:
            return None
        if array.dtype.kind == "b":
            # Any other byte is true, but not equal to one.
            return "bytes for booleans" if array.view(np.uint8).max() > 1 else None
        if array.dtype.kind == "f" and self.finite and not np.isfinite(array).all():
            return "NaN or infinity"
        bounded = self.low > -np.inf or self.high < np.inf
        if bounded and not (array.min() >= self.low and array.max() <= self.high):
            return f"values beyond [{self.low:.6g}, {self.high:.6g}]"
        return None


class _NotWholeError(Exception):
    """A file is missing, incomplete, or not as it was written."""


class _UnlawfulError(Exception):
    """A file is complete, but not one that this computation writes."""


class Checkpoint:
    """The steps of one computation in a folder.

    Parameters
    ----------
    folder : path-like
        Created if it does not exist; its parent must exist.
    kind : str
        The kind of computation.
    identity : dict of str
        What `identify` returned for the data and parameters: a computation continues
        only with those that it began with.
    record : dict of Field
        Fields of the record of each step.
    state : dict of Field
        Fields of the state that the next step starts from.
    """

    def __init__(self, folder, kind, identity, *, record, state):
        self.folder = os.fspath(folder)
        self.kind = kind
        self.identity = identity
        self._fields = {"step": record, "state": state}
        content = {"format": _FORMAT, "kind": kind, "identity": identity}
        self._manifest = json.dumps(content, sort_keys=True).encode()
        self._restart()

    def open(self, *, resume):
        """Return the records (list of dicts) and the last state (dict), or ([], None).

        Without `resume`, or if there is none, a new checkpoint replaces any existing
        one. ValueError if the folder holds anything else, or, with `resume`, if it is
        not one of this computation.
        """
        self._restart()
        names = self._names()
        # Without a manifest it is one whose removal was interrupted.
        if resume and _MANIFEST in names:
            return self._load(names)
        if self._unknown():
            warnings.warn(
                f"The checkpoint {self.folder!r} cannot be resumed, since "
                f"{self._unknown()} cannot be compared with later values. {_NAMELESS}",
                UserWarning,
                stacklevel=3,
            )
        self._attempt(self._begin)
        return [], None

    def append(self, record, state):
        """Write a step; return whether it could be written, and warn if not.

        A step that could not be written is tried again with the next one.
        """
        if self._is_closed:
            return False
        try:
            record = _as_fields(record, self._fields["step"])
            state = _as_fields(state, self._fields["state"])
        except _UnlawfulError as fault:
            self._is_closed = True
            self._warn(f"a step has {fault}")
            return False
        self._pending.append(record)
        return self._attempt(self._write_pending, state)

    def refusal(self, found):
        """Return the ValueError for a checkpoint that cannot be used."""
        return ValueError(
            f"The checkpoint {self.folder!r} must be a folder written by this version "
            f"for this computation. Got {found} instead. Remove it, or pass "
            "resume=False to start again."
        )

    def _restart(self):
        """Start without any step."""
        self._last = hashlib.sha256(self._manifest).hexdigest()
        self._has_begun = self._is_closed = False
        self._n_written = 0
        self._pending = []  # records that could not be written yet
        self._states = []  # numbers of the steps whose state is there

    def _unknown(self):
        """Return the names of parameters that cannot be identified."""
        return [name for name, value in self.identity.items() if value is None]

    def _path(self, name):
        """Return the path of a file of the folder."""
        return os.path.join(self.folder, name)

    def _names(self):
        """Return the names of the files there; refuse a folder with other ones."""
        if not os.path.lexists(self.folder):
            return []
        if not os.path.isdir(self.folder):
            raise ValueError(
                f"The checkpoint {self.folder!r} must be a folder, or the path of one "
                "to create. Got a file instead, as earlier versions wrote it. Remove "
                "it, or choose another name."
            )
        try:
            with os.scandir(self.folder) as entries:
                names = [e.name for e in entries if not e.name.startswith(".")]
        except OSError as error:
            raise self.refusal(f"one that cannot be read ({error.strerror})") from None
        strange = [name for name in names if not _OURS.fullmatch(name)]
        if strange:
            raise ValueError(
                f"The checkpoint {self.folder!r} must be a folder of its own. Got one "
                f"with {min(strange)!r} in it instead. Choose another name."
            )
        return names

    def _attempt(self, write, *args):
        """Write; return whether that was possible, and warn if not."""
        try:
            write(*args)
        except OSError as error:
            # Without the name of a file, so that the warning is shown once.
            self._warn(error.strerror or error)
            return False
        return True

    def _warn(self, why):
        """Warn that nothing could be written."""
        warnings.warn(
            f"The checkpoint {self.folder!r} could not be written: {why}. The "
            "computation continues without it. Free space or choose another folder, to "
            "be able to resume.",
            UserWarning,
            stacklevel=5,
        )

    def _begin(self):
        """Leave a folder with nothing but a manifest."""
        if not os.path.isdir(self.folder):
            os.mkdir(self.folder)
        # Its manifest first: without it the rest is not a checkpoint.
        self._remove(sorted(self._names()))
        with _written_aside(self._path(_MANIFEST)) as file:
            file.write(self._manifest)
        self._has_begun = True

    def _write_pending(self, state):
        """Write the state after the last pending record, then the records."""
        if not self._has_begun:
            self._begin()
        last = self._n_written + len(self._pending) - 1
        digest = self._write("state", last, state, {})
        while self._pending:
            is_last = len(self._pending) == 1
            links = {"previous": self._last, "state": digest if is_last else ""}
            self._last = self._write("step", self._n_written, self._pending[0], links)
            self._n_written += 1
            self._pending.pop(0)
        # The last two are kept, because the last may be incomplete.
        self._states.append(last)
        self._remove(_name("state", step) for step in self._states[:-2])
        self._states = self._states[-2:]

    def _write(self, role, step, arrays, links):
        """Write a file of a step; return its digest."""
        header = {**self._about(role, step), **links}
        digest = _digest(header, arrays)
        text = json.dumps(header | {"digest": digest}).encode()
        arrays = {_HEADER: np.frombuffer(text, dtype=np.uint8), **arrays}
        with (
            _written_aside(self._path(_name(role, step))) as file,
            zipfile.ZipFile(file, "w") as archive,
        ):
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(
                        member, array, version=(1, 0), allow_pickle=False
                    )
        return digest

    def _about(self, role, step):
        """Return the header of a file, without its links and its digest."""
        return {"format": _FORMAT, "kind": self.kind, "role": role, "step": step}

    def _remove(self, names):
        """Remove files of the folder, in this order."""
        for name in names:
            os.remove(self._path(name))

    def _load(self, names):
        """Return the records and the last state; remove what belongs to neither."""
        self._check_manifest()
        n_steps = sum(bool(_STEP.fullmatch(name)) for name in names)
        if not all(_name("step", step) in names for step in range(n_steps)):
            raise self.refusal("one in which a step is missing")
        records, links = self._read_steps(n_steps)
        n_torn = n_steps - len(records)
        state = None
        while records and state is None:
            step = len(records) - 1
            expected = links[step]["state"]
            try:
                if expected:
                    state, header = self._read("state", step, [])
                    if header["digest"] != expected:
                        raise self.refusal(f"one whose state {step} is of another step")
            except _NotWholeError as fault:
                n_torn += 1
                if n_torn > 1:
                    raise self.refusal(f"one whose state {step} {fault}") from None
            if state is None:
                records.pop()
        self._n_written = len(records)
        if records:
            self._last = links[step]["digest"]
            self._states = [n for n in (step - 1, step) if _name("state", n) in names]
        if n_torn:
            warnings.warn(
                f"The last step of the checkpoint {self.folder!r} is incomplete, and "
                "is computed again.",
                UserWarning,
                stacklevel=4,
            )
        kept = {_name("step", number) for number in range(len(records))}
        kept |= {_MANIFEST, *(_name("state", number) for number in self._states)}
        self._attempt(self._remove, sorted({*names} - kept, reverse=True))
        self._has_begun = True
        return records, state

    def _check_manifest(self):
        """Refuse a manifest that is invalid or of other data or parameters."""
        try:
            with _opened(self._path(_MANIFEST), _LARGEST_MANIFEST) as file:
                manifest = file.read(_LARGEST_MANIFEST)
            content = json.loads(manifest)
            found = content["format"]
            kind = content["kind"]
            identity = dict(content["identity"])
        except (_NotWholeError, _UnlawfulError) as fault:
            raise self.refusal(f"one whose manifest {fault}") from None
        except Exception:  # whatever json makes of such bytes
            raise self.refusal("one whose manifest cannot be read") from None
        if found != _FORMAT:
            raise self.refusal(f"format {found!r}, where this one is {_FORMAT},")
        if kind != self.kind:
            raise self.refusal(f"one of {kind!r}, not of {self.kind!r},")
        if self._unknown():
            raise ValueError(
                f"The checkpoint {self.folder!r} must be of parameters that can be "
                f"compared. Got {self._unknown()} instead. {_NAMELESS}"
            )
        if identity != self.identity:
            names = sorted(identity.keys() | self.identity.keys())
            other = [n for n in names if identity.get(n) != self.identity.get(n)]
            raise ValueError(
                f"The checkpoint {self.folder!r} must have been written for the same "
                f"data and parameters. Got different values of {other} instead. Pass "
                "those that it was written with, or resume=False to start again."
            )
        if manifest != self._manifest:
            raise self.refusal("one whose manifest is altered")

    def _read_steps(self, n_steps):
        """Return the records and their links, without an incomplete last one."""
        records = []
        links = []
        previous = self._last
        for step in range(n_steps):
            try:
                record, link = self._read("step", step, ["previous", "state"])
            except _NotWholeError as fault:
                if step < n_steps - 1:
                    raise self.refusal(f"one whose step {step} {fault}") from None
                break
            if link["previous"] != previous:
                raise self.refusal(f"one whose step {step} follows another one")
            records.append(record)
            links.append(link)
            previous = link["digest"]
        return records, links

    def _read(self, role, step, links):
        """Return the arrays of a file of a step, and its digest and links.

        _NotWholeError if it is missing, incomplete or altered; ValueError if it is
        complete but not one that this computation writes.
        """
        try:
            arrays, header = _read_arrays(
                self._path(_name(role, step)), self._fields[role]
            )
            known = {name: header.pop(name, None) for name in ["digest", *links]}
            if header != self._about(role, step):
                raise _UnlawfulError("is of something else")
        except _UnlawfulError as fault:
            raise self.refusal(f"one whose {role} {step} {fault}") from None
        return arrays, known


_NAMELESS = (
    "A function or object is known by its name and by what it returns on samples of X: "
    "pass one that takes them, and always returns the same."
)


def _name(role, step):
    """Return the name of a file."""
    return f"{role}-{step:06d}.npz"


def _as_fields(values, fields):
    """Return values as the arrays of fields; _UnlawfulError if they are not."""
    if values.keys() != fields.keys():
        raise KeyError(*sorted(values.keys() ^ fields.keys()))
    arrays = {}
    for name, field in fields.items():
        array = np.asarray(values[name])
        array = array.astype(field.dtype, order="C", casting="safe", copy=False)
        fault = field.fault(array) if field.admits(array.shape) else "a shape"
        if fault is not None:
            raise _UnlawfulError(f"{fault} in {name!r}")
        arrays[name] = array
    return arrays


@contextmanager
def _written_aside(path):
    """Open a file that replaces `path`, complete, at the end of the block."""
    part = f"{path}.part"
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.remove(part)
        raise


def _opened(path, largest):
    """Open a file to read; refuse anything that is not a file, or too large."""
    try:
        about = os.stat(path)
        # Opening a pipe would wait for a writer.
        if not stat.S_ISREG(about.st_mode):
            raise _UnlawfulError("is no regular file")
        if about.st_size > largest:
            raise _UnlawfulError(f"has {about.st_size} bytes")
        return open(path, "rb")
    except FileNotFoundError:
        raise _NotWholeError("is missing") from None
    except OSError as error:
        raise _UnlawfulError(f"cannot be read ({error.strerror})") from None


def _read_arrays(path, fields):
    """Return the arrays (dict) and the header (dict) of an archive."""
    fields = {_HEADER: Field("uint8", (AtMost(_LARGEST_HEADER),)), **fields}
    largest = sum(_largest_member(name, field) for name, field in fields.items())
    with _opened(path, largest) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = _members(archive, fields)
                # All headers of arrays before any array.
                places = {
                    name: _place(archive, members[name], field)
                    for name, field in fields.items()
                }
                arrays = {
                    name: _array(archive, members[name], *place)
                    for name, place in places.items()
                }
            header = json.loads(arrays.pop(_HEADER).tobytes())
            is_intact = header["digest"] == _digest(header, arrays)
        except _UnlawfulError:
            raise
        except Exception:  # whatever zipfile, zlib, json or NumPy make of such bytes
            raise _NotWholeError("is not whole") from None
    if not is_intact:
        raise _NotWholeError("is not what was written")
    for name, field in fields.items():
        fault = None if name == _HEADER else field.fault(arrays[name])
        if fault is not None:
            raise _UnlawfulError(f"has {fault} in {name!r}")
    return arrays, header


def _largest_member(name, field):
    """Return the largest number of bytes of an array in an archive."""
    # The name is written twice.
    return field.n_bytes + 2 * len(name.encode()) + _ARRAY_HEADER + _SLACK


def _members(archive, fields):
    """Return the entries (dict) of an archive by the names of arrays."""
    entries = archive.infolist()
    members = {entry.filename.removesuffix(".npy"): entry for entry in entries}
    if len(entries) != len(fields) or members.keys() != fields.keys():
        raise _UnlawfulError("has other arrays")
    return members


def _place(archive, member, field):
    """Return dtype, shape and offset of an array, from headers alone."""
    if member.compress_type != zipfile.ZIP_STORED:
        raise _UnlawfulError(f"has a compressed {member.filename!r}")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise _UnlawfulError(f"has {member.filename!r} in another format")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(
            file, max_header_size=_ARRAY_HEADER
        )
        offset = file.tell()
    if is_fortran or dtype != field.dtype or not field.admits(shape):
        raise _UnlawfulError(f"has {dtype} {shape} in {member.filename!r}")
    return dtype, shape, offset


def _array(archive, member, dtype, shape, offset):
    """Return an array of an archive."""
    n_bytes = dtype.itemsize * math.prod(shape)
    if member.file_size != offset + n_bytes:
        raise _NotWholeError("is not whole")
    with archive.open(member) as file:
        content = file.read(offset + n_bytes)
    return np.ndarray(shape, dtype, bytearray(content[offset:]))


def _digest(header, arrays):
    """Return a digest of a header and of names, types, shapes and bytes of arrays."""
    header = {name: value for name, value in header.items() if name != "digest"}
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def identify(data, params, outputs=None):
    """Return digests (dict) of data and parameters, for a computation to continue with.

    Parameters
    ----------
    data : dict of array or None
        Compared byte for byte, with their dtypes.
    params : dict
        Compared by value: ``np.int64(2)`` is 2, and a list is a tuple or an array.
    outputs : dict or None, default=None
        What parameters that are functions, transformers or modules return on
        `probe_rows` of the data: an array, or a nest of lists of arrays and strings.
        They are compared by their qualified name, and these to ten digits.

    Returns
    -------
    dict
        Of a digest, or None for a function or an object without an output.
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
        digest = hashlib.sha256()
        try:
            _update(digest, value, is_probed=name in outputs)
            _update(digest, _rounded(outputs.get(name)), is_probed=False)
        except _NamelessError:
            identity[name] = None
            continue
        identity[name] = digest.hexdigest()
    return identity


def probe_rows(n_samples):
    """Return the numbers of the samples on which functions are compared."""
    return np.unique(np.linspace(0, n_samples - 1, _N_PROBES).astype(int))


class _NamelessError(Exception):
    """A parameter is a function or an object that cannot be compared."""


def _update(digest, value, is_probed):
    """Update a digest with a parameter: a number, text, array, or a nest of these."""
    update = functools.partial(_update, digest, is_probed=is_probed)
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if type(value).__module__ == "torch" and not hasattr(value, "__array__"):
        value = str(value)  # a device or a dtype
    if value is None or isinstance(value, bool | str | bytes):
        digest.update(f"{value!r};".encode())
    elif isinstance(value, Integral):
        digest.update(f"int {int(value)};".encode())
    elif isinstance(value, Real):
        digest.update(f"float {float(value).hex()};".encode())
    elif isinstance(value, type | np.dtype):
        digest.update(f"type {getattr(value, '__qualname__', value)};".encode())
    elif isinstance(value, os.PathLike):
        update(os.fspath(value))
    elif isinstance(value, dict):
        digest.update(f"dict {len(value)};".encode())
        for name in sorted(value, key=str):
            update(name)
            update(value[name])
    elif isinstance(value, list | tuple):
        array = _numbers(value)
        if array is None:
            digest.update(f"list {len(value)};".encode())
            for part in value:
                update(part)
        else:
            update(array)
    elif hasattr(value, "get_params"):
        update(type(value))
        update(value.get_params(deep=False))
    elif isinstance(value, np.random.RandomState):
        update(value.get_state(legacy=False))
    elif isinstance(value, np.random.Generator):
        update(value.bit_generator.state)
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype.kind not in "biufc":
            update(["array", *array.shape, array.tolist()])
            return
        wide = {"i": np.int64, "u": np.uint64, "f": np.float64, "c": np.complex128}
        array = array.astype(wide.get(array.dtype.kind, bool), order="C")
        if array.dtype == np.uint64 and (not array.size or array.max() < 2**63):
            array = array.astype(np.int64)
        digest.update(f"array {array.dtype.kind} {array.shape};".encode())
        digest.update(array.tobytes())
    elif is_probed:
        function = value
        while isinstance(function, functools.partial):
            function = function.func
        name = getattr(function, "__qualname__", type(function).__qualname__)
        digest.update(f"name {name};".encode())
    else:
        raise _NamelessError


def _numbers(values):
    """Return a sequence as an array if it holds numbers of one kind, else None."""
    kinds = {type(v.item() if isinstance(v, np.generic) else v) for v in values}
    if kinds != {int} and kinds != {float}:
        return None
    array = np.array(values)
    return None if array.dtype == object else array


def _rounded(output):
    """Return what a function returned with its numbers to ten significant digits."""
    if output is None or isinstance(output, str):
        return output
    if isinstance(output, list | tuple):
        return [_rounded(part) for part in output]
    array = np.asarray(output)
    if array.dtype.kind not in "fc":
        return array
    # Zero is without a sign.
    parts = array.ravel().view(array.real.dtype) + 0.0
    return [*array.shape, " ".join(f"{part:.9e}" for part in parts.tolist())]


# The state of a RandomState, as arrays by name.
STREAM = {
    "stream.keys": Field("uint32", (624,)),
    "stream.position": Field("int64", low=0, high=624),
    "stream.has_gauss": Field("int64", low=0, high=1),
    "stream.gauss": Field("float64"),
}


def stream_arrays(random_state):
    """Return the state of a RandomState as arrays by the names of `STREAM`."""
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


def restore_stream(random_state, arrays):
    """Restore a RandomState from `stream_arrays`; return whether that is possible."""
    keys = arrays["stream.keys"]
    # With all used bits zero, the generator returns zeros forever.
    if not (keys[0] >> 31 or keys[1:].any()):
        return False
    numbers = [arrays[f"stream.{name}"] for name in ("position", "has_gauss", "gauss")]
    random_state.set_state(("MT19937", keys, *(number.item() for number in numbers)))
    return True
