"""Maximum spanning forests of noisy copies, solved together in torch."""

import torch

from skdiffclust._torch import to_tensor
from skdiffclust.forests._constrained._constrained_torch import (
    TorchProblem,
    constrained_trees,
)
from skdiffclust.forests._constrained._problem import constrained_problem
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

# Scratch of a chunk of samples, in bytes an entry of every noisy matrix: of free and
# of constrained forests; of these also for what the ways of samples to trees replace.
_BYTES_PER_ENTRY = 64
_BYTES_CONSTRAINED = 160
_BYTES_PER_WAY = 8
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


def pair_noise(noise, first, last, triangle, seeds=None):
    """Return the values (s, m) of samples as the kernels have them, bit for bit.

    Of the pairs of a Triangle. With `seeds`, a list of b, those of each in turn
    (b * s, m) instead of those of the noise.
    """
    per_draw = noise.samples_per_draw
    device = triangle.heads.device
    draws = torch.arange(first // per_draw, -(-last // per_draw), device=device)
    seeds = [noise.seed] if seeds is None else seeds
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
    pattern = (x & 0x7FFFFFFF).to(torch.float64).mul_(2.0).add_(1.0).view(torch.int64)
    # One of the 512 segments of an octave's position, of the lower or the upper tail.
    segment = (pattern >> 48) - (1023 << 4)
    segment += (x >> 31) & N_SEGMENTS
    t = (pattern & ((1 << 48) - 1)).to(torch.float64).mul_(2.0**-48)
    table = to_tensor(noise.table, device)
    values = _cubic(table[segment], t)
    if per_draw == 1:
        return values
    # Mirror images share their bits: only the tail is the other one.
    if noise.is_symmetric:
        images = -values
    else:
        images = _cubic(table[segment ^ N_SEGMENTS], t)
    values = torch.stack([values, images], dim=1)
    values = values.view(len(seeds), len(draws) * per_draw, triangle.n_pairs)
    start = first % per_draw
    return values[:, start : start + last - first].flatten(0, 1)


def _cubic(coefficients, t):
    """Values at t (d, m) of cubics (d, m, 4).

    One product and one sum at a time: a fused one would round differently.
    """
    values = coefficients[..., 3] * t
    for power in (2, 1):
        values = values.add_(coefficients[..., power]).mul_(t)
    return values.add_(coefficients[..., 0])


class BoruvkaSampler:
    """Samples of forests in torch, the same forests as those of the kernels.

    Parameters
    ----------
    similarity : tensor of shape (n, n), float64
    n_clusters : int
    noise : Noise
    constraints : Constraints or None
    """

    def __init__(self, similarity, n_clusters, noise, constraints=None):
        self.similarity = similarity
        self.noise = noise
        n = len(similarity)
        device = similarity.device
        self.n_clusters = n_clusters
        self.n_edges = n - n_clusters
        self.triangle = Triangle(n, device)
        self.clean = similarity.flatten()[self.triangle.pairs]
        self.problem = None
        if constraints is not None:
            problem = constrained_problem(constraints, n_clusters)
            self.problem = TorchProblem([problem], device)
        per_draw = noise.samples_per_draw
        n_draws = samples_at_once(n, device, constraints is not None) // per_draw
        self.step = max(1, n_draws) * per_draw

    def chunks(self):
        """Yield first and last sample, edges, weights and components of each chunk."""
        for first, last in self.parts():
            matrices = self.noisy(first, last)
            if self.problem is None:
                yield first, last, *self.solve_free(matrices, components=True)
            else:
                yield first, last, *self.solve_constrained(matrices)

    def parts(self):
        """Yield the first sample and the last of each chunk."""
        n_samples = self.noise.n_samples
        for first in range(0, n_samples, self.step):
            yield first, min(first + self.step, n_samples)

    def noisy(self, first, last):
        """Return the RankedMatrices of the noisy copies of some samples."""
        return noisy_copies(self.clean[None], self.noise, first, last, self.triangle)

    def solve_free(self, matrices, *, components=False):
        """Return edges and weights (s, n_edges) and components (s, n), or None."""
        edges = free_edges(matrices, self.n_edges)
        component = None
        if components and self.n_clusters == 1:
            component = edges.new_zeros(
                (len(edges), len(self.similarity)), dtype=torch.long
            )
        elif components and not self.n_edges:
            component = torch.arange(len(self.similarity), device=edges.device)
            component = component.expand(len(matrices), -1)
        elif components:
            light = matrices.ranks < edges[:, -1, None, None]
            heavy = matrices.ranks.masked_fill(light, NONE)
            heavy.diagonal(dim1=1, dim2=2).fill_(SELF)
            component = trees_of(spanning_forest(heavy, n_trees=self.n_clusters))
        return *matrices.edges(edges), component

    def solve_constrained(self, matrices):
        """Return edges and weights (s, n_edges) and components (s, n)."""
        component, edges, values = constrained_trees(matrices, self.problem)
        return edges, values, component

    def sums(self, *, connectivity=False):
        """Return A_ε and M_ε (n, n), or None, and the weights (s,) of the samples."""
        n = len(self.similarity)
        n_samples = self.noise.n_samples
        counts = self.similarity.new_zeros(n * n)
        linked = self.similarity.new_zeros((n, n)) if connectivity else None
        totals = self.similarity.new_empty(n_samples)
        for first, last, edges, values, component in self.chunks():
            counts.index_add_(0, edges.flatten(), torch.ones_like(values).flatten())
            totals[first:last] = values.sum(dim=1)
            if connectivity:
                linked += _linked(component).sum(dim=0)
        upper = (counts / n_samples).view(n, n)
        return upper + upper.T, linked / n_samples if connectivity else None, totals

    def vjp(self, *, forest=None, connectivity=None):
        """Return the gradient (n, n) of what `_perturbation.vjp` takes."""
        products = self.similarity.new_empty(self.noise.n_samples)
        for first, last, edges, _, component in self.chunks():
            if forest is not None:
                products[first:last] = 2.0 * forest.flatten()[edges].sum(dim=1)
            else:
                linked = _linked(component) * connectivity
                products[first:last] = linked.triu(1).sum(dim=(1, 2)) * 2.0
        return self.score_gradient(products)

    def score_gradient(self, products):
        """Return the gradient (n, n) that `_perturbation.score_gradient` defines."""
        noise = self.noise
        draws = (
            torch.arange(noise.n_samples, device=products.device)
            // noise.samples_per_draw
        )
        n_draws = -(-noise.n_samples // noise.samples_per_draw)
        sizes = products.new_full((n_draws,), float(noise.samples_per_draw))
        sizes[-1] = noise.n_samples - (n_draws - 1) * noise.samples_per_draw
        means = torch.zeros_like(sizes).index_add_(0, draws, products) / sizes
        if len(sizes) > 1:
            products = products - ((means.sum() - means) / (len(sizes) - 1))[draws]
        coefficients = products / (len(sizes) * sizes[draws] * noise.scale)
        gradient = self.similarity.new_zeros(1, self.triangle.n_pairs + 1)
        for first, last in self.parts():
            values = pair_noise(noise, first, last, self.triangle)
            scores = 1.0 - torch.exp(-values) if noise.kind == "gumbel" else values
            gradient[0, :-1] += coefficients[first:last] @ scores
        return 0.5 * self.triangle.spread(gradient)[0]

    def connectivity_loss(self, observed, target):
        """Return the unbiased connectivity loss and its gradient (n, n)."""
        n_draws = self.noise.n_samples // 2
        total = torch.zeros_like(observed)
        squares = torch.zeros_like(observed)
        for *_, component in self.chunks():
            pairs = _linked(component).unflatten(0, (-1, 2)).mean(dim=1)
            total += pairs.sum(dim=0)
            squares += (pairs**2).sum(dim=0)
        error = (total**2 - squares) / (n_draws * (n_draws - 1))
        error = error + target * (1.0 - 2.0 * total / n_draws)
        products = self.similarity.new_empty(self.noise.n_samples)
        for first, last, _, _, component in self.chunks():
            linked = _linked(component).unflatten(0, (-1, 2))
            others = (total - linked.mean(dim=1)) / (n_draws - 1)
            derivative = 2.0 * observed * (others - target)
            product = (linked * derivative[:, None]).sum(dim=(2, 3))
            products[first:last] = 2.0 * product.flatten()
        return 2.0 * (observed * error).sum(), self.score_gradient(products)


def samples_at_once(n, device, are_constrained):
    """Return how many samples of n rows fit in the scratch memory of a device."""
    entry = n * n * _BYTES_PER_ENTRY
    if are_constrained:
        entry = n * n * _BYTES_CONSTRAINED + n * min(n, 48) ** 2 * _BYTES_PER_WAY
    free = _CPU_BYTES
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0] // 2
    return int(free // max(entry, 1))


def noisy_copies(clean, noise, first, last, triangle, seeds=None):
    """Return the RankedMatrices of samples of the weights (b, m) of b matrices.

    Those of the first matrix, then those of the second; each has a seed, or that of
    the noise.
    """
    draws = pair_noise(noise, first, last, triangle, seeds)
    weights = draws.new_zeros(len(clean), last - first, triangle.n_pairs + 1)
    draws = draws.mul_(noise.scale).view(*weights.shape[:2], triangle.n_pairs)
    torch.add(clean[:, None], draws, out=weights[:, :, :-1])
    return RankedMatrices(weights.flatten(0, 1), triangle)


def free_edges(matrices, n_edges):
    """Return the ranks (s, n_edges) of the edges of the free forests."""
    return spanning_forest(matrices.ranks).edges[:, :n_edges]


def partial_sums(similarity, n_clusters, noise, seeds, constraints):
    """Return A_ε(Σ) - A_ε(Σ; M_Ω) (b, n, n), and what each sample loses (b, s).

    Free and constrained forests are those of the same noisy copies, made once. The
    matrices (b, n, n) have seeds and Constraints of their own, and are solved together
    unless there are cannot-links.
    """
    problems = [constrained_problem(known, n_clusters) for known in constraints]
    if len(problems) > 1 and any(problem.greedy for problem in problems):
        parts = [
            partial_sums(matrix[None], n_clusters, noise, [seed], [known])
            for matrix, seed, known in zip(similarity, seeds, constraints, strict=True)
        ]
        gradients, lost = zip(*parts, strict=True)
        return torch.cat(gradients), torch.cat(lost)
    (n_items, n) = similarity.shape[:2]
    device = similarity.device
    per_draw = noise.samples_per_draw
    at_once = samples_at_once(n, device, are_constrained=True)
    if at_once < n_items * per_draw and n_items > 1:
        half = n_items // 2
        parts = [
            partial_sums(similarity[part], n_clusters, noise, seeds[part], known)
            for part, known in (
                (slice(half), constraints[:half]),
                (slice(half, n_items), constraints[half:]),
            )
        ]
        gradients, lost = zip(*parts, strict=True)
        return torch.cat(gradients), torch.cat(lost)
    step = max(1, at_once // n_items // per_draw) * per_draw
    problem = TorchProblem(problems, device)
    triangle = Triangle(n, device)
    clean = similarity.flatten(1)[:, triangle.pairs]
    counts = similarity.new_zeros(n_items, n * n)
    lost = similarity.new_empty(n_items, noise.n_samples)
    for first in range(0, noise.n_samples, step):
        last = min(first + step, noise.n_samples)
        matrices = noisy_copies(clean, noise, first, last, triangle, seeds)
        ranks = free_edges(matrices, n - n_clusters)
        edges, values = matrices.edges(ranks)
        _, own_edges, own_values = constrained_trees(matrices, problem)
        edges = edges.view(n_items, (last - first) * values.shape[1])
        ones = values.new_ones(edges.shape)
        counts.scatter_add_(1, edges, ones)
        counts.scatter_add_(1, own_edges.view(edges.shape), -ones)
        totals = values.sum(dim=1) - own_values.sum(dim=1)
        lost[:, first:last] = totals.view(n_items, -1)
    upper = (counts / noise.n_samples).view(n_items, n, n)
    return upper + upper.mT, lost


def _linked(component):
    """Connectivity (s, n, n), float64, of components (s, n)."""
    return (component[:, :, None] == component[:, None, :]).to(torch.float64)
