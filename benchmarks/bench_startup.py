"""What do imports, first fits and default fits cost?

    python benchmarks/bench_startup.py imports
    OMP_NUM_THREADS=1 python benchmarks/bench_startup.py first
    OMP_NUM_THREADS=1 python benchmarks/bench_startup.py methods [--sizes 1000 10000]

imports  processor seconds beside ``import sklearn.cluster``, each in fresh processes,
         in turn. The last row imports all estimators, which ``import skdiffclust``
         leaves for when they are used.
first    ``SpanningForestClustering(10)`` fitted to normal samples, each size in a fresh
         process whose cache of numba is empty: elapsed and processor seconds without
         imports, and last of ``skdiffclust.warmup()``, which compiles all kernels.
methods  processor seconds of a fit with default parameters, for each method and size,
         on five blobs in ten dimensions, which is easy data: training ends early. A
         small fit goes before. ``KMeans(n_init=10)`` of scikit-learn is beside them.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from statistics import median

from shared import seconds, versions
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GEMINI, ClAM, GraphCutClustering, SpanningForestClustering

N_RUNS = 7


VARIANTS = {
    "import sklearn.cluster": "import sklearn.cluster",
    "import skdiffclust": "import skdiffclust",
    "from skdiffclust import *": "from skdiffclust import *",
}


MEASURE = """
import sys, time
start = time.process_time()
{code}
print(time.process_time() - start)
print(sorted({{"torch", "numba", "matplotlib", "ot"}} & set(sys.modules)))
"""


def imports():
    """Print CPU seconds, ratios, and what was loaded that should not be."""
    seconds = {name: [] for name in VARIANTS}
    loaded = {}
    # The first round fills the caches of the disk and of bytecode, and is not counted.
    for run in range(N_RUNS + 1):
        for name, code in VARIANTS.items():
            command = [sys.executable, "-c", MEASURE.format(code=code)]
            out = subprocess.run(command, capture_output=True, text=True, check=True)
            time, loaded[name] = out.stdout.splitlines()
            if run:
                seconds[name].append(float(time))
    reference = median(seconds["import sklearn.cluster"])
    for name, times in seconds.items():
        print(
            f"{name:26s} {median(times):.3f} s  {median(times) / reference:.3f} x  "
            f"heavy modules: {loaded[name]}"
        )


SIZES = ((3000, 2), (5000, 2), (50_000, 2), (500_000, 2), (50_000, 10))


WHAT = {
    f"{n_samples} x {n_features}": (
        f"X = np.random.default_rng(0).standard_normal(({n_samples}, {n_features}))",
        "SpanningForestClustering(10).fit(X)",
    )
    for n_samples, n_features in SIZES
} | {"warmup()": ("from skdiffclust import warmup", "warmup()")}


CODE = """
from time import perf_counter, process_time
import numpy as np
from skdiffclust import SpanningForestClustering
{}
elapsed, processor = perf_counter(), process_time()
{}
print(f"{{perf_counter() - elapsed:8.1f}} {{process_time() - processor:10.1f}}")
"""


def first():
    """Print a line for each size."""
    print("samples x features   elapsed  processor")
    for name, lines in WHAT.items():
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(
                [sys.executable, "-c", CODE.format(*lines)],
                env=os.environ | {"NUMBA_CACHE_DIR": folder},
                capture_output=True,
                text=True,
                check=True,
            )
        print(f"{name:19s}{run.stdout.rstrip()}", flush=True)


METHODS = {
    "KMeans": lambda: KMeans(5, n_init=10, random_state=0),
    "SpanningForestClustering": lambda: SpanningForestClustering(5, n_jobs=1),
    "ClAM": lambda: ClAM(5, random_state=0),
    "GraphCutClustering": lambda: GraphCutClustering(5, random_state=0),
    "GEMINI": lambda: GEMINI(5, random_state=0),
}


def fitted(name, n_samples):
    """Return processor seconds of a fit, and its adjusted Rand index."""
    X, y = make_blobs(
        n_samples, n_features=10, centers=5, cluster_std=2.0, random_state=0
    )
    spent, labels = seconds(METHODS[name]().fit_predict, X)
    return spent, adjusted_rand_score(y, labels)


def methods(sizes):
    """Print a line for each method and size."""
    print(versions("scikit-learn", "numpy"))
    warnings.simplefilter("ignore")
    for name in METHODS:
        fitted(name, 300)
        for n in sizes:
            spent, ari = fitted(name, n)
            print(f"{name:26s} n = {n:7d}: {spent:8.2f} s, ARI {ari:.3f}", flush=True)


def main():
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["imports", "first", "methods"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000])
    options = parser.parse_args()
    if options.part == "methods":
        methods(options.sizes)
    else:
        {"imports": imports, "first": first}[options.part]()


if __name__ == "__main__":
    main()
