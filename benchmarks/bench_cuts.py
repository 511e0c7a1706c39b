"""How low do graph cuts cut, how fast, and how well do they predict, beside peers?

    python benchmarks/bench_cuts.py graphs [NAME ...] --split report [--methods ...]
    python benchmarks/bench_cuts.py outcomes [NAME ...]
    python benchmarks/bench_cuts.py fits [NAME ...]
    python benchmarks/bench_cuts.py encoder [NAME ...] [--split report]

graphs    ratio-cut, normalised cut, adjusted Rand index, smallest cluster (relative to
          the mean size) and seconds on the graphs of cut_graphs.py, beside METIS,
          KaHIP, Leiden and spectral clustering; without bounds on sizes by default.
          "networks" are real ones, models of such, and single cells
outcomes  agreement with known groups by default, METIS beside it
fits      times and ratio-cuts beside SpectralClustering, on the same graph
encoder   predictions for samples never seen, of encoders and of other ways that extend
          the same labels; "best move" is ``GraphCutClustering()``. The sets of
          "choice" chose what the encoders do; those of "report" chose nothing but, with
          the others, the graph that encoders are trained on: by the labels of samples
          to fit of splits 0 to 22, which ``--first`` leaves out

Both sides are given the same graph. Times are processor seconds on one thread. Peers
that are not installed are left out (pymetis, kahip, leidenalg).
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from cut_graphs import GRAPHS, block_model, data, karate, lfr, neighbours
from shared import (
    Results,
    load,
    seconds,
    standardised,
    versions,
)
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import make_blobs
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


def kahip(graph, k, seed):
    """Return KaHIP's parts (ECO), up to 1.3 times the mean size."""
    from kahip import kaffpa

    weights = np.maximum(1, np.round(graph.data / graph.data.max() * 1000)).astype(int)
    nodes = [1] * graph.shape[0]
    pointers, columns = graph.indptr.tolist(), graph.indices.tolist()
    parts = kaffpa(nodes, pointers, weights.tolist(), columns, k, 0.3, 1, seed, 1)[1]
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
    "graph cut, ratio": searched(cut="ratio"),
    "graph cut, ratio, 40 starts": searched(cut="ratio", n_init=40),
    "graph cut, ratio, spectral": searched(cut="ratio", init="spectral"),
    "graph cut, imbalance .3": searched(max_imbalance=0.3),
    "graph cut, imbalance .25": searched(max_imbalance=0.25),
    "graph cut, default": searched(min_cluster_size="auto"),
    "graph cut, auto": counted,
    "METIS": metis,
    "KaHIP": kahip,
    "Leiden": leiden,
    "spectral": spectral,
}


# Asked for by name: where the least ratio-cut is hard to find, and on isolet.
BY_NAME = (
    "graph cut, ratio, 40 starts",
    "graph cut, ratio, spectral",
    "graph cut, imbalance .25",
    "graph cut, default",
    "graph cut, auto",
)


def measure(cut, problem, seed):
    """Return cuts, agreement, smallest size and time of a method on a graph."""
    took, labels = seconds(cut, problem.graph, problem.n_clusters, seed)
    labels = np.unique(labels, return_inverse=True)[1]
    sizes = np.bincount(labels)
    agreement = np.nan
    if problem.y is not None:
        agreement = adjusted_rand_score(problem.y, labels)
    return (
        ratio_cut(problem.graph, labels).value,
        ratio_cut(problem.graph, labels, normalized=True).value,
        agreement,
        sizes.min() * problem.n_clusters / len(labels),
        len(sizes),
        took,
    )


def graphs(names, split, methods, n_seeds=2):
    """Print the table of a split."""
    METHODS["graph cut"](GRAPHS["choice"]["digits"](0).graph, 3, 0)  # compiles
    methods = methods or [name for name in METHODS if name not in BY_NAME]
    print("method: ratio-cut, normalised cut, ARI, smallest, clusters, seconds")
    for part in [split] if split else GRAPHS:
        for name, make in GRAPHS[part].items():
            if names and name not in names:
                continue
            problems = [make(seed) for seed in range(n_seeds)]
            n, m = problems[0].graph.shape[0], problems[0].graph.nnz // 2
            print(f"{name} ({part}): n={n} m={m} k={problems[0].n_clusters}")
            for method in list(methods):
                try:
                    rows = [
                        measure(METHODS[method], problem, seed)
                        for seed, problem in enumerate(problems)
                    ]
                except ImportError:
                    methods.remove(method)
                    continue
                means = np.mean(rows, axis=0)
                print(
                    f"    {method:24s} {means[0]:9.3f} {means[1]:8.4f} "
                    f"{means[2]:6.3f} {means[3]:6.3f} {means[4]:5.1f} {means[5]:7.2f}",
                    flush=True,
                )


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


def agree(make, method, n_seeds):
    """Return the adjusted Rand indices of ours and METIS', and both cuts, by seed.

    The normalised cuts are relative to that of the classes.
    """
    found = []
    for seed in range(n_seeds):
        problem = make(seed)
        labels = METHODS[method](problem.graph, problem.n_clusters, seed)
        parts = METHODS["METIS"](problem.graph, problem.n_clusters, seed)
        planted, cut, metis_cut = (
            ratio_cut(problem.graph, np.asarray(each, np.int64), normalized=True).value
            for each in (problem.y, labels, parts)
        )
        found.append(
            (
                adjusted_rand_score(problem.y, labels),
                adjusted_rand_score(problem.y, parts),
                cut / planted,
                metis_cut / planted,
            )
        )
    return found


