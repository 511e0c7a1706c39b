"""How low does PRCut cut, and how fast, against spectral clustering?

Four questions, each a subcommand; without one, the first three.

    python benchmarks/bench_prcut.py steps    # a training step against (b, b, k)
    python benchmarks/bench_prcut.py fits     # fit times against SpectralClustering
    python benchmarks/bench_prcut.py growth   # cost in n, edges and clusters
    python benchmarks/bench_prcut.py table NAME ...   # cuts and agreement, 5 seeds
    python benchmarks/bench_prcut.py table NAME ... --short

Both sides are given the same graph. Times are CPU seconds of alternating runs on one
thread. The table needs the data sets under ../shared/data.
"""

import json
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn
import torch
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.neighbors import kneighbors_graph

from skdiffclust import PRCut
from skdiffclust.cuts import ratio_cut
from skdiffclust.cuts._polish import polish
from skdiffclust.cuts._ratio_cut import check_graph
from skdiffclust.metrics import clustering_accuracy
from skdiffclust.nn import RatioCutLoss

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
N_NEIGHBORS = {
    "digits": 10,
    "usps_train": 20,
    "mnist_t10k": 25,
    "letter": 50,  # with fewer, it falls into parts of a few equal rows
    "isolet": 10,
}
LONG_ROWS = ("PRCut linear, spectral", "PRCut mlp, spectral", "paper's recipe")


def load(name):
    """Return (X, y) of a data set."""
    if name == "digits":
        return load_digits(return_X_y=True)
    with np.load(SHARED / f"{name}.npz", allow_pickle=False) as archive:
        return archive["X"].astype(float), archive["y"]


def neighbours(X, k):
    """Return the 0/1 graph of k nearest neighbours, either way."""
    graph = kneighbors_graph(X, k)
    return check_graph(graph.maximum(graph.T), caller="neighbours")


def seconds(function, *arguments, **keywords):
    """Return (CPU seconds, result) of a call: a shared machine does not blur them."""
    start = time.process_time()
    result = function(*arguments, **keywords)
    return time.process_time() - start, result


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
    X, _ = (
        load("mnist_t10k") if (SHARED / "mnist_t10k.npz").exists() else load("digits")
    )
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


def growing_graphs():
    """Yield (name, graph, n_clusters)."""
    if (SHARED / "mnist_t10k.npz").exists():
        X, _ = load("mnist_t10k")
        yield "mnist 2 000", neighbours(X[:2000], 25), 10
        yield "mnist 10 000", neighbours(X, 25), 10
        yield "letter 20 000", neighbours(load("letter")[0], 50), 26
    X, _ = make_blobs(60_000, n_features=8, centers=20, cluster_std=3.5, random_state=0)
    yield "blobs 60 000", neighbours(X, 15), 20


def fits():
    """Time fits on one graph, and compare the ratio-cuts."""
    print(
        "data              edges     spectral s   random s  ratio   polished spectral"
    )
    for name, graph, k in growing_graphs():
        ratios, cuts = [], []
        for seed in range(1 if graph.shape[0] > 5000 else 3):
            peer = SpectralClustering(k, affinity="precomputed", random_state=seed)
            model = PRCut(
                k,
                affinity="precomputed",
                encoder=None,
                init="random",
                random_state=seed,
            )
            slow, _ = seconds(peer.fit, graph)
            if not seed:
                model.fit(graph)  # compiles
            fast, _ = seconds(model.fit, graph)
            ratios.append(slow / fast)
            cuts.append(
                [ratio_cut(graph, m.labels_).value for m in (peer, model)]
                + [ratio_cut(graph, polish(graph, peer.labels_.astype(int), k)).value]
            )
        peer_cut, cut, polished = np.median(cuts, axis=0)
        print(
            f"{name:15s} {graph.nnz:9d} {slow:8.2f} {fast:8.2f}"
            f"   {np.median(ratios):6.1f}x   RC {peer_cut:.3f} spectral, "
            f"{polished:.3f} polished, {cut:.3f} random start",
            flush=True,
        )


