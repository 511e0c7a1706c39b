"""How often SparseGEMINICV calls noise structure, and structure noise.

Sets without clusters: independent normal features, AR(.6) features, blocks of five
features with correlation .7, and t with 3 degrees of freedom. Sets with clusters, whose
centres are at least `--distance` standard deviations apart in two to five features,
beside 5 to 20 features of noise; a third are balanced (2 to 5 clusters), a third have
clusters of 105 and 15 samples, a third 80, 30 and 12; half are standardised. Prints the
rates with upper 95 % limits (Clopper and Pearson).

The rule was fixed on sets of seeds below 10 000.
"""

import argparse

import numpy as np
from scipy.stats import beta

from skdiffclust.gemini._stability import structure_of

KINDS = {
    "independent": lambda rng, n, p: rng.normal(size=(n, p)),
    "AR(.6)": lambda rng, n, p: autoregressive(rng, n, p),
    "blocks": lambda rng, n, p: blocks(rng, n, p),
    "t(3)": lambda rng, n, p: rng.standard_t(3, size=(n, p)),
}
SHAPES = [(100, 30), (60, 10), (200, 20), (80, 120)]
SIZES = {"balanced": None, "105:15": [105, 15], "80:30:12": [80, 30, 12]}


def autoregressive(rng, n, p):
    """Return features that depend on the one before."""
    X = rng.normal(size=(n, p))
    for j in range(1, p):
        X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
    return X


def blocks(rng, n, p):
    """Return features that are correlated in fives."""
    shared = np.repeat(rng.normal(size=(n, -(-p // 5))), 5, axis=1)[:, :p]
    return np.sqrt(0.7) * shared + np.sqrt(0.3) * rng.normal(size=(n, p))


def clustered(rng, sizes, distance):
    """Return samples of clusters in a few of their features, and their number."""
    if sizes is None:
        sizes = [rng.randint(20, 41)] * rng.randint(2, 6)
    n_informative = rng.randint(2, 6)
    while True:
        centers = rng.normal(size=(len(sizes), n_informative))
        gaps = np.linalg.norm(centers[:, None] - centers, axis=2)
        gaps = gaps[np.triu_indices(len(sizes), 1)]
        if gaps.min() > 0.3 * gaps.max():
            break
    n_noise = rng.choice([5, 10, 20])
    X = rng.normal(size=(sum(sizes), n_informative + n_noise))
    X[:, :n_informative] += np.repeat(centers * distance / gaps.min(), sizes, axis=0)
    return X, len(sizes)


def rate(wrong):
    """Return a rate with its upper limit as text."""
    n, k = len(wrong), int(np.sum(wrong))
    limit = 1.0 if k == n else beta.ppf(0.95, k + 1, n - k)
    return f"{k} of {n}, upper 95 % limit {limit:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--distance", type=float, default=6.0)
    options = parser.parse_args()
    missed = {}
    invented = {}
    for i in range(options.sets):
        rng = np.random.RandomState(options.seed + i)
        kind = list(KINDS)[i % 4]
        X = KINDS[kind](rng, *SHAPES[rng.randint(4)])
        found = structure_of(X, rng.randint(2, 6), rng)
        invented.setdefault(kind, []).append(found.is_clear)
        kind = list(SIZES)[i % 3]
        X, n_clusters = clustered(rng, SIZES[kind], options.distance)
        if i % 2:
            X = (X - X.mean(axis=0)) / X.std(axis=0)
        found = structure_of(X, n_clusters, rng)
        missed.setdefault(kind, []).append(not found.is_clear)
    for title, table in (
        ("noise called structure", invented),
        (
            f"structure at {options.distance} deviations called noise",
            missed,
        ),
    ):
        print(f"{title}: {rate(np.concatenate(list(table.values())))}")
        for kind, wrong in table.items():
            print(f"    {kind}: {rate(wrong)}")


if __name__ == "__main__":
    main()
