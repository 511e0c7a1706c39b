"""How low do graph cuts cut, how fast, and how well do they predict, beside peers?

    python benchmarks/bench_cuts.py graphs [NAME ...] [--methods ...]
    python benchmarks/bench_cuts.py tables [NAME ...] [--methods ...]
    python benchmarks/bench_cuts.py seeds [NAME ...]
    python benchmarks/bench_cuts.py fits [NAME ...]
    python benchmarks/bench_cuts.py sizes
    python benchmarks/bench_cuts.py cells
    python benchmarks/bench_cuts.py encoder [NAME ...] [--methods ...]

graphs    normalised cut, adjusted Rand index, smallest cluster (relative to the mean
          size), number of clusters and seconds on the graphs of cut_graphs.py, beside
          METIS, Leiden and spectral clustering
tables    the same on neighbours of at most 2000 samples of eleven tables
seeds     how much partitions of one graph by five random states agree
fits      times and ratio-cuts beside SpectralClustering, on the same graph
sizes     bounds on sizes, beside k-means-constrained
cells     single cells: predictions for held-out ones, beside a fit to all
encoder   predictions for samples never seen, of encoders and of other ways that extend
          the same labels; "best move" is ``GraphCutClustering()``. The sets chose
          nothing but the graph that encoders are trained on: by the labels of samples
          to fit of splits 0 to 22

Both sides are given the same graph. Times are processor seconds on one thread. Peers
that are not installed are left out (pymetis, leidenalg, k-means-constrained).
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from cut_graphs import GRAPHS, data, neighbours
from scipy.spatial.distance import cdist
from shared import (
    Results,
    load,
    seconds,
    standardised,
    versions,
)
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.manifold import spectral_embedding
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import (
    KNeighborsClassifier,
    NearestNeighbors,
    kneighbors_graph,
)
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from skdiffclust import GraphCutClustering, PRCut
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


def partitioner(**parameters):
    """Return the estimator that cuts a graph, by default without bounds on sizes."""
    given = {"affinity": "precomputed", "min_cluster_size": 1} | parameters
    return GraphCutClustering(**given)


def searched(**parameters):
    """Return the function that cuts a graph by our search."""

    def cut(graph, k, seed):
        model = partitioner(n_clusters=k, random_state=seed, **parameters)
        return model.fit(graph).labels_

    return cut


def counted(graph, k, seed):
    """Return the labels of our search into a number of clusters that it chooses."""
    return (
        GraphCutClustering("auto", affinity="precomputed", random_state=seed)
        .fit(graph)
        .labels_
    )


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
    "graph cut": searched(min_cluster_size="auto"),
    "graph cut, imbalance .3": searched(max_imbalance=0.3),
    "graph cut, auto": counted,
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


def graphs(names, methods, n_seeds=2):
    """Print a line for each graph and method, and mean adjusted Rand indices."""
    METHODS["graph cut"](GRAPHS["karate"](0).graph, 2, 0)  # compiles
    indices = {method: [] for method in methods or METHODS}
    print("method: normalised cut, ARI, smallest, clusters, seconds")
    for name in names or GRAPHS:
        problems = [GRAPHS[name](seed) for seed in range(n_seeds)]
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


def tables(names, methods, n_seeds=2):
    """Do the same for graphs of nearest neighbours of tables, weighted by rank."""
    for name in names or TABLES:
        GRAPHS[name] = lambda _, name=name: data(
            name, "auto", scaled=name not in ONE_UNIT, n_rows=2000, ranked=True
        )
    graphs(names or TABLES, methods, n_seeds)


def growing_graphs():
    """Return {name: function that gives (graph, n_clusters)}."""

    def blobs():
        X, _ = make_blobs(
            60_000, n_features=8, centers=20, cluster_std=3.0, random_state=0
        )
        return neighbours(X, 15), 20

    return {
        "mnist 2 000": lambda: (neighbours(load("mnist_t10k")[0][:2000], 25), 10),
        "mnist 10 000": lambda: (neighbours(load("mnist_t10k")[0], 25), 10),
        "letter 20 000": lambda: (neighbours(load("letter")[0], 50), 26),
        "blobs 60 000": blobs,
    }


def one_graph(name, seed):
    """Return the seconds and ratio-cuts of ours and of spectral clustering."""
    graph, k = growing_graphs()[name]()
    searched(cut="ratio")(neighbours(load("digits")[0], 10), k, seed)  # compiles
    fast, labels = seconds(searched(cut="ratio"), graph, k, seed)
    slow, theirs = seconds(spectral, graph, k, seed)
    improved = searched(cut="ratio", init="spectral")(graph, k, seed)
    return {
        "spectral": ratio_cut(graph, theirs.astype(np.int64)).value,
        "local search": ratio_cut(graph, improved).value,
        "search": ratio_cut(graph, labels).value,
        "edges": graph.nnz // 2,
        "s_spectral": slow,
        "s_search": fast,
    }


def fits(names, n_seeds=5):
    """Time fits on one graph, and compare the ratio-cuts; resumable."""
    results = Results(Path("cuts_fits.jsonl"))
    for name in names or growing_graphs():
        runs = [results.once([name, s], one_graph, name, s) for s in range(n_seeds)]
        medians = {key: np.median([run[key] for run in runs]) for key in runs[0]}
        ratio = np.median([run["s_spectral"] / run["s_search"] for run in runs])
        print(name, len(runs), f"ratio {ratio:.1f}", medians, flush=True)


def seeds(names, n_seeds=5):
    """Print how much the labels of several random states agree, two by two."""
    print("graph: mean and least adjusted Rand index of two random states")
    for name in names or GRAPHS:
        problem = GRAPHS[name](0)
        found = [
            METHODS["graph cut"](problem.graph, problem.n_clusters, seed)
            for seed in range(n_seeds)
        ]
        pairs = [adjusted_rand_score(*pair) for pair in combinations(found, 2)]
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


# New samples.


N_FIT, N_NEW = 2000, 1000
# Images and spectra: their features have one unit, and are not standardised.
ONE_UNIT = "isolet", "mnist_t10k", "usps_train"
SETS = "zoo house_votes_84 heart_statlog ecoli ctg letter movlib".split() + [*ONE_UNIT]


class Split(NamedTuple):
    """Samples to fit and new ones, the classes of the new, and labels of the cut."""

    fitted: np.ndarray
    new: np.ndarray
    classes: np.ndarray
    n_clusters: int
    labels: np.ndarray
    seed: int


def scaled(name):
    """Return the samples and classes of a set, scaled."""
    X, y = load(name)
    if name not in ONE_UNIT:
        X = standardised(X)
    return X, np.unique(y, return_inverse=True)[1]


def divide(X, y, seed):
    """Return a `Split`."""
    order = np.random.RandomState(seed).permutation(len(X))
    n_fit = min(N_FIT, 2 * len(X) // 3)
    fitted = order[:n_fit]
    new = order[n_fit : n_fit + N_NEW]
    k = len(np.unique(y))
    model = GraphCutClustering(k, random_state=seed)
    labels = model.fit(X[fitted]).labels_
    return Split(X[fitted], X[new], y[new], k, labels, seed)


def by_encoder(part):
    """Predict by a perceptron."""
    model = PRCut(part.n_clusters, encoder="mlp", random_state=part.seed)
    return model.fit(part.fitted).predict(part.new)


def by_best_move(part):
    """Predict by the partition of the graph."""
    model = GraphCutClustering(part.n_clusters, random_state=part.seed)
    return model.fit(part.fitted).predict(part.new)


def nearest(part):
    """Predict by the nearest neighbour on the labels of the cut."""
    model = KNeighborsClassifier(1).fit(part.fitted, part.labels)
    return model.predict(part.new)


def label_spreading(part):
    """Spread the labels of the cut, and predict."""
    model = LabelSpreading(kernel="knn", n_neighbors=10)
    return model.fit(part.fitted, part.labels).predict(part.new)


def embed(part):
    """Return the spectral embedding (n, k) of the samples to fit, and k-means in it."""
    graph = kneighbors_graph(part.fitted, min(10, len(part.fitted) - 1))
    graph = graph.maximum(graph.T)
    embedding = spectral_embedding(
        graph,
        n_components=part.n_clusters,
        drop_first=False,
        random_state=part.seed,
    )
    embedding /= np.sqrt(np.mean(embedding**2))
    model = KMeans(part.n_clusters, n_init=10, random_state=part.seed)
    return embedding, model.fit(embedding)


def nystrom(part):
    """Extend the eigenvectors to new samples by the mean of their neighbours."""
    embedding, model = embed(part)
    neighbors = NearestNeighbors(n_neighbors=10).fit(part.fitted)
    found = neighbors.kneighbors(part.new, return_distance=False)
    return model.predict(embedding[found].mean(axis=1))


def spectral_net(part):
    """Fit a perceptron to the eigenvectors, as SpectralNet, and predict by k-means."""
    embedding, model = embed(part)
    scaler = StandardScaler(with_std=False).fit(part.fitted)
    spread = np.sqrt(np.mean(scaler.transform(part.fitted) ** 2)) or 1.0
    net = MLPRegressor(
        hidden_layer_sizes=(128,),
        early_stopping=True,
        max_iter=500,
        random_state=part.seed,
    )
    net.fit(scaler.transform(part.fitted) / spread, embedding)
    found = net.predict(scaler.transform(part.new) / spread)
    return model.predict(found.reshape(len(part.new), -1))


def k_means(part):
    """Predict by k-means."""
    model = KMeans(part.n_clusters, n_init=10, random_state=part.seed)
    return model.fit(part.fitted).predict(part.new)


EXTENSIONS = {
    "mlp": by_encoder,
    "best move": by_best_move,
    "nearest": nearest,
    "label spreading": label_spreading,
    "Nystrom": nystrom,
    "SpectralNet": spectral_net,
    "k-means": k_means,
}


def encoder(names, methods, n_splits=5):
    """Print mean indices of new samples for each set, and their means."""
    methods = methods or list(EXTENSIONS)
    print("set", *methods, sep=", ")
    table = []
    for name in names or SETS:
        X, y = scaled(name)
        rows = []
        for seed in range(100, 100 + n_splits):  # others chose
            part = divide(X, y, seed)
            labels = [EXTENSIONS[method](part) for method in methods]
            rows.append([adjusted_rand_score(part.classes, one) for one in labels])
        table.append(np.mean(rows, axis=0))
        print(name, *(f"{value:.3f}" for value in table[-1]), sep=", ", flush=True)
    print("mean", *(f"{value:.3f}" for value in np.mean(table, axis=0)), sep=", ")


PARTS = {
    part.__name__: part for part in (graphs, tables, seeds, fits, sizes, cells, encoder)
}


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--methods", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, help="or splits")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(
        versions("scikit-learn", "numpy", "pymetis", "leidenalg", "k-means-constrained")
    )
    given = []
    if options.part not in ("sizes", "cells"):
        given.append(options.names)
    if options.part in ("graphs", "tables", "encoder"):
        given.append(options.methods)
    if options.seeds:
        given.append(options.seeds)
    PARTS[options.part](*given)


if __name__ == "__main__":
    main()
