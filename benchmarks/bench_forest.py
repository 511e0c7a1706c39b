"""Spanning trees against the libraries that grow them: same data, alternating runs.

    python -m venv forest && forest/bin/pip install -r benchmarks/requirements.txt
    PYTHONPATH=. forest/bin/python benchmarks/bench_forest.py points dense sparse

Each line has the median time of ours, that of the peer, the median of the ratios of
runs that followed each other, the same ratio of processor time (which a busy machine
disturbs less), and the relative difference of the total weights of the two trees. A
peer that takes more than half a minute runs once, one that is not installed not at all.
Parts: points, few, ten, wide, million, whole, dense, dense20000, dense_fit, sparse,
reachability, metrics, norms, sphere, text, growth3, growth10, growth50, fit, workers,
memmap, dask (with dask.distributed; a thread a process, so set OMP_NUM_THREADS=1 and
NUMBA_NUM_THREADS=1).
"""

import os
import resource
import sys
import tempfile
import tracemalloc
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter, process_time

# Threads that spin while they wait would take the other thread's processor.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.sparse import csr_array, triu
from scipy.sparse import random as sparse_random
from scipy.spatial.distance import pdist, squareform

import skdiffclust
from skdiffclust.forests import minimum_spanning_tree
from skdiffclust.forests._trees._distances import (
    lengths_of_graph,
    lengths_of_matrix,
    lengths_of_points,
    mutual_reachability,
)
from skdiffclust.forests._trees._solve import spanning_edges

N_RUNS = 5


def clocked(function, *arguments):
    """Return (seconds, processor seconds, result)."""
    begun = perf_counter(), process_time()
    result = function(*arguments)
    return perf_counter() - begun[0], process_time() - begun[1], result


def compare(case, ours, peers, data):
    """Print a line for each peer."""
    for name, peer in peers.items():
        runs = []
        for _ in range(N_RUNS):
            wall, cpu, weight = clocked(ours, data)
            try:
                peer_wall, peer_cpu, peer_weight = clocked(peer, data)
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


def ours_on_points(X):
    return np.sqrt(spanning_edges(lengths_of_points(X, "euclidean"))[1]).sum()


def quitefastmst_on_points(X):
    import quitefastmst

    return quitefastmst.mst_euclid(X, 0)[0].sum()


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


def ours_on_matrix(D):
    return spanning_edges(lengths_of_matrix(D))[1].sum()


def scipy_on_matrix(D):
    from scipy.sparse.csgraph import minimum_spanning_tree

    return minimum_spanning_tree(D).sum()


def sklearn_on_matrix(D):
    from sklearn.cluster import AgglomerativeClustering

    model = AgglomerativeClustering(
        None, metric="precomputed", linkage="single", distance_threshold=0.0
    )
    return model.fit(D).distances_.sum()


def hdbscan_on_matrix(D):
    from hdbscan._hdbscan_linkage import mst_linkage_core

    return mst_linkage_core(D)[:, 2].sum()


def ours_on_graph(graph):
    return spanning_edges(lengths_of_graph(graph))[1].sum()


def scipy_on_graph(graph):
    from scipy.sparse.csgraph import minimum_spanning_tree

    return minimum_spanning_tree(graph).sum()


def fast_hdbscan_on_graph(graph):
    from fast_hdbscan.kruskal import kruskal_mst_from_csr

    no_core = np.zeros(graph.shape[0])
    arrays = graph.data, graph.indices, graph.indptr, no_core
    return kruskal_mst_from_csr(*arrays)[2][:, 2].sum()


def normal(n_samples, n_features):
    return np.random.default_rng(0).normal(size=(n_samples, n_features))


def manifold(n_samples, n_features):
    """Rows on a curved 3-dimensional manifold."""
    rng = np.random.default_rng(0)
    return np.sin(rng.uniform(size=(n_samples, 3)) @ rng.normal(size=(3, n_features)))


def points():
    """Trees of 10 000 or 20 000 points."""
    quite = {"quitefastmst": quitefastmst_on_points}
    slow = {"fastcluster": fastcluster_on_points}
    compare("10 000 x 50", ours_on_points, quite | slow, normal(10_000, 50))
    compare("20 000 x 50 manifold", ours_on_points, quite, manifold(20_000, 50))


def few():
    """Trees of 100 000 points of few features."""
    peers = {
        "quitefastmst": quitefastmst_on_points,
        "genieclust": genieclust_on_points,
        "fast_hdbscan": fast_hdbscan_on_points,
    }
    for d in (2, 3):
        compare(f"100 000 x {d}", ours_on_points, peers, normal(100_000, d))


