"""Are memberships of perturbed forests calibrated, and what does a consensus gain?

    python benchmarks/bench_memberships.py calibration
    python benchmarks/bench_memberships.py consensus
    python benchmarks/bench_memberships.py ties

"calibration" counts memberships over 100 trees under noise and, from another seed, over
100 held-out ones with the same reference clusters, and prints, for memberships in each
interval, their mean, the frequency in the held-out draws, and for the largest
membership of each sample how often the class of the sample is the most frequent one
of that cluster. "consensus" prints the adjusted Rand index (ARI) of the cut of the tree
and of the consensus, on real tables and on generated problems at the true k, and the
processor time of both. Of the noise scales 0.2 and 0.5, 0.2 was taken for the generated
problems of seed 2, where 0.5 loses the spirals. "ties" rounds four blobs to integers,
so that there are many minimum spanning trees, and prints how well labels agree between
four orders of the samples, and with the classes.
"""

import argparse
import sys
import time
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import sklearn
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering

sys.path.insert(0, str(Path(__file__).parent))
from bench_cut_rules import blobs, bridge, stress_problems, tables

EDGES = [0.0, 1e-9, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0 - 1e-9, 1.0]


def calibration_problems(n_most):
    """Yield (name, X, y) of problems whose clusters touch, and of real tables."""
    for gap in (4.5, 3.5, 3.0, 2.5):
        for seed in range(10, 15):
            rng = np.random.RandomState(seed)
            yield f"gap {gap}", *blobs(rng, [150] * 3, gap=gap)
    for seed in range(10, 15):
        yield "bridge", *bridge(np.random.RandomState(seed))
    yield from tables(n_most)


def calibration(n_most):
    """Print how often held-out draws agree, by membership."""
    given = []
    held_out = []
    largest = []
    is_right = []
    for _, X, y in calibration_problems(n_most):
        k = len(np.unique(y))
        fits = [
            SpanningForestClustering(k, n_perturbations=100, random_state=seed).fit(X)
            for seed in (0, 1)
        ]
        P = fits[0].memberships_
        given.append(P.ravel())
        held_out.append(fits[1].memberships_.ravel())
        found = P.argmax(axis=1)
        counts = np.zeros((k, k))
        np.add.at(counts, (found, np.unique(y, return_inverse=True)[1]), 1)
        majority = np.unique(y)[counts.argmax(axis=1)]
        largest.append(P.max(axis=1))
        is_right.append(majority[found] == y)
    given = np.concatenate(given)
    held_out = np.concatenate(held_out)
    largest = np.concatenate(largest)
    is_right = np.concatenate(is_right)
    print(f"{'membership':>16s}{'entries':>9s}{'mean':>8s}{'held out':>10s}", end="")
    print(f"{'samples':>9s}{'right class':>13s}")
    for low, high in zip(EDGES[:-1], EDGES[1:], strict=True):
        last = high == EDGES[-1]
        inside = (given >= low) & ((given < high) | last)
        own = (largest >= low) & ((largest < high) | last)
        name = f"{low:.2f} to {high:.2f}"
        if high - low < 1e-6:
            name = f"{low:.0f}"
        right = f"{is_right[own].mean():13.3f}" if own.any() else ""
        print(
            f"{name:>16s}{inside.sum():9d}{given[inside].mean():8.3f}"
            f"{held_out[inside].mean():10.3f}{own.sum():9d}{right}"
        )


def consensus(n_most):
    """Print the adjusted Rand index of the cut and of the consensus."""
    problems = [(name, 0, X, y) for name, X, y in tables(n_most)]
    tables_of = {name for name, *_ in problems}
    for seed in range(10, 15):
        problems += [(n, seed, X, y) for n, (X, y) in stress_problems(seed).items()]
    found = {}
    seconds = np.zeros(2)
    for name, _, X, y in problems:
        known = y >= 0
        k = len(np.unique(y[known]))
        row = []
        for at, n_perturbations in enumerate((0, 100)):
            start = time.process_time()
            labels = SpanningForestClustering(
                k,
                n_perturbations=n_perturbations,
                consensus=n_perturbations > 0,
                random_state=0,
            ).fit_predict(X)
            seconds[at] += time.process_time() - start
            row.append(adjusted_rand_score(y[known], labels[known]))
        found.setdefault(name, []).append(row)
    means = {name: np.mean(rows, axis=0) for name, rows in found.items()}
    print(f"{'':24s}{'cut':>8s}{'consensus':>11s}")
    for name, (cut, agreed) in means.items():
        if name in tables_of or abs(cut - agreed) > 0.0005:
            print(f"{name:24s}{cut:8.3f}{agreed:11.3f}")
    for title, chosen in (("tables", True), ("generated problems", False)):
        rows = [row for name, row in means.items() if (name in tables_of) == chosen]
        cut, agreed = np.mean(rows, axis=0)
        print(f"mean of {len(rows)} {title:16s}{cut:8.3f}{agreed:11.3f}")
    print(f"{'CPU s':24s}{seconds[0]:8.1f}{seconds[1]:11.1f}")


def ties():
    """Print the agreement of labels between orders of samples with many ties."""
    variants = {
        "cut": {},
        "consensus, noise 0.001": {"noise_scale": 0.001},
        "consensus, noise 0.2": {"noise_scale": 0.2},
    }
    print(f"{'':24s}{'between orders':>16s}{'with classes':>14s}")
    for name, params in variants.items():
        between = []
        right = []
        for seed in range(4):
            X, y = make_blobs(300, centers=4, random_state=seed)
            X = np.round(X)
            found = []
            for order_seed in range(4):
                order = np.random.RandomState(order_seed).permutation(300)
                model = SpanningForestClustering(
                    4,
                    n_perturbations=100 if params else 0,
                    consensus=bool(params),
                    random_state=order_seed,
                    **params,
                ).fit(X[order])
                found.append(model.labels_[np.argsort(order)])
            right += [adjusted_rand_score(y, labels) for labels in found]
            between += [adjusted_rand_score(*pair) for pair in combinations(found, 2)]
        print(f"{name:24s}{np.mean(between):16.3f}{np.mean(right):14.3f}")


def main():
    """Read the command line and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["calibration", "consensus", "ties"])
    parser.add_argument("--samples", type=int, default=1000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}")
    if options.part == "ties":
        ties()
    else:
        parts = {"calibration": calibration, "consensus": consensus}
        parts[options.part](options.samples)


if __name__ == "__main__":
    main()
