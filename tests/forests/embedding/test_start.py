"""Where training starts: principal directions, neighbours, automatic scales."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from skdiffclust import SpanningForestEmbedding
from skdiffclust.forests._embedding import _start
from skdiffclust.forests._perturbed._similarity import standardized_similarity


def anisotropic(n=50, d=6, seed=0):
    rng = np.random.RandomState(seed)
    return rng.normal(size=(n, d)) * (2.0 ** np.arange(d)) + 3.0


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("by_products", [False, True])
def test_directions_are_those_of_pca(container, scale, by_products, monkeypatch):
    if by_products:
        monkeypatch.setattr(_start, "_MOST_FEATURES", 2)
    X = anisotropic()
    expected = PCA(3, svd_solver="full").fit(X).components_
    found, mean = _start.principal_directions(container(X * scale), 3)
    assert_allclose(mean, X.mean(axis=0) * scale, rtol=1e-12)
    assert_allclose(np.abs(expected @ found), np.eye(3), atol=1e-8)
    assert (found.max(axis=0) == np.abs(found).max(axis=0)).all()


def test_more_components_than_features_keep_distances():
    X = anisotropic(30, 4)
    encoder = _start.principal_encoder(X, 9, np.random.RandomState(0))
    embedding = encoder.outputs(X)
    assert embedding.shape == (30, 9)
    assert_allclose(pdist(embedding), pdist(X), rtol=1e-10)
    assert_allclose(embedding.mean(axis=0), 0.0, atol=1e-10)


def test_fewer_samples_than_components_and_constant_features():
    for X in (anisotropic(3, 5), np.ones((4, 2)), np.zeros((4, 2))):
        encoder = _start.principal_encoder(X, 6, np.random.RandomState(0))
        assert np.isfinite(encoder.outputs(X)).all()
        assert_allclose(pdist(encoder.outputs(X)), pdist(X), atol=1e-8)


def test_neighbors_are_the_union_of_both_sides(global_random_seed):
    X = np.random.RandomState(global_random_seed).normal(size=(40, 3))
    nearest = NearestNeighbors(n_neighbors=4).fit(X).kneighbors(X)[1][:, 1:]
    expected = np.zeros((40, 40), dtype=bool)
    expected[np.arange(40)[:, None], nearest] = True
    expected |= expected.T
    dense = _start.neighbors_of(X, 3)
    rows = _start.neighbors_of(sparse.csr_array(X), 3)
    images = _start.neighbors_of(X.reshape(40, 1, 3), 3)
    for found in (dense, rows, images):
        assert_array_equal(found.toarray() > 0, expected)
        assert found.has_sorted_indices
    assert _start.neighbors_of(X[:3], 10).nnz == 6


def test_automatic_noise_is_the_gap_of_the_two_nearest():
    X = np.random.RandomState(0).normal(size=(20, 2))
    similarity = standardized_similarity(X, "sqeuclidean")
    ranked = np.sort(similarity - 9e9 * np.eye(20), axis=1)
    expected = np.mean(ranked[:, -1] - ranked[:, -2]) / np.sqrt(2)
    rng = np.random.RandomState(0)
    found = _start.noise_scale_of(
        "auto", lambda rows: similarity[np.ix_(rows, rows)], 20, 64, rng
    )
    assert found == pytest.approx(expected)
    assert _start.noise_scale_of(0.25, None, 20, 64, None) == 0.25
    for n, value in ((20, 0.0), (2, 0.0), (20, np.nan)):
        flat = np.full((n, n), value)
        found = _start.noise_scale_of("auto", lambda rows, flat=flat: flat, n, 64, rng)
        assert found == 0.02


def test_automatic_step_is_a_fiftieth_of_the_weights():
    weights = np.array([[3.0, -4.0]])
    assert _start.learning_rate_of("auto", weights) == pytest.approx(np.sqrt(12.5) / 50)
    assert _start.learning_rate_of("auto", 1e300 * weights) > 1e297
    assert _start.learning_rate_of("auto", 0 * weights) == 1e-3
    assert _start.learning_rate_of("auto", None) == 1e-3
    assert _start.learning_rate_of(0.5, weights) == 0.5


@pytest.mark.few_epochs
@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_scales_do_not_depend_on_the_unit(scale):
    X = anisotropic(40, 3)
    y = np.where(np.arange(40) % 3, -1, np.arange(40) % 2)
    one = SpanningForestEmbedding(2, max_iter=1, random_state=0).fit(X, y)
    other = SpanningForestEmbedding(2, max_iter=1, random_state=0).fit(X * scale, y)
    assert other.noise_scale_ == pytest.approx(one.noise_scale_)
    assert other.learning_rate_ == pytest.approx(one.learning_rate_)
    stream = SpanningForestEmbedding(2, random_state=0)
    rates = set()
    for _ in range(3):
        stream.partial_fit(X, y)
        rates.add((stream.noise_scale_, stream.learning_rate_))
    assert len(rates) == 1
    stream.set_params(noise_scale=0.5).partial_fit(X, y)
    assert stream.noise_scale_ == 0.5
    assert stream.learning_rate_ == rates.pop()[1]
