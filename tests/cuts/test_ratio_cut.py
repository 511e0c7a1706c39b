"""The cut, its expectation and its bound against enumeration and each other."""

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from skdiffclust.cuts import expected_ratio_cut, ratio_cut, ratio_cut_bound
from skdiffclust.cuts._ratio_cut import expected_cut_with_gradient

FUNCTIONS = [expected_ratio_cut, ratio_cut_bound]


def random_graph(rng, n, density=0.7):
    """Return a dense symmetric affinity (n, n), isolated rows possible."""
    upper = np.triu(rng.random_sample((n, n)) * (rng.rand(n, n) < density), 1)
    return upper + upper.T


def random_assignments(rng, n, k, concentration=0.5):
    return rng.dirichlet(np.full(k, concentration), size=n)


def enumerated(graph, assignments, normalized):
    """Return the expectation by all k^n partitions."""
    n, k = assignments.shape
    total = 0.0
    for labels in itertools.product(range(k), repeat=n):
        labels = np.array(labels)
        probability = assignments[np.arange(n), labels].prod()
        total += probability * ratio_cut(graph, labels, normalized=normalized).value
    return total


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_clusters", [1, 2, 5, 12])
def test_ratio_cut_is_the_trace_and_the_sum_of_cuts(
    seed, n_clusters, global_random_seed
):
    seed += 1000 * global_random_seed
    graph = random_graph(np.random.RandomState(seed), 12, 0.5)
    labels = np.random.default_rng(seed).permutation(np.arange(12) % n_clusters)
    onehot = (labels[:, None] == np.arange(n_clusters)).astype(float)
    indicator = onehot / np.sqrt(onehot.sum(axis=0))
    laplacian = np.diag(graph.sum(axis=1)) - graph
    trace = np.trace(indicator.T @ laplacian @ indicator)
    cuts = sum(
        graph[np.ix_(labels == c, labels != c)].sum() / (labels == c).sum()
        for c in range(n_clusters)
    )
    score = ratio_cut(graph, labels).value
    assert isinstance(score, float)
    np.testing.assert_allclose([score, cuts], [trace, trace], rtol=1e-12, atol=1e-13)


def test_ratio_cut_of_every_container(global_random_seed):
    graph = random_graph(np.random.RandomState(global_random_seed), 12, 0.5)
    labels = np.arange(12) % 3
    expected = ratio_cut(graph, labels).value
    names = np.array(["x", "y", "z"])[labels]
    for other in [
        sp.csr_array(graph),
        sp.csc_matrix(graph),
        sp.coo_array(graph),
        pd.DataFrame(graph),
        graph + 5 * np.eye(12),
    ]:
        assert ratio_cut(other, names).value == pytest.approx(expected, rel=1e-14)
    single = graph.astype(np.float32)
    assert ratio_cut(single, labels - 1).value == pytest.approx(expected, rel=1e-6)


def test_ratio_cut_keeps_the_digits_of_a_small_cut():
    # Taken as degree minus inner weight, 1e-12 beside 1e6 would be lost.
    graph = np.array([[0, 1e6, 1e-12], [1e6, 0, 0], [1e-12, 0, 0]])
    assert ratio_cut(graph, [0, 0, 1]).value == pytest.approx(1.5e-12, rel=1e-12)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31 - 1), st.integers(2, 7), st.booleans())
def test_expectation_is_the_enumeration(seed, n, normalized):
    rng = np.random.RandomState(seed)
    graph = random_graph(rng, n)
    P = random_assignments(rng, n, 2)
    expected = enumerated(graph, P, normalized)
    value = expected_ratio_cut(graph, P, normalized=normalized)
    assert value == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("n, k", [(100, 3), (1000, 10), (600, 100)])
def test_hard_assignments_give_the_cut_itself(n, k, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    generator = np.random.default_rng(global_random_seed)
    graph = sp.random_array((n, n), density=10 / n, rng=generator, format="csr")
    graph = graph + graph.T
    labels = rng.randint(k, size=n)
    labels[:k] = np.arange(k)  # the bound warns of empty clusters
    P = np.eye(k)[labels]
    value = ratio_cut(graph, labels).value
    assert expected_ratio_cut(graph, P) == pytest.approx(value, rel=1e-11)
    assert ratio_cut_bound(graph, P) == pytest.approx(2 * value, rel=1e-12)
    volume = ratio_cut(graph, labels, normalized=True).value
    found = expected_ratio_cut(graph, P, normalized=True)
    assert found == pytest.approx(volume, rel=1e-10)


@pytest.mark.parametrize("n", [60, 300, 3000])
def test_quadrature_of_many_rows_agrees_with_a_fine_one(n, global_random_seed):
    # The Poisson-binomial law itself, by its recursion, for one pair of rows.
    rng = np.random.RandomState(global_random_seed)
    P = random_assignments(rng, n, 4)
    graph = sp.coo_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(n, n)).tocsr()
    expected = 0.0
    for p in P.T:
        law = np.ones(1)
        for q in p[2:]:
            law = np.append(law, 0) * (1 - q) + np.append(0, law) * q
        mean = (law / np.arange(1, len(law) + 1)).sum()
        expected += (p[0] + p[1] - 2 * p[0] * p[1]) * mean
    assert expected_ratio_cut(graph, P) == pytest.approx(expected, rel=1e-11)


