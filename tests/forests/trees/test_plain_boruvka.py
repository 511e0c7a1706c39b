"""The tree without the fast kernels, and when a fit waits for these."""

import importlib
import logging
import os
import sys

import numpy as np
import pytest

from skdiffclust import SpanningForestClustering
from skdiffclust._duplicates import first_equal
from skdiffclust.forests import minimum_spanning_tree
from skdiffclust.forests._trees import _plain_boruvka, _waiting
from skdiffclust.forests._trees._distances import lengths_of, mutual_reachability
from skdiffclust.forests._trees._plain_boruvka import (
    plain_boruvka,
    plain_core_lengths,
    tree_of,
)
from skdiffclust.forests._trees._small_prim import prim
from skdiffclust.forests._trees._tree import cut_order


def samples(kind, n, d, seed):
    """Return points of a kind (n, d)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if kind == "grid":
        X = rng.integers(-3, 4, (n, d)) * 1.0
        X[X == 0] *= rng.choice([-1.0, 1.0], np.count_nonzero(X == 0))
    elif kind == "apart":
        X[: n // 2] += 1e6
    elif kind == "scales":
        X *= np.exp(5 * rng.normal(size=(n, 1)))
    elif kind == "equal":
        X[:] = X[0]
    return X


KINDS = ["normal", "grid", "apart", "scales", "equal"]
SIZES = [(1, 2), (2, 1), (60, 1), (400, 2), (300, 7)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n, d", SIZES)
def test_the_tree_of_prim_bit_for_bit(n, d, kind, cold, global_random_seed):
    X = samples(kind, n, d, global_random_seed)
    edges, lengths = plain_boruvka(tree_of(X))
    order = cut_order(edges, lengths)
    expected = minimum_spanning_tree(X)
    assert np.array_equal(edges[order], expected.edges)
    assert np.array_equal(np.sqrt(lengths[order]), expected.lengths)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n, d", SIZES[1:])
@pytest.mark.parametrize("min_samples", [1, 2, 5, 40])
def test_mutual_reachability_bit_for_bit(
    n, d, kind, min_samples, cold, global_random_seed
):
    X = samples(kind, n, d, global_random_seed)
    min_samples = min(min_samples, n)
    raised = mutual_reachability(lengths_of(X, "euclidean"), min_samples)
    everyone = np.arange(n)
    expected_edges, expected = prim(raised.row, everyone, everyone)
    tree = tree_of(X)
    for n_threads in (1, 3):
        core = plain_core_lengths(tree, min_samples, n_threads)
        if core is not None:
            assert np.array_equal(core, raised.core)
        edges, lengths = plain_boruvka(tree, raised.core, n_threads)
        order = cut_order(edges, lengths)
        first = cut_order(expected_edges, expected)
        assert np.array_equal(edges[order], expected_edges[first])
        assert np.array_equal(lengths[order], expected[first])


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n, d", SIZES[1:])
@pytest.mark.parametrize("min_samples", [None, 5])
def test_other_norms_bit_for_bit(n, d, kind, metric, min_samples, global_random_seed):
    X = samples(kind, n, d, global_random_seed)
    lengths = lengths_of(X, metric)
    norm = lengths.norm
    tree = tree_of(lengths.coordinates)
    core = None
    if min_samples is not None:
        min_samples = min(min_samples, n)
        lengths = mutual_reachability(lengths, min_samples)
        core = plain_core_lengths(tree, min_samples, norm=norm)
        if core is None:
            core = lengths.core
        assert np.array_equal(core, lengths.core)
    everyone = np.arange(n)
    expected_edges, expected = prim(lengths.row, everyone, everyone)
    first = cut_order(expected_edges, expected)
    edges, found = plain_boruvka(tree, core, 2, norm=norm)
    order = cut_order(edges, found)
    assert np.array_equal(edges[order], expected_edges[first])
    assert np.array_equal(found[order], expected[first])


@pytest.mark.parametrize("metric", ["cityblock", "chebyshev"])
@pytest.mark.parametrize("d", [2, 30])
@pytest.mark.parametrize("min_samples", [None, 4])
def test_a_fit_by_another_norm(metric, d, min_samples):
    X = np.random.default_rng(0).normal(size=(3203, d))
    X[::7] = X[1::7][: len(X[::7])]
    how = {"metric": metric, "min_samples": min_samples}
    found = SpanningForestClustering(2, **how).fit(X)
    expected = SpanningForestClustering(2, algorithm="prim", **how).fit(X)
    assert np.array_equal(found.edges_, expected.edges_)
    assert np.array_equal(found.edge_lengths_, expected.edge_lengths_)


def test_core_lengths_where_boxes_rule_nothing_out(monkeypatch):
    rng = np.random.default_rng(0)
    assert plain_core_lengths(tree_of(rng.normal(size=(900, 40))), 5) is None
    assert plain_core_lengths(tree_of(rng.normal(size=(9000, 2))), 5) is not None
    monkeypatch.setattr(_plain_boruvka, "_SEEN_BY_SEARCH", 1.0)
    X = rng.normal(size=(300, 40))
    found = plain_core_lengths(tree_of(X), 5)
    raised = mutual_reachability(lengths_of(X, "euclidean"), 5)
    assert np.array_equal(found, raised.core)


@pytest.mark.parametrize("d", [2, 40])
def test_a_fit_with_min_samples(d):
    X = np.random.default_rng(0).normal(size=(3300, d))
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


def test_duplicates_point_to_the_first(global_random_seed):
    X = np.random.default_rng(global_random_seed).integers(0, 3, (50, 2)) * 1.0
    expected = [np.flatnonzero((X == x).all(axis=1))[0] for x in X]
    assert first_equal(X).tolist() == expected
    assert first_equal(np.array([[0.0], [-0.0]])).tolist() == [0, 0]


@pytest.fixture
def unspent(cold, monkeypatch):
    """A process that has not fitted anything yet, either."""
    monkeypatch.setattr(_waiting, "_spent", _waiting._Spent())


def test_a_fit_waits_only_where_that_is_shorter(unspent, caplog):
    assert _waiting.slow_solver(5000, 2) == "prim"
    assert _waiting.slow_solver(100_000, 2) == "boruvka"
    with caplog.at_level(logging.WARNING, "skdiffclust"):
        assert _waiting.slow_solver(10**6, 50) is None
    assert "warmup() does it ahead" in caplog.text


def test_what_is_spent_adds_up(unspent):
    choices = [_waiting.slow_solver(100_000, 2) for _ in range(30)]
    n_slow = choices.index(None)
    assert 5 < n_slow < 20
    assert choices == ["boruvka"] * n_slow + [None] * (30 - n_slow)


@pytest.mark.parametrize("n, d", [(3500, 2), (3500, 9)])
def test_a_cold_fit_has_the_same_tree(n, d, unspent, monkeypatch, global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(n, d))
    found = minimum_spanning_tree(X)
    monkeypatch.undo()
    expected = minimum_spanning_tree(X)
    assert np.array_equal(found.edges, expected.edges)
    assert np.array_equal(found.lengths, expected.lengths)


SOURCE = "from skdiffclust._compiled import compiled\ntwice = compiled()({})"


def test_kernels_on_disk_are_known_but_for_those_of_other_code(tmp_path, monkeypatch):
    from skdiffclust._compiled import is_ready

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "kernel_of_a_test.py"

    def load(code):
        sys.modules.pop("kernel_of_a_test", None)
        path.write_text(SOURCE.format(code))
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
