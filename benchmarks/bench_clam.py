"""ClAM against k-means: fit time, time of a step, growth with n, d and k, memory.

    OMP_NUM_THREADS=1 python benchmarks/bench_clam.py [PART ...]

Parts are k_means, text, metrics, streams, outliers, fits, steps, large, growth, memory
and gpu; all of them by default. Times are medians of alternating runs in this process,
given as ratios. Real data come from the loader, data_sets.py. The part k_means
compares ClAM with its defaults to ``KMeans(n_init=10)`` on twenty complete data sets:
see its docstring.
"""

import functools
import importlib
import itertools
import operator
import platform
import sys
import time
import tracemalloc
import warnings

import numpy as np
import sklearn
import torch
from data_sets import has_data, load_data
from scipy import sparse
from sklearn.cluster import KMeans, MiniBatchKMeans, kmeans_plusplus
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_classification,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.metrics import adjusted_rand_score, roc_auc_score, silhouette_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import ClAM
from skdiffclust.memories._dynamics import Dynamics
from skdiffclust.memories._masking import mask_groups
from skdiffclust.memories._torch import completion_on_device
from skdiffclust.memories._training import completion_with_gradient


def load(name, *, classes=False):
    """Return rows, and the number of classes or the classes, of a data set, or None."""
    own = {
        "breast": load_breast_cancer,
        "digits": load_digits,
        "iris": load_iris,
        "wine": load_wine,
    }
    if name in own:
        X, y = own[name](return_X_y=True)
    elif not has_data(name):
        return None
    else:
        X, y = load_data(name)
    X = StandardScaler().fit_transform(X.astype(float))
    return X, y if classes else len(np.unique(y))


def seconds(work):
    """Return the processor time of a call, which a busy machine changes least."""
    start = time.process_time()
    work()
    return time.process_time() - start


def compare_both(name, X, n_clusters, repeats):
    """Print fit times over those of k-means, and inertias, with masks and without."""
    kinds = {"": {}, "  whole rows": {"self_supervised": False}}
    ratios, mini, models = ({kind: [] for kind in kinds} for _ in range(3))
    for state in range(repeats):
        km = KMeans(n_clusters, n_init=10, random_state=state)
        mb = MiniBatchKMeans(n_clusters, n_init=10, random_state=state)
        peer, small = (seconds(lambda m=m: m.fit(X)) for m in (km, mb))
        for kind, params in kinds.items():
            ours = ClAM(n_clusters, random_state=state, **params)
            own = seconds(lambda m=ours: m.fit(X))
            ratios[kind].append(own / peer)
            mini[kind].append(own / small)
            models[kind] = [ours, own]
    print(f"{name}, {len(X)} x {X.shape[1]}, k = {n_clusters}: KMeans {peer:.3f} s")
    for kind, (ours, own) in models.items():
        print(
            f"  {kind:14s} over KMeans {np.median(ratios[kind]):6.2f}  over "
            f"MiniBatchKMeans {np.median(mini[kind]):6.2f}  {own:7.3f} s, "
            f"{ours.n_iter_} epochs, {ours.n_clusters_} clusters, inertia ratio "
            f"{ours.inertia_ / km.inertia_:.3f}",
            flush=True,
        )


def compare_steps(n, d, k, batch_size, repeats=5):
    """Print the time of a step of torch's autograd over ours, by two formulas."""
    rng = np.random.RandomState(0)
    X, memories = rng.randn(batch_size, d), rng.randn(1, k, d)
    arguments = X, memories, np.zeros((1, k)), Dynamics(60.0 / d, 3, 1.0, "euclidean")
    options = dict(fill=np.zeros(d), sample_weight=np.ones(batch_size))
    hidden = round(0.15 * d)
    kinds = {
        "plain rows": [(slice(0, batch_size), slice(0, 0))],
        "masks in groups": mask_groups(batch_size, d, 0.15, rng)[1],
        "one mask": [(slice(0, batch_size), slice(0, hidden))],
    }
    twin = completion_on_device("cpu")
    times = {}
    for _ in range(repeats + 1):
        for kind, groups in kinds.items():
            for name, function in {
                "ours": completion_with_gradient,
                "twin": twin,
            }.items():
                work = functools.partial(function, *arguments, groups=groups, **options)
                spent = seconds(lambda work=work: [work() for _ in range(20)])
                times.setdefault((name, kind), []).append(spent)
        spent = seconds(lambda: broadcast_steps(X, memories[0], 20))
        times.setdefault(("broadcast", "one mask"), []).append(spent)
    times = {key: np.array(spent[1:]) for key, spent in times.items()}
    ratios = [
        f"{kind} {np.median(times['twin', kind] / times['ours', kind]):.1f}"
        for kind in kinds
    ]
    wide = np.median(times["broadcast", "one mask"] / times["ours", "one mask"])
    print(
        f"step of {n} x {d}, k={k}, batch {batch_size}: autograd of the same loss over "
        f"ours: {', '.join(ratios)}; of the published form, one mask: {wide:.1f}",
        flush=True,
    )


