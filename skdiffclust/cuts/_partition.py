"""The partition of a graph into clusters: their number, bounds, search and warnings."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skdiffclust._candidates import Candidates, are_wanted
from skdiffclust._constraints import (
    Constraints,
    as_constraints,
    bounds_of_clusters,
    check_feasible,
    is_free,
)
from skdiffclust._history import warn_of_small_clusters
from skdiffclust._validation import refuse_many_clusters, sample_weights
from skdiffclust._warnings import warn
from skdiffclust.cuts._choice import FIRST, choose_n_clusters, cut_curve
from skdiffclust.cuts._graph import GraphSettings, warn_of_parts
from skdiffclust.cuts._links import link_groups
from skdiffclust.cuts._local_search import UNBOUNDED
from skdiffclust.cuts._multilevel import search
from skdiffclust.cuts._starts import (
    combine_parts,
    find_homes,
    is_better,
    least_size,
    make_nodes,
    search_labels,
    search_modular,
)

# Share of the mean weight that a sample of weight 0 adds to the sizes of a ratio-cut.
_LEAST_DIVISOR = 1e-6
# Starts with n_init="auto" on small graphs, where starts disagree: all of them together
# see at most this many edges.
_MOST_STARTS = 20
_SMALL_EDGES = 1_000_000
# Starts on other graphs, fewer on large ones: all of them together see at most this
# many edges, which takes about half a minute of the processor.
_STARTS = 10
_LEAST_STARTS = 2
_SEARCHED_EDGES = 30_000_000
# Searches until one separates all pairs that must be, as long as all of them together
# see at most `_SMALL_EDGES` edges.
_ATTEMPTS = 5
# Subsamples that the number of clusters is compared with, their share of the samples,
# or of the edges of a network, and starts of the searches on them.
_N_SUBSAMPLES = 3
_SHARE = 0.8
_STARTS_OF_SUBSAMPLES = 1
# Sizes that a message names.
_N_NAMED = 8


@dataclass(frozen=True)
class SearchSettings:
    """How to partition; the parameters of GraphCutClustering of the same names."""

    graph: GraphSettings
    n_clusters: int | str
    min_cluster_size: float | str = "auto"
    max_imbalance: float | None = None
    place: bool = True
    init: str = "multilevel"
    n_init: int | str = "auto"

    @property
    def owner(self):
        """The class that messages name."""
        return self.graph.owner


@dataclass(frozen=True)
class NumberOfClusters:
    """What n_clusters="auto" found.

    Attributes
    ----------
    chosen, elbow : int
        The number, and that of the sharpest elbow.
    columns : dict
        The fitted attribute.
    picks : tuple of int
        What the rule picks on subsamples.
    others : list of (ndarray, ndarray)
        Samples (m,) of subsamples, and their labels (m,) for the number.
    """

    chosen: int
    elbow: int
    columns: dict
    picks: tuple
    others: list

    def attributes(self, labels, owner):
        """Return the fitted attributes (dict); warn of several candidates.

        `labels` (n,) are those of the fit.
        """
        agreements = [
            adjusted_rand_score(labels[rows], other) for rows, other in self.others
        ]
        elbow = {self.elbow: f"the elbow of the cuts is at {self.elbow}"}
        candidates = Candidates(
            self.chosen,
            self.picks,
            np.mean(agreements) if agreements else 1.0,
            "their clusters and the returned ones",
            elbow if self.elbow != self.chosen else {},
        )
        candidates.warn_if_several(owner)
        return {
            "n_clusters_curve_": self.columns,
            "n_clusters_candidates_": candidates.numbers,
        }


@dataclass(frozen=True)
class Problem:
    """A graph to partition: nodes that stay together, and what divides a cut.

    Attributes
    ----------
    graph : csr_array of shape (n, n)
    joins_neighbors : bool
        Whether it was made of samples, by their nearest neighbours.
    groups : ndarray of shape (n,), int64
        Equal samples, and samples that must be together.
    apart : ndarray of shape (p, 2), int64
        Pairs of groups that must be separated.
    held : ndarray of shape (n,), bool
        Whether a label or link of a sample is given.
    sizes : ndarray of shape (n,), float64
        Weights of the samples.
    divisors : ndarray of shape (n,) or None
        Divisors of the cut; one for each sample if None.
    constraints : Constraints or None
    """

    graph: sp.csr_array
    joins_neighbors: bool
    groups: np.ndarray
    apart: np.ndarray
    held: np.ndarray
    sizes: np.ndarray
    divisors: np.ndarray | None
    constraints: Constraints | None

    @property
    def n_groups(self):
        """Number of groups."""
        return int(self.groups.max()) + 1


def pose(graph, groups, constraints, sample_weight, *, normalized, joins_neighbors):
    """Return the `Problem` of a graph (n, n) with groups (n,) of equal samples.

    The weights (n,) of samples are checked, or None.
    """
    n = graph.shape[0]
    apart = np.empty((0, 2), dtype=np.int64)
    held = np.zeros(n, dtype=bool)
    if constraints is not None:
        groups, apart = link_groups(groups, constraints)
        held = ~is_free(constraints)
    sizes = np.ones(n) if sample_weight is None else sample_weight
    divisors = None
    if normalized:
        divisors = graph.sum(axis=1)
    elif sample_weight is not None:
        # A cluster of samples without weight would have an infinite ratio-cut.
        divisors = np.where(sizes > 0, sizes, _LEAST_DIVISOR * sizes.mean())
    return Problem(
        graph, joins_neighbors, groups, apart, held, sizes, divisors, constraints
    )


def read_problem(
    settings, graph, equal, sample_weight, links, random_state, *, joins_neighbors
):
    """Return the `Problem` of a fit, its number of clusters, and how that was found.

    The third is the `NumberOfClusters` of n_clusters="auto", and None otherwise.
    Numbers and bounds that are impossible are refused. The graph (n, n) is that of
    samples in groups `equal` (n,); links are (partial_labels, must_link, cannot_link).
    """
    n_samples = graph.shape[0]
    n_clusters = settings.n_clusters
    refuse_many_clusters(settings.owner, n_clusters, n_samples)
    constraints = None
    if any(link is not None for link in links):
        constraints = as_constraints(n_samples, *links)
        if n_clusters != "auto":
            check_feasible(constraints, n_clusters)
    if sample_weight is not None:
        sample_weight = sample_weights(sample_weight, graph)
    problem = pose(
        graph,
        equal,
        constraints,
        sample_weight,
        normalized=settings.graph.normalized,
        joins_neighbors=joins_neighbors,
    )
    number = None
    if n_clusters == "auto":
        number = choose_number(problem, settings, random_state)
        n_clusters = number.chosen
    return problem, n_clusters, number


def choose_number(problem, settings, random_state):
    """Return the `NumberOfClusters` of n_clusters="auto"."""
    least, _ = bounds_of_clusters(problem.constraints)
    # The cost of the last cluster that the constraints need is known from one less.
    first = max(least - 1, 1)

    most = max(FIRST, first)
    whole = make_nodes(
        problem.graph,
        problem.groups,
        most,
        divisors=problem.graph.sum(axis=1),
        sizes=problem.sizes,
        apart=problem.apart,
        joins_neighbors=problem.joins_neighbors,
    )
    nodes = whole.large
    bounds_of = partial(size_bounds, settings)
    starts = {} if are_wanted() else {"most_starts": _STARTS_OF_SUBSAMPLES}
    columns, _ = cut_curve(nodes, first, bounds_of, random_state, **starts)
    chosen, elbow = choose_n_clusters(columns, len(nodes.sizes))
    chosen = max(chosen, least)
    check_feasible(problem.constraints, chosen)
    kept = np.unique(problem.groups, return_index=True)[1][~whole.small]
    picks = []
    others = []
    for _ in range(_N_SUBSAMPLES if are_wanted() else 0):
        drawn, part = nodes.resampled(_SHARE, most, random_state)
        curve = cut_curve(
            part, first, bounds_of, random_state, most_starts=_STARTS_OF_SUBSAMPLES
        )
        picks.append(max(choose_n_clusters(curve.columns, len(drawn))[0], least))
        labels = _labels_of_part(part, chosen, curve, random_state)
        others.append((kept[drawn], labels))
    return NumberOfClusters(chosen, elbow, columns, tuple(picks), others)


def _labels_of_part(nodes, n_clusters, curve, random_state):
    """Return labels (m,) of a part of the nodes, as they would be returned."""
    n_clusters = min(n_clusters, len(nodes.sizes))
    labels = curve.labels_of.get(n_clusters)
    if labels is None:
        labels = search(nodes.level, n_clusters, _STARTS_OF_SUBSAMPLES, random_state)
    if n_clusters == 1:
        return labels
    other = search_modular(nodes, n_clusters, _STARTS_OF_SUBSAMPLES, random_state)
    return other if is_better(nodes, n_clusters, labels, other) else labels


class Partition(NamedTuple):
    """Labels (n,) of samples, -1 for noise, and what they are of.

    `bounds` are the least and the largest size of a cluster; `is_modular` says whether
    the labels are of a larger modularity, not of the lowest cut.
    """

    labels: np.ndarray
    bounds: tuple
    is_modular: bool


def find_partition(problem, n_clusters, settings, nearest, random_state):
    """Return a `Partition` into at most n_clusters.

    `nearest` returns the nearest of some samples to others, and how far it is; it
    decides where small parts are placed, and is None for a graph without samples.
    """
    n_clusters = min(n_clusters, problem.n_groups)
    nodes = make_nodes(
        problem.graph,
        problem.groups,
        n_clusters,
        divisors=problem.sizes if problem.divisors is None else problem.divisors,
        sizes=problem.sizes,
        apart=problem.apart,
        joins_neighbors=problem.joins_neighbors,
    )
    # Noise is in no cluster.
    counted = nodes.sizes if settings.place else nodes.sizes[~nodes.small]
    bounds = size_bounds(settings, counted, n_clusters)
    _refuse_bounds(settings, bounds, counted, n_clusters)
    are_whole = combine_parts(nodes, n_clusters, bounds) is not None
    warn_of_parts(
        nodes,
        n_clusters,
        settings.owner,
        _placed(settings, has_samples=nearest is not None),
        are_whole=are_whole,
    )
    homes = None
    if nearest is not None and settings.place:
        firsts = np.unique(problem.groups, return_index=True)[1]
        homes = find_homes(nodes, firsts, nearest)

    n_edges = max(problem.graph.nnz // 2, 1)
    n_init = settings.n_init
    if n_init == "auto":
        n_init = int(np.clip(_SEARCHED_EDGES // n_edges, _LEAST_STARTS, _STARTS))
        n_init = max(n_init, min(_SMALL_EDGES // n_edges, _MOST_STARTS))

    n_attempts = np.clip(_SMALL_EDGES // (n_edges * n_init), 1, _ATTEMPTS)

    def search(bounds, *, modular=False):
        candidates = []
        for _ in range(n_attempts):
            labels = search_labels(
                nodes,
                n_clusters,
                bounds,
                modular=modular,
                homes=homes,
                place=settings.place,
                init=settings.init,
                n_init=n_init,
                random_state=random_state,
            )
            candidates.append(labels)
            if not _n_joined(labels, nodes.apart):
                return labels
        return min(candidates, key=partial(_n_joined, pairs=nodes.apart))

    labels = search(bounds)
    is_bounded = settings.min_cluster_size != "auto" or bounds != UNBOUNDED
    compares = settings.graph.normalized and not (is_bounded or are_whole)
    is_modular = False
    if compares and n_clusters > 1:
        other = search(bounds, modular=True)
        kept = ~nodes.small
        is_modular = is_better(nodes.large, n_clusters, labels[kept], other[kept])
        if is_modular and not nodes.joins_neighbors:
            least = least_size(nodes, n_clusters)
            _warn_of_crumbs(labels, nodes.sizes, n_clusters, least, settings.owner)
        labels = other if is_modular else labels
    return Partition(labels[problem.groups], bounds, is_modular)


def _n_joined(labels, pairs):
    """Return how many of pairs (p, 2) of nodes share one of the labels (m,)."""
    ends = labels[pairs]
    return int(np.count_nonzero(ends[:, 0] == ends[:, 1]))


def _warn_of_crumbs(labels, sizes, n_clusters, least, owner):
    """Warn if the lowest cut, which is not returned, has clusters below a least size.

    `labels` (n,) are those of that cut.
    """
    totals = np.sort(_totals(labels, sizes, n_clusters))[::-1]
    if totals[-1] >= (1.0 - 1e-9) * least:
        return
    named = ", ".join(f"{size:g}" for size in totals[-_N_NAMED:])
    more = "..., " if len(totals) > _N_NAMED else ""
    warn(
        f"The lowest cut that {owner} found has clusters of sizes {more}{named}. Since "
        f"some are below a fifth of the mean size, {least:.3g}, a partition of a "
        "larger modularity is returned, whose cut is higher. "
        "GraphCutClustering(min_cluster_size=1) returns the lowest cut.",
        ConvergenceWarning,
    )


def _totals(labels, sizes, n_clusters):
    """Return the sums (k,) of sizes (n,) of each label (n,), without -1."""
    clustered = labels >= 0
    return np.bincount(labels[clustered], sizes[clustered], minlength=n_clusters)


def size_bounds(settings, sizes, n_clusters):
    """Return the least and largest size of a cluster of nodes of sizes (m,).

    There is no least size if it is 1, or if every node has it; "auto" is applied later.
    """
    mean = sizes.sum() / n_clusters
    least = settings.min_cluster_size
    imbalance = settings.max_imbalance
    low = 0.0 if least in ("auto", 1) or least <= sizes.min() else float(least)
    if imbalance is None:
        return low, np.inf
    smallest = (1.0 - imbalance) * mean
    largest = (1.0 + imbalance) * mean
    if sizes.min() == sizes.max() > 0:
        # Round to multiples of the size that all nodes have.
        whole = sizes.max()
        smallest = min(smallest, np.floor(mean / whole) * whole)
        largest = max(largest, np.ceil(mean / whole) * whole)
    return max(low, smallest), largest


def _refuse_bounds(settings, bounds, sizes, n_clusters):
    """Refuse bounds that clusters of nodes of sizes (m,) cannot satisfy."""
    low, high = bounds
    mean = sizes.sum() / n_clusters
    if low > mean:
        raise ValueError(
            f"The 'min_cluster_size' parameter of {settings.owner} must be at most the "
            f"mean size of a cluster, {mean:.6g}. Got {settings.min_cluster_size} "
            "instead. Lower it, or ask for fewer clusters."
        )
    if sizes.max() > high:
        raise ValueError(
            f"The 'max_imbalance' parameter of {settings.owner} must leave room for "
            "the heaviest group of equal or linked samples, of size "
            f"{sizes.max():.6g}, in a cluster of at most {high:.6g}. Got "
            f"{settings.max_imbalance} instead. Raise it, or use fewer clusters."
        )


def _placed(settings, *, has_samples):
    """Return the sentence of a warning on small parts and how to change that."""
    if not settings.place:
        return "They are labelled -1. Set small_components='place' to give them labels."
    where = (
        "the cluster of the nearest sample" if has_samples else "the largest cluster"
    )
    return (
        f"They were put into {where}. Drop them, give them edges, or label them -1 by "
        "GraphCutClustering(small_components='noise')."
    )


def warn_of_labels(owner, problem, n_clusters, labels, remedy):
    """Warn of clusters that were not found or are small, and of links that are broken.

    These are groups of samples that must be separated and that labels (n,), -1 for
    noise, join. `remedy` is a sentence on very small clusters.
    """
    sizes = np.bincount(labels[labels >= 0], minlength=n_clusters)
    n_found = np.count_nonzero(sizes)
    n_distinct = problem.n_groups
    if n_found != n_clusters:
        reason = (
            f"the samples have no more than {n_distinct} distinct values, and equal "
            "samples always share a cluster. Use fewer clusters"
            if n_distinct < n_clusters
            else "the others emptied in training. Raise balance_weight or n_init, or "
            "lower learning_rate"
        )
        warn(
            f"{owner} found {n_found} of {n_clusters} clusters: {reason}.",
            ConvergenceWarning,
        )
    warn_of_small_clusters(owner, sizes, f"they contribute little to the cut. {remedy}")
    of_groups = np.empty(n_distinct, dtype=np.int64)
    of_groups[problem.groups] = labels
    n_joined = _n_joined(of_groups, problem.apart)
    if n_joined:
        warn(
            f"The labels of {owner} leave {n_joined} of {len(problem.apart)} pairs of "
            "linked groups together that must be separated: no partition was found "
            "that separates them all. Use more clusters, or drop some of the "
            "cannot-links.",
            ConvergenceWarning,
        )


def warn_if_unbounded(labels, sizes, n_clusters, bounds):
    """Warn of labels (n,) whose clusters are outside of the bounds on their sizes."""
    low, high = bounds
    totals = _totals(labels, sizes, n_clusters)
    slack = 1e-9 * totals.sum()
    if totals.min() < low - slack or totals.max() > high + slack:
        warn(
            f"Clusters of GraphCutClustering have sizes from {totals.min():.6g} to "
            f"{totals.max():.6g}, where the bounds are {low:.6g} and {high:.6g}: the "
            "weights of samples, or groups of equal or linked ones, did not fit. "
            "Loosen max_imbalance or min_cluster_size.",
            ConvergenceWarning,
        )
