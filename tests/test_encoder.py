"""Linear models and perceptrons, against torch, finite differences, and chunks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skdiffclust._encoder import ACTIVATIONS, Encoder

pytestmark = pytest.mark.numerical
SIZES = [[5, 3], [5, 7, 3], [5, 8, 6, 4, 2]]


def problem(sizes, dtype=np.float64, n=11, seed=0, activation="relu"):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, sizes[0])).astype(dtype)
    encoder = Encoder.with_random_weights(sizes, rng, dtype, activation=activation)
    return X, encoder, rng


@pytest.mark.torch
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("sizes", SIZES)
def test_every_gradient_is_that_of_torch(sizes, activation, global_random_seed):
    import torch

    X, encoder, rng = problem(sizes, seed=global_random_seed, activation=activation)
    output, inputs = encoder.forward(X)
    target = rng.normal(size=output.shape)
    gradients = encoder.backward(2 * (output - target), inputs)

    leaves = [torch.tensor(array, requires_grad=True) for array in encoder.arrays]
    function = getattr(torch.nn, ACTIVATIONS[activation].module)()
    hidden = torch.tensor(X)
    half = len(leaves) // 2
    for layer, (weight, bias) in enumerate(
        zip(leaves[:half], leaves[half:], strict=True)
    ):
        if layer:
            hidden = function(hidden)
        hidden = hidden @ weight + bias
    assert_allclose(output, hidden.detach().numpy(), atol=1e-13)
    ((hidden - torch.tensor(target)) ** 2).sum().backward()
    for gradient, leaf in zip(gradients, leaves, strict=True):
        assert_allclose(gradient, leaf.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("sizes", SIZES)
def test_every_gradient_is_that_of_central_differences(
    sizes, activation, global_random_seed
):
    X, encoder, _ = problem(sizes, seed=global_random_seed, activation=activation)
    output, inputs = encoder.forward(X)
    gradients = encoder.backward(np.cos(output), inputs)
    for array, gradient in zip(encoder.arrays, gradients, strict=True):
        for index in np.ndindex(array.shape):
            value = array[index]
            sides = []
            for step in (1e-6, -1e-6):
                array[index] = value + step
                sides.append(np.sin(encoder.outputs(X)).sum())
            array[index] = value
            assert_allclose(gradient[index], np.diff(sides)[0] / -2e-6, atol=1e-7)


@pytest.mark.torch
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations_are_those_of_torch_far_out_too(activation, dtype):
    import torch

    far = np.array([-1e30, -40, -6, -1e-20, 0, 1e-20, 0.5, 6, 40, 1e30], dtype=dtype)
    row = ACTIVATIONS[activation]
    expected = getattr(torch.nn, row.module)()(torch.tensor(far)).numpy()
    tolerance = {np.float32: 3e-7, np.float64: 1e-15}[dtype]
    for with_derivative in (False, True):
        # Far out, GELU's derivative is the limit 0 or 1 of what overflows.
        with np.errstate(over="ignore"):
            found, derivative = row.function(far.copy(), with_derivative)
        assert found.dtype == dtype
        assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        assert (derivative is None) != with_derivative


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "sizes",
    [[50, 3], [50, 64, 3], [3, 1], [50, 1], [60, 10], [50, 64], [30, 100], [40, 500]],
)
def test_a_sample_does_not_depend_on_its_neighbours(
    sizes, dtype, activation, global_random_seed
):
    X, encoder, _ = problem(sizes, dtype, 700, global_random_seed, activation)
    X[600:] = X[:100]
    for method in (encoder.outputs, encoder.hidden):
        whole = method(X)
        assert whole.dtype == dtype
        assert_array_equal(whole[600:], whole[:100])
        for chunk in (1, 7, 300):
            parts = [
                method(X[start : start + chunk]) for start in range(0, len(X), chunk)
            ]
            assert_array_equal(np.concatenate(parts), whole)
        for layout in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
            assert_array_equal(method(layout), whole)
    whole = encoder.outputs(X)
    by_column = [np.asfortranarray(weight) for weight in encoder.weights]
    by_column = Encoder(by_column, encoder.biases, activation)
    assert_array_equal(by_column.outputs(X), whole)
    training, inputs = encoder.forward(X)
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    assert_allclose(whole, training, atol=tolerance)
    assert_allclose(encoder.hidden(X), inputs[-1][0], atol=tolerance)


def test_layers_have_the_scale_of_torch_and_the_dtype_asked_for(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    encoder = Encoder.with_random_weights([100, 50, 4], rng, np.float32)
    shapes = [array.shape for array in encoder.arrays]
    assert shapes == [(100, 50), (50, 4), (50,), (4,)]
    assert all(array.dtype == np.float32 for array in encoder.arrays)
    assert 0.099 < np.abs(encoder.weights[0]).max() <= 0.1
    assert 0.13 < np.abs(encoder.weights[1]).max() <= 1 / np.sqrt(50)


def test_what_changes_the_outputs(global_random_seed):
    X, encoder, rng = problem([5, 7, 3], seed=global_random_seed, activation="tanh")
    outputs = encoder.outputs(X)
    order = rng.permutation(3)
    assert_array_equal(encoder.permute_outputs(order).outputs(X), outputs[:, order])
    assert_allclose(encoder.scaled(2.5).outputs(X), 2.5 * outputs)
    assert_allclose(encoder.shifted(order).outputs(X), outputs + order)
    assert_array_equal(encoder.outputs(X), outputs)
