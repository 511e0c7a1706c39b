"""The modules and their gradients beside the functions of NumPy."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from skdiffclust.forests import (
    maximum_spanning_forest,
    partial_fenchel_young_loss,
    perturbed_forest,
)
from skdiffclust.forests._perturbed import _hash, _torch
from skdiffclust.forests._perturbed._hash import draw_seed
from skdiffclust.nn import (
    FenchelYoungLoss,
    PartialFenchelYoungLoss,
    PerturbedForest,
    standardized_affinity,
)


def affinity_of(n, seed=0, kind="points"):
    rng = np.random.RandomState(seed)
    if kind == "ties":
        matrix = np.triu(rng.randint(0, 3, size=(n, n)), 1).astype(float)
        return matrix + matrix.T
    points = rng.randn(n, 3)
    matrix = -((points[:, None] - points[None]) ** 2).sum(axis=2)
    return (matrix - matrix.mean()) / matrix.std() if n > 1 else matrix


def labels_of(n, seed=0):
    rng = np.random.RandomState(seed)
    return np.where(rng.rand(n) < 0.5, rng.randint(0, 3, size=n), -1)


def seed_of(random_state):
    return int(draw_seed(np.random.RandomState(random_state)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layer_gives_what_numpy_gives(dtype, global_random_seed):
    affinity = affinity_of(10, global_random_seed)
    expected = perturbed_forest(
        affinity, 3, random_state=global_random_seed, return_connectivity=True
    )
    layer = PerturbedForest(3, seed=seed_of(global_random_seed))
    tensor = torch.from_numpy(affinity).to(dtype)
    with torch.no_grad():
        forest, weight, linked = layer(tensor, return_connectivity=True)
    assert forest.dtype == weight.dtype == linked.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    np.testing.assert_allclose(forest, expected.forest, atol=tolerance)
    np.testing.assert_allclose(linked, expected.connectivity, atol=tolerance)
    assert float(weight) == pytest.approx(expected.weight, rel=tolerance)


@pytest.mark.parametrize("kind", ["labels", "links"])
def test_partial_loss_gives_what_numpy_gives(kind, global_random_seed):
    n = 30
    affinity = affinity_of(n, global_random_seed)
    known = labels_of(n, global_random_seed)
    if kind == "links":
        is_known = (known >= 0)[:, None] & (known >= 0)
        is_known &= np.random.RandomState(global_random_seed).rand(n, n) < 0.3
        known = np.where(known[:, None] == known, 1, -1) * is_known
        np.fill_diagonal(known, 0)
    expected, gradient = partial_fenchel_young_loss(
        affinity, known, 4, random_state=global_random_seed, return_gradient=True
    )
    assert expected > 0
    tensor = torch.from_numpy(affinity).requires_grad_()
    loss = PartialFenchelYoungLoss(4, seed=seed_of(global_random_seed))(
        tensor, torch.from_numpy(known)
    )
    loss.backward()
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(tensor.grad, gradient, atol=1e-12)


def test_the_distance_of_connectivities_has_a_gradient_of_little_variance(
    global_random_seed,
):
    # Against n x n noise whose upper triangle is read, with no baseline.
    n, k, scale, n_samples = 32, 4, 0.1, 100
    affinity = affinity_of(n, global_random_seed + 1)
    labels = np.random.RandomState(global_random_seed).randint(0, 4, size=n)
    target = (labels[:, None] == labels[None, :]) * 1.0
    ours = []
    for seed in range(10):
        leaf = torch.from_numpy(affinity).requires_grad_()
        layer = PerturbedForest(
            k, noise_scale=scale, n_perturbations=n_samples, seed=seed
        )
        connectivity = layer(leaf, return_connectivity=True)[2]
        (connectivity - torch.from_numpy(target)).square().sum().backward()
        ours.append(leaf.grad.numpy())
    plain = []
    rng = np.random.RandomState(global_random_seed)
    for _ in range(10):
        noise = rng.standard_normal((n_samples, n, n))
        linked = np.empty((n_samples, n, n))
        for s in range(n_samples):
            noisy = np.triu(affinity + scale * noise[s], 1)
            found = maximum_spanning_forest(noisy + noisy.T, k).labels
            linked[s] = found[:, None] == found[None, :]
        slope = 2 * (linked.mean(axis=0) - target)
        products = (linked * slope).sum(axis=(1, 2))
        plain.append(np.einsum("s,sij->ij", products, noise) / n_samples / scale)
    upper = np.triu_indices(n, 1)
    # Ours spreads the derivative by a pair over two entries, theirs has it in one.
    ratio = np.var(plain, axis=0)[upper].sum() / np.var(ours, axis=0)[upper].sum() / 4
    assert ratio >= 15


def test_weight_passes_gradcheck(global_random_seed):
    layer = PerturbedForest(3, n_perturbations=10, seed=global_random_seed)
    tensor = torch.from_numpy(affinity_of(6, global_random_seed)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layer(x)[1], tensor, eps=1e-6)


def test_partial_loss_passes_gradcheck(global_random_seed):
    loss = PartialFenchelYoungLoss(3, n_perturbations=10, seed=global_random_seed)
    labels = torch.tensor([0, 0, 1, 2, -1, -1, -1])
    tensor = torch.from_numpy(affinity_of(7, global_random_seed)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), tensor, eps=1e-6)


def test_full_loss_passes_gradcheck(global_random_seed):
    loss = FenchelYoungLoss(n_perturbations=10, seed=global_random_seed)
    tensor = torch.from_numpy(affinity_of(6, global_random_seed)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, [[0, 5], [1, 2]]), tensor)


@pytest.mark.parametrize("kind", ["sqeuclidean", "rbf", "cosine"])
def test_affinity_is_standardised_and_passes_gradcheck(kind, global_random_seed):
    rows = torch.randn(
        2, 6, 3, generator=torch.Generator().manual_seed(global_random_seed)
    ).double()
    affinity = standardized_affinity(rows, kind)
    assert affinity.shape == (2, 6, 6)
    for item in affinity:
        assert float(item.mean()) == pytest.approx(0, abs=1e-12)
        assert float((item**2).mean()) == pytest.approx(1)
        off = item[~torch.eye(6, dtype=bool)]
        assert item.diagonal().min() > off.max()
    if kind != "cosine":
        moved = standardized_affinity(rows + 1e4, kind)
        torch.testing.assert_close(moved, affinity, rtol=0, atol=1e-10)
    rows.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: standardized_affinity(x, kind), rows)


def test_affinity_of_a_function_and_of_equal_rows():
    rows = torch.zeros(4, 2, dtype=torch.float64, requires_grad=True)
    affinity = standardized_affinity(rows)
    affinity.sum().backward()
    assert not affinity.any() and torch.isfinite(rows.grad).all()
    given = standardized_affinity(torch.eye(3), lambda x: x)
    torch.testing.assert_close(given, standardized_affinity(2 * torch.eye(3), abs))
    with pytest.raises(ValueError, match="'kind' argument"):
        standardized_affinity(rows, "manhattan")


def test_leading_batch_dimensions(global_random_seed):
    seeds = 4 * global_random_seed + np.arange(4)
    batch = torch.from_numpy(np.stack([affinity_of(6, seed) for seed in seeds]))
    batch = batch.reshape(2, 2, 6, 6)
    labels = torch.tensor([0, 0, 1, -1, -1, -1])
    layer = PerturbedForest(3, seed=global_random_seed)
    loss = PartialFenchelYoungLoss(3, seed=global_random_seed)
    forest, weight = layer(batch)
    assert forest.shape == (2, 2, 6, 6) and weight.shape == (2, 2)
    torch.testing.assert_close(layer(batch[0, 0])[0], forest[0, 0])
    losses = loss(batch, labels)
    assert losses.shape == (2, 2)
    torch.testing.assert_close(losses, loss(batch, labels.expand(2, 2, 6)))
    torch.testing.assert_close(loss(batch[0, 0], labels), losses[0, 0])
    matrix = (labels[:, None] == labels).long() * 2 - 1
    matrix[labels < 0] = 0
    matrix[:, labels < 0] = 0
    torch.testing.assert_close(losses, loss(batch, matrix))
    torch.testing.assert_close(losses, loss(batch, matrix.expand(2, 2, 6, 6)))


def batch_of(n, seed):
    """Affinities (4, n, n) whose labels have 0, 1, 3 and 3 classes."""
    batch = np.stack([affinity_of(n, 4 * seed + item) for item in range(4)])
    labels = np.stack([labels_of(n, 4 * seed + item) for item in range(4)])
    labels[0] = -1
    labels[1, labels[1] >= 0] = 0
    labels[3] = np.where(np.arange(n) < n - 3, np.arange(n) % 3, -1)
    return torch.from_numpy(batch).requires_grad_(), labels


def links_of(n, seed):
    """Links (4, n, n) of a batch: none, must-links, and two with cannot-links."""
    links = np.zeros((4, n, n), dtype=int)
    links[1:, 0, 1] = 1
    links[2, 2, 3] = links[2, 3, 4] = links[2, 4, 2] = -1
    ends = np.random.RandomState(seed).permutation(np.arange(2, n))[:6].reshape(-1, 2)
    links[3, *ends.T] = -1
    return links


def test_links_may_be_sparse(global_random_seed):
    n = 12
    links = links_of(n, global_random_seed)[1]
    links[2, 5] = 1
    affinity = torch.from_numpy(affinity_of(n, global_random_seed))
    loss = PartialFenchelYoungLoss(3, seed=global_random_seed)
    assert loss(affinity, csr_array(links)) == loss(affinity, links)


def test_full_loss_of_a_batch_and_empty_batches(global_random_seed):
    batch, labels = batch_of(7, global_random_seed)
    forest = [[0, 1], [2, 3], [5, 4]]
    loss = FenchelYoungLoss(n_perturbations=4, seed=global_random_seed)
    losses = loss(batch, forest)
    assert losses.shape == (4,)
    torch.testing.assert_close(losses[0], loss(batch[0], forest))
    (gradient,) = torch.autograd.grad(losses[1], batch)
    assert gradient[1].any() and not gradient[[0, 2, 3]].any()
    empty = batch[:0]
    assert loss(empty, forest).shape == (0,)
    assert PartialFenchelYoungLoss(3)(empty, labels[0]).shape == (0,)
    found = PerturbedForest(3)(empty, return_connectivity=True)
    assert [part.shape for part in found] == [(0, 7, 7), (0,), (0, 7, 7)]


def test_a_batch_with_cannot_links_and_an_item_that_is_not_finite(
    global_random_seed,
):
    batch, labels = batch_of(20, global_random_seed)
    links = links_of(20, global_random_seed)
    broken = batch.detach().clone()
    broken[3, 0, 1] = torch.nan
    broken.requires_grad_()
    loss = PartialFenchelYoungLoss(4, n_perturbations=4, seed=global_random_seed)
    for known in (labels, links):
        found = loss(broken, known)
        assert torch.isnan(found).tolist() == [False, False, False, True]
        torch.testing.assert_close(found[:3], loss(batch, known)[:3])
        (gradient,) = torch.autograd.grad(found[:3].sum(), broken)
        (expected,) = torch.autograd.grad(loss(batch, known)[:3].sum(), batch)
        torch.testing.assert_close(gradient[:3], expected[:3])


@pytest.mark.filterwarnings("ignore:An affinity is -inf")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2e100])
def test_forests_of_what_is_not_finite_are_nan(value, global_random_seed):
    affinity = affinity_of(9, global_random_seed)
    batch = torch.from_numpy(np.stack([affinity] * 3))
    batch[1, 2, 3] = batch[1, 3, 2] = value
    # The diagonal is ignored.
    batch[2].fill_diagonal_(value)
    batch.requires_grad_()
    seed = seed_of(global_random_seed)
    layer = PerturbedForest(3, n_perturbations=4, seed=seed)
    found = layer(batch)
    repeated = batch.detach()[[0, 0, 0]].requires_grad_()
    expected = layer(repeated)
    fenchel = FenchelYoungLoss(n_perturbations=4, seed=seed)
    edges = np.array([[0, 1], [1, 2]])
    partial = PartialFenchelYoungLoss(3, n_perturbations=4, seed=seed)
    known = np.append([0, 1, 0], np.full(6, -1))
    found += fenchel(batch, edges), partial(batch, known)
    expected += fenchel(repeated, edges), partial(repeated, known)
    assert all(torch.isnan(part[1]).all() for part in found)
    for part, whole in zip(found, expected, strict=True):
        torch.testing.assert_close(part[[0, 2]], whole[[0, 2]])
    total = sum(part[2].square().sum() for part in found)
    same = sum(part[2].square().sum() for part in expected)
    (gradient,) = torch.autograd.grad(total, batch)
    (expected,) = torch.autograd.grad(same, repeated)
    torch.testing.assert_close(gradient[2], expected[2])


def test_fresh_noise_at_every_call_from_a_generator(global_random_seed):
    tensor = torch.from_numpy(affinity_of(8, global_random_seed))
    before = torch.random.get_rng_state()
    runs = []
    for _ in range(2):
        layer = PerturbedForest(
            3, generator=torch.Generator().manual_seed(global_random_seed)
        )
        runs.append([float(layer(tensor)[1]) for _ in range(2)])
    assert runs[0] == runs[1] and runs[0][0] != runs[0][1]
    assert torch.equal(before, torch.random.get_rng_state())
    PerturbedForest(3)(tensor)
    assert not torch.equal(before, torch.random.get_rng_state())


def test_without_constraints_there_is_nothing_to_lose(global_random_seed):
    tensor = torch.from_numpy(affinity_of(4, global_random_seed)).requires_grad_()
    loss = PartialFenchelYoungLoss(2)(tensor, None)
    loss.backward()
    assert float(loss.detach()) == 0 and not tensor.grad.any()


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: PerturbedForest(0), "'n_clusters' parameter"),
        (lambda: PerturbedForest(2, noise_scale=0), "'noise_scale' parameter"),
        (lambda: PerturbedForest(2, noise_scale=np.nan), "'noise_scale' parameter"),
        (
            lambda: PerturbedForest(2, noise_scale=1e101),
            r"in the range \(0.0, 1e\+100\]. Got 1e\+101",
        ),
        (lambda: PerturbedForest(2, n_perturbations=0), "'n_perturbations' parameter"),
        (lambda: PerturbedForest(2, noise="uniform"), "'noise' parameter"),
        (lambda: PerturbedForest(2.5), r"an int in the range \[1, inf\) .* Got 2.5"),
        (
            lambda: PartialFenchelYoungLoss(2)(torch.zeros(3, 3), None, 2.5),
            "integer of at least 1, .* Got 2.5",
        ),
        (lambda: PerturbedForest(2, n_perturbations=2.5), "an int .* Got 2.5"),
        (lambda: FenchelYoungLoss(n_perturbations=5), "must be even"),
        (
            lambda: FenchelYoungLoss()(torch.zeros(3, 3), [[0, 3]]),
            "indices from 0 to 2, .* Got the index 3",
        ),
        (
            lambda: FenchelYoungLoss()(torch.zeros(3, 3), [[-1, 0]]),
            "indices from 0 to 2. Got the index -1",
        ),
        (lambda: PerturbedForest(2)(torch.zeros(3, 4)), "shape"),
        (
            lambda: PerturbedForest(5)(torch.zeros(3, 3)),
            "at most the number of samples",
        ),
        (
            lambda: PartialFenchelYoungLoss(1)(torch.zeros(3, 3), [0, 1, -1]),
            "at least 2, the number of classes",
        ),
    ],
)
def test_wrong_requests_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cuda_gives_what_the_cpu_gives(dtype):
    if not torch.cuda.is_available():
        pytest.skip("There is no CUDA device here.")
    tensor, labels = torch.from_numpy(affinity_of(40)).to(dtype), labels_of(40)
    tolerance = {"rtol": 1e-4, "atol": 1e-4}
    layer = PerturbedForest(6, seed=3)
    cpu, gpu = layer(tensor), layer(tensor.cuda())
    assert gpu[0].device.type == "cuda"
    torch.testing.assert_close(cpu[0], gpu[0].cpu(), **tolerance)
    torch.testing.assert_close(cpu[1], gpu[1].cpu(), **tolerance)
    links = np.zeros((40, 40), dtype=int)
    links[0, 1] = links[2, 3] = -1
    links[4, 5] = 1
    loss = PartialFenchelYoungLoss(6, seed=3)
    for known in (labels, torch.from_numpy(labels).cuda(), links):
        leaves = [tensor.clone().requires_grad_(), tensor.cuda().requires_grad_()]
        values = [
            loss(leaves[0], known.cpu() if torch.is_tensor(known) else known),
            loss(leaves[1], known),
        ]
        for value in values:
            value.backward()
        torch.testing.assert_close(values[0], values[1].cpu(), **tolerance)
        torch.testing.assert_close(leaves[0].grad, leaves[1].grad.cpu(), **tolerance)
        assert leaves[1].grad.any()


@pytest.mark.gpu
def test_replays_of_a_graph_have_new_noise():
    if not torch.cuda.is_available():
        pytest.skip("There is no CUDA device here.")
    tensor = torch.from_numpy(affinity_of(40)).float().cuda()
    labels = torch.from_numpy(labels_of(40)).cuda()
    loss = PartialFenchelYoungLoss(6, n_perturbations=10)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        loss(tensor, labels)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = loss(tensor, labels)
    found = set()
    for _ in range(3):
        graph.replay()
        found.add(float(value))
    assert len(found) == 3


def test_a_device_without_triton_is_told_so_once(monkeypatch):
    monkeypatch.setattr(_torch, "find_spec", lambda name: None)
    _torch._has_triton.cache_clear()
    with pytest.warns(UserWarning, match="Triton is not installed"):
        assert not _torch._has_triton()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not _torch._has_triton()
    _torch._has_triton.cache_clear()


def test_a_batch_of_fewer_classes_than_clusters(global_random_seed):
    """As many clusters as it can have: three batches in ten of ten classes."""
    affinity = torch.tensor(np.stack([affinity_of(9, seed) for seed in range(2)]))
    labels = torch.tensor(np.random.default_rng(global_random_seed).permutation(9) % 4)
    partly = torch.where(torch.arange(9) < 3, -1, labels)
    n_groups = 3 + len(torch.unique(partly[3:]))
    module = PartialFenchelYoungLoss(10, seed=3, n_perturbations=4)
    with pytest.raises(ValueError, match="at most the number of samples, 9"):
        module(affinity, labels)
    both = module(affinity, torch.stack([labels, partly]), n_clusters=9)
    for item, known, k in ((0, labels, 4), (1, partly, n_groups)):
        module.seed = 3 if item == 0 else _seed_of_item(3, item)
        alone = module(affinity[item], known, n_clusters=k)
        assert torch.allclose(both[item], alone, rtol=1e-12, atol=1e-12)


def _seed_of_item(seed, item):
    """Return the seed of an item of a batch."""
    return (seed + item * int(_hash.ROW)) % 2**64


@pytest.mark.parametrize("kind", ["sqeuclidean", "rbf", "cosine"])
def test_a_affinity_has_no_unit(kind, global_random_seed):
    rows = np.random.default_rng(global_random_seed).normal(size=(12, 3))
    rows = torch.tensor(rows, dtype=torch.float32)
    cotangent = torch.from_numpy(affinity_of(12)).float()
    expected, slope = [], []
    for unit in (1.0, 2.0**-30, 2.0**30):
        leaf = (unit * rows).requires_grad_()
        found = standardized_affinity(leaf, kind)
        (found * cotangent).sum().backward()
        expected.append(found.detach())
        slope.append(unit * leaf.grad)
    assert expected[0].std(correction=0) == pytest.approx(1, rel=1e-5)
    for other in (1, 2):
        torch.testing.assert_close(expected[other], expected[0])
        torch.testing.assert_close(slope[other], slope[0])
    assert standardized_affinity(rows[:0], kind).shape == (0, 0)


def test_minus_infinity_is_no_mask():
    affinity = torch.from_numpy(affinity_of(8))
    affinity[0, 1] = affinity[1, 0] = -torch.inf
    with pytest.warns(UserWarning, match="-inf is no mask"):
        assert torch.isnan(PartialFenchelYoungLoss(3)(affinity, labels_of(8)))


def test_reductions_labels_to_ignore_and_clusters_of_each_item():
    affinity = torch.tensor(np.stack([affinity_of(9, seed) for seed in range(3)]))
    labels = torch.tensor(np.stack([labels_of(9, seed) for seed in range(3)]))
    options = {"n_perturbations": 4, "seed": 1}
    each = PartialFenchelYoungLoss(3, reduction="none", **options)(affinity, labels)
    assert each.shape == (3,)
    for reduction in ("mean", "sum"):
        module = PartialFenchelYoungLoss(3, reduction=reduction, **options)
        found = module(affinity, labels)
        assert torch.equal(found, getattr(each, reduction)())
    ignored = torch.where(labels < 0, -100, labels)
    module = PartialFenchelYoungLoss(3, **options)
    assert torch.equal(module(affinity, ignored), module(affinity, labels))
    module = PartialFenchelYoungLoss(None, reduction="none", **options)
    mixed = module(affinity, labels, n_clusters=torch.tensor([3, 5, 4]))
    assert mixed[0] == each[0]
    expected = module(affinity, labels, n_clusters=5)
    assert torch.allclose(mixed[1], expected[1], rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=r"one for each affinity, of shape \(3,\)"):
        module(affinity, labels, n_clusters=[3, 4])


def test_noise_by_name():
    affinity, labels = torch.from_numpy(affinity_of(9)), labels_of(9)
    losses = [
        PartialFenchelYoungLoss(3, noise=noise, seed=0)(affinity, labels)
        for noise in ("normal", "gumbel")
    ]
    assert losses[0] != losses[1]
    assert min(losses) >= 0
    with pytest.raises(ValueError, match="'noise' parameter .* Got 'laplace' instead"):
        PartialFenchelYoungLoss(3, noise="laplace")


MODULES = {
    "PerturbedForest": lambda s: PerturbedForest(3, seed=0),
    "FenchelYoungLoss": lambda s: partial(
        FenchelYoungLoss(seed=0), forest=[[0, 1], [2, 3]]
    ),
    "PartialFenchelYoungLoss": lambda s: partial(
        PartialFenchelYoungLoss(3, seed=0), constraints=labels_of(len(s), 3)
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_noise_that_changes_no_forest_is_said_once(name, global_random_seed):
    affinity = torch.from_numpy(affinity_of(12, global_random_seed))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MODULES[name](affinity)(affinity)
        assert not caught
        # In units in which the noise is nothing.
        module = MODULES[name](affinity)
        for _ in range(3):
            module(1e9 * affinity)
    (warning,) = caught
    text = str(warning.message)
    assert f"The noise of {name} has no effect" in text
    assert "standardized_affinity" in text and "noise_scale. It is 0.1" in text
    assert warning.filename == __file__


def test_noise_without_a_choice_is_not_said():
    for n, k in ((1, 1), (2, 1), (4, 4)):
        PerturbedForest(k)(1e9 * torch.from_numpy(affinity_of(n)))
    affinity = torch.from_numpy(1e9 * affinity_of(12))
    # All labels agree with the forest: the loss is zero, as it should be.
    labels = maximum_spanning_forest(affinity.numpy(), 3).labels
    assert PartialFenchelYoungLoss(3)(affinity, labels) < 1e-6
    # Some items move, and some do not.
    batch = torch.stack([affinity, 1e-9 * affinity])
    PerturbedForest(3)(batch)
