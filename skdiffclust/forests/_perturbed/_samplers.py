"""Samples of forests under noise: free or constrained, serial or in threads."""

from dataclasses import dataclass, replace
from threading import get_ident
from typing import NamedTuple

import numpy as np

from skdiffclust._compat import effective_n_threads
from skdiffclust._threads import run_chunks
from skdiffclust.forests._constrained._problem import constrained_problem

# Threads are used above the first; the second is the time between two checks for an
# interruption.
_PARALLEL_SECONDS = 0.02
_CHUNK_SECONDS = 0.2
# Rough cost of one sample, per edge where it is free, per pair under constraints; and
# of weighing an edge.
_SECONDS_FREE = 5e-9
_SECONDS_CONSTRAINED = 4e-9
SECONDS_DRAW = 3e-9
_FIXED_PARTS = 8
# Noise that is summed at a time: 4 MB.
_VALUES_AT_ONCE = 2**19
# Edges in the first chunk of a forest, relative to the number of edges that are at
# least as heavy as the lightest accepted one; at most this many per sample.
_MARGIN = 1.15
_MOST_ABOVE = 8
# Largest absolute weight and largest scale of the noise: squares do not overflow.
MOST = 1e100


@dataclass(frozen=True)
class Noise:
    """The samples of one call. Samples 2u and 2u + 1 are mirror images.

    Attributes
    ----------
    scale : float
    n_samples : int
    kind : str
        "normal" or "gumbel".
    seed : uint64
    """

    scale: float
    n_samples: int
    kind: str
    seed: np.uint64

    @property
    def table(self):
        """Quantiles that the kernels take."""
        from skdiffclust.forests._perturbed._noise import quantile_table

        return quantile_table(self.kind)

    def width(self, relation):
        """Return by how much noise can bring two edges of a relation closer."""
        from skdiffclust.forests._perturbed._noise import noise_range

        low, high = noise_range(self.kind)
        return self.scale * (high - low) + 1e-12 * relation.largest

    def draws(self, relation, first):
        """Return what the kernels take to draw the samples from `first` on."""
        return (
            self.seed,
            first,
            self.scale,
            self.table,
            relation.indptr,
            relation.columns,
        )


class Samples(NamedTuple):
    """Forests of s noisy copies of a relation, as all samplers return them.

    Attributes
    ----------
    forests : ndarray of shape (s, n_edges)
        Positions, in the relation, of the edges of each forest.
    labels : ndarray of shape (s, n_samples)
        Components.
    totals : ndarray of shape (s,)
        Weights of the forests, each edge once.
    """

    forests: np.ndarray
    labels: np.ndarray
    totals: np.ndarray


class FreeSampler:
    """Maximum spanning k-forests of noisy copies of a relation.

    Parameters
    ----------
    relation : Relation
    n_clusters : int
    noise : Noise

    Raises
    ------
    ValueError
        If the relation has more components than `n_clusters`.
    """

    def __init__(self, relation, n_clusters, noise):
        from skdiffclust.forests._perturbed._heaviest_forest import cuts_of

        n = relation.n_samples
        lowest = _lowest_accepted(relation, n_clusters)
        # All edges of the forest without noise are above it in a noisy copy.
        self.kept = np.flatnonzero(relation.weights >= lowest - noise.width(relation))
        self.relation = kept = relation.restricted(self.kept)
        self.noise = noise
        self.n_edges = n - n_clusters
        # One chunk above the lowest accepted weight holds nearly all noisy forests.
        n_above = np.count_nonzero(kept.weights >= lowest)
        self.cuts = cuts_of(kept.weights, min(_MARGIN * n_above, _MOST_ABOVE * n))
        self.seconds = _SECONDS_FREE * (len(self.kept) + 10 * n)

    def sample(self, first, last):
        """Return forests, components and weights of some samples."""
        from skdiffclust.forests._perturbed._sampling import heaviest_forests

        kept = self.relation
        draws = self.noise.draws(kept, first)
        forests, labels, totals = heaviest_forests(
            kept.weights, draws, last - first, kept.ends, self.n_edges, self.cuts
        )
        return Samples(self.kept[forests].astype(np.int32), labels, totals)


def _lowest_accepted(relation, n_clusters):
    """Return the lightest weight in the maximum spanning k-forest of a relation."""
    from skdiffclust.forests._perturbed._heaviest_forest import (
        cuts_of,
        heaviest_forest,
        workspace,
    )

    n = relation.n_samples
    weights = relation.weights
    work = workspace(len(weights), n)
    n_edges = n - n_clusters
    cuts = cuts_of(weights, 2.0 * n)
    n_found = heaviest_forest(weights, relation.ends, n_edges, cuts, work)
    if n_found < n_edges:
        raise ValueError(
            f"The 'n_clusters' parameter must be at least {n - n_found}, the number of "
            f"components of the graph. Got {n_clusters} instead. Use more clusters, or "
            "give the graph more edges."
        )
    return weights[work[-1][n_edges - 1]] if n_edges else np.inf


