"""ClAM against k-means, imputation, and DeepClAM.

    python benchmarks/bench_memories.py PART

trains    what the training of ClAM changes: with its defaults and with ``max_iter=0``.
          Defaults were chosen on every other set, from the first
k_means   ``ClAM(max_iter=0)`` beside ``KMeans(n_init=10)`` on twenty complete data sets
text      the same by cosines, beside spherical k-means, on TF-IDF
streams   the digits, shuffled and sorted by class, in batches of 100
large     the time of fits of large sets, without training
missing   imputers on eight tables with 5, 20 and 50 % of the values hidden in three
          ways: the error, the accuracy of a classifier and the clusters of k-means
          afterwards, and the time. The rules for far values were chosen on all tables
          but letter and movlib, the candidate temperatures on ctg and letter
robust    the same tables with wrong cells (one of 10, 100 and 1e4; 10, -100 and 1e4 in
          a sample; a feature with 1 % of its values times 1000), with features that are
          missing together, and with copies
deep      DeepClAM beside k-means on features, on PCA and on codes, DEC and IDEC. One
          autoencoder a seed is trained for k-means on its codes, DEC and IDEC, with
          features hidden as ours hides them; DEC (Xie, Girshick, Farhadi, ICML 2016)
          and IDEC (Guo, Gao, Liu, Yin, IJCAI 2017, gamma 0.1) then take 640 steps, and
          ours 400, with targets renewed every epoch and once in 140 steps

Times are medians of alternating runs in this process, given as ratios.
"""

import argparse
import copy
import itertools
import warnings

import numpy as np
import torch
from scipy import sparse
from scipy.stats import t as student_t
from shared import (
    TABLES,
    agreements,
    docstrings,
    load,
    record,
    seconds,
    some,
    standardised,
    those_here,
    versions,
)
from sklearn.cluster import (
    KMeans,
    MiniBatchKMeans,
    kmeans_plusplus,
)
from sklearn.datasets import make_blobs, make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, silhouette_score
from torch import nn

from skdiffclust import AssociativeImputer, ClAM, DeepClAM
from skdiffclust.memories import recall


def large():
    """Compare the time and inertia of fits of large sets with those of k-means."""
    blobs, _ = make_blobs(200_000, 64, centers=10, cluster_std=6.0, random_state=0)
    sets = {"blobs": (blobs, 10)}
    for name in those_here("letter", "mnist_t10k"):
        X, y = load(name)
        # The pixels have one unit.
        X = standardised(X) if name == "letter" else X
        sets[name] = X, len(np.unique(y))
    for name, (X, k) in sets.items():
        peers = [cls(k, n_init=10, random_state=0) for cls in (KMeans, MiniBatchKMeans)]
        ours = ClAM(k, max_iter=0, random_state=0)
        own, *others = (seconds(m.fit, X)[0] for m in (ours, *peers))
        print(
            f"{name}, {len(X)} x {X.shape[1]}, k = {k}: {own:.2f} s, over KMeans "
            f"{own / others[0]:.2f}, over MiniBatchKMeans {own / others[1]:.2f}; "
            f"inertia over KMeans {ours.inertia_ / peers[0].inertia_:.3f}",
            flush=True,
        )


def rotated_blobs(seed):
    """Return four elongated blobs in eight features."""
    X, y = make_blobs(1200, 8, centers=4, cluster_std=1.0, random_state=seed)
    return X @ np.random.RandomState(seed).randn(8, 8), y


# What the loaders of scikit-learn and ours do not have: name -> function of a seed.
GENERATORS = {
    "blobs, overlapping": lambda seed: make_blobs(
        1500, 5, centers=8, cluster_std=3.5, random_state=seed
    ),
    "blobs, three widths": lambda seed: make_blobs(
        1500,
        4,
        centers=6,
        cluster_std=[0.5, 0.5, 1.5, 1.5, 3.0, 3.0],
        random_state=seed,
    ),
    "blobs, unequal sizes": lambda seed: make_blobs(
        [800, 400, 200, 100, 50, 25], 6, cluster_std=2.5, random_state=seed
    ),
    "blobs, many": lambda seed: make_blobs(
        3000, 10, centers=40, cluster_std=2.0, random_state=seed
    ),
    "blobs, elongated": rotated_blobs,
    "classification": lambda seed: make_classification(
        2000, 15, n_informative=8, n_classes=5, random_state=seed
    ),
}


