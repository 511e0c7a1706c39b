"""What do the losses and estimators give on a CUDA device, and how long do they take?

Where there is a device: the largest difference of value and gradient of each loss from
the CPU, in float64 and float32, and times in turn with the CPU. Where there is none it
says so. The tests marked `gpu` are run by ``pytest -m gpu``.

    PYTHONPATH=. python3 benchmarks/bench_devices.py
    PYTHONPATH=. python3 benchmarks/bench_devices.py --rehearse

`--rehearse` runs all of it on the CPU at small sizes.
"""

import argparse
import sys
import time
import warnings
from statistics import median

import numpy as np
import torch
from shared import versions
from torch import nn

from skdiffclust import ClAM
from skdiffclust.nn import (
    AssociativeMemory,
    ConnectivityLoss,
    FenchelYoungLoss,
    GEMINILoss,
    PartialFenchelYoungLoss,
    PerturbedForest,
    RatioCutLoss,
)

ROUNDS = 5
TOLERANCE = {"float64": 1e-9, "float32": 1e-3}


def similarity_of(n, seed=0):
    """Return a standardised similarity (n, n) of ten groups of points."""
    rng = np.random.RandomState(seed)
    points = 2.0 * rng.normal(size=(10, 8))[np.arange(n) % 10] + rng.normal(size=(n, 8))
    squares = np.square(points[:, None] - points[None]).sum(axis=2)
    return -(squares - squares.mean()) / squares.std()


def labels_of(n):
    """Return the group of every second sample, -1 for the others."""
    return np.where(np.arange(n) % 2, -1, np.arange(n) % 10)


# Equality: name -> function of a tensor (64, 10) or (64, 64) that gives a loss.


def losses():
    """Return {room, name: (input as an array, function of a tensor on any device)}."""
    n = 64
    rng = np.random.RandomState(0)
    square, logits = similarity_of(n), rng.normal(size=(n, 10))
    rows, start = rng.normal(size=(n, 10)), rng.normal(size=(5, 10))
    graph = np.abs(rng.normal(size=(n, n)))
    graph = graph + graph.T
    options = {"n_perturbations": 100, "seed": 0}
    edges = [[0, 10], [10, 20], [1, 11]]

    def like(array, tensor):
        return torch.tensor(array, device=tensor.device, dtype=tensor.dtype)

    def forest(part):
        weights = np.cos(np.arange(n * n)).reshape(n, n)

        def loss_of(tensor):
            layer = PerturbedForest(10, **options)
            found = layer(tensor, return_connectivity=part == 2)[part]
            return found if part == 1 else (found * like(weights, tensor)).sum()

        return loss_of

    def memory(metric, masked=False):
        def loss_of(tensor):
            layer = AssociativeMemory(
                5, 10, inverse_temperature=0.5, metric=metric, memories=start
            ).to(tensor.device, tensor.dtype)
            mask = like(rows, tensor) > 0 if masked else None
            return layer.loss(tensor, mask)

        return loss_of

    found = {
        ("forests", "A, score function"): (square, forest(0)),
        ("forests", "F"): (square, forest(1)),
        ("forests", "M, score function"): (square, forest(2)),
        ("forests", "partial loss, labels"): (
            square,
            lambda t: PartialFenchelYoungLoss(10, **options)(t, labels_of(n)),
        ),
        ("forests", "connectivity loss"): (
            square,
            lambda t: ConnectivityLoss(10, **options)(t, labels_of(n)),
        ),
        ("forests", "Fenchel-Young loss"): (
            square,
            lambda t: FenchelYoungLoss(**options)(t, edges),
        ),
        ("memories", "euclidean"): (rows, memory("euclidean")),
        ("memories", "euclidean, masked"): (rows, memory("euclidean", masked=True)),
        ("memories", "cosine"): (rows, memory("cosine")),
        ("memories", "manhattan"): (rows, memory("manhattan")),
        ("cuts", "ratio-cut"): (logits, lambda t: RatioCutLoss(10)(like(graph, t), t)),
    }
    for objective in ("mmd", "kl", "tv", "hellinger", "chi2", "wasserstein"):
        for mode in ("ova", "ovo"):
            loss = GEMINILoss(objective, mode=mode)
            found["gemini", f"{objective}, {mode}"] = (
                logits,
                lambda t, loss=loss: loss(t, like(rows, t)),
            )
    return found


def differences(device):
    """Yield (room, name, dtype, difference of the value, of the gradient)."""
    for (room, name), (array, loss_of) in losses().items():
        for dtype in TOLERANCE:
            found = []
            for place in ("cpu", device):
                leaf = torch.tensor(
                    array,
                    dtype=getattr(torch, dtype),
                    device=place,
                    requires_grad=True,
                )
                value = loss_of(leaf)
                value.backward()
                found.append((value.detach().cpu().double(), leaf.grad.cpu().double()))
            (one, first), (other, second) = found
            by_value = float((one - other).abs()) / max(float(one.abs()), 1e-300)
            norm = max(float(first.norm()), 1e-300)
            yield room, name, dtype, by_value, float((first - second).norm()) / norm


# Times.


def forest_step(n, n_samples):
    """Return a function of a device: forward and backward of the perturbed forest."""
    matrix, cotangent = similarity_of(n), np.cos(np.arange(n * n)).reshape(n, n)

    def prepare(device):
        leaf = torch.tensor(matrix, device=device, requires_grad=True)
        pull = torch.tensor(cotangent, device=device)
        layer = PerturbedForest(10, n_perturbations=n_samples, seed=0)

        def step():
            leaf.grad = None
            forest, weight = layer(leaf)
            ((forest * pull).sum() + weight).backward()

        return step

    return prepare


