"""Clusterers side by side: all methods at their defaults, and rules that cut a tree.

    OMP_NUM_THREADS=1 python benchmarks/bench_all.py defaults [--seeds N] [--show]
    python benchmarks/bench_all.py stress [--range 10-19]
    python benchmarks/bench_all.py tables
    python benchmarks/bench_all.py sets --data FOLDER

defaults  our methods beside nine others on 45 sets. Every method has its default
          parameters, the true number of clusters, and once more its own way to choose
          one, where it has any: "auto" of ours, HDBSCAN, and what is usual for k-means
          (largest silhouette of 2 to 20 clusters) and for Gaussian mixtures (least BIC
          of 2 to 20). Spectral clustering alone is not at its defaults: its kernel of
          width 1 suits no raw data, so that it gets the graph of neighbours.
stress    the adjusted Rand index (ARI) at the true number of clusters of ways to cut a
          spanning tree, and of others, on generated problems, how often the number was
          found, and processor seconds. The constants of the size-weighted rule were
          chosen on seeds 0 and 1, and on problems that are not here.
tables    the same on real tables, standardised, of at most 3000 samples.
sets      the same on the public suite in a folder: files NAME.npz with arrays X and y,
          or, as in clustering-data-v1, NAME.data.gz and NAME.labels0.gz (0 is noise).

Samples of no class (-1, noise) are clustered with the others and left out of the index.
Classes are used to count, not to choose. Where a peer is not installed (``pip install
-r benchmarks/requirements.txt``), it is left out.

For "defaults" the sets are generators of scikit-learn and of `skdiffclust.datasets`,
tables in scikit-learn's wheel, and those of data_sets.py, of at most 2000 samples drawn
by seed 0. Features with units of their own are standardised. Each fit runs in a forked
process of its own, after a small one of the same method in the parent, so that imports
and compilation cost nothing. Time is of the processor, memory what the process grew by
at its peak. A fit that takes longer than 30 s of the processor is ended, and then none
of that method is started on sets that are at least as large. Results go to a JSON file
after each fit, and a second run computes only what is not in it. Methods without
randomness run once, the others for each seed. gemclus gets sets of at most 300 samples.
Means are printed of methods that have run on all sets.
"""

import argparse
import importlib
import json
import os
import resource
import signal
import sys
import warnings
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy: a fork has one thread

