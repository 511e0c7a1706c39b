"""Do GEMINI's estimators see structure where it is, count it, and mean their numbers?

    python benchmarks/structure_gemini.py structure [--sets 100] [--seed 39000]
    python benchmarks/structure_gemini.py numbers [--sets 6] [--seed 39000]
    python benchmarks/structure_gemini.py probabilities [--sets 200] [--seed 39000]
    python benchmarks/structure_gemini.py features [--sets 20] [--seed 39000]

structure  how often noise is called structure, and structure noise. Sets without
    clusters: independent normal features, AR(.6) features, blocks of five features with
    correlation .7, t with 3 degrees of freedom, and lognormal. Sets with clusters,
    whose centres are at least six standard deviations apart in two to five features,
    beside 5 to 20 features of noise; a third are balanced (2 to 5 clusters), a third
    have clusters of 105 and 15 samples, a third 80, 30 and 12; half are standardised.
    The same beside 5 to 20 features with heavy tails. Then of 10 to 40 columns with few
    values, and of such beside continuous ones. Rates have upper 95 % limits (Clopper
    and Pearson).
numbers  how often the number of clusters is right, and whether a wrong one is warned
    of, beside the least BIC of mixtures with diagonal covariances and the largest
    silhouette of k-means, on simulations and on real tables.
probabilities  expected calibration error in ten bins of the probability of the label,
    for mixtures whose clusters overlap (2 to 4 standard deviations), normal and not;
    and the error that probabilities have if they are exact, since samples are finite.
features  the mean number of irrelevant features that SparseGEMINICV calls stable, and
    of those that `false_selections_` allows.

All rules were fixed on sets of seeds below 10 000.
"""

import argparse
import warnings

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import beta
from shared import largest_silhouette, load, some, standardised, those_here
from sklearn.datasets import make_blobs, make_moons
from sklearn.mixture import GaussianMixture

from skdiffclust import GEMINI, SparseGEMINI, SparseGEMINICV
from skdiffclust._n_clusters import count_clusters
from skdiffclust.gemini._stability import structure_of

SHAPES = [(100, 30), (60, 10), (200, 20), (80, 120)]
SIZES = {"balanced": None, "105:15": [105, 15], "80:30:12": [80, 30, 12]}
# Images keep the unit of their pixels.
IMAGES = "digits", "mnist_t10k", "usps_test", "usps_train"
REAL = (
    "breast_cancer iris wine ctg ecoli heart_statlog house_votes_84 isolet letter "
    "micepe movlib pbmc68k_reduced segment zoo"
).split()
COUNTS = range(2, 11)  # numbers of clusters that are compared
N_BINS = 10


def autoregressive(rng, n, p):
    """Return features that depend on the one before."""
    X = rng.normal(size=(n, p))
    for j in range(1, p):
        X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
    return X


