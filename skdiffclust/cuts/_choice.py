"""The number of clusters of a graph, from the cuts into 1, 2, ... clusters."""

import warnings

import numpy as np

from skdiffclust.cuts._local_search import UNBOUNDED, local_search, rank
from skdiffclust.cuts._multilevel import (
    coarsen,
    labels_of_merges,
    merge,
    search,
)
from skdiffclust.cuts._ratio_cut import cut_of_labels, modularity
from skdiffclust.cuts._starts import combine_parts

# Numbers that are tried at least, and the least nodes per cluster. Beyond, numbers are
# tried up to twice that of the largest modularity, and one more, which is cut, but no
# more than `_MOST`: each is a search.
FIRST = 15
_NODES_PER_CLUSTER = 3
_MOST = 1000
# Starts for each number, at least one: all together see at most this many edges.
_MOST_STARTS = 3
_SEARCHED_EDGES = 1_000_000
# Added to cuts in denominators of bends, because a cut of 0 has no relative change.
_OFFSET = 0.2
# A number after which the cut increases this many times as much as before needs no
# warning.
_SHARP = 6.0
# Nor does one of nearly the largest modularity, by this relative difference, whose bend
# is this many standard deviations above the median (1.48 times the median absolute
# deviation, as for a normal distribution).
_ALIKE = 0.001
_DISTANCE = 20.0
_DEVIATION = 1.48


def cut_curve(nodes, least, bounds_of, finish, random_state):
    """Return (numbers, normalised cuts, modularities), (m,) each, of the search.

    Numbers of clusters are consecutive, from `least` on, as long as clusters can be
    within their bounds: those that `bounds_of` returns for sizes and a number of
    clusters. ``finish(labels, number, bounds)`` brings labels of the nodes, which have
    no small parts, within the bounds.

    After two of its clusters are merged, the partition into one more is another start
    for each number.
    """
    level = nodes.level
    n_edges = max(nodes.graph.nnz // 2, 1)
    n_starts = int(np.clip(_SEARCHED_EDGES // n_edges, 1, _MOST_STARTS))
    most = max(min(level.n // _NODES_PER_CLUSTER, _MOST), least)
    last = min(max(FIRST, least), most)
    found = []
    modularities = []
    while least + len(found) <= last:
        number = least + len(found)
        low, high = bounds_of(nodes.sizes, number)
        if found and (low > nodes.sizes.sum() / number or high < nodes.sizes.max()):
            break
        labels = search(level, number, n_starts, random_state)
        found.append(labels.astype(np.int32))
        modularities.append(modularity(nodes.graph, found[-1], nodes.degrees))
        if number == last:
            best = least + int(np.argmax(modularities))
            last = min(max(last, 2 * best + 2), most)
    numbers = least + np.arange(len(found))
    for i in reversed(range(len(found) - 1)):
        pairs = merge(coarsen(level, found[i + 1], numbers[i + 1]), numbers[i])
        merged = labels_of_merges(pairs, numbers[i + 1])[found[i + 1]]
        merged = local_search(level, merged, numbers[i])
        found[i] = min(
            (found[i], merged),
            key=lambda labels, k=numbers[i]: rank(level, labels, k, UNBOUNDED),
        )
    cuts = []
    for i, number in enumerate(numbers):
        bounds = bounds_of(nodes.sizes, number)
        labels = combine_parts(nodes, number, bounds)
        if labels is None:
            labels = finish(found[i], number, bounds)
        cuts.append(cut_of_labels(nodes.graph, labels, number, nodes.divisors))
        modularities[i] = modularity(nodes.graph, labels, nodes.degrees)
    return numbers, np.array(cuts), np.array(modularities)


def lowest_cuts(cuts):
    """Return for each number of clusters the lowest of cuts (m,) into as many or more.

    Two clusters that are joined have no higher cut than both.
    """
    return np.minimum.accumulate(cuts[::-1])[::-1]


def bends_of(cuts):
    """Return the bends (m,) of numbers of clusters with cuts (m,), NaN at both ends.

    The second difference of the cuts, relative to the cut: how much more the next
    cluster costs than this one did.
    """
    bends = np.full(len(cuts), np.nan)
    bends[1:-1] = np.diff(cuts, 2) / (cuts[1:-1] + _OFFSET)
    return bends


def as_curve(numbers, cuts, modularities):
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
        "score": bends_of(lowest_cuts(cuts)) + relative,
    }


def choose_n_clusters(curve, *, owner):
    """Return the number of clusters of the largest score; warn if it is not clear."""
    numbers = curve["n_clusters"]
    modularities = curve["modularity"]
    if len(numbers) < 3:
        chosen = int(numbers[min(1, len(numbers) - 1)])
        why = f"there are cuts into {len(numbers)} numbers of clusters only"
    else:
        best = int(np.nanargmax(curve["score"]))
        chosen = int(numbers[best])
        cuts = lowest_cuts(curve["normalized_cut"])
        before, after = np.diff(cuts)[best - 1 : best + 1]
        bends = bends_of(cuts)[1:-1]
        gaps = bends - np.median(bends)
        distance = _DISTANCE * _DEVIATION * np.median(np.abs(gaps))
        stands_out = gaps[best - 1] >= distance and after > before
        is_modular = modularities[best] >= (1.0 - _ALIKE) * modularities.max()
        if 0.0 < after >= _SHARP * before or (stands_out and is_modular):
            return chosen
        why = (
            f"the cut increases by {before:.3g} to {chosen} clusters and by "
            f"{after:.3g} to one more, where {_SHARP:g} times as much is clear, and "
            f"the modularity is largest at {numbers[np.argmax(modularities)]}"
        )
    warnings.warn(
        f"{owner}(n_clusters='auto') sees no clear number of clusters: {why}. It takes "
        f"{chosen}. Look at cut_curve_ (skdiffclust.plotting.CutCurveDisplay), and set "
        "n_clusters.",
        UserWarning,
        stacklevel=5,
    )
    return chosen
