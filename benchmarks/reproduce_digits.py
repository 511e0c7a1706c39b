"""Digits with few labels and withheld classes: ours, cross-entropy, raw pixels.

    python benchmarks/reproduce_digits.py [--data digits] [--labels 100] [--withheld 3]
        [--seeds 5] [--picture FILE]

Section 4.2 of the paper: a perceptron on the 8 x 8 digits of scikit-learn, or with
``--data mnist`` LeNet-5 on the test split of MNIST. Both methods train the same network
for as many steps, and are tuned with the same trials on the same validation rows, of a
seed that is not used afterwards; each is selected once on the clustering error and once
on the error of a linear probe. Results are appended to ``reproduce_DATA.jsonl`` in the
current folder, and what is there is not run again. ``--picture`` draws a t-SNE of test
rows as embedded by ours with the first trial instead.
"""

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from data_sets import load_data
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import nn

from skdiffclust import SpanningForestEmbedding
from skdiffclust._encoder import Encoder
from skdiffclust._torch import encoder_module
from skdiffclust.forests._embedding._training import batch_error

BATCH, N_COMPONENTS, N_CLASSES, TUNING_SEED = 64, 32, 10, 100


def perceptron(seed):
    """Return the untrained "mlp" encoder of the estimator for images of 64 pixels."""
    rng = np.random.RandomState(seed)
    sizes = [64, 256, N_COMPONENTS]
    return encoder_module(Encoder.with_random_weights(sizes, rng, np.float32))


def lenet(seed):
    """Return an untrained LeNet-5 for images (1, 28, 28); torch is seeded by now."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()),
        nn.Linear(84, N_COMPONENTS),
    )


def small_digits():
    """Return the 8 x 8 digits as rows (1797, 64) between 0 and 1, and classes."""
    X, y = load_digits(return_X_y=True)
    return (X / 16).astype(np.float32), y


def mnist():
    """Return the test split of MNIST as images (10000, 1, 28, 28), and classes."""
    X, y = load_data("mnist_t10k")
    return (X / 255).astype(np.float32).reshape(-1, 1, 28, 28), y


@dataclass(frozen=True)
class Setting:
    """Data, the network for it, how long it is trained and how it is tuned."""

    load: object
    network: object
    n_steps: int
    n_probe_of_each_class: int
    n_train: int
    n_validation: int
    trials: list = field(default_factory=list)


SETTINGS = {
    "digits": Setting(
        small_digits,
        perceptron,
        750,
        20,
        900,
        300,
        [
            {"learning_rate": rate, "weight_decay": decay}
            for rate in (1e-3, 3e-3)
            for decay in (1e-4, 1e-2)
        ],
    ),
    "mnist": Setting(
        mnist,
        lenet,
        2000,
        100,
        6000,
        1000,
        [{"learning_rate": rate, "weight_decay": 1e-4} for rate in (1e-3, 3e-3)],
    ),
}


def split(setting, seed, n_labels, n_withheld):
    """Return training rows with partial labels, a probe set, validation and test."""
    X, y = setting.load()
    order = np.random.RandomState(seed).permutation(len(X))
    n_probe, n_train = setting.n_probe_of_each_class, setting.n_train
    probe = np.concatenate([order[y[order] == c][:n_probe] for c in range(N_CLASSES)])
    rest = order[~np.isin(order, probe)]
    last = n_train + setting.n_validation
    train, validation, test = rest[:n_train], rest[n_train:last], rest[last:]
    labels = np.full(n_train, -1)
    known = np.flatnonzero(y[train] >= n_withheld)[:n_labels]
    labels[known] = y[train][known]
    sets = {"probe": probe, "validation": validation, "test": test}
    return X[train], labels, {name: (X[rows], y[rows]) for name, rows in sets.items()}


def fresh(setting, seed, *head):
    """Return the network, and what follows it, with weights of a seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(setting.network(seed), *(make() for make in head))