TABLE_ROWS, SILHOUETTE_ROWS = 3000, 1500


def complete_sets():
    """Yield the name, samples (n, d) and classes (n,) of the twenty data sets."""
    for name in those_here(*TABLES):
        X, y = load(name)
        yield name, *some(standardised(X), y, TABLE_ROWS)
    for name, generate in GENERATORS.items():
        X, y = generate(0)
        yield name, standardised(X), y


def k_means():
    """Compare ClAM without training to k-means on twenty complete data sets.

    At most 3000 standardised samples; five seeds, and with the first seed five orders
    of the samples. A line has the largest inertia of ClAM over that of k-means with the
    same seed and order, then of both the mean silhouette, the mean adjusted Rand index
    with the classes, the mean adjusted Rand index of the labels of pairs of seeds, and
    of orders; last the median ratio of processor times.
    """
    print("inertia; silhouette, ARI, agreement of seeds, of orders: ClAM k-means; time")
    means, n_right = [], np.zeros(4, dtype=int)
    for name, X, y in complete_sets():
        rng = np.random.RandomState(1)
        k = len(np.unique(y))
        runs = [(seed, np.arange(len(X))) for seed in range(5)]
        runs += [(0, rng.permutation(len(X))) for _ in range(5)]
        judged = rng.permutation(len(X))[:SILHOUETTE_ROWS]
        ratios, times, labels = [], [], [[], []]
        for seed, order in runs:
            models = (
                ClAM(k, max_iter=0, random_state=seed),
                KMeans(k, n_init=10, random_state=seed),
            )
            spent = [seconds(model.fit, X[order])[0] for model in models]
            times.append(spent[0] / spent[1])
            ratios.append(models[0].inertia_ / models[1].inertia_)
            for found, model in zip(labels, models, strict=True):
                found.append(model.labels_[np.argsort(order)])
        cells = [
            [
                np.mean([silhouette_score(X[judged], one[judged]) for one in found]),
                np.mean([adjusted_rand_score(y, one) for one in found]),
                np.mean(agreements(found[:5])),
                np.mean(agreements(found[5:])),
            ]
            for found in labels
        ]
        means.append(cells)
        n_right += [
            max(ratios) <= 1.005,
            cells[0][2] >= cells[1][2] - 5e-4,
            cells[0][3] >= cells[1][3] - 5e-4,
            np.median(times) <= 1.5,
        ]
        pairs = "  ".join(f"{a:.3f} {b:.3f}" for a, b in zip(*cells, strict=True))
        print(
            f"{name:20s} {X.shape!s:11s} k = {k:2d}: {max(ratios):.4f}; {pairs}; "
            f"{np.median(times):.2f}",
            flush=True,
        )
    pairs = np.mean(means, axis=0).T
    print("means: " + "  ".join(f"{a:.4f} {b:.4f}" for a, b in pairs))
    print(
        f"of {len(means)} sets: inertia within .5 % on {n_right[0]}, agreement of "
        f"seeds no lower on {n_right[1]}, of orders on {n_right[2]}, time at most 1.5 "
        f"on {n_right[3]}",
        flush=True,
    )


def sets_to_train():
    """Yield the name, samples (n, d) and classes (n,) of 22 data sets."""
    yield from complete_sets()
    X, y = make_blobs(1500, random_state=170)
    yield "blobs, stretched", standardised(X @ [[0.6, -0.6], [-0.4, 0.8]]), y
    X, y = make_blobs(1500, cluster_std=[1.0, 2.5, 0.5], random_state=170)
    yield "blobs, varied", standardised(X), y


def hidden_error(model, X):
    """Return the mean squared error of entries that are hidden from the memories.

    15 % of the entries, others than those that the fit hid.
    """
    rng = np.random.RandomState(7)
    rows = X[rng.permutation(len(X))[:SILHOUETTE_ROWS]]
    seen = rng.uniform(size=rows.shape) >= 0.15
    start = np.where(seen, rows, X.mean(axis=0))
    beta = model.inverse_temperature_
    completed = recall(start, model.cluster_centers_, beta, mask=seen)
    return np.mean(np.square(completed - rows)[~seen])