def outcomes(names):
    """Print the agreement with classes by default, and that of METIS."""
    problems = {
        f"block model, mixing {mixing}, mean degree {degree}": (
            lambda seed, mixing=mixing, degree=degree: block_model(
                seed, mixing=mixing, mean_degree=degree
            ),
            "graph cut",
            n_seeds,
        )
        for mixing, degree, n_seeds in (
            (0.3, 15, 3),
            (0.3, 25, 10),
            (0.55, 15, 3),
            (0.55, 40, 3),
        )
    }
    problems |= {
        "LFR .5": (lambda seed: lfr(seed, mixing=0.5), "graph cut", 5),
        "karate": (lambda seed: karate(False), "graph cut", 5),
        "karate, weighted": (lambda seed: karate(True), "graph cut", 5),
    }
    for name, n_rows in (("digits", None), ("isolet", None), ("mnist_t10k", 5000)):
        problem = data(name, 10, n_rows=n_rows)
        bounded = "graph cut, imbalance .3"
        problems[f"{name}, bounded"] = (lambda seed, p=problem: p, bounded, 5)
        if name == "isolet":
            tighter = "graph cut, imbalance .25"
            problems[f"{name}, .25"] = (lambda seed, p=problem: p, tighter, 5)
        problem = data(name, 20, n_rows=n_rows, ranked=True)
        problems[f"{name}, ranked, bounded"] = (lambda seed, p=problem: p, bounded, 5)
    print("graph: ARI ours, least, METIS; normalised cut over that of classes, METIS")
    for name, (make, method, n_seeds) in problems.items():
        if names and name not in names:
            continue
        found = np.array(agree(make, method, n_seeds))
        ours, theirs, cut, metis_cut = found.mean(axis=0)
        print(
            f"{name}, {n_seeds} seeds: {ours:.3f}, {found[:, 0].min():.3f}, "
            f"{theirs:.3f}; {cut:.4f}, {metis_cut:.4f}",
            flush=True,
        )


# New samples.


N_FIT = 2000


N_NEW = 1000


# Images and spectra: their features have one unit, and are not standardised.
ONE_UNIT = {"digits", "isolet", "mnist_t10k", "usps_train"}


SETS = {
    "choice": ("digits", "wine", "breast_cancer", "iris", "blobs"),
    "report": (
        "zoo",
        "house_votes_84",
        "heart_statlog",
        "ecoli",
        "ctg",
        "letter",
        "movlib",
        "usps_train",
        "mnist_t10k",
        "isolet",
    ),
}


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
    if name == "blobs":
        X, y = make_blobs(
            1500, centers=12, n_features=10, cluster_std=4.0, random_state=0
        )
    else:
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


def by_encoder(**parameters):
    """Return the function that predicts by an encoder of PRCut."""

    def predict(part):
        model = PRCut(part.n_clusters, random_state=part.seed, **parameters)
        return model.fit(part.fitted).predict(part.new)

    return predict


def by_best_move(part):
    """Predict by the partition of the graph."""
    model = GraphCutClustering(part.n_clusters, random_state=part.seed)
    return model.fit(part.fitted).predict(part.new)


def nearest(n_neighbors):
    """Return the function that predicts by neighbours on the labels of the cut."""

    def predict(part):
        model = KNeighborsClassifier(n_neighbors).fit(part.fitted, part.labels)
        return model.predict(part.new)

    return predict


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
    "mlp": by_encoder(encoder="mlp"),
    "linear": by_encoder(encoder="linear"),
    "best move": by_best_move,
    "nearest": nearest(1),
    "10 nearest": nearest(10),
    "label spreading": label_spreading,
    "Nystrom": nystrom,
    "SpectralNet": spectral_net,
    "k-means": k_means,
}


def encoder(names, split, methods, first, n_splits=5):
    """Print the table of a split."""
    methods = methods or [method for method in EXTENSIONS if method != "linear"]
    print("set", *methods, sep=", ")
    times = np.zeros(len(methods))
    table = []
    for name in names or SETS[split or "report"]:
        X, y = scaled(name)
        rows = []
        for seed in range(first, first + n_splits):
            part = divide(X, y, seed)
            row = []
            for i, method in enumerate(methods):
                spent, labels = seconds(EXTENSIONS[method], part)
                times[i] += spent
                row.append(adjusted_rand_score(part.classes, labels))
            rows.append(row)
        table.append(np.mean(rows, axis=0))
        print(name, *(f"{value:.3f}" for value in table[-1]), sep=", ", flush=True)
    print("mean", *(f"{value:.3f}" for value in np.mean(table, axis=0)), sep=", ")
    print("seconds", *(f"{value:.1f}" for value in times), sep=", ")


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ["graphs", "outcomes", "fits", "encoder"]
    parser.add_argument("part", choices=parts)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--split", choices=["choice", "report", "networks"])
    parser.add_argument("--methods", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, help="or splits of the encoder")
    parser.add_argument("--first", type=int, default=100, help="split of the encoder")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(versions("scikit-learn", "numpy", "pymetis", "kahip", "leidenalg"))
    seeds = (options.seeds,) if options.seeds else ()
    names, split, methods = options.names, options.split, options.methods
    if options.part == "graphs":
        graphs(names, split, methods, *seeds)
    elif options.part == "fits":
        fits(names, *seeds)
    elif options.part == "encoder":
        encoder(names, split, methods, options.first, *seeds)
    else:
        outcomes(names)


if __name__ == "__main__":
    main()
