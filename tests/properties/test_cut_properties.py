"""Properties of the ratio-cut, its expectation, its bound, and their gradients."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from skdiffclust.cuts import expected_ratio_cut, ratio_cut, ratio_cut_bound

seeds = st.integers(0, 2**32 - 1)
both = st.sampled_from([expected_ratio_cut, ratio_cut_bound])


@st.composite
def problems(draw, largest=8):
    """A graph (n, n), isolated rows possible, assignments (n, k), and a stream."""
    rng = np.random.RandomState(draw(seeds))
    n, k = draw(st.integers(2, largest)), draw(st.integers(1, 4))
    upper = np.triu(rng.uniform(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.7), 1)
    concentration = draw(st.sampled_from([0.1, 1.0, 10.0]))
    assignments = rng.dirichlet(np.full(k, concentration), n)
    # Every cluster has some share, so that no proportion is floored.
    assignments = 0.999 * assignments + 0.001 / k
    return upper + upper.T, assignments, rng


def trace_form(W, P):
    """L_tr of the whole graph."""
    return float((W @ P * (1 - P)).sum(axis=0) @ (1 / P.mean(axis=0)))


@given(problems(largest=12))
def test_the_bound_holds_and_so_does_that_of_the_paper_with_its_constant(problem):
    W, P, _ = problem
    expected, rounding = expected_ratio_cut(W, P), 1e-12 * W.sum()
    assert expected <= ratio_cut_bound(W, P) + rounding
    assert expected <= np.e**2 * trace_form(W, P) / len(P) + rounding


def test_the_bound_of_the_paper_fails_without_its_constant():
    W, P = np.array([[0.0, 1.0], [1.0, 0.0]]), np.full((2, 2), 0.5)
    assert expected_ratio_cut(W, P) > 0.99 * trace_form(W, P) / 2
    P = np.array([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1]])
    W = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert expected_ratio_cut(W, P) > trace_form(W, P) / 3


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=10))
def test_the_integral_of_a_pair_is_below_that_of_equal_shares(others):
    # Lemma 4.4, for an edge of which one end is surely in and the other surely out.
    m = len(others)
    shares = np.array([1.0, 0.0, *others])
    W = np.zeros((m + 2, m + 2))
    W[0, 1] = W[1, 0] = 1.0
    value = expected_ratio_cut(W, np.column_stack([shares, 1 - shares]))
    nodes, weights = np.polynomial.legendre.leggauss(8)  # exact for this degree
    t = (nodes + 1) / 2
    exact, bound = 0.0, 0.0
    for alpha in (shares[2:], 1 - shares[2:]):
        exact += weights @ np.prod(1 - alpha[:, None] * t, axis=0) / 2
        bound += 1 / ((m + 1) * max(alpha.mean(), 1e-300))
    assert value == pytest.approx(exact, rel=1e-10)
    assert value <= bound * (1 + 1e-12)


@given(problems())
def test_one_convention_everywhere(problem):
    W, P, rng = problem
    n, k = P.shape
    ends = P[:, None] + P - 2 * P[:, None] * P
    double_sum = float((W[:, :, None] * ends).sum(axis=(0, 1)) @ (1 / P.mean(axis=0)))
    assert double_sum == pytest.approx(2 * trace_form(W, P), rel=1e-12, abs=1e-12)
    assert ratio_cut_bound(W, P) == pytest.approx(2 * trace_form(W, P) / n, rel=1e-12)
    labels = rng.randint(0, k, n)
    hard = np.eye(k)[labels][:, np.unique(labels)]
    cut = ratio_cut(W, labels).value
    assert cut == pytest.approx(trace_form(W, hard) / n, rel=1e-12, abs=1e-12)
    assert cut == pytest.approx(expected_ratio_cut(W, hard), rel=1e-10, abs=1e-10)


@given(problems(), both, st.sampled_from([1e-6, 0.5, 3.0, 1e6]), st.randoms())
def test_linear_in_the_graph_and_blind_to_names(problem, function, scale, random):
    W, P, _ = problem
    value, gradient = function(W, P, return_gradient=True)
    scaled, slope = function(scale * W, P, return_gradient=True)
    assert scaled == pytest.approx(scale * value, rel=1e-11, abs=1e-12 * scale)
    assert np.allclose(slope, scale * gradient, rtol=1e-9, atol=1e-12 * scale)
    columns, rows = list(range(P.shape[1])), list(range(len(P)))
    random.shuffle(columns)
    random.shuffle(rows)
    moved = function(sp.csr_array(W[np.ix_(rows, rows)]), P[rows][:, columns])
    assert moved == pytest.approx(value, rel=1e-10, abs=1e-13)


@given(problems(), both)
def test_the_gradient_is_that_of_differences(problem, function):
    W, P, rng = problem
    _, gradient = function(W, P, return_gradient=True)
    # Within the simplex, where both are defined.
    direction = rng.normal(size=P.shape) * P.min()
    direction -= direction.mean(axis=1, keepdims=True)
    step = 1e-3 / max(np.abs(direction / P).max(), 1e-300)
    high, low = (function(W, P + h * direction) for h in (step, -step))
    slope = float((gradient * direction).sum())
    scale = max(np.abs(gradient * direction).sum(), 1e-300)
    assert abs((high - low) / (2 * step) - slope) <= 1e-5 * scale
