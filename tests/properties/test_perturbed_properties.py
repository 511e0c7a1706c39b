"""Properties of perturbed spanning forests and of the losses made of them."""

from itertools import product

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from skdiffclust.forests import (
    fenchel_young_loss,
    maximum_spanning_forest,
    partial_fenchel_young_loss,
    perturbed_forest,
)

seeds = st.integers(0, 2**32 - 1)


@st.composite
def affinities(draw, smallest=4, largest=12):
    """A symmetric matrix (n, n), with ties or without, a number of trees, a stream."""
    n, rng = draw(st.integers(smallest, largest)), np.random.RandomState(draw(seeds))
    upper = rng.normal(size=(n, n))
    if draw(st.booleans()):
        upper = np.round(upper)
    upper = np.triu(upper, 1)
    return upper + upper.T, draw(st.integers(1, n)), rng


@st.composite
def problems(draw, largest=8):
    """The same with partial labels (n,) that some forest of k trees meets."""
    affinity, _, rng = draw(affinities(largest=largest))
    n = len(affinity)
    n_classes = draw(st.integers(1, 3))
    labels = rng.randint(-1, n_classes, n)
    n_classes = len(np.unique(labels[labels >= 0]))
    n_free = np.count_nonzero(labels < 0)
    low, high = max(n_classes, 1), max(n_classes + n_free, 1)
    return affinity, labels, draw(st.integers(low, high)), rng


noises = st.sampled_from([0.01, 0.1, 1.0])


@given(affinities(), noises, st.sampled_from(["normal", "gumbel"]), seeds)
def test_a_mean_of_forests_is_in_the_forest_polytope(case, scale, noise, seed):
    affinity, k, _ = case
    n = len(affinity)
    forest = perturbed_forest(
        affinity,
        k,
        noise_scale=scale,
        n_perturbations=6,
        noise=noise,
        random_state=seed,
    ).forest
    assert np.array_equal(forest, forest.T)
    assert not forest.diagonal().any()
    assert forest.min() >= 0.0 and forest.max() <= 1.0
    assert abs(np.triu(forest).sum() - (n - k)) <= 1e-9
    # At most |U| - 1 inside any set U of vertices.
    sets = np.array(list(product([0.0, 1.0], repeat=n)))[1:]
    inside = 0.5 * np.einsum("si,si->s", sets @ forest, sets)
    assert (inside <= sets.sum(axis=1) - 1 + 1e-9).all()


@given(affinities(), noises, st.integers(1, 7), seeds)
def test_a_mean_of_connectivities_is_one_of_partitions(case, scale, n_samples, seed):
    affinity, k, _ = case
    linked = perturbed_forest(
        affinity,
        k,
        noise_scale=scale,
        n_perturbations=n_samples,
        random_state=seed,
        return_connectivity=True,
    ).connectivity
    assert np.array_equal(linked, linked.T)
    assert np.array_equal(linked.diagonal(), np.ones(len(linked)))
    assert linked.min() >= 0.0 and linked.max() <= 1.0
    assert np.linalg.eigvalsh(linked).min() >= -1e-10 * len(linked)


@given(affinities(), noises, seeds)
def test_the_full_loss_is_never_negative_and_convex(case, scale, seed):
    affinity, k, rng = case
    n = len(affinity)
    target = maximum_spanning_forest(affinity, k).edges
    other = rng.normal(size=(n, n))
    other = other + other.T

    def loss(matrix):
        return fenchel_young_loss(
            matrix, target, noise_scale=scale, n_perturbations=4, random_state=seed
        )

    ends = loss(affinity), loss(other)
    assert min(ends) >= 0.0
    for share in (0.25, 0.5):
        mixed = loss(share * affinity + (1 - share) * other)
        assert mixed <= share * ends[0] + (1 - share) * ends[1] + 1e-9


