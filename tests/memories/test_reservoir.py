"""Streams: the samples that are kept, for any order of the stream."""

import numpy as np
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
        1200, n_features=6, centers=10 * np.eye(6), random_state=global_random_seed
    )
    monkeypatch.setattr(_reservoir, "SIZE", 200)
    for rows in (X, csr_array(X)):
        model = ClAM(6, random_state=global_random_seed)
        order = np.argsort(y, kind="stable")
        for start in range(0, 1200, 100):
            model.partial_fit(rows[order[start : start + 100]])
        assert adjusted_rand_score(y, model.predict(rows)) > 0.95
