"""How long does a first fit take where nothing is compiled?

Fits ``SpanningForestClustering(10)`` on normal samples, each size in a fresh process
whose cache of numba is empty, and prints the elapsed and the processor seconds of the
fit. Those of imports are not in them. With ``--second`` each process fits once more, in
the state that the first fit left.

    python benchmarks/first_fit.py
"""

import argparse
import os
import subprocess
import sys
import tempfile

SIZES = ((3000, 2), (5000, 2), (50_000, 2), (500_000, 2), (50_000, 10))

CODE = """
import sys
from time import perf_counter, process_time

import numpy as np

from skdiffclust import SpanningForestClustering

n_samples, n_features, n_fits = map(int, sys.argv[1:])
X = np.random.default_rng(0).standard_normal((n_samples, n_features))
for _ in range(n_fits):
    elapsed, processor = perf_counter(), process_time()
    SpanningForestClustering(10).fit(X)
    print(f"{perf_counter() - elapsed:.1f} {process_time() - processor:.1f}", end=" ")
"""


def main():
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--second", action="store_true", help="fit twice")
    n_fits = 2 if parser.parse_args().second else 1
    print("samples x features: elapsed and processor seconds of each fit")
    for n_samples, n_features in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(
                [
                    sys.executable,
                    "-c",
                    CODE,
                    *map(str, (n_samples, n_features, n_fits)),
                ],
                env=os.environ | {"NUMBA_CACHE_DIR": folder},
                capture_output=True,
                text=True,
                check=True,
            )
        print(f"{n_samples} x {n_features}: {run.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
