"""Which edges of a spanning tree are cut, and how many: by length, and by size.

Single linkage cuts the longest edge, and so a single far sample is a cluster. The
size-weighted rule cuts the edge whose length, times a power of the sizes of the parts,
is largest:

    score(e) = length(e) * h(e)**0.75,    h(e) = a * b / (a + b),

where a and b are the sizes of the two parts into which cutting e divides its current
tree, and h is half their harmonic mean. Every cut changes the scores of its own tree
only, and can only lower them. So the sequence of scores is non-increasing and the cuts
are nested in the number of clusters; lengths in another unit give the same cuts, and
edges of length zero have a score of zero. With a power of 0 this is single linkage;
with squared lengths and a power of 1 (here .5) it is Ward's cost with the gap between
two parts in place of the distance of their centres.
"""

import heapq
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import depth_first_order

from skdiffclust.forests._trees._compilation_threshold import compiled_above_small
from skdiffclust.forests._trees._tree import adjacency

# Chosen on public data sets; from 0.5 to 1 results differ little.
SIZE_POWER = 0.75
# The number of clusters is read off a curve of at most this many cuts.
MAX_AUTO_CLUSTERS = 60


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
        Their scores, or their lengths where `sizes` is None; non-increasing unless
        `min_size` was halved.
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
    preorder, counts, edge = _rooted(tree.edges)
    lengths = np.where(may_cut, tree.lengths, -np.inf)[edge]
    power = 0.0 if sizes is None else SIZE_POWER
    by_sample = (lengths, _in_order(sizes, preorder), _in_order(weights, preorder))
    heap = []
    exhausted = []
    pending = [_Part(np.arange(n_samples), counts)]
    positions = []
    scores = []
    while len(positions) < n_cuts:
        for part in pending:
            found = _best_cut(part, edge, by_sample, min_size, power)
            if found is None:
                exhausted.append(part)
            else:
                heapq.heappush(heap, found)
        pending = []
        if heap:
            found = heapq.heappop(heap)
            positions.append(found.edge)
            scores.append(-found.negative_score)
            pending = _divide(found.part, found.place)
        elif min_size > smallest:
            min_size = max(min_size // 2, smallest)
            pending = exhausted
            exhausted = []
        else:
            break
    return np.array(positions, dtype=np.int64), np.array(scores), min_size


class _Part(NamedTuple):
    """A tree of the forest, its samples in preorder.

    samples (m,) are positions in the preorder of the whole tree, counts (m,) the
    numbers of samples below each, itself included.
    """

    samples: np.ndarray
    counts: np.ndarray


class _BestCut(NamedTuple):
    """The edge of a part with the largest score; the best cut sorts first."""

    negative_score: float
    edge: int
    place: int
    part: _Part


def _rooted(edges):
    """Root a tree at sample 0.

    Returns its samples in preorder (n,), the number of samples below each of them, and
    the edge from each to its parent; the first, in preorder, has none, -1.
    """
    n_samples = len(edges) + 1
    preorder, parents = depth_first_order(
        adjacency(edges, n_samples), 0, directed=False
    )
    position = np.empty(n_samples, dtype=np.int64)
    position[preorder] = np.arange(n_samples)
    edge = np.full(n_samples, -1, dtype=np.int64)
    edge[position[edges].max(axis=1)] = np.arange(n_samples - 1)
    parent = np.zeros(n_samples, dtype=np.int64)
    parent[1:] = position[parents[preorder[1:]]]
    return preorder, subtree_sizes(parent), edge


def _best_cut(part, edge, by_sample, min_size, power):
    """Return the best cut of a part, or None where nothing may be cut."""
    lengths, sizes, weights = by_sample
    samples = part.samples[1:]
    if not len(samples):
        return None
    lengths = lengths[samples]
    scores = lengths.copy()
    is_forced = np.isposinf(lengths)
    if power:
        one, other = _sides(sizes, part)
        separated = (one > 0) & (other > 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            scores *= (one * other / (one + other)) ** power
        scores[~separated] = -np.inf
    if min_size > 1:
        one, other = _sides(weights, part)
        scores[np.minimum(one, other) < min_size] = -np.inf
    scores[np.isneginf(lengths)] = -np.inf
    scores[is_forced] = np.inf
    best = scores.max()
    if best == -np.inf:
        return None
    tied = np.flatnonzero(scores == best)
    place = int(tied[np.argmin(edge[samples[tied]])])
    return _BestCut(-best, int(edge[samples[place]]), place + 1, part)


def _sides(values, part):
    """Return the sums of values below each edge of a part, and of the other side."""
    sums = np.concatenate([[0.0], np.cumsum(values[part.samples])])
    start = np.arange(1, len(part.samples))
    below = sums[start + part.counts[1:]] - sums[start]
    return below, sums[-1] - below


def _divide(part, place):
    """Return the two parts into which the edge above the sample at `place` divides."""
    stop = place + part.counts[place]
    below = _Part(part.samples[place:stop], part.counts[place:stop])
    counts = part.counts.copy()
    ancestors = np.flatnonzero(np.arange(place) + counts[:place] > place)
    counts[ancestors] -= stop - place
    above = _Part(
        np.concatenate([part.samples[:place], part.samples[stop:]]),
        np.concatenate([counts[:place], counts[stop:]]),
    )
    return above, below


@compiled_above_small
def subtree_sizes(parent):
    """Samples below each preorder position, itself included."""
    sizes = np.ones(len(parent), dtype=np.int64)
    for position in range(len(parent) - 1, 0, -1):
        sizes[parent[position]] += sizes[position]
    return sizes


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


def clear_ratio(n_clusters):
    """Return how far the score after `n_clusters` falls without any structure.

    Of 240 Gaussians and cubes, 100 to 1000 samples in 2 to 50 dimensions, one in forty
    exceeds it at any number of clusters. Falls are smaller the more clusters there are,
    because scores then lie closer together.
    """
    return 1 + np.sqrt(2 / n_clusters)


def n_clusters_by_scores(scores, n_parts, n_samples, *, largest=False):
    """Return the number of clusters that the scores (n,) of successive cuts show.

    ``scores[i]`` is that of the cut into i + 2 clusters; the first `n_parts` - 1 were
    forced and count for nothing. Over 2 <= k <= min(60, max(5, n / 10)) it is the last
    k after which the score falls to less than half; or else the k whose fall is largest
    beside `clear_ratio`, on a scale of logarithms. With `largest` it is always the k
    after which the score falls most. Cuts of score zero end the curve.

    Returns (n_clusters, ratio), the ratio being the fall there, NaN where there is no
    curve. Without structure it rarely exceeds ``clear_ratio(n_clusters)``.
    """
    highest = min(MAX_AUTO_CLUSTERS, max(n_samples // 10, min(5, n_samples // 2)))
    first = max(2, n_parts + 1)
    curve = scores[first - 2 : highest]
    if len(curve) < 2:
        found = min(2, len(scores) + 1)
        return max(found, n_parts), np.nan
    ratios = curve[:-1] / curve[1:]
    excess = ratios
    if not largest:
        excess = np.log(ratios) / np.log(clear_ratio(first + np.arange(len(ratios))))
    place = int(np.argmax(excess))
    above = np.flatnonzero(ratios > 2)
    if len(above) and not largest:
        place = int(above[-1])
    elif n_parts > 1:
        return n_parts, float(ratios[place])
    return first + place, float(ratios[place])
