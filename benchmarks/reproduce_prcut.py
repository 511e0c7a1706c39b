"""The paper of PRCut: Tables 1 and 2, on the data at hand.

    python benchmarks/reproduce_prcut.py labels [digits usps_train mnist_t10k]
    python benchmarks/reproduce_prcut.py table [NAME ...] [--rows ...] [--seeds 5]
    python benchmarks/reproduce_prcut.py paper [digits usps_train mnist_t10k]

labels           similarity from labels: samples with one label are joined, with two
                 separated, and the encoder that cuts this graph predicts a fifth of the
                 samples, stratified by class, five times; also by the paper's loop from
                 random weights; beside it logistic regression and a perceptron with as
                 many hidden units
table            ratio-cuts and agreement of spectral clustering, of the search, of
                 encoders and of a recipe like the paper's, and predictions for a fifth
paper            ratio-cuts and agreement of spectral clustering, and of training from
                 random weights with the settings of the paper and with some changed, on
                 the graph of 150 neighbours

The first three add a line to ``prcut_PART.jsonl`` for each fit, and what is there is
not run again.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from bench_cuts import N_NEIGHBORS, spectral
from cut_graphs import neighbours
from shared import Results, load, versions
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdiffclust import GraphCutClustering, PRCut
from skdiffclust.cuts import ratio_cut
from skdiffclust.metrics import clustering_accuracy


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
    loop.fit(train, graph=same)
    scores["paper's loop"] = clustering_accuracy(y_test, loop.predict(test))
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
    for name in names or ("digits", "usps_train", "mnist_t10k"):
        runs = [
            results.once([name, seed], accuracies, name, seed)
            for seed in range(n_seeds)
        ]
        for method in runs[0]:
            found = np.array([run[method] for run in runs])
            print(f"{name}, {method}: median {np.median(found):.3f},", found.round(3))


# Table 2.


def describe(graph, y, labels):
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


# The paper's loop on a graph of few neighbours, with another learning rate and weight.
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
ROWS = ["spectral", "search, spectral", "search, random"] + [
    f"{name}, {init}"
    for init in ("spectral", "graph_cut")
    for name in ("linear", "mlp")
]
ROWS.append("recipe")
# Section C.1 of the paper. Weights of the first and last layer are normalised there.
PAPER = RECIPE | {
    "affinity": "nearest_neighbors",
    "n_neighbors": 150,
    "balance_weight": 100,
    "averaging_rate": "decreasing",
    "optimizer": "rmsprop",
    "learning_rate": 1e-4,
    "max_iter": 3000,
}
# Running proportions of the published code change at a constant rate.
CHANGED = {
    "settings of the paper": {},
    "constant averaging": {"averaging_rate": 0.8},
    "constant averaging, Adam": {"averaging_rate": 0.8, "optimizer": "adam"},
    "constant averaging, 1e-3, weight 10": {
        "averaging_rate": 0.8,
        "learning_rate": 1e-3,
        "balance_weight": 10,
    },
}


class Problem:
    """A data set with its graph, and a fifth of it held out."""

    def __init__(self, name):
        X, self.y = load(name)
        self.n_neighbors, self.k = N_NEIGHBORS[name], len(np.unique(self.y))
        self.fifth = np.random.RandomState(0).permutation(len(X))[: len(X) // 5]
        self.rest = np.setdiff1d(np.arange(len(X)), self.fifth)
        self.graph, self.part, self.held_out = (
            neighbours(rows, self.n_neighbors)
            for rows in (X, X[self.rest], X[self.fifth])
        )
        self.X = X.astype(np.float32)  # as the networks of the paper are trained

    def model(self, row, seed, n_samples):
        """Return the unfitted estimator of a row of the table."""
        common = {"n_clusters": self.k, "n_neighbors": self.n_neighbors}
        common["random_state"] = seed
        if row == "recipe":
            batch_size = min(2048, n_samples // 2)
            return PRCut(**common | RECIPE | {"batch_size": batch_size})
        encoder, init = row.split(", ")
        if encoder == "search":
            common["min_cluster_size"] = 1
            return GraphCutClustering(init=init, cut="ratio", **common)
        return PRCut(encoder=encoder, init=init, cut="ratio", **common)

    def measure(self, row, seed):
        """Return what the table says of a row."""
        if row == "spectral":
            found = spectral(self.graph, self.k, seed)
            return describe(self.graph, self.y, found.astype(np.int64))
        model = self.model(row, seed, len(self.X)).fit(self.X, graph=self.graph)
        found = describe(self.graph, self.y, model.labels_)
        model = self.model(row, seed, len(self.rest))
        model.fit(self.X[self.rest], graph=self.part)
        predicted = model.predict(self.X[self.fifth])
        out = describe(self.held_out, self.y[self.fifth], predicted)
        return found | {f"out_{key}": out[key] for key in ("rc", "acc", "used")}


def table(names, n_seeds, rows):
    """Print medians over the seeds, and the ratio-cut relative to the peer's."""
    results = Results(Path("prcut_table.jsonl"))
    keys = "rc used smallest acc nmi nmi_max ari out_rc out_acc".split()
    print("data, row: seeds", *keys, "worst rc / spectral", sep=", ")
    for name in names or N_NEIGHBORS:
        problem = Problem(name)
        peers = {}
        for row in rows:
            runs = [
                results.once([name, row, seed], problem.measure, row, seed)
                for seed in range(n_seeds)
            ]
            if row == "spectral":
                peers = {seed: run["rc"] for seed, run in enumerate(runs)}
            columns = ([run.get(key, np.nan) for run in runs] for key in keys)
            medians = [np.median(column) for column in columns]
            ratios = [run["rc"] / peers.get(s, np.nan) for s, run in enumerate(runs)]
            print(
                f"{name}, {row}: {len(runs)} ",
                *(f"{median:.3f}" for median in medians),
                f"{max(ratios):.4f}",
                flush=True,
            )