@given(affinities(), seeds)
def test_the_full_loss_is_zero_at_the_forest_itself(case, seed):
    affinity, k, rng = case
    n = len(affinity)
    # Whole numbers, all different: noise of a hundredth changes no forest.
    ranks = np.zeros((n, n))
    ranks[np.triu_indices(n, 1)] = rng.permutation(n * (n - 1) // 2)
    ranks += ranks.T
    target = maximum_spanning_forest(ranks, k).edges
    loss, gradient = fenchel_young_loss(
        ranks,
        target,
        noise_scale=0.01,
        n_perturbations=4,
        random_state=seed,
        return_gradient=True,
    )
    assert abs(loss) <= 1e-9 and not gradient.any()


@given(problems(), noises, seeds)
def test_the_partial_loss_is_never_negative_and_zero_where_labels_are_met(
    case, scale, seed
):
    affinity, labels, k, _ = case
    options = {"noise_scale": scale, "n_perturbations": 4, "random_state": seed}
    assert partial_fenchel_young_loss(affinity, labels, k, **options) >= 0.0
    unknown = np.full(len(labels), -1)
    # But for rounding: the sums are taken in another order.
    assert partial_fenchel_young_loss(affinity, unknown, k, **options) <= 1e-12


def test_the_partial_loss_is_not_convex():
    # It is a difference of convex functions; some midpoint lies above its chord.
    labels, rises = np.array([0, 1, -1, -1]), []
    for seed in range(50):
        ends = np.random.RandomState(seed).normal(size=(2, 4, 4))
        ends = ends + ends.transpose(0, 2, 1)
        first, middle, last = (
            partial_fenchel_young_loss(
                matrix, labels, 2, noise_scale=0.01, n_perturbations=2, random_state=0
            )
            for matrix in (ends[0], ends.mean(axis=0), ends[1])
        )
        rises.append(middle - (first + last) / 2)
    assert max(rises) > 0.1


@given(problems(), seeds)
def test_the_gradient_of_the_partial_loss_is_that_of_single_entries(case, seed):
    affinity, labels, k, rng = case
    options = {"noise_scale": 0.1, "n_perturbations": 4, "random_state": seed}
    i, j = sorted(rng.choice(len(affinity), 2, replace=False))
    step = np.zeros_like(affinity)
    step[i, j] = step[j, i] = 1e-5
    (low, below), (_, gradient), (high, above) = (
        partial_fenchel_young_loss(matrix, labels, k, return_gradient=True, **options)
        for matrix in (affinity - step, affinity, affinity + step)
    )
    assume(np.array_equal(below, gradient) and np.array_equal(gradient, above))
    # The entry and its mirror image both move.
    assert abs((high - low) / 4e-5 - gradient[i, j]) <= 1e-6
    means = [
        perturbed_forest(affinity, k, constraints=known, **options).forest
        for known in (None, labels)
    ]
    assert np.allclose(gradient, means[0] - means[1], rtol=0, atol=1e-12)


@given(affinities(largest=8), seeds, seeds)
def test_no_forest_that_meets_the_labels_has_a_smaller_full_loss(case, seed, other):
    # Proposition 2, where the constrained forest is exact: one labelled row a class.
    affinity, k, rng = case
    n = len(affinity)
    labels = np.full(n, -1)
    named = rng.permutation(n)[: rng.randint(0, k + 1)]
    labels[named] = np.arange(len(named))
    upper = np.random.RandomState(other).normal(size=(n, n))
    feasible = maximum_spanning_forest(upper + upper.T, k, constraints=labels).edges
    options = {"noise_scale": 0.5, "n_perturbations": 4, "random_state": seed}
    partial = partial_fenchel_young_loss(affinity, labels, k, **options)
    assert partial <= fenchel_young_loss(affinity, feasible, **options) + 1e-9


@given(problems(), seeds)
def test_the_stream_and_the_input_are_left_alone(case, seed):
    affinity, labels, k, _ = case
    before = np.random.get_state()  # noqa: NPY002 the global one is meant
    kept = affinity.copy()
    rng = np.random.RandomState(seed)
    first = perturbed_forest(affinity, k, n_perturbations=4, random_state=seed)
    again = perturbed_forest(affinity, k, n_perturbations=4, random_state=rng)
    partial_fenchel_young_loss(affinity, labels, k, random_state=rng)
    assert np.array_equal(first.forest, again.forest)
    assert first.weight == again.weight
    assert np.array_equal(affinity, kept)
    after = np.random.get_state()  # noqa: NPY002
    assert np.array_equal(before[1], after[1]) and before[2:] == after[2:]
