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
these. So clear gaps come first: edges that are longer by far than those on both sides.
Scores do not change, and an edge remains clear or not as long as its tree is not cut.
"""

import heapq
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skdiffclust.forests._trees._compilation_threshold import compiled_above_small
from skdiffclust.forests._trees._index import small_index

# Chosen on public data sets; from 0.5 to 1 results differ little.
SIZE_POWER = 0.75
# A side of a clear gap has at least this size.
LEAST_CLUSTER = 5.0
# Standard deviations by which the logarithm of the length of a clear gap exceeds the
# mean of those on either side. Lengths that differ by rounding are equal.
_ABOVE_SIDES = 2.5
_ROUNDING = 1e-6
# Edges that are scored at once.
_AT_ONCE = 2**13


class Cuts(NamedTuple):
    """The first cuts of a tree: which edges, with what scores, at what minimum size."""

    positions: np.ndarray
    scores: np.ndarray
    min_size: float


def cut(tree, n_cuts, *, sizes=None, weights=None, min_size=1, smallest=1):
    """Choose edges to cut: the longest, or by their length and the sizes of the parts.

    Parameters
    ----------
    tree : SpanningTree
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
        return Cuts(positions, tree.lengths[positions], 1)
    n_cuts = min(n_cuts, np.count_nonzero(tree.may_cut))
    if n_cuts < 1:
        return Cuts(np.empty(0, dtype=np.int64), np.empty(0), min_size)
    power = 0.0 if sizes is None else SIZE_POWER
    waiting = []
    largest = []
    done = set()
    exhausted = []
    pending = [_whole(tree, sizes, weights)]
    positions = []
    scores = []
    while len(positions) < n_cuts:
        for part in pending:
            best = _best_cut(part, tree.lengths, min_size, power)
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
    return Cuts(np.array(positions, dtype=np.int64), np.array(scores), min_size)


def _whole(tree, sizes, weights):
    """Return a tree as the one `_Part` of it."""
    index = np.empty(0, dtype=small_index(len(tree.edges)))
    preorder, counts, edges = rooted(tree.edges, index)
    sums = [
        each if each is None else _sums_below(each[preorder], counts)
        for each in (np.ones(len(counts)) if sizes is None else sizes, weights)
    ]
    # The first sample has no edge above it.
    lengths = tree.lengths[edges]
    lengths[0] = 0.0
    counted = np.isfinite(lengths) & (lengths > 0)
    may_cut = tree.may_cut[edges]
    may_cut[0] = False
    lengths[~may_cut] = -np.inf
    return _Part(edges, lengths, counted, counts, *sums)


class _Part(NamedTuple):
    """A tree of the forest, its samples in preorder.

    `edges` (m,) are those above the samples, and `lengths` (m,) their lengths, -inf
    where they may not be cut, as the one that leads out of the part. `counted` (m,)
    says whose logarithms count: not those of zero and infinite lengths, and of the edge
    that leads out of the part. Counts, sizes and weights (m,) are those of all samples
    below each, itself included; no weights are the counts. When a part is divided, its
    arrays become those of the two.
    """

    edges: np.ndarray
    lengths: np.ndarray
    counted: np.ndarray
    counts: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray | None


class _BestCut(NamedTuple):
    """The next cut of a part; `score` is the largest of the part.

    Among all parts, forced cuts and clear gaps sort first.
    """

    rank: int
    negative_score: float
    edge: int
    score: float
    place: int
    part: _Part


def _best_cut(part, lengths, min_size, power):
    """Return the best cut of a part, or None where nothing may be cut."""
    firsts = []
    for first in range(0, len(part.edges), _AT_ONCE):
        block = slice(first, first + _AT_ONCE)
        scores = _scores(block, part, min_size, power)
        firsts.append(_first_of(scores, np.arange(first, first + len(scores)), part))
    score, _, place = best = min(firsts)
    if score == np.inf:
        return None
    rank = 0 if score == -np.inf else 2
    if rank and power and score < 0:
        clear = _clear_gaps(part, lengths)
        scores = _scores(clear, part, min_size, power)
        if (scores > 0).any():
            rank = 1
            best = _first_of(scores, clear, part)
    negative, edge, place = best
    return _BestCut(rank, negative, edge, -score, place, part)


def _first_of(scores, places, part):
    """Return the largest score, its sign changed, with its edge and place.

    The first of equal scores in cut order is taken.
    """
    score = scores.max()
    ties = places[scores == score]
    place = ties[np.argmin(part.edges[ties])]
    return -float(score), int(part.edges[place]), int(place)


