"""Label samples never seen: the encoders of PRCut and five other ways, on ten sets.

    python benchmarks/bench_encoder.py --splits 5

Each split draws 2000 samples to fit and 1000 to predict (two thirds and one third of
smaller sets). All ways but k-means, the spectral ones and "best move", which is
``PRCut()`` without an encoder, extend the same labels, those that the encoders are
fitted to; printed is the adjusted Rand index of the predictions with the classes. The
sets of "choice" come with scikit-learn and chose what the encoders do. Those of
"report" chose nothing but, with the others, the graph that encoders are trained on: by
the labels of samples to fit of splits 0 to 22, which ``--first`` leaves out.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
import warnings
from importlib.metadata import version
from typing import NamedTuple

import numpy as np
from data_sets import load_data
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.manifold import spectral_embedding
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import (
    KNeighborsClassifier,
    NearestNeighbors,
    kneighbors_graph,
)
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from skdiffclust import PRCut

_N_FIT = 2000
_N_NEW = 1000
# Images and spectra: their features have one unit, and are not standardised.
_ONE_UNIT = {"digits", "isolet", "mnist_t10k", "usps_train"}

SETS = {
    "choice": ("digits", "wine", "breast_cancer", "iris", "blobs"),
    "report": (
        "zoo",
        "house_votes_84",
        "heart_statlog",
        "ecoli",
        "ctg",
        "letter",
        "movlib",
        "usps_train",
        "mnist_t10k",
        "isolet",
    ),
}


class Split(NamedTuple):
    """Samples to fit and new ones, the classes of the new, and labels of the cut."""

    fitted: np.ndarray
    new: np.ndarray
    classes: np.ndarray
    n_clusters: int
    labels: np.ndarray
    seed: int


def load(name):
    """Return the samples and classes of a set, scaled."""
    if name == "blobs":
        X, y = datasets.make_blobs(
            1500, centers=12, n_features=10, cluster_std=4.0, random_state=0
        )
    elif name in SETS["choice"]:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    else:
        X, y = load_data(name)
    X = np.asarray(X, dtype=np.float64)
    if name not in _ONE_UNIT:
        X = StandardScaler().fit_transform(X)
    return X, np.unique(y, return_inverse=True)[1]


def split(X, y, seed):
    """Return a `Split`."""
    order = np.random.RandomState(seed).permutation(len(X))
    n_fit = min(_N_FIT, 2 * len(X) // 3)
    fitted = order[:n_fit]
    new = order[n_fit : n_fit + _N_NEW]
    k = len(np.unique(y))
    model = PRCut(k, random_state=seed)
    labels = model.fit(X[fitted]).labels_
    return Split(X[fitted], X[new], y[new], k, labels, seed)


def encoder(**parameters):
    """Return the function that predicts by an encoder of PRCut."""

    def predict(part):
        model = PRCut(part.n_clusters, random_state=part.seed, **parameters)
        return model.fit(part.fitted).predict(part.new)

    return predict


def nearest(n_neighbors):
    """Return the function that predicts by neighbours on the labels of the cut."""

    def predict(part):
        model = KNeighborsClassifier(n_neighbors).fit(part.fitted, part.labels)
        return model.predict(part.new)

    return predict


def label_spreading(part):
    """Spread the labels of the cut, and predict."""
    model = LabelSpreading(kernel="knn", n_neighbors=10)
    return model.fit(part.fitted, part.labels).predict(part.new)


def embed(part):
    """Return the spectral embedding (n, k) of the samples to fit, and k-means in it."""
    graph = kneighbors_graph(part.fitted, min(10, len(part.fitted) - 1))
    graph = graph.maximum(graph.T)
    embedding = spectral_embedding(
        graph,
        n_components=part.n_clusters,
        drop_first=False,
        random_state=part.seed,
    )
    embedding /= np.sqrt(np.mean(embedding**2))
    model = KMeans(part.n_clusters, n_init=10, random_state=part.seed)
    return embedding, model.fit(embedding)


def nystrom(part):
    """Extend the eigenvectors to new samples by the mean of their neighbours."""
    embedding, model = embed(part)
    neighbors = NearestNeighbors(n_neighbors=10).fit(part.fitted)
    found = neighbors.kneighbors(part.new, return_distance=False)
    return model.predict(embedding[found].mean(axis=1))


def spectral_net(part):
    """Fit a perceptron to the eigenvectors, as SpectralNet, and predict by k-means."""
    embedding, model = embed(part)
    scaler = StandardScaler(with_std=False).fit(part.fitted)
    spread = np.sqrt(np.mean(scaler.transform(part.fitted) ** 2)) or 1.0
    net = MLPRegressor(
        hidden_layer_sizes=(128,),
        early_stopping=True,
        max_iter=500,
        random_state=part.seed,
    )
    net.fit(scaler.transform(part.fitted) / spread, embedding)
    found = net.predict(scaler.transform(part.new) / spread)
    return model.predict(found.reshape(len(part.new), -1))


def k_means(part):
    """Predict by k-means."""
    model = KMeans(part.n_clusters, n_init=10, random_state=part.seed)
    return model.fit(part.fitted).predict(part.new)


METHODS = {
    "mlp": encoder(encoder="mlp"),
    "linear": encoder(encoder="linear"),
    "best move": encoder(),
    "nearest": nearest(1),
    "10 nearest": nearest(10),
    "label spreading": label_spreading,
    "Nystrom": nystrom,
    "SpectralNet": spectral_net,
    "k-means": k_means,
}


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", default="report", choices=SETS)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument(
        "--methods",
        nargs="*",
        default=[method for method in METHODS if method != "linear"],
        choices=METHODS,
    )
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("scikit-learn", version("scikit-learn"))
    print("set", *arguments.methods, sep=", ")
    times = np.zeros(len(arguments.methods))
    table = []
    for name in arguments.names or SETS[arguments.split]:
        X, y = load(name)
        rows = []
        for seed in range(arguments.first, arguments.first + arguments.splits):
            part = split(X, y, seed)
            row = []
            for i, method in enumerate(arguments.methods):
                start = time.process_time()
                labels = METHODS[method](part)
                times[i] += time.process_time() - start
                row.append(adjusted_rand_score(part.classes, labels))
            rows.append(row)
        table.append(np.mean(rows, axis=0))
        print(name, *(f"{value:.3f}" for value in table[-1]), sep=", ", flush=True)
    print("mean", *(f"{value:.3f}" for value in np.mean(table, axis=0)), sep=", ")
    print("seconds", *(f"{value:.1f}" for value in times), sep=", ")


if __name__ == "__main__":
    main()
