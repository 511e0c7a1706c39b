"""How many cuts of a spanning tree separate clusters.

A cut between clusters is longer than what holds either side together. The length at
which most of a side is one component of single linkage says what that is, and depends
neither on its size nor on its outliers. So every cut has evidence, the logarithm of
the ratio, and the number of clusters is where the sum of the evidence is largest: where
scores of many cuts are nearly equal, as of clusters alike, or fall evenly, as of an
embedding, no single fall tells.
"""

from typing import NamedTuple

import numpy as np

from skdiffclust.forests._hierarchy._core_sizes import sums_below
from skdiffclust.forests._hierarchy._linkage import linkage_matrix
from skdiffclust.forests._hierarchy._tree_cuts import LEAST_CLUSTER
from skdiffclust.forests._trees._tree import components

# The number of clusters is read off a curve of at most this many cuts.
MAX_AUTO_CLUSTERS = 200
# A side holds together where this share of it is one component.
_SHARE = 0.8
# Evidence that a cut between large sides has to have, and what counts of it at most.
_LEAST_EVIDENCE = 0.13
_MOST_EVIDENCE = 1.0
# Evidence that the smaller side of m samples has by chance, times m.
_CHANCE = 5.0
# How much the logarithm of the fall of the scores counts beside the sum.
_WEIGHT_OF_FALL = 0.4
# Without structure, sums and falls beside usual ones rarely exceed these.
_CLEAR = 0.3
_CLEAR_FALL = 1.25


class Choice(NamedTuple):
    """A number of clusters, whether it is clear, and that of another rule, or None."""

    n_clusters: int
    is_clear: bool
    other: int | None


def evidence_of_cuts(tree, positions, sizes):
    """Return the evidence (m,) that successive cuts of a tree separate clusters.

    It is log(l / r), between -1 and 1, less 5 / s. Here l is the length of the edge,
    and r the larger of two, one for each side: the length at which a component of
    single linkage has four fifths of the side. The size of the smaller side is s: a
    few samples are often apart by chance. If s is below 5, it is log(l / r), at most 0.
    ``positions`` (m,) are those of the edges in the CutTree, ``sizes`` (n,) of
    `core_sizes`. In data without clusters edges are cut that lie in their middle, where
    the evidence is negative. A pass over the part for every cut.
    """
    rest = np.delete(tree.edges, positions, axis=0)
    finest = components(rest, len(sizes))
    ends = finest[tree.edges]
    cuts = ends[positions]
    samples_of = {0: np.arange(len(sizes))}
    edges_of = {0: np.arange(len(tree.edges))}
    local = np.empty(len(sizes), dtype=np.int64)
    evidence = np.empty(len(positions))
    for i, (position, cut) in enumerate(zip(positions, cuts, strict=True)):
        # The finest parts that later cuts separate are still together.
        part_of = components(cuts[i + 1 :], len(positions) + 1)
        sides = [part_of == part_of[end] for end in cut]
        first = np.argmax(sides[0] | sides[1])
        samples = samples_of.pop(first)
        edges = edges_of.pop(first)
        lengths = []
        totals = []
        for side in sides:
            own = samples[side[finest[samples]]]
            inner = edges[side[ends[edges]].all(axis=1)]
            samples_of[np.argmax(side)] = own
            edges_of[np.argmax(side)] = inner
            local[own] = np.arange(len(own))
            linkage = linkage_matrix(local[tree.edges[inner]], tree.lengths[inner])
            lengths.append(_length_of_most(linkage, sizes[own]))
            totals.append(sizes[own].sum())
        # Of forced cuts, whose lengths are infinite, it is not defined.
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(tree.lengths[position]) - np.log(max(lengths))
        ratio = np.clip(ratio, -_MOST_EVIDENCE, _MOST_EVIDENCE)
        smaller = min(totals)
        if smaller < LEAST_CLUSTER:
            evidence[i] = min(ratio, 0.0)
        else:
            evidence[i] = ratio - _CHANCE / smaller
    return evidence


def _length_of_most(linkage, sizes):
    """Return the length at which a component has four fifths of the sizes (n,)."""
    if not len(linkage):
        return 0.0
    sums = sums_below(linkage, sizes)[len(sizes) :]
    return linkage[np.argmax(sums >= _SHARE * sums[-1]), 2]


def choose_number(scores, evidence, n_parts, n_samples):
    """Return the Choice of the number of clusters after successive cuts.

    ``scores[i]`` and ``evidence[i]`` are those of the cut into i + 2 clusters; the
    first `n_parts` - 1 were forced and count for nothing. With e the evidence and S the
    scores, it is the k with the largest sum of e - 0.13 over the cuts into 2 to k
    clusters, plus 0.4 log(S_k / S_(k+1)). Over data without clusters this rarely
    exceeds 0.3; if it does not, the number is `n_parts`, or with one part that of
    `number_by_falls`, which is the other one elsewhere.
    """
    first = max(2, n_parts + 1)
    n_candidates = max(highest_number(n_samples) - first + 1, 0)
    falls = falls_of(scores[first - 2 :])[:n_candidates]
    if not len(falls):
        return Choice(max(n_parts, min(2, len(scores) + 1)), n_parts > 1, None)
    other = None
    is_clear = True
    if n_parts == 1:
        other, fall = number_by_falls(falls)
        is_clear = fall > _CLEAR_FALL
    found = evidence[first - 2 :][: len(falls)]
    total = np.cumsum(found - _LEAST_EVIDENCE) + _WEIGHT_OF_FALL * falls
    if total.max() > _CLEAR:
        return Choice(first + int(np.argmax(total)), True, other)
    return Choice(other or n_parts, is_clear, None)


def highest_number(n_samples):
    """Return the largest number of clusters that "auto" finds."""
    return min(MAX_AUTO_CLUSTERS, max(n_samples // 10, min(5, n_samples // 2)))


def falls_of(scores):
    """Return the falls log(S_k / S_(k+1)) of positive scores (m,); the last is 0."""
    logs = np.log(scores[scores > 0])
    return np.append(-np.diff(logs), 0.0) if len(logs) else logs


def number_by_falls(falls):
    """Return the number of clusters that falls (m,), from that after 2 on, show alone.

    The last k after which the score falls to less than half, or else the k with the
    largest fall beside log(1 + sqrt(2 / k)): the more clusters, the closer scores lie
    together without any structure. Returns the fall beside this, too.
    """
    usual = np.log1p(np.sqrt(2 / np.arange(2, 2 + len(falls))))
    above = np.flatnonzero(falls > np.log(2))
    place = int(above[-1]) if len(above) else int(np.argmax(falls / usual))
    return 2 + place, falls[place] / usual[place]
