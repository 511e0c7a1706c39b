"""What must hold of size-weighted cuts and of memberships under noise."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering

# Copies may leave fewer distinct samples than clusters.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*found \\d+ of \\d+ clusters:sklearn.exceptions.ConvergenceWarning"
)


@st.composite
def points(draw, *, largest=40, has_copies=False):
    """Samples (n, d), some of them far away, without ties but for copies."""
    n, d = draw(st.integers(6, largest)), draw(st.integers(1, 5))
    rng = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    X = rng.standard_t(draw(st.sampled_from([1, 2, 30])), (n, d))
    X[: n // 3] += draw(st.sampled_from([0, 5, 100]))
    if has_copies:
        X = X[rng.randint(0, n, n)]
    return X


@given(points(has_copies=True))
def test_scores_fall_and_cuts_are_nested(X):
    model = SpanningForestClustering(1).fit(X)
    scores = model.n_clusters_curve_["score"]
    assert (scores > 0).all()
    assert (np.diff(scores) <= 0).all()
    finer = model.cut(len(scores) + 1)
    for n_clusters in range(len(scores), 0, -1):
        coarser = model.cut(n_clusters)
        pairs = np.unique(np.column_stack([finer, coarser]), axis=0)
        assert len(pairs) == n_clusters + 1
        finer = coarser


@given(points(), st.integers(2, 6), st.sampled_from([2.0**-30, 0.5, 2.0**20]))
def test_the_unit_of_the_samples_does_not_matter(X, n_clusters, unit):
    model = SpanningForestClustering(n_clusters)
    labels = model.fit(X).labels_
    scores = model.n_clusters_curve_["score"]
    outliers = model.outlier_scores_
    model.fit(unit * X)
    assert np.array_equal(model.labels_, labels)
    assert np.array_equal(model.n_clusters_curve_["score"], unit * scores)
    assert np.array_equal(model.outlier_scores_, outliers)


@given(points(), st.integers(2, 6), st.randoms(use_true_random=False))
def test_without_ties_the_order_does_not_matter(X, n_clusters, random):
    order = list(range(len(X)))
    random.shuffle(order)
    model = SpanningForestClustering(n_clusters)
    labels = model.fit(X).labels_
    found = model.fit(X[order])
    assert adjusted_rand_score(labels[order], found.labels_) == 1


@given(points(largest=20), st.integers(2, 6), st.randoms(use_true_random=False))
def test_a_weight_is_a_sample_repeated(X, n_clusters, random):
    counts = np.array([random.randint(1, 3) for _ in X])
    model = SpanningForestClustering(n_clusters)
    weighted = model.fit(X, sample_weight=counts).labels_
    scores = model.n_clusters_curve_["score"]
    repeated = model.fit(np.repeat(X, counts, axis=0))
    assert np.array_equal(np.repeat(weighted, counts), repeated.labels_)
    assert np.array_equal(scores, repeated.n_clusters_curve_["score"])


@given(points(has_copies=True), st.integers(2, 6))
def test_labels_are_predicted_and_copies_stay_together(X, n_clusters):
    model = SpanningForestClustering(n_clusters).fit(X)
    assert np.array_equal(model.predict(X), model.labels_)
    pairs = np.unique(np.column_stack([X, model.labels_]), axis=0)
    assert len(pairs) == len(np.unique(X, axis=0))


@settings(max_examples=50)
@given(points(has_copies=True), st.integers(2, 4), st.booleans())
def test_memberships_sum_to_one(X, n_clusters, consensus):
    assume(len(np.unique(X, axis=0)) > n_clusters)
    model = SpanningForestClustering(
        n_clusters, n_perturbations=20, consensus=consensus, random_state=0
    )
    with warnings.catch_warnings():
        # Trees under noise need not agree on all clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    memberships = model.memberships_
    assert memberships.shape == (len(X), model.n_clusters_)
    assert (memberships >= 0).all()
    np.testing.assert_allclose(memberships.sum(axis=1), 1)
    best = memberships.argmax(axis=1)
    if consensus:
        assert np.array_equal(best, model.labels_)
        assert np.array_equal(model.predict_proba(X), memberships)
