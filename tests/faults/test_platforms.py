"""What Linux can show of Windows and macOS: paths, spawn, encodings, no POSIX."""

import ast
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
ODD = "données d'été – 数据"

# A script of a user, whose children are started as on Windows and macOS.
SPAWN = """
import multiprocessing
import pickle
import warnings
from pathlib import Path

import numpy as np


def answer(estimator, X, y):
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", category=EncodingWarning, module="skdiffclust")
    if hasattr(estimator, "fit_predict"):
        return estimator.fit(X).predict(X)
    return estimator.fit(X, y).transform(X)


if __name__ == "__main__":
    from skdiffclust import SparseGEMINI
    from skdiffclust.forests import minimum_spanning_tree_by_blocks

    estimators, X, y = pickle.loads(Path("given.pickle").read_bytes())
    np.save("échantillons.npy", X)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        answers = pool.starmap(answer, [(one, X, y) for one in estimators])
    folder = Path("étapes 1").resolve()
    path = SparseGEMINI(3, max_iter=20, random_state=0)
    warnings.simplefilter("ignore")
    weights = []
    for resume in (False, True):
        found = path.path(X, checkpoint=folder, resume=resume)
        weights.append(found.alphas)
    samples = np.load("échantillons.npy", mmap_mode="r")
    tree = minimum_spanning_tree_by_blocks(samples, n_blocks=2)
    Path("found.pickle").write_bytes(pickle.dumps((answers, weights, tree.lengths)))
"""

# What NumPy and others may use has been imported before it is taken away.
WITHOUT_POSIX = """
import multiprocessing.pool
import os
import pickle
import signal
import sys
import warnings
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import joblib
import matplotlib.pyplot
import numba
import numpy as np
import pandas
import scipy.sparse.csgraph
import sklearn.cluster
import sklearn.manifold
from numba.core import caching

try:
    import torch
except ImportError:
    pass

estimators, X, y = pickle.loads(Path("given.pickle").read_bytes())
for module in [name for name in sys.modules if name.startswith("skdiffclust")]:
    del sys.modules[module]
for name in "fork register_at_fork sysconf getuid killpg sched_getaffinity".split():
    vars(os).pop(name)
for name in "SIGKILL SIGALRM setitimer SIGUSR1".split():
    vars(signal).pop(name)
for name in "resource fcntl grp pwd termios".split():
    sys.modules[name] = None
import skdiffclust

for module in walk_packages(skdiffclust.__path__, "skdiffclust."):
    if not module.name.endswith("_triton"):
        import_module(module.name)
warnings.simplefilter("ignore")
estimators = pickle.loads(Path("given.pickle").read_bytes())[0]
answers = []
for one in estimators:
    if hasattr(one, "fit_predict"):
        answers.append(one.fit(X).predict(X))
    else:
        answers.append(one.fit(X, y).transform(X))
Path("found.pickle").write_bytes(pickle.dumps(answers))
"""


@pytest.fixture(scope="module")
def problem(blobs, all_estimators):
    """Return pickled estimators and data, and the answers of this process."""
    number = np.arange(len(blobs))
    y = np.where(number % 2, number % 3, -1)
    given = pickle.dumps((all_estimators, np.array(blobs), y))  # before the fits
    answers = [
        one.fit(blobs).predict(blobs)
        if hasattr(one, "fit_predict")
        else one.fit(blobs, y).transform(blobs)
        for one in all_estimators
    ]
    return given, answers


def run_in(folder, program, given, **environment):
    """Run a program in a folder that has the estimators; return what it has found."""
    folder.mkdir()
    (folder / "given.pickle").write_bytes(given)
    (folder / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "program.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return pickle.loads((folder / "found.pickle").read_bytes())


@pytest.mark.full
@pytest.mark.few_epochs
def test_spawned_children_in_a_folder_with_spaces_and_letters_beyond_ascii(
    tmp_path, problem, blobs
):
    given, expected = problem
    answers, alphas, lengths = run_in(tmp_path / ODD, SPAWN, given)
    for found, own in zip(answers, expected, strict=True):
        assert np.array_equal(found, own)
    assert np.array_equal(*alphas)
    assert len(lengths) == len(blobs) - 1
    assert list((tmp_path / ODD / "étapes 1").glob("*.npz"))


@pytest.mark.full
@pytest.mark.few_epochs
def test_nothing_is_needed_that_only_posix_has(tmp_path, problem):
    given, expected = problem
    found = run_in(tmp_path / "project", WITHOUT_POSIX, given)
    for one, own in zip(found, expected, strict=True):
        assert np.array_equal(one, own)


def test_compiled_kernels_are_kept_in_such_a_folder(tmp_path):
    folder = tmp_path / ODD
    program = (
        "import pickle\n"
        "from pathlib import Path\n"
        "from skdiffclust._compiled import compiled\n"
        "@compiled()\n"
        "def twice(x):\n"
        "    return 2 * x\n"
        "Path('found.pickle').write_bytes(pickle.dumps(twice(2)))\n"
    )
    found = run_in(folder, program, b"", NUMBA_CACHE_DIR=str(folder / "noyaux é"))
    assert found == 4
    assert list((folder / "noyaux é").rglob("*.nbc"))


def text_calls(tree):
    """Yield the calls that read or write text, and whether they name an encoding."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        named = {keyword.arg for keyword in call.keywords}
        literals = [one.value for one in call.args if isinstance(one, ast.Constant)]
        if name == "read_text":
            yield call, "encoding" in named or "utf-8" in literals
        elif name == "write_text":
            yield call, "encoding" in named or "utf-8" in literals[-1:]
        elif name in ("open", "fdopen", "NamedTemporaryFile"):
            modes = [one for one in literals if isinstance(one, str)]
            modes += [k.value.value for k in call.keywords if k.arg == "mode"]
            # A method of a path takes a mode at most; tarfile.open takes a file.
            is_method = not call.keywords and len(literals) == len(call.args)
            is_ours = isinstance(call.func, ast.Name) or is_method
            is_text = is_ours and not any("b" in mode for mode in modes)
            yield call, "encoding" in named or not is_text


@pytest.mark.parametrize("folder", ["skdiffclust", "examples", "benchmarks", "tests"])
def test_text_is_read_and_written_in_utf_8(folder):
    missing = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for call, is_named in text_calls(ast.parse(path.read_text("utf-8")))
        if not is_named
    ]
    assert not missing


def test_a_call_without_an_encoding_is_found():
    source = "open('a'); open('a', 'rb'); p.read_text(); p.write_text('é', 'utf-8')"
    found = [is_named for _, is_named in text_calls(ast.parse(source))]
    assert found == [False, True, False, True]
