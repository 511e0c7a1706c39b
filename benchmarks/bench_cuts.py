"""How low do graph cuts cut, how fast, beside peers?

    python benchmarks/bench_cuts.py PART [--seeds N]

graphs    normalised cut, adjusted Rand index, smallest cluster (relative to the mean
          size), number of clusters and seconds on the graphs of cut_graphs.py, beside
          METIS, Leiden and spectral clustering
tables    the same on neighbours of at most 2000 samples of eleven tables
seeds     how much partitions of one graph by five random states agree
sizes     bounds on sizes, beside k-means-constrained
cells     single cells: predictions for held-out ones, beside a fit to all

Both sides are given the same graph. Times are processor seconds on one thread. Peers
that are not installed are left out (pymetis, leidenalg, k-means-constrained).
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings

import numpy as np
import torch
from cut_graphs import GRAPHS, data
from scipy.spatial.distance import cdist
from shared import (
    agreements,
    load,
    seconds,
    versions,
)
from sklearn.cluster import SpectralClustering
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GraphCutClustering
from skdiffclust.cuts import ratio_cut

N_NEIGHBORS = {
    "digits": 10,
    "usps_train": 20,
    "mnist_t10k": 25,
    "letter": 50,  # with fewer, it falls into parts of a few equal rows
    "isolet": 10,
}
TABLES = (
    "iris wine breast_cancer movlib ctg mnist_t10k usps_train letter isolet "
    "house_votes_84 heart_statlog"
).split()


def searched(n_clusters=None, **parameters):
    """Return the function that cuts a graph by our search, or by its own number."""

    def cut(graph, k, seed):
        model = GraphCutClustering(
            n_clusters or k, affinity="precomputed", random_state=seed, **parameters
        )
        return model.fit(graph).labels_

    return cut


def metis(graph, k, seed):
    """Return METIS' parts, up to 1.3 times the mean size."""
    import pymetis

    weights = graph.data if np.ptp(graph.data) else None
    if weights is not None:
        weights = np.maximum(1, np.round(weights / weights.max() * 1000)).astype(int)
    _, parts = pymetis.part_graph(
        k,
        pymetis.CSRAdjacency(graph.indptr, graph.indices),
        eweights=weights,
        options=pymetis.Options(ufactor=300, seed=seed),
        recursive=False,
    )
    return np.array(parts)


def leiden(graph, k, seed):
    """Return communities of the largest modularity; their number is not asked."""
    import igraph
    import leidenalg

    edges = graph.tocoo()
    upper = edges.row < edges.col
    pairs = np.column_stack([edges.row[upper], edges.col[upper]])
    network = igraph.Graph(graph.shape[0], pairs.tolist())
    found = leidenalg.find_partition(
        network,
        leidenalg.ModularityVertexPartition,
        weights=edges.data[upper].tolist(),
        seed=seed,
    )
    return np.array(found.membership)


def spectral(graph, k, seed):
    """Return scikit-learn's spectral clustering."""
    model = SpectralClustering(k, affinity="precomputed", random_state=seed)
    return model.fit_predict(graph)


METHODS = {
    "graph cut": searched(),
    "graph cut, imbalance .3": searched(min_cluster_size=1, max_imbalance=0.3),
    "graph cut, auto": searched("auto"),
    "METIS": metis,
    "Leiden": leiden,
    "spectral": spectral,
}


def measure(cut, problem, seed):
    """Return cut, agreement, smallest, number and time of a method on a graph."""
    took, labels = seconds(cut, problem.graph, problem.n_clusters, seed)
    labels = np.unique(labels, return_inverse=True)[1]
    sizes = np.bincount(labels)
    agreement = np.nan
    if problem.y is not None:
        agreement = adjusted_rand_score(problem.y, labels)
    return (
        ratio_cut(problem.graph, labels, normalized=True).value,
        agreement,
        sizes.min() * problem.n_clusters / len(labels),
        len(sizes),
        took,
    )


def graphs(n_seeds=2):
    """Print a line for each graph and method, and mean adjusted Rand indices."""
    compare(GRAPHS, n_seeds)


