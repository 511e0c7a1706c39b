"""The number of clusters that centres can represent."""

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skdiffclust._n_clusters import bimodality, count_clusters


def count(X, seed=0, **bounds):
    weight = np.ones(X.shape[0])
    return count_clusters(X, weight, np.random.RandomState(seed), **bounds)


def groups(k, seed, n_each=40, d=5, distance=7.0):
    """Return normal clusters around corners of a simplex."""
    rng = np.random.RandomState(seed)
    y = np.repeat(np.arange(k), n_each)
    centers = distance / np.sqrt(2) * np.eye(max(k, d))[:k]
    return centers[y] + rng.normal(size=(len(y), max(k, d))), y


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize("k", [2, 3, 5, 8, 16])
def test_separate_clusters_are_counted(k, global_random_seed):
    numbers, beyond = [], []
    for draw in range(3):  # about one draw in fifty has one more
        X, y = groups(k, 3 * global_random_seed + draw)
        found = count(X, global_random_seed)
        numbers.append(found.best)
        assert_array_equal(found.candidates.numbers, [k])
        assert adjusted_rand_score(y, found.labels) > 0.95
        assert_array_equal(found.rows, np.arange(len(X)))
        assert_array_equal(np.diff(found.numbers), 1)
        at = list(found.numbers).index(k)
        assert found.score[at] > 0.4
        # What is tested is larger than the number of the largest score.
        assert np.isnan(found.separation[: np.argmax(found.score) + 1]).all()
        beyond.append(np.nanmax(found.separation[at + 1 :]))
    assert np.median(numbers) == k
    assert np.median(beyond) < 4


def test_a_unit_an_origin_and_a_rotation_change_nothing(global_random_seed):
    X, _ = groups(4, global_random_seed)
    rng = np.random.RandomState(global_random_seed)
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    for other in (1e-3 * X, X + 100, X @ rotation):
        assert count(other).best == 4


@pytest.mark.parametrize("sizes", [(105, 15), (500, 10), (200, 60, 20)])
def test_sizes_may_be_unequal(sizes, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(sum(sizes), 4))
    X[:, :3] += np.repeat(13 * np.eye(3)[: len(sizes)], sizes, axis=0)
    assert count(X).best == len(sizes)


WITHOUT = {
    "normal": lambda rng: rng.normal(size=(300, 5)),
    "correlated": lambda rng: rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6)),
    "uniform": lambda rng: rng.uniform(size=(300, 3)),
    "t(3)": lambda rng: rng.standard_t(3, size=(300, 8)),
    "lognormal": lambda rng: rng.lognormal(size=(300, 4)),
    "wide": lambda rng: rng.normal(size=(80, 120)),
    "moons": lambda rng: make_moons(400, noise=0.1, random_state=rng)[0],
    "circles": lambda rng: make_circles(400, factor=0.5, random_state=rng)[0],
}


@pytest.mark.parametrize("kind", WITHOUT)
def test_clusters_that_do_not_return_may_be_one(kind, global_random_seed):
    X = WITHOUT[kind](np.random.RandomState(global_random_seed))
    candidates = count(X, global_random_seed).candidates
    assert {1, candidates.chosen} <= set(candidates.numbers)
    assert candidates.agreement < 0.95
    with pytest.warns(ConvergenceWarning, match="K.n_clusters='auto'. sees no clear"):
        candidates.warn_if_several("K")


def test_the_number_is_the_larger_of_separation_and_silhouette(global_random_seed):
    # Pairs of clusters: the silhouette is largest where both are one.
    rng = np.random.RandomState(global_random_seed)
    centers = np.array([[0, 0], [7, 0], [60, 0], [67, 0]])
    found = count(np.repeat(centers, 50, axis=0) + rng.normal(size=(200, 2)))
    assert found.numbers[np.argmax(found.score)] == 2
    assert found.best == 4
    assert found.separation[found.numbers == 4] > 4
    # Clusters that overlap: no more than two are separated.
    X, _ = groups(5, global_random_seed, n_each=80, distance=3.3)
    found = count(X)
    assert found.best == found.numbers[np.argmax(found.score)]
    assert not (found.separation > 4).any()