def broadcast_steps(X, memories, n_steps):
    """Take gradients as the published code forms them: rows x memories x features."""
    rows = torch.from_numpy(X)
    rho = torch.from_numpy(memories).requires_grad_()
    beta = 60.0 / rows.shape[1]
    for _ in range(n_steps):
        seen = (torch.rand(rows.shape[1]) > 0.15).to(rows.dtype)
        v = rows * seen
        for _ in range(3):
            gap = rho - v[:, None]
            share = torch.softmax(-beta * gap.square().sum(-1), 1)
            v = v + (1 - seen) * (share[:, :, None] * gap).sum(1)
        ((1 - seen) * (v - rows)).square().sum().backward()
        rho.grad = None


def growth():
    """Print the time of four epochs as n, d and k double, three times each."""
    for d, names in ((64, ("n", "d", "k")), (1024, ("k",))):
        base = dict(n=10_000 * 64 // d, d=d, k=16)
        for name in names:
            times = []
            for factor in (1, 2, 4, 8):
                size = {**base, name: base[name] * factor}
                X = np.random.RandomState(0).randn(size["n"], size["d"])
                start = X[: size["k"]]
                model = ClAM(size["k"], init=start, max_iter=4, random_state=0)
                found = [seconds(lambda m=model, X=X: m.fit(X)) for _ in range(5)]
                times.append(np.median(found))
            print(
                f"four epochs of {base}, {name} x 1, 2, 4, 8:",
                np.round(times / times[0], 2),
                flush=True,
            )


def memory():
    """Print what a fit, and predictions, need beyond X."""
    X = np.random.RandomState(0).randn(1_000_000, 50).astype(np.float32)
    model = ClAM(10, n_init=2, max_iter=2).fit(X[:1000])
    model.transform(X[:1000])
    model = ClAM(10, max_iter=2, random_state=0)
    for name in ("fit", "predict", "transform"):
        tracemalloc.start()
        out = getattr(model, name)(X)
        peak = tracemalloc.get_traced_memory()[1] - getattr(out, "nbytes", 0)
        tracemalloc.stop()
        print(f"{name} of 1 000 000 x 50 float32: {peak / 2**20:.0f} MiB beyond X")


def small_fits():
    """Compare fits of small sets, with masks and without."""
    for name in (
        "zoo",
        "ecoli",
        "wine",
        "movlib",
        "heart_statlog",
        "digits",
        "ctg",
        "isolet",
        "letter",
    ):
        if (pair := load(name)) is not None:
            compare_both(name, *pair, repeats=1 if name == "letter" else 5)


def large_fits():
    """Compare fits of large sets."""
    X, _ = make_blobs(200_000, 64, centers=10, cluster_std=6.0, random_state=0)
    compare_both("blobs", X, 10, repeats=1)
    if has_data("mnist_t10k"):
        X, _ = load_data("mnist_t10k")
        compare_both("mnist_t10k", X.astype(float), 10, repeats=1)


def steps():
    """Compare steps on a small, a middling and a large set."""
    compare_steps(300, 16, 8, 256)
    compare_steps(1797, 64, 10, 1024)
    compare_steps(200_000, 64, 10, 1024)


def gpu():
    """Print the seconds of an epoch on the GPU, if there is one."""
    if not torch.cuda.is_available():
        print("no GPU is at hand")
        return
    X = np.random.RandomState(0).randn(1_000_000, 64).astype(np.float32)
    for batch_size in (1024, 65536):
        model = ClAM(10, device="cuda", n_init=1, init=X[:10], batch_size=batch_size)
        model.set_params(max_iter=1).fit(X)
        times = []
        for n_epochs in (1, 4):
            start = time.perf_counter()
            model.set_params(max_iter=n_epochs, tol=0.0).fit(X)
            times.append(time.perf_counter() - start)
        each = (times[1] - times[0]) / 3
        print(
            f"1 000 000 x 64 on a GPU, batches of {batch_size}: {each:.2f} s an epoch"
        )


def agreement(labelings):
    """Return the mean adjusted Rand index of all pairs of labelings."""
    pairs = itertools.combinations(labelings, 2)
    return float(np.mean([adjusted_rand_score(a, b) for a, b in pairs]))


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
TABLES = (
    "iris wine breast digits zoo ecoli heart_statlog house_votes_84 movlib ctg letter "
    "isolet usps_train mnist_t10k"
).split()
TABLE_ROWS = 3000
SILHOUETTE_ROWS = 1500


def complete_sets():
    """Yield the name, samples (n, d) and classes (n,) of the twenty data sets."""
    for name in TABLES:
        if (pair := load(name, classes=True)) is not None:
            rows = np.random.RandomState(0).permutation(len(pair[0]))[:TABLE_ROWS]
            yield name, pair[0][rows], pair[1][rows]
    for name, generate in GENERATORS.items():
        X, y = generate(0)
        yield name, StandardScaler().fit_transform(X), y


def k_means():
    """Compare ClAM with its defaults to k-means on twenty complete data sets.

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
                ClAM(k, random_state=seed),
                KMeans(k, n_init=10, random_state=seed),
            )
            spent = [seconds(lambda m=m, X=X[order]: m.fit(X)) for m in models]
            times.append(spent[0] / spent[1])
            ratios.append(models[0].inertia_ / models[1].inertia_)
            for found, model in zip(labels, models, strict=True):
                found.append(model.labels_[np.argsort(order)])
        cells = [
            [
                np.mean([silhouette_score(X[judged], one[judged]) for one in found]),
                np.mean([adjusted_rand_score(y, one) for one in found]),
                agreement(found[:5]),
                agreement(found[5:]),
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


def outliers():
    """Compare the energy with the distance to the nearest memory, as outlier scores.

    Of each class in turn as many samples are kept as are 5 % of all other samples: the
    outliers. A line has the mean areas under the ROC curve over classes and seeds.
    """
    for name in ("iris", "wine", "breast", "digits", "zoo", "ecoli", "ctg"):
        if (pair := load(name, classes=True)) is None:
            continue
        X, y = pair
        areas = []
        for seed in range(5):
            rng = np.random.RandomState(seed)
            for outlier in np.unique(y):
                others = np.flatnonzero(y != outlier)
                few = rng.permutation(np.flatnonzero(y == outlier))
                rows = np.r_[others, few[: max(1, len(others) // 20)]]
                is_outlier = y[rows] == outlier
                k = len(np.unique(y)) - 1
                clam = ClAM(k, random_state=seed).fit(X[rows])
                scores = clam.energy(X[rows]), clam.transform(X[rows]).min(axis=1)
                areas.append([roc_auc_score(is_outlier, score) for score in scores])
        energy, distance = np.mean(areas, axis=0)
        print(f"{name:7s} energy {energy:.3f}, distance {distance:.3f}", flush=True)


def topics(n_samples, n_words, n_classes, length, seed):
    """Return counts (n, n_words), CSR, of words that are as frequent as in a language,
    and the topic (n,), which explains half of the words of a document.
    """
    rng = np.random.RandomState(seed)
    common = 1.0 / np.arange(1, n_words + 1)
    common /= common.sum()
    own = rng.dirichlet(30.0 * common + 1e-3, size=n_classes)
    y = rng.randint(n_classes, size=n_samples)
    lengths = 5 + rng.poisson(length, size=n_samples)
    counts = [
        rng.multinomial(n, 0.5 * own[label] + 0.5 * common)
        for n, label in zip(lengths, y, strict=True)
    ]
    return sparse.csr_array(np.array(counts, dtype=float)), y


def docstrings(names):
    """Return counts (n, n_words), CSR, of the words of the docstrings of what modules
    export, and the number (n,) of the module.
    """
    found = {}
    for label, name in enumerate(names):
        module = importlib.import_module(name)
        for member in sorted(getattr(module, "__all__", dir(module))):
            text = getattr(getattr(module, member, None), "__doc__", None)
            if isinstance(text, str) and len(text) > 300:
                found.setdefault(text, label)
    words = CountVectorizer(stop_words="english", token_pattern=r"[a-z]{3,}")
    return words.fit_transform(found), np.array(list(found.values()))


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
    """Compare ClAM by cosines with spherical k-means, and k-means of unit rows, on
    TF-IDF: topics that are drawn, and docstrings of libraries, whose versions matter.

    A line has the medians over five seeds of the adjusted Rand index, of the sum of
    cosines of ClAM over that of spherical k-means, and of the ratio of the processor
    time of ClAM to that of each peer.
    """
    scipy_modules = "stats signal linalg special optimize ndimage sparse integrate"
    sets = {
        "topics, long": topics(1000, 5000, 8, 120, 0),
        "topics, short": topics(3000, 3000, 5, 25, 1),
        "docstrings of four libraries": docstrings(
            ["numpy", "scipy.stats", "sklearn.metrics", "torch"]
        ),
        "docstrings of SciPy": docstrings(
            [f"scipy.{name}" for name in scipy_modules.split()]
        ),
    }
    for name, (counts, y) in sets.items():
        X = sparse.csr_array(TfidfTransformer().fit_transform(counts))
        k, scores, times, sums = len(np.unique(y)), [], [], []
        for seed in range(5):
            found = {}
            work = {
                "ClAM": ClAM(k, metric="cosine", random_state=seed).fit_predict,
                "spherical": lambda X, s=seed, k=k: spherical_k_means(X, k, s),
                "k-means": KMeans(k, n_init=10, random_state=seed).fit_predict,
            }

            def run(method, found=found, work=work, X=X):
                found[method] = work[method](X)

            times.append([seconds(functools.partial(run, method)) for method in work])
            scores.append([adjusted_rand_score(y, labels) for labels in found.values()])
            pair = (
                sum_of_cosines(X, found[method]) for method in ("ClAM", "spherical")
            )
            sums.append(operator.truediv(*pair))
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


def metrics():
    """Print the time of fits by cosines and by city-block distances over Euclidean."""
    for name in ("wine", "ecoli", "digits", "ctg", "usps_train", "letter"):
        if (pair := load(name)) is None:
            continue
        X, k = pair
        X = X[np.random.RandomState(0).permutation(len(X))[:TABLE_ROWS]]
        times = []
        for seed in range(5):
            models = [
                ClAM(k, metric=metric, random_state=seed)
                for metric in ("euclidean", "cosine", "manhattan")
            ]
            times.append([seconds(lambda m=m, X=X: m.fit(X)) for m in models])
        times = np.array(times)
        cosine, manhattan = np.median(times[:, 1:] / times[:, :1], axis=0)
        print(
            f"{name} {X.shape}, k = {k}: over Euclidean, cosine {cosine:.2f}, "
            f"manhattan {manhattan:.2f}",
            flush=True,
        )


def streams():
    """Compare streams of the digits, shuffled and sorted by class, batches of 100."""
    X, y = load_digits(return_X_y=True)
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


PARTS = {
    "k_means": k_means,
    "text": text,
    "metrics": metrics,
    "streams": streams,
    "outliers": outliers,
    "fits": small_fits,
    "steps": steps,
    "large": large_fits,
    "growth": growth,
    "memory": memory,
    "gpu": gpu,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    torch.set_num_threads(1)
    versions = {m.__name__: m.__version__ for m in (sklearn, np, torch)}
    print(platform.processor() or platform.machine(), versions)
    rows = np.random.RandomState(0).randn(60, 4)
    ClAM(3, n_init=2).fit(rows)  # compiles, as the next line does
    ClAM(3, n_init=2, self_supervised=False).fit(rows)
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
