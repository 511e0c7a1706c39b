"""What free forests would ask of a device: calls of kernels, and bytes."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch.utils._python_dispatch import TorchDispatchMode

from skdiffclust.forests._perturbed import _torch
from skdiffclust.forests._perturbed._samplers import Noise
from skdiffclust.forests._perturbed._sampling_torch import (
    pair_noise,
    samplers,
)
from skdiffclust.forests._perturbed._similarity import (
    standardized_similarity,
)
from skdiffclust.forests._trees._boruvka_torch import Triangle
from skdiffclust.nn import ConnectivityLoss, PerturbedForest

N, K, B = 256, 10, 10


class Counts(TorchDispatchMode):
    """Count the calls that are no views, and the bytes that enter and leave them."""

    def __init__(self):
        super().__init__()
        self.n_calls = 0
        self.n_bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.n_calls += 1
            tensors = torch.utils._pytree.tree_leaves((args, kwargs, found))
            self.n_bytes += sum(
                tensor.numel() * tensor.element_size()
                for tensor in tensors
                if torch.is_tensor(tensor)
            )
        return found


def digits():
    """A standardised similarity (n, n) of digits."""
    X = load_digits().data
    rows = np.random.RandomState(0).permutation(len(X))[:N]
    return torch.from_numpy(standardized_similarity(X[rows], "sqeuclidean"))


@pytest.mark.torch
def test_calls_and_bytes_of_free_forests():
    similarity = digits()
    noise = Noise(0.1, B, "normal", True, np.uint64(1))
    with Counts() as forests:
        ((_, sampler),) = samplers(similarity[None], K, noise, [noise.seed])
        sampler.forest(sampler.samples())
    with Counts() as draws:
        pair_noise(noise, 0, B, Triangle(N, similarity.device), [noise.seed])
    print(
        f"perturbed forest, n {N}, B {B}: {forests.n_calls} calls, "
        f"{forests.n_bytes * 1000 / B / 1e9:.1f} GB for 1000 samples; of which noise "
        f"{draws.n_calls} calls, {draws.n_bytes * 1000 / B / 1e9:.0f} GB"
    )
    assert draws.n_bytes * 1000 / B <= 12e9
    assert forests.n_bytes * 1000 / B <= 18e9
    assert forests.n_calls <= 250


def connectivity_loss_of(similarity, labels):
    ConnectivityLoss(K, n_perturbations=B, seed=1)(similarity, labels)


def forests_of(similarity, labels):
    layer = PerturbedForest(K, n_perturbations=B, seed=1)
    forest, _, linked = layer(similarity.requires_grad_(), return_connectivity=True)
    (forest + linked).square().sum().backward()


@pytest.mark.torch
@pytest.mark.parametrize("call", [connectivity_loss_of, forests_of])
def test_calls_of_a_batch_are_few_more_than_those_of_one_matrix(call, monkeypatch):
    monkeypatch.setattr(_torch, "_runs_in_torch", lambda matrix: True)
    X, y = load_digits(return_X_y=True)
    rows = np.random.RandomState(0).permutation(len(X))[:N].reshape(8, 32)
    similarity = torch.from_numpy(
        np.stack([standardized_similarity(X[part], "sqeuclidean") for part in rows])
    )
    labels = np.where(np.arange(32) < 16, y[rows], -1)
    with Counts() as batch:
        call(similarity.clone(), labels)
    single = []
    for part, known in zip(similarity, labels, strict=True):
        with Counts() as counts:
            call(part.clone(), known)
        single.append(counts.n_calls)
    print(
        f"eight matrices of 32 samples, {call.__name__}: {batch.n_calls} calls at "
        f"once, {sum(single)} one by one"
    )
    assert batch.n_calls <= 1.5 * max(single)
