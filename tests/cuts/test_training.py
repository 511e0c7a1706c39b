"""Gradients of batches at every joint, and the estimators of the sampling."""

import numpy as np
import pytest
import scipy.sparse as sp

from skdiffclust._assignments import softmax
from skdiffclust.cuts._models import FreeLogits
from skdiffclust.cuts._objective import CutObjective, block_loss_with_gradients
from skdiffclust.cuts._ratio_cut import (
    check_graph,
    expected_cut_with_gradient,
)
from skdiffclust.cuts._training import Settings, _neighboring_pairs


def settings(**changes):
    defaults = {
        "encoder": "mlp",
        "hidden_widths": [8],
        "activation": "gelu",
        "weight_decay": 0.0,
        "device": "cpu",
        "objective": "bound",
        "balance_weight": 0.0,
        "averaging_rate": 1.0,
        "max_iter": 20,
        "batch_size": 16,
        "learning_rate": 0.01,
    }
    return Settings(**(defaults | changes))


# What the proportions change by where that is not asked.
NO_PARTS = (0.0, 0.0)


def problem(seed=0, n=30, k=3):
    rng = np.random.RandomState(seed)
    dense = np.triu(rng.rand(n, n) * (rng.rand(n, n) < 0.3), 1)
    graph = check_graph(dense + dense.T, caller="test")
    return rng, graph, softmax(rng.normal(size=(n, k)))


def central(function, P, i, j, step=1e-6):
    up, down = P.copy(), P.copy()
    up[i, j] += step
    down[i, j] -= step
    return (function(up) - function(down)) / (2 * step)


@pytest.mark.parametrize("normalized", [False, True])
def test_a_batch_of_all_rows_has_the_full_gradient(normalized, global_random_seed):
    _, graph, P = problem(global_random_seed)
    n = len(P)
    prior = np.array([0.5, 0.3, 0.2])
    degrees = graph.sum(axis=1)
    divisors = degrees if normalized else None
    chosen = settings(objective="exact", balance_weight=2.0)
    trained = CutObjective(graph, chosen, prior, divisors)
    value, balance = trained.start_epoch(P)
    gradient = trained.batch_gradient(np.arange(n), P) / n
    weights = degrees if normalized else np.ones(n)

    def loss(P):
        cut = expected_cut_with_gradient(graph, degrees, P, divisors=divisors)[0]
        mean = weights @ P / weights.sum()
        cut *= weights.sum() / graph.sum()
        return cut + 2.0 * (mean * np.log(mean / prior)).sum()

    assert value + 2.0 * balance == pytest.approx(loss(P))
    for i, j in [(0, 0), (7, 1), (29, 2)]:
        assert gradient[i, j] == pytest.approx(central(loss, P, i, j), abs=1e-7)


def test_blocks_of_the_normalised_cut_by_central_differences(global_random_seed):
    _, graph, P = problem(global_random_seed)
    chosen = settings(balance_weight=2.0)
    divisors = graph.sum(axis=1)
    rows, block = np.arange(20), graph[:10][:, 10:20]
    prior = np.array([0.5, 0.3, 0.2])

    def loss(assignments):
        left, right = assignments[:10], assignments[10:]
        mean = divisors[rows] @ assignments / divisors[rows].sum()
        value = block_loss_with_gradients(block, left, right, mean, NO_PARTS)[0]
        return value + 2.0 * (mean * np.log(mean / prior)).sum()

    trained = CutObjective(graph, chosen, prior, divisors)
    gradient = trained.block_gradient(rows, block, P[:20])
    for i, j in [(0, 0), (7, 2), (12, 1), (19, 0)]:
        expected = central(loss, P[:20], i, j)
        assert gradient[i, j] == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_small_batches_see_what_earlier_ones_changed(global_random_seed):
    rng, graph, P = problem(global_random_seed)
    trained = CutObjective(graph, settings(objective="exact"), np.full(3, 1 / 3))
    trained.start_epoch(P)
    new = softmax(rng.normal(size=(5, 3)))
    trained.batch_gradient(np.arange(5), new)
    np.testing.assert_allclose(trained.memory[:5], new)
    np.testing.assert_allclose(trained.proportions, trained.memory.mean(axis=0))


def test_the_exact_gradient_follows_what_earlier_batches_changed(global_random_seed):
    rng, graph, P = problem(global_random_seed)
    rows, degrees = np.arange(10), graph.sum(axis=1)

    def exact(P):
        gradient = expected_cut_with_gradient(graph, degrees, P)[1]
        return len(P) * trained.scale * gradient[rows]

    ours = frozen = 0.0
    for _ in range(20):
        trained = CutObjective(graph, settings(objective="exact"), np.full(3, 1 / 3))
        trained.start_epoch(P)
        before = trained.batch_gradient(rows, P[rows])
        np.testing.assert_allclose(before, exact(P))
        changed = P.copy()
        changed[10:] = softmax(rng.normal(size=(20, 3)))
        trained.batch_gradient(np.arange(10, 30), changed[10:])
        after = exact(changed)
        ours += np.linalg.norm(trained.batch_gradient(rows, P[rows]) - after)
        frozen += np.linalg.norm(before - after)
    assert 1.5 * ours < frozen


