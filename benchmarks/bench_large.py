"""How far do fits of many samples go, what do they cost, and what bounds them?

    python benchmarks/bench_large.py PART [PART ...] [--results FILE]

batches   ARI after one pass over a file that is sorted by class (20 000 x 20, a hundred
          chunks) beside one fit, for three seeds; inertia of ``ClAM(max_iter=0)`` and
          MiniBatchKMeans after such a pass, and of the KMeans of dask-ml, relative to
          one fit. If zarr and dask are installed: whether their batches are the same
cut       GraphCutClustering on 10^6 x 20 with approximate neighbours of pynndescent
agree     its partition of 10^5 x 20 beside that of exact neighbours
exact     exact neighbours of 10^5 x 50, and how long an interruption waits
encode    PRCut on 10^6 x 50 with a graph: an epoch, memory, cuts beside the search's
growth    all estimators on 10^3 to 10^6 x 20; ``--record FILE`` writes the table

Seconds are of the processor, of one thread. Each row runs in a process of its own,
whose memory is its peak beyond the input. With ``--results`` a row that is in the file
is printed, not run again.
"""

import argparse
import os
import signal
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree
from shared import Results, peak_memory, record, resident, seconds, versions
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score

import skdiffclust
from skdiffclust import (
    GEMINI,
    AssociativeImputer,
    ClAM,
    DeepClAM,
    GraphCutClustering,
    PRCut,
    SpanningForestClustering,
    SpanningForestEmbedding,
    SparseGEMINI,
    SparseGEMINICV,
)
from skdiffclust.cuts import _graph

MIB = 2**20
MOST_SECONDS = 60  # a row of growth that is expected to take longer is left out
GROWTH_HEADER = ["estimator", "samples", "seconds", "exponent", "MiB", "predict, µs"]
ESTIMATORS = {
    type(model).__name__: model.set_params(random_state=0)
    for model in (
        SpanningForestClustering(10),
        SpanningForestEmbedding(10),
        ClAM(10),
        DeepClAM(10),
        AssociativeImputer(),
        GraphCutClustering(10),
        PRCut(10),
        GEMINI(10),
        SparseGEMINI(10),
        SparseGEMINICV(n_clusters=10),
    )
}


