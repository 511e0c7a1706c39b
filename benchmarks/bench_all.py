"""Clusterers side by side: the table of the first page, and all methods at defaults.

    OMP_NUM_THREADS=1 python benchmarks/bench_all.py first_page [--seeds N]
    OMP_NUM_THREADS=1 python benchmarks/bench_all.py defaults [--seeds N] [--show]

first_page  five data sets that come with Python and scikit-learn, k-means and HDBSCAN;
            the output of UMAP needs umap-learn.
defaults    our methods beside seven others on 45 sets. Every method has its default
            parameters, the true number of clusters, and once more its own way to choose
            one, where it has any: "auto" of ours, HDBSCAN, and what is usual for
            k-means (largest silhouette of 2 to 20 clusters). Spectral clustering alone
            is not at its defaults: its kernel of width 1 suits no raw data, so that it
            gets the graph of neighbours.

Samples of no class (-1, noise) are clustered with the others and left out of the index.
Where a peer is not installed (``pip install -r benchmarks/requirements.txt``), it is
left out.

For "defaults" the sets are generators of scikit-learn and of `skdiffclust.datasets`,
tables in scikit-learn's wheel, and those of data_sets.py, of at most 2000 samples drawn
by seed 0. Features with units of their own are standardised. Each fit runs in a forked
process of its own, after a small one of the same method in the parent, so that imports
and compilation cost nothing. Time is of the processor.
A fit that takes longer than 30 s of the processor is ended, and then none
of that method is started on sets that are at least as large. Results go to a JSON file
after each fit, and a second run computes only what is not in it. Methods without
randomness run once, the others for each seed.
Means are printed of methods that have run on all sets.
"""

import argparse
import ast
import json
import os
import resource
import signal
import sysconfig
import warnings
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy: a fork has one thread

import numpy as np
from scipy import sparse
from shared import (
    is_here,
    largest_silhouette,
    load,
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
    SpectralClustering,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
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
    "Gaussian mixture": (of_k(GaussianMixture), None, True),
    "Ward": (of_k(AgglomerativeClustering, has_seed=False), None, False),
    "spectral": (spectral, None, True),
    "HDBSCAN": (None, lambda X, seed: HDBSCAN(copy=True).fit_predict(X), False),
    "Genie": (genie, None, False),
    "Lumbermark": (lumbermark, None, False),
}


METHODS = OURS | PEERS


PACKAGES = {"Genie": "genieclust", "Lumbermark": "lumbermark"}


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
                if fit is None:
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
    print("method, ARI, AMI, s; own number: ARI, AMI, s, right")
    for method in methods:
        row = []
        for kind in KINDS:
            if not ran_on_all(method, kind):
                row += 3 * ["–"]
                continue
            spent = np.nan_to_num(column(method, kind, "seconds"), nan=LIMIT)
            row += [
                f"{np.nan_to_num(column(method, kind, 'ari')).mean():.3f}",
                f"{np.nan_to_num(column(method, kind, 'ami')).mean():.3f}",
                f"{np.mean(spent):.2f}",
            ]
        row.append(f"{n_right(results, sets, method):.0f}" if row[-1] != "–" else "–")
        print(f"   {method}", *row, sep=", ")
    shown = [m for m in methods if any(f"|{m}|true|" in key for key in results)]
    print("\nARI of each set, true number of clusters")
    print("set, n, d, k", *shown, sep=", ")
    for name, X, y in sets:
        values = (mean_of(results, name, m, "true", "ari") for m in shown)
        sizes = *X.shape, len(np.unique(y[y >= 0]))
        print(f'   "{name}"', *sizes, *(f"{value:.2f}" for value in values), sep=", ")
    print("\ncollapses without a warning, of ours at the true number:")
    for collapse in collapses(results, sets):
        print("  ", *collapse)


# The table of the first page.


PACKAGES_READ = (
    "asyncio _pydecimal email http importlib logging tkinter turtle unittest xml"
).split()


def docstrings():
    """Return the TF-IDF (n, n_words) of the docstrings of ten packages of Python.

    And the number (n,) of the package. Docstrings of less than 15 words are left out.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    texts, y = [], []
    for number, package in enumerate(PACKAGES_READ):
        for file in sorted((root / package).rglob("*.py")) or [root / f"{package}.py"]:
            if not file.exists() or "test" in file.relative_to(root).parts:
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                described = ast.Module, ast.ClassDef, ast.FunctionDef
                text = isinstance(node, described) and ast.get_docstring(node)
                if text and len(text.split()) >= 15:
                    texts.append(text)
                    y.append(number)
    words = TfidfVectorizer(
        stop_words="english", min_df=3, max_df=0.2, sublinear_tf=True
    )
    X = words.fit_transform(texts)
    return X[X.getnnz(axis=1) > 0], np.array(y)[X.getnnz(axis=1) > 0]


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
    yield "breast cancer", X, y, GraphCutClustering(2, random_state=seed), X
    X, y = load("wine")
    X[np.random.RandomState(seed).uniform(size=X.shape) < 0.3] = np.nan
    X = standardised(X)
    filled = SimpleImputer().fit_transform(X)
    clam = ClAM(3, random_state=seed)
    yield "wine, 30 % of the values missing", filled, y, clam, X
    X, y = docstrings()
    clam = ClAM(len(np.unique(y)), metric="cosine", random_state=seed)
    yield "docstrings of Python, TF-IDF", X, y, clam, X


def first_page(n_seeds):
    """Print the table of the first page, medians over seeds.

    k-means and our methods have the true number of clusters, but on the output of UMAP,
    where the number is chosen by ours. HDBSCAN chooses it, and has clusters of at least
    a hundredth of the samples; its noise counts as one cluster.
    """
    warnings.simplefilter("ignore")
    print(versions("scikit-learn", "umap-learn"))
    rows = {}
    for seed in range(n_seeds):
        for name, X, y, ours, ours_of in first_page_rows(seed):
            k_means = KMeans(len(np.unique(y)), n_init=10, random_state=seed)
            metric = "cosine" if sparse.issparse(X) else "euclidean"
            hdbscan = HDBSCAN(
                min_cluster_size=max(5, len(y) // 100), metric=metric, copy=True
            )
            dense = X.toarray() if sparse.issparse(X) else X
            found = [k_means.fit_predict(X), hdbscan.fit_predict(dense)]
            found.append(ours.fit_predict(ours_of))
            scores = [adjusted_rand_score(y, one) for one in found]
            rows.setdefault((name, type(ours).__name__), []).append(scores)
    print("data, k-means, HDBSCAN, ours")
    for (name, ours), scores in rows.items():
        k_means, hdbscan, best = np.median(scores, axis=0)
        print(f'   "{name}", {k_means:.2f}, {hdbscan:.2f}, "{best:.2f} ({ours})"')


def main():
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["defaults", "first_page"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cache", type=Path, default=Path("bench_all.json"))
    parser.add_argument("--show", action="store_true", help="compute nothing")
    options = parser.parse_args()
    if options.part == "first_page":
        first_page(options.seeds)
    elif options.show:
        show(data_sets(), json.loads(options.cache.read_text()))
    else:
        show(*run(options.cache, options.seeds))


if __name__ == "__main__":
    main()
