"""The number of clusters of ClAM and DeepClAM is the shared rule of centres."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import ClAM


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
    for seed in range(4):
        X, _ = make_blobs(200, n_features=5, centers=5, random_state=seed)
        right += (
            ClAM("auto", n_init=1, max_iter=1, random_state=0).fit(X).n_clusters_ == 5
        )
    assert right >= 3


@pytest.mark.few_epochs
def test_tables_have_the_number_of_the_largest_silhouette(global_random_seed):
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    numbers, indices = [], []
    for draw in range(9):
        model = ClAM("auto", n_init=1, max_iter=1)
        model.set_params(random_state=9 * global_random_seed + draw)
        with pytest.warns(ConvergenceWarning, match="no clear number"):
            model.fit(X)
        numbers.append(model.n_clusters_)
        indices.append(adjusted_rand_score(y, model.labels_))
        curve = model.n_clusters_curve_
        assert model.n_clusters_ == curve["n_clusters"][np.argmax(curve["score"])]
        assert {1, model.n_clusters_} <= set(model.n_clusters_candidates_)
    assert np.median(numbers) == 3
    assert np.mean(indices) > 0.6


def test_clusters_of_equal_samples_are_clear(global_random_seed):
    centers = 5 * np.random.RandomState(global_random_seed).randn(5, 2)
    # A warning would be an error.
    model = ClAM("auto", random_state=0).fit(np.repeat(centers, 10, axis=0))
    assert model.n_clusters_ == 5


def test_equal_samples_are_one_cluster():
    assert ClAM("auto").fit(np.ones((20, 2))).n_clusters_ == 1
    assert ClAM("auto").fit(np.ones((1, 2))).n_clusters_ == 1


# One of the four may end without a row.
@pytest.mark.filterwarnings("ignore:ClAM found 3 of 4 clusters")
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


@pytest.mark.few_epochs
def test_samples_without_clusters_are_warned_of(global_random_seed):
    X = np.random.RandomState(global_random_seed).normal(size=(300, 5))
    model = ClAM("auto", max_iter=2, n_init=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="no clear number.*set n_clusters"):
        model.fit(X)
    assert model.n_clusters_ in model.n_clusters_curve_["n_clusters"]
    groups = X + 12 * np.eye(5)[np.arange(300) % 3]
    curve = model.fit(groups).n_clusters_curve_
    assert curve["n_clusters"][np.argmax(curve["score"])] == 3
    assert not (curve["separation"] > 4).any()
    assert_array_equal(model.n_clusters_candidates_, [3])


def test_a_stream_warns_and_a_given_number_has_no_curve():
    X = np.random.RandomState(0).normal(size=(200, 3))
    model = ClAM("auto", max_iter=2, n_init=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="no clear number"):
        model.partial_fit(X)
    assert model.partial_fit(X).n_clusters_curve_ is not None
    model.set_params(n_clusters=2, max_iter=50).fit(X)
    assert model.n_clusters_curve_ is model.n_clusters_candidates_ is None
    model = ClAM("auto").fit(np.ones((20, 2)))
    assert [len(column) for column in model.n_clusters_curve_.values()] == [0, 0, 0]
    assert_array_equal(model.n_clusters_candidates_, [1])


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sparse_samples_are_counted(metric, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    blocks = np.kron(np.eye(3), np.ones((60, 20)))
    X = blocks * (rng.uniform(size=blocks.shape) < 0.5)
    X[:, ::20] = blocks[:, ::20]  # no sample without entries
    model = ClAM("auto", metric=metric, random_state=0).fit(sparse.csr_array(X))
    assert model.n_clusters_ == 3