def compare(graphs_of, n_seeds):
    """Do so for a dict of functions from a seed to a graph."""
    METHODS["graph cut"](GRAPHS["karate"](0).graph, 2, 0)  # compiles
    indices = {method: [] for method in METHODS}
    print("method: normalised cut, ARI, smallest, clusters, seconds")
    for name, draw in graphs_of.items():
        problems = [draw(seed) for seed in range(n_seeds)]
        n, m = problems[0].graph.shape[0], problems[0].graph.nnz // 2
        print(f"{name}: n={n} m={m} k={problems[0].n_clusters}")
        for method in list(indices):
            try:
                rows = [
                    measure(METHODS[method], problem, seed)
                    for seed, problem in enumerate(problems)
                ]
            except ImportError:
                del indices[method]
                continue
            means = np.mean(rows, axis=0)
            indices[method].append(means[1])
            print(
                f"    {method:24s} {means[0]:8.4f} {means[1]:6.3f} "
                f"{means[2]:6.3f} {means[3]:5.1f} {means[4]:7.2f}",
                flush=True,
            )
    for method, found in indices.items():
        print(f"mean ARI of {len(found)}: {method:24s} {np.nanmean(found):.3f}")


# Images and spectra: their features have one unit, and are not standardised.
ONE_UNIT = "isolet", "mnist_t10k", "usps_train"


def tables(n_seeds=2):
    """Do the same for graphs of nearest neighbours of tables, weighted by rank."""

    def of_table(name):
        is_scaled = name not in ONE_UNIT
        return data(name, "auto", scaled=is_scaled, n_rows=2000, ranked=True)

    compare({name: lambda _, name=name: of_table(name) for name in TABLES}, n_seeds)


def seeds(n_seeds=5):
    """Print how much the labels of several random states agree, two by two."""
    print("graph: mean and least adjusted Rand index of two random states")
    for name, draw in GRAPHS.items():
        problem = draw(0)
        found = [
            METHODS["graph cut"](problem.graph, problem.n_clusters, seed)
            for seed in range(n_seeds)
        ]
        pairs = agreements(found)
        print(f"{name}: {np.mean(pairs):.3f}, {np.min(pairs):.3f}", flush=True)


def sizes(n_seeds=3):
    """Print what bounds on sizes cost, ours and k-means-constrained."""
    from k_means_constrained import KMeansConstrained

    X, y = load("mnist_t10k")
    print("method: ARI, ARI of new samples, smallest, largest, seconds")
    rows = {"graph cut": [], "k-means-constrained": []}
    for seed in range(n_seeds):
        order = np.random.RandomState(seed).permutation(len(X))
        old, new = order[:8000], order[8000:]
        pca = PCA(50, random_state=0).fit(X[old])
        table, others = pca.transform(X[old]), pca.transform(X[new])
        models = {
            "graph cut": GraphCutClustering(10, max_imbalance=0.5, random_state=seed),
            "k-means-constrained": KMeansConstrained(
                10, size_min=400, size_max=1200, n_init=1, random_state=seed
            ),
        }
        for name, model in models.items():
            took, labels = seconds(model.fit_predict, table)
            counts = np.bincount(labels) / 800
            # The peer would bound the sizes of the new ones as well.
            predicted = (
                model.predict(others)
                if name == "graph cut"
                else cdist(others, model.cluster_centers_).argmin(axis=1)
            )
            rows[name].append(
                (
                    adjusted_rand_score(y[old], labels),
                    adjusted_rand_score(y[new], predicted),
                    counts.min(),
                    counts.max(),
                    took,
                )
            )
    for name, found in rows.items():
        print(name, *(f"{value:.3f}" for value in np.mean(found, axis=0)), sep=", ")


def cells(n_splits=5):
    """Print how predictions of held-out cells agree with a fit to all."""
    X, y = load("pbmc68k_reduced")
    print("clusters, split: prediction and joint fit, both fits on the others, ARI")
    for k in ("auto", 6, len(np.unique(y))):
        joint = GraphCutClustering(k, random_state=0).fit(X).labels_
        for seed in range(n_splits):
            order = np.random.RandomState(seed).permutation(len(X))
            new, old = order[: len(X) // 5], order[len(X) // 5 :]
            model = GraphCutClustering(k, random_state=0).fit(X[old])
            agreements = (
                adjusted_rand_score(joint[new], model.predict(X[new])),
                adjusted_rand_score(joint[old], model.labels_),
                adjusted_rand_score(y, joint),
            )
            print(k, seed, *(f"{value:.3f}" for value in agreements), sep=", ")


PARTS = {part.__name__: part for part in (graphs, tables, seeds, sizes, cells)}


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seeds", type=int, help="or splits")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(
        versions("scikit-learn", "numpy", "pymetis", "leidenalg", "k-means-constrained")
    )
    given = [options.seeds] if options.seeds else []
    PARTS[options.part](*given)


if __name__ == "__main__":
    main()
