"""Parts of bench_rules.py on centres: the number of clusters, and its candidates.

    python benchmarks/bench_rules.py centres candidates --save FILE

candidates  how often the number of "auto" is right, by family, with and without a
            warning, and the numbers of candidates, of `MODELS`; and how often nothing
            is said of samples without structure. What is in FILE is not computed again.
ablation    the same, with parts of the rule changed.

The draws of a family were divided before anything was measured: those of even numbers
chose, those of odd numbers report. Real data take turns, by name.
"""

import warnings
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from shared import (
    TABLES,
    Results,
    interval,
    load,
    seconds,
    some,
    standardised,
    those_here,
)
from sklearn.datasets import make_classification
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GEMINI, ClAM, DeepClAM, _n_clusters

N_DRAWS = 12  # of a family, half of which are reported
ONE_UNIT = "digits", "isolet", "mnist_t10k", "usps_train"
MOST_ROWS = 1500


def blobs(rng, *, apart, noise=None, shape=None, widths=None, shares=None):
    """Return normal clusters (n, d) whose centres are `apart` or more, and classes.

    Otherwise `noise` (rng, shape) in place of the normal distribution, `shape` (rng, d)
    a matrix for each cluster, `widths` the largest standard deviation, `shares` the
    concentration of the sizes.
    """
    k, d = rng.randint(2, 11), rng.randint(2, 13)
    width = apart
    for n_tries in count():
        if n_tries % 50 == 0:
            width *= 1.1
        centers = rng.normal(scale=width, size=(k, d))
        gaps = np.linalg.norm(centers[:, None] - centers, axis=2)
        if (gaps + apart * np.eye(k)).min() >= apart:
            break
    sizes = np.full(k, 1 / k) if shares is None else rng.dirichlet(np.full(k, shares))
    sizes = np.maximum((rng.choice([300, 600, 1000]) * sizes).astype(int), 15)
    y = np.repeat(np.arange(k), sizes)
    X = rng.normal(size=(len(y), d)) if noise is None else noise(rng, (len(y), d))
    if widths is not None:
        X *= rng.uniform(1, widths, size=k)[y, None]
    if shape is not None:
        X = np.einsum("nij,nj->ni", np.array([shape(rng, d) for _ in range(k)])[y], X)
    return X + centers[y], y


def stretched(rng, d):
    """Return a random rotation, with axes of lengths from .5 to 1.5."""
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rotation * rng.uniform(0.5, 1.5, d)


def student(rng, shape):
    """Return Student samples of five degrees of freedom and variance one."""
    chi = rng.chisquare(5, size=(shape[0], 1)) / 5
    return np.sqrt(0.6) * rng.normal(size=shape) / np.sqrt(chi)


def gamma(rng, shape):
    """Return skewed samples of variance one."""
    return (rng.gamma(3, size=shape) - 3) / np.sqrt(3)


def with_noise(rng):
    """Return blobs beside eight features of noise."""
    X, y = blobs(rng, apart=6)
    return np.c_[X, rng.normal(size=(len(X), 8))], y


def hypercube(rng):
    """Return classes at the corners of a hypercube."""
    return make_classification(
        800,
        n_features=12,
        n_informative=6,
        n_redundant=2,
        n_classes=rng.randint(2, 7),
        n_clusters_per_class=1,
        class_sep=rng.uniform(1, 2),
        random_state=rng,
    )


FAMILIES = {
    "blobs, 6 sd apart": lambda rng: blobs(rng, apart=6),
    "blobs, 3.5 sd apart": lambda rng: blobs(rng, apart=3.5),
    "blobs, 2.5 sd apart": lambda rng: blobs(rng, apart=2.5),
    "unequal sizes": lambda rng: blobs(rng, apart=6, shares=1.5),
    "unequal widths": lambda rng: blobs(rng, apart=9, widths=2.5),
    "ellipsoids": lambda rng: blobs(rng, apart=6, shape=stretched),
    "Student": lambda rng: blobs(rng, apart=6, noise=student),
    "skewed": lambda rng: blobs(rng, apart=6, noise=gamma),
    "eight features of noise": with_noise,
    "hypercube": hypercube,
}


def arc(rng):
    """Return samples (300, 2) along three quarters of a circle."""
    angle = rng.uniform(0, 1.5 * np.pi, 300)
    points = np.column_stack([np.cos(angle), np.sin(angle)])
    return points + rng.normal(scale=0.1, size=points.shape)


