"""The explicit gradient: against differences, and the NumPy definition."""

import numpy as np
import pytest

from skdiffclust.memories import recall
from skdiffclust.memories._dynamics import Dynamics
from skdiffclust.memories._optimise import mask_groups
from skdiffclust.memories._training import completion_with_gradient

N, D, K, R = 24, 7, 5, 3
MASKED = [(slice(0, 9), slice(0, 2)), (slice(9, N), slice(2, 5))]
PLAIN = [(slice(0, N), slice(0, 0))]
MIXED = [
    (slice(0, 9), slice(0, 2)),
    (slice(9, 15), slice(2, 5)),
    (slice(15, N), slice(0, 0)),
]
STEPS = [(1, 1.0), (2, 0.7), (3, 1.0), (4, 1.6), (10, 0.1)]


def problem(metric, *, fill=True, seed=0):
    """Return rows, memories of three restarts, log weights, fill, sample weights."""
    rng = np.random.RandomState(seed)
    X = rng.randn(N, D)
    if metric == "cosine":
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[0] = np.eye(D)[0]  # nothing is seen of it where its first feature is hidden
    fill = 0.3 * rng.randn(D) * fill
    return X, rng.randn(R, K, D), 0.5 * rng.randn(R, K), fill, rng.rand(N)


def hidden_of(groups):
    """Return (N, D) True where hidden, and (N, D) True where scored."""
    hidden, scored = np.zeros((N, D), dtype=bool), np.zeros((N, D), dtype=bool)
    for rows, features in groups:
        hidden[rows, features] = True
        scored[rows, features if features.stop else slice(None)] = True
    return hidden, scored


@pytest.mark.parametrize(
    "metric, beta, groups",
    [
        ("euclidean", 0.7, MASKED),
        ("euclidean", 0.7, PLAIN),
        ("euclidean", 0.7, MIXED),
        ("cosine", 4.0, PLAIN),
        ("manhattan", 3.0, MASKED),
        ("manhattan", 3.0, PLAIN),
    ],
)
@pytest.mark.parametrize("n_steps, step_size", STEPS)
@pytest.mark.parametrize("fill", [False, True])
def test_gradient_is_central_differences(
    metric, beta, groups, n_steps, step_size, fill, global_random_seed
):
    step_size = min(step_size, 1.0) if metric == "manhattan" else step_size
    X, memories, log_weights, fill, weight = problem(
        metric, fill=fill, seed=global_random_seed + 1
    )
    dynamics = Dynamics(beta, n_steps, step_size, metric)

    def run(memories, log_weights):
        return completion_with_gradient(
            X,
            memories,
            log_weights,
            dynamics,
            groups=groups,
            fill=fill,
            sample_weight=weight,
        )

    rng = np.random.RandomState(global_random_seed + 2)
    found = run(memories, log_weights)
    for _ in range(5):
        first, second = rng.randn(*memories.shape), rng.randn(*log_weights.shape)
        h = 1e-6
        above = run(memories + h * first, log_weights + h * second)
        below = run(memories - h * first, log_weights - h * second)
        slope = (above.loss - below.loss) / (2 * h)
        expected = np.einsum("rkd,rkd->r", found.gradient, first)
        expected += np.einsum("rk,rk->r", found.weight_gradient, second)
        np.testing.assert_allclose(slope, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    "metric, groups",
    [
        ("euclidean", MASKED),
        ("euclidean", PLAIN),
        ("euclidean", MIXED),
        ("cosine", PLAIN),
        ("manhattan", MASKED),
        ("manhattan", PLAIN),
        ("manhattan", MIXED),
    ],
)
def test_loss_is_that_of_the_definition(metric, groups, global_random_seed):
    X, memories, log_weights, fill, weight = problem(metric, seed=global_random_seed)
    dynamics = Dynamics(2.0, 3, 0.8, metric)
    found = completion_with_gradient(
        X,
        memories,
        log_weights,
        dynamics,
        groups=groups,
        fill=fill,
        sample_weight=weight,
    )
    hidden, scored = hidden_of(groups)
    mask = np.where(hidden.any(axis=1, keepdims=True), ~hidden, False)
    for r in range(R):
        recalled = recall(
            np.where(hidden, fill, X),
            memories[r],
            2.0,
            n_steps=3,
            step_size=0.8,
            weights=np.exp(log_weights[r]),
            metric=metric,
            mask=mask,
        )
        error = recalled - X
        error = np.abs(error) if metric == "manhattan" else error**2
        expected = (weight[:, None] * error * scored).sum()
        np.testing.assert_allclose(found.loss[r], expected)
    np.testing.assert_allclose(found.attracted.sum(axis=1), weight.sum())


