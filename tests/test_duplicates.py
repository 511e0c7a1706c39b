"""Groups of equal rows, against comparison of every pair."""

import numpy as np
import pytest

from skdiffclust import _duplicates
from skdiffclust._duplicates import equal_rows, first_duplicates, first_equal


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 3, 100])
def test_first_equal_is_that_of_every_pair(dtype, n_features, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.integers(-1, 2, (60, n_features)).astype(dtype)
    X[rng.integers(60, size=20)] = X[rng.integers(60, size=20)]
    X *= rng.choice([1.0, -1.0])  # both zeros
    expected = (X[:, None] == X[None]).all(axis=2).argmax(axis=1)
    np.testing.assert_array_equal(first_equal(X), expected)
    np.testing.assert_array_equal(
        equal_rows(X), np.unique(expected, return_inverse=True)[1]
    )


def test_rows_with_the_same_hash_are_still_compared(monkeypatch):
    monkeypatch.setattr(_duplicates, "_hashes", lambda X: np.zeros(len(X), np.uint64))
    X = np.array([[1.0], [2.0], [1.0], [2.0], [3.0], [-0.0], [0.0], [3.0]])
    assert first_equal(X).tolist() == [0, 1, 0, 1, 4, 5, 5, 4]


def test_missing_values_of_the_same_bits_are_equal():
    X = np.array([[np.nan, 1.0], [0.0, 1.0], [np.nan, 1.0]])
    assert first_equal(X).tolist() == [0, 1, 0]


@pytest.mark.parametrize("n_kept", [1, 2, 5])
def test_first_duplicates_are_the_first_of_each_row(n_kept, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.integers(-1, 2, (60, 2)).astype(float)
    X[X == 0] *= rng.choice([1.0, -1.0], size=(X == 0).sum())  # both zeros
    before = np.tril((X[:, None] == X[None]).all(axis=2), -1).sum(axis=1)
    expected = np.flatnonzero(before < n_kept)
    np.testing.assert_array_equal(first_duplicates(X, n_kept), expected)
