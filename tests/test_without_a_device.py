"""What runs on a device, tested without one.

On tensors without data ("meta", under FakeTensorMode) an operation between two devices
fails as it does on a GPU. On the CPU, a dispatch mode lists what would wait for the
device or copy from it. Never on fake CUDA tensors: their backward pass ends the process
of a CPU build.
"""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from skdiffclust import SpanningForestEmbedding
from skdiffclust._constraints import as_constraints
from skdiffclust.cuts import _torch as cuts
from skdiffclust.forests._embedding._torch import ModuleTrainer
from skdiffclust.forests._perturbed import _torch as forests
from skdiffclust.memories import _torch as memories
from skdiffclust.memories._dynamics import Dynamics
from skdiffclust.nn import (
    AssociativeMemory,
    ConnectivityLoss,
    FenchelYoungLoss,
    GEMINILoss,
    PartialFenchelYoungLoss,
    PerturbedForest,
    RatioCutLoss,
    standardized_similarity,
)

pytestmark = pytest.mark.full

N, K = 12, 3
ATEN = torch.ops.aten
PACKAGE = str(Path(cuts.__file__).resolve().parents[1])
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


class Waits(TorchDispatchMode):
    """List what would wait for a device: (what, function of ours that asked)."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in (ATEN._local_scalar_dense.default, ATEN.nonzero.default):
            self.add(func.name().partition("::")[2])
        elif func is ATEN.bincount.default:
            self.add("bincount")
        elif func in (ATEN.index.Tensor, ATEN.index_put_.default):
            indices = [index for index in args[1] if index is not None]
            if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
                self.add("boolean index")
        return func(*args, **(kwargs or {}))

    def add(self, what):
        """Put down who asked."""
        frame, name = sys._getframe(1), "elsewhere"
        while frame is not None and (
            not frame.f_code.co_filename.startswith(PACKAGE)
            or frame.f_code.co_name.startswith("<")
        ):
            if f"{os.sep}optim{os.sep}" in frame.f_code.co_filename:
                frame = None
                break
            frame = frame.f_back
        if frame is not None:
            file = Path(frame.f_code.co_filename).relative_to(PACKAGE)
            name = f"{file.parts[0]}: {frame.f_code.co_name}"
        self.found.add((what, name))


def embed(rows):
    """A similarity of rows with a gradient."""
    return standardized_similarity(rows, "rbf")


def of_networks(rows):
    """The loss of an autoencoder around memories."""
    like = {"device": rows.device, "dtype": rows.dtype}
    code, back = nn.Linear(K, 2, **like), nn.Linear(2, K, **like)
    start = torch.zeros(2, 2, **like)
    layer = AssociativeMemory(2, 2, inverse_temperature=1.0, memories=start)
    layer = layer.to(rows.dtype)
    return layer.reconstruction_loss(rows, code, back, sample_weight=rows[:, 0] ** 2)


def memory(rows, **options):
    """A layer of memories on the device of rows, where they were given."""
    start = torch.zeros(K, K, device=rows.device, dtype=rows.dtype)
    layer = AssociativeMemory(
        K, K, inverse_temperature=1.0, memories=start, weighted=True, **options
    )
    return layer.to(rows.dtype)


# name: (function of rows (12, 3) on a device, {what waits there: why it must}).
SEED = {("_local_scalar_dense", "forests: _seeds"): "drawn on the CPU, whatever device"}
FINITE_ONE = {
    ("_local_scalar_dense", "forests: _stored"): (
        "a similarity that is not finite has no forest, and none is searched for"
    )
}
FINITE = {
    ("tolist", "forests: _check_values"): (
        "a similarity that is not finite has no forest, and none is searched for"
    )
}
HOST = "constrained forests are solved on the CPU, from a copy of the similarities"
CONSTRAINED = {
    ("cpu", "_torch.py: to_numpy"): HOST,
    ("numpy", "_torch.py: to_numpy"): HOST,
}
CHECKED = {
    ("_local_scalar_dense", "cuts: _as_block"): "a negative weight is refused",
    ("_local_scalar_dense", "cuts: forward"): "a loss that is not finite is refused",
    ("_local_scalar_dense", "cuts: __init__"): "the prior is checked on the CPU",
}
TRANSPORT = {
    ("cpu", "gemini: _wasserstein"): "transport is solved on the CPU",
    ("numpy", "gemini: _wasserstein"): "transport is solved on the CPU",
    ("cpu", "gemini: _cost"): "transport is solved on the CPU",
    ("numpy", "gemini: _cost"): "transport is solved on the CPU",
}
LOGITS = {
    ("_local_scalar_dense", "gemini: _warn_of_logits"): (
        "probabilities in the place of logits are mentioned, once a module"
    )
}
LOSSES = {
    "PerturbedForest-weight": (
        lambda rows: PerturbedForest(K, n_perturbations=6)(embed(rows))[1],
        SEED,
    ),
    "PerturbedForest-labels": (
        lambda rows: PerturbedForest(K, n_perturbations=6, noise="gumbel", seed=0)(
            embed(rows), LABELS
        )[0].square(),
        CONSTRAINED,
    ),
    "PerturbedForest-connectivity": (
        lambda rows: PerturbedForest(K, n_perturbations=5, seed=0)(
            embed(rows), return_connectivity=True
        )[2].square(),
        {},
    ),
    "PartialFenchelYoungLoss": (
        lambda rows: PartialFenchelYoungLoss(K, n_perturbations=6, seed=0)(
            embed(rows), LABELS
        ),
        FINITE | CONSTRAINED,
    ),
    "ConnectivityLoss": (
        lambda rows: ConnectivityLoss(K, n_perturbations=6, seed=0)(
            embed(rows), LABELS
        ),
        FINITE,
    ),
    "FenchelYoungLoss": (
        lambda rows: FenchelYoungLoss(n_perturbations=6, seed=0)(embed(rows), EDGES),
        {},
    ),
    "standardized_similarity-cosine": (
        lambda rows: standardized_similarity(rows, "cosine"),
        {},
    ),
    "RatioCutLoss": (lambda rows: RatioCutLoss(K)(GRAPH, rows), CHECKED),
    "RatioCutLoss-two": (
        lambda rows: RatioCutLoss(K, prior=[0.2, 0.3, 0.5])(
            GRAPH[:, :7], rows, rows[:7]
        ),
        CHECKED,
    ),
    **{
        f"GEMINILoss-{objective}-{mode}-{relation}": (
            lambda rows, objective=objective, mode=mode, relation=relation: GEMINILoss(
                objective, mode=mode, relation=relation
            )(rows, torch.tensor(GRAPH).to(rows.device)),
            LOGITS | (TRANSPORT if objective == "wasserstein" else {}),
        )
        for mode in ("ova", "ovo")
        for objective, relation in (
            ("mmd", "features"),
            ("mmd", "matrix"),
            ("kl", "features"),
            ("tv", "features"),
            ("chi2", "features"),
            ("hellinger", "features"),
            ("wasserstein", "matrix"),
        )
    },
    **{
        f"AssociativeMemory-{metric}": (
            lambda rows, metric=metric: memory(rows, metric=metric).loss(rows),
            {},
        )
        for metric in ("euclidean", "cosine", "manhattan")
    },
    "AssociativeMemory-mask": (
        lambda rows: memory(rows).loss(rows, mask=rows > 0, fill=rows.mean(dim=0)),
        {},
    ),
    "AssociativeMemory-energy": (lambda rows: memory(rows).energy(rows), {}),
    "AssociativeMemory-networks": (of_networks, {}),
}


@pytest.fixture
def batched(monkeypatch):
    """Take the batched forests of a GPU on CPU tensors as well."""
    monkeypatch.setattr(forests, "_runs_in_torch", lambda *_: True)


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

    for module in (cuts, forests, memories):
        monkeypatch.setattr(module, "to_numpy", to_numpy)


# Tensors without data answer as the values do that are mentioned.
@pytest.mark.filterwarnings("ignore:.*-inf is no mask:UserWarning")
@pytest.mark.filterwarnings("ignore:GEMINILoss:UserWarning")
@pytest.mark.parametrize("name", [n for n in LOSSES if "wasserstein" not in n])
def test_no_loss_mixes_devices(name, built_there, zeros_there):
    loss_of, _ = LOSSES[name]
    with FakeTensorMode(allow_non_fake_inputs=True), Answers(True):
        rows = torch.empty(N, K, device="meta", requires_grad=True)
        loss = loss_of(rows)
        loss.sum().backward()
    assert loss.device.type == rows.grad.device.type == "meta"


def test_mixed_devices_are_found():
    with FakeTensorMode(allow_non_fake_inputs=True):
        rows = torch.empty(N, K, device="meta")
        with pytest.raises(RuntimeError, match="same device|devices"):
            rows + torch.empty(N, K)


@pytest.mark.parametrize("name", LOSSES)
def test_no_loss_waits_for_its_device_but_where_it_says_why(name, batched, monkeypatch):
    loss_of, reasons = LOSSES[name]
    rows = torch.tensor(ROWS, requires_grad=True)
    with waits(monkeypatch) as found:
        loss_of(rows).sum().backward()
    assert found == reasons.keys()
    assert torch.isfinite(rows.grad).all()


class waits(ExitStack):
    """List what waits, the copies to the host among it, inside the block."""

    def __init__(self, monkeypatch):
        super().__init__()
        self.patch, self.mode = monkeypatch, Waits()

    def __enter__(self):
        super().__enter__()
        patch = self.enter_context(self.patch.context())
        for name in ("cpu", "numpy", "tolist"):
            plain = getattr(torch.Tensor, name)

            def listed(tensor, *args, plain=plain, name=name, **kwargs):
                self.mode.add(name)
                return plain(tensor, *args, **kwargs)

            patch.setattr(torch.Tensor, name, listed)
        self.enter_context(self.mode)
        return self.mode.found


# The steps of the estimators on their device.


def step_of_a_cut(device):
    """Take a step of PRCut's module."""
    network = nn.Linear(K, 2, device=device, dtype=torch.float64)
    model = cuts.ModuleModel(network, 2, "adam", 1e-4, device)
    model.step(ROWS, lambda logits: np.ones_like(logits), 0.1)
    model.parts.n_parts = 2
    model.step(ROWS, lambda logits: np.ones_like(logits), 0.1)


