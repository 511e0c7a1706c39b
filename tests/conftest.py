"""One thread for every numeric library, and the data that several tests share."""

import os
import re
import sys
from importlib.util import find_spec
from types import ModuleType

# Before NumPy or torch is imported: the conformance suite takes seconds with one
# OpenMP thread and a minute with two on busy cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import pytest
from data_sets import load_data

# "3" or "0-9": tests of random samples take `global_random_seed`, and run once for each
# of these seeds.
SEEDS = os.environ.get("SKDIFFCLUST_TEST_SEEDS", "0")
FEW_EPOCHS = pytest.mark.filterwarnings(
    r"ignore:\w+ did not converge:sklearn.exceptions.ConvergenceWarning"
)
HAS_TORCH = find_spec("torch") is not None
IMPORTS_TORCH = re.compile(r"^(import|from) (torch|skdiffclust\.nn)\b", re.MULTILINE)


def pytest_configure(config):
    """Hide GPUs from all tests but those with the marker, which compare both."""
    if not re.search(r"(?<!not )\bgpu\b", config.option.markexpr):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_ignore_collect(collection_path):
    """Where torch is missing, pass over the files that import it at the top."""
    if HAS_TORCH or collection_path.suffix != ".py":
        return None
    return bool(IMPORTS_TORCH.search(collection_path.read_text("utf-8"))) or None


NO_STRUCTURE = (
    "ignore:SparseGEMINICV sees no more structure:sklearn.exceptions.ConvergenceWarning"
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the tests that need torch; where it is missing, deselect them.

    Those that train few epochs by choice may not have converged, and say so by a mark.
    Samples of tests that are not about structure are often noise.
    """
    for item in items:
        if "structure" not in item.name:
            item.add_marker(pytest.mark.filterwarnings(NO_STRUCTURE))
        if item.get_closest_marker("few_epochs"):
            item.add_marker(FEW_EPOCHS)
        parameters = getattr(item, "callspec", None)
        values = parameters.params.values() if parameters is not None else ()
        if isinstance(getattr(item.module, "torch", None), ModuleType) or any(
            map(trains_in_torch, values)
        ):
            item.add_marker(pytest.mark.torch)
    array_api = os.environ.get("SCIPY_ARRAY_API") == "1"
    dropped = [
        item
        for item in items
        if (item.get_closest_marker("torch") and not HAS_TORCH)
        # scikit-learn's check of array API input skips itself without the variable.
        or ("check_array_api_input" in item.name and not array_api)
    ]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        kept = set(items) - set(dropped)
        items[:] = [item for item in items if item in kept]


def trains_in_torch(value):
    """Whether a parameter of a test is an estimator that needs torch, or its name."""
    name = value if isinstance(value, str) else type(value).__name__
    return name == "DeepClAM"


def pytest_generate_tests(metafunc):
    """Run the tests that draw for every seed asked for; with ``-m long`` for 100.

    Those marked ``instances(n)`` are parametrized by `seed`: 20 by default, the rest of
    the n by ``-m long``.
    """
    marker = metafunc.definition.get_closest_marker("instances")
    if marker is not None:
        seeds = [
            pytest.param(seed, marks=[pytest.mark.long] if seed >= 20 else [])
            for seed in range(*marker.args)
        ]
        metafunc.parametrize("seed", seeds)
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


@pytest.fixture(autouse=True)
def global_streams():
    """Seed the global generators, so that no test depends on those that ran before.

    A torch module draws its first weights from one of them.
    """
    seed = int(SEEDS.partition("-")[0])
    np.random.seed(seed)  # noqa: NPY002
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@pytest.fixture(scope="session")
def shared_data():
    """Return ``load(name) -> (X, y)``, which skips by name where the data are not."""

    def load(name):
        try:
            return load_data(name)
        except FileNotFoundError as error:
            pytest.skip(str(error))

    return load
