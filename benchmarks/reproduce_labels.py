"""Is PRCut with similarity from labels as right as a classifier? Table 1 of its paper.

    python benchmarks/reproduce_labels.py digits usps_train mnist_t10k

Rows with one label are joined, rows with two are parted, and the encoder that cuts this
graph is asked for a fifth of the rows that it has not seen, stratified by class, five
times; beside it two classifiers of scikit-learn, logistic regression and a perceptron
with as many hidden units, are given the same rows. One line of JSON a split is added to
--output, and what is there is not run again; the sets come from the loader,
data_sets.py.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import itertools
import json
import warnings
from pathlib import Path

import numpy as np
from data_sets import load_data
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdiffclust import PRCut
from skdiffclust.metrics import clustering_accuracy

SETS = "digits", "usps_train", "mnist_t10k"


def load(name):
    """Return (X, y) of a data set, X in float32."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        X, y = load_data(name)
    return X.astype(np.float32), y


def accuracies(X, y, seed):
    """Return the accuracy on a held-out fifth of PRCut and of two classifiers."""
    train, test, y_train, y_test = train_test_split(
        X, y, test_size=0.2, random_state=seed, stratify=y
    )
    # Such a graph has edges by the million: the bound costs a product an epoch.
    model = PRCut(10, encoder="mlp", objective="bound", random_state=seed)
    model.fit(train, partial_labels=y_train)
    scores = {"PRCut": clustering_accuracy(y_test, model.predict(test))}
    peers = {
        "logistic regression": LogisticRegression(),
        "perceptron": MLPClassifier((128,), early_stopping=True, random_state=seed),
    }
    for name, peer in peers.items():
        peer = make_pipeline(StandardScaler(), peer).fit(train, y_train)
        scores[name] = peer.score(test, y_test)
    return scores


def main():
    """Run what is not in the file yet, and print all splits and their medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=SETS)
    parser.add_argument("--output", type=Path, default=Path("labels.jsonl"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    arguments.output.touch()
    lines = [json.loads(line) for line in arguments.output.read_text().splitlines()]
    done = {(line["data"], line["seed"]) for line in lines}
    for name, seed in itertools.product(arguments.names, range(5)):
        if (name, seed) in done:
            continue
        lines.append({"data": name, "seed": seed} | accuracies(*load(name), seed))
        with arguments.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(lines[-1]) + "\n")
    for name in dict.fromkeys(line["data"] for line in lines):
        group = [line for line in lines if line["data"] == name]
        for method in list(group[0])[2:]:
            found = np.array([line[method] for line in group])
            print(f"{name}, {method}: median {np.median(found):.3f},", found.round(3))


if __name__ == "__main__":
    main()
