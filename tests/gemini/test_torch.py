"""GEMINILoss, against the definition in NumPy, and for sums over processes."""

import threading

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import softmax

from skdiffclust.gemini import available_objectives, gemini_score
from skdiffclust.nn import GEMINILoss

per_case = pytest.mark.parametrize(
    "objective, mode",
    [(name, mode) for name in available_objectives() for mode in ("ova", "ovo")],
)


def problem(n=12, k=3, d=4, seed=0):
    rng = np.random.RandomState(seed)
    return rng.normal(size=(n, k)), rng.normal(size=(n, d))


@per_case
def test_value_and_gradient_are_those_of_the_definition(
    objective, mode, global_random_seed
):
    logits, X = problem(seed=global_random_seed)
    leaf = torch.tensor(logits, requires_grad=True)
    loss = GEMINILoss(objective, mode=mode)(leaf, torch.tensor(X))
    loss.backward()
    P = softmax(logits, axis=1)
    value, gradient = gemini_score(
        P, X, objective=objective, mode=mode, return_gradient=True
    )
    assert_allclose(-loss.item(), value, rtol=1e-12)
    expected = P * (gradient - np.sum(P * gradient, axis=1, keepdims=True))
    assert_allclose(-leaf.grad.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize("objective", ["mmd", "wasserstein"])
def test_a_matrix_is_its_relation(objective, mode, global_random_seed):
    logits, X = problem(seed=global_random_seed)
    leaf = torch.tensor(logits)
    matrix = X @ X.T
    if objective == "wasserstein":
        matrix = np.linalg.norm(X[:, None] - X, axis=2)
    loss = GEMINILoss(objective, mode=mode, precomputed=True)
    expected = GEMINILoss(objective, mode=mode)(leaf, torch.tensor(X))
    assert_allclose(loss(leaf, torch.tensor(matrix)), expected, rtol=1e-12)


@pytest.mark.parametrize("objective", ["mmd", "kl", "chi2"])
@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_the_sums_of_two_processes_are_those_of_all_rows(
    objective, mode, global_random_seed
):
    logits, X = problem(seed=global_random_seed)
    whole = GEMINILoss(objective, mode=mode)(torch.tensor(logits), torch.tensor(X))
    barrier, slots, results = threading.Barrier(2), [None, None], [None, None]

    def run(part):
        def reduce(tensor):
            slots[part] = tensor
            barrier.wait()
            total = slots[0] + slots[1]
            barrier.wait()
            return total

        rows = slice(part, None, 2)
        loss = GEMINILoss(objective, mode=mode, reduce=reduce)
        results[part] = loss(torch.tensor(logits[rows]), torch.tensor(X[rows]))

    threads = [threading.Thread(target=run, args=(part,)) for part in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert_allclose(results, [whole.item()] * 2, rtol=1e-12)


def test_close_clusters_keep_their_digits_in_float32(global_random_seed):
    logits, X = problem(n=40, k=2, seed=global_random_seed)
    rng = np.random.RandomState(global_random_seed + 1)
    close = logits[:, :1] + 1e-3 * rng.uniform(-1, 1, size=(40, 1))
    arrays = (np.hstack([logits, close]), X)
    gradients = []
    for dtype in (torch.float32, torch.float64):
        leaf, rows = (torch.tensor(array).float().to(dtype) for array in arrays)
        GEMINILoss(mode="ovo")(leaf.requires_grad_(), rows).backward()
        gradients.append(leaf.grad.numpy())
    low, high = gradients
    assert low.dtype == np.float32
    # Softmax itself rounds the difference of the assignments.
    assert_allclose(low, high, atol=0.05 * np.abs(high).max())


def test_an_offset_of_features_costs_no_digits_in_float32(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    logits = torch.tensor(rng.normal(size=(200, 3)), dtype=torch.float32)
    X = torch.tensor(rng.randint(-4, 5, (200, 2)), dtype=torch.float32)
    assert_allclose(
        GEMINILoss()(logits, X + 2.0**18), GEMINILoss()(logits, X), rtol=1e-4
    )


def test_wrong_input_is_refused(global_random_seed):
    logits, X = (torch.tensor(array) for array in problem(seed=global_random_seed))
    with pytest.raises(ValueError, match="'objective' parameter of GEMINILoss"):
        GEMINILoss("mean")
    with pytest.raises(
        ValueError, match="must have 12 samples, like the logits. Got None"
    ):
        GEMINILoss()(logits)
    with pytest.raises(ValueError, match="must be a square matrix"):
        GEMINILoss(precomputed=True)(logits, X)
    with pytest.raises(ValueError, match="in several processes"):
        GEMINILoss("wasserstein", reduce=lambda tensor: 2 * tensor)(logits, X)
    for name in available_objectives():
        with pytest.raises(
            ValueError, match=r"sample and one cluster. Got shape \(0, 3\)"
        ):
            GEMINILoss(name)(logits[:0], X[:0])


@pytest.mark.gpu
@per_case
def test_on_a_gpu(objective, mode):
    if not torch.cuda.is_available():
        pytest.skip("There is no CUDA device here.")
    logits, X = problem()
    value = gemini_score(softmax(logits, axis=1), X, objective=objective, mode=mode)
    arrays = (torch.tensor(array, device="cuda") for array in (logits, X))
    assert_allclose(-GEMINILoss(objective, mode=mode)(*arrays).item(), value, rtol=1e-9)


@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_logits_that_are_no_numbers_have_no_loss_of_zero(mode):
    logits = torch.full((6, 3), torch.nan)
    assert GEMINILoss(mode=mode)(logits, torch.ones(6, 2)).isnan()


@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_transport_to_an_empty_cluster_is_finite(mode, dtype):
    logits, X = problem()
    logits[:, 0] = -2000.0
    leaf = torch.tensor(logits, dtype=dtype, requires_grad=True)
    loss = GEMINILoss("wasserstein", mode=mode)(leaf, torch.tensor(X))
    loss.backward()
    assert leaf.grad.isfinite().all()
    expected = gemini_score(
        softmax(logits, axis=1), X, objective="wasserstein", mode=mode
    )
    assert_allclose(-loss.item(), expected, rtol=1e-6)


@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_transport_between_equal_densities_has_no_gradient(
    mode, dtype, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    for n_samples in (2, 7, 60):
        X = rng.normal(size=(n_samples, 2))
        logits = np.tile(rng.normal(size=3), (n_samples, 1))
        leaf = torch.tensor(logits, dtype=dtype, requires_grad=True)
        loss = GEMINILoss("wasserstein", mode=mode)(leaf, torch.tensor(X))
        loss.backward()
        assignments = softmax(leaf.detach().numpy(), axis=1)
        options = {"objective": "wasserstein", "mode": mode, "return_gradient": True}
        value, gradient = gemini_score(assignments, X, **options)
        assert value == loss.item() == 0.0
        np.testing.assert_array_equal(gradient, 0.0)
        np.testing.assert_array_equal(leaf.grad, 0.0)


def test_probabilities_in_place_of_logits_are_named_once():
    logits, X = (torch.tensor(array) for array in problem())
    loss = GEMINILoss()
    with pytest.warns(UserWarning, match="takes logits and applies a softmax itself"):
        loss(torch.softmax(logits, dim=1), X)
    loss(torch.softmax(logits, dim=1), X)  # warnings are errors here
    GEMINILoss()(logits, X)
    assert "logits" in GEMINILoss.__doc__.splitlines()[0]


@pytest.mark.parametrize("objective", ["mmd", "kl"])
def test_a_gradient_of_zero_is_named(objective):
    logits, X = (torch.tensor(array) for array in problem())
    leaf = (1e15 * logits).requires_grad_()
    with pytest.warns(UserWarning, match="gradient of zero: with logits up to .*e.15"):
        GEMINILoss(objective)(leaf, X).backward()
    assert not leaf.grad.any()
    # Neither do large logits of a few samples, nor those of small ones.
    logits[0] *= 1e15
    GEMINILoss(objective)(logits, X)