def paired(X, y, n_seeds, **options):
    """Return values (n_seeds, 2, 3) of the start and of training, and their labels.

    They are the ARI with the classes, seconds, and the error of hidden entries (NaN for
    sparse X).
    """
    k, values, labels = len(np.unique(y)), [], [[], []]
    for seed in range(n_seeds):
        line = []
        for found, given in zip(labels, ({"max_iter": 0}, {}), strict=True):
            model = ClAM(k, random_state=seed, **given, **options)
            spent, _ = seconds(model.fit, X)
            error = np.nan if sparse.issparse(X) else hidden_error(model, X)
            line.append((adjusted_rand_score(y, model.labels_), spent, error))
            found.append(model.labels_)
        values.append(line)
    return np.array(values), labels


def half_width(differences):
    """Return that of the 95 % interval of a mean of some differences."""
    n = len(differences)
    return student_t.ppf(0.975, n - 1) * np.std(differences, ddof=1) / np.sqrt(n)


def trains(n_seeds=5, n_seeds_of_texts=8):
    """Compare ClAM with its defaults with its start, the solution of k-means.

    A line has the ARI of the start, its difference by training with half of its 95 %
    interval, the mean ARI of pairs of seeds of both, the error of hidden entries over
    that of the start, the fits whose labels differ, and the median ratio of processor
    times; then the means of the sets on which defaults were chosen, and of the others.
    """
    print("ARI, difference; agreement of both; error of hidden entries; differ; time")
    lines, lowest = [], []
    for name, X, y in sets_to_train():
        values, labels = paired(X, y, n_seeds)
        gains = values[:, 1, 0] - values[:, 0, 0]
        ratios = values[:, 1] / values[:, 0]
        before, after = (np.mean(agreements(found)) for found in labels)
        n_differ = sum(map(np.any, map(np.not_equal, *labels)))
        error, time = np.mean(ratios[:, 2]), np.median(ratios[:, 1])
        start = values[:, 0, 0].mean()
        lines.append((start, gains.mean(), before, after, error, n_differ, time))
        lowest.append(gains.mean() - half_width(gains))
        print(
            f"{name:20s} {X.shape!s:11s}: {start:.3f} {gains.mean():+.4f} ± "
            f"{half_width(gains):.4f}; {before:.3f} {after:.3f}; {error:.4f}; "
            f"{n_differ}; {time:.2f}",
            flush=True,
        )
    for what, part in (
        ("chosen on", lines[::2]),
        ("others", lines[1::2]),
        ("all", lines),
    ):
        start, gain, before, after, error, n_differ, time = np.transpose(part)
        print(
            f"{what}, {len(part)} sets: ARI {start.mean():.4f} {gain.mean():+.4f}, "
            f"agreement {before.mean():.4f} {after.mean():.4f}, error no larger on "
            f"{np.count_nonzero(error <= 1)}, {n_differ.sum():.0f} of "
            f"{n_seeds * len(part)} fits differ, median time {np.median(time):.2f}",
            flush=True,
        )
    print(f"lowest end of an interval: {min(lowest):+.4f}")
    for name, (X, y) in texts().items():
        values, _ = paired(X, y, n_seeds_of_texts, metric="cosine")
        gains = values[:, 1, 0] - values[:, 0, 0]
        print(
            f"{name}, by cosine: {values[:, 0, 0].mean():.3f} {gains.mean():+.4f} ± "
            f"{half_width(gains):.4f}, time "
            f"{np.median(values[:, 1, 1] / values[:, 0, 1]):.2f}",
            flush=True,
        )


def texts():
    """Return {name: (TF-IDF of texts, classes)}."""
    sets = {"docstrings of Python": docstrings()}
    for name in those_here("search_snippets"):
        counts, y = load(name)
        sets[name] = sparse.csr_array(TfidfTransformer().fit_transform(counts)), y
    return sets


def spherical_k_means(X, n_clusters, seed):
    """Return the labels of unit rows X, CSR, of largest sum of cosines of 10 starts."""
    rng = np.random.RandomState(seed)
    best, highest = None, -np.inf
    for _ in range(10):
        centers, _ = kmeans_plusplus(X, n_clusters, random_state=rng)
        centers = centers.toarray() if sparse.issparse(centers) else centers
        labels = None
        for _ in range(100):
            before, products = labels, X @ centers.T
            labels = products.argmax(axis=1)
            if before is not None and np.array_equal(before, labels):
                break
            members = sparse.csr_array(
                (np.ones(len(labels)), (labels, np.arange(len(labels)))),
                shape=(n_clusters, len(labels)),
            )
            sums = (members @ X).toarray()
            lengths = np.linalg.norm(sums, axis=1, keepdims=True)
            centers = np.where(lengths > 0, sums / np.maximum(lengths, 1e-9), centers)
        if products.max(axis=1).sum() > highest:
            best, highest = labels, products.max(axis=1).sum()
    return best


