"""Learning through clustering: Sections 4.1 and 4.2.

    python benchmarks/reproduce_forests.py denoising [--seeds 10]
    python benchmarks/reproduce_forests.py digits [--data digits] [--labels 100]
        [--withheld 3] [--seeds 5]
    python benchmarks/reproduce_forests.py authors [--data mnist] [--labels 250]
        [--withheld 0] [--seeds 3] [--steps 30000]

denoising  four clusters of 15 points in the plane, and two more columns of noise. With
           unit uniform noise, as the paper has it, the raw clustering is right already;
           ten times that is needed for its Figure 6. For each seed, the error of the
           raw clustering and the steps of stochastic gradient descent until the error
           on validation rows is zero.
digits     few labels and withheld classes: ours, cross-entropy and raw pixels. A
           perceptron on the 8 x 8 digits of scikit-learn, or with ``--data mnist``
           LeNet-5 on the test split of MNIST. Both methods train the same network for
           as many steps, and are tuned with the same learning rates, on the 8 x 8
           digits cross-entropy with two decays of the weights as well, on the same
           validation rows, of a seed that is not used afterwards; each is selected
           once on the clustering error and once on the error of a linear probe.
authors    Section 4.2 as its authors ran it, on the training split of MNIST, and
           cross-entropy beside it. 30 000 steps take an hour on a core: ``--steps``.
           With ``--data cifar10`` the same network and 10 000 images of CIFAR-10

The last two append results to ``reproduce_forests.jsonl`` in the current folder,
and what is there is not run again.
"""

import argparse
import copy
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from shared import Results, load, print_seconds, resumed, save_steps, torch_device
from sklearn.linear_model import LogisticRegression
from torch import nn

from skdiffclust import SpanningForestEmbedding
from skdiffclust.forests import maximum_spanning_forest
from skdiffclust.metrics import connectivity_error
from skdiffclust.nn import PartialFenchelYoungLoss, standardized_affinity

RESULTS = Results(Path("reproduce_forests.jsonl"))
BATCH, N_COMPONENTS, N_CLASSES, TUNING_SEED = 64, 32, 10, 100
MEANS = np.array(
    [
        [0.97627008, 4.30378733],
        [2.05526752, 0.89766366],
        [-1.52690401, 2.91788226],
        [-1.24825577, 7.83546002],
    ]
)


def problem(seed, scale):
    """Return 60 rows of signal and noise, and their clusters."""
    rng = np.random.RandomState(seed)
    labels = np.repeat(np.arange(4), 15)
    signal = MEANS[labels] + 0.2 * rng.randn(60, 2)
    return np.column_stack([signal, scale * rng.rand(60, 2)]), labels


