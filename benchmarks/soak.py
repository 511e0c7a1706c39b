"""Whether memory stays where it was: many fits, many predictions, many rows.

    python benchmarks/soak.py            # everything, under five minutes
    python benchmarks/soak.py fits rows  # some of it

Each part runs in a process of its own and prints what it measured; a bound that does
not hold ends it with an error.

fits      200 x 5 again and again (2000 times for forests, 200 for what is trained):
          at most 1 KiB a fit by tracemalloc, and no growth of the process that lasts
predict   1000 predictions from 8 threads at once are those of one thread
rows      10^6 x 50 float32 within 1 GiB beyond the input, for ClAM, PRCut and GEMINI
forests   SpanningForestClustering on 10^6 x 3, and on a sorted chain of 2 10^6 rows
threads   4000 rows of groups that overlap, trained with one thread and with two: ARI
          of the labels at least .99
costs     processor time a row at 10^5 rows, of which the guide's table of costs is made
"""

import argparse
import gc
import os
import resource
import subprocess
import sys
import time
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp
import torch
from shared import resident, seconds
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from skdiffclust import (
    GEMINI,
    ClAM,
    DeepClAM,
    GraphCutClustering,
    PRCut,
    SpanningForestClustering,
    SpanningForestEmbedding,
    SparseGEMINI,
)

KIB, GIB = 2**10, 2**30
TRAINED = [
    ClAM(3, n_init=2, max_iter=10, random_state=0),
    GEMINI(3, max_iter=10, random_state=0),
    GraphCutClustering(3, random_state=0),
    PRCut(
        3,
        encoder="linear",
        init="random",
        max_iter=3,
        random_state=0,
    ),
    SparseGEMINI(3, max_iter=10, random_state=0),
    SpanningForestEmbedding(3, max_iter=1, n_perturbations=4, random_state=0),
]


def groups(n_samples, n_features, dtype=np.float64):
    """Return rows (n, d) in three groups."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features), dtype=dtype)
    X[: n_samples // 3, 0] += 8
    X[n_samples // 3 : 2 * n_samples // 3, 1] += 8
    return X


def soak_fits():
    """Fit 200 rows again and again."""
    X = groups(200, 5)
    y = np.arange(200) % 3
    cases = [(SpanningForestClustering(3), 2000)] + [(model, 200) for model in TRAINED]
    for model, n_fits in cases:

        def fit(n_fits, model=model):
            for _ in range(n_fits):
                model.fit(X, y)
            gc.collect()

        fit(n_fits // 2)  # caches fill
        before = resident()
        start = time.perf_counter()
        fit(n_fits)
        elapsed = time.perf_counter() - start
        lasting = resident() - before
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        fit(n_fits)
        grown = (tracemalloc.get_traced_memory()[0] - before) / n_fits
        tracemalloc.stop()
        print(
            f"fits: {type(model).__name__:24} {n_fits:5} fits in {elapsed:5.1f} s: "
            f"{grown:6.0f} bytes a fit by tracemalloc, {lasting / KIB:5.0f} KiB of the "
            "process after all"
        )
        assert grown <= KIB, model
        assert lasting <= KIB * KIB, model  # one copy of X a fit would be 1.6 MiB


def soak_predict():
    """Predict from 8 threads at once."""
    X = groups(200, 5)
    models = [m for m in [SpanningForestClustering(3), *TRAINED] if _predicts(m)]
    for model in models:
        expected = clone(model).fit(X)
        rows = [np.random.default_rng(i).permutation(200) for i in range(1000)]
        start = time.perf_counter()
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda r, m=expected: m.predict(X[r]), rows))
        elapsed = time.perf_counter() - start
        wrong = sum(
            not np.array_equal(labels, expected.labels_[r])
            for labels, r in zip(found, rows, strict=True)
        )
        print(
            f"predict: {type(model).__name__:24} 1000 from 8 threads in "
            f"{elapsed:5.1f} s, {wrong} wrong"
        )
        assert not wrong, model


def _predicts(model):
    """Whether an estimator is a clusterer."""
    return not isinstance(model, SpanningForestEmbedding)


def soak_rows(name):
    """Fit 10^6 x 50 float32; the peak of the process beyond the input."""
    n = 1_000_000
    X = groups(n, 50, np.float32)
    fit_params = {}
    if name == "ClAM":
        model = ClAM(10, max_iter=1, n_init=2, batch_size=8192, random_state=0)
    elif name == "GEMINI":
        model = GEMINI(
            10, model="linear", max_iter=2, n_init=1, batch_size=8192, random_state=0
        )
    else:
        model = PRCut(
            10,
            encoder="linear",
            init="random",
            n_init=1,
            max_iter=2,
            batch_size=8192,
            random_state=0,
        )
        ring = sp.diags_array([1.0, 1.0, 1.0], offsets=[1, 2, 3], shape=(n, n))
        fit_params["graph"] = sp.csr_array(ring + ring.T)
    small = X[:2000]
    parameters = dict(fit_params)
    if parameters:
        parameters["graph"] = parameters["graph"][:2000][:, :2000]
    clone(model).fit(small, **parameters)  # what is loaded and compiled
    gc.collect()
    before = resident()
    start = time.perf_counter()
    model.fit(X, **fit_params)
    elapsed = time.perf_counter() - start
    beyond = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB - before
    given = X.nbytes / GIB
    print(
        f"rows: {name:8} 1000000 x 50 float32 ({given:.2f} GiB) in {elapsed:5.1f} s: "
        f"{beyond / GIB:5.2f} GiB beyond the input at its peak"
    )
    assert beyond <= GIB, name


def soak_forests():
    """Cluster 10^6 x 3, and a sorted chain."""
    chain = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 2_000_000))[:, None]
    for what, X in (("10^6 x 3", groups(1_000_000, 3)), ("sorted chain", chain)):
        SpanningForestClustering(3).fit(X[:4000])
        before, start = resident(), time.perf_counter()
        model = SpanningForestClustering(3).fit(X)
        elapsed = time.perf_counter() - start
        beyond = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB - before
        print(
            f"forests: {what:12} in {elapsed:5.1f} s, {beyond / GIB:.2f} GiB beyond "
            f"the input, clusters of {np.bincount(model.labels_).tolist()}"
        )


def soak_threads():
    """Train with one thread and with two."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=4000)
    X = rng.normal(size=(10, 20))[y] * 0.7 + rng.normal(size=(4000, 20))
    partial = np.where(rng.random(4000) < 0.1, y, -1)
    models = [
        ClAM(10, random_state=0),
        DeepClAM(10, max_iter=10, random_state=0),
        GEMINI(10, model="mlp", n_init=1, max_iter=20, batch_size=2000, random_state=0),
        PRCut(10, encoder="mlp", n_init=1, max_iter=10, random_state=0),
        SparseGEMINI(10, max_iter=20, batch_size=2000, random_state=0),
        SpanningForestEmbedding(10, max_iter=2, n_perturbations=10, random_state=0),
    ]
    for model in models:
        found, start = [], time.perf_counter()
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            with threadpool_limits(n_threads):
                fitted = clone(model).fit(X, partial)
                found.append(_labels(fitted, X))
        score = adjusted_rand_score(*found)
        print(
            f"threads: {type(model).__name__:24} ARI {score:.4f} between one thread "
            f"and two, {np.mean(found[0] == found[1]):.2%} of labels equal, both in "
            f"{time.perf_counter() - start:.1f} s; ARI "
            f"{adjusted_rand_score(y, found[0]):.2f} to the groups"
        )
        assert score >= 0.99, model


