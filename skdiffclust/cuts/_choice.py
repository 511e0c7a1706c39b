"""The number of clusters of a graph, from the cuts into 1, 2, ... clusters."""

from itertools import pairwise

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skdiffclust._warnings import warn
from skdiffclust.cuts._local_search import UNBOUNDED, local_search, rank
from skdiffclust.cuts._multilevel import coarsen, merge, search
from skdiffclust.cuts._ratio_cut import border_mixing, cut_of_labels, modularity
from skdiffclust.cuts._starts import combine_parts, is_more_modular, search_modular

# Numbers that are tried at least, one by one, and the least nodes per cluster. Beyond,
# each is a tenth more than the last, up to twice that of the largest modularity and no
# more than `_MOST`.
FIRST = 15
_STEP = 1.1
_NODES_PER_CLUSTER = 3
_MOST = 1000
# Starts for each number, at least one: all together see at most this many edges.
_MOST_STARTS = 3
_SEARCHED_EDGES = 1_000_000
# Added to cuts in denominators of bends, because a cut of 0 has no relative change.
_OFFSET = 0.2
# Long and bent clusters are divided by the modularity, whose number is not taken if the
# cut increases less than `_FLAT` times as much after as before it, while it increases
# `_STEEP` times as much after a number of nearly separate clusters. Increases below 1 /
# n of n nodes count as that, or as that of 1000 nodes.
_FLAT = 1.7
_STEEP = 4.0
_LEAST_NODES = 1000
# The number of the largest modularity is taken if it is larger, by more than this
# relative difference of the modularity, and its border mixing shows that no uniform
# clusters are divided: at most `_MOST_MIXING`, and `_MIXED` times that of the largest
# numbers, the last quarter of those that were tried. Clusters of fewer nodes than
# `_NEIGHBORHOODS` times the neighbours of a node are all border.
_ALIKE = 0.001
_MOST_MIXING = 0.27
_MIXED = 0.75
_NEIGHBORHOODS = 2.0
# Of a network, the number of the largest modularity is taken if the partition into
# another number has a modularity that is smaller by more than the first of these, a
# share of it, and clusters that are not nearly separate: their mean cut is larger than
# the second. Where clusters of very different sizes are nearly separate, the modularity
# divides the largest.
_LESS_MODULAR = 0.03
_MEAN_CUT = 0.07
# A number after which the cut increases this many times as much as before needs no
# warning.
_SHARP = 6.0
# Nor does one of nearly the largest modularity, by `_ALIKE`, whose bend is this many
# standard deviations above the median (1.48 times the median absolute deviation, as for
# a normal distribution).
_DISTANCE = 20.0
_DEVIATION = 1.48


