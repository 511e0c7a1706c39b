"""The torch twin: equal to NumPy, differentiable, and a layer for any encoder."""

import copy
import os
import socket
import warnings

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from skdiffclust.memories import _dynamics
from skdiffclust.memories._dynamics import Dynamics
from skdiffclust.memories._torch import recall
from skdiffclust.nn import AssociativeMemory

METRICS = ("euclidean", "cosine", "manhattan")


def problem(metric, seed=0):
    """Return rows, memories of three restarts, log weights, fill, sample weights."""
    rng = np.random.RandomState(seed)
    X = rng.randn(24, 7) + 3.0
    if metric == "cosine":
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    memories = X[rng.permutation(24)[:15]].reshape(3, 5, 7) + 0.1 * rng.randn(3, 5, 7)
    return X, memories, 0.5 * rng.randn(3, 5), X.mean(axis=0), rng.rand(24)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("step_size", [0.4, 1.0])
def test_recall_is_the_definition(metric, step_size, global_random_seed):
    X, memories, log_weights, _, _ = problem(metric, global_random_seed)
    dynamics = Dynamics(3.0, 4, step_size, metric)
    found = recall(*(torch.tensor(a) for a in (X, memories, log_weights)), dynamics)
    for r in range(3):
        expected = _dynamics.recall(
            X,
            memories[r],
            3.0,
            n_steps=4,
            step_size=step_size,
            metric=metric,
            weights=np.exp(log_weights[r]),
        )
        np.testing.assert_allclose(found[r], expected, atol=1e-10)


@pytest.mark.parametrize("metric", METRICS)
def test_layer_is_the_functions(metric, global_random_seed):
    X, memories, _, fill, _ = problem(metric, global_random_seed)
    with torch.device("cpu"):
        layer = AssociativeMemory(
            5, 7, inverse_temperature=2.0, metric=metric, memories=memories[0]
        ).double()
    layer.memories.data = torch.tensor(memories[0])
    rows = torch.tensor(X)
    expected = _dynamics.energy(X, memories[0], 2.0, metric=metric)
    np.testing.assert_allclose(layer.energy(rows).detach(), expected)
    recalled = _dynamics.recall(X, memories[0], 2.0, metric=metric)
    np.testing.assert_allclose(layer(rows).detach(), recalled, atol=1e-10)
    error = recalled - X
    error = np.abs(error) if metric == "manhattan" else error**2
    assert layer.loss(rows).item() == pytest.approx(error.mean())
    mask = torch.tensor(np.random.RandomState(global_random_seed).rand(*X.shape) < 0.8)
    layer.loss(rows, mask, torch.tensor(fill)).backward()
    assert torch.isfinite(layer.memories.grad).all()
    network = nn.Linear(7, 7).double()
    code = network(rows)
    code = code / code.norm(dim=1, keepdim=True) if metric == "cosine" else code
    found = layer.reconstruction_loss(network, nn.Identity(), rows)
    torch.testing.assert_close(found, (layer(code) - rows).square().mean())
    held = layer(rows, mask)[mask]
    if metric != "cosine":
        assert torch.equal(held, rows[mask])


@pytest.mark.parametrize("metric", METRICS)
def test_a_module_of_half_precision_computes_in_float32(metric, global_random_seed):
    X, memories, *_ = problem(metric, global_random_seed)
    layer = AssociativeMemory(
        5, 7, inverse_temperature=2.0, metric=metric, memories=memories[0]
    ).bfloat16()
    rows = torch.tensor(X, dtype=torch.bfloat16)
    value = layer.loss(rows)
    value.backward()
    assert layer.memories.grad.dtype == torch.bfloat16
    known = rows.float()
    for found, expected in (
        (layer(rows), copy.deepcopy(layer).float()(known)),
        (layer.energy(rows), copy.deepcopy(layer).float().energy(known)),
        (value, copy.deepcopy(layer).float().loss(known)),
    ):
        torch.testing.assert_close(found, expected)
    assert torch.equal(layer.assign(rows), copy.deepcopy(layer).float().assign(known))


def test_a_mask_of_zeros_and_ones_is_one_of_bool(global_random_seed):
    X, memories, *_ = problem("euclidean", global_random_seed)
    layer = AssociativeMemory(5, 7, inverse_temperature=2.0, memories=memories[0])
    rows = torch.tensor(X, dtype=torch.float32)
    mask = torch.tensor(np.random.RandomState(global_random_seed).rand(*X.shape) < 0.8)
    for dtype in (torch.int64, torch.uint8, torch.float32):
        assert torch.equal(layer(rows, mask.to(dtype)), layer(rows, mask))
        assert torch.equal(layer.loss(rows, mask.to(dtype)), layer.loss(rows, mask))


