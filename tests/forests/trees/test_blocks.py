"""The tree by blocks, against the tree at once."""

import pickle

import joblib
import numpy as np
import pytest

from skdiffclust.forests import minimum_spanning_tree, minimum_spanning_tree_by_blocks
from skdiffclust.forests._trees._blocks import (
    _block,
    _inside,
    _readable,
    _side,
    _split,
    _tasks,
    _values,
)
from skdiffclust.forests._trees._euclidean import edges_between


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
        assert_same_tree(X, n_blocks=n_blocks, n_jobs=2)


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


@pytest.mark.parametrize("n_workers", [1, 2, 7])
@pytest.mark.parametrize("n_blocks", [1, 2, 3, 4, 5, 8, 9])
def test_every_pair_of_blocks_is_together_once(n_blocks, n_workers):
    tasks = _tasks(n_blocks, _side(n_workers))
    seen = np.zeros((n_blocks, n_blocks), dtype=int)
    for first, second in (pair for pairs in tasks for pair in pairs):
        seen[first, second] += 1
    for first in range(0, n_blocks, 2):
        seen[first : first + 2, first : first + 2] += 1
    assert np.array_equal(np.triu(seen), np.triu(np.ones_like(seen)))


def test_workers_have_trees():
    assert [len(block) for block in _split(np.arange(23), 5)] == [4, 4, 5, 5, 5]
    assert [len(_tasks(_side(n), _side(n))) for n in (1, 2, 3, 8)] == [0, 4, 12, 112]


def in_total_order(edges, lengths):
    return np.lexsort((edges[:, 1], edges[:, 0], lengths))


def kruskal_by_definition(n, edges, order):
    """Return which of the edges, in the order given, join two components."""
    component = np.arange(n)
    taken = []
    for e in order:
        one, other = component[edges[e]]
        if one != other:
            component[component == other] = one
            taken.append(e)
    return taken


def bottlenecks(n, edges, ranks):
    """Return the least largest rank of a path between any two of n vertices."""
    found = np.full((n, n), np.inf)
    found[edges[:, 0], edges[:, 1]] = found[edges[:, 1], edges[:, 0]] = ranks
    for i in range(n):
        found = np.minimum(found, np.maximum(found[:, [i]], found[[i]]))
    return found


@pytest.mark.instances(30)
def test_between_halves_against_all_pairs(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 7))
    values = rng.permutation(6**d if d < 4 else 4**d)[: int(rng.integers(4, 60))]
    # Different points of a grid: there are many ties.
    X = np.array(np.unravel_index(values, [6 if d < 4 else 4] * d), dtype=float).T
    n = len(X)
    pairs = np.array(np.triu_indices(n, 1)).T
    squares = ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1)
    order = in_total_order(pairs, squares)
    # Two trees, and of each the samples that are searched.
    side = rng.permutation(n) % 2
    tree = []
    for one in (0, 1):
        inside = [e for e in order if (side[pairs[e]] == one).all()]
        tree += kruskal_by_definition(n, pairs, inside)
    is_searched = rng.random(n) < 0.7
    parts = [np.flatnonzero(is_searched & (side == one)) for one in (0, 1)]
    # `edges_between` has the same number on both sides, or one more on the second.
    size = min(map(len, parts))
    parts = [part[:size] for part in parts]
    if not size:
        return
    known = []
    for part, one in zip(parts, (0, 1), strict=True):
        own = [e for e in tree if (side[pairs[e]] == one).all()]
        known.append(_inside(pairs[own], squares[own], np.isin(np.arange(n), part)))
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(len(order))
    number = {tuple(pair): e for e, pair in enumerate(pairs)}
    for part, (ends, lengths, names), one in zip(parts, known, (0, 1), strict=True):
        own = [number[tuple(name)] for name in names]
        assert np.array_equal(squares[own], lengths)
        whole = [e for e in tree if (side[pairs[e]] == one).all()]
        expected = bottlenecks(n, pairs[whole], rank[whole])[np.ix_(part, part)]
        found = bottlenecks(n, ends, rank[own])[np.ix_(part, part)]
        off_diagonal = ~np.eye(len(part), dtype=bool)
        assert np.array_equal(found[off_diagonal], expected[off_diagonal])
    # Names are in the order of the rows on the whole, here of the two sides in turn.
    rows = np.concatenate(parts)
    new = np.empty(n, dtype=int)
    new[np.argsort(side, kind="stable")] = np.arange(n)
    across = np.array([(i, j) for i in parts[0] for j in parts[1]])
    lengths = ((X[across[:, 0]] - X[across[:, 1]]) ** 2).sum(axis=1)
    ends, values, names = (np.concatenate(part) for part in zip(*known, strict=True))
    names = np.sort(new[names], axis=1)
    keys = np.concatenate([names, np.sort(new[across], axis=1)])
    both = np.concatenate([ends, across])
    everything = in_total_order(keys, np.concatenate([values, lengths]))
    taken = kruskal_by_definition(n, both, everything)
    expected = {tuple(both[e]) for e in taken if e >= len(ends)}
    places = {row: place for place, row in enumerate(rows)}
    ends = np.array([[places[i] for i in edge] for edge in ends], dtype=int)
    found, _ = edges_between(
        X[rows], new[rows], (ends.reshape(-1, 2), values, names), 1
    )
    assert {tuple(rows[edge]) for edge in found} == expected


def test_a_task_reads_a_file_itself(tmp_path, global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(90, 3))
    np.save(tmp_path / "X.npy", np.vstack([X, X[:30]]).astype(np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    block = _block(_readable(X[40:]), np.array([20, 21, 25]))
    # 50 samples would take more.
    assert len(pickle.dumps(block)) < 600
    assert np.array_equal(_values(block), X[[60, 61, 65]])
    assert_same_tree(X[10:], n_blocks=3)
    assert_same_tree(X[::2], n_blocks=3)  # not consecutive: held in memory
    assert_same_tree(np.asfortranarray(X[:, :2]), n_blocks=2)


def test_chunks_of_dask(global_random_seed):
    da = pytest.importorskip("dask.array", reason="dask is not installed.")
    X = np.random.default_rng(global_random_seed).normal(size=(200, 3)).round(1)
    chunks = da.from_array(X, chunks=(33, 3))
    assert len(pickle.dumps(_block(chunks, np.arange(5, 30)))) < X.nbytes / 2
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
