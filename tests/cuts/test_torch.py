"""RatioCutLoss against NumPy, the dense formula and two processes; torch encoders."""

import os
import socket

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from torch import nn

from skdiffclust import PRCut
from skdiffclust.cuts import ratio_cut
from skdiffclust.cuts._objective import block_loss_with_gradients
from skdiffclust.nn import RatioCutLoss


def problem(dtype=torch.float64, *, seed):
    rng = np.random.RandomState(seed)
    block = rng.rand(6, 8) * (rng.rand(6, 8) < 0.5)
    logits = [torch.tensor(rng.normal(size=(n, 3)), dtype=dtype) for n in (6, 8)]
    return block, [side.requires_grad_(True) for side in logits]


def dense(block, left, right, weight, prior):
    """The textbook loss with a tensor (a, b, k)."""
    P, Q = left.softmax(1), right.softmax(1)
    pairs = P[:, None] + Q[None] - 2 * P[:, None] * Q[None]
    mean = 0.5 * (P.mean(0) + Q.mean(0))
    cut = 0.5 * (torch.tensor(block)[:, :, None] * pairs).sum((0, 1))
    kl = (mean * (mean / prior).log()).sum()
    return (cut / mean).sum() / block.sum() + weight * kl


@pytest.mark.parametrize("form", [torch.tensor, sp.csr_array, "sparse"])
def test_loss_and_gradients_are_those_of_the_dense_formula(form, global_random_seed):
    block, sides = problem(seed=global_random_seed)
    given = torch.tensor(block).to_sparse() if form == "sparse" else form(block)
    # The module is made in float32, which holds this prior to the last digit.
    prior = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    loss = RatioCutLoss(3, balance_weight=2.0, prior=[2, 1, 1]).double()
    value = loss(sides[0], given, right=sides[1])
    expected = dense(block, *sides, 2.0, prior)
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    for ours, theirs in zip(
        torch.autograd.grad(value, sides),
        torch.autograd.grad(expected, sides),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_the_normalised_loss_of_hard_assignments_is_the_normalised_cut(
    global_random_seed,
):
    rng = np.random.RandomState(global_random_seed)
    graph = rng.rand(20, 20) * (rng.rand(20, 20) < 0.4)
    graph = np.triu(graph, 1) + np.triu(graph, 1).T
    labels = rng.permutation(np.arange(20) % 3)
    logits = torch.tensor(200.0 * np.eye(3)[labels])
    loss = RatioCutLoss(3, balance_weight=0.0, cut="normalized").double()
    expected = ratio_cut(graph, labels, normalized=True).value
    assert loss(logits, torch.tensor(graph)).item() == pytest.approx(expected)
    degrees = torch.tensor(graph.sum(axis=1))
    assert loss(logits, sp.csr_array(graph), degrees=degrees).item() == pytest.approx(
        expected
    )


@pytest.mark.parametrize("cut", ["ratio", "normalized"])
def test_the_loss_agrees_with_its_numpy_twin(cut, global_random_seed):
    block, sides = problem(seed=global_random_seed)
    rng = np.random.RandomState(global_random_seed)
    degrees = rng.uniform(0.5, 9.0, size=6), rng.uniform(0.5, 9.0, size=8)
    loss = RatioCutLoss(3, balance_weight=0.0, cut=cut).double()
    given = {"degrees": degrees} if cut == "normalized" else {}
    value = loss(sides[0], torch.tensor(block), right=sides[1], **given)
    gradients = torch.autograd.grad(value, sides)
    arrays = [side.softmax(1).detach().numpy() for side in sides]
    if cut == "ratio":  # both sides count alike
        degrees = np.ones(6), np.ones(8)
    parts = [part / len(part) for part in degrees]
    total = sum(part.sum() for part in parts)
    parts = [part / total for part in parts]
    mean = parts[0] @ arrays[0] + parts[1] @ arrays[1]
    expected, slopes = block_loss_with_gradients(
        sp.csr_array(block), *arrays, mean, parts
    )
    assert value.item() == pytest.approx(expected, rel=1e-12)
    for side, slope, gradient in zip(sides, slopes, gradients, strict=True):
        pulled = torch.autograd.grad(
            (side.softmax(1) * torch.tensor(slope)).sum(), side
        )
        torch.testing.assert_close(gradient, pulled[0], rtol=1e-9, atol=1e-12)


def test_degrees_that_are_of_no_use_or_do_not_fit_are_refused():
    block, sides = problem(seed=0)
    block = torch.tensor(block)
    with pytest.raises(ValueError, match="'degrees' .* must be None with cut='ratio'"):
        RatioCutLoss(3).double()(sides[0], block, right=sides[1], degrees=torch.ones(6))
    with pytest.raises(ValueError, match="'degrees' .* one degree for each left"):
        RatioCutLoss(3, cut="normalized").double()(
            sides[0], block, right=sides[1], degrees=torch.ones(6)
        )
    loss = RatioCutLoss(3, balance_weight=0.0, cut="normalized").double()
    value = loss(sides[0], torch.zeros(6, 8), right=sides[1])
    assert value.item() == 0.0
    value.backward()
    assert not sides[0].grad.any()


def test_one_side_is_the_graph_of_a_batch(global_random_seed):
    block, (left, _) = problem(seed=global_random_seed)
    graph = torch.tensor(block[:, :6] + block[:, :6].T)
    loss = RatioCutLoss(3).double()
    both = RatioCutLoss(3).double()
    assert loss(left, graph).item() == both(left, graph, right=left).item()


def test_proportions_run_in_training_and_stand_in_evaluation(global_random_seed):
    block, sides = problem(seed=global_random_seed)
    # Not at .5, where the batch and what was before could change places.
    loss = RatioCutLoss(3, averaging_rate=0.8).double()
    batch = 0.5 * sum(side.softmax(1).mean(0) for side in sides).detach()
    loss(sides[0], torch.tensor(block), right=sides[1])
    torch.testing.assert_close(loss.proportions, batch)
    other = [side.detach() * 2 for side in sides]
    later = 0.5 * sum(side.softmax(1).mean(0) for side in other)
    loss(other[0], torch.tensor(block), right=other[1])
    torch.testing.assert_close(loss.proportions, 0.2 * batch + 0.8 * later)
    before = loss.eval().proportions.clone()
    loss(sides[0], torch.tensor(block), right=sides[1])
    torch.testing.assert_close(loss.proportions, before)


def test_collapsed_assignments_keep_finite_gradients():
    logits = torch.full((5, 3), -200.0, dtype=torch.float64)
    logits[:, 0] = 200.0
    logits.requires_grad_(True)
    loss = RatioCutLoss(3).double()(logits, torch.ones(5, 5, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert torch.isfinite(loss) and torch.isfinite(gradient).all()


def test_a_block_without_edges_is_balance_alone(global_random_seed):
    _, (left, _) = problem(seed=global_random_seed)
    loss = RatioCutLoss(3, balance_weight=0.0).double()(left, torch.zeros(6, 6))
    (gradient,) = torch.autograd.grad(loss, left)
    assert loss.item() == 0.0 and not gradient.any()


@pytest.mark.parametrize(
    "change, match",
    [
        ({"averaging_rate": 0.0}, "'averaging_rate' parameter of RatioCutLoss"),
        ({"balance_weight": float("nan")}, "'balance_weight' parameter"),
        ({"prior": [1.0, 0.0, 1.0]}, "'prior' parameter of RatioCutLoss"),
        ({"cut": "least"}, "'cut' parameter of RatioCutLoss"),
        ({"prior": [1.0, 1.0]}, "'prior' parameter of RatioCutLoss"),
    ],
)
def test_wrong_parameters_are_refused(change, match):
    with pytest.raises(ValueError, match=match):
        RatioCutLoss(3, **change)


def test_wrong_blocks_and_logits_are_refused(global_random_seed):
    block, sides = problem(seed=global_random_seed)
    loss = RatioCutLoss(3).double()
    with pytest.raises(ValueError, match=r"right sample, \(6, 8\). Got \(8, 6\)"):
        loss(sides[0], torch.tensor(block).T, right=sides[1])
    with pytest.raises(ValueError, match="finite logits and weights"):
        loss(sides[0] * torch.nan, torch.tensor(block), right=sides[1])


def test_a_batch_that_is_refused_or_without_edges_leaves_the_proportions(
    global_random_seed,
):
    block, sides = problem(seed=global_random_seed)
    block = torch.tensor(block)
    loss = RatioCutLoss(3, cut="normalized").double()
    loss(sides[0], block, right=sides[1])
    proportions = loss.proportions.clone()
    with pytest.raises(ValueError, match="finite logits and weights"):
        loss(sides[0] * torch.nan, block, right=sides[1])
    loss(sides[0], torch.zeros_like(block), right=sides[1])
    torch.testing.assert_close(loss.proportions, proportions)


def _process(rank, port, blocks, logits, folder):
    """Compute the loss of one half in its process."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    loss = RatioCutLoss(3, balance_weight=2.0).double()
    left, right = (side.clone().requires_grad_(True) for side in logits[rank])
    value = loss(left, blocks[rank], right=right)
    gradients = torch.autograd.grad(value, (left, right))
    # DistributedDataParallel averages the gradients of processes.
    left, right = (gradient.numpy() / 2 for gradient in gradients)
    np.savez(folder / f"{rank}.npz", value=value.item(), left=left, right=right)
    # To destroy the group waits for its threads, with torch 2.6 for ever now and then.
    os._exit(0)


@pytest.mark.full
def test_two_processes_have_the_loss_of_one(tmp_path):
    block, sides = problem(seed=0)
    rows, columns = (slice(0, 2), slice(2, 6)), (slice(0, 5), slice(5, 8))
    blocks = [torch.tensor(block[r, c]) for r, c in zip(rows, columns, strict=True)]
    logits = [
        (sides[0][r].detach(), sides[1][c].detach())
        for r, c in zip(rows, columns, strict=True)
    ]
    together = RatioCutLoss(3, balance_weight=2.0).double()
    value = together(sides[0], torch.block_diag(*blocks), right=sides[1])
    gradients = torch.autograd.grad(value, sides)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(_process, (port, blocks, logits, tmp_path), nprocs=2)
    for rank in range(2):
        with np.load(tmp_path / f"{rank}.npz") as found:
            assert found["value"] == pytest.approx(value.item(), rel=1e-12)
            for name, gradient, part in (
                ("left", gradients[0], rows[rank]),
                ("right", gradients[1], columns[rank]),
            ):
                np.testing.assert_allclose(found[name], gradient[part], atol=1e-12)


# ------------------------------------------------------------------------ encoders


@pytest.fixture(scope="module")
def blobs(global_random_seed):
    centers = [[0, 0], [6, 0], [0, 6]]
    X, y = make_blobs(150, centers=centers, random_state=global_random_seed)
    return X.astype(np.float32), y


def network():
    return nn.Sequential(nn.Linear(2, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 3))


def test_a_module_is_copied_trained_and_kept_on_the_cpu(blobs, global_random_seed):
    X, y = blobs
    module = network()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = PRCut(3, encoder=module, max_iter=5, random_state=global_random_seed)
    state = torch.get_rng_state()
    model.fit(X)
    assert torch.equal(state, torch.get_rng_state())
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
    assert adjusted_rand_score(y, model.labels_) > 0.6
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    one_by_one = [model.predict(row[None])[0] for row in X[:10]]
    np.testing.assert_array_equal(model.labels_[:10], one_by_one)
    assert model.encoder_ is not module and model.device_ == "cpu"
    assert not hasattr(model, "transform")
    again = clone(model).fit(X)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    labels = model.labels_
    model.partial_fit(X[:70])
    assert adjusted_rand_score(labels[:70], model.labels_) > 0.8
    assert not hasattr(model, "coefs_")
    model.set_params(encoder="linear").fit(X)
    assert hasattr(model, "coefs_") and not hasattr(model, "encoder_")


def test_wrong_modules_are_refused(blobs):
    X, _ = blobs
    with pytest.raises(ValueError, match="one output for each of 4 clusters"):
        PRCut(4, encoder=network(), max_iter=2).fit(X)
    with pytest.raises(TypeError, match="nn.Module. Got function instead"):
        PRCut(3, encoder=lambda X: X).fit(X)
    with pytest.raises(ValueError, match="must have parameters to train"):
        PRCut(3, encoder=nn.Identity()).fit(X)
    with pytest.raises(ValueError, match="must fit float32"):
        PRCut(3, encoder=network(), max_iter=2).fit(X.astype(np.float64) * 1e38)


@pytest.mark.parametrize(
    "change",
    [{"encoder": "linear"}, {"activation": "gelu"}, {"activation": "tanh"}],
)
def test_torch_trains_named_encoders_like_numpy(
    change, blobs, monkeypatch, global_random_seed
):
    from skdiffclust.cuts import _training

    X, _ = blobs
    model = PRCut(
        3,
        encoder="mlp",
        hidden_layer_sizes=(8,),
        max_iter=5,
        n_init=2,
        random_state=global_random_seed,
    )
    model.set_params(**change)
    expected = model.fit(X.astype(np.float64)).coefs_[0].copy()
    # Any device but "cpu" goes through torch; this one is the CPU all the same.
    monkeypatch.setattr(_training, "resolve_device", lambda *_: torch.device("cpu:0"))
    found = clone(model).fit(X.astype(np.float64))
    np.testing.assert_allclose(found.coefs_[0], expected, rtol=1e-6, atol=1e-8)


class Small(nn.Linear):
    """A layer that has no memory for the gradients of more than some samples."""

    limit = 100

    def forward(self, rows):
        if self.training and len(rows) > self.limit:
            raise torch.cuda.OutOfMemoryError("no room")
        return super().forward(rows)


def test_a_batch_that_does_not_fit_is_halved_without_changing_the_step(blobs):
    X, _ = blobs
    module = Small(2, 3, dtype=torch.float64)
    model = PRCut(3, encoder=module, max_iter=2, n_init=1, random_state=0)
    weights = []
    for module.limit in (1000, 40):
        weights.append(clone(model).fit(X).encoder_.weight.detach().numpy())
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6)
    module.limit = 0
    with pytest.raises(torch.cuda.OutOfMemoryError, match="Lower batch_size"):
        clone(model).fit(X)


@pytest.mark.gpu
def test_cuda_trains_what_the_cpu_predicts(blobs):
    if not torch.cuda.is_available():
        pytest.skip("There is no CUDA device here.")
    X, y = blobs
    model = PRCut(3, device="cuda", max_iter=5, random_state=0).fit(X)
    assert model.device_ == "cuda"
    assert adjusted_rand_score(y, model.predict(X)) > 0.8


@pytest.mark.parametrize("form", [torch.tensor, sp.csr_array])
@pytest.mark.parametrize("weight", [-1.0, np.nan])
def test_weights_of_a_block_are_checked(form, weight):
    block = np.eye(4)
    block[1, 1] = weight
    with pytest.raises(ValueError, match="must have weights of at least 0"):
        RatioCutLoss(3)(torch.zeros(4, 3), form(block))


def test_logits_of_another_width_are_refused():
    for logits in (torch.zeros(4, 2), torch.zeros(4)):
        with pytest.raises(
            ValueError, match="one column for each of n_clusters=3. Got|of shape .n, 3."
        ):
            RatioCutLoss(3)(logits, torch.eye(4))
    for n_clusters in (0, 2.5):
        with pytest.raises(ValueError, match="'n_clusters' parameter of RatioCutLoss"):
            RatioCutLoss(n_clusters)


def test_half_precision_is_summed_in_single():
    rng = np.random.RandomState(0)
    block, logits = torch.tensor(rng.rand(6, 6)), torch.tensor(rng.normal(size=(6, 3)))
    half = RatioCutLoss(3)(logits.half(), block)
    assert half.dtype == torch.float32
    whole = RatioCutLoss(3)(logits.half().double(), block)
    np.testing.assert_allclose(half, whole, rtol=1e-5)


def test_a_module_of_several_outputs_is_refused(blobs):
    class Two(torch.nn.Linear):
        def forward(self, X):
            return super().forward(X), X

    with pytest.raises(TypeError, match="must return a tensor. Got tuple from Two"):
        PRCut(4, encoder=Two(2, 4), max_iter=2).fit(blobs[0])
