"""Free maximum spanning forests of noisy copies, solved together in torch."""

from math import isqrt
from typing import NamedTuple

import torch

from skdiffclust._torch import to_tensor
from skdiffclust.forests._perturbed import _hash
from skdiffclust.forests._perturbed._noise import EXPONENT_ZERO, N_SEGMENTS
from skdiffclust.forests._trees._boruvka_torch import (
    RankedMatrices,
    Triangle,
    spanning_forest,
)

# Scratch of a chunk of samples, in bytes an entry of every noisy matrix.
_BYTES_PER_ENTRY = 64
_CPU_BYTES = 2**28


def _signed(value, bits):
    """Return an unsigned constant as the signed integer of the same bits."""
    value = int(value)
    return value - (1 << bits) if value >= 1 << (bits - 1) else value


def _shift(x, places, bits):
    """Shift signed integers right, filling with zeros."""
    return (x >> places) & ((1 << (bits - places)) - 1)


def _mix64(h):
    """Finalizer of splitmix64 on int64, which wraps."""
    h = (h ^ _shift(h, 30, 64)) * _signed(_hash.MIX_A, 64)
    h = (h ^ _shift(h, 27, 64)) * _signed(_hash.MIX_B, 64)
    return h ^ _shift(h, 31, 64)


def pair_noise(noise, first, last, triangle, seeds):
    """Return the values (b, s, m) of samples as the kernels have them, bit for bit.

    Of the pairs of a Triangle, for each of b seeds in turn, which are taken instead of
    that of the noise.
    """
    per_draw = noise.samples_per_draw
    device = triangle.heads.device
    draws = torch.arange(first // per_draw, -(-last // per_draw), device=device)
    seeds = torch.tensor([[_signed(seed, 64)] for seed in seeds], device=device)
    base = _mix64(seeds + (draws + 1) * _signed(_hash.GOLDEN, 64))
    rows = (torch.arange(triangle.n, device=device) + 1) * _signed(_hash.ROW, 64)
    keys = _mix64(base[:, :, None] + rows)
    low = keys.to(torch.int32)
    high = _shift(keys, 32, 64).to(torch.int32)
    x = triangle.tails.to(torch.int32) * _signed(_hash.COLUMN, 32)
    x = x + low.index_select(2, triangle.heads)
    x = (x ^ _shift(x, 16, 32)) * _signed(_hash.FIRST, 32)
    x = x ^ high.index_select(2, triangle.heads)
    x = (x ^ _shift(x, 15, 32)) * _signed(_hash.SECOND, 32)
    x = x ^ _shift(x, 15, 32)
    # 2m + 1 as a float: its exponent and first bits are the segment, the others the
    # position in the segment.
    depth = (x & 0x7FFFFFFF).to(torch.float64) * 2.0 + 1.0
    pattern = depth.view(torch.int64)
    segment = (pattern >> 48) - EXPONENT_ZERO
    t = (pattern & ((1 << 48) - 1)).to(torch.float64) * 2.0**-48
    table = to_tensor(noise.table, device)
    # The highest bit says which tail; mirror images are in the other one.
    side = (x < 0).to(torch.int64) * N_SEGMENTS
    values = [_cubic(table[segment + side], t)]
    if per_draw == 2:
        image = -values[0]
        if not noise.is_symmetric:
            image = _cubic(table[segment + (N_SEGMENTS - side)], t)
        values.append(image)
    start = first % per_draw
    samples = torch.stack(values, dim=2).flatten(1, 2)
    return samples[:, start : start + last - first]


def _cubic(coefficients, t):
    """Values at t (b, d, m) of cubics (b, d, m, 4).

    One product and one sum at a time: a fused one would round differently.
    """
    values = coefficients[..., 3] * t
    for power in (2, 1):
        values = values.add_(coefficients[..., power]).mul_(t)
    return values.add_(coefficients[..., 0])


class Samples(NamedTuple):
    """Forests of all samples of a batch of matrices.

    Attributes
    ----------
    edges : tensor of shape (b, s, n_edges), int64
        i * n + j with i < j.
    totals : tensor of shape (b, s), float64
        Weights of the forests.
    """

    edges: torch.Tensor
    totals: torch.Tensor


class BoruvkaSampler:
    """Samples of forests in torch, the same forests as those of the kernels.

    The matrices of a batch are solved together, and so are their samples, as many as
    fit in memory.

    Parameters
    ----------
    similarity : tensor of shape (b, n, n), float64
    n_clusters : int
    noise : Noise
    seeds : list of b
        Seed of the noise of each matrix, instead of that of `noise`.
    """

    def __init__(self, similarity, n_clusters, noise, seeds):
        self.similarity = similarity
        self.noise = noise
        self.seeds = seeds
        (self.n_items, n) = similarity.shape[:2]
        device = similarity.device
        self.n_edges = n - n_clusters
        self.triangle = Triangle(n, device)
        self.clean = similarity.flatten(1).index_select(1, self.triangle.pairs)
        per_draw = noise.samples_per_draw
        at_once = samples_at_once(n, device)
        self.step = max(1, at_once // (self.n_items * per_draw)) * per_draw

    def parts(self):
        """Yield the first sample and the last of each chunk."""
        n_samples = self.noise.n_samples
        for first in range(0, n_samples, self.step):
            yield first, min(first + self.step, n_samples)

    def draws(self, first, last):
        """Return the noise (b, s, m) of some samples."""
        return pair_noise(self.noise, first, last, self.triangle, self.seeds)

    def samples(self):
        """Return the Samples of the batch."""
        edges = []
        totals = []
        for first, last in self.parts():
            noisy = self.clean[:, None] + self.noise.scale * self.draws(first, last)
            # The last column is that of the diagonal.
            noisy = torch.nn.functional.pad(noisy.flatten(0, 1), (0, 1))
            matrices = RankedMatrices(noisy, self.triangle)
            ranks = spanning_forest(matrices.ranks)[:, : self.n_edges]
            shape = (self.n_items, last - first)
            found, weights = matrices.edges(ranks)
            edges.append(found.unflatten(0, shape))
            totals.append(weights.sum(dim=1).unflatten(0, shape))
        return Samples(torch.cat(edges, dim=1), torch.cat(totals, dim=1))

    def forest(self, samples):
        """Return A_ε (b, n, n)."""
        edges = samples.edges.flatten(1)
        counts = self.similarity.new_zeros(self.n_items, self.triangle.n**2)
        counts.scatter_add_(1, edges, counts.new_ones(edges.shape))
        return _symmetric(counts / self.noise.n_samples)

    def vjp(self, samples, cotangent):
        """Return the gradient (b, n, n) of a cotangent (b, n, n) of A_ε.

        As `_perturbation.vjp` defines it.
        """
        edges = samples.edges
        along = cotangent.flatten(1).gather(1, edges.flatten(1)).view(edges.shape)
        return self.score_gradient(2.0 * along.sum(dim=2))

    def score_gradient(self, products):
        """Return the gradient (b, n, n) that `_perturbation.score_gradient` defines.

        Of products (b, s).
        """
        noise = self.noise
        draws = (
            torch.arange(noise.n_samples, device=products.device)
            // noise.samples_per_draw
        )
        n_draws = -(-noise.n_samples // noise.samples_per_draw)
        sizes = products.new_full((n_draws,), float(noise.samples_per_draw))
        sizes[-1] = noise.n_samples - (n_draws - 1) * noise.samples_per_draw
        means = products.new_zeros(self.n_items, n_draws)
        means = means.index_add_(1, draws, products) / sizes
        if n_draws > 1:
            others = (means.sum(dim=1, keepdim=True) - means) / (n_draws - 1)
            products = products - others.index_select(1, draws)
        coefficients = products / (n_draws * sizes[draws] * noise.scale)
        gradient = self.similarity.new_zeros(self.n_items, self.triangle.n_pairs + 1)
        for first, last in self.parts():
            values = self.draws(first, last)
            scores = 1.0 - torch.exp(-values) if noise.kind == "gumbel" else values
            weighted = coefficients[:, None, first:last] @ scores
            gradient[:, :-1] += weighted[:, 0]
        return 0.5 * self.triangle.spread(gradient)


def samplers(similarity, n_clusters, noise, seeds):
    """Yield items of a batch, a slice, and the BoruvkaSampler of those items.

    They are solved together, as many as fit in memory. The matrices (b, n, n) have
    seeds of their own.
    """
    (n_items, n) = similarity.shape[:2]
    at_once = samples_at_once(n, similarity.device) // noise.samples_per_draw
    at_once = max(1, at_once)
    for first in range(0, n_items, at_once):
        items = slice(first, first + at_once)
        yield items, BoruvkaSampler(similarity[items], n_clusters, noise, seeds[items])


def samples_at_once(n, device):
    """Return how many samples of n rows fit in the scratch memory of a device."""
    free = _CPU_BYTES
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0] // 2
    return int(free // max(n * n * _BYTES_PER_ENTRY, 1))


def _symmetric(counts):
    """Return counts (b, n * n) of pairs i < j as symmetric matrices (b, n, n)."""
    n = isqrt(counts.shape[1])
    upper = counts.view(-1, n, n)
    return upper + upper.mT