WITHOUT = {
    "normal": lambda rng: rng.normal(size=(300, rng.randint(2, 10))),
    "correlated": lambda rng: rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6)),
    "uniform": lambda rng: rng.uniform(size=(300, rng.randint(2, 6))),
    "t(3)": lambda rng: rng.standard_t(3, size=(300, 8)),
    "lognormal": lambda rng: rng.lognormal(size=(300, 4)),
    "exponential": lambda rng: rng.exponential(size=(300, 3)),
    "wide": lambda rng: rng.normal(size=(80, 120)),
    "arc": arc,
    "plate": lambda rng: rng.uniform(size=(300, 3)) * [1, 1, 0.05],
    "long": lambda rng: rng.normal(size=(300, 4)) * [5, 1, 1, 1],
}


def tables(n_most=MOST_ROWS):
    """Yield (name, X, y) of real data, at most `n_most` samples."""
    for name in sorted(those_here(*TABLES)):
        X, y = some(*load(name), n_most)
        yield name, X if name in ONE_UNIT else standardised(X), y


def draws(families, half, n_draws=N_DRAWS):
    """Yield (family, number, what is drawn) for those of a half, 0 chose, 1 reports."""
    for place, (name, draw) in enumerate(families.items()):
        for number in range(half, n_draws, 2):
            yield name, number, draw(np.random.RandomState([place, number]))