def error(rows, labels, n_clusters=4):
    """Return the clustering error of the forest of as many trees."""
    affinity = -((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    return connectivity_error(
        labels, maximum_spanning_forest(affinity, n_clusters).labels
    )


def denoise(seed, *, scale=10.0, n_perturbations=1000, max_steps=500):
    """Return the raw error and the steps until the validation error is zero."""
    X, labels = problem(seed, scale)
    validation, _ = problem(seed + 1000, scale)
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(
        4, 2, generator=generator, dtype=torch.float64, requires_grad=True
    )
    criterion = PartialFenchelYoungLoss(
        4, n_perturbations=n_perturbations, generator=generator
    )
    optimizer = torch.optim.SGD([weights], lr=0.01)
    rows_of, known = torch.from_numpy(X), torch.from_numpy(labels)
    for step in range(max_steps + 1):
        if error(validation @ weights.detach().numpy(), labels) == 0:
            return error(X, labels), step
        rows = torch.randperm(60, generator=generator)[:32]
        loss = criterion(standardized_affinity(rows_of[rows] @ weights), known[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return error(X, labels), None


def denoising(n_seeds):
    """Print a line for each seed and the medians."""
    unit = [error(*problem(seed, 1.0)) for seed in range(n_seeds)]
    print(f"unit noise: raw clustering wrong on {np.count_nonzero(unit)} seeds")
    found = [denoise(seed) for seed in range(n_seeds)]
    for seed, (raw, steps) in enumerate(found):
        print(f"seed {seed}: raw error {raw:.3f}, zero after {steps} steps", flush=True)
    steps = [np.inf if one is None else one for _, one in found]
    raw = np.median([one for one, _ in found])
    print(f"median: raw error {raw:.3f}, {np.median(steps):.0f} steps")


def perceptron():
    """Return an untrained perceptron for images of 64 pixels; torch is seeded."""
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, N_COMPONENTS))


def lenet():
    """Return an untrained LeNet-5 for images (1, 28, 28); torch is seeded by now."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()),
        nn.Linear(84, N_COMPONENTS),
    )


def small_digits():
    """Return the 8 x 8 digits as rows (1797, 64) between 0 and 1, and classes."""
    X, y = load("digits")
    return (X / 16).astype(np.float32), y


def mnist():
    """Return the test split of MNIST as images (10000, 1, 28, 28), and classes."""
    X, y = load("mnist_t10k")
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
        return nn.Sequential(setting.network(), *(make() for make in head))


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
            learning_rate=trial["learning_rate"],
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


def batches_error(embedding, y):
    """Return the clustering error of batches of 64 samples (n, d), by pairs.

    The forest of a batch has as many trees as there are classes in it.
    """
    wrong = n_pairs = 0
    for first in range(0, len(y), BATCH):
        rows, labels = embedding[first : first + BATCH], y[first : first + BATCH]
        wrong += len(rows) ** 2 * error(rows, labels, len(np.unique(labels)))
        n_pairs += len(rows) ** 2
    return float(wrong / n_pairs)


def errors(embed, probe, rows, y, withheld):
    """Return clustering error, that of the withheld classes, and the probe's error."""
    embedding = embed(rows)
    hidden = y < withheld
    model = LogisticRegression(solver="saga", max_iter=300, tol=1e-2, random_state=0)
    scale = np.abs(embed(probe[0])).max()
    model.fit(embed(probe[0]) / scale, probe[1])
    found = {
        "clustering": batches_error(embedding, y),
        "probe": 1 - model.score(embedding / scale, y),
    }
    if hidden.any():
        found["withheld"] = batches_error(embedding[hidden], y[hidden])
    return found


METHODS = {"ours": ours, "cross-entropy": cross_entropy, "raw": pixels}


def fit(data, method, trial, seed, n_labels, n_withheld, part):
    """Return the errors of one fit."""
    setting = SETTINGS[data]
    X, labels, sets = split(setting, seed, n_labels, n_withheld)
    embed = METHODS[method](setting, X, labels, trial, seed)
    return errors(embed, sets["probe"], *sets[part], n_withheld)


def run(*case):
    """Return the errors of one fit, from the file if they are there."""
    return RESULTS.once(list(case), fit, *case)


def select(data, method, n_labels, n_withheld):
    """Return the best trials by clustering and by probe error, on one seed."""
    trials = SETTINGS[data].trials
    tried = [
        run(data, method, trial, TUNING_SEED, n_labels, n_withheld, "validation")
        for trial in trials
    ]
    return {
        criterion: trials[int(np.argmin([found[criterion] for found in tried]))]
        for criterion in ("clustering", "probe")
    }


def compare(data, n_labels, n_withheld, seeds):
    """Return {(method, criterion): list of errors by seed}."""
    chosen = {
        (method, criterion): trial
        for method in ("ours", "cross-entropy")
        for criterion, trial in select(data, method, n_labels, n_withheld).items()
    } | {("raw", "none"): {}}
    return {
        (method, criterion): [
            run(data, method, trial, seed, n_labels, n_withheld, "test")
            for seed in seeds
        ]
        for (method, criterion), trial in chosen.items()
    }


def figures_of(runs):
    """Return means with the smallest and largest values of all errors, in a line."""
    return " ".join(
        f"{name} {np.mean([one[name] for one in runs]):.3f}"
        f" ({min(one[name] for one in runs):.3f}"
        f" to {max(one[name] for one in runs):.3f})"
        for name in runs[0]
    )


def digits(data, label_counts, withheld_counts, n_seeds):
    """Print the table of few labels and withheld classes."""
    for n_labels in label_counts:
        for n_withheld in withheld_counts:
            table = compare(data, n_labels, n_withheld, range(n_seeds))
            for (method, criterion), found in table.items():
                print(
                    f"{n_labels:4d} labels, {n_withheld} withheld, {method:13s} "
                    f"selected on {criterion:10s}: {figures_of(found)}",
                    flush=True,
                )


# -------------------------------------------------------- Section 4.2 as it was run

WIDTH, EVERY = 256, 500  # outputs of the network, steps between two validations


def network_of_the_authors(n_channels, width):
    """Return the network of the published code for MNIST, for square images."""
    return nn.Sequential(
        *(nn.Conv2d(n_channels, 32, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(64 * (width // 4) ** 2, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)),
    )


def images_of(data):
    """Return images (n, c, w, w) and classes, of the training and of the test split."""
    if data == "cifar10":
        X, y = load("cifar10_11k")
        X = torch.from_numpy(X / 255).float().permute(0, 3, 1, 2).contiguous()
        return X[:10_000], y[:10_000], X[10_000:], y[10_000:]
    sets = []
    for name in ("mnist_train", "mnist_t10k"):
        X, y = load(name)
        sets += [torch.from_numpy(X.reshape(-1, 1, 28, 28) / 255).float(), y]
    return sets


def rows_of(y, n_labels, n_withheld, seed):
    """Return the rows of the training split: labelled, other, validation and probe.

    The same number of each class that is not withheld is labelled. The probe is
    learned from 100 images of each class. Validation has 1000 others, where that of the
    authors is half of the test split.
    """
    order = np.random.RandomState(seed).permutation(len(y))
    probe = np.concatenate([order[y[order] == c][:100] for c in range(N_CLASSES)])
    order = order[~np.isin(order, probe)]
    validation, rest = order[:1000], order[1000:]
    each = n_labels // (N_CLASSES - n_withheld)
    known = [rest[y[rest] == c][:each] for c in range(n_withheld, N_CLASSES)]
    return known, np.setdiff1d(rest, np.concatenate(known)), validation, probe


class Best:
    """The weights of the least validation error so far."""

    def __init__(self):
        self.error, self.weights = np.inf, None

    def state_dict(self):
        """Return the attributes."""
        return dict(vars(self))

    def load_state_dict(self, state):
        """Set the attributes."""
        vars(self).update(state)


def as_the_authors(data, method, n_labels, n_withheld, seed, n_steps):
    """Return the clustering and probe error on the test split, and the seconds.

    A step has 32 labelled images, as many of each class, and 32 others; cross-entropy
    has 64 labelled ones. The network of least validation error is kept, and the probe
    is a logistic regression on its outputs. Each 500 steps are saved, and a call that
    ends before goes on from there; the seconds are those of the last call.
    """
    torch.manual_seed(seed)
    rng = np.random.RandomState(seed)
    start, device = time.process_time(), torch_device()
    images, y, X_test, y_test = images_of(data)
    images, X_test = images.to(device), X_test.to(device)
    known, others, validation, held_out = rows_of(y, n_labels, n_withheld, seed)
    network = network_of_the_authors(*images.shape[1:3]).to(device)
    head, classes_of = nn.Linear(WIDTH, N_CLASSES).to(device), torch.from_numpy(y)
    criterion = PartialFenchelYoungLoss(N_CLASSES, n_perturbations=100)
    parameters = [*network.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-4, weight_decay=1e-4)

    def embed(images):
        with torch.no_grad():
            return network(images).double().cpu().numpy()

    best = Best()
    parts = network, head, optimizer, best
    checkpoint = Path("_".join(map(str, (data, method, n_labels, n_withheld, seed))))
    checkpoint = checkpoint.with_suffix(".pt")
    for step in range(1 + resumed(checkpoint, n_steps, rng, parts), n_steps + 1):
        n_known = BATCH // 2 if method == "ours" else BATCH
        classes = np.resize(rng.permutation(len(known)), n_known)
        rows = np.array([rng.choice(known[c]) for c in classes])
        labels = classes_of[rows].to(device)
        if method == "ours":
            unknown = rng.choice(others, BATCH // 2, replace=False)
            labels = torch.cat([labels, torch.full_like(labels, -1)])
            embedding = network(images[np.concatenate([rows, unknown])])
            loss = criterion(standardized_affinity(embedding), labels)
        else:
            logits = head(network(images[rows]))
            loss = nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % EVERY == 0 or step == n_steps:
            found = batches_error(embed(images[validation]), y[validation])
            if found < best.error:
                best.error = found
                best.weights = copy.deepcopy(network.state_dict())
            save_steps(checkpoint, step, rng, parts)
    network.load_state_dict(best.weights)
    tested = embed(X_test)
    probe = LogisticRegression(max_iter=300).fit(embed(images[held_out]), y[held_out])
    checkpoint.unlink()
    return {
        "clustering": batches_error(tested, y_test),
        "probe": 1 - probe.score(tested, y_test),
        "seconds": time.process_time() - start,
    }


def authors(data, label_counts, withheld_counts, n_seeds, n_steps):
    """Print ours, and cross-entropy with as many labels and with 5000."""
    for n_labels in label_counts:
        for n_withheld in withheld_counts:
            for method, n_known in (
                ("ours", n_labels),
                ("cross-entropy", n_labels),
                ("cross-entropy", 5000),
            ):
                found = [
                    RESULTS.once(["authors", *case], as_the_authors, *case)
                    for case in (
                        (data, method, n_known, n_withheld, seed, n_steps)
                        for seed in range(n_seeds)
                    )
                ]
                print(
                    f"{data}, {n_known:4d} labels, {n_withheld} withheld, "
                    f"{n_steps} steps, {method:13s}: {figures_of(found)}",
                    flush=True,
                )


def main():
    """Run an experiment."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["denoising", "digits", "authors"])
    parser.add_argument("--data", choices=[*SETTINGS, "cifar10"])
    parser.add_argument("--labels", type=int, nargs="+")
    parser.add_argument("--withheld", type=int, nargs="+", default=[0, 3, 6])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--steps", type=int, default=30_000)
    options = parser.parse_args()
    if options.part == "denoising":
        denoising(options.seeds or 10)
    elif options.part == "digits":
        labels = options.labels or [100, 250, 500]
        digits(options.data or "digits", labels, options.withheld, options.seeds or 5)
    else:
        labels = options.labels or [250]
        data = options.data or "mnist"
        authors(data, labels, options.withheld, options.seeds or 3, options.steps)
    print_seconds()


if __name__ == "__main__":
    main()
