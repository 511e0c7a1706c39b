"""Perturbed forests and the partial loss against scipy and the published code.

    python benchmarks/bench_perturbed.py [--sizes 64 128] [--samples 100]
        [--published DiffClust_NeurIPS2023/src]

(i) ``scipy.sparse.csgraph.minimum_spanning_tree`` in a loop over noisy copies of the
same similarity, for at most 20 samples and in proportion for more; (ii) with
``--published`` the code of the paper's authors in JAX, jit compiled, from a folder of
their repository LawrenceMMStewart/DiffClust_NeurIPS2023. Rounds of the methods
alternate, each with a new seed, and the median of their ratios is printed with whether
the results agree, for both clocks, elapsed and processor time, of the same calls.
"draw" is the cost of all the noise alone, mirror images
included, without any forest. Memory is what the peak of a fresh process grows by during
a call. Set OMP_NUM_THREADS for the
number of threads.
"""

import argparse
import hashlib
import multiprocessing
import sys
import time
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree
from shared import load, peak_memory, versions

from skdiffclust.forests import (
    partial_fenchel_young_loss,
    perturbed_forest,
)

N_CLUSTERS, SCALE, SCIPY_SAMPLES = 10, 0.1, 20


def digits_batch(n):
    """Return a standardised similarity (n, n) of digits, and labels of half of them."""
    X, y = load("digits")
    rows = np.random.RandomState(0).permutation(len(X))[:n]
    X, y = X[rows], y[rows].copy()
    squares = (X**2).sum(axis=1)
    similarity = 2 * X @ X.T - squares[:, None] - squares[None, :]
    np.fill_diagonal(similarity, 0)
    similarity = (similarity - similarity.mean()) / similarity.std()
    y[n // 2 :] = -1
    return similarity, y


def scipy_loop(similarity, n_samples, seed=0):
    """Mean ⟨A, Σ + εZ⟩ and A by scipy, one noisy copy after the other."""
    rng = np.random.default_rng(seed)
    n = len(similarity)
    upper = np.triu_indices(n, 1)
    clean = similarity[upper]
    forest, total = np.zeros((n, n)), 0.0
    for _ in range(n_samples):
        noisy = clean + SCALE * rng.standard_normal(len(clean))
        # scipy drops zeros and minimises: all weights are made positive.
        weights = np.zeros((n, n))
        weights[upper] = noisy.max() + 1 - noisy
        tree = minimum_spanning_tree(weights).tocoo()
        kept = np.argsort(tree.data)[: n - N_CLUSTERS]
        forest[tree.row[kept], tree.col[kept]] += 1
        total += 2 * (noisy.max() + 1 - tree.data[kept]).sum()
    return total / n_samples, (forest + forest.T) / n_samples


def both_clocks(functions, n_rounds):
    """Run functions of a seed in turn; return {name: times (rounds, 2)} and values.

    Elapsed and processor seconds of the same call; the first round is not counted.
    """
    times = {name: [] for name in functions}
    values = {}
    for seed in range(n_rounds + 1):
        for name, function in functions.items():
            starts = time.perf_counter(), time.process_time()
            values[name] = function(seed)
            taken = time.perf_counter() - starts[0], time.process_time() - starts[1]
            if seed:
                times[name].append(taken)
    return {name: np.array(taken) for name, taken in times.items()}, values


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


def draw_all(n, n_samples, seed):
    """Draw the noise of all pairs for all samples, those of a pair once; return one."""
    from skdiffclust.forests._perturbed._noise import (
        draw_list,
        noise_workspace,
        quantile_table,
    )
    from skdiffclust.forests._perturbed._relation import triangle

    indptr, columns, _ = triangle(n)
    draws, work, table = (
        np.empty(len(columns)),
        noise_workspace(n),
        quantile_table("normal"),
    )
    for unit in range(n_samples // 2):
        draw_list(np.uint64(seed), unit, 0, indptr, columns, table, work, draws)
    return draws[0]


def methods(similarity, labels, n_samples, published):
    """Return {name: function of a seed that gives a value}."""
    options = {"noise_scale": SCALE, "n_perturbations": n_samples}
    n_scipy = min(n_samples, SCIPY_SAMPLES)
    found = {
        "forward": lambda seed: (
            perturbed_forest(
                similarity, N_CLUSTERS, random_state=seed, **options
            ).weight
        ),
        "loss": lambda seed: partial_fenchel_young_loss(
            similarity,
            labels,
            N_CLUSTERS,
            return_gradient=True,
            random_state=seed,
            **options,
        )[0],
        "draw": lambda seed: draw_all(len(similarity), n_samples, seed),
        "scipy forward": lambda seed: scipy_loop(similarity, n_scipy, seed)[0],
    }
    if published:
        forward, loss = published_code(published, n_samples)
        matrix, known = similarity.astype(np.float32), constraint_matrix(labels)
        found["published forward"] = lambda seed: forward(matrix, seed)
        found["published loss"] = lambda seed: loss(matrix, known, seed)
    return found


def grown_by(n, n_samples, with_labels, queue):
    """Put into a queue the bytes that the peak of this process grows by in a call."""
    small, few = digits_batch(32)
    similarity, labels = digits_batch(n)

    def call(matrix, known):
        options = {"n_perturbations": n_samples, "random_state": 0}
        if with_labels:
            options["return_gradient"] = True
            return partial_fenchel_young_loss(matrix, known, N_CLUSTERS, **options)
        return perturbed_forest(matrix, N_CLUSTERS, **options)

    call(small, few)
    before = peak_memory()
    call(similarity, labels)
    queue.put(peak_memory() - before)


def peak(n, n_samples, with_labels):
    """Return the MB that a call needs beyond its inputs, in a fresh process."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=grown_by, args=(n, n_samples, with_labels, queue))
    process.start()
    grown = queue.get()
    process.join()
    return grown / 1e6


def main():
    """Print one line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[32, 64, 128, 256, 512, 1024]
    )
    parser.add_argument("--samples", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--published", metavar="SRC")
    args = parser.parse_args()
    print(versions("numpy", "scipy", "jax"))
    if args.published:
        content = (Path(args.published) / "forests.py").read_bytes()
        print(f"sha256 of forests.py {hashlib.sha256(content).hexdigest()}")
    for n_samples in args.samples:
        for n in args.sizes:
            compare(n, n_samples, args)


def compare(n, n_samples, args):
    """Print times, ratios and memory of one size."""
    similarity, labels = digits_batch(n)
    functions = methods(similarity, labels, n_samples, args.published)
    times, values = both_clocks(functions, args.rounds)
    times["scipy forward"] *= n_samples / min(n_samples, SCIPY_SAMPLES)
    agree = abs(values["scipy forward"] - values["forward"]) / abs(values["forward"])
    grown = [peak(n, n_samples, with_labels) for with_labels in (False, True)]
    print(
        f"n {n} B {n_samples}: F differs by {agree:.1e}; peak grew {grown[0]:.0f} MB "
        f"forward, {grown[1]:.0f} MB loss"
    )
    for column, clock in enumerate(("elapsed", "processor")):
        seconds = {name: taken[:, column] for name, taken in times.items()}
        costs = [
            f"{name} {1e3 * np.median(seconds[name]):.2f} ms"
            for name in ("forward", "loss", "draw")
        ]
        ratios = [
            f"{name} {np.median(taken / seconds[name.split()[-1]]):.0f} times"
            for name, taken in seconds.items()
            if " " in name
        ]
        print(f"    {clock}: {', '.join(costs)} | {', '.join(ratios)}", flush=True)


if __name__ == "__main__":
    main()
