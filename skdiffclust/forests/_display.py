"""Pictures of the hierarchy of a spanning tree: scores, dendrogram, condensed tree."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdiffclust._drawing import axes_of, label_colours
from skdiffclust.forests._hierarchy._linkage import linkage_matrix
from skdiffclust.forests._trees._tree import components


class CutScoresDisplay:
    """Visualization of the scores of successive cuts.

    ``n_clusters="auto"`` chooses the number of clusters from these scores. A number of
    clusters is supported by the data if the score decreases sharply after it.

    Parameters
    ----------
    scores : array-like of shape (n_cuts,)
        Scores of the cuts into 2, 3, … clusters. Infinite scores are not plotted.
    n_clusters : int
        Number of clusters that is marked.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the plot.
    figure_ : matplotlib Figure
        Figure of these axes.
    line_ : matplotlib Line2D
        Line of the scores over the number of clusters.
    mark_ : matplotlib Line2D
        Vertical line at `n_clusters`.

    See Also
    --------
    CutScoresDisplay.from_estimator : Plot the scores of a fitted clusterer.

    Examples
    --------
    >>> from skdiffclust.plotting import CutScoresDisplay
    >>> display = CutScoresDisplay([9.0, 8.0, 1.0, 0.9], n_clusters=3).plot()
    >>> display.line_.get_xdata()
    array([2, 3, 4, 5])
    """

    def __init__(self, scores, n_clusters):
        self.scores = scores
        self.n_clusters = n_clusters

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **kwargs):
        """Plot the scores of a fitted `SpanningForestClustering`.

        Parameters
        ----------
        estimator : SpanningForestClustering
            Estimator fitted without a `distance_threshold`. For a pipeline, pass its
            last step.
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        display : CutScoresDisplay
            Object that stores the plotted data and artists.

        Raises
        ------
        ValueError
            If the estimator was fitted with a `distance_threshold`, for which there are
            no scores.
        """
        check_is_fitted(estimator)
        scores = _scores_of(estimator, "CutScoresDisplay")
        return cls(scores, estimator.n_clusters_).plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, line_kw=None, mark_kw=None):
        """Plot the visualization.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        line_kw : dict or None, default=None
            Keyword arguments passed to `Axes.plot`.
        mark_kw : dict or None, default=None
            Keyword arguments passed to `Axes.axvline`.

        Returns
        -------
        self : CutScoresDisplay
            Object that stores the plotted data and artists.
        """
        self.ax_, self.figure_ = axes_of(ax)
        scores = np.asarray(self.scores, dtype=np.float64)
        drawn = np.flatnonzero(np.isfinite(scores))
        style = {"marker": ".", "color": "C0"} | (line_kw or {})
        (self.line_,) = self.ax_.plot(drawn + 2, scores[drawn], **style)
        mark_style = {"color": "tab:red", "linestyle": "--", "linewidth": 1.0}
        self.mark_ = self.ax_.axvline(self.n_clusters, **mark_style | (mark_kw or {}))
        is_positive = len(drawn) and (scores[drawn] > 0).all()
        scale = "log" if is_positive else "linear"
        self.ax_.set(xlabel="number of clusters", ylabel="score of the cut")
        self.ax_.set_yscale(scale)
        return self


class DendrogramDisplay:
    """Visualization of the hierarchy of the first cuts and their scores.

    Parameters
    ----------
    linkage : ndarray of shape (n_leaves - 1, 4)
        Linkage matrix in the format of SciPy: merges of the finest clusters, starting
        with the last cut, with the score of the cut as height.
    sizes : array-like of shape (n_leaves,)
        Numbers of samples of the finest clusters, which are used as labels.
    threshold : float
        Height below which each cluster has its own colour.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the plot.
    figure_ : matplotlib Figure
        Figure of these axes.
    dendrogram_ : dict
        Result of :func:`scipy.cluster.hierarchy.dendrogram`.

    See Also
    --------
    DendrogramDisplay.from_estimator : Plot the dendrogram of a fitted clusterer.
    scipy.cluster.hierarchy.dendrogram : Plot `linkage_`, the single linkage tree.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust.plotting import DendrogramDisplay
    >>> linkage = np.array([[0, 1, 1.0, 2], [2, 3, 4.0, 3]])
    >>> display = DendrogramDisplay(linkage, [40, 30, 50], threshold=2.0).plot()
    >>> display.dendrogram_["ivl"]
    ['50', '40', '30']
    """

    def __init__(self, linkage, sizes, threshold):
        self.linkage = linkage
        self.sizes = sizes
        self.threshold = threshold

    @classmethod
    def from_estimator(cls, estimator, *, n_leaves=30, ax=None, **kwargs):
        """Plot the hierarchy of the cuts of a fitted `SpanningForestClustering`.

        Parameters
        ----------
        estimator : SpanningForestClustering
            Estimator fitted without constraints and `distance_threshold`. For a
            pipeline, pass its last step.
        n_leaves : int, default=30
            Maximum number of leaves of the dendrogram.
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        display : DendrogramDisplay
            Object that stores the plotted data and artists. Infinite scores, of parts
            that are not connected by an edge, are plotted above all others.

        Raises
        ------
        ValueError
            If the estimator was fitted with constraints, whose forests are not cuts of
            `edges_`, or with a `distance_threshold`.
        """
        check_is_fitted(estimator)
        _scores_of(estimator, "DendrogramDisplay")
        positions, scores = estimator._first_cuts(max(n_leaves, 2) - 1)
        if not len(positions):
            raise ValueError(
                "The 'estimator' parameter of DendrogramDisplay.from_estimator must "
                "have a tree that can be cut. Got one whose samples are all equal "
                "instead: there is nothing to draw."
            )
        heights = np.maximum.accumulate(scores[::-1])[::-1]
        finite = heights[np.isfinite(heights)]
        top = 1.1 * finite.max(initial=1.0)
        heights = np.where(np.isfinite(heights), heights, top)
        linkage, sizes = _linkage_of_cuts(estimator.edges_, positions, heights)
        n_cuts = estimator.n_clusters_ - 1
        above = heights[n_cuts - 1] if n_cuts else np.inf
        below = heights[n_cuts] if n_cuts < len(heights) else 0.0
        threshold = 0.5 * (above + below) if n_cuts else np.inf
        return cls(linkage, sizes, threshold).plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Plot the visualization.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to :func:`scipy.cluster.hierarchy.dendrogram`.

        Returns
        -------
        self : DendrogramDisplay
            Object that stores the plotted data and artists.
        """
        from scipy.cluster.hierarchy import dendrogram

        self.ax_, self.figure_ = axes_of(ax)
        linkage = np.asarray(self.linkage, dtype=np.float64)
        style = {
            "color_threshold": self.threshold,
            "above_threshold_color": "0.4",
            "labels": [str(size) for size in self.sizes],
            "leaf_rotation": 90,
        }
        self.dendrogram_ = dendrogram(linkage, ax=self.ax_, **style | kwargs)
        self.ax_.set(xlabel="samples", ylabel="score of the cut")
        return self


