"""Merged memories: the number of clusters, and clusters that are no balls.

    OMP_NUM_THREADS=1 python benchmarks/bench_shapes.py [--seeds N]

For ten mixtures and ten real data sets, standardised, at most 1500 samples, prints the
number of classes, what ``ClAM("auto", n_memories=100)`` finds (the mode over seeds) and
what k-means of largest silhouette finds (2 to 20 clusters); then the adjusted Rand
index of moons and rings. Digits, wine and breast cancer, zoo, ecoli and movlib were
looked at when the rule was chosen, the mixtures and the other sets were not.
"""

import argparse

import numpy as np
from data_sets import load_data
from sklearn.cluster import KMeans
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_circles,
    make_moons,
)
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import ClAM

OWN = {
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
}
FILES = ["ctg", "ecoli", "heart_statlog", "house_votes_84", "movlib", "zoo"]
MOST = 1500


def mixtures():
    """Yield names, samples and numbers of components of ten mixtures."""
    for k in range(2, 12):
        centers = 4.0 * np.random.RandomState(1000 + k).randn(k, 4)
        X, _ = make_blobs(100 * k, centers=centers, random_state=k)
        yield f"mixture of {k}", X, k


def real():
    """Yield names, samples and numbers of classes of ten real data sets."""
    for name in [*OWN, *FILES]:
        X, y = OWN[name](return_X_y=True) if name in OWN else load_data(name)
        chosen = np.random.RandomState(0).permutation(len(X))[:MOST]
        X = X[chosen].astype(float)
        X = X if name == "digits" else StandardScaler().fit_transform(X)
        yield name, X, len(np.unique(y))


def by_silhouette(X, seed):
    """Return the number of clusters of k-means of largest silhouette."""
    labels = {
        k: KMeans(k, n_init=3, random_state=seed).fit_predict(X) for k in range(2, 21)
    }
    return max(labels, key=lambda k: silhouette_score(X, labels[k]))


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    for kind, sets in {"mixtures": mixtures(), "real": real()}.items():
        right = np.zeros(2, dtype=int)
        for name, X, k in sets:
            n_memories = min(100, len(X) // 4)
            found = [
                ClAM("auto", n_memories=n_memories, random_state=s).fit(X).n_clusters_
                for s in seeds
            ]
            ours = int(np.bincount(found).argmax())
            peer = by_silhouette(X, 0)
            right += [ours == k, peer == k]
            print(
                f"{name}: {k} classes, ClAM {ours} {found}, k-means {peer}", flush=True
            )
        print(f"{kind} right: ClAM {right[0]}, k-means {right[1]} of 10", flush=True)
    for seed in seeds:
        for X, y in (
            make_moons(500, noise=0.06, random_state=seed),
            make_circles(500, noise=0.05, factor=0.5, random_state=seed),
        ):
            labels = ClAM(2, n_memories=80, random_state=seed).fit_predict(X)
            print(f"moons, rings: {adjusted_rand_score(y, labels):.3f}")


if __name__ == "__main__":
    main()