def growth():
    """Time fits of encoder=None, init="random" as n, edges and clusters double."""
    for what, values in (
        ("n", [5000, 10_000, 20_000, 40_000]),
        ("neighbours", [10, 20, 40, 80]),
        ("k", [5, 10, 20, 40]),
    ):
        times = []
        for value in values:
            n, m, k = {
                "n": (value, 15, 10),
                "neighbours": (10_000, value, 10),
                "k": (10_000, 15, value),
            }[what]
            X, _ = make_blobs(
                n, n_features=6, centers=20, cluster_std=3.0, random_state=0
            )
            graph = neighbours(X, m)
            model = PRCut(
                k, affinity="precomputed", encoder=None, init="random", random_state=0
            )
            model.fit(graph)
            times.append(min(seconds(model.fit, graph)[0] for _ in range(3)))
        print(what, *(f"{v}: {t:.2f} s" for v, t in zip(values, times, strict=True)))


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


def models(k, seed, n_neighbors, n):
    """Yield (name, PRCut) of the rows of the table."""
    common = {"n_clusters": k, "random_state": seed, "n_neighbors": n_neighbors}
    yield "PRCut free, spectral", PRCut(encoder=None, **common)
    for init in ("random", "spectral"):
        if init == "random":
            yield "PRCut free, random", PRCut(encoder=None, init=init, **common)
        for encoder in ("linear", "mlp"):
            yield (
                f"PRCut {encoder}, {init}",
                PRCut(encoder=encoder, init=init, **common),
            )
    yield (
        "paper's recipe",
        PRCut(
            encoder="mlp",
            hidden_layer_sizes=(512,),
            init="random",
            polish=False,
            objective="bound",
            sampling="pairs",
            batch_size=min(2048, n // 2),
            learning_rate=1e-3,
            max_iter=300,
            tol=0.0,
            n_init=1,
            **common,
        ),
    )


def table(names, n_seeds, output, short):
    """Print the cuts of each seed, and append every fit to a file of JSON lines.

    The short table leaves out the encoders from a spectral start, the paper's recipe
    and the held-out rows, and after the first seed takes PRCut's spectral start from
    the peer in place of computing it again.
    """
    from skdiffclust.cuts import _starts

    solve, known = _starts._spectral, {}

    def solve_once(graph, n_clusters, n_init, random_state):
        # Rows of the table that share a spectral start share its eigenvectors.
        key = (graph.nnz, n_clusters, random_state.get_state()[1][0])
        if key not in known:
            known[key] = solve(graph, n_clusters, n_init, random_state)
        return known[key]

    for name in names:
        X, y = load(name)
        m, k = N_NEIGHBORS[name], len(np.unique(y))
        graph = neighbours(X, m)
        fifth = np.random.RandomState(0).permutation(len(X))[: len(X) // 5]
        rest = np.setdiff1d(np.arange(len(X)), fifth)
        held_out, part = neighbours(X[fifth], m), neighbours(X[rest], m)
        for seed in range(n_seeds):
            known.clear()
            peer = SpectralClustering(k, affinity="precomputed", random_state=seed)
            slow, _ = seconds(peer.fit, graph)
            labels = peer.labels_.astype(np.int64)
            found = {"spectral": describe(graph, y, labels, k) | {"s": slow}}
            found["spectral, polished"] = describe(
                graph, y, polish(graph, labels, k), k
            ) | {"s": slow}
            for row, model in models(k, seed, m, len(X)):
                if short and row in LONG_ROWS:
                    continue
                if short and seed:
                    known[(graph.nnz, k, seed)] = labels
                again = row == "PRCut free, spectral" and not (short and seed)
                _starts._spectral = solve if again else solve_once
                took, _ = seconds(model.fit, X, graph=graph)
                found[row] = describe(graph, y, model.labels_, k) | {"s": took}
                if row == "PRCut free, spectral":
                    known[(graph.nnz, k, seed)] = labels
                if not short and ("random" in row or "recipe" in row):
                    model.fit(X[rest], graph=part)
                    out = describe(held_out, y[fifth], model.predict(X[fifth]), k)
                    found[row] |= {"out_rc": out["rc"], "out_acc": out["acc"]}
            for row, values in found.items():
                with open(output, "a", encoding="utf-8") as file:
                    line = {"data": name, "seed": seed, "row": row} | values
                    file.write(json.dumps(line) + "\n")
            print(
                name, seed, {r: round(v["rc"], 3) for r, v in found.items()}, flush=True
            )


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--output", default="prcut_table.jsonl")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print("Python", sys.version.split()[0], "scikit-learn", sklearn.__version__)
    what = arguments.what or ["steps", "fits", "growth"]
    if what[0] == "table":
        names = what[1:] or list(N_NEIGHBORS)
        table(names, arguments.seeds, arguments.output, arguments.short)
        return
    for question in what:
        {"steps": steps, "fits": fits, "growth": growth}[question]()


if __name__ == "__main__":
    main()
