"""Clusterers side by side: the first page, 45 sets, and growing samples.

    python benchmarks/bench_all.py PART

first_page  five data sets that come with Python and scikit-learn, k-means and HDBSCAN;
            the output of UMAP needs umap-learn.
defaults    our methods beside seven others on 45 sets. Every method has its default
            parameters, the true number of clusters, and once more its own way to choose
            one, where it has any: "auto" of ours, HDBSCAN, and what is usual for
            k-means (largest silhouette of 2 to 20 clusters). Spectral clustering alone
            is not at its defaults: its kernel of width 1 suits no raw data, so that it
            gets the graph of neighbours.
shared      two fits at once in two processes: elapsed seconds with the threads that
            users have, over those with one thread each. With ``--beside``, the folder
            of another checkout, also one fit alone, over that of the other package.
            On a machine with nothing else to do.
methods     processor seconds of a second fit with default parameters, by method and
            size, on five blobs in ten dimensions: easy data, training ends early.
cold        seconds of the code of README.rst and of a warm-up in a process of its own,
            with imports, where nothing has been compiled.

Samples of no class (-1, noise) are clustered with the others and left out of the index.
Where a peer is not installed (``pip install -r benchmarks/requirements.txt``), it is
left out. A small fit goes before, so that compilation is not timed. Time is of the
processor.

For "defaults" the sets are generators of scikit-learn and of `skdiffclust.datasets`,
tables in scikit-learn's wheel, and those of data_sets.py, of at most 2000 samples drawn
by seed 0. Features with units of their own are standardised. Results go to
``bench_all.jsonl`` after each fit, and a second run computes only what is not in it.
``--record FOLDER`` writes the three tables of the documentation to CSV files there.
Intervals of 95 % are those of the mean over the sets of a family.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from textwrap import dedent

import numpy as np
from scipy import sparse
from shared import (
    TABLES,
    Results,
    docstrings,
    interval,
    largest_silhouette,
    load,
    noise_background,
    record,
    seconds,
    some,
    standardised,
    those_here,
    versions,
)
from sklearn import datasets
from sklearn.cluster import (
    HDBSCAN,
    AgglomerativeClustering,
    KMeans,
    SpectralClustering,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier

from skdiffclust import GEMINI, ClAM, GraphCutClustering, SpanningForestClustering
from skdiffclust.datasets import make_celeux_one, make_celeux_two

LARGEST = 2000  # samples of a set
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
    rng = np.random.RandomState(30)
    y = rng.choice(6, size=1200, p=[0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
    roots = np.linalg.cholesky(covariances)[y]
    X = means[y] + np.einsum("nij,nj->ni", roots, rng.normal(size=(1200, 5)))
    yield "6 ellipsoids in 5 d", X, y
    for degrees in (2.0, 5.0):
        rng = np.random.RandomState(30)
        y = rng.choice(4, size=800)
        X = rng.normal(size=(800, 4))
        X /= np.sqrt(rng.chisquare(degrees, size=800) / degrees)[:, None]
        yield f"Student, {degrees:g} degrees", X + 6.0 * np.eye(4)[y], y


def tables_and_images():
    """Yield (name, X, y) of real data."""
    for name in ("iris", "wine", "breast_cancer"):
        X, y = load(name)
        yield name, standardised(X), y
    X, y = load("digits")
    yield "digits", X, y
    yield "digits, noise behind", noise_background(X, 30), y
    for name in those_here(*"ctg ecoli heart_statlog letter movlib zoo".split()):
        X, y = load(name)
        yield name, standardised(X), y
    for name in those_here("house_votes_84", "isolet", "mnist_t10k", "usps_train"):
        yield name, *load(name)


def data_sets():
    """Return [(name, X, y)], the small ones first."""
    found = []
    for name, X, y in (*generated(), *tables_and_images()):
        X, y = some(X, y, LARGEST)
        found.append((name, np.ascontiguousarray(X, float), y))
    return sorted(found, key=lambda one: one[1].size)


def of_k(cls, **parameters):
    """Return the function that fits a clusterer to X with a number and a seed."""

    def labels_of(X, n_clusters, seed):
        model = cls(n_clusters, **parameters)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        return model.fit_predict(X)

    return labels_of


def packages_here():
    """Return {name: function} of the clusterers of other packages, without a seed."""
    found = {}
    for package, name in (("genieclust", "Genie"), ("lumbermark", "Lumbermark")):
        if find_spec(package):
            cls = getattr(import_module(package), name)
            found[name] = lambda X, k, seed, cls=cls: cls(k).fit_predict(X)
    return found


def auto(cls):
    """Return the function that leaves the number of clusters to a clusterer."""
    return lambda X, n_clusters, seed: of_k(cls)(X, "auto", seed)


def by_silhouette(X, n_clusters, seed):
    """Return labels of k-means of largest silhouette."""
    return largest_silhouette(X, CANDIDATES, n_init="auto", seed=seed)


def hdbscan(X, n_clusters, seed):
    """Return the labels of HDBSCAN, whose noise is one cluster."""
    return HDBSCAN(copy=True).fit_predict(X)


def hdbscan_without_noise(X, n_clusters, seed):
    """Return the labels of HDBSCAN, noise with the nearest clustered sample."""
    return noise_to_nearest(X, hdbscan(X, n_clusters, seed))


def noise_to_nearest(X, labels, metric="euclidean"):
    """Return labels (n,) with the one of the nearest clustered sample for noise."""
    noise = labels < 0
    if not noise.any() or noise.all():
        return labels
    nearest = KNeighborsClassifier(1, metric=metric).fit(X[~noise], labels[~noise])
    labels = labels.copy()
    labels[noise] = nearest.predict(X[noise])
    return labels


OURS = {
    cls.__name__: cls
    for cls in (SpanningForestClustering, ClAM, GraphCutClustering, GEMINI)
}
NEIGHBORS = {"affinity": "nearest_neighbors"}
# With the true number of clusters, and with their own.
METHODS = {
    "true": {name: of_k(cls) for name, cls in OURS.items()}
    | {
        "k-means": of_k(KMeans),
        "Gaussian mixture": of_k(GaussianMixture),
        "Ward": of_k(AgglomerativeClustering),
        "spectral": of_k(SpectralClustering, **NEIGHBORS),
    }
    | packages_here(),
    "own": {name: auto(cls) for name, cls in OURS.items()}
    | {
        "k-means": by_silhouette,
        "HDBSCAN": hdbscan,
        "HDBSCAN, noise to the nearest": hdbscan_without_noise,
    },
}
PEERS = [name for name in METHODS["true"] if name not in OURS]


def measure(labels_of, X, y, seed):
    """Return what is written down of one fit."""
    known = y >= 0
    k = len(np.unique(y[known]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        spent, labels = seconds(labels_of, X, k, seed)
    sizes = np.unique(labels[labels >= 0], return_counts=True)[1]
    return {
        "ari": adjusted_rand_score(y[known], labels[known]),
        "ami": adjusted_mutual_info_score(y[known], labels[known]),
        "s": spent,
        "is_right": len(sizes) == k,
        "is_collapsed": bool(len(sizes) < k or sizes.min() < 0.01 * len(X) / k),
        "warned": any(issubclass(w.category, ConvergenceWarning) for w in caught),
    }


FAMILIES = "round blobs", "curves", "other mixtures", "tables", "images"


def family(name):
    """Return the family of a set, by which indices are averaged."""
    if name in ("digits", "digits, noise behind", "mnist_t10k", "usps_train"):
        return "images"
    if name in TABLES:
        return "tables"
    if "blobs" in name:
        return "round blobs"
    curves = "circles moons spirals rings curves shell".split()
    return "curves" if any(word in name for word in curves) else "other mixtures"


def overview(found):
    """Return the rows of the means over all sets, by method."""
    rows = [["method", "ARI", "AMI", "s", "own number: ARI", "AMI", "s", "right"]]
    for method in dict(chain(METHODS["true"].items(), METHODS["own"].items())):
        row = [method]
        for kind, fields in (
            ("true", ("ari", "ami", "s")),
            ("own", ("ari", "ami", "s", "is_right")),
        ):
            runs = found.get((kind, method))
            for field in fields:
                values = [run[field] for run in runs.values()] if runs else []
                shown = {"s": ".2f", "is_right": ".0f"}.get(field, ".3f")
                value = np.sum(values) if field == "is_right" else np.mean(values or 0)
                row.append(f"{value:{shown}}" if runs else "–")
        rows.append(row)
    return rows


def by_family(found, names):
    """Return the rows of the mean ARI of each family, with its interval of 95 %."""
    families = {name: family(name) for name in names}
    counts = Counter(families.values()) | Counter(all=len(names))
    counts = {one: counts[one] for one in (*FAMILIES, "all") if counts[one]}
    rows = [["method", *(f"{name} ({count})" for name, count in counts.items())]]
    for method in METHODS["true"]:
        runs = found["true", method]
        row = [method]
        for one in counts:
            members = [name for name in names if one in ("all", families[name])]
            row.append(interval([runs[name]["ari"] for name in members]))
        rows.append(row)
    return rows


def by_set(found, names):
    """Return the rows of the ARI of each set; the last is of the best of the others."""
    rows = [["set", *OURS, "k-means", "best of the others"]]
    for name in names:
        scores = {
            method: found["true", method][name]["ari"] for method in METHODS["true"]
        }
        best = max(PEERS, key=scores.get)
        shown = [f"{scores[method]:z.2f}" for method in (*OURS, "k-means")]
        rows.append([name, *shown, f"{scores[best]:.2f} ({best})"])
    return rows


def defaults(folder=None, sets=None, seed=0):
    """Compute what is not in the file, and print the tables of the documentation."""
    results = Results(Path("bench_all.jsonl"))
    sets = data_sets() if sets is None else sets
    small, _ = datasets.make_blobs(120, centers=3, random_state=0)
    found = {}
    for kind, methods in METHODS.items():
        for method, labels_of in methods.items():
            labels_of(small, 3, 0)  # compiles
            found[kind, method] = {
                name: results.once(
                    [name, method, kind, seed], measure, labels_of, X, y, seed
                )
                for name, X, y in sets
            }
    names = [name for name, _, _ in sets]
    tables = {
        "all_methods": overview(found),
        "all_methods_families": by_family(found, names),
        "all_methods_sets": by_set(found, names),
    }
    for name, rows in tables.items():
        record(rows, folder and folder / f"{name}.csv")
        print()
    silent = [
        (method, name)
        for method in OURS
        for name, run in found["true", method].items()
        if run["is_collapsed"] and not run["warned"]
    ]
    print("fits of ours with a cluster below 1 % of n/k and no warning:", silent)


# The table of the first page.


def first_page_rows(seed):
    """Yield (data, input of the others, y, our clusterer, its input)."""
    X, y = load("digits")
    yield "digits, 64 pixels", X, y, SpanningForestClustering(10), X
    if find_spec("umap"):
        from umap import UMAP

        Z = UMAP(n_neighbors=30, min_dist=0.0, random_state=seed).fit_transform(X)
        yield "digits, UMAP first", Z, y, SpanningForestClustering("auto"), Z
    X, y = load("breast_cancer")
    X = standardised(X)
    yield "breast cancer", X, y, ClAM(2, random_state=seed), X
    X, y = load("wine")
    X[np.random.RandomState(seed).uniform(size=X.shape) < 0.3] = np.nan
    X = standardised(X)
    filled = SimpleImputer().fit_transform(X)
    clam = ClAM(3, random_state=seed)
    yield "wine, 30 % of the values missing", filled, y, clam, X
    X, y = docstrings()
    clam = ClAM(len(np.unique(y)), metric="cosine", random_state=seed)
    yield "docstrings of Python, TF-IDF", X, y, clam, X


# Least sizes of clusters of HDBSCAN beside its default, 5.
LEAST_SIZES = 2, 3, 5, 10, 15, 25, 50, 100


def first_page(n_seeds=5):
    """Print the table of the first page, medians over seeds.

    k-means and our methods have the true number of clusters, but on the output of UMAP,
    where the number is chosen by ours. HDBSCAN chooses it: at its default, and with
    that of `LEAST_SIZES` whose index is largest; its noise is one cluster, or is given
    to the nearest clustered samples.
    """
    print(versions("scikit-learn", "umap-learn"))
    rows = {}
    for seed in range(n_seeds):
        for name, X, y, ours, ours_of in first_page_rows(seed):
            k_means = KMeans(len(np.unique(y)), n_init=10, random_state=seed)
            scores = [adjusted_rand_score(y, k_means.fit_predict(X))]
            metric = "cosine" if sparse.issparse(X) else "euclidean"
            dense = X.toarray() if sparse.issparse(X) else X
            readings = {}
            for size in LEAST_SIZES:
                model = HDBSCAN(min_cluster_size=size, metric=metric, copy=True)
                labels = model.fit_predict(dense)
                both = labels, noise_to_nearest(dense, labels, metric)
                readings[size] = [adjusted_rand_score(y, one) for one in both]
            scores += readings[5]
            scores += np.max(list(readings.values()), axis=0).tolist()
            scores.append(adjusted_rand_score(y, ours.fit_predict(ours_of)))
            rows.setdefault((name, type(ours).__name__), []).append(scores)
            if seed == 0:
                print(f"{name}: {readings}", flush=True)
    print("data, k-means, HDBSCAN: noise a cluster, to the nearest; best; ours")
    for (name, ours), scores in rows.items():
        *others, own = np.median(scores, axis=0)
        shown = ", ".join(f"{score:.2f}" for score in others)
        print(f'   "{name}", {shown}, "{own:.2f} ({ours})"', flush=True)


def methods(sizes=(1000, 10_000, 100_000)):
    """Print a line for each of our methods, and ten starts of k-means, and size."""
    print(versions("scikit-learn", "numpy"))
    timed = {"KMeans(n_init=10)": of_k(KMeans, n_init=10)}
    timed |= {name: of_k(cls) for name, cls in OURS.items()}
    for name, labels_of in timed.items():
        for n in sizes:
            X, y = datasets.make_blobs(
                n, n_features=10, centers=5, cluster_std=2.0, random_state=0
            )
            labels_of(X, 5, 0)  # loads the kernels for this size
            spent, labels = seconds(labels_of, X, 5, 0)
            ari = adjusted_rand_score(y, labels)
            print(f"{name:26s} n = {n:7d}: {spent:8.2f} s, ARI {ari:.3f}", flush=True)


def cold():
    """Print the seconds of the first page's code and of a warm-up, nothing compiled."""
    page = (Path(__file__).resolve().parents[1] / "README.rst").read_text("utf-8")
    first = re.search(r"code-block:: python\n\n((?: {4}.*\n|\n)+)", page)[1]
    programs = {
        "the code of README.rst": dedent(first),
        "a warm-up": "import skdiffclust; skdiffclust.warmup()",
    }
    for name, program in programs.items():
        with tempfile.TemporaryDirectory() as folder:
            before = os.times()
            subprocess.run(
                [sys.executable, "-c", program],
                env=os.environ | {"NUMBA_CACHE_DIR": folder},
                stdout=subprocess.DEVNULL,
                check=True,
            )
            after = os.times()
        elapsed = after.elapsed - before.elapsed
        spent = after.children_user + after.children_system
        spent -= before.children_user + before.children_system
        print(f"{name}: {elapsed:.1f} s, {spent:.1f} of the processor", flush=True)


