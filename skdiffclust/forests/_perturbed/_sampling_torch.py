"""Free maximum spanning forests of noisy copies, solved together in torch."""

from math import isqrt
from typing import NamedTuple

import numpy as np
import torch

from skdiffclust._torch import to_tensor
from skdiffclust.forests._perturbed import _hash
from skdiffclust.forests._perturbed._noise import N_SEGMENTS
from skdiffclust.forests._trees._boruvka_torch import (
    NONE,
    SELF,
    RankedMatrices,
    Triangle,
    spanning_forest,
    trees_of,
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
    """Return the values (b * s, m) of samples as the kernels have them, bit for bit.

    Of the pairs of a Triangle, for each of b seeds in turn, which are taken instead of
    that of the noise.
    """
    per_draw = noise.samples_per_draw
    values, *images = _noise_of_draws(noise, first, last, triangle, seeds)
    if not images:
        return values
    image = -values if images[0] is None else images[0]
    values = torch.stack([values, image], dim=1)
    n_samples = len(values) // len(seeds) * per_draw
    values = values.view(len(seeds), n_samples, triangle.n_pairs)
    start = first % per_draw
    return values[:, start : start + last - first].flatten(0, 1)


def _noise_of_draws(noise, first, last, triangle, seeds):
    """Return the values (b * d, m) of the draws of samples, and their mirror images.

    A list; an image is None where it has the opposite signs.
    """
    per_draw = noise.samples_per_draw
    device = triangle.heads.device
    draws = torch.arange(first // per_draw, -(-last // per_draw), device=device)
    seeds = torch.tensor([[_signed(seed, 64)] for seed in seeds], device=device)
    base = _mix64(seeds + (draws + 1) * _signed(_hash.GOLDEN, 64)).flatten()
    rows = (torch.arange(triangle.n, device=device) + 1) * _signed(_hash.ROW, 64)
    keys = _mix64(base[:, None] + rows)
    low = keys.to(torch.int32)
    high = _shift(keys, 32, 64).to(torch.int32)
    x = triangle.tails.to(torch.int32) * _signed(_hash.COLUMN, 32)
    x = x + low.index_select(1, triangle.heads)
    x = (x ^ _shift(x, 16, 32)) * _signed(_hash.FIRST, 32)
    x = x ^ high.index_select(1, triangle.heads)
    x = (x ^ _shift(x, 15, 32)) * _signed(_hash.SECOND, 32)
    x = x ^ _shift(x, 15, 32)
    # 2x + 1, times the least normal number: octaves are numbered from 1.
    least = torch.full((), 2.0**-1022, dtype=torch.float64, device=device)
    pattern = torch.add(least, x & 0x7FFFFFFF, alpha=2.0**-1021).view(torch.int64)
    # One of the 512 segments of an octave's position, of the lower or the upper tail,
    # after the 16 of the octave that there is not.
    segment = torch.add(pattern >> 48, x >> 31, alpha=-N_SEGMENTS)
    # The position in the segment, in units of 2**-48, by which the table is scaled:
    # powers of two change no bits of the values.
    t = (pattern & ((1 << 48) - 1)).to(torch.float64)
    table = np.pad(np.ldexp(noise.table, [0, -48, -96, -144]), ((16, 0), (0, 0)))
    table = to_tensor(table, device)
    values = _cubic(table[segment], t)
    if per_draw == 1:
        return [values]
    # Mirror images share their bits: only the tail is the other one.
    if noise.is_symmetric:
        return [values, None]
    return [values, _cubic(table[((segment - 16) ^ N_SEGMENTS) + 16], t)]


def _cubic(coefficients, t):
    """Values at t (d, m) of cubics (d, m, 4).

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
    components : tensor of shape (b, s, n), int64, or None
        Where they were asked for.
    """

    edges: torch.Tensor
    totals: torch.Tensor
    components: torch.Tensor


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
        self.n_clusters = n_clusters
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

    def noisy(self, first, last):
        """Return the RankedMatrices of the noisy copies of some samples."""
        m = self.triangle.n_pairs
        weights = torch.empty(
            (self.n_items, last - first, m + 1),
            dtype=self.clean.dtype,
            device=self.clean.device,
        )
        weights[..., m] = 0.0
        clean = self.clean[:, None]
        own = weights[..., :m]
        per_draw = self.noise.samples_per_draw
        if per_draw == 2 and self.noise.is_symmetric and not (first | last) % 2:
            # The mirror image is no more than a difference.
            draws = _noise_of_draws(self.noise, first, last, self.triangle, self.seeds)[
                0
            ]
            draws = draws.mul_(self.noise.scale)
            draws = draws.view(self.n_items, (last - first) // 2, m)
            torch.add(clean, draws, out=own[:, ::2])
            torch.sub(clean, draws, out=own[:, 1::2])
        else:
            draws = self.draws(first, last).mul_(self.noise.scale)
            torch.add(clean, draws, out=own)
        return RankedMatrices(weights.flatten(0, 1), self.triangle)

    def draws(self, first, last):
        """Return the noise (b, s, m) of some samples."""
        draws = pair_noise(self.noise, first, last, self.triangle, self.seeds)
        return draws.view(self.n_items, last - first, self.triangle.n_pairs)

    def _solve(self, matrices, *, components):
        """Return edges and weights (q, n_edges) and components (q, n), or None."""
        edges = spanning_forest(matrices.ranks).edges[:, : self.n_edges]
        component = self._components(matrices, edges) if components else None
        return *matrices.edges(edges), component

    def _components(self, matrices, edges):
        """Return the components (q, n) of forests, by the ranks of their edges."""
        shape = (len(matrices), self.triangle.n)
        if self.n_clusters == 1:
            return edges.new_zeros(shape, dtype=torch.long)
        if not self.n_edges:
            return torch.arange(shape[1], device=edges.device).expand(shape)
        light = matrices.ranks < edges[:, -1, None, None]
        heavy = matrices.ranks.masked_fill(light, NONE)
        heavy.diagonal(dim1=1, dim2=2).fill_(SELF)
        forest = spanning_forest(heavy, n_trees=self.n_clusters)
        return trees_of(forest)

    def samples(self, *, components=False):
        """Return the Samples of the batch."""
        found = []
        for first, last in self.parts():
            matrices = self.noisy(first, last)
            edges, values, component = self._solve(matrices, components=components)
            parts = (edges, values.sum(dim=1), component)
            shape = (self.n_items, last - first)
            found.append(
                [None if part is None else part.unflatten(0, shape) for part in parts]
            )
        if len(found) == 1:
            return Samples(*found[0])
        return Samples(
            *(
                None if parts[0] is None else torch.cat(parts, dim=1)
                for parts in zip(*found, strict=True)
            )
        )

    def forest(self, samples):
        """Return A_ε (b, n, n)."""
        edges = samples.edges.flatten(1)
        counts = self.similarity.new_zeros(self.n_items, self.triangle.n**2)
        counts.scatter_add_(1, edges, counts.new_ones(edges.shape))
        return _symmetric(counts / self.noise.n_samples)

    def connectivity(self, samples):
        """Return M_ε (b, n, n)."""
        linked = torch.zeros_like(self.similarity)
        for first, last in self.parts():
            linked += _linked(samples.components[:, first:last]).sum(dim=1)
        return linked / self.noise.n_samples

    def vjp(self, samples, *, forest=None, connectivity=None):
        """Return the gradient (b, n, n) of cotangents (b, n, n) of A_ε and of M_ε.

        As `_perturbation.vjp` defines it; None is a cotangent of zeros.
        """
        products = torch.zeros_like(samples.totals)
        if forest is not None:
            edges = samples.edges
            along = forest.flatten(1).gather(1, edges.flatten(1)).view(edges.shape)
            products += 2.0 * along.sum(dim=2)
        if connectivity is not None:
            upper = 2.0 * connectivity.triu(1)[:, None]
            for first, last in self.parts():
                linked = _linked(samples.components[:, first:last])
                products[:, first:last] += (linked * upper).sum(dim=(2, 3))
        return self.score_gradient(products)

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

    def connectivity_losses(self, observed, target):
        """Return the unbiased connectivity losses (b,) and their gradients (b, n, n).

        Of pairs (b, n, n), or (1, n, n) for all, that are observed and linked.
        """
        n_draws = self.noise.n_samples // 2
        samples = self.samples(components=True)
        components = samples.components.unflatten(1, (n_draws, 2))
        total = torch.zeros_like(self.similarity)
        squares = torch.zeros_like(self.similarity)
        for first, last in self.parts():
            pairs = _linked(components[:, first // 2 : last // 2]).mean(dim=2)
            total += pairs.sum(dim=1)
            squares += (pairs**2).sum(dim=1)
        error = (total**2 - squares) / (n_draws * (n_draws - 1))
        error = error + target * (1.0 - 2.0 * total / n_draws)
        products = torch.zeros_like(samples.totals)
        for first, last in self.parts():
            linked = _linked(components[:, first // 2 : last // 2])
            others = (total[:, None] - linked.mean(dim=2)) / (n_draws - 1)
            derivative = 2.0 * observed[:, None] * (others - target[:, None])
            product = (linked * derivative[:, :, None]).sum(dim=(3, 4))
            products[:, first:last] = 2.0 * product.flatten(1)
        losses = 2.0 * (observed * error).sum(dim=(1, 2))
        return losses, self.score_gradient(products)


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


def _linked(component):
    """Connectivity (..., n, n), float64, of components (..., n)."""
    return (component[..., :, None] == component[..., None, :]).to(torch.float64)
