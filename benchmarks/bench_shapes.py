"""Does the spanning forest find what others miss: small clusters, scales, outliers?

    python benchmarks/bench_shapes.py gaps [--seeds 40 50]
    python benchmarks/bench_shapes.py outliers [--seeds 40 43]

gaps  the mean adjusted Rand index at the true number of clusters, with an interval of
      95 % over the draws: ten (six, twenty) samples beside two large clusters in 2 to
      12 dimensions; fifteen clusters whose sizes fall by a power law, in 2 to 10
      dimensions; five clusters whose scales are powers of ten; the families of
      ``shapes.py``. Beside it Genie and Lumbermark, where they are installed, HDBSCAN
      (``min_cluster_size=5``, noise a cluster of its own) and k-means. And how often
      "auto" finds the number.
outliers  the area under the ROC curve of outlier scores at 1 and at the true number of
      clusters, of 10-neighbour distances and of isolation forests, on tables of some
      classes and a few samples of others, and on generated outliers: global, local, in
      groups, and of a wrong dependency; differences with an interval of 95 % over the
      sets. Seed 0 chose how many samples the scores count with.
"""

import argparse
import warnings

import numpy as np
import shapes
from bench_all import hdbscan, of_k, packages_here
from shared import interval, load, standardised, those_here
from sklearn.cluster import KMeans
from sklearn.ensemble import IsolationForest
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors

from skdiffclust import SpanningForestClustering


def small_cluster(rng, n, d, n_few):
    """Return a few samples eight from a large cluster, and another large one."""
    sizes = n, n_few, n // 4
    spread = 1.0, 0.5, 0.7
    centers = np.zeros((3, d))
    centers[1, 0] = centers[2, 1] = 8
    return shapes.gaussians(rng, centers, spread, sizes)


