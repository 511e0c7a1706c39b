"""What GEMINI and SparseGEMINI return: is it a solution, and is it above k-means?

``solver``: the default path of scenario 5, solved, and trained for as before.
``paths``: certificates along default paths, and whether `fit` and `path` agree.
``sparse``: whole paths on sparse X, of documents.
``kmeans``: the objective beside that of the partition of k-means, on 15 data sets.
``many``: restarts compared on some of many samples, or on all.
``supports``: what perceptrons select, under permuted columns and other seeds.
``evaluation``: the objective with its gradient beside two matrix products.

Real data are read from the folder that SKDIFFCLUST_DATA names; times are of the
processor::

    OMP_NUM_THREADS=1 python benchmarks/certify_gemini.py solver paths kmeans sparse \
        many supports evaluation
"""

import itertools
import sys
import time
import warnings
from unittest import mock

import numpy as np
from data_sets import load_data
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_circles,
    make_moons,
)
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

from skdiffclust import GEMINI, SparseGEMINI
from skdiffclust._encoder import Encoder
from skdiffclust.datasets import make_celeux_one, make_celeux_two
from skdiffclust.gemini import _base, gemini_score
from skdiffclust.gemini._training import loss_and_gradients


def residuals(sparse, X, path):
    """Return the certificates (s,) of the steps with a penalty, by the definition."""
    links = None, None, None
    problem, _ = sparse._prepare(*sparse._check_rows(X, None), links)
    units = problem.units
    found = []
    for step in range(1, len(path)):
        weights, biases = path.weights(step)
        model = Encoder([weights * units.features], [biases])
        _, _, gradients = loss_and_gradients(model, problem)
        penalty = sparse._penalty(problem).at(path.alphas[step] / units.alpha)
        found.append(penalty.certificate(model, gradients))
    return np.array(found)


def seconds(function, *args, **kwargs):
    """Return the processor time of a call, and its result."""
    start = time.process_time()
    result = function(*args, **kwargs)
    return time.process_time() - start, result


def bench_solver():
    """Print times and certificates of the path of scenario 5."""
    X = make_celeux_one(5, random_state=0).X
    SparseGEMINI(3, mode="ovo", n_init=1).path(X[:, :20], alpha_multiplier=4.0)
    for mode in ("ova", "ovo"):
        first = None
        for tol in (None, 1e-3, 1e-5):
            params = {} if tol is None else {"tol": tol}
            sparse = SparseGEMINI(3, mode=mode, n_init=1, random_state=0, **params)
            if tol is not None:
                sparse._is_exact = lambda n_samples: False
            spent, path = seconds(sparse.path, X, alpha_init=first)
            first = path.alphas[1]
            kkts = residuals(sparse, X, path)
            print(
                f"scenario 5, {mode}, {'solved' if tol is None else f'tol={tol:g}':9s} "
                f"{spent:6.2f} s, {len(path)} steps, KKT median {np.median(kkts):.4f}, "
                f"90th percentile {np.quantile(kkts, 0.9):.4f}, largest "
                f"{kkts.max():.4f}",
                flush=True,
            )


def path_data():
    """Yield a name, samples, and a number of clusters."""
    for scenario in range(1, 6):
        yield f"scenario {scenario}", make_celeux_one(scenario, random_state=0).X, 3
    yield "wine", scale(load_wine().data), 3
    yield "breast cancer", scale(load_breast_cancer().data), 2
    votes = np.nan_to_num(load_data("house_votes_84")[0])
    yield "votes", votes[:, votes.std(axis=0) > 0], 2
    rng = np.random.RandomState(0)
    wide = rng.normal(size=(80, 2000))
    wide[:, :100] += rng.normal(size=(3, 100))[np.arange(80) % 3]
    yield "wide, 80 x 2000", wide, 3


