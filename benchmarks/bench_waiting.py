"""How long does one wait for small data, an empty cache, a comparison?

    python benchmarks/bench_waiting.py compare
    python benchmarks/bench_waiting.py checks
    python benchmarks/bench_waiting.py cold
    python benchmarks/bench_waiting.py first

All figures are seconds of the processor, of one thread.

compare  ``compare_clusterers(X)`` of 246 samples of five normal clusters in five
      dimensions whose means are 3 standard deviations apart, after one fit of each.
checks  ``check_estimator`` of the clusterers and the embedding: seconds and fits of
      each class, all together, and the checks that take longest. Kernels are compiled
      before; a check that fails is named.
cold  the first fit of each class in a process whose numba cache is empty.
first  the import of scikit-learn, and what the import of this package and a first fit
      of 1000 samples with a warm cache add to it, each in a process of its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from functools import wraps

import numpy as np
from sklearn.exceptions import ConvergenceWarning, EstimatorCheckFailedWarning
from sklearn.utils.estimator_checks import check_estimator

CLASSES = (
    "SpanningForestClustering GEMINI GraphCutClustering ClAM SparseGEMINI "
    "SpanningForestEmbedding PRCut SparseGEMINICV DeepClAM"
).split()
# Name, class, parameters, samples and features of first fits.
FIRST_FITS = (
    ("SpanningForestClustering", "2", 50_000, 3),
    ("SpanningForestClustering", "2", 5000, 10),
    ("SpanningForestClustering", "'auto'", 1000, 5),
    ("SpanningForestEmbedding", "max_iter=2", 1000, 10),
    ("ClAM", "3", 1000, 5),
    ("DeepClAM", "3, max_iter=2", 1000, 5),
    ("GraphCutClustering", "3", 1000, 5),
    ("PRCut", "3, max_iter=2", 1000, 5),
    ("GEMINI", "3", 1000, 5),
    ("SparseGEMINI", "3", 1000, 5),
)
_FIT = """
import time, warnings
warnings.simplefilter("ignore")
import numpy as np
import sklearn.base, sklearn.neighbors
begin = time.process_time()
import skdiffclust
X = np.random.default_rng(0).normal(size=({n}, {d}))
y = np.arange({n}) % 3
model = skdiffclust.{name}({parameters}, random_state=0).fit(X, y)
print(time.process_time() - begin)
"""
_IMPORT = """
import time
begin = time.process_time()
import sklearn.base, sklearn.neighbors
print(time.process_time() - begin)
"""


def seconds_of(code, cache=None):
    """Return what a script prints, run in another folder with a cache of numba."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [os.path.abspath(folder) for folder in folders if folder]
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    with tempfile.TemporaryDirectory() as folder:
        found = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    return float(found.stdout)


def compare():
    """Print the comparison of the clusterers and what it takes."""
    from skdiffclust.model_selection import compare_clusterers

    rng = np.random.RandomState(0)
    means = 3 / np.sqrt(2) * np.eye(5)
    X = np.repeat(means, [50, 49, 49, 49, 49], axis=0) + rng.normal(size=(246, 5))
    # Kernels are compiled, or loaded, before the clock starts.
    compare_clusterers(X[::4], n_resamples=1, random_state=0)
    begin = time.process_time()
    found = compare_clusterers(X, random_state=0)
    print(f"{time.process_time() - begin:.1f} s")
    print(found)


def checks(names):
    """Print seconds and fits of `check_estimator` by class and the slowest checks."""
    import skdiffclust

    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", EstimatorCheckFailedWarning)
    total = 0.0
    for name in names:
        cls = getattr(skdiffclust, name)
        fits = Counter()

        @wraps(cls.fit)  # checks read its signature
        def counted(self, *args, _fit=cls.fit, _fits=fits, **kwargs):
            _fits["fits"] += 1
            return _fit(self, *args, **kwargs)

        original, cls.fit = cls.fit, counted
        spent = {}
        last = time.process_time()

        def note(*, check_name, status, _spent=spent, **_):
            nonlocal last
            now = time.process_time()
            _spent[check_name] = _spent.get(check_name, 0.0) + now - last
            last = now
            if status == "failed":
                print(f"  {check_name} failed")

        try:
            check_estimator(cls(), on_fail="warn", callback=note)
        finally:
            cls.fit = original
        seconds = sum(spent.values())
        total += seconds
        slowest = sorted(spent, key=spent.get)[:-4:-1]
        listed = ", ".join(f"{check} {spent[check]:.1f}" for check in slowest)
        print(f"{name}: {seconds:.1f} s, {fits['fits']} fits ({listed})", flush=True)
    print(f"together {total:.1f} s")


def cold():
    """Print the seconds of the first fits, with an empty cache of numba and again."""
    for name, parameters, n, d in FIRST_FITS:
        code = _FIT.format(name=name, parameters=parameters, n=n, d=d)
        with tempfile.TemporaryDirectory() as cache:
            empty, warm = (seconds_of(code, cache) for _ in range(2))
        print(f"{name}({parameters}) {n} × {d}: {empty:.1f} s, then {warm:.2f} s")


def first():
    """Print the seconds of an import, and those that a fit from a warm cache adds."""
    found = [seconds_of(_IMPORT) for _ in range(4)]
    print(f"import sklearn: {min(found):.2f} s")
    for name, parameters, n, d in FIRST_FITS:
        if n > 1000:
            continue
        code = _FIT.format(name=name, parameters=parameters, n=n, d=d)
        found = [seconds_of(code) for _ in range(4)][1:]
        print(f"{name}({parameters}): import and fit {min(found):.2f} s more")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("compare", "checks", "cold", "first"))
    parser.add_argument("names", nargs="*", default=CLASSES, help="classes to check")
    given = parser.parse_args()
    arguments = [given.names] if given.what == "checks" else []
    globals()[given.what](*arguments)
