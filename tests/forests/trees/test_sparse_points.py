"""Trees of sparse samples, against those of dense ones."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import haversine_distances

from skdiffclust import SpanningForestClustering
from skdiffclust._neighbors import SPARSE_METRICS, SparseSquares
from skdiffclust.forests import minimum_spanning_tree

NAMES = {"l2": "euclidean"}


def words(n, seed=0, n_features=200):
    """Return counts of words of three subjects, CSR, no sample of zeros."""
    rng = np.random.default_rng(seed)
    subject = rng.integers(0, 3, n)
    rates = 0.02 + 1.5 * (np.arange(n_features) % 3 == subject[:, None])
    X = rng.poisson(0.4 * rates * rng.random(n_features) * 2, (n, n_features))
    X[:, -1] += X.sum(axis=1) == 0
    return sp.csr_array(X.astype(np.float64)), subject


@pytest.mark.parametrize("metric", SPARSE_METRICS)
def test_squares_by_definition(metric, global_random_seed):
    X = words(60, global_random_seed)[0]
    order = np.arange(60)
    order[7] = 3
    X = X[order]
    D = cdist(X.toarray(), X.toarray(), NAMES.get(metric, metric))
    squares = SparseSquares(X, metric)
    everyone = np.arange(60)
    found = squares.between(everyone, everyone)
    expected = {"cosine": 2 * D, "sqeuclidean": D}.get(metric, D**2)
    assert_allclose(found, expected, atol=1e-12)
    assert_array_equal(found, found.T)
    assert_array_equal(np.diag(found), 0)
    assert found[3, 7] == 0
    some = np.array([5, 1, 40])
    assert_array_equal(squares.between(some, some[::-1]), found[some][:, some[::-1]])
    for i in (0, 7, 59):
        assert_array_equal(squares.row(i, some), found[i, some])
    assert_array_equal(SparseSquares(X[some], metric).to(squares), found[some])


# Many samples are taken in blocks, of the same squares whatever is made of them.
@pytest.mark.parametrize(
    ("metric", "n"),
    [(metric, 150) for metric in SPARSE_METRICS]
    + [("euclidean", 3100), ("cosine", 3100)],
)
def test_the_tree_of_dense_samples(metric, n):
    X = words(n, 1)[0]
    sparse = SpanningForestClustering(3, metric=metric).fit(X)
    dense = SpanningForestClustering(3, metric=metric).fit(X.toarray())
    assert_allclose(sparse.edge_lengths_, dense.edge_lengths_, atol=1e-7)
    assert_array_equal(sparse.predict(X), sparse.labels_)
    assert_array_equal(sparse.predict(X.toarray()[:50]), sparse.labels_[:50])
    assert_array_equal(dense.predict(X[:50]), dense.labels_[:50])


def test_text_is_clustered_by_subject():
    X, subject = words(400)
    params = {"metric": "cosine", "n_perturbations": 20, "consensus": True}
    model = SpanningForestClustering(3, random_state=0, **params).fit(X)
    assert_allclose(model.memberships_.sum(axis=1), 1)
    raised = SpanningForestClustering(3, metric="cosine", min_samples=5).fit(X)
    D = cdist(X.toarray(), X.toarray(), "cosine")
    given = SpanningForestClustering(3, metric="precomputed", min_samples=5).fit(D)
    assert_allclose(raised.edge_lengths_, given.edge_lengths_, atol=1e-12)
    weights = np.ones(400)
    weights[::9] = 0
    held = SpanningForestClustering(3, metric="cosine").fit(X, sample_weight=weights)
    assert_array_equal(held.predict(X), held.labels_)
    links = SpanningForestClustering(3, metric="cosine").fit(
        X, partial_labels=np.where(np.arange(400) < 30, subject, -1)
    )
    for label in range(3):
        own = links.labels_[:30][subject[:30] == label]
        assert len(np.unique(own)) == 1


def test_sparse_samples_refused():
    X, _ = words(20)
    with pytest.raises(TypeError, match="[Ss]parse"):
        SpanningForestClustering(metric="manhattan").fit(X)
    none = sp.csr_array(X.toarray() * (np.arange(20) != 4)[:, None])
    with pytest.raises(ValueError, match="only zeros in 1 sample"):
        SpanningForestClustering(metric="cosine").fit(none)
    with pytest.raises(ValueError, match="distances overflow"):
        SpanningForestClustering().fit(1e300 * X)
    with pytest.raises(ValueError, match="NaN"):
        SpanningForestClustering().fit(np.nan * X)


# ------------------------------------------------------------------ the sphere


@pytest.mark.parametrize("n", [2, 60, 3100])
def test_haversine_by_definition(n, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = np.column_stack(
        [np.arcsin(rng.uniform(-1, 1, n)), rng.uniform(-np.pi, np.pi, n)]
    )
    tree = minimum_spanning_tree(X, metric="haversine")
    if n < 1000:
        expected = minimum_spanning_tree(haversine_distances(X), metric="precomputed")
        assert_array_equal(tree.edges, expected.edges)
        assert_allclose(tree.lengths, expected.lengths, rtol=1e-9)
    ends = X[tree.edges]
    exact = [haversine_distances(pair)[0, 1] for pair in ends[:200]]
    assert_allclose(tree.lengths[:200], exact, rtol=1e-9)
    with pytest.raises(ValueError, match="two features for metric='haversine'"):
        minimum_spanning_tree(np.eye(3), metric="haversine")


def test_the_date_line_parts_nothing():
    X = np.radians([[0, 179.9], [0, -179.9], [0.1, 179.8], [0, 0], [0.1, 0.1]])
    model = SpanningForestClustering(2, metric="haversine").fit(X)
    assert_array_equal(model.labels_, [0, 0, 0, 1, 1])
    assert_array_equal(model.predict(np.radians([[0, 180.0], [0, -180.0]])), [0, 0])
