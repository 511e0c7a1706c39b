"""Explicit gradients of an embedding, against autograd and central differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skdiffclust._constraints import as_constraints
from skdiffclust._encoder import Encoder
from skdiffclust.forests._embedding._informed_batches import InformedBatches
from skdiffclust.forests._embedding._start import EmbeddingSettings
from skdiffclust.forests._embedding._training import EncoderTrainer
from skdiffclust.forests._perturbed._affinity import (
    standardized_affinity,
    standardized_affinity_with_vjp,
)

KINDS = ["sqeuclidean", "cosine"]
ENCODERS = [[4, 3], [4, 6, 5, 3]]


def rows(seed, n=12, d=3):
    return np.random.RandomState(seed).normal(size=(n, d))


@pytest.mark.numerical
@pytest.mark.parametrize("kind", KINDS)
def test_the_affinity_is_differentiated_as_by_central_differences(
    kind, global_random_seed
):
    embedding = rows(global_random_seed)
    weights = rows(global_random_seed + 1, 12, 12)  # not symmetric
    affinity, vjp = standardized_affinity_with_vjp(embedding, kind)
    assert_allclose(affinity.mean(), 0, atol=1e-14)
    assert_allclose(affinity.std(), 1)
    gradient = vjp(weights)
    for index in np.ndindex(embedding.shape):
        sides = []
        for step in (1e-6, -1e-6):
            moved = embedding.copy()
            moved[index] += step
            sides.append(np.vdot(weights, standardized_affinity(moved, kind)))
        assert_allclose(
            gradient[index], np.diff(sides)[0] / -2e-6, rtol=1e-6, atol=1e-7
        )


@pytest.mark.torch
@pytest.mark.numerical
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("repeated", [False, True])
def test_the_affinity_is_that_of_torch(kind, repeated, global_random_seed):
    import torch

    from skdiffclust.forests._perturbed import _torch

    embedding = rows(global_random_seed)
    if repeated:
        embedding[5:9] = embedding[0]
    weights = rows(global_random_seed + 1, 12, 12)
    leaf = torch.tensor(embedding, requires_grad=True)
    theirs = _torch.standardized_affinity(leaf, kind)
    (theirs * torch.tensor(weights)).sum().backward()
    ours, vjp = standardized_affinity_with_vjp(embedding, kind)
    assert_allclose(ours, theirs.detach().numpy(), atol=1e-12)
    # Where rounding decides the sign of a distance, its gradient may be dropped or not.
    if not repeated:
        assert_allclose(vjp(weights), leaf.grad.numpy(), atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_samples_have_no_affinity_and_a_finite_gradient(kind):
    affinity, vjp = standardized_affinity_with_vjp(np.ones((6, 2)), kind)
    assert_allclose(affinity, 0, atol=1e-12)
    assert np.isfinite(vjp(rows(0, 6, 6))).all()


def problem(sizes, affinity, seed, dtype=np.float64):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(24, 4)).astype(dtype)
    labels = np.where(np.arange(24) % 2, np.arange(24) % 3, -1)
    constraints = as_constraints(24, partial_labels=labels)
    settings = EmbeddingSettings(
        affinity,
        n_perturbations=20,
        batch_size=12,
        noise_scale=0.3,
        learning_rate=1e-3,
    )
    encoder = Encoder.with_random_weights(sizes, rng, dtype)
    return settings, encoder, X, InformedBatches(constraints, None, 3)


@pytest.mark.torch
@pytest.mark.numerical
@pytest.mark.parametrize("affinity", KINDS)
@pytest.mark.parametrize("sizes", ENCODERS)
def test_the_loss_of_a_batch_has_the_gradients_of_autograd(
    sizes, affinity, global_random_seed
):
    from skdiffclust._torch import encoder_module, module_encoder
    from skdiffclust.forests._embedding._torch import ModuleTrainer

    settings, encoder, X, batches = problem(sizes, affinity, global_random_seed)
    (batch, *_) = batches.epoch(12, np.random.RandomState(0))
    module = encoder_module(encoder)
    rng = np.random.RandomState(1)
    twin = ModuleTrainer(settings, module, X, 3, rng, "cpu", None)
    expected = twin.loss(batch)
    expected.backward()
    trainer = EncoderTrainer(
        settings, encoder, X, 3, np.random.RandomState(1), None, 0.02
    )
    loss, gradients = trainer.loss_and_gradients(batch)
    assert loss > 0
    assert_allclose(loss, float(expected.detach()), rtol=1e-12)
    theirs = encoder_module(Encoder(encoder.weights, encoder.biases))
    for ours, parameter in zip(theirs.parameters(), module.parameters(), strict=True):
        ours.data = parameter.grad
    theirs = module_encoder(theirs)
    for gradient, other in zip(gradients, theirs.arrays, strict=True):
        assert_allclose(gradient, other, rtol=1e-9, atol=1e-10)


class Loop:
    """Five epochs, of which the last is the best."""

    stop_reason = None

    def __init__(self):
        self.losses = []

    def __iter__(self):
        return iter(range(5))

    def record(self, loss, *, state, attributes=None):
        self.losses.append(loss)
        self.best_state = state()


@pytest.mark.torch
@pytest.mark.parametrize("affinity", KINDS)
@pytest.mark.parametrize("sizes", ENCODERS)
def test_epochs_are_those_of_torch(sizes, affinity, global_random_seed):
    from skdiffclust._torch import encoder_module, module_encoder
    from skdiffclust.forests._embedding import _torch

    settings, encoder, X, batches = problem(sizes, affinity, global_random_seed)
    start = encoder.copy()
    ours = EncoderTrainer(settings, encoder, X, 3, np.random.RandomState(1), None, 0.02)
    loop = Loop()
    ours.run(loop, batches, None)
    rng = np.random.RandomState(1)
    module = encoder_module(start)
    twin = _torch.ModuleTrainer(settings, module, X, 3, rng, "cpu", None)
    other = Loop()
    twin.run(other, batches, None)
    assert_allclose(loop.losses, other.losses, rtol=1e-8)
    theirs = module_encoder(module).arrays
    for array, expected in zip(encoder.arrays, theirs, strict=True):
        assert_allclose(array, expected, rtol=1e-6, atol=1e-8)