def step_of_memories(device):
    """Take the loss and the gradient of ClAM."""
    complete = memories.completion_on_device(device)
    for metric in ("euclidean", "cosine", "manhattan"):
        complete(
            ROWS,
            np.stack([ROWS[:2], ROWS[2:4]]),
            np.zeros((2, 2)),
            Dynamics(1.0, 3, 0.5, metric),
            groups=[(slice(0, 6), slice(0, 2)), (slice(6, N), slice(0, 0))],
            fill=np.zeros(K),
            sample_weight=np.ones(N),
        )


def step_of_an_embedding(device):
    """Take a step of SpanningForestEmbedding."""
    model = SpanningForestEmbedding(
        K, n_perturbations=6, noise_scale=0.1, learning_rate=1e-3
    )
    rng = np.random.RandomState(0)
    network = nn.Linear(K, 2, device=device, dtype=torch.float64)
    with torch.no_grad():  # which waits there are depends on the weights
        network.weight.copy_(torch.linspace(-1, 1, 2 * K).reshape(2, K) ** 3)
    trainer = ModuleTrainer(model, network, ROWS, K, rng, device)
    loss = trainer.loss((np.arange(N), as_constraints(N, LABELS), K))
    loss.backward()
    trainer.optimizer.step()


OF_NUMPY = "the objective is that of NumPy: logits go there, their gradient comes back"
STEPS = {
    "PRCut": (
        step_of_a_cut,
        {("cpu", "_torch.py: to_numpy"): OF_NUMPY}
        | {("numpy", "_torch.py: to_numpy"): OF_NUMPY},
    ),
    "ClAM": (
        step_of_memories,
        {
            (what, "_torch.py: to_numpy"): "the step is taken in NumPy, once a batch"
            for what in ("cpu", "numpy")
        },
    ),
    "SpanningForestEmbedding": (step_of_an_embedding, FINITE_ONE | CONSTRAINED),
}


@pytest.mark.parametrize("name", STEPS)
def test_no_step_mixes_devices(name, built_there, zeros_there):
    step, _ = STEPS[name]
    with FakeTensorMode(allow_non_fake_inputs=True), Answers(True):
        step("meta")


@pytest.mark.parametrize("name", STEPS)
def test_no_step_waits_but_where_it_says_why(name, batched, monkeypatch):
    step, reasons = STEPS[name]
    with waits(monkeypatch) as found:
        step("cpu")
    assert {w for w in found if w[1] != "elsewhere"} == reasons.keys()
    # Adam of torch reads its own count of steps, which it keeps on the CPU.
    assert {w[0] for w in found if w[1] == "elsewhere"} <= {"_local_scalar_dense"}
