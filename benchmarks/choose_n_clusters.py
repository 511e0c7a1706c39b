"""How often is the number of clusters found, by "auto" and by a search with a scorer?

    python benchmarks/choose_n_clusters.py search [ESTIMATOR ...]
    python benchmarks/choose_n_clusters.py forest [--seeds 3000 3005]
    python benchmarks/choose_n_clusters.py embeddings [NAME ...]

search  a search over 2 to 12 clusters with each scorer of ``metrics``, for each
        estimator: the numbers chosen on three shuffles of the folds of seven sets.
        All of this was fixed before any of these sets was scored.
forest  the mean adjusted Rand index of ``SpanningForestClustering("auto")``, of its
        cut into the true number, of the number by the falls of the scores, and of
        HDBSCAN (``min_cluster_size=15``) on the families of ``shapes.py``, and how
        often there is no warning on sets without structure. The rule was chosen on
        seeds 0 to 2 and 1000 to 1002, and its limits on seeds 0 to 4 of the sets
        without structure; other seeds report.
embeddings  the same on ten UMAP components with ``min_dist=0`` of real data (umap-learn
        is needed). Two embeddings of usps_test, usps_train, mnist_t10k, isolet,
        segment, letter and pbmc68k_reduced, of seeds 0 and 1, helped to choose.

Samples that belong to no class (-1) are left out of the index.
"""

import argparse
import warnings

import numpy as np
import shapes
from shared import interval, load, versions, warns_of
from sklearn import datasets
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, KFold
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

# A search.

CANDIDATES = range(2, 13)
SCORERS = ("silhouette", "path_silhouette", "calinski_harabasz", "stability")
N_FOLDS = 3
SHUFFLES = range(3)
# Defaults, but for less work: one start, few epochs. GEMINI is one-vs-one, since
# one-vs-all leaves clusters empty whatever their number.
ESTIMATORS = {
    "KMeans": KMeans(n_init=10, random_state=0),
    "SpanningForestClustering": SpanningForestClustering(),
    "GEMINI": GEMINI(mode="ovo", n_init=1, max_iter=200, random_state=0),
    "ClAM": ClAM(self_supervised=False, random_state=0),
    "GraphCutClustering": GraphCutClustering(random_state=0),
}


def searched_sets():
    """Yield (name, X, y, whether features have units of their own)."""
    yield "blobs, 3", *datasets.make_blobs(300, centers=3, random_state=0), True
    yield "blobs, 5", *datasets.make_blobs(500, centers=5, random_state=0), True
    yield "moons", *datasets.make_moons(400, noise=0.05, random_state=0), True
    for name in ("iris", "wine", "breast_cancer"):
        yield name, *getattr(datasets, f"load_{name}")(return_X_y=True), True
    yield "digits", *datasets.load_digits(return_X_y=True), False


def choose(estimator, X, scaled):
    """Return {scorer: the number of clusters that it picks on each shuffle}."""
    model = make_pipeline(StandardScaler() if scaled else "passthrough", estimator)
    parameter = f"{model.steps[-1][0]}__n_clusters"
    scoring = {name: getattr(metrics, f"{name}_scorer") for name in SCORERS}
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


def search(names):
    """Print a block for every estimator, then the sums."""
    print(versions("scikit-learn"))
    total = dict.fromkeys(SCORERS, 0)
    n_choices = 0
    for name in names or ESTIMATORS:
        right = dict.fromkeys(total, 0)
        print(f"\n{name:25s}" + "".join(f"{scorer:>19s}" for scorer in total))
        for set_name, X, y, scaled in searched_sets():
            truth = len(np.unique(y))
            chosen = choose(ESTIMATORS[name], X, scaled)
            n_choices += len(SHUFFLES)
            for scorer, picks in chosen.items():
                right[scorer] += picks.count(truth)
            cells = "".join(f"{' '.join(map(str, p)):>19s}" for p in chosen.values())
            print(f"{set_name + f' ({truth})':25s}{cells}", flush=True)
        print(f"{'right':25s}" + "".join(f"{right[scorer]:19d}" for scorer in total))
        total = {scorer: total[scorer] + right[scorer] for scorer in total}
    print(
        f"\n{f'right, of {n_choices}':25s}"
        + "".join(f"{n:19d}" for n in total.values())
    )


# Spanning forests.


def indices(X, y):
    """Return four adjusted Rand indices, whether the number is right, and a warning."""
    known = y >= 0
    k = len(np.unique(y[known]))
    model = SpanningForestClustering("auto")
    warned = warns_of(model, X)
    falls = falls_of(model.n_clusters_curve_["score"])[: len(X) // 10]
    falls, _ = number_by_falls(falls)
    labels = (
        model.labels_,
        model.cut(k),
        model.cut(falls),
        HDBSCAN(min_cluster_size=15, copy=True).fit_predict(X),
    )
    found = [adjusted_rand_score(y[known], one[known]) for one in labels]
    return [*found, model.n_clusters_ == k, warned]


COLUMNS = "ours, true number, falls, HDBSCAN, right, warns"


def forest(seeds):
    """Print the indices of the shapes, with intervals, and what is not warned of."""
    rows = {}
    for name in shapes.SHAPES:
        rows[name] = [
            indices(*shapes.draw(name, seed, blur))
            for seed in range(*seeds)
            for blur in (0.3, 0.8, 1.3)
        ]
        print(f"{name:26s}", np.mean(rows[name], axis=0).round(3), flush=True)
    means = np.array([np.mean(row, axis=0) for row in rows.values()])
    print(f"mean of {len(means)} families ({COLUMNS}):", means.mean(axis=0).round(3))
    for name, column in (("falls", 2), ("HDBSCAN", 3)):
        print(f"ours - {name}: {interval(means[:, 0] - means[:, column])}")
    silent = [
        not warns_of(SpanningForestClustering("auto"), draw(np.random.RandomState(s)))
        for draw in shapes.NOTHING.values()
        for s in range(*seeds)
    ]
    print(f"not warned of {np.mean(silent):.3f} of {len(silent)} without structure")


def embeddings(names, seeds):
    """Print the indices of embeddings."""
    from umap import UMAP

    for name in names or ("usps_train", "mnist_t10k", "isolet", "digits"):
        X, y = load(name)
        for seed in range(*seeds):
            model = UMAP(n_components=10, min_dist=0.0, random_state=seed, n_jobs=1)
            found = indices(model.fit_transform(X).astype(float), y)
            print(f"{name}, {seed} ({COLUMNS}):", np.round(found, 3), flush=True)


def main():
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["search", "forest", "embeddings"])
    parser.add_argument("names", nargs="*", help="estimators, or data sets")
    parser.add_argument("--seeds", type=int, nargs=2, default=(3000, 3002))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.part == "search":
        search(options.names)
    elif options.part == "forest":
        forest(options.seeds)
    else:
        embeddings(options.names, options.seeds)


if __name__ == "__main__":
    main()
