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
these. So two kinds of edges come sooner, `_clear_gap`: within its tree, the one that
leads to a small cluster and is longer by far than those on both sides of it and than
the best; and of the best edges of several trees, one that is longer by far than those
on both sides of it. Neither changes scores.
"""

import heapq
from typing import NamedTuple

import numpy as np

from skdiffclust.forests._trees._compilation_threshold import compiled_above_small

# Chosen on public data sets; from 0.5 to 1 results differ little.
SIZE_POWER = 0.75
# A cluster has at least this size, that of a core; it is small if it has at most this
# part of its tree.
LEAST_CLUSTER = 5.0
_SMALL_PART = 0.1
# Standard deviations by which the logarithm of the length of a clear gap exceeds the
# mean of those on either side, and, if it leads to a small cluster, that of the best
# edge; and by which the mean of the small cluster may exceed that of the other side, as
# it does for a group of outliers. Where log lengths differ little, as in many
# dimensions, excesses are at least the logarithm of the factor.
_ABOVE_SIDES = 2.5
_ABOVE_BEST = 2.0
_SPARSER = 3.0
_LEAST_FACTOR = 1.25


def cut(
    tree, n_cuts, *, sizes=None, weights=None, min_size=1, smallest=1, may_cut=None
):
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
    may_cut : ndarray of shape (n_samples - 1,), bool, default=None
        Which edges may be cut; None takes those of the tree.

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
    may_cut = tree.may_cut if may_cut is None else may_cut
    if sizes is None and min_size <= 1:
        positions = np.flatnonzero(may_cut)[:n_cuts]
        return positions, tree.lengths[positions], 1
    n_samples = len(tree.edges) + 1
    n_cuts = min(n_cuts, np.count_nonzero(may_cut))
    if n_cuts < 1:
        return np.empty(0, dtype=np.int64), np.empty(0), min_size
    preorder, counts, edge = rooted(tree.edges)
    lengths = np.where(may_cut, tree.lengths, -np.inf)[edge]
    power = 0.0 if sizes is None else SIZE_POWER
    values = _Values(
        edge,
        lengths,
        np.append(_logarithms(tree, weights), np.nan)[edge],
        _in_order(sizes, preorder),
        _in_order(weights, preorder),
    )
    waiting = []
    largest = []
    done = set()
    exhausted = []
    pending = [_Part(np.arange(n_samples), counts, np.inf)]
    positions = []
    scores = []
    while len(positions) < n_cuts:
        for part in pending:
            found = _best_cut(part, values, min_size, power)
            if found is None:
                exhausted.append(part)
            else:
                heapq.heappush(waiting, found)
                heapq.heappush(largest, (-found.score, found.edge))
        pending = []
        if waiting:
            found = heapq.heappop(waiting)
            while largest[0][1] in done:
                heapq.heappop(largest)
            positions.append(found.edge)
            scores.append(-largest[0][0])
            done.add(found.edge)
            pending = _divide(found)
        elif min_size > smallest:
            min_size = max(min_size // 2, smallest)
            pending = exhausted
            exhausted = []
        else:
            break
    return np.array(positions, dtype=np.int64), np.array(scores), min_size


class _Values(NamedTuple):
    """What is known of the edge above each sample in preorder, and of the sample, (n,).

    Its position in cut order, its length, -inf where it may not be cut, the logarithm
    of its length, and the size and the weight of the sample.
    """

    edge: np.ndarray
    lengths: np.ndarray
    logs: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray


def _logarithms(tree, weights):
    """Return the logarithms of lengths (n - 1,), NaN where they count for nothing.

    Such are zero and infinite lengths, and those to samples without weight.
    """
    counted = np.isfinite(tree.lengths) & (tree.lengths > 0)
    if weights is not None:
        counted &= (weights[tree.edges] > 0).all(axis=1)
    return np.log(tree.lengths, out=np.full(len(tree.lengths), np.nan), where=counted)


class _Part(NamedTuple):
    """A tree of the forest, its samples in preorder.

    samples (m,) are positions in the preorder of the whole tree, counts (m,) the
    numbers of samples below each, itself included, and `rank` is that of the cut which
    made it.
    """

    samples: np.ndarray
    counts: np.ndarray
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


def _best_cut(part, values, min_size, power):
    """Return the best cut of a part, or None where nothing may be cut."""
    samples = part.samples[1:]
    if not len(samples):
        return None
    edge = values.edge[samples]
    lengths = values.lengths[samples]
    scores = lengths.copy()
    is_forced = np.isposinf(lengths)
    if power:
        sides = _sides(values.sizes, part)
        one, other = sides
        separated = (one > 0) & (other > 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            scores *= (one * other / (one + other)) ** power
        scores[~separated] = -np.inf
    if min_size > 1:
        one, other = _sides(values.weights, part)
        scores[np.minimum(one, other) < min_size] = -np.inf
    scores[np.isneginf(lengths)] = -np.inf
    scores[is_forced] = np.inf
    score = scores.max()
    if score == -np.inf:
        return None
    tied = np.flatnonzero(scores == score)
    place = tied[np.argmin(edge[tied])]
    rank = score
    if power and 0 < score < np.inf:
        logs = values.logs[part.samples]
        may_cut = scores > -np.inf
        small = _small_cluster(part, place, edge, logs, sides, may_cut)
        if small is not None:
            place = small
        is_clear = small is not None or _is_clear(part, place, logs, sides)
        if is_clear and part.rank < np.inf:
            rank = part.rank
    return _BestCut(-rank, int(edge[place]), float(score), int(place) + 1, part)


def _small_cluster(part, best, edge, logs, sides, may_cut):
    """Return the place of the longest edge to a small cluster, None without one.

    `best` is the place of the edge with the largest score; `edge`, the sizes `sides`
    and `may_cut` belong to the edges (m - 1,) of a part, `logs` (m,) to the edges above
    its samples. Edges of length zero, which are those between repeated samples, are
    left out of all means.
    """
    total = sides[0][best] + sides[1][best]
    if _SMALL_PART * total < LEAST_CLUSTER:
        return None
    excess = logs[1:] - logs[1 + best]
    smaller = np.minimum(*sides)
    chosen = may_cut & (excess > np.log(_LEAST_FACTOR)) & (smaller >= LEAST_CLUSTER)
    chosen &= smaller <= _SMALL_PART * total
    if not chosen.any():
        return None
    counted = ~np.isnan(logs)
    counted[0] = False  # this edge leads out of the part
    found = np.where(counted, logs, 0.0)
    spread = found[counted].std()
    places = np.flatnonzero(chosen & (excess >= _ABOVE_BEST * spread))
    start = places + 1
    stop = start + part.counts[start]
    sums = np.concatenate([[0.0], np.cumsum(found)])
    n_counted = np.concatenate([[0], np.cumsum(counted)])
    below = sums[stop] - sums[start + 1]
    above = sums[-1] - below - found[start]
    n_below = n_counted[stop] - n_counted[start + 1]
    n_above = n_counted[-1] - n_below - counted[start]
    has_both = (n_below > 0) & (n_above > 0)
    below = below / np.maximum(n_below, 1)
    above = above / np.maximum(n_above, 1)
    own = logs[start] - np.maximum(below, above)
    sparser = np.where(sides[0] <= sides[1], 1.0, -1.0)[places] * (below - above)
    is_clear = own >= max(_ABOVE_SIDES * spread, np.log(_LEAST_FACTOR))
    places = places[has_both & is_clear & (sparser <= _SPARSER * spread)]
    return places[np.argmin(edge[places])] if len(places) else None


def _is_clear(part, place, logs, sides):
    """Whether the edge at `place` is longer by far than those on both sides of it.

    Arguments are those of `_small_cluster`.
    """
    if min(sides[0][place], sides[1][place]) < LEAST_CLUSTER:
        return False
    start = place + 1
    stop = start + part.counts[start]
    below = logs[start + 1 : stop]
    above = np.concatenate([logs[1:start], logs[stop:]])
    for side in (below, above):
        side = side[~np.isnan(side)]
        if not len(side):
            return False
        excess = logs[start] - side.mean()
        if excess < max(_ABOVE_SIDES * side.std(), np.log(_LEAST_FACTOR)):
            return False
    return True


def _sides(values, part):
    """Return the sums of values below each edge of a part, and of the other side."""
    sums = np.concatenate([[0.0], np.cumsum(values[part.samples])])
    start = np.arange(1, len(part.samples))
    below = sums[start + part.counts[1:]] - sums[start]
    return below, sums[-1] - below


def _divide(found):
    """Return the two parts into which a cut divides its own."""
    part = found.part
    place = found.place
    rank = -found.negative_rank
    stop = place + part.counts[place]
    below = _Part(part.samples[place:stop], part.counts[place:stop], rank)
    counts = part.counts.copy()
    ancestors = np.flatnonzero(np.arange(place) + counts[:place] > place)
    counts[ancestors] -= stop - place
    above = _Part(
        np.concatenate([part.samples[:place], part.samples[stop:]]),
        np.concatenate([counts[:place], counts[stop:]]),
        rank,
    )
    return above, below


@compiled_above_small
def rooted(edges):
    """Root the tree of edges (n - 1, 2) at sample 0.

    Returns its samples in preorder (n,), the number of samples below each of them,
    itself included, and the edge from each to its parent; the first has none, -1.
    """
    n_samples = len(edges) + 1
    # Arrays are made by one function of NumPy, since numba compiles each that is used.
    starts = np.empty(n_samples + 1, dtype=np.int64)
    counts = np.empty(n_samples, dtype=np.int64)
    starts[n_samples] = 0
    for i in range(n_samples):
        starts[i] = 0
        counts[i] = 1
    for e in range(len(edges)):
        starts[edges[e, 0]] += 1
        starts[edges[e, 1]] += 1
    for i in range(n_samples):
        starts[i + 1] += starts[i]
    incident = np.empty(2 * len(edges), dtype=np.int64)
    for e in range(len(edges)):
        for side in range(2):
            starts[edges[e, side]] -= 1
            incident[starts[edges[e, side]]] = e
    preorder = np.empty(n_samples, dtype=np.int64)
    preorder[0] = 0
    edge = np.empty(n_samples, dtype=np.int64)
    edge[0] = -1
    parent = np.empty(n_samples, dtype=np.int64)
    # Edges to follow, and the positions that they are followed from.
    waiting = np.empty(n_samples, dtype=np.int64)
    origins = np.empty(n_samples, dtype=np.int64)
    n_waiting = 0
    for position in range(n_samples):
        if position:
            n_waiting -= 1
            followed = waiting[n_waiting]
            parent[position] = origins[n_waiting]
            above = preorder[parent[position]]
            edge[position] = followed
            preorder[position] = edges[followed, 0] + edges[followed, 1] - above
        sample = preorder[position]
        for at in range(starts[sample], starts[sample + 1]):
            if incident[at] != edge[position]:
                waiting[n_waiting] = incident[at]
                origins[n_waiting] = position
                n_waiting += 1
    for position in range(n_samples - 1, 0, -1):
        counts[parent[position]] += counts[position]
    return preorder, counts, edge


def _in_order(values, order):
    """Return values (n,) in another order, as float64; None is all ones."""
    if values is None:
        return np.ones(len(order))
    return np.asarray(values, dtype=np.float64)[order]


def mask(positions, tree):
    """Mark the edges at `positions` (n - 1,), bool."""
    is_cut = np.zeros(len(tree.edges), dtype=bool)
    is_cut[positions] = True
    return is_cut


def cut_beyond(tree, threshold, *, weights=None, min_size=1):
    """Return which edges (n - 1,) are cut: those at least as long as `threshold`."""
    longer = tree.may_cut & (tree.lengths >= threshold)
    positions, _, _ = cut(
        tree,
        np.count_nonzero(longer),
        weights=weights,
        min_size=min_size,
        smallest=min_size,
        may_cut=longer,
    )
    return mask(positions, tree)
