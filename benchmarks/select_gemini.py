"""Features that GEMINI selects, beside sparse k-means and two rankings.

    python benchmarks/select_gemini.py [--sets 5] [--seed 39000]

Prints the error rate (the share of features on the wrong side), precision and recall of
the features selected on sets with three clusters of 50 samples, standardised.

Sparse k-means (Witten and Tibshirani, JASA 2010) chooses its bound by the gap to sets
with permuted columns, as its authors do. Importances in a random forest that learns the
labels of k-means, and Laplacian scores (He, Cai and Niyogi, NIPS 2005) only rank
features, so that they are told how many are informative; so is sparse k-means in its
second row. "Fitted again" leaves out the features selected, and fits again, as long as
there is a warning that they have no structure; not with more features than samples.
"""

import argparse
import itertools
import warnings

import numpy as np
from scipy.optimize import brentq
from shared import standardised, warns_of
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import kneighbors_graph
from structure_gemini import blocks, spread_centers

from skdiffclust import SparseGEMINI, SparseGEMINICV

K = 3
SIZE = 50  # samples of a cluster


def with_clusters(rng, n_informative, gap):
    """Return the centres of the samples (n, d), which are at least `gap` apart."""
    centers, least = spread_centers(rng, K, n_informative, 0.5)
    return np.repeat(centers * gap / least, SIZE, axis=0)


def correlated(rng):
    """Return samples whose informative features are correlated within clusters."""
    X = rng.normal(size=(K * SIZE, 25))
    X[:, :5] = np.sqrt(0.5) * (X[:, :5] + rng.normal(size=(len(X), 1)))
    X[:, :5] += with_clusters(rng, 5, 4.0)
    return X, 5


def copies(rng):
    """Return samples with two informative features and three noisy copies of each."""
    X = rng.normal(size=(K * SIZE, 28))
    X[:, :2] += with_clusters(rng, 2, 4.0)
    X[:, 2:8] = np.repeat(X[:, :2], 3, axis=1) + 0.5 * X[:, 2:8]
    return X, 8


def heavy_tails(rng):
    """Return samples whose features all have tails of t with 3 degrees of freedom."""
    X = rng.standard_t(3, size=(K * SIZE, 25)) / np.sqrt(3)
    X[:, :5] += with_clusters(rng, 5, 4.0)
    return X, 5


def beside_blocks(rng):
    """Return samples whose irrelevant features are correlated in fives."""
    X = np.hstack([rng.normal(size=(K * SIZE, 5)), blocks(rng, K * SIZE, 20)])
    X[:, :5] += with_clusters(rng, 5, 4.0)
    return X, 5


def wide(rng):
    """Return samples with more features than samples, 50 of which are informative."""
    X = rng.normal(size=(K * SIZE, 2000))
    X[:, :50] += with_clusters(rng, 50, 15.0)
    return X, 50


SETS = {
    "correlated informative features": correlated,
    "noisy copies": copies,
    "heavy tails": heavy_tails,
    "blocks of noise": beside_blocks,
    "2000 features": wide,
}


def bounded(gains, bound):
    """Return weights of length one that maximise their sum with gains (d,) >= 0.

    The sum of the weights is at most `bound`: a soft threshold of the gains.
    """

    def weights(threshold):
        left = np.maximum(gains - threshold, 0)
        return left / np.linalg.norm(left)

    if weights(0.0).sum() <= bound:
        return weights(0.0)
    most = np.sort(gains)[-2] if bound > 1 else gains.max()
    most = gains.max() - 1e-9 * (gains.max() - most)
    return weights(brentq(lambda t: weights(t).sum() - bound, 0.0, most))


def sparse_k_means(X, bound):
    """Return the weights (d,) of features and the objective of sparse k-means."""
    weights = np.full(X.shape[1], X.shape[1] ** -0.5)
    total = np.square(X - X.mean(axis=0)).sum(axis=0)
    for _ in range(10):
        kept = weights > 0
        model = KMeans(K, n_init=5, random_state=0)
        labels = model.fit_predict(X[:, kept] * np.sqrt(weights[kept]))
        within = sum(len(G) * G.var(axis=0) for G in (X[labels == k] for k in range(K)))
        before, weights = weights, bounded(total - within, bound)
        if np.abs(weights - before).sum() < 1e-4 * before.sum():
            break
    return weights, weights @ (total - within)