def fitted(model, X):
    """Return the fitted model, and whether it warned of several candidates."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    return model, any("no clear" in str(w.message) for w in caught)


# One epoch: the number does not depend on the training.
MODELS = {
    "ClAM": lambda seed: ClAM("auto", max_iter=1, n_init=1, random_state=seed),
    "DeepClAM": lambda seed: DeepClAM("auto", max_iter=1, n_init=1, random_state=seed),
    "GEMINI": lambda seed: GEMINI("auto", max_iter=1, random_state=seed),
}


def row_of(name, X, y, seed):
    """Return what is written down of one fit of a model."""
    spent, (model, warned) = seconds(fitted, MODELS[name](seed), X)
    found = getattr(model, "n_clusters_candidates_", None)
    found = [model.n_clusters_] if found is None else found.tolist()
    k = None if y is None else len(np.unique(y))
    chosen = int(model.n_clusters_)
    return {
        "ari": None if y is None else adjusted_rand_score(y, model.labels_),
        "k": k,
        "chosen": chosen,
        "right": bool(chosen == k),
        "warned": warned,
        "candidates": found,
        "s": spent,
    }


def rows_of(name, half, results):
    """Yield (family, row) of a model on a half, 0 chose, 1 reports."""

    def row(family, number, X, y, seed):
        return results.once([name, family, number], row_of, name, X, y, seed)

    for family, number, (X, y) in draws(FAMILIES, half):
        yield family, row(family, number, X, y, number)
    for place, (table, X, y) in enumerate(tables()):
        if place % 2 == half:
            yield "real data", row("real data", table, X, y, 0)
    for family, number, X in draws(WITHOUT, half, 6):
        yield family, row(family, number, X, None, number)


def print_rows(pairs):
    """Print the table of (family, row) pairs, and its last lines."""
    print("family, sets, right, silent, right and silent, candidates, ARI, s")
    found = {}
    for family, row in pairs:
        found.setdefault(family, []).append(row)
    for family, rows in found.items():
        right = np.array([row["right"] for row in rows])
        silent = np.array([not row["warned"] for row in rows])
        mean = np.mean([len(row["candidates"]) for row in rows])
        ari = np.mean([row["ari"] or 0.0 for row in rows])
        spent = np.mean([row["s"] for row in rows])
        print(
            f'   "{family}", {len(rows)}, {right.sum()}, {silent.sum()}, '
            f"{(right & silent).sum()}, {mean:.1f}, {ari:.3f}, {spent:.2f}"
        )
    rows = [row for _, row in pairs]
    some_structure = [row for row in rows if row["k"] is not None]
    none = [row for row in rows if row["k"] is None]
    right = np.array([row["right"] for row in some_structure])
    warned = np.array([row["warned"] for row in some_structure])
    print(f"sets with structure: {len(right)}, right {interval(right)}")
    print(f"ARI {interval([row['ari'] for row in some_structure])}")
    print(f"right if silent ({(~warned).sum()} sets): {interval(right[~warned])}")
    print(f"right but warned of: {interval(warned[right])}")
    print(f"structureless and silent: {sum(not r['warned'] for r in none)}/{len(none)}")
    mean = np.mean([len(row["candidates"]) for row in some_structure])
    among = np.mean([row["k"] in row["candidates"] for row in some_structure])
    print(f"candidates {mean:.2f}, with the true number {among:.2f}")
    print(f"seconds {np.mean([row['s'] for row in rows]):.3f}", flush=True)


def candidates(options):
    """Print the tables of all models."""
    for name in MODELS:
        print(name)
        with results_in(options.save) as results:
            print_rows(list(rows_of(name, options.half == "report", results)))


@contextmanager
def results_in(path):
    """Yield `Results` in a file, or in a temporary one of None."""
    with TemporaryDirectory() as folder:
        yield Results(path or Path(folder) / "results")


# Name, value: changes of the rule, one at a time.
CHANGES = {
    "as it is": {},
    "silhouette alone": {"_SEPARATED": np.inf},
    "separation above 2": {"_SEPARATED": 2.0},
    "separation above 8": {"_SEPARATED": 8.0},
    "40 centres halved": {"_MOST_CLUSTERS": 20},
    "3 restarts, 3 steps halved": {"_N_RESTARTS": 2, "_N_STEPS": 2},
    "3 restarts, 3 steps doubled": {"_N_RESTARTS": 6, "_N_STEPS": 6},
    "2000 samples halved": {"_MOST_SAMPLES": 1000},
    "32 components halved": {"_MOST_COMPONENTS": 16},
    "32 components doubled": {"_MOST_COMPONENTS": 64},
    "20 samples for a component doubled": {"_SAMPLES_PER_COMPONENT": 40},
    "20 samples for a component halved": {"_SAMPLES_PER_COMPONENT": 10},
    "5 components halved": {"_LEAST_COMPONENTS": 3},
    "5 components doubled": {"_LEAST_COMPONENTS": 10},
    "6 pairs halved": {"_N_PAIRS": 3},
    "6 pairs doubled": {"_N_PAIRS": 12},
    "5 samples of a cluster doubled": {"_LEAST_SIZE": 10},
    "10 steps halved": {"_MOST_STEPS": 5},
    "variance of a mode .01 doubled": {"_LEAST_VARIANCE": 0.02},
    "divided at the median alone": {"_DIVIDED_AT": (0.5,)},
    "least width .1 doubled": {"_LEAST_WIDTH": 0.2},
    "shift .7 halved": {"_SHIFT": 0.35},
    "scale 1 alone": {"_SCALES": (1.0,)},
    "margin .1 alone": {"_MARGINS": (0.1,)},
}


def ablation(options):
    """Print what each change of `CHANGES` does to the number and the index of ClAM."""
    half = options.half == "report"
    with results_in(options.save) as results:
        first = None
        print("change, right, ARI, ARI less that of the rule")
        for change, values in CHANGES.items():
            before = {name: getattr(_n_clusters, name) for name in values}
            vars(_n_clusters).update(values)
            rows = []
            for family, number, (X, y) in [
                *draws(FAMILIES, half),
                *(
                    ("real data", table, (X, y))
                    for place, (table, X, y) in enumerate(tables())
                    if place % 2 == half
                ),
            ]:
                key = [change, family, number]
                rows.append(results.once(key, picked, X, y))
            vars(_n_clusters).update(before)
            right, ari = np.transpose(rows)
            first = ari if first is None else first
            print(
                f'   "{change}", {right.mean():.3f}, {ari.mean():.3f}, '
                f'"{interval(ari - first)}"',
                flush=True,
            )


def picked(X, y):
    """Return whether the rule picks the true number, and the index of its clusters."""
    random_state = np.random.RandomState(0)
    weight = np.ones(len(X))
    rows = _n_clusters.rows_to_count(weight, random_state)
    points, weight = _n_clusters._points_to_count(X[rows], weight[rows])
    found = _n_clusters._pick(points, weight, random_state, 2, None)
    is_right = found.best == len(np.unique(y))
    return float(is_right), adjusted_rand_score(y[rows], found.labels)


PARTS = {"candidates": candidates, "ablation": ablation}
