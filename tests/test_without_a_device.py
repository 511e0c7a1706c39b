"""What runs on a device, tested without one.

On tensors without data ("meta", under FakeTensorMode) an operation between two devices
fails as it does on a GPU. Never on fake CUDA tensors: their backward pass ends the
process of a CPU build.
"""

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from skdiffclust._constraints import as_constraints
from skdiffclust.cuts import _torch as cuts
from skdiffclust.forests import _torch as trees
from skdiffclust.forests._embedding._start import EmbeddingSettings
from skdiffclust.forests._embedding._torch import ModuleTrainer
from skdiffclust.forests._perturbed import _torch as forests
from skdiffclust.memories import _torch as memories
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

pytestmark = pytest.mark.full

N, K = 12, 3
ATEN = torch.ops.aten
ROWS = np.random.RandomState(0).normal(size=(N, K))
LABELS = np.where(np.arange(N) % 2, -1, np.arange(N) % K)
GRAPH = np.abs(ROWS @ ROWS.T)
EDGES = np.array([[0, 3], [3, 6], [1, 4]])


class Answers(TorchDispatchMode):
    """Give scalars to whoever asks a tensor without data: the early exits.

    What is searched for is found as often as there are samples, and a mask keeps half
    of them, so that rounds come to an end.
    """

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is ATEN._local_scalar_dense.default:
            dtype = args[0].dtype
            if dtype == torch.bool:
                return self.answer
            return 1.0 if dtype.is_floating_point else 1
        if func is ATEN.nonzero.default:
            return args[0].new_zeros(len(args[0]), args[0].dim(), dtype=torch.int64)
        if func is ATEN.index.Tensor:
            args = args[0], [kept(index) for index in args[1]], *args[2:]
        return func(*args, **(kwargs or {}))


