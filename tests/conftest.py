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
