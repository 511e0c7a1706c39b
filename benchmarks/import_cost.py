"""What does importing the package cost, beside ``import sklearn.cluster``?

Each import runs in fresh processes, the variants in turn, and the median of the CPU
seconds is taken, which other programs on the machine disturb less than the wall clock.
The second row imports all estimators, which the first leaves for when they are used.

    python benchmarks/import_cost.py
"""

import subprocess
import sys
from statistics import median

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


def main():
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


if __name__ == "__main__":
    main()
