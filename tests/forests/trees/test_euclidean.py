"""Borůvka on a kd-tree, against Kruskal, bit for bit."""

import _thread
import signal
import threading

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from skdiffclust import _threads
from skdiffclust.forests._trees._distances import (
    lengths_of,
    lengths_of_points,
    mutual_reachability,
)
from skdiffclust.forests._trees._euclidean import (
    _neighborhood,
    euclidean_boruvka,
    raised_boruvka,
    raised_neighbors,
)
from skdiffclust.forests._trees._kd_tree import build_tree
from skdiffclust.forests._trees._small_prim import prim
from skdiffclust.forests._trees._solve import spanning_edges
from skdiffclust.forests._trees._tree import cut_order


def rows_of(seed):
    """Rows of 1 to 60 features, with ties, copies and offsets."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 260)), int(rng.integers(1, 61))
    X = rng.normal(size=(n, d))
    if seed % 5 == 1:
        X = np.round(X[:, :4])
    if seed % 5 == 2:
        X = X[rng.integers(0, max(1, n // 4), n)]
    if seed % 5 == 3:
        X = X + 1e6
    if seed % 5 == 4:
        X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 9 * rng.integers(
            0, 3, (n, 1)
        )
    return rng, X


def assert_same_forest(forest, expected):
    for edges, lengths in (forest, expected):
        assert (edges[:, 0] < edges[:, 1]).all()
        assert edges.shape == (len(lengths), 2)
    ours, theirs = (np.lexsort(edges.T) for edges, _ in (forest, expected))
    assert np.array_equal(forest[0][ours], expected[0][theirs])
    assert np.array_equal(forest[1][ours], expected[1][theirs])


@pytest.mark.instances(200)
def test_the_forest_of_kruskal_bit_for_bit(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng, X = rows_of(seed)
    lengths = lengths_of_points(X, "euclidean")
    shared = rng.integers(0, len(X) // 2 + 1, len(X))
    for nodes in (None, shared):
        expected = spanning_edges(lengths, nodes=nodes, algorithm="kruskal")
        for n_jobs in (1, 2):
            found = spanning_edges(
                lengths, nodes=nodes, algorithm="boruvka", n_jobs=n_jobs
            )
            assert_same_forest(found, expected)


@pytest.mark.parametrize(
    "options", [{"leaves": (3, False)}, {"leaves": (200, True)}, {"n_neighbors": 2}]
)
def test_the_forest_does_not_depend_on_threads_or_chunks(
    options, monkeypatch, global_random_seed
):
    rng = np.random.default_rng(global_random_seed)
    X = rng.integers(0, 40, (4000, 3)).astype(float)
    nodes = np.arange(len(X))
    expected = euclidean_boruvka(X, nodes, 1)
    monkeypatch.setattr(_threads, "_CHUNK_SECONDS", 1e-4)
    for n_threads in (1, 2, 5):
        assert_same_forest(euclidean_boruvka(X, nodes, n_threads, **options), expected)


@pytest.mark.parametrize("n_samples", [1, 2, 16, 17, 1000])
def test_tree_holds_every_row_in_a_box(n_samples, global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(n_samples, 3))
    tree = build_tree(X, 16, True, 2)
    assert np.array_equal(np.sort(tree.order), np.arange(n_samples))
    assert np.array_equal(tree.points, X[tree.order])
    n_leaves = len(tree.starts) - 1
    sizes = np.diff(tree.starts)
    assert sizes.max() <= 16
    assert sizes.max() - sizes.min() <= 1
    for node in range(1, 2 * n_leaves):
        depth = node.bit_length() - 1
        span = n_leaves >> depth
        first = (node - (1 << depth)) * span
        rows = tree.points[tree.starts[first] : tree.starts[first + span]]
        assert np.array_equal(tree.boxes[node, 0], rows.min(axis=0))
        assert np.array_equal(tree.boxes[node, 1], rows.max(axis=0))
    for leaf, size in enumerate(sizes):
        rows = tree.points[tree.starts[leaf] : tree.starts[leaf + 1]]
        assert np.array_equal(tree.tiles[leaf, :, :size], rows.T)
        assert np.isinf(tree.tiles[leaf, :, size:]).all()


@pytest.mark.parametrize("kind", ["normal", "grid", "apart", "equal"])
@pytest.mark.parametrize("n, d", [(1, 2), (2, 1), (70, 1), (400, 2), (300, 30)])
@pytest.mark.parametrize("min_samples", [1, 2, 9, 40])
def test_raised_lengths_bit_for_bit(kind, n, d, min_samples, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(n, d))
    if kind == "grid":
        X = rng.integers(0, 3, (n, d)).astype(float)
    elif kind == "apart":
        X[: n // 2] += 1e6
    elif kind == "equal":
        X[:] = X[0]
    min_samples = min(min_samples, n)
    raised = mutual_reachability(lengths_of(X, "euclidean"), min_samples)
    everyone = np.arange(n)
    expected_edges, expected = prim(raised.row, everyone, everyone)
    first = cut_order(expected_edges, expected)
    for n_threads in (1, 3):
        core, neighbors = raised_neighbors(X, min_samples, n_threads)
        assert np.array_equal(core, raised.core)
        edges, lengths = raised_boruvka(neighbors, n_threads)
        order = cut_order(edges, lengths)
        assert np.array_equal(edges[order], expected_edges[first])
        assert np.array_equal(lengths[order], expected[first])


def test_filtered_neighbours_of_tight_groups_and_lonely_rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    groups = np.repeat(rng.normal(size=(25, 3)), 6, axis=0)
    X = np.concatenate(
        [groups + 1e-3 * rng.normal(size=(150, 3)), rng.normal(size=(90, 3))]
    )
    tree, (found, _) = _neighborhood(X, 4, 2, leaves=(8, True))
    squares = np.sort(cdist(X, X, "sqeuclidean"), axis=1)[:, 1:5]
    np.testing.assert_allclose(found, squares[tree.order], rtol=1e-12)


@pytest.fixture
def signal_of_interruption():
    """A shell starts what runs in its background with this signal ignored."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("signal_of_interruption")
