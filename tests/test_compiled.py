"""Kernels compile with a cache where there can be one, and without where not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

from skdiffclust._compiled import compiled, is_ready

ROOT = Path(__file__).resolve().parents[1]


def test_a_kernel_is_cached_and_takes_options():
    @compiled(nogil=True)
    def total(values):
        result = 0.0
        for value in values:
            result += value
        return result

    assert total(np.arange(4.0)) == 6.0
    assert total.targetoptions["nogil"]
    assert total.stats.cache_path


def test_control_c_waits_for_the_compilation(monkeypatch):
    # Half a compilation ends the process when the kernel is called again.
    compile_kernel, finished = CPUDispatcher.compile, []

    def pressed(kernel, signature):
        signal.raise_signal(signal.SIGINT)
        finished.append(compile_kernel(kernel, signature))
        return finished[-1]

    @compiled()
    def twice(value):
        return 2 * value

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(CPUDispatcher, "compile", pressed)
        with pytest.raises(KeyboardInterrupt):
            twice(3)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
    monkeypatch.undo()
    assert len(finished) == 1
    assert twice(3) == 6


def test_other_errors_are_not_swallowed():
    with pytest.raises(TypeError, match="not"):
        compiled()(3)


WITHOUT_PRIVATE_NAMES = """
import sys
import numba
from numba.core import registry
dispatcher = registry.CPUDispatcher
if sys.argv[1] == "no name":
    del registry.CPUDispatcher
else:
    registry.CPUDispatcher = type("Other", (), {})

import numpy as np
from skdiffclust import ClAM, SpanningForestClustering
from skdiffclust._compiled import compiled, is_ready
X = np.random.RandomState(0).normal(size=(90, 2))
X[::2] += 9
print(SpanningForestClustering(2).fit(X, must_link=[[0, 2]]).labels_[:4].tolist())
print(ClAM(2, max_iter=2, random_state=0).fit(X).labels_[:4].tolist())

@compiled(nogil=True)
def twice(value):
    return 2 * value

print(type(twice) is dispatcher, twice(3), twice.targetoptions["nogil"])
print(is_ready(twice))
"""


@pytest.mark.full
@pytest.mark.parametrize("what", ["no name", "other arguments"])
def test_kernels_compile_plainly_without_private_names_of_numba(what):
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_PRIVATE_NAMES, what],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    labels = "[0, 1, 0, 1]\n"
    assert (run.stdout, run.stderr) == (f"{labels}{labels}True 6 True\nTrue\n", "")


def test_a_kernel_is_not_ready_if_numba_does_not_tell():
    for private in ({}, {"_cache": None}, {"_cache": object()}):
        assert not is_ready(type("Kernel", (), {"signatures": []} | private)())


@pytest.mark.full
def test_nowhere_to_write_a_cache():
    code = """
import numpy as np
from numba.core import caching

class Nowhere:
    @classmethod
    def from_function(cls, function, path):
        return None

for cache in (caching.CompileResultCacheImpl, caching.CodeLibraryCacheImpl):
    cache._locator_classes = [Nowhere]

from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages
import skdiffclust

# Kernels that could not be compiled would raise when their module is imported.
missing = tuple(
    end
    for end, package in (("torch", "torch"), (".nn", "torch"), ("triton", "triton"))
    if not find_spec(package)
)
for module in walk_packages(skdiffclust.__path__, "skdiffclust."):
    if not module.name.endswith(missing):
        import_module(module.name)

import numpy as np
from skdiffclust.forests._trees._union_find import find
print(find(np.arange(4), 3))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert (run.stdout, run.stderr) == ("3\n", "")
