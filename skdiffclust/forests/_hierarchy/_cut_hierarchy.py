"""The cuts of a spanning tree in their order, and the labels after each of them."""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from skdiffclust._assignments import order_by_size
from skdiffclust._compat import Interval, StrOptions, validate_params
from skdiffclust._history import warn_of_convergence
from skdiffclust._short_repr import short_repr
from skdiffclust.forests._hierarchy._condensed_tree import CondensedTree, condense
from skdiffclust.forests._hierarchy._null import (
    N_NEIGHBORS,
    intrinsic_dimension,
    p_value,
)
from skdiffclust.forests._hierarchy._number import (
    Choice,
    choose_number,
    falls_of,
    gains_of_cuts,
    highest_number,
)
from skdiffclust.forests._hierarchy._tree_cuts import Cuts, cut, cut_beyond, mask
from skdiffclust.forests._trees._tree import components

if TYPE_CHECKING:
    from skdiffclust.forests._hierarchy._spanning_tree import SpanningTree

# Scores of cuts that every curve has.
_N_SCORES = 60
# A number of clusters is in doubt if its p-value is larger.
_LARGEST_P_VALUE = 0.05


@dataclass(frozen=True, eq=False)
class TreeCut:
    """A forest: a spanning tree without the edges that were cut, and its labels.

    It is what :meth:`CutHierarchy.cut` returns.

    Attributes
    ----------
    labels : ndarray of shape (n_samples,), int64
        Clusters, the trees of the forest, from 0 by decreasing size.
    tree : SpanningTree
        The tree that was cut, or a forest that was found under constraints.
    is_cut : ndarray of shape (n_edges,), bool
        Which of its edges are cut.
    edges : ndarray of shape (n_samples - n_clusters, 2), int64
        Edges of the forest, the longest first.
    lengths : ndarray of shape (n_samples - n_clusters,), float64
        Their lengths.
    distance : float
        Length of the shortest edge that was cut; infinite with one cluster.
    min_cluster_size : float
        Smallest weight that a cut leaves on each side: that of the hierarchy, or less
        where it was relaxed.
    scores : ndarray of shape (n_cuts,), float64, or None
        Scores of the cuts that were examined, at least those that were made. None
        with a `distance_threshold`.
    candidates : ndarray of shape (n_candidates,), int64, or None
        With "auto", the numbers of clusters that win if a cut costs between half and
        twice as much, ascending; else None.
    p_value : float or None
        With "auto" and "size_weighted" cuts, the share of samples without structure
        whose cuts gain more; 1 where they gain nothing. If they gain something, it is
        known for a tree of one part of more than 20 distinct dense samples with
        Euclidean distances, and None otherwise.
    solver : {"exact", "local_search", "greedy"}
        How the forest was found: "exact" for a cut. Under constraints,
        :class:`~skdiffclust.SpanningForestClustering` goes on from there.
    """

    labels: np.ndarray
    tree: "SpanningTree"
    is_cut: np.ndarray
    distance: float
    min_cluster_size: float
    scores: np.ndarray | None = None
    candidates: np.ndarray | None = None
    p_value: float | None = None
    solver: str = "exact"

    __repr__ = short_repr

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.labels) - int(np.count_nonzero(~self.is_cut))

    @property
    def edges(self) -> np.ndarray:
        """Edges of the forest, made when asked for."""
        return self.tree.edges.compress(~self.is_cut, axis=0)

    @property
    def lengths(self) -> np.ndarray:
        """Their lengths, made when asked for."""
        return self.tree.lengths[~self.is_cut]

    def longest_edges(self, labels) -> np.ndarray:
        """Return the length of the longest edge inside each cluster.

        Parameters
        ----------
        labels : ndarray of shape (n_samples,), int64
            Clusters, which may separate the ends of an edge, as a consensus does.

        Returns
        -------
        lengths : ndarray of shape (labels.max() + 1,), float64
            Zero for a cluster without edges.
        """
        longest = np.zeros(labels.max() + 1)
        first, second = labels[self.edges].T
        same = first == second
        # The last of several assignments counts: that of the first in cut order.
        longest[first[same][::-1]] = self.lengths[same][::-1]
        return longest


