"""Samples of forests under noise: free or constrained, serial or in threads."""

from dataclasses import dataclass
from threading import get_ident
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from skdiffclust._compat import effective_n_threads
from skdiffclust._constraints import check_feasible
from skdiffclust._threads import run_chunks
from skdiffclust.forests._constrained._problem import constrained_problem
from skdiffclust.forests._perturbed._relation import Relation, freeze

# Threads are used above the first; the second is the time between two checks for an
# interruption.
_PARALLEL_SECONDS = 0.02
_CHUNK_SECONDS = 0.2
# Rough cost of one sample, per edge: free; per pair, under labels and under
# cannot-links; and of weighing an edge.
_SECONDS_FREE = 5e-9
_SECONDS_LABELLED = 1e-8
_SECONDS_LINKED = 5e-7
SECONDS_DRAW = 3e-9
# Above this share of all pairs, an edge list is dense enough to be pruned.
_PRUNED_DENSITY = 0.125
_FIXED_PARTS = 8
# Edges in the first chunk of a forest: a multiple of the rank of the lowest accepted
# weight, and at most a multiple of the number of samples.
_MARGIN = 1.15
_MOST_ABOVE = 8
# Largest absolute weight, and scale of the noise, of which no square overflows.
MOST = 1e100


@dataclass(frozen=True)
class Noise:
    """The samples of one call.

    Attributes
    ----------
    scale : float
    n_samples : int
    kind : str
        "normal" or "gumbel".
    antithetic : bool
        Whether samples 2u and 2u + 1 are mirror images.
    seed : uint64
    """

    scale: float
    n_samples: int
    kind: str
    antithetic: bool
    seed: np.uint64

    @property
    def samples_per_draw(self):
        """Samples of one draw."""
        return 2 if self.antithetic else 1

    @property
    def table(self):
        """Quantiles that the kernels take."""
        from skdiffclust.forests._perturbed._noise import quantile_table

        return quantile_table(self.kind)

    @property
    def is_symmetric(self):
        """Whether mirror images are the negative of each other, bit for bit."""
        return self.kind == "normal"


class Samples(NamedTuple):
    """Forests of s noisy copies of a relation, as all samplers return them.

    Attributes
    ----------
    forests : ndarray of shape (s, n_edges)
        Positions, in the relation, of the edges of each forest.
    labels : ndarray of shape (s, n_samples), or (s, 0)
        Components, where they are known.
    totals : ndarray of shape (s,)
        Weights of the forests, each edge once.
    minimum_weights : ndarray of shape (s,)
        The lowest weight of an edge that was accepted.
    """

    forests: np.ndarray
    labels: np.ndarray
    totals: np.ndarray
    minimum_weights: np.ndarray


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
        from skdiffclust.forests._perturbed._pruning import prune

        n = relation.n_samples
        self.noise = noise
        self.n_edges = n - n_clusters
        weights = relation.weights
        n_pairs = n * (n - 1) / 2
        slack = np.inf
        if noise.kind == "normal" and len(weights) > _PRUNED_DENSITY * n_pairs:
            slack = noise_width(noise) + 1e-12 * relation.largest
        n_found, edges, self.kept, cuts = prune(
            relation.edges, n, self.n_edges, slack, _MARGIN, _MOST_ABOVE * n
        )
        if n_found < self.n_edges:
            raise ValueError(
                f"The 'n_clusters' parameter must be at least {n - n_found}, the "
                f"number of components of the graph. Got {n_clusters} instead. Use "
                "more clusters, or give the graph more edges."
            )
        self.cuts = cuts
        if slack < np.inf:
            self.edges = edges
            freeze(*edges[1:])
        else:
            self.edges = relation.edges
            self.kept = None
        self.seconds = _SECONDS_FREE * (len(self.edges[0]) + 10 * n)

    def sample(self, first, last):
        """Return forests, components, weights and lowest values of some samples."""
        from skdiffclust.forests._perturbed._sampling import sample_free

        noise = self.noise
        forests, labels, totals, minimum_weights = sample_free(
            noise.seed,
            (first, last),
            noise.samples_per_draw,
            noise.scale,
            noise.table,
            self.edges,
            self.n_edges,
            self.cuts,
        )
        if self.kept is not None:
            forests = self.kept[forests]
        return Samples(forests, labels, totals, minimum_weights)


