"""The fused kernel by Triton's interpreter; `test_triton.py` runs this in a process.

The modules run as they do on CUDA tensors: what asks for the device is told that the
CPU is one.
"""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import minimum_spanning_tree

from skdiffclust.forests._perturbed import _torch
from skdiffclust.forests._perturbed._noise import noise_of_samples
from skdiffclust.forests._perturbed._relation import relation_of
from skdiffclust.forests._perturbed._samplers import Noise, make_sampler
from skdiffclust.forests._perturbed._solvers import classes_of
from skdiffclust.forests._perturbed._triton import find_forests
from skdiffclust.nn import FenchelYoungLoss, PartialFenchelYoungLoss, PerturbedForest

SEED = 2**63 + 11


@pytest.fixture
def on_device(monkeypatch):
    """Have the modules take tensors of the CPU for those of a device."""
    monkeypatch.setattr(_torch, "_is_fused", lambda items: items.shape[-1] > 1)
    monkeypatch.setattr(_torch, "_is_on", lambda _, values: torch.is_tensor(values))


def affinities(n, *, n_items=1, seed=0, ties=False):
    """Symmetric affinities (b, n, n) float32."""
    rng = np.random.default_rng(seed)
    if ties:
        matrix = rng.integers(-1, 2, size=(n_items, n, n)).astype(np.float32)
    else:
        matrix = rng.normal(size=(n_items, n, n)).astype(np.float32)
    matrix = np.triu(matrix, 1)
    return matrix + matrix.transpose(0, 2, 1)


def seeds_of(n_items):
    return torch.arange(n_items) + (SEED - 2**64)


def fused(matrix, k, noise, labels=None, *, free=True):
    """Edge sets, totals and counts of the kernel, of one matrix."""
    classes = None
    if labels is not None:
        classes = classes_of(torch.from_numpy(labels)[None])
    counts, totals, edges = find_forests(
        torch.from_numpy(matrix)[None],
        torch.tensor([k], dtype=torch.int32),
        seeds_of(1),
        noise,
        classes,
        free=free,
    )
    n = len(matrix)
    sets = [
        {divmod(int(code), 4096) for code in forest if code >= 0} for forest in edges[0]
    ]
    assert all(0 <= i < j < n for forest in sets for i, j in forest)
    return sets, totals[0].numpy(), counts[0].numpy()


def compiled(matrix, k, noise, labels=None):
    """Edge sets and totals of the compiled kernels, in float64."""
    relation = relation_of(matrix.astype(np.float64))
    constraints = None
    if labels is not None:
        (constraints,) = _torch._constraints_of_items(labels[None], (1,), len(matrix))
    sampler = make_sampler(relation, constraints, k, noise)
    samples = sampler.sample(0, noise.n_samples)
    pairs = np.column_stack(relation.ends).tolist()
    sets = [{tuple(pairs[e]) for e in forest} for forest in samples.forests]
    return sets, samples.totals


def noise_of(scale, n_samples=8, kind="normal"):
    return Noise(scale, n_samples, kind, np.uint64(SEED))


@pytest.mark.parametrize("n", [2, 3, 33, 64, 65, 100])
@pytest.mark.parametrize("kind", ["normal", "gumbel"])
def test_free_forests_are_those_of_the_compiled_kernels(n, kind):
    (matrix,) = affinities(n, seed=n)
    for k in {min(4, n)} if n > 60 else sorted({1, min(4, n), n}):
        # An odd number of samples, so that the last draw has no mirror image.
        noise = noise_of(0.3, 33, kind)
        found, totals, counts = fused(matrix, k, noise)
        expected, expected_totals = compiled(matrix, k, noise)
        assert np.mean([a == b for a, b in zip(found, expected, strict=True)]) >= 0.99
        np.testing.assert_allclose(totals, expected_totals, rtol=2e-6, atol=2e-6)
        assert counts.sum() == 33 * (n - k) == sum(map(len, found))