def test_numbers_that_subsamples_pick_are_candidates(global_random_seed):
    X, _ = groups(5, global_random_seed, n_each=40, distance=2.5)
    candidates = count(X, global_random_seed).candidates
    assert len(candidates.picks) == 5
    votes = Counter(candidates.picks)
    expected = {number for number, n in votes.items() if n >= 2}
    expected |= {candidates.chosen, 1}
    assert_array_equal(candidates.numbers, sorted(expected))


def test_bounds_are_kept(global_random_seed):
    X, _ = groups(4, global_random_seed)
    assert count(X, most=3).best <= 3
    assert count(X, least=6).numbers.min() == 6
    assert count(X, least=4, most=4).best == 4


def test_equal_samples_are_one_cluster():
    for X in (np.ones((20, 2)), np.ones((1, 2))):
        found = count(X)
        assert_array_equal(found.candidates.numbers, [1])
        assert len(found.numbers) == len(found.separation) == len(found.score) == 0
    pairs = np.repeat([[0.0, 1.0], [5.0, 1.0]], 30, axis=0)
    assert count(pairs).best == 2


def test_sparse_samples_are_counted_as_dense_ones(global_random_seed):
    X, _ = groups(3, global_random_seed, d=40)
    dense, stored = count(X), count(sparse.csr_array(X))
    assert_allclose(stored.separation, dense.separation, rtol=1e-6)
    assert_array_equal(stored.labels, dense.labels)


def test_sparse_samples_of_few_features_have_the_same_candidates(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.multivariate_normal(np.zeros(4), np.full((4, 4), 0.9) + np.eye(4) / 10, 90)
    dense, stored = count(X).candidates, count(sparse.csr_array(X)).candidates
    assert dense.picks == stored.picks
    assert_allclose(stored.agreement, dense.agreement)


def test_samples_of_weight_zero_are_left_out(global_random_seed):
    X, _ = groups(3, global_random_seed)
    far = np.r_[X, X + 50]
    weight = np.repeat([2.0, 0.0], len(X))
    found = count_clusters(far, weight, np.random.RandomState(0))
    assert found.best == 3
    assert_array_equal(found.rows, np.arange(len(X)))
    assert_allclose(found.separation, count(X).separation)


def test_many_samples_are_drawn(global_random_seed):
    X, y = make_blobs(5000, centers=10 * np.eye(3), random_state=global_random_seed)
    found = count(X)
    assert found.best == 3
    assert len(found.rows) == 2000
    assert adjusted_rand_score(y[found.rows], found.labels) > 0.99


# ------------------------------------------------------------------ parts


def test_two_modes_and_one(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    one = [
        rng.normal(size=200),
        rng.uniform(size=200),
        rng.exponential(size=200),
        rng.standard_t(2, size=200),
        rng.lognormal(size=200),
        rng.beta(2, 1, size=200),
    ]
    two = rng.normal(size=(2, 200)) + 5 * np.repeat([[0, 1], [0, 1]], [150, 50], axis=1)
    found = bimodality(np.array([*one, *two]), np.ones(200))
    assert (found[:6] < 4).all()
    assert (found[6:] > 15).all()
    assert_allclose(bimodality(7 * two - 3, np.ones(200)), found[6:], rtol=1e-6)
    # Weights are repetitions, but for the quantiles that the fits start from.
    again = bimodality(two, np.full(200, 2.0))
    assert_allclose(
        again, bimodality(np.repeat(two, 2, axis=1), np.ones(400)), rtol=0.02
    )
    assert bimodality(np.ones((1, 9)), np.ones(9)) == -np.inf
