"""The explicit gradients of deep ClAM are those of autograd, and of differences."""

import numpy as np
import pytest
import torch
from sklearn.utils import check_random_state

from skdiffclust._encoder import Encoder
from skdiffclust._torch import encoder_module
from skdiffclust.memories import recall
from skdiffclust.memories._autoencoder import (
    Autoencoder,
    recall_with_gradient,
    reconstruction_with_gradient,
)
from skdiffclust.memories._dynamics import Dynamics
from skdiffclust.memories._torch import AutoencoderModule
from skdiffclust.nn import AssociativeMemory


def problem(seed, dtype=np.float64):
    """Return samples, shown, weights, networks, memories, log weights and labels."""
    rng = check_random_state(seed)
    Z = rng.randn(12, 6).astype(dtype)
    shown = np.where(rng.uniform(size=Z.shape) < 0.2, dtype(0), Z)
    weight = rng.uniform(0.5, 2.0, 12).astype(dtype)
    encoder = Encoder.with_random_weights([6, 8, 3], rng, dtype)
    decoder = Encoder.with_random_weights([3, 7, 6], rng, dtype)
    memories = rng.randn(4, 3).astype(dtype)
    return (
        Z,
        shown,
        weight,
        encoder,
        decoder,
        memories,
        0.3 * rng.randn(4),
        rng.randint(4, size=12),
    )


@pytest.mark.parametrize("n_steps, step_size", [(1, 0.5), (3, 0.3), (4, 1.0)])
def test_gradients_are_those_of_autograd(n_steps, step_size, global_random_seed):
    Z, shown, weight, encoder, decoder, memories, bias, labels = problem(
        global_random_seed
    )
    dynamics = Dynamics(0.7, n_steps, step_size, "euclidean")
    loss, gradients = recall_with_gradient(
        shown, Z, weight, encoder, decoder, memories, bias, dynamics, labels
    )
    layer = AssociativeMemory(
        4,
        3,
        inverse_temperature=0.7,
        n_steps=n_steps,
        step_size=step_size,
        memories=memories,
    ).double()
    with torch.no_grad():
        layer.memories.copy_(torch.from_numpy(memories))
        layer.log_weights.copy_(torch.from_numpy(bias))
    modules = encoder_module(encoder), encoder_module(decoder)
    tensors = (torch.from_numpy(a) for a in (Z, shown, weight, labels))
    Z_, shown_, weight_, labels_ = tensors
    twin = layer.reconstruction_loss(Z_, *modules, shown_, weight_, labels_)
    assert loss == pytest.approx(float(twin.detach()), rel=1e-12)
    twin.backward()
    expected = []
    for module in modules:
        linear = [part for part in module if hasattr(part, "weight")]
        expected += [part.weight.grad.T for part in linear]
        expected += [part.bias.grad for part in linear]
    expected.append(layer.memories.grad)
    for found, grad in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(found, grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["reconstruction", "recall"])
def test_gradients_are_those_of_differences(kind, global_random_seed):
    Z, shown, weight, encoder, decoder, memories, bias, labels = problem(
        global_random_seed
    )
    dynamics = Dynamics(1.3, 2, 0.4, "euclidean")

    def value():
        if kind == "reconstruction":
            return reconstruction_with_gradient(shown, Z, weight, encoder, decoder)
        return recall_with_gradient(
            shown, Z, weight, encoder, decoder, memories, bias, dynamics, labels
        )

    arrays = [*encoder.arrays, *decoder.arrays]
    arrays += [memories] if kind == "recall" else []
    gradients = value()[1]
    rng = np.random.RandomState(global_random_seed)
    for array, gradient in zip(arrays, gradients, strict=True):
        way = rng.randn(*array.shape)
        before = array.copy()
        ends = []
        for sign in (1, -1):
            array[...] = before + sign * 1e-6 * way
            ends.append(value()[0])
        array[...] = before
        slope = (ends[0] - ends[1]) / 2e-6
        assert slope == pytest.approx(np.sum(way * gradient), rel=1e-5, abs=1e-8)