import numpy as np
from shared import (
    is_here,
    largest_silhouette,
    load,
    peak_memory,
    resident,
    seconds,
    some,
    standardised,
    versions,
)
from sklearn import datasets
from sklearn.cluster import (
    HDBSCAN,
    AgglomerativeClustering,
    KMeans,
    MiniBatchKMeans,
    SpectralClustering,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score
from sklearn.mixture import GaussianMixture

from skdiffclust import GEMINI, ClAM, GraphCutClustering, SpanningForestClustering
from skdiffclust.datasets import (
    add_noise_background,
    make_celeux_one,
    make_celeux_two,
    make_gaussian_mixture,
    make_student_mixture,
)

LARGEST = 2000  # samples of a set


LIMIT = 30  # processor seconds of a fit


MOST_SAMPLES = {"gemclus": 300}  # its epochs are cubic in them


CANDIDATES = range(2, 21)  # numbers of clusters, where a criterion chooses one


def spirals(n_arms, rng):
    """Return samples (600, 2) of arms that wind around each other."""
    turns = np.sqrt(rng.uniform(0.05, 1, 600)) * 2.5 * np.pi
    y = np.arange(600) % n_arms
    angle = turns + 2 * np.pi * y / n_arms
    X = turns[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + rng.normal(scale=0.25, size=X.shape), y


def rings(rng):
    """Return samples (900, 2) of three rings around each other."""
    y = np.arange(900) % 3
    angle = rng.uniform(0, 2 * np.pi, 900)
    X = (1 + y[:, None]) * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + rng.normal(scale=0.08, size=X.shape), y


def tubes(rng):
    """Return samples (800, 10) along four curves in ten dimensions."""
    y = np.arange(800) % 4
    along = rng.uniform(-1, 1, 800)
    basis = rng.normal(size=(4, 3, 10))
    powers = np.stack([np.ones(800), along, along**2], axis=1)
    X = np.einsum("ij,ijk->ik", powers, basis[y])
    return X + rng.normal(scale=0.05, size=X.shape), y


def ball_and_shell(rng):
    """Return samples (800, 5): a ball, and the shell around it."""
    y = np.arange(800) % 2
    X = rng.normal(size=(800, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X * (0.3 + 1.2 * y + rng.normal(scale=0.08, size=800))[:, None], y


def generated():
    """Yield (name, X, y) of problems that are drawn, as they are."""
    rng = np.random.RandomState(170)
    blobs = partial(datasets.make_blobs, random_state=30)
    yield (
        "circles",
        *datasets.make_circles(500, factor=0.5, noise=0.05, random_state=30),
    )
    yield "moons", *datasets.make_moons(500, noise=0.05, random_state=30)
    yield "moons, noisy", *datasets.make_moons(1000, noise=0.15, random_state=30)
    yield "blobs", *blobs(500)
    X, y = datasets.make_blobs(500, random_state=170)
    yield "anisotropic", X @ np.array([[0.6, -0.6], [-0.4, 0.8]]), y
    stds = [1.0, 2.5, 0.5]
    yield "varied", *datasets.make_blobs(500, cluster_std=stds, random_state=170)
    X, y = blobs(475)
    noise = rng.uniform(X.min(axis=0), X.max(axis=0), (25, 2))
    yield "blobs, 5 % noise", np.r_[X, noise], np.r_[y, np.full(25, -1)]
    noise = rng.uniform(X.min(axis=0), X.max(axis=0), (95, 2))
    yield "blobs, 20 % noise", np.r_[X, noise], np.r_[y, np.full(95, -1)]
    sizes = [1000, 500, 250, 125, 60, 30]
    yield "blobs of 30 to 1000", *blobs(sizes, n_features=4, center_box=(-15, 15))
    yield "10 blobs in 10 d", *blobs(1000, centers=10, n_features=10, cluster_std=3.0)
    yield "30 blobs in 5 d", *blobs(1500, centers=30, n_features=5)
    yield "5 blobs in 100 d", *blobs(500, centers=5, n_features=100, cluster_std=8.0)
    grid = 4.0 * np.stack(np.meshgrid(range(5), range(5)), axis=-1).reshape(25, 2)
    yield "25 blobs on a grid", *blobs(1500, centers=grid)
    yield "2 spirals", *spirals(2, rng)
    yield "3 spirals", *spirals(3, rng)
    yield "3 rings", *rings(rng)
    yield "4 curves in 10 d", *tubes(rng)
    yield "ball and shell", *ball_and_shell(rng)
    for n_clusters, apart in ((3, 1.0), (5, 1.5), (8, 2.0)):
        yield (
            f"hypercube, {n_clusters} classes",
            *datasets.make_classification(
                1000,
                n_features=12,
                n_informative=6,
                n_redundant=2,
                n_classes=n_clusters,
                n_clusters_per_class=1,
                class_sep=apart,
                random_state=30,
            ),
        )
    for scenario in range(1, 6):
        problem = make_celeux_one(scenario, random_state=30)
        yield f"Celeux one, {scenario}", problem.X, problem.y
    problem = make_celeux_two(random_state=30)
    yield "Celeux two", problem.X, problem.y
    means = rng.normal(scale=4.0, size=(6, 5))
    roots = rng.normal(size=(6, 5, 5))
    covariances = roots @ roots.transpose(0, 2, 1) / 2 + 0.1 * np.eye(5)
    shares = np.array([0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
    problem = make_gaussian_mixture(
        1200, means, covariances, proportions=shares, random_state=30
    )
    yield "6 ellipsoids in 5 d", problem.X, problem.y
    means = 6.0 * np.eye(4)
    for degrees in (2.0, 5.0):
        problem = make_student_mixture(
            800, means, np.array(4 * [np.eye(4)]), degrees=degrees, random_state=30
        )
        yield f"Student, {degrees:g} degrees", problem.X, problem.y


def tables_and_images():
    """Yield (name, X, y) of real data."""
    for name in ("iris", "wine", "breast_cancer"):
        X, y = load(name)
        yield name, standardised(X), y
    X, y = load("digits")
    yield "digits", X, y
    yield "digits, noise behind", add_noise_background(X, random_state=30), y
    names = "ctg ecoli heart_statlog letter movlib zoo".split()
    for name in filter(is_here, names):
        X, y = load(name)
        yield name, standardised(X), y
    for name in ("house_votes_84", "isolet", "mnist_t10k", "usps_train"):
        if is_here(name):
            yield name, *load(name)


def data_sets():
    """Return [(name, X, y)], the small ones first."""
    found = []
    for name, X, y in (*generated(), *tables_and_images()):
        X, y = some(X, y, LARGEST)
        found.append((name, np.ascontiguousarray(X, float), y))
    return sorted(found, key=lambda one: one[1].size)


def by_silhouette(X, seed):
    """Return labels of k-means of largest silhouette."""
    return largest_silhouette(X, CANDIDATES, n_init="auto", seed=seed)


def by_bic(X, seed):
    """Return labels of a Gaussian mixture of least BIC."""
    fits = [GaussianMixture(k, random_state=seed).fit(X) for k in CANDIDATES]
    return min(fits, key=lambda model: model.bic(X)).predict(X)


def spectral(X, n_clusters, seed):
    """Return labels of spectral clustering of the graph of neighbours."""
    model = SpectralClustering(
        n_clusters, affinity="nearest_neighbors", random_state=seed
    )
    return model.fit_predict(X)


def genie(X, n_clusters, seed):
    """Return labels of genieclust."""
    from genieclust import Genie

    return Genie(n_clusters).fit_predict(X)


def lumbermark(X, n_clusters, seed):
    """Return labels of lumbermark."""
    from lumbermark import Lumbermark

    return Lumbermark(n_clusters).fit_predict(X)


def gemclus(X, n_clusters, seed):
    """Return labels of gemclus's counterpart of our GEMINI."""
    from gemclus.linear import LinearMMD

    return LinearMMD(n_clusters, random_state=seed).fit_predict(X)


def of_k(cls, has_seed=True):
    """Return how a clusterer of scikit-learn is fitted."""

    def fitted(X, n_clusters, seed):
        seeded = {"random_state": seed} if has_seed else {}
        return cls(n_clusters, **seeded).fit_predict(X)

    return fitted


# Name -> (with the true number or None, with its own choice or None, whether it draws).
OURS = {
    "SpanningForestClustering": (of_k(SpanningForestClustering), "auto", False),
    "ClAM": (of_k(ClAM), "auto", True),
    "GraphCutClustering": (of_k(GraphCutClustering), "auto", True),
    "GEMINI": (of_k(GEMINI), "auto", True),
}


PEERS = {
    "k-means": (of_k(KMeans), by_silhouette, True),
    "mini-batch k-means": (of_k(MiniBatchKMeans), None, True),
    "Gaussian mixture": (of_k(GaussianMixture), by_bic, True),
    "Ward": (of_k(AgglomerativeClustering, has_seed=False), None, False),
    "spectral": (spectral, None, True),
    "HDBSCAN": (None, lambda X, seed: HDBSCAN(copy=True).fit_predict(X), False),
    "Genie": (genie, None, False),
    "Lumbermark": (lumbermark, None, False),
    "gemclus": (gemclus, None, True),
}


METHODS = OURS | PEERS


PACKAGES = {"Genie": "genieclust", "Lumbermark": "lumbermark", "gemclus": "gemclus"}


KINDS = ("true", "auto")


def fit_function(method, kind, n_clusters):
    """Return f(X, seed) -> labels, or None where the method has no such way."""
    with_k, own, _ = METHODS[method]
    if kind == "true":
        return with_k and (lambda X, seed: with_k(X, n_clusters, seed))
    if own == "auto":
        return lambda X, seed: with_k(X, "auto", seed)
    return own


def measure(fit, X, y, seed):
    """Return what is written down of one fit, in the process that calls this."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the parent
    before = resident()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        spent, labels = seconds(fit, X, seed)
    labels = np.asarray(labels)
    known = y >= 0
    sizes = np.unique(labels[labels >= 0], return_counts=True)[1]
    said = {
        str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)
    }
    return {
        "ari": adjusted_rand_score(y[known], labels[known]),
        "ami": adjusted_mutual_info_score(y[known], labels[known]),
        "seconds": spent,
        "megabytes": (peak_memory() - before) / 1e6,
        "n_clusters": len(sizes),
        "smallest": int(sizes.min(initial=len(labels))),
        "noise": int(np.sum(labels < 0)),
        "warnings": sorted(said),
    }


def in_a_child(fit, X, y, seed):
    """Return `measure` of a forked process, or {"failed": why}."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
        try:
            found = measure(fit, X, y, seed)
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}"[:200]}
        with os.fdopen(write, "w") as pipe:
            json.dump(found, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        over = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        return {"failed": "time" if over else f"signal {os.WTERMSIG(status)}"}
    return json.loads(said)


def is_installed(method):
    """Whether the package of a method is installed."""
    try:
        return method not in PACKAGES or bool(version(PACKAGES[method]))
    except PackageNotFoundError:
        return False


def run(cache, n_seeds):
    """Fill the cache, a dict that is written to its file after each fit."""
    sets = data_sets()
    results = json.loads(cache.read_text()) if cache.is_file() else {}
    small, _ = datasets.make_blobs(120, centers=3, random_state=0)
    for seed in range(n_seeds):
        for method, kind in ((m, kind) for m in METHODS for kind in KINDS):
            draws = METHODS[method][2]
            if not is_installed(method) or (seed and not draws):
                continue
            is_warm = False
            too_large = np.inf
            for name, X, y in sets:
                key = f"{name}|{method}|{kind}|{seed}"
                fit = fit_function(method, kind, len(np.unique(y[y >= 0])))
                if fit is None or len(X) > MOST_SAMPLES.get(method, LARGEST):
                    continue
                if key not in results:
                    if not is_warm:
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            fit_function(method, kind, 3)(small, 0)
                        is_warm = True
                    results[key] = (
                        {"failed": "time"}
                        if X.size >= too_large
                        else in_a_child(fit, X, y, seed)
                    )
                    cache.write_text(json.dumps(results, indent=0, sort_keys=True))
                if results[key].get("failed") == "time":
                    too_large = min(too_large, X.size)
        print(f"seed {seed} is done", flush=True)
    return sets, results


def mean_of(results, name, method, kind, field):
    """Return the mean of a field over seeds, NaN where a fit failed."""
    values = [
        found.get(field, np.nan)
        for key, found in results.items()
        if key.rsplit("|", 1)[0] == f"{name}|{method}|{kind}"
    ]
    return np.mean(values) if values else np.nan


def n_right(results, sets, method):
    """Return how often the number of clusters is that of the classes, in sets."""
    shares = []
    for name, _, y in sets:
        truth = len(np.unique(y[y >= 0]))
        found = [
            one.get("n_clusters") == truth
            for key, one in results.items()
            if key.rsplit("|", 1)[0] == f"{name}|{method}|auto"
        ]
        shares.append(np.mean(found) if found else 0.0)
    return sum(shares)


def collapses(results, sets):
    """Yield fits with too few or too small clusters and no warning of it."""
    truth = {name: (len(X), len(np.unique(y[y >= 0]))) for name, X, y in sets}
    for key, found in sorted(results.items()):
        name, method, kind, _ = key.split("|")
        if kind != "true" or method not in OURS or "failed" in found:
            continue
        n, k = truth[name]
        too_few = found["n_clusters"] < k
        if (too_few or found["smallest"] < 0.01 * n / k) and not found["warnings"]:
            yield key, found["n_clusters"], found["smallest"]


def show(sets, results):
    """Print the tables, as they are in the documentation."""
    methods = [m for m in METHODS if any(f"|{m}|" in key for key in results)]
    names = [name for name, *_ in sets]

    def column(method, kind, field):
        return [mean_of(results, name, method, kind, field) for name in names]

    def ran_on_all(method, kind):
        started = {key.rsplit("|", 1)[0] for key in results}
        return all(f"{name}|{method}|{kind}" in started for name in names)

    print(f"{len(names)} sets; a fit that failed or took too long counts as ARI 0.")
    print("method, ARI, AMI, s, MB, failed; own number: ARI, AMI, s, MB, right")
    for method in methods:
        row = []
        for kind, last in (("true", "failed"), ("auto", "right")):
            if not ran_on_all(method, kind):
                row += 5 * ["–"]
                continue
            aris = column(method, kind, "ari")
            spent = np.nan_to_num(column(method, kind, "seconds"), nan=LIMIT)
            row += [
                format(np.nan_to_num(aris).mean(), ".3f"),
                format(np.nan_to_num(column(method, kind, "ami")).mean(), ".3f"),
                f"{np.mean(spent):.2f}",
                f"{np.nanmean(column(method, kind, 'megabytes')):.0f}",
                int(np.isnan(aris).sum())
                if last == "failed"
                else f"{n_right(results, sets, method):.0f}",
            ]
        print(f"   {method}", *row, sep=", ")
    for kind in KINDS:
        shown = [m for m in methods if any(f"|{m}|{kind}|" in key for key in results)]
        print(f"\nARI of each set, {kind} number of clusters")
        print("set, n, d, k", *shown, sep=", ")
        for name, X, y in sets:
            values = (mean_of(results, name, m, kind, "ari") for m in shown)
            print(
                f'   "{name}"',
                *X.shape,
                len(np.unique(y[y >= 0])),
                *("–" if np.isnan(v) else f"{v:.2f}" for v in values),
                sep=", ",
            )
    print("\ncollapses without a warning, of ours at the true number:")
    for collapse in collapses(results, sets):
        print("  ", *collapse)


# Rules that cut a tree, at the true number of clusters.


TABLES = (
    "iris wine breast_cancer digits zoo ecoli movlib ctg mnist_t10k usps_train letter "
    "isolet house_votes_84 heart_statlog"
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


def long_spirals(rng, n_samples=250, n_arms=3):
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


def unequal_rings(rng):
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
    problems["rings"] = unequal_rings(rng)
    problems["spirals"] = long_spirals(rng)
    problems["bridge"] = bridge(rng)
    problems["grids"] = grids(rng)
    problems["stretched"] = stretched(rng)
    orders = {name: rng.permutation(len(X)) for name, (X, _) in problems.items()}
    return {
        name: (X[orders[name]], y[orders[name]]) for name, (X, y) in problems.items()
    }


def tables(n_most):
    """Yield (name, X, y) of real tables, standardised, at most `n_most` samples."""
    for name in filter(is_here, TABLES):
        X, y = some(*load(name), n_most)
        yield name, standardised(X), y


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


def cutters():
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


def run_cutters(problems, made, repeats):
    """Fit every method to every problem and add to {method: {problem: [ARI]}}."""
    scores, found_k, times = repeats
    for name, X, y in problems:
        known = y >= 0
        k = len(np.unique(y[known]))
        for method, make in made.items():
            spent, labels = seconds(make(X, k).fit_predict, X)
            times[method] = times.get(method, 0.0) + spent
            ari = adjusted_rand_score(y[known], labels[known])
            scores.setdefault(name, {}).setdefault(method, []).append(ari)
            found = len(np.unique(labels[labels >= 0]))
            found_k.setdefault(method, []).append(found == k)


def show_cutters(scores, found_k, times, made):
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
    print(f"{'CPU s':{width}s}" + "".join(f"{times[m]:16.1f}" for m in made))


def cut(options):
    """Print the table of rules that cut a tree."""
    warnings.simplefilter("ignore")
    print(versions("scikit-learn", "numpy"))
    made = cutters()
    repeats = {}, {}, {}
    if options.part == "stress":
        first, last = map(int, options.range.split("-"))
        for seed in range(first, last + 1):
            problems = stress_problems(seed)
            run_cutters([(n, X, y) for n, (X, y) in problems.items()], made, repeats)
    elif options.part == "tables":
        run_cutters(tables(options.samples), made, repeats)
    else:
        run_cutters(suite(options.data, options.samples), made, repeats)
    show_cutters(*repeats, made)


def main():
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["defaults", "stress", "tables", "sets"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=Path("bench_all.json"))
    parser.add_argument("--show", action="store_true", help="compute nothing")
    parser.add_argument("--range", default="10-19", help="seeds of 'stress'")
    parser.add_argument("--data", help="folder of a public suite, for 'sets'")
    parser.add_argument("--samples", type=int, default=3000)
    options = parser.parse_args()
    if options.part == "sets" and not options.data:
        parser.error("'sets' needs --data FOLDER")
    if options.part != "defaults":
        cut(options)
    elif options.show:
        show(data_sets(), json.loads(options.cache.read_text()))
    else:
        show(*run(options.cache, options.seeds))


if __name__ == "__main__":
    main()