def blocks(rng, n, p):
    """Return features that are correlated in fives."""
    shared = np.repeat(rng.normal(size=(n, -(-p // 5))), 5, axis=1)[:, :p]
    return np.sqrt(0.7) * shared + np.sqrt(0.3) * rng.normal(size=(n, p))


KINDS = {
    "independent": lambda rng, n, p: rng.normal(size=(n, p)),
    "AR(.6)": autoregressive,
    "blocks": blocks,
    "t(3)": lambda rng, n, p: rng.standard_t(3, size=(n, p)),
    "lognormal": lambda rng, n, p: rng.lognormal(size=(n, p)),
}


def one_factor(rng, n, p):
    """Return features with loadings of .4 to .8 on one factor."""
    loadings = rng.uniform(0.4, 0.8, p)
    own = np.sqrt(1 - loadings**2) * rng.normal(size=(n, p))
    return loadings * rng.normal(size=(n, 1)) + own


def binary(rng, X):
    """Return whether features exceed thresholds, which .05 to .5 of normal ones do."""
    return (X > rng.uniform(0, 1.64, X.shape[1])).astype(float)


def ordinal(rng, X):
    """Return features in five levels between random thresholds."""
    thresholds = np.sort(rng.uniform(-1.3, 1.3, (4, X.shape[1])), axis=0)
    return (X > thresholds[:, None]).sum(axis=0).astype(float)


def partly(rng, X):
    """Return standardised features, of which a random part are binary."""
    chosen = rng.permutation(X.shape[1])[: rng.randint(1, X.shape[1])]
    X[:, chosen] = binary(rng, X[:, chosen])
    return standardised(X)


def one_hot(rng, n, p):
    """Return independent categories of three to five values in a column each."""
    counts = rng.randint(3, 6, p // 2)
    draws = [rng.choice(k, n, p=rng.dirichlet(np.full(k, 3.0))) for k in counts]
    return np.column_stack([np.eye(k)[y] for k, y in zip(counts, draws, strict=True)])


def classes(rng, n, p, share=1.0, low=0.1, high=0.8):
    """Return binary features of two to four classes, which a share of them tells."""
    k = rng.randint(2, 5)
    rates = np.tile(rng.uniform(0.05, 0.5, p), (k, 1))
    chosen = rng.permutation(p)[: int(share * p)]
    rates[:, chosen] = rng.choice([low, high], (k, len(chosen)))
    return (rng.uniform(size=(n, p)) < rates[rng.choice(k, n)]).astype(float)


def beside_binary(rng, X):
    """Return standardised features beside 3 to 20 independent binary ones."""
    others = rng.normal(size=(len(X), rng.choice([3, 10, 20])))
    return standardised(np.hstack([X, binary(rng, others)]))


def beside_tails(rng, tails):
    """Return standardised clusters beside 5 to 20 features with heavy tails."""
    X, _ = clustered(rng, list(SIZES.values())[rng.randint(3)], 6.0)
    others = KINDS[tails](rng, len(X), rng.choice([5, 10, 20]))
    return standardised(np.hstack([X, others]))


TAILS = {
    "beside t(3)": lambda rng, n, p: beside_tails(rng, "t(3)"),
    "beside lognormal": lambda rng, n, p: beside_tails(rng, "lognormal"),
}
# Columns with few values: those without structure, those that are so correlated that
# many samples agree in all of them, and those with classes.
FEW_VALUES = {
    "0/1, independent": lambda rng, n, p: binary(rng, rng.normal(size=(n, p))),
    "0/1, independent, standardised": lambda rng, n, p: standardised(
        binary(rng, rng.normal(size=(n, p)))
    ),
    "0/1, AR(.6)": lambda rng, n, p: binary(rng, autoregressive(rng, n, p)),
    "five levels, independent": lambda rng, n, p: ordinal(rng, rng.normal(size=(n, p))),
    "five levels, one factor": lambda rng, n, p: ordinal(rng, one_factor(rng, n, p)),
    "0/1 and continuous, AR(.6)": lambda rng, n, p: partly(
        rng, autoregressive(rng, n, p)
    ),
}
AGREEING = {
    "0/1, one factor": lambda rng, n, p: binary(rng, one_factor(rng, n, p)),
    "0/1, blocks": lambda rng, n, p: binary(rng, blocks(rng, n, p)),
    "five levels, blocks": lambda rng, n, p: ordinal(rng, blocks(rng, n, p)),
    "categories, one-hot": one_hot,
}
CLASSES = {
    "classes in 20 columns": lambda rng, n, p: classes(rng, n, 20),
    "classes in 40 columns": lambda rng, n, p: classes(rng, n, 40),
    "classes in 20 of 40 columns": lambda rng, n, p: classes(rng, n, 40, 0.5),
    "clusters beside 0/1": lambda rng, n, p: beside_binary(
        rng, clustered(rng, list(SIZES.values())[rng.randint(3)], 6.0)[0]
    ),
}
WEAK = {
    "classes in 10 columns": lambda rng, n, p: classes(rng, n, 10),
    "classes in 10 columns, .05 to .95": lambda rng, n, p: classes(
        rng, n, 10, 1.0, 0.05, 0.95
    ),
    "classes in 10 of 20 columns": lambda rng, n, p: classes(rng, n, 20, 0.5),
    "clusters rounded to few values": lambda rng, n, p: np.round(
        clustered(rng, list(SIZES.values())[rng.randint(3)], 6.0)[0] / 3
    ),
}


def spread_centers(rng, k, n_features, least):
    """Return centres (k, d) whose smallest distance is at least a share of the largest.

    And that distance.
    """
    while True:
        centers = rng.normal(size=(k, n_features))
        gaps = np.linalg.norm(centers[:, None] - centers, axis=2)
        gaps = gaps[np.triu_indices(k, 1)]
        if gaps.min() > least * gaps.max():
            return centers, gaps.min()


def clustered(rng, sizes, distance):
    """Return samples of clusters in a few of their features, and their number."""
    if sizes is None:
        sizes = [rng.randint(20, 41)] * rng.randint(2, 6)
    n_informative = rng.randint(2, 6)
    centers, gap = spread_centers(rng, len(sizes), n_informative, 0.3)
    n_noise = rng.choice([5, 10, 20])
    X = rng.normal(size=(sum(sizes), n_informative + n_noise))
    X[:, :n_informative] += np.repeat(centers * distance / gap, sizes, axis=0)
    return X, len(sizes)


def rate(wrong):
    """Return a rate with its upper limit as text."""
    n, k = len(wrong), int(np.sum(wrong))
    limit = 1.0 if k == n else beta.ppf(0.95, k + 1, n - k)
    return f"{k} of {n}, upper 95 % limit {limit:.3f}"


def judged_as(kinds, wrong, n_sets, seed):
    """Return for each kind of sets whether each one is judged wrongly."""
    table = {}
    for i in range(n_sets):
        rng = np.random.RandomState(seed + i)
        kind = list(kinds)[i % len(kinds)]
        X = kinds[kind](rng, rng.choice([100, 200, 500]), rng.choice([10, 20, 40]))
        table.setdefault(kind, []).append(structure_of(X, rng).is_clear == wrong)
    return table


def structure(n_sets, seed, distance=6.0):
    """Print how often there is a wrong answer to whether there is structure."""
    missed = {}
    invented = {}
    for i in range(n_sets):
        rng = np.random.RandomState(seed + i)
        kind = list(KINDS)[i % len(KINDS)]
        X = KINDS[kind](rng, *SHAPES[rng.randint(4)])
        invented.setdefault(kind, []).append(structure_of(X, rng).is_clear)
        kind = list(SIZES)[i % len(SIZES)]
        X, _ = clustered(rng, SIZES[kind], distance)
        if i % 2:
            X = standardised(X)
        missed.setdefault(kind, []).append(not structure_of(X, rng).is_clear)
    tables = {
        "noise called structure": invented,
        f"structure at {distance} deviations called noise": missed,
        "structure beside heavy tails called noise": judged_as(
            TAILS, False, n_sets, seed
        ),
        "few values, noise called structure": judged_as(FEW_VALUES, True, n_sets, seed),
        "few values, agreeing columns called structure": judged_as(
            AGREEING, True, n_sets, seed
        ),
        "few values, structure called noise": judged_as(CLASSES, False, n_sets, seed),
        "few values, weak structure called noise": judged_as(WEAK, False, n_sets, seed),
    }
    for title, table in tables.items():
        print(f"{title}: {rate(np.concatenate(list(table.values())))}")
        for kind, wrong in table.items():
            print(f"    {kind}: {rate(wrong)}")


def separated(rng, k):
    """Return k clusters of 50 samples, at least 6 deviations apart, and k."""
    centers = []
    side = 4.2 * k ** (1 / 3)
    while len(centers) < k:
        center = rng.uniform(-side, side, 5)
        if all(np.linalg.norm(center - other) >= 6 for other in centers):
            centers.append(center)
        else:
            side *= 1.01
    return np.repeat(centers, 50, axis=0) + rng.normal(size=(50 * k, 5)), k


def unequal(rng, sizes, distance):
    """Return normal clusters of these sizes in five dimensions."""
    X = rng.normal(size=(sum(sizes), 5))
    X[:, :2] += np.repeat(distance * np.eye(2)[: len(sizes)], sizes, axis=0)
    return X, len(sizes)


# Clean clusters, those that may overlap, and those that are none or not round.
COUNTED = {
    **{
        f"{k} clusters, 6 deviations": lambda rng, k=k: separated(rng, k)
        for k in (2, 3, 5, 8)
    },
    "3 to 8 blobs": lambda rng: (
        lambda k: (make_blobs(300, 3, centers=k, random_state=rng)[0], k)
    )(rng.randint(3, 9)),
    "500 : 10, 13 deviations": lambda rng: unequal(rng, [500, 10], 13),
    "moons": lambda rng: (make_moons(400, noise=0.1, random_state=rng)[0], 2),
    "one normal": lambda rng: (rng.normal(size=(300, 5)), 1),
    "one t(3)": lambda rng: (rng.standard_t(3, size=(300, 5)), 1),
    "one uniform": lambda rng: (rng.uniform(size=(300, 5)), 1),
}


def by_bic(X):
    """Return the number of components with the smallest BIC, diagonal covariances."""
    counts = range(1, COUNTS.stop)
    values = [
        GaussianMixture(k, covariance_type="diag", random_state=0).fit(X).bic(X)
        for k in counts
    ]
    return counts[int(np.argmin(values))]


def real_tables():
    """Yield (name, samples, number of classes) of real tables."""
    for name in those_here(*REAL, *IMAGES):
        X, y = some(*load(name), 1500)
        yield name, X if name in IMAGES else standardised(X), len(np.unique(y))


def numbers(n_sets, seed):
    """Print how often each rule is right, and ours wrong without a warning."""
    print("samples: ours right, BIC, silhouette; ours warned of, wrong in silence")
    for name, draw in COUNTED.items():
        table = []
        for i in range(n_sets):
            X, truth = draw(np.random.RandomState(seed + i))
            table.append(judged(X, truth, seed + i))
        print(f"    {name}, of {n_sets}: {summary(table)}", flush=True)
    table = []
    for name, X, truth in real_tables():
        table.append(judged(X, truth, seed))
        found, *others = table[-1][:3]
        print(f"    {name}: {truth}; {found}, {others}", flush=True)
    print(f"    real tables, of {len(table)}: {summary(table)}")


def judged(X, truth, seed):
    """Return the numbers of three rules, the true one, and whether ours is clear."""
    found = count_clusters(X, np.ones(len(X)), np.random.RandomState(seed))
    silhouette = largest_silhouette(X, COUNTS, n_init=3).max() + 1
    return found.best, by_bic(X), silhouette, truth, found.is_clear


def summary(table):
    """Return how often three rules are right, and ours warns or is wrong."""
    ours, bic, silhouette, truth, is_clear = map(np.array, zip(*table, strict=True))
    right = [int((each == truth).sum()) for each in (ours, bic, silhouette)]
    silent = int((is_clear & (ours != truth)).sum())
    return f"{right}; {int((~is_clear).sum())}, {silent}"


NOISE = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "correlated normal": lambda rng, shape: (
        (rng.normal(size=shape) + rng.normal(size=(shape[0], 1))) / np.sqrt(2)
    ),
    "t(5)": lambda rng, shape: np.sqrt(0.6) * rng.standard_t(5, shape),
    "gamma(3)": lambda rng, shape: (rng.gamma(3, size=shape) - 3) / np.sqrt(3),
}


def overlapping(rng, noise):
    """Return samples of clusters that overlap, and their classes."""
    k = rng.randint(2, 6)
    n_samples, n_features = rng.choice([300, 1000]), rng.randint(2, 9)
    centers, gap = spread_centers(rng, k, n_features, 0.35)
    shares = np.maximum(rng.dirichlet(np.full(k, 8.0)), 0.08)
    y = rng.choice(k, n_samples, p=shares / shares.sum())
    centers *= rng.uniform(2, 4) / gap
    return centers[y] + noise(rng, (n_samples, n_features)), y


def calibration_error(assignments, y):
    """Return the expected calibration error, and the share of samples in their class.

    Clusters are matched with classes by the number of samples that they share.
    """
    labels = assignments.argmax(axis=1)
    k = assignments.shape[1]
    shared = np.zeros((k, k))
    np.add.at(shared, (labels, y), 1)
    matched = linear_sum_assignment(-shared)[1]
    certainty = assignments[np.arange(len(y)), labels]
    is_right = matched[labels] == y
    bins = np.minimum((N_BINS * certainty).astype(int), N_BINS - 1)
    gaps = np.bincount(bins, certainty - is_right)
    return np.abs(gaps).sum() / len(y), is_right.mean()


def of_exact_ones(rng, assignments):
    """Return the calibration error where classes are drawn from the probabilities."""
    drawn = (rng.rand(len(assignments), 1) > assignments.cumsum(axis=1)).sum(axis=1)
    y = np.minimum(drawn, assignments.shape[1] - 1)
    return calibration_error(assignments, y)[0]


def probabilities(n_sets, seed):
    """Print calibration errors on the training samples and on new ones."""
    for name, noise in NOISE.items():
        rows = []
        for i in range(n_sets):
            rng = np.random.RandomState(seed + i)
            X, y = overlapping(rng, noise)
            new = rng.rand(len(X)) < 0.3
            model = GEMINI(y.max() + 1, random_state=i).fit(X[~new])
            row = []
            for part in (~new, new):
                assignments = model.predict_proba(X[part])
                error, accuracy = calibration_error(assignments, y[part])
                row += [error, of_exact_ones(rng, assignments), 1 - accuracy]
            rows.append(row)
        means = np.mean(rows, axis=0)
        deviations = np.std(rows, axis=0) / np.sqrt(n_sets)
        for i, part in enumerate(("training", "new")):
            error, exact, wrong = means[3 * i : 3 * i + 3]
            print(
                f"{name}, {part} samples: calibration error {error:.3f} (standard error"
                f" {deviations[3 * i]:.3f}), of exact probabilities {exact:.3f}, of "
                f"probabilities of one {wrong:.3f}",
                flush=True,
            )


def features(n_sets, seed):
    """Print irrelevant stable features, and how many are allowed."""
    wrong, allowed = [], []
    for i in range(n_sets):
        rng = np.random.RandomState(seed + i)
        X = rng.normal(size=(90, 20))
        X[:, :3] = rng.normal(size=(90, 3)) + 4 * np.repeat(np.eye(3), 30, axis=0)
        model = SparseGEMINICV(
            SparseGEMINI(3, n_init=1), n_alphas=10, random_state=i
        ).fit(X)
        step = np.searchsorted(model.alphas_, model.stable_alpha_)
        wrong.append(model.stable_features_[3:].sum())
        allowed.append(model.false_selections_[step])
    print(
        f"{np.mean(wrong):.2f} of 17 irrelevant features are stable, "
        f"false_selections_ is {np.mean(allowed):.2f}"
    )


def main():
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = {"structure": 100, "numbers": 6, "probabilities": 200, "features": 20}
    parser.add_argument("part", choices=sizes)
    parser.add_argument("--sets", type=int)
    parser.add_argument("--seed", type=int, default=39_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    globals()[options.part](options.sets or sizes[options.part], options.seed)


if __name__ == "__main__":
    main()
