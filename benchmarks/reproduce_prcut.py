"""The paper of PRCut: Tables 1 and 2, on the data at hand.

    python benchmarks/reproduce_prcut.py labels [digits usps_train mnist_t10k]
    python benchmarks/reproduce_prcut.py table [NAME ...] [--seeds 5]
    python benchmarks/reproduce_prcut.py paper [digits usps_train mnist_t10k]
    python benchmarks/reproduce_prcut.py raw [mnist_t10k ...] [--seeds 1]
        [--checkpoints FOLDER]

labels           affinity from labels: samples with one label are joined, with two
                 separated, and the encoder that cuts this graph predicts a fifth of the
                 samples, stratified by class, five times; also by a recipe like the
                 paper's, from random weights; beside it logistic regression and a
                 perceptron of 128 hidden units
table            ratio-cuts and agreement of spectral clustering, of the search, and of
                 a recipe like the paper's
paper            ratio-cuts and agreement of spectral clustering, and of the loop of the
                 paper, in torch, with its settings and with some changed, on the graph
                 of 150 neighbours of Section 5 (Table 5 has 100)
raw              the same with the network and the decay of Section C.1 as well, for
                 25 000 steps of two batches of 2048, on the graph of 100 neighbours:
                 hours; each 500 steps are a row, and go on from the file in the folder
                 of checkpoints

They add a line to ``prcut_PART.jsonl`` for each fit, and what is there is
not run again.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import itertools
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from bench_cuts import neighbours, spectral
from shared import (
    Results,
    load,
    print_seconds,
    resumed,
    save_steps,
    seconds,
    torch_device,
    versions,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch.nn.utils.parametrizations import weight_norm

from skdiffclust import GraphCutClustering, PRCut
from skdiffclust.cuts import ratio_cut
from skdiffclust.metrics import clustering_accuracy
from skdiffclust.nn import RatioCutLoss


def accuracies(name, seed):
    """Return the accuracy on a held-out fifth of PRCut and of two classifiers."""
    X, y = load(name)
    X = X.astype(np.float32)
    train, test, y_train, y_test = train_test_split(
        X, y, test_size=0.2, random_state=seed, stratify=y
    )
    # Such a graph has edges by the million: the bound costs a product an epoch.
    model = PRCut(10, objective="bound", random_state=seed)
    model.fit(train, partial_labels=y_train)
    scores = {"PRCut": clustering_accuracy(y_test, model.predict(test))}
    same = sp.csr_array((y_train[:, None] == y_train).astype(float))
    batch_size = min(RECIPE["batch_size"], len(train) // 2)
    loop = PRCut(10, **RECIPE | {"batch_size": batch_size}, random_state=seed)
    loop.fit(train, precomputed=same)
    scores["recipe"] = clustering_accuracy(y_test, loop.predict(test))
    peers = {
        "logistic regression": LogisticRegression(),
        "perceptron": MLPClassifier((128,), early_stopping=True, random_state=seed),
    }
    for name, peer in peers.items():
        peer = make_pipeline(StandardScaler(), peer).fit(train, y_train)
        scores[name] = peer.score(test, y_test)
    return scores


def labels(names, n_seeds):
    """Print all splits and their medians."""
    results = Results(Path("prcut_labels.jsonl"))
    for name in names:
        runs = [
            results.once([name, seed], accuracies, name, seed)
            for seed in range(n_seeds)
        ]
        for method in runs[0]:
            found = np.array([run[method] for run in runs])
            print(f"{name}, {method}: median {np.median(found):.3f},", found.round(3))


# Table 2.


def describe(graph, y, labels):
    """Return what the tables say of labels."""
    return {
        "rc": ratio_cut(graph, labels).value,
        "accuracy": clustering_accuracy(y, labels),
        "ari": adjusted_rand_score(y, labels),
        "clusters": len(np.unique(labels)),
    }


# Like the paper's, but by Adam, with a rate of .001 that falls, another weight of the
# balance, and one layer.
RECIPE = {
    "cut": "ratio",
    "hidden_layer_sizes": (512,),
    "init": "random",
    "objective": "bound",
    "batch_size": 2048,
    "learning_rate": 1e-3,
    "weight_decay": 1e-7,
    "max_iter": 300,
    "tol": 0.0,
    "n_init": 1,
}
ROWS = "spectral", "search", "recipe"
N_NEIGHBORS = {
    "digits": 10,
    "usps_train": 20,
    "mnist_t10k": 25,
    "letter": 50,  # with fewer, it falls into parts of a few equal rows
    "isolet": 10,
}
# Table 5 of the paper, without its decay of the weights.
PAPER = {
    "averaging_rate": "decreasing",
    "balance_weight": 100,
    "learning_rate": 1e-4,
    "optimizer": torch.optim.RMSprop,
}
# Running proportions of the published code change at a constant rate.
CONSTANT = PAPER | {"averaging_rate": 0.8}
LOOPS = {
    "settings of the paper": PAPER,
    "constant averaging": CONSTANT,
    "constant averaging, Adam": CONSTANT | {"optimizer": torch.optim.Adam},
    "constant averaging, 1e-3, weight 10": CONSTANT
    | {"learning_rate": 1e-3, "balance_weight": 10},
}
N_STEPS = 2000
# Section C.1.2, with weights of the first and last layer that are normalised. The steps
# are those of the published code; the paper has no number.
RAW = CONSTANT | {"n_layers": 3, "weight_decay": 1e-7}
RAW = {f"{n} steps": RAW | {"n_steps": n} for n in range(500, 25_001, 500)}


def perceptron(n_features, n_layers, k):
    """Return a perceptron of 512 units a layer, several layers weight-normalised."""
    sizes = [n_features, *n_layers * [512], k]
    linear = [torch.nn.Linear(*pair) for pair in itertools.pairwise(sizes)]
    if n_layers > 1:
        linear[0], linear[-1] = map(weight_norm, (linear[0], linear[-1]))
    hidden = [layer for one in linear[:-1] for layer in (one, torch.nn.GELU())]
    return torch.nn.Sequential(*hidden, linear[-1])


def on_few_neighbors(name, row, seed):
    """Return what a method finds on the graph of few neighbours."""
    X, y = load(name)
    n_neighbors, k = N_NEIGHBORS[name], len(np.unique(y))
    graph = neighbours(X, n_neighbors)
    if row == "spectral":
        labels = spectral(graph, k, seed).astype(np.int64)
    elif row == "search":
        model = GraphCutClustering(
            k, cut="ratio", min_cluster_size=1, random_state=seed
        )
        labels = model.fit(X, precomputed=graph).labels_
    else:
        batch_size = min(RECIPE["batch_size"], len(X) // 2)
        model = PRCut(k, **RECIPE | {"batch_size": batch_size}, random_state=seed)
        labels = model.fit(X.astype(np.float32), precomputed=graph).labels_
    return describe(graph, y, labels)


def timed(measure, *case):
    """Return what a method finds, and the processor seconds that it takes."""
    spent, found = seconds(measure, *case)
    return found | {"seconds": spent}


def print_rows(part, measure, names, rows, n_seeds):
    """Print medians of the seeds, and the ratio-cut relative to the first row's."""
    results = Results(Path(f"prcut_{part}.jsonl"))
    for name in names:
        reference = None
        for row in rows:
            runs = [
                results.once([name, row, seed], timed, measure, name, row, seed)
                for seed in range(n_seeds)
            ]
            cuts = np.array([run["rc"] for run in runs])
            reference = cuts if reference is None else reference
            found = {key: np.median([run[key] for run in runs]) for key in runs[0]}
            print(
                f"{name}, {row}:",
                ", ".join(f"{key} {value:.3f}" for key, value in found.items()),
                f"relative {np.median(cuts / reference):.3f}",
                flush=True,
            )


