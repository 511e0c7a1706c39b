"""Does a graph say how many clusters it has? Three ways to choose, on a few sets.

    python benchmarks/choose_cuts.py

For k from 2 to 20, PRCut(k, encoder=None, init="random") cuts the graph of 10 nearest
neighbours. Chosen is the k with the largest gap after the k-th eigenvalue of the
normalised Laplacian ("eigengap"; no labels needed), with the largest ratio of the
ratio-cuts of k + 1 and k ("jump"), or with the largest modularity ("modularity"), which
is the weight inside clusters less what random edges with the same degrees would have
there. The silhouette of the rows is shown beside.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_moons,
)
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import PRCut
from skdiffclust._data import has_data, load_data

N_CLUSTERS = range(2, 21)


def problems():
    """Yield (name, X, y)."""
    for k in (3, 6, 10, 15):
        blobs = make_blobs(80 * k, n_features=5, centers=k, random_state=k)
        yield f"{k} blobs", *blobs
        blobs = make_blobs(
            80 * k, n_features=10, centers=k, cluster_std=4.0, random_state=k
        )
        yield f"{k} blobs that touch", *blobs
    yield "moons", *make_moons(400, noise=0.07, random_state=0)
    for load in (load_iris, load_wine, load_breast_cancer):
        X, y = load(return_X_y=True)
        yield load.__name__[5:], StandardScaler().fit_transform(X), y
    yield "digits", *load_digits(return_X_y=True)
    for name in ("zoo", "ecoli", "movlib", "heart_statlog", "ctg"):
        if has_data(name):
            X, y = load_data(name)
            yield name, StandardScaler().fit_transform(X), y


def eigenvalues(graph):
    """Return the smallest 21 eigenvalues of the normalised Laplacian, rising."""
    scale = sp.diags_array(1.0 / np.sqrt(np.maximum(graph.sum(axis=1), 1e-12)))
    largest = eigsh(
        scale @ graph @ scale, N_CLUSTERS[-1] + 1, v0=np.ones(graph.shape[0])
    )[0]
    return 1.0 - np.sort(largest)[::-1]


def modularity(graph, labels):
    """Return the modularity of labels (n,)."""
    members = np.eye(labels.max() + 1)[labels]
    inside = np.einsum("ik,ik->k", members, graph @ members)
    volumes = members.T @ graph.sum(axis=1)
    return float((inside / graph.sum() - (volumes / graph.sum()) ** 2).sum())


def choose(X):
    """Return {rule: k} for rows (n, d)."""
    models = [
        PRCut(k, encoder=None, init="random", n_init=5, random_state=0).fit(X)
        for k in (*N_CLUSTERS, N_CLUSTERS[-1] + 1)
    ]
    graph = models[0].affinity_matrix_
    cuts = np.maximum([model.ratio_cut_ for model in models], 1e-9)
    labels = [model.labels_ for model in models[:-1]]
    scores = {
        "eigengap": np.diff(eigenvalues(graph))[1:],
        "jump": cuts[1:] / cuts[:-1],
        "modularity": [modularity(graph, found) for found in labels],
        "silhouette": [silhouette_score(X, found) for found in labels],
    }
    return {rule: N_CLUSTERS[int(np.argmax(s))] for rule, s in scores.items()}


def main():
    """Print the choices on each set, and how many are right or off by one."""
    warnings.simplefilter("ignore")
    off = {}
    for name, X, y in problems():
        k = len(np.unique(y))
        chosen = choose(X)
        print(f"{name:22s} k = {k:2d}", chosen, flush=True)
        for rule, value in chosen.items():
            off.setdefault(rule, []).append(abs(value - k))
    for rule, distances in off.items():
        right, near = (np.array(distances) <= limit for limit in (0, 1))
        print(f"{rule:12s} right {right.sum()}, within one {near.sum()} of {len(near)}")


if __name__ == "__main__":
    main()
