"""Clusters of any shape: memories that are merged by the samples that they share."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs, make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skdiffclust import ClAM
from skdiffclust.memories._basins import attraction, embed_memories, persistence


def moons(seed):
    """Return samples of two moons, and which."""
    return make_moons(500, noise=0.06, random_state=seed)


def rings(seed):
    """Return samples of two rings, and which."""
    return make_circles(500, noise=0.05, factor=0.5, random_state=seed)


@pytest.mark.parametrize("shape", [moons, rings])
def test_shapes_that_are_no_balls(shape, global_random_seed):
    X, y = shape(global_random_seed)
    model = ClAM(2, n_memories=80, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1.0
    assert adjusted_rand_score(y, KMeans(2, n_init=10).fit_predict(X)) < 0.6
    new, labels = shape(global_random_seed + 1)
    assert adjusted_rand_score(labels, model.predict(new)) > 0.99


def test_digits_are_clustered_better_than_by_k_means():
    X, y = load_digits(return_X_y=True)
    ours = [
        adjusted_rand_score(y, ClAM(10, n_memories=300, random_state=s).fit(X).labels_)
        for s in range(3)
    ]
    assert np.median(ours) > 0.72  # k-means .67


def test_what_is_fitted(global_random_seed):
    X, _ = moons(0)
    weight = np.random.RandomState(0).uniform(0.5, 1.5, len(X))
    model = ClAM(2, n_memories=60, random_state=global_random_seed)
    model.fit(X, sample_weight=weight)
    assert np.array_equal(model.labels_, model.predict(X))
    assert np.array_equal(model.labels_, model.predict_proba(X).argmax(axis=1))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    parts = [model.predict(X[i : i + 1])[0] for i in range(20)]
    assert parts == list(model.labels_[:20])
    sizes = np.bincount(model.labels_)
    assert (np.diff(sizes) <= 0).all()
    for label in range(2):
        own = model.labels_ == label
        mean = np.average(X[own], axis=0, weights=weight[own])
        np.testing.assert_allclose(model.cluster_centers_[label], mean)
        far = np.linalg.norm(
            X[:, None] - model.memories_[model.memory_labels_ == label], axis=2
        )
        np.testing.assert_allclose(model.transform(X)[:, label], far.min(axis=1))
    own = model.transform(X)[np.arange(len(X)), model.labels_]
    assert model.inertia_ == pytest.approx(weight @ own**2)
    assert model.loss_ == pytest.approx(-model.score(X, sample_weight=weight))
    assert model.memories_.shape == (60, 2) == model.recall(X[:60]).shape
    assert np.isfinite(model.energy(X)).all()
    loaded = pickle.loads(pickle.dumps(model))
    assert np.array_equal(loaded.predict(X), model.labels_)
    plain = ClAM(2, random_state=0).fit(X)
    assert plain.memories_ is plain.cluster_centers_
    assert list(plain.memory_labels_) == [0, 1]


def test_unit_and_order_of_samples_change_nothing(global_random_seed):
    X, y = moons(global_random_seed)
    model = ClAM(2, n_memories=80, random_state=0)
    labels = model.fit(X).labels_
    assert adjusted_rand_score(labels, model.fit(1e6 * X + 5e6).labels_) == 1.0
    order = np.random.RandomState(0).permutation(len(X))
    assert adjusted_rand_score(labels[order], model.fit(X[order]).labels_) == 1.0


def test_weights_are_repetitions_in_the_graph(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X, memories = rng.randn(40, 3), rng.randn(12, 3)
    weight = rng.randint(1, 4, 40).astype(float)
    rows = np.repeat(np.arange(40), weight.astype(int))
    shares = attraction(X, memories)[0]
    one, sizes = embed_memories(shares, weight, 3)
    other, repeated = embed_memories(shares[rows], np.ones(len(rows)), 3)
    np.testing.assert_allclose(sizes, repeated)
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-8)


def test_coordinates_are_those_of_the_dense_graph(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X, memories = rng.randn(60, 2), rng.randn(9, 2)
    shares, scale = attraction(X, memories)
    far = np.sort(np.square(X[:, None] - memories).sum(axis=2), axis=1)
    np.testing.assert_allclose(scale, far[:, 4] - far[:, 0])
    shares = shares.toarray()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert ((shares > 0).sum(axis=1) == 5).all()
    graph = shares.T @ shares
    degree = np.sqrt(graph.sum(axis=1))
    values, vectors = np.linalg.eigh(graph / degree[:, None] / degree)
    assert values[-1] == pytest.approx(1.0)
    expected = vectors[:, -2:] / np.linalg.norm(vectors[:, -2:], axis=1)[:, None]
    found, sizes = embed_memories(sparse.csr_array(shares), np.ones(60), 2)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-8)
    np.testing.assert_allclose(sizes, shares.sum(axis=0))


def test_directions(global_random_seed):
    X, y = make_blobs(300, centers=5 * np.eye(3), random_state=global_random_seed)
    X *= np.random.RandomState(0).uniform(0.2, 5, (300, 1))
    model = ClAM(3, n_memories=30, metric="cosine", random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert np.array_equal(model.predict(7 * X), model.labels_)
    np.testing.assert_allclose(np.linalg.norm(model.memories_, axis=1), 1.0)


def test_missing_entries_are_completed(global_random_seed):
    X, y = make_blobs(200, 5, centers=3, random_state=global_random_seed)
    X[np.random.RandomState(0).uniform(size=X.shape) < 0.1] = np.nan
    model = ClAM(3, n_memories=30, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.7
    assert np.array_equal(model.predict(X), model.labels_)


def test_equal_samples(global_random_seed):
    with pytest.warns(ConvergenceWarning, match="found 1 clusters instead of 2"):
        model = ClAM(2, n_memories=5, random_state=0).fit(np.ones((20, 3)))
    assert model.n_clusters_ == 1
    assert len(model.cluster_centers_) == 1


@pytest.mark.parametrize(
    "params, what",
    [
        (dict(n_memories=1), "at least n_clusters"),
        (dict(n_memories=101), "at most n_samples=100"),
        (dict(metric="manhattan"), "manhattan"),
        (dict(weighted=True), "weighted"),
        (dict(weighted=[1.0, 2.0]), "weighted"),
        (dict(init=np.zeros((2, 2))), "init"),
        (dict(warm_start=True), "warm_start"),
        (dict(encoder="mlp"), "an encoder"),
    ],
)
def test_what_is_refused(params, what):
    X = moons(0)[0][:100]
    with pytest.raises(ValueError, match=f"n_memories.*{what}"):
        ClAM(2, **{"n_memories": 20, **params}).fit(X)


def test_what_is_refused_of_data():
    X = moons(0)[0][:100]
    with pytest.raises(ValueError, match="n_memories.*sparse"):
        ClAM(2, n_memories=20).fit(sparse.csr_array(X))
    with pytest.raises(ValueError, match="n_memories.*links"):
        ClAM(2, n_memories=20).fit(X, must_link=[[0, 1]])
    with pytest.raises(AttributeError, match="partial_fit") as caught:
        ClAM(2, n_memories=20).partial_fit(X)
    assert "n_memories" in str(caught.value.__cause__)


@pytest.mark.parametrize("shape", [moons, rings])
def test_the_number_of_shapes_persists(shape, global_random_seed):
    X, y = shape(global_random_seed)
    model = ClAM("auto", n_memories=100, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1.0


def test_the_number_of_blobs_persists(global_random_seed):
    found = []
    for k in range(2, 9):
        centers = 12 * np.random.RandomState(global_random_seed).randn(k, 5)
        X, _ = make_blobs(400, centers=centers, random_state=global_random_seed)
        model = ClAM("auto", n_memories=100, random_state=0).fit(X)
        found.append(model.n_clusters_ == k)
    assert np.mean(found) > 0.8


def test_basins_are_counted_by_gaps_that_last():
    # Three pairs of memories, loosely joined in pairs, hardly beyond.
    shares = np.full((6, 6), 1e-4)
    for i in range(3):
        shares[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = 0.5
    shares /= shares.sum(axis=1, keepdims=True)
    lasting = persistence([sparse.csr_array(shares)] * 2, np.ones(6))
    assert np.argmax(lasting) == 3
    np.testing.assert_allclose(lasting.sum(), 1.0)
    for m in (1, 2):
        assert persistence([sparse.csr_array(np.eye(m))], np.ones(m))[m] == 1.0