def scales(rng):
    """Return five Gaussians, each twenty of its deviations from the one before."""
    spread = 10.0 ** np.arange(-2, 3)
    turn = rng.uniform(0, 2 * np.pi, 5)
    steps = 20 * spread[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    return shapes.gaussians(rng, np.cumsum(steps, axis=0), spread, 300)


def power_law(rng, d, exponent):
    """Return Gaussians eight apart whose sizes fall by a power law, to ten samples."""
    sizes = np.arange(1, 16) ** -exponent
    sizes = np.maximum(1500 * sizes / sizes.sum(), 10).astype(int)
    return shapes.gaussians(rng, shapes.irregular(rng, 15, 8, d), 1.0, sizes)


def problems(seed):
    """Yield (kind, samples, classes)."""
    for n in (500, 2000):
        for d in (2, 4, 10, 12):
            rng = np.random.RandomState(seed)
            yield "small cluster", *small_cluster(rng, n, d, (6, 10, 20)[seed % 3])
    for d in (2, 5, 10):
        for exponent in (1.0, 1.5, 2.0):
            rng = np.random.RandomState(seed)
            yield "power law", *power_law(rng, d, exponent)
    yield "scales", *scales(np.random.RandomState(seed))
    for name in shapes.SHAPES:
        yield "shapes", *shapes.draw(name, 5000 + seed, (0.3, 0.8, 1.3)[seed % 3])


PEERS = {
    "forest": of_k(SpanningForestClustering),
    "HDBSCAN": hdbscan,
    "k-means": lambda X, k, seed: of_k(KMeans, n_init=3)(X, k, 0),
    **packages_here(),
}


def gaps(seeds):
    """Print the indices of each kind, and the differences to ours."""
    rows = {}
    right = {}
    for seed in range(*seeds):
        for kind, X, y in problems(seed):
            known = y >= 0
            k = len(np.unique(y[known]))
            is_right = SpanningForestClustering("auto").fit(X).n_clusters_ == k
            right.setdefault(kind, []).append(is_right)
            for name, labels_of in PEERS.items():
                index = adjusted_rand_score(y[known], labels_of(X, k, seed)[known])
                rows.setdefault(kind, {}).setdefault(name, []).append(index)
    for kind, of in rows.items():
        print(f"{kind:14s}auto finds the number in {np.mean(right[kind]):.2f}")
        for name, values in of.items():
            less = interval(np.subtract(of["forest"], values))
            print(f"{kind:14s}{name:12s}{interval(values)}; forest - it {less}")


# Outliers.

# A table, the classes that are normal, and what share of the others is added.
TABLES = {
    "breast_cancer": ([1], 0.06),
    "digits": ([0, 2, 4, 6], 0.05),
    "wine": ([0, 1], 0.08),
    "ecoli": (3, 0.06),
    "letter": (4, 0.05),
    "segment": (3, 0.05),
    "usps_train": (2, 0.03),
    "isolet": (8, 0.05),
    "ctg": (3, 0.06),
    "heart_statlog": (1, 0.08),
    "mnist_t10k": (2, 0.05),
}


def table_with_outliers(name, rng):
    """Return standardised samples and which are outliers; `n` classes: the largest."""
    X, y = load(name)
    classes, counts = np.unique(y, return_counts=True)
    normal, share = TABLES[name]
    if not isinstance(normal, list):
        normal = classes[np.argsort(-counts, kind="stable")[:normal]]
    is_normal = np.isin(y, normal)
    kept = rng.permutation(np.flatnonzero(is_normal))[:1500]
    odd = rng.permutation(np.flatnonzero(~is_normal))
    odd = odd[: max(5, round(share * len(kept)))]
    X = X[np.append(kept, odd)]
    is_odd = np.repeat([0, 1], [len(kept), len(odd)])
    return standardised(X[:, X.std(axis=0) > 0]), is_odd, len(normal)


def generated_outliers(kind, d, rng, n=900, n_odd=45):
    """Return samples of three clusters with outliers of a kind, and which they are."""
    centers = 10 * rng.normal(size=(3, d))
    spread = np.array([0.5, 1, 2])
    y = rng.randint(3, size=n)
    X = centers[y] + spread[y][:, None] * rng.normal(size=(n, d))
    near = rng.randint(3, size=n_odd)
    if kind == "global":
        odd = 1.1 * rng.uniform(X.min(axis=0), X.max(axis=0), (n_odd, d))
    elif kind == "local":
        odd = centers[near] + 3 * spread[near][:, None] * rng.normal(size=(n_odd, d))
    elif kind == "group":
        odd = -1.5 * centers[near[0]] + 0.4 * rng.normal(size=(n_odd, d))
    elif kind == "groups":
        away = rng.normal(size=(3, d))
        away *= 8 * spread[:, None] / np.linalg.norm(away, axis=1)[:, None]
        odd = (centers + away)[near] + 0.3 * rng.normal(size=(n_odd, d))
    else:
        X = X @ rng.normal(size=(d, d))
        odd = np.column_stack([rng.permutation(column)[:n_odd] for column in X.T])
    is_odd = np.repeat([0, 1], [n, n_odd])
    return standardised(np.concatenate([X, odd])), is_odd, 3


def outlier_problems(seed):
    """Yield (name, samples, which are outliers, number of other classes)."""
    for name in those_here(*TABLES):
        yield name, *table_with_outliers(name, np.random.RandomState(seed))
    for kind in ("global", "local", "group", "groups", "dependency"):
        for d in (2, 8):
            rng = np.random.RandomState(seed)
            yield f"{kind}, d = {d}", *generated_outliers(kind, d, rng)


def outliers(seeds):
    """Print the areas for each problem and their means."""
    rows = {}
    for seed in range(*seeds):
        for name, X, is_odd, k in outlier_problems(seed):
            one = SpanningForestClustering(1).fit(X)
            near = NearestNeighbors(n_neighbors=10).fit(X).kneighbors()[0]
            trees = IsolationForest(random_state=seed).fit(X)
            scores = (
                one.outlier_scores_,
                SpanningForestClustering(k).fit(X).outlier_scores_,
                near[:, -1],
                -trees.score_samples(X),
            )
            areas = [roc_auc_score(is_odd, score) for score in scores]
            rows.setdefault(name, []).append(areas)
    means = {name: np.mean(found, axis=0) for name, found in rows.items()}
    print("forest, k = 1; the true k; 10 neighbours; isolation forest")
    for name, row in means.items():
        print(f"{name:20s}", row.round(3))
    everything = np.array(list(means.values()))
    print(f"mean of {len(everything)}", everything.mean(axis=0).round(3))
    for name, column in (("10 neighbours", 2), ("isolation forest", 3)):
        less = interval(everything[:, 1] - everything[:, column])
        print(f"forest - {name}: {less}")
    is_table = np.array([name in TABLES for name in means])
    print("tables alone", everything[is_table].mean(axis=0).round(3))


def main():
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["gaps", "outliers"])
    parser.add_argument("--seeds", type=int, nargs=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.part == "gaps":
        gaps(options.seeds or (40, 50))
    else:
        outliers(options.seeds or (40, 43))


if __name__ == "__main__":
    main()
