"""The tree by blocks, against the tree at once."""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError

from skdiffclust.forests import (
    _blocks,
    minimum_spanning_tree,
    minimum_spanning_tree_by_blocks,
)
from skdiffclust.forests._blocks import _block, _readable
from skdiffclust.forests._trees import _cells
from skdiffclust.forests._trees._prim import prim_on_points


def rows_of(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(int(rng.integers(1, 300)), int(rng.integers(1, 12))))
    if seed % 3 == 1:
        X = np.round(X[:, :3])
    return X + 1e6 * (seed % 2)


def assert_same_tree(X, in_memory=None, **options):
    tree = minimum_spanning_tree_by_blocks(X, **options)
    expected = minimum_spanning_tree(X if in_memory is None else in_memory)
    assert np.array_equal(tree.edges, expected.edges)
    assert np.array_equal(tree.lengths, expected.lengths)


@pytest.mark.instances(40)
def test_any_number_of_blocks(seed, global_random_seed):
    seed += 1000 * global_random_seed
    assert_same_tree(rows_of(seed), n_blocks=1 + seed % 9)


@pytest.mark.parametrize("n_samples", [1, 2, 3, 5])
@pytest.mark.parametrize("n_blocks", [None, 1, 2, 3, 5, 9])
def test_blocks_of_few_samples(n_samples, n_blocks):
    for X in (np.arange(2.0 * n_samples).reshape(-1, 2), np.ones((n_samples, 2))):
        assert_same_tree(X, n_blocks=n_blocks)


@pytest.mark.parametrize("n_samples", [160, 161, 321])
def test_blocks_with_different_numbers_of_leaves(n_samples, global_random_seed):
    # The tree of 81 samples has two leaves, that of 80 has one.
    rng = np.random.default_rng(global_random_seed)
    assert_same_tree(rng.normal(size=(n_samples, 3)), n_blocks=n_samples // 40)
    assert_same_tree(rng.integers(0, 5, (n_samples, 4)) * 1.0, n_blocks=2)
    assert_same_tree(rng.normal(size=(500, 3)), n_blocks=12)


@pytest.mark.parametrize(
    "backend",
    [pytest.param("loky", marks=pytest.mark.full), "threading", "dask", "ray"],
)
def test_backends_of_joblib(backend, tmp_path):
    if backend == "dask":
        pytest.importorskip("distributed", reason="dask.distributed is not installed.")
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=2, processes=False, dashboard_address=None) as at,
            Client(at),
            joblib.parallel_config("dask"),
        ):
            return assert_same_tree(rows_of(3), n_blocks=3)
    if backend == "ray":
        pytest.importorskip("ray", reason="ray is not installed.")
        from ray.util.joblib import register_ray

        register_ray()
    X = np.random.default_rng(1).normal(size=(400, 4))
    np.save(tmp_path / "X.npy", X)
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    with joblib.parallel_config(backend, n_jobs=2):
        assert_same_tree(X, n_blocks=4, n_jobs=2)
    return None


def file_of(samples):
    return str(samples.filename), samples.shape


@pytest.mark.full
def test_a_task_of_joblib_reads_a_file_itself(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((90, 3)))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    block = _block(_readable(X[40:]), 20, 40)
    with joblib.Parallel(2, backend="loky") as parallel:
        (found,) = parallel([joblib.delayed(file_of)(block.samples)])
    assert found == (str(tmp_path / "X.npy"), (20, 3))


