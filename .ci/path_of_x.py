"""Print the files that a warm fit runs, and which of them see its samples.

    python .ci/path_of_x.py

Six hundred samples of five features in three separate clusters. A file sees the samples
if an argument of one of its functions is an array of their shape ("X"); a file that
only gets an object that holds one, in an attribute, a tuple, a list or a dict, is
counted separately ("h").
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import make_blobs

import skdiffclust
from skdiffclust import GEMINI, ClAM, GraphCutClustering, PRCut, SparseGEMINI
from skdiffclust import SpanningForestClustering as Forest

ROOT = str(Path(skdiffclust.__file__).parent)
X = make_blobs(600, 5, centers=3, random_state=0)[0]
FITS = {
    "SpanningForestClustering": Forest(3).fit,
    "GraphCutClustering": GraphCutClustering(3, random_state=0).fit,
    "ClAM": ClAM(3, random_state=0).fit,
    "PRCut": PRCut(3, max_iter=5, random_state=0).fit,
    "GEMINI": GEMINI(3, random_state=0).fit,
    "SparseGEMINI.path": SparseGEMINI(3, random_state=0).path,
}


def holds(value, depth=2):
    """Whether a value is an array of the shape of X, or holds one."""
    if isinstance(value, np.ndarray):
        return value.shape == X.shape
    if depth == 0 or isinstance(value, str | bytes):
        return False
    parts = getattr(value, "__dict__", value)
    parts = parts.values() if isinstance(parts, dict) else parts
    is_list = isinstance(parts, tuple | list) or hasattr(value, "__dict__")
    return is_list and any(holds(part, depth - 1) for part in list(parts)[:50])


def path_of(fit):
    """Return the files that ran in a fit, with 2 for X, 1 for what holds it, and 0."""
    ran = {}

    def note(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(ROOT):
            count = frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount
            names = frame.f_code.co_varnames[:count]
            given = [frame.f_locals.get(argument) for argument in names]
            sees = 2 * any(holds(value, 0) for value in given)
            ran[name] = max(ran.get(name, 0), sees or any(map(holds, given)))

    sys.setprofile(note)
    try:
        fit(X)
    finally:
        sys.setprofile(None)
    return ran


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, fit in FITS.items():
        fit(X)
        ran = path_of(fit)
        marks = [" hX"[sees] for sees in ran.values()]
        print(
            f"{name}: {len(ran)} files, {marks.count('X')} see X, "
            f"{marks.count('h')} an object that holds it"
        )
        for file, mark in sorted(zip(ran, marks, strict=True)):
            print("   ", mark, Path(file).relative_to(ROOT))