def against_quitefastmst(n_samples, n_features):
    """Trees of larger data against the fastest of the others."""
    peers = {"quitefastmst": quitefastmst_on_points}
    X = normal(n_samples, n_features)
    compare(f"{n_samples} x {n_features}", ours_on_points, peers, X)


def ten():
    against_quitefastmst(100_000, 10)


def wide():
    against_quitefastmst(100_000, 50)


def million():
    against_quitefastmst(1_000_000, 3)


def ours_raised(X):
    """Total weight by mutual reachability, M = 10 as hdbscan counts."""
    lengths = mutual_reachability(lengths_of_points(X, "euclidean"), 11)
    return np.sqrt(spanning_edges(lengths)[1]).sum()


def quitefastmst_raised(X):
    """As `ours_raised`."""
    import quitefastmst

    return quitefastmst.mst_euclid(X, 10)[0].sum()


def reachability():
    """Mutual reachability of points: M = 10, where the sample is not counted."""
    for n_samples, n_features in ((60_000, 2), (60_000, 3), (30_000, 5), (10_000, 50)):
        peers = {"quitefastmst": quitefastmst_raised}
        X = normal(n_samples, n_features)
        compare(f"{n_samples} x {n_features}, M = 10", ours_raised, peers, X)


def ours_on_sphere(X):
    return minimum_spanning_tree(X, metric="haversine").lengths.sum()


def hdbscan_on_sphere(X):
    from hdbscan import HDBSCAN

    model = HDBSCAN(
        metric="haversine",
        min_samples=1,
        approx_min_span_tree=False,
        gen_min_span_tree=True,
    )
    return model.fit(X)._min_spanning_tree[:, 2].sum()


def sphere():
    """Trees of latitudes and longitudes."""
    rng = np.random.RandomState(0)
    for n_samples in (20_000, 50_000):
        X = np.column_stack(
            [
                np.arcsin(rng.uniform(-1, 1, n_samples)),
                rng.uniform(-np.pi, np.pi, n_samples),
            ]
        )
        peers = {"hdbscan": hdbscan_on_sphere}
        compare(f"sphere {n_samples}", ours_on_sphere, peers, X)


def norms():
    """Trees by metrics that are neither Euclidean nor cosine."""
    for metric in ("manhattan", "chebyshev"):

        def ours(X, metric=metric):
            return minimum_spanning_tree(X, metric=metric).lengths.sum()

        def by_hdbscan(X, metric=metric):
            from hdbscan import HDBSCAN

            model = HDBSCAN(
                metric=metric,
                min_samples=1,
                approx_min_span_tree=False,
                gen_min_span_tree=True,
            )
            return model.fit(X)._min_spanning_tree[:, 2].sum()

        for n_samples, n_features in ((50_000, 2), (50_000, 3), (20_000, 5)):
            name = f"{n_samples} x {n_features} {metric}"
            X = normal(n_samples, n_features)
            compare(name, ours, {"hdbscan": by_hdbscan}, X)


def whole():
    """Trees of whole numbers, with many ties and copies."""
    rng = np.random.default_rng(0)
    peers = {"quitefastmst": quitefastmst_on_points}
    for n_features, largest in ((2, 300), (3, 40)):
        X = rng.integers(0, largest, (100_000, n_features)).astype(float)
        compare(f"100 000 x {n_features}, whole", ours_on_points, peers, X)


def ours_on_text(X):
    return minimum_spanning_tree(X, metric="cosine").lengths.sum()


def sklearn_on_text(X):
    """By the matrix of cosine distances, which scikit-learn's needs."""
    from sklearn.metrics import pairwise_distances

    return sklearn_on_matrix(pairwise_distances(X, metric="cosine"))


def text():
    """Sparse samples by cosine: 20 000 features, 80 entries each."""
    graph = sparse_random(
        8000, 20_000, density=0.004, random_state=np.random.RandomState(0), format="csr"
    )
    compare("text 8000", ours_on_text, {"scikit-learn": sklearn_on_text}, graph)


def dense(n_samples=10_000):
    """Trees of a distance matrix."""
    D = squareform(pdist(normal(n_samples, 10)))
    peers = {"scipy": scipy_on_matrix, "scikit-learn": sklearn_on_matrix}
    compare(
        f"matrix {n_samples}", ours_on_matrix, peers | {"hdbscan": hdbscan_on_matrix}, D
    )
    tracemalloc.start()
    ours_on_matrix(D)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"matrix {n_samples}: {peak / 2**20:.2f} MiB beyond the matrix")


