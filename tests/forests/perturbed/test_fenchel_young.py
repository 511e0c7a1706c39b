"""The losses: values, gradients by finite differences, inequalities, bias."""

import numpy as np
import pytest
from scipy import sparse

from skdiffclust.forests import (
    fenchel_young_loss,
    partial_fenchel_young_loss,
    perturbed_forest,
)


def affinity_of(n, seed=0):
    points = np.random.RandomState(seed).randn(n, 3)
    matrix = -((points[:, None] - points[None]) ** 2).sum(axis=2)
    return (matrix - matrix.mean()) / matrix.std()


def instance(n, seed):
    """Affinity, partial labels and a number of clusters that fits both."""
    rng = np.random.RandomState(seed)
    labels = np.where(rng.rand(n) < 0.6, rng.randint(0, 3, size=n), -1)
    n_classes = len(np.unique(labels[labels >= 0]))
    k = (
        rng.randint(max(n_classes, 1), n_classes + (labels < 0).sum() + 1)
        if (n_classes + (labels < 0).sum() >= max(n_classes, 1))
        else 1
    )
    return affinity_of(n, seed), labels, int(k)


def assert_gradient(loss, affinity, gradient, step=1e-6):
    """Central differences by every pair; both entries of a pair move."""
    n = len(affinity)
    for i in range(n):
        for j in range(i + 1, n):
            moved = np.zeros((n, n))
            moved[i, j] = moved[j, i] = step
            slope = (loss(affinity + moved) - loss(affinity - moved)) / (2 * step)
            assert slope == pytest.approx(2 * gradient[i, j], abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_partial_loss_gradient_is_that_of_fixed_noise(seed, global_random_seed):
    seed += 1000 * global_random_seed
    affinity, labels, k = instance(9, seed)

    def loss(matrix):
        return partial_fenchel_young_loss(
            matrix, labels, k, n_perturbations=10, random_state=global_random_seed
        )

    value, gradient = partial_fenchel_young_loss(
        affinity,
        labels,
        k,
        n_perturbations=10,
        random_state=global_random_seed,
        return_gradient=True,
    )
    assert value == loss(affinity) and value >= 0
    np.testing.assert_array_equal(gradient, gradient.T)
    # Zero where every sample meets the constraints by itself.
    assert gradient.any() == (value > 1e-12)
    assert_gradient(loss, affinity, gradient)


def test_partial_loss_gradient_with_links(global_random_seed):
    links = np.zeros((9, 9), dtype=int)
    links[0, 1] = links[2, 3] = 1
    links[0, 2] = links[1, 4] = links[4, 5] = -1
    affinity = affinity_of(9, global_random_seed + 2)

    def loss(matrix):
        return partial_fenchel_young_loss(
            matrix, links, 3, n_perturbations=10, random_state=global_random_seed
        )

    _, gradient = partial_fenchel_young_loss(
        affinity,
        links,
        3,
        n_perturbations=10,
        random_state=global_random_seed,
        return_gradient=True,
    )
    assert np.abs(gradient).max() > 0
    assert_gradient(loss, affinity, gradient)


def test_full_loss_gradient_is_that_of_fixed_noise(global_random_seed):
    affinity = affinity_of(8, global_random_seed)
    forest = [[0, 1], [2, 3], [3, 4], [6, 5]]

    def loss(matrix):
        return fenchel_young_loss(
            matrix, forest, n_perturbations=9, random_state=global_random_seed
        )

    _, gradient = fenchel_young_loss(
        affinity,
        forest,
        n_perturbations=9,
        random_state=global_random_seed,
        return_gradient=True,
    )
    assert_gradient(loss, affinity, gradient)


def test_partial_loss_is_the_difference_of_two_values(global_random_seed):
    affinity, labels, k = instance(12, global_random_seed + 1)
    values = [
        perturbed_forest(affinity, k, constraints=c, random_state=global_random_seed)
        for c in (None, labels)
    ]
    loss, gradient = partial_fenchel_young_loss(
        affinity, labels, k, random_state=global_random_seed, return_gradient=True
    )
    assert loss == pytest.approx(values[0].weight - values[1].weight)
    np.testing.assert_allclose(
        gradient, values[0].forest - values[1].forest, atol=1e-12
    )


def test_shared_noise_and_antithetic_pairs_tame_the_gradient(global_random_seed):
    affinity, labels, k = instance(16, global_random_seed)

    def mean_of_single_draws(constraints, seed):
        runs = [
            perturbed_forest(
                affinity,
                k,
                constraints=constraints,
                n_perturbations=1,
                random_state=10 * seed + i,
            )
            for i in range(10)
        ]
        return np.mean([run.forest for run in runs], axis=0)

    shared, separate = [], []
    for seed in range(60):
        _, gradient = partial_fenchel_young_loss(
            affinity,
            labels,
            k,
            n_perturbations=10,
            random_state=seed,
            return_gradient=True,
        )
        shared.append(gradient)
        free = mean_of_single_draws(None, seed)
        separate.append(free - mean_of_single_draws(labels, seed + 1000))
    assert np.var(shared, axis=0).sum() < np.var(separate, axis=0).sum() / 1.4


@pytest.mark.parametrize("loss", [partial_fenchel_young_loss, fenchel_young_loss])
@pytest.mark.parametrize("noise_scale", [0, 0.0, np.nan, -1.0])
def test_losses_need_noise(loss, noise_scale, global_random_seed):
    second = [[0, 1]] if loss is fenchel_young_loss else [0, 0, 1]
    args = [affinity_of(3, global_random_seed), second] + [2] * (
        loss is not fenchel_young_loss
    )
    with pytest.raises(ValueError, match="'noise_scale' parameter"):
        loss(*args, noise_scale=noise_scale)


@pytest.mark.parametrize(
    "solve",
    [
        lambda affinity, **noise: perturbed_forest(affinity, 2, **noise),
        lambda affinity, **noise: fenchel_young_loss(affinity, [[0, 1]], **noise),
        lambda affinity, **noise: partial_fenchel_young_loss(
            affinity, [0, 0, 1, -1], 2, **noise
        ),
    ],
)
def test_noisy_copies_that_overflow_are_refused(solve, global_random_seed):
    affinity = affinity_of(4, global_random_seed)
    affinity /= np.abs(affinity).max()
    for unit, noise_scale in [(2e100, 0.1), (1.0, 1e308)]:
        with pytest.raises(ValueError, match=r"at most 1e\+100 .* Divide both"):
            solve(unit * affinity, noise_scale=noise_scale)
    solve(1e100 * affinity, noise_scale=1e100)


def test_wrong_requests_are_refused(global_random_seed):
    affinity = affinity_of(4, global_random_seed)
    with pytest.raises(ValueError, match="Got a cycle instead"):
        fenchel_young_loss(affinity, [[0, 1], [1, 2], [2, 0]])
    graph = sparse.csr_array(np.eye(4, k=1) + np.eye(4, k=-1))
    with pytest.raises(ValueError, match=r"the edge \(0, 3\) instead, which is not"):
        fenchel_young_loss(graph, [[0, 3]])
    with pytest.raises(ValueError, match="at least 2, the number of classes"):
        partial_fenchel_young_loss(affinity, [0, 1, -1, -1], 1)
