"""GEMINI against gemclus, and what it returns: a solution, and above k-means?

    OMP_NUM_THREADS=1 python benchmarks/bench_gemini.py PART ...

The first two run gemclus in this process, on the same data and with its schedule
(Nesterov momentum, its patience, its first penalty), written here from the parts of our
package; the ratio of the times and whether the results agree are printed.

fits, gemclus_paths  the same problem and result
trees       Kauri beside a tree of scikit-learn on the centres of k-means
paths       certificates along default paths, and whether `fit` and `path` agree
supports    how far selected features depend on the seed and on the order of columns,
            with 617 features of 100 samples
cost        the time of a whole fit beside that of one run of k-means
kmeans      the objective beside that of the partition of k-means, on 15 data sets
"""

import argparse
import itertools
import warnings

import numpy as np
from scipy.spatial.distance import cdist
from shared import load, seconds, versions
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.preprocessing import StandardScaler, scale
from sklearn.tree import DecisionTreeRegressor

from skdiffclust import GEMINI, SparseGEMINI
from skdiffclust._assignments import softmax
from skdiffclust._encoder import Encoder
from skdiffclust._optimisers import Adam
from skdiffclust.datasets import make_celeux_one, make_celeux_two
from skdiffclust.gemini import gemini_score
from skdiffclust.gemini._objectives import OBJECTIVES
from skdiffclust.gemini._penalties import GroupLasso, Groups
from skdiffclust.gemini._problem import Problem
from skdiffclust.gemini._relations import make_relation
from skdiffclust.gemini._training import loss_and_gradients

RATE = 1e-3
MODES = "ova", "ovo"


def problem_and_model(X, n_clusters, mode, name="mmd", seed=0):
    """Return our Problem, and the linear model that gemclus draws."""
    n, d = X.shape
    rng, bound = np.random.RandomState(seed), np.sqrt(1 / d)
    W = rng.uniform(-bound, bound, size=(d, n_clusters))
    b = rng.uniform(-bound, bound, size=(1, n_clusters))
    row = OBJECTIVES[name]
    relation = make_relation(row.relation, X, "linear", "euclidean")
    weights = np.full(n, 1 / n)
    problem = Problem(
        X,
        weights,
        relation,
        row.with_gradient(mode),
        compiled_mode=mode if name == "mmd" else None,
    )
    return problem, Encoder([W], [b.ravel()])


def adam(problem, model, n_iter):
    """Train by Adam for exactly n_iter epochs."""
    optimiser = Adam(model.arrays, RATE)
    for _ in range(n_iter):
        optimiser.step(model.arrays, loss_and_gradients(model, problem)[2])


def gemclus_path(X, n_clusters, mode, max_iter, name, multiplier, *, min_features):
    """Return numbers of features and objectives of the steps of gemclus's schedule."""
    problem, model = problem_and_model(X, n_clusters, mode, name)
    lasso = GroupLasso(Groups.of(None, X.shape[1]))
    adam(problem, model, max_iter)
    velocities = [np.zeros_like(array) for array in model.arrays]
    weights, alpha = model.weights[0], 1e-2
    n_features, objectives = [], []
    _, value, gradients = loss_and_gradients(model, problem)
    while np.count_nonzero(weights.any(axis=1)) > min_features:
        penalised = lasso.at(alpha)
        best, smallest, stalled = value, alpha * penalised.value(model), 0
        for _ in range(max_iter):
            for array, g, v in zip(model.arrays, gradients, velocities, strict=True):
                v *= 0.9
                v -= RATE * g
                array += 0.9 * v - RATE * g
            penalised.prox(model, RATE)
            _, value, gradients = loss_and_gradients(model, problem)
            penalty = alpha * penalised.value(model)
            stalled += 1
            if value > 1.01 * best or penalty < 0.99 * smallest:
                best, smallest, stalled = value, penalty, 0
            if stalled == 10:
                break
        n_features.append(np.count_nonzero(weights.any(axis=1)))
        objectives.append(value)
        alpha *= multiplier
    return np.array(n_features), np.array(objectives)


def warm_up():
    """Compile our kernels, or load them, before anything is timed."""
    adam(*problem_and_model(np.eye(4), 2, "ova"), 1)


def of_gemclus(name, *arguments, **keywords):
    """Return an estimator of gemclus."""
    from gemclus import linear, sparse

    module = linear if hasattr(linear, name) else sparse
    return getattr(module, name)(*arguments, **keywords)


def report(what, theirs, ours, agreement):
    """Print one line."""
    print(
        f"{what:44s} gemclus {theirs:9.4f} s, ours {ours:9.5f} s: "
        f"{theirs / ours:8.1f} times; {agreement}",
        flush=True,
    )


