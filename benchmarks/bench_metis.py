"""Cut a large graph of neighbours by PRCut's search and by METIS, in alternating pairs.

    python benchmarks/bench_metis.py [NODES ...]

Graphs of 12 nearest neighbours of 20 overlapping blobs in 8 and in 3 dimensions,
ratio-cut and seconds of the processor, one thread: METIS (parts up to 1.3 times the
mean size) and one start of the search, by turns for each seed, and the ten starts of
the default once. The graph is given, and its check is not timed.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from importlib.metadata import version

import numpy as np
import pymetis
from sklearn.datasets import make_blobs

from skdiffclust.cuts import ratio_cut
from skdiffclust.cuts._graph import either_way
from skdiffclust.cuts._multilevel import search
from skdiffclust.cuts._neighbors import neighbors_graph
from skdiffclust.cuts._ratio_cut import check_graph

N_CLUSTERS = 20


def make_graph(n_nodes, n_features):
    """Return the graph (n, n) of neighbours of overlapping blobs."""
    X, _ = make_blobs(
        n_nodes,
        centers=N_CLUSTERS,
        n_features=n_features,
        cluster_std=3.0,
        random_state=0,
    )
    graph = either_way(neighbors_graph(X, 12, "euclidean"))
    return check_graph(graph, caller="benchmark")


def metis(graph, seed):
    """Return METIS' parts."""
    parts = pymetis.part_graph(
        N_CLUSTERS,
        pymetis.CSRAdjacency(graph.indptr, graph.indices),
        options=pymetis.Options(ufactor=300, seed=seed),
        recursive=False,
    )[1]
    return np.array(parts)


def timed(cut, graph, *arguments):
    """Return the ratio-cut and the seconds of a method."""
    begun = time.process_time()
    labels = cut(graph, *arguments)
    took = time.process_time() - begun
    return ratio_cut(graph, labels).value, took


def ours(graph, seed, n_starts):
    """Return the labels of the search."""
    return search(graph, N_CLUSTERS, n_starts, np.random.RandomState(seed))


def main():
    """Print the pairs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nodes", nargs="*", type=int, default=[200_000])
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    print("pymetis", version("pymetis"))
    ours(make_graph(25_000, 3), 0, 2)  # compiles
    for n_nodes in arguments.nodes:
        for n_features in (8, 3):
            graph = make_graph(n_nodes, n_features)
            print(f"{n_nodes} nodes, {graph.nnz // 2} edges, {n_features} features")
            for seed in range(arguments.seeds):
                theirs, their_time = timed(metis, graph, seed)
                cut, took = timed(ours, graph, seed, 1)
                print(
                    f"    METIS {theirs:8.4f} in {their_time:6.2f} s, one start "
                    f"{cut:8.4f} in {took:6.2f} s: {took / their_time:.2f} times",
                    flush=True,
                )
            cut, took = timed(ours, graph, 0, 10)
            print(f"    ten starts {cut:8.4f} in {took:6.2f} s", flush=True)


if __name__ == "__main__":
    main()
