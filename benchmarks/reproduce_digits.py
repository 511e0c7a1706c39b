"""Digits with few labels and withheld classes: ours, cross-entropy, raw pixels.

    python benchmarks/reproduce_digits.py [--labels 100] [--withheld 3] [--seeds 5]

Section 4.2 of the paper on the 8 x 8 digits of scikit-learn. Both methods train the
same multilayer perceptron and are tuned with the same trials on the same validation
rows, of a seed that is not used afterwards; each is selected once on the clustering
error and once on the error of a linear probe. Results are appended to
``reproduce_digits.jsonl`` in the current folder, and what is there is not run again.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from skdiffclust import SpanningForestEmbedding
from skdiffclust._encoder import forward, init_layers
from skdiffclust.forests._embedding_training import batch_error

RESULTS = Path("reproduce_digits.jsonl")
HIDDEN, N_COMPONENTS, BATCH, N_EPOCHS = 256, 32, 64, 30
TRIALS = [
    {"learning_rate": rate, "weight_decay": decay}
    for rate in (1e-3, 3e-3)
    for decay in (1e-4, 1e-2)
]


def split(seed, n_labels, n_withheld):
    """Return training rows with partial labels, a probe set, validation and test."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    order = np.random.RandomState(seed).permutation(len(X))
    probe = np.concatenate([order[y[order] == c][:20] for c in range(10)])
    rest = order[~np.isin(order, probe)]
    train, validation, test = rest[:900], rest[900:1200], rest[1200:]
    labels = np.full(len(train), -1)
    known = np.flatnonzero(y[train] >= n_withheld)[:n_labels]
    labels[known] = y[train][known]
    sets = {"probe": probe, "validation": validation, "test": test}
    return X[train], labels, {name: (X[rows], y[rows]) for name, rows in sets.items()}


def ours(X, labels, trial, seed):
    """Return the embedding function of the partial Fenchel-Young loss."""
    return (
        SpanningForestEmbedding(
            10,
            encoder="mlp",
            hidden_layer_sizes=(HIDDEN,),
            n_components=N_COMPONENTS,
            batch_size=BATCH,
            max_iter=N_EPOCHS,
            random_state=seed,
            **trial,
        )
        .fit(X, labels)
        .transform
    )


def cross_entropy(X, labels, trial, seed):
    """Return the embedding function of a classifier, for as many steps as ours."""
    import torch

    from skdiffclust._torch import encoder_arrays, encoder_module

    rng = np.random.RandomState(seed)
    known = np.flatnonzero(labels >= 0)
    sizes = [X.shape[1], HIDDEN, N_COMPONENTS, 10]
    module = encoder_module(*init_layers(sizes, rng, X.dtype))
    optimizer = torch.optim.Adam(
        module.parameters(),
        lr=trial["learning_rate"],
        weight_decay=trial["weight_decay"],
    )
    n_steps = N_EPOCHS * ((len(X) - len(known)) // (BATCH // 2))
    for _ in range(n_steps):
        rows = rng.choice(known, size=min(BATCH, len(known)), replace=False)
        optimizer.zero_grad()
        logits = module(torch.from_numpy(X[rows]))
        target = torch.from_numpy(labels[rows])
        torch.nn.functional.cross_entropy(logits, target).backward()
        optimizer.step()
    weights, biases = encoder_arrays(module)
    return lambda rows: forward(rows, weights[:-1], biases[:-1])


def errors(embed, probe, rows, y, withheld):
    """Return clustering error, that of the withheld classes, and the probe's error."""
    embedding = embed(rows)
    hidden = y < withheld
    model = LogisticRegression(solver="saga", max_iter=300, tol=1e-2, random_state=0)
    scale = np.abs(embed(probe[0])).max()
    model.fit(embed(probe[0]) / scale, probe[1])
    found = {
        "clustering": batch_error(embedding, y, 10, BATCH, "sqeuclidean"),
        "probe": 1 - model.score(embedding / scale, y),
    }
    if hidden.any():
        found["withheld"] = batch_error(
            embedding[hidden], y[hidden], withheld, BATCH, "sqeuclidean"
        )
    return found


METHODS = {"ours": ours, "cross-entropy": cross_entropy}


def run(method, trial, seed, n_labels, n_withheld, part):
    """Return the errors of one fit, from the file if they are there."""
    key = {
        "method": method,
        "trial": trial,
        "seed": seed,
        "n_labels": n_labels,
        "n_withheld": n_withheld,
        "part": part,
    }
    if RESULTS.exists():
        for line in RESULTS.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["key"] == key:
                return entry["errors"]
    X, labels, sets = split(seed, n_labels, n_withheld)
    embed = (lambda rows: rows) if method == "raw" else None
    embed = embed or METHODS[method](X, labels, trial, seed)
    found = errors(embed, sets["probe"], *sets[part], n_withheld)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"key": key, "errors": found}) + "\n")
    return found


def select(method, n_labels, n_withheld):
    """Return the best trials by clustering and by probe error, on seed 100."""
    tried = [
        run(method, trial, 100, n_labels, n_withheld, "validation") for trial in TRIALS
    ]
    return {
        criterion: TRIALS[int(np.argmin([found[criterion] for found in tried]))]
        for criterion in ("clustering", "probe")
    }


def compare(n_labels, n_withheld, seeds):
    """Return {(method, criterion): list of errors by seed}."""
    table = {}
    for method in METHODS:
        for criterion, trial in select(method, n_labels, n_withheld).items():
            table[method, criterion] = [
                run(method, trial, seed, n_labels, n_withheld, "test") for seed in seeds
            ]
    table["raw", "none"] = [
        run("raw", {}, seed, n_labels, n_withheld, "test") for seed in seeds
    ]
    return table


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 250, 500])
    parser.add_argument("--withheld", type=int, nargs="+", default=[0, 3, 6])
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    for n_labels in args.labels:
        for n_withheld in args.withheld:
            table = compare(n_labels, n_withheld, range(args.seeds))
            for (method, criterion), found in table.items():
                figures = " ".join(
                    f"{name} {np.mean([one[name] for one in found]):.3f}"
                    f" ({min(one[name] for one in found):.3f}"
                    f" to {max(one[name] for one in found):.3f})"
                    for name in found[0]
                )
                print(
                    f"{n_labels:4d} labels, {n_withheld} withheld, {method:13s} "
                    f"selected on {criterion:10s}: {figures}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