def _scores(block, part, min_size, power):
    """Return the scores (b,) of a block of edges of a part, -inf if not to be cut.

    The block is short enough for its arrays to stay in a cache.
    """
    lengths = part.lengths[block]
    if min_size > 1:
        weights = part.counts if part.weights is None else part.weights
        smaller = np.minimum(*_sides(weights, block))
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
    total = _running_sums(values)
    sums = np.empty(len(counts))
    for first in range(0, len(counts), _AT_ONCE):
        block = slice(first, first + _AT_ONCE)
        ends = np.arange(first, first + len(counts[block])) + counts[block]
        sums[block] = total[ends] - total[:-1][block]
    return sums


def _running_sums(values, dtype=np.float64):
    """Return the sums (m + 1,) of the first values (m,), none to all."""
    sums = np.zeros(len(values) + 1, dtype)
    np.cumsum(values, dtype=dtype, out=sums[1:])
    return sums


def _clear_gaps(part, lengths):
    """Return the places of edges that are longer by far than those on both sides.

    The difference is at least 2.5 standard deviations of the logarithms of the lengths
    on either side, which has at least the size 5. Edges of length zero, which are those
    between repeated samples, are left out of all means.
    """
    logs = np.log(
        lengths[part.edges], out=np.zeros(len(part.edges)), where=part.counted
    )
    logs -= logs.sum() / max(np.count_nonzero(part.counted), 1)
    logs[~part.counted] = 0.0
    totals = [
        _running_sums(np.square(logs)),
        _running_sums(logs),
        _running_sums(part.counted, part.counts.dtype),
    ]
    clear = []
    for first in range(0, len(logs), _AT_ONCE):
        block = slice(first, first + _AT_ONCE)
        # Clear gaps are longer than the mean, which lies between those of the sides.
        smaller = np.minimum(*_sides(part.sizes, block))
        start = first + np.flatnonzero((logs[block] > 0) & (smaller >= LEAST_CLUSTER))
        stop = start + part.counts[start]
        longer = logs[start]
        below = np.array([total[stop] - total[start + 1] for total in totals])
        own = np.array([np.square(longer), longer, part.counted[start]])
        above = np.array([[total[-1]] for total in totals]) - below - own
        squares, means, n_counted = np.stack([below, above], axis=1)
        # No gap leads to a side without any length.
        n_counted[n_counted == 0] = np.nan
        means /= n_counted
        spreads = np.sqrt(np.maximum(squares / n_counted - means**2, 0.0))
        is_clear = longer - means > np.maximum(_ABOVE_SIDES * spreads, _ROUNDING)
        clear.append(start[is_clear.all(axis=0)])
    return np.concatenate(clear)


def _sides(below, places):
    """Return the sums below edges at some places of a part, and on the other side."""
    return below[places], below[0] - below[places]


def _divide(division):
    """Return the two parts into which a cut divides its own."""
    part = division.part
    place = division.place
    size = part.counts[place]
    ancestors = np.flatnonzero(np.arange(place) + part.counts[:place] > place)
    arrays = [values for values in part if values is not None]
    for values in arrays[3:]:  # those of samples below
        values[ancestors] -= values[place]
    part.lengths[place] = -np.inf
    part.counted[place] = False
    for values in arrays:
        below = values[place : place + size].copy()
        values[place:-size] = values[place + size :]
        values[-size:] = below
    return (
        _Part(*(values if values is None else values[:-size] for values in part)),
        _Part(*(values if values is None else values[-size:] for values in part)),
    )


@compiled_above_small
def rooted(edges, index):
    """Root the tree of edges (n - 1, 2) at sample 0.

    Returns its samples in preorder (n,), the number of samples below each of them,
    itself included, and the edge from each to its parent, -1 for the first. Below each
    sample, the one at the longest edge comes first. Numbers are of the dtype of the
    array `index`.
    """
    n_samples = len(edges) + 1
    dtype = index.dtype
    # Edge e has the ends 2 e and 2 e + 1. Those at a sample form a list, of which the
    # one of the shortest edge comes first.
    first = np.full(n_samples, -1, dtype)
    following = np.empty(2 * n_samples, dtype)
    for end in range(2 * n_samples - 2):
        i = edges[end >> 1, end & 1]
        following[end] = first[i]
        first[i] = end
    preorder = np.zeros(n_samples, dtype)
    edges_above = np.full(n_samples, -1, dtype)
    places = np.zeros(n_samples, dtype)
    waiting = np.empty(n_samples, dtype)
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
    counts = np.ones(n_samples, dtype)
    for place in range(n_samples - 1, 0, -1):
        e = edges_above[place]
        counts[places[edges[e, 0] + edges[e, 1] - preorder[place]]] += counts[place]
    return preorder, counts, edges_above


def mask(positions, tree):
    """Mark the edges at `positions` (n - 1,), bool."""
    is_marked = np.zeros(len(tree.edges), dtype=bool)
    is_marked[positions] = True
    return is_marked


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
