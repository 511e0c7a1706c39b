"""FAULTS 27: Ctrl-C in the middle of public functions, losses and predictions."""

import signal
import sys
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import skdiffclust
from skdiffclust import (
    GEMINI,
    ClAM,
    GraphCutClustering,
    PRCut,
    SpanningForestClustering,
    forests,
)
from skdiffclust.cuts import expected_ratio_cut, ratio_cut, ratio_cut_bound
from skdiffclust.gemini import gemini_score
from skdiffclust.memories import energy, recall

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 4))
AFFINITY = RNG.normal(size=(150, 150))
AFFINITY = AFFINITY + AFFINITY.T
LABELS = np.where(np.arange(150) % 3, -1, np.arange(150) % 4)
APART = np.array([[i, i + 1] for i in range(0, 30, 2)])
GRAPH = sp.random_array((3000, 3000), density=2e-3, rng=RNG, format="csr")
GRAPH = GRAPH + GRAPH.T
ASSIGNMENTS = RNG.dirichlet(np.ones(5), size=3000)
MANY = 10**6
PACKAGE = str(Path(skdiffclust.__file__).parent)


def links(pairs):
    """Matrix (150, 150) of cannot-links."""
    matrix = np.zeros((150, 150), dtype=np.int8)
    matrix[pairs[:, 0], pairs[:, 1]] = matrix[pairs[:, 1], pairs[:, 0]] = -1
    return matrix


def forever(function):
    """Call a function again and again."""
    for _ in count():
        function()


# Each is called until it is interrupted, or takes minutes by itself.
CALLS = {
    "fit-prim": lambda: SpanningForestClustering(2, algorithm="prim").fit(X),
    "fit-kruskal": lambda: SpanningForestClustering(2, algorithm="kruskal").fit(
        X[:500]
    ),
    "fit-gower": lambda: SpanningForestClustering(2, metric="gower").fit(X),
    "fit-gower-graph": lambda: GraphCutClustering(2, metric="gower", n_init=2).fit(X),
    "fit-callable": lambda: SpanningForestClustering(
        2, metric=lambda a, b: np.abs(a - b).sum()
    ).fit(X[:60]),
    "minimum_spanning_tree": lambda: forests.minimum_spanning_tree(X),
    "minimum_spanning_tree_by_blocks": lambda: forests.minimum_spanning_tree_by_blocks(
        X, n_blocks=3
    ),
    "maximum_spanning_forest": lambda: forests.maximum_spanning_forest(AFFINITY, 4),
    "maximum_spanning_forest-labels": lambda: forests.maximum_spanning_forest(
        AFFINITY, 8, constraints=LABELS
    ),
    "perturbed_forest": lambda: forests.perturbed_forest(
        AFFINITY, 4, n_perturbations=MANY, return_connectivity=True
    ),
    "partial_fenchel_young_loss-labels": lambda: forests.partial_fenchel_young_loss(
        AFFINITY, LABELS, 8, n_perturbations=MANY, return_gradient=True
    ),
    "partial_fenchel_young_loss-links": lambda: forests.partial_fenchel_young_loss(
        AFFINITY, links(APART), 8, n_perturbations=MANY
    ),
    "gemini_score": lambda: gemini_score(ASSIGNMENTS, X, return_gradient=True),
    "gemini_score-wasserstein": lambda: gemini_score(
        ASSIGNMENTS[:200], X[:200], objective="wasserstein", return_gradient=True
    ),
    "ratio_cut": lambda: ratio_cut(GRAPH, np.arange(3000) % 5),
    "expected_ratio_cut": lambda: expected_ratio_cut(
        GRAPH, ASSIGNMENTS, return_gradient=True
    ),
    "ratio_cut_bound": lambda: ratio_cut_bound(
        GRAPH, ASSIGNMENTS, return_gradient=True
    ),
    "energy": lambda: energy(X, X[:20], 1.0),
    "recall": lambda: recall(X, X[:20], 1.0, n_steps=50),
}


def calls_of_modules():
    """Return the calls of `skdiffclust.nn`, by name."""
    import torch

    from skdiffclust import nn

    affinity = torch.tensor(AFFINITY, requires_grad=True)
    logits = torch.tensor(np.log(ASSIGNMENTS[:300]), requires_grad=True)
    samples = torch.tensor(X[:300], requires_grad=True)
    labels = torch.tensor(LABELS)
    return {
        "nn.PerturbedForest": lambda: (
            nn.PerturbedForest(4)(affinity)[0].sum().backward()
        ),
        "nn.PartialFenchelYoungLoss": lambda: nn.PartialFenchelYoungLoss(8)(
            affinity, labels
        ).backward(),
        "nn.FenchelYoungLoss": lambda: nn.FenchelYoungLoss()(
            affinity, torch.tensor([[0, 1], [1, 2]])
        ).backward(),
        "nn.spanning_tree": lambda: nn.spanning_tree(samples)[1].sum().backward(),
        "nn.RatioCutLoss": lambda: (
            nn.RatioCutLoss(5)(logits, GRAPH[:300][:, :300]).sum().backward()
        ),
        "nn.GEMINILoss": lambda: nn.GEMINILoss()(logits, samples).backward(),
        "nn.AssociativeMemory": lambda: (
            nn.AssociativeMemory(9, 4, inverse_temperature=1.0)(samples.float())
            .sum()
            .backward()
        ),
    }


if find_spec("torch"):
    CALLS |= calls_of_modules()
NAMES = [
    pytest.param(name, marks=pytest.mark.torch if name.startswith("nn.") else [])
    for name in CALLS
]
ENDLESS = {
    "perturbed_forest",
    "partial_fenchel_young_loss-labels",
    "partial_fenchel_young_loss-links",
}
MODELS = [
    ClAM(3, n_init=1, random_state=0),
    GEMINI(3, max_iter=5, random_state=0),
    PRCut(3, encoder="mlp", max_iter=5, random_state=0),
    SpanningForestClustering(3),
]


def interrupt_at_entry(call, entry, checks):
    """Signal in an entry into a function of the package; no check may follow."""
    entries, count = 0, None

    def hook(frame, event, argument):
        nonlocal entries, count
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            entries += 1
            if entries == entry:
                count = checks.count
                signal.raise_signal(signal.SIGINT)  # which ends the profiling, too

    sys.setprofile(hook)
    try:
        with pytest.raises(KeyboardInterrupt):
            forever(call)
    finally:
        sys.setprofile(None)
    assert checks.count == count


@pytest.mark.parametrize("name", NAMES)
def test_control_c(name, checks):
    call = CALLS[name]
    for entry in (1, 5):
        interrupt_at_entry(call, entry, checks)
    # Those with a million perturbations would not end.
    last = 2 if name in ENDLESS else checks.count_in(call)
    for check in {1, last} - {0}:
        if last:
            checks.interrupt(call, check)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_control_c_at_fifty_moments(name, checks):
    for entry in range(1, 51):
        interrupt_at_entry(CALLS[name], entry, checks)


@pytest.mark.few_epochs
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_control_c_in_predict(model, checks):
    model.fit(X[:200])
    expected = model.predict(X)
    for entry in (1, 5):
        interrupt_at_entry(lambda: model.predict(X), entry, checks)
    assert np.array_equal(model.predict(X), expected)
