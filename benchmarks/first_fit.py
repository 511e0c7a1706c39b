"""How long does a first fit take where nothing is compiled?

Fits ``SpanningForestClustering(10)`` to normal samples, each size in a fresh process
whose cache of numba is empty, and prints the elapsed and the processor seconds of the
fit, imports left out. The last line is ``skdiffclust.warmup()``, which compiles all
kernels, in such a process.

    python benchmarks/first_fit.py
"""

import os
import subprocess
import sys
import tempfile

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


def main():
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


if __name__ == "__main__":
    main()