def test_gradcheck_through_rows_memories_and_weights(global_random_seed):
    X, memories, log_weights, _, _ = problem("euclidean", global_random_seed)

    def run(X, memories, log_weights):
        return recall(X, memories, log_weights, Dynamics(0.5, 3, 0.7, "euclidean"))

    inputs = (X[:4], memories[0], log_weights[0])
    inputs = tuple(torch.tensor(a, requires_grad=True) for a in inputs)
    assert torch.autograd.gradcheck(run, inputs, atol=1e-6)


def test_trains_behind_an_encoder(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    y = np.repeat([0, 1], 60)
    X = np.hstack([rng.randn(120, 2) + 6.0 * y[:, None], rng.randn(120, 6)])
    rows = torch.tensor(X, dtype=torch.float32)
    torch.manual_seed(global_random_seed)
    encoder, decoder = nn.Linear(8, 2), nn.Linear(2, 8)
    layer = AssociativeMemory(2, 2, inverse_temperature=1.0, n_steps=2)
    model = nn.ModuleList([encoder, decoder, layer])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = (decoder(layer(encoder(rows))) - rows).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    labels = layer.assign(encoder(rows)).numpy()
    assert abs(np.corrcoef(labels, y)[0, 1]) > 0.9


def test_state_and_generator(global_random_seed):
    draw = torch.Generator().manual_seed(global_random_seed)
    a = AssociativeMemory(3, 2, inverse_temperature=1.0, generator=draw)
    b = AssociativeMemory(
        3,
        2,
        inverse_temperature=1.0,
        generator=torch.Generator().manual_seed(global_random_seed),
    )
    assert torch.equal(a.memories, b.memories)
    assert not a.log_weights.requires_grad
    assert AssociativeMemory(
        3, 2, inverse_temperature=1.0, weighted=True
    ).log_weights.requires_grad


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(n_steps=-1), "n_steps"),
        (dict(step_size=2.0), "step_size"),
        (dict(step_size=1.5, metric="manhattan"), "step_size"),
        (dict(metric="l3"), "metric"),
        (dict(inverse_temperature=float("nan")), "inverse_temperature"),
        (dict(memories=[[1.0]]), "memories"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        AssociativeMemory(3, 2, **{"inverse_temperature": 1.0, **change})


def deep_losses(rows):
    """Return the losses of some rows by layer and encoder, and their gradients."""
    X, memories, _, _, weight = problem("euclidean")
    X, weight = torch.tensor(X), torch.tensor(weight)
    torch.manual_seed(0)
    encoder, decoder = nn.Linear(7, 3).double(), nn.Linear(3, 7).double()
    layer = AssociativeMemory(4, 3, inverse_temperature=0.7, weighted=True).double()
    inner = AssociativeMemory(
        5, 7, inverse_temperature=0.3, memories=memories[0]
    ).double()
    mask = torch.arange(7) > 1
    losses = {
        "plain": inner.loss(X[rows]),
        "masked": inner.loss(X[rows], mask),
        "deep": layer.reconstruction_loss(
            encoder,
            decoder,
            X[rows],
            start=X[rows] * mask,
            sample_weight=weight[rows],
        ),
    }
    weights = [*encoder.parameters(), *layer.parameters(), inner.memories]
    found = {name: loss.item() for name, loss in losses.items()}
    gradients = torch.autograd.grad(sum(losses.values()), weights)
    return found, [gradient.numpy() for gradient in gradients]


def _process(rank, port, parts, folder):
    """Compute the losses of a part of the rows in its process."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    losses, gradients = deep_losses(parts[rank])
    np.savez(folder / f"{rank}.npz", *gradients, **losses)
    # To destroy the group waits for its threads, with torch 2.6 for ever now and then.
    os._exit(0)


def test_two_processes_have_the_loss_and_gradient_of_one(tmp_path):
    expected, gradients = deep_losses(slice(0, 24))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    parts = slice(0, 7), slice(7, 24)  # of different sizes
    # Forked, they need not import torch again.
    method = "fork" if "fork" in mp.get_all_start_methods() else "spawn"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork, threads alive
        mp.start_processes(_process, (port, parts, tmp_path), 2, start_method=method)
    found = [np.load(tmp_path / f"{rank}.npz") for rank in range(2)]
    for part in found:
        for name, value in expected.items():
            assert float(part[name]) == pytest.approx(value, rel=1e-12)
    for i, gradient in enumerate(gradients):
        # DistributedDataParallel averages the gradients of processes.
        mean = np.mean([part[f"arr_{i}"] for part in found], axis=0)
        np.testing.assert_allclose(mean, gradient, atol=1e-12)
