"""How long do the losses and estimators take on a CUDA device?

Seconds of a step in turn with the CPU, and of whole fits of the images of USPS, whose
labels are compared with those of the CPU. Where there is no device it says so.

    python benchmarks/bench_devices.py
    python benchmarks/bench_devices.py --rehearse

`--rehearse` runs all of it on the CPU at small sizes.
"""

import argparse
import time
import warnings
from statistics import median

import numpy as np
import torch
from shared import load, versions
from sklearn.metrics import adjusted_rand_score
from torch import nn

from skdiffclust import GEMINI, ClAM, DeepClAM, PRCut
from skdiffclust.nn import GEMINILoss, PerturbedForest, RatioCutLoss

ROUNDS = 5


def similarity_of(n, seed=0):
    """Return a standardised similarity (n, n) of ten groups of points."""
    rng = np.random.RandomState(seed)
    points = 2.0 * rng.normal(size=(10, 8))[np.arange(n) % 10] + rng.normal(size=(n, 8))
    squares = np.square(points[:, None] - points[None]).sum(axis=2)
    return -(squares - squares.mean()) / squares.std()


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


def fits(name):
    """Return the classes of a data set, and {estimator: its fit on a device}."""
    X, y = load(name)
    X = X / X.max()
    params = {"random_state": 0}
    return y, {
        "DeepClAM(10)": lambda device: DeepClAM(10, device=device, **params).fit(X),
        "PRCut(10)": lambda device: PRCut(10, device=device, **params).fit(X),
        "GEMINI(10, model='mlp', batch_size=500)": lambda device: GEMINI(
            10, model="mlp", batch_size=500, device=device, **params
        ).fit(X),
    }


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


def report_fits(device, name):
    """Fit on the CPU and twice on the device: seconds, and agreement of the labels."""
    y, fit_on = fits(name)
    for what, fit in fit_on.items():
        seconds, labels = [], []
        for place in ("cpu", device, device):
            start, used = time.perf_counter(), time.process_time()
            model = quietly(fit, place)
            taken = time.perf_counter() - start, time.process_time() - used
            seconds.append("{:.2f} ({:.2f})".format(*taken))
            labels.append(model.labels_)
        same = [adjusted_rand_score(labels[0], other) for other in (y, *labels[1:])]
        print(f"{name}, {what}: {' '.join(seconds)}", *np.round(same, 3), flush=True)


def main():
    """Measure; say so where there is no device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rehearse", action="store_true")
    rehearse = parser.parse_args().rehearse
    if not torch.cuda.is_available() and not rehearse:
        print("torch sees no CUDA device here: nothing was run.")
        return
    device = "cpu" if rehearse else "cuda"
    name = "the CPU" if rehearse else torch.cuda.get_device_name(device)
    print(f"{name}; {versions('torch', 'numba', 'numpy', 'scikit-learn')}")
    print("Seconds of a step: CPU, device, ratio")
    for room, what, cpu, gpu in times(device, small=rehearse):
        print(f"{room}, {what}: {cpu:.4f} {gpu:.4f} {cpu / gpu:.1f}", flush=True)
    print("Fits: seconds (processor time) on the CPU, the device, and there again; the")
    print("ARI of the CPU's labels with the classes, and with those of the other fits")
    report_fits(device, "digits" if rehearse else "usps_train")


if __name__ == "__main__":
    main()
