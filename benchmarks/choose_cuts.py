"""Does a graph say how many clusters it has? Rules to choose, chosen on half the sets.

    python benchmarks/choose_cuts.py

For k from 1 to 31 PRCut(k, n_init=3) cuts each graph. Chosen is the k, from 2 on, with
the largest gap after the k-th eigenvalue of the normalised Laplacian ("eigengap"), the
largest ratio of the eigenvalues there ("eigenratio") or of the normalised cuts of k + 1
and k ("jump"), the largest modularity, or the largest second difference of the cuts, as
it is ("bend") or relative to the next cut plus .2 ("relative bend"). "Auto" is
n_clusters="auto" of PRCut: the relative bend where it is clear, and else, plus .05, of
the numbers with 90 % of the largest modularity, relative to 1 - 1 / k. The rule with
the highest mean adjusted Rand index on the split "choice" is the default; the split
"report" chose nothing. Of graphs without clusters it is printed whether "auto" warns.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings

import numpy as np
import scipy.sparse as sp
from cut_graphs import block_model, data, grid, karate, lfr, neighbours
from scipy.sparse.linalg import eigsh
from sklearn.datasets import (
    load_breast_cancer,
    load_iris,
    load_wine,
    make_blobs,
    make_circles,
    make_moons,
)
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import PRCut
from skdiffclust.cuts import ratio_cut
from skdiffclust.cuts._choice import choose_n_clusters, curve_scores

MOST = 31


def blobs(k, seed, **settings):
    """Return the graph and classes of k blobs of 80 rows."""
    X, y = make_blobs(80 * k, centers=k, random_state=seed, **settings)
    return neighbours(X, 10), y


def scaled(load):
    """Return the graph and classes of a set of scikit-learn's."""
    X, y = load(return_X_y=True)
    return neighbours(StandardScaler().fit_transform(X), 10), y


def loose(make, n_features, seed):
    """Return the graph of 800 rows that are no clusters."""
    rng = np.random.RandomState(seed)
    return neighbours(getattr(rng, make)(size=(800, n_features)), 10), None


def problems():
    """Yield (split, name, graph, classes or None)."""
    for k in (3, 6, 10, 15):
        yield "choice", f"{k} blobs", *blobs(k, k, n_features=5)
        touching = {"n_features": 10, "cluster_std": 4.0}
        yield "choice", f"{k} blobs that touch", *blobs(k, k, **touching)
        yield "report", f"{k + 1} blobs", *blobs(k + 1, 50 + k, n_features=5)
        yield "report", f"{k + 1} blobs that touch", *blobs(k + 1, 50 + k, **touching)
    X, y = make_moons(400, noise=0.07, random_state=0)
    yield "choice", "moons", neighbours(X, 10), y
    X, y = make_circles(400, noise=0.05, factor=0.5, random_state=0)
    yield "report", "circles", neighbours(X, 10), y
    yield "choice", "iris", *scaled(load_iris)
    yield "choice", "breast cancer", *scaled(load_breast_cancer)
    yield "report", "wine", *scaled(load_wine)
    made = {
        ("choice", "digits"): data("digits", 10),
        ("choice", "zoo"): data("zoo", 10, scaled=True),
        ("choice", "movlib"): data("movlib", 10, scaled=True),
        ("choice", "block model .3"): block_model(0, n=1500, k=6, mixing=0.3),
        ("choice", "block model .5"): block_model(3, n=1500, k=4, mixing=0.5),
        ("choice", "LFR .4"): lfr(0, n=500, mixing=0.4),
        ("choice", "karate"): karate(False),
        ("report", "ecoli"): data("ecoli", 10, scaled=True),
        ("report", "heart"): data("heart_statlog", 10, scaled=True),
        ("report", "ctg"): data("ctg", 10, scaled=True, n_rows=1000),
        ("report", "mnist"): data("mnist_t10k", 10, n_rows=2000),
        ("report", "usps"): data("usps_train", 10, n_rows=2000),
        ("report", "block model .4"): block_model(1, n=1500, k=9, mixing=0.4),
        ("report", "block model .2"): block_model(4, n=1500, k=12, mixing=0.2),
        ("report", "LFR .3"): lfr(1, n=500, mixing=0.3),
        ("report", "karate, weighted"): karate(True),
    }
    for (split, name), problem in made.items():
        yield split, name, problem.graph, problem.y
    yield "choice", "uniform, 2 features", *loose("uniform", 2, 0)
    yield "choice", "normal, 10 features", *loose("normal", 10, 1)
    yield "choice", "random graph", block_model(5, n=1000, k=2, mixing=1.0).graph, None
    yield "report", "uniform, 5 features", *loose("uniform", 5, 2)
    yield "report", "normal, 3 features", *loose("normal", 3, 3)
    yield "report", "grid", grid(30, 30, 4).graph, None


