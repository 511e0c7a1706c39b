"""FAULTS 27: Ctrl-C in the middle of public functions, losses and predictions."""

import time
from itertools import count

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from skdiffclust import GEMINI, ClAM, PRCut, SpanningForestClustering, forests, nn
from skdiffclust.cuts import expected_ratio_cut, ratio_cut, ratio_cut_bound
from skdiffclust.gemini import gemini_score
from skdiffclust.memories import energy, recall

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 4))
SIMILARITY = RNG.normal(size=(150, 150))
SIMILARITY = SIMILARITY + SIMILARITY.T
LABELS = np.where(np.arange(150) % 3, -1, np.arange(150) % 4)
APART = np.array([[i, i + 1] for i in range(0, 30, 2)])
GRAPH = sp.random_array((3000, 3000), density=2e-3, rng=RNG, format="csr")
GRAPH = GRAPH + GRAPH.T
ASSIGNMENTS = RNG.dirichlet(np.ones(5), size=3000)
TENSOR = torch.tensor(SIMILARITY, requires_grad=True)
LOGITS = torch.tensor(np.log(ASSIGNMENTS[:300]), requires_grad=True)
ROWS = torch.tensor(X[:300], requires_grad=True)
MANY = 10**6


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
    "minimum_spanning_tree": lambda: forests.minimum_spanning_tree(X),
    "minimum_spanning_tree_by_blocks": lambda: forests.minimum_spanning_tree_by_blocks(
        X, n_blocks=3
    ),
    "maximum_spanning_forest": lambda: forests.maximum_spanning_forest(SIMILARITY, 4),
    "maximum_spanning_forest-labels": lambda: forests.maximum_spanning_forest(
        SIMILARITY, 8, constraints=LABELS
    ),
    "perturbed_forest": lambda: forests.perturbed_forest(
        SIMILARITY, 4, n_perturbations=MANY, return_connectivity=True
    ),
    "partial_fenchel_young_loss-labels": lambda: forests.partial_fenchel_young_loss(
        SIMILARITY, LABELS, 8, n_perturbations=MANY, return_gradient=True
    ),
    "partial_fenchel_young_loss-links": lambda: forests.partial_fenchel_young_loss(
        SIMILARITY, links(APART), 8, n_perturbations=MANY
    ),
    "connectivity_loss": lambda: forests.connectivity_loss(
        SIMILARITY, LABELS, 8, n_perturbations=MANY, return_gradient=True
    ),
    "neighbor_similarity": lambda: forests.neighbor_similarity(X, 5),
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
    "nn.PerturbedForest": lambda: nn.PerturbedForest(4)(TENSOR)[0].sum().backward(),
    "nn.PartialFenchelYoungLoss": lambda: nn.PartialFenchelYoungLoss(8)(
        TENSOR, torch.tensor(LABELS)
    ).backward(),
    "nn.FenchelYoungLoss": lambda: nn.FenchelYoungLoss()(
        TENSOR, torch.tensor([[0, 1], [1, 2]])
    ).backward(),
    "nn.ConnectivityLoss": lambda: nn.ConnectivityLoss(8)(
        TENSOR, torch.tensor(LABELS)
    ).backward(),
    "nn.RatioCutLoss": lambda: (
        nn.RatioCutLoss(5)(GRAPH[:300][:, :300], LOGITS).sum().backward()
    ),
    "nn.GEMINILoss": lambda: nn.GEMINILoss()(LOGITS, ROWS).backward(),
    "nn.AssociativeMemory": lambda: (
        nn.AssociativeMemory(9, 4, inverse_temperature=1.0)(ROWS.float())
        .sum()
        .backward()
    ),
}
MODELS = [
    ClAM(3, n_init=1, random_state=0),
    GEMINI(3, max_iter=5, random_state=0),
    PRCut(3, encoder="mlp", max_iter=5, random_state=0),
    SpanningForestClustering(3),
]


def check_interruptions(call, moments, interrupt_after):
    """Call without end, and interrupt it at some moments."""
    for moment in moments:
        with pytest.raises(KeyboardInterrupt):
            interrupt_after(moment)
            forever(call)
        assert time.perf_counter() - interrupt_after.sent < 1


@pytest.mark.parametrize("name", CALLS)
def test_control_c(name, interrupt_after):
    moments = np.random.default_rng(1).uniform(0.01, 0.1, 2)
    check_interruptions(CALLS[name], moments, interrupt_after)


@pytest.mark.long
@pytest.mark.parametrize("name", CALLS)
def test_control_c_at_fifty_moments(name, interrupt_after):
    moments = np.random.default_rng(0).uniform(0.01, 0.2, 50)
    check_interruptions(CALLS[name], moments, interrupt_after)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_control_c_in_predict(model, interrupt_after):
    model.fit(X[:200])
    expected = model.predict(X)
    check_interruptions(lambda: model.predict(X), [0.05, 0.1], interrupt_after)
    assert np.array_equal(model.predict(X), expected)