def kept(index):
    """Numbers of half of the samples for a mask of them, and any other index as is."""
    if index is None or index.dtype != torch.bool:
        return index
    assert index.dim() == 1
    return index.new_zeros(len(index) // 2, dtype=torch.int64)


def embed(rows):
    """An affinity of rows with a gradient."""
    return standardized_affinity(rows, "rbf")


def of_networks(rows):
    """The loss of an autoencoder around memories."""
    like = {"device": rows.device, "dtype": rows.dtype}
    code, back = nn.Linear(K, 2, **like), nn.Linear(2, K, **like)
    start = torch.zeros(2, 2, **like)
    layer = AssociativeMemory(2, 2, inverse_temperature=1.0, memories=start)
    layer = layer.to(rows.dtype)
    return layer.reconstruction_loss(code, back, rows, sample_weight=rows[:, 0] ** 2)


def memory(rows, **options):
    """A layer of memories on the device of rows, where they were given."""
    start = torch.zeros(K, K, device=rows.device, dtype=rows.dtype)
    layer = AssociativeMemory(
        K, K, inverse_temperature=1.0, memories=start, weighted=True, **options
    )
    return layer.to(rows.dtype)


# {name: function of rows (12, 3) on a device}.
LOSSES = {
    "PerturbedForest-weight": (
        lambda rows: PerturbedForest(K, n_perturbations=6)(embed(rows))[1]
    ),
    "PerturbedForest-labels": (
        lambda rows: PerturbedForest(K, n_perturbations=6, noise="gumbel", seed=0)(
            embed(rows), LABELS
        )[0].square()
    ),
    "PerturbedForest-connectivity": (
        lambda rows: PerturbedForest(K, n_perturbations=5, seed=0)(
            embed(rows), return_connectivity=True
        )[2].square()
    ),
    "PartialFenchelYoungLoss": (
        lambda rows: PartialFenchelYoungLoss(K, n_perturbations=6, seed=0)(
            embed(rows), LABELS
        )
    ),
    "FenchelYoungLoss": (
        lambda rows: FenchelYoungLoss(n_perturbations=6, seed=0)(embed(rows), EDGES)
    ),
    "standardized_affinity-cosine": (
        lambda rows: standardized_affinity(rows, "cosine")
    ),
    "spanning_tree": lambda rows: spanning_tree(rows)[1],
    "RatioCutLoss": lambda rows: RatioCutLoss(K)(rows, GRAPH),
    "RatioCutLoss-two": (
        lambda rows: RatioCutLoss(K, prior=[0.2, 0.3, 0.5])(
            rows, GRAPH[:, :7], right=rows[:7]
        )
    ),
    **{
        f"GEMINILoss-{objective}-{mode}{'-matrix' * precomputed}": (
            lambda rows, objective=objective, mode=mode, precomputed=precomputed: (
                GEMINILoss(objective, mode=mode, precomputed=precomputed)(
                    rows, torch.tensor(GRAPH).to(rows.device)
                )
            )
        )
        for mode in ("ova", "ovo")
        for objective, precomputed in (
            ("mmd", False),
            ("mmd", True),
            ("kl", False),
            ("tv", False),
            ("chi2", False),
            ("hellinger", False),
        )
    },
    **{
        f"AssociativeMemory-{metric}": (
            lambda rows, metric=metric: memory(rows, metric=metric).loss(rows)
        )
        for metric in ("euclidean", "cosine", "manhattan")
    },
    "AssociativeMemory-mask": (
        lambda rows: memory(rows).loss(rows, mask=rows > 0, fill=rows.mean(dim=0))
    ),
    "AssociativeMemory-energy": lambda rows: memory(rows).energy(rows),
    "AssociativeMemory-networks": of_networks,
}


@pytest.fixture
def built_there(monkeypatch):
    """Leave networks where they were built: those without data cannot be moved."""
    plain = nn.Module.to

    def to(module, *args, **kwargs):
        has_parameters = next(module.parameters(), None) is not None
        return module if has_parameters else plain(module, *args, **kwargs)

    monkeypatch.setattr(nn.Module, "to", to)


@pytest.fixture
def zeros_there(monkeypatch):
    """Copy zeros from tensors without data."""

    def to_numpy(tensor):
        return np.zeros(tuple(tensor.shape))

    for module in (cuts, forests, memories, trees):
        monkeypatch.setattr(module, "to_numpy", to_numpy)


# Tensors without data answer as the values do that are mentioned.
@pytest.mark.filterwarnings("ignore:.*-inf is no mask:UserWarning")
@pytest.mark.filterwarnings("ignore:GEMINILoss:UserWarning")
@pytest.mark.parametrize("name", LOSSES)
def test_no_loss_mixes_devices(name, built_there, zeros_there):
    with FakeTensorMode(allow_non_fake_inputs=True), Answers(True):
        rows = torch.empty(N, K, device="meta", requires_grad=True)
        loss = LOSSES[name](rows)
        loss.sum().backward()
    assert loss.device.type == rows.grad.device.type == "meta"


def test_mixed_devices_are_found():
    with FakeTensorMode(allow_non_fake_inputs=True):
        rows = torch.empty(N, K, device="meta")
        with pytest.raises(RuntimeError, match="same device|devices"):
            rows + torch.empty(N, K)


# The steps of the estimators on their device.


def step_of_a_cut(device):
    """Take a step of PRCut's module."""
    network = nn.Linear(K, 2, device=device, dtype=torch.float64)
    model = cuts.ModuleModel(network, 2, 1e-4, device)
    model.step(ROWS, lambda logits: np.ones_like(logits), 0.1)
    model.parts.n_parts = 2
    model.step(ROWS, lambda logits: np.ones_like(logits), 0.1)


def step_of_an_embedding(device):
    """Take a step of SpanningForestEmbedding."""
    settings = EmbeddingSettings("sqeuclidean", 6, 64, 0.1, 1e-3)
    rng = np.random.RandomState(0)
    network = nn.Linear(K, 2, device=device, dtype=torch.float64)
    with torch.no_grad():  # which waits there are depends on the weights
        network.weight.copy_(torch.linspace(-1, 1, 2 * K).reshape(2, K) ** 3)
    trainer = ModuleTrainer(settings, network, ROWS, K, rng, device, None)
    loss = trainer.loss((np.arange(N), as_constraints(N, LABELS), K))
    loss.backward()
    trainer.optimizer.step()


STEPS = {
    "PRCut": step_of_a_cut,
    "SpanningForestEmbedding": step_of_an_embedding,
}


@pytest.mark.parametrize("name", STEPS)
def test_no_step_mixes_devices(name, built_there, zeros_there):
    with FakeTensorMode(allow_non_fake_inputs=True), Answers(True):
        STEPS[name]("meta")
