"""Do few labels make features that a linear classifier can use better?

    python benchmarks/linear_probe.py [--seeds 20 25] [--data digits ...]
        [--n-labels 98] [--init auto pca lda]

``make_pipeline(SpanningForestEmbedding(k), LogisticRegression())`` beside
``LogisticRegression()`` on the features: both classify test samples from the same
labels, of samples of all classes. The embedding also sees the training samples without
a label. Training and test samples and the units of X are those of
``discover_classes.py``; nothing was tuned here but `init`, whose values are all
printed. A line for each set, with the share of test samples that are right: mean and
standard deviation over the seeds, and the number of seeds on which the embedding is at
least as good. One thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings

import numpy as np
from discover_classes import DATA, N_TEST, N_TRAIN, load
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from skdiffclust import SpanningForestEmbedding


def split(name, seed, n_labels):
    """Return training samples, partial labels, test samples and their classes."""
    X, y = load(name)
    order = np.random.RandomState(seed).permutation(len(X))
    n_train = min(N_TRAIN, int(0.6 * len(X)))
    train = order[:n_train]
    test = order[n_train : n_train + N_TEST]
    labels = np.where(np.arange(n_train) < n_labels, y[train], -1)
    return X[train], labels, X[test], y[test]


def accuracy(embed, X, labels, X_test, y):
    """Return the accuracy of a logistic regression on embedded samples."""
    known = labels >= 0
    model = LogisticRegression(max_iter=5000).fit(embed(X[known]), labels[known])
    return model.score(embed(X_test), y)


def main():
    """Print a line for each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--seeds", type=int, nargs=2, default=(20, 25))
    parser.add_argument("--n-labels", type=int, default=98)
    parser.add_argument("--init", nargs="+", default=["auto"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in arguments.data:
        k = len(np.unique(load(name)[1]))
        found = {"features": []} | {init: [] for init in arguments.init}
        for seed in range(*arguments.seeds):
            parts = split(name, seed, arguments.n_labels)
            found["features"].append(accuracy(np.asarray, *parts))
            for init in arguments.init:
                model = SpanningForestEmbedding(k, init=init, random_state=seed)
                model.fit(*parts[:2])
                found[init].append(accuracy(model.transform, *parts))
        for method, shares in found.items():
            n_better = np.sum(np.array(shares) >= found["features"])
            print(
                f"{name}, {method}: {np.mean(shares):.3f} ± {np.std(shares):.3f}, "
                f"at least the features on {n_better} of {len(shares)} seeds",
                flush=True,
            )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
