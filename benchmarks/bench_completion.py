"""Missing entries: what completes them best, and what clusters best in spite of them.

    OMP_NUM_THREADS=1 python benchmarks/bench_completion.py [--seeds 5] [NAME ...]

Standardised real data of the loader, data_sets.py, and of scikit-learn lose 10, 20
or 40 % of their entries, at random ("mcar") or, with probabilities that grow with the
rank of the value, not ("mnar"). A line has the mean squared error of the hidden
entries, relative to the mean (1: no better than the mean of a feature), the processor
time, and the adjusted Rand index of ClAM on X with NaN and of k-means after each
imputer; medians over seeds. The settings of AssociativeImputer were found on iris,
wine, zoo, ctg, letter, digits and votes.
"""

import argparse
import itertools
import time
import warnings

import numpy as np
import sklearn
from data_sets import has_data, load_data
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.metrics import adjusted_rand_score

from skdiffclust import AssociativeImputer, ClAM

LOADERS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast": load_breast_cancer,
    "digits": load_digits,
}
NAMES = (
    "iris wine breast digits zoo ecoli movlib ctg letter heart_statlog house_votes_84 "
    "isolet usps_train mnist_t10k"
)
SAMPLES = 1500
ITERATIVE_FEATURES = 100


def load(name, random_state):
    """Return at most SAMPLES standardised rows, and classes, or None."""
    if name in LOADERS:
        X, y = LOADERS[name](return_X_y=True)
    elif not has_data(name):
        return None
    else:
        X, y = load_data(name)
    rows = random_state.permutation(len(X))[:SAMPLES]
    X, y = X[rows].astype(float), y[rows]
    X = X[:, X.std(axis=0) > 1e-9]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def hide(X, share, kind, random_state):
    """Return (n, d) True where an entry is hidden; rows and features keep something."""
    chance = np.full(X.shape, share)
    if kind == "mnar":
        ranks = np.argsort(np.argsort(X, axis=0, kind="stable"), axis=0)
        chance = 2.0 * share * ranks / len(X)
    hidden = random_state.uniform(size=X.shape) < chance
    for i in np.flatnonzero(hidden.all(axis=1)):
        hidden[i, random_state.randint(X.shape[1])] = False
    # A feature needs two values that differ.
    spread = np.nanstd(np.where(hidden, np.nan, X), axis=0)
    hidden[:, ~(spread > 1e-9)] = False
    return hidden


def compare(X, y, hidden, seed):
    """Return {name: (error, seconds, ARI)}."""
    shown = np.where(hidden, np.nan, X)
    scale = np.mean(np.square(X - np.nanmean(shown, axis=0))[hidden])
    imputers = {
        "mean": SimpleImputer(),
        "knn": KNNImputer(),
        "iterative": IterativeImputer(random_state=seed),
        "ours": AssociativeImputer(random_state=seed),
    }
    if X.shape[1] > ITERATIVE_FEATURES:
        del imputers["iterative"]
    k, found = len(np.unique(y)), {}
    for name, imputer in imputers.items():
        start = time.process_time()
        filled = imputer.fit_transform(shown)
        seconds = time.process_time() - start
        error = np.mean(np.square(filled - X)[hidden]) / scale
        labels = KMeans(k, n_init=10, random_state=seed).fit_predict(filled)
        found[name] = error, seconds, adjusted_rand_score(y, labels)
    start = time.process_time()
    labels = ClAM(k, random_state=seed).fit(shown).labels_
    seconds = time.process_time() - start
    found["ClAM"] = np.nan, seconds, adjusted_rand_score(y, labels)
    return found


def main():
    """Print a line for each data set and way of hiding, then how often we lead."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=NAMES.split())
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"scikit-learn {sklearn.__version__}; error, seconds, ARI; medians")
    AssociativeImputer().fit([[0.0, 1.0], [1.0, np.nan], [2.0, 3.0]])
    ClAM(2, n_init=1, max_iter=1).fit(np.eye(4))
    sets = {}
    for name in options.names:
        if load(name, np.random.RandomState(0)) is None:
            print(f"{name}: not here")
            continue
        for share, kind in itertools.product((0.1, 0.2, 0.4), ("mcar", "mnar")):
            runs = []
            for seed in range(options.seeds):
                random_state = np.random.RandomState(seed)
                X, y = load(name, random_state)
                runs.append(compare(X, y, hide(X, share, kind, random_state), seed))
            median = {
                key: np.median([run[key] for run in runs], axis=0) for key in runs[0]
            }
            sets.setdefault(name, []).append(median)
            cells = "  ".join(
                f"{key} {e:.3f} {t:.2f} {a:.3f}" for key, (e, t, a) in median.items()
            )
            print(f"{name:14s} {X.shape} {share} {kind}: {cells}", flush=True)
    summarise(sets)


def summarise(sets):
    """Print on how many lines and sets we are ahead, by the medians of all lines.

    A set counts by the means over its ways of hiding.
    """
    for peer in ("mean", "knn", "iterative"):
        found = [lines for lines in sets.values() if peer in lines[0]]
        pairs = np.array(
            [
                [[line["ours"], line[peer], line["ClAM"]] for line in lines]
                for lines in found
            ]
        )
        if not len(pairs):
            continue
        error = pairs[:, :, 0, 0] <= pairs[:, :, 1, 0]
        is_faster = pairs[:, :, 0, 1] < pairs[:, :, 1, 1]
        means = pairs.mean(axis=1)
        print(
            f"{peer}: our error no larger on {error.sum()} of {error.size} lines and "
            f"{np.sum(means[:, 0, 0] <= means[:, 1, 0])} of {len(means)} sets, faster "
            f"on {is_faster.sum()} lines, ARI of ClAM no lower than of k-means on "
            f"{np.sum(means[:, 2, 2] >= means[:, 1, 2])} sets (means "
            f"{means[:, 2, 2].mean():.3f} and {means[:, 1, 2].mean():.3f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
