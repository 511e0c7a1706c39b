"""Which edges of a spanning tree are cut, and how many: by length, and by size.

Single linkage cuts the longest edge, and so a single far sample is a cluster. The
size-weighted rule cuts the edge whose length, times a power of the sizes of the parts,
is largest:

    score(e) = length(e) * h(e)**0.75,    h(e) = a * b / (a + b),

where a and b are the sizes of the two parts into which cutting e divides its current
tree, and h is half their harmonic mean. Every cut changes the scores of its own tree
only, and can only lower them. So the largest score never increases and the cuts are
nested in the number of clusters; lengths in another unit give the same cuts, and edges
of length zero have a score of zero. With a power of 0 this is single linkage; with
squared lengths and a power of 1 (here .5) it is Ward's cost with the gap between two
parts in place of the distance of their centres.

Sizes outweigh any gap where a small cluster lies beside a large one, which would be cut
in two instead, and a cluster much sparser than others would be cut before gaps between
these. So two kinds of edges come sooner: within its tree, the one that leads to a small
cluster and is longer by far than those on both sides of it and than the best,
`_small_clusters`; and of the best edges of several trees, one that is longer by far
than those on both sides of it, `_is_clear`. Neither changes scores.
"""

import heapq
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skdiffclust.forests._trees._compilation_threshold import compiled_above_small

# Chosen on public data sets; from 0.5 to 1 results differ little.
SIZE_POWER = 0.75
# A cluster has at least this size, that of a core; it is small if it has at most this
# part of its tree.
LEAST_CLUSTER = 5.0
SMALL_PART = 0.1
# At least as many samples that lie apart are no group of outliers.
_LEAST_CLEAR = 20.0
# Standard deviations by which the logarithm of the length of a clear gap exceeds the
# mean of those on either side; the same for an edge to a small cluster, which also
# exceeds the best edge; and by which the mean of the small cluster may exceed that of
# the other side, as it does for a group of outliers. Where log lengths differ little,
# as in many dimensions, excesses are at least the logarithm of the first factor, and
# the small cluster may be sparser by the second.
_ABOVE_SIDES = 2.5
_ABOVE_SIDES_OF_SMALL = 1.5
_ABOVE_BEST = 2.0
_SPARSER = 3.0
_LEAST_FACTOR = 1.25
_SPARSER_FACTOR = 3.0
# Edges that are scored at once.
_AT_ONCE = 2**13


