"""FAULT 50: sparse matrices whose indices leave their shape, each in a subprocess."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from skdiffclust._validation import refuse_container

REFUSED = "parameter must have indices inside its shape"

# Compiled code that follows such an index ends the process, so the test must not be in
# it. Prints {call: message of its ValueError or "accepted"}; `calls(broken)` is defined
# by each test.
SCRIPT = """
import json, pickle, sys
import numpy as np
from scipy import sparse
from sklearn.base import clone

given = pickle.load(sys.stdin.buffer)
rng = np.random.RandomState(0)
n = 30
X = given["X"][:n] * (rng.random_sample((n, given["X"].shape[1])) < 0.9)
labels = np.arange(n) % 3
square = sparse.random_array((n, n), density=0.3, rng=rng)
square = square + square.T
incidence = sparse.csr_array(np.eye(n)[:, :5] + np.roll(np.eye(n), -9, axis=0)[:, :5])


def formats(X):
    # By (format, fault): X with one index beyond the columns, below zero, or pointers
    # that fall or that lead beyond the entries.
    for form in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array):
        for fault in ("beyond", "negative", "falling", "too far"):
            broken = form(X, copy=True)
            if fault == "falling":
                broken.indptr[1] = broken.indptr[2] + 1
            elif fault == "too far":
                broken.indptr[-1] += 10**6
            else:
                broken.indices[3] = {"beyond": 10**7, "negative": -(10**7)}[fault]
            yield f"{form.__name__} {fault}", broken
    for form in (sparse.coo_array, sparse.coo_matrix):
        for value in (10**7, -(10**7)):
            for ends in ("row", "col"):
                broken = form(X, copy=True)
                getattr(broken, ends)[3] = value
                yield f"{form.__name__} {ends} {value}", broken
    # BSR of blocks of one has the same arrays as CSR.
    whole = sparse.csr_array(X, copy=True)
    arrays = whole.data[:, None, None], whole.indices.copy(), whole.indptr
    broken = sparse.bsr_array(arrays, shape=whole.shape)
    broken.indices[3] = 10**7
    yield "bsr_array", broken
    broken = sparse.lil_array(whole)
    broken.rows[1] = [10**7] * len(broken.rows[1])
    yield "lil_array", broken


def answers(calls):
    found = {}
    for name, call in calls:
        try:
            call()
        except ValueError as error:
            found[name] = str(error)
        except TypeError as error:  # refused because it is sparse
            found[name] = "TypeError: " + str(error)
        else:
            found[name] = "accepted"
    print(json.dumps(found))
"""


def run(calls, **given):
    """Return {call: message} of a script that defines `calls()`."""
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "faulthandler",
            "-W",
            "ignore",
            "-c",
            f"{SCRIPT}\n{calls}\nanswers(calls())",
        ],
        input=pickle.dumps(given),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr.decode()[-2000:])
    return json.loads(done.stdout)


OF_ESTIMATORS = """
sys.path.insert(0, given["folder"])
from importlib.util import find_spec
from conftest import ESTIMATORS, IN_FULL

def calls():
    target = np.where(np.arange(n) % 2, labels, -1)
    for kind, estimator in ESTIMATORS.items():
        if kind == "DeepClAM" and find_spec("torch") is None:
            continue
        takes_sparse = estimator.__sklearn_tags__().input_tags.sparse
        sort = "sparse" if takes_sparse else "dense"
        for name, broken in formats(X):
            yield f"{sort} {kind}.fit {name}", lambda: estimator.fit(broken, target)
        if kind in IN_FULL:
            continue
        estimator.fit(sparse.csr_array(X) if takes_sparse else X, target)
        for method in METHODS:
            if hasattr(estimator, method):
                more = [target] if method in ("score", "partial_fit") else []
                for name, broken in formats(X):
                    call = getattr(estimator, method)
                    yield f"{sort} {kind}.{method} {name}", lambda: call(broken, *more)

