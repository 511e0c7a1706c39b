"""What do the rooms give on a CUDA device, and how long do they take there?

Where there is a device: the tests marked `gpu`, the equality of value and gradient
with the CPU in float64 and float32, and times in turn with the CPU;
doc/benchmarks/gpu.rst is written whole from what was measured. Where there is none it
says so, and writes nothing. From the source tree, with what an image with a device has
(Python 3.11 or newer, torch 2.6 or newer, numba, NumPy, scikit-learn; pytest for the
tests), without network, in nine minutes at most:

    PYTHONPATH=. python3 benchmarks/bench_devices.py

`--rehearse` runs all of it on the CPU at small sizes, and prints the page.
"""

import argparse
import platform
import subprocess
import sys
import time
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "doc" / "benchmarks" / "gpu.rst"
BUDGET = 540.0  # seconds of the whole run
SHARES = {"tests": 0.3, "equality": 0.45}  # of the budget, where each part must end
ROUNDS = 5
TOLERANCE = {"float64": 1e-9, "float32": 1e-3}


class Clock:
    """Seconds since the start of the run, and whether there are any left."""

    def __init__(self, budget):
        self.start, self.budget = time.perf_counter(), budget

    def left(self, share=1.0):
        """Return the seconds until a share of the budget is spent."""
        return share * self.budget - (time.perf_counter() - self.start)


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


def losses(torch):
    """Return {room, name: (input as an array, function of a tensor on any device)}."""
    from skdiffclust.nn import (
        AssociativeMemory,
        ConnectivityLoss,
        FenchelYoungLoss,
        GEMINILoss,
        PartialFenchelYoungLoss,
        PerturbedForest,
        RatioCutLoss,
    )

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


def equality(torch, device, clock):
    """Yield (room, name, dtype, difference of value, of gradient); None if too late."""
    for (room, name), (array, loss_of) in losses(torch).items():
        for dtype in ("float64", "float32"):
            if clock.left(SHARES["equality"]) < 0:
                yield room, name, dtype, None, None
                continue
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
            scale = max(float(first.norm()), 1e-300)
            yield (
                room,
                name,
                dtype,
                float((one - other).abs()) / max(float(one.abs()), 1e-300),
                float((first - second).norm()) / scale,
            )


# Times.


def forest_step(torch, n, n_samples):
    """Return a function of a device: forward and backward of the perturbed forest."""
    from skdiffclust.nn import PerturbedForest

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


def memories_step(torch, n, d, k, batch):
    """Return a function of a device: one epoch of ClAM in training units."""
    from skdiffclust import ClAM

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


def cuts_step(torch, n, d, k, batch):
    """Return a function of a device: an epoch of the loss of PRCut with its encoder."""
    from torch import nn

    from skdiffclust.nn import RatioCutLoss

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


def gemini_step(torch, n, d, k, objective, mode):
    """Return a function of a device: forward and backward of GEMINILoss."""
    from skdiffclust.nn import GEMINILoss

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
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