def cut(tree, n_cuts, *, sizes=None, weights=None, min_size=1, smallest=1):
    """Choose edges to cut: the longest, or by their length and the sizes of the parts.

    Parameters
    ----------
    tree : CutTree
        Edges of infinite length are cut first, whatever they separate.
    n_cuts : int
    sizes : ndarray of shape (n_samples,), float64, default=None
        Sizes of samples, as of `core_sizes`, for the size-weighted rule; lengths are
        then >= 0. None cuts the longest edges.
    weights : ndarray of shape (n_samples,), float64, default=None
        Weights that `min_size` counts; None counts samples.
    min_size : float, default=1
        A cut leaves at least this weight on both sides. Where no edge qualifies any
        more and cuts are still wanted, it is halved, down to `smallest`.
    smallest : float, default=1

    Returns
    -------
    positions : ndarray of shape (n_found,), int64
        The edges in the order in which they were cut, `n_found` <= `n_cuts`.
    scores : ndarray of shape (n_found,), float64
        The largest score of an edge when each was cut, or its length where `sizes` is
        None; non-increasing unless `min_size` was halved.
    min_size : float
        The last minimum size.

    Notes
    -----
    Of equal scores the edge is cut that comes first in cut order. Each cut costs a
    pass over the tree that was cut: O(n log k) where cuts are balanced, O(n k) at
    worst, for trees that are peeled from one end. O(n) memory. The longest edges
    without a minimum size are read off in O(n).
    """
    if sizes is None and min_size <= 1:
        positions = np.flatnonzero(tree.may_cut)[:n_cuts]
        return positions, tree.lengths[positions], 1
    n_samples = len(tree.edges) + 1
    n_cuts = min(n_cuts, np.count_nonzero(tree.may_cut))
    if n_cuts < 1:
        return np.empty(0, dtype=np.int64), np.empty(0), min_size
    preorder, counts, edges = rooted(tree.edges)
    power = 0.0 if sizes is None else SIZE_POWER
    counted = np.isfinite(tree.lengths) & (tree.lengths > 0)
    if weights is not None:
        counted &= (weights[tree.edges] > 0).all(axis=1)
    logs = np.log(tree.lengths, out=np.zeros(n_samples - 1), where=counted)
    sums = [
        counts * 1.0 if each is None else _sums_below(each[preorder], counts)
        for each in (sizes, weights)
    ]
    lengths = np.where(tree.may_cut, tree.lengths, -np.inf)
    of_edges = (
        edges,
        np.append(lengths, -np.inf)[edges],
        np.append(logs, 0.0)[edges],
        np.append(counted, False)[edges],
    )
    waiting = []
    largest = []
    done = set()
    exhausted = []
    pending = [_Part(*of_edges, counts, *sums, np.inf)]
    positions = []
    scores = []
    while len(positions) < n_cuts:
        for part in pending:
            best = _best_cut(part, min_size, power)
            if best is None:
                exhausted.append(part)
            else:
                heapq.heappush(waiting, best)
                heapq.heappush(largest, (-best.score, best.edge))
        pending = []
        if waiting:
            best = heapq.heappop(waiting)
            while largest[0][1] in done:
                heapq.heappop(largest)
            positions.append(best.edge)
            scores.append(-largest[0][0])
            done.add(best.edge)
            pending = _divide(best)
        elif min_size > smallest:
            min_size = max(min_size // 2, smallest)
            pending = exhausted
            exhausted = []
        else:
            break
    return np.array(positions, dtype=np.int64), np.array(scores), min_size


class _Part(NamedTuple):
    """A tree of the forest, its samples in preorder.

    `edges` (m,) are those above the samples, and `lengths` (m,) their lengths, -inf
    where they may not be cut, as the one that leads out of the part. `logs` (m,) are
    the logarithms of the lengths, and `counted` (m,) says which of these count: not
    those of zero and infinite lengths, of edges to samples without weight, and of the
    edge that leads out of the part, which are zero. Counts, sizes and weights (m,) are
    those of all samples below each, itself included, and `rank` is that of the cut
    which made the part. When a part is divided, its arrays become those of the two.
    """

    edges: np.ndarray
    lengths: np.ndarray
    logs: np.ndarray
    counted: np.ndarray
    counts: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray
    rank: float


class _BestCut(NamedTuple):
    """The next cut of a part; the one with the largest rank sorts first.

    `score` is the largest of the part.
    """

    negative_rank: float
    edge: int
    score: float
    place: int
    part: _Part


def _best_cut(part, min_size, power):
    """Return the best cut of a part, or None where nothing may be cut."""
    scores = np.concatenate(
        [
            _scores(slice(first, first + _AT_ONCE), part, min_size, power)
            for first in range(0, len(part.edges), _AT_ONCE)
        ]
    )
    score = scores.max()
    if score == -np.inf:
        return None
    place = _longest(np.flatnonzero(scores == score), part)
    rank = score
    if power and 0 < score < np.inf:
        small = _small_clusters(part, place, min_size)
        if len(small):
            place = _longest(small, part)
        if part.rank < np.inf and (len(small) or _is_clear(part, place)):
            rank = part.rank
    return _BestCut(-rank, int(part.edges[place]), float(score), int(place), part)


def _scores(block, part, min_size, power):
    """Return the scores (b,) of a block of edges of a part, -inf if not to be cut.

    It is short enough for what is computed to stay in a cache.
    """
    lengths = part.lengths[block]
    if min_size > 1:
        smaller = np.minimum(*_sides(part.weights, block))
        is_too_small = (smaller < min_size) & (lengths < np.inf)
        lengths = np.where(is_too_small, -np.inf, lengths)
    one, other = _sides(part.sizes, block)
    with np.errstate(invalid="ignore", divide="ignore"):
        scores = lengths * (one * other / (one + other)) ** power
    scores[np.minimum(one, other) <= 0] = -np.inf
    scores[lengths == np.inf] = np.inf
    return scores


def _sums_below(values, counts):
    """Return the sums of values (n,) below each sample, in preorder."""
    sums = np.append(0.0, np.cumsum(values))
    return sums[np.arange(len(counts)) + counts] - sums[:-1]


def _longest(places, part):
    """Return that of the places at which the edge is the first in cut order."""
    return places[np.argmin(part.edges[places])]


def _small_clusters(part, place, min_size):
    """Return the places of edges that lead to small clusters and are longer by far.

    The edge at `place` has the largest score. Edges of length zero, which are those
    between repeated samples, are left out of all means.
    """
    most = SMALL_PART * part.sizes[0]
    if most < LEAST_CLUSTER:
        return np.empty(0, dtype=np.int64)
    logs = part.logs
    counted = part.counted
    start = np.flatnonzero((logs > logs[place]) & counted)
    smaller = np.minimum(*_sides(part.sizes, start))
    start = start[(smaller >= LEAST_CLUSTER) & (smaller <= most)]
    start = start[logs[start] - logs[place] > np.log(_LEAST_FACTOR)]
    may_cut = part.lengths[start] > -np.inf
    if min_size > 1:
        may_cut &= np.minimum(*_sides(part.weights, start)) >= min_size
    start = start[may_cut]
    if not len(start):
        return start
    spread = logs[counted].std()
    start = start[logs[start] - logs[place] >= _ABOVE_BEST * spread]
    if not len(start):
        return start
    one, other = _sides(part.sizes, start)
    stop = start + part.counts[start]
    totals = np.cumsum(logs)
    missing = np.flatnonzero(~counted)
    n_below = stop - start - 1
    n_below -= np.searchsorted(missing, stop) - np.searchsorted(missing, start)
    n_above = len(logs) - len(missing) - n_below - 1
    below = totals[stop - 1] - totals[start]
    above = totals[-1] - below - logs[start]
    has_both = (n_below > 0) & (n_above > 0)
    below = below / np.maximum(n_below, 1)
    above = above / np.maximum(n_above, 1)
    own = logs[start] - np.maximum(below, above)
    sparser = np.where(one <= other, 1.0, -1.0) * (below - above)
    is_clear = own >= max(_ABOVE_SIDES_OF_SMALL * spread, np.log(_LEAST_FACTOR))
    is_dense = sparser <= max(_SPARSER * spread, np.log(_SPARSER_FACTOR))
    return start[has_both & is_clear & is_dense]


def _is_clear(part, place):
    """Whether the edge at `place` is longer by far than those on both sides of it.

    Fewer than `_LEAST_CLEAR` samples may be a group of outliers, so they must not be
    much sparser than the others.
    """
    smaller = min(_sides(part.sizes, place))
    if smaller < LEAST_CLUSTER:
        return False
    logs = part.logs
    stop = place + part.counts[place]
    counted = part.counted
    sides = [
        logs[place + 1 : stop][counted[place + 1 : stop]],
        np.append(logs[:place][counted[:place]], logs[stop:][counted[stop:]]),
    ]
    # Of two sides with equally many edges, the sparser one counts as the smaller.
    sides.sort(key=lambda side: (len(side), -side.sum()))
    if not len(sides[0]):
        return False
    means = np.array([side.mean() for side in sides])
    spreads = np.array([side.std() for side in sides])
    if smaller < _LEAST_CLEAR:
        spreads[:] = spreads.max()
        if means[0] - means[1] > max(_SPARSER * spreads[0], np.log(_SPARSER_FACTOR)):
            return False
    least = np.maximum(_ABOVE_SIDES * spreads, np.log(_LEAST_FACTOR))
    return (logs[place] - means >= least).all()


def _sides(below, places):
    """Return the sums below edges at some places of a part, and of the other side."""
    return below[places], below[0] - below[places]


def _divide(division):
    """Return the two parts into which a cut divides its own."""
    part = division.part
    place = division.place
    rank = -division.negative_rank
    size = part.counts[place]
    ancestors = np.flatnonzero(np.arange(place) + part.counts[:place] > place)
    for values in (part.counts, part.sizes, part.weights):
        values[ancestors] -= values[place]
    part.lengths[place] = -np.inf
    part.logs[place] = 0.0
    part.counted[place] = False
    for values in part[:-1]:
        below = values[place : place + size].copy()
        values[place:-size] = values[place + size :]
        values[-size:] = below
    return (
        _Part(*(values[:-size] for values in part[:-1]), rank),
        _Part(*(values[-size:] for values in part[:-1]), rank),
    )


@compiled_above_small
def rooted(edges):
    """Root the tree of edges (n - 1, 2) at sample 0.

    Returns its samples in preorder (n,), the number of samples below each of them,
    itself included, and the edge from each to its parent; the first has none, -1. Below
    each sample, the one at the longest edge comes first.
    """
    n_samples = len(edges) + 1
    # Edge e has the ends 2 e and 2 e + 1. Those at a sample form a list, of which the
    # one of the shortest edge comes first.
    first = np.full(n_samples, -1)
    following = np.empty(2 * n_samples, dtype=np.int64)
    for end in range(2 * n_samples - 2):
        i = edges[end >> 1, end & 1]
        following[end] = first[i]
        first[i] = end
    preorder = np.zeros(n_samples, dtype=np.int64)
    edges_above = np.full(n_samples, -1)
    places = np.zeros(n_samples, dtype=np.int64)
    waiting = np.empty(n_samples, dtype=np.int64)
    n_waiting = 0
    for place in range(n_samples):
        if place:
            n_waiting -= 1
            above = waiting[n_waiting] >> 1
            preorder[place] = edges[above, ~waiting[n_waiting] & 1]
            edges_above[place] = above
        i = preorder[place]
        places[i] = place
        end = first[i]
        while end >= 0:
            if end >> 1 != edges_above[place]:
                waiting[n_waiting] = end
                n_waiting += 1
            end = following[end]
    counts = np.ones(n_samples, dtype=np.int64)
    for place in range(n_samples - 1, 0, -1):
        e = edges_above[place]
        counts[places[edges[e, 0] + edges[e, 1] - preorder[place]]] += counts[place]
    return preorder, counts, edges_above


def mask(positions, tree):
    """Mark the edges at `positions` (n - 1,), bool."""
    return np.bincount(positions, minlength=len(tree.edges)) > 0


def cut_beyond(tree, threshold, *, weights=None, min_size=1):
    """Return which edges (n - 1,) are cut: those at least as long as `threshold`."""
    longer = tree.may_cut & (tree.lengths >= threshold)
    positions, _, _ = cut(
        replace(tree, may_cut=longer),
        np.count_nonzero(longer),
        weights=weights,
        min_size=min_size,
        smallest=min_size,
    )
    return mask(positions, tree)
