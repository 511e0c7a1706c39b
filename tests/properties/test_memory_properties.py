"""Properties of the dynamics of associative memories, and of their loss."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skdiffclust.memories import recall
from skdiffclust.memories._dynamics import Dynamics
from skdiffclust.memories._training import completion_with_gradient

seeds = st.integers(0, 2**32 - 1)
temperatures = st.sampled_from([0.01, 0.3, 1.0, 10.0, 1000.0])


@st.composite
def fields(draw):
    """Rows (n, d) and memories (k, d), on a grid or not, and weights (k,) or None."""
    rng = np.random.RandomState(draw(seeds))
    n, d, k = draw(st.tuples(st.integers(4, 12), st.integers(1, 5), st.integers(1, 5)))
    X, memories = rng.normal(size=(n, d)), rng.normal(size=(k, d))
    if draw(st.booleans()):
        X, memories = np.round(2 * X) / 2, np.round(2 * memories) / 2
    weights = rng.uniform(0.1, 10.0, k) if draw(st.booleans()) else None
    return X, memories, weights


@given(fields(), temperatures, st.floats(0.001, 1.0), st.integers(1, 10))
def test_rows_stay_in_the_convex_hull(field, beta, step_size, n_steps):
    X, memories, weights = field
    options = {"n_steps": n_steps, "step_size": step_size, "weights": weights}
    recalled = recall(X, memories, beta, **options)
    # A hull is where no direction leads beyond the farthest of its points.
    directions = np.random.RandomState(0).normal(size=(X.shape[1], 50))
    reach = (memories @ directions).max(axis=0)
    for row, end in zip(X @ directions, recalled @ directions, strict=True):
        assert (end <= np.maximum(row, reach) + 1e-9).all()


@given(fields(), temperatures, st.integers(-1000, 1000), st.randoms())
def test_moving_all_moves_all_and_the_order_of_memories_is_a_name(
    field, beta, shift, random
):
    X, memories, weights = field
    recalled = recall(X, memories, beta, weights=weights)
    moved = recall(X + shift, memories + shift, beta, weights=weights)
    # The shift costs digits of the distances, which beta magnifies.
    tolerance = 1e-12 * (1 + abs(shift)) * max(beta, 1.0)
    assert np.allclose(moved - shift, recalled, rtol=0, atol=max(tolerance, 1e-9))
    order = list(range(len(memories)))
    random.shuffle(order)
    named = None if weights is None else weights[order]
    again = recall(X, memories[order], beta, weights=named)
    assert np.allclose(again, recalled, rtol=0, atol=1e-9)


@given(seeds, st.integers(1, 10), st.sampled_from(["euclidean", "cosine"]), st.data())
def test_the_explicit_gradient_for_any_number_of_steps(seed, n_steps, metric, data):
    rng = np.random.RandomState(seed)
    X, memories = rng.normal(size=(4, 3)), rng.normal(size=(1, 3, 3))
    if metric == "cosine":
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    log_weights, dynamics = rng.normal(size=(1, 3)), Dynamics(0.7, n_steps, 0.9, metric)
    # Two rows with a hidden feature (eq. 9), two recalled whole (eq. 8).
    hidden = data.draw(st.integers(0, 2))
    groups = [(slice(0, 2), slice(hidden, hidden + 1)), (slice(2, 4), slice(0, 0))]

    def complete(memories, log_weights):
        return completion_with_gradient(
            X,
            memories,
            log_weights,
            dynamics,
            groups=groups,
            fill=np.zeros(3),
            sample_weight=np.array([1.0, 2.0, 0.5, 1.0]),
        )

    found = complete(memories, log_weights)
    by_memories, by_weights = rng.normal(size=(1, 3, 3)), rng.normal(size=(1, 3))
    slope = (found.gradient * by_memories).sum()
    slope += (found.weight_gradient * by_weights).sum()
    # Differences of the fourth order: nine steps are steep.
    h = 1e-5
    up, down, far_up, far_down = (
        complete(memories + t * by_memories, log_weights + t * by_weights).loss[0]
        for t in (h, -h, 2 * h, -2 * h)
    )
    difference = (8 * (up - down) - (far_up - far_down)) / (12 * h)
    assert abs(difference - slope) <= 1e-6 * max(1.0, abs(slope))
