"""How many clusters ClAM(n_clusters="auto") finds, and when it warns.

    python benchmarks/choose_n_clusters_clam.py [--half choose|report] [--states N]

The problems are those of `choose_n_clusters_forest.py`, mixtures in 10 to 500
dimensions, random blobs, the Gaussian mixtures of `choose_n_clusters_gemini.py`, and
data without clusters. The constants were chosen on the one
half; the other half, the default, has other families and other random states. Real
data sets are in both. A line has the true number, how often ``ClAM("auto")`` and
``ClAM("auto", n_memories=100)`` find it, how often they warn that there is no clear
structure, and how often k-means of largest silhouette finds it, 2 to 40 clusters.
"""

import argparse
import warnings

import numpy as np
from choose_n_clusters_forest import (
    CHOOSING,
    HELD_OUT,
    NOTHING_CHOOSING,
    NOTHING_HELD_OUT,
    without,
)
from choose_n_clusters_gemini import mixture
from data_sets import has_data, load_data
from sklearn.cluster import KMeans
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
)
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import ClAM

OWN = {
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
}
FILES = (
    "ctg ecoli heart_statlog house_votes_84 movlib zoo letter usps_train isolet "
    "mnist_t10k"
).split()
MOST = 1500


def high_mixture(rng, n_features):
    """Return a mixture of three to eight Gaussians whose distances vary."""
    k = rng.randint(3, 9)
    gap = rng.choice([1.5, 2.0, 3.0, 4.0, 6.0])
    centers = rng.normal(size=(k, n_features)) * gap / np.sqrt(2) * n_features**-0.25
    y = rng.randint(k, size=400)
    return centers[y] + rng.normal(size=(400, n_features)), y


def topics(rng, n_features):
    """Return normalised counts of 30 words of three to eight topics."""
    k = rng.randint(3, 9)
    shares = rng.dirichlet(np.full(n_features, 0.2), size=k)
    y = rng.randint(k, size=400)
    counts = np.array([rng.multinomial(30, shares[label]) for label in y], float)
    return counts / np.linalg.norm(counts, axis=1)[:, None], y


def random_blobs(rng, n_features):
    """Return standardised blobs whose centres are drawn from a cube."""
    k = rng.choice([3, 4, 5, 6, 8] if n_features > 2 else [3, 4, 5])
    X, y = make_blobs(400, n_features, centers=k, random_state=rng)
    return StandardScaler().fit_transform(X), y


def of_mixture(rng):
    """Return a mixture of two to six Gaussians, at least 3.5 deviations apart."""
    X, k = mixture(rng.randint(2**31))
    return X, k


WIDE = {
    **{f"mixture, d = {d}": (high_mixture, d) for d in (10, 50, 200)},
    **{f"topics of {d} words": (topics, d) for d in (50, 200)},
    **{f"random blobs, d = {d}": (random_blobs, d) for d in (2, 5)},
}
WIDE_HELD_OUT = {
    **{f"mixture, d = {d}": (high_mixture, d) for d in (20, 100, 500)},
    **{f"topics of {d} words": (topics, d) for d in (100, 500)},
    **{f"random blobs, d = {d}": (random_blobs, d) for d in (2, 3, 5, 8)},
}


def families(half):
    """Return {name: function of a generator} of drawn problems."""
    if half == "choose":
        drawn, wide, nothing = CHOOSING, WIDE, NOTHING_CHOOSING
        sizes = (10, 50, 200)
    else:
        drawn, wide, nothing = HELD_OUT, WIDE_HELD_OUT, NOTHING_HELD_OUT
        sizes = (20, 100, 500)
    found = dict(drawn)
    for name, (draw, d) in wide.items():
        found[name] = lambda rng, draw=draw, d=d: draw(rng, d)
    found["Gaussian mixture"] = of_mixture
    found |= nothing
    for d in sizes:
        found[f"cube, d = {d}"] = lambda rng, d=d: without(rng.uniform(size=(400, d)))
        found[f"correlated, d = {d}"] = lambda rng, d=d: without(
            rng.normal(size=(400, d)) @ rng.normal(size=(d, d))
        )
    return found


