"""Linear models and perceptrons, against torch, finite differences, and chunks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skdiffclust._encoder import (
    ACTIVATIONS,
    activate,
    backward,
    dropout_masks,
    forward,
    forward_with_inputs,
    init_layers,
)

pytestmark = pytest.mark.numerical
SIZES = [[5, 3], [5, 7, 3], [5, 8, 6, 4, 2]]


def problem(sizes, dtype=np.float64, n=11, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, sizes[0])).astype(dtype)
    return X, *init_layers(sizes, rng, dtype), rng


@pytest.mark.torch
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_every_gradient_is_that_of_torch(
    sizes, dropout, activation, global_random_seed
):
    import torch

    X, weights, biases, rng = problem(sizes, seed=global_random_seed)
    masks = dropout_masks(len(X), weights, dropout, rng)
    output, inputs = forward_with_inputs(X, weights, biases, masks, activation)
    target = rng.normal(size=output.shape)
    gradients = backward(2 * (output - target), inputs, weights, masks)

    leaves = [
        [torch.tensor(array, requires_grad=True) for array in arrays]
        for arrays in (weights, biases)
    ]
    hidden = torch.tensor(X)
    for layer, (weight, bias) in enumerate(zip(*leaves, strict=True)):
        if layer:
            hidden = getattr(torch.nn.functional, activation)(hidden)
            if masks is not None:
                hidden = hidden * torch.tensor(masks[layer - 1])
        hidden = hidden @ weight + bias
    assert_allclose(output, hidden.detach().numpy(), atol=1e-13)
    ((hidden - torch.tensor(target)) ** 2).sum().backward()
    for ours, theirs in zip(gradients, leaves, strict=True):
        for mine, leaf in zip(ours, theirs, strict=True):
            assert_allclose(mine, leaf.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("sizes", SIZES)
def test_every_gradient_is_that_of_central_differences(
    sizes, activation, global_random_seed
):
    X, weights, biases, _ = problem(sizes, seed=global_random_seed)
    output, inputs = forward_with_inputs(X, weights, biases, activation=activation)
    gradients = backward(np.cos(output), inputs, weights)
    for arrays, ours in zip((weights, biases), gradients, strict=True):
        for array, gradient in zip(arrays, ours, strict=True):
            for index in np.ndindex(array.shape):
                value, sides = array[index], []
                for step in (1e-6, -1e-6):
                    array[index] = value + step
                    output = forward(X, weights, biases, activation)
                    sides.append(np.sin(output).sum())
                array[index] = value
                assert_allclose(gradient[index], np.diff(sides)[0] / -2e-6, atol=1e-7)


@pytest.mark.torch
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations_are_those_of_torch_far_out_too(activation, dtype):
    import torch

    far = np.array([-1e30, -40, -6, -1e-20, 0, 1e-20, 0.5, 6, 40, 1e30], dtype=dtype)
    expected = getattr(torch.nn.functional, activation)(torch.tensor(far)).numpy()
    found = activate(far.copy(), activation)
    assert found.dtype == dtype
    tolerance = {np.float32: 3e-7, np.float64: 1e-15}[dtype]
    assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "sizes",
    [[50, 3], [50, 64, 3], [3, 1], [50, 1], [60, 10], [50, 64], [30, 100], [40, 500]],
)
def test_a_sample_does_not_depend_on_its_neighbours(
    sizes, dtype, activation, global_random_seed
):
    X, weights, biases, rng = problem(sizes, dtype, n=700, seed=global_random_seed)
    X[600:] = X[:100]
    whole = forward(X, weights, biases, activation)
    assert whole.dtype == dtype
    assert_array_equal(whole[600:], whole[:100])
    for chunk in (1, 7, 300):
        parts = [
            forward(X[start : start + chunk], weights, biases, activation)
            for start in range(0, len(X), chunk)
        ]
        assert_array_equal(np.concatenate(parts), whole)
    for layout in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
        assert_array_equal(forward(layout, weights, biases, activation), whole)
    by_column = [np.asfortranarray(weight) for weight in weights]
    assert_array_equal(forward(X, by_column, biases, activation), whole)
    training, _ = forward_with_inputs(X, weights, biases, activation=activation)
    assert_allclose(whole, training, atol=1e-5 if dtype == np.float32 else 1e-13)


def test_nothing_passed_is_written(global_random_seed):
    X, weights, biases, rng = problem([5, 7, 3], seed=global_random_seed)
    before = [array.copy() for array in (X, *weights, *biases)]
    output, inputs = forward_with_inputs(X, weights, biases)
    gradient = np.ones_like(output)
    backward(gradient, inputs, weights)
    forward(X, weights, biases)
    for array, copy in zip((X, *weights, *biases), before, strict=True):
        assert_array_equal(array, copy)
    assert_array_equal(gradient, 1)


def test_layers_have_the_scale_of_torch_and_the_dtype_asked_for(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    weights, biases = init_layers([100, 50, 4], rng, np.float32)
    assert [w.shape for w in weights] == [(100, 50), (50, 4)]
    assert [b.shape for b in biases] == [(50,), (4,)]
    assert all(array.dtype == np.float32 for array in (*weights, *biases))
    assert 0.099 < np.abs(weights[0]).max() <= 0.1
    assert 0.13 < np.abs(weights[1]).max() <= 1 / np.sqrt(50)


def test_dropout_keeps_the_mean(global_random_seed):
    weights = [np.zeros((4, 2000), np.float32), np.zeros((2000, 3), np.float32)]
    (mask,) = dropout_masks(
        20, weights, 0.25, np.random.RandomState(global_random_seed)
    )
    assert mask.dtype == np.float32
    assert set(np.unique(mask)) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert abs(mask.mean() - 1) < 0.02
    assert dropout_masks(20, weights, 0.0, None) is None
    assert dropout_masks(20, weights[:1], 0.5, None) is None
