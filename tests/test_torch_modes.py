"""FAULTS 31 and 40: fits in modes of torch, in threads, and losses under autocast."""

import copy
import multiprocessing
import os
import threading
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs
from torch import distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.parallel import DistributedDataParallel

from skdiffclust import GEMINI, DeepClAM, PRCut, SpanningForestEmbedding
from skdiffclust.nn import (
    AssociativeMemory,
    FenchelYoungLoss,
    GEMINILoss,
    PartialFenchelYoungLoss,
    PerturbedForest,
    RatioCutLoss,
    gather_over_processes,
    spanning_tree,
    standardized_affinity,
)

# Few epochs do not converge, and find what they find.
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:The graph of",
)
X, Y = make_blobs(60, centers=3, n_features=4, random_state=0)
X = X.astype(np.float32)


def with_dropout():
    """Return an encoder that draws from the global stream of torch in training."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3)
        )


def embed(encoder, seed):
    """Fit an embedding."""
    model = SpanningForestEmbedding(
        3, encoder=encoder, max_iter=2, n_perturbations=10, random_state=seed
    )
    return model.fit_transform(X, Y)


def memorise(encoder, seed):
    """Fit memories behind an encoder."""
    model = DeepClAM(3, encoder=encoder, max_iter=2, n_init=1, random_state=seed)
    return model.fit_transform(X)


def discriminate(model, seed):
    """Fit a module by a generalised mutual information."""
    model = GEMINI(3, model=model, max_iter=2, n_init=1, random_state=seed)
    return model.fit(X).predict_proba(X)


def cut(encoder, seed):
    """Fit an encoder to a cut; other starts take 500 steps first, of the same kind."""
    model = PRCut(
        3, encoder=encoder, init="random", n_init=1, max_iter=9, random_state=seed
    )
    return model.fit(X).predict_proba(X)


FITS = {
    "SpanningForestEmbedding": (embed, with_dropout()),
    "SpanningForestEmbedding-linear": (embed, "linear"),
    "DeepClAM": (memorise, with_dropout()),
    "DeepClAM-mlp": (memorise, "mlp"),
    "PRCut": (cut, with_dropout()),
    "GEMINI": (discriminate, with_dropout()),
}
MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}
each_fit = pytest.mark.parametrize("name", FITS)


@each_fit
@pytest.mark.parametrize("mode", MODES)
def test_a_fit_inside_a_mode_is_that_outside(name, mode):
    fit, encoder = FITS[name]
    expected = fit(encoder, 0)
    with MODES[mode]():
        found = fit(encoder, 0)
    assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "name",
    [name for name, (_, encoder) in FITS.items() if isinstance(encoder, nn.Module)],
)
def test_a_module_of_bfloat16_is_trained(name):
    fit, encoder = FITS[name]
    outputs = fit(copy.deepcopy(encoder).bfloat16(), 0)
    assert outputs.dtype == np.float32
    assert np.isfinite(outputs).all()


class InDict(nn.Module):
    """A module whose output is in a dictionary."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, samples):
        return {"outputs": self.module(samples)}


@pytest.mark.parametrize("name", [name for name in FITS if "-" not in name])
def test_a_module_that_returns_no_tensor_is_refused(name):
    fit, encoder = FITS[name]
    with pytest.raises(TypeError, match="must return a tensor. Got dict from InDict"):
        fit(InDict(encoder), 0)


def test_a_decoder_is_checked_before_training():
    for decoder, error in (
        (InDict(nn.Linear(3, 4)), TypeError),
        (nn.Linear(3, 5), ValueError),
    ):
        model = DeepClAM(3, encoder=with_dropout(), decoder=decoder)
        with pytest.raises(
            error, match=r"return a tensor|of 4 features. Got shape \(1, 5\)"
        ):
            model.fit(X)


def test_a_module_fitted_in_inference_mode_can_be_trained_further():
    with torch.inference_mode():
        model = SpanningForestEmbedding(3, encoder=with_dropout(), max_iter=1)
        model.fit(X, Y)
    model.partial_fit(X, Y)
    assert not any(p.is_inference() for p in model.encoder_.parameters())


@each_fit
def test_eight_threads_find_what_one_finds(name):
    fit, encoder = FITS[name]
    expected = [fit(encoder, seed) for seed in range(4)] * 2
    before = torch.get_rng_state()
    found = [None] * 8
    barrier = threading.Barrier(8)

    def run(seed):
        barrier.wait()
        found[seed] = fit(encoder, seed % 4)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one, other)
    assert torch.equal(before, torch.get_rng_state())