def centred(X):
    """Return samples whose features have mean zero."""
    return X - X.mean(axis=0)


def fits():
    """Time fits of a number of epochs; transport is left to POT by both."""
    normal = centred(np.random.RandomState(0).normal(size=(5000, 20)))
    breast_cancer = scale(load("breast_cancer")[0])
    scenario = centred(make_celeux_one(4, random_state=0).X)
    for what, X, k, objective, n_iter in (
        ("one iteration, 5000 x 20", normal, 3, "MMD", 1),
        ("fit, breast cancer", breast_cancer, 2, "MMD", 300),
        ("fit, Wasserstein, scenario 4", scenario, 3, "Wasserstein", 20),
    ):
        for mode in MODES:
            peer = of_gemclus(
                f"Linear{objective}",
                k,
                ovo=mode == "ovo",
                random_state=0,
                max_iter=n_iter,
            )
            theirs, _ = seconds(peer.fit, X)
            times = []
            for _ in range(20 if n_iter == 1 else 1):
                problem, model = problem_and_model(X, k, mode, objective.lower())
                times.append(seconds(adam, problem, model, n_iter)[0])
            gap = np.abs(peer.W_ - model.weights[0]).max()
            report(
                f"{what}, {mode}", theirs, np.median(times), f"weights within {gap:.1e}"
            )


def gemclus_paths():
    """Time whole linear paths; the last two take longer steps, so as to end."""
    scenarios = {i: centred(make_celeux_one(i, random_state=0).X) for i in (4, 5)}
    rng = np.random.RandomState(0)
    wide = rng.normal(size=(171, 25_904))
    wide[:, :2000] += rng.normal(size=(3, 2000))[np.repeat([0, 1, 2], [52, 96, 23])]
    for what, X, objective, modes, max_iter, multiplier, min_features in (
        ("scenario 5", scenarios[5], "mmd", MODES, 1000, 1.05, 2),
        ("scenario 4", scenarios[4], "wasserstein", MODES, 50, 1.5, 2),
        ("171 x 25 904", centred(wide), "mmd", MODES[:1], 100, 1.1, 400),
    ):
        for mode in modes:
            steps = {"min_features": min_features}
            peer = of_gemclus(
                "SparseLinearModel",
                3,
                gemini=f"{objective}_{mode}",
                random_state=0,
                max_iter=max_iter,
            )
            ours, (sizes, values) = seconds(
                gemclus_path, X, 3, mode, max_iter, objective, multiplier, **steps
            )
            theirs, (_, found, _, _, counts) = seconds(
                peer.path, X, alpha_multiplier=multiplier, **steps
            )
            n_both = min(len(sizes), len(counts))
            n_same = np.sum(sizes[:n_both] == np.array(counts[:n_both]))
            report(
                f"path, {what}, {objective} {mode}",
                theirs,
                ours,
                f"{len(sizes)} and {len(counts)} steps, {n_same} with the same number "
                f"of features; at the end {sizes[-1]} and {counts[-1]}, GEMINI within "
                f"{abs(values[-1] - found[-1]):.1e}",
            )


# Certificates, and objectives.


def path_data():
    """Yield a name, samples, and a number of clusters."""
    for scenario in range(1, 6):
        yield f"scenario {scenario}", make_celeux_one(scenario, random_state=0).X, 3
    yield "wine", scale(load("wine")[0]), 3
    yield "breast cancer", scale(load("breast_cancer")[0]), 2
    votes = np.nan_to_num(load("house_votes_84")[0])
    yield "votes", votes[:, votes.std(axis=0) > 0], 2
    rng = np.random.RandomState(0)
    wide = rng.normal(size=(80, 2000))
    wide[:, :100] += rng.normal(size=(3, 100))[np.arange(80) % 3]
    yield "wide, 80 x 2000", wide, 3


def paths():
    """Print the largest certificate of each default path, and compare with fit."""
    for name, X, n_clusters in path_data():
        for mode in MODES:
            sparse = SparseGEMINI(n_clusters, mode=mode, random_state=0)
            spent, path = seconds(sparse.path, X)
            step = len(path) // 2
            fitted = SparseGEMINI(
                n_clusters, mode=mode, random_state=0, alpha=path.alphas[step]
            ).fit(X)
            same = np.array_equal(fitted.get_support(), path.supports[step])
            print(
                f"{name:16s} {mode}: {len(path):4d} steps in {spent:6.2f} s, KKT at "
                f"most {np.nanmax(path.kkts):.4f}; fit in the middle has "
                f"the same {path.n_features[step]} features: {same}",
                flush=True,
            )


