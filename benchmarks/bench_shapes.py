"""Merged memories beside PRCut and spectral clustering, on clusters of any shape.

    OMP_NUM_THREADS=1 python benchmarks/bench_shapes.py [--seeds N]

Prints the mean adjusted Rand index over random states of the data and of the method
for `find_basins` with 100 and 200 memories, PRCut and scikit-learn's spectral
clustering of ten neighbours, and for k-means, all with the number of clusters given.
"""

import argparse
import warnings

import numpy as np
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from skdiffclust import PRCut
from skdiffclust.memories import find_basins


def spirals(seed, n_arms):
    """Return 600 samples of interleaved spirals."""
    rng = np.random.RandomState(seed)
    y = rng.randint(n_arms, size=600)
    t = np.sqrt(rng.uniform(0.05, 1, 600)) * 7
    angle = t + 2 * np.pi * y / n_arms
    X = t[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + 0.15 * rng.randn(600, 2), y


def stretched(seed, k):
    """Return 200 samples of each of k parallel strips, rotated."""
    rng = np.random.RandomState(seed)
    y = np.repeat(range(k), 200)
    X = rng.randn(len(y), 2) * [3.0, 0.5] + np.c_[0 * y, 3 * y]
    return X @ np.array([[0.8, 0.6], [-0.6, 0.8]]), y


def wide_and_narrow(seed):
    """Return blobs of standard deviations 1, 2.5 and 0.5."""
    return make_blobs(600, centers=3, cluster_std=[1.0, 2.5, 0.5], random_state=seed)


SETS = {
    "moons, noise .06": lambda s: make_moons(500, noise=0.06, random_state=s),
    "moons, noise .12": lambda s: make_moons(500, noise=0.12, random_state=s),
    "rings": lambda s: make_circles(500, noise=0.05, factor=0.5, random_state=s),
    "near rings": lambda s: make_circles(1000, noise=0.05, factor=0.7, random_state=s),
    "two spirals": lambda s: spirals(s, 2),
    "three spirals": lambda s: spirals(s, 3),
    "two strips": lambda s: stretched(s, 2),
    "four strips": lambda s: stretched(s, 4),
    "wide and narrow": wide_and_narrow,
}
METHODS = {
    "100 memories": lambda X, k, s: (
        find_basins(X, k, n_memories=100, random_state=s).labels
    ),
    "200 memories": lambda X, k, s: (
        find_basins(X, k, n_memories=200, random_state=s).labels
    ),
    "PRCut": lambda X, k, s: PRCut(k, random_state=s).fit_predict(X),
    "spectral": lambda X, k, s: SpectralClustering(
        k, affinity="nearest_neighbors", random_state=s
    ).fit_predict(X),
    "k-means": lambda X, k, s: KMeans(k, n_init=10, random_state=s).fit_predict(X),
}


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    warnings.simplefilter("ignore")
    total = []
    print("set", *METHODS, sep=", ")
    for name, draw in SETS.items():
        found = np.zeros(len(METHODS))
        for seed in seeds:
            X, y = draw(seed)
            k = len(np.unique(y))
            found += [
                adjusted_rand_score(y, method(X, k, seed))
                for method in METHODS.values()
            ]
        total.append(found / len(seeds))
        print(name, *(f"{value:.3f}" for value in total[-1]), sep=", ", flush=True)
    print("mean", *(f"{value:.3f}" for value in np.mean(total, axis=0)), sep=", ")


if __name__ == "__main__":
    main()