@pytest.mark.parametrize("ties", [False, True])
def test_without_noise_the_edges_are_those_of_the_total_order(ties):
    for n in (2, 7, 33):
        (matrix,) = affinities(n, seed=n, ties=ties)
        for k in sorted({1, n // 2, n}):
            found, *_ = fused(matrix, k, noise_of(0.0, 1))
            assert found == compiled(matrix, k, noise_of(0.0, 1))[0]
    # The weight is that of another program.
    heaviest = -minimum_spanning_tree(np.triu(matrix.astype(float), 1) * -1.0 - 10)
    _, total, _ = fused(matrix, 1, noise_of(0.0, 1))
    assert total[0] == pytest.approx(heaviest.sum() - 10 * (n - 1), rel=1e-6)


def forests_by_enumeration(n, k, labels):
    """All edge sets of forests of n - k edges that satisfy the labels."""
    pairs = list(combinations(range(n), 2))
    for edges in combinations(pairs, n - k):
        component = np.arange(n)
        for i, j in edges:
            if component[i] == component[j]:
                break
            component[component == component[j]] = component[i]
        else:
            known = np.flatnonzero(labels >= 0)
            same = labels[known, None] == labels[known]
            linked = component[known, None] == component[known]
            if (same == linked).all():
                yield edges


@pytest.mark.parametrize("k", [2, 3])
def test_forests_beside_brute_force(k):
    n = 6
    (matrix,) = affinities(n, seed=k)
    noise = noise_of(0.5, 6)
    unlabelled = np.full(n, -1)
    labels = np.array([0, -1, 1, 0, -1, -1])
    relation = relation_of(matrix.astype(np.float64))
    values = relation.weights + noise_of_samples(noise.draws(relation, 0), 6)
    copies = [relation.spread(row) for row in values]
    for known, free in ((unlabelled, True), (labels, False)):
        given = None if free else known
        sets, totals, _ = fused(matrix, k, noise, given, free=free)
        feasible = list(forests_by_enumeration(n, k, known))
        for copy, edges, total in zip(copies, sets, totals, strict=True):
            weights = [sum(copy[e] for e in forest) for forest in feasible]
            assert tuple(sorted(edges)) in feasible
            # The heaviest under labels is hard to find: it is an upper bound.
            assert total <= max(weights) + 1e-5
            if free:
                assert total == pytest.approx(max(weights), abs=1e-5)
            assert total == pytest.approx(sum(copy[e] for e in edges), abs=1e-5)


@pytest.mark.parametrize(
    "n, k, n_classes, share",
    [(3, 2, 2, 0.5), (33, 4, 3, 0.4), (64, 10, 10, 0.2), (40, 7, 1, 0.3)],
)
def test_labelled_forests_are_those_of_the_compiled_kernels(n, k, n_classes, share):
    rng = np.random.default_rng(n)
    (matrix,) = affinities(n, seed=n)
    labels = np.where(rng.random(n) < share, rng.integers(n_classes, size=n), -1)
    labels[:n_classes] = np.arange(n_classes)
    noise = noise_of(0.3, 10)
    found, totals, _ = fused(matrix, k, noise, labels, free=False)
    expected, expected_totals = compiled(matrix, k, noise, labels)
    assert np.mean([a == b for a, b in zip(found, expected, strict=True)]) >= 0.99
    np.testing.assert_allclose(totals, expected_totals, rtol=2e-6, atol=2e-6)


def batch_and_labels(n=9):
    """Items with no label, one class, three classes, and every sample labelled."""
    batch = torch.from_numpy(affinities(n, n_items=4, seed=5))
    labels = np.random.default_rng(5).integers(-1, 3, size=(4, n))
    labels[0] = -1
    labels[1, labels[1] > 0] = 0
    labels[3] = np.arange(n) % 3
    return batch, torch.from_numpy(labels)


def by_the_compiled_kernels(module, *arguments):
    """What a module gives for tensors of the CPU, in float64."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_torch, "_is_fused", lambda items: False)
        patch.setattr(_torch, "_is_on", lambda *_: False)
        first, *others = arguments
        leaf = first.detach().double().requires_grad_()
        found = module(leaf, *others)
        (gradient,) = torch.autograd.grad(found.sum(), leaf)
        return found.detach(), gradient


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_the_partial_loss_and_its_gradient(scale):
    batch, labels = batch_and_labels()
    # All weights negative, or of both signs.
    batch = scale * batch if scale > 0 else -batch.abs()
    module = PartialFenchelYoungLoss(4, n_perturbations=10, seed=SEED)
    leaf = batch.clone().requires_grad_()
    losses = module(leaf, labels)
    losses.sum().backward()
    expected, gradient = by_the_compiled_kernels(module, batch, labels)
    assert losses[0] == 0 and (losses[1:] > 0).all()
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(leaf.grad.double(), gradient, rtol=0, atol=1e-6)
    # More clusters than groups are clipped; fewer than classes are NaN.
    many = module(batch, labels, torch.tensor([4, 20, 20, 20]))
    assert many[3] == pytest.approx(float(module(batch, labels, 3)[3]), abs=1e-6)
    few = module(batch, labels, torch.tensor([4, 4, 2, 2]))
    assert torch.isnan(few).tolist() == [False, False, True, True]


@pytest.mark.usefixtures("on_device")
def test_gradients_by_finite_differences():
    (item,) = batch_and_labels(8)[0][:1]
    labels = torch.tensor([0, -1, 1, 0, -1, 2, -1, -1])
    direction = torch.from_numpy(affinities(8, seed=9))[0]
    step = 1e-3
    noise = {"noise_scale": 0.5, "n_perturbations": 20, "seed": 1}
    for module, arguments in (
        (PartialFenchelYoungLoss(4, **noise), (labels,)),
        (FenchelYoungLoss(**noise), (torch.tensor([[0, 1], [2, 5]]),)),
    ):
        leaf = item.clone().requires_grad_()
        module(leaf, *arguments).backward()
        ahead, behind = (
            module(item + sign * step * direction, *arguments) for sign in (1, -1)
        )
        slope = float((leaf.grad * direction).sum())
        # Between two kinks the loss is linear.
        assert float(ahead - behind) / (2 * step) == pytest.approx(slope, abs=0.02)


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("noise", ["normal", "gumbel"])
@pytest.mark.parametrize("n_samples", [6, 7])
def test_cotangents_are_pulled_back_as_by_the_compiled_kernels(noise, n_samples):
    batch = torch.from_numpy(affinities(9, n_items=2, seed=3))
    cotangent = torch.from_numpy(affinities(9, n_items=2, seed=4))
    layer = PerturbedForest(
        3, noise_scale=0.5, n_perturbations=n_samples, noise=noise, seed=4
    )

    def value(x):
        forest, weight = layer(x)
        return (forest * cotangent).sum(dim=(1, 2)) + weight

    leaf = batch.clone().requires_grad_()
    found = value(leaf)
    found.sum().backward()
    expected, gradient = by_the_compiled_kernels(value, batch)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(leaf.grad.double(), gradient, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("on_device")
def test_every_call_has_new_noise_and_a_seed_repeats_it():
    (item,) = torch.from_numpy(affinities(12))
    generator = torch.Generator().manual_seed(0)
    layer = PerturbedForest(3, n_perturbations=4, generator=generator)
    first, second = (layer(item)[1] for _ in range(2))
    assert first != second
    assert not layer.state_dict()
    again = PerturbedForest(
        3, n_perturbations=4, generator=torch.Generator().manual_seed(0)
    )
    assert [again(item)[1] for _ in range(2)] == [first, second]
    same = PerturbedForest(3, n_perturbations=4, seed=5)
    assert same(item)[1] == same(item)[1]


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("value", [np.nan, -np.inf, 2e38])
def test_items_that_are_not_finite_are_nan(value, recwarn):
    batch = torch.from_numpy(affinities(6, n_items=2))
    batch[0, 1, 2] = batch[0, 2, 1] = value
    forests, weights = PerturbedForest(2, n_perturbations=2)(batch)
    assert torch.isnan(forests[0]).all() and torch.isnan(weights[0])
    assert torch.isfinite(forests[1]).all() and torch.isfinite(weights[1])
    loss = PartialFenchelYoungLoss(2, n_perturbations=2)
    labels = torch.tensor([0, 1, -1, -1, -1, -1])
    assert torch.isnan(loss(batch, labels)).tolist() == [True, False]
    # NumPy warns of the overflow, but not the module.
    assert all(issubclass(w.category, RuntimeWarning) for w in recwarn)


@pytest.mark.usefixtures("on_device")
def test_labels_of_the_host_are_checked():
    (item,) = torch.from_numpy(affinities(6))
    loss = PartialFenchelYoungLoss(1)
    with pytest.raises(ValueError, match="at least 2, the number of classes"):
        loss(item, np.array([0, 1, -1, -1, -1, -1]))
