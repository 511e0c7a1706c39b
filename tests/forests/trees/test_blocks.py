"""The tree by blocks, against the tree at once."""

import joblib
import numpy as np
import pytest

from skdiffclust.forests import minimum_spanning_tree, minimum_spanning_tree_by_blocks
from skdiffclust.forests._trees._blocks import _split, _tasks


def rows_of(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(int(rng.integers(1, 300)), int(rng.integers(1, 12))))
    if seed % 3 == 1:
        X = np.round(X[:, :3])
    return X + 1e6 * (seed % 2)


def assert_same_tree(X, **options):
    tree, expected = (
        minimum_spanning_tree_by_blocks(X, **options),
        minimum_spanning_tree(X),
    )
    assert np.array_equal(tree.edges, expected.edges)
    assert np.array_equal(tree.lengths, expected.lengths)


@pytest.mark.instances(40)
def test_any_number_of_blocks(seed, global_random_seed):
    seed += 1000 * global_random_seed
    assert_same_tree(rows_of(seed), n_blocks=1 + seed % 9)


def test_many_edges_are_merged_on_the_way(global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(500, 3))
    assert_same_tree(X, n_blocks=12)


@pytest.mark.parametrize("backend", ["loky", "threading", "dask", "ray"])
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


def test_every_pair_of_rows_is_in_one_task():
    blocks = _split(np.arange(23), 5)
    assert [len(block) for block in blocks] == [4, 4, 5, 5, 5]
    seen = np.zeros((23, 23), dtype=int)
    for task in _tasks(blocks):
        pairs = np.zeros_like(seen)
        pairs[np.ix_(task[0], task[-1])] = 1
        seen += np.triu(pairs, 1)
    assert np.array_equal(seen, np.triu(np.ones_like(seen), 1))


def test_bad_rows():
    with pytest.raises(ValueError, match="contains NaN"):
        minimum_spanning_tree_by_blocks([[np.nan], [1.0]])
    with pytest.raises(ValueError, match="distances overflow"):
        minimum_spanning_tree_by_blocks([[1e300], [-1e300]])