def test_float32_stays_float32_and_agrees(global_random_seed):
    X, memories, log_weights, fill, weight = problem(
        "euclidean", seed=global_random_seed
    )
    # Higher inverse temperatures amplify rounding where two memories are equally near.
    dynamics = Dynamics(0.3, 3, 1.0, "euclidean")
    options = dict(groups=MIXED, fill=fill, sample_weight=weight)
    double = completion_with_gradient(X, memories, log_weights, dynamics, **options)
    single = completion_with_gradient(
        X.astype("f4"), memories.astype("f4"), log_weights, dynamics, **options
    )
    assert single.gradient.dtype == np.float32
    scale = np.abs(double.gradient).max()
    np.testing.assert_allclose(single.gradient, double.gradient, atol=5e-6 * scale)


@pytest.mark.parametrize("beta", [1e-300, 1e-6, 1e6, 1e150])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_finite_at_every_temperature(beta, metric, global_random_seed):
    X, memories, log_weights, fill, weight = problem(metric, seed=global_random_seed)
    found = completion_with_gradient(
        X,
        memories,
        log_weights,
        Dynamics(beta, 3, 1.0, metric),
        groups=PLAIN if metric == "cosine" else MIXED,
        fill=fill,
        sample_weight=weight,
    )
    assert np.isfinite(found.loss).all()
    assert np.isfinite(found.gradient).all()


def test_cold_gradient_is_that_of_k_means(global_random_seed):
    X, memories, log_weights, fill, weight = problem(
        "euclidean", seed=global_random_seed
    )
    found = completion_with_gradient(
        X,
        memories,
        0 * log_weights,
        Dynamics(1e4, 2, 1.0, "euclidean"),
        groups=[(slice(0, N), slice(0, 0))],
        fill=fill,
        sample_weight=np.ones(N),
    )
    far = ((X[None, :, None] - memories[:, None]) ** 2).sum(-1)
    np.testing.assert_allclose(found.loss, far.min(axis=2).sum(axis=1))
    nearest = np.eye(K)[far.argmin(axis=2)]
    means = 2 * (nearest.sum(1)[:, :, None] * memories - nearest.transpose(0, 2, 1) @ X)
    np.testing.assert_allclose(found.gradient, means, atol=1e-9)


@pytest.mark.parametrize("n_features", [1, 2, 5, 7, 20, 90])
@pytest.mark.parametrize("n_rows", [1, 5, 7, 100, 300])
def test_every_feature_is_hidden_equally_often(n_features, n_rows, global_random_seed):
    order, groups = mask_groups(
        n_rows, n_features, 0.15, np.random.RandomState(global_random_seed)
    )
    assert sorted(order) == list(range(n_features))
    sizes = [features.stop - features.start for _, features in groups]
    assert max(sizes) <= (max(1, -(-n_features // 7)) if n_features > 1 else 0)
    hidden = [np.arange(n_features)[block] for _, block in groups]
    if n_rows == 300:
        expected = list(range(n_features)) if n_features > 1 else []
        assert sorted(np.concatenate(hidden)) == expected
    assert sum(map(len, hidden)) == len(np.unique(np.concatenate(hidden)))
    masked = [rows.stop - rows.start for rows, block in groups if block.stop]
    assert len(masked) < 2 or min(masked) >= 16
    covered = np.concatenate([np.arange(n_rows)[rows] for rows, _ in groups])
    assert sorted(covered) == list(range(n_rows))
