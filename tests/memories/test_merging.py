"""The number of clusters by merging memories."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import ClAM
from skdiffclust.memories._counting import gaussian_references
from skdiffclust.memories._merging import count_clusters, merging_path


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


def test_few_of_many_samples_differ(global_random_seed):
    # No other is among the 1000 samples that a reference has the covariance of.
    Z = np.zeros((5000, 2))
    Z[global_random_seed % 5000] = 1.0
    for rows in (Z, sparse.csr_array(Z)):
        curve = count_clusters(rows, np.ones(5000), np.random.RandomState(0))
        assert (curve.best, curve.is_clear) == (2, True)
        assert 0.5 < curve.reference[0] < 0.8  # of one Gaussian feature


def test_nothing_is_said_where_all_is_found(recwarn, global_random_seed):
    X, _ = make_blobs(100, random_state=global_random_seed + 3)
    ClAM("auto", random_state=global_random_seed).fit(X)
    assert not [w for w in recwarn if w.category is ConvergenceWarning]


@pytest.mark.few_epochs
@pytest.mark.parametrize("params", [{}, {"encoder": "mlp"}])
def test_samples_without_clusters_are_warned_of(params, global_random_seed):
    X = np.random.RandomState(global_random_seed).normal(size=(300, 5))
    model = ClAM("auto", max_iter=2, n_init=1, random_state=0, **params)
    with pytest.warns(ConvergenceWarning, match="no clear structure.*set n_clusters"):
        model.fit(X)
    curve = model.n_clusters_curve_
    score, reference = curve["score"], curve["reference"]
    preferred = score / (1 - score) * np.sqrt((1 - reference) / reference)
    assert model.n_clusters_ == curve["n_clusters"][np.argmax(preferred)]
    groups = X + 12 * np.eye(5)[np.arange(300) % 3]
    curve = model.fit(groups).n_clusters_curve_
    at = np.argmax(curve["score"])
    assert curve["n_clusters"][at] == 3
    assert (curve["score"] - curve["reference"])[at] > 0.2


def test_a_stream_warns_and_a_given_number_has_no_curve():
    X = np.random.RandomState(0).normal(size=(200, 3))
    model = ClAM("auto", max_iter=2, n_init=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="no clear structure"):
        model.partial_fit(X)
    assert model.partial_fit(X).n_clusters_curve_ is not None
    model.set_params(n_clusters=2, max_iter=50).fit(X)
    assert model.n_clusters_curve_ is None
    curve = ClAM("auto").fit(np.ones((20, 2))).n_clusters_curve_
    assert [len(column) for column in curve.values()] == [0, 0, 0]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sparse_samples_are_counted(metric, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    blocks = np.kron(np.eye(3), np.ones((60, 20)))
    X = blocks * (rng.uniform(size=blocks.shape) < 0.5)
    X[:, ::20] = blocks[:, ::20]  # no sample without entries
    model = ClAM("auto", metric=metric, random_state=0).fit(sparse.csr_array(X))
    assert model.n_clusters_ == 3
    weight = rng.uniform(1, 2, size=len(X))
    dense, stored = (
        count_clusters(Z, weight, np.random.RandomState(1))
        for Z in (X, sparse.csr_array(X))
    )
    np.testing.assert_allclose(dense.scores, stored.scores)
    np.testing.assert_allclose(dense.reference, stored.reference, atol=0.1)


@pytest.mark.parametrize("shape", [(400, 6), (60, 90)])
@pytest.mark.parametrize("as_stored", [np.asarray, sparse.csr_array])
def test_references_have_the_covariance_of_the_samples(shape, as_stored):
    rng = np.random.RandomState(0)
    Z = rng.normal(size=shape) * np.linspace(1, 3, shape[1]) + 5
    weight = rng.uniform(0.5, 2, size=len(Z))
    covariance = np.cov(Z.T, aweights=weight, ddof=0)
    expected = np.sort(np.linalg.eigvalsh(covariance))[::-1][: min(shape)]
    rows = np.concatenate(list(gaussian_references(as_stored(Z), weight, rng)))
    assert rows.shape == (5 * len(Z), min(shape))
    found = np.sort(rows.var(axis=0))[::-1]
    np.testing.assert_allclose(found.sum(), expected.sum(), rtol=0.05)
    np.testing.assert_allclose(found[:5], expected[:5], rtol=0.35)