def from_scratch(name, row, seed):
    """Return what training from random weights finds on the graph of 150 neighbours."""
    X, y = load(name)
    X = X.astype(np.float32)
    k = len(np.unique(y))
    batch_size = min(RECIPE["batch_size"], len(X) // 2)
    chosen = PAPER | CHANGED.get(row, {}) | {"batch_size": batch_size}
    if row == "spectral":
        chosen |= {"init": "spectral", "max_iter": 1}
    model = PRCut(k, **chosen, random_state=seed).fit(X)
    labels = model.labels_ if row != "spectral" else model.init_labels_
    return describe(model.affinity_matrix_, y, labels) | {"n_iter": model.n_iter_}


def paper(names, n_seeds):
    """Print medians of the seeds, and the ratio-cut relative to spectral clustering."""
    results = Results(Path("prcut_paper.jsonl"))
    keys = "rc used smallest acc nmi ari".split()
    for name in names or ("digits", "usps_train", "mnist_t10k"):
        lowest = None
        for row in ["spectral", *CHANGED]:
            runs = [
                results.once([name, row, seed], from_scratch, name, row, seed)
                for seed in range(n_seeds)
            ]
            found = [np.median([run[key] for run in runs]) for key in keys]
            lowest = lowest or found[0]
            print(
                f"{name}, {row}:",
                ", ".join(f"{k} {v:.3f}" for k, v in zip(keys, found, strict=True)),
                f"relative {found[0] / lowest:.3f}",
                flush=True,
            )


def main():
    """Run a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["labels", "table", "paper"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", nargs="*", default=ROWS, choices=ROWS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(versions("scikit-learn", "torch"))
    if options.part == "labels":
        labels(options.names, options.seeds)
    elif options.part == "table":
        table(options.names, options.seeds, options.rows)
    else:
        paper(options.names, options.seeds)


if __name__ == "__main__":
    main()
