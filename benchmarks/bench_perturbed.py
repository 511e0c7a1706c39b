"""Perturbed forests and the partial loss against scipy and the published code.

    python benchmarks/bench_perturbed.py [--sizes 64 128] [--samples 100]
        [--published DiffClust_NeurIPS2023/src]

(i) ``scipy.sparse.csgraph.minimum_spanning_tree`` in a loop over noisy copies of the
same affinity, for at most 20 samples and in proportion for more; (ii) with
``--published`` the code of the paper's authors in JAX, jit compiled, from a folder of
their repository LawrenceMMStewart/DiffClust_NeurIPS2023, at its commit d710f8a. Rounds
of the methods alternate, each with a new seed, and the median of their ratios of
processor time is printed with whether the results agree. Set OMP_NUM_THREADS for the
number of threads.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree
from shared import load, seconds, versions

from skdiffclust.forests import (
    partial_fenchel_young_loss,
    perturbed_forest,
)

N_CLUSTERS, SCALE, SCIPY_SAMPLES = 10, 0.1, 20


def digits_batch(n):
    """Return a standardised affinity (n, n) of digits, and labels of half of them."""
    X, y = load("digits")
    rows = np.random.RandomState(0).permutation(len(X))[:n]
    X, y = X[rows], y[rows].copy()
    squares = (X**2).sum(axis=1)
    affinity = 2 * X @ X.T - squares[:, None] - squares[None, :]
    np.fill_diagonal(affinity, 0)
    affinity = (affinity - affinity.mean()) / affinity.std()
    y[n // 2 :] = -1
    return affinity, y


def scipy_loop(affinity, n_samples, seed=0):
    """Return the mean ⟨A, Σ + εZ⟩ by scipy, one noisy copy after the other."""
    rng = np.random.default_rng(seed)
    n = len(affinity)
    upper = np.triu_indices(n, 1)
    clean = affinity[upper]
    total = 0.0
    for _ in range(n_samples):
        noisy = clean + SCALE * rng.standard_normal(len(clean))
        # scipy drops zeros and minimises: all weights are made positive.
        weights = np.zeros((n, n))
        weights[upper] = noisy.max() + 1 - noisy
        tree = minimum_spanning_tree(weights).tocoo()
        kept = np.argsort(tree.data)[: n - N_CLUSTERS]
        total += 2 * (noisy.max() + 1 - tree.data[kept]).sum()
    return total / n_samples


def published_code(folder, n_samples):
    """Return the forward pass and the loss with its gradient of the authors' code."""
    sys.path.insert(0, folder)
    import forests
    import jax

    free = forests.make_perturbed_mwst(n_samples, SCALE)
    bound = forests.make_perturbed_mwst_constrained(n_samples, SCALE)
    forward = jax.jit(lambda matrix, key: free(matrix, N_CLUSTERS, key)[1])

    def loss(matrix, known, key):
        constrained = bound(matrix, known, N_CLUSTERS, key)[1]
        return free(matrix, N_CLUSTERS, key)[1] - constrained

    loss_and_gradient = jax.jit(jax.value_and_grad(loss))
    return (
        lambda matrix, seed: float(forward(matrix, jax.random.PRNGKey(seed))),
        lambda matrix, known, seed: jax.block_until_ready(
            loss_and_gradient(matrix, known, jax.random.PRNGKey(seed))
        )[0],
    )


def constraint_matrix(labels):
    """Return +1, -1 and 0 (n, n) of partial labels."""
    known = labels >= 0
    matrix = np.where(labels[:, None] == labels[None, :], 1.0, -1.0)
    matrix[~known] = matrix[:, ~known] = 0.0
    np.fill_diagonal(matrix, 0.0)
    return matrix


def methods(affinity, labels, n_samples, published):
    """Return {name: function of a seed that gives a value}."""
    options = {"noise_scale": SCALE, "n_perturbations": n_samples}

    def forward(seed):
        found = perturbed_forest(affinity, N_CLUSTERS, random_state=seed, **options)
        return found.weight

    def loss(seed):
        options_of_loss = options | {"random_state": seed, "return_gradient": True}
        return partial_fenchel_young_loss(
            affinity, labels, N_CLUSTERS, **options_of_loss
        )[0]

    n_scipy = min(n_samples, SCIPY_SAMPLES)
    found = {
        "forward": forward,
        "loss": loss,
        "scipy forward": lambda seed: scipy_loop(affinity, n_scipy, seed),
    }
    if published:
        their_forward, their_loss = published_code(published, n_samples)
        matrix, known = affinity.astype(np.float32), constraint_matrix(labels)
        found["published forward"] = lambda seed: their_forward(matrix, seed)
        found["published loss"] = lambda seed: their_loss(matrix, known, seed)
    return found


def compare(n, n_samples, n_rounds, published):
    """Print times and ratios of one size; the first round is not counted."""
    functions = methods(*digits_batch(n), n_samples, published)
    times, values = {name: [] for name in functions}, {}
    for seed in range(n_rounds + 1):
        for name, function in functions.items():
            spent, values[name] = seconds(function, seed)
            times[name].append(spent)
    times = {name: np.array(spent[1:]) for name, spent in times.items()}
    times["scipy forward"] *= n_samples / min(n_samples, SCIPY_SAMPLES)
    agree = abs(values["scipy forward"] - values["forward"]) / abs(values["forward"])
    costs = [
        f"{name} {1e3 * np.median(times[name]):.1f} ms" for name in ("forward", "loss")
    ]
    ratios = [
        f"{name} {np.median(spent / times[name.split()[-1]]):.0f} times"
        for name, spent in times.items()
        if " " in name
    ]
    print(
        f"{n} samples, {n_samples} draws: {', '.join(costs)}; {', '.join(ratios)}; "
        f"F differs by {agree:.1e}",
        flush=True,
    )


def main():
    """Print one line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--samples", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--published", metavar="SRC")
    options = parser.parse_args()
    print(versions("numpy", "scipy", "jax"))
    if options.published:
        content = (Path(options.published) / "forests.py").read_bytes()
        print(f"sha256 of forests.py {hashlib.sha256(content).hexdigest()}")
    for n_samples in options.samples:
        for n in options.sizes:
            compare(n, n_samples, options.rounds, options.published)


if __name__ == "__main__":
    main()