def published_loop(
    X,
    graph,
    k,
    seed,
    *,
    averaging_rate,
    balance_weight,
    learning_rate,
    optimizer,
    n_layers=1,
    weight_decay=0.0,
    n_steps=N_STEPS,
    checkpoint=None,
):
    """Return the labels (n,) that the network has after Algorithm 1 of the paper.

    It goes on from the state in the file `checkpoint`, where its last steps put it.

    ::

         2  t ← t + 1
         3  sample left batch S_l of size b              left
         4  sample right batch S_r of size b             right
         5  W ← K(S_l, S_r)                              block
         6  P_l, P_r ← N(S_l), N(S_r)                    logits, of which softmax is P
         7  P̄ ← (1 − β_t) P̄ + β_t (mean P_l + mean P_r) / 2
         8  the gradients of the bound by P_l and P_r    the right ones, not (8)
         9  back-propagate them
        10  back-propagate γ KL                          of P̄, as in Section 4.3
        11  update θ

    P̄ begins at 1/k. Lines 7 to 10 are `RatioCutLoss` and its gradient: the sum over a
    block is divided by ‖W‖₁ (Section 5), and a sample is 1/(2b) of P̄, not 1/b.
    """
    torch.manual_seed(seed)
    rng = np.random.RandomState(seed)
    device = torch_device()
    X = torch.from_numpy((X - X.mean(axis=0)) / (X - X.mean(axis=0)).std())
    X = X.float().to(device)
    network = perceptron(X.shape[1], n_layers, k).to(device)
    loss_of = RatioCutLoss(k, balance_weight=balance_weight).to(device)
    loss_of.proportions.fill_(1 / k)
    optimizer = optimizer(
        network.parameters(), lr=learning_rate, weight_decay=weight_decay
    )
    batch_size = min(2048, len(X) // 2)
    parts = network, optimizer, loss_of
    for step in range(1 + resumed(checkpoint, n_steps, rng, parts), n_steps + 1):
        is_decreasing = averaging_rate == "decreasing"
        loss_of.averaging_rate = 0.8 / step if is_decreasing else averaging_rate
        left, right = (rng.permutation(len(X))[:batch_size] for _ in range(2))
        block = graph[left][:, right]
        loss = loss_of(network(X[left]), block, right=network(X[right]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if checkpoint is not None:
        save_steps(checkpoint, n_steps, rng, parts)
    with torch.no_grad():
        return network(X).argmax(dim=1).cpu().numpy()


@cache
def with_graph(name, n_neighbors):
    """Return samples, classes and the graph of nearest neighbours."""
    X, y = load(name)
    X = X.reshape(len(X), -1)
    return X, y, neighbours(X, n_neighbors)


def on_many_neighbors(name, row, seed, *, n_neighbors, loops, folder=None):
    """Return what spectral clustering or a loop of the paper finds on a graph."""
    X, y, graph = with_graph(name, n_neighbors)
    k = len(np.unique(y))
    if row == "spectral":
        return describe(graph, y, spectral(graph, k, seed).astype(np.int64))
    checkpoint = folder and folder / f"{name}_{seed}.pt"
    labels = published_loop(X, graph, k, seed, checkpoint=checkpoint, **loops[row])
    return describe(graph, y, labels)


def main():
    """Run a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["labels", "table", "paper", "raw"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--checkpoints", type=Path, default=Path("prcut_raw"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    # Shares near 0 or 1 have tiny gradients, of which the processor is slow.
    torch.set_flush_denormal(True)
    print(versions("scikit-learn", "torch"))
    digits = options.names or ["digits", "usps_train", "mnist_t10k"]
    if options.part == "labels":
        labels(digits, options.seeds)
    elif options.part == "table":
        names = options.names or N_NEIGHBORS
        print_rows("table", on_few_neighbors, names, ROWS, options.seeds)
    elif options.part == "raw":
        options.checkpoints.mkdir(exist_ok=True)
        measure = partial(
            on_many_neighbors, n_neighbors=100, loops=RAW, folder=options.checkpoints
        )
        names = options.names or ["mnist_t10k"]
        print_rows("raw", measure, names, ["spectral", *RAW], options.seeds)
    else:
        measure = partial(on_many_neighbors, n_neighbors=150, loops=LOOPS)
        print_rows("paper", measure, digits, ["spectral", *LOOPS], options.seeds)
    print_seconds()


if __name__ == "__main__":
    main()
