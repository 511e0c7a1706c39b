"""Parts of bench_rules.py on graphs: the number of clusters, labels and candidates.

    python benchmarks/bench_rules.py graphs candidates --save FILE
    python benchmarks/bench_rules.py graphs cells

candidates  how often the number of "auto" is right, by family, with and without a
            warning, the adjusted Rand index with it and at the true number, and how
            often nothing is said of graphs and samples without structure. What is in
            FILE is not computed again.
cells       sets of cells and draws beside Leiden at resolution 1, from principal
            components (for Leiden 15 neighbours) and from the connectivities of scanpy:
            the number, the index with it and at the true number (of Leiden: at the
            resolution that comes next to it), and how much five seeds agree.
            leidenalg and umap-learn are needed.
ablation    what the number and the index are with parts of the rule changed, of the
            labels that belong to the curve.

Draws and sets were divided before anything was measured: draws of even numbers and
every other set by name, from the first one on, chose; the others report.
"""

import warnings
from functools import partial

import networkx as nx
import numpy as np
import scipy.sparse as sp
from bench_cuts import PACKAGES, block_model, calls_in, lfr, network
from data_sets import CELLS
from rules_centres import (
    FAMILIES,
    WITHOUT,
    print_rows,
    results_in,
    tables,
)
from shared import agreements, interval, load, seconds, those_here, versions
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

from skdiffclust import GraphCutClustering, PRCut
from skdiffclust.cuts import _choice, _graph, _starts
from skdiffclust.cuts._graph import GraphSettings, read_samples
from skdiffclust.cuts._partition import SearchSettings, pose, size_bounds


def target(rng):
    """Return a disc in a ring, samples (500, 2)."""
    y = np.repeat([0, 1], [200, 300])
    angle = rng.uniform(0, 2 * np.pi, 500)
    radius = np.where(y == 0, np.sqrt(rng.uniform(size=500)), 3.0)
    points = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return points + rng.normal(scale=0.08, size=(500, 2)), y


def chainlink(rng):
    """Return two linked rings, samples (600, 3)."""
    y = np.arange(600) % 2
    angle = rng.uniform(0, 2 * np.pi, 600)
    one = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(600)])
    other = np.column_stack([1 + np.cos(angle), np.zeros(600), np.sin(angle)])
    points = np.where(y[:, None] == 0, one, other)
    return points + rng.normal(scale=0.08, size=(600, 3)), y


def beside_noise(draw):
    """Return the function that adds eight features of noise to a draw."""

    def noisy(rng):
        X, y = draw(rng)
        return np.c_[X, rng.normal(scale=0.1, size=(len(X), 8))], y

    return noisy


def ring(rng):
    """Return two rings, samples (500, 2)."""
    return make_circles(500, factor=0.5, noise=0.04, random_state=rng)


