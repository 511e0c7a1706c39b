"""Samples of free forests, each against the forest of the same noisy copy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdiffclust.forests import maximum_spanning_forest
from skdiffclust.forests._perturbed._noise import noise_of_samples
from skdiffclust.forests._perturbed._relation import relation_of
from skdiffclust.forests._perturbed._samplers import FreeSampler, Noise


def affinities(n, kind, seed):
    rng = np.random.RandomState(seed)
    if kind == "points":
        points = rng.randn(n, 2)
        matrix = -((points[:, None] - points[None]) ** 2).sum(axis=2)
    elif kind == "ties":
        matrix = rng.randint(-2, 3, size=(n, n)).astype(float)
    elif kind == "outlier":
        matrix = rng.rand(n, n)
        matrix[0, 1:] = -1e6
    else:
        matrix = rng.randn(n, n)
    matrix = np.triu(matrix, 1)
    return matrix + matrix.T


KINDS = ["points", "ties", "outlier", "random"]


def plan(scale, n_samples, *, seed=0, kind="normal"):
    return Noise(scale, n_samples, kind, np.uint64(seed))


def noisy_matrices(relation, noise):
    """The matrices that the samples are solved on, from the same counters."""
    copies = []
    for sample in range(noise.n_samples):
        draws = noise.draws(relation, sample)
        (values,) = relation.weights + noise_of_samples(draws, 1)
        copies.append(relation.spread(values))
    return copies


def assert_samples(relation, k, noise):
    """Every sample is the forest of its noisy copy: its edges, components, weight."""
    found = FreeSampler(relation, k, noise).sample(0, noise.n_samples)
    pairs = np.column_stack(relation.ends)
    for s, matrix in enumerate(noisy_matrices(relation, noise)):
        expected = maximum_spanning_forest(matrix, k)
        np.testing.assert_array_equal(
            np.unique(pairs[found.forests[s]], axis=0),
            np.unique(expected.edges, axis=0),
        )
        same = expected.labels[:, None] == expected.labels
        np.testing.assert_array_equal(found.labels[s][:, None] == found.labels[s], same)
        assert found.totals[s] == pytest.approx(expected.weight, rel=1e-12, abs=1e-12)


@given(
    n=st.integers(1, 60),
    k=st.integers(1, 30),
    kind=st.sampled_from(KINDS),
    scale=st.sampled_from([0.0, 1e-9, 0.02, 0.3, 10.0]),
    noise=st.sampled_from(["normal", "gumbel"]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=60)
def test_samples_are_forests_of_noisy_copies(n, k, kind, scale, noise, seed):
    relation = relation_of(affinities(n, kind, seed))
    assert_samples(relation, min(k, n), plan(scale, 6, seed=seed, kind=noise))


def test_edges_that_never_enter_are_left_out(global_random_seed):
    matrix = affinities(200, "points", global_random_seed)
    matrix /= matrix.std()
    relation = relation_of(matrix)
    shares = []
    for scale in (0.1, 0.01):
        sampler = FreeSampler(relation, 5, plan(scale, 2, seed=global_random_seed))
        shares.append(len(sampler.kept) / len(relation.weights))
    assert 0.01 < shares[1] < 0.5 < shares[0] < 0.9


@pytest.mark.paper
def test_thousand_cases():
    rng = np.random.RandomState(0)
    for case in range(1000):
        n = rng.randint(2, 65)
        relation = relation_of(affinities(n, KINDS[case % 4], case))
        noise = plan(rng.choice([0.02, 0.1, 1.0]), 2, seed=case)
        assert_samples(relation, rng.randint(1, n + 1), noise)