@dataclass(frozen=True, eq=False)
class CutHierarchy:
    """The hierarchy of the cuts of a spanning tree: which edge is cut next.

    It is made by :meth:`SpanningTree.hierarchy`. Every number of clusters is a cut of
    it, and the cuts are nested.

    Attributes
    ----------
    tree : SpanningTree
        The tree that is cut, with `may_cut` false where equal samples are joined.
    plain_tree : SpanningTree
        The tree without constraints, that of the `linkage`.
    linkage : ndarray of shape (n_samples - 1, 4), float64
        The dendrogram of single linkage, in the format of scipy.
    sizes : ndarray of shape (n_samples,), float64, or None
        Size of each sample in the scores: its weight, less for outliers. None with
        ``cut_rule="longest"``, where no size counts.
    weights : ndarray of shape (n_samples,), float64, or None
        Weights of the samples; None is one each.
    min_cluster_size : float
        Smallest weight on each side of a cut.

    See Also
    --------
    skdiffclust.SpanningForestClustering : Has it as `hierarchy_` after a fit.

    Notes
    -----
    No samples are kept. Cuts are computed when they are asked for, in O(n) time for
    each where they peel the tree from one end, and less where they are balanced.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from skdiffclust.forests import minimum_spanning_tree
    >>> X, _ = make_moons(200, noise=0.05, random_state=0)
    >>> hierarchy = minimum_spanning_tree(X).hierarchy()
    >>> order, scores, _ = hierarchy.first_cuts(3)
    >>> hierarchy.tree.lengths[order].round(2), scores.round(2)
    (array([0.33, 0.13, 0.12]), array([6.22, 1.45, 1.23]))
    >>> cut = hierarchy.cut("auto")
    >>> cut.n_clusters, cut.labels[:10]
    (2, array([0, 1, 1, 0, 1, 1, 0, 1, 0, 1]))
    """

    tree: "SpanningTree"
    plain_tree: "SpanningTree"
    sizes: np.ndarray | None
    weights: np.ndarray | None
    min_cluster_size: float = 1

    __repr__ = short_repr

    @property
    def linkage(self) -> np.ndarray:
        """The dendrogram of single linkage, made when asked for in O(n) time."""
        return self.plain_tree.linkage()

    def with_tree(self, tree) -> Self:
        """Return the hierarchy of another tree of the same samples, of these sizes.

        Equal samples are never cut apart; where some lengths are negative, zero is a
        length like any other.

        Parameters
        ----------
        tree : SpanningTree
            The tree to cut, for example one under constraints.

        Returns
        -------
        hierarchy : CutHierarchy
            With the `plain_tree`, `sizes` and `weights` of this one.
        """
        if not len(tree.lengths) or tree.lengths[-1] >= 0:
            tree = replace(tree, may_cut=tree.may_cut & (tree.lengths > 0))
        return replace(self, tree=tree)

    def first_cuts(self, n_cuts, *, smallest=None) -> Cuts:
        """Return the first cuts, in their order, and their scores.

        Parameters
        ----------
        n_cuts : int
            Number of cuts. There are fewer if no more edges may be cut.
        smallest : float or None, default=None
            Where no edge has the minimum size on both sides any more, it is halved,
            down to this. None keeps it.

        Returns
        -------
        positions : ndarray of shape (n_found,), int64
            Edges of the tree in the order in which they are cut.
        scores : ndarray of shape (n_found,), float64
            The largest score of an edge when each was cut, or its length with
            ``cut_rule="longest"``; infinite between parts that no edge joins.
        min_size : float
            The minimum size at the last cut.
        """
        return cut(
            self.tree,
            n_cuts,
            sizes=self.sizes,
            weights=self.weights,
            min_size=self.min_cluster_size,
            smallest=self.min_cluster_size if smallest is None else smallest,
        )

    @validate_params(
        {
            "n_clusters": [
                Interval(Integral, 1, None, closed="left"),
                StrOptions({"auto"}),
                None,
            ],
            "distance_threshold": [Interval(Real, 0, None, closed="left"), None],
            "samples": ["array-like", None],
        },
        prefer_skip_nested_validation=True,
    )
    def cut(
        self,
        n_clusters: int | np.integer | Literal["auto"] | None = None,
        *,
        distance_threshold: float | None = None,
        samples=None,
    ) -> TreeCut:
        """Return a cut, with the labels of its clusters.

        Parameters
        ----------
        n_clusters : int, "auto" or None, default=None
            Number of clusters; "auto" determines it from the gains of the cuts.
            None requires a `distance_threshold`.
        distance_threshold : float or None, default=None
            Cut every edge at least as long as this, unless a part would be smaller than
            `min_cluster_size`; requires ``n_clusters=None``.
        samples : ndarray of shape (n_samples, n_features), default=None
            The samples, if distances are Euclidean. With "auto" the `p_value` needs
            them; they are not kept.

        Returns
        -------
        cut : TreeCut
            With `labels`, `edges` and what "auto" compared.

        Raises
        ------
        ValueError
            If a parameter is invalid, or the tree has more parts than `n_clusters`.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested, or the minimum size is relaxed.
            With "auto", if the p-value exceeds 0.05, or there are several candidates
            and the largest falls of the scores show another number.
        """
        _check_request(self.tree, n_clusters, distance_threshold)
        if distance_threshold is not None:
            is_cut = cut_beyond(
                self.tree,
                distance_threshold,
                weights=self.weights,
                min_size=self.min_cluster_size,
            )
            return self._make(is_cut, self.min_cluster_size)
        choice = None
        if n_clusters == "auto":
            most = highest_number(self._n_samples())
            cuts = self.first_cuts(max(1, most, self.tree.n_parts - 1))
            choice = self._choose(cuts, samples)
            n_clusters = choice.n_clusters
        else:
            cuts = self.first_cuts(n_clusters - 1)
        if len(cuts.positions) < n_clusters - 1 and self.min_cluster_size > 1:
            cuts = self.first_cuts(n_clusters - 1, smallest=1)
        made = mask(cuts.positions[: n_clusters - 1], self.tree)
        found = self._make(made, cuts.min_size, cuts.scores, choice)
        if found.n_clusters < n_clusters:
            warn_of_convergence(
                f"The cut found {found.n_clusters} of {n_clusters} clusters: "
                "samples that are equal or linked share a cluster, and so do those "
                f"with the same label, which leaves {found.n_clusters} "
                "groups of positive weight. Use fewer clusters."
            )
        elif found.min_cluster_size < self.min_cluster_size:
            wanted = self.min_cluster_size
            warn_of_convergence(
                f"The cut relaxed min_cluster_size from {wanted} to "
                f"{found.min_cluster_size:g}: no edge leaves {wanted} samples on both "
                "sides. Use fewer clusters, or set min_cluster_size."
            )
        return found

    def curve(self, cut) -> dict[str, np.ndarray] | None:
        """Return the scores of the first cuts, at least 60, by the number of clusters.

        Parameters
        ----------
        cut : TreeCut
            A cut of this hierarchy, whose scores are continued.

        Returns
        -------
        curve : dict of ndarrays, or None
            Columns "n_clusters", from 2 up, and "score". None with a
            `distance_threshold`.
        """
        scores = cut.scores
        if scores is None:
            return None
        n_cuts = min(_N_SCORES, len(self.tree.edges))
        if len(scores) < n_cuts:
            scores = self.first_cuts(n_cuts, smallest=cut.min_cluster_size).scores
        return {"n_clusters": np.arange(2, len(scores) + 2), "score": scores}

    @validate_params(
        {"min_cluster_size": [Interval(Integral, 2, None, closed="left")]},
        prefer_skip_nested_validation=True,
    )
    def condensed_tree(self, min_cluster_size=5) -> CondensedTree:
        """Return the hierarchy of clusters of at least this many samples.

        It is the tree of HDBSCAN*, by single linkage, whatever the rule of the cuts.

        Parameters
        ----------
        min_cluster_size : int, default=5
            A cluster divides only where both parts have this weight.

        Returns
        -------
        tree : CondensedTree
            As of :meth:`skdiffclust.SpanningForestClustering.condensed_tree`.

        Raises
        ------
        ValueError
            If distances are negative, which have no density.
        """
        lengths = self.plain_tree.lengths
        if len(lengths) and lengths[-1] < 0:
            raise ValueError(
                "The 'X' parameter of the fit must have no negative distances for "
                f"condensed_tree. Got a length of {lengths[-1]:g} instead. Use the "
                "linkage."
            )
        return condense(self.linkage, min_cluster_size, self.weights)

    def _n_samples(self):
        """Return the number of samples, or the sum of their weights."""
        weights = self.weights
        return len(self.tree.edges) + 1 if weights is None else int(weights.sum())

    def _make(self, is_cut, min_size, scores=None, choice=None):
        """Return the TreeCut without the edges (n - 1,) that are cut."""
        tree = self.tree
        parts = components(tree.edges, len(tree.edges) + 1, ~is_cut)
        return TreeCut(
            labels_by_size(parts, self.weights),
            tree,
            is_cut,
            float(tree.lengths[is_cut].min(initial=np.inf)),
            min_size,
            scores,
            choice and choice.candidates,
            choice and choice.p_value,
        )

    def _choose(self, cuts, samples):
        """Return the Choice of the number of clusters that successive cuts show.

        Warns if it is in doubt.
        """
        tree = self.tree
        if self.sizes is None:
            first = max(2, tree.n_parts)
            scores = cuts.scores[first - 2 : highest_number(self._n_samples())]
            falls = falls_of(scores)[:-1]
            most = first + int(np.argmax(falls)) if len(falls) else tree.n_parts
            return Choice(most, np.array([most]), None, most)
        gains, costs = gains_of_cuts(tree, cuts.positions, self.sizes)
        choice = choose_number(
            cuts.scores, gains, costs, tree.n_parts, self._n_samples()
        )
        choice = choice._replace(p_value=_p_value(choice.largest_sum, tree, samples))
        others = choice.candidates[choice.candidates != choice.n_clusters]
        said = None
        if choice.p_value == 1:
            if tree.may_cut.any():
                said = (
                    "no cut is clear: none gains more than it costs, as in most "
                    "samples without structure"
                )
        elif choice.p_value is not None and choice.p_value > _LARGEST_P_VALUE:
            said = (
                "no cut is clear: structureless samples look like this in "
                f"{100 * choice.p_value:.0f} of 100 cases"
            )
        elif len(others) and choice.by_falls != choice.n_clusters:
            *first, last = map(str, others)
            names = f"{', '.join(first)} or {last} win" if first else f"{last} wins"
            said = f"{names} if a cut costs between half and twice as much"
        if said is not None:
            taken = f"{choice.n_clusters} cluster{'s' * (choice.n_clusters > 1)}"
            look = "see n_clusters_candidates_, or " if len(others) else ""
            warn_of_convergence(
                f"n_clusters='auto' takes {taken}, but {said}; {look}set n_clusters if "
                "you know it."
            )
        return choice


