"""How many cuts of a spanning tree separate clusters.

A cut between clusters is longer than what holds either side together. What holds
a side together is measured by the length at which most of it is one component of single
linkage, which depends neither on its size nor on its outliers. So every cut has a gain,
the logarithm of the ratio of both lengths, and a cost, since a few samples are often
apart by chance.

The number of clusters has the largest sum of gains less costs. A single fall of the
scores would not show it where clusters are alike, whose cuts have nearly equal scores,
or in an embedding, where scores fall evenly. Only if no sum is positive, as in most
tables, the falls decide.
"""

from typing import NamedTuple

import numpy as np

from skdiffclust.forests._hierarchy._core_sizes import weighted_quantile
from skdiffclust.forests._hierarchy._tree_cuts import LEAST_CLUSTER
from skdiffclust.forests._trees._compilation_threshold import compiled_above_small
from skdiffclust.forests._trees._tree import components

# The number of clusters is read off a curve of at most this many cuts.
MAX_AUTO_CLUSTERS = 200
# A side holds together where this share of it is one component.
_SHARE = 0.8
# Lengths within a side count as at least this times that of the cut.
_LEAST_WITHIN = np.finfo(np.float64).eps
# A cut whose smaller side has the size s costs _CHANCE / s + _PER_CUT.
_CHANCE = 5.0
_PER_CUT = 0.1


class Choice(NamedTuple):
    """A number of clusters, and what `choose_number` says about it."""

    n_clusters: int
    candidates: np.ndarray
    largest_sum: float | None
    by_falls: int
    p_value: float | None = None


def gains_of_cuts(tree, positions, sizes):
    """Return the gains (m,) and the costs (m,) of successive cuts of a tree.

    A cut that separates clusters has a large gain. The gain is log(l / r), where
    l is the length of the edge, and r the larger of two, one for each side: the length
    at which a component of single linkage has four fifths of the side. The cost is
    5 / s + 0.1, where s is the size of the smaller side: a few samples are often apart
    by chance. If s is below 5, the gain is at most 0 and the cost 0.1.
    ``positions`` (m,) are those of the edges in the SpanningTree, ``sizes`` (n,) of
    `core_sizes`. In data without clusters edges are cut that lie in their middle, where
    the gain is negative. A pass over the part for every cut.
    """
    places, heights = _leaves(tree.linkage())
    in_order = np.empty(len(sizes))
    in_order[places] = sizes
    rest = np.delete(tree.edges, positions, axis=0)
    finest = components(rest, len(sizes))
    cuts = finest[tree.edges[positions]]
    by_part = places[np.lexsort((places, finest))]
    parts = np.split(by_part, np.cumsum(np.bincount(finest))[:-1])
    part_of = np.arange(len(parts))
    within = np.empty(len(positions))
    smaller = np.empty(len(positions))
    # Cuts are undone from the last one on: its two sides are parts then.
    for i in range(len(positions) - 1, -1, -1):
        one, other = part_of[cuts[i]]
        sides = parts[one], parts[other]
        within[i] = max(
            _length_of_most(side, heights, in_order[side]) for side in sides
        )
        smaller[i] = min(in_order[side].sum() for side in sides)
        parts[one] = np.sort(np.concatenate(sides), kind="stable")
        part_of[part_of == other] = one
    lengths = tree.lengths[positions]
    # Forced cuts, whose lengths are infinite, count for nothing; of equal samples,
    # lengths within are zero.
    with np.errstate(invalid="ignore", divide="ignore"):
        gains = np.log(lengths / np.maximum(within, _LEAST_WITHIN * lengths))
    is_few = smaller < LEAST_CLUSTER
    gains[is_few] = np.minimum(gains[is_few], 0.0)
    chance = np.where(is_few, 0.0, _CHANCE / np.maximum(smaller, LEAST_CLUSTER))
    return gains, chance + _PER_CUT


