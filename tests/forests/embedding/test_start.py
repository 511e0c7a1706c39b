"""Where training starts: principal directions, neighbours, automatic scales."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import eigh
from scipy.spatial.distance import pdist
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from skdiffclust import SpanningForestEmbedding
from skdiffclust._constraints import as_constraints
from skdiffclust.forests._embedding import _start
from skdiffclust.forests._perturbed._affinity import standardized_affinity


def anisotropic(n=50, d=6, seed=0):
    rng = np.random.RandomState(seed)
    return rng.normal(size=(n, d)) * np.geomspace(1, 32, d) + 3.0


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("n, d", [(50, 6), (5, 6), (20, 2100)])
def test_directions_are_those_of_pca(container, scale, n, d):
    X = anisotropic(n, d)
    expected = PCA(3, svd_solver="full").fit(X).components_
    axes = _start.principal_axes(container(X * scale), 3)
    found = axes.directions
    assert_allclose(axes.mean, X.mean(axis=0) * scale, rtol=1e-12)
    assert_allclose(np.abs(expected @ found), np.eye(3), atol=1e-8)
    placed = axes.place(container(X * scale)) * (axes.unit / scale)
    assert_allclose(placed, (X - X.mean(axis=0)) @ found, atol=1e-8)
    assert_allclose(placed.var(axis=0), axes.variances * (axes.unit / scale) ** 2)
    assert (found.max(axis=0) == np.abs(found).max(axis=0)).all()


def principal_encoder(X, n_components):
    known = as_constraints(len(X), partial_labels=np.zeros(len(X), dtype=int))
    rng = np.random.RandomState(0)
    encoder, init = _start.linear_encoder("auto", X, known, 1, n_components, rng)
    assert init == "pca"
    return encoder


def test_more_components_than_features_keep_distances():
    X = anisotropic(30, 4)
    encoder = principal_encoder(X, 9)
    embedding = encoder.outputs(X)
    assert embedding.shape == (30, 9)
    assert_allclose(pdist(embedding), pdist(X), rtol=1e-10)
    assert_allclose(embedding.mean(axis=0), 0.0, atol=1e-10)


def grouped(n=60, d=5, n_classes=3, seed=0):
    """Samples of classes, of which the last one has no label, and groups of samples."""
    rng = np.random.RandomState(seed)
    y = np.arange(n) % (n_classes + 1)
    X = rng.normal(size=(n_classes + 1, d))[y] * 3.0
    X += rng.normal(size=(n, d)) * (2.0 ** np.arange(d))
    return X, np.where(y < n_classes, y, np.arange(n) + n)


def discriminants(X, groups, n_directions):
    """The definition, by scikit-learn and without blocks."""
    rows = np.flatnonzero(np.bincount(groups)[groups] > 1)
    _, numbers = np.unique(groups[rows], return_inverse=True)
    means = np.array([X[rows][numbers == g].mean(axis=0) for g in np.unique(numbers)])
    residuals = X[rows] - means[numbers]
    shrinkage = np.sqrt(ledoit_wolf(residuals, assume_centered=True)[1])
    within = residuals.T @ residuals / (len(rows) - len(means))
    variance = np.trace(within) / X.shape[1]
    shrunk = (1 - shrinkage) * within + shrinkage * variance * np.eye(X.shape[1])
    values, vectors = eigh(np.cov(X.T, bias=True), shrunk)
    return np.sqrt(variance) * vectors[:, ::-1][:, :n_directions], values[::-1]


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_discriminant_directions(container, scale):
    X, groups = grouped()
    expected, values = discriminants(X, groups, 3)
    assert values[0] > 1.5 * values[2]  # they are determined
    found, mean = _start.discriminant_directions(container(X * scale), groups, 3)
    assert_allclose(mean, X.mean(axis=0) * scale, rtol=1e-12)
    signs = np.sign((expected * found).sum(axis=0))
    assert_allclose(found * signs, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_directions_of_classes_are_those_of_discriminant_analysis(container, scale):
    X, groups = grouped()
    X = np.column_stack([X, np.ones(len(X))])
    known = groups < 3
    classes = np.where(known, groups, -1)
    model = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")
    model.fit(StandardScaler().fit_transform(X[known]), classes[known])
    expected = model.scalings_[:, :2] / X[known].std(axis=0).clip(1e-9)[:, None]
    found, mean = _start.class_directions(
        container(X * scale), classes, 9, is_tested=False
    )
    assert_allclose(mean, X.mean(axis=0) * scale, rtol=1e-12)
    # Up to the units of the samples; the constant feature tells nothing.
    ratios = found[:-1] / expected[:-1]
    assert_allclose(ratios, np.broadcast_to(ratios[0], ratios.shape), rtol=1e-6)


@pytest.mark.few_epochs
@pytest.mark.parametrize("n", [60, 200])
def test_six_labels_a_class_teach_a_plain_signal_among_noise(n, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    y = np.arange(2 * n) % 3
    X = np.column_stack([6 * np.eye(3)[y], np.zeros((2 * n, 7))])
    X += rng.normal(size=X.shape) * np.repeat([1, 6], [3, 7])
    labels = np.where(np.arange(n) < 18, y[:n], -1)
    model = SpanningForestEmbedding(3, random_state=global_random_seed)
    model.fit(X[:n], labels)
    nearest = KNeighborsClassifier(1)
    plain = nearest.fit(X[:18], y[:18]).score(X[n:], y[n:])
    embedded = model.transform(X)
    learned = nearest.fit(embedded[:18], y[:18]).score(embedded[n:], y[n:])
    assert model.init_ == "lda"
    assert learned > 0.9 > plain


@pytest.mark.few_epochs
@pytest.mark.parametrize("copies", [1, 2])
def test_few_samples_of_many_features_teach_how_to_embed_others(
    copies, global_random_seed
):
    # One principal direction in 60 has no variance, or with copies 61 in 120.
    rng = np.random.RandomState(global_random_seed)
    y = np.arange(120) % 3
    X = np.hstack([12 * np.eye(3)[y], np.zeros((120, 597))])
    X += 100 + rng.normal(size=X.shape)
    rows = np.tile(np.arange(60), copies)
    labels = np.where(np.arange(len(rows)) < 18, y[rows], -1)
    model = SpanningForestEmbedding(3, random_state=global_random_seed)
    embedded = model.fit(X[rows], labels).transform(X)
    nearest = KNeighborsClassifier(1).fit(embedded[:18], y[:18])
    assert model.init_ == "lda"
    assert nearest.score(embedded[60:], y[60:]) > 0.9


@pytest.mark.few_epochs
def test_distances_of_the_features_are_kept_where_few_labels_mislead():
    # Each class has two opposite corners of a square, so that no direction tells them.
    corner = np.arange(120) % 4
    y = (corner % 3 == 0).astype(int)
    X = np.repeat(np.column_stack([corner // 2, corner % 2]), 100, axis=1)
    X = X + 0.1 * np.random.RandomState(0).normal(size=X.shape)
    labels = np.where(np.arange(120) < 16, y, -1)
    model = SpanningForestEmbedding(2, max_iter=1, random_state=0).fit(X, labels)
    assert model.init_ == "pca"


@pytest.mark.few_epochs
def test_no_discriminants_without_pairs_or_variance_inside_groups():
    X, groups = grouped()
    alone = np.arange(len(X))
    assert _start.discriminant_directions(X, alone, 2) is None
    same = X[groups % 3]
    assert _start.discriminant_directions(same, groups % 3, 2) is None
    for classes in (groups % 3, np.where(alone < 4, alone // 2, -1), alone):
        found = _start.class_directions(same, classes, 2, is_tested=False)
        assert found is None or len(np.unique(classes)) == 3
    y = np.where(alone < 3, alone, -1)
    options = {"n_components": 2, "max_iter": 1, "random_state": 0}
    found, pca = (
        SpanningForestEmbedding(4, init=init, **options).fit(X, y)
        for init in ("lda", "pca")
    )
    assert_array_equal(found.coefs_[0], pca.coefs_[0])
    assert found.learning_rate_ == pca.learning_rate_


def classes_beside_noise(noise, n_classes=8, n_each=12, seed=0):
    """Samples (n, 12): six features of the classes, six others of `noise` alone."""
    rng = np.random.RandomState(seed)
    y = np.repeat(np.arange(n_classes), n_each)
    signal = 6.0 * rng.normal(size=(n_classes, 6))[y] + rng.normal(size=(len(y), 6))
    return np.hstack([signal, noise * rng.normal(size=(len(y), 6))]), y


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_discriminants_are_taken_where_they_tell_unseen_classes(
    container, global_random_seed
):
    X, y = classes_beside_noise(10.0, seed=global_random_seed)
    classes = np.where(np.arange(len(y)) % 2, -1, y)

    def tells(X, classes):
        return _start.tells_unseen_classes(
            container(X), classes, 4, np.random.RandomState(0)
        )

    assert tells(X, classes) and tells(1e150 * X, classes)
    # Three classes are too few, and equal samples tell nothing.
    assert not tells(X, np.where(classes < 3, classes, -1))
    assert not tells(np.ones_like(X), classes)


@pytest.mark.few_epochs
def test_the_automatic_start_is_one_of_the_two(global_random_seed):
    for n_components, init in ((4, "lda"), (7, "pca")):
        X, y = classes_beside_noise(10.0, n_each=40, seed=global_random_seed)
        if init == "pca":
            # Each class differs from the others where no other one does.
            X = 10.0 * np.eye(8)[y]
            X += np.random.RandomState(global_random_seed).normal(size=X.shape)
        options = {"n_components": n_components, "max_iter": 1, "random_state": 0}
        found, named = (
            SpanningForestEmbedding(8, init=init, **options).fit(
                X, np.where(y < 7, y, -1)
            )
            for init in ("auto", init)
        )
        assert_array_equal(found.coefs_[0], named.coefs_[0])
        assert found.learning_rate_ == named.learning_rate_
        assert found.init_ == named.init_ == init


def test_fewer_samples_than_components_and_constant_features():
    for X in (anisotropic(3, 5), np.ones((4, 2)), np.zeros((4, 2))):
        encoder = principal_encoder(X, 6)
        assert np.isfinite(encoder.outputs(X)).all()
        assert_allclose(pdist(encoder.outputs(X)), pdist(X), atol=1e-8)


def test_automatic_noise_is_the_gap_of_the_two_nearest():
    X = np.random.RandomState(0).normal(size=(20, 2))
    affinity = standardized_affinity(X, "sqeuclidean")
    ranked = np.sort(affinity - 9e9 * np.eye(20), axis=1)
    expected = np.mean(ranked[:, -1] - ranked[:, -2]) / np.sqrt(2)
    rng = np.random.RandomState(0)
    found = _start.noise_scale_of(
        "auto", lambda rows: affinity[np.ix_(rows, rows)], 20, 64, rng
    )
    assert found == pytest.approx(expected)


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
