"""Spanning trees against the libraries that grow them, and memberships of samples.

    python -m venv forest && forest/bin/pip install -r benchmarks/requirements.txt
    PYTHONPATH=. forest/bin/python benchmarks/bench_forest.py points dense sparse

Each line has the median time of ours, that of the peer, the median of the ratios of
runs that followed each other, the same ratio of processor time (which a busy machine
disturbs less), and the relative difference of the total weights of the two trees. A
peer that takes more than half a minute runs once, one that is not installed not at all.
Trees are those of the public `minimum_spanning_tree`, with its checks. Parts:

points, few, ten, wide, million (Euclidean trees), fits (whole fits beside the tree of
the peer, also of integers and with min_samples=10), steps (fits where the algorithm
may change), dense, dense_fit (matrices), sparse (graphs), growth (an hour), blocks (a
tree from a file, beside that in memory; with ``--record FILE`` the table of these two
goes to a CSV file), dask (with dask.distributed; a thread a process, so set
OMP_NUM_THREADS=1 and NUMBA_NUM_THREADS=1, for blocks as well).

calibration  memberships over 100 trees under noise, and how often 100 held-out ones of
             another seed agree, and the largest is of the right class, by membership
consensus    the adjusted Rand index of the cut of the tree, and of the consensus, on
             tables at the true number, and processor seconds
posteriors   the calibration error of memberships where posteriors are known: under
             noise, and cheaper ones that were tried; and what these take beside a fit
"""

import argparse
import os
import tempfile
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

# Threads that spin while they wait would take the other thread's processor.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, triu
from scipy.sparse.csgraph import minimum_spanning_tree as scipy_tree
from scipy.spatial.distance import cdist, pdist, squareform
from scipy.special import softmax
from shared import both_clocks, interval, peak_memory, record, seconds, tables, versions
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

import skdiffclust
from skdiffclust import SpanningForestClustering
from skdiffclust.forests import (
    minimum_spanning_tree,
    minimum_spanning_tree_by_blocks,
)
from skdiffclust.forests._hierarchy._core_sizes import core_radii

N_RUNS = 5
# Powers of ten of samples, by the number of features.
GROWTH = {3: (4, 5, 6, 7), 10: (3, 4, 5, 6), 50: (3, 4, 5, 6)}
# Powers of ten of samples of three features, in files.
IN_FILES = (5, 6, 7)
BLOCKS_HEADER = ["samples", "tree", "seconds", "bytes / sample"]
GROWTH_HEADER = ["features", "samples", "seconds", "exponent", "memory / data"]


def compare(case, ours, peers, data):
    """Print a line for each peer."""
    for name, peer in peers.items():
        runs = []
        for _ in range(N_RUNS):
            wall, cpu, weight = both_clocks(ours, data)
            try:
                peer_wall, peer_cpu, peer_weight = both_clocks(peer, data)
            except ModuleNotFoundError:
                print(f"{case:22} {name:14} is not installed", flush=True)
                break
            runs.append((wall, peer_wall, peer_wall / wall, peer_cpu / cpu))
            if peer_wall > 30:
                break
        if not runs:
            continue
        wall, peer_wall, ratio, cpu_ratio = np.median(runs, axis=0)
        print(
            f"{case:22} {name:14} ours {wall:8.3f} s  peer {peer_wall:8.3f} s  ratio "
            f"{ratio:6.2f}  of processor time {cpu_ratio:6.2f}  "
            f"weights differ by {abs(weight - peer_weight) / weight:.0e}",
            flush=True,
        )


def weight_of_tree(X, metric="euclidean"):
    """Return the total length of our tree."""
    return minimum_spanning_tree(X, metric=metric).lengths.sum()


def weight_of_matrix(D):
    """Return the total length of our tree of a matrix or a graph."""
    return weight_of_tree(D, "precomputed")


def scipy_weight(D):
    """Return that of scipy's, of a matrix or a graph."""
    return scipy_tree(D).sum()


def quitefastmst_on_points(X, M=0):
    import quitefastmst

    return quitefastmst.mst_euclid(X, M)[0].sum()


def fast_hdbscan_on_points(X):
    from fast_hdbscan.hdbscan import compute_minimum_spanning_tree

    return compute_minimum_spanning_tree(X, min_samples=1)[0][:, 2].sum()


def fastcluster_on_points(X):
    import fastcluster

    return fastcluster.linkage_vector(X, method="single")[:, 2].sum()