def bench_paths():
    """Print the largest certificate of each default path, and compare with fit."""
    for name, X, n_clusters in path_data():
        for mode in ("ova", "ovo"):
            sparse = SparseGEMINI(n_clusters, mode=mode, random_state=0)
            spent, path = seconds(sparse.path, X)
            step = len(path) // 2
            fitted = SparseGEMINI(
                n_clusters, mode=mode, random_state=0, alpha=path.alphas[step]
            ).fit(X)
            same = np.array_equal(fitted.get_support(), path.supports[step])
            print(
                f"{name:16s} {mode}: {len(path):4d} steps in {spent:6.2f} s, KKT at "
                f"most {residuals(sparse, X, path).max():.4f}; fit in the middle has "
                f"the same {path.n_features[step]} features: {same}",
                flush=True,
            )


def clustered_data():
    """Yield a name, samples, and a number of clusters, of 15 data sets."""
    yield "iris", load_iris().data, 3
    yield "wine", scale(load_wine().data), 3
    yield "breast cancer", scale(load_breast_cancer().data), 2
    yield "digits", load_digits().data, 10
    yield "scenario 4", make_celeux_one(4, random_state=0).X, 3
    yield "scenario 5", make_celeux_one(5, random_state=0).X, 3
    yield "redundant", make_celeux_two(300, random_state=0).X, 4
    yield "blobs", make_blobs(400, centers=6, n_features=4, random_state=0)[0], 6
    yield "moons", make_moons(400, noise=0.1, random_state=0)[0], 2
    yield "circles", make_circles(400, noise=0.05, factor=0.5, random_state=0)[0], 3
    rng = np.random.RandomState(0)
    topics = rng.dirichlet(np.full(300, 0.05), size=5)
    counts = [rng.multinomial(60, topics[i % 5]) for i in range(400)]
    counts = np.array(counts, dtype=float)
    yield "text-like", counts / np.linalg.norm(counts, axis=1, keepdims=True), 5
    for name in ("ecoli", "heart_statlog", "movlib", "zoo"):
        X, y = load_data(name)
        X = np.nan_to_num(X)
        yield name, scale(X[:, X.std(axis=0) > 0]), len(np.unique(y))


def bench_kmeans(n_seeds=5, most=300):
    """Print the least ratio of objectives of each data set over seeds."""
    worst = np.inf
    for name, X, n_clusters in clustered_data():
        rows = np.random.RandomState(0).permutation(len(X))[:most]
        X = X[rows]
        ratios = {"ova": [], "ovo": []}
        for seed in range(n_seeds):
            labels = KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(X)
            hard = np.eye(n_clusters)[labels]
            for mode, found in ratios.items():
                ours = GEMINI(n_clusters, mode=mode, random_state=seed).fit(X)
                found.append(ours.score(X) / gemini_score(hard, X, mode=mode))
        worst = min(worst, *ratios["ova"], *ratios["ovo"])
        print(
            f"{name:14s} k={n_clusters:2d}: least ratio ova {min(ratios['ova']):.5f}, "
            f"ovo {min(ratios['ovo']):.5f}",
            flush=True,
        )
    print(f"least of all: {worst:.6f}")


def documents(shape, n_topics, length, share, seed):
    """Return counts of words (n, d), sparse, and their topics.

    Words are distributed by Zipf's law; of `share` of them 60 are those of a topic.
    """
    n_samples, n_words = shape
    rng = np.random.RandomState(seed)
    common = 1 / (np.arange(n_words) + 10.0)
    rng.shuffle(common)
    topics = np.tile((1 - share) * common / common.sum(), (n_topics, 1))
    for topic in range(n_topics):
        topics[topic, 60 * topic : 60 * topic + 60] += share / 60
    y = rng.randint(n_topics, size=n_samples)
    topics /= topics.sum(axis=1, keepdims=True)
    counts = [rng.multinomial(rng.poisson(length) + 5, topics[topic]) for topic in y]
    return csr_array(np.array(counts, dtype=float)), y


def bench_sparse():
    """Print the time of default paths on sparse X."""
    short, of_short = documents((2000, 3300), 5, 50, 0.25, 0)
    long, of_long = documents((1000, 5000), 4, 400, 0.15, 1)
    short = csr_array(TfidfTransformer().fit_transform(short))
    data = (
        ("TF-IDF", short, of_short),
        ("log counts", csr_array(np.log1p(long)), of_long),
    )
    for name, X, y in data:
        n_topics = y.max() + 1
        sparse = SparseGEMINI(n_topics, mode="ovo", random_state=0)
        spent, path = seconds(sparse.path, X)
        share = 100 * X.nnz / np.prod(X.shape)
        print(
            f"{name}, {X.shape[0]} x {X.shape[1]}, {share:.1f} % non-zero: "
            f"{len(path)} steps in {spent:.1f} s, KKT at most "
            f"{np.nanmax(path.kkts):.4f}, {sparse.get_support().sum()} words, ARI "
            f"{adjusted_rand_score(y, sparse.labels_):.2f}",
            flush=True,
        )


