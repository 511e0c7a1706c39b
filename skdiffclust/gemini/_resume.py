"""A path as a checkpoint, and a checkpoint as a path that goes on bit for bit."""

import os

import numpy as np

from skdiffclust._checkpoint import (
    check_fingerprint,
    load_checkpoint,
    save_checkpoint,
)
from skdiffclust.gemini._walk import Step

_KIND = "SparseGEMINI.path"
_COLUMNS = ("alpha", "objective", "penalty", "n_iter", "support", "labels")


def save_path(file, steps, walk, digest):
    """Write steps and the state after the last one; warn if that cannot be done."""
    moving, (name, keys, position, has_gauss, cached) = walk.snapshot()
    arrays = {c: np.array([getattr(step, c) for step in steps]) for c in _COLUMNS}
    arrays["stream"] = keys
    for i, array in enumerate(moving):
        arrays[f"moving{i}"] = array
    for t, step in enumerate(steps):
        for i, array in enumerate(step.weights):
            arrays[f"step{t}_{i}"] = array
    header = {
        "fingerprint": digest,
        "stream": [name, int(position), int(has_gauss), float(cached)],
    }
    save_checkpoint(file, _KIND, header, arrays)


def load_path(file, walk, digest):
    """Return the steps of a checkpoint and put the walk after the last one.

    Without a file there are no steps. ValueError if the file is not one of this data
    and these parameters.
    """
    if not os.path.exists(file):
        return []
    header, arrays = load_checkpoint(file, _KIND)
    check_fingerprint(file, header, digest)
    moving, _ = walk.snapshot()
    found = [arrays[f"moving{i}"] for i in range(len(moving))]
    name, position, has_gauss, cached = header["stream"]
    # The fingerprint fixes all shapes; the digest, that these are what was written.
    walk.restore((found, (name, arrays["stream"], position, has_gauss, cached)))
    n_arrays = len(moving) // 2
    return [
        Step(
            **{c: _scalar(arrays[c][t]) for c in _COLUMNS},
            weights=[arrays[f"step{t}_{i}"] for i in range(n_arrays)],
        )
        for t in range(len(arrays["alpha"]))
    ]


def _scalar(value):
    """Return a row as an array, a number as a Python one."""
    return value if value.ndim else value.item()
