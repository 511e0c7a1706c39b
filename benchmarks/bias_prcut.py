"""What do mini-batches know of the exact expected ratio-cut, and with which bias?

    python benchmarks/bias_prcut.py

Given, for all rows, the products at the nodes of the quadrature, the expectation is
linear in the graph, and pairs of batches estimate it without bias; so is the bound,
given the proportions. A batch knows neither. Here the logarithms of the products are
estimated by the batch (rate 1), by a running average of batches (rate .2), or known
(rate 0), and so are the proportions of the bound. Digits, 10 neighbours, assignments
of two degrees of softness.

"value": mean estimate over exact value. "slope": mean estimated gradient by logits on
the exact one, 1 without bias. "cosine": of the gradient of one pair and the exact one
at its rows.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from sklearn.datasets import load_digits

from skdiffclust import PRCut
from skdiffclust.cuts._ratio_cut import _NODES, _WEIGHTS

N_PAIRS = 200
BATCH_SIZES = (64, 256)
RATES = (1.0, 0.2, 0.0)


def cuts(block, left, right):
    """Return the cut (k,) of a block (a, b), half of it from each side."""
    rows = left * (block.sum(dim=1, keepdim=True) - block @ right)
    columns = right * (block.sum(dim=0)[:, None] - block.T @ left)
    return 0.5 * (rows.sum(dim=0) + columns.sum(dim=0))


class Exact:
    """The expected ratio-cut: its statistic is the mean of log(1 - p t) at 24 nodes."""

    def __init__(self, assignments):
        upper = 45.0 / assignments.sum(dim=0).clamp(min=45.0)
        self.reach = [upper * node for node in _NODES]
        self.weights = [upper * weight for weight in _WEIGHTS]

    def statistic(self, p):
        """Return the means (24, k) over the rows of p (b, k)."""
        return torch.stack([torch.log1p(-p * t).mean(dim=0) for t in self.reach])

    def value(self, block, left, right, logs, n):
        """Return the expectation of a graph of n rows that the block stands for."""
        total = 0.0
        for t, weight, mean in zip(self.reach, self.weights, logs, strict=True):
            one, other = (p * (1.0 - t) / (1.0 - p * t) for p in (left, right))
            factor = weight / (1.0 - t) * torch.exp(n * mean)
            total = total + (factor * cuts(block, one, other)).sum()
        return total * n**2 / block.numel()


class Bound:
    """L_tr / n, half the bound: its statistic is the proportions."""

    def statistic(self, p):
        """Return the proportions (k,) of the rows of p (b, k)."""
        return p.mean(dim=0)

    def value(self, block, left, right, proportions, n):
        """Return the bound of a graph of n rows that the block stands for."""
        return (cuts(block, left, right) / proportions).sum() * n / block.numel()


def slope(gradient, exact):
    """Return the coefficient of a gradient on the exact one."""
    return float((gradient * exact).sum() / (exact * exact).sum())


def cosine(gradient, exact):
    """Return the cosine of two gradients of one shape."""
    return float((gradient * exact).sum() / (gradient.norm() * exact.norm()))


def measure(objective, graph, logits, size, rate, rng):
    """Return (value, its standard error, slope, cosine) of pairs of batches."""
    n = len(logits)
    leaf = logits.clone().requires_grad_()
    p = leaf.softmax(dim=1)
    known = objective.statistic(p)
    whole = objective.value(graph, p, p, known, n)
    (exact,) = torch.autograd.grad(whole, leaf)
    running, values, cosines = known.detach(), [], []
    mean = torch.zeros_like(exact)
    for _ in range(N_PAIRS):
        rows = torch.from_numpy(rng.permutation(n)[: 2 * size])
        part = logits[rows].requires_grad_()
        p = part.softmax(dim=1)
        batch = objective.statistic(p)
        running = ((1.0 - rate) * running + rate * batch).detach()
        # A row moves the mean of all rows, whatever the rate.
        statistic = running + batch - batch.detach()
        block = graph[rows[:size]][:, rows[size:]]
        value = objective.value(block, p[:size], p[size:], statistic, n)
        (gradient,) = torch.autograd.grad(value, part)
        cosines.append(cosine(gradient, exact[rows]))
        values.append(float(value.detach() / whole.detach()))
        mean[rows] += gradient / N_PAIRS
    error = np.std(values) / np.sqrt(N_PAIRS)
    return np.mean(values), error, slope(mean, exact), float(np.mean(cosines))


def main():
    """Print all cases."""
    torch.set_num_threads(1)
    X, _ = load_digits(return_X_y=True)
    model = PRCut(
        10,
        cut="ratio",
        affinity="nearest_neighbors",
        n_neighbors=10,
        random_state=0,
    ).fit(X)
    graph = torch.from_numpy(model.affinity_matrix_.toarray())
    hard = np.eye(10)[model.labels_]
    noise = np.random.RandomState(0).normal(size=hard.shape)
    print("objective, softness, batch, rate: value, +-, slope, cosine")
    for softness, scale in (("hard", 8.0), ("soft", 3.0)):
        logits = torch.from_numpy(scale * hard + noise)
        p = logits.softmax(dim=1)
        for objective in (Exact(p), Bound()):
            for size in BATCH_SIZES:
                for rate in RATES:
                    rng = np.random.RandomState(0)
                    found = measure(objective, graph, logits, size, rate, rng)
                    name = type(objective).__name__.lower()
                    print(name, softness, size, rate, *np.round(found, 3), flush=True)


if __name__ == "__main__":
    main()