def by_sparse_k_means(X, n_informative, rng, n_permuted=5):
    """Return two masks of features: the bound is chosen by the gap, or the number is.

    Of the gap, the smallest bound within a standard deviation of the largest.
    """
    permuted = [rng.permuted(X, axis=0) for _ in range(n_permuted)]
    bounds = np.geomspace(1.2, 0.9 * np.sqrt(X.shape[1]), 10)
    own = [sparse_k_means(X, bound) for bound in bounds]
    others = [[sparse_k_means(one, bound)[1] for one in permuted] for bound in bounds]
    gaps = np.log([value for _, value in own]) - np.log(others).mean(axis=1)
    best = np.argmax(gaps)
    is_near = gaps >= gaps[best] - np.log(others[best]).std(ddof=1)
    weights = np.array([weights for weights, _ in own])
    enough = np.argmax(np.count_nonzero(weights, axis=1) >= n_informative)
    return weights[np.argmax(is_near)] > 0, first(weights[enough], n_informative)


def first(scores, n_selected):
    """Return a mask (d,) of the features with the largest scores."""
    mask = np.zeros(len(scores), dtype=bool)
    mask[np.argsort(-scores)[:n_selected]] = True
    return mask


def by_forest(X, n_informative, _):
    """Return the most important features in a forest that learns k-means' labels."""
    labels = KMeans(K, n_init=10, random_state=0).fit_predict(X)
    forest = RandomForestClassifier(200, random_state=0).fit(X, labels)
    return first(forest.feature_importances_, n_informative)


def by_laplacian(X, n_informative, _, n_neighbors=5):
    """Return the features with the smallest Laplacian scores."""
    graph = kneighbors_graph(X, n_neighbors, mode="distance")
    graph.data = np.exp(-np.square(graph.data) / np.mean(np.square(graph.data)))
    graph = graph.maximum(graph.T)
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    centred = X - degrees @ X / degrees.sum()
    smooth = np.einsum("ij,ij->j", centred, graph @ centred)
    return first(smooth / (degrees @ np.square(centred)), n_informative)


def by_path(X, *_):
    """Return the features of the step that a path chooses."""
    sparse = SparseGEMINI(K, random_state=0)
    sparse.path(X)
    return sparse.get_support()


def by_stability(X, *_):
    """Return the features of SparseGEMINICV."""
    return SparseGEMINICV(n_clusters=K, random_state=0).fit(X).get_support()


def by_repeated(X, *_):
    """Return those of SparseGEMINICV without features that have no structure.

    While it warns, the features that it selects are left out, and it is fitted again.
    """
    left = np.arange(X.shape[1])
    while True:
        model = SparseGEMINICV(n_clusters=K, random_state=0)
        has_none = warns_of(model, X[:, left], "no more structure")
        found = left[model.get_support()]
        if not has_none or len(left) - len(found) < 2:
            return np.isin(np.arange(X.shape[1]), found)
        left = np.setdiff1d(left, found)


METHODS = {
    "SparseGEMINI, path": by_path,
    "SparseGEMINICV": by_stability,
    "SparseGEMINICV, fitted again": by_repeated,
    "sparse k-means; sparse k-means, told the number": by_sparse_k_means,
    "forest of k-means, told the number": by_forest,
    "Laplacian scores, told the number": by_laplacian,
}


def judged(support, n_informative):
    """Return the error rate, precision and recall of features that are selected."""
    right = support[:n_informative].sum()
    wrong = support[n_informative:].sum()
    errors = n_informative - right + wrong
    return errors / len(support), right / max(right + wrong, 1), right / n_informative


def main():
    """Print the mean rates of each method on each kind of sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--seed", type=int, default=39_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(options.seed, options.seed + options.sets)
    for (kind, draw), (name, select) in itertools.product(
        SETS.items(), METHODS.items()
    ):
        if draw is wide and select is by_repeated:
            continue
        rates = []
        for seed in seeds:
            X, n_informative = draw(np.random.RandomState(seed))
            masks = select(standardised(X), n_informative, np.random.default_rng(seed))
            rates.append([judged(m, n_informative) for m in np.atleast_2d(masks)])
        means = np.mean(rates, axis=0)
        for one, (error, precision, recall) in zip(
            name.split("; "), means, strict=True
        ):
            print(
                f"{kind}, {one}: error rate {error:.2f}, precision {precision:.2f}, "
                f"recall {recall:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