def test_blocks_of_a_file(tmp_path, global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(90, 3))
    np.save(tmp_path / "X.npy", np.vstack([X, X[:30]]).astype(np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert_same_tree(X[10:], n_blocks=3)
    assert_same_tree(X[::2], n_blocks=3)
    assert_same_tree(np.asfortranarray(X[:, :2]), n_blocks=2)


def test_chunks_of_dask(global_random_seed):
    da = pytest.importorskip("dask.array", reason="dask is not installed.")
    X = np.random.default_rng(global_random_seed).normal(size=(200, 3)).round(1)
    chunks = da.from_array(X, chunks=(33, 3))
    assert len(pickle.dumps(_block(chunks, 5, 30))) < X.nbytes / 2
    assert_same_tree(chunks, X, n_blocks=4)
    with pytest.raises(ValueError, match="contains NaN"):
        minimum_spanning_tree_by_blocks(chunks * np.nan)
    with pytest.raises(ValueError, match="must be real and two-dimensional"):
        minimum_spanning_tree_by_blocks(chunks[chunks[:, 0] > 0])


def test_too_many_rows():
    X = Parts(np.ones((3, 2)), lambda _: None)
    X.shape = (2**30 + 1, 2)
    with pytest.raises(ValueError, match="must have at most 1073741824 samples"):
        minimum_spanning_tree_by_blocks(X)


def test_bad_rows():
    with pytest.raises(ValueError, match="contains NaN"):
        minimum_spanning_tree_by_blocks([[np.nan], [1.0]])
    with pytest.raises(ValueError, match="distances overflow"):
        minimum_spanning_tree_by_blocks([[1e300], [-1e300]])
    with pytest.raises(ValueError, match="squared distances underflow"):
        minimum_spanning_tree_by_blocks([[1e-200], [2e-200], [4e-200]], n_blocks=3)


class Parts:
    """An array that is read in parts, as of zarr, and calls a function before each."""

    chunks = (100, 3)
    ndim = 2

    def __init__(self, X, before):
        self.X = X
        self.before = before
        self.shape = X.shape
        self.dtype = X.dtype
        self.n_parts = 0

    def __getitem__(self, key):
        self.n_parts += 1
        self.before(self.n_parts)
        return self.X[key]


def horseshoe(n, rng):
    """Points on a curve whose two arms lie close to each other, and cross all cells."""
    t = np.sort(rng.uniform(0, 1, n))
    x = np.where(t < 0.5, t, 1 - t)
    y = np.where(t < 0.5, 0.0, 0.02) + np.where(abs(x - 0.5) < 0.05, 0.01, 0.0)
    return np.column_stack([x, y, np.zeros(n)]) + 1e-4 * rng.normal(size=(n, 3))


HARD = {
    "horseshoe": lambda n, rng: horseshoe(n, rng),
    "grid": lambda n, rng: rng.integers(0, 12, (n, 3)) * 1.0,
    "whole grid": lambda n, _: np.argwhere(np.ones((13, 13, 13)))[:n] * 0.1,
    "equal": lambda n, _: np.ones((n, 3)),
    "two values": lambda n, rng: rng.integers(0, 2, (n, 3)) * 1.0,
    "constant feature": lambda n, rng: rng.normal(size=(n, 3)) * [1.0, 0.0, 1.0],
    "densities": lambda n, rng: (
        rng.normal(size=(n, 2)) * np.exp(4 * rng.normal(size=(n, 1)))
    ),
    "outliers": lambda n, rng: rng.standard_cauchy((n, 3)),
    "two groups": lambda n, rng: (
        rng.normal(size=(n, 2)) + 1e3 * (np.arange(n)[:, None] % 2)
    ),
    "sorted line": lambda n, _: np.arange(n * 1.0)[:, None],
    "surface": lambda n, rng: np.sin(rng.normal(size=(n, 2)) @ rng.normal(size=(2, 8))),
    "float32": lambda n, rng: rng.normal(size=(n, 3)).astype(np.float32).round(1),
}


@pytest.mark.parametrize("kind", HARD)
def test_cells_that_divide_what_belongs_together(kind, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = HARD[kind](1500, rng)
    for n_blocks in (8, 13):
        assert_same_tree(X, n_blocks=n_blocks)


def test_cells_with_many_equal_rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(500, 3))[rng.integers(0, 500, 100_000)]
    assert_same_tree(X, n_blocks=8)
    assert_same_tree(np.ones((100_000, 2)), n_blocks=8)


@pytest.mark.parametrize("d", [3, 10])
def test_cells_are_joined_in_rounds(d, monkeypatch, global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(20_000, d))
    left = []

    def merge(*arguments):
        merged = merge_offers(*arguments)
        left.append(len(merged[1]))
        return merged

    merge_offers = _cells.merge_offers
    monkeypatch.setattr(_cells, "merge_offers", merge)
    assert_same_tree(X, n_blocks=8)
    assert len(left) >= 2
    assert left == sorted(left, reverse=True)


def test_no_pair_of_rows_is_in_two_trees(monkeypatch, global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(300, 40))
    calls = []
    grow = _blocks._grow
    monkeypatch.setattr(_blocks, "_grow", lambda task: calls.append(task) or grow(task))
    assert_same_tree(X, n_blocks=5)
    assert sorted(len(task) for task in calls) == [1] * 5 + [2] * 10
    ones = np.ones((40, 2))
    # Between two blocks, no edge is inside one of them.
    edges, lengths = prim_on_points(np.vstack([ones, 2 * ones]), np.arange(80), 40)
    assert ((edges < 40).sum(axis=1) == 1).all()
    assert np.array_equal(lengths, np.full(79, 2.0))


def test_parts_of_zarr(tmp_path, global_random_seed):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed.")
    X = np.random.default_rng(global_random_seed).normal(size=(700, 3))
    zarr.save_array(str(tmp_path / "X.zarr"), X)
    assert_same_tree(zarr.open(str(tmp_path / "X.zarr"), mode="r"), X, n_blocks=4)


def left_in(folder):
    return [path.name for path in folder.iterdir()]


def test_no_file_is_left(tmp_path, monkeypatch, global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(800, 3))
    assert_same_tree(X, n_blocks=8, folder=tmp_path)
    assert not left_in(tmp_path)
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    seen = []
    parts = Parts(X, lambda _: seen.extend(left_in(tmp_path)))
    assert_same_tree(parts, X, n_blocks=8)
    assert len(set(seen)) == 1
    assert not left_in(tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_no_file_is_left_after_an_error(error, tmp_path):
    def fail(n_parts):
        if n_parts == 4:  # of which two are written
            assert left_in(tmp_path)
            raise error

    X = np.random.default_rng(0).normal(size=(800, 3))
    with pytest.raises(error):
        minimum_spanning_tree_by_blocks(Parts(X, fail), n_blocks=8, folder=tmp_path)
    assert not left_in(tmp_path)


def test_a_full_disk(tmp_path):
    resource = pytest.importorskip("resource", reason="Files cannot be limited here.")
    X = np.random.default_rng(0).normal(size=(4000, 3))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, before[1]))
    try:
        with pytest.raises(OSError, match="Set the 'folder' parameter .* more space"):
            minimum_spanning_tree_by_blocks(X, n_blocks=8, folder=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not left_in(tmp_path)


KILLED = """
import os
import signal
import sys

import numpy as np

from skdiffclust.forests import minimum_spanning_tree_by_blocks
from test_blocks import Parts


def kill(n_parts):
    if n_parts == 4:
        os.kill(os.getpid(), signal.SIGKILL)


X = np.random.default_rng(0).normal(size=(800, 3))
minimum_spanning_tree_by_blocks(Parts(X, kill), n_blocks=8, folder=sys.argv[1])
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL.")
def test_the_next_run_removes_what_a_killed_one_leaves(tmp_path):
    here = str(Path(__file__).parent)
    paths = os.pathsep.join([here, *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    assert subprocess.run(command, env=environment, check=False).returncode < 0
    (left,) = left_in(tmp_path)
    (tmp_path / "of-the-user").mkdir()
    running = []
    X = np.random.default_rng(0).normal(size=(800, 3))

    def run(n_parts):
        # That of a run that goes on is kept.
        if n_parts == 4:
            running.extend(left_in(tmp_path))
            assert_same_tree(X, n_blocks=8, folder=tmp_path)
            assert sorted(left_in(tmp_path)) == sorted(running)

    assert_same_tree(Parts(X, run), X, n_blocks=8, folder=tmp_path)
    assert left not in running
    assert left_in(tmp_path) == ["of-the-user"]


@pytest.mark.full
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL.")
def test_a_worker_that_is_killed(tmp_path):
    X = np.random.default_rng(0).normal(size=(800, 3))
    coordinator = os.getpid()

    def end(_):
        if os.getpid() != coordinator:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        joblib.parallel_config("loky", n_jobs=2),
        pytest.raises(TerminatedWorkerError),
    ):
        minimum_spanning_tree_by_blocks(Parts(X, end), n_blocks=8, folder=tmp_path)
    assert not left_in(tmp_path)
    with joblib.parallel_config("loky", n_jobs=2):
        assert_same_tree(X, n_blocks=8, folder=tmp_path)


LIMITED = """
import resource
import sys

import numpy as np

from skdiffclust.forests import minimum_spanning_tree_by_blocks

X = np.load(sys.argv[1], mmap_mode="r")
minimum_spanning_tree_by_blocks(X[:5000], n_blocks=8)  # kernels are loaded
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
limit = used + 110 * len(X)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
tree = minimum_spanning_tree_by_blocks(X, n_blocks=32)
print(tree.lengths.sum())
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Needs /proc.")
def test_memory_is_bounded(tmp_path):
    X = np.random.default_rng(0).normal(size=(400_000, 3)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "X.npy")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(command, env=environment, check=True, capture_output=True)
    assert float(found.stdout) == minimum_spanning_tree(X).lengths.sum()