@compiled_above_small
def _leaves(linkage):
    """Return the place (n,) of each sample in a dendrogram, and heights (n - 1,).

    A height is the length at which two samples in neighbouring places are joined. So
    the components at a length are the runs of samples between larger heights.
    """
    n_samples = len(linkage) + 1
    starts = np.zeros(2 * n_samples - 1, dtype=np.int64)
    heights = np.empty(n_samples - 1)
    for t in range(n_samples - 2, -1, -1):
        left = int(linkage[t, 0])
        size = 1 if left < n_samples else int(linkage[left - n_samples, 3])
        start = starts[n_samples + t]
        starts[left] = start
        starts[int(linkage[t, 1])] = start + size
        heights[start + size - 1] = linkage[t, 2]
    return starts[:n_samples], heights


def _length_of_most(places, heights, sizes):
    """Return the length at which a component has four fifths of the sizes (m,).

    The samples, a part of the tree, are at ascending `places` (m,) of a dendrogram. Two
    of them are joined inside the part at the largest height between their places.
    """
    joined = np.zeros(len(places))
    if len(places) > 1:
        largest = np.maximum.reduceat(heights[: places[-1]], places[:-1])
        # The component has the sample in the middle of the sizes.
        below = np.cumsum(sizes)
        middle = np.searchsorted(below, below[-1] / 2)
        joined[middle + 1 :] = np.maximum.accumulate(largest[middle:])
        joined[:middle] = np.maximum.accumulate(largest[:middle][::-1])[::-1]
    return weighted_quantile(joined, sizes, _SHARE)


def choose_number(scores, gains, costs, n_parts, n_samples):
    """Return the Choice of the number of clusters after successive cuts.

    ``scores[i]``, ``gains[i]`` and ``costs[i]`` are those of the cut into i + 2
    clusters; the first `n_parts` - 1 were forced and count for nothing. The number is
    the k with the largest sum of gains less costs over the cuts into 2 to k clusters.
    Where no sum is positive, it is `n_parts`, or with one part that of
    `number_by_falls`. Candidates are all numbers that this gives for some multiple of
    the costs between a half and two.
    """
    first = max(2, n_parts + 1)
    n_candidates = max(highest_number(n_samples) - first + 1, 0)
    falls = falls_of(scores[first - 2 :])[:n_candidates]
    if not len(falls):
        n_clusters = max(n_parts, min(2, len(scores) + 1))
        return Choice(n_clusters, np.array([n_clusters]), 0.0, n_clusters)
    by_falls = number_by_falls(falls) if n_parts == 1 else n_parts
    cuts = slice(first - 2, first - 2 + len(falls))
    # The first number stands for no cut.
    numbers = np.append(by_falls, np.arange(first, first + len(falls)))
    sums = np.append(0.0, np.cumsum(gains[cuts]))
    costs = np.append(0.0, np.cumsum(costs[cuts]))
    best = np.argmax(sums - costs)
    candidates = numbers[[best, *_winners(sums, costs)]]
    largest = float(sums[best] - costs[best])
    return Choice(int(numbers[best]), np.unique(candidates), largest, by_falls)


def _winners(gains, costs):
    """Return the places where gains - a * costs (m,) is largest, for a from .5 to 2.

    Costs increase, so that the place for a larger a is earlier. The next place is the
    one that a line of the upper hull of gains over costs leads to.
    """
    place = int(np.argmax(gains - costs / 2))
    winners = [place]
    while place:
        slopes = (gains[place] - gains[:place]) / (costs[place] - costs[:place])
        place = int(np.argmin(slopes))
        if slopes[place] > 2:
            break
        winners.append(place)
    return winners


def highest_number(n_samples):
    """Return the largest number of clusters that "auto" finds."""
    return min(MAX_AUTO_CLUSTERS, max(n_samples // 10, min(5, n_samples // 2)))


def falls_of(scores):
    """Return the falls log(S_k / S_(k+1)) of positive scores (m,); the last is 0."""
    logs = np.log(scores[scores > 0])
    return np.append(-np.diff(logs), 0.0) if len(logs) else logs


def number_by_falls(falls):
    """Return the number of clusters by the falls (m,) of the score alone.

    The first fall is that after 2 clusters. The number is the last k after which the
    score falls to less than half. Without any, it is the k with the largest ratio of
    the fall to log(1 + sqrt(2 / k)), since scores of more clusters lie closer together
    even without structure.
    """
    usual = np.log1p(np.sqrt(2 / np.arange(2, 2 + len(falls))))
    above = np.flatnonzero(falls > np.log(2))
    return 2 + int(above[-1] if len(above) else np.argmax(falls / usual))
