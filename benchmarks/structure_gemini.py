"""Do GEMINI's estimators see structure where it is, count it, and mean their numbers?

    python benchmarks/structure_gemini.py PART [--sets N]

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
selection  the error rate (the share of features on the wrong side), precision and
    recall of the features selected on sets with three clusters of 50 samples. Sparse
    k-means (Witten and Tibshirani, JASA 2010) chooses its bound by the gap to sets with
    permuted columns, as its authors do. Importances in a random forest that learns the
    labels of k-means, and Laplacian scores (He, Cai and Niyogi, NIPS 2005) only rank
    features, so that they are told how many are informative; so is sparse k-means in
    its second row. "Fitted again" leaves out the features selected, and fits again, as
    long as there is a warning that they have no structure; not with more features than
    samples.

All rules were fixed on sets of seeds below 10 000.
"""

import argparse
import itertools
import warnings

import numpy as np
from scipy.optimize import brentq, linear_sum_assignment
from scipy.stats import beta
from shared import largest_silhouette, load, some, standardised, those_here, warns_of
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import kneighbors_graph

from skdiffclust import GEMINI, SparseGEMINI, SparseGEMINICV
from skdiffclust._n_clusters import count_clusters
from skdiffclust.gemini._stability import structure_of

SEED = 39_000  # of the first set, where a part has no other
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


def judged_as(kinds, wrong, n_sets):
    """Return for each kind of sets whether each one is judged wrongly."""
    table = {}
    for i in range(n_sets):
        rng = np.random.RandomState(SEED + i)
        kind = list(kinds)[i % len(kinds)]
        X = kinds[kind](rng, rng.choice([100, 200, 500]), rng.choice([10, 20, 40]))
        table.setdefault(kind, []).append(structure_of(X, rng).is_clear == wrong)
    return table


def structure(n_sets=100, distance=6.0):
    """Print how often there is a wrong answer to whether there is structure."""
    missed = {}
    invented = {}
    for i in range(n_sets):
        rng = np.random.RandomState(SEED + i)
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
        "structure beside heavy tails called noise": judged_as(TAILS, False, n_sets),
        "few values, noise called structure": judged_as(FEW_VALUES, True, n_sets),
        "few values, agreeing columns called structure": judged_as(
            AGREEING, True, n_sets
        ),
        "few values, structure called noise": judged_as(CLASSES, False, n_sets),
        "few values, weak structure called noise": judged_as(WEAK, False, n_sets),
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
    """Yield samples and the number of classes of real tables."""
    for name in those_here(*REAL, *IMAGES):
        X, y = some(*load(name), 1500)
        yield X if name in IMAGES else standardised(X), len(np.unique(y))


def numbers(n_sets=3, first_seed=39_100):
    """Print how often each rule is right, and ours wrong without a warning."""
    print("samples: ours right, BIC, silhouette; ours warned of, wrong in silence")
    for name, draw in COUNTED.items():
        table = []
        for seed in range(first_seed, first_seed + n_sets):
            X, truth = draw(np.random.RandomState(seed))
            table.append(judged(X, truth, seed))
        print(f"    {name}, of {n_sets}: {summary(table)}", flush=True)
    table = [judged(X, truth, first_seed) for X, truth in real_tables()]
    print(f"    real tables, of {len(table)}: {summary(table)}")


def judged(X, truth, seed):
    """Return the numbers of three rules, the true one, and whether ours is clear."""
    found = count_clusters(X, np.ones(len(X)), np.random.RandomState(seed))
    silhouette = largest_silhouette(X, COUNTS, n_init=3).max() + 1
    is_clear = len(found.candidates.numbers) == 1
    return found.best, by_bic(X), silhouette, truth, is_clear


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


def probabilities(n_sets=200):
    """Print calibration errors on the training samples and on new ones."""
    for name, noise in NOISE.items():
        rows = []
        for i in range(n_sets):
            rng = np.random.RandomState(SEED + i)
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


def features(n_sets=10):
    """Print irrelevant stable features, and how many are allowed."""
    wrong, allowed = [], []
    for i in range(n_sets):
        rng = np.random.RandomState(SEED + i)
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


