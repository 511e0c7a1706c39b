"""Perturbed forests and the partial loss against scipy and a while-loop in JAX.

    python benchmarks/bench_perturbed.py [--sizes 64 128] [--samples 100] [--jax]

(i) ``scipy.sparse.csgraph.minimum_spanning_tree`` in a loop over noisy copies of the
same similarity; (ii) with ``--jax`` a jit-compiled while-loop Kruskal made of matrix
operations, as in Section 9 of the paper, mapped over the samples. Rounds of the
methods alternate, and the median of their ratios is printed with whether the results
agree. Times are processor times, which other work on the machine changes least. "draw"
is the cost of all the noise alone, without any forest. Set OMP_NUM_THREADS=1 for one
thread.
"""

import argparse
import resource
import time

import numpy as np
import scipy
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.datasets import load_digits

from skdiffclust.forests import partial_fenchel_young_loss, perturbed_forest
from skdiffclust.forests._relation import relation_of
from skdiffclust.forests._samplers import Noise, weighted_scores

N_CLUSTERS, SCALE = 10, 0.1


def digits_batch(n):
    """Return a standardised similarity (n, n) of digits, and labels of half of them."""
    X, y = load_digits(return_X_y=True)
    rows = np.random.RandomState(0).permutation(len(X))[:n]
    X, y = X[rows].astype(float), y[rows].copy()
    squares = (X**2).sum(axis=1)
    similarity = 2 * X @ X.T - squares[:, None] - squares[None, :]
    np.fill_diagonal(similarity, 0)
    similarity = (similarity - similarity.mean()) / similarity.std()
    y[n // 2 :] = -1
    return similarity, y


def scipy_loop(similarity, n_samples):
    """Mean ⟨A, Σ + εZ⟩ and A by scipy, one noisy copy after the other."""
    rng = np.random.default_rng(0)
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


def jax_kruskal(constrained):
    """Return the jit-compiled solver of noisy copies, and the function to call it."""
    import jax
    from jax import numpy as jnp

    jax.config.update("jax_enable_x64", False)

    def solve(matrix, known):
        n = len(matrix)
        rows, columns = jnp.triu_indices(n, 1)
        bonus = 1e3 * known if constrained else 0.0
        order = jnp.argsort(-(matrix + bonus)[rows, columns])
        rows, columns = rows[order], columns[order]

        def go_on(state):
            step, n_left, _, _ = state
            return (n_left > N_CLUSTERS) & (step < len(rows))

        def step_of(state):
            step, n_left, forest, linked = state
            i, j = rows[step], columns[step]
            both = jnp.outer(linked[i], linked[j])
            allowed = linked[i, j] == 0
            if constrained:
                allowed &= jnp.sum(both * (known < 0)) == 0
            forest = forest.at[i, j].add(allowed).at[j, i].add(allowed)
            linked = jnp.minimum(linked + allowed * (both + both.T), 1.0)
            return step + 1, n_left - allowed, forest, linked

        state = 0, n, jnp.zeros((n, n)), jnp.eye(n)
        _, _, forest, _ = jax.lax.while_loop(go_on, step_of, state)
        return forest, jnp.sum(forest * matrix)

    @jax.jit
    def mean(noisy, known):
        forests, weights = jax.vmap(solve, in_axes=(0, None))(noisy, known)
        return weights.mean(), forests.mean(axis=0)

    def call(similarity, known, n_samples, seed=0):
        key = jax.random.PRNGKey(seed)
        n = len(similarity)
        noise = jnp.triu(jax.random.normal(key, (n_samples, n, n)), 1)
        noisy = jnp.asarray(similarity) + SCALE * (noise + noise.swapaxes(1, 2))
        value, forest = mean(noisy, known)
        return float(value), np.asarray(forest)

    return call


def constraint_matrix(labels):
    """Return +1, -1 and 0 (n, n) of partial labels."""
    known = labels >= 0
    matrix = np.where(labels[:, None] == labels[None, :], 1.0, -1.0)
    matrix[~known] = matrix[:, ~known] = 0.0
    np.fill_diagonal(matrix, 0.0)
    return matrix


def methods(similarity, labels, n_samples, with_scipy, with_jax):
    """Return {name: function of no argument that gives a value}."""
    options = {"noise_scale": SCALE, "n_perturbations": n_samples, "random_state": 0}
    relation = relation_of(similarity)
    plan = Noise(SCALE, n_samples, "normal", True, np.uint64(0))
    ones = np.ones(n_samples)
    found = {
        "forward": lambda: perturbed_forest(similarity, N_CLUSTERS, **options).weight,
        "loss": lambda: partial_fenchel_young_loss(
            similarity, labels, N_CLUSTERS, return_gradient=True, **options
        )[0],
        "draw": lambda: float(weighted_scores(relation, plan, ones).sum()),
    }
    if with_scipy:
        found["scipy forward"] = lambda: scipy_loop(similarity, n_samples)[0]
    if with_jax:
        free, bound = jax_kruskal(False), jax_kruskal(True)
        known = constraint_matrix(labels)
        found["jax forward"] = lambda: free(similarity, known, n_samples)[0]
        found["jax loss"] = lambda: (
            free(similarity, known, n_samples)[0]
            - bound(similarity, known, n_samples)[0]
        )
    return found


def measure(functions, n_rounds):
    """Run the functions in turn; return their times (rounds,) and last values."""
    times, values = {name: [] for name in functions}, {}
    for function in functions.values():
        function()
    for _ in range(n_rounds):
        for name, function in functions.items():
            start = time.process_time()
            values[name] = function()
            times[name].append(time.process_time() - start)
    return {name: np.array(taken) for name, taken in times.items()}, values


def main():
    """Print one line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64, 128, 256, 512])
    parser.add_argument("--samples", type=int, nargs="+", default=[100])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jax", action="store_true")
    args = parser.parse_args()
    versions = [f"numpy {np.__version__}", f"scipy {scipy.__version__}"]
    if args.jax:
        import jax

        versions.append(f"jax {jax.__version__}")
    print(", ".join(versions))
    for n_samples in args.samples:
        for n in args.sizes:
            similarity, labels = digits_batch(n)
            functions = methods(similarity, labels, n_samples, True, args.jax)
            functions["forward"]()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            functions["forward"]()
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            times, values = measure(functions, args.rounds)
            ratios = {
                name: float(np.median(times[name] / times[name.split()[-1]]))
                for name in times
                if " " in name
            }
            agree = abs(values["scipy forward"] - values["forward"])
            print(
                f"n {n:5d} B {n_samples:5d} "
                f"forward {1e3 * np.median(times['forward']):8.2f} ms "
                f"loss {1e3 * np.median(times['loss']):8.2f} ms "
                f"draw {1e3 * np.median(times['draw']):8.2f} ms | "
                + " ".join(
                    f"{name}: {ratio:.0f} times" for name, ratio in ratios.items()
                )
                + f" | F differs by {agree / abs(values['forward']):.1e}"
                f", peak grew {grown / 1024:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
