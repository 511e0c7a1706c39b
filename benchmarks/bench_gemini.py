"""GEMINI against gemclus: the same problem, the same schedule, the same result.

Run it where both packages are installed::

    OMP_NUM_THREADS=1 python benchmarks/bench_gemini.py path step fit growth wide

Both run in this process, one after the other, on the same data; the ratio of their
times and whether the results agree are printed. gemclus's schedule (Nesterov momentum,
its patience, its first penalty) is written here from the parts of our package. ``mlp``
compares default paths of perceptrons of 20 hidden units with one start: each package
has its own schedule, gemclus begins at a given penalty and has no certificates.
"""

import sys
import time
import tracemalloc

import gemclus
import numpy as np
from gemclus.linear import LinearMMD, LinearWasserstein
from gemclus.sparse import SparseLinearMMD, SparseLinearModel, SparseMLPMMD
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

from skdiffclust import GEMINI, SparseGEMINI
from skdiffclust._encoder import Encoder
from skdiffclust._optimisers import Adam
from skdiffclust.datasets import make_celeux_one
from skdiffclust.gemini._objectives import OBJECTIVES
from skdiffclust.gemini._penalties import (
    group_penalty,
    groups_by_size,
    soft_threshold_groups,
)
from skdiffclust.gemini._relations import make_relation
from skdiffclust.gemini._training import (
    Problem,
    fused_mmd,
    loss_and_gradients,
)

RATE = 1e-3


def problem_and_model(X, n_clusters, mode, name="mmd", seed=0):
    """Return our Problem, and the linear model that gemclus draws."""
    n, d = X.shape
    rng, bound = np.random.RandomState(seed), np.sqrt(1 / d)
    W = rng.uniform(-bound, bound, size=(d, n_clusters))
    b = rng.uniform(-bound, bound, size=(1, n_clusters))
    row = OBJECTIVES[name]
    relation = make_relation(row.relation, X, "linear", "euclidean")
    weights = np.full(n, 1 / n)
    fused = fused_mmd(mode, relation, n_clusters) if name == "mmd" else None
    # As the estimators do.
    transposed = np.ascontiguousarray(X.T) if fused and d > n else None
    problem = Problem(
        X,
        weights,
        relation,
        row.with_gradient(mode),
        fused=fused,
        transposed=transposed,
    )
    return problem, Encoder([W], [b.ravel()])


def adam(problem, model, n_iter):
    """Train by Adam for exactly n_iter epochs."""
    optimiser = Adam(model.arrays, RATE)
    for _ in range(n_iter):
        optimiser.step(model.arrays, loss_and_gradients(model, problem)[2])


def gemclus_path(
    X, n_clusters, mode, max_iter, name="mmd", *, multiplier=1.05, min_features=2
):
    """Return numbers of features and objectives of the steps of gemclus's schedule."""
    problem, model = problem_and_model(X, n_clusters, mode, name)
    groups = groups_by_size(None, X.shape[1])
    adam(problem, model, max_iter)
    velocities = [np.zeros_like(array) for array in model.arrays]
    weights, alpha = model.weights[0], 1e-2
    n_features, objectives = [], []
    _, value, gradients = loss_and_gradients(model, problem)
    while np.count_nonzero(weights.any(axis=1)) > min_features:
        best, smallest, stalled = value, alpha * group_penalty(weights, groups), 0
        for _ in range(max_iter):
            for array, g, v in zip(model.arrays, gradients, velocities, strict=True):
                v *= 0.9
                v -= RATE * g
                array += 0.9 * v - RATE * g
            soft_threshold_groups(weights, alpha * RATE, groups)
            _, value, gradients = loss_and_gradients(model, problem)
            penalty = alpha * group_penalty(weights, groups)
            stalled += 1
            if value > 1.01 * best or penalty < 0.99 * smallest:
                best, smallest, stalled = value, penalty, 0
            if stalled == 10:
                break
        n_features.append(np.count_nonzero(weights.any(axis=1)))
        objectives.append(value)
        alpha *= multiplier
    return np.array(n_features), np.array(objectives)


def seconds(function, *args, **kwargs):
    """Return the processor time of a call, which a busy machine hardly changes."""
    start = time.process_time()
    result = function(*args, **kwargs)
    return time.process_time() - start, result