class ConstrainedSampler:
    """Constrained k-forests of noisy copies of a dense similarity.

    Parameters
    ----------
    relation : Relation
        Of all pairs.
    constraints : Constraints
    n_clusters : int
    noise : Noise
    """

    def __init__(self, relation, constraints, n_clusters, noise):
        problem = constrained_problem(constraints, n_clusters)
        self.noise = noise
        self.n_edges = relation.n_samples - n_clusters
        self.weights = relation.weights
        self.merging = None
        if not problem.greedy:
            self.merging = _merging(relation, problem, noise)
        self.problem = problem
        n = relation.n_samples
        per_pair = _SECONDS_LINKED if problem.greedy else _SECONDS_LABELLED
        self.seconds = per_pair * n * (n + 60)

    def sample(self, first, last):
        """Return forests, components, weights and lowest values of some samples."""
        from skdiffclust.forests._constrained._compiled_tree import new_search
        from skdiffclust.forests._perturbed._constrained_sampling import (
            sample_labelled,
            sample_linked,
        )

        noise = self.noise
        arguments = (
            noise.seed,
            (first, last),
            noise.samples_per_draw,
            noise.scale,
            noise.table,
            self.weights,
            self.problem,
            new_search(self.problem),
        )
        if self.merging is None:
            return Samples(*sample_linked(*arguments))
        return Samples(*sample_labelled(*arguments, self.merging))


class ContractedSampler:
    """Constrained k-forests of noisy copies of a sparse relation.

    Two free forests: one spans every group by its own edges, the other joins the
    groups, those with a class contracted into one vertex. Each component of the two
    together then gets its own heaviest tree, which may join the samples of a group
    through others.

    Parameters
    ----------
    relation : Relation
    constraints : Constraints
        Without cannot-links.
    n_clusters : int
    noise : Noise

    Raises
    ------
    ValueError
        If a group is not connected by edges inside it.
    """

    def __init__(self, relation, constraints, n_clusters, noise):
        from skdiffclust.forests._perturbed._heaviest_forest import cuts_of

        check_feasible(constraints, n_clusters)
        n = relation.n_samples
        groups = constraints.groups
        inside = groups[relation.heads] == groups[relation.columns]
        _check_spans(relation, inside, constraints)
        part = _part(relation, inside, np.arange(n))
        self.parts = [
            (np.flatnonzero(inside), FreeSampler(part, constraints.n_groups, noise)),
            _between(relation, groups, constraints.classes, n_clusters, noise),
        ]
        self.noise = noise
        self.n_edges = n - n_clusters
        self.edges = relation.edges
        self.cuts = cuts_of(relation.weights, 2.0 * n)
        self.seconds = sum(sampler.seconds for _, sampler in self.parts)
        self.seconds += _SECONDS_FREE * (len(relation.weights) + 10 * n)

    def sample(self, first, last):
        """Return forests, no components, weights and lowest values of some samples."""
        from skdiffclust.forests._perturbed._sampling import regrow

        noise = self.noise
        (inside, one), (between, two) = self.parts
        joined = one.sample(first, last)
        joining = two.sample(first, last).forests
        forests = np.hstack([inside[joined.forests], between[joining]])
        forests, totals, minimum_weights = regrow(
            noise.seed,
            (first, last),
            noise.samples_per_draw,
            noise.scale,
            noise.table,
            self.edges,
            forests.astype(np.int32),
            self.cuts,
        )
        return Samples(forests, joined.labels[:, :0], totals, minimum_weights)


def _between(relation, groups, colours, n_clusters, noise):
    """Return the edges between groups, and the sampler of those that join groups.

    All rows of a colour (n,), -1 for none, are contracted into one vertex, every other
    group (n,) into one; the forests have `n_clusters` trees once the colours are split
    again.
    """
    _, blocks = np.unique(np.where(colours >= 0, -1, groups), return_inverse=True)
    n_colours = int(colours.max()) + 1
    n_edges = int(blocks.max()) + 1 - (n_colours > 0) + n_colours - n_clusters
    kept = np.flatnonzero(blocks[relation.heads] != blocks[relation.columns])
    part = _part(relation, kept, blocks)
    return kept, FreeSampler(part, relation.n_samples - n_edges, noise)


def _merging(relation, problem, noise):
    """Return the Merging of labelled samples."""
    from skdiffclust.forests._perturbed._constrained_sampling import Merging

    colours = problem.colours[problem.groups]
    kept, sampler = _between(
        relation, problem.groups, colours, problem.n_clusters, noise
    )
    if sampler.kept is not None:
        kept = kept[sampler.kept]
    *_, first_blocks, second_blocks = sampler.edges
    ends = relation.heads[kept], relation.columns[kept]
    freeze(*ends)
    return Merging(*ends, first_blocks, second_blocks, sampler.n_edges, sampler.cuts)


def _check_spans(relation, inside, constraints):
    """Refuse a graph whose edges inside the groups leave a group in pieces."""
    ends = relation.heads[inside], relation.columns[inside]
    n = relation.n_samples
    graph = coo_array((np.ones(len(ends[0])), ends), shape=(n, n))
    n_pieces, piece = connected_components(graph, directed=False)
    if n_pieces > constraints.n_groups:
        first = np.unique(constraints.groups, return_index=True)[1]
        row = int(np.argmax(piece != piece[first][constraints.groups]))
        raise ValueError(
            "The 'similarity' parameter, when sparse, must connect the samples that "
            f"share a component by edges between them. Got no way from sample {row} to "
            f"sample {first[constraints.groups[row]]} instead. Store more edges "
            "between samples of one class."
        )


