"""How many cuts of a spanning tree separate clusters.

A cut between clusters is longer than what holds either side together. The length at
which most of a side is one component of single linkage says what that is, and depends
neither on its size nor on its outliers. So every cut has evidence, the logarithm of
the ratio, and the number of clusters is where the sum of the evidence is largest: where
scores of many cuts are nearly equal, as of clusters alike, or fall evenly, as of an
embedding, no single fall tells. Scores of small clusters are small, however far away
these are, so that only the evidence counts for those cut after the large ones.
"""

from typing import NamedTuple

import numpy as np

from skdiffclust.forests._hierarchy._core_sizes import weighted_quantile
from skdiffclust.forests._hierarchy._linkage import linkage_matrix
from skdiffclust.forests._hierarchy._tree_cuts import LEAST_CLUSTER, SMALL_PART
from skdiffclust.forests._trees._compilation_threshold import compiled_above_small
from skdiffclust.forests._trees._tree import components

# The number of clusters is read off a curve of at most this many cuts.
MAX_AUTO_CLUSTERS = 200
# A side holds together where this share of it is one component.
_SHARE = 0.8
# Evidence that a cut between large sides has to have, and what counts of it at most.
_LEAST_EVIDENCE = 0.13
_MOST_EVIDENCE = 1.0
# Evidence that the smaller side of m samples has by chance, times m, among all cuts and
# among those of small sides after the others.
_CHANCE = 5.0
_CHANCE_OF_SMALL = 3.0
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

    And, as a second array (m,), that of cuts of small sides. Evidence is log(l / r),
    between -1 and 1, less 5 / s. Here l is the length of the edge, and r the larger of
    two, one for each side: the length at which a component of single linkage has four
    fifths of the side. The size of the smaller side is s: a few samples are often apart
    by chance. If s is below 5, it is log(l / r), at most 0. The second array has 3 / s
    in place of 5 / s, and -inf if s is below 5 or above a tenth of both sides.
    ``positions`` (m,) are those of the edges in the CutTree, ``sizes`` (n,) of
    `core_sizes`. In data without clusters edges are cut that lie in their middle, where
    the evidence is negative. A pass over the part for every cut.
    """
    places, heights = _leaves(linkage_matrix(tree.edges, tree.lengths))
    in_order = np.empty(len(sizes))
    in_order[places] = sizes
    rest = np.delete(tree.edges, positions, axis=0)
    finest = components(rest, len(sizes))
    cuts = finest[tree.edges[positions]]
    by_part = places[np.lexsort((places, finest))]
    parts = np.split(by_part, np.cumsum(np.bincount(finest))[:-1])
    part_of = np.arange(len(parts))
    evidence = np.empty(len(positions))
    of_small = np.full(len(positions), -np.inf)
    # The last cut first: then its two sides are parts that are joined again.
    for i in range(len(positions) - 1, -1, -1):
        one, other = part_of[cuts[i]]
        sides = parts[one], parts[other]
        within = max(_length_of_most(side, heights, in_order[side]) for side in sides)
        # Of forced cuts, whose lengths are infinite, it is not defined.
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(tree.lengths[positions[i]]) - np.log(within)
        ratio = np.clip(ratio, -_MOST_EVIDENCE, _MOST_EVIDENCE)
        smaller, larger = sorted(in_order[side].sum() for side in sides)
        if smaller < LEAST_CLUSTER:
            evidence[i] = min(ratio, 0.0)
        else:
            evidence[i] = ratio - _CHANCE / smaller
            if smaller <= SMALL_PART * (smaller + larger):
                of_small[i] = ratio - _CHANCE_OF_SMALL / smaller
        parts[one] = np.sort(np.concatenate(sides), kind="stable")
        part_of[part_of == other] = one
    return evidence, of_small


@compiled_above_small
def _leaves(linkage):
    """Return the place (n,) of each sample in a dendrogram, and heights (n - 1,).

    A height is the length at which neighbouring samples are joined. So the components
    of a length are the runs of samples between larger heights.
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

    Of samples at ascending `places` (m,) of a dendrogram, which are a part of the tree:
    two of them are joined inside it at the largest height that lies between them.
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


def choose_number(scores, evidence, of_small, n_parts, n_samples):
    """Return the Choice of the number of clusters after successive cuts.

    ``scores[i]``, ``evidence[i]`` and ``of_small[i]`` are those of the cut into i + 2
    clusters; the first `n_parts` - 1 were forced and count for nothing. With e the
    evidence and S the scores, it is the k with the largest sum of e - 0.13 over the
    cuts into 2 to k clusters, plus 0.4 log(S_k / S_(k+1)). The cuts of small sides that
    follow are added as long as they raise the sum. Over data without clusters the first
    sum rarely exceeds 0.3; if it does not, the number is `n_parts`, or with one part
    that of `number_by_falls`, which is the other one elsewhere.
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
    last = first - 2 + len(falls)
    total = np.cumsum(evidence[first - 2 : last] - _LEAST_EVIDENCE)
    total += _WEIGHT_OF_FALL * falls
    best = first + int(np.argmax(total))
    if total.max() > _CLEAR:
        more = np.cumsum(of_small[best - 1 : last] - _LEAST_EVIDENCE)
        return Choice(best + int(np.argmax(np.append(0.0, more))), True, other)
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
