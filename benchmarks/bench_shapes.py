"""Does the spanning forest find shapes, small clusters, their number, and outliers?

    python benchmarks/bench_shapes.py gaps --seeds 40 50
    python benchmarks/bench_shapes.py outliers --seeds 40 50
    python benchmarks/bench_shapes.py numbers --seeds 3010 3020
    python benchmarks/bench_shapes.py embeddings --seeds 7 10
    python benchmarks/bench_shapes.py search

gaps  the mean adjusted Rand index at the true number of clusters: ten (six, twenty)
      samples beside two large clusters in 2 to 12 dimensions; fifteen clusters whose
      sizes fall by a power law, in 2 to 10 dimensions; five clusters whose scales are
      powers of ten; the families of shapes. Beside it Genie and Lumbermark, where they
      are installed, HDBSCAN (``min_cluster_size=5``, noise a cluster of its own) and
      k-means; how often "auto" finds the number.
outliers  the area under the ROC curve of outlier scores at 1 and at the true number of
      clusters, of 10-neighbour distances and of isolation forests, on tables of some
      classes and a few samples of others, and on generated outliers: global, local, in
      groups, and of a wrong dependency. Seed 0 chose how many samples the scores count
      with.
numbers  the mean adjusted Rand index of ``SpanningForestClustering("auto")``, of its
      cut into the true number, of the number by the falls of the scores, and of HDBSCAN
      (``min_cluster_size=15``) on the families of shapes, and how often there is no
      warning on sets without structure. The rule was chosen on seeds 0 to 2 and 1000 to
      1002, and its limits on seeds 0 to 4 of the sets without structure.
embeddings  the same on ten UMAP components with ``min_dist=0`` of real data (umap-learn
      is needed). Two embeddings of usps_test, usps_train, mnist_t10k, isolet, segment,
      letter and pbmc68k_reduced, of seeds 0 and 1, helped to choose.
search  how often a search over 2 to 12 clusters with each scorer of ``metrics`` chooses
      the true number, with five estimators and three shuffles of the folds. All of this
      was fixed before any of these sets was scored.

Samples of no class (-1) are left out of the index. Differences have an interval of 95 %
over the draws, the sets or the families.
"""

import argparse
import warnings

import numpy as np
from bench_all import hdbscan, of_k, packages_here
from shared import interval, load, standardised, those_here, versions, warns_of
from sklearn import datasets
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.ensemble import IsolationForest
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdiffclust import (
    GEMINI,
    ClAM,
    GraphCutClustering,
    SpanningForestClustering,
    metrics,
)
from skdiffclust.forests._hierarchy._number import falls_of, number_by_falls

# Generated sets of shapes, and sets without any: after the usual public ones.


def gaussians(rng, centers, spread, n_each):
    """Return round Gaussians: samples and classes."""
    k = len(centers)
    y = np.repeat(np.arange(k), n_each)
    spread = np.broadcast_to(spread, k)[y][:, None]
    return centers[y] + spread * rng.normal(size=(len(y), centers.shape[1])), y


def irregular(rng, k, gap, d=2):
    """Return k centres at least `gap` apart and not much farther."""
    side = gap * (1.7 * k) ** (1 / d)
    centers = [rng.uniform(0, side, d)]
    while len(centers) < k:
        center = rng.uniform(0, side, d)
        if min(np.linalg.norm(center - other) for other in centers) >= gap:
            centers.append(center)
        side *= 1.0005
    return np.array(centers)


def grid(side, gap):
    """Return the centres of a square grid."""
    places = np.stack(np.meshgrid(range(side), range(side)), -1).reshape(-1, 2)
    return gap * places.astype(float)


def circle(rng, n, radius, center=(0, 0), noise=0.05, arc=(0, 2 * np.pi)):
    """Return samples on an arc."""
    angle = rng.uniform(*arc, n)
    points = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.add(points, center) + noise * rng.normal(size=(n, 2))


def box(rng, n, low, high):
    """Return uniform samples of a box."""
    return rng.uniform(low, high, (n, len(low)))


