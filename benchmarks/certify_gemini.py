"""What GEMINI and SparseGEMINI return: is it a solution, and is it above k-means?

``solver``: the default path of scenario 5, solved, and trained for as before.
``paths``: certificates along default paths, and whether `fit` and `path` agree.
``sparse``: whole paths on sparse X, of documents.
``kmeans``: the objective beside that of the partition of k-means, on 15 data sets.

Real data are read from the folder that SKDIFFCLUST_DATA names; times are of the
processor::

    OMP_NUM_THREADS=1 python benchmarks/certify_gemini.py solver paths kmeans sparse
"""

import sys
import time
import warnings

import numpy as np
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
from skdiffclust._data import load_data
from skdiffclust._encoder import Encoder
from skdiffclust.datasets import make_celeux_one, make_celeux_two
from skdiffclust.gemini import gemini_score
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


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or ["solver", "paths", "kmeans", "sparse"]:
        globals()[f"bench_{name}"]()