N = 24
LABELS = torch.arange(N) % 3
FEATURES = torch.rand(N, 5, generator=torch.Generator().manual_seed(0))
EVERY = slice(0, N)
SHARDS = slice(0, 10), slice(10, N)  # of the two processes
# A graph without edges between the shards.
GRAPH = torch.block_diag(*(FEATURES[rows] @ FEATURES[rows].T for rows in SHARDS))
# Every loss and layer of skdiffclust.nn as a function of samples (24, 3), or of some
# rows of them.
LOSSES = {
    "PartialFenchelYoungLoss": lambda e, rows=EVERY: PartialFenchelYoungLoss(3, seed=0)(
        standardized_affinity(e), LABELS[rows]
    ),
    "PartialFenchelYoungLoss-rbf": lambda e: PartialFenchelYoungLoss(3, seed=0)(
        standardized_affinity(e, "rbf"), LABELS
    ),
    "PartialFenchelYoungLoss-cosine": lambda e: PartialFenchelYoungLoss(3, seed=0)(
        standardized_affinity(e, "cosine"), LABELS
    ),
    "FenchelYoungLoss": lambda e, rows=EVERY: FenchelYoungLoss(seed=0)(
        standardized_affinity(e), [[0, 3], [3, 6], [1, 4]]
    ),
    "PerturbedForest": lambda e, rows=EVERY: PerturbedForest(3, seed=0)(
        standardized_affinity(e)
    )[1],
    "spanning_tree": lambda e, rows=EVERY: spanning_tree(e)[1].sum(),
    "RatioCutLoss": lambda e, rows=EVERY: RatioCutLoss(3)(e, GRAPH[rows, rows]),
    "GEMINILoss": lambda e, rows=EVERY: GEMINILoss("mmd", mode="ovo")(
        e, FEATURES[rows]
    ),
    "GEMINILoss-kl": lambda e: GEMINILoss("kl")(e),
    "AssociativeMemory": lambda e, rows=EVERY: AssociativeMemory(
        3, 3, inverse_temperature=1.0, memories=FEATURES[:3, :3]
    ).loss(e),
}
each_loss = pytest.mark.parametrize("name", LOSSES)


def value_and_gradient(name, samples, mode):
    """Return a loss of samples, and its gradient."""
    leaf = samples.clone().requires_grad_()
    with mode:
        loss = LOSSES[name](leaf)
    loss.backward()
    return loss.detach(), leaf.grad


@each_loss
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_changes_no_loss_of_float32(name, dtype):
    samples = torch.randn(N, 3, generator=torch.Generator().manual_seed(1))
    plain = value_and_gradient(name, samples, nullcontext())
    cast = value_and_gradient(name, samples, torch.autocast("cpu", dtype=dtype))
    assert plain[0].dtype == cast[0].dtype == torch.float32
    assert torch.equal(plain[0], cast[0])
    assert torch.equal(plain[1], cast[1])


@each_loss
def test_losses_of_half_precision_are_those_of_the_same_numbers_in_float32(name):
    samples = torch.randn(N, 3, generator=torch.Generator().manual_seed(1))
    samples = samples.to(torch.bfloat16)
    plain = value_and_gradient(name, samples.float(), nullcontext())
    half = value_and_gradient(name, samples, nullcontext())
    assert half[0].dtype == torch.float32
    assert torch.equal(plain[0], half[0])
    assert half[1].dtype == torch.bfloat16
    assert torch.equal(plain[1].to(torch.bfloat16), half[1])


@pytest.mark.parametrize("device", ["mps", "xpu"])
@each_loss
def test_other_devices_are_refused_by_name(name, device):
    # A tensor without data can be on a device that is not here.
    with FakeTensorMode():
        samples = torch.empty(N, 3, device=device)
    with pytest.raises(ValueError, match=f"on the CPU or on .* on '{device}(:0)?'"):
        LOSSES[name](samples)


@pytest.mark.parametrize("device", ["mps", "xpu:0", "meta"])
@pytest.mark.parametrize("estimator", [DeepClAM, PRCut, SpanningForestEmbedding])
def test_estimators_refuse_other_devices_by_name(estimator, device):
    model = estimator(3, device=device)
    with pytest.raises(ValueError, match=f"Got '{device}' .* are not supported"):
        model.fit(X, Y)


FORESTS = [name for name in LOSSES if "Young" in name]
FORESTS += ["PerturbedForest", "spanning_tree"]


@pytest.mark.parametrize("name", FORESTS)
def test_second_gradients_of_losses_of_forests_are_refused(name):
    samples = torch.randn(N, 3, generator=torch.Generator().manual_seed(2))
    leaf = samples.requires_grad_()
    with pytest.raises(ValueError, match="create_graph=True instead of False"):
        torch.autograd.grad(LOSSES[name](leaf), leaf, create_graph=True)
    (gradient,) = torch.autograd.grad(LOSSES[name](leaf), leaf)
    assert gradient.any()