def clustered_data():
    """Yield a name, samples, and a number of clusters, of 15 data sets."""
    yield "iris", load("iris")[0], 3
    yield "wine", scale(load("wine")[0]), 3
    yield "breast cancer", scale(load("breast_cancer")[0]), 2
    yield "digits", load("digits")[0], 10
    yield "scenario 4", make_celeux_one(4, random_state=0).X, 3
    yield "scenario 5", make_celeux_one(5, random_state=0).X, 3
    yield "redundant", make_celeux_two(300, random_state=0).X, 4
    yield "blobs", make_blobs(400, centers=6, n_features=4, random_state=0)[0], 6
    yield "moons", make_moons(400, noise=0.1, random_state=0)[0], 2
    yield "circles", make_circles(400, noise=0.05, factor=0.5, random_state=0)[0], 3
    rng = np.random.RandomState(0)
    topics = rng.dirichlet(np.full(300, 0.05), size=5)
    counts = [rng.multinomial(60, topics[i % 5]) for i in range(400)]
    counts = np.array(counts, dtype=float)
    yield "text-like", counts / np.linalg.norm(counts, axis=1, keepdims=True), 5
    for name in ("ecoli", "heart_statlog", "movlib", "zoo"):
        X, y = load(name)
        X = np.nan_to_num(X)
        yield name, scale(X[:, X.std(axis=0) > 0]), len(np.unique(y))


def kmeans(n_seeds=5, most=300):
    """Print the least ratio of objectives of each data set over seeds."""
    worst = np.inf
    for name, X, n_clusters in clustered_data():
        rows = np.random.RandomState(0).permutation(len(X))[:most]
        X = X[rows]
        ratios = {"ova": [], "ovo": []}
        for seed in range(n_seeds):
            labels = KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(X)
            hard = np.eye(n_clusters)[labels]
            for mode, found in ratios.items():
                ours = GEMINI(n_clusters, mode=mode, random_state=seed).fit(X)
                trained = softmax(ours._logits(X))
                value = gemini_score(trained, X, mode=mode)
                found.append(value / gemini_score(hard, X, mode=mode))
        worst = min(worst, *ratios["ova"], *ratios["ovo"])
        print(
            f"{name:14s} k={n_clusters:2d}: least ratio ova {min(ratios['ova']):.5f}, "
            f"ovo {min(ratios['ovo']):.5f}",
            flush=True,
        )
    print(f"least of all: {worst:.6f}")


def tree_on_centers(X, n_clusters, n_leaves, seed):
    """Return `predict` of a tree that predicts the centres of k-means."""
    clusters = KMeans(n_clusters, n_init=3, random_state=seed).fit(X)
    tree = DecisionTreeRegressor(max_leaf_nodes=n_leaves, random_state=0)
    tree.fit(X, clusters.cluster_centers_[clusters.labels_])
    return lambda rows: clusters.predict(tree.predict(rows))


def kauri(X, n_clusters, n_leaves, seed):
    """Return a fitted Kauri of gemclus."""
    from gemclus.tree import Kauri

    tree = Kauri(max_clusters=n_clusters, max_leaves=n_leaves, random_state=seed)
    return tree.fit(X)


def tree_of_gemclus(X, n_clusters, n_leaves, seed):
    """Return `predict` of Kauri."""
    return kauri(X, n_clusters, n_leaves, seed).predict


def tree_with_moves(X, n_clusters, n_leaves, seed):
    """Return `predict` of Kauri, whose leaves then move to the nearest cluster.

    In turns with the means of the clusters, as in k-means, until nothing changes.
    """
    model = kauri(X, n_clusters, n_leaves, seed)
    tree = model.tree_
    targets = np.array(tree.target)
    tree.target = list(range(tree.n_nodes))  # so that the nodes are predicted
    nodes, leaves = np.unique(model.predict(X), return_inverse=True)
    means = np.array([X[leaves == leaf].mean(axis=0) for leaf in range(len(nodes))])
    clusters = targets[nodes]
    while True:
        labels = clusters[leaves]
        found = np.unique(labels)
        centers = np.array([X[labels == k].mean(axis=0) for k in found])
        before, clusters = clusters, found[cdist(means, centers).argmin(axis=1)]
        if np.array_equal(clusters, before):
            break
    targets[nodes] = clusters
    tree.target = targets.tolist()
    return model.predict


