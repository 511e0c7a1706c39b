"""Which rule cuts a spanning tree best, beside other clusterers, at the true k.

    python benchmarks/bench_cut_rules.py stress        # generated problems, ten seeds
    python benchmarks/bench_cut_rules.py tables        # real data, standardised
    python benchmarks/bench_cut_rules.py sets --data FOLDER

Prints the adjusted Rand index (ARI) of each method on each problem, the means, and how
often the number of clusters was found. Samples that belong to no class (noise, -1) are
clustered with the others and left out of the index.

The constants of the size-weighted rule (core of 5 samples, radius 20, square) were
chosen on seeds 0 and 1 of the stress problems, on outliers beside three blobs, and on
small clusters beside three large ones; the power 0.75 on public sets that are not used
here. What is printed by default are seeds 10 to 19.

FOLDER is any public suite: files NAME.npz with arrays X and y, or, as in
clustering-data-v1, NAME.data.gz and NAME.labels0.gz (label 0 is noise). Genie and
Lumbermark take part where genieclust and lumbermark are installed.
"""

import argparse
import importlib
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn
from data_sets import has_data, load_data
from sklearn import datasets
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from skdiffclust import SpanningForestClustering

TABLES = (
    "zoo ecoli movlib ctg mnist_t10k usps_train letter isolet house_votes_84 "
    "heart_statlog"
).split()


def blobs(rng, sizes, *, n_features=2, spread=1.0, gap=6.0):
    """Return normal clusters whose centres are at least `gap` apart."""
    k = len(sizes)
    box = gap * max(2, k ** (1 / min(n_features, 3))) * 0.8
    centers = []
    while len(centers) < k:
        if n_features <= 10:
            center = rng.uniform(-box, box, n_features)
        else:
            center = rng.normal(size=n_features) * gap / np.sqrt(2 * n_features) * 1.3
        if all(np.linalg.norm(center - other) >= gap for other in centers):
            centers.append(center)
        else:
            box *= 1.005
    spread = np.broadcast_to(spread, k)
    parts = [
        center + scale * rng.normal(size=(size, n_features))
        for center, size, scale in zip(centers, sizes, spread, strict=True)
    ]
    return np.concatenate(parts), np.repeat(np.arange(k), sizes)


def with_noise(X, y, noise):
    """Add samples that belong to no class."""
    return np.concatenate([X, noise]), np.concatenate([y, np.full(len(noise), -1)])


def spirals(rng, n_samples=250, n_arms=3):
    """Return intertwined spirals."""
    s = np.linspace(0, 3 * np.pi, n_samples)
    turns = 2 * np.pi * np.arange(n_arms) / n_arms
    X = np.concatenate(
        [
            np.column_stack([(s + 1) * np.cos(s + t), (s + 1) * np.sin(s + t)])
            for t in turns
        ]
    )
    return X + 0.15 * rng.normal(size=X.shape), np.repeat(np.arange(n_arms), n_samples)


def rings(rng):
    """Return three rings of growing radius."""
    y = np.repeat([0, 1, 2], [100, 200, 300])
    angle = rng.uniform(0, 2 * np.pi, 600)
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * (1 + y[:, None])
    return X + 0.06 * rng.normal(size=X.shape), y


def bridge(rng):
    """Return two blobs that a thin chain of samples joins."""
    X, y = blobs(rng, [200, 200])
    first = X[y == 0].mean(axis=0)
    second = X[y == 1].mean(axis=0)
    along = np.linspace(0, 1, 12)[1:-1, None]
    chain = first * (1 - along) + second * along + 0.05 * rng.normal(size=(10, 2))
    return np.concatenate([X, chain]), np.concatenate([y, (along[:, 0] > 0.5) * 1])


def grids(rng):
    """Return three squares of regular samples, slightly moved."""
    square = np.stack(np.meshgrid(range(12), range(12)), -1).reshape(-1, 2) * 1.0
    X = np.concatenate([square, square + [16, 0], square * 0.5 + [0, 17]])
    return X + 0.05 * rng.normal(size=X.shape), np.repeat([0, 1, 2], 144)


def stretched(rng):
    """Return blobs under linear maps."""
    X, y = blobs(rng, [200] * 3, gap=16)
    for label in range(3):
        own = y == label
        center = X[own].mean(axis=0)
        X[own] = (X[own] - center) @ rng.normal(size=(2, 2)) * 1.5 + center
    return X, y