class CondensedTreeDisplay:
    """Visualization of a condensed tree.

    Each cluster is shown as a strip whose width is its number of samples. The strip
    starts at the length at which the cluster splits from its sibling, becomes narrower
    as samples leave, and ends where the cluster divides or has no samples left.

    Parameters
    ----------
    tree : CondensedTree
        Result of :meth:`skdiffclust.SpanningForestClustering.condensed_tree`.
    labels : array-like of shape (n_samples,) or None, default=None
        Cluster of each sample. A strip has the colour of the cluster of most of its
        samples; negative labels are grey. With None, `tree.labels()` is used.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the plot.
    figure_ : matplotlib Figure
        Figure of these axes.
    strips_ : matplotlib PolyCollection
        Strips, one per cluster of the tree, starting with the root.

    See Also
    --------
    CondensedTreeDisplay.from_estimator : Plot the condensed tree of a clusterer.

    Examples
    --------
    >>> from skdiffclust import SpanningForestClustering
    >>> from skdiffclust.plotting import CondensedTreeDisplay
    >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0], [40.0]]
    >>> tree = SpanningForestClustering(2).fit(X).condensed_tree(min_cluster_size=3)
    >>> len(CondensedTreeDisplay(tree).plot().strips_.get_paths())
    3
    """

    def __init__(self, tree, labels=None):
        self.tree = tree
        self.labels = labels

    @classmethod
    def from_estimator(cls, estimator, *, min_cluster_size=5, ax=None, **kwargs):
        """Plot the condensed tree of a fitted `SpanningForestClustering`.

        Parameters
        ----------
        estimator : SpanningForestClustering
            Fitted estimator, whose `labels_` determine the colours of the strips. For a
            pipeline, pass its last step.
        min_cluster_size : int, default=5
            Smallest number of samples of a cluster, as in
            :meth:`skdiffclust.SpanningForestClustering.condensed_tree`.
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        display : CondensedTreeDisplay
            Object that stores the plotted data and artists.
        """
        check_is_fitted(estimator)
        tree = estimator.condensed_tree(min_cluster_size)
        return cls(tree, estimator.labels_).plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Plot the visualization.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to the `PolyCollection` of the strips.

        Returns
        -------
        self : CondensedTreeDisplay
            Object that stores the plotted data and artists.
        """
        from matplotlib.collections import PolyCollection

        self.ax_, self.figure_ = axes_of(ax)
        tree = self.tree
        labels = tree.labels() if self.labels is None else np.asarray(self.labels)
        strips, clusters = _strips(tree, labels)
        style = {"facecolors": label_colours(clusters), "edgecolors": "none"} | kwargs
        self.strips_ = PolyCollection(strips, **style)
        self.ax_.add_collection(self.strips_)
        everything = np.concatenate(strips)
        width = tree.size[: tree.n_samples].sum()
        low = everything[:, 1].min()
        high = everything[:, 1].max()
        self.ax_.set(xlim=(0, width), xlabel="samples", xticks=[], ylabel="length")
        self.ax_.set_yscale("log")
        if low < high:
            self.ax_.set_ylim(low, high)
        return self


def _scores_of(estimator, name):
    """Return the scores (n_cuts,) of a fitted estimator, or refuse."""
    if estimator.cut_scores_ is None:
        raise ValueError(
            f"The 'estimator' parameter of {name}.from_estimator must be fitted with a "
            "number of clusters. Got a fit with distance_threshold="
            f"{estimator.distance_threshold} instead, which has no scores. Set "
            "n_clusters='auto' in place of it."
        )
    return estimator.cut_scores_


def _linkage_of_cuts(edges, positions, heights):
    """Return scipy's linkage (m, 4) of the parts that cuts leave, and their sizes.

    edges (n - 1, 2) are those of the tree, positions (m,) those of the cut ones, in the
    order of the cuts.
    """
    parts = components(np.delete(edges, positions, axis=0), len(edges) + 1)
    linkage = linkage_matrix(parts[edges[positions]], heights)
    return linkage, np.bincount(parts)


def _strips(tree, labels):
    """Return the outline (m, 2) of each cluster of a tree, and its label (c,)."""
    n_clusters = len(tree.stability)
    rows = tree.parent - tree.n_samples
    birth = np.append(0.0, tree.density[tree.n_samples :])
    size = np.append(tree.size[: tree.n_samples].sum(), tree.size[tree.n_samples :])
    used = tree.density[(tree.density > 0) & np.isfinite(tree.density)]
    # Infinite and zero densities cannot be drawn on a logarithmic axis.
    longest = 1.0
    shortest = 1.0
    if len(used):
        longest = 1 / used.min()
        shortest = 1 / used.max()
    start = np.zeros(n_clusters)
    members = [np.flatnonzero(rows == cluster) for cluster in range(n_clusters)]
    strips = []
    for cluster, own in enumerate(members):
        parts = own[own >= tree.n_samples]
        gap = (size[cluster] - tree.size[parts].sum()) / (len(parts) + 1)
        at = start[cluster] + gap
        for part in parts:
            child = tree.child[part] - tree.n_samples
            start[child] = at
            at += size[child] + gap
        order = np.argsort(tree.density[own], kind="stable")
        gone = np.cumsum(tree.size[own][order])
        with np.errstate(divide="ignore"):
            lengths = 1.0 / tree.density[own][order]
            begin = 1.0 / birth[cluster]
        lengths = np.clip(np.append(begin, lengths), shortest, longest)
        left = size[cluster] - np.append(0.0, gone)
        # Down one side, where the width changes at each length, and up the other.
        y = np.repeat(lengths, 2)[1:]
        half = 0.5 * np.repeat(left, 2)[:-1]
        middle = start[cluster] + 0.5 * size[cluster]
        x = np.concatenate([middle - half, (middle + half)[::-1]])
        strips.append(np.column_stack([x, np.concatenate([y, y[::-1]])]))
    return strips, _majority(tree, rows, labels)


def _majority(tree, rows, labels):
    """Return the label (n_clusters,) that most samples of each cluster have."""
    n_clusters = len(tree.stability)
    numbers, coded = np.unique(labels, return_inverse=True)
    counts = np.zeros((n_clusters, len(numbers)))
    np.add.at(counts, (rows[: tree.n_samples], coded), 1.0)
    above = rows[tree.n_samples :]
    for cluster in range(n_clusters - 1, 0, -1):
        counts[above[cluster - 1]] += counts[cluster]
    return numbers[counts.argmax(axis=1)]