def trees(n_seeds=5, most=400):
    """Print held-out inertia of trees over that of k-means, on halves of data sets."""
    methods = {
        "Kauri": tree_of_gemclus,
        "Kauri, leaves moved": tree_with_moves,
        "tree on centres": tree_on_centers,
    }
    sets = "iris wine breast_cancer digits ecoli ctg heart_statlog segment zoo micepe"
    ratios = {}
    spent = dict.fromkeys(methods, 0.0)
    for data, seed in itertools.product(sets.split(), range(n_seeds)):
        X, y = load(data)
        X = np.nan_to_num(X)[np.random.RandomState(seed).permutation(len(X))[:most]]
        half = len(X) // 2
        scaler = StandardScaler().fit(X[:half])
        X, new = scaler.transform(X[:half]), scaler.transform(X[half:])
        n_clusters = len(np.unique(y))
        clusters = KMeans(n_clusters, n_init=10, random_state=seed).fit(X)
        whole = held_out_inertia(clusters.predict, X, new)
        for name, leaves in itertools.product(methods, (1, 4)):
            time, predict = seconds(
                methods[name], X, n_clusters, leaves * n_clusters, seed
            )
            spent[name] += time
            ratio = held_out_inertia(predict, X, new) / whole
            ratios.setdefault((data, leaves, name), []).append(ratio)
    for data, leaves in itertools.product(sets.split(), (1, 4)):
        means = [np.mean(ratios[data, leaves, name]) for name in methods]
        found = ", ".join(f"{n} {m:.3f}" for n, m in zip(methods, means, strict=True))
        print(f"{data:14s} {leaves} leaves per cluster: {found}", flush=True)
    print("seconds:", {name: round(total, 1) for name, total in spent.items()})


def held_out_inertia(predict, X, new):
    """Return the mean squared distance of new samples to the means of clusters of X."""
    labels, found = predict(X), predict(new)
    # A cluster that X does not reach has the mean of all samples.
    means = np.array(
        [
            X[labels == k].mean(axis=0) if k in labels else X.mean(axis=0)
            for k in range(max(labels.max(), found.max()) + 1)
        ]
    )
    return np.square(new - means[found]).sum(axis=1).mean()


def overlap(one, other):
    """Return the Jaccard index of two masks of features."""
    return (one & other).sum() / (one | other).sum()


def supports(n_seeds=5, n_features=20):
    """Print how far the features of a path depend on its seed, for few samples."""
    X = load("isolet")[0]
    X = scale(X[np.random.RandomState(0).choice(len(X), 100, replace=False)])
    found = []
    values = []
    for seed in range(n_seeds):
        path = SparseGEMINI(5, random_state=seed).path(X, alpha_multiplier=1.1)
        found.append(path.select(n_features=n_features).get_support())
        values.append(path.objectives[path.n_features >= found[-1].sum()][-1])
    permuted = []
    for seed in range(n_seeds):
        order = np.random.RandomState(seed).permutation(X.shape[1])
        path = SparseGEMINI(5, random_state=0).path(X[:, order], alpha_multiplier=1.1)
        back = path.select(n_features=n_features).get_support()[np.argsort(order)]
        permuted.append(overlap(found[0], back))
    shared = [overlap(*pair) for pair in itertools.combinations(found, 2)]
    print(
        f"objectives {min(values):.2f} to {max(values):.2f}; Jaccard indices "
        f"{min(shared):.2f} to {max(shared):.2f}, mean {np.mean(shared):.2f}; "
        f"{np.any(found, axis=0).sum()} features in any, "
        f"{np.all(found, axis=0).sum()} in all; in other orders of the columns "
        f"{min(permuted):.2f} to {max(permuted):.2f}"
    )


def cost():
    """Print the time of a whole fit over that of one run of k-means."""
    for n_samples, n_clusters in ((20_000, 3), (5000, 30)):
        X, _ = make_blobs(
            n_samples, 10, centers=n_clusters, cluster_std=2.5, random_state=0
        )
        GEMINI(n_clusters, random_state=0).fit(X[:500])
        times = []
        for seed in range(3):
            one = KMeans(n_clusters, n_init=1, random_state=seed)
            ours = GEMINI(n_clusters, random_state=seed)
            times.append([seconds(model.fit, X)[0] for model in (one, ours)])
        print(
            "{} samples, {} clusters: k-means {:.3f} s, GEMINI {:.3f} s".format(
                n_samples, n_clusters, *np.median(times, axis=0)
            ),
            flush=True,
        )


PARTS = {
    part.__name__: part
    for part in (fits, gemclus_paths, trees, paths, kmeans, supports, cost)
}


def main():
    """Print the parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", help="of the list above")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(versions("gemclus", "numpy", "scikit-learn"))
    warm_up()
    for name in options.parts:
        PARTS[name]()


if __name__ == "__main__":
    main()