def ours_fitted(D):
    """Total length after a fit, with all of its checks."""
    model = skdiffclust.SpanningForestClustering(10, metric="precomputed")
    return model.fit(D).edge_lengths_.sum()


def scipy_linkage(D):
    """As `ours_fitted`, from the condensed form of the checked matrix."""
    return linkage(squareform(D), "single")[:, 2].sum()


def dense_fit():
    """Fits to a distance matrix, with all checks, linkage and labels."""
    peers = {"scipy csgraph": scipy_on_matrix, "scipy linkage": scipy_linkage}
    for n_samples in (8000, 10_000):
        D = squareform(pdist(normal(n_samples, 10)))
        compare(f"fit {n_samples}", ours_fitted, peers, D)
        peers = {"scikit-learn": sklearn_on_matrix}


def dense20000():
    """The larger matrix against scipy alone, which needs 12 GB beside it."""
    D = squareform(pdist(normal(20_000, 10)))
    compare("matrix 20000", ours_on_matrix, {"scipy": scipy_on_matrix}, D)


def random_graph(n_samples, n_edges):
    """Symmetric CSR graph of random lengths."""
    rng = np.random.default_rng(0)
    i, j = np.unique(np.sort(rng.integers(0, n_samples, (n_edges, 2))), axis=0).T
    i, j = i[i != j], j[i != j]
    ends = np.concatenate([i, j]), np.concatenate([j, i])
    lengths = np.tile(rng.random(len(i)), 2)
    return csr_array((lengths, ends), shape=(n_samples, n_samples))


def sparse():
    """Trees of a sparse graph, and what constraints cost."""
    graph = random_graph(100_000, 1_000_000)
    peers = {"scipy": scipy_on_graph, "fast_hdbscan": fast_hdbscan_on_graph}
    compare("graph of 10^6 edges", ours_on_graph, peers, graph)
    one_way = csr_array(triu(graph))
    compare(
        "the same, upper half",
        lambda _: ours_on_graph(graph),
        {"scipy": scipy_on_graph},
        one_way,
    )
    nodes = np.arange(graph.shape[0])
    nodes[np.random.default_rng(1).permutation(len(nodes))[:1000]] = 0
    lengths, extra = lengths_of_graph(graph), []
    for _ in range(4 * N_RUNS):
        free = clocked(spanning_edges, lengths)[1]
        extra.append(clocked(spanning_edges, lengths, None, nodes)[1] / free)
    print(
        f"graph of 10^6 edges: 1000 labelled rows cost {np.median(extra) - 1:+.0%} of "
        "processor time"
    )


def metrics():
    """Trees of a metric that no kernel knows, against the tier for few rows."""
    lengths = lengths_of_points(normal(10_000, 10), "manhattan")
    compare(
        "10 000 x 10 manhattan",
        lambda _: spanning_edges(lengths)[1].sum(),
        {"row by row": lambda _: spanning_edges(lengths, algorithm="prim")[1].sum()},
        None,
    )


def grow(n_features, exponents):
    """Processor time for 10^e rows, and the exponent with which it grows."""
    times = []
    for e in exponents:
        X = normal(10**e, n_features)
        wall, cpu, _ = clocked(ours_on_points, X)
        times.append(cpu)
        memory = peak_memory() / X.nbytes
        print(
            f"10^{e} x {n_features}: {wall:.2f} s, processor {cpu:.2f} s, peak memory "
            f"of the process {memory:.1f} x the data",
            flush=True,
        )
    rates = np.round(np.diff(np.log10(times)), 2)
    print(f"{n_features} features: exponents from size to size {rates.tolist()}")


def growth3():
    grow(3, (4, 5, 6, 7))


def growth10():
    grow(10, (3, 4, 5, 6))


def growth50():
    grow(50, (3, 4, 5, 6))


