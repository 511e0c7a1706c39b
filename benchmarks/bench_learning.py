"""What do few labels teach: classes without any label, and a linear classifier.

    python benchmarks/bench_learning.py discover [--record FILE]
    python benchmarks/bench_learning.py probe

"discover": a third of the classes is withheld: none of their samples has a label. Every
method sees the features of the training samples and 200 labels of the other classes;
its embedding of test samples is clustered by ``SpanningForestClustering(k)``, k being
the true number of all classes, the same for all. Printed is the adjusted Rand index
(ARI) of all test samples, and of those of the withheld classes alone, whose clusters
may hold samples of other classes: means over the seeds, with the standard deviation of
the latter.

The split, written down before the parameters were chosen:

* data: digits, usps_train, letter, isolet. Features are centred, those of letter scaled
  to variance 1 each, the others by one number.
* a seed draws the withheld classes, at most 1200 training samples (60 % of small sets),
  1000 test samples, and the weights, batches and noise of the methods.
* seeds 0 to 3 chose the defaults of `SpanningForestEmbedding`, by the ARI of withheld
  classes, and the rule of ``init="auto"``, on labelled classes that were left out; the
  peers have usual settings, of which none was tuned. Seeds 20 to 24 report. No method
  sees a label of a withheld class. Seeds reshuffle one set: they are no new data.

Peers: ``features``; ``cross-entropy`` and ``contrastive`` (supervised, [1]_),
a perceptron of the size of ``ours, mlp``, trained on the labelled samples;
``contrastive, linear``, the same with the encoder of ours; ``NCA`` of scikit-learn from
principal components; ``label spreading``, scikit-learn's LabelSpreading, whose shares
of the classes are the embedding; and at the end ``UMAP``, semi-supervised, which needs
umap-learn.

"probe": ``make_pipeline(SpanningForestEmbedding(k), LogisticRegression())`` beside
``LogisticRegression()`` on the features: both classify test samples from the same
labels, of samples of all classes. The same for ``KNeighborsClassifier(1)``, which
measures the distances. Nothing was tuned here. A line has the share of test samples
that are right, mean and standard deviation over the seeds, and the number of seeds on
which the embedding is at least as good. One thread.

.. [1] P. Khosla et al., "Supervised Contrastive Learning", NeurIPS 2020.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")


import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
from shared import Results, load, record
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.semi_supervised import LabelSpreading
from threadpoolctl import threadpool_limits
from torch import nn

from skdiffclust import SpanningForestClustering, SpanningForestEmbedding

DATA = "digits", "usps_train", "letter", "isolet"
SEEDS = range(20, 25)
N_LABELS, N_TRAIN, N_TEST, N_PROBE_LABELS = 200, 1200, 1000, 98
N_COMPONENTS, N_HIDDEN, N_STEPS, LEARNING_RATE = 32, 100, 600, 1e-3
TEMPERATURE = 0.1
CLASSIFIERS = LogisticRegression(max_iter=5000), KNeighborsClassifier(1)


def in_units(name):
    """Return X (n, d), in its units of the comparison, and y (n,)."""
    X, y = load(name)
    X -= X.mean(axis=0)
    X /= X.std(axis=0) if name == "letter" else np.sqrt(np.mean(X**2))
    return X, np.unique(y, return_inverse=True)[1]


def split(name, seed, n_labels, *, withhold):
    """Return training samples, partial labels, test samples, classes, withheld ones.

    A third of the classes is withheld: none of their samples has a label.
    """
    X, y = in_units(name)
    rng = np.random.RandomState(seed)
    is_withheld = np.zeros(len(y), dtype=bool)
    if withhold:
        k = int(y.max()) + 1
        is_withheld = np.isin(y, rng.permutation(k)[: k // 3])
    order = rng.permutation(len(X))
    n_train = min(N_TRAIN, int(0.6 * len(X)))
    train = order[:n_train]
    test = order[n_train : n_train + N_TEST]
    labels = np.full(n_train, -1)
    known = np.flatnonzero(~is_withheld[train])[:n_labels]
    labels[known] = y[train][known]
    return X[train], labels, X[test], y[test], is_withheld[test]


def ours(encoder, X, labels, k, seed):
    """Return the embedding function of the estimator, otherwise with its defaults."""
    model = SpanningForestEmbedding(k, encoder=encoder, random_state=seed)
    return model.fit(X, labels).transform


def network(encoder, n_features):
    """Return an untrained encoder in torch, of the size of ours."""
    if encoder == "linear":
        return nn.Linear(n_features, N_COMPONENTS)
    return nn.Sequential(
        nn.Linear(n_features, N_HIDDEN),
        nn.ReLU(),
        nn.Linear(N_HIDDEN, N_COMPONENTS),
    )


def trained(module, parameters, loss_of, X, labels, batch_size, seed):
    """Train by Adam on batches of labelled samples; return the embedding function."""
    rng = np.random.RandomState(seed)
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, weight_decay=1e-4)
    known = np.flatnonzero(labels >= 0)
    samples = torch.tensor(X, dtype=torch.float32)
    for _ in range(N_STEPS):
        rows = rng.choice(known, min(batch_size, len(known)), replace=False)
        optimizer.zero_grad()
        loss_of(module(samples[rows]), torch.tensor(labels[rows])).backward()
        optimizer.step()

    def embed(X):
        with torch.no_grad():
            return module(torch.tensor(X, dtype=torch.float32)).numpy().astype(float)

    return embed


def cross_entropy(encoder, X, labels, k, seed):
    """Return the embedding function of a classifier without its last layer."""
    torch.manual_seed(seed)
    module = network(encoder, X.shape[1])
    head = nn.Linear(N_COMPONENTS, k)

    def loss_of(embedding, classes):
        return nn.functional.cross_entropy(head(embedding), classes)

    parameters = [*module.parameters(), *head.parameters()]
    return trained(module, parameters, loss_of, X, labels, 64, seed)


def contrastive(encoder, X, labels, k, seed):
    """Return the embedding function, on the sphere, of supervised contrasts."""
    torch.manual_seed(seed)
    module = network(encoder, X.shape[1])

    def loss_of(embedding, classes):
        directions = nn.functional.normalize(embedding, dim=1)
        scores = directions @ directions.T / TEMPERATURE
        scores = scores - 1e9 * torch.eye(len(scores))
        same = (classes[:, None] == classes).float().fill_diagonal_(0)
        shares = scores - torch.logsumexp(scores, dim=1, keepdim=True)
        n_same = same.sum(dim=1)
        means = (same * shares).sum(dim=1) / n_same.clamp(min=1)
        return -means[n_same > 0].mean()

    embed = trained(module, module.parameters(), loss_of, X, labels, 128, seed)
    return lambda X: embed(X) / np.linalg.norm(embed(X), axis=1, keepdims=True)


def nca(X, labels, k, seed):
    """Return the embedding function of neighbourhood components analysis."""
    known = labels >= 0
    n_components = min(N_COMPONENTS, X.shape[1])
    model = NeighborhoodComponentsAnalysis(
        n_components, init="pca", max_iter=100, random_state=seed
    )
    return model.fit(X[known], labels[known]).transform


def propagation(X, labels, k, seed):
    """Return the shares of the classes that labels spread to."""
    model = LabelSpreading(kernel="knn", n_neighbors=7, max_iter=1000).fit(X, labels)

    def embed(X):
        # No share where no label comes near.
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(model.predict_proba(X))

    return embed


def umap(X, labels, k, seed):
    """Return the embedding function of semi-supervised UMAP."""
    from umap import UMAP

    model = UMAP(n_components=10, random_state=seed, n_jobs=1)
    return model.fit(X, y=labels).transform


METHODS = {
    "features": lambda X, labels, k, seed: lambda X: X,
    "ours": lambda *args: ours("linear", *args),
    "ours, mlp": lambda *args: ours("mlp", *args),
    "contrastive": lambda *args: contrastive("mlp", *args),
    "contrastive, linear": lambda *args: contrastive("linear", *args),
    "cross-entropy": lambda *args: cross_entropy("mlp", *args),
    "NCA": nca,
    "label spreading": propagation,
    "UMAP": umap,
}


def run(name, method, seed):
    """Return the ARI of all test samples, and of those of withheld classes."""
    X, labels, X_test, y, is_withheld = split(name, seed, N_LABELS, withhold=True)
    k = int(in_units(name)[1].max()) + 1
    embed = method(X, labels, k, seed)
    found = SpanningForestClustering(k).fit(embed(X_test)).labels_
    return {
        "all": adjusted_rand_score(y, found),
        "withheld": adjusted_rand_score(y[is_withheld], found[is_withheld]),
    }


def discover(path=None, data=DATA, methods=METHODS, seeds=SEEDS):
    """Run what the file does not have yet, and print the table of withheld classes."""
    results = Results(Path("learning.jsonl"))
    rows = [["method", *data]]
    for method, function in methods.items():
        row = [method]
        for name in data:
            group = [
                results.once([name, method, seed], run, name, function, seed)
                for seed in seeds
            ]
            ari = np.mean([found["all"] for found in group])
            withheld = [found["withheld"] for found in group]
            row.append(f"{np.mean(withheld):.3f} ± {np.std(withheld):.3f}")
            print(f"{name}, {method}: ARI of all {ari:.3f}", flush=True)
        rows.append(row)
    record(rows, path)


def accuracies(embed, X, labels, X_test, y):
    """Return the accuracies of the classifiers on embedded samples."""
    known = labels >= 0
    return [
        classifier.fit(embed(X[known]), labels[known]).score(embed(X_test), y)
        for classifier in CLASSIFIERS
    ]


def probe():
    """Print a line for each set and classifier."""
    for name in DATA:
        k = len(np.unique(in_units(name)[1]))
        found = []
        for seed in SEEDS:
            *parts, _ = split(name, seed, N_PROBE_LABELS, withhold=False)
            embed = ours("linear", *parts[:2], k, seed)
            found.append([accuracies(np.asarray, *parts), accuracies(embed, *parts)])
        for classifier, pairs in zip(CLASSIFIERS, np.array(found).T, strict=True):
            features, embedding = pairs
            print(
                f"{name}, {type(classifier).__name__}: features {features.mean():.3f} "
                f"± {features.std():.3f}, ours {embedding.mean():.3f} ± "
                f"{embedding.std():.3f}, at least as good on "
                f"{np.sum(embedding >= features)} of {len(found)} seeds",
                flush=True,
            )


def main():
    """Run a part on one thread."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["discover", "probe"])
    parser.add_argument("--record", metavar="FILE", help="of discover: a CSV file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        if options.part == "discover":
            discover(options.record)
        else:
            probe()


if __name__ == "__main__":
    main()
