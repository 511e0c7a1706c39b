"""How low does PRCut cut, and how fast, against spectral clustering?

Seven questions, each a subcommand.

    python benchmarks/bench_prcut.py outcomes # agreement, defaults, METIS beside
    python benchmarks/bench_prcut.py scale    # time and memory of default fits
    python benchmarks/bench_prcut.py steps    # a training step against (b, b, k)
    python benchmarks/bench_prcut.py starts NAME ...  # the cost of a spectral start
    python benchmarks/bench_prcut.py fits NAME ...    # times against SpectralClustering
    python benchmarks/bench_prcut.py growth   # cost in n, neighbours and k
    python benchmarks/bench_prcut.py table NAME ...   # cuts and agreement, 5 seeds

`fits` and `table` add a line of JSON a fit to --output and continue where they stopped.
Both sides are given the same graph. Times are CPU seconds of alternating runs on one
thread. The data sets come from the loader, data_sets.py.
"""

import json
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import itertools
import sys
import threading
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import joblib
import numpy as np
import scipy.sparse as sp
import sklearn
import torch
from bench_graphs import METHODS
from cut_graphs import block_model, data, karate, lfr
from data_sets import has_data, load_data
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.neighbors import kneighbors_graph

from skdiffclust import PRCut
from skdiffclust.cuts import _prcut, _starts, ratio_cut
from skdiffclust.cuts._local_search import local_search
from skdiffclust.cuts._ratio_cut import check_graph
from skdiffclust.metrics import clustering_accuracy
from skdiffclust.nn import RatioCutLoss

N_NEIGHBORS = {
    "digits": 10,
    "usps_train": 20,
    "mnist_t10k": 25,
    "letter": 50,  # with fewer, it falls into parts of a few equal rows
    "isolet": 10,
}


def load(name):
    """Return (X, y) of a data set."""
    if name == "digits":
        return load_digits(return_X_y=True)
    X, y = load_data(name)
    return X.astype(float), y


def neighbours(X, k):
    """Return the 0/1 graph of k nearest neighbours, either way."""
    graph = kneighbors_graph(X, k)
    return check_graph(graph.maximum(graph.T), caller="neighbours")


def seconds(function, *arguments, **keywords):
    """Return (CPU seconds, result) of a call: a shared machine does not blur them."""
    start = time.process_time()
    result = function(*arguments, **keywords)
    return time.process_time() - start, result


def read(output):
    """Return the lines of a file of JSON lines that may not be there yet."""
    output.touch()
    return [json.loads(line) for line in output.read_text().splitlines()]


def add(output, lines, line):
    """Add a line to the list and to the file."""
    lines.append(line)
    with output.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def dense_loss(block, left, right, weight):
    """The loss of a batch as published: a tensor (b, b, k), the KL of the mean."""
    P, Q = left.softmax(1), right.softmax(1)
    pairs = P[:, None, :] + Q[None, :, :] - 2 * P[:, None, :] * Q[None, :, :]
    mean = 0.5 * (P.mean(0) + Q.mean(0))
    cut = (block[:, :, None] * pairs).sum((0, 1)) / 2
    kl = (mean * (mean * len(mean)).log()).sum()
    return (cut / mean).sum() / block.sum() + weight * kl


