"""Free maximum spanning forests of noisy copies, solved together in torch."""

import torch

from skdiffclust._torch import to_tensor
from skdiffclust.forests._perturbed import _hash
from skdiffclust.forests._perturbed._noise import EXPONENT_ZERO, N_SEGMENTS
from skdiffclust.forests._perturbed._perturbation import score_coefficients
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


def pair_noise(noise, samples, seeds, triangle):
    """Return the noise (q, m) of samples (q,), bit for bit that of the kernels.

    Of the pairs of a Triangle; seeds (q,), int64, replace the seed of `noise`.
    """
    draws = samples // 2
    base = _mix64(seeds + (draws + 1) * _signed(_hash.GOLDEN, 64))
    rows = torch.arange(1, triangle.n + 1, device=samples.device)
    keys = _mix64(base[:, None] + rows * _signed(_hash.ROW, 64))
    low = keys.to(torch.int32)
    high = _shift(keys, 32, 64).to(torch.int32)
    x = triangle.tails.to(torch.int32) * _signed(_hash.COLUMN, 32)
    x = x + low.index_select(1, triangle.heads)
    x = (x ^ _shift(x, 16, 32)) * _signed(_hash.FIRST, 32)
    x = x ^ high.index_select(1, triangle.heads)
    x = (x ^ _shift(x, 15, 32)) * _signed(_hash.SECOND, 32)
    x = x ^ _shift(x, 15, 32)
    # 2m + 1 as a float: its exponent and first bits are the segment, the others the
    # position in the segment.
    depth = (x & 0x7FFFFFFF).to(torch.float64) * 2.0 + 1.0
    pattern = depth.view(torch.int64)
    t = (pattern & ((1 << 48) - 1)).to(torch.float64) * 2.0**-48
    # The highest bit says which tail; mirror images are in the other one.
    is_upper = (x < 0) ^ (samples % 2 == 1)[:, None]
    segments = (pattern >> 48) - EXPONENT_ZERO + N_SEGMENTS * is_upper.to(torch.int64)
    coefficients = to_tensor(noise.table, samples.device)[segments]
    # One product and one sum at a time: a fused one would round differently.
    values = coefficients[..., 3] * t
    for power in (2, 1):
        values = values.add_(coefficients[..., power]).mul_(t)
    return values.add_(coefficients[..., 0])


class BatchSampler:
    """Forests of noisy copies of the matrices of a batch, those of the kernels.

    All matrices and samples are solved together, as many as fit in memory.

    Parameters
    ----------
    similarity : tensor of shape (b, n, n), float64
    n_clusters : int
    noise : Noise
    seeds : list of b
        Seed of the noise of each matrix, instead of that of `noise`.

    Attributes
    ----------
    edges : tensor of shape (b, s, n - n_clusters), int64
        i * n + j with i < j.
    totals : tensor of shape (b, s), float64
        Weights of the forests.
    """

    def __init__(self, similarity, n_clusters, noise, seeds):
        (n_items, n) = similarity.shape[:2]
        device = similarity.device
        self.noise = noise
        self.seeds = torch.tensor([_signed(seed, 64) for seed in seeds], device=device)
        self.triangle = Triangle(n, device)
        self.step = samples_at_once(n, device)
        clean = similarity.flatten(1).index_select(1, self.triangle.pairs)
        edges = []
        totals = []
        for places in torch.arange(n_items * noise.n_samples, device=device).split(
            self.step
        ):
            items = places // noise.n_samples
            draws = self._noise_of(places % noise.n_samples, items)
            noisy = clean[items] + noise.scale * draws
            # The last column is that of the diagonal.
            noisy = torch.nn.functional.pad(noisy, (0, 1))
            matrices = RankedMatrices(noisy, self.triangle)
            ranks = spanning_forest(matrices.ranks)[:, : n - n_clusters]
            matrix_edges, weights = matrices.edges(ranks)
            edges.append(matrix_edges)
            totals.append(weights.sum(dim=1))
        shape = (n_items, noise.n_samples)
        self.edges = torch.cat(edges).unflatten(0, shape)
        self.totals = torch.cat(totals).unflatten(0, shape)

    def _noise_of(self, samples, items):
        """Return the noise (q, m) of samples (q,) of items (q,)."""
        return pair_noise(self.noise, samples, self.seeds[items], self.triangle)

    def forest(self):
        """Return A_ε (b, n, n)."""
        n = self.triangle.n
        edges = self.edges.flatten(1)
        counts = self.totals.new_zeros(len(edges), n * n)
        counts.scatter_add_(1, edges, counts.new_ones(edges.shape))
        upper = counts.view(-1, n, n) / self.noise.n_samples
        return upper + upper.mT

    def vjp(self, cotangent):
        """Return the gradient (b, n, n) of a cotangent (b, n, n) of A_ε.

        As `_perturbation.vjp` defines it.
        """
        edges = self.edges
        along = cotangent.flatten(1).gather(1, edges.flatten(1)).view(edges.shape)
        products = (2.0 * along.sum(dim=2)).cpu().numpy()
        gradient = self.totals.new_zeros(len(edges), self.triangle.n_pairs + 1)
        samples = torch.arange(self.noise.n_samples, device=edges.device)
        for item, row in enumerate(products):
            coefficients = score_coefficients(self.noise, row)
            coefficients = to_tensor(coefficients, edges.device).split(self.step)
            for part, chosen in zip(
                coefficients, samples.split(self.step), strict=True
            ):
                scores = self._noise_of(chosen, torch.full_like(chosen, item))
                if self.noise.kind == "gumbel":
                    scores = 1.0 - torch.exp(-scores)
                gradient[item, :-1] += part @ scores
        return 0.5 * self.triangle.spread(gradient)


def samples_at_once(n, device):
    """Return how many samples of n rows fit in the scratch memory of a device."""
    free = _CPU_BYTES
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0] // 2
    return max(1, int(free // max(n * n * _BYTES_PER_ENTRY, 1)))