def heavy_tails(rng, degrees, scale):
    """Return three clusters of Student's t."""
    y = np.repeat(np.arange(3), 200)
    centers = scale * np.array([[0, 0], [12, 0], [0, 12.0]])
    return centers[y] + rng.standard_t(degrees, (600, 2)), y


def stress_problems(seed):
    """Return {name: (X, y)}, the samples in random order."""
    rng = np.random.RandomState(seed)
    problems = {
        "equal sizes": blobs(rng, [150] * 4),
        "sizes 20:1": blobs(rng, [400, 100, 20], gap=8),
        "sizes 100:1": blobs(rng, [2000, 20], gap=9),
        "sizes 70:35:1": blobs(rng, [1000, 500, 15], gap=10),
        "densities": blobs(rng, [200] * 3, spread=[0.3, 1.0, 2.0], gap=9),
        "densities and sizes": blobs(
            rng, [300, 100, 60], spread=[0.1, 0.5, 1.5], gap=8
        ),
    }
    for fraction in (0.01, 0.05, 0.2):
        X, y = blobs(rng, [200] * 3, gap=8)
        bound = 1.2 * np.abs(X).max()
        noise = rng.uniform(-bound, bound, (int(600 * fraction), 2))
        problems[f"{fraction:.0%} noise"] = with_noise(X, y, noise)
    problems["one far outlier"] = with_noise(*blobs(rng, [100] * 3), [[1e4, 0]])
    far = rng.normal(size=(10, 2)) * 1e3
    problems["ten far outliers"] = with_noise(*blobs(rng, [100] * 3), far)
    pair = [[1e3, 0], [1e3, 0.3]]
    problems["a far pair"] = with_noise(*blobs(rng, [100] * 3), pair)
    far = rng.uniform(-300, 300, (9, 2))
    problems["1% far outliers"] = with_noise(*blobs(rng, [300] * 3), far)
    far = rng.normal(size=(20, 5)) * 50
    X, y = blobs(rng, [500] * 4, n_features=5)
    problems["1% far outliers, d = 5"] = with_noise(X, y, far)
    problems["heavy tails, t3"] = heavy_tails(rng, 3, 1)
    problems["heavy tails, t2"] = heavy_tails(rng, 2, 2)
    problems["heavy tails, t1.5"] = heavy_tails(rng, 1.5, 4)
    problems["k = 50"] = blobs(rng, [30] * 50)
    problems["k = 20, unequal"] = blobs(rng, list(rng.randint(10, 150, 20)), gap=7)
    for n_features, gap in ((10, 10), (50, 18), (200, 30)):
        name = f"d = {n_features}"
        problems[name] = blobs(rng, [100] * 4, n_features=n_features, gap=gap)
    problems["near, gap 4.5"] = blobs(rng, [150] * 3, gap=4.5)
    problems["touching, gap 3.5"] = blobs(rng, [150] * 3, gap=3.5)
    problems["moons"] = datasets.make_moons(400, noise=0.08, random_state=rng)
    problems["circles"] = datasets.make_circles(
        500, noise=0.05, factor=0.5, random_state=rng
    )
    problems["rings"] = rings(rng)
    problems["spirals"] = spirals(rng)
    problems["bridge"] = bridge(rng)
    problems["grids"] = grids(rng)
    problems["stretched"] = stretched(rng)
    orders = {name: rng.permutation(len(X)) for name, (X, _) in problems.items()}
    return {
        name: (X[orders[name]], y[orders[name]]) for name, (X, y) in problems.items()
    }


def tables(n_most):
    """Yield (name, X, y) of real tables, standardised, at most `n_most` samples."""
    for name in ("iris", "wine", "breast_cancer", "digits"):
        yield name, *_sample(getattr(datasets, f"load_{name}")(return_X_y=True), n_most)
    for name in TABLES:
        if has_data(name):
            yield name, *_sample(load_data(name), n_most)


def _sample(data, n_most):
    """Return standardised samples and their classes, at most `n_most` of them."""
    X, y = data
    chosen = np.random.RandomState(0).permutation(len(X))[:n_most]
    return StandardScaler().fit_transform(np.asarray(X, dtype=float)[chosen]), y[chosen]


