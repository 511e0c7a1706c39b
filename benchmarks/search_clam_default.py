"""The search for the defaults of ClAM: tuned on seven data sets, judged once on five.

    python benchmarks/search_clam_default.py            # candidates on the tuning sets
    python benchmarks/search_clam_default.py --judge    # the default, on both lists
    python benchmarks/search_clam_default.py --auto     # the numbers of clusters found

k-means gets as many restarts, chosen by its loss or by silhouette as ours are. A fit
that finds fewer clusters than requested counts as a silhouette of 0. Real data come
from the loader, data_sets.py.
"""

import itertools
import sys
import warnings

import numpy as np
from data_sets import has_data, load_data
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import StandardScaler

from skdiffclust.memories import ClAM

TUNING = ["ecoli", "ctg", "usps_train", "letter", "digits", "wine", "breast_cancer"]
JUDGED = ["zoo", "movlib", "isolet", "heart_statlog", "mnist_t10k"]
ROWS = 2000
STATES = (0, 1, 2)
BUILT_IN = {
    "digits": load_digits,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
}
CANDIDATES = {
    f"c={c} {name}": {"c": c, **changes}
    for c in (15, 30, 60, 120, 300)
    for name, changes in {
        "masked": {},
        "plain": {"self_supervised": False},
    }.items()
} | {
    f"c=30 {key}={value}": {"c": 30, key: value}
    for key, values in {
        "mask_probability": (0.07, 0.25, 0.4),
        "learning_rate": (0.01, 0.02, 0.1),
        "n_steps": (1, 2, 5),
        "weighted": (True,),
        "batch_size": (128,),
    }.items()
    for value in values
}


def load(name):
    """Return standardised rows, at most ROWS of them, and the number of classes."""
    if name in BUILT_IN:
        X, y = BUILT_IN[name](return_X_y=True)
    else:
        if not has_data(name):
            return None
        X, y = load_data(name)
    rows = np.random.RandomState(0).permutation(len(X))[:ROWS]
    X = StandardScaler().fit_transform(X[rows].astype(float))
    return X, len(np.unique(y))


def silhouette(X, labels, n_clusters):
    """Return the silhouette, 0 when not all clusters were found."""
    found = len(np.unique(labels))
    return silhouette_score(X, labels) if found == n_clusters else 0.0


def k_means(X, n_clusters, state):
    """Return the silhouettes chosen by inertia and by silhouette, and the inertia."""
    rng = np.random.RandomState(state)
    fits = [
        KMeans(n_clusters, n_init=1, random_state=rng.randint(2**31)).fit(X)
        for _ in range(10)
    ]
    scores = [silhouette(X, fit.labels_, n_clusters) for fit in fits]
    best = int(np.argmin([fit.inertia_ for fit in fits]))
    return scores[best], max(scores), fits[best].inertia_


def clam(X, n_clusters, state, c=None, **params):
    """Return the same of ClAM, then its norm ratio."""
    if c is not None:
        params["inverse_temperature"] = c / X.var(axis=0).sum()
    out = []
    for selection in ("loss", "silhouette"):
        model = ClAM(n_clusters, selection=selection, random_state=state, **params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X)
        out.append(silhouette(X, model.labels_, n_clusters))
        if selection == "loss":
            inertia = np.sum(model.transform(X).min(axis=1) ** 2)
            means = [X[model.labels_ == label].mean(0) for label in range(n_clusters)]
            norms = np.linalg.norm(model.cluster_centers_, axis=1)
            with np.errstate(all="ignore"):
                ratio = np.nanmedian(norms / np.linalg.norm(means, axis=1))
    return *out, inertia, ratio


def table(names, candidates):
    """Print one line a candidate."""
    data = {name: load(name) for name in names}
    data = {name: pair for name, pair in data.items() if pair is not None}
    print("sets:", ", ".join(data))
    base = {n: [k_means(X, k, s) for s in STATES] for n, (X, k) in data.items()}
    report("k-means", base, base)
    for title, params in candidates.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = {
                n: [clam(X, k, s, **params) for s in STATES]
                for n, (X, k) in data.items()
            }
        report(title, found, base)


def print_numbers():
    """Print how often n_clusters="auto" finds the number of blobs, and of classes."""
    for n_features, numbers in ((5, (3, 4, 5, 6, 8)), (2, (3, 4, 5))):
        right = 0
        for k, seed in itertools.product(numbers, range(8)):
            X, _ = make_blobs(400, n_features, centers=k, random_state=seed)
            right += number_found(StandardScaler().fit_transform(X), 0) == k
        print(f"blobs in {n_features} dimensions: {right} of {8 * len(numbers)}")
    for name in TUNING + JUDGED:
        if (pair := load(name)) is not None:
            numbers = [number_found(pair[0], state) for state in STATES]
            print(f"{name}: {numbers} of {pair[1]}", flush=True)


def number_found(X, state):
    """Return the number of clusters that merging finds."""
    model = ClAM("auto", n_init=1, max_iter=1, random_state=state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return len(model.fit(X).cluster_centers_)


def report(title, found, base):
    """Print the means over sets and states, and what each set got."""
    mean = {name: np.mean(rows, axis=0) for name, rows in found.items()}
    by_loss = np.mean([m[0] for m in mean.values()])
    by_silhouette = np.mean([m[1] for m in mean.values()])
    inertia = [
        np.mean([a[2] / b[2] for a, b in zip(found[n], base[n], strict=True)])
        for n in found
    ]
    missing = sum(row[1] == 0 or row[0] == 0 for rows in found.values() for row in rows)
    print(
        f"{title:26s} by loss {by_loss:.4f}  by silhouette {by_silhouette:.4f}", end=""
    )
    print(f"  not all clusters {missing}  inertia", np.round(inertia, 3), end="")
    print("  silhouettes", *[f"{m[0]:.3f}/{m[1]:.3f}" for m in mean.values()], end="")
    ratios = [f"{m[3]:.2f}" for m in mean.values() if len(m) > 3]
    print("  norm ratios", *ratios, flush=True)


if __name__ == "__main__":
    if "--auto" in sys.argv:
        print_numbers()
    elif "--judge" in sys.argv:
        candidates = {"default": {}, "plain": {"self_supervised": False}}
        table(TUNING, candidates)
        table(JUDGED, candidates)
    else:
        table(TUNING, CANDIDATES)