def sum_of_cosines(X, labels):
    """Return the sum of cosines of unit rows X, CSR, to the mean of their cluster."""
    clusters = (X[labels == label].sum(axis=0) for label in np.unique(labels))
    return sum(np.linalg.norm(cluster) for cluster in clusters)


def text():
    """Compare untrained ClAM by cosines with spherical k-means and k-means of rows.

    On TF-IDF of docstrings of Python, whose version matters, and of snippets of web
    searches. Printed are medians over five seeds.
    """
    for name, (X, y) in texts().items():
        k, scores, times, sums = len(np.unique(y)), [], [], []
        for seed in range(5):
            k_means_of_rows = KMeans(k, n_init=10, random_state=seed)
            runs = [
                seconds(
                    ClAM(k, metric="cosine", max_iter=0, random_state=seed).fit_predict,
                    X,
                ),
                seconds(spherical_k_means, X, k, seed),
                seconds(k_means_of_rows.fit_predict, X),
            ]
            times.append([spent for spent, _ in runs])
            labels = [found for _, found in runs]
            scores.append([adjusted_rand_score(y, found) for found in labels])
            sums.append(sum_of_cosines(X, labels[0]) / sum_of_cosines(X, labels[1]))
        ours, spherical, plain = np.median(scores, axis=0)
        times = np.array(times)
        print(
            f"{name}, {X.shape[0]} x {X.shape[1]}, k = {k}: ARI ClAM {ours:.3f}, "
            f"spherical k-means {spherical:.3f}, k-means {plain:.3f}; cosines "
            f"{np.median(sums):.4f}; time over "
            f"spherical {np.median(times[:, 0] / times[:, 1]):.2f}, over k-means "
            f"{np.median(times[:, 0] / times[:, 2]):.2f}",
            flush=True,
        )


def streams():
    """Compare streams of the digits, shuffled and sorted by class, batches of 100."""
    X, y = load("digits")
    X = (X - X.mean(axis=0)) / X.std()
    for seed in range(3):
        shuffled = np.random.RandomState(seed).permutation(len(X))
        cells = []
        for order in (shuffled, shuffled[np.argsort(y[shuffled], kind="stable")]):
            for model in (
                ClAM(10, random_state=seed),
                MiniBatchKMeans(10, n_init=3, random_state=seed),
            ):
                for start in range(0, len(X), 100):
                    model.partial_fit(X[order[start : start + 100]])
                cells.append(adjusted_rand_score(y, model.predict(X)))
        print(
            "ARI shuffled, ClAM {:.3f}, mini-batch k-means {:.3f}; sorted {:.3f}, "
            "{:.3f}".format(*cells)
        )


# Missing entries.


# Tables of the imputers: every this many features are used, which are about 20, since
# forests and BayesianRidge take minutes for more.
FRESH = {
    "segment": 1,
    "micepe": 4,
    "usps_test": 16,
    "mnist_t10k": 40,
    "isolet": 60,
    "ctg": 1,
    "letter": 1,
    "movlib": 5,
}


def fresh():
    """Yield (name, X, y) of at most 600 samples of these tables, standardised."""
    for name in those_here(*FRESH):
        X, y = some(*load(name), 600)
        X = X[:, :: FRESH[name]]
        yield name, standardised(X[:, X.std(axis=0) > 1e-2]), y


