"""The number of clusters by merging memories."""

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import ClAM
from skdiffclust.memories._merging import merging_path


@pytest.mark.parametrize("k", [2, 3, 5, 8])
def test_separate_blobs_are_counted(k, global_random_seed):
    rng = np.random.RandomState([k, global_random_seed])
    X, y = make_blobs(
        300, centers=rng.permutation(10 * np.eye(8))[:k], random_state=rng
    )
    model = ClAM("auto", random_state=global_random_seed).fit(X)
    assert model.n_clusters_ == k
    assert adjusted_rand_score(y, model.labels_) == 1.0


@pytest.mark.few_epochs
def test_random_blobs_are_mostly_counted():
    right = 0
    for seed in range(8):
        X, _ = make_blobs(400, n_features=5, centers=5, random_state=seed)
        right += (
            ClAM("auto", n_init=1, max_iter=1, random_state=0).fit(X).n_clusters_ == 5
        )
    assert right >= 6


def test_wine_has_three():
    X = StandardScaler().fit_transform(load_wine().data)
    assert ClAM("auto", random_state=0).fit(X).n_clusters_ == 3


def test_path_goes_down_to_two_and_equal_rows_are_one(global_random_seed):
    X, _ = make_blobs(100, random_state=global_random_seed)
    numbers, margins = merging_path(
        X, np.ones(100), 10, np.random.RandomState(global_random_seed)
    )
    assert numbers[0] == 10
    assert numbers[-1] == 2
    assert (np.diff(numbers) < 0).all()
    assert ((margins >= 0) & (margins <= 1)).all()
    assert ClAM("auto").fit(np.ones((20, 2))).n_clusters_ == 1
    assert ClAM("auto").fit(np.ones((1, 2))).n_clusters_ == 1


# One of the four may end without a row.
@pytest.mark.filterwarnings("ignore:ClAM found 3 clusters instead of 4")
@pytest.mark.few_epochs
def test_given_memories_are_the_number(global_random_seed):
    X, _ = make_blobs(100, random_state=global_random_seed)
    assert len(ClAM("auto", init=X[:4], max_iter=2).fit(X).cluster_centers_) == 4


def test_streams_and_weights_keep_the_number(global_random_seed):
    X, _ = make_blobs(
        300, centers=[[0, 0], [9, 0], [0, 9]], random_state=global_random_seed
    )
    model = ClAM("auto", random_state=global_random_seed)
    for i in range(0, 300, 100):
        model.partial_fit(X[i : i + 100])
    assert model.n_clusters_ == 3
    with pytest.raises(ValueError, match="one for each of 3"):
        ClAM("auto", weighted=[1.0, 2.0], random_state=global_random_seed).fit(X)


def test_nothing_is_said_where_all_is_found(recwarn, global_random_seed):
    X, _ = make_blobs(100, random_state=global_random_seed + 3)
    ClAM("auto", random_state=global_random_seed).fit(X)
    assert not [w for w in recwarn if w.category is ConvergenceWarning]