class ConstrainedSampler:
    """Constrained k-forests of noisy copies of a dense affinity.

    Each sample has the partition of Kruskal's algorithm that skips the edges which the
    constraints forbid, and a maximum spanning tree in each part. Where cannot-links
    leave the algorithm with more than k parts, it starts again under a colouring of
    them.

    Parameters
    ----------
    relation : Relation
        Of all pairs.
    constraints : Constraints
    n_clusters : int
    noise : Noise
    """

    def __init__(self, relation, constraints, n_clusters, noise):
        from skdiffclust.forests._constrained._checked import linked_lists
        from skdiffclust.forests._perturbed._heaviest_forest import cuts_of

        self.problem = problem = constrained_problem(constraints, n_clusters)
        self.noise = noise
        self.relation = relation
        n = relation.n_samples
        n_groups = constraints.n_groups
        classes = np.full(n_groups, -1)
        classes[constraints.groups] = constraints.classes
        self.rules = (
            (classes, True, linked_lists(constraints.cannot, n_groups)),
            (problem.colours, False, linked_lists(constraints.cannot[:0], n_groups)),
        )
        # Groups with classes never join, and are like one vertex: an edge is not needed
        # where those from both of its ends to the nearest labelled sample are heavier.
        is_labelled = classes[problem.groups] >= 0
        nearest = np.where(is_labelled, np.inf, -np.inf)
        for one, other in (relation.ends, relation.ends[::-1]):
            to_label = is_labelled[other]
            np.maximum.at(nearest, one[to_label], relation.weights[to_label])
        if len(constraints.cannot):  # they may forbid these edges
            nearest[:] = -np.inf
        floors = np.minimum(*(nearest[end] for end in relation.ends))
        kept = np.flatnonzero(relation.weights >= floors - noise.width(relation))
        # They have the type of other ends, for which kernels are compiled already.
        groups = problem.groups.astype(np.int32)
        self.kept = kept, tuple(groups[end[kept]] for end in relation.ends)
        # After a short first chunk, most of the other edges join trees with classes.
        self.cuts = cuts_of(relation.weights[kept], 2.0 * n)
        self.seconds = _SECONDS_CONSTRAINED * n * (n + 60)

    def sample(self, first, last):
        """Return forests, components and weights of some samples."""
        from skdiffclust.forests._perturbed._sampling import constrained_forests

        return Samples(
            *constrained_forests(
                self.relation.weights,
                self.noise.draws(self.relation, first),
                last - first,
                self.kept,
                self.rules,
                self.problem.groups,
                self.problem.n_clusters,
                self.cuts,
            )
        )


def make_sampler(relation, constraints, n_clusters, noise):
    """Return the sampler for constraints that may be None.

    The kernels are undefined for noisy copies that are not finite: these are refused.
    """
    largest = max(relation.largest, noise.scale)
    if not largest <= MOST:
        raise ValueError(
            "The 'affinity' and 'noise_scale' parameters must be at most "
            f"{MOST:g} in absolute value. Got {largest:.3g} instead. Divide both by "
            "the same number, which changes no forest."
        )
    if constraints is None:
        return FreeSampler(relation, n_clusters, noise)
    return ConstrainedSampler(relation, constraints, n_clusters, noise)


def _threads_for(seconds):
    """Threads for work that takes one of them some seconds."""
    return effective_n_threads() if seconds > _PARALLEL_SECONDS else 1


def run_samples(new_sums, add_chunk, noise, sampler):
    """Add the samples to sums, chunk by chunk, in threads where that is faster.

    ``add_chunk(sums, samples, first, last)`` adds the Samples first <= s < last to what
    `new_sums` made. Returns the sums of every thread. Chunks hold whole antithetic
    pairs, and their sums must not depend on how they are divided.
    """
    n_samples = noise.n_samples
    sums = {}

    def add_draws(first, last):
        own = sums.setdefault(get_ident(), [])
        if not own:
            own.append(new_sums())
        first *= 2
        last = min(2 * last, n_samples)
        add_chunk(own[0], sampler.sample(first, last), first, last)

    n_draws = -(-n_samples // 2)
    n_threads = _threads_for(n_samples * sampler.seconds)
    size = min(
        -(-n_draws // n_threads),
        int(_CHUNK_SECONDS / (2 * sampler.seconds)),
    )
    run_chunks(add_draws, n_draws, (), n_threads, max(1, size))
    return [own for (own,) in sums.values()]


def weighted_scores(relation, noise, coefficients):
    """Sum (n_edges,) over the samples of coefficient (s,) times score of the noise.

    The score of a density exp(-v) is v': z for normal noise, 1 - exp(-z) for Gumbel.
    Added up in a fixed number of parts, so that the bits do not depend on threads.
    """
    from skdiffclust.forests._perturbed._noise import noise_of_samples

    m = len(relation.weights)
    unit = replace(noise, scale=1.0)
    n_draws = -(-noise.n_samples // 2)
    ends = np.linspace(0, n_draws, min(_FIXED_PARTS, n_draws) + 1).astype(int)
    ends = np.minimum(2 * ends, noise.n_samples)
    sums = np.zeros((len(ends) - 1, m))
    step = 2 * max(_VALUES_AT_ONCE // max(2 * m, 1), 1)

    def add_parts(first_part, last_part):
        for part in range(first_part, last_part):
            for first in range(ends[part], ends[part + 1], step):
                last = min(first + step, ends[part + 1])
                draws = unit.draws(relation, first)
                scores = noise_of_samples(draws, last - first)
                if noise.kind == "gumbel":
                    scores = 1.0 - np.exp(-scores)
                sums[part] += np.einsum("s,sm->m", coefficients[first:last], scores)

    n_threads = _threads_for(noise.n_samples * m * SECONDS_DRAW)
    run_chunks(add_parts, len(sums), (), n_threads)
    return sums.sum(axis=0)
