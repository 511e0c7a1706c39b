"""Tests of the optimisers, against torch and on their own features."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skdiffclust._optimisers import Adam, Momentum


def drawn(seed, dtype=np.float64):
    rng = np.random.RandomState(seed)
    return [rng.normal(size=(3, 2)).astype(dtype), rng.normal(size=2).astype(dtype)]


@pytest.mark.torch
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-2])
def test_adam_is_that_of_torch(weight_decay, epsilon, global_random_seed):
    import torch

    arrays = drawn(global_random_seed)
    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    theirs = torch.optim.AdamW(leaves, 0.01, weight_decay=weight_decay, eps=epsilon)
    ours = Adam(arrays, 0.01, weight_decay=weight_decay, epsilon=epsilon)
    for step in range(20):
        # Gradients about as small as epsilon, too.
        factor = 10.0 ** -(step % 10)
        ours.step(arrays, [factor * np.cos(array) for array in arrays])
        for leaf in leaves:
            leaf.grad = factor * torch.cos(leaf.detach())
        theirs.step()
    for array, leaf in zip(arrays, leaves, strict=True):
        assert_allclose(array, leaf.detach().numpy(), rtol=1e-12)


@pytest.mark.torch
def test_momentum_is_that_of_torch_without_a_penalty(global_random_seed):
    import torch

    arrays = drawn(global_random_seed)
    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    theirs = torch.optim.SGD(leaves, 0.01, momentum=0.9)
    ours = Momentum(arrays, 0.01)
    for _ in range(20):
        ours.step(arrays, [np.cos(array) for array in arrays])
        for leaf in leaves:
            leaf.grad = torch.cos(leaf.detach())
        theirs.step()
    for array, leaf in zip(arrays, leaves, strict=True):
        assert_allclose(array, leaf.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("optimiser", [Adam, Momentum])
def test_steps_are_in_place_and_keep_the_dtype(optimiser):
    arrays = drawn(0, np.float32)
    before = [array.copy() for array in arrays]
    ours = optimiser(arrays, 0.01)
    ours.step(arrays, before)
    for array, old in zip(arrays, before, strict=True):
        assert array.dtype == np.float32
        assert (array != old).all()
    assert {array.dtype for array in ours.state} == {np.dtype(np.float32)}


def test_momentum_rests_at_the_solution_of_the_penalised_problem():
    # 0.5 (x - 1)² + 0.3 |x| is least at 0.7.
    x = np.array([0.0])
    ours = Momentum([x], 0.05)
    for _ in range(500):
        ours.step([x], [x - 1.0])
        x[...] = np.sign(x) * np.maximum(np.abs(x) - 0.05 * 0.3, 0.0)
    assert_allclose(x, 0.7, rtol=1e-9)


def moved(array, n_steps, optimiser, gradient=np.cos):
    for _ in range(n_steps):
        optimiser.step([array], [gradient(array)])


def test_entries_that_are_reset_forget_their_gradients():
    array = drawn(0)[0]
    ours = Adam([array], 0.01)
    moved(array, 5, ours)
    others = [moment[1:].copy() for moment in ours.state]
    ours.reset((0, [0, 1]))
    for moment, other in zip(ours.state, others, strict=True):
        assert not moment[0].any()
        assert_array_equal(moment[1:], other)
