"""The number of clusters of a graph, from the normalised cuts of 1, 2, ... clusters."""

import warnings

import numpy as np

from skdiffclust.cuts._starts import cut_of_each, make_nodes

# Largest number of clusters, and the least nodes per cluster; one more is cut.
_MAX_CLUSTERS = 30
_NODES_PER_CLUSTER = 3
_N_STARTS = 3
# Added to cuts in denominators of scores, because a cut of 0 has no relative change.
_OFFSET = 0.2
# The same where no number is clear: clusters of any shape in few features have small
# cuts, and many of them.
_SMALL_OFFSET = 0.05
# Where no number is clear, those with at least this share of the largest modularity,
# relative to that of as many equal clusters without a cut.
_MODULARITY = 0.9
# Least distance of a clear best score from the median, in standard deviations (1.48
# times the median absolute deviation, as for a normal distribution).
_CLEAR = 9.0
_DEVIATION = 1.48


def cut_curve(graph, groups, apart, least, sizes, bounds_of, random_state):
    """Return (numbers, normalised cuts, modularities), (m,) each, of the search.

    Modularities of whole parts are NaN. Numbers of clusters are consecutive, from
    `least` on, as long as clusters can be within their bounds: those that
    `bounds_of` returns for sizes and a number of clusters. Equal and linked samples
    are `groups` (n,), of which pairs `apart` (p, 2) must be separated; samples have
    sizes (n,).
    """
    n_groups = int(groups.max()) + 1
    most = max(min(_MAX_CLUSTERS + 1, n_groups // _NODES_PER_CLUSTER), least)
    numbers = np.arange(least, most + 1)
    degrees = graph.sum(axis=1)
    nodes = make_nodes(
        graph,
        groups,
        most,
        divisors=degrees,
        sizes=sizes,
        apart=apart,
    )
    bounds = [bounds_of(nodes.sizes, number) for number in numbers]
    mean = nodes.sizes.sum() / numbers
    has_room = [
        low <= size and high >= nodes.sizes.max()
        for size, (low, high) in zip(mean, bounds, strict=True)
    ]
    numbers = numbers[: max(np.count_nonzero(has_room), 1)]
    return numbers, *cut_of_each(nodes, numbers, bounds, _N_STARTS, random_state)


def curve_scores(cuts, offset=_OFFSET):
    """Return the scores (m,) of numbers of clusters with cuts (m,), NaN at both ends.

    The second difference of the cuts, relative to the next cut: how much more the
    next cluster costs than this one did.
    """
    scores = np.full(len(cuts), np.nan)
    if len(cuts) < 3:
        return scores
    rises = np.diff(cuts)
    scores[1:-1] = (rises[1:] - rises[:-1]) / (cuts[2:] + offset)
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
    """Return the number of clusters with the best score; warn if it is not clear.

    A number that is not clear has one of the larger modularities: on many graphs the
    first cuts separate little.
    """
    scores = curve_scores(cuts)
    if not np.isfinite(scores).any():
        chosen = int(numbers[min(1, len(numbers) - 1)])
        why = f"there are cuts into {len(numbers)} numbers of clusters only"
    else:
        chosen = int(numbers[np.nanargmax(scores)])
        found = scores[np.isfinite(scores)]
        gaps = found - np.median(found)
        deviation = _DEVIATION * np.median(np.abs(gaps))
        if len(found) > 2 and gaps.max() >= _CLEAR * deviation:
            return chosen
        relative = modularities * numbers / np.maximum(numbers - 1, 1)
        is_modular = ~(relative < _MODULARITY * np.nanmax(relative, initial=0))
        small = np.where(is_modular, curve_scores(cuts, _SMALL_OFFSET), np.nan)
        if np.isfinite(small).any():
            chosen = int(numbers[np.nanargmax(small)])
        height = gaps.max() / deviation if deviation > 0 else 0.0
        why = (
            f"the best score is {height:.2g} standard deviations above the median of "
            f"{len(found)} numbers, where {_CLEAR:g} were clear"
        )
    warnings.warn(
        f"{owner}(n_clusters='auto') sees no clear number of clusters: {why}. It takes "
        f"{chosen}. Look at cut_curve_ (skdiffclust.plotting.CutCurveDisplay), and set "
        "n_clusters.",
        UserWarning,
        stacklevel=5,
    )
    return chosen