def ball(rng, n, center, radius):
    """Return uniform samples of a disc."""
    angle = rng.uniform(0, 2 * np.pi, n)
    length = radius * np.sqrt(rng.uniform(size=n))
    return np.add(center, length[:, None] * np.c_[np.cos(angle), np.sin(angle)])


def curve(rng, n, function, low, high, noise):
    """Return samples along the graph of a function."""
    x = rng.uniform(low, high, n)
    return np.column_stack([x, function(x)]) + noise * rng.normal(size=(n, 2))


def together(*parts):
    """Return the parts as classes."""
    return np.concatenate(parts), np.repeat(
        np.arange(len(parts)), list(map(len, parts))
    )


def with_noise(rng, X, y, share):
    """Add uniform samples, which have no class: -1."""
    n = round(share * len(X))
    low, high = X.min(axis=0), X.max(axis=0)
    margin = 0.05 * (high - low)
    noise = box(rng, n, low - margin, high + margin)
    return np.concatenate([X, noise]), np.append(y, np.full(n, -1))


def bars(rng, n):
    """Return bars, a wave and a ring that interlock."""
    return together(
        box(rng, n, (0, 0), (6, 0.8)),
        box(rng, n, (0, 2), (0.8, 6)),
        box(rng, n, (1.6, 5.2), (6, 6)),
        curve(rng, n, lambda x: 3.2 + 0.8 * np.sin(2.5 * x), 1.6, 6, 0.12),
        circle(rng, n, 1.2, (8, 1.5), 0.1),
        ball(rng, n // 2, (8, 1.5), 0.5),
    )


def spirals(rng, n_arms, n, noise):
    """Return arms of spirals."""
    arms = []
    for arm in range(n_arms):
        t = np.sqrt(rng.uniform(0.03, 1, n)) * 3 * np.pi
        turn = t + 2 * np.pi * arm / n_arms
        points = np.column_stack([t * np.cos(turn), t * np.sin(turn)])
        arms.append(points + noise * rng.normal(size=(n, 2)))
    return together(*arms)


def worms(rng, k, n):
    """Return random smooth curves in a row."""
    parts = []
    for i in range(k):
        turn = rng.uniform(0.5, 2)
        part = curve(rng, n, lambda x, turn=turn: np.sin(turn * x), 0, 8, 0.15)
        parts.append(part + (9.5 * (i % 2), 3.6 * (i // 2)))
    return together(*parts)


def stretched(rng, k, gap, n):
    """Return Gaussians under different linear maps."""
    X, y = gaussians(rng, irregular(rng, k, gap), 0.0, n)
    for label in range(k):
        map_ = rng.normal(size=(2, 2))
        map_ *= rng.uniform(0.8, 1.2) / np.sqrt(np.abs(np.linalg.det(map_)) + 0.3)
        X[y == label] += rng.normal(size=(n, 2)) @ map_
    return X, y


def chain_link(rng, n):
    """Return two rings in space that interlock."""
    angle = rng.uniform(0, 2 * np.pi, (2, n))
    zero = np.zeros(n)
    one = np.column_stack([np.cos(angle[0]), np.sin(angle[0]), zero])
    two = np.column_stack([1 + np.cos(angle[1]), zero, np.sin(angle[1])])
    X, y = together(one, two)
    return X + 0.06 * rng.normal(size=X.shape), y


def atom(rng, n):
    """Return a dense ball inside a sparse shell."""
    shell = rng.normal(size=(n, 3))
    shell *= (50 + rng.normal(size=(n, 1))) / np.linalg.norm(shell, axis=1)[:, None]
    return together(6 * rng.normal(size=(n, 3)), shell)


def hierarchy(rng, n):
    """Return groups of blobs."""
    outer = irregular(rng, 4, 40)
    inner = [irregular(rng, 3, 8) for _ in outer]
    return gaussians(
        rng, np.concatenate([a + b for a, b in zip(outer, inner, strict=True)]), 1, n
    )


def moons(rng, n, noise):
    """Return two half circles."""
    return datasets.make_moons(n, noise=noise, random_state=rng)


SHAPES = {
    "20 irregular": lambda r: gaussians(r, irregular(r, 20, 6.5), 1, 150),
    "35 irregular": lambda r: gaussians(r, irregular(r, 35, 6.5), 1, 100),
    "50 irregular": lambda r: gaussians(r, irregular(r, 50, 6.0), 1, 80),
    "grid of 100": lambda r: gaussians(r, grid(10, 7.0), 1, 50),
    "grid of 100, near": lambda r: gaussians(r, grid(10, 5.5), 1, 60),
    "sine of 100": lambda r: gaussians(
        r, np.c_[8.0 * np.arange(100), 60 * np.sin(np.arange(100) / 8)], 1, 50
    ),
    "grid of 25": lambda r: gaussians(r, grid(5, 6.0), 1, 60),
    "15, apart": lambda r: gaussians(r, irregular(r, 15, 8.0), 1, 120),
    "15, near": lambda r: gaussians(r, irregular(r, 15, 5.5), 1, 120),
    "15, touching": lambda r: gaussians(r, irregular(r, 15, 4.5), 1, 150),
    "16 in 8 dimensions": lambda r: gaussians(r, irregular(r, 16, 9.0, 8), 1, 60),
    "9 in 32 dimensions": lambda r: gaussians(r, 2.2 * r.normal(size=(9, 32)), 1, 100),
    "3 large, 5 small": lambda r: gaussians(
        r,
        np.array(
            [[0, 0], [12, 0], [6, 10], [40, 0], [50, 0], [45, 9], [40, 18], [52, 16.0]]
        ),
        [1] * 3 + [1.5] * 5,
        [700] * 3 + [50] * 5,
    ),
    "sizes": lambda r: gaussians(r, irregular(r, 8, 8.0), 1, r.randint(20, 300, 8)),
    "scales": lambda r: gaussians(
        r, irregular(r, 6, 12.0), r.permutation([0.2, 0.4, 0.8, 1, 1.5, 2]), 120
    ),
    "stretched": lambda r: stretched(r, 6, 11.0, 120),
    "hierarchy": lambda r: hierarchy(r, 60),
    "moons": lambda r: moons(r, 400, 0.08),
    "moons and noise": lambda r: with_noise(r, *moons(r, 500, 0.06), 0.1),
    "2 rings": lambda r: together(circle(r, 250, 1), circle(r, 150, 0.5)),
    "3 rings": lambda r: together(
        circle(r, 100, 0.4), circle(r, 200, 1.0), circle(r, 300, 1.6)
    ),
    "4 rings": lambda r: together(*(circle(r, 100 * i, 0.6 * i) for i in (1, 2, 3, 4))),
    "ring around 2": lambda r: together(
        circle(r, 250, 3, noise=0.15),
        *(ball(r, 120, (x, 0), 0.6) for x in (-1.1, 1.1)),
    ),
    "2 spirals": lambda r: spirals(r, 2, 400, 0.15),
    "3 spirals": lambda r: spirals(r, 3, 300, 0.12),
    "half circles, densities": lambda r: together(
        circle(r, 300, 1, (0, 0), 0.06, (0, np.pi)),
        circle(r, 80, 1, (1, 0.2), 0.09, (np.pi, 2 * np.pi)),
    ),
    "bars": lambda r: bars(r, 200),
    "bars and noise": lambda r: with_noise(r, *bars(r, 400), 0.1),
    "5 squares in noise": lambda r: with_noise(
        r,
        *together(
            *(
                box(r, 150, (a, b), (a + 1.2, b + 1.2))
                for a, b in ((0, 0), (5, 0), (0, 5), (5, 5), (2.5, 2.5))
            )
        ),
        0.25,
    ),
    "8 blobs in noise": lambda r: with_noise(
        r, *gaussians(r, irregular(r, 8, 9.0), 1, 100), 0.15
    ),
    "3 long bars": lambda r: together(
        *(box(r, 200, (0, y), (10, y + 0.5)) for y in (0, 1.2, 2.4))
    ),
    "5 worms": lambda r: worms(r, 5, 200),
    "8 worms and noise": lambda r: with_noise(r, *worms(r, 8, 250), 0.08),
    "smile": lambda r: together(
        circle(r, 400, 5, noise=0.15),
        ball(r, 100, (-1.8, 1.8), 0.5),
        ball(r, 100, (1.8, 1.8), 0.5),
        circle(r, 150, 2.8, (0, 0), 0.1, (1.15 * np.pi, 1.85 * np.pi)),
    ),
    "bridges": lambda r: together(
        ball(r, 150, (0, 0), 2),
        ball(r, 270, (6, 0), 3),
        ball(r, 100, (0, 7), 1.5),
        ball(r, 120, (4.2, 7), 1.6),
        ball(r, 40, (11.5, 5), 1),
        ball(r, 40, (11.5, 7.7), 1),
        ball(r, 130, (16, 0), 2),
    ),
    "large disc, small discs": lambda r: with_noise(
        r,
        *together(
            ball(r, 900, (0, 0), 4),
            ball(r, 200, (7, 2), 1.2),
            ball(r, 200, (7, -2), 1.2),
            box(r, 250, (10, 1), (16, 2)),
            box(r, 250, (10, -2), (16, -1)),
        ),
        0.03,
    ),
    "15 in rings": lambda r: gaussians(
        r,
        np.concatenate(
            [
                [[0, 0]],
                4.5 * np.c_[np.cos(a := np.arange(7) * 2 * np.pi / 7), np.sin(a)],
                12 * np.c_[np.cos(a + 0.3), np.sin(a + 0.3)],
            ]
        ),
        0.6,
        40,
    ),
    "7 in space": lambda r: gaussians(
        r, 4.0 * np.concatenate([np.zeros((1, 3)), np.eye(3), -np.eye(3)]), 0.7, 60
    ),
    "chain link": lambda r: chain_link(r, 300),
    "atom": lambda r: atom(r, 300),
    "2 diamonds": lambda r: together(
        *(
            np.array([x, 0]) + box(r, 300, (-1, -1), (1, 1)) @ [[0.7, 0.7], [-0.7, 0.7]]
            for x in (0, 3.1)
        )
    ),
    "target": lambda r: together(
        ball(r, 300, (0, 0), 1),
        circle(r, 300, 3, noise=0.12),
        *(0.12 * r.normal(size=(12, 2)) + 6 * np.array(c) for c in ((1, 1), (-1, -1))),
    ),
    "5 lines": lambda r: together(
        *(
            curve(r, 120, lambda x, s=s: s * x, 1, 5, 0.06)
            for s in (-2, -0.8, 0, 0.8, 2)
        )
    ),
    "t with 4 degrees": lambda r: (
        lambda X, y: (X + 0.8 * r.standard_t(4, X.shape), y)
    )(*gaussians(r, irregular(r, 5, 16.0), 0.0, 150)),
    "moons and blobs in noise": lambda r: with_noise(
        r,
        *(lambda a, b: (np.concatenate([3 * a[0], b[0]]), np.append(a[1], b[1] + 2)))(
            moons(r, 300, 0.05),
            gaussians(r, np.array([[-2, 6], [3, 7], [8, 5.0]]), [0.4, 0.6, 0.3], 120),
        ),
        0.08,
    ),
}

NOTHING = {
    **{
        f"Gaussian, {n} x {d}": lambda r, n=n, d=d: r.normal(size=(n, d))
        for n, d in ((150, 2), (600, 2), (2500, 2), (400, 5), (400, 20), (1500, 10))
    },
    **{
        f"cube, {n} x {d}": lambda r, n=n, d=d: r.uniform(size=(n, d))
        for n, d in ((200, 2), (1000, 2), (600, 5), (400, 50))
    },
    "disc": lambda r: ball(r, 800, (0, 0), 1),
    "sphere": lambda r: (lambda X: X / np.linalg.norm(X, axis=1)[:, None])(
        r.normal(size=(600, 3))
    ),
    "correlated": lambda r: r.normal(size=(500, 10)) @ r.normal(size=(10, 10)),
    "exponential": lambda r: r.exponential(size=(500, 2)),
    "t with 5 degrees": lambda r: r.standard_t(5, (500, 3)),
    "ring": lambda r: circle(r, 500, 1),
    "curve": lambda r: curve(r, 500, np.sin, 0, 8, 0.15),
}


def draw(name, seed, blur):
    """Return a draw of a family whose samples are moved by normal noise.

    Its deviation is `blur` times the median distance to the fifth neighbour.
    """
    rng = np.random.RandomState(seed)
    X, y = SHAPES[name](rng)
    near = NearestNeighbors(n_neighbors=5).fit(X).kneighbors()[0][:, -1]
    return X + blur * np.median(near) * rng.normal(size=X.shape), y


# Clusters of very different sizes and scales.


def small_cluster(rng, n, d, n_few):
    """Return a few samples eight from a large cluster, and another large one."""
    sizes = n, n_few, n // 4
    spread = 1.0, 0.5, 0.7
    centers = np.zeros((3, d))
    centers[1, 0] = centers[2, 1] = 8
    return gaussians(rng, centers, spread, sizes)


def scales(rng):
    """Return five Gaussians, each twenty of its deviations from the one before."""
    spread = 10.0 ** np.arange(-2, 3)
    turn = rng.uniform(0, 2 * np.pi, 5)
    steps = 20 * spread[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    return gaussians(rng, np.cumsum(steps, axis=0), spread, 300)


def power_law(rng, d, exponent):
    """Return Gaussians eight apart whose sizes fall by a power law, to ten samples."""
    sizes = np.arange(1, 16) ** -exponent
    sizes = np.maximum(1500 * sizes / sizes.sum(), 10).astype(int)
    return gaussians(rng, irregular(rng, 15, 8, d), 1.0, sizes)


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
    for name in SHAPES:
        yield "shapes", *draw(name, 5000 + seed, (0.3, 0.8, 1.3)[seed % 3])


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
            mean = np.mean(values)
            print(f"{kind:14s}{name:12s}{mean:.3f}; forest - it {less}")


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
    """Print the mean areas of all problems, and those of the tables."""
    rows = {}
    for seed in range(*seeds):
        for name, X, is_odd, k in outlier_problems(seed):
            trees = IsolationForest(random_state=seed).fit(X)
            scores = (
                SpanningForestClustering(1).fit(X).outlier_scores_,
                SpanningForestClustering(k).fit(X).outlier_scores_,
                NearestNeighbors(n_neighbors=10).fit(X).kneighbors()[0][:, -1],
                -trees.score_samples(X),
            )
            areas = [roc_auc_score(is_odd, score) for score in scores]
            rows.setdefault(name, []).append(areas)
    areas = np.mean(list(rows.values()), axis=1)
    print("forest, k = 1; the true k; 10 neighbours; isolation forest")
    print(f"mean of {len(areas)}", areas.mean(axis=0).round(3))
    for name, column in (("10 neighbours", 2), ("isolation forest", 3)):
        print(f"forest - {name}: {interval(areas[:, 1] - areas[:, column])}")
    is_table = np.array([name in TABLES for name in rows])
    print("tables alone", areas[is_table].mean(axis=0).round(3))


# The number of clusters.


def indices(X, y):
    """Return four adjusted Rand indices, and whether the number is right."""
    known = y >= 0
    k = len(np.unique(y[known]))
    model = SpanningForestClustering("auto").fit(X)
    falls = falls_of(model.n_clusters_curve_["score"])[: len(X) // 10]
    labels = (
        model.labels_,
        model.cut(k),
        model.cut(number_by_falls(falls)),
        HDBSCAN(min_cluster_size=15, copy=True).fit_predict(X),
    )
    found = [adjusted_rand_score(y[known], one[known]) for one in labels]
    return [*found, model.n_clusters_ == k]


COLUMNS = "auto, true number, falls, HDBSCAN, number is right"


def numbers(seeds):
    """Print the means over families of shapes, and what is not warned of."""
    rows = [
        [
            indices(*draw(name, seed, blur))
            for seed in range(*seeds)
            for blur in (0.3, 0.8, 1.3)
        ]
        for name in SHAPES
    ]
    means = np.mean(rows, axis=1)
    print(f"mean of {len(means)} families ({COLUMNS}):", means.mean(axis=0).round(3))
    for name, column in (("falls", 2), ("HDBSCAN", 3)):
        print(f"auto - {name}: {interval(means[:, 0] - means[:, column])}")
    silent = [
        not warns_of(SpanningForestClustering("auto"), sample(np.random.RandomState(s)))
        for sample in NOTHING.values()
        for s in range(*seeds)
    ]
    print(f"not warned of {sum(silent)} of {len(silent)} without structure")


EMBEDDED = (
    "digits isolet segment usps_test mnist_t10k usps_train movlib ecoli micepe ctg"
).split()


def embeddings(seeds):
    """Print the means over the embeddings of each set."""
    from umap import UMAP

    means = []
    for name in those_here(*EMBEDDED):
        X, y = load(name)
        rows = []
        for seed in range(*seeds):
            model = UMAP(n_components=10, min_dist=0.0, random_state=seed, n_jobs=1)
            rows.append(indices(model.fit_transform(X).astype(float), y))
        means.append(np.mean(rows, axis=0))
        print(f"{name} ({COLUMNS}):", means[-1].round(3), flush=True)
    print("mean:", np.mean(means, axis=0).round(3))


SCORERS = ("silhouette", "path_silhouette", "calinski_harabasz", "stability")
# Defaults, but for less work: one start, few epochs. GEMINI is one-vs-one, since
# one-vs-all leaves clusters empty whatever their number.
ESTIMATORS = (
    KMeans(n_init=10, random_state=0),
    SpanningForestClustering(),
    GEMINI(mode="ovo", n_init=1, max_iter=200, random_state=0),
    ClAM(self_supervised=False, random_state=0),
    GraphCutClustering(random_state=0),
)


def searched_sets():
    """Yield (name, X, y)."""
    yield "blobs, 3", *datasets.make_blobs(300, centers=3, random_state=0)
    yield "blobs, 5", *datasets.make_blobs(500, centers=5, random_state=0)
    yield "moons", *datasets.make_moons(400, noise=0.05, random_state=0)
    for name in ("iris", "wine", "breast_cancer", "digits"):
        yield name, *load(name)


def chosen(estimator, X, scaled, shuffle):
    """Return the number of clusters that each scorer picks."""
    model = make_pipeline(StandardScaler() if scaled else "passthrough", estimator)
    search = GridSearchCV(
        model,
        {f"{model.steps[-1][0]}__n_clusters": list(range(2, 13))},
        scoring={name: getattr(metrics, f"{name}_scorer") for name in SCORERS},
        refit=False,
        cv=KFold(3, shuffle=True, random_state=shuffle),
        error_score="raise",
    ).fit(X)
    return [2 + np.argmax(search.cv_results_[f"mean_test_{name}"]) for name in SCORERS]


def search(_):
    """Print how often each scorer picks the true number, of 15 on each set."""
    print(versions("scikit-learn"))
    print("set:", *SCORERS)
    total = np.zeros(len(SCORERS), dtype=int)
    for name, X, y in searched_sets():
        k = len(np.unique(y))
        picked = [
            chosen(estimator, X, name != "digits", shuffle)
            for estimator in ESTIMATORS
            for shuffle in range(3)
        ]
        right = np.sum(np.equal(picked, k), axis=0)
        total += right
        print(f"{name} ({k}):", *right, flush=True)
    print("all:", *total)


PARTS = {part.__name__: part for part in (gaps, outliers, numbers, embeddings, search)}


def main():
    """Print a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seeds", type=int, nargs=2, default=(40, 41))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    PARTS[options.part](options.seeds)


if __name__ == "__main__":
    main()
