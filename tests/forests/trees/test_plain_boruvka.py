"""The tree without the fast kernels, and when a fit waits for these."""

import logging

import numpy as np
import pytest

from skdiffclust.forests import minimum_spanning_tree
from skdiffclust.forests._trees import _waiting
from skdiffclust.forests._trees._plain_boruvka import join_duplicates, plain_boruvka
from skdiffclust.forests._trees._tree import cut_order


@pytest.mark.parametrize("kind", ["normal", "grid", "apart", "scales", "equal"])
@pytest.mark.parametrize("n, d", [(1, 2), (2, 1), (60, 1), (400, 2), (300, 7)])
def test_the_tree_of_prim_bit_for_bit(n, d, kind, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
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
    edges, lengths = plain_boruvka(X)
    order = cut_order(edges, lengths)
    expected = minimum_spanning_tree(X)
    assert np.array_equal(edges[order], expected.edges)
    assert np.array_equal(np.sqrt(lengths[order]), expected.lengths)


def test_duplicates_point_to_the_first(global_random_seed):
    X = np.random.default_rng(global_random_seed).integers(0, 3, (50, 2)) * 1.0
    expected = [np.flatnonzero((X == x).all(axis=1))[0] for x in X]
    assert join_duplicates(X).tolist() == expected
    assert join_duplicates(np.array([[0.0], [-0.0]])).tolist() == [0, 0]


@pytest.fixture
def cold(monkeypatch):
    """A process in which nothing is compiled."""
    monkeypatch.setattr("skdiffclust._compiled.is_ready", lambda kernel: False)
    monkeypatch.setattr(_waiting, "_spent", _waiting._Spent())


def test_a_fit_waits_only_where_that_is_shorter(cold, caplog):
    assert _waiting.slow_solver(5000, 2) == "prim"
    assert _waiting.slow_solver(100_000, 2) == "boruvka"
    with caplog.at_level(logging.WARNING, "skdiffclust"):
        assert _waiting.slow_solver(10**6, 50) is None
    assert "warmup() does it ahead" in caplog.text


def test_what_is_spent_adds_up(cold):
    choices = [_waiting.slow_solver(100_000, 2) for _ in range(30)]
    n_slow = choices.index(None)
    assert 5 < n_slow < 20
    assert choices == ["boruvka"] * n_slow + [None] * (30 - n_slow)


@pytest.mark.parametrize("n, d", [(3500, 2), (3500, 9)])
def test_a_cold_fit_has_the_same_tree(n, d, cold, monkeypatch, global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(n, d))
    found = minimum_spanning_tree(X)
    monkeypatch.undo()
    expected = minimum_spanning_tree(X)
    assert np.array_equal(found.edges, expected.edges)
    assert np.array_equal(found.lengths, expected.lengths)


def test_compiled_kernels_are_known():
    from numba import njit

    from skdiffclust._compiled import is_ready

    twice = njit(lambda x: 2 * x)  # without a cache on disk
    assert not is_ready(twice)
    assert twice(2) == 4
    assert is_ready(twice)
