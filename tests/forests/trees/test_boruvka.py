"""Borůvka on a k-d tree, against Prim and Kruskal, bit for bit."""

import _thread
import importlib
import os
import signal
import sys
import threading
from time import perf_counter

import numpy as np
import pytest

from skdiffclust import SpanningForestClustering, _threads
from skdiffclust.forests._trees import _boruvka
from skdiffclust.forests._trees._boruvka import (
    boruvka,
    raised_neighbors,
)
from skdiffclust.forests._trees._distances import (
    lengths_of,
    lengths_of_matrix,
    mutual_reachability,
)
from skdiffclust.forests._trees._kd_tree import build_tree
from skdiffclust.forests._trees._small_prim import prim
from skdiffclust.forests._trees._solve import spanning_edges
from skdiffclust.forests._trees._tree import cut_order

METRICS = ["euclidean", "manhattan", "chebyshev"]
KINDS = ["normal", "grid", "copies", "apart", "scales", "equal"]


def samples(kind, n, d, rng):
    """Return points of a kind (n, d)."""
    X = rng.normal(size=(n, d))
    if kind == "grid":
        X = rng.integers(-3, 4, (n, d)) * 1.0
        X[X == 0] *= rng.choice([-1.0, 1.0], np.count_nonzero(X == 0))
    elif kind == "copies":
        X = X[rng.integers(0, max(1, n // 4), n)]
    elif kind == "apart":
        X[: n // 2] += 1e6
    elif kind == "scales":
        X *= np.exp(5 * rng.normal(size=(n, 1)))
    elif kind == "equal":
        X[:] = X[0]
    return X


@pytest.fixture
def always(monkeypatch):
    """Search the tree even if its boxes rule nothing out."""
    monkeypatch.setattr(_boruvka, "rules_out", lambda tree, norm: True)


def assert_same_forest(forest, expected):
    order = cut_order(*forest)
    first = cut_order(*expected)
    np.testing.assert_array_equal(forest[0][order], expected[0][first])
    np.testing.assert_array_equal(forest[1][order], expected[1][first])


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_forest_of_kruskal_bit_for_bit(
    kind, metric, monkeypatch, global_random_seed
):
    rng = np.random.default_rng(global_random_seed)
    for n, d in [(1, 2), (2, 1), (70, 1), (260, 2), (150, int(rng.integers(3, 60)))]:
        lengths = lengths_of(samples(kind, n, d, rng), metric)
        # A row at a time would take most of the test.
        everyone = np.arange(n)
        matrix = lengths_of_matrix(lengths.between(everyone, everyone))
        for nodes in (None, rng.integers(0, n // 2 + 1, n)):
            expected = spanning_edges(matrix, nodes=nodes, algorithm="kruskal")
            for n_jobs in (1, 2):
                with monkeypatch.context() as cold:
                    if n_jobs == 1:  # on the k-d tree of scikit-learn
                        cold.setattr("skdiffclust._compiled.is_ready", lambda _: False)
                    found = spanning_edges(
                        lengths, nodes=nodes, algorithm="boruvka", n_jobs=n_jobs
                    )
                assert (found[0][:, 0] < found[0][:, 1]).all()
                assert_same_forest(found, expected)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("min_samples", [1, 2, 9, 90])
def test_raised_lengths_bit_for_bit(
    kind, metric, min_samples, monkeypatch, global_random_seed
):
    # Of lists of more than 64 a part is kept.
    rng = np.random.default_rng(global_random_seed)
    for n, d in [(1, 2), (2, 1), (260, 2), (150, 30)]:
        X = samples(kind, n, d, rng)
        lengths = lengths_of(X, metric)
        with monkeypatch.context() as cold:
            cold.setattr("skdiffclust._compiled.is_ready", lambda kernel: False)
            raised = mutual_reachability(lengths, min(min_samples, n))
        everyone = np.arange(n)
        matrix = raised.between(everyone, everyone)
        expected = prim(lambda i, rows, D=matrix: D[i, rows], everyone, everyone)
        for n_threads in (1, 3):
            core, grow = raised_neighbors(
                X, min(min_samples, n), n_threads, lengths.norm
            )
            # Without core distances, nothing is raised.
            known = np.zeros(n) if raised.core is None else raised.core
            np.testing.assert_array_equal(core, known)
            assert_same_forest(grow(n_threads), expected)


def test_boxes_that_rule_nothing_out():
    rng = np.random.default_rng(0)
    few = rng.normal(size=(1500, 40))
    assert boruvka(few, np.arange(len(few)), 1) is None
    assert raised_neighbors(few, 5, 1, norm=1) is None
    for metric in ("euclidean", "manhattan"):
        lengths = lengths_of(few[:600], metric)
        expected = spanning_edges(lengths, algorithm="prim")
        assert_same_forest(spanning_edges(lengths, algorithm="boruvka"), expected)


def test_the_forest_does_not_depend_on_threads(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.integers(0, 40, (4000, 3)).astype(float)
    nodes = np.arange(len(X))
    expected = boruvka(X, nodes, 1)
    for n_threads in (2, 5):
        assert_same_forest(boruvka(X, nodes, n_threads), expected)


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("kind", ["normal", "grid", "equal"])
@pytest.mark.parametrize("n_samples", [1, 2, 80, 81, 1000])
def test_tree_holds_every_row_in_a_box(
    n_samples, kind, ready, monkeypatch, global_random_seed
):
    monkeypatch.setattr("skdiffclust._compiled.is_ready", lambda kernel: ready)
    X = samples(kind, n_samples, 3, np.random.default_rng(global_random_seed))
    tree = build_tree(X)
    assert np.array_equal(np.sort(tree.order), np.arange(n_samples))
    assert np.array_equal(tree.points, X[tree.order])
    n_leaves = len(tree.starts) - 1
    sizes = np.diff(tree.starts)
    assert 1 <= sizes.min() <= sizes.max() <= 96
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


def test_leaves_do_not_share_whole_numbers(monkeypatch, global_random_seed):
    monkeypatch.setattr("skdiffclust._compiled.is_ready", lambda kernel: True)
    X = np.random.default_rng(global_random_seed).integers(0, 4, (3000, 6)) * 1.0
    tree = build_tree(X)
    leaves = tree.boxes[len(tree.starts) - 1 :]
    apart = leaves[:, None, 0] > leaves[None, :, 1]
    apart = (apart | apart.transpose(1, 0, 2)).any(axis=2)
    assert np.count_nonzero(~apart) == len(leaves)


@pytest.mark.parametrize("d", [2, 40])
def test_a_fit_with_min_samples(d):
    X = np.random.default_rng(0).normal(size=(1300, d))
    X[::7] = X[1::7][: len(X[::7])]
    found = SpanningForestClustering(2, min_samples=4).fit(X)
    expected = SpanningForestClustering(2, min_samples=4, algorithm="prim").fit(X)
    assert np.array_equal(found.edges_, expected.edges_)
    assert np.array_equal(found.edge_lengths_, expected.edge_lengths_)
    few = SpanningForestClustering(2, min_samples=4, algorithm="boruvka").fit(X[:99])
    plain = SpanningForestClustering(2, min_samples=4).fit(X[:99])
    assert np.array_equal(few.edges_, plain.edges_)
    labels = np.r_[0, 1, np.full(97, -1)]
    one, other = (
        SpanningForestClustering(2, min_samples=4, algorithm=algorithm)
        .fit(X[:99], partial_labels=labels)
        .labels_
        for algorithm in ("auto", "boruvka")
    )
    assert np.array_equal(one, other)


@pytest.fixture
def signal_of_interruption():
    """A shell starts what runs in its background with this signal ignored."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("signal_of_interruption")
def test_an_interruption_is_seen_after_few_chunks(monkeypatch):
    X = np.random.default_rng(0).normal(size=(20_000, 10))
    boruvka(X[:500], np.arange(500), 2)  # compiles
    before = threading.active_count()
    taken = []

    def clock_that_interrupts():
        taken.append(threading.current_thread() is threading.main_thread())
        if len(taken) >= 16 and taken[-1] and "sent" not in marks:
            marks["sent"] = len(taken)
            _thread.interrupt_main()
        return perf_counter()

    marks = {}
    monkeypatch.setattr(_threads, "perf_counter", clock_that_interrupts)
    with pytest.raises(KeyboardInterrupt):
        boruvka(X, np.arange(len(X)), 2)
    assert len(taken) - marks["sent"] < 20  # the clock is read twice for a chunk
    assert threading.active_count() == before


SOURCE = "from skdiffclust._compiled import compiled\ntwice = compiled()({})"


def test_kernels_on_disk_are_known_but_for_those_of_other_code(tmp_path, monkeypatch):
    from skdiffclust._compiled import is_ready

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "kernel_of_a_test.py"

    def load(code):
        sys.modules.pop("kernel_of_a_test", None)
        path.write_text(SOURCE.format(code), encoding="utf-8")
        return importlib.import_module("kernel_of_a_test").twice

    first = load("lambda x: 2 * x")
    assert not is_ready(first)
    assert first(2) == 4
    sys.modules.pop("kernel_of_a_test")
    again = importlib.import_module("kernel_of_a_test").twice
    assert not again.signatures
    assert is_ready(again)
    path.touch()
    os.utime(path, (1, 1))
    assert not is_ready(load("lambda x: x + x + 0"))


def test_compiled_kernels_are_known():
    from numba import njit

    from skdiffclust._compiled import is_ready

    twice = njit(lambda x: 2 * x)  # without a cache on disk
    assert not is_ready(twice)
    assert twice(2) == 4
    assert is_ready(twice)
