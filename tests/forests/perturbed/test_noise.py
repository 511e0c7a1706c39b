"""The noise: its distribution, independence, antithetic pairs and bounds."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

from skdiffclust.forests._perturbed._hash import draw_seed
from skdiffclust.forests._perturbed._noise import (
    draw_list,
    noise_range,
    noise_workspace,
    quantile_table,
)
from skdiffclust.forests._perturbed._relation import relation_of

DISTRIBUTIONS = {"normal": stats.norm, "gumbel": stats.gumbel_r}


def draw_of(n, *, seed, unit=0, mirror=0, noise="normal", columns=None, indptr=None):
    if columns is None:
        pairs = relation_of(np.zeros((n, n)))
        indptr, columns = pairs.indptr, pairs.columns
    work = noise_workspace(n, len(columns))
    table = quantile_table(noise)
    draw_list(np.uint64(seed), unit, mirror, indptr, columns, table, work)
    return work[-1]


@pytest.fixture
def draw(global_random_seed):
    """``draw(n)``: the noise of n rows, from this seed."""
    return partial(draw_of, seed=global_random_seed)


@pytest.mark.parametrize("noise", DISTRIBUTIONS)
def test_distribution(noise, draw):
    draws = np.concatenate([draw(200, noise=noise, unit=unit) for unit in range(10)])
    assert stats.kstest(draws, DISTRIBUTIONS[noise].cdf).pvalue > 1e-3


@pytest.mark.parametrize("noise", DISTRIBUTIONS)
def test_quantiles_are_exact_to_the_eye_of_the_table(noise, draw):
    # The draws know their u: invert the distribution and compare the quantiles.
    draws = np.sort(draw(600, noise=noise))
    u = DISTRIBUTIONS[noise].cdf(draws)
    grid = (np.floor(u * 2**32) + 0.5) / 2**32
    exact = DISTRIBUTIONS[noise].ppf(grid)
    inner = np.abs(u - 0.5) < 0.4999
    np.testing.assert_allclose(draws[inner], exact[inner], atol=2e-6)


@pytest.mark.parametrize("noise", DISTRIBUTIONS)
def test_mirror_image(noise, draw):
    u = DISTRIBUTIONS[noise].cdf(draw(50, noise=noise))
    mirrored = DISTRIBUTIONS[noise].cdf(draw(50, noise=noise, mirror=1))
    np.testing.assert_allclose(u + mirrored, 1, atol=1e-6)
    if noise == "normal":
        np.testing.assert_array_equal(draw(50), -draw(50, mirror=1))


def test_no_correlation_between_neighbours_units_and_seeds(draw, global_random_seed):
    n = 300
    one = np.zeros((n, n))
    ends = np.triu_indices(n, 1)
    one[ends] = draw(n)
    others = {
        "unit": draw(n, unit=1),
        "seed": draw(n, seed=global_random_seed + 1),
        "far seed": draw(n, seed=2**63),
    }
    m = len(ends[0])
    for other in others.values():
        assert abs(np.corrcoef(draw(n), other)[0, 1]) < 4.5 / np.sqrt(m)
    for shift in [(0, 1), (1, 0), (1, 1)]:
        moved = np.roll(one, shift, axis=(0, 1))
        both = (one != 0) & (moved != 0)
        correlation = np.corrcoef(one[both], moved[both])[0, 1]
        assert abs(correlation) < 4.5 / np.sqrt(both.sum())
    squares = np.corrcoef(draw(n) ** 2, others["unit"] ** 2)[0, 1]
    assert abs(squares) < 4.5 / np.sqrt(m)


def test_draws_are_distinct(draw):
    draws = np.concatenate([draw(300, unit=unit) for unit in range(4)])
    # 32 bits: among 179 400 draws about 7.5 pairs are equal by chance.
    assert len(draws) - len(np.unique(draws)) < 25


def test_a_draw_does_not_depend_on_the_other_edges_of_the_list(
    draw, global_random_seed
):
    n = 20
    heads, columns = np.triu_indices(n, 1)
    kept = np.random.RandomState(global_random_seed).rand(len(columns)) < 0.3
    starts = np.concatenate([[0], np.cumsum(np.bincount(heads[kept], minlength=n))])
    few = draw(n, columns=columns[kept].astype(np.int32), indptr=starts)
    np.testing.assert_array_equal(few, draw(n)[kept])


@pytest.mark.parametrize("noise", DISTRIBUTIONS)
def test_range(noise, draw):
    low, high = noise_range(noise)
    draws = np.concatenate([draw(200, noise=noise, unit=unit) for unit in range(10)])
    assert low <= draws.min() and draws.max() <= high
    u = 2.0**-33
    np.testing.assert_allclose(
        [low, high], [DISTRIBUTIONS[noise].ppf(u), DISTRIBUTIONS[noise].isf(u)]
    )


def test_seed_uses_64_bits_and_only_the_given_stream():
    seeds = {int(draw_seed(np.random.RandomState(state))) for state in range(50)}
    assert len(seeds) == 50
    assert seeds == {int(draw_seed(state)) for state in range(50)}
    assert max(seeds) > 2**60
    for bit in (0, 32):
        assert {seed >> bit & 1 for seed in seeds} == {0, 1}