def warm_up():
    """Compile our kernels, or load them, before anything is timed."""
    for n_samples in (4, 3):
        problem, model = problem_and_model(np.eye(n_samples, 4), 2, "ova")
        adam(problem, model, 1)
    soft_threshold_groups(model.weights[0], 0.0, groups_by_size(None, 4))
    group_penalty(model.weights[0], groups_by_size(None, 4))


def report(what, theirs, ours, agreement):
    """Print one line."""
    ratio = theirs / ours
    print(
        f"{what:44s} gemclus {theirs:9.4f} s, ours {ours:9.5f} s: {ratio:8.1f} times; "
        f"{agreement}",
        flush=True,
    )


def bench_path(max_iter=1000):
    """Time whole linear paths on scenario 5."""
    X, *_ = make_celeux_one(5, random_state=0)
    X -= X.mean(axis=0)
    for mode in ("ova", "ovo"):
        peer = SparseLinearMMD(
            3, ovo=mode == "ovo", random_state=0, max_iter=max_iter, batch_size=None
        )
        ours, (sizes, values) = seconds(gemclus_path, X, 3, mode, max_iter)
        theirs, (_, found, _, _, counts) = seconds(peer.path, X)
        same = np.array_equal(sizes, counts)
        gap = np.abs(values - found).max() if same else np.nan
        what = f"path, scenario 5, {mode}, {len(sizes)} steps"
        report(what, theirs, ours, f"same numbers: {same}, GEMINI within {gap:.1e}")


def bench_step():
    """Time one iteration at n = 5000."""
    X = np.random.RandomState(0).normal(size=(5000, 20))
    X -= X.mean(axis=0)
    for mode in ("ova", "ovo"):
        peer = LinearMMD(3, ovo=mode == "ovo", random_state=0, max_iter=1)
        theirs, _ = seconds(peer.fit, X)
        problem, model = problem_and_model(X, 3, mode)
        adam(problem, model, 1)
        ours = np.median([seconds(adam, problem, model, 1)[0] for _ in range(20)])
        gap = np.abs(peer.W_ - problem_and_model(X, 3, mode)[1].weights[0]).max()
        what = f"one iteration, 5000 x 20, {mode}"
        report(what, theirs, ours, f"weights moved by {gap:.1e}")


def bench_fit(n_iter=300):
    """Time a fit of breast cancer."""
    X = scale(load_breast_cancer(return_X_y=True)[0])
    for mode in ("ova", "ovo"):
        peer = LinearMMD(2, ovo=mode == "ovo", random_state=0, max_iter=n_iter)
        theirs, _ = seconds(peer.fit, X)
        problem, model = problem_and_model(X, 2, mode)
        ours, _ = seconds(adam, problem, model, n_iter)
        gap = np.abs(peer.W_ - model.weights[0]).max()
        what = f"fit, breast cancer, {mode}, {n_iter} epochs"
        report(what, theirs, ours, f"weights within {gap:.1e}")


def bench_wasserstein(n_iter=20):
    """Time transport, which both leave to POT; ours starts from the last potentials."""
    X, *_ = make_celeux_one(4, random_state=0)
    X -= X.mean(axis=0)
    for mode in ("ova", "ovo"):
        peer = LinearWasserstein(3, ovo=mode == "ovo", random_state=0, max_iter=n_iter)
        theirs, _ = seconds(peer.fit, X)
        problem, model = problem_and_model(X, 3, mode, "wasserstein")
        ours, _ = seconds(adam, problem, model, n_iter)
        gap = np.abs(peer.W_ - model.weights[0]).max()
        what = f"fit, Wasserstein, scenario 4, {mode}, {n_iter} epochs"
        report(what, theirs, ours, f"weights within {gap:.1e}")


