"""How often does a scorer of a search pick the true number of clusters?

Everything below was fixed in one commit before any of these sets was scored: the seven
sets, the numbers of clusters tried, the folds, the estimators with their parameters,
and the scorer that was to do better than the silhouette. The power of its paths was
chosen on other sets (circles, stretched and uneven blobs, waves, and ecoli, heart,
votes, zoo, USPS, MNIST and CTG).

Prints, for every estimator and scorer, the number chosen on each shuffle of each set,
and how many choices are right.

    python benchmarks/choose_n_clusters.py [ESTIMATOR ...]
"""

import sys
import warnings
from time import perf_counter

import numpy as np
import sklearn
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skdiffclust
from skdiffclust.metrics import available_scorers, get_scorer

PROPOSED = "path_silhouette"
CANDIDATES = range(2, 13)
N_FOLDS = 3
SHUFFLES = range(3)

# Defaults, but for less work: one start, few epochs. GEMINI is one-vs-one, since
# one-vs-all leaves clusters empty whatever their number.
PARAMETERS = {
    "SpanningForestClustering": {},
    "GEMINI": {"mode": "ovo", "n_init": 1, "max_iter": 200, "random_state": 0},
    "ClAM": {"self_supervised": False, "random_state": 0},
    "PRCut": {"random_state": 0},
}


def data_sets():
    """Yield (name, X, y, whether features have units of their own)."""
    yield "blobs, 3", *datasets.make_blobs(300, centers=3, random_state=0), True
    yield "blobs, 5", *datasets.make_blobs(500, centers=5, random_state=0), True
    yield "moons", *datasets.make_moons(400, noise=0.05, random_state=0), True
    for name in ("iris", "wine", "breast_cancer"):
        yield name, *getattr(datasets, f"load_{name}")(return_X_y=True), True
    yield "digits", *datasets.load_digits(return_X_y=True), False


def estimators(wanted):
    """Return {name: estimator} of what this version of the package has."""
    found = {"KMeans": KMeans(n_init=10, random_state=0)}
    for name, parameters in PARAMETERS.items():
        if name in skdiffclust.__all__:
            found[name] = getattr(skdiffclust, name)(**parameters)
    return {name: found[name] for name in wanted or found}


def choose(estimator, X, scaled):
    """Return {scorer: the number of clusters that it picks on each shuffle}."""
    model = make_pipeline(StandardScaler() if scaled else "passthrough", estimator)
    parameter = f"{model.steps[-1][0]}__n_clusters"
    scoring = {name: get_scorer(name) for name in available_scorers()}
    chosen = {name: [] for name in scoring}
    for shuffle in SHUFFLES:
        search = GridSearchCV(
            model,
            {parameter: list(CANDIDATES)},
            scoring=scoring,
            refit=False,
            cv=KFold(N_FOLDS, shuffle=True, random_state=shuffle),
            error_score="raise",
        ).fit(X)
        for name in scoring:
            best = np.argmax(search.cv_results_[f"mean_test_{name}"])
            chosen[name].append(CANDIDATES[best])
    return chosen


def main():
    """Print a block for every estimator, then the sums."""
    warnings.simplefilter("ignore")
    print(f"scikit-learn {sklearn.__version__}, proposed scorer: {PROPOSED}")
    total = dict.fromkeys(available_scorers(), 0)
    n_choices = 0
    for name, estimator in estimators(sys.argv[1:]).items():
        right = dict.fromkeys(total, 0)
        print(f"\n{name:25s}" + "".join(f"{scorer:>19s}" for scorer in total))
        for set_name, X, y, scaled in data_sets():
            start = perf_counter()
            truth = len(np.unique(y))
            chosen = choose(estimator, X, scaled)
            n_choices += len(SHUFFLES)
            for scorer, picks in chosen.items():
                right[scorer] += picks.count(truth)
            cells = "".join(f"{' '.join(map(str, p)):>19s}" for p in chosen.values())
            seconds = perf_counter() - start
            print(f"{set_name + f' ({truth})':25s}{cells}{seconds:8.0f} s", flush=True)
        print(f"{'right':25s}" + "".join(f"{right[scorer]:19d}" for scorer in total))
        total = {scorer: total[scorer] + right[scorer] for scorer in total}
    print(
        f"\n{f'right, of {n_choices}':25s}"
        + "".join(f"{n:19d}" for n in total.values())
    )


if __name__ == "__main__":
    main()