def test_an_interruption_is_seen_after_few_chunks(monkeypatch):
    X = np.random.default_rng(0).normal(size=(20_000, 10))
    euclidean_boruvka(X[:500], np.arange(500), 2)  # compiles
    before = threading.active_count()
    taken = []
    take = _threads._Queue.take

    def take_and_interrupt(queue):
        taken.append(threading.current_thread() is threading.main_thread())
        if len(taken) >= 8 and taken[-1] and "sent" not in marks:
            marks["sent"] = len(taken)
            _thread.interrupt_main()
        return take(queue)

    marks = {}
    monkeypatch.setattr(_threads._Queue, "take", take_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        euclidean_boruvka(X, np.arange(len(X)), 2)
    assert len(taken) - marks["sent"] < 10
    assert threading.active_count() == before


@pytest.mark.parametrize("leaf_size", [8, 56])
@pytest.mark.parametrize("n, n_values", [(3000, 4), (500, 2), (900, 40)])
def test_equal_values_are_on_one_side_of_a_split(
    n, n_values, leaf_size, global_random_seed
):
    """Boxes that touch each other would rule nothing out."""
    rng = np.random.default_rng(global_random_seed)
    points = rng.integers(0, n_values, (n, 5)).astype(float)
    tree = build_tree(points, leaf_size, False, 1)
    counts = np.diff(tree.starts)
    assert counts.min() >= 1
    assert counts.max() <= leaf_size + leaf_size // 4
    assert counts.sum() == n
    assert np.array_equal(points[tree.order], tree.points)
    left, right = tree.boxes[2], tree.boxes[3]
    assert ((left[1] < right[0]) | (right[1] < left[0])).any()