def bench_many(n_samples=30_000, n_features=20):
    """Print what it costs and saves to compare restarts on some of many samples."""
    rng = np.random.RandomState(7)
    skewed = rng.normal(size=(n_samples, n_features))
    skewed[:, :3] = np.exp(skewed[:, :3])
    data = [("skewed", skewed, 4)]
    for n_clusters, spread in ((3, 1.5), (6, 0.8)):
        centers = rng.normal(scale=spread, size=(n_clusters, n_features))
        X = centers[rng.randint(n_clusters, size=n_samples)]
        X += rng.normal(size=X.shape)
        data.append((f"{n_clusters} groups", X, n_clusters))
    for name, X, n_clusters in data:
        found = []
        for size in (_base._SOME_SAMPLES, n_samples):
            gemini = GEMINI(n_clusters, mode="ovo", random_state=0)
            with mock.patch.object(_base, "_SOME_SAMPLES", size):
                spent, _ = seconds(gemini.fit, X)
            found.append((spent, gemini.score(X)))
        (some, value), (whole, best) = found
        print(
            f"{name}, {n_samples} x {n_features}: {some:.1f} s, on all {whole:.1f} s; "
            f"objective {value / best:.7f} of that on all",
            flush=True,
        )


def jaccard(one, other):
    """Return the share of the features in either support (d,) that are in both."""
    return np.sum(one & other) / max(np.sum(one | other), 1)


def bench_supports(n_fits=6):
    """Print how alike the supports of default paths of perceptrons are.

    Each of several seeds has its own permutation of the columns.
    """
    for scenario, mode in itertools.product((4, 5), ("ova", "ovo")):
        X = make_celeux_one(scenario, random_state=0).X
        supports = []
        for seed in range(n_fits):
            order = np.random.RandomState(seed).permutation(X.shape[1])
            sparse = SparseGEMINI(3, mode=mode, model="mlp", random_state=seed)
            sparse.path(X[:, order])
            supports.append(np.zeros(X.shape[1], dtype=bool))
            supports[-1][order] = sparse.get_support()
        pairs = itertools.combinations(supports, 2)
        alike = [jaccard(one, other) for one, other in pairs]
        sizes = [int(support.sum()) for support in supports]
        print(
            f"scenario {scenario} {mode}: Jaccard of {len(alike)} pairs at least "
            f"{min(alike):.2f}, on average {np.mean(alike):.2f}; features {sizes}",
            flush=True,
        )


def bench_evaluation(n_samples=100_000, n_features=50, n_clusters=3, n_rounds=15):
    """Print the time of an evaluation over that of X @ V and X.T @ A."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n_samples, n_features))
    V = rng.normal(size=(n_features, n_clusters))
    A = rng.normal(size=(n_samples, n_clusters))
    for mode in ("ova", "ovo"):
        gemini = GEMINI(n_clusters, mode=mode)
        rows, weights, means = gemini._check_rows(X, None)
        problem = gemini._problem(rows, weights, means, None)
        model = Encoder([V.copy()], [np.zeros(n_clusters)])
        loss_and_gradients(model, problem)
        ratios = []
        for _ in range(n_rounds):
            ours, _ = seconds(loss_and_gradients, model, problem)
            products, _ = seconds(lambda: (X @ V, X.T @ A))
            ratios.append(ours / products)
        print(
            f"{n_samples} x {n_features}, k={n_clusters}, {mode}: "
            f"{np.median(ratios):.1f} times the two products (median of {n_rounds} "
            "alternating rounds)",
            flush=True,
        )


NAMES = ["solver", "paths", "kmeans", "sparse", "many", "supports", "evaluation"]

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or NAMES:
        globals()[f"bench_{name}"]()
