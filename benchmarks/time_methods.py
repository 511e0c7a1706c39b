"""Processor seconds of a fit with default parameters, for each method and size.

    OMP_NUM_THREADS=1 python benchmarks/time_methods.py [--sizes 1000 10000] [NAME ...]

The samples are five Gaussian blobs in ten dimensions, which is easy data: training ends
early. Seconds are of the processor, which other work on the machine changes least. A
small fit goes before, so that imports are not timed. The adjusted Rand index says that
the fit found the blobs. `KMeans(n_init=10)` of scikit-learn is beside them.
"""

import argparse
import time
import warnings

import numpy as np
import sklearn
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GEMINI, ClAM, PRCut, SpanningForestClustering

METHODS = {
    "KMeans": lambda: KMeans(5, n_init=10, random_state=0),
    "SpanningForestClustering": lambda: SpanningForestClustering(5, n_jobs=1),
    "ClAM": lambda: ClAM(5, random_state=0),
    "PRCut": lambda: PRCut(5, random_state=0),
    "GEMINI": lambda: GEMINI(5, random_state=0),
}


def measure(name, n):
    """Return processor seconds of a fit to n samples, and its adjusted Rand index."""
    X, y = make_blobs(n, n_features=10, centers=5, cluster_std=2.0, random_state=0)
    start = time.process_time()
    labels = METHODS[name]().fit_predict(X)
    return time.process_time() - start, adjusted_rand_score(y, labels)


def main():
    """Print a line for each method and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(METHODS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000])
    arguments = parser.parse_args()
    print(f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}")
    warnings.simplefilter("ignore")
    for name in arguments.names:
        measure(name, 300)
        for n in arguments.sizes:
            seconds, ari = measure(name, n)
            print(f"{name:26s} n = {n:7d}: {seconds:8.2f} s, ARI {ari:.3f}", flush=True)


if __name__ == "__main__":
    main()