def labels_by_size(parts, weights):
    """Return labels (n,) by size of the components (n,) of a forest, from 0 up."""
    order = order_by_size(parts, parts.max() + 1, weights)
    return np.argsort(order)[parts]


def _p_value(largest_sum, tree, samples):
    """Return the p-value of structure, or None where no null applies."""
    n_distinct = 1 + np.count_nonzero(tree.may_cut)
    if tree.n_parts > 1:
        return None
    if largest_sum <= 0:
        return 1.0
    if samples is None or n_distinct <= N_NEIGHBORS:
        return None
    return p_value(largest_sum, n_distinct, intrinsic_dimension(samples))


def _check_request(tree, n_clusters, distance_threshold):
    """Refuse a number of clusters that the tree does not have."""
    n_samples = len(tree.edges) + 1
    if n_clusters is None and distance_threshold is None:
        raise ValueError(
            "The 'n_clusters' parameter must be an int or 'auto' where no "
            "distance_threshold is given. Got None instead. Set n_clusters='auto' to "
            "choose it from the tree."
        )
    if n_clusters is not None and distance_threshold is not None:
        raise ValueError(
            "The 'n_clusters' parameter must be None where distance_threshold is "
            f"given. Got {n_clusters!r} instead. Set one of the two to None."
        )
    if n_clusters in (None, "auto"):
        return
    if n_clusters > n_samples:
        raise ValueError(
            "The 'n_clusters' parameter must be at most the number of samples, "
            f"n_samples={n_samples}. Got {n_clusters} instead. Use fewer clusters."
        )
    if n_clusters < tree.n_parts:
        raise ValueError(
            f"The 'n_clusters' parameter must be at least {tree.n_parts}, the number "
            "of parts that no edge joins or that the constraints separate. Got "
            f"{n_clusters} instead: no feasible forest was found. Use more clusters, "
            "or give more edges or fewer cannot-links."
        )