def genieclust_on_points(X):
    import genieclust

    # Without a Gini threshold it is single linkage; it keeps its tree.
    model = genieclust.Genie(n_clusters=2, gini_threshold=1.0).fit(X)
    return model._tree_d_.sum()


def sklearn_on_matrix(D):
    """Return the total length of single linkage."""
    model = AgglomerativeClustering(
        None, metric="precomputed", linkage="single", distance_threshold=0.0
    )
    return model.fit(D).distances_.sum()


def hdbscan_on_matrix(D):
    from hdbscan._hdbscan_linkage import mst_linkage_core

    return mst_linkage_core(D)[:, 2].sum()


def normal(n_samples, n_features):
    return np.random.default_rng(0).normal(size=(n_samples, n_features))


def manifold(n_samples, n_features):
    """Rows on a curved 3-dimensional manifold."""
    rng = np.random.default_rng(0)
    return np.sin(rng.uniform(size=(n_samples, 3)) @ rng.normal(size=(3, n_features)))


POINT_PEERS = {
    "quitefastmst": quitefastmst_on_points,
    "genieclust": genieclust_on_points,
    "fast_hdbscan": fast_hdbscan_on_points,
    "fastcluster": fastcluster_on_points,
}


def trees(X, *names):
    """Compare trees of points with those of peers, by default of quitefastmst."""
    peers = {name: POINT_PEERS[name] for name in names or ["quitefastmst"]}
    compare(f"{X.shape[0]} x {X.shape[1]}", weight_of_tree, peers, X)


def points():
    """Compare trees of 10 000 to 50 000 points."""
    trees(normal(10_000, 50), "quitefastmst", "fastcluster")
    trees(manifold(20_000, 50))
    trees(normal(50_000, 10))


def few():
    """Compare trees of 100 000 points of few features."""
    for d in (2, 3):
        trees(normal(100_000, d), "quitefastmst", "genieclust", "fast_hdbscan")


def weight_of_fit(X, **parameters):
    """Return the total length of the tree of a fit, with cuts and labels."""
    return SpanningForestClustering(10, **parameters).fit(X).edge_lengths_.sum()


def fits():
    """Compare fits to 100 000 points and to integers with the tree of the peer.

    Then the same with `min_samples`, where the peer does not count the sample itself.
    """
    peers = {"quitefastmst": quitefastmst_on_points}
    integers = np.random.default_rng(0).integers(0, 4, (30_000, 10)) * 1.0
    few = normal(100_000, 2), normal(100_000, 3)
    for X in (*few, integers):
        compare(f"fit {X.shape[0]} x {X.shape[1]}", weight_of_fit, peers, X)
    raised = partial(weight_of_fit, min_samples=10)
    peers = {"quitefastmst": partial(quitefastmst_on_points, M=9)}
    for X in (*few, normal(30_000, 10)):
        compare(f"min_samples {X.shape[0]} x {X.shape[1]}", raised, peers, X)


def steps():
    """Print times of fits to sizes around which another algorithm could be taken."""
    for n_samples in (2999, 3001, 5000, 5001):
        X = normal(n_samples, 2)
        spent = [seconds(weight_of_fit, X)[0] for _ in range(15)]
        print(f"fit {n_samples} x 2: processor {1e3 * np.median(spent):.1f} ms")


def dense():
    """Compare trees of a distance matrix."""
    peers = {
        "scipy": scipy_weight,
        "scikit-learn": sklearn_on_matrix,
        "hdbscan": hdbscan_on_matrix,
    }
    D = squareform(pdist(normal(10_000, 10)))
    compare("matrix 10 000", weight_of_matrix, peers, D)


def dense_fit():
    """Compare fits to a distance matrix, with all checks, with linkage and labels."""
    peers = {"scipy linkage": lambda D: linkage(squareform(D), "single")[:, 2].sum()}
    for n_samples in (8000, 10_000):
        D = squareform(pdist(normal(n_samples, 10)))
        ours = partial(weight_of_fit, metric="precomputed")
        compare(f"fit {n_samples}", ours, peers, D)
        peers = {"scikit-learn": sklearn_on_matrix}


def random_graph(n_samples, n_edges):
    """Symmetric CSR graph of random lengths."""
    rng = np.random.default_rng(0)
    i, j = np.unique(np.sort(rng.integers(0, n_samples, (n_edges, 2))), axis=0).T
    i, j = i[i != j], j[i != j]
    ends = np.concatenate([i, j]), np.concatenate([j, i])
    lengths = np.tile(rng.random(len(i)), 2)
    return csr_array((lengths, ends), shape=(n_samples, n_samples))


