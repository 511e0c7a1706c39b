"""Properties of every maximum spanning forest."""

import numpy as np
import pytest
from all_forests import all_forests
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering
from skdiffclust.forests import maximum_spanning_forest


def draw_values(draw, size, elements):
    """Numbers (size,) of a kind: any, many ties, far apart, or whole and different."""
    rng = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    if elements == "different":
        return rng.permutation(2**12)[:size] - 2.0**11
    kind = draw(st.sampled_from(["any", "ties", "far apart"]))
    values = rng.uniform(-100, 100, size)
    if kind == "ties":
        return np.round(values / 50) * 50
    return values if kind == "any" else np.sign(values) * 1.2 ** np.abs(values)


@st.composite
def affinities(draw, smallest=4, largest=12, elements="all"):
    """Symmetric matrices (n, n) with a zero diagonal."""
    n = draw(st.integers(smallest, largest))
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n, 1)] = draw_values(draw, n * (n - 1) // 2, elements)
    return matrix + matrix.T


@st.composite
def forests(draw, **sizes):
    """An affinity and a number of trees."""
    affinity = draw(affinities(**sizes))
    return affinity, draw(st.integers(1, len(affinity)))


@st.composite
def points(draw):
    """Rows (n, d), n from 4 to 12 and d from 1 to 5, on a fine grid."""
    n, d = draw(st.integers(4, 12)), draw(st.integers(1, 5))
    rng = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    return rng.randint(-512, 513, (n, d)) / draw(st.sampled_from([1, 64, 512]))


def weight(affinity, n_clusters):
    """F_k, each edge once."""
    return maximum_spanning_forest(affinity, n_clusters).weight


@given(forests())
def test_a_forest_is_a_forest(case):
    affinity, n_clusters = case
    n = len(affinity)
    edges = maximum_spanning_forest(affinity, n_clusters).edges
    assert edges.shape == (n - n_clusters, 2)
    assert (edges[:, 0] < edges[:, 1]).all()
    graph = csr_array((np.ones(len(edges)), edges.T), shape=(n, n))
    # n - k edges and k components: acyclic.
    assert connected_components(graph, directed=False)[0] == n_clusters


@given(forests(smallest=4, largest=5))
def test_no_forest_is_heavier(case):
    affinity, n_clusters = case
    n = len(affinity)
    forests = all_forests(n, n - n_clusters)
    best = max(sum(affinity[pair] for pair in forest) for forest in forests)
    assert np.isclose(weight(affinity, n_clusters), best)


@given(forests())
def test_increasing_maps_change_nothing(case):
    affinity, n_clusters = case
    expected = set(map(tuple, maximum_spanning_forest(affinity, n_clusters).edges))
    values, ranks = np.unique(affinity, return_inverse=True)
    for increasing in (lambda s: 2 * s + 1, np.cbrt, lambda s: s**3):
        mapped = increasing(values)
        if (np.diff(mapped) > 0).all():  # rounding may join two values
            found = maximum_spanning_forest(mapped[ranks], n_clusters).edges
            assert set(map(tuple, found)) == expected


@given(forests(elements="different"), st.randoms())
def test_permuting_rows_permutes_the_forest(case, random):
    affinity, n_clusters = case
    order = list(range(len(affinity)))
    random.shuffle(order)
    forest = maximum_spanning_forest(affinity, n_clusters)
    permuted = maximum_spanning_forest(affinity[np.ix_(order, order)], n_clusters)
    assert adjusted_rand_score(forest.labels[order], permuted.labels) == 1
    assert permuted.weight == forest.weight


@given(points(), st.integers(1, 4), st.integers(-64, 64))
def test_moving_and_turning_points_changes_no_label(X, n_clusters, shift):
    model = SpanningForestClustering(n_clusters, cut_rule="longest")
    assume(len(np.unique(X, axis=0)) >= n_clusters)
    expected = model.fit(X).labels_
    # Exact in binary: a shift by whole numbers, a reflection, a turn by a right angle.
    turned = X[:, ::-1].copy()
    turned[:, 0] *= -1
    for moved in (X + shift, -X, turned):
        assert np.array_equal(model.fit(moved).labels_, expected)


@given(points(), st.integers(2, 5))
def test_clusters_are_ordered_by_size_and_first_sample(X, n_clusters):
    assume(len(np.unique(X, axis=0)) >= n_clusters)
    model = SpanningForestClustering(n_clusters, cut_rule="longest").fit(X)
    sizes = np.bincount(model.labels_)
    assert len(sizes) == model.n_clusters_
    assert (np.diff(sizes) <= 0).all()
    firsts = [np.argmax(model.labels_ == c) for c in range(len(sizes))]
    tied = np.diff(sizes) == 0
    assert (np.diff(firsts)[tied] > 0).all()


@pytest.mark.filterwarnings("ignore:.*relaxed:sklearn.exceptions.ConvergenceWarning")
@given(points(), st.integers(1, 3))
def test_cuts_are_nested_for_a_fixed_minimum_size(X, min_size):
    assume(len(np.unique(X, axis=0)) == len(X))
    model = SpanningForestClustering(1, min_cluster_size=min_size).fit(X)
    for n_clusters in range(1, len(X) // min_size):
        coarse, fine = (model.cut(k) for k in (n_clusters, n_clusters + 1))
        for cluster in range(fine.max() + 1):
            assert len(set(coarse[fine == cluster])) == 1


@given(affinities(), affinities(), st.integers(1, 4), st.floats(0, 1))
def test_the_weight_is_convex(one, other, n_clusters, share):
    n = min(len(one), len(other))
    one, other = one[:n, :n], other[:n, :n]
    mixed = weight(share * one + (1 - share) * other, n_clusters)
    bound = share * weight(one, n_clusters) + (1 - share) * weight(other, n_clusters)
    assert mixed <= bound + 1e-12 * n * max(np.abs(one).max(), np.abs(other).max())


@given(forests(), st.floats(0, 10), st.floats(-10, 10))
def test_the_weight_is_homogeneous_and_follows_shifts(case, scale, shift):
    affinity, n_clusters = case
    n, plain = len(affinity), weight(affinity, n_clusters)
    assert np.isclose(weight(scale * affinity, n_clusters), scale * plain)
    shifted = weight(affinity + shift * (1 - np.eye(n)), n_clusters)
    assert np.isclose(shifted, plain + (n - n_clusters) * shift)


@given(affinities(), affinities(), st.integers(1, 4))
def test_the_weight_is_lipschitz_in_the_largest_entry(one, other, n_clusters):
    n = min(len(one), len(other))
    one, other = one[:n, :n], other[:n, :n]
    difference = abs(weight(one, n_clusters) - weight(other, n_clusters))
    rounding = 1e-12 * n * max(np.abs(one).max(), np.abs(other).max())
    assert difference <= (n - n_clusters) * np.abs(one - other).max() + rounding