def test_block_gradients_by_central_differences(global_random_seed):
    rng, graph, P = problem(global_random_seed)
    left, right = P[:8], P[10:20]
    block = graph[:8][:, 10:20]

    def loss_left(left):
        mean = 0.5 * left.mean(axis=0) + 0.5 * right.mean(axis=0)
        return block_loss_with_gradients(block, left, right, mean, NO_PARTS)[0]

    def loss_right(right):
        mean = 0.5 * left.mean(axis=0) + 0.5 * right.mean(axis=0)
        return block_loss_with_gradients(block, left, right, mean, NO_PARTS)[0]

    mean = 0.5 * left.mean(axis=0) + 0.5 * right.mean(axis=0)
    parts = 0.5 / len(left), 0.5 / len(right)
    _, gradients = block_loss_with_gradients(block, left, right, mean, parts)
    for i, j in [(0, 0), (3, 2)]:
        assert gradients[0][i, j] == pytest.approx(central(loss_left, left, i, j))
        assert gradients[1][i, j] == pytest.approx(central(loss_right, right, i, j))


@pytest.mark.parametrize("averaging_rate", [0.8, "decreasing"])
def test_proportions_of_blocks_follow_the_last_batch_at_a_rate(
    averaging_rate, global_random_seed
):
    # At a rate of .8, where the batch and what was before cannot change places.
    rng, graph, first = problem(global_random_seed)
    second = softmax(rng.normal(size=(20, 3)))
    chosen = settings(averaging_rate=averaging_rate, balance_weight=2.0)
    prior = np.array([0.5, 0.3, 0.2])
    trained = CutObjective(graph, chosen, prior)
    rows, block = np.arange(20), graph[:10][:, 10:20]
    before, after = (P[:20].mean(axis=0) for P in (first, second))
    trained.block_gradient(rows, block, first[:20])
    np.testing.assert_allclose(trained.running, before)
    gradient = trained.block_gradient(rows, block, second)
    rate = 0.4 if averaging_rate == "decreasing" else 0.8
    running = (1 - rate) * before + rate * after
    np.testing.assert_allclose(trained.running, running)

    # The gradient is that of a batch whose proportions are the running ones, and move
    # with the batch as those of the batch do.
    def loss(P):
        mean = running + P.mean(axis=0) - after
        value = block_loss_with_gradients(block, P[:10], P[10:], mean, NO_PARTS)[0]
        return value + 2.0 * (mean * np.log(mean / prior)).sum()

    for i, j in [(0, 0), (7, 2), (12, 1), (19, 0)]:
        expected = central(loss, second, i, j)
        # The balance term has the pull of a row, (log + 1), for the whole mean.
        assert gradient[i, j] == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_proportions_of_a_stream_follow_these_rows_at_a_rate(global_random_seed):
    rng, graph, P = problem(global_random_seed)
    trained = CutObjective(graph, settings(averaging_rate=0.8), np.full(3, 1 / 3))
    assert trained.start_epoch(P)[0] > 0
    np.testing.assert_array_equal(trained.blended(), trained.proportions)
    trained.past = np.array([0.7, 0.2, 0.1])
    now = 0.2 * trained.past + 0.8 * P.mean(axis=0)
    np.testing.assert_allclose(trained.blended(), now)
    value, balance = trained.start_epoch(P)
    degrees = graph.sum(axis=1)
    cuts = (P * (degrees[:, None] - graph @ P)).sum(axis=0)
    assert value == pytest.approx((cuts / now).sum() / degrees.sum())
    assert balance == pytest.approx((now * np.log(now * 3)).sum())


def test_a_block_without_an_edge_teaches_nothing(global_random_seed):
    _, _, P = problem(global_random_seed)
    empty = sp.csr_array((30, 30))
    parts = 0.5 / len(P), 0.5 / len(P)
    value, gradients = block_loss_with_gradients(empty, P, P, P.mean(axis=0), parts)
    assert value == 0.0 and not np.any(gradients)


def test_sampled_gradients_are_unbiased_for_known_proportions(global_random_seed):
    rng, graph, P = problem(n=20, seed=global_random_seed)
    n, mean = 20, P.mean(axis=0)
    # Without shares in the proportions: they are known.
    _, (half, other) = block_loss_with_gradients(graph, P, P, mean, NO_PARTS)
    full = half + other
    draws = []
    for _ in range(1500):
        gradient = np.zeros_like(P)
        rows, right = (rng.permutation(n)[:10] for _ in range(2))
        block, scale = graph[rows][:, right], (n / 10) ** 2
        total = block.sum()
        _, parts = block_loss_with_gradients(block, P[rows], P[right], mean, NO_PARTS)
        for part, where in zip(parts, (rows, right), strict=True):
            np.add.at(gradient, where, part * total * scale / graph.sum())
        draws.append(gradient)
    draws = np.array(draws)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - full) < 4.5 * error + 1e-12)


def _moves(X, random_state):
    """Return the differences (m, d) of neighbouring samples."""
    near, own = _neighboring_pairs(X, random_state).T
    return X[near] - X[own]


def test_rows_are_moved_to_each_of_their_neighbours_alike(global_random_seed):
    # The ten nearest of a row on a line are those up to five away.
    X = np.arange(512.0)[:, None]
    moves = _moves(X, np.random.RandomState(global_random_seed))
    values, counts = np.unique(np.abs(moves), return_counts=True)
    np.testing.assert_array_equal(values[:5], np.arange(1, 6))
    assert counts[:5].min() > 70 and counts[:5].sum() > 490
    for seed in range(10):
        two = _moves(X[:2], np.random.RandomState(seed))
        np.testing.assert_array_equal(np.abs(two), 1.0)


def test_a_row_on_both_sides_of_a_block_has_the_sum_of_both_gradients():
    logits = FreeLogits(4, 2, None, np.random.RandomState(0))
    steps, numbers = [], np.array([[2], [0], [1], [2]])
    logits.optimiser.step = lambda arrays, gradients: steps.extend(gradients)
    parts = np.arange(8.0).reshape(4, 2)
    logits.step(numbers, lambda values: parts, 1.0)
    np.testing.assert_array_equal(
        steps[0], [parts[1], parts[2], parts[0] + parts[3], [0, 0]]
    )