METHODS = (
    "predict", "predict_proba", "transform", "inverse_transform", "score", "partial_fit"
)
"""


def test_samples_are_refused(blobs):
    answers = run(OF_ESTIMATORS, X=blobs, folder=str(Path(__file__).parent))
    assert len(answers) > 500
    for name, message in answers.items():
        refused_as_dense = name.startswith("dense") and message.startswith("TypeError")
        # Codes, the input of inverse transforms, may be dense only.
        refused_as_dense |= "inverse" in name and message.startswith("TypeError")
        assert REFUSED in message or refused_as_dense, (name, message)


OF_FUNCTIONS = """
from sklearn.cluster import KMeans
from skdiffclust import *
from skdiffclust.cuts import *
from skdiffclust.forests import *
from skdiffclust.gemini import gemini_score
from skdiffclust.model_selection import compare_clusterers
from skdiffclust.plotting import ClustererComparisonDisplay

def calls():
    assignments = np.eye(3)[labels]
    of_matrix = SpanningForestClustering(3, metric="precomputed")
    of_graph = GraphCutClustering(3, affinity="precomputed")
    fitted = clone(of_graph).fit(square)
    forest = SpanningForestClustering(3)
    kernel = X @ X.T
    compared = compare_clusterers(X, {"k-means": KMeans(3)}, n_resamples=2)
    for name, broken in formats(X):
        yield f"tree {name}", lambda: minimum_spanning_tree(broken)
        yield f"gemini {name}", lambda: gemini_score(assignments, broken)
        yield f"compare {name}", lambda: compare_clusterers(broken, {"k": KMeans(3)})
        yield f"plot {name}", lambda: ClustererComparisonDisplay.from_comparison(
            compared, broken
        )
    for name, broken in formats(incidence):
        yield f"must {name}", lambda: forest.fit(X, must_link=broken)
        yield f"cannot {name}", lambda: forest.fit(X, cannot_link=broken)
    for name, broken in formats(square):
        yield f"ratio {name}", lambda: ratio_cut(broken, labels)
        yield f"expected {name}", lambda: expected_ratio_cut(broken, assignments)
        yield f"bound {name}", lambda: ratio_cut_bound(broken, assignments)
        yield f"graph {name}", lambda: minimum_spanning_tree(
            broken, metric="precomputed"
        )
        yield f"forest {name}", lambda: maximum_spanning_forest(broken, 3)
        yield f"forest links {name}", lambda: maximum_spanning_forest(
            kernel, 3, constraints=broken
        )
        yield f"perturbed {name}", lambda: perturbed_forest(broken, 3)
        yield f"loss {name}", lambda: fenchel_young_loss(broken, [[0, 1], [1, 2]])
        yield f"partial {name}", lambda: partial_fenchel_young_loss(broken, labels, 3)
        yield f"precomputed {name}", lambda: of_matrix.fit(broken)
        yield f"cut {name}", lambda: of_graph.fit(broken)
        yield f"predict {name}", lambda: fitted.predict(broken)
        yield f"PRCut {name}", lambda: PRCut(3).fit(X, precomputed=broken)
        yield f"function {name}", lambda: GraphCutClustering(
            3, affinity=lambda A, B: broken
        ).fit(X)
"""


def test_functions_refuse_them():
    answers = run(OF_FUNCTIONS, X=np.random.RandomState(0).normal(size=(30, 4)))
    assert len(answers) > 300
    for name, message in answers.items():
        assert REFUSED in message, (name, message)


OF_TORCH = """
import torch
from skdiffclust.nn import PartialFenchelYoungLoss, RatioCutLoss

def calls():
    logits = torch.zeros(n, 3)
    affinity = torch.as_tensor(X @ X.T)
    for name, broken in formats(square):
        yield f"block {name}", lambda: RatioCutLoss(3)(logits, broken)
        yield f"links {name}", lambda: PartialFenchelYoungLoss(3)(affinity, broken)
"""


@pytest.mark.torch
def test_losses_of_torch_refuse_them():
    answers = run(OF_TORCH, X=np.random.RandomState(0).normal(size=(30, 4)))
    assert len(answers) > 40
    for name, message in answers.items():
        assert REFUSED in message, (name, message)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_a_matrix_in_order_is_accepted_and_not_written(form):
    X = sparse.csr_array(np.random.RandomState(0).normal(size=(30, 4))).asformat(form)
    before = pickle.dumps(X)
    refuse_container(X)
    assert pickle.dumps(X) == before
