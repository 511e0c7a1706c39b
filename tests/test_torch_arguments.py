"""The losses of `skdiffclust.nn` refuse arguments that do not fit, by name."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import nn

from skdiffclust.nn import (
    AssociativeMemory,
    FenchelYoungLoss,
    GEMINILoss,
    PartialFenchelYoungLoss,
    PerturbedForest,
    RatioCutLoss,
    spanning_tree,
    standardized_affinity,
)

N = 6
GRAPH = torch.ones(N, N)
LOGITS = torch.randn(N, 2, generator=torch.Generator().manual_seed(0))
AFFINITY = -torch.cdist(LOGITS, LOGITS)
LABELS = torch.tensor([0, 0, 1, -1, -1, -1])
FOREST = torch.tensor([[0, 1], [1, 2]])
X = torch.arange(18.0).reshape(N, 3)
MEMORY = AssociativeMemory(2, 3, inverse_temperature=1.0)


def reconstruct(*arguments, **options):
    return MEMORY.reconstruction_loss(*arguments, **options)


EXCHANGED = {
    "RatioCutLoss": (RatioCutLoss(2), GRAPH, LOGITS, "'logits' argument"),
    "RatioCutLoss-sparse": (
        RatioCutLoss(2),
        csr_array(GRAPH.numpy()),
        LOGITS,
        "'logits' argument .* Got float32 csr_array",
    ),
    "RatioCutLoss-as-wide": (
        RatioCutLoss(2),
        GRAPH[:2, :2],
        LOGITS[:2].requires_grad_(),
        "'logits' argument .* gradients are tracked for the next argument only",
    ),
    "GEMINILoss": (GEMINILoss(), X.numpy(), LOGITS, "'logits' argument"),
    "GEMINILoss-tensors": (
        GEMINILoss(),
        X,
        LOGITS.clone().requires_grad_(),
        "'logits' argument .* gradients are tracked for the next argument only",
    ),
    "PartialFenchelYoungLoss": (
        PartialFenchelYoungLoss(2),
        LABELS,
        AFFINITY,
        "'affinity' argument .* Got torch.int64 Tensor",
    ),
    "PerturbedForest": (
        PerturbedForest(2),
        LABELS.numpy(),
        AFFINITY,
        "'affinity' argument .* Got int64 ndarray",
    ),
    "FenchelYoungLoss": (
        FenchelYoungLoss(),
        FOREST,
        AFFINITY,
        "'affinity' argument",
    ),
    "reconstruction_loss": (
        reconstruct,
        X,
        nn.Linear(3, 3),
        nn.Linear(3, 3),
        "'encoder' argument .* Got Tensor",
    ),
    "loss": (MEMORY.loss, X > 3, X, "'X' argument of AssociativeMemory"),
}


@pytest.mark.parametrize("name", EXCHANGED)
def test_exchanged_arguments_are_refused_by_name(name):
    loss, *arguments, match = EXCHANGED[name]
    with pytest.raises((TypeError, ValueError), match=match):
        loss(*arguments)


OTHER_SIZE = {
    "RatioCutLoss": (
        lambda: RatioCutLoss(2)(LOGITS, GRAPH[:4, :4]),
        r"'affinity' argument of RatioCutLoss .* \(6, 6\). Got \(4, 4\)",
    ),
    "RatioCutLoss-None": (
        lambda: RatioCutLoss(2)(LOGITS, None),
        "'affinity' argument of RatioCutLoss .* Got NoneType",
    ),
    "RatioCutLoss-right": (
        lambda: RatioCutLoss(2)(LOGITS, GRAPH, right=X),
        "'right' argument of RatioCutLoss",
    ),
    "GEMINILoss": (
        lambda: GEMINILoss()(LOGITS, X[:4]),
        r"'X' argument of GEMINILoss .* Got \(4, 3\)",
    ),
    "GEMINILoss-array": (
        lambda: GEMINILoss()(LOGITS, X.numpy()),
        "'X' argument of GEMINILoss must be a tensor. Got ndarray",
    ),
    "GEMINILoss-logits": (
        lambda: GEMINILoss()(LOGITS[:, 0], X),
        r"'logits' argument of GEMINILoss must .* of shape \(n, k\)",
    ),
    "PartialFenchelYoungLoss": (
        lambda: PartialFenchelYoungLoss(2)(AFFINITY, LABELS[:4]),
        "'constraints' parameter",
    ),
    "PartialFenchelYoungLoss-logits": (
        lambda: PartialFenchelYoungLoss(2)(LOGITS, LABELS),
        r"'affinity' argument must have shape \(..., n, n\). Got \(6, 2\)",
    ),
    "FenchelYoungLoss": (
        lambda: FenchelYoungLoss()(AFFINITY, [[0, 9]]),
        "'forest' parameter",
    ),
    "standardized_affinity": (
        lambda: standardized_affinity(LOGITS.numpy()),
        "'embedding' argument of standardized_affinity",
    ),
    "spanning_tree": (lambda: spanning_tree(X.numpy()), "'X' argument of spanning_tr"),
    "AssociativeMemory": (
        lambda: MEMORY(X[:, :2]),
        r"'X' argument .* n_features=3. Got shape \(6, 2\)",
    ),
    "AssociativeMemory-mask": (
        lambda: MEMORY.loss(X, mask=torch.ones(4, 3)),
        r"'mask' argument .* shape \(6, 3\) of the samples. Got \(4, 3\)",
    ),
    "AssociativeMemory-array": (
        lambda: MEMORY(X, mask=np.ones(3)),
        "'mask' argument .* Got ndarray",
    ),
    "reconstruction_loss": (
        lambda: reconstruct(nn.Identity(), nn.Identity(), X, labels=LABELS[:4]),
        "'labels' argument .* 6 samples",
    ),
    "reconstruction_loss-weights": (
        lambda: reconstruct(nn.Identity(), nn.Identity(), X, sample_weight=X[:4, 0]),
        "'sample_weight' argument",
    ),
}


@pytest.mark.parametrize("name", OTHER_SIZE)
def test_arguments_of_another_size_or_type_are_refused_by_name(name):
    call, match = OTHER_SIZE[name]
    with pytest.raises((TypeError, ValueError), match=match):
        call()


@pytest.mark.parametrize(
    "module, text",
    [
        (
            RatioCutLoss(2, balance_weight=3.0),
            "n_clusters=2, balance_weight=3.0, averaging_rate=0.8, prior=[0.5, 0.5], "
            "cut='ratio'",
        ),
        (
            GEMINILoss("kl"),
            "objective='kl', mode='ova', precomputed=False, "
            "reduce='sum_over_processes'",
        ),
        (
            MEMORY,
            "n_clusters=2, n_features=3, inverse_temperature=1.0, n_steps=3, "
            "step_size=1.0, metric='euclidean', weighted=False",
        ),
        (
            PerturbedForest(4, seed=7),
            "n_clusters=4, noise_scale=0.1, n_perturbations=100, noise='normal', "
            "seed=7",
        ),
        (
            FenchelYoungLoss(reduction="mean"),
            "noise_scale=0.1, n_perturbations=100, reduction='mean', seed=None",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_module_is_shown_with_its_parameters(module, text):
    assert repr(module) == f"{type(module).__name__}({text})"