def sparse():
    """Compare trees of a sparse graph, whole and, for scipy, its upper half."""
    graph = random_graph(100_000, 1_000_000)
    half = csr_array(triu(graph))
    peers = {
        "scipy": scipy_weight,
        "scipy, half": lambda _: scipy_weight(half),
    }
    compare("graph of 10^6 edges", weight_of_matrix, peers, graph)


def grow(n_features, exponents):
    """Return rows of processor times for 10^e samples, and exponents of their growth.

    The last one has the peak memory of the process, as a multiple of the data.
    """
    skdiffclust.warmup()
    rows = []
    before = None
    for e in exponents:
        X = normal(10**e, n_features)
        spent, _ = seconds(weight_of_tree, X)
        rate = f"{np.log10(spent / before):.2f}" if before else ""
        is_last = e == exponents[-1]
        memory = f"{peak_memory() / X.nbytes:.1f}" if is_last else ""
        shown = np.format_float_positional(spent, 3, fractional=False, trim="-")
        rows.append([n_features, 10**e, shown, rate, memory])
        before = spent
    return rows


def growth(path=None, sizes=GROWTH):
    """Record how the time of a tree grows, one process for each number of features."""
    rows = [GROWTH_HEADER]
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        for n_features, exponents in sizes.items():
            rows += pool.submit(grow, n_features, exponents).result()
    record(rows, path)


@contextmanager
def anonymous_memory():
    """Give a list the most bytes in the block, files that are mapped not counted."""

    def held():
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(status.split("RssAnon:")[1].split()[0])

    def watch():
        while not is_over.wait(0.02):
            most[0] = max(most[0], held())

    most = [held()]
    is_over = threading.Event()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        is_over.set()
        watcher.join()


def tree_of_file(path, by_blocks):
    """Return the processor seconds of a tree, the bytes a sample, and the tree."""
    X = np.load(path, mmap_mode="r")
    grow = minimum_spanning_tree_by_blocks if by_blocks else minimum_spanning_tree
    minimum_spanning_tree_by_blocks(np.array(X[:5000]), n_blocks=4)  # kernels
    minimum_spanning_tree(np.array(X[:10_000]))
    with anonymous_memory() as most:
        spent, tree = seconds(grow, X)
    return spent, most[0] / len(X), (tree.edges[::1000], tree.lengths)


def blocks(path=None, sizes=IN_FILES):
    """Record trees of samples in files, by blocks and in memory, each in a process."""
    rows = [BLOCKS_HEADER]
    context = get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        for e in sizes:
            file = f"{folder}/X.npy"
            np.save(file, normal(10**e, 3))
            found = []
            for by_blocks in (True, False):
                with ProcessPoolExecutor(1, context) as pool:
                    run = pool.submit(tree_of_file, file, by_blocks).result()
                found.append(run)
                name = "by blocks" if by_blocks else "in memory"
                spent = np.format_float_positional(run[0], 3, fractional=False)
                rows.append([10**e, name, spent.rstrip("."), f"{run[1]:.0f}"])
            same = map(np.array_equal, found[0][2], found[1][2])
            print(f"10^{e}: same tree: {all(same)}", flush=True)
    record(rows, path)


