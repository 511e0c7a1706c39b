"""Number of clusters by GEMINI(n_clusters="auto"), and by two common criteria.

``python benchmarks/choose_n_clusters_gemini.py`` is about GEMINI, with ``sparse`` it is
about SparseGEMINICV("auto") on some of the same problems, and with ``real`` about the
time that GEMINI takes on 2000 samples of tables with many features.

On Gaussian mixtures of 400 samples of two to six components in two to eight features,
at least 3.5 standard deviations apart, on scenarios 4 and 5 of Celeux et al., and on
single Gaussians, where there is nothing to be found. The constants of the method were
chosen on mixtures 100 to 111, 200 to 211 and 400 to 410; these are others. The criteria
are the largest silhouette of k-means, and the smallest BIC of a Gaussian mixture with
full covariances.
"""

import sys
import time
import warnings

import numpy as np
from data_sets import load_data
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.mixture import GaussianMixture

from skdiffclust import GEMINI, SparseGEMINICV
from skdiffclust.datasets import make_celeux_one

COUNTS = range(2, 11)


def mixture(seed):
    """Return samples (400, d) and the number of their components."""
    rng = np.random.RandomState(seed)
    n_clusters, n_features = rng.randint(2, 7), rng.randint(2, 9)
    while True:
        centers = rng.normal(scale=4, size=(n_clusters, n_features))
        distances = np.linalg.norm(centers[:, None] - centers, axis=2)
        if distances[np.triu_indices(n_clusters, 1)].min() > 3.5:
            break
    shares = np.maximum(rng.dirichlet(np.full(n_clusters, 6.0)), 0.08)
    y = rng.choice(n_clusters, size=400, p=shares / shares.sum())
    return centers[y] + rng.normal(size=(400, n_features)), n_clusters


def problems():
    """Yield a name, samples, and the true number of clusters."""
    for seed in range(600, 612):
        X, n_clusters = mixture(seed)
        yield f"mixture {seed}", X, n_clusters
    for scenario in (4, 5):
        for seed in (31, 32):
            data = make_celeux_one(scenario, random_state=seed)
            yield f"scenario {scenario}, {seed}", data.X, 3
    for seed in range(700, 703):
        rng = np.random.RandomState(seed)
        scales = rng.uniform(1, 4, size=5)
        yield f"one Gaussian, {seed}", rng.normal(size=(300, 5)) * scales, 1


def by_silhouette(X):
    """Return the number of clusters of k-means with the largest silhouette."""
    scores = [
        silhouette_score(X, KMeans(k, n_init=3, random_state=0).fit_predict(X))
        for k in COUNTS
    ]
    return COUNTS[int(np.argmax(scores))]


def by_bic(X):
    """Return the number of components, from one on, with the smallest BIC."""
    counts = range(1, COUNTS.stop)
    values = [GaussianMixture(k, random_state=0).fit(X).bic(X) for k in counts]
    return counts[int(np.argmin(values))]


def timed_fit(model, X):
    """Return a fitted model, whether its number of clusters is clear, and seconds."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        start = time.process_time()
        model.fit(X)
        seconds = time.process_time() - start
    is_clear = not any("no clear" in str(w.message) for w in caught)
    return model, is_clear, seconds


def timed_auto(X):
    """Return what `timed_fit` returns for GEMINI("auto")."""
    return timed_fit(GEMINI("auto", mode="ovo", random_state=0), X)


def sparse():
    """Print what SparseGEMINICV chooses on some of the problems, with its features."""
    print("problem             true  auto  clear  features  s")
    for name, X, truth in problems():
        if name.startswith("mixture") and int(name[-1]) > 3:
            continue
        stable, is_clear, seconds = timed_fit(
            SparseGEMINICV("auto", mode="ovo", random_state=0), X
        )
        print(
            f"{name:19s} {truth:4d}  {stable.n_clusters_:4d}  {is_clear!s:5s}  "
            f"{stable.get_support().sum():3d} of {X.shape[1]:3d}  {seconds:.1f}",
            flush=True,
        )


def real(n_samples=2000):
    """Print what GEMINI takes for tables with many features, and its time."""
    timed_auto(mixture(600)[0])
    print("data        features  classes  auto  clear   ARI      s")
    for name in ("isolet", "mnist_t10k", "usps_train"):
        X, y = load_data(name)
        rows = np.random.RandomState(0).permutation(len(X))[:n_samples]
        X = X[rows].astype(np.float64)
        gemini, is_clear, seconds = timed_auto(X)
        print(
            f"{name:10s}  {X.shape[1]:8d}  {len(np.unique(y)):7d}  "
            f"{gemini.n_clusters_:4d}  {is_clear!s:5s}  "
            f"{adjusted_rand_score(y[rows], gemini.labels_):.3f}  {seconds:5.1f}",
            flush=True,
        )


def main():
    """Print a row a problem, and how many each method has right."""
    print("problem             true  auto  clear  silhouette  BIC  s of auto")
    right = np.zeros(3, dtype=int)
    n_clustered = n_warned = n_single = 0
    for name, X, truth in problems():
        gemini, is_clear, seconds = timed_auto(X)
        found = gemini.n_clusters_
        others = by_silhouette(X), by_bic(X)
        if truth == 1:
            n_single += 1
            n_warned += not is_clear
        else:
            n_clustered += 1
            right += np.array([found, *others]) == truth
        print(
            f"{name:19s} {truth:4d}  {found:4d}  {is_clear!s:5s}  {others[0]:10d}  "
            f"{others[1]:3d}  {seconds:9.1f}",
            flush=True,
        )
    print(f"right, of {n_clustered}: auto {right[0]}, silhouette {right[1]}, ", end="")
    print(f"BIC {right[2]}; warned of {n_warned} of {n_single} single Gaussians")


if __name__ == "__main__":
    part = {"sparse": sparse, "real": real}
    for name in sys.argv[1:]:
        part[name]()
    if not sys.argv[1:]:
        main()