PAGE = Path(__file__).resolve().parents[1] / "doc" / "user_guide" / "learning.rst"
MODULES = {name.partition("-")[0] for name in LOSSES}
COLUMNS = {
    "torch.func.grad": lambda loss, batch: torch.func.grad(loss)(batch[0]),
    "torch.func.vmap": lambda loss, batch: torch.func.vmap(loss)(batch),
    "torch.compile": lambda loss, batch: compiled_gradient(loss, batch[0]),
    "autocast": lambda loss, batch: autocast_gradient(loss, batch[0]),
}


def gradient(loss, samples):
    """Return the gradient of a function of samples."""
    leaf = samples.clone().requires_grad_()
    return torch.autograd.grad(loss(leaf), leaf)[0]


def compiled_gradient(loss, samples):
    """Return the gradient of a compiled function, of one graph or of parts."""
    return gradient(torch.compile(loss, backend="eager"), samples)


def autocast_gradient(loss, samples):
    """Return the gradient of a function that runs under autocast, as torch advises."""
    leaf = samples.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(leaf)
    return torch.autograd.grad(value, leaf)[0]


def cells():
    """Return the cells of the page's table by module and column."""
    text = PAGE.read_text(encoding="utf-8").partition(":header: module, ")[2]
    header, *rows = text.partition("\n\nThe forests")[0].splitlines()
    columns = header.split(", ")
    table = [row.strip().split(", ") for row in rows if ", " in row]
    return {
        (name, column): value
        for name, *values in table
        for column, value in zip(columns, values, strict=True)
    }


CELLS = cells()
DISTRIBUTED = "DistributedDataParallel"


def test_the_table_of_modes_has_every_module():
    assert {name for name, _ in CELLS} == MODULES
    assert {column for _, column in CELLS} == {*COLUMNS, DISTRIBUTED}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("name", sorted(MODULES))
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # the compiler's
def test_a_cell_of_the_table_of_modes_is_true(name, column):
    generator = torch.Generator().manual_seed(2)
    batch = torch.randn(2, N, 3, generator=generator)
    loss = LOSSES[name] if name in LOSSES else LOSSES[f"{name}-rbf"]
    run = COLUMNS[column]
    if CELLS[name, column] == "refused":
        with pytest.raises(ValueError, match=f"{name} cannot be used inside a transf"):
            run(loss, batch)
        return
    assert CELLS[name, column] == "works"
    found = run(loss, batch)
    if column == "torch.func.vmap":
        expected = torch.stack([loss(item) for item in batch])
    else:
        expected = gradient(loss, batch[0])
    torch.testing.assert_close(found, expected)


def joint_batch():
    """Return a network that is not trained, and samples (24, 3) for it."""
    generator = torch.Generator().manual_seed(2)
    network = nn.Linear(3, 3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return network, torch.randn(N, 3, generator=generator)


def train_in_a_process(folder, rank):
    """Write losses and gradients of the shard of a process, as it is and gathered."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    rows = SHARDS[rank]
    found = {}
    for name in MODULES:
        network, samples = joint_batch()
        network = DistributedDataParallel(network)
        if CELLS[name, DISTRIBUTED] == "gathered":
            outputs = gather_over_processes(network(samples[rows]))
            found[f"{name} gathered"] = gradient_of_weights(name, network, outputs)
        outputs = network(samples[rows])
        found[name] = gradient_of_weights(name, network, outputs, rows)
    np.savez(folder / f"{rank}.npz", **found)
    dist.barrier()
    dist.destroy_process_group()


def gradient_of_weights(name, network, outputs, rows=EVERY):
    """Return the gradient (3, 3) of a loss of the outputs of a network."""
    network.zero_grad()
    LOSSES[name](outputs, rows).backward()
    (weight, _) = network.parameters()
    return weight.grad.numpy().copy()


@pytest.fixture(scope="module")
def of_two_processes(tmp_path_factory):
    """Return what the two processes write."""
    folder = tmp_path_factory.mktemp("processes")
    context = multiprocessing.get_context("fork")
    children = [
        context.Process(target=train_in_a_process, args=(folder, rank))
        for rank in range(2)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads alive
        for child in children:
            child.start()
    for child in children:
        child.join(120)
    assert [child.exitcode for child in children] == [0, 0]
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(2)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="There is no fork here.")
@pytest.mark.parametrize("name", sorted(MODULES))
def test_two_processes_have_the_gradient_of_the_joint_batch(name, of_two_processes):
    network, samples = joint_batch()
    expected = gradient_of_weights(name, network, network(samples))
    for found in of_two_processes:
        if CELLS[name, DISTRIBUTED] == "gathered":
            assert_allclose(found[f"{name} gathered"], expected, rtol=1e-4, atol=1e-5)
            # The mean of the losses of the two shards is another loss.
            assert not np.allclose(found[name], expected, rtol=1e-2)
        else:
            assert CELLS[name, DISTRIBUTED] == "works"
            assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)