# Features that are selected.

K = 3
SIZE = 50  # samples of a cluster


def with_clusters(rng, n_informative, gap):
    """Return the centres of the samples (n, d), which are at least `gap` apart."""
    centers, least = spread_centers(rng, K, n_informative, 0.5)
    return np.repeat(centers * gap / least, SIZE, axis=0)


def correlated(rng):
    """Return samples whose informative features are correlated within clusters."""
    X = rng.normal(size=(K * SIZE, 25))
    X[:, :5] = np.sqrt(0.5) * (X[:, :5] + rng.normal(size=(len(X), 1)))
    X[:, :5] += with_clusters(rng, 5, 4.0)
    return X, 5


def copies(rng):
    """Return samples with two informative features and three noisy copies of each."""
    X = rng.normal(size=(K * SIZE, 28))
    X[:, :2] += with_clusters(rng, 2, 4.0)
    X[:, 2:8] = np.repeat(X[:, :2], 3, axis=1) + 0.5 * X[:, 2:8]
    return X, 8


def heavy_tails(rng):
    """Return samples whose features all have tails of t with 3 degrees of freedom."""
    X = rng.standard_t(3, size=(K * SIZE, 25)) / np.sqrt(3)
    X[:, :5] += with_clusters(rng, 5, 4.0)
    return X, 5


def beside_blocks(rng):
    """Return samples whose irrelevant features are correlated in fives."""
    X = np.hstack([rng.normal(size=(K * SIZE, 5)), blocks(rng, K * SIZE, 20)])
    X[:, :5] += with_clusters(rng, 5, 4.0)
    return X, 5


def wide(rng):
    """Return samples with more features than samples, 50 of which are informative."""
    X = rng.normal(size=(K * SIZE, 2000))
    X[:, :50] += with_clusters(rng, 50, 15.0)
    return X, 50


SELECTED = {
    "correlated informative features": correlated,
    "noisy copies": copies,
    "heavy tails": heavy_tails,
    "blocks of noise": beside_blocks,
    "2000 features": wide,
}


def bounded(gains, bound):
    """Return weights of length one that maximise their sum with gains (d,) >= 0.

    The sum of the weights is at most `bound`: a soft threshold of the gains.
    """

    def weights(threshold):
        left = np.maximum(gains - threshold, 0)
        return left / np.linalg.norm(left)

    if weights(0.0).sum() <= bound:
        return weights(0.0)
    most = np.sort(gains)[-2] if bound > 1 else gains.max()
    most = gains.max() - 1e-9 * (gains.max() - most)
    return weights(brentq(lambda t: weights(t).sum() - bound, 0.0, most))


def sparse_k_means(X, bound):
    """Return the weights (d,) of features and the objective of sparse k-means."""
    weights = np.full(X.shape[1], X.shape[1] ** -0.5)
    total = np.square(X - X.mean(axis=0)).sum(axis=0)
    for _ in range(10):
        kept = weights > 0
        model = KMeans(K, n_init=5, random_state=0)
        labels = model.fit_predict(X[:, kept] * np.sqrt(weights[kept]))
        within = sum(len(G) * G.var(axis=0) for G in (X[labels == k] for k in range(K)))
        before, weights = weights, bounded(total - within, bound)
        if np.abs(weights - before).sum() < 1e-4 * before.sum():
            break
    return weights, weights @ (total - within)


def by_sparse_k_means(X, n_informative, rng, n_permuted=5):
    """Return two masks of features: the bound is chosen by the gap, or the number is.

    Of the gap, the smallest bound within a standard deviation of the largest.
    """
    permuted = [rng.permuted(X, axis=0) for _ in range(n_permuted)]
    bounds = np.geomspace(1.2, 0.9 * np.sqrt(X.shape[1]), 10)
    own = [sparse_k_means(X, bound) for bound in bounds]
    others = [[sparse_k_means(one, bound)[1] for one in permuted] for bound in bounds]
    gaps = np.log([value for _, value in own]) - np.log(others).mean(axis=1)
    best = np.argmax(gaps)
    is_near = gaps >= gaps[best] - np.log(others[best]).std(ddof=1)
    weights = np.array([weights for weights, _ in own])
    enough = np.argmax(np.count_nonzero(weights, axis=1) >= n_informative)
    return weights[np.argmax(is_near)] > 0, first(weights[enough], n_informative)