def problems(half):
    """Yield (name, samples, true number of clusters)."""
    first = 1000 if half == "choose" else 5000
    for name, draw in families(half).items():
        n_draws = 10 if "random" in name or "Gaussian mixture" in name else 3
        for seed in range(n_draws):
            rng = np.random.RandomState(first + seed)
            X, y = draw(rng)
            yield name, X, y if np.isscalar(y) else len(np.unique(y[y >= 0]))
    for name in [*OWN, *FILES]:
        if name in OWN or has_data(name):
            X, y = OWN[name](return_X_y=True) if name in OWN else load_data(name)
            rows = np.random.RandomState(0).permutation(len(X))[:MOST]
            X = X[rows].astype(float)
            X = X if name == "digits" else StandardScaler().fit_transform(X)
            yield name, X, len(np.unique(y))


def found_by(model, X, n_states):
    """Return the numbers of clusters and whether each fit warned, by random state."""
    rows = []
    for state in range(n_states):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            number = model.set_params(random_state=state).fit(X).n_clusters_
        rows.append((number, any("no clear" in str(w.message) for w in caught)))
    return np.array(rows).T


def by_silhouette(X):
    """Return the number of clusters of k-means of largest silhouette."""
    labels = {
        k: KMeans(k, n_init=3, random_state=0).fit_predict(X) for k in range(2, 41)
    }
    some = np.random.RandomState(0).permutation(len(X))[:1000]
    return max(labels, key=lambda k: silhouette_score(X[some], labels[k][some]))


def main():
    """Print a line for each family and real data set, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=["choose", "report"], default="report")
    parser.add_argument("--states", type=int, default=3, help="random states")
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args()
    table = {}
    for name, X, truth in problems(options.half):
        models = ClAM("auto"), ClAM("auto", n_memories=min(100, len(X) // 4))
        found = [found_by(model, X, options.states) for model in models]
        peer = 0 if options.no_peer else by_silhouette(X)
        table.setdefault(name, []).append((truth, *found, peer))
        print(f"{name}: {truth}", *found[0], *found[1], peer, flush=True)
    print("                            k     right       warns      found")
    cells = {"drawn": [], "real": [], "nothing": []}
    for name, lines in table.items():
        truths = np.array([line[0] for line in lines])
        found = np.array([[*line[1:3]] for line in lines])  # (draws, 2, 2, states)
        peers = np.array([line[3] for line in lines])
        right = found[:, :, 0] == truths[:, None, None]
        warns = found[:, :, 1]
        is_real = name in OWN or name in FILES
        kind = "nothing" if truths.max() == 1 else "real" if is_real else "drawn"
        cells[kind].append((right, warns, peers == truths))
        numbers = " ".join(map(str, found[0, :, 0].ravel()))
        print(
            f"{name:26s}{truths[0]:4d}  "
            f"{right[:, 0].mean():.2f} {right[:, 1].mean():.2f}   "
            f"{warns[:, 0].mean():.2f} {warns[:, 1].mean():.2f}   {numbers}; {peers[0]}"
        )
    for kind, rows in cells.items():
        right, warns, peers = map(np.concatenate, zip(*rows, strict=True))
        line = f"{kind}, {len(right)} problems: "
        if kind != "nothing":
            quiet = [np.mean(warns[:, i][right[:, i]]) for i in range(2)]
            line += (
                f"right {right[:, 0].mean():.3f} and {right[:, 1].mean():.3f}, k-means "
                f"{peers.mean():.3f}; warns where right {quiet[0]:.3f} and "
                f"{quiet[1]:.3f}, where "
            )
            wrong = [np.mean(warns[:, i][~right[:, i]]) for i in range(2)]
            line += f"wrong {wrong[0]:.3f} and {wrong[1]:.3f}"
        else:
            line += f"warns {warns[:, 0].mean():.3f} and {warns[:, 1].mean():.3f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
