"""Streams: the samples that are kept, for any order of the stream."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from skdiffclust import ClAM
from skdiffclust.memories._reservoir import SIZE, Reservoir


@pytest.mark.parametrize("first", [100, 3000])
@pytest.mark.parametrize("container", [np.asarray, csr_array])
def test_samples_are_kept_equally_often(first, container, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    numbers = np.arange(1.0, 4 * SIZE + 1)
    past = None
    for part in np.split(numbers, [first, 3500]):
        past = Reservoir.extended(past, container(part[:, None]), part, rng)
        if part[0] == 1:  # the first batch is kept whole
            np.testing.assert_array_equal(past.weight, part)
    assert past.rows.shape == (SIZE, 1)
    assert past.n_seen == 4 * SIZE
    np.testing.assert_array_equal(past.rows.sum(axis=1), past.weight)
    assert len(np.unique(past.weight)) == SIZE
    # Hypergeometric of mean 512 and standard deviation 17.
    quarters = np.histogram(past.weight, 4, (1, 4 * SIZE))[0]
    assert abs(quarters - SIZE / 4).max() < 85


@pytest.mark.parametrize("container", [np.asarray, csr_array])
def test_a_stream_that_comes_sorted(container, global_random_seed):
    X, y = make_blobs(
        3000, n_features=6, centers=10 * np.eye(6), random_state=global_random_seed
    )
    model = ClAM(6, random_state=global_random_seed)
    for part in np.split(np.argsort(y, kind="stable"), 6):
        model.partial_fit(container(X[part]))
    assert adjusted_rand_score(y, model.predict(container(X))) > 0.95


def test_the_centres_of_a_stream_have_nearly_the_inertia_of_a_fit(global_random_seed):
    X, _ = make_blobs(
        12_000, n_features=10, centers=20 * np.eye(10), random_state=global_random_seed
    )
    model = ClAM(10, max_iter=0, random_state=global_random_seed)
    for rows in np.split(X, 6):
        model.partial_fit(rows)
    inertia = np.square(X - model.cluster_centers_[model.predict(X)]).sum()
    whole = ClAM(10, max_iter=0, random_state=global_random_seed).fit(X)
    # Centres of m samples have k / m more than those of all, 0.5 % for 2048.
    assert inertia < 1.002 * whole.inertia_


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
        assert len(age) == min(SIZE, np.ceil(half_life / np.log(2)))
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