def first(scores, n_selected):
    """Return a mask (d,) of the features with the largest scores."""
    mask = np.zeros(len(scores), dtype=bool)
    mask[np.argsort(-scores)[:n_selected]] = True
    return mask


def by_forest(X, n_informative, _):
    """Return the most important features in a forest that learns k-means' labels."""
    labels = KMeans(K, n_init=10, random_state=0).fit_predict(X)
    forest = RandomForestClassifier(200, random_state=0).fit(X, labels)
    return first(forest.feature_importances_, n_informative)


def by_laplacian(X, n_informative, _, n_neighbors=5):
    """Return the features with the smallest Laplacian scores."""
    graph = kneighbors_graph(X, n_neighbors, mode="distance")
    graph.data = np.exp(-np.square(graph.data) / np.mean(np.square(graph.data)))
    graph = graph.maximum(graph.T)
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    centred = X - degrees @ X / degrees.sum()
    smooth = np.einsum("ij,ij->j", centred, graph @ centred)
    return first(smooth / (degrees @ np.square(centred)), n_informative)


def by_path(X, *_):
    """Return the features of the step that a path chooses."""
    sparse = SparseGEMINI(K, random_state=0)
    sparse.path(X)
    return sparse.get_support()


def by_stability(X, *_):
    """Return the features of SparseGEMINICV."""
    return SparseGEMINICV(n_clusters=K, random_state=0).fit(X).get_support()


def by_repeated(X, *_):
    """Return those of SparseGEMINICV without features that have no structure.

    While it warns, the features that it selects are left out, and it is fitted again.
    """
    left = np.arange(X.shape[1])
    while True:
        model = SparseGEMINICV(n_clusters=K, random_state=0)
        has_none = warns_of(model, X[:, left], "no more structure")
        found = left[model.get_support()]
        if not has_none or len(left) - len(found) < 2:
            return np.isin(np.arange(X.shape[1]), found)
        left = np.setdiff1d(left, found)


METHODS = {
    "SparseGEMINI, path": by_path,
    "SparseGEMINICV": by_stability,
    "SparseGEMINICV, fitted again": by_repeated,
    "sparse k-means; sparse k-means, told the number": by_sparse_k_means,
    "forest of k-means, told the number": by_forest,
    "Laplacian scores, told the number": by_laplacian,
}


def rates(support, n_informative):
    """Return the error rate, precision and recall of features that are selected."""
    right = support[:n_informative].sum()
    wrong = support[n_informative:].sum()
    errors = n_informative - right + wrong
    return errors / len(support), right / max(right + wrong, 1), right / n_informative


def selection(n_sets=5):
    """Print the mean rates of each method on each kind of sets."""
    for (kind, draw), (name, select) in itertools.product(
        SELECTED.items(), METHODS.items()
    ):
        if draw is wide and select is by_repeated:
            continue
        found = []
        for seed in range(SEED, SEED + n_sets):
            X, n_informative = draw(np.random.RandomState(seed))
            masks = select(standardised(X), n_informative, np.random.default_rng(seed))
            found.append([rates(m, n_informative) for m in np.atleast_2d(masks)])
        titles = name.split("; ")
        for title, figures in zip(titles, np.mean(found, axis=0), strict=True):
            print(
                "{}, {}: error rate {:.2f}, precision {:.2f}, recall {:.2f}".format(
                    kind, title, *figures
                ),
                flush=True,
            )


PARTS = {
    part.__name__: part
    for part in (structure, numbers, probabilities, features, selection)
}


def main():
    """Print a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--sets", type=int, help="fewer or more than on the page")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    PARTS[options.part](**{"n_sets": options.sets} if options.sets else {})


if __name__ == "__main__":
    main()