def batches(X, chunk_size, batch_size, n_open=20, seed=0):
    """Yield the rows of X in random order, from about `n_open` chunks at a time."""
    rng = np.random.default_rng(seed)
    starts = np.arange(0, X.shape[0], chunk_size)
    length = max(1, len(starts) // n_open)
    parts = np.split(starts, range(length, len(starts), length))
    for places in zip_longest(*map(rng.permutation, parts)):
        chunks = [X[i : i + chunk_size] for i in places if i is not None]
        rows = rng.permutation(np.concatenate([np.asarray(chunk) for chunk in chunks]))
        yield from np.array_split(rows, max(1, len(rows) // batch_size))


def overlapping(n_samples, n_features, seed=0, n_clusters=10):
    """Return float32 samples of normal clusters that overlap, and their numbers."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((n_clusters, n_features), dtype=np.float32)
    y = rng.integers(n_clusters, size=n_samples)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    X += np.float32(3.8 / np.sqrt(n_features)) * centers[y]
    return X, y


def alone(function, *arguments):
    """Return what a function returns in a process of its own, without warnings."""
    given = {"initializer": warnings.simplefilter, "initargs": ("ignore",)}
    with ProcessPoolExecutor(1, get_context("spawn"), **given) as pool:
        return pool.submit(function, *arguments).result()


def timed_transformer(n_neighbors=10):
    """Return a transformer that finds approximate neighbours, and its seconds."""
    from pynndescent import PyNNDescentTransformer

    spent = []

    class Timed(PyNNDescentTransformer):
        def fit_transform(self, X, y=None, **fit_params):
            found = seconds(super().fit_transform, X, y, **fit_params)
            spent.append(found[0])
            return found[1]

    return Timed(n_neighbors=n_neighbors, n_jobs=1, random_state=0), spent


class Epochs:
    """A callback of scikit-learn that keeps the seconds at which epochs ended."""

    def setup(self, estimator, context):
        """Begin with an empty list."""
        self.ends = []

    def on_fit_task_begin(self, estimator, context):
        """Do nothing."""

    def on_fit_task_end(self, estimator, context):
        """Note the processor seconds at the end of an epoch."""
        if context.task_name == "epoch":
            self.ends.append(time.process_time())

    def teardown(self, estimator, context):
        """Do nothing."""


def memory_since(before):
    """Return the peak of this process beyond what it held, in MiB."""
    return (peak_memory() - before) / MIB


def sorted_by_class(n_samples, n_features, seed, n_clusters=10):
    """Return samples of `overlapping`, those of the first cluster first."""
    X, y = overlapping(n_samples, n_features, seed, n_clusters)
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def one_pass(seed):
    """Return the indices of models of batches of a sorted file, and of one fit each."""
    X, y = sorted_by_class(20_000, 20, seed)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        stored = as_memory_map(Path(folder), X)
        for model in (ClAM(10), GEMINI(10), PRCut(10), MiniBatchKMeans(10, n_init=3)):
            model.set_params(random_state=seed)
            whole = clone(model).fit(X)
            for rows in batches(stored, 200, 2000, seed=seed):
                model.partial_fit(rows)
            found[type(model).__name__] = [
                adjusted_rand_score(y, one.predict(X)) for one in (model, whole)
            ]
    return found


def as_memory_map(folder, X):
    """Return samples as an array on disk."""
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def as_zarr(folder, X):
    """Return samples as an array of zarr, in chunks of 200."""
    import zarr

    shape = (200, X.shape[1])
    return zarr.create_array(str(folder / "X.zarr"), data=X, chunks=shape)


def as_dask(folder, X):
    """Return samples as an array of dask that reads a memory map."""
    import dask.array

    return dask.array.from_array(as_memory_map(folder, X), chunks=(200, X.shape[1]))


STORES = {"zarr": as_zarr, "dask": as_dask}


def same_batches(name):
    """Return whether the batches are those of a memory map."""
    X, _ = sorted_by_class(20_000, 20, 0)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        both = STORES[name](folder, X), as_memory_map(folder, X)
        pairs = zip(*(batches(stored, 200, 2000) for stored in both), strict=True)
        return all(np.array_equal(*pair) for pair in pairs)


def inertias(k, seed):
    """Return inertias after one pass over a sorted file, relative to one fit.

    Those of MiniBatchKMeans, which sees the same batches, and of the KMeans of dask-ml.
    """
    X, _ = sorted_by_class(20_000, 20, seed, k)
    whole = ClAM(k, max_iter=0, random_state=seed).fit(X).inertia_
    ours = ClAM(k, max_iter=0, random_state=seed)
    peers = MiniBatchKMeans(k, n_init=10, random_state=seed)
    for rows in batches(X, 200, 2000, seed=seed):
        ours.partial_fit(rows)
        peers.partial_fit(rows)
    centers = {
        "ClAM": ours.cluster_centers_,
        "MiniBatchKMeans": peers.cluster_centers_,
    }
    if find_spec("dask_ml"):
        import dask.array
        from dask_ml.cluster import KMeans

        chunked = dask.array.from_array(X, chunks=(2000, X.shape[1]))
        fitted = KMeans(k, random_state=seed).fit(chunked)
        centers["dask-ml, all samples"] = fitted.cluster_centers_
    return {
        name: float(np.square(cKDTree(found).query(X)[0]).sum()) / whole
        for name, found in centers.items()
    }


def cut(n=10**6, d=20):
    """Cut the graph of approximate neighbours."""
    transformer, spent = timed_transformer()
    model = GraphCutClustering(10, affinity=transformer, random_state=0)
    model.fit(overlapping(5000, d)[0])
    X, y = overlapping(n, d)
    before = resident()
    whole, _ = seconds(model.fit, X)
    return {
        "seconds": whole,
        "of neighbours": spent[-1],
        "MiB": memory_since(before),
        "ARI": adjusted_rand_score(y, model.labels_),
        "normalised cut": model.normalized_cut_,
    }


def agree(n=10**5, d=20):
    """Compare partitions of approximate and of exact neighbours."""
    X, y = overlapping(n, d)
    transformer, spent = timed_transformer()
    options = {"n_clusters": 10, "random_state": 0}
    near = GraphCutClustering(affinity=transformer, **options)
    exact = GraphCutClustering(affinity="nearest_neighbors", n_neighbors=10, **options)
    for model in (near, exact):
        model.fit(X[:2000])
    took = [seconds(model.fit, X)[0] for model in (near, exact)]
    graph = exact.affinity_matrix_
    kept = graph.multiply(near.affinity_matrix_).sum() / graph.sum()
    other = GraphCutClustering(affinity="precomputed", n_clusters=10, random_state=1)
    return {
        "seconds": took,
        "of approximate neighbours": spent[-1],
        "edges found": kept,
        "ARI between them": adjusted_rand_score(near.labels_, exact.labels_),
        "ARI of two seeds": adjusted_rand_score(
            other.fit_predict(graph), exact.labels_
        ),
        "ARI to the classes": [
            adjusted_rand_score(y, model.labels_) for model in (near, exact)
        ],
    }


def exact(n=10**5, d=50):
    """Search all neighbours, and interrupt another search after two seconds."""
    X, _ = overlapping(n, d)
    model = GraphCutClustering(10, random_state=0).fit(X[:2000])
    spent = []

    def timed(*arguments, _search=_graph.neighbor_links, **options):
        took, links = seconds(_search, *arguments, **options)
        spent.append(took)
        return links

    _graph.neighbor_links = timed
    before = resident()
    whole, _ = seconds(model.fit, X)
    memory = memory_since(before)
    labels = model.labels_
    signal.signal(signal.SIGPROF, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_PROF, 2.0)
    start = time.process_time()
    try:
        model.fit(X)
    except KeyboardInterrupt:
        waited = time.process_time() - start - 2.0
    return {
        "seconds": whole,
        "of neighbours": spent[0],
        "MiB": memory,
        "left after": waited,
        "model is the old one": labels is model.labels_,
    }


def encode(n=10**6, d=50):
    """Train PRCut on samples near a space of three dimensions, and their graph."""
    inner, y = overlapping(n, 3)
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((d, 3)))[0].astype(np.float32)
    X = inner @ turn.T
    X += np.float32(0.01) * rng.standard_normal(X.shape, dtype=np.float32)
    _, nearest = cKDTree(inner).query(inner, k=11)
    starts = np.arange(0, 10 * n + 1, 10)
    graph = csr_array((np.ones(10 * n), nearest[:, 1:].ravel(), starts), (n, n))
    graph = graph.maximum(graph.T.tocsr())
    del nearest
    epochs = Epochs()
    model = PRCut(10, cut="ratio", max_iter=4, batch_size=1024, random_state=0)
    model.fit(X[:2000])
    model.set_callbacks(epochs)
    before = resident()
    whole, _ = seconds(model.fit, X, precomputed=graph)
    return {
        "seconds": whole,
        "an epoch": float(np.diff(epochs.ends).mean()),
        "MiB": memory_since(before),
        "MiB of X and of the graph": [X.nbytes / MIB, 12 * graph.nnz / MIB],
        "ratio-cut": model.ratio_cut_,
        "of the search": model.init_ratio_cut_,
        "ARI": [
            adjusted_rand_score(y, one) for one in (model.labels_, model.init_labels_)
        ],
    }


def grown(name, n):
    """Fit an estimator, and predict or transform ten thousand samples."""
    X, y = overlapping(n, 20)
    if name == "AssociativeImputer":
        X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    known = np.where(np.arange(n) % 10, -1, y)
    model = ESTIMATORS[name]
    skdiffclust.warmup()
    clone(model).fit(X[:500], known[:500])
    before = resident()
    spent, _ = seconds(model.fit, X, known)
    memory = memory_since(before)
    apply = model.predict if hasattr(model, "predict") else model.transform
    rows = X[:10_000]
    apply(rows)
    return spent, memory, 1e6 * seconds(apply, rows)[0] / len(rows)


def growth(results, path=None, names=tuple(ESTIMATORS), exponents=(3, 4, 5, 6)):
    """Record how the time and the memory of fits grow."""
    rows = [GROWTH_HEADER]
    for name in names:
        last = ratio = None
        for n in (10**e for e in exponents):
            if last and last * max(10, ratio or 0) > MOST_SECONDS:
                break
            spent, memory, each = results.once(
                ["growth", name, n], alone, grown, name, n
            )
            ratio = spent / last if last else None
            rate = f"{np.log10(ratio):.2f}" if last else ""
            shown = [
                f"{value:.2g}" if value < 10 else f"{value:.0f}"
                for value in (spent, memory, each)
            ]
            rows.append([name, n, shown[0], rate, *shown[1:]])
            last = spent
    record(rows, path)


def rows_of(part):
    """Return the functions of a part, with what they are given."""
    if part == "batches":
        seeds = range(3)
        return [
            *((same_batches, name) for name in STORES if find_spec(name)),
            *((one_pass, seed) for seed in seeds),
            *((inertias, k, seed) for k in (10, 20, 50) for seed in seeds),
        ]
    return [(globals()[part],)]


def main():
    """Print the rows of the parts, each with a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("batches", "cut", "agree", "exact", "encode", "growth")
    parser.add_argument("parts", nargs="+", choices=parts)
    parser.add_argument(
        "--results", metavar="FILE", type=Path, default=Path(os.devnull)
    )
    parser.add_argument("--record", metavar="FILE", help="of growth: a CSV file")
    options = parser.parse_args()
    results = Results(options.results)
    print(versions("scikit-learn", "numpy", "numba", "pynndescent", "zarr", "dask-ml"))
    for part in options.parts:
        if part == "growth":
            growth(results, options.record)
            continue
        for function, *given in rows_of(part):
            found = results.once([function.__name__, *given], alone, function, *given)
            print(function.__name__, *given, found, flush=True)


if __name__ == "__main__":
    main()
