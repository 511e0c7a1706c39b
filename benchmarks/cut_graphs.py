"""Graphs with known groups, for `bench_cuts.py`: each a function of a seed.

The defaults of the search were chosen on others, but for football, the political blogs,
karate, the cells and LFR graphs of mixing .5 and .6.
"""

from typing import NamedTuple

import networkx as nx
import numpy as np
import scipy.sparse as sp
from shared import load, some, standardised
from sklearn.datasets import make_blobs
from sklearn.neighbors import kneighbors_graph


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
        from skdiffclust.cuts._graph import Affinity

        graph = Affinity("ranked_neighbors", n_neighbors, "euclidean", 1.0, "").fit(X)
    else:
        graph = neighbours(X, n_neighbors)
    return Problem(graph, y, len(np.unique(y)))


def network(name):
    """Return a network with its groups."""
    graph, y = load(name)
    return Problem(as_graph(graph), y, len(np.unique(y)))


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