def ours(setting, X, labels, trial, seed):
    """Return the embedding function of the partial Fenchel-Young loss."""
    n_others = np.count_nonzero(labels < 0)
    in_epoch = n_others // (BATCH // 2) if n_others else -(-len(labels) // BATCH)
    return (
        SpanningForestEmbedding(
            N_CLASSES,
            encoder=fresh(setting, seed),
            batch_size=BATCH,
            max_iter=-(-setting.n_steps // max(in_epoch, 1)),
            noise_scale=0.1,
            n_neighbors=None,
            random_state=seed,
            **trial,
        )
        .fit(X, labels)
        .transform
    )


def cross_entropy(setting, X, labels, trial, seed):
    """Return the embedding function of a classifier, for as many steps as ours."""
    rng = np.random.RandomState(seed)
    known = np.flatnonzero(labels >= 0)
    module = fresh(setting, seed, lambda: nn.Linear(N_COMPONENTS, N_CLASSES))
    optimizer = torch.optim.Adam(
        module.parameters(),
        lr=trial["learning_rate"],
        weight_decay=trial["weight_decay"],
    )
    for _ in range(setting.n_steps):
        rows = rng.choice(known, size=min(BATCH, len(known)), replace=False)
        optimizer.zero_grad()
        logits = module(torch.from_numpy(X[rows]))
        target = torch.from_numpy(labels[rows])
        nn.functional.cross_entropy(logits, target).backward()
        optimizer.step()

    def embed(rows):
        with torch.no_grad():
            return module[0](torch.from_numpy(rows)).numpy()

    return embed


def pixels(setting, X, labels, trial, seed):
    """Return the function that leaves images as they are."""
    return lambda rows: rows.reshape(len(rows), -1)


def errors(embed, probe, rows, y, withheld):
    """Return clustering error, that of the withheld classes, and the probe's error."""
    embedding = embed(rows)
    hidden = y < withheld
    model = LogisticRegression(solver="saga", max_iter=300, tol=1e-2, random_state=0)
    scale = np.abs(embed(probe[0])).max()
    model.fit(embed(probe[0]) / scale, probe[1])
    found = {
        "clustering": batch_error(embedding, y, N_CLASSES, BATCH, "sqeuclidean"),
        "probe": 1 - model.score(embedding / scale, y),
    }
    if hidden.any():
        found["withheld"] = batch_error(
            embedding[hidden], y[hidden], withheld, BATCH, "sqeuclidean"
        )
    return found


METHODS = {"ours": ours, "cross-entropy": cross_entropy, "raw": pixels}


class Runs:
    """Fits of one setting whose errors are kept in a file.

    Parameters
    ----------
    data : {"digits", "mnist"}
    folder : Path
        Where the file is.
    """

    def __init__(self, data, folder):
        self.setting = SETTINGS[data]
        self.path = folder / f"reproduce_{data}.jsonl"

    def run(self, method, trial, seed, n_labels, n_withheld, part):
        """Return the errors of one fit, from the file if they are there."""
        key = {
            "method": method,
            "trial": trial,
            "seed": seed,
            "n_labels": n_labels,
            "n_withheld": n_withheld,
            "part": part,
        }
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                if entry["key"] == key:
                    return entry["errors"]
        X, labels, sets = split(self.setting, seed, n_labels, n_withheld)
        embed = METHODS[method](self.setting, X, labels, trial, seed)
        found = errors(embed, sets["probe"], *sets[part], n_withheld)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "errors": found}) + "\n")
        return found

    def select(self, method, n_labels, n_withheld):
        """Return the best trials by clustering and by probe error, on one seed."""
        trials = self.setting.trials
        tried = [
            self.run(method, trial, TUNING_SEED, n_labels, n_withheld, "validation")
            for trial in trials
        ]
        return {
            criterion: trials[int(np.argmin([found[criterion] for found in tried]))]
            for criterion in ("clustering", "probe")
        }

    def compare(self, n_labels, n_withheld, seeds):
        """Return {(method, criterion): list of errors by seed}."""
        table = {}
        for method in ("ours", "cross-entropy"):
            for criterion, trial in self.select(method, n_labels, n_withheld).items():
                table[method, criterion] = [
                    self.run(method, trial, seed, n_labels, n_withheld, "test")
                    for seed in seeds
                ]
        table["raw", "none"] = [
            self.run("raw", {}, seed, n_labels, n_withheld, "test") for seed in seeds
        ]
        return table


def draw(setting, n_labels, n_withheld, path, n_rows=1500):
    """Draw test rows as embedded by ours; classes without labels have black edges."""
    import matplotlib.pyplot as plt
    from sklearn.manifold import TSNE

    X, labels, sets = split(setting, 0, n_labels, n_withheld)
    rows, y = (part[:n_rows] for part in sets["test"])
    embedding = ours(setting, X, labels, setting.trials[0], 0)(rows)
    points = TSNE(init="pca", random_state=0).fit_transform(embedding)
    _, ax = plt.subplots(figsize=(6, 5), layout="constrained")
    for c in range(N_CLASSES):
        edge = "black" if c < n_withheld else "none"
        name = f"{c}, no label" if c < n_withheld else str(c)
        x = points[y == c].T
        ax.scatter(*x, s=14, color=f"C{c}", edgecolor=edge, linewidth=0.6, label=name)
    ax.set(xticks=[], yticks=[], title=f"{n_labels} labels")
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    plt.savefig(path, dpi=110)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=list(SETTINGS), default="digits")
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 250, 500])
    parser.add_argument("--withheld", type=int, nargs="+", default=[0, 3, 6])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--picture")
    args = parser.parse_args()
    if args.picture:
        draw(SETTINGS[args.data], args.labels[0], args.withheld[0], args.picture)
        return
    runs = Runs(args.data, Path())
    for n_labels in args.labels:
        for n_withheld in args.withheld:
            table = runs.compare(n_labels, n_withheld, range(args.seeds))
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