def workloads(torch, small):
    """Return {(room, what): function that prepares a step on a device}."""
    sizes = (16, 24) if small else (64, 256, 512)
    samples = (10,) if small else (100, 1000)
    found = {
        ("forests", f"forward and backward, n = {n}, B = {b}"): forest_step(torch, n, b)
        for n in sizes
        for b in samples
    }
    for n, d, k in [(500, 4, 3)] if small else [(100_000, 64, 10), (200_000, 64, 50)]:
        what = f"ClAM, one epoch, {n} × {d}, k = {k}"
        found["memories", what] = memories_step(torch, n, d, k, n // 10)
    for n, d, k in [(600, 4, 3)] if small else [(10_000, 784, 10), (20_000, 16, 26)]:
        batch = 64 if small else 256
        what = f"RatioCutLoss with its network, one epoch, {n} × {d}, k = {k}"
        found["cuts", what] = cuts_step(torch, n, d, k, batch)
    for n, d, k in [(100, 4, 3)] if small else [(1000, 64, 10), (20_000, 64, 10)]:
        for objective, mode in (("mmd", "ova"), ("mmd", "ovo"), ("kl", "ovo")):
            what = f"GEMINILoss {objective} {mode}, {n} × {d}, k = {k}"
            found["gemini", what] = gemini_step(torch, n, d, k, objective, mode)
    return found


def seconds_of(step, wait):
    """Return the seconds of one step, the device's work included."""
    wait()
    start = time.perf_counter()
    step()
    wait()
    return time.perf_counter() - start


def times(torch, device, clock, small):
    """Yield (room, what, seconds on the CPU, on the device); None where too late."""
    cuda = torch.device(device).type == "cuda"

    def wait():
        if cuda:
            torch.cuda.synchronize()

    for (room, what), prepare in workloads(torch, small).items():
        # What the slowest pair takes, its first call, which compiles, among it.
        if clock.left() < 100 and not small:
            yield room, what, None, None
            continue
        steps = [prepare("cpu"), prepare(device)]
        taken = [[], []]
        for _ in range(2):
            first = [seconds_of(step, wait) for step in steps]
        rounds = ROUNDS if sum(first) * ROUNDS < 20 else 1
        for _ in range(rounds):
            for step, found in zip(steps, taken, strict=True):
                found.append(seconds_of(step, wait))
        yield room, what, median(taken[0]), median(taken[1])


# The page.


def marked_tests(clock):
    """Run the tests marked `gpu`; return what pytest says in its last line."""
    if find_spec("pytest") is None:
        return "pytest is not installed here, so that the marked tests did not run"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "gpu",
        "-p",
        "no:cacheprovider",
    ]
    files = sorted(
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark.gpu" in path.read_text(encoding="utf-8")
    )
    try:
        result = subprocess.run(
            [*command, *map(str, files)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=clock.left(SHARES["tests"]),
        )
    except subprocess.TimeoutExpired:
        return "the marked tests did not end in their share of the time"
    lines = (result.stdout + result.stderr).strip().splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    for line in failed:
        print(line)
    return lines[-1].strip("= ") + (f", of which {'; '.join(failed)}" if failed else "")


def versions(torch, device):
    """Return what ran."""
    names = ["numpy", "numba", "scikit-learn"]
    said = ", ".join(f"{name} {metadata.version(name)}" for name in names)
    name = "the CPU"
    if torch.device(device).type == "cuda":
        capability = ".".join(map(str, torch.cuda.get_device_capability(device)))
        name = (
            f"{torch.cuda.get_device_name(device)} (compute capability {capability}, "
        )
        name += f"CUDA {torch.version.cuda})"
    return (
        f"{name}; {torch.get_num_threads()} threads of torch on {platform.machine()}; "
        f"Python {platform.python_version()}, torch {torch.__version__}, {said}"
    )


def table(header, rows):
    """Return a list table in reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [header, *rows]:
        for i, cell in enumerate(row):
            lines.append(("   * - " if i == 0 else "     - ") + str(cell))
    return "\n".join(lines)


def shown(number, form="{:.1e}"):
    """Return a number as it is written on the page."""
    return "not reached" if number is None else form.format(number)


def page(about, tests, compared, timed, seconds):
    """Return the text of doc/benchmarks/gpu.rst."""
    worst = {
        dtype: max(
            (
                max(value, gradient)
                for *_, kind, value, gradient in compared
                if kind == dtype and value is not None
            ),
            default=float("nan"),
        )
        for dtype in TOLERANCE
    }
    summary = ", ".join(
        f"{worst[dtype]:.1e} in {dtype} (wanted: {TOLERANCE[dtype]:.0e})"
        for dtype in TOLERANCE
    )
    equal_rows = [
        (room, name, dtype, shown(value), shown(gradient))
        for room, name, dtype, value, gradient in compared
    ]
    time_rows = [
        (
            room,
            what,
            shown(cpu, "{:.4f}"),
            shown(gpu, "{:.4f}"),
            "" if cpu is None else f"{cpu / gpu:.1f}",
        )
        for room, what, cpu, gpu in timed
    ]
    return f"""GPU
===

``PYTHONPATH=. python3 benchmarks/bench_devices.py`` wrote this page, in {seconds:.0f}
s. It ran on {about}.

Tests marked ``gpu``: {tests}.

Equality with the CPU
---------------------

Value and gradient of every loss, from one seed: the difference of the values by the
value on the CPU, and the norm of the difference of the gradients by the norm of the
gradient. The largest is {summary}.

{table(("room", "loss", "dtype", "value", "gradient"), equal_rows)}

Times
-----

Seconds of the elapsed clock, medians of alternating pairs after two steps that are not
counted; the last column is CPU by GPU, above 1 where the GPU is faster. On the CPU the
same code runs in the compiled kernels or in torch, with the threads named above.

{table(("room", "step", "CPU", "GPU", "ratio"), time_rows)}
"""


def main():
    """Measure, and write the page; say so where there is no device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rehearse", action="store_true")
    rehearse = parser.parse_args().rehearse
    if find_spec("torch") is None:
        print("torch is not installed here, so no CUDA device is available.")
        return 0
    import torch

    if not torch.cuda.is_available() and not rehearse:
        print("torch sees no CUDA device here: nothing was run and nothing written.")
        return 0
    clock = Clock(BUDGET)
    device = "cpu" if rehearse else "cuda"
    about = versions(torch, device)
    print(about, flush=True)
    tests = "not run in a rehearsal" if rehearse else marked_tests(clock)
    print(f"tests marked gpu: {tests}", flush=True)
    compared = []
    for row in equality(torch, device, clock):
        compared.append(row)
        print(*row[:3], *map(shown, row[3:]), flush=True)
    timed = []
    for row in times(torch, device, clock, small=rehearse):
        timed.append(row)
        print(*row[:2], *(shown(s, "{:.4f}") for s in row[2:]), flush=True)
    text = page(about, tests, compared, timed, clock.budget - clock.left())
    if rehearse:
        print(text)
        return 0
    PAGE.write_text(text, encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
    unequal = [
        row
        for row in compared
        if row[3] is not None and not max(row[3:]) <= TOLERANCE[row[2]]
    ]
    for row in unequal:
        print("differs from the CPU:", *row)
    return 1 if unequal else 0


if __name__ == "__main__":
    sys.exit(main())
