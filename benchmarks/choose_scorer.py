"""Which scorer picks the number of clusters? Chosen on one half, judged on the other.

    OMP_NUM_THREADS=1 python benchmarks/choose_scorer.py

The problems are those of `bench_all.py` with 2 to 12 classes, at most 300 samples of
each. A problem is a set and an estimator (k-means, SpanningForestClustering); a scorer
chooses among 2 to 12 clusters by its mean over two folds. Sets are put into two halves
by a seed, before anything is scored: of the scorers, that with the most right choices
in the first half is compared with the silhouette in the second, by the exact sign test
on the choices that only one of them has right.
"""

import warnings

import numpy as np
import sklearn
from bench_all import data_sets
from scipy.stats import binomtest
from sklearn.cluster import KMeans
from sklearn.model_selection import GridSearchCV, KFold

from skdiffclust import SpanningForestClustering
from skdiffclust.metrics import available_scorers, get_scorer

CANDIDATES = list(range(2, 13))
ESTIMATORS = {
    "k-means": KMeans(n_init=3, random_state=0),
    "forest": SpanningForestClustering(),
}
N_SAMPLES = 300


def picks(X, estimator, scoring):
    """Return {scorer: the number of clusters that it picks}."""
    search = GridSearchCV(
        estimator,
        {"n_clusters": CANDIDATES},
        scoring=scoring,
        refit=False,
        cv=KFold(2, shuffle=True, random_state=0),
    ).fit(X)
    results = search.cv_results_
    return {
        name: CANDIDATES[int(np.argmax(results[f"mean_test_{name}"]))]
        for name in scoring
    }


def main():
    """Print what each scorer picks, and the comparison of halves."""
    warnings.simplefilter("ignore")
    scoring = {name: get_scorer(name) for name in available_scorers()}
    scoring["stability"] = get_scorer("stability", n_resamples=2)
    problems = []
    for name, X, y in data_sets():
        known = y >= 0
        truth = len(np.unique(y[known]))
        if truth <= CANDIDATES[-1]:
            # Without what is noise, which has no class.
            problems.append((name, X[known][:N_SAMPLES], truth))
    print(f"scikit-learn {sklearn.__version__}, {len(problems)} sets")
    half = np.random.RandomState(0).permutation(len(problems)) % 2
    right = {name: ([], []) for name in scoring}
    for i, (name, X, truth) in zip(half, problems, strict=True):
        for kind, estimator in ESTIMATORS.items():
            found = picks(X, estimator, scoring)
            for scorer, k in found.items():
                right[scorer][i].append(k == truth)
            values = ", ".join(f"{scorer} {k}" for scorer, k in found.items())
            print(f"{'AB'[i]} {name} ({truth}), {kind}: {values}", flush=True)
    for scorer, halves in right.items():
        counts = ", ".join(f"{sum(one)} of {len(one)}" for one in halves)
        print(f"{scorer}: right on {counts}")
    best = max(right, key=lambda scorer: sum(right[scorer][0]))
    ours, theirs = (np.array(right[name][1]) for name in (best, "silhouette"))
    wins = int(np.sum(ours & ~theirs))
    losses = int(np.sum(theirs & ~ours))
    p = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    print(
        f"chosen on A: {best}; on B right where silhouette is not {wins}, the other "
        f"way round {losses}, p = {p:.2f}"
    )


if __name__ == "__main__":
    main()