def _part(relation, kept, vertices):
    """Return the kept edges (m,) of a relation between other vertices (n,)."""
    heads = relation.heads[kept]
    columns = relation.columns[kept]
    counts = np.bincount(heads, minlength=relation.n_samples)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    ends = vertices[heads].astype(np.int32), vertices[columns].astype(np.int32)
    freeze(indptr, columns, heads, *ends)
    return Relation(
        relation.n_samples,
        relation.weights[kept],
        indptr,
        columns,
        heads,
        relation.similarity,
        ends=ends,
    )


def make_sampler(relation, constraints, n_clusters, noise):
    """Return the sampler for constraints that may be None.

    The kernels are undefined for noisy copies that are not finite: these are refused.
    """
    largest = max(relation.largest, noise.scale)
    if not largest <= MOST:
        raise ValueError(
            "The 'similarity' and 'noise_scale' parameters must be at most "
            f"{MOST:g} in absolute value. Got {largest:.3g} instead. Divide both by "
            "the same number, which changes no forest."
        )
    if constraints is None:
        return FreeSampler(relation, n_clusters, noise)
    if not relation.is_complete:
        return ContractedSampler(relation, constraints, n_clusters, noise)
    return ConstrainedSampler(relation, constraints, n_clusters, noise)


def noise_width(noise):
    """Largest minus smallest perturbation of an edge."""
    from skdiffclust.forests._perturbed._noise import noise_range

    low, high = noise_range(noise.kind)
    return noise.scale * (high - low)


def _threads_for(seconds):
    """Threads for work that takes one of them some seconds."""
    return effective_n_threads() if seconds > _PARALLEL_SECONDS else 1


def run_samples(new_sums, add_chunk, noise, seconds):
    """Add the samples to sums, chunk by chunk, in threads where that is faster.

    ``add_chunk(sums, first, last)`` adds samples to what `new_sums` made; `seconds` is
    a guess of the cost of one of them. Returns the sums of every thread. Chunks hold
    whole antithetic pairs, and their sums must not depend on how they are divided.
    """
    n_samples = noise.n_samples
    samples_per_draw = noise.samples_per_draw
    sums = {}

    def add_draws(first, last):
        own = sums.setdefault(get_ident(), [])
        if not own:
            own.append(new_sums())
        add_chunk(
            own[0], first * samples_per_draw, min(last * samples_per_draw, n_samples)
        )

    n_draws = -(-n_samples // samples_per_draw)
    n_threads = _threads_for(n_samples * seconds)
    if n_threads == 1 and n_samples * seconds <= _CHUNK_SECONDS:
        own = new_sums()
        add_chunk(own, 0, n_samples)
        return [own]
    size = min(
        -(-n_draws // n_threads), int(_CHUNK_SECONDS / (samples_per_draw * seconds))
    )
    run_chunks(add_draws, n_draws, (), n_threads, max(1, size))
    return [own for (own,) in sums.values()]


def weighted_scores(relation, noise, coefficients):
    """Sum (n_edges,) over the samples of coefficient (s,) times score of the noise.

    Added up in a fixed number of parts, so that the bits do not depend on threads.
    """
    from skdiffclust.forests._perturbed._monte_carlo import weigh_scores

    m = len(relation.weights)
    n_draws = -(-noise.n_samples // noise.samples_per_draw)
    ends = np.linspace(0, n_draws, min(_FIXED_PARTS, n_draws) + 1).astype(int)
    ends = np.minimum(ends * noise.samples_per_draw, noise.n_samples)
    sums = np.zeros((len(ends) - 1, m))
    step = (
        max(1, int(_CHUNK_SECONDS / (SECONDS_DRAW * max(m, 1)) / 2))
        * noise.samples_per_draw
    )

    def add_steps(first_part, last_part, begun):
        for part in range(first_part, last_part):
            first = ends[part] + begun
            last = min(first + step, ends[part + 1])
            if first < last:
                weigh_scores(
                    noise.seed,
                    (first, last),
                    noise.samples_per_draw,
                    noise.table,
                    relation.indptr,
                    relation.columns,
                    noise.kind == "gumbel",
                    coefficients[first:last],
                    sums[part],
                )

    n_threads = _threads_for(noise.n_samples * m * SECONDS_DRAW)
    for begun in range(0, np.diff(ends).max(initial=0), step):
        run_chunks(add_steps, len(sums), (begun,), n_threads)
    total = np.zeros(m)
    for part in sums:
        total += part
    return total