def dask():
    """200 000 rows of a file: two processes of dask beside one process."""
    import joblib
    from distributed import Client, LocalCluster

    def by_dask(X):
        with joblib.parallel_config("dask"):
            return minimum_spanning_tree_by_blocks(X)

    def spent(client):
        return time.process_time() + sum(client.run(time.process_time).values())

    one, two = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/X.npy"
        np.save(path, normal(200_000, 10))
        before = peak_memory()
        X = np.load(path, mmap_mode="r")
        with (
            LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            for _ in range(2):
                by_dask(X[:20_000])  # kernels are loaded
            for _ in range(N_RUNS):
                begun = spent(client)
                wall, _, tree = both_clocks(by_dask, X)
                two.append((wall, spent(client) - begun))
            workers = client.run(peak_memory).values()
            coordinator = peak_memory()
        for _ in range(N_RUNS):
            wall, cpu, expected = both_clocks(minimum_spanning_tree, X)
            one.append((wall, cpu))
    same = np.array_equal(tree.edges, expected.edges)
    same &= np.array_equal(tree.lengths, expected.lengths)
    (wall, cpu), (two_wall, two_cpu) = np.median([one, two], axis=1)
    print(
        f"200 000 x 10: one process {wall:.1f} s, two of dask {two_wall:.1f} s "
        f"({wall / two_wall:.2f} x faster); processor time {cpu:.1f} s and "
        f"{two_cpu:.1f} s ({two_cpu / cpu:.2f} x); same tree: {same}; peak memory of "
        f"the coordinator {coordinator / 2**20:.0f} MiB ({before / 2**20:.0f} before), "
        f"of workers {', '.join(f'{size / 2**20:.0f}' for size in workers)} MiB"
    )


# Memberships.

EDGES = [0.0, 1e-9, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0 - 1e-9, 1.0]


def calibration(n_most=1000):
    """Print how often held-out draws agree, by membership."""
    given, held_out, largest, is_right = [], [], [], []
    for _, X, y in tables(n_most):
        k = len(np.unique(y))
        fits = [
            SpanningForestClustering(k, n_perturbations=100, random_state=seed).fit(X)
            for seed in (0, 1)
        ]
        P = fits[0].memberships_
        given.append(P.ravel())
        held_out.append(fits[1].memberships_.ravel())
        found = P.argmax(axis=1)
        counts = np.zeros((k, k))
        np.add.at(counts, (found, np.unique(y, return_inverse=True)[1]), 1)
        majority = np.unique(y)[counts.argmax(axis=1)]
        largest.append(P.max(axis=1))
        is_right.append(majority[found] == y)
    lists = given, held_out, largest, is_right
    given, held_out, largest, is_right = map(np.concatenate, lists)
    print("membership, entries, mean, held out, samples, right class")
    for low, high in zip(EDGES[:-1], EDGES[1:], strict=True):
        last = high == EDGES[-1]
        inside = (given >= low) & ((given < high) | last)
        own = (largest >= low) & ((largest < high) | last)
        right = f"{is_right[own].mean():.3f}" if own.any() else "–"
        print(
            f"{low:.2f} to {high:.2f}, {inside.sum()}, {given[inside].mean():.3f}, "
            f"{held_out[inside].mean():.3f}, {own.sum()}, {right}"
        )


def consensus(n_most=1000):
    """Print the adjusted Rand index of the cut and of the consensus."""
    rows = []
    times = np.zeros(2)
    print(f"{'':24s}{'cut':>8s}{'consensus':>11s}")
    for name, X, y in tables(n_most):
        k = len(np.unique(y))
        models = (
            SpanningForestClustering(k),
            SpanningForestClustering(
                k, n_perturbations=100, consensus=True, random_state=0
            ),
        )
        fits = [seconds(model.fit_predict, X) for model in models]
        times += [spent for spent, _ in fits]
        rows.append([adjusted_rand_score(y, labels) for _, labels in fits])
        print(f"{name:24s}" + "".join(f"{value:9.3f}" for value in rows[-1]))
    print(f"{'mean':24s}" + "".join(f"{value:9.3f}" for value in np.mean(rows, axis=0)))
    print(f"{'CPU s':24s}" + "".join(f"{value:9.1f}" for value in times))


N_BINS = 10


def mixture(rng, n=500):
    """Return normal clusters (n, d) that overlap, and the posteriors (n, k)."""
    k, d = rng.randint(2, 5), rng.choice([2, 3, 5])
    means = rng.normal(size=(k, d))
    means *= rng.choice([3.0, 4.0, 5.0]) / pdist(means).min()
    shares = np.maximum(rng.dirichlet(np.full(k, 5.0)), 0.08)
    shares /= shares.sum()
    X = means[rng.choice(k, n, p=shares)] + rng.normal(size=(n, d))
    return X, softmax(np.log(shares) - cdist(X, means, "sqeuclidean") / 2, axis=1)


def calibration_error(memberships, posteriors):
    """Return how far the largest memberships are from the posteriors, in ten bins.

    Clusters are matched with classes by the posteriors of their samples.
    """
    labels = memberships.argmax(axis=1)
    sums = np.eye(memberships.shape[1])[labels].T @ posteriors
    of, matched = linear_sum_assignment(-sums)
    known = np.zeros(memberships.shape)
    known[:, of] = posteriors[:, matched]
    everyone = np.arange(len(labels))
    given = memberships[everyone, labels]
    bins = np.minimum((N_BINS * given).astype(int), N_BINS - 1)
    gaps = np.bincount(bins, given - known[everyone, labels])
    return np.abs(gaps).sum() / len(labels)


def of_neighbors(X, labels, n_neighbors, n_steps=1):
    """Return the shares of labels among neighbours, after steps of a random walk.

    Where the share of another label is larger than the own, both are their mean.
    """
    graph = kneighbors_graph(X, n_neighbors, include_self=True) / n_neighbors
    shares = np.eye(labels.max() + 1)[labels]
    for _ in range(n_steps):
        shares = graph @ shares
    everyone = np.arange(len(X))
    own = shares[everyone, labels]
    first = shares.argmax(axis=1)
    mean = (own + shares[everyone, first]) / 2
    shares[everyone, first] = mean
    shares[everyone, labels] = mean + 1e-9 * (first != labels)
    return shares


def of_heights(forest, labels, power):
    """Return memberships that fall with the density of a sample.

    Half of a power of the radius that holds its nearest samples, relative to the height
    of the lowest cut, goes to the other clusters.
    """
    k = labels.max() + 1
    radii = core_radii(forest.linkage_)
    height = forest.linkage_[-(k - 1), 2]
    others = 0.5 * np.clip(radii / height, 0.0, 1.0) ** power
    memberships = np.tile(others[:, None] / (k - 1), k)
    memberships[np.arange(len(labels)), labels] = 1 - others
    return memberships


def posteriors(n_draws=40):
    """Print calibration errors, and what memberships from neighbours take."""
    found = {}
    for number in range(n_draws):
        X, known = mixture(np.random.RandomState([2, number]))
        k = known.shape[1]
        forest = SpanningForestClustering(k).fit(X)
        labels = forest.labels_
        noisy = {"n_perturbations": 100, "random_state": 0}
        consensus = SpanningForestClustering(k, consensus=True, **noisy).fit(X)
        given = {
            "consensus": consensus.memberships_,
            "under noise": SpanningForestClustering(k, **noisy).fit(X).memberships_,
            "the label alone": np.eye(k)[labels],
            "uniform": np.full((len(X), k), 1 / k) + 1e-9 * np.eye(k)[labels],
            "radius, power 2": of_heights(forest, labels, 2),
            "radius, power 4": of_heights(forest, labels, 4),
            "8 neighbours": of_neighbors(X, labels, 8),
            "16 neighbours": of_neighbors(X, labels, 16),
            "31 neighbours": of_neighbors(X, labels, 31),
            "8 neighbours, three steps": of_neighbors(X, labels, 8, 3),
        }
        for name, memberships in given.items():
            error = calibration_error(memberships, known)
            found.setdefault(name, []).append(error)
    for name, errors in found.items():
        more = interval(np.subtract(errors, found["consensus"]))
        print(f'"{name}", {np.mean(errors):.3f}, "{more}"')
    for n, d in ((500, 3), (2000, 5), (5000, 10), (50_000, 3)):
        X = np.random.default_rng(0).normal(size=(n, d))
        fit = min(seconds(SpanningForestClustering(3).fit, X)[0] for _ in range(5))
        labels = np.arange(n) % 3
        times = [
            min(seconds(of_neighbors, X, labels, k)[0] for _ in range(3)) / fit
            for k in (8, 16)
        ]
        print(
            f"{n} x {d}: 8 and 16 neighbours take {times[0]:.1f}, {times[1]:.1f} fits"
        )


PARTS = {
    "points": points,
    "few": few,
    "ten": lambda: trees(normal(100_000, 10)),
    "wide": lambda: trees(normal(100_000, 50)),
    "million": lambda: trees(normal(1_000_000, 3)),
    "fits": fits,
    "steps": steps,
    "dense": dense,
    "dense_fit": dense_fit,
    "sparse": sparse,
    "dask": dask,
    "calibration": calibration,
    "posteriors": posteriors,
    "consensus": consensus,
}


RECORDED = {"growth": growth, "blocks": blocks}


def main():
    """Print the parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["points", "dense", "sparse"])
    parser.add_argument("--record", metavar="FILE", help="of growth or blocks: a CSV")
    options = parser.parse_args()
    names = "numpy numba scipy scikit-learn fastcluster hdbscan fast_hdbscan"
    print(versions(*names.split(), "quitefastmst", "dask"))
    warnings.simplefilter("ignore")
    if not {"dask", "blocks"} & {*options.parts}:  # they have that of their kernels
        skdiffclust.warmup()
    for part in options.parts:
        if part in RECORDED:
            RECORDED[part](options.record)
        else:
            PARTS[part]()


if __name__ == "__main__":
    main()
