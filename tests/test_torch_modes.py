"""FAULTS 31 and 40: fits in modes of torch, in threads, and losses under autocast."""

import copy
import threading
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from skdiffclust import GEMINI, DeepClAM, PRCut, SpanningForestEmbedding
from skdiffclust.nn import (
    AssociativeMemory,
    FenchelYoungLoss,
    GEMINILoss,
    PartialFenchelYoungLoss,
    PerturbedForest,
    RatioCutLoss,
    spanning_tree,
    standardized_similarity,
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
GRAPH = torch.rand(N, N, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(N) % 3
# Every loss and layer of skdiffclust.nn as a function of samples (24, 3).
LOSSES = {
    "PartialFenchelYoungLoss": lambda e: PartialFenchelYoungLoss(3, seed=0)(
        standardized_similarity(e), LABELS
    ),
    "PartialFenchelYoungLoss-rbf": lambda e: PartialFenchelYoungLoss(3, seed=0)(
        standardized_similarity(e, "rbf"), LABELS
    ),
    "PartialFenchelYoungLoss-cosine": lambda e: PartialFenchelYoungLoss(3, seed=0)(
        standardized_similarity(e, "cosine"), LABELS
    ),
    "FenchelYoungLoss": lambda e: FenchelYoungLoss(seed=0)(
        standardized_similarity(e), [[0, 3], [3, 6], [1, 4]]
    ),
    "PerturbedForest": lambda e: PerturbedForest(3, seed=0)(standardized_similarity(e))[
        1
    ],
    "spanning_tree": lambda e: spanning_tree(e)[1].sum(),
    "RatioCutLoss": lambda e: RatioCutLoss(3)(e, GRAPH + GRAPH.T),
    "GEMINILoss": lambda e: GEMINILoss("mmd", mode="ovo")(e, GRAPH[:, :5]),
    "GEMINILoss-kl": lambda e: GEMINILoss("kl")(e),
    "AssociativeMemory": lambda e: AssociativeMemory(
        3, 3, inverse_temperature=1.0, memories=GRAPH[:3, :3]
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
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # the compiler's
def test_compiled_losses_of_forests_are_those_of_eager_torch(name):
    samples = torch.randn(N, 3, generator=torch.Generator().manual_seed(2))
    compiled = torch.compile(lambda e: 2 * LOSSES[name](e), backend="eager")
    leaf = samples.clone().requires_grad_()
    loss = compiled(leaf)
    loss.backward()
    value, gradient = value_and_gradient(name, samples, nullcontext())
    assert torch.equal(loss.detach(), 2 * value)
    assert torch.equal(leaf.grad, 2 * gradient)


@pytest.mark.parametrize("name", FORESTS)
@pytest.mark.parametrize("transform", ["grad", "vmap"])
def test_transforms_of_losses_of_forests_are_refused(name, transform):
    samples = torch.randn(2, N, 3, generator=torch.Generator().manual_seed(2))
    module = name.split("-")[0]
    message = f"{module} cannot be used inside a transform of torch.func"
    with pytest.raises(ValueError, match=message):
        if transform == "grad":
            torch.func.grad(LOSSES[name])(samples[0])
        else:
            torch.func.vmap(LOSSES[name])(samples)


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


def test_the_table_of_modes_has_every_module():
    assert {name for name, _ in CELLS} == MODULES
    assert {column for _, column in CELLS} == {*COLUMNS}


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