def eigenvalues(graph, count):
    """Return the smallest eigenvalues of the normalised Laplacian, rising."""
    scale = sp.diags_array(1.0 / np.sqrt(np.maximum(graph.sum(axis=1), 1e-12)))
    largest = eigsh(scale @ graph @ scale, count, v0=np.ones(graph.shape[0]))[0]
    return 1.0 - np.sort(largest)[::-1]


def modularity(graph, labels):
    """Return the modularity of labels (n,)."""
    members = np.eye(labels.max() + 1)[labels]
    inside = np.einsum("ik,ik->k", members, graph @ members)
    volumes = members.T @ graph.sum(axis=1)
    return float((inside / graph.sum() - (volumes / graph.sum()) ** 2).sum())


def cut_into_each(graph):
    """Return the labels, list of (n,), of 1, 2, ... clusters."""
    n = graph.shape[0]
    labels = [np.zeros(n, dtype=int)]
    for k in range(2, min(MOST, n // 3) + 1):
        model = PRCut(k, affinity="precomputed", n_init=3, random_state=0)
        labels.append(model.fit(graph).labels_)
    return labels


def scores_of(graph, labels):
    """Return {rule: scores of k = 2, 3, ... up to the last but one}."""
    cuts = np.array([ratio_cut(graph, one, normalized=True).value for one in labels])
    values = eigenvalues(graph, len(labels))
    last = np.maximum(cuts, 1e-9)
    return {
        "eigengap": np.diff(values)[1:],
        "eigenratio": (np.maximum(values[1:], 1e-6) / np.maximum(values[:-1], 1e-6))[
            1:
        ],
        "jump": (last[1:] / last[:-1])[1:],
        "modularity": np.array([modularity(graph, one) for one in labels[1:-1]]),
        "bend": np.diff(cuts, 2),
        "relative bend": curve_scores(cuts)[1:-1],
    }, cuts


def main():
    """Print the choices on each graph, and how good each rule is on each split."""
    off, agreement, best = {}, {}, {}
    for split, name, graph, y in problems():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels = cut_into_each(graph)
            scores, cuts = scores_of(graph, labels)
        chosen = {rule: 2 + int(np.argmax(found)) for rule, found in scores.items()}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            modularities = [modularity(graph, one) for one in labels]
            chosen["auto"] = choose_n_clusters(
                np.arange(1, len(cuts) + 1), cuts, np.array(modularities)
            )
        k = 1 if y is None else len(np.unique(y))
        said = "warns" if caught else ""
        print(f"{split} {name:22s} k = {k:2d}", chosen, said, flush=True)
        if y is None:
            continue
        for rule, value in chosen.items():
            off.setdefault((split, rule), []).append(abs(value - k))
            found = adjusted_rand_score(y, labels[value - 1])
            agreement.setdefault((split, rule), []).append(found)
        best.setdefault(split, []).append(adjusted_rand_score(y, labels[k - 1]))
    for (split, rule), distances in off.items():
        right, near = (np.array(distances) <= limit for limit in (0, 1))
        print(
            f"{split} {rule:13s} right {right.sum()}, within one {near.sum()} of "
            f"{len(near)}, ARI {np.mean(agreement[split, rule]):.3f} "
            f"({np.mean(best[split]):.3f} with the number of classes)"
        )


if __name__ == "__main__":
    main()