def steps():
    """Time a step of the loss and its gradients, b = 2048 and k = 10."""
    rng = np.random.RandomState(0)
    X, _ = load("mnist_t10k" if has_data("mnist_t10k") else "digits")
    graph = neighbours(X, 25)
    b = min(2048, len(X) // 2)
    rows, columns = rng.permutation(len(X))[: 2 * b].reshape(2, b)
    block = graph[rows][:, columns]
    dense = torch.from_numpy(block.toarray()).float()
    left, right = (torch.randn(b, 10, requires_grad=True) for _ in range(2))
    loss = RatioCutLoss(10, averaging_rate=1.0)

    def ours():
        loss.proportions.zero_()
        value = loss(block, left, right)
        return value, torch.autograd.grad(value, (left, right))

    def published():
        value = dense_loss(dense, left, right, 10.0)
        return value, torch.autograd.grad(value, (left, right))

    ratios = []
    for _ in range(5):
        slow, (expected, expected_gradients) = seconds(published)
        fast, (value, gradients) = seconds(ours)
        ratios.append(slow / fast)
    agree = torch.allclose(value, expected, rtol=1e-4) and all(
        torch.allclose(g, e, rtol=1e-3, atol=1e-7)
        for g, e in zip(gradients, expected_gradients, strict=True)
    )
    print(
        f"step, b = {b}, k = 10, {block.nnz} edges: {fast * 1e3:.1f} ms against "
        f"{slow * 1e3:.0f} ms for (b, b, k); ratio {np.median(ratios):.0f}, "
        f"results agree: {agree}"
    )


def starts(names):
    """Time encoder=None from a spectral start against spectral clustering itself."""
    n_fits = {"digits": 15, "isolet": 15, "usps_train": 5, "mnist_t10k": 3}
    PRCut(10, cut="ratio").fit(load("digits")[0])  # compiles
    for name in names or n_fits:
        (X, y), m = load(name), N_NEIGHBORS[name]
        graph, k = neighbours(X, m), len(np.unique(y))
        ratios = []
        for seed in range(n_fits.get(name, 1)):
            peer = SpectralClustering(k, affinity="precomputed", random_state=seed)
            ours = PRCut(k, cut="ratio", init="spectral", random_state=seed)
            slow, _ = seconds(peer.fit, graph)
            took, _ = seconds(ours.fit, X, graph=graph)
            ratios.append(took / slow)
            highest = ratio_cut(graph, peer.labels_.astype(np.int64)).value
            assert ours.ratio_cut_ <= highest
        print(f"{name}: {np.median(ratios):.2f} times {slow:.2f} s, {len(ratios)} fits")


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


def fits(names, n_seeds, output):
    """Time fits on one graph, and compare the ratio-cuts; resumable like the table."""
    lines = read(output)
    for name, seed in itertools.product(names or growing_graphs(), range(n_seeds)):
        if any((x["data"], x["seed"]) == (name, seed) for x in lines):
            continue
        graph, k = growing_graphs()[name]()
        peer = SpectralClustering(k, affinity="precomputed", random_state=seed)
        model = PRCut(k, affinity="precomputed", cut="ratio", random_state=seed)
        model.fit(neighbours(load("digits")[0], 10))  # compiles
        fast, _ = seconds(model.fit, graph)
        print(f"{name}: random start {fast:.1f} s, {model.ratio_cut_:.3f}", flush=True)
        slow, _ = seconds(peer.fit, graph)
        labels = peer.labels_.astype(np.int64)
        improved = local_search(graph, labels, k)
        found = {
            "spectral": labels,
            "local_search": improved,
            "random": model.labels_,
        }
        values = {key: ratio_cut(graph, value).value for key, value in found.items()}
        values |= {"edges": graph.nnz // 2, "s_spectral": slow, "s_random": fast}
        add(output, lines, {"data": name, "seed": seed} | values)
    for name in dict.fromkeys(x["data"] for x in lines):
        group = [x for x in lines if x["data"] == name]
        keys = [key for key in group[0] if key not in ("data", "seed")]
        medians = {key: np.median([x[key] for x in group]) for key in keys}
        ratio = np.median([x["s_spectral"] / x["s_random"] for x in group])
        print(name, len(group), f"ratio {ratio:.1f}", medians)


def growth(names):
    """Time fits of encoder=None, init="random" as n, edges and clusters double."""
    doubled = {
        "n": [5000, 10_000, 20_000, 40_000],
        "neighbours": [10, 20, 40, 80],
        "k": [5, 10, 20, 40],
    }
    for what in names or doubled:
        for value in doubled[what]:
            case = {"n": 10_000, "neighbours": 15, "k": 10} | {what: value}
            X, _ = make_blobs(
                case["n"], n_features=6, centers=20, cluster_std=3.0, random_state=0
            )
            graph = neighbours(X, case["neighbours"])
            model = PRCut(
                case["k"],
                affinity="precomputed",
                cut="ratio",
                random_state=0,
            )
            model.fit(graph)
            took = min(seconds(model.fit, graph)[0] for _ in range(3))
            print(f"{what} {value}: {graph.nnz // 2} edges {took:.2f} s", flush=True)


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
            "PRCut",
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
        "LFR .5": (lambda seed: lfr(seed, mixing=0.5), "PRCut", 5),
        "karate": (lambda seed: karate(False), "PRCut", 5),
        "karate, weighted": (lambda seed: karate(True), "PRCut", 5),
    }
    for name, n_rows in (("digits", None), ("isolet", None), ("mnist_t10k", 5000)):
        problem = data(name, 10, n_rows=n_rows)
        bounded = "PRCut, imbalance .3"
        problems[f"{name}, bounded"] = (lambda seed, p=problem: p, bounded, 5)
        if name == "isolet":
            tighter = "PRCut, imbalance .25"
            problems[f"{name}, .25"] = (lambda seed, p=problem: p, tighter, 5)
        problem = data(name, 20, n_rows=n_rows, ranked=True)
        problems[f"{name}, ranked, bounded"] = (lambda seed, p=problem: p, bounded, 5)
    for name in ("pymetis", "scikit-learn"):
        try:
            print(name, version(name))
        except PackageNotFoundError:
            print(name, "not installed")
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


def resident():
    """Return the MiB of memory that this process holds."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def watched(function, *arguments):
    """Return (result, CPU seconds, MiB above what was held before) of a call."""
    before = top = resident()
    done = threading.Event()

    def watch():
        nonlocal top
        while not done.wait(0.05):
            top = max(top, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    took, result = seconds(function, *arguments)
    done.set()
    watcher.join()
    return result, took, top - before


def lattice(side):
    """Return a lattice of side^3 nodes, each with about 20 neighbours."""
    numbers = np.arange(side**3, dtype=np.int32).reshape(side, side, side)
    steps = [(0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
    steps += [(1, 1, 1), (0, 1, -1), (1, 0, -1), (1, -1, 0)]
    ends = [], []
    for step in steps:
        near = tuple(slice(max(0, -s), side - max(0, s)) for s in step)
        far = tuple(slice(max(0, s), side + min(0, s)) for s in step)
        ends[0].append(numbers[near].ravel())
        ends[1].append(numbers[far].ravel())
    rows, columns = np.concatenate(ends[0]), np.concatenate(ends[1])
    shape = side**3, side**3
    graph = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    return (graph + graph.T).tocsr()


def scale(names):
    """Print the processor time of default fits, and the memory of the largest."""
    X, _ = make_blobs(300, random_state=0)
    PRCut(3, random_state=0).fit(X)  # compiles
    times = [seconds(PRCut(3, random_state=s).fit, X)[0] for s in range(9)]
    print(f"300 samples of 2 features: {np.median(times):.3f} s")
    rng = np.random.RandomState(0)
    counts = [36_000, 7000, 2500, 400, 60, 25, 15]
    centers = rng.normal(scale=2.5, size=(7, 9))
    y = np.repeat(np.arange(7), counts)
    X = centers[y] + rng.uniform(0.5, 1.5, size=(7, 9))[y] * rng.normal(
        size=(46_000, 9)
    )
    model, took, _ = watched(PRCut(7, random_state=0).fit, X)
    print(
        f"46 000 samples of 9 features, classes of 36 000 to 15: {took:.1f} s, "
        f"ARI {adjusted_rand_score(y, model.labels_):.3f}",
        flush=True,
    )
    for side in [int(name) for name in names] or [100]:
        graph = lattice(side)
        PRCut(10, affinity="precomputed").fit(graph[:3000][:, :3000])
        _, took, memory = watched(PRCut(10, affinity="precomputed").fit, graph)
        print(f"{graph.nnz // 2} edges: {took:.1f} s, {memory / 1024:.2f} GiB")


def describe(graph, y, labels, k):
    """Return what the table says of labels."""
    cut = ratio_cut(graph, labels)
    return {
        "rc": cut.value,
        "used": cut.n_clusters,
        "smallest": cut.smallest_size,
        "acc": clustering_accuracy(y, labels),
        "nmi": normalized_mutual_info_score(y, labels),
        "nmi_max": normalized_mutual_info_score(y, labels, average_method="max"),
        "ari": adjusted_rand_score(y, labels),
    }


# Rows of the table and the parameters of PRCut behind them; those of the paper's
# recipe are its own but for two: its learning rate of 1e-4 and weight of 100 do worse.
ROWS = {"spectral": None, "spectral, local search": None} | {
    f"PRCut {name}, {init}": {"encoder": encoder, "init": init, "cut": "ratio"}
    for init in ("spectral", "random")
    for name, encoder in (("free", None), ("linear", "linear"), ("mlp", "mlp"))
}
ROWS["paper's recipe"] = {
    "cut": "ratio",
    "encoder": "mlp",
    "hidden_layer_sizes": (512,),
    "init": "random",
    "local_search": False,
    "objective": "bound",
    "sampling": "pairs",
    "batch_size": 2048,
    "learning_rate": 1e-3,
    "weight_decay": 1e-7,
    "max_iter": 300,
    "tol": 0.0,
    "n_init": 1,
}


class Problem:
    """A data set with its graph, and a fifth of it held out."""

    def __init__(self, name):
        X, self.y = load(name)
        m, self.k = N_NEIGHBORS[name], len(np.unique(self.y))
        self.parameters = {"n_clusters": self.k, "n_neighbors": m}
        self.fifth = np.random.RandomState(0).permutation(len(X))[: len(X) // 5]
        self.rest = np.setdiff1d(np.arange(len(X)), self.fifth)
        self.graph, self.part, self.held_out = (
            neighbours(rows, m) for rows in (X, X[self.rest], X[self.fifth])
        )
        self.X = X.astype(np.float32)  # as the networks of the paper are trained

    def fit(self, parameters, seed, held_out):
        """Return (CPU seconds, PRCut) fitted to all rows, or to four fifths."""
        parameters = self.parameters | parameters | {"random_state": seed}
        rows, graph = self.X, self.graph
        if held_out:
            rows, graph = rows[self.rest], self.part
        if "batch_size" in parameters:
            parameters["batch_size"] = min(2048, len(rows) // 2)
        return seconds(PRCut(**parameters).fit, rows, graph=graph)

    def measure(self, row, seed, spectral):
        """Return what the table says of a row."""
        if ROWS[row] is None:
            labels, took = spectral(self.graph, self.k, seed)
            if row != "spectral":
                labels = local_search(self.graph, labels, self.k)
            return describe(self.graph, self.y, labels, self.k) | {"s": took}
        took, model = self.fit(ROWS[row], seed, held_out=False)
        found = describe(self.graph, self.y, model.labels_, self.k) | {"s": took}
        _, model = self.fit(ROWS[row], seed, held_out=True)
        labels = model.predict(self.X[self.fifth])
        out = describe(self.held_out, self.y[self.fifth], labels, self.k)
        return found | {f"out_{key}": out[key] for key in ("rc", "acc", "used")}


def share_starts(folder):
    """Let fits share spectral labels and pseudo-labels; return the first's function.

    They are kept in files of the folder. PRCut's spectral start is what scikit-learn's
    estimator finds, as a test of it asserts, so it is not computed twice.
    """
    free_target = _prcut.free_target

    def once(key, compute):
        path = folder / "-".join(map(str, key))
        if not path.exists():
            joblib.dump(compute(), path)
        return joblib.load(path)

    def spectral(graph, k, seed):
        def compute():
            peer = SpectralClustering(k, affinity="precomputed", random_state=seed)
            took, _ = seconds(peer.fit, graph)
            return peer.labels_.astype(np.int64), took

        return once(("spectral", graph.nnz, k, seed), compute)

    def start(graph, k, n_init, random_state):
        # The first word of a fresh RandomState is its seed.
        return spectral(graph, k, int(random_state.get_state()[1][0]))[0]

    def target(estimator, data, random_state):
        def compute():
            labels = free_target(estimator, data, random_state)
            return labels, random_state.get_state()

        start = estimator.init, estimator.local_search, estimator.random_state
        labels, state = once((data.graph.nnz, data.n_clusters, *start), compute)
        random_state.set_state(state)  # what is drawn next is as it was
        return labels

    folder.mkdir(exist_ok=True)
    _starts._spectral, _prcut.free_target = start, target
    return spectral


def table(names, n_seeds, output, rows):
    """Measure what is not in the file of JSON lines yet, and print all medians."""
    spectral = share_starts(output.with_suffix(".starts"))
    lines = read(output)
    done = {(line["data"], line["seed"], line["row"]) for line in lines}
    for name in names:
        left = [
            (seed, row)
            for seed in range(n_seeds)
            for row in rows
            if (name, seed, row) not in done
        ]
        problem = Problem(name) if left else None
        for seed, row in left:
            values = problem.measure(row, seed, spectral)
            add(output, lines, {"data": name, "seed": seed, "row": row} | values)
    print_medians(lines)


def print_medians(lines):
    """Print the medians over the seeds, and the ratio-cut relative to the peer's."""
    keys = "rc", "used", "smallest", "acc", "nmi", "nmi_max", "ari", "out_rc", "out_acc"
    print("data, row: seeds", *keys, "worst rc / spectral", sep=", ")
    peer = {(x["data"], x["seed"]): x["rc"] for x in lines if x["row"] == "spectral"}
    for name, row in dict.fromkeys((x["data"], x["row"]) for x in lines):
        group = [x for x in lines if (x["data"], x["row"]) == (name, row)]
        medians = [np.median([x.get(key, np.nan) for x in group]) for key in keys]
        ratios = [x["rc"] / peer.get((name, x["seed"]), np.nan) for x in group]
        print(
            f"{name}, {row}: {len(group)} ",
            *(f"{median:.3f}" for median in medians),
            f"{max(ratios):.4f}",
        )


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--output", type=Path, help="default: prcut_WHAT.jsonl")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print("Python", sys.version.split()[0], "scikit-learn", sklearn.__version__)
    what, *names = arguments.what or ["steps"]
    output = arguments.output or Path(f"prcut_{what}.jsonl")
    if what == "table":
        names = names or list(N_NEIGHBORS)
        table(names, arguments.seeds, output, arguments.rows)
    elif what == "starts":
        starts(names)
    elif what == "fits":
        fits(names, arguments.seeds, output)
    elif what == "growth":
        growth(names)
    elif what == "outcomes":
        outcomes(names)
    elif what == "scale":
        scale(names)
    else:
        steps()


if __name__ == "__main__":
    main()
