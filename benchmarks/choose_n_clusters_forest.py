"""How often does SpanningForestClustering(n_clusters="auto") find the clusters?

    python benchmarks/choose_n_clusters_forest.py               # the reporting half
    python benchmarks/choose_n_clusters_forest.py --half choose
    python benchmarks/choose_n_clusters_forest.py --no-peers    # without the slow two

Prints, for every family of problems, the mean adjusted Rand index (ARI) with the number
of clusters unknown: of the rule of the package, of the rule before it, of k-means with
the largest silhouette, and of HDBSCAN; that of the forest at the true number; how often
each rule finds it; and how often each warns that there is no clear structure. Samples
that belong to no class (-1) are left out of the index.

The split, written down before any rule was tried: rules are chosen on the even seeds
(0, 2, 4, 6, 8) of the families in CHOOSING. Reported are the odd seeds (1, 3, 5, 7, 9)
of all families; those in HELD_OUT, and scikit-learn's tables, are never looked at
before a rule is chosen. (The last four families of CHOOSING and the last five of
HELD_OUT were added when the first pass over the choosing half found it too easy, before
any reporting problem was seen.)
"""

import argparse
import warnings

import numpy as np
from sklearn import datasets
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import SpanningForestClustering

LARGEST = 60


def apart(rng, k, n_features, gap, box):
    """Return k centres that are at least `gap` apart."""
    centers = []
    while len(centers) < k:
        center = rng.uniform(-box, box, n_features)
        if all(np.linalg.norm(center - other) >= gap for other in centers):
            centers.append(center)
        else:
            box *= 1.01
    return np.array(centers)


def blobs(rng, sizes, *, n_features=2, gap=8.0, spread=1.0):
    """Return normal clusters at least `gap` apart."""
    k = len(sizes)
    box = gap * k ** (1 / min(n_features, 3)) * 0.7
    centers = apart(rng, k, n_features, gap, box)
    y = np.repeat(np.arange(k), sizes)
    spread = np.broadcast_to(spread, k)[y][:, None]
    return centers[y] + spread * rng.normal(size=(len(y), n_features)), y


def noisy(rng, X, y, fraction):
    """Add uniform samples of no class over the bounding box."""
    shape = (round(fraction * len(X)), X.shape[1])
    noise = rng.uniform(X.min(axis=0), X.max(axis=0), shape)
    return np.r_[X, noise], np.r_[y, np.full(len(noise), -1)]


def lattice(rng, side, distance, n_each=40):
    """Return normal clusters on a square grid."""
    places = np.stack(np.meshgrid(range(side), range(side)), -1).reshape(-1, 2)
    y = np.repeat(np.arange(side * side), n_each)
    return distance * places[y] + rng.normal(size=(len(y), 2)), y


