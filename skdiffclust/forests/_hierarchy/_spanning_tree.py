"""A spanning tree, the first of the three values of a forest: tree, hierarchy, cut."""

from dataclasses import dataclass
from numbers import Real
from typing import Literal

import numpy as np

from skdiffclust._compat import (
    Interval,
    StrOptions,
    single_linkage_label,
    validate_params,
)
from skdiffclust._short_repr import short_repr
from skdiffclust._warnings import warn
from skdiffclust.forests._hierarchy._core_sizes import core_radii, core_sizes
from skdiffclust.forests._hierarchy._cut_hierarchy import CutHierarchy
from skdiffclust.forests._trees._compilation_threshold import LINEAR, is_compiled
from skdiffclust.forests._trees._samples import check_total
from skdiffclust.forests._trees._solve import spanning_edges
from skdiffclust.forests._trees._tree import components, cut_order


@dataclass(frozen=True, eq=False)
class SpanningTree:
    """A spanning tree of samples.

    It is the first of three values: a tree has a `hierarchy` of cuts, and the hierarchy
    has the labels of each `cut`.
    :func:`~skdiffclust.forests.minimum_spanning_tree` grows one from samples or
    distances; that of another library is given as its edges and lengths.

    Attributes
    ----------
    edges : ndarray of shape (n_samples - 1, 2), int64
        Edges (i, j), in order of decreasing length.
    lengths : ndarray of shape (n_samples - 1,), float64
        Lengths of the edges, in the units of the metric; infinite between parts that no
        edge joins.
    may_cut : ndarray of shape (n_samples - 1,), bool, or None, default=None
        Edges that may be cut; None stands for all.

    See Also
    --------
    skdiffclust.SpanningForestClustering : Grows, orders and cuts the tree in one fit.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust.forests import SpanningTree
    >>> edges = np.array([[2, 3], [0, 1], [1, 2]])
    >>> tree = SpanningTree(edges, np.array([7.0, 2.0, 1.0]))
    >>> tree.hierarchy().cut(2).labels
    array([0, 0, 0, 1])
    """

    edges: np.ndarray
    lengths: np.ndarray
    may_cut: np.ndarray | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges, dtype=np.int64)
        lengths = np.asarray(self.lengths, dtype=np.float64)
        may_cut = self.may_cut
        may_cut = np.ones(lengths.shape, dtype=bool) if may_cut is None else may_cut
        set_field = object.__setattr__  # of a frozen instance
        set_field(self, "edges", edges if edges.size else edges.reshape(0, 2))
        set_field(self, "lengths", lengths)
        set_field(self, "may_cut", np.asarray(may_cut, dtype=bool))

    @property
    def n_parts(self) -> int:
        """Number of parts that no edge joins, the smallest number of clusters."""
        return 1 + int(np.count_nonzero(np.isinf(self.lengths)))

    def linkage(self) -> np.ndarray:
        """Return the tree as the linkage matrix of single linkage.

        Returns
        -------
        linkage : ndarray of shape (n_samples - 1, 4), float64
            In the format of :func:`scipy.cluster.hierarchy.linkage`. O(n α(n)).
        """
        from skdiffclust.forests._trees._components import (
            small_singletons,
            write_merges,
        )

        n_samples = len(self.edges) + 1
        if is_compiled(n_samples / LINEAR, write_merges):
            linkage = np.empty((n_samples - 1, 4))
            linkage[:, 2] = self.lengths[::-1]
            write_merges(self.edges, *small_singletons(n_samples), linkage)
            return linkage
        if n_samples == 1:
            return np.empty((0, 4))
        return single_linkage_label(
            np.column_stack([self.edges[::-1], self.lengths[::-1]])
        )

    @validate_params(
        {
            "cut_rule": [StrOptions({"size_weighted", "longest"})],
            "sample_weight": ["array-like", None],
            "min_cluster_size": [Interval(Real, 1, None, closed="left")],
        },
        prefer_skip_nested_validation=True,
    )
    def hierarchy(
        self,
        *,
        cut_rule: Literal["size_weighted", "longest"] = "size_weighted",
        sample_weight=None,
        min_cluster_size: float = 1,
    ) -> CutHierarchy:
        """Return the hierarchy of the cuts of this tree.

        Parameters
        ----------
        cut_rule : {"size_weighted", "longest"}, default="size_weighted"
            Which edge is cut next, as in
            :class:`~skdiffclust.SpanningForestClustering`.
        sample_weight : array-like of shape (n_samples,), default=None
            Positive sizes of the samples: a weight of 2 is a sample repeated. Leave
            samples without weight out before the tree is grown.
        min_cluster_size : float, default=1
            Smallest weight on each side of a cut.

        Returns
        -------
        hierarchy : CutHierarchy
            The order of the cuts, their scores, and the labels after each of them.

        Raises
        ------
        ValueError
            If the edges are not a tree, a weight is not positive, or a length is
            negative where `cut_rule` is not "longest".
        """
        tree = _in_cut_order(self)
        weights = sample_weight
        if weights is not None:
            weights = np.asarray(weights, dtype=np.float64)
            n_samples = len(tree.edges) + 1
            title = "The 'sample_weight' parameter of SpanningTree.hierarchy"
            if weights.shape != (n_samples,) or not (weights > 0).all():
                raise ValueError(
                    f"{title} must be {n_samples} positive numbers. Got shape "
                    f"{weights.shape} with a minimum of "
                    f"{weights.min(initial=np.inf):g} instead. Grow the tree without "
                    "samples of weight zero."
                )
            check_total(weights, title)
            if weights.sum() < 2 <= len(weights):
                warn(
                    f"The sample_weight of {len(weights)} samples sums to "
                    f"{weights.sum():g}, so they count as less than two samples: too "
                    "few for a cluster. Divide the weights by their mean.",
                )
        sizes = None
        if cut_rule == "size_weighted":
            if len(tree.lengths) and tree.lengths[-1] < 0:
                raise ValueError(
                    "The 'cut_rule' parameter must be 'longest' where distances are "
                    f"negative. Got a length of {tree.lengths[-1]:g}, which the "
                    "size-weighted rule would multiply."
                )
            sizes = core_sizes(core_radii(tree, weights), tree, weights)
        hierarchy = CutHierarchy(tree, tree, sizes, weights, min_cluster_size)
        return hierarchy.with_tree(tree)