def cut_curve(nodes, least, bounds_of, random_state):
    """Return the fitted attribute: the numbers that were tried, and what they cut.

    They are `numbers_to_try`, from `least` on, as long as clusters can be within their
    bounds: those that `bounds_of` returns for sizes and a number of clusters; and all
    numbers beside the one of the largest score. The nodes have no small parts, and
    their cuts are those without bounds.
    """
    level = nodes.level
    n_edges = max(nodes.graph.nnz // 2, 1)
    n_starts = int(np.clip(_SEARCHED_EDGES // n_edges, 1, _MOST_STARTS))
    most = max(min(level.n // _NODES_PER_CLUSTER, _MOST), least)
    labels_of = {}
    modularities = {}
    largest = {}
    last = FIRST

    def partition(number):
        labels = combine_parts(nodes, number, UNBOUNDED)
        if labels is not None:
            return labels
        labels = search(level, number, n_starts, random_state)
        if nodes.joins_neighbors:
            return labels
        other = search_modular(nodes, number, n_starts, random_state)
        largest[number] = modularity(nodes.graph, other, nodes.degrees)
        return other if is_more_modular(nodes, number, labels, other) else labels

    for number in numbers_to_try(least, most):
        low, high = bounds_of(nodes.sizes, number)
        is_bounded = low > nodes.sizes.sum() / number or high < nodes.sizes.max()
        if labels_of and (number > last or is_bounded):
            break
        labels_of[number] = partition(number)
        modularities[number] = modularity(nodes.graph, labels_of[number], nodes.degrees)
        last = max(last, 2 * max(modularities, key=modularities.get) + 2)
    curve = _measure(nodes, level, labels_of)
    if len(labels_of) > 2:
        best = int(np.nanargmax(curve["score"]))
        first, last = curve["n_clusters"][[best - 1, best + 1]]
        between = sorted(set(range(first, last)) - set(labels_of))
        for number in between:
            labels_of[number] = partition(number)
        if between:
            curve = _measure(nodes, level, labels_of)
    if not nodes.joins_neighbors:
        found = [largest.get(number, 0.0) for number in curve["n_clusters"]]
        curve["largest_modularity"] = np.maximum(curve["modularity"], found)
    return curve


def numbers_to_try(least, most):
    """Return numbers of clusters from `least` to `most` that are ever further apart."""
    numbers = list(range(least, min(max(FIRST, least), most) + 1))
    while numbers[-1] < most:
        numbers.append(min(max(round(_STEP * numbers[-1]), numbers[-1] + 1), most))
    return numbers


def _measure(nodes, level, labels_of):
    """Return the curve of labels {number: (m,)}, which are improved.

    After some of its clusters are merged, the partition into more is another start for
    each number.
    """
    numbers = sorted(labels_of)
    for number, more in reversed(list(pairwise(numbers))):
        merged = merge(coarsen(level, labels_of[more], more), number)[labels_of[more]]
        merged = local_search(level, merged, number)
        labels_of[number] = min(
            (labels_of[number], merged),
            key=lambda labels, k=number: rank(level, labels, k, UNBOUNDED),
        )
    measures = [
        (
            cut_of_labels(nodes.graph, labels_of[number], number, nodes.divisors),
            modularity(nodes.graph, labels_of[number], nodes.degrees),
            border_mixing(nodes.graph, labels_of[number]),
        )
        for number in numbers
    ]
    return as_curve(np.array(numbers), *np.transpose(measures))


def lowest_cuts(cuts):
    """Return for each number of clusters the lowest of cuts (m,) into as many or more.

    Two clusters that are joined have no higher cut than both.
    """
    return np.minimum.accumulate(cuts[::-1])[::-1]


def bends_of(numbers, cuts):
    """Return the bends (m,) of numbers of clusters with cuts (m,), NaN at both ends.

    How much more the next cluster costs than this one did, relative to the cut.
    """
    costs = np.diff(cuts) / np.diff(numbers)
    return np.diff(costs, prepend=np.nan, append=np.nan) / (cuts + _OFFSET)


def as_curve(numbers, cuts, modularities, mixings):
    """Return the curve, (m,) each, and its scores as the fitted attribute.

    The score is the bend of the lowest cuts plus the modularity, relative to the
    largest one.
    """
    largest = modularities.max()
    relative = modularities / (largest if largest > 0 else 1.0)
    return {
        "n_clusters": numbers,
        "normalized_cut": cuts,
        "modularity": modularities,
        "border_mixing": mixings,
        "score": bends_of(numbers, lowest_cuts(cuts)) + relative,
    }


def choose_n_clusters(curve, graph, *, owner):
    """Return the number of clusters of a curve of a graph; warn if it is not clear."""
    numbers = curve["n_clusters"]
    modularities = curve["modularity"]
    if len(numbers) < 3:
        chosen = int(numbers[min(1, len(numbers) - 1)])
        why = f"there are cuts into {len(numbers)} numbers of clusters only"
    else:
        cuts = lowest_cuts(curve["normalized_cut"])
        costs = np.diff(cuts) / np.diff(numbers)
        best = bent = _best(curve, costs, graph)
        largest = curve.get("largest_modularity", np.zeros(len(numbers)))
        is_mixed = cuts[bent] > _MEAN_CUT * numbers[bent]
        if is_mixed and modularities[bent] < (1.0 - _LESS_MODULAR) * largest.max():
            best = 1 + np.argmax(largest[1:-1])
        chosen = int(numbers[best])
        before, after = costs[best - 1 : best + 1]
        bends = bends_of(numbers, cuts)[1:-1]
        gaps = bends - np.median(bends)
        distance = _DISTANCE * _DEVIATION * np.median(np.abs(gaps))
        stands_out = gaps[best - 1] >= distance and after > before
        is_modular = modularities[best] >= (1.0 - _ALIKE) * modularities.max()
        is_clear = 0.0 < after >= _SHARP * before or (stands_out and is_modular)
        if is_clear and best == bent:
            return chosen
        why = (
            f"the cut increases by {before:.3g} to {chosen} clusters and by "
            f"{after:.3g} to one more, where {_SHARP:g} times as much is clear, and "
            f"the modularity is largest at {numbers[np.argmax(modularities)]}"
            if best == bent
            else f"the cuts point to {numbers[bent]}, but the modularity is clearly "
            f"larger at {chosen}"
        )
    warn(
        f"{owner}(n_clusters='auto') sees no clear number of clusters: {why}. It takes "
        f"{chosen}. Inspect n_clusters_curve_, or set n_clusters.",
        ConvergenceWarning,
    )
    return chosen


def _best(curve, costs, graph):
    """Return where in a curve its number is; costs (m - 1,) are of its lowest cuts.

    It is that of the largest score, or of the largest modularity if that is larger and
    its clusters are separated, or of nearly separate clusters.
    """
    numbers = curve["n_clusters"]
    modularities = curve["modularity"]
    best = np.nanargmax(curve["score"])

    n_nodes = graph.shape[0]
    n_neighbors = graph.nnz / n_nodes
    modular = np.argmax(modularities)
    mixing = curve["border_mixing"]
    uniform = np.median(mixing[-max(3, len(mixing) // 4) :])
    is_separated = (
        mixing[modular] <= min(_MIXED * uniform, _MOST_MIXING)
        and n_nodes >= _NEIGHBORHOODS * n_neighbors * numbers[modular]
    )
    is_better = modularities[best] < (1.0 - _ALIKE) * modularities[modular]
    if best < modular < len(numbers) - 1 and is_separated and is_better:
        return modular

    least = 1.0 / max(n_nodes, _LEAST_NODES)
    steps = costs[1:] / np.maximum(costs[:-1], least)
    is_modular = modularities[1:-1] >= 0.5 * modularities.max()
    is_separate = is_modular & (steps >= _STEEP)
    if steps[best - 1] < _FLAT and is_separate.any():
        return np.flatnonzero(is_separate)[-1] + 1
    return best
