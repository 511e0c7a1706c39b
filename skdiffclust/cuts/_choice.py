"""The number of clusters of a graph, from the cuts into 1, 2, ... clusters."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from skdiffclust.cuts._local_search import UNBOUNDED, local_search, rank
from skdiffclust.cuts._multilevel import coarsen, merge, search
from skdiffclust.cuts._ratio_cut import cut_of_labels, modularity
from skdiffclust.cuts._starts import (
    combine_parts,
    is_better,
    search_modular,
)

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
# Added to cuts in denominators of elbows, because a cut of 0 has no relative change.
_OFFSET = 0.2
# Long and bent clusters are divided by the modularity, whose number is not taken if the
# cut increases less than `_FLAT` times as much after as before it, while it increases
# `_STEEP` times as much after a number of nearly separate clusters. Increases below 1 /
# n of n nodes count as that, or as that of 1000 nodes.
_FLAT = 1.7
_STEEP = 4.0
_LEAST_NODES = 1000
_LEAST_MODULARITY = 0.5  # of a nearly separate number, relative to the largest one


class Curve(NamedTuple):
    """The curve over numbers of clusters, and the labels of each number.

    `columns` is the fitted attribute, `labels_of` is {number: labels (m,)}.
    """

    columns: dict
    labels_of: dict


def cut_curve(nodes, least, bounds_of, random_state, *, most_starts=_MOST_STARTS):
    """Return the `Curve` of the numbers of clusters that were tried.

    These are `numbers_to_try`, from `least` on, as long as clusters can be within the
    bounds that `bounds_of` returns for sizes and a number of clusters, and the numbers
    next to the one of the largest score. The nodes have no small parts, and cuts are
    made without bounds.
    """
    level = nodes.level
    n_edges = max(nodes.graph.nnz // 2, 1)
    n_starts = int(np.clip(_SEARCHED_EDGES // n_edges, 1, most_starts))
    most = max(min(level.n // _NODES_PER_CLUSTER, _MOST), least)
    lowest = {}
    modular = {}
    modularities = {}
    last = FIRST

    def try_number(number):
        labels = combine_parts(nodes, number, UNBOUNDED)
        if labels is None:
            labels = search(level, number, n_starts, random_state)
            if not nodes.joins_neighbors:
                modular[number] = search_modular(nodes, number, n_starts, random_state)
        lowest[number] = labels

    for number in numbers_to_try(least, most):
        low, high = bounds_of(nodes.sizes, number)
        is_bounded = low > nodes.sizes.sum() / number or high < nodes.sizes.max()
        if lowest and (number > last or is_bounded):
            break
        try_number(number)
        labels = modular.get(number, lowest[number])
        modularities[number] = modularity(nodes.graph, labels, nodes.degrees)
        last = max(last, 2 * max(modularities, key=modularities.get) + 2)
    curve = _measure(nodes, level, lowest, modular)
    if len(lowest) > 2:
        best = int(np.nanargmax(curve.columns["score"]))
        first, last = curve.columns["n_clusters"][[best - 1, best + 1]]
        between = sorted(set(range(first, last)) - set(lowest))
        for number in between:
            try_number(number)
        if between:
            curve = _measure(nodes, level, lowest, modular)
    return curve


def numbers_to_try(least, most):
    """Return numbers of clusters from `least` to `most` with increasing gaps."""
    numbers = list(range(least, min(max(FIRST, least), most) + 1))
    while numbers[-1] < most:
        numbers.append(min(max(round(_STEP * numbers[-1]), numbers[-1] + 1), most))
    return numbers


def _measure(nodes, level, lowest, modular):
    """Return the curve of labels {number: (m,)} of the lowest cuts, improved.

    The search for each number also starts from the partition into more clusters, some
    of which are merged. Labels {number: (m,)} of a large modularity replace improved
    ones where they are better.
    """
    numbers = sorted(lowest)
    for number, more in reversed(list(pairwise(numbers))):
        merged = merge(coarsen(level, lowest[more], more), number)[lowest[more]]
        merged = local_search(level, merged, number)
        lowest[number] = min(
            (lowest[number], merged),
            key=lambda labels, k=number: rank(level, labels, k, UNBOUNDED),
        )
    labels_of = lowest | {
        number: other
        for number, other in modular.items()
        if is_better(nodes, number, lowest[number], other)
    }
    cuts = [
        cut_of_labels(nodes.graph, labels_of[number], number, nodes.divisors)
        for number in numbers
    ]
    modularities = [
        modularity(nodes.graph, labels_of[number], nodes.degrees) for number in numbers
    ]
    columns = as_curve(np.array(numbers), np.array(cuts), np.array(modularities))
    return Curve(columns, labels_of)


def lowest_cuts(cuts):
    """Return for each number of clusters the lowest of cuts (m,) into as many or more.

    Joining two clusters does not raise the cut.
    """
    return np.minimum.accumulate(cuts[::-1])[::-1]


def elbows_of(numbers, cuts):
    """Return the elbows (m,) of numbers of clusters with cuts (m,), NaN at both ends.

    An elbow is how much more the next cluster costs than this one did, over the cut.
    """
    costs = np.diff(cuts) / np.diff(numbers)
    return np.diff(costs, prepend=np.nan, append=np.nan) / (cuts + _OFFSET)


def as_curve(numbers, cuts, modularities):
    """Return the curve, (m,) each, and its scores as the fitted attribute.

    The score is the elbow of the lowest cuts plus the modularity, relative to the
    largest one.
    """
    largest = modularities.max()
    relative = modularities / (largest if largest > 0 else 1.0)
    return {
        "n_clusters": numbers,
        "normalized_cut": cuts,
        "modularity": modularities,
        "score": elbows_of(numbers, lowest_cuts(cuts)) + relative,
    }


def choose_n_clusters(curve, n_nodes):
    """Return the number of clusters of a curve, and that of the sharpest elbow.

    The number has the largest score, or clusters that are nearly separate.
    """
    numbers = curve["n_clusters"]
    if len(numbers) < 3:
        chosen = int(numbers[min(1, len(numbers) - 1)])
        return chosen, chosen
    cuts = lowest_cuts(curve["normalized_cut"])
    best = _best(curve, np.diff(cuts) / np.diff(numbers), n_nodes)
    elbow = int(numbers[np.nanargmax(elbows_of(numbers, cuts))])
    return int(numbers[best]), elbow


def _best(curve, costs, n_nodes):
    """Return the index, in a curve, of the number of clusters that is chosen.

    It is the number of the largest score, unless one more cluster hardly costs less
    there: then it is the last number of nearly separate clusters, if there is one.
    `costs` (m - 1,) are what each further cluster adds to the lowest cuts.
    """
    best = np.nanargmax(curve["score"])
    least = 1.0 / max(n_nodes, _LEAST_NODES)
    steps = costs[1:] / np.maximum(costs[:-1], least)
    modularities = curve["modularity"]
    is_modular = modularities[1:-1] >= _LEAST_MODULARITY * modularities.max()
    is_separate = is_modular & (steps >= _STEEP)
    if steps[best - 1] < _FLAT and is_separate.any():
        return np.flatnonzero(is_separate)[-1] + 1
    return best