def memories_step(n, d, k, batch):
    """Return a function of a device: one epoch of ClAM in training units."""
    X = np.random.RandomState(0).normal(size=(n, d)).astype(np.float32)

    def prepare(device):
        model = ClAM(
            k,
            n_init=2,
            init="random",
            max_iter=1,
            batch_size=batch,
            device=device,
            random_state=0,
        )
        return lambda: quietly(model.fit, X)

    return prepare


def cuts_step(n, d, k, batch):
    """Return a function of a device: an epoch of the loss of PRCut with its encoder."""
    rng = np.random.RandomState(0)
    rows = rng.normal(size=(n, d)).astype(np.float32)
    block = (rng.uniform(size=(batch, batch)) < 0.04).astype(np.float32)

    def prepare(device):
        X, graph = torch.tensor(rows, device=device), torch.tensor(block, device=device)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            network = nn.Sequential(nn.Linear(d, 128), nn.GELU(), nn.Linear(128, k))
        network, loss_of = network.to(device), RatioCutLoss(k).to(device)
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)

        def step():
            for first in range(0, n - 2 * batch + 1, 2 * batch):
                optimizer.zero_grad()
                left = network(X[first : first + batch])
                right = network(X[first + batch : first + 2 * batch])
                loss_of(graph, left, right).backward()
                optimizer.step()

        return step

    return prepare


def gemini_step(n, d, k, objective, mode):
    """Return a function of a device: forward and backward of GEMINILoss."""
    rng = np.random.RandomState(0)
    rows = rng.normal(size=(n, d)).astype(np.float32)
    logits = rng.normal(size=(n, k)).astype(np.float32)

    def prepare(device):
        leaf = torch.tensor(logits, device=device, requires_grad=True)
        features = torch.tensor(rows, device=device)
        loss_of = GEMINILoss(objective, mode=mode)

        def step():
            leaf.grad = None
            loss_of(leaf, features).backward()

        return step

    return prepare


def quietly(function, *args):
    """Call a function whose few epochs do not converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


def workloads(small):
    """Return {(room, what): function that prepares a step on a device}."""
    sizes = (16, 24) if small else (64, 256, 512)
    samples = (10,) if small else (100, 1000)
    found = {
        ("forests", f"forward and backward, n = {n}, B = {b}"): forest_step(n, b)
        for n in sizes
        for b in samples
    }
    for n, d, k in [(500, 4, 3)] if small else [(100_000, 64, 10), (200_000, 64, 50)]:
        what = f"ClAM, one epoch, {n} × {d}, k = {k}"
        found["memories", what] = memories_step(n, d, k, n // 10)
    for n, d, k in [(600, 4, 3)] if small else [(10_000, 784, 10), (20_000, 16, 26)]:
        batch = 64 if small else 256
        what = f"RatioCutLoss with its network, one epoch, {n} × {d}, k = {k}"
        found["cuts", what] = cuts_step(n, d, k, batch)
    for n, d, k in [(100, 4, 3)] if small else [(1000, 64, 10), (20_000, 64, 10)]:
        for objective, mode in (("mmd", "ova"), ("mmd", "ovo"), ("kl", "ovo")):
            what = f"GEMINILoss {objective} {mode}, {n} × {d}, k = {k}"
            found["gemini", what] = gemini_step(n, d, k, objective, mode)
    return found


def seconds_of(step):
    """Return the seconds of one step, the device's work included."""
    wait()
    start = time.perf_counter()
    step()
    wait()
    return time.perf_counter() - start


def wait():
    """Wait until the device has done its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def times(device, small):
    """Yield (room, what, seconds on the CPU, on the device), medians of rounds."""
    for (room, what), prepare in workloads(small).items():
        steps = [prepare("cpu"), prepare(device)]
        for step in 2 * steps:  # the first calls compile
            seconds_of(step)
        taken = [[seconds_of(step) for step in steps] for _ in range(ROUNDS)]
        yield room, what, *map(median, zip(*taken, strict=True))


def main():
    """Compare and measure; say so where there is no device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rehearse", action="store_true")
    rehearse = parser.parse_args().rehearse
    if not torch.cuda.is_available() and not rehearse:
        print("torch sees no CUDA device here: nothing was run.")
        return 0
    device = "cpu" if rehearse else "cuda"
    name = "the CPU" if rehearse else torch.cuda.get_device_name(device)
    print(f"{name}; {versions('torch', 'numba', 'numpy', 'scikit-learn')}")
    print("Differences from the CPU, relative: value, gradient")
    n_unequal = 0
    for room, loss, dtype, *found in differences(device):
        is_equal = max(found) <= TOLERANCE[dtype]
        n_unequal += not is_equal
        numbers = " ".join(f"{number:.1e}" for number in found)
        print(f"{room}, {loss}, {dtype}: {numbers}{'' if is_equal else ' DIFFERS'}")
    print("Seconds of a step: CPU, device, ratio")
    for room, what, cpu, gpu in times(device, small=rehearse):
        print(f"{room}, {what}: {cpu:.4f} {gpu:.4f} {cpu / gpu:.1f}", flush=True)
    return int(n_unequal > 0)


if __name__ == "__main__":
    sys.exit(main())
