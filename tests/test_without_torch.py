"""torch is an extra: without it all estimators fit, with the same results."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Torch cannot be found, as where it is not installed.
BLOCK = """
import sys
from importlib.machinery import PathFinder

class WithoutTorch(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname != "torch":
            return super().find_spec(fullname, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTorch
"""
# What every estimator finds is printed, bit for bit.
FITS = """
import hashlib
import numpy as np
import skdiffclust
from skdiffclust import *
from sklearn.datasets import make_blobs

X, y = make_blobs(60, centers=3, n_features=4, random_state=0)
few = np.where(np.arange(60) % 5, -1, y)
estimators = [
    ClAM(3, n_init=2, max_iter=5, random_state=0),
    ClAM("auto", n_init=2, max_iter=5, random_state=0),
    GEMINI(3, n_init=2, max_iter=5, random_state=0),
    GEMINI(3, model="mlp", n_init=1, max_iter=5, random_state=0),
    PRCut(3, encoder="mlp", max_iter=5, random_state=0),
    PRCut(3, encoder="linear", max_iter=5, random_state=0),
    GraphCutClustering(3, random_state=0),
    PRCut(
        3,
        encoder="mlp",
        objective="bound",
        init="random",
        n_init=1,
        random_state=0,
    ),
    SparseGEMINI(3, n_init=1, max_iter=5, random_state=0),
    SparseGEMINICV(
        SparseGEMINI(3, n_init=1, max_iter=5),
        n_resamples=2,
        n_alphas=3,
        random_state=0,
    ),
    SpanningForestClustering(3),
    AssociativeImputer(random_state=0),
    SpanningForestEmbedding(3, max_iter=3, random_state=0),
    SpanningForestEmbedding(
        3, encoder="mlp", max_iter=3, random_state=0
    ),
]
gaps = np.where(np.random.RandomState(0).uniform(size=X.shape) < 0.2, np.nan, X)
import warnings
warnings.simplefilter("ignore")  # of few epochs
for estimator in estimators:
    rows = gaps if isinstance(estimator, AssociativeImputer) else X
    estimator.fit(rows, few)
    methods = [name for name in ("predict", "transform") if hasattr(estimator, name)]
    found = [getattr(estimator, name)(rows) for name in methods]
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in found))
    device = getattr(estimator, "device_", "")
    print(type(estimator).__name__, digest.hexdigest(), device)
assert {type(e).__name__ for e in estimators} == {
    name
    for name in skdiffclust.__all__
    if isinstance(getattr(skdiffclust, name), type) and name != "DeepClAM"
}
"""

REFUSED = {
    "skdiffclust.nn needs torch": "import skdiffclust.nn",
    "skdiffclust.nn needs torch ": "from skdiffclust import nn",
    "DeepClAM needs torch": "DeepClAM(3).fit(X)",
    "PRCut with device='cuda' needs torch": "PRCut(3, device='cuda').fit(X)",
    "PRCut with device='cuda:1' needs torch": "PRCut(3, device='cuda:1').fit(X)",
    "GEMINI with a module as model needs torch": "GEMINI(3, model=abs).fit(X)",
    "PRCut with a module as encoder needs torch": "PRCut(3, encoder=abs).fit(X)",
    "SpanningForestEmbedding with a module as encoder needs torch": (
        "SpanningForestEmbedding(3, encoder=abs).fit(X, y)"
    ),
    "SpanningForestEmbedding with device='cuda' needs torch": (
        "SpanningForestEmbedding(3, device='cuda').fit(X, y)"
    ),
}


def run_python(code):
    """Run code in a fresh process; return its output."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def without_torch():
    """Return what the estimators find without torch, a line each."""
    return run_python(BLOCK + FITS)


@pytest.mark.full
def test_every_estimator_fits_without_torch(without_torch):
    assert without_torch.count("\n") == 14


@pytest.mark.full
@pytest.mark.torch
def test_every_estimator_finds_the_same_with_torch_and_without(without_torch):
    assert run_python(FITS) == without_torch


@pytest.mark.full
def test_what_needs_torch_says_so_in_one_sentence():
    calls = "\n".join(
        f"refused({sentence.strip()!r}, {call!r})" for sentence, call in REFUSED.items()
    )
    code = f"""
import numpy as np
from skdiffclust import *
X = np.random.RandomState(0).normal(size=(30, 2))
y = np.arange(30) % 3

def refused(sentence, call):
    try:
        exec(call)
    except ImportError as error:
        assert str(error) == (
            sentence + ", which is not installed: run 'pip install torch'."
        ), error
        print("refused")

{calls}
try:
    PRCut(3, device="gpu").fit(X)
except ValueError as error:
    assert "devices present: cpu. Got 'gpu' instead" in str(error)
    print("refused")
"""
    assert run_python(BLOCK + code) == "refused\n" * (len(REFUSED) + 1)
