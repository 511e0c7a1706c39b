"""Denoising by a linear map, Section 4.1 of the paper.

    python benchmarks/reproduce_denoising.py [--seeds 10]

Four clusters of 15 points in the plane, and two more columns of noise. With unit
uniform noise, as the paper has it, the raw clustering is already right; ten times that
is needed for its Figure 6. Prints, for each seed, the error of the raw clustering and
the steps of stochastic gradient descent until the error on validation rows is zero.
"""

import argparse

import numpy as np
import torch

from skdiffclust.forests import maximum_spanning_forest
from skdiffclust.metrics import connectivity_error
from skdiffclust.nn import PartialFenchelYoungLoss, standardized_similarity

MEANS = np.array(
    [
        [0.97627008, 4.30378733],
        [2.05526752, 0.89766366],
        [-1.52690401, 2.91788226],
        [-1.24825577, 7.83546002],
    ]
)


def problem(seed, scale):
    """Return 60 rows of signal and noise, and their clusters."""
    rng = np.random.RandomState(seed)
    labels = np.repeat(np.arange(4), 15)
    signal = MEANS[labels] + 0.2 * rng.randn(60, 2)
    return np.column_stack([signal, scale * rng.rand(60, 2)]), labels


def error(rows, labels):
    """Return the clustering error of the forest of four trees."""
    similarity = -((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    return connectivity_error(labels, maximum_spanning_forest(similarity, 4).labels)


def denoise(seed, *, scale=10.0, n_perturbations=1000, max_steps=500):
    """Return the raw error and the steps until the validation error is zero."""
    X, labels = problem(seed, scale)
    validation, _ = problem(seed + 1000, scale)
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(
        4, 2, generator=generator, dtype=torch.float64, requires_grad=True
    )
    criterion = PartialFenchelYoungLoss(
        4, n_perturbations=n_perturbations, generator=generator
    )
    optimizer = torch.optim.SGD([weights], lr=0.01)
    rows_of, known = torch.from_numpy(X), torch.from_numpy(labels)
    for step in range(max_steps + 1):
        if error(validation @ weights.detach().numpy(), labels) == 0:
            return error(X, labels), step
        rows = torch.randperm(60, generator=generator)[:32]
        loss = criterion(standardized_similarity(rows_of[rows] @ weights), known[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return error(X, labels), None


def main():
    """Print a line for each seed and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    unit = [error(*problem(seed, 1.0)) for seed in range(args.seeds)]
    print(f"unit noise: raw clustering wrong on {np.count_nonzero(unit)} seeds")
    found = [denoise(seed) for seed in range(args.seeds)]
    for seed, (raw, steps) in enumerate(found):
        print(f"seed {seed}: raw error {raw:.3f}, zero after {steps} steps", flush=True)
    steps = [np.inf if one is None else one for _, one in found]
    raw = np.median([one for one, _ in found])
    print(f"median: raw error {raw:.3f}, {np.median(steps):.0f} steps")


if __name__ == "__main__":
    main()