def bench_wasserstein_path(max_iter=50, multiplier=1.5):
    """Time whole Wasserstein paths on scenario 4, with longer steps, so as to end."""
    X, *_ = make_celeux_one(4, random_state=0)
    X -= X.mean(axis=0)
    for mode in ("ova", "ovo"):
        peer = SparseLinearModel(
            3, gemini=f"wasserstein_{mode}", random_state=0, max_iter=max_iter
        )
        ours, (sizes, values) = seconds(
            gemclus_path, X, 3, mode, max_iter, "wasserstein", multiplier=multiplier
        )
        theirs, (_, found, _, _, counts) = seconds(
            peer.path, X, alpha_multiplier=multiplier
        )
        same = np.array_equal(sizes, counts)
        gap = np.abs(values - found).max() if same else np.nan
        what = f"path, Wasserstein, {mode}, {len(sizes)} steps"
        report(what, theirs, ours, f"same numbers: {same}, GEMINI within {gap:.1e}")


def bench_mlp():
    """Time default paths of perceptrons with a skip connection."""
    for scenario in (4, 5):
        X, y, _ = make_celeux_one(scenario, random_state=0)
        X -= X.mean(axis=0)
        for mode in ("ova", "ovo"):
            sparse = SparseGEMINI(
                3,
                mode=mode,
                model="mlp",
                hidden_layer_sizes=20,
                n_init=1,
                random_state=0,
            )
            ours, path = seconds(sparse.path, X)
            peer = SparseMLPMMD(3, ovo=mode == "ovo", random_state=0)
            theirs, (best, *_, counts) = seconds(peer.path, X)
            labels = peer.predict(X)
            n_selected = np.count_nonzero(best[0].any(axis=1))
            agreement = (
                f"gemclus {len(counts)} steps, {n_selected} features, ARI "
                f"{adjusted_rand_score(y, labels):.2f}; ours {len(path)} steps, "
                f"{sparse.get_support().sum()} features, ARI "
                f"{adjusted_rand_score(y, sparse.labels_):.2f}, KKT at most "
                f"{np.nanmax(path.kkts):.3f}"
            )
            report(f"path, MLP, scenario {scenario}, {mode}", theirs, ours, agreement)


def bench_growth():
    """Print time and memory of ours as n grows, linear kernel."""
    for n in (10**3, 10**4, 10**5):
        X = np.random.RandomState(0).normal(size=(n, 50))
        X[: n // 2] += 1
        tracemalloc.start()
        model = GEMINI(3, max_iter=50, n_init=1, n_iter_no_change=None, random_state=0)
        spent, _ = seconds(model.fit, X)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        print(
            f"fit {n:7d} x 50, 50 epochs: {spent:8.3f} s, {1e6 * spent / n:6.2f} us a "
            f"row, peak {peak:7.1f} MiB beside X",
            flush=True,
        )


def wide_data(n_features=25_904):
    """Return centred rows (171, n_features) of three sources, float32."""
    rng = np.random.RandomState(0)
    source = np.repeat([0, 1, 2], [52, 96, 23])
    X = rng.normal(size=(171, n_features)).astype(np.float32)
    X[:, :2000] += rng.normal(size=(3, 2000))[source]
    return X - X.mean(axis=0)


def bench_wide():
    """Time the path on wide data; fewer steps than gemclus's own, so as to end."""
    # gemclus takes 64 bits.
    wide, few = wide_data().astype(np.float64), {"min_features": 400}
    peer = SparseLinearMMD(3, random_state=0, max_iter=100, batch_size=None)
    ours, (sizes, values) = seconds(
        gemclus_path, wide, 3, "ova", 100, multiplier=1.1, **few
    )
    theirs, (_, found, _, _, counts) = seconds(
        peer.path, wide, alpha_multiplier=1.1, **few
    )
    what = f"path, 171 x {wide.shape[1]}, {len(sizes)} and {len(counts)} steps"
    n_both = min(len(sizes), len(counts))
    n_same = np.count_nonzero(sizes[:n_both] == np.array(counts[:n_both]))
    gap = abs(values[-1] - found[-1])
    agreement = (
        f"{n_same} steps with the same number; at the end {sizes[-1]} and "
        f"{counts[-1]}, GEMINI within {gap:.1e}"
    )
    report(what, theirs, ours, agreement)


ALL = "path step fit wasserstein wasserstein_path mlp growth wide"

if __name__ == "__main__":
    print(f"gemclus {gemclus.__version__}, numpy {np.__version__}")
    warm_up()
    names = sys.argv[1:] or ALL.split()
    for name in names:
        globals()[f"bench_{name}"]()