def test_the_loss_is_that_of_decoded_recall(global_random_seed):
    Z, shown, weight, encoder, decoder, memories, bias, labels = problem(
        global_random_seed
    )
    dynamics = Dynamics(0.9, 3, 0.5, "euclidean")
    loss, _ = recall_with_gradient(
        shown, Z, weight, encoder, decoder, memories, bias, dynamics, labels
    )
    code = encoder.outputs(shown)
    recalled = recall(
        code, memories, 0.9, n_steps=3, step_size=0.5, weights=np.exp(bias)
    )
    error = np.square(decoder.outputs(recalled) - Z).mean(axis=1)
    far = np.square(code[:, None] - memories).sum(axis=2)
    share = np.exp(bias - 0.9 * far)
    share /= share.sum(axis=1, keepdims=True)
    error -= np.log(share[np.arange(12), labels])
    assert loss == pytest.approx(np.average(error, weights=weight))


def test_steps_are_those_of_torch(global_random_seed):
    Z, shown, weight, encoder, decoder, memories, bias, labels = problem(
        global_random_seed
    )
    ours = Autoencoder(encoder, decoder, 4, 1e-2)
    layer = AssociativeMemory(4, 3, inverse_temperature=1.0).double()
    modules = encoder_module(encoder), encoder_module(decoder)
    twin = AutoencoderModule(*modules, layer, 1e-2)
    target = labels, bias, Dynamics(0.9, 2, 0.4, "euclidean")
    for stage in (None, target):
        for model in (ours, twin):
            model.memories = memories.copy()
            model.restart()
        for _ in range(5):
            losses = [model.step(shown, Z, weight, stage) for model in (ours, twin)]
            assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    np.testing.assert_allclose(ours.codes(Z), twin.codes(Z), rtol=1e-7)
    np.testing.assert_allclose(ours.memories, twin.memories, rtol=1e-7)
    for found, expected in zip(ours.kept(), twin.kept_arrays(), strict=True):
        for kind in (0, 1):
            for a, b in zip(found[kind], expected[kind], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_out_of_device_memory_adds_up_parts(monkeypatch, global_random_seed):
    Z, shown, weight, encoder, decoder, memories, bias, labels = problem(
        global_random_seed
    )
    found = {}
    for most in (100, 4):
        layer = AssociativeMemory(4, 3, inverse_temperature=1.0).double()
        modules = encoder_module(encoder), encoder_module(decoder)
        twin = AutoencoderModule(*modules, layer, 1e-2)
        real = twin._loss

        def small(Z, *arguments, real=real, most=most):
            if len(Z) > most:
                raise torch.cuda.OutOfMemoryError("full")
            return real(Z, *arguments)

        monkeypatch.setattr(twin, "_loss", small)
        target = labels, bias, Dynamics(0.9, 2, 0.4, "euclidean")
        twin.memories = memories
        twin.restart()
        losses = [twin.step(shown, Z, weight, target) for _ in range(3)]
        found[most] = [*losses, *twin.state().values()]
    for one, other in zip(found[100], found[4], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-10)
    monkeypatch.setattr(twin, "_loss", lambda *_: small(np.zeros(9)))
    with pytest.raises(
        torch.cuda.OutOfMemoryError, match="batches of 12 samples in 4 parts"
    ):
        twin.step(shown, Z, weight, target)


def test_float32_stays(global_random_seed):
    Z, shown, weight, encoder, decoder, memories, bias, labels = problem(
        global_random_seed, np.float32
    )
    dynamics = Dynamics(0.9, 2, 0.4, "euclidean")
    arguments = shown, Z, weight, encoder, decoder
    for loss, gradients in (
        reconstruction_with_gradient(*arguments),
        recall_with_gradient(*arguments, memories, bias, dynamics, labels),
    ):
        assert isinstance(loss, float)
        assert all(gradient.dtype == np.float32 for gradient in gradients)
