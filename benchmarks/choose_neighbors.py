"""Which graph of neighbours agrees best with classes? Choose on half of the sets.

    python benchmarks/choose_neighbors.py
    python benchmarks/choose_neighbors.py --split report --first 70
    python benchmarks/choose_neighbors.py --split shapes --first 10

The sets are those of `bench_all.py` in the order of their names: "choice" has the
first, the third and so on, "report" the others; four times nine tenths of each are
drawn. "shapes" draws each of 41 problems of thin, nested or small clusters five times.
Printed is the mean adjusted Rand index of ``PRCut(k, n_init=5)``, with neighbours of
equal weight, with neighbours weighted by rank, and with the number of these that
``n_neighbors="auto"`` stands for.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings
from functools import partial

import numpy as np
from bench_all import ball_and_shell, data_sets, rings, spirals, tubes
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from skdiffclust import PRCut

GRAPHS = {
    "10 alike": ("nearest_neighbors", 10),
    "10 ranked": ("ranked_neighbors", 10),
    "15 ranked": ("ranked_neighbors", 15),
    "20 ranked": ("ranked_neighbors", 20),
    "auto": ("ranked_neighbors", "auto"),
}


def some(make, n, seed):
    """Return n samples, drawn from those that a function of a generator makes."""
    rng = np.random.RandomState(1000 + seed)
    X, y = make(np.random.RandomState(seed))
    chosen = rng.permutation(len(X))[:n]
    return X[chosen], y[chosen]


def anisotropic(seed):
    """Return three blobs that are drawn out in one direction."""
    X, y = make_blobs(500, random_state=seed)
    return X @ np.array([[0.6, -0.6], [-0.4, 0.8]]), y


def elongated(seed):
    """Return three parallel strips."""
    y = np.arange(600) % 3
    X = np.random.RandomState(seed).normal(size=(600, 2)) * [8.0, 0.5]
    X[:, 1] += 4.0 * y
    return X, y


def blobs(n, centers, n_features, std, seed):
    """Return blobs."""
    return make_blobs(
        n, centers=centers, n_features=n_features, cluster_std=std, random_state=seed
    )


def uneven(seed):
    """Return six blobs of 10 to 300 samples."""
    sizes = [300, 150, 80, 40, 20, 10]
    return make_blobs(sizes, n_features=4, center_box=(-15, 15), random_state=seed)


def shapes():
    """Return {name: function of a seed that returns (X, y)}."""
    found = {}
    for n in (100, 150, 200, 300, 500, 1000):
        for noise in (0.05, 0.1, 0.15):
            found[f"{n} of moons, noise {noise}"] = lambda seed, n=n, noise=noise: (
                make_moons(n, noise=noise, random_state=seed)
            )
        found[f"{n} of circles"] = lambda seed, n=n: make_circles(
            n, factor=0.5, noise=0.05, random_state=seed
        )
    for n in (300, 600, 900):
        found[f"{n} of three rings"] = partial(some, rings, n)
    for n_arms in (2, 3):
        for n in (300, 600):
            arms = partial(spirals, n_arms)
            found[f"{n} of {n_arms} spirals"] = partial(some, arms, n)
    found["tubes"] = partial(some, tubes, 800)
    found["ball and shell"] = partial(some, ball_and_shell, 800)
    found["anisotropic"] = anisotropic
    found["elongated"] = elongated
    found["100 of 5 blobs"] = partial(blobs, 100, 5, 2, 1.5)
    found["500 of 5 blobs"] = partial(blobs, 500, 5, 2, 1.5)
    found["uneven blobs"] = uneven
    found["60 of 6 blobs"] = partial(blobs, 60, 6, 4, 1.0)
    found["100 of 10 blobs"] = partial(blobs, 100, 10, 4, 1.0)
    found["150 of 15 blobs"] = partial(blobs, 150, 15, 8, 1.0)
    return found


def nine_tenths(X, y, seed):
    """Return nine tenths of the samples."""
    chosen = np.random.RandomState(seed).permutation(len(X))[: int(0.9 * len(X))]
    return X[chosen], y[chosen]


def problems(split):
    """Return {name: function of a seed that returns (X, y)}, and how many seeds."""
    if split == "shapes":
        return shapes(), 5
    sets = sorted(data_sets(), key=lambda one: one[0])
    sets = sets[0::2] if split == "choice" else sets[1::2]
    return {name: partial(nine_tenths, X, y) for name, X, y in sets}, 4


def agreements(X, y, seed):
    """Return the adjusted Rand index of each graph; classes of -1 do not count."""
    known = y >= 0
    k = len(np.unique(y[known]))
    found = []
    for affinity, n_neighbors in GRAPHS.values():
        model = PRCut(
            k,
            affinity=affinity,
            n_neighbors=n_neighbors,
            n_init=5,
            random_state=seed,
        )
        found.append(adjusted_rand_score(y[known], model.fit(X).labels_[known]))
    return found


def main():
    """Print the table of a split."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    splits = ("choice", "report", "shapes")
    parser.add_argument("--split", default="choice", choices=splits)
    parser.add_argument("--first", type=int, default=50)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("set", *GRAPHS, sep=", ")
    makers, n_seeds = problems(arguments.split)
    table = []
    for name, make in makers.items():
        seeds = range(arguments.first, arguments.first + n_seeds)
        rows = [agreements(*make(seed), seed) for seed in seeds]
        table.append(np.mean(rows, axis=0))
        print(name, *(f"{value:.3f}" for value in table[-1]), sep=", ", flush=True)
    table = np.array(table)
    print("mean", *(f"{value:.4f}" for value in table.mean(axis=0)), sep=", ")
    change = (table - table[:, :1]).min(axis=0)
    print("largest loss", *(f"{value:.3f}" for value in change), sep=", ")


if __name__ == "__main__":
    main()
