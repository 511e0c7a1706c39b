"""Streams: the samples that are kept, for any order of the stream."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from skdiffclust import ClAM
from skdiffclust.memories import _reservoir
from skdiffclust.memories._reservoir import Reservoir


def test_every_row_is_kept_equally_often(monkeypatch, global_random_seed):
    monkeypatch.setattr(_reservoir, "SIZE", 10)
    rng = np.random.RandomState(global_random_seed)
    rows = np.arange(60.0)[:, None]
    times = np.zeros(60)
    for _ in range(1000):
        past = None
        for start, stop in ((0, 4), (4, 25), (25, 60)):
            batch = rows[start:stop]
            past = Reservoir.extended(past, batch, batch[:, 0], rng)
        assert past.rows.shape == (10, 1)
        assert past.n_seen == 60
        assert len(np.unique(past.rows)) == 10
        np.testing.assert_array_equal(past.weight, past.rows[:, 0])
        times[past.rows[:, 0].astype(int)] += 1
    # Binomial of mean 167 and standard deviation 12.
    assert abs(times - 1000 / 6).max() < 60


def test_each_of_two_rows_is_kept_with_the_same_probability(
    monkeypatch, global_random_seed
):
    monkeypatch.setattr(_reservoir, "SIZE", 1)
    rng = np.random.RandomState(global_random_seed)
    one = np.ones(1)
    first = Reservoir.extended(None, np.zeros((1, 1)), one, rng)
    kept = [
        Reservoir.extended(first, np.ones((1, 1)), one, rng).rows[0, 0]
        for _ in range(400)
    ]
    # Binomial of mean 200 and standard deviation 10.
    assert abs(sum(kept) - 200) < 50


def test_a_large_first_batch_and_sparse_rows(monkeypatch, global_random_seed):
    monkeypatch.setattr(_reservoir, "SIZE", 10)
    rng = np.random.RandomState(global_random_seed)
    X = csr_array(np.eye(50))
    past = Reservoir.extended(None, X[:30], np.ones(30), rng)
    assert past.rows.shape == (30, 50)
    past = Reservoir.extended(past, X[30:], np.ones(20), rng)
    assert past.rows.shape == (10, 50)
    assert past.rows.sum() == 10


def test_a_stream_that_comes_sorted(monkeypatch, global_random_seed):
    X, y = make_blobs(
        600, n_features=6, centers=10 * np.eye(6), random_state=global_random_seed
    )
    monkeypatch.setattr(_reservoir, "SIZE", 200)
    for rows in (X, csr_array(X)):
        model = ClAM(6, random_state=global_random_seed)
        order = np.argsort(y, kind="stable")
        for start in range(0, 600, 100):
            model.partial_fit(rows[order[start : start + 100]])
        assert adjusted_rand_score(y, model.predict(rows)) > 0.95


def test_half_of_the_rows_are_younger_than_the_half_life(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    for half_life in (40, 5000):
        n_rows = 20 * half_life
        X = np.arange(n_rows, dtype=float)[:, None]
        past = None
        for start in range(0, n_rows, n_rows // 50):
            rows = X[start : start + n_rows // 50]
            past = Reservoir.extended(
                past, rows, np.ones(len(rows)), rng, half_life=half_life
            )
        age = n_rows - past.rows[:, 0]
        assert len(age) == min(_reservoir.SIZE, np.ceil(half_life / np.log(2)))
        expected = 0.5
        spread = 4.0 * np.sqrt(0.25 / len(age))
        assert abs(np.mean(age <= half_life) - expected) < spread
        assert abs(np.mean(age <= 2 * half_life) - 0.75) < spread


def test_a_stream_that_drifts_is_followed(global_random_seed):
    # Without a half-life the whole past is a ring, which has no clusters.
    rng = np.random.RandomState(global_random_seed)
    model = ClAM(3, half_life=200, random_state=global_random_seed)
    for time in range(41):
        angle = 2 * np.pi / 3 * (np.arange(3) + time / 40)
        centers = 4 * np.column_stack([np.cos(angle), np.sin(angle)])
        source = rng.randint(3, size=100)
        X = centers[source] + 0.9 * rng.normal(size=(100, 2))
        labels = model.partial_fit(X).predict(X)
        if time == 0:
            names = np.array(
                [np.bincount(source[labels == c]).argmax() for c in range(3)]
            )
        # Each cluster keeps its number.
        assert np.mean(names[labels] == source) > 0.95


def test_a_half_life_shorter_than_clusters_is_refused():
    with pytest.raises(ValueError, match="'half_life' parameter .* at least n_clus"):
        ClAM(5, half_life=4).partial_fit(np.eye(9))
