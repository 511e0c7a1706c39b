"""How well do clusterers recover known classes, at the true number of clusters?

Prints a table of the adjusted Rand index (ARI) and the adjusted mutual information
(AMI) on scikit-learn's toy sets and on real data. Every method sees the same
standardised samples (raw where the features share a unit: images and toy sets) and
the true number of clusters. "forest" is the default of SpanningForestClustering, and
"forest, longest" single linkage. HDBSCAN has no such parameter: of eight values of its
``min_cluster_size`` the one is taken whose number of clusters is nearest to the truth.

    python benchmarks/compare_clusterers.py
"""

import warnings

import numpy as np
from data_sets import has_data, load_data
from sklearn import datasets
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import SpanningForestClustering


def data_sets():
    """Yield (name, X, y)."""
    rng = np.random.RandomState(170)
    yield (
        "circles",
        *datasets.make_circles(500, factor=0.5, noise=0.05, random_state=30),
    )
    yield "moons", *datasets.make_moons(500, noise=0.05, random_state=30)
    yield "blobs", *datasets.make_blobs(500, random_state=30)
    X, y = datasets.make_blobs(500, random_state=170)
    yield "anisotropic", X @ np.array([[0.6, -0.6], [-0.4, 0.8]]), y
    yield (
        "varied",
        *datasets.make_blobs(500, cluster_std=[1.0, 2.5, 0.5], random_state=170),
    )
    blobs, y = datasets.make_blobs(475, random_state=30)
    noise = rng.uniform(blobs.min(axis=0), blobs.max(axis=0), (25, 2))
    yield "blobs + 5 % noise", np.r_[blobs, noise], np.r_[y, np.full(25, -1)]
    for name in ("iris", "wine", "breast_cancer"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, StandardScaler().fit_transform(X), y
    yield "digits", *datasets.load_digits(return_X_y=True)
    for name, scaled, n_rows in (
        ("usps_train", False, 7291),
        ("letter", True, 4000),
        ("ctg", True, 2126),
    ):
        if not has_data(name):
            continue
        X, y = load_data(name)
        X = X.astype(float)
        rows = np.random.RandomState(0).permutation(len(X))[:n_rows]
        X, y = X[rows], y[rows]
        yield (
            f"{name} ({n_rows})",
            StandardScaler().fit_transform(X) if scaled else X,
            y,
        )


def hdbscan(X, n_clusters):
    """Labels of HDBSCAN with the number of clusters nearest to what is wanted."""
    best, closest = None, np.inf
    largest = max(6, len(X) // (2 * n_clusters))
    for size in np.unique(np.geomspace(5, largest, 8).astype(int)):
        labels = HDBSCAN(min_cluster_size=size, copy=True).fit_predict(X)
        distance = abs(labels.max() + 1 - n_clusters)
        if distance < closest:
            best, closest = labels, distance
    return best


METHODS = {
    "forest": lambda X, k: SpanningForestClustering(k).fit_predict(X),
    "forest, longest": lambda X, k: SpanningForestClustering(
        k, cut_rule="longest"
    ).fit_predict(X),
    "k-means": lambda X, k: KMeans(k, n_init=10, random_state=0).fit_predict(X),
    "Ward": lambda X, k: AgglomerativeClustering(k).fit_predict(X),
    "HDBSCAN": hdbscan,
}


def main():
    """Print the table."""
    warnings.simplefilter("ignore")
    print(f"{'data':18s}" + "".join(f"{name:>16s}" for name in METHODS))
    print(f"{'':18s}" + "     ARI     AMI" * len(METHODS))
    table = []
    for name, X, y in data_sets():
        known = y >= 0
        row = []
        for method in METHODS.values():
            labels = method(X, len(np.unique(y[known])))
            row += [
                adjusted_rand_score(y[known], labels[known]),
                adjusted_mutual_info_score(y[known], labels[known]),
            ]
        table.append(row)
        print(f"{name:18s}" + "".join(f"{value:8.3f}" for value in row), flush=True)
    mean = np.mean(table, axis=0)
    print(f"{'mean':18s}" + "".join(f"{value:8.3f}" for value in mean))


if __name__ == "__main__":
    main()
