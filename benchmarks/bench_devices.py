"""How long do forests, memories and whole fits take on a CUDA device?

Seconds of a step, in turn with the CPU and captured in a CUDA graph, and of whole fits
of the images of USPS, whose labels are compared with those of the CPU. Where there is
no device it says so.

    python benchmarks/bench_devices.py
    python benchmarks/bench_devices.py --rehearse

`--rehearse` runs all of it on the CPU at small sizes.
"""

import argparse
import time
import warnings

import numpy as np
import torch
from shared import both_clocks, load, versions
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GEMINI, DeepClAM, PRCut
from skdiffclust.nn import (
    AssociativeMemory,
    PartialFenchelYoungLoss,
    PerturbedForest,
    standardized_affinity,
)

ROUNDS = 5


def points_of(n, device):
    """Return points (n, 8) in ten groups, float32."""
    rng = np.random.RandomState(0)
    points = 2.0 * rng.normal(size=(10, 8))[np.arange(n) % 10] + rng.normal(size=(n, 8))
    return torch.tensor(points, dtype=torch.float32, device=device)


def forest_step(n, n_samples, device):
    """Return a function: forward and backward of a perturbed forest of ten groups."""
    leaf = standardized_affinity(points_of(n, device)).requires_grad_()
    cotangent = torch.arange(n * n, device=device).cos().reshape(n, n)
    layer = PerturbedForest(10, n_perturbations=n_samples, seed=0)

    def step():
        leaf.grad = None
        forest, weight = layer(leaf)
        ((forest * cotangent).sum() + weight).backward()

    return step


def partial_step(n, n_samples, device):
    """Return a function: a step of a perceptron by the partial loss, half labelled."""
    torch.manual_seed(0)
    points = points_of(n, device)
    network = torch.nn.Sequential(
        torch.nn.Linear(8, 100), torch.nn.ReLU(), torch.nn.Linear(100, 32)
    ).to(device)
    optimizer = torch.optim.Adam(network.parameters(), capturable=device != "cpu")
    loss_of = PartialFenchelYoungLoss(10, n_perturbations=n_samples)
    numbers = torch.arange(n, device=device)
    labels = torch.where(numbers < n // 2, numbers % 10, -1)

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss_of(standardized_affinity(network(points)), labels).backward()
        optimizer.step()

    return step


def memories_step(n, d, device):
    """Return a function: forward and backward of the loss of ten memories."""
    rng = np.random.RandomState(0)
    X = torch.tensor(rng.normal(size=(n, d)).astype(np.float32), device=device)
    mask = torch.arange(d, device=device) % 7 > 0
    layer = AssociativeMemory(10, d, inverse_temperature=1.0, memories=X[:10].cpu())
    layer.to(device)
    return lambda: layer.loss(X, mask).backward()


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


def captured(step):
    """Return a function that replays a step, captured in a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def report_step(what, prepare, *arguments, device, in_graph=True):
    """Print medians of alternating steps: the CPU, the device, and its CUDA graph."""
    steps = [prepare(*arguments, place) for place in ("cpu", device)]
    if in_graph and torch.cuda.is_available():
        steps.append(captured(prepare(*arguments, device)))
    for step in 2 * steps:  # the first calls compile
        seconds_of(step)
    taken = [[seconds_of(step) for step in steps] for _ in range(ROUNDS)]
    medians = np.median(taken, axis=0)
    seconds = " ".join(f"{value:.6f}" for value in medians)
    print(f"{what} {arguments}: {seconds}; {medians[0] / medians[-1]:.1f}", flush=True)


def report_fits(device, name):
    """Fit on the CPU and twice on the device: seconds, and agreement of the labels."""
    X, _ = load(name)
    X = X / X.max()
    models = (
        DeepClAM(10, random_state=0),
        PRCut(10, random_state=0),
        GEMINI(10, model="mlp", batch_size=500, random_state=0),
    )
    for model in models:
        print(f"{name}, {model!r}:", end=" ")
        labels = []
        for place in ("cpu", device, device):
            elapsed, used, _ = both_clocks(model.set_params(device=place).fit, X)
            print(f"{elapsed:.2f} ({used:.2f})", end=" ")
            labels.append(model.labels_)
        same = [adjusted_rand_score(labels[0], other) for other in labels[1:]]
        print(*np.round(same, 3), flush=True)


def main():
    """Measure; say so where there is no device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rehearse", action="store_true")
    small = parser.parse_args().rehearse
    if not torch.cuda.is_available() and not small:
        print("torch sees no CUDA device here: nothing was run.")
        return
    device = "cpu" if small else "cuda"
    name = "the CPU" if small else torch.cuda.get_device_name(device)
    warnings.simplefilter("ignore")  # a few epochs do not converge
    print(f"{name}; {versions('torch', 'numba', 'numpy', 'scikit-learn')}")
    print("Seconds of a step: CPU, device, its graph; CPU / the last of them")
    for n in (16, 24) if small else (64, 256, 512, 1024):
        for n_draws in (10,) if small else (100, 1000):
            for what, prepare in (("forest", forest_step), ("loss", partial_step)):
                report_step(
                    f"{what}, samples and draws", prepare, n, n_draws, device=device
                )
    size = (500, 4) if small else (100_000, 64)
    report_step(
        "AssociativeMemory, samples and features",
        memories_step,
        *size,
        device=device,
        in_graph=False,
    )
    print("Fits: seconds (processor time) on the CPU, the device, and there again, and")
    print("the ARI of the CPU's labels with those of the other fits")
    report_fits(device, "digits" if small else "usps_train")


if __name__ == "__main__":
    main()
