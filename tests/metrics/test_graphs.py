"""The ratio-cut of labels and incidence matrices of links."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skdiffclust.metrics import (
    links_to_incidence,
    ratio_cut_score,
)


def random_graph(seed, n=12):
    """Return a symmetric similarity (n, n) with zero diagonal."""
    rng = np.random.default_rng(seed)
    weights = rng.random((n, n)) * (rng.random((n, n)) < 0.5)
    return np.triu(weights, 1) + np.triu(weights, 1).T


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_clusters", [1, 2, 5, 12])
def test_ratio_cut_is_the_trace_and_the_sum_of_cuts(
    seed, n_clusters, global_random_seed
):
    seed += 1000 * global_random_seed
    graph = random_graph(seed)
    labels = np.random.default_rng(seed).permutation(np.arange(12) % n_clusters)
    onehot = (labels[:, None] == np.arange(n_clusters)).astype(float)
    indicator = onehot / np.sqrt(onehot.sum(axis=0))
    laplacian = np.diag(graph.sum(axis=1)) - graph
    trace = np.trace(indicator.T @ laplacian @ indicator)
    cuts = sum(
        graph[np.ix_(labels == c, labels != c)].sum() / (labels == c).sum()
        for c in range(n_clusters)
    )
    score = ratio_cut_score(graph, labels)
    assert isinstance(score, float)
    assert_allclose([score, cuts], [trace, trace], rtol=1e-12, atol=1e-13)


def test_ratio_cut_of_every_container(global_random_seed):
    graph = random_graph(global_random_seed)
    labels = np.arange(12) % 3
    expected = ratio_cut_score(graph, labels)
    names = np.array(["x", "y", "z"])[labels]
    for other in [
        sparse.csr_array(graph),
        sparse.csc_matrix(graph),
        sparse.coo_array(graph),
        pd.DataFrame(graph),
        graph + 5 * np.eye(12),
    ]:
        assert ratio_cut_score(other, names) == pytest.approx(expected, rel=1e-14)
    single = graph.astype(np.float32)
    assert ratio_cut_score(single, labels - 1) == pytest.approx(expected, rel=1e-6)


def test_ratio_cut_keeps_the_digits_of_a_small_cut():
    # Taken as degree minus inner weight, 1e-12 beside 1e6 would be lost.
    graph = np.array([[0, 1e6, 1e-12], [1e6, 0, 0], [1e-12, 0, 0]])
    assert ratio_cut_score(graph, [0, 0, 1]) == pytest.approx(1.5e-12, rel=1e-12)


def test_ratio_cut_symmetrises_with_a_warning(global_random_seed):
    graph = random_graph(global_random_seed)
    tilted = graph.copy()
    tilted[0, 1] += 1
    labels = np.arange(12) % 2
    with pytest.warns(UserWarning, match="'graph' matrix is not symmetric"):
        score = ratio_cut_score(tilted, labels)
    mean = (tilted + tilted.T) / 2
    assert score == pytest.approx(ratio_cut_score(mean, labels))


@pytest.mark.parametrize(
    "graph, labels, message",
    [
        (np.ones((2, 3)), [0, 1], "'graph' .* square.* Got shape"),
        (np.full((2, 2), np.nan), [0, 1], "'graph' .* finite. Got NaN"),
        (-np.ones((2, 2)), [0, 1], "negative weights. Got -1.0 instead. Convert dist"),
        (sparse.csr_array(-np.ones((2, 2))), [0, 1], "negative weights. Got -1.0"),
        (np.ones((2, 2)), [0, 1, 1], "'labels' .* row of the graph, 2. Got 3"),
        (np.ones((2, 2)), [[0, 1]], "'labels' .* must be 1-D"),
        (np.ones((2, 2)), [0, np.nan], "'labels' .* NaN in sample 1"),
    ],
)
def test_ratio_cut_refused(graph, labels, message):
    with pytest.raises(ValueError, match=message):
        ratio_cut_score(graph, labels)


def test_incidence_has_two_ones_a_column():
    pairs = np.array([[0, 3], [2, 1], [0, 3]])
    incidence = links_to_incidence(pairs, 5)
    assert isinstance(incidence, sparse.csr_array)
    assert incidence.dtype == np.int8
    expected = np.zeros((5, 3))
    expected[pairs.T, np.arange(3)] = 1
    assert_array_equal(incidence.toarray(), expected)
    assert links_to_incidence([], 4).shape == (4, 0)


@pytest.mark.parametrize(
    "pairs, message",
    [
        ([[1, 1]], "'pairs' parameter of links_to_incidence.* Got sample 1 twice"),
        ([[0, 3]], "'pairs' parameter of links_to_incidence.* Got the index 3"),
        ([[0, -1]], "Got the index -1"),
        ([0, 1], r"index pairs of shape \(n_links, 2\). Got an array of shape \(2,\)"),
        ([[0, 0.5]], "Got the value 0.5"),
    ],
)
def test_incidence_refused(pairs, message):
    with pytest.raises(ValueError, match=message):
        links_to_incidence(pairs, 3)