def spirals(rng, n_arms=3, n_each=200):
    """Return intertwined spirals."""
    s = np.tile(np.linspace(0.5, 3 * np.pi, n_each), n_arms)
    y = np.repeat(np.arange(n_arms), n_each)
    turn = s + 2 * np.pi * y / n_arms
    X = (s + 1)[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    return X + 0.15 * rng.normal(size=X.shape), y


def rings(rng, n_rings=3):
    """Return rings of growing radius."""
    y = np.repeat(np.arange(n_rings), 120 * (1 + np.arange(n_rings)))
    angle = rng.uniform(0, 2 * np.pi, len(y))
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * (1 + y[:, None])
    return X + 0.06 * rng.normal(size=X.shape), y


def stretched(rng):
    """Return blobs under linear maps."""
    X, y = blobs(rng, [150] * 4, gap=14)
    for label in range(4):
        own = y == label
        center = X[own].mean(axis=0)
        X[own] = (X[own] - center) @ rng.normal(size=(2, 2)) * 1.3 + center
    return X, y


def nested(rng):
    """Return three groups of three blobs; nine clusters."""
    outer = 40 * np.array([[0, 0], [1, 0], [0.5, 0.9]])
    inner = 8 * np.array([[0, 0], [1, 0], [0.5, 0.9]])
    centers = (outer[:, None] + inner[None]).reshape(-1, 2)
    y = np.repeat(np.arange(9), 60)
    return centers[y] + rng.normal(size=(540, 2)), y


def tails(rng, degrees, gap):
    """Return three clusters of Student's t."""
    y = np.repeat(np.arange(3), 150)
    centers = gap * np.array([[0, 0], [1, 0], [0.5, 0.9]])
    return centers[y] + rng.standard_t(degrees, (450, 2)), y


def without(X):
    """Return samples that are one class."""
    return X, np.zeros(len(X), dtype=int)


def warped(rng):
    """Return one correlated Gaussian in ten dimensions."""
    return without(rng.normal(size=(500, 10)) @ rng.normal(size=(10, 10)))


CHOOSING = {
    "blobs 3": lambda rng: blobs(rng, [150] * 3),
    "blobs 10, d = 10": lambda rng: blobs(rng, [60] * 10, n_features=10),
    "blobs 30, d = 5": lambda rng: blobs(rng, [40] * 30, n_features=5),
    "blobs 5, 5 % noise": lambda rng: noisy(rng, *blobs(rng, [150] * 5), 0.05),
    "blobs 4, 20 % noise": lambda rng: noisy(rng, *blobs(rng, [200] * 4), 0.2),
    "lattice 3 x 3": lambda rng: lattice(rng, 3, 6.0),
    "lattice 5 x 5": lambda rng: lattice(rng, 5, 5.5),
    "lattice 6 x 6": lambda rng: lattice(rng, 6, 6.5, 30),
    "densities": lambda rng: blobs(rng, [150] * 3, gap=10, spread=[0.3, 1, 2]),
    "sizes 20:1": lambda rng: blobs(rng, [400, 100, 20]),
    "moons": lambda rng: datasets.make_moons(400, noise=0.07, random_state=rng),
    "spirals 3": spirals,
    "heavy tails, t3": lambda rng: tails(rng, 3, 16),
    "blobs 4, d = 50": lambda rng: blobs(rng, [100] * 4, n_features=50, gap=14),
    "touching": lambda rng: blobs(rng, [150] * 3, gap=4.5),
    "lattice 4 x 4, near": lambda rng: lattice(rng, 4, 4.5),
    "lattice 5 x 5, touching": lambda rng: lattice(rng, 5, 4.0, 60),
    "blobs 4, near, 5 % noise": lambda rng: noisy(
        rng, *blobs(rng, [150] * 4, gap=5), 0.05
    ),
    "blobs 12, d = 8, near": lambda rng: blobs(rng, [60] * 12, n_features=8, gap=6.5),
}
HELD_OUT = {
    "blobs 6": lambda rng: blobs(rng, [100] * 6),
    "blobs 20, d = 3": lambda rng: blobs(rng, [50] * 20, n_features=3, gap=7),
    "blobs 3, 10 % noise": lambda rng: noisy(rng, *blobs(rng, [200] * 3), 0.1),
    "blobs 8, 20 % noise": lambda rng: noisy(rng, *blobs(rng, [100] * 8), 0.2),
    "blobs 5, d = 5, 10 % noise": lambda rng: noisy(
        rng, *blobs(rng, [100] * 5, n_features=5), 0.1
    ),
    "lattice 4 x 4": lambda rng: lattice(rng, 4, 6.0),
    "lattice 5 x 5, near": lambda rng: lattice(rng, 5, 5.0),
    "densities and sizes": lambda rng: blobs(
        rng, [300, 150, 100, 60], gap=11, spread=[0.3, 1, 2, 0.5]
    ),
    "sizes 8, unequal": lambda rng: blobs(rng, list(rng.randint(20, 200, 8))),
    "circles": lambda rng: datasets.make_circles(
        500, factor=0.5, noise=0.05, random_state=rng
    ),
    "rings 4": lambda rng: rings(rng, 4),
    "moons, 5 % noise": lambda rng: noisy(
        rng, *datasets.make_moons(400, noise=0.05, random_state=rng), 0.05
    ),
    "stretched": stretched,
    "nested": nested,
    "heavy tails, t2": lambda rng: tails(rng, 2, 30),
    "blobs 5, d = 100": lambda rng: blobs(rng, [80] * 5, n_features=100, gap=20),
    "lattice 3 x 3, touching": lambda rng: lattice(rng, 3, 4.0, 80),
    "lattice 6 x 6, near": lambda rng: lattice(rng, 6, 4.5, 60),
    "blobs 3, near, 20 % noise": lambda rng: noisy(
        rng, *blobs(rng, [150] * 3, gap=5), 0.2
    ),
    "blobs 25, d = 4, near": lambda rng: blobs(rng, [50] * 25, n_features=4, gap=6),
    "blobs 7, near": lambda rng: blobs(rng, [80] * 7, gap=5),
}
NOTHING_CHOOSING = {
    "Gaussian": lambda rng: without(rng.normal(size=(500, 2))),
    "square": lambda rng: without(rng.uniform(size=(500, 2))),
    "Gaussian, d = 20": lambda rng: without(rng.normal(size=(300, 20))),
    "cube, d = 5": lambda rng: without(rng.uniform(size=(1000, 5))),
}
NOTHING_HELD_OUT = {
    "Gaussian, n = 150": lambda rng: without(rng.normal(size=(150, 3))),
    "disc": lambda rng: without(
        np.sqrt(rng.uniform(size=(800, 1)))
        * np.stack([np.cos(a := rng.uniform(0, 7, 800)), np.sin(a)], -1)
    ),
    "t5": lambda rng: without(rng.standard_t(5, (500, 3))),
    "correlated, d = 10": warped,
    "exponential": lambda rng: without(rng.exponential(size=(500, 2))),
    "Gaussian, n = 2000": lambda rng: without(rng.normal(size=(2000, 2))),
}


def tables():
    """Yield (name, X, y) of scikit-learn's tables."""
    for name in ("iris", "wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, X if name == "digits" else StandardScaler().fit_transform(X), y


def problems(half):
    """Yield (name, X, y)."""
    seeds = range(0, 10, 2) if half == "choose" else range(1, 10, 2)
    families = CHOOSING | NOTHING_CHOOSING
    if half == "report":
        families = CHOOSING | HELD_OUT | NOTHING_CHOOSING | NOTHING_HELD_OUT
    for name, draw in families.items():
        for seed in seeds:
            rng = np.random.RandomState(1000 + seed)
            X, y = draw(rng)
            order = rng.permutation(len(X))
            yield name, X[order], y[order]
    if half == "report":
        yield from tables()


def before(model, n_samples):
    """Return k of the rule before, and whether it warned: no ratio above 2."""
    scores = model.cut_scores_[: min(LARGEST, max(5, n_samples // 10))]
    ratios = scores[:-1] / scores[1:]
    above = np.flatnonzero(ratios > 2)
    return 2 + (above[-1] if len(above) else np.argmax(ratios)), not len(above)


def by_silhouette(X):
    """Return the labels of k-means with the largest silhouette, 2 to 40 clusters."""
    found = [KMeans(k, n_init=3, random_state=0).fit_predict(X) for k in range(2, 41)]
    some = np.random.RandomState(0).permutation(len(X))[:1000]
    return max(found, key=lambda labels: silhouette_score(X[some], labels[some]))


def measure(X, y, has_peers):
    """Return ({column: figure}, true number of clusters) of one problem."""
    known = y >= 0
    truth = len(np.unique(y[known]))

    def agreement(labels):
        return adjusted_rand_score(y[known], labels[known])

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SpanningForestClustering("auto").fit(X)
    number, warned = before(model, len(X))
    row = {
        "auto": agreement(model.labels_),
        "before": agreement(model.cut(number)),
        "true k": agreement(model.cut(truth)),
        "k": model.n_clusters_ == truth,
        "k before": number == truth,
        "warns": any(issubclass(w.category, ConvergenceWarning) for w in caught),
        "warned": warned,
    }
    if has_peers:
        row["silhouette"] = agreement(by_silhouette(X))
        row["HDBSCAN"] = agreement(HDBSCAN(15, copy=True).fit_predict(X))
    return row, truth


def main():
    """Print the table and the sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=["choose", "report"], default="report")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    table = {}
    right, right_before, nothing = [], [], []
    for name, X, y in problems(options.half):
        row, truth = measure(X, y, not options.no_peers)
        table.setdefault(name, []).append(row)
        if truth == 1:
            nothing.append((row["warns"], row["warned"]))
        elif row["k"] and row["auto"] > 0.9:
            right.append(row["warns"])
        if truth > 1 and row["k before"] and row["before"] > 0.9:
            right_before.append(row["warned"])
    columns = list(row)
    print(f"{'':28s}" + "".join(f"{column:>11s}" for column in columns))
    means = {
        n: [np.mean([r[c] for r in rows]) for c in columns] for n, rows in table.items()
    }
    for name, values in means.items():
        print(f"{name:28s}" + "".join(f"{value:11.3f}" for value in values))
    empty = NOTHING_CHOOSING | NOTHING_HELD_OUT
    for title, chosen in (
        ("mean", means.keys() - empty.keys()),
        ("mean, held out", HELD_OUT.keys() & means.keys()),
    ):
        if chosen:
            values = np.mean([means[name] for name in chosen], axis=0)
            print(f"{title:28s}" + "".join(f"{value:11.3f}" for value in values))
    quiet = [1 - np.mean(found) for found in (right, right_before)]
    print(
        f"no warning where k is right and ARI > 0.9: {quiet[0]:.3f} of {len(right)} "
        f"(before {quiet[1]:.3f} of {len(right_before)})"
    )
    rates = np.mean(nothing, axis=0)
    print(f"warning without structure: {rates[0]:.3f} (before {rates[1]:.3f})")


if __name__ == "__main__":
    main()
