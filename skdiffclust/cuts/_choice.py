"""The number of clusters of a graph, from the cuts into 1, 2, ... clusters."""

import warnings

import numpy as np

from skdiffclust.cuts._starts import combine_parts, make_nodes, modularity, search_nodes
from skdiffclust.metrics._graphs import cut_of_labels

# Numbers that are tried at least, and the least nodes per cluster. Beyond, numbers are
# tried up to twice that of the largest modularity, and one more, which is cut.
_FIRST = 15
_NODES_PER_CLUSTER = 3
_N_STARTS = 3
# On graphs of more edges, the starts of each number do without sequences of moves.
_FEW_EDGES = 10_000
# Added to cuts in denominators of scores, because a cut of 0 has no relative change.
_OFFSET = 0.02
# Modularities that differ by less than this, relative to them, are taken as equal.
_ALIKE = 0.001
# A bend with this share of the largest modularity is as good a partition.
_MODULAR = 0.95
# Score of a bend that decides against the modularity, and of one that needs no warning.
_STRONG = 0.25
_CLEAR = 0.5
# Nor does one after which the cut increases so many times as much as before.
_SHARP = 8.0
# Least distance of a clear score from the median, in standard deviations (1.48 times
# the median absolute deviation, as for a normal distribution).
_DISTANCE = 9.0
_DEVIATION = 1.48


def cut_curve(graph, groups, apart, least, sizes, bounds_of, find, random_state):
    """Return (numbers, normalised cuts, modularities), (m,) each, of the search.

    Numbers of clusters are consecutive, from `least` on, as long as clusters can be
    within their bounds: those that `bounds_of` returns for sizes and a number of
    clusters. Equal and linked samples are `groups` (n,), of which pairs `apart` (p, 2)
    must be separated; samples have sizes (n,). ``find(nodes, number, bounds, search)``
    returns labels of nodes from those that a function of bounds finds.
    """
    n_groups = int(groups.max()) + 1
    most = max(n_groups // _NODES_PER_CLUSTER, least)
    last = min(max(_FIRST, least), most)
    nodes = make_nodes(
        graph,
        groups,
        last,
        divisors=graph.sum(axis=1),
        sizes=sizes,
        apart=apart,
    ).large
    options = {"climbs": 0} if nodes.graph.nnz > 2 * _FEW_EDGES else {}
    numbers = []
    cuts = []
    modularities = []
    number = least
    while number <= last:
        bounds = bounds_of(nodes.sizes, number)
        mean = nodes.sizes.sum() / number
        if numbers and (bounds[0] > mean or bounds[1] < nodes.sizes.max()):
            break
        labels = combine_parts(nodes, number, bounds)
        if labels is None:
            labels = find(
                nodes,
                number,
                bounds,
                lambda bounds, k=number: search_nodes(
                    nodes, k, bounds, _N_STARTS, random_state, **options
                ),
            )
        numbers.append(number)
        cuts.append(cut_of_labels(nodes.graph, labels, number, nodes.divisors))
        modularities.append(modularity(nodes.graph, labels, nodes.degrees))
        if number == last:
            best = numbers[int(np.argmax(modularities))]
            last = min(max(last, 2 * best + 2), most)
        number += 1
    return np.array(numbers), np.array(cuts), np.array(modularities)


def curve_scores(cuts):
    """Return the scores (m,) of numbers of clusters with cuts (m,), NaN at both ends.

    The second difference of the cuts, relative to the next cut: how much more the
    next cluster costs than this one did.
    """
    scores = np.full(len(cuts), np.nan)
    if len(cuts) < 3:
        return scores
    rises = np.diff(cuts)
    scores[1:-1] = (rises[1:] - rises[:-1]) / (cuts[2:] + _OFFSET)
    return scores


def as_curve(numbers, cuts, modularities):
    """Return the curve, (m,) each, and its scores as the fitted attribute."""
    return {
        "n_clusters": numbers,
        "normalized_cut": cuts,
        "modularity": modularities,
        "score": curve_scores(cuts),
    }


def choose_n_clusters(numbers, cuts, modularities, *, owner):
    """Return the number of clusters by bend and modularity; warn if they disagree.

    A clear bend decides. If another one has nearly the largest modularity, the larger
    of both numbers is returned; if not, the bend decides if it is strong, otherwise the
    modularity.
    """
    scores = curve_scores(cuts)
    best = (1.0 - _ALIKE) * np.max(modularities)
    modular = int(np.argmax(modularities >= best))
    if not np.isfinite(scores).any():
        chosen = int(numbers[min(1, len(numbers) - 1)])
        why = f"there are cuts into {len(numbers)} numbers of clusters only"
    else:
        bend = int(np.nanargmax(scores))
        score = scores[bend]
        if score >= _CLEAR:
            at = bend
        elif modularities[bend] >= _MODULAR * modularities[modular]:
            at = max(bend, modular)
        else:
            at = bend if score >= _STRONG else modular
        chosen = int(numbers[at])
        found = scores[np.isfinite(scores)]
        gaps = found - np.median(found)
        distance = _DISTANCE * _DEVIATION * np.median(np.abs(gaps))
        stands_out = len(found) > 2 and gaps.max() >= distance
        before, after = np.diff(cuts)[bend - 1 : bend + 1]
        is_sharp = at == bend and after >= _SHARP * before
        agrees = modularities[bend] >= best or score >= _CLEAR
        if is_sharp or (stands_out and agrees):
            return chosen
        why = (
            f"the cuts bend at {numbers[bend]} (score {score:.2f}, where {_CLEAR:g} is "
            f"clear), and the modularity is largest at {numbers[modular]}"
        )
    warnings.warn(
        f"{owner}(n_clusters='auto') sees no clear number of clusters: {why}. It takes "
        f"{chosen}. Look at cut_curve_ (skdiffclust.plotting.CutCurveDisplay), and set "
        "n_clusters.",
        UserWarning,
        stacklevel=5,
    )
    return chosen