def soak_costs():
    """Measure what a row costs: once, in an epoch, and in a prediction."""
    n = 100_000
    X = groups(n, 50, np.float32)
    ring = sp.diags_array([1.0, 1.0, 1.0], offsets=[1, 2, 3], shape=(n, n))
    trained = {"batch_size": 8192, "n_init": 1, "random_state": 0}
    endless = {"tol": 0, "n_iter_no_change": 10**6}
    start = {"encoder": "linear", "init": "random"}
    graph = {"graph": sp.csr_array(ring + ring.T)}
    for model, given in (
        (ClAM(10, **trained, **endless), {}),
        (GEMINI(10, learning_rate=1e-5, tol=0, **trained), {}),
        (PRCut(10, **trained, **start), graph),
    ):
        print_costs(model, n, **costs_of(model, X, given))
    Y = groups(n, 3)
    tree = SpanningForestClustering(3).fit(Y[:4000])
    fitted, _ = seconds(tree.fit, Y)
    predicted, _ = seconds(tree.predict, Y)
    print_costs(tree, n, fit=fitted, predict=predicted)


def costs_of(model, X, given):
    """Return seconds of processor time: once, for an epoch, for a prediction."""
    model.set_params(max_iter=1).fit(X, **given)  # what is loaded and compiled
    few, _ = seconds(model.set_params(max_iter=2).fit, X, **given)
    many, _ = seconds(model.set_params(max_iter=42).fit, X, **given)
    epoch = (many - few) / 40
    predicted, _ = seconds(model.predict, X)
    return {"once": few - 2 * epoch, "epoch": epoch, "predict": predicted}


def print_costs(model, n, **spent):
    """Print microseconds a row."""
    costs = ", ".join(f"{what} {s / n * 1e6:.2f}" for what, s in spent.items())
    name = type(model).__name__
    print(f"costs: {name:24} microseconds a row: {costs}", flush=True)


def _labels(fitted, X):
    """Return the labels of rows, by the nearest of a few for an embedding."""
    if _predicts(fitted):
        return fitted.labels_
    Z = fitted.transform(X)
    return SpanningForestClustering(10, min_cluster_size=20).fit(Z[:2000]).predict(Z)


PARTS = {
    "fits": soak_fits,
    "predict": soak_predict,
    "rows-ClAM": lambda: soak_rows("ClAM"),
    "rows-PRCut": lambda: soak_rows("PRCut"),
    "rows-GEMINI": lambda: soak_rows("GEMINI"),
    "forests": soak_forests,
    "threads": soak_threads,
    "costs": soak_costs,
}


def main():
    """Run the parts, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="fits, predict, rows, ...")
    parser.add_argument("--only", choices=PARTS, help="run one part in this process")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.only:
        PARTS[options.only]()
        return
    start = time.perf_counter()
    for part in PARTS:
        if not options.parts or part.split("-")[0] in options.parts:
            command = [sys.executable, "-u", __file__, "--only", part]
            subprocess.run(command, check=True, env=dict(os.environ))
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"all in {time.perf_counter() - start:.0f} s, "
        f"{children.ru_utime + children.ru_stime:.0f} s of processor time"
    )


if __name__ == "__main__":
    main()
