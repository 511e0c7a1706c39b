"""Counter-based noise: the value of a pair is a function of (seed, draw, i, j).

A *draw* is noise for all pairs, of two samples: z and its mirror image. Each pair i < j
of a draw has 32 bits from a hash of two 32-bit keys of (seed, draw, i) and of j. One
bit says on which side of the median the value is, the other 31 how deep in that tail:
u = (m + 1/2) / 2^32. The quantile function is a table of cubic polynomials, linear in
log u between octaves of u, so that numba and torch compute the same bits with one
multiplication and one addition at a time.
"""

from functools import cache

import numpy as np
from scipy.special import ndtri

from skdiffclust._compiled import compiled, inner
from skdiffclust.forests._perturbed._hash import (
    COLUMN,
    FIRST,
    GOLDEN,
    MIX_A,
    MIX_B,
    ROW,
    SECOND,
)

N_SEGMENTS = 512  # 32 octaves of 16 segments
EXPONENT_ZERO = 1023 << 4  # of a float64 in [1, 1 + 1/16), in units of 1/16 octave
_MANTISSA = np.uint64((1 << 48) - 1)
_TO_UNIT = 2.0**-48
_STRIP = 512  # hashes that become noise at a time, if rows are shorter


@cache
def quantile_table(noise):
    """Return polynomials (1024, 4) of a distribution, constant term first.

    There are 512 for each tail. Segment s of the lower tail holds u in [1 + (s % 16) /
    16, + 1/16) 2^(s // 16 - 33), as a cubic in the position inside it, through four of
    its points.
    """
    segments = np.arange(N_SEGMENTS)
    octave = segments // 16
    step = segments % 16
    nodes = np.array([0.0, 0.25, 0.75, 1.0])
    fraction = 1 + (step[:, None] + nodes) / 16
    u = np.ldexp(fraction, octave[:, None] - 33)
    vandermonde = np.vander(nodes, 4, increasing=True)
    tails = _tails(noise, u)
    table = np.concatenate([np.linalg.solve(vandermonde, tail.T).T for tail in tails])
    table.flags.writeable = False
    return table


def _tails(noise, u):
    """Return quantiles at u <= 1/2 and at 1 - u, both accurate in the tail."""
    if noise == "normal":
        lower = ndtri(u)
        return lower, -lower
    return -np.log(-np.log(u)), -np.log(-np.log1p(-u))


def noise_range(noise):
    """Return the smallest and the largest draw: of u = 2^-33 and its mirror image."""
    table = quantile_table(noise)
    return float(table[0, 0]), float(table[N_SEGMENTS, 0])


@inner
def _mix64(h):
    """Return the finalizer of splitmix64 of a hash."""
    h = (h ^ (h >> np.uint64(30))) * MIX_A
    h = (h ^ (h >> np.uint64(27))) * MIX_B
    return h ^ (h >> np.uint64(31))


@inner
def hash_keys(seed, draw, n, first, second):
    """Write the two 32-bit keys of every row of a draw; seed is uint64."""
    base = _mix64(seed + (np.uint64(draw) + np.uint64(1)) * GOLDEN)
    for i in range(n):
        h = _mix64(base + (np.uint64(i) + np.uint64(1)) * ROW)
        first[i] = np.uint32(h & np.uint64(0xFFFFFFFF))
        second[i] = np.uint32(h >> np.uint64(32))


@inner
def pair_bits(first, second, columns, bits, depth):
    """Write the hash (m,) and 2m + 1 as floats of the pairs of a row with columns."""
    for e in range(len(columns)):
        x = np.uint32(np.uint32(columns[e]) * COLUMN + first)
        x = np.uint32(x ^ (x >> np.uint32(16)))
        x = np.uint32(x * FIRST)
        x = np.uint32(x ^ second)
        x = np.uint32(x ^ (x >> np.uint32(15)))
        x = np.uint32(x * SECOND)
        x = np.uint32(x ^ (x >> np.uint32(15)))
        bits[e] = x
        depth[e] = (
            np.float64(np.int32(np.uint32(x & np.uint32(0x7FFFFFFF)))) * 2.0 + 1.0
        )


@compiled(nogil=True)
def quantiles(bits, depth, antithetic_index, table, noise):
    """Write the noise of hashes; `antithetic_index` is 1 for the mirror images."""
    # Unsigned indices, which cannot count from the end, save numba a comparison each.
    pattern = depth.view(np.uint64)
    offset = np.uint64(EXPONENT_ZERO)
    flip = np.uint64(antithetic_index)
    for e in range(len(bits)):
        p = pattern[e]
        side = np.uint64(bits[e] >> np.uint32(31)) ^ flip
        s = (p >> np.uint64(48)) - offset + (side << np.uint64(9))
        t = np.float64(np.int64(p & _MANTISSA)) * _TO_UNIT
        c = table[s]
        noise[e] = ((c[3] * t + c[2]) * t + c[1]) * t + c[0]


def noise_workspace(n, m):
    """Return scratch arrays of `draw_list` for n rows, and the noise of m edges."""
    return (
        np.empty((2, n), dtype=np.uint32),
        np.empty(n + _STRIP, dtype=np.uint32),
        np.empty(n + _STRIP),
        np.empty(m),
    )


@compiled(nogil=True)
def draw_list(seed, draw, antithetic_index, indptr, columns, table, work):
    """Write the noise (m,) of the pairs of a row-major list into ``work[-1]``.

    `work` is from `noise_workspace`.
    """
    keys, bits, depth, noise = work
    hash_keys(seed, draw, len(indptr) - 1, keys[0], keys[1])
    filled = 0
    for i in range(len(indptr) - 1):
        start = indptr[i]
        stop = indptr[i + 1]
        row = slice(filled, filled + stop - start)
        pair_bits(keys[0, i], keys[1, i], columns[start:stop], bits[row], depth[row])
        filled += stop - start
        if filled >= _STRIP or stop == len(columns):
            strip = noise[stop - filled : stop]
            quantiles(bits[:filled], depth[:filled], antithetic_index, table, strip)
            filled = 0


@inner
def draw_sample(draws, s, work):
    """Leave the noise (m,) of a sample, the s-th of `draws`, in ``work[-1]``.

    draws is (seed, first sample, scale, table, indptr, columns), and `work` from
    `noise_workspace`, with the noise of the sample before. Samples 2u and 2u + 1 are an
    antithetic pair and share the draw u. Returns what the noise is to be multiplied by.
    """
    seed, first, scale, table, indptr, columns = draws
    draw, antithetic_index = divmod(first + s, 2)
    if antithetic_index and s and table[0, 0] == -table[N_SEGMENTS, 0]:
        # The mirror image of a symmetric draw is its negative, bit for bit.
        return -scale
    draw_list(seed, draw, antithetic_index, indptr, columns, table, work)
    return scale


def noise_of_samples(draws, n_samples):
    """Return the scaled noise (n_samples, m) of the samples of `draws`."""
    indptr, columns = draws[-2:]
    noise = np.empty((n_samples, len(columns)))
    write_noise(draws, noise_workspace(len(indptr) - 1, len(columns)), noise)
    return noise


@compiled(nogil=True)
def write_noise(draws, work, noise):
    """Write the scaled noise (n_samples, m) of the samples of `draws`."""
    for s in range(len(noise)):
        scale = draw_sample(draws, s, work)
        for e in range(noise.shape[1]):
            noise[s, e] = scale * work[-1][e]