def hide(X, share, kind, random_state):
    """Return (n, d) True where an entry is hidden; each sample keeps an entry.

    The chance is the same for all entries ("mcar"), or grows with the rank of a feature
    that is always seen ("mar", two features of three) or of the entry itself ("mnar").
    """
    n_samples, n_features = X.shape
    ranks = np.argsort(np.argsort(X, axis=0, kind="stable"), axis=0) / n_samples
    chance = np.full(X.shape, share)
    if kind == "mnar":
        chance = 2.0 * share * ranks
    elif kind == "mar":
        seen = random_state.permutation(n_features)[: -(-n_features // 3)]
        chance = 2.0 * share * ranks[:, random_state.choice(seen, n_features)]
        chance[:, seen] = 0.0
    hidden = random_state.uniform(size=X.shape) < chance
    for i in np.flatnonzero(hidden.all(axis=1)):
        hidden[i, random_state.randint(n_features)] = False
    return hidden


def imputers(seed):
    """Return the imputers, ours first."""
    forest = RandomForestRegressor(50, max_features="sqrt", random_state=seed)
    return {
        "ours": AssociativeImputer(random_state=seed),
        "KNN": KNNImputer(),
        "BayesianRidge": IterativeImputer(random_state=seed),
        "forests": IterativeImputer(forest, max_iter=3, random_state=seed),
    }


def impute(X, y, hidden, seed):
    """Return {imputer: (RMSE, accuracy, ARI, seconds)}, fitted on half of the samples.

    Accuracy is that of a logistic regression of imputed samples, of the other half; ARI
    that of k-means of all of them, and for "ClAM" of its labels of samples with NaN.
    """
    shown = np.where(hidden, np.nan, X)
    k, n_trained, found = len(np.unique(y)), len(X) // 2, {}
    train, test = shown[:n_trained], shown[n_trained:]
    for name, imputer in imputers(seed).items():
        spent, _ = seconds(imputer.fit, train)
        more, filled = seconds(list, map(imputer.transform, (train, test)))
        model = LogisticRegression(max_iter=500).fit(filled[0], y[:n_trained])
        accuracy = model.score(filled[1], y[n_trained:])
        filled = np.vstack(filled)
        error = np.sqrt(np.mean(np.square(filled - X)[hidden]))
        labels = KMeans(k, n_init=10, random_state=seed).fit_predict(filled)
        found[name] = error, accuracy, adjusted_rand_score(y, labels), spent + more
    clam = ClAM(k, max_iter=0, random_state=seed)
    spent, labels = seconds(clam.fit_predict, shown)
    found["ClAM"] = np.nan, np.nan, adjusted_rand_score(y, labels), spent
    return found


def missing(path=None, data=None, n_seeds=3):
    """Print means of each table, and the table of each way of hiding and of all."""
    cases = list(itertools.product(("mcar", "mar", "mnar"), (0.05, 0.2, 0.5)))
    tables = {}
    for name, X, y in fresh() if data is None else data:
        runs = [
            impute(X, y, hide(X, share, kind, np.random.RandomState(seed)), seed)
            for seed in range(n_seeds)
            for kind, share in cases
        ]
        values = [list(run.values()) for run in runs]
        tables[name] = np.reshape(values, (n_seeds, len(cases), len(runs[0]), 4))
        print_means(f"{name} {X.shape}", tables[name].mean(axis=(0, 1)), runs[0])
    everything = np.mean(list(tables.values()), axis=(0, 1))
    names = list(imputers(0))
    both = [f"{what}: {name}" for what in ("error", "accuracy") for name in names]
    rows = [["hidden", *both]]
    titles = [f"{kind.upper()}, {100 * share:.0f} %" for kind, share in cases]
    everything = np.vstack([everything, everything.mean(axis=0, keepdims=True)])
    for title, values in zip([*titles, "mean"], everything, strict=True):
        measured = np.ravel(values[: len(names), :2].T)
        rows.append([title, *(f"{value:.3f}" for value in measured)])
    times = [f"{spent:.2g}" for spent in everything[-1, : len(names), 3]]
    rows.append(["processor seconds", *times, *([""] * len(names))])
    record(rows, path)


def print_means(title, values, imputers):
    """Print a line of (RMSE, accuracy, ARI, seconds) of each imputer."""
    cells = (
        f"{name} " + " ".join(f"{value:.3f}" for value in of_one)
        for name, of_one in zip(imputers, values, strict=True)
    )
    print(f"{title}: {'; '.join(cells)}", flush=True)


def root_error(imputer, given, X, hidden):
    """Return the root mean squared error of hidden entries of X (n, d).

    The imputer has `given` (n, d), without these entries.
    """
    filled = imputer.fit_transform(np.where(hidden, np.nan, given))
    return np.sqrt(np.mean(np.square(filled - X)[hidden]))


def hidden_in_three_ways(X, random_state):
    """Yield X and what is hidden: at random, features together, among copies."""
    n_samples, n_features = X.shape
    yield X, hide(X, 0.15, "mcar", random_state)
    together = np.zeros(X.shape, dtype=bool)
    rows = random_state.permutation(n_samples)[: n_samples // 3]
    features = random_state.permutation(n_features)[: n_features // 3]
    together[np.ix_(rows, features)] = True
    yield X, together
    some_features = X[:, :6]
    noise = 0.05 * random_state.randn(*some_features.shape)
    copies = np.hstack([some_features, some_features + noise])
    yield copies, hide(copies, 0.15, "mcar", random_state)


def spoilt(X, hidden, random_state):
    """Yield X (n, d) with one wrong cell, with three in a sample, and in a feature."""
    n_samples, n_features = X.shape
    cell = random_state.choice(np.flatnonzero(~hidden))
    for value in (10.0, 100.0, 1e4):
        wrong = X.copy()
        wrong.ravel()[cell] = value
        yield wrong
    wrong = X.copy()
    row = random_state.choice(np.flatnonzero((~hidden).sum(axis=1) > 3))
    three = random_state.permutation(np.flatnonzero(~hidden[row]))[:3]
    wrong[row, three] = [10.0, -100.0, 1e4]
    yield wrong
    wrong = X.copy()
    feature = random_state.randint(n_features)
    rows = random_state.permutation(np.flatnonzero(~hidden[:, feature]))
    wrong[rows[: n_samples // 100], feature] *= 1000.0
    yield wrong


def robust(n_seeds=5):
    """Print errors of the imputers, and the largest increase by wrong cells."""
    print(
        "RMSE ours, ours that takes far values as observed, without a range, KNN, "
        "BayesianRidge: at random, together, copies; one cell of 10, 100, 1e4; three "
        "in a sample; a feature"
    )
    for name, X, _ in fresh():
        errors, changes = [], []
        for seed in range(n_seeds):
            random_state = np.random.RandomState(seed)
            line = []
            for table_, hidden in hidden_in_three_ways(X, random_state):
                ours = AssociativeImputer(random_state=0)
                trusting = AssociativeImputer(
                    far_values="observed",
                    min_value=-np.inf,
                    max_value=np.inf,
                    random_state=0,
                )
                peers = KNNImputer(), IterativeImputer(random_state=0, max_iter=5)
                for imputer in (ours, trusting, *peers):
                    line.append(root_error(imputer, table_, table_, hidden))
            errors.append(line)
            hidden = hide(X, 0.15, "mcar", random_state)
            clean = root_error(ours, X, X, hidden)
            for _ in range(2):
                tables = spoilt(X, hidden, random_state)
                line = [root_error(ours, wrong, X, hidden) for wrong in tables]
                changes.append(np.array(line) / clean - 1.0)
        means = " ".join(f"{value:.3f}" for value in np.mean(errors, axis=0))
        worst = " ".join(f"{value:.3f}" for value in np.max(changes, axis=0))
        print(f"{name:12s} {X.shape}: {means}; {worst}", flush=True)


# DeepClAM: layers and pretraining of the others are those of its default.

SIZES = [256, 128, 10]
BATCH, PRETRAINING, TRAINING = 256, 800, 640
RATE, HIDDEN = 1e-3, 0.15


DEEP = "digits", "usps_train", "mnist_t10k", "isolet", "usps_test"


def centred(name):
    """Return centred samples of unit mean variance, float32, and their classes."""
    X, y = load(name)
    if name in ("usps_train", "mnist_t10k"):
        X, y = some(X, y, 2000)
    X = X.astype(np.float32)
    X -= X.mean(axis=0)
    return X / np.sqrt(np.square(X).mean()), y


def perceptron(sizes):
    """Return a perceptron of these layers."""
    layers = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def batches(n_samples, n_steps, generator):
    """Yield the numbers of the samples of a batch, for n_steps in whole epochs."""
    for _ in range(-(-n_steps // -(-n_samples // BATCH))):
        yield from torch.randperm(n_samples, generator=generator).split(BATCH)


def pretrain(X, seed):
    """Return encoder and decoder of samples X (n, d)."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    sizes = [X.shape[1], *SIZES]
    parts = perceptron(sizes), perceptron(sizes[::-1])
    adam = torch.optim.Adam(nn.ModuleList(parts).parameters(), lr=RATE)
    for batch in batches(len(X), PRETRAINING, generator):
        x = X[batch]
        shown = x * (torch.rand(x.shape, generator=generator) >= HIDDEN)
        loss = (parts[1](parts[0](shown)) - x).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    return parts


def shares(code, centers):
    """Return the soft assignments (n, k) of DEC, by Student's t."""
    share = 1.0 / (1.0 + torch.cdist(code, centers).square())
    return share / share.sum(dim=1, keepdim=True)


@torch.no_grad()
def targets(encoder, X, centers):
    """Return the sharpened assignments (n, k) of DEC."""
    share = shares(encoder(X), centers)
    target = share.square() / share.sum(dim=0)
    return target / target.sum(dim=1, keepdim=True)


def embedded_clustering(X, parts, n_clusters, seed, *, gamma, renewal):
    """Return the labels of DEC (gamma None) or IDEC."""
    encoder, decoder = copy.deepcopy(parts)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        code = encoder(X).numpy()
    found = KMeans(n_clusters, n_init=10, random_state=seed).fit(code)
    centers = nn.Parameter(torch.from_numpy(found.cluster_centers_.astype(np.float32)))
    trained = [*encoder.parameters(), centers]
    if gamma is not None:
        trained += decoder.parameters()
    adam = torch.optim.Adam(trained, lr=RATE)
    renewal = renewal or -(-len(X) // BATCH)
    for step, batch in enumerate(batches(len(X), TRAINING, generator)):
        if step % renewal == 0:
            target = targets(encoder, X, centers)
        code = encoder(X[batch])
        share = shares(code, centers).clamp_min(1e-12)
        wanted = target[batch].clamp_min(1e-12)
        loss = (wanted * (wanted.log() - share.log())).sum(dim=1).mean()
        if gamma is not None:
            error = (decoder(code) - X[batch]).square().mean()
            loss = error + gamma * loss
        adam.zero_grad()
        loss.backward()
        adam.step()
    with torch.no_grad():
        return shares(encoder(X), centers).argmax(dim=1).numpy()


def compare_deep(X, n_clusters, seed):
    """Return the labels of each method."""
    k_means = KMeans(n_clusters, n_init=10, random_state=seed)
    found = {"k-means": k_means.fit_predict(X)}
    found["PCA"] = k_means.fit_predict(
        PCA(SIZES[-1], random_state=seed).fit_transform(X)
    )
    rows = torch.from_numpy(X)
    parts = pretrain(rows, seed)
    with torch.no_grad():
        found["codes"] = k_means.fit_predict(parts[0](rows).numpy())
    for (name, gamma), renewal in itertools.product(
        {"DEC": None, "IDEC": 0.1}.items(), (None, 140)
    ):
        found[f"{name}, {renewal or 'epoch'}"] = embedded_clustering(
            rows, parts, n_clusters, seed, gamma=gamma, renewal=renewal
        )
    ours = DeepClAM(n_clusters, random_state=seed)
    found["DeepClAM"] = ours.fit_predict(X)
    return found


def deep(n_seeds=5):
    """Print the table of each data set."""
    for name in those_here(*DEEP):
        X, y = centred(name)
        rows = {}
        for seed in range(n_seeds):
            for method, labels in compare_deep(X, len(np.unique(y)), seed).items():
                rows.setdefault(method, []).append(adjusted_rand_score(y, labels))
        print(f"{name}, {X.shape[0]} x {X.shape[1]}")
        for method, scores in rows.items():
            line = " ".join(f"{score:.3f}" for score in scores)
            print(f"  {method:12s} median {np.median(scores):.3f}   {line}", flush=True)


PARTS = {
    part.__name__: part
    for part in (trains, k_means, text, streams, large, missing, robust, deep)
}


def main():
    """Print a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--record", metavar="FILE", help="of missing: a CSV file")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    torch.set_num_threads(1)
    print(versions("scikit-learn", "numpy", "torch"))
    rows = np.random.RandomState(0).randn(60, 4)
    ClAM(3, n_init=2).fit(rows)  # compiles, as the next line does
    ClAM(3, n_init=2, self_supervised=False).fit(rows)
    if options.part == "missing":
        missing(options.record)
    else:
        PARTS[options.part]()


if __name__ == "__main__":
    main()
