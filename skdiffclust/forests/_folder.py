"""A folder for the files of one run, of which nothing is left behind."""

import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "skdiffclust-tree-"
_LOCK = "lock"
# Tasks of a run that failed may write a last file: seconds until it is removed.
_PATIENCE = 5.0


@contextmanager
def own_folder(parent=None):
    """Make a folder in `parent`, and remove it at the end of the block.

    Removes those of runs that were killed: a run locks a file, and its system unlocks
    it when the process ends.
    """
    parent = parent or os.environ.get("JOBLIB_TEMP_FOLDER") or tempfile.gettempdir()
    for other in Path(parent).glob(f"{_PREFIX}*"):
        if _is_abandoned(other):
            shutil.rmtree(other, ignore_errors=True)
    own = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    try:
        with open(own / _LOCK, "wb") as file:
            _lock(file)
            yield own
    finally:
        end = time.monotonic() + _PATIENCE
        shutil.rmtree(own, ignore_errors=True)
        while own.exists() and time.monotonic() < end:
            time.sleep(0.05)
            shutil.rmtree(own, ignore_errors=True)


def _lock(file):
    """Lock a file until it is closed; OSError if another process has done so."""
    try:
        import fcntl
    except ImportError:  # on Windows, where a file that is open cannot be removed
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_abandoned(folder):
    """Whether the run that made a folder has ended."""
    try:
        with open(folder / _LOCK, "r+b") as file:
            _lock(file)
        (folder / _LOCK).unlink()
    except OSError:
        return False
    return True