def fit():
    """What follows the tree in a fit: the linkage matrix and the labels."""
    from skdiffclust.forests._hierarchy._linkage import linkage_matrix
    from skdiffclust.forests._hierarchy._tree_cuts import cut, mask
    from skdiffclust.forests._spanning_forest import CutTree, _labels

    for n_samples in (200_000, 1_000_000):
        X = normal(n_samples, 3)
        model = skdiffclust.SpanningForestClustering(10, cut_rule="longest")
        fits, extras = [], []
        for _ in range(3):
            fits.append(clocked(model.fit, X)[1])
            tree = CutTree(model.edges_, model.edge_lengths_, np.ones(len(X) - 1, bool))
            is_cut = mask(cut(tree, 9)[0], tree)
            merges = clocked(linkage_matrix, tree.edges, tree.lengths)[1]
            extras.append(merges + clocked(_labels, tree, is_cut)[1])
        share = np.median(extras) / np.median(fits)
        print(
            f"{n_samples} x 3: fit {np.median(fits):.2f} s of processor, of which the "
            f"linkage matrix and the labels {share:.1%}",
            flush=True,
        )


def peak_memory():
    """Largest resident size of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def workers():
    """One tree by two workers of joblib."""
    from skdiffclust.forests import (
        minimum_spanning_tree,
        minimum_spanning_tree_by_blocks,
    )

    X = normal(100_000, 10)
    once, _, tree = clocked(minimum_spanning_tree, X)
    for n_jobs in (1, 2):
        seconds = []
        for _ in range(3):
            wall, _, blocks = clocked(
                lambda k=n_jobs: minimum_spanning_tree_by_blocks(
                    X, n_blocks=4, n_jobs=k
                )
            )
            seconds.append(wall)
        same = np.array_equal(tree.edges, blocks.edges)
        print(
            f"100 000 x 10 in 4 blocks, {n_jobs} workers: {np.median(seconds):.2f} s, "
            f"at once {once:.2f} s, same tree: {same}",
            flush=True,
        )


def memmap():
    """A million rows from a file, by blocks."""
    from skdiffclust.forests import minimum_spanning_tree_by_blocks

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/X.npy"
        np.save(path, manifold(10**6, 10))
        before, X = peak_memory(), np.load(path, mmap_mode="r")
        seconds, _, tree = clocked(
            lambda: minimum_spanning_tree_by_blocks(X, n_blocks=4)
        )
        print(
            f"memmap of 10^6 x 10 in 4 blocks: {seconds:.1f} s, peak memory "
            f"{peak_memory() / 2**30:.2f} GiB ({before / 2**30:.2f} before)",
            flush=True,
        )
        error = abs(tree.lengths.sum() / ours_on_points(np.array(X)) - 1)
        print(f"differs from the weight of the tree at once by {error:.0e}")


def dask():
    """200 000 rows of a file: two processes of dask beside one process."""
    import joblib
    from distributed import Client, LocalCluster

    from skdiffclust.forests import minimum_spanning_tree_by_blocks

    def by_dask(X):
        with joblib.parallel_config("dask"):
            return minimum_spanning_tree_by_blocks(X)

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/X.npy"
        np.save(path, normal(200_000, 10))
        before = peak_memory()
        X = np.load(path, mmap_mode="r")
        with (
            LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            by_dask(X[:5000])  # kernels are loaded
            two = [clocked(by_dask, X) for _ in range(N_RUNS)]
            workers = client.run(peak_memory).values()
            coordinator = peak_memory()
        one = [clocked(minimum_spanning_tree, X) for _ in range(N_RUNS)]
    same = all(
        np.array_equal(tree.edges, one[0][2].edges)
        and np.array_equal(tree.lengths, one[0][2].lengths)
        for *_, tree in two
    )
    seconds = [np.median([run[0] for run in runs]) for runs in (one, two)]
    print(
        f"200 000 x 10: one process {seconds[0]:.1f} s, two of dask {seconds[1]:.1f} s "
        f"({seconds[0] / seconds[1]:.2f} x), same tree: {same}, peak memory of the "
        f"coordinator {coordinator / 2**20:.0f} MiB ({before / 2**20:.0f} before), of "
        f"workers {', '.join(f'{size / 2**20:.0f}' for size in workers)} MiB"
    )


def installed(name):
    """Return a name with its version, or that it is not there."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no {name}"


def main(parts):
    names = "scipy scikit-learn fastcluster hdbscan fast_hdbscan quitefastmst dask"
    names = names.split()
    print(", ".join(installed(name) for name in ["numpy", "numba", *names]))
    if parts != ["dask"]:  # that has the memory of its own kernels only
        skdiffclust.warmup()
    for part in parts:
        globals()[part]()


if __name__ == "__main__":
    main(sys.argv[1:] or ["points", "dense", "sparse"])
