"""One thread for every numeric library, and the data that several tests share."""

import os

# Before NumPy or torch is imported: the conformance suite takes seconds with one
# OpenMP thread and a minute with two on busy cores.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("MPLBACKEND", "Agg")

from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
# "3" or "0-9": the tests that draw what they are about take `global_random_seed`, and
# run once for each of these seeds.
SEEDS = os.environ.get("SKDIFFCLUST_TEST_SEEDS", "0")


def pytest_generate_tests(metafunc):
    """Run the tests that draw for every seed asked for; with ``-m long`` for 100."""
    if "global_random_seed" in metafunc.fixturenames:
        is_long = metafunc.config.option.markexpr == "long"
        first, _, last = ("0-99" if is_long else SEEDS).partition("-")
        seeds = range(int(first), int(last or first) + 1)
        marks = [pytest.mark.long] if is_long else []
        metafunc.parametrize(
            "global_random_seed",
            [pytest.param(seed, marks=marks) for seed in seeds],
            scope="session",
        )


@pytest.fixture(scope="session")
def shared_data():
    """Return ``load(name) -> (X, y)``, which skips where the data are absent."""

    def load(name):
        path = ROOT.parent / "shared" / "data" / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"The data set ../shared/data/{name}.npz is not here.")
        with np.load(path, allow_pickle=False) as archive:
            return archive["X"], archive["y"]

    return load
