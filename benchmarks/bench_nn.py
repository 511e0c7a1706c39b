"""What training loops in torch cost and give: a tree as a layer, a linear head.

    python benchmarks/bench_nn.py tree
    python benchmarks/bench_nn.py topology
    python benchmarks/bench_nn.py ratio-cut
    python benchmarks/bench_nn.py head

"tree": processor time of ``nn.spanning_tree`` with its backward pass, in units of
``minimum_spanning_tree`` of the same array, beside the lengths by indexing and a norm
under autograd; calls in turn, float64, one thread, medians.

"topology": persistent homology in dimension 0 by torch-topological (which needs gudhi
and giotto-ph) beside the lengths of the tree: the largest difference of the values and
of the gradients of their sum, and processor seconds with the backward pass.

"ratio-cut": the training loop of ``nn.RatioCutLoss`` on digits, a perceptron on the
graph of 20 neighbours: ARI after 10, 30 and 100 epochs, one column for each of the
seeds 0 to 2, for several settings of the loop.

"head": ``PRCut(encoder="linear")``, a linear head on features that are not trained,
beside ``GraphCutClustering`` and k-means with 10 starts. At most 4000 samples are
drawn once; each method is fitted to the half of them that a seed draws, and all are
clustered by ``predict``. Features are centred and scaled by one number.
Printed are the adjusted Rand index (ARI) of the samples of the fit and of the others,
means and standard deviations over the seeds 0 to 4, and the processor seconds of
``fit`` and ``predict``. "consensus" is k-means of the probabilities of five heads,
``n_init=1`` each, side by side. Nothing was tuned.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import argparse
import time
import warnings

import numpy as np
import torch
from shared import load, seconds, some, those_here, versions
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph
from torch import nn

from skdiffclust import GraphCutClustering, PRCut, warmup
from skdiffclust.forests import minimum_spanning_tree
from skdiffclust.nn import RatioCutLoss, spanning_tree

SHAPES = (256, 32), (100_000, 2)
N_REPEATS = {256: 201, 100_000: 15}
DATA = "isolet", "usps_train", "mnist_t10k"
SEEDS = range(5)
N_MOST = 4000
N_HEADS = 5


def normal_points(n_samples, n_features):
    """Return the samples (n, d), float64, that are timed."""
    return np.random.RandomState(0).normal(size=(n_samples, n_features))


def by_tree(leaf):
    """Return the lengths (n - 1,) of the tree of a tensor (n, d)."""
    return spanning_tree(leaf)[1]


def by_indexing(leaf):
    """Return the same by indexing and a norm under autograd."""
    edges = torch.from_numpy(minimum_spanning_tree(leaf.detach().numpy()).edges)
    return (leaf[edges[:, 0]] - leaf[edges[:, 1]]).norm(dim=1)


def gradient_of(lengths_of, X):
    """Return lengths of an array X (n, d), and the gradient of their sum."""
    leaf = torch.from_numpy(X).requires_grad_()
    lengths = lengths_of(leaf)
    lengths.sum().backward()
    return lengths.detach(), leaf.grad


def nanoseconds(function, *arguments):
    """Return the processor time of a call, without its result."""
    start = time.process_time_ns()
    function(*arguments)
    return time.process_time_ns() - start


def print_tree():
    """Print the times of the tree as a layer."""
    warmup()
    for n, d in SHAPES:
        X = normal_points(n, d)
        calls = (
            (minimum_spanning_tree, X),
            (gradient_of, by_tree, X),
            (gradient_of, by_indexing, X),
        )
        rounds = [
            [nanoseconds(*call) for call in calls] for _ in range(N_REPEATS[n] + 1)
        ]
        times = np.array(rounds[1:]) / 1e6
        ratios = np.median(times / times[:, :1], axis=0)
        print(
            f"{n} x {d}: tree {np.median(times[:, 0]):.2f} ms, as a layer "
            f"{ratios[1]:.2f} times that, by indexing {ratios[2]:.2f}"
        )


def print_topology():
    """Print how torch-topological and the tree agree, and their times."""
    from torch_topological.nn import VietorisRipsComplex

    print(versions("torch-topological", "gudhi", "giotto-ph", "torch"))
    rips = VietorisRipsComplex(dim=0)

    def by_topology(leaf):
        return rips(leaf)[0].diagram[:, 1]

    warmup()
    for n in (100, 1000, 10_000):
        X = normal_points(n, 2)
        calls = (by_tree, by_topology)
        rounds = [[seconds(gradient_of, call, X) for call in calls] for _ in range(3)]
        (_, (ours, by_ours)), (_, (theirs, by_theirs)) = rounds[-1]
        times = np.median([[time for time, _ in one] for one in rounds], axis=0)
        print(
            f"n = {n}: largest difference of lengths "
            f"{float((ours - theirs.sort().values).abs().max()):.1e}, of gradients "
            f"{float((by_ours - by_theirs).abs().max()):.1e}; seconds {times[0]:.4f}, "
            f"torch-topological {times[1]:.4f}"
        )


def ratio_cut_loop(seed, *, scale=True, batch_size=256, rate=0.01, weight=10.0):
    """Return the ARI of digits (3,) after 10, 30 and 100 epochs of the loop."""
    X, y = load("digits")
    graph = kneighbors_graph(X, 20)
    graph = (graph + graph.T).tocsr()
    X = torch.from_numpy((X - X.mean(axis=0)) / (X.std() if scale else 1)).float()
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.0)
    loss_of = RatioCutLoss(10, balance_weight=weight)
    found = []
    for epoch in range(100):
        for rows in torch.randperm(len(X)).split(batch_size):
            block = graph[rows.numpy()][:, rows.numpy()]
            optimizer.zero_grad()
            loss_of(network(X[rows]), block).backward()
            optimizer.step()
        if epoch + 1 in (10, 30, 100):
            labels = network(X).argmax(dim=1).numpy()
            found.append(adjusted_rand_score(y, labels))
    return found


def print_ratio_cut():
    """Print what makes the loop of the ratio-cut work."""
    for name, change in {
        "as in the guide": {},
        "rate .001": {"rate": 0.001},
        "all samples in one batch": {"batch_size": 1797},
        "features not scaled": {"scale": False},
        "balance_weight=1": {"weight": 1.0},
        "balance_weight=100": {"weight": 100.0},
    }.items():
        found = np.transpose([ratio_cut_loop(seed, **change) for seed in range(3)])
        print(name, *found.round(2).tolist(), flush=True)


def halves(name, seed):
    """Return samples of a fit, others, and the classes of both."""
    X, y = load(name)
    X -= X.mean(axis=0)
    X /= np.sqrt(np.mean(X**2))
    X, y = some(X, np.unique(y, return_inverse=True)[1], N_MOST)
    order = np.random.RandomState(seed).permutation(len(X))
    return [(X[part], y[part]) for part in np.array_split(order, 2)]


def print_head():
    """Print the agreement of a linear head and its peers with classes."""
    for name in those_here(*DATA):
        found = {}
        for seed in SEEDS:
            (X, y), (X_new, y_new) = halves(name, seed)
            k = len(np.unique(y))
            methods = {
                "linear head": PRCut(k, encoder="linear", random_state=seed),
                "GraphCutClustering": GraphCutClustering(k, random_state=seed),
                "k-means": KMeans(k, n_init=10, random_state=seed),
            }
            for method, model in methods.items():
                fitting, _ = seconds(model.fit, X)
                predicting, labels = seconds(model.predict, X_new)
                agreement = [
                    adjusted_rand_score(y, model.labels_),
                    adjusted_rand_score(y_new, labels),
                ]
                found.setdefault(method, []).append([*agreement, fitting, predicting])
            heads = [
                PRCut(k, encoder="linear", n_init=1, random_state=N_HEADS * seed + i)
                for i in range(N_HEADS)
            ]
            fitting, _ = seconds(lambda heads=heads, X=X: [h.fit(X) for h in heads])
            sides = [
                np.hstack([head.predict_proba(part) for head in heads])
                for part in (X, X_new)
            ]
            consensus = KMeans(k, n_init=10, random_state=seed).fit(sides[0])
            predicting, labels = seconds(consensus.predict, sides[1])
            agreement = [
                adjusted_rand_score(y, consensus.labels_),
                adjusted_rand_score(y_new, labels),
            ]
            found.setdefault("consensus", []).append([*agreement, fitting, predicting])
        for method, values in found.items():
            mean = np.mean(values, axis=0)
            spread = np.std(values, axis=0)
            print(
                f"{name}, {method}: {mean[0]:.3f} ± {spread[0]:.3f}, others "
                f"{mean[1]:.3f} ± {spread[1]:.3f}; fit {mean[2]:.1f} s, predict "
                f"{mean[3]:.3f} s",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    commands = {"tree": print_tree, "topology": print_topology, "head": print_head}
    commands["ratio-cut"] = print_ratio_cut
    parser.add_argument("command", choices=["tree", "topology", "ratio-cut", "head"])
    warnings.simplefilter("ignore", ConvergenceWarning)
    commands[parser.parse_args().command]()