# Fits that train, for `shared`; the names of classes and their parameters.
TRAINED = {
    "ClAM": ("ClAM", {"n_clusters": 4}),
    "ClAM, random": ("ClAM", {"n_clusters": 4, "init": "random"}),
    "ClAM, auto": ("ClAM", {"n_clusters": "auto"}),
    "DeepClAM": ("DeepClAM", {"n_clusters": 4}),
    "GEMINI": ("GEMINI", {"n_clusters": 4}),
    "GEMINI, mlp": ("GEMINI", {"n_clusters": 4, "model": "mlp"}),
    "GEMINI, auto": ("GEMINI", {"n_clusters": "auto"}),
    "SparseGEMINI": ("SparseGEMINI", {"n_clusters": 4}),
    "PRCut": ("PRCut", {"n_clusters": 4}),
    "SpanningForestEmbedding": ("SpanningForestEmbedding", {"n_clusters": 4}),
    "AssociativeImputer": ("AssociativeImputer", {}),
}
SIZES = (60, 3), (500, 20), (2000, 20)
LEAST_SECONDS = 0.5  # of a measurement, which repeats short fits


def fit_on_request(name, n, d):
    """Fit as often as each line that is read says; print the elapsed seconds of it.

    The first line that is printed is the time of a fit after one that compiles.
    """
    cls, parameters = TRAINED[name]
    model = getattr(import_module("skdiffclust"), cls)(random_state=0, **parameters)
    X, y = datasets.make_blobs(
        n, n_features=d, centers=4, cluster_std=2.0, random_state=0
    )
    if cls == "AssociativeImputer":
        X[np.random.RandomState(0).uniform(size=X.shape) < 0.1] = np.nan
    target = np.where(np.arange(n) % 3, -1, y)
    model.fit(X, target)
    for n_fits in chain([1], map(int, sys.stdin)):
        start = time.perf_counter()
        for _ in range(n_fits):
            model.fit(X, target)
        print(time.perf_counter() - start, flush=True)


