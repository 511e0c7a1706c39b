"""Checkpoints of long computations: arrays and a JSON header in one .npz file.

`save_checkpoint` writes a temporary file beside the target and puts it in place in one
step, so that a reader finds the old state or the new one, never a part. Nothing is
pickled, in either direction. `load_checkpoint` refuses whatever is not exactly what was
written; what the numbers mean, index ranges included, is for the caller to check.

>>> import os, tempfile
>>> import numpy as np
>>> from skdiffclust._checkpoint import load_checkpoint, save_checkpoint
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "path.npz")
...     _ = save_checkpoint(path, "toy", {"step": 3}, {"weights": np.eye(2)})
...     header, arrays = load_checkpoint(path, "toy")
>>> header, arrays["weights"].shape
({'step': 3}, (2, 2))
"""

import hashlib
import json
import os
import tempfile
import warnings

import numpy as np

# 2: the digest is also that of the header.
_FORMAT = 2
_HEADER = "header"


def save_checkpoint(path, kind, header, arrays):
    """Write a checkpoint; return whether it could be written, and warn if not.

    `kind` names what it is a checkpoint of, `header` is a dict that JSON can hold, and
    `arrays` maps names (not "header") to arrays of numbers or booleans.
    """
    path = os.fspath(path)
    text = json.dumps(
        {
            "format": _FORMAT,
            "kind": kind,
            "digest": _digest(header, arrays),
            "content": header,
        }
    )
    coded = np.frombuffer(text.encode(), dtype=np.uint8)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=os.path.dirname(path) or ".", suffix=".part", delete=False
        ) as file:
            temporary = file.name
            np.savez(file, **{_HEADER: coded}, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        _remove(temporary)
        warnings.warn(
            # Without the name of the temporary file, so that it is said only once.
            f"The checkpoint {path!r} could not be written: "
            f"{error.strerror or error}. The computation goes on without it. Free "
            "space or choose another file, to be able to resume.",
            UserWarning,
            stacklevel=3,
        )
        return False
    except BaseException:
        _remove(temporary)
        raise
    return True


def load_checkpoint(path, kind):
    """Return the header (dict) and arrays (dict) of a checkpoint of this kind.

    ValueError if the file is not there, cut short, altered, or of another kind.
    """
    path = os.fspath(path)
    try:
        # NumPy would leave a file open that is no archive.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
        found = header["format"], header["kind"]
        digest, content = header["digest"], header["content"]
    except Exception as error:  # whatever zipfile, zlib or NumPy make of such bytes
        # Not NumPy's own words, which advise to unpickle what it cannot read.
        what = error if isinstance(error, OSError) else type(error).__name__
        raise _refusal(path, f"a file that cannot be read ({what})") from None
    if found[0] != _FORMAT:
        raise _refusal(path, f"format {found[0]!r}, where this one is {_FORMAT},")
    if found[1] != kind:
        raise _refusal(path, f"a file of {found[1]!r}, not of {kind!r},")
    if digest != _digest(content, arrays):
        raise _refusal(path, "content that is not what was written")
    return content, arrays


def fingerprint(arrays, params):
    """Return a digest of data and parameters that a resumed computation must share."""
    digest = hashlib.sha256()
    _update(digest, [*arrays, params])
    return digest.hexdigest()


def _update(digest, value):
    """Let a digest take in a parameter: a number, text, array, or what holds such."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        digest.update(type(value).__qualname__.encode())
        value = value.get_params(deep=False)
    if isinstance(value, dict):
        value = [
            part for name in sorted(value, key=str) for part in (name, value[name])
        ]
    if isinstance(value, list | tuple):
        digest.update(f"{type(value).__name__} {len(value)};".encode())
        for part in value:
            _update(digest, part)
    elif hasattr(value, "__array__"):
        # A long array's repr leaves most of it out.
        array = np.ascontiguousarray(value)
        known = (
            repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        )
        digest.update(f"{array.dtype} {array.shape};".encode() + known)
    else:
        # The name of a function, since its repr is an address.
        digest.update(f"{getattr(value, '__qualname__', value)!r};".encode())


def check_fingerprint(path, header, expected):
    """Refuse the header of a checkpoint of other data or parameters."""
    if header.get("fingerprint") != expected:
        raise ValueError(
            f"The checkpoint {os.fspath(path)!r} must be of the same data and "
            "parameters. Got others instead. Pass what it was written with, or "
            "resume=False to start again."
        )


def _digest(header, arrays):
    """Return a digest of a header and of names, types, shapes and bytes of arrays."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _refusal(path, found):
    """Return the ValueError for a checkpoint that cannot be used."""
    return ValueError(
        f"The checkpoint {path!r} must be a file written by this version. Got {found} "
        "instead. Remove it, or pass resume=False to start again."
    )


def _remove(path):
    """Remove a temporary file, if there is one."""
    if path is not None and os.path.exists(path):
        os.remove(path)