def drawn_cells(rng):
    """Return counts of types of unequal sizes, and a few doublets, as log counts."""
    k = rng.randint(4, 12)
    shares = np.maximum(rng.dirichlet(np.full(k, 1.0)), 0.02)
    y = rng.choice(k, 900, p=shares / shares.sum())
    means = np.exp(
        rng.normal(size=300)
        + 1.2 * rng.normal(size=(k, 300)) * (rng.uniform(size=(k, 300)) < 0.15)
    )
    means /= means.sum(axis=1, keepdims=True)
    depth = 1500 * np.exp(0.4 * rng.normal(size=900))
    rates = means[y]
    doublets = rng.choice(900, 27, replace=False)
    rates[doublets] = (rates[doublets] + means[rng.choice(k, 27)]) / 2
    rates = rates * depth[:, None]
    counts = rng.poisson(rng.gamma(2.0, rates / 2.0))
    logs = np.log1p(1e4 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
    logs -= logs.mean(axis=0)
    u, s, _ = np.linalg.svd(logs, full_matrices=False)
    return u[:, :30] * s[:30], y


SAMPLES = {
    "blobs, 6 sd apart": FAMILIES["blobs, 6 sd apart"],
    "blobs, 3.5 sd apart": FAMILIES["blobs, 3.5 sd apart"],
    "unequal sizes": FAMILIES["unequal sizes"],
    "moons": lambda rng: make_moons(500, noise=0.08, random_state=rng),
    "rings": ring,
    "target": target,
    "chainlink": chainlink,
    "ring, 8 of noise": beside_noise(ring),
    "target, 8 of noise": beside_noise(target),
    "chainlink, 8 of noise": beside_noise(chainlink),
    "drawn cells": drawn_cells,
}


def as_pair(problem):
    """Return the graph and the classes of a Problem."""
    return problem.graph, problem.y


def sparse_lfr(number):
    """Return a sparse network of Lancichinetti, Fortunato and Radicchi."""
    mixing = (0.2, 0.3, 0.4)[number % 3]
    n = (600, 1000, 1500)[number // 3 % 3]
    degree = (5, 7, 9)[number // 9 % 3]
    return as_pair(lfr(5000 + number, n=n, mixing=mixing, mean_degree=degree))


NETWORKS = {
    "LFR": lambda number: as_pair(lfr(7000 + number, mixing=0.3 + 0.05 * (number % 6))),
    "LFR, sparse": sparse_lfr,
    "block model": lambda number: as_pair(
        block_model(7000 + number, mixing=0.3 + 0.05 * (number % 6), mean_degree=15)
    ),
    "block model, hubs": lambda number: as_pair(
        block_model(
            7100 + number,
            n=1000,
            k=6 + number % 6,
            mixing=0.35,
            mean_degree=8,
            exponent=2.2,
        )
    ),
}


def random_graph(number):
    """Return an Erdős–Rényi graph or one of given degrees, without communities."""
    if number % 2:
        graph = nx.gnm_random_graph(600, 600 * (3 + number), seed=number)
    else:
        graph = nx.barabasi_albert_graph(600, 3 + number, seed=number)
    return sp.csr_array(nx.adjacency_matrix(graph).astype(float))


def fitted(X, n_clusters, is_network, cls=GraphCutClustering, **parameters):
    """Return a fitted model, and whether it warned of its number."""
    affinity = "precomputed" if is_network else "ranked_neighbors"
    model = cls(n_clusters, affinity=affinity, random_state=0, **parameters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    return model, any("no clear" in str(w.message) for w in caught)


def row_of(X, y, is_network, cls=GraphCutClustering, **parameters):
    """Return what is written down of a fit."""
    spent, (model, warned) = seconds(fitted, X, "auto", is_network, cls, **parameters)
    found = getattr(model, "n_clusters_candidates_", None)
    found = [model.n_clusters_] if found is None else found.tolist()
    k = None if y is None else len(np.unique(y))
    at_true = None
    if k is not None:
        labels = fitted(X, k, is_network, cls, **parameters)[0].labels_
        at_true = adjusted_rand_score(y, labels)
    return {
        "ari": None if y is None else adjusted_rand_score(y, model.labels_),
        "ari_true": at_true,
        "k": k,
        "chosen": int(model.n_clusters_),
        "right": bool(model.n_clusters_ == k),
        "warned": warned,
        "candidates": found,
        "objective": getattr(model, "objective_", ""),
        "s": spent,
    }


def sets(half, n_draws=8):
    """Yield (family, number, X, y, is_network) of a half, 0 chose, 1 reports."""
    for place, (family, draw) in enumerate(SAMPLES.items()):
        for number in range(half, n_draws, 2):
            X, y = draw(np.random.RandomState([900 + place, number]))
            yield family, number, X, y, False
    for place, name in enumerate(sorted(CELLS)):
        if place % 2 == half:
            yield "cells", name, *load(name), False
    for place, (name, X, y) in enumerate(tables(1000)):
        if place % 2 == half:
            yield "tables", name, X, y, False
    for family, draw in NETWORKS.items():
        for number in range(half, n_draws, 2):
            yield family, number, *draw(number), True
    real = [*those_here("football", "polblogs"), *PACKAGES]
    for place, name in enumerate(sorted(real)):
        if place % 2 == half:
            problem = calls_in(name) if name in PACKAGES else network(name)
            yield "real networks", name, *as_pair(problem), True
    for place, (family, draw) in enumerate(WITHOUT.items()):
        X = draw(np.random.RandomState([950 + place, half]))
        yield f"{family}, nothing", half, X, None, False
    for number in range(half, 10, 2):
        yield "random graphs", number, random_graph(number), None, True


# One epoch: the number does not depend on the training.
MODELS = {
    "GraphCutClustering": (GraphCutClustering, {}),
    "PRCut": (PRCut, {"max_iter": 1}),
}


def candidates(options):
    """Print the tables of both models."""
    for name, (cls, parameters) in MODELS.items():
        print(name)
        with results_in(options.save) as results:
            pairs = [
                (
                    family,
                    results.once(
                        [name, family, number],
                        partial(row_of, cls=cls, **parameters),
                        X,
                        y,
                        is_network,
                    ),
                )
                for family, number, X, y, is_network in sets(options.half == "report")
            ]
        print_rows(pairs)


def neighbors(X):
    """Return the graph of 15 neighbours, all of the weight 1."""
    graph = kneighbors_graph(X, 15)
    return graph.maximum(graph.T)


def connectivities(X):
    """Return what scanpy stores as ``obsp["connectivities"]``, of 15 neighbours."""
    from umap.umap_ import fuzzy_simplicial_set

    state = np.random.RandomState(0)
    return sp.csr_array(fuzzy_simplicial_set(X, 15, state, "euclidean")[0], dtype=float)


def leiden(graph, seed=0, resolution=1.0):
    """Return Leiden's clusters of a weighted graph."""
    import igraph
    import leidenalg

    edges = sp.triu(graph, 1).tocoo()
    pairs = np.column_stack([edges.row, edges.col])
    found = leidenalg.find_partition(
        igraph.Graph(graph.shape[0], pairs.tolist()),
        leidenalg.RBConfigurationVertexPartition,
        weights=edges.data.tolist(),
        resolution_parameter=resolution,
        seed=seed,
    )
    return np.array(found.membership)


def leiden_at(graph, k):
    """Return Leiden's clusters whose number is next to k, of twelve resolutions."""
    low, high = np.log([0.01, 10.0])
    best = None
    for _ in range(12):
        middle = (low + high) / 2
        labels = leiden(graph, resolution=np.exp(middle))
        number = labels.max() + 1
        if best is None or abs(number - k) < abs(best.max() + 1 - k):
            best = labels
        if number == k:
            break
        low, high = (middle, high) if number < k else (low, middle)
    return best


def row_beside_leiden(X, y):
    """Return numbers, indices and agreements of a set, for both of its graphs."""
    found = {"k": len(np.unique(y))}
    given = connectivities(X)
    for name, ours, theirs in (("PCA", X, neighbors(X)), ("graph", given, given)):
        is_graph = name == "graph"
        row = row_of(ours, y, is_graph)
        affinity = "precomputed" if is_graph else "ranked_neighbors"
        cuts = [
            GraphCutClustering("auto", affinity=affinity, random_state=seed)
            .fit(ours)
            .labels_
            for seed in range(5)
        ]
        communities = [leiden(theirs, seed) for seed in range(5)]
        found[name] = {
            "numbers": (row["chosen"], int(communities[0].max()) + 1),
            "auto": (row["ari"], adjusted_rand_score(y, communities[0])),
            "at k": (
                row["ari_true"],
                adjusted_rand_score(y, leiden_at(theirs, found["k"])),
            ),
            "seeds": (
                float(np.mean(agreements(cuts))),
                float(np.mean(agreements(communities))),
            ),
        }
    return found


def sets_of_cells():
    """Yield part, name, X and y: sets that chose or report, one apart, and draws."""
    for place, name in enumerate(sorted(CELLS)):
        yield ("chose", "report")[place % 2], name.split("/")[1], *load(name)
    yield "apart", "pbmc68k_reduced", *load("pbmc68k_reduced")
    for number in range(1, 16, 2):
        draw = drawn_cells(np.random.RandomState([910, number]))
        yield "draws", f"draw {number}", *draw


def cells(options):
    """Print each set of cells, and the means by part, with intervals of differences."""
    print(versions("leidenalg", "igraph", "umap-learn"))
    print("each figure: ours and Leiden's; number, index, index at k, seeds")
    rows = {}
    with results_in(options.save) as results:
        for part, name, X, y in sets_of_cells():
            row = results.once(["cells", name], row_beside_leiden, X, y)
            rows.setdefault(part, []).append(row)
            for of in ("PCA", "graph"):
                figures = ", ".join(
                    " ".join(f"{value:.4g}" for value in pair)
                    for pair in row[of].values()
                )
                print(f"   {name}, {len(X)}, {row['k']}, {of}: {figures}", flush=True)
    print("part, from: index ours, Leiden, difference; the same at k; of seeds")
    for part, found in rows.items():
        for of in ("PCA", "graph"):
            texts = []
            for what in ("auto", "at k", "seeds"):
                ours, theirs = np.transpose([row[of][what] for row in found])
                gain = interval(ours - theirs)
                texts.append(f"{ours.mean():.3f}, {theirs.mean():.3f}, {gain}")
            right = np.transpose(
                [np.equal(row[of]["numbers"], row["k"]) for row in found]
            )
            print(part, of, "; ".join(texts), "right", *right.sum(axis=1))
    X, y = load("pbmc68k_reduced")
    graph = connectivities(X)
    print("pbmc68k_reduced, connectivities and their edges with the weight 1:")
    for values in (graph.data, np.ones_like(graph.data)):
        weighted = sp.csr_array((values, graph.indices, graph.indptr))
        row = row_of(weighted, y, True)
        sizes = np.bincount(fitted(weighted, "auto", True)[0].labels_)
        print(f"   {row['chosen']}, {row['ari']:.3f}, {row['ari_true']:.3f}, {sizes}")


# Changes of the rule, one at a time: module, name and value.
CHOICES = {
    "as it is": (),
    "offset .2 halved": (_choice, "_OFFSET", 0.1),
    "offset .2 doubled": (_choice, "_OFFSET", 0.4),
    "without steep steps": (_choice, "_STEEP", np.inf),
    "steep 4 halved": (_choice, "_STEEP", 2.0),
    "steep 4 doubled": (_choice, "_STEEP", 8.0),
    "flat 1.7 halved": (_choice, "_FLAT", 0.85),
    "flat 1.7 doubled": (_choice, "_FLAT", 3.4),
    "1000 nodes halved": (_choice, "_LEAST_NODES", 500),
    "1000 nodes doubled": (_choice, "_LEAST_NODES", 2000),
    "half of the modularity halved": (_choice, "_LEAST_MODULARITY", 0.25),
    "half of the modularity doubled": (_choice, "_LEAST_MODULARITY", 1.0),
}
SEARCHES = {
    "15 numbers halved": (_choice, "FIRST", 8),
    "15 numbers doubled": (_choice, "FIRST", 30),
    "a tenth halved": (_choice, "_STEP", 1.05),
    "a tenth doubled": (_choice, "_STEP", 1.2),
    "3 nodes for a cluster doubled": (_choice, "_NODES_PER_CLUSTER", 6),
    "3 starts halved": (_choice, "_MOST_STARTS", 1),
    "3 starts doubled": (_choice, "_MOST_STARTS", 6),
    "a fifth of the mean size halved": (_starts, "_AUTO_SHARE", 0.1),
    "a fifth of the mean size doubled": (_starts, "_AUTO_SHARE", 0.4),
    "small parts are clusters": (_graph, "_LEAST_PART", 0.0),
    "a tenth, of parts, halved": (_graph, "_LEAST_PART", 0.05),
    "a tenth, of parts, doubled": (_graph, "_LEAST_PART", 0.2),
    "10 neighbours halved": (_graph, "_LEAST_RANKED", 5),
    "10 neighbours doubled": (_graph, "_LEAST_RANKED", 20),
    "20 neighbours halved": (_graph, "_MOST_RANKED", 10),
    "20 neighbours doubled": (_graph, "_MOST_RANKED", 40),
    "first rank 2 halved": (_graph, "_FIRST_RANK", 1.0),
    "first rank 2 doubled": (_graph, "_FIRST_RANK", 4.0),
}
LABELS = {
    "labels of the lowest cut": (_starts, "MEAN_CUT", np.inf),
    "labels: mean cut .07 halved": (_starts, "MEAN_CUT", 0.035),
    "labels: mean cut .07 doubled": (_starts, "MEAN_CUT", 0.14),
}


def with_change(change, function, *arguments):
    """Return what a function returns after a change of a module."""
    if not change:
        return function(*arguments)
    module, name, value = change
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        return function(*arguments)
    finally:
        setattr(module, name, before)


def curve_of(X, is_network):
    """Return the nodes of a graph, and their curve."""
    affinity = "precomputed" if is_network else "ranked_neighbors"
    graph = GraphSettings("", affinity, "auto", "euclidean", 1.0, "normalized")
    samples = read_samples(graph, X)
    joins_neighbors = samples.joins_neighbors
    problem = pose(
        samples.graph,
        samples.groups,
        None,
        None,
        normalized=True,
        joins_neighbors=joins_neighbors,
    )
    nodes = _starts.make_nodes(
        samples.graph,
        problem.groups,
        _choice.FIRST,
        divisors=samples.graph.sum(axis=1),
        sizes=problem.sizes,
        apart=problem.apart,
        joins_neighbors=joins_neighbors,
    )
    rows = np.unique(problem.groups, return_index=True)[1][~nodes.small]
    random_state = np.random.RandomState(0)
    bounds_of = partial(size_bounds, SearchSettings(graph, "auto"))
    curve = _choice.cut_curve(
        nodes.large, 1, bounds_of, random_state, most_starts=_choice._MOST_STARTS
    )
    return nodes.large, rows, curve


def found_in(nodes, rows, curve, y):
    """Return whether the number of a curve is right, and the index of its labels."""
    number, _ = _choice.choose_n_clusters(curve.columns, len(nodes.sizes))
    labels = curve.labels_of[number]
    if number > 1:
        other = _starts.search_modular(nodes, number, 2, np.random.RandomState(0))
        if _starts.is_better(nodes, number, labels, other):
            labels = other
    return float(number == len(np.unique(y))), adjusted_rand_score(y[rows], labels)


def ablation(options):
    """Print what each change does to the number and the index, by kind of graph."""
    half = options.half == "report"
    found = {}
    with results_in(options.save) as results:
        for family, number, X, y, is_network in sets(half, 4):
            if y is None:
                continue
            kind = "networks" if is_network else "neighbours"
            kept = {}

            def search(change, X=X, is_network=is_network, kept=kept):
                if change not in kept:
                    kept[change] = with_change(change, curve_of, X, is_network)
                return kept[change]

            for change, values in (CHOICES | SEARCHES | LABELS).items():

                def row(change=change, values=values, search=search, y=y):
                    found = search(values if change in SEARCHES else ())
                    return with_change(values, found_in, *found, y)

                one = results.once([change, family, number], row)
                found.setdefault((kind, change), []).append(one)
    print("change, right, ARI, ARI less that of the rule")
    for kind in ("neighbours", "networks"):
        first = np.array(found[kind, "as it is"])[:, 1]
        print(f"{kind}, {len(first)} graphs")
        for change in CHOICES | SEARCHES | LABELS:
            right, ari = np.transpose(found[kind, change])
            gain = interval(ari - first)
            print(f'   "{change}", {right.mean():.3f}, {ari.mean():.3f}, "{gain}"')


PARTS = {part.__name__: part for part in (candidates, cells, ablation)}