class Worker:
    """A process that fits on request, with one thread or those that users have."""

    def __init__(self, case, folder, *, one_thread):
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.endswith("_NUM_THREADS")
        }
        environment["PYTHONPATH"] = str(folder)
        if one_thread:
            environment["OMP_NUM_THREADS"] = "1"
        command = [sys.executable, __file__, "worker", "--case", *map(str, case)]
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first = self.read()

    def ask(self, n_fits):
        """Begin some fits."""
        self._process.stdin.write(f"{n_fits}\n")
        self._process.stdin.flush()

    def read(self):
        """Return the elapsed seconds of what was asked for."""
        return float(self._process.stdout.readline())

    def close(self):
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


def ratios(groups, n_rounds):
    """Return the ratios (n_rounds,) of the times of two groups of workers, in turn.

    The workers of a group fit at once; their time is that of the slower one.
    """
    n_fits = max(1, round(LEAST_SECONDS / groups[1][0].first))
    times = []
    for _ in range(n_rounds):
        for group in groups:
            for worker in group:
                worker.ask(n_fits)
            times.append(max(worker.read() for worker in group))
    return np.divide(times[::2], times[1::2])


def shared(beside=None, only=None):
    """Print the median ratios of 5 rounds of two fits at once, and of 9 of one fit."""
    print(versions("numpy", "torch", "threadpoolctl"), f"{os.cpu_count()} cores")
    here = Path(__file__).resolve().parents[1]
    print("estimator, n, d, two at once / one thread each, alone / before")
    for name in only or TRAINED:
        for n, d in SIZES:
            case = name, n, d
            ours = [Worker(case, here, one_thread=False) for _ in range(2)]
            others = [Worker(case, here, one_thread=True) for _ in range(2)]
            at_once = np.median(ratios([ours, others], 5))
            alone = np.nan
            if beside is not None:
                others.append(Worker(case, beside, one_thread=False))
                alone = np.median(ratios([ours[:1], others[2:]], 9))
            print(f'   "{name}", {n}, {d}, {at_once:.2f}, {alone:.2f}', flush=True)
            for worker in (*ours, *others):
                worker.close()


PARTS = {part.__name__: part for part in (first_page, methods, cold)}


def main():
    """Print a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=[*PARTS, "defaults", "shared", "worker"])
    parser.add_argument("--beside", type=Path, help="of shared: another checkout")
    parser.add_argument("--only", nargs="+", help="of shared: some of its estimators")
    parser.add_argument(
        "--record", type=Path, metavar="FOLDER", help="of defaults: where tables go"
    )
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.part == "worker":
        name, n, d = options.case
        fit_on_request(name, int(n), int(d))
    elif options.part == "shared":
        shared(options.beside, options.only)
    elif options.part == "defaults":
        defaults(options.record)
    else:
        PARTS[options.part]()


if __name__ == "__main__":
    main()