def suite(folder, n_most):
    """Yield (name, X, y) of the data sets in a folder and below it."""
    for path in sorted(Path(folder).rglob("*.npz")):
        with np.load(path, allow_pickle=False) as archive:
            yield path.stem, archive["X"].astype(float)[:n_most], archive["y"][:n_most]
    for path in sorted(Path(folder).rglob("*.data.gz")):
        name = path.name.removesuffix(".data.gz")
        y = np.loadtxt(path.with_name(f"{name}.labels0.gz"), dtype=np.int64) - 1
        yield name, np.loadtxt(path, ndmin=2)[:n_most], y[:n_most]


def longest_with_floor(X, k):
    """Return single linkage with a minimum size, a quarter of the mean size."""
    size = max(1, int(0.25 * len(X) / k))
    return SpanningForestClustering(k, cut_rule="longest", min_cluster_size=size)


def methods():
    """Return {name: function of (X, k) that makes a clusterer}."""
    found = {
        "size-weighted": lambda X, k: SpanningForestClustering(k),
        "its auto k": lambda X, k: SpanningForestClustering("auto"),
        "longest": lambda X, k: SpanningForestClustering(k, cut_rule="longest"),
        "longest, floor": longest_with_floor,
        "k-means": lambda X, k: KMeans(k, n_init=10, random_state=0),
        "Ward": lambda X, k: AgglomerativeClustering(k),
        "mixture": lambda X, k: GaussianMixture(k, reg_covar=1e-4, random_state=0),
        "HDBSCAN": lambda X, k: HDBSCAN(min_cluster_size=15, copy=True),
    }
    for module, name in (("genieclust", "Genie"), ("lumbermark", "Lumbermark")):
        try:
            made = getattr(importlib.import_module(module), name)
        except ImportError:
            print(f"{name} is not installed.", file=sys.stderr)
            continue
        found[name] = lambda X, k, made=made: made(n_clusters=k)
    return found


def run(problems, made, repeats):
    """Fit every method to every problem and add to {method: {problem: [ARI]}}."""
    scores, found_k, seconds = repeats
    for name, X, y in problems:
        known = y >= 0
        k = len(np.unique(y[known]))
        for method, make in made.items():
            start = time.process_time()
            labels = np.asarray(make(X, k).fit_predict(X))
            seconds[method] = seconds.get(method, 0.0) + time.process_time() - start
            ari = adjusted_rand_score(y[known], labels[known])
            scores.setdefault(name, {}).setdefault(method, []).append(ari)
            found = len(np.unique(labels[labels >= 0]))
            found_k.setdefault(method, []).append(found == k)


def show(scores, found_k, seconds, made):
    """Print the table."""
    width = max(map(len, scores))
    print(" " * width + "".join(f"{name:>16s}" for name in made))
    for problem, row in scores.items():
        means = [np.mean(row[method]) for method in made]
        print(f"{problem:{width}s}" + "".join(f"{value:16.3f}" for value in means))
    totals = [np.mean([np.mean(row[m]) for row in scores.values()]) for m in made]
    print(f"{'mean':{width}s}" + "".join(f"{value:16.3f}" for value in totals))
    rates = [np.mean(found_k[method]) for method in made]
    print(f"{'k found':{width}s}" + "".join(f"{value:16.2f}" for value in rates))
    print(f"{'CPU s':{width}s}" + "".join(f"{seconds[m]:16.1f}" for m in made))


def main():
    """Read the command line and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["stress", "tables", "sets"])
    parser.add_argument("--seeds", default="10-19")
    parser.add_argument("--data", help="folder of a public suite, for 'sets'")
    parser.add_argument("--samples", type=int, default=3000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}")
    made = methods()
    repeats = {}, {}, {}
    if options.part == "stress":
        first, last = map(int, options.seeds.split("-"))
        for seed in range(first, last + 1):
            problems = stress_problems(seed)
            run([(n, X, y) for n, (X, y) in problems.items()], made, repeats)
    elif options.part == "tables":
        run(tables(options.samples), made, repeats)
    else:
        if not options.data:
            parser.error("'sets' needs --data FOLDER")
        run(suite(options.data, options.samples), made, repeats)
    show(*repeats, made)


if __name__ == "__main__":
    main()
