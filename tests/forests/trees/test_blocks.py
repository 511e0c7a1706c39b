"""The tree by blocks, against the tree at once."""

import pickle

import joblib
import numpy as np
import pytest

from skdiffclust.forests import minimum_spanning_tree, minimum_spanning_tree_by_blocks
from skdiffclust.forests._blocks import (
    _block,
    _readable,
)


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


def test_bad_rows():
    with pytest.raises(ValueError, match="contains NaN"):
        minimum_spanning_tree_by_blocks([[np.nan], [1.0]])
    with pytest.raises(ValueError, match="distances overflow"):
        minimum_spanning_tree_by_blocks([[1e300], [-1e300]])
    with pytest.raises(ValueError, match="squared distances underflow"):
        minimum_spanning_tree_by_blocks([[1e-200], [2e-200], [4e-200]], n_blocks=3)