def test_the_constant_two_is_sharp():
    # One column of two rows that are almost surely in the cluster, and one edge.
    graph = sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    ones, P = np.ones(2), np.full((2, 1), 1 - 1e-6)
    bound = 2 * (P[:, 0] @ (1 - P[:, 0])) / P.sum()  # the term of one cluster
    value, _ = expected_cut_with_gradient(graph, ones, P)
    assert 0.999 * bound < value <= bound


@pytest.mark.parametrize("normalized", [False, True])
def test_exact_gradient_by_central_differences_of_many_rows(
    normalized, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    generator = np.random.default_rng(global_random_seed)
    graph = sp.random_array((400, 400), density=0.02, rng=generator, format="csr")
    graph = sp.csr_array(graph + graph.T)
    degrees = graph.sum(axis=1)
    divisors = degrees if normalized else None
    P = random_assignments(rng, 400, 4, 2.0)
    P = 0.9 * P + 0.1 / 4

    def value_at(P):
        return expected_cut_with_gradient(graph, degrees, P, divisors=divisors)[0]

    _, gradient = expected_cut_with_gradient(graph, degrees, P, divisors=divisors)
    for i, j in [(0, 0), (17, 2), (399, 3)]:
        step = np.zeros_like(P)
        step[i, j] = 1e-5
        slope = (value_at(P + step) - value_at(P - step)) / 2e-5
        assert gradient[i, j] == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_the_cut_reports_what_belongs_to_it(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    graph, labels = random_graph(rng, 20), rng.choice([3, 5, 9], size=20)
    labels[0] = -1
    cut = ratio_cut(graph, labels)
    assert cut.value > 0
    assert (cut.n_clusters, cut.smallest_size) == (4, 1)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_empty_columns_and_isolated_rows_stay_finite(function):
    graph = np.zeros((4, 4))
    graph[0, 1] = graph[1, 0] = 2.0
    P = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    normalised = [{}] if function is ratio_cut_bound else [{}, {"normalized": True}]
    for options in normalised:
        value, gradient = function(graph, P, return_gradient=True, **options)
        assert np.isfinite(value) and np.isfinite(gradient).all()
        assert function(np.zeros((4, 4)), P, **options) == 0.0


def test_the_bound_warns_of_an_empty_column():
    graph = np.ones((3, 3))
    P = np.array([[1.0, 0.0]] * 3)
    with pytest.warns(UserWarning, match="1 of 2 clusters are empty"):
        _, gradient = ratio_cut_bound(graph, P, return_gradient=True)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize(
    "graph, match",
    [
        (np.ones((2, 3)), "must be a square matrix"),
        (np.ones(4), "Expected 2D array"),
        ([[0.0, -1.0], [-1.0, 0.0]], "must not have negative weights. Got -1.0"),
        ([[0.0, np.nan], [np.nan, 0.0]], "must be finite. Got NaN"),
        (sp.csr_array([[0.0, np.inf], [np.inf, 0.0]]), "must be finite. Got inf"),
        ([[0.0, 1e308], [1e308, 0.0]], "whose sum fits float64"),
        (np.ma.masked_array(np.ones((2, 2))), "masked array"),
    ],
)
def test_wrong_graphs_are_refused(graph, match):
    with pytest.raises(ValueError, match=match):
        expected_ratio_cut(graph, [[1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    "assignments, match",
    [
        ([[1.0, 0.0]], r"must have shape \(2, n_clusters\)"),
        ([[1.0, 0.5], [0.0, 1.0]], "sum to one"),
        ([[1.5, -0.5], [0.0, 1.0]], "sum to one"),
        ([[np.nan, 1.0], [0.0, 1.0]], "sum to one"),
    ],
)
def test_wrong_assignments_are_refused(assignments, match):
    for function in FUNCTIONS:
        with pytest.raises(ValueError, match=match):
            function(np.ones((2, 2)), assignments)


def test_wrong_labels_are_refused():
    with pytest.raises(ValueError, match="one entry for each sample of the graph, 2"):
        ratio_cut(np.ones((2, 2)), [0, 1, 1])


def test_what_is_not_symmetric_is_symmetrised_with_a_warning():
    graph = [[0.0, 1.0], [3.0, 0.0]]
    with pytest.warns(UserWarning, match="not symmetric"):
        assert ratio_cut(graph, [0, 1]).value == 4.0


def test_what_would_be_converted_without_a_word_is_refused():
    graph, assignments = np.ones((2, 2)), np.full((2, 2), 0.5)
    for wrong in (
        lambda array: array.astype(complex),
        lambda array: array.astype(str),
        lambda array: np.ma.masked_array(array, array > 0.7),
    ):
        with pytest.raises(ValueError, match="'affinity' parameter must be"):
            expected_ratio_cut(wrong(graph), assignments)
        with pytest.raises(ValueError, match="'assignments' parameter must be"):
            expected_ratio_cut(graph, wrong(assignments))
    for labels, message in (
        (np.ma.masked_array([0, 1], [0, 1]), "masked array"),
        ([0, np.nan], "must not contain NaN. Got NaN in sample 1"),
    ):
        with pytest.raises(ValueError, match=f"'labels' parameter.*{message}"):
            ratio_cut(graph, labels)
