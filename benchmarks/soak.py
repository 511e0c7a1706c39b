"""Whether memory stays where it was: many fits, many predictions, many samples.

    python benchmarks/soak.py            # everything, under five minutes
    python benchmarks/soak.py fits rows  # some of it

Each part runs in a process of its own and prints what it measured. A bound that does
not hold ends the part, and the exit status is 1.

fits     200 x 5 again and again (2000 times for forests, 200 for what is trained):
         at most 1 KiB a fit by tracemalloc, and no growth of the process that lasts
predict  1000 predictions from 8 threads at once are those of one thread
rows     10^6 x 50 float32 within 1 GiB beyond the input, for ClAM, PRCut and GEMINI
forests  SpanningForestClustering on 10^6 x 3, and on a sorted chain of 2 10^6 samples
threads  4000 samples of groups that overlap, trained with one thread and with two: ARI
         of the labels at least .99
"""

import argparse
import gc
import subprocess
import sys
import time
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp
import torch
from shared import peak_memory, resident
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

KIB, MIB, GIB = 2**10, 2**20, 2**30
UNTRAINED_ENCODER = {"encoder": "linear", "init": "random"}
CLUSTERERS = [
    SpanningForestClustering(3),
    ClAM(3, n_init=2, max_iter=10, random_state=0),
    GEMINI(3, max_iter=10, random_state=0),
    GraphCutClustering(3, random_state=0),
    PRCut(3, max_iter=3, random_state=0, **UNTRAINED_ENCODER),
    SparseGEMINI(3, max_iter=10, random_state=0),
]
EMBEDDING = SpanningForestEmbedding(3, max_iter=1, n_perturbations=4, random_state=0)


def groups(n_samples, n_features, dtype=np.float64):
    """Return samples (n, d) in three groups."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features), dtype=dtype)
    X[: n_samples // 3, 0] += 8
    X[n_samples // 3 : 2 * n_samples // 3, 1] += 8
    return X


def ring(n):
    """Return a graph (n, n) in which each sample has six neighbours."""
    half = sp.diags_array([1.0, 1.0, 1.0], offsets=[1, 2, 3], shape=(n, n))
    return sp.csr_array(half + half.T)


def soak_fits():
    """Fit 200 samples again and again."""
    X = groups(200, 5)
    y = np.arange(200) % 3
    for model in [*CLUSTERERS, EMBEDDING]:
        n_fits = 2000 if model is CLUSTERERS[0] else 200

        def fit(n_fits, model=model):
            for _ in range(n_fits):
                model.fit(X, y)
            gc.collect()

        fit(n_fits // 2)  # caches fill
        before = resident()
        fit(n_fits)
        lasting = resident() - before
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        fit(n_fits)
        grown = (tracemalloc.get_traced_memory()[0] - before) / n_fits
        tracemalloc.stop()
        print(
            f"fits: {type(model).__name__:24} {n_fits:5} fits: {grown:6.0f} bytes a "
            f"fit by tracemalloc, {lasting / KIB:5.0f} KiB of the process after all"
        )
        assert grown <= KIB, model
        assert lasting <= MIB, model  # one copy of X a fit would be 1.6 MiB


def soak_predict():
    """Predict from 8 threads at once."""
    X = groups(200, 5)
    rows = [np.random.default_rng(i).permutation(200) for i in range(1000)]
    for model in CLUSTERERS:
        model = clone(model).fit(X)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda r, m=model: m.predict(X[r]), rows))
        wrong = sum(
            not np.array_equal(labels, model.labels_[r])
            for labels, r in zip(found, rows, strict=True)
        )
        print(f"predict: {type(model).__name__:24} 1000 from 8 threads, {wrong} wrong")
        assert not wrong, model


def beyond_the_input(what, model, X, small, given=None, given_small=None):
    """Fit, and print and return the peak of the process beyond the input."""
    clone(model).fit(small, **given_small or {})  # what is loaded and compiled
    gc.collect()
    before, start = resident(), time.perf_counter()
    model.fit(X, **given or {})
    elapsed = time.perf_counter() - start
    beyond = peak_memory() - before
    print(
        f"{what}: {X.shape[0]} x {X.shape[1]} ({X.nbytes / GIB:.2f} GiB) in "
        f"{elapsed:5.1f} s, {beyond / GIB:.2f} GiB beyond the input at its peak"
    )
    return beyond


def soak_rows(name):
    """Fit 10^6 x 50 float32."""
    common = {"batch_size": 8192, "random_state": 0}
    model = {
        "ClAM": ClAM(10, max_iter=1, n_init=2, **common),
        "GEMINI": GEMINI(10, model="linear", max_iter=2, n_init=1, **common),
        "PRCut": PRCut(10, n_init=1, max_iter=2, **common, **UNTRAINED_ENCODER),
    }[name]
    X = groups(1_000_000, 50, np.float32)
    given = {"precomputed": ring(len(X))}, {"precomputed": ring(2000)}
    graphs = given if name == "PRCut" else (None, None)
    assert beyond_the_input(f"rows, {name}", model, X, X[:2000], *graphs) <= GIB


def soak_forests():
    """Cluster 10^6 x 3, and a sorted chain."""
    chain = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 2_000_000))[:, None]
    for X in (groups(1_000_000, 3), chain):
        beyond_the_input("forest", SpanningForestClustering(3), X, X[:4000])


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
        found = []
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            with threadpool_limits(n_threads):
                fitted = clone(model).fit(X, partial)
                if isinstance(fitted, SpanningForestEmbedding):
                    forest = SpanningForestClustering(10, min_cluster_size=20)
                    found.append(forest.fit_predict(fitted.transform(X[:2000])))
                else:
                    found.append(fitted.labels_)
        score = adjusted_rand_score(*found)
        print(
            f"threads: {type(model).__name__:24} ARI {score:.4f} between one thread "
            f"and two, {np.mean(found[0] == found[1]):.2%} of labels equal"
        )
        assert score >= 0.99, model


PARTS = {
    "fits": soak_fits,
    "predict": soak_predict,
    "rows-ClAM": lambda: soak_rows("ClAM"),
    "rows-PRCut": lambda: soak_rows("PRCut"),
    "rows-GEMINI": lambda: soak_rows("GEMINI"),
    "forests": soak_forests,
    "threads": soak_threads,
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
    failed = False
    for part in PARTS:
        if not options.parts or part.split("-")[0] in options.parts:
            command = [sys.executable, "-u", __file__, "--only", part]
            failed |= subprocess.run(command, check=False).returncode != 0
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
