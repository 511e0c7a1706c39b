"""Does the offline iteration of Section 6 of PRCut's paper find a low ratio-cut?

    python benchmarks/sinkhorn_prcut.py digits isolet usps_train

Among clusters of equal size the expected cut is linear minus the quadratic form
Tr(PᵀWP), so, as the paper suggests, P becomes the matrix nearest exp(W P / T), in the
sense of Sinkhorn and Knopp, whose rows sum to one and columns to n / k, while T falls;
and, since no data set has clusters of one size, again with columns that sum to what the
softmax of the rows of the last iteration gives them. Beside both the search of
PRCut(cut="ratio", init="random"). Ratio-cuts relative to spectral clustering, medians
of 5 seeds.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import warnings

import numpy as np
from bench_prcut import N_NEIGHBORS, load, neighbours
from sklearn.cluster import SpectralClustering

from skdiffclust import PRCut
from skdiffclust._assignments import softmax
from skdiffclust.cuts import ratio_cut
from skdiffclust.cuts._local_search import local_search

# Falling temperatures, times n_clusters: above 1 the assignments become all alike.
TEMPERATURES = np.geomspace(1.0, 0.1, 500)


def scaled(logits, sizes, n_steps=20):
    """Return the matrix (n, k) nearest exp(logits), rows to one, columns to sizes."""
    kernel = np.exp(logits - logits.max(axis=1, keepdims=True))
    rows = np.ones(len(kernel))
    for _ in range(n_steps):
        columns = sizes / (rows @ kernel)
        rows = 1.0 / (kernel @ columns)
    return rows[:, None] * kernel * columns


def iterate(graph, k, free, seed):
    """Return the labels (n,) where the iteration from random assignments ends."""
    n = graph.shape[0]
    degrees = np.maximum(graph.sum(axis=1), 1e-12)[:, None]
    P = np.random.RandomState(seed).dirichlet(np.ones(k), size=n)
    sizes = np.full(k, n / k)
    for temperature in TEMPERATURES / k:
        P = scaled((graph @ P) / degrees / temperature, sizes)
        if free:
            sizes = softmax((graph @ P) / degrees / temperature).sum(axis=0)
    return P.argmax(axis=1)


def main(names):
    """Print the ratio-cut and the clusters used, raw and after a local search."""
    warnings.simplefilter("ignore")
    for name in names:
        X, y = load(name)
        graph, k = neighbours(X, N_NEIGHBORS[name]), len(np.unique(y))
        peer = SpectralClustering(k, affinity="precomputed", random_state=0).fit(graph)
        spectral = ratio_cut(graph, peer.labels_.astype(np.int64)).value
        for free in (False, True):
            found = [iterate(graph, k, free, seed) for seed in range(5)]
            cuts = [ratio_cut(graph, labels) for labels in found]
            moved = [
                ratio_cut(graph, local_search(graph, labels, k)) for labels in found
            ]
            for what, values in {"": cuts, ", local search": moved}.items():
                ratio = np.median([value.value for value in values]) / spectral
                used = min(value.n_clusters for value in values)
                kind = "sizes free" if free else "sizes equal"
                print(f"{name}, {kind}{what}: {ratio:.3f}, {used} of {k}", flush=True)
        searched = [
            PRCut(k, cut="ratio", init="random", random_state=seed)
            .fit(X, graph=graph)
            .ratio_cut_
            for seed in range(5)
        ]
        print(f"{name}, search: {np.median(searched) / spectral:.3f}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["digits", "isolet"])