def _in_cut_order(tree):
    """Return a tree with its longest edges first; refuse edges that form no tree.

    Edges of equal lengths keep their order.
    """
    n_samples = len(tree.lengths) + 1
    if tree.edges.shape != (n_samples - 1, 2) or np.isnan(tree.lengths).any():
        raise ValueError(
            "The 'edges' and 'lengths' of a SpanningTree must have shapes (m, 2) and "
            f"(m,), and no NaN. Got shapes {tree.edges.shape} and "
            f"{tree.lengths.shape} instead."
        )
    check_spans(tree.edges, n_samples, "The 'edges' of a SpanningTree")
    if (tree.lengths[1:] <= tree.lengths[:-1]).all():
        return tree
    order = np.argsort(-tree.lengths, kind="stable")
    return SpanningTree(tree.edges[order], tree.lengths[order], tree.may_cut[order])


def check_spans(edges, n_samples, title):
    """Refuse edges (n_samples - 1, 2) that do not connect all samples."""
    is_inside = not edges.size or (edges.min() >= 0 and edges.max() < n_samples)
    if not is_inside or components(edges, n_samples).any():
        raise ValueError(
            f"{title} must connect all samples. Got edges that do not instead."
        )


def renumbered(tree, numbers):
    """Return a tree whose sample i is called `numbers[i]`; None changes nothing."""
    if numbers is None:
        return tree
    edges = np.sort(numbers[tree.edges], axis=1)
    return SpanningTree(edges, tree.lengths, tree.may_cut)


def free_tree(lengths, **how):
    """Return the minimum spanning tree of Lengths; `how` goes to `spanning_edges`."""
    return join_parts([spanning_edges(lengths, **how)], [True], lengths)


def join_parts(parts, may_cut, lengths):
    """Join edge lists into one tree, with bridges between their components."""
    edges = np.concatenate([edges for edges, _ in parts])
    firsts = np.zeros(1, dtype=np.int64)
    if len(edges) < lengths.n_samples - 1:
        separated = components(edges, lengths.n_samples)
        firsts = np.unique(separated, return_index=True)[1]
    bridges = np.column_stack([firsts[:-1], firsts[1:]])
    values = [np.full(len(bridges), np.inf), *(values for _, values in parts)]
    edges = np.concatenate([bridges, edges])
    values = np.concatenate(values)
    counts = [len(bridges), *(len(edges) for edges, _ in parts)]
    may_cut = np.repeat([True, *may_cut], counts)
    order = cut_order(edges, values)
    # Unlike edges[order], `take` copies a row at once.
    edges = edges.take(order, axis=0)
    return SpanningTree(edges, lengths.distances(edges, values[order]), may_cut[order])
