"""How low do graph cuts cut, how fast, beside peers?

    python benchmarks/bench_cuts.py PART

graphs    normalised cut, adjusted Rand index, number of clusters and seconds on graphs
          with known groups, beside METIS, Leiden and spectral clustering
calls     the same on networks of the functions of ten packages, and which name which
tables    the mean index on neighbours of at most 2000 samples of eleven tables
seeds     how much partitions of one graph by five random states agree, beside Leiden
sizes     bounds on sizes, beside k-means-constrained
cells     single cells: predictions for held-out ones, beside a fit to all

Both sides are given the same graph. Times are processor seconds on one thread. Peers
that are not installed are left out (pymetis, leidenalg, k-means-constrained). The
defaults of the search were chosen on other graphs, but for football, the political
blogs, karate, the cells and LFR graphs of mixing .5 and .6.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import ast
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from shared import TABLES, agreements, load, seconds, some, standardised, versions
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

from skdiffclust import GraphCutClustering
from skdiffclust.cuts import ratio_cut

# Graphs, each a function of a seed.


def as_graph(matrix):
    """Return a symmetric sparse matrix as a CSR array, float64, its entries merged."""
    graph = sp.csr_array(matrix, dtype=np.float64)
    graph.sum_duplicates()
    graph.indices = graph.indices.astype(np.int32)
    graph.indptr = graph.indptr.astype(np.int32)
    return graph


class Problem(NamedTuple):
    """A graph (n, n), its classes (n,) or None, and the number of parts to cut."""

    graph: sp.csr_array
    y: np.ndarray | None
    n_clusters: int


def block_model(seed, *, n=4000, k=6, mixing=0.3, mean_degree=15.0, exponent=2.5):
    """Return a degree-corrected block model with k equal blocks.

    Degrees are of a power law; a part `mixing` of the edges goes to any node. Pairs
    are drawn with replacement, as many as half the sum of degrees, and counted once.
    """
    rng = np.random.RandomState(seed)
    y = np.arange(n) % k
    propensity = (1.0 - rng.rand(n)) ** (-1.0 / (exponent - 1.0))
    propensity = np.minimum(propensity, np.sqrt(n))
    m = int(mean_degree * n / 2)
    anywhere = rng.rand(m) < mixing
    cumulated = np.cumsum(propensity)
    first = np.searchsorted(cumulated, rng.rand(m) * cumulated[-1])
    second = np.searchsorted(cumulated, rng.rand(m) * cumulated[-1])
    for block in range(k):
        members = np.flatnonzero(y == block)
        sums = np.cumsum(propensity[members])
        inside = np.flatnonzero(~anywhere & (y[first] == block))
        found = np.searchsorted(sums, rng.rand(len(inside)) * sums[-1])
        second[inside] = members[found]
    return Problem(_graph(first, second, n), y, k)


def trees(seed, *, n=1500, k=8):
    """Return a random tree in each of k groups, with few more edges there and between.

    Many branches are as sparsely linked to the rest as the groups.
    """
    rng = np.random.RandomState(seed)
    nodes = np.arange(k, n)
    parents = k * rng.randint(nodes // k) + nodes % k
    inside = k * rng.randint(n // k, size=(2, n // 10)) + rng.randint(k, size=n // 10)
    anywhere = rng.randint(n, size=(2, n // 16))
    first, second = np.concatenate([[nodes, parents], inside, anywhere], axis=1)
    return Problem(_graph(first, second, n), np.arange(n) % k, k)


def lfr(seed, *, n=1000, mixing=0.5, mean_degree=15, max_degree=50):
    """Return a graph of Lancichinetti, Fortunato and Radicchi, communities 20 to 100.

    Degrees of exponent 2 and sizes of exponent 1. Each node gives a part `mixing` of
    its ends to any node outside its community; ends are paired at random (the
    configuration model), double edges and loops dropped.
    """
    rng = np.random.RandomState(seed)
    low = max_degree
    for candidate in range(2, max_degree):  # the smallest degree for the mean asked
        values = np.arange(candidate, max_degree + 1)
        weights = values**-2.0
        if (values * weights).sum() / weights.sum() >= mean_degree:
            low = candidate
            break
    values = np.arange(low, max_degree + 1)
    degrees = rng.choice(values, size=n, p=values**-2.0 / (values**-2.0).sum())
    choices = np.arange(20, 101)
    sizes = []
    while sum(sizes) < n:
        sizes.append(rng.choice(choices, p=1.0 / choices / (1.0 / choices).sum()))
    sizes[-1] -= sum(sizes) - n
    if sizes[-1] < 20:
        sizes[0] += sizes.pop()
    sizes = np.array(sizes)
    inside = np.round((1.0 - mixing) * degrees).astype(int)
    # Nodes of most inner edges first, each to a community that is large enough.
    y = np.full(n, -1)
    room = sizes.copy()
    for i in np.argsort(-inside):
        fits = np.flatnonzero((sizes > inside[i]) & (room > 0))
        fits = fits if len(fits) else np.flatnonzero(room > 0)
        y[i] = rng.choice(fits, p=room[fits] / room[fits].sum())
        room[y[i]] -= 1
    ends = [_paired(rng, np.repeat(np.arange(n), degrees - inside))]
    for community in range(len(sizes)):
        members = np.flatnonzero(y == community)
        ends.append(_paired(rng, np.repeat(members, inside[members])))
    first, second = np.concatenate(ends, axis=1)
    return Problem(_graph(first, second, n), y, len(sizes))


def _paired(rng, ends):
    """Return ends (m,) paired at random, as an array (2, m // 2)."""
    ends = rng.permutation(ends)
    half = len(ends) // 2
    return np.stack([ends[:half], ends[half : 2 * half]])


def _graph(first, second, n):
    """Return the checked 0/1 graph of edges between first and second (m,)."""
    kept = first != second
    ones = np.ones(kept.sum())
    graph = sp.coo_array((ones, (first[kept], second[kept])), shape=(n, n))
    graph = sp.csr_array(graph + graph.T)
    graph.data[:] = 1.0
    return as_graph(graph)


def grid(height, width, k):
    """Return a grid of streets, without classes."""
    return Problem(
        as_graph(nx.adjacency_matrix(nx.grid_2d_graph(height, width))), None, k
    )


def power_law(seed):
    """Return a graph of Holme and Kim, without classes."""
    graph = nx.powerlaw_cluster_graph(3000, 4, 0.3, seed=seed)
    return Problem(as_graph(nx.adjacency_matrix(graph)), None, 10)


def karate(weighted):
    """Return Zachary's karate club, and the sides it split into."""
    club = nx.karate_club_graph()
    y = np.array([club.nodes[i]["club"] == "Officer" for i in club]).astype(int)
    graph = nx.adjacency_matrix(club, weight="weight" if weighted else None)
    return Problem(as_graph(graph), y, 2)


def neighbours(X, k):
    """Return the 0/1 graph of k nearest neighbours, either way."""
    graph = kneighbors_graph(X, k)
    return as_graph(graph.maximum(graph.T))


def data(name, n_neighbors, *, scaled=False, n_rows=None, ranked=False):
    """Return the neighbours graph of a data set, and its classes.

    With `ranked` the edges have the weights of affinity="ranked_neighbors".
    """
    X, y = load(name)
    if n_rows is not None:
        X, y = some(X, y, n_rows)
    if scaled:
        X = standardised(X)
    if ranked:
        from skdiffclust.cuts._graph import AffinityGraph

        graph = AffinityGraph(
            "ranked_neighbors", n_neighbors, "euclidean", 1.0, ""
        ).fit(X)
    else:
        graph = neighbours(X, n_neighbors)
    return Problem(graph, y, len(np.unique(y)))


def network(name):
    """Return a network with its groups."""
    graph, y = load(name)
    return Problem(as_graph(graph), y, len(np.unique(y)))


def calls_in(package, least=15):
    """Return the network of functions and classes of a package, and its parts.

    Nodes are those at the top of a module, but for tests. One that contains the name of
    another, which no third has, is linked to it. Parts are the modules and subpackages
    with at least 15 nodes in the largest component.
    """
    root = Path(find_spec(package).submodule_search_locations[0])
    nodes, parts = [], []
    for path in sorted(root.rglob("*.py")):
        folders = path.relative_to(root).with_suffix("").parts
        if not {"test", "tests", "testing"}.intersection(folders):
            body = ast.parse(path.read_bytes()).body
            found = [node for node in body if hasattr(node, "name")]
            nodes += found
            parts += [folders[0]] * len(found)
    names, place, counts = np.unique(
        [node.name for node in nodes], return_index=True, return_counts=True
    )
    place_of = dict(zip(names[counts == 1], place[counts == 1], strict=True))
    edges = set()
    for i, node in enumerate(nodes):
        for part in ast.walk(node):
            name = getattr(part, "id", getattr(part, "attr", None))
            if name in place_of:
                edges.add((i, place_of[name]))
    graph = _graph(*np.transpose(list(edges)), len(nodes))
    y = np.unique(parts, return_inverse=True)[1]
    for limit in (0, least, least):
        kept = np.flatnonzero(np.bincount(y)[y] >= limit)
        components = connected_components(graph[kept][:, kept])[1]
        kept = kept[components == np.bincount(components).argmax()]
        graph, y = as_graph(graph[kept][:, kept]), y[kept]
    y = np.unique(y, return_inverse=True)[1]
    return Problem(graph, y, y.max() + 1)


def unequal_blobs(seed):
    """Return the neighbours graph of seven blobs of 5 to 3000 rows."""
    sizes = [3000, 600, 200, 60, 30, 15, 5]
    rng = np.random.RandomState(seed)
    centers = 6.0 * rng.normal(size=(7, 9))
    X, y = make_blobs(sizes, centers=centers, cluster_std=3.0, random_state=seed)
    return Problem(neighbours(X, 10), y, 7)


GRAPHS = {
    "football": lambda seed: network("football"),
    "political blogs": lambda seed: network("polblogs"),
    "karate": lambda seed: karate(False),
    "karate, weighted": lambda seed: karate(True),
    "LFR .3": lambda seed: lfr(seed, mixing=0.3),
    "LFR .4": lambda seed: lfr(100 + seed, mixing=0.4),
    "LFR .5": lambda seed: lfr(seed, mixing=0.5),
    "LFR .6": lambda seed: lfr(100 + seed, mixing=0.6),
    "block model .3": lambda seed: block_model(seed, mixing=0.3, mean_degree=25),
    "block model .55": lambda seed: block_model(seed, mixing=0.55, mean_degree=25),
    "hubs": lambda seed: block_model(
        seed, n=1000, k=12, mixing=0.4, mean_degree=8, exponent=2.05
    ),
    "trees": trees,
    "cells": lambda seed: data("pbmc68k_reduced", 20, ranked=True),
    "isolet": lambda seed: data("isolet", 10),
    "mnist": lambda seed: data("mnist_t10k", 10, n_rows=5000),
    "ctg": lambda seed: data("ctg", 10, scaled=True),
    "unequal blobs": unequal_blobs,
    "grid 60 x 60": lambda seed: grid(60, 60, 9),
    "power law, clustered": power_law,
}


# Methods.


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
    """Return cut, agreement, number and time of a method on a graph."""
    took, labels = seconds(cut, problem.graph, problem.n_clusters, seed)
    agreement = np.nan
    if problem.y is not None:
        agreement = adjusted_rand_score(problem.y, labels)
    value = ratio_cut(problem.graph, labels, normalized=True).value
    return value, agreement, len(np.unique(labels)), took


def graphs(graphs_of=GRAPHS, n_seeds=2):
    """Print a line for each graph and method, and mean adjusted Rand indices."""
    METHODS["graph cut"](GRAPHS["karate"](0).graph, 2, 0)  # compiles
    indices = {method: [] for method in METHODS}
    print("method: normalised cut, ARI, clusters, seconds")
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
            cells = "{:8.4f} {:6.3f} {:5.1f} {:7.2f}".format(*means)
            print(f"    {method:24s} {cells}", flush=True)
    for method, found in indices.items():
        print(f"mean ARI of {len(found)}: {method:24s} {np.nanmean(found):.3f}")


# Defaults were chosen on none of these.
PACKAGES = (
    "docutils matplotlib networkx numba numpy pandas scipy sklearn sphinx sympy"
).split()


def calls():
    """Do the same for which functions of a package name which."""
    print(versions(*(name for name in PACKAGES if name != "sklearn")))
    graphs({name: lambda _, name=name: calls_in(name) for name in PACKAGES})


# Images and spectra: their features have one unit, and are not standardised.
ONE_UNIT = "isolet", "mnist_t10k", "usps_train"


def tables():
    """Do the same for graphs of nearest neighbours of tables, weighted by rank."""

    def of_table(name):
        is_scaled = name not in ONE_UNIT
        return data(name, "auto", scaled=is_scaled, n_rows=2000, ranked=True)

    names = [name for name in TABLES if name not in ("digits", "ecoli", "zoo")]
    graphs({name: lambda _, name=name: of_table(name) for name in names})


def seeds(n_seeds=5):
    """Print how much the labels of several random states agree, two by two."""
    print("graph: mean and least adjusted Rand index of two random states")
    for name, draw in GRAPHS.items():
        problem = draw(0)
        texts = []
        for method in ("graph cut", "Leiden"):
            found = [
                METHODS[method](problem.graph, problem.n_clusters, seed)
                for seed in range(n_seeds)
            ]
            pairs = agreements(found)
            texts.append(f"{method} {np.mean(pairs):.3f}, {np.min(pairs):.3f}")
        print(f"{name}: {'; '.join(texts)}", flush=True)


def sizes(n_seeds=2):
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
    X, _ = load("pbmc68k_reduced")
    print("clusters: prediction and joint fit, mean, least, most; both fits, mean")
    for k in ("auto", 6, 10):
        joint = GraphCutClustering(k, random_state=0).fit(X).labels_
        held_out, others = [], []
        for seed in range(n_splits):
            order = np.random.RandomState(seed).permutation(len(X))
            new, old = order[: len(X) // 5], order[len(X) // 5 :]
            model = GraphCutClustering(k, random_state=0).fit(X[old])
            held_out.append(adjusted_rand_score(joint[new], model.predict(X[new])))
            others.append(adjusted_rand_score(joint[old], model.labels_))
        figures = np.mean(held_out), min(held_out), max(held_out), np.mean(others)
        print(k, *np.round(figures, 3))


PARTS = {part.__name__: part for part in (graphs, calls, tables, seeds, sizes, cells)}


def main():
    """Run a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    names = "scikit-learn numpy pymetis leidenalg k-means-constrained"
    print(versions(*names.split()))
    PARTS[options.part]()


if __name__ == "__main__":
    main()
