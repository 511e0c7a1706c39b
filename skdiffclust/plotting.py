"""Displays of fitted estimators; matplotlib is imported when one is drawn."""

from typing import Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skdiffclust._batches import at_most
from skdiffclust._drawing import axes_of
from skdiffclust._validation import refuse_container
from skdiffclust.gemini._display import SelectionProbabilityDisplay, SparsePathDisplay

__all__ = [
    "ClustererComparisonDisplay",
    "CondensedTreeDisplay",
    "ConnectivityDisplay",
    "NClustersCurveDisplay",
    "SelectionProbabilityDisplay",
    "SpanningForestDisplay",
    "SparsePathDisplay",
    "TrainingHistoryDisplay",
]


class SpanningForestDisplay:
    """Visualization of a spanning forest.

    Edges of the forest are solid lines between the samples, and cut edges are dashed.

    Parameters
    ----------
    positions : array-like of shape (n_samples, 2)
        Positions of the samples in the plot: the samples themselves if they have two
        features, two of their features, or an embedding.
    edges : array-like of shape (n_edges, 2)
        Pairs of sample indices.
    is_cut : array-like of shape (n_edges,), bool
        Mask of the cut edges, which are dashed.
    labels : array-like of shape (n_samples,)
        Cluster of each sample, which determines its colour; negative labels are grey.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the plot.
    figure_ : matplotlib Figure
        Figure of these axes.
    points_ : matplotlib PathCollection
        The samples.
    edges_, cut_edges_ : matplotlib LineCollection
        Edges that are kept, and edges that are cut.

    See Also
    --------
    SpanningForestDisplay.from_estimator : Plot the forest of a fitted clusterer.

    Examples
    --------
    >>> from skdiffclust.plotting import SpanningForestDisplay
    >>> X = [[0, 0], [0, 1], [4, 0]]
    >>> display = SpanningForestDisplay(X, [[0, 1], [0, 2]], [False, True], [0, 0, 1])
    >>> display.plot().ax_.get_aspect()
    1.0
    """

    def __init__(self, positions, edges, is_cut, labels):
        self.positions = positions
        self.edges = edges
        self.is_cut = is_cut
        self.labels = labels

    @classmethod
    def from_estimator(cls, estimator, positions, *, ax=None, **kwargs) -> Self:
        """Plot the forest of a fitted `SpanningForestClustering`.

        Parameters
        ----------
        estimator : SpanningForestClustering
            Fitted estimator. For a pipeline, pass its last step.
        positions : array-like of shape (n_samples, 2)
            Positions of the training samples in the plot.
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        display : SpanningForestDisplay
            Object that stores the plotted data and artists. Edges of the tree that are
            not in the forest are dashed. If the estimator was fitted with constraints,
            the forest may have edges that are not in the tree, which ignores
            constraints.

        Raises
        ------
        ValueError
            If the number of positions is not that of the training samples.
        """
        check_is_fitted(estimator)
        edges = np.concatenate([estimator.forest_edges_, estimator.edges_])
        _, first = np.unique(np.sort(edges), axis=0, return_index=True)
        edges = edges[np.sort(first)]
        is_cut = np.arange(len(edges)) >= len(estimator.forest_edges_)
        return cls(positions, edges, is_cut, estimator.labels_).plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, point_kw=None, edge_kw=None, cut_kw=None) -> Self:
        """Plot the visualization.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        point_kw : dict or None, default=None
            Keyword arguments passed to `Axes.scatter`.
        edge_kw, cut_kw : dict or None, default=None
            Keyword arguments passed to the `LineCollection` of the kept and of the cut
            edges.

        Returns
        -------
        self : SpanningForestDisplay
            Object that stores the plotted data and artists.
        """
        from matplotlib.collections import LineCollection

        owner = type(self).__name__
        positions = _check_positions(self.positions, len(self.labels), owner)
        (self.ax_,), self.figure_ = axes_of(owner, ax)
        segments = positions[np.asarray(self.edges, dtype=np.int64).reshape(-1, 2)]
        is_cut = np.asarray(self.is_cut, dtype=bool)
        kept_style = {"colors": "0.4", "linewidths": 1.0, "zorder": 1} | (edge_kw or {})
        cut_style = {
            "colors": "tab:red",
            "linewidths": 1.0,
            "linestyles": "--",
            "zorder": 1,
        } | (cut_kw or {})
        self.edges_ = self.ax_.add_collection(
            LineCollection(segments[~is_cut], **kept_style)
        )
        self.cut_edges_ = self.ax_.add_collection(
            LineCollection(segments[is_cut], **cut_style)
        )
        style = {"c": _label_colours(self.labels), "s": 14, "zorder": 2} | (
            point_kw or {}
        )
        self.points_ = self.ax_.scatter(*positions.T, **style)
        self.ax_.set(xticks=[], yticks=[], aspect="equal")
        return self


class CondensedTreeDisplay:
    """Visualization of a condensed tree.

    Each cluster is an area, as wide at a density as the samples that are still in it.
    It begins where the cluster above divides, and has the colour of the selected
    cluster that it is a part of; noise and the clusters above are grey.

    Parameters
    ----------
    tree : CondensedTree
        Result of :meth:`skdiffclust.SpanningForestClustering.condensed_tree`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot. Available after `plot`.
    figure_ : matplotlib Figure
        Figure of these axes.
    areas_ : list of matplotlib PolyCollection
        Area of each cluster, starting with the root. Available after `plot`.

    See Also
    --------
    CondensedTreeDisplay.from_estimator : Plot the tree of a fitted clusterer.

    Examples
    --------
    >>> from skdiffclust import SpanningForestClustering
    >>> from skdiffclust.plotting import CondensedTreeDisplay
    >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0], [40.0]]
    >>> forest = SpanningForestClustering(2).fit(X)
    >>> display = CondensedTreeDisplay.from_estimator(forest, min_cluster_size=3)
    >>> len(display.areas_)
    3
    """

    def __init__(self, tree):
        self.tree = tree

    @classmethod
    def from_estimator(
        cls, estimator, *, min_cluster_size=5, ax=None, **kwargs
    ) -> Self:
        """Plot the condensed tree of a fitted clusterer.

        Parameters
        ----------
        estimator : SpanningForestClustering
            Fitted estimator.
        min_cluster_size : int, default=5
            As in :meth:`skdiffclust.SpanningForestClustering.condensed_tree`.
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
        return cls(estimator.condensed_tree(min_cluster_size)).plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, method="excess_of_mass", **area_kw) -> Self:
        """Plot the visualization.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        method : {"excess_of_mass", "leaf"}, default="excess_of_mass"
            How the coloured clusters are selected, see
            :meth:`skdiffclust.forests.CondensedTree.labels`.
        **area_kw : dict
            Keyword arguments passed to `Axes.fill_betweenx`.

        Returns
        -------
        self : CondensedTreeDisplay
            Object that stores the plotted data and artists.
        """
        (self.ax_,), self.figure_ = axes_of("CondensedTreeDisplay", ax)
        tree = self.tree
        n_samples = tree.n_samples
        owner = tree.parent - n_samples
        is_finite = np.isfinite(tree.density)
        # Equal samples leave at the end.
        last = tree.density.max(where=is_finite, initial=0.0)
        density = np.where(is_finite, tree.density, last)
        n_clusters = len(tree.stability)
        birth = np.append(0.0, density[n_samples:])
        size = np.append(tree.size[:n_samples].sum(), tree.size[n_samples:])
        labels = _labels_within(owner, tree.labels(method), n_clusters)
        middle = np.full(n_clusters, size[0] / 2)
        self.areas_ = []
        for cluster in range(n_clusters):
            members = np.flatnonzero(owner == cluster)
            members = members[np.argsort(density[members], kind="stable")]
            parts = members[members >= n_samples] - n_samples + 1
            # They are side by side, in the middle of what is left of the cluster.
            ends = np.cumsum(size[parts])
            starts = middle[cluster] - size[parts].sum() / 2
            middle[parts] = starts + ends - size[parts] / 2
            left = size[cluster] - np.append(0.0, np.cumsum(tree.size[members]))
            # Rounding leaves sums of weights a little above or below zero.
            half = np.maximum(left, 0.0) / 2
            levels = np.append(birth[cluster], density[members])
            label = labels[cluster]
            colour = "0.7" if label < 0 else f"C{label % 10}"
            style = {"color": colour, "linewidth": 0} | area_kw
            area = self.ax_.fill_betweenx(
                np.repeat(levels, 2)[1:],
                np.repeat(middle[cluster] - half, 2)[:-1],
                np.repeat(middle[cluster] + half, 2)[:-1],
                **style,
            )
            self.areas_.append(area)
        self.ax_.set(xlabel="samples", ylabel="density (1 / length)", xlim=(0, size[0]))
        self.ax_.invert_yaxis()
        return self


def _labels_within(owner, labels, n_clusters):
    """Return the label that all samples of each cluster (n_clusters,) have, or -1.

    `owner` is the cluster of each node, first the samples, with labels (n_samples,).
    """
    n_samples = len(labels)
    lowest = np.full(n_clusters, n_samples)
    highest = np.full(n_clusters, -1)
    np.minimum.at(lowest, owner[:n_samples], labels)
    np.maximum.at(highest, owner[:n_samples], labels)
    # Clusters come after the one that they are a part of.
    for cluster in range(n_clusters - 1, 0, -1):
        above = owner[n_samples + cluster - 1]
        lowest[above] = min(lowest[above], lowest[cluster])
        highest[above] = max(highest[above], highest[cluster])
    return np.where(lowest == highest, highest, -1)


class ConnectivityDisplay:
    """Visualization of which samples share a cluster.

    The plot is a heat map of all pairs of samples, ordered by cluster. Blocks on the
    diagonal are clusters; grey entries are pairs that share a cluster only some of the
    time.

    Parameters
    ----------
    connectivity : array-like of shape (n_samples, n_samples)
        Fraction of clusterings in which two samples share a cluster, between 0 and 1.
    labels : array-like of shape (n_samples,)
        Cluster of each sample, which determines the order of rows and columns.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the plot.
    figure_ : matplotlib Figure
        Figure of these axes.
    image_ : matplotlib AxesImage
        The heat map.
    order_ : ndarray of shape (n_samples,)
        Index of the sample that is plotted in each row.

    See Also
    --------
    ConnectivityDisplay.from_estimator : Plot the connectivity of a fitted clusterer.
    ConnectivityDisplay.from_labels : Plot that of several clusterings of the samples.

    Notes
    -----
    Memory is O(n_samples²). The two class methods plot at most `max_samples` samples.

    Examples
    --------
    >>> from skdiffclust.plotting import ConnectivityDisplay
    >>> display = ConnectivityDisplay.from_labels([[0, 1, 0], [0, 1, 1]])
    >>> display.connectivity
    array([[1. , 0. , 0.5],
           [0. , 1. , 0.5],
           [0.5, 0.5, 1. ]])
    >>> display.order_
    array([0, 2, 1])
    """

    def __init__(self, connectivity, labels):
        self.connectivity = connectivity
        self.labels = labels

    @classmethod
    def from_estimator(
        cls, estimator, X, *, max_samples=500, ax=None, **kwargs
    ) -> Self:
        """Plot which samples share a cluster according to a fitted clusterer.

        Parameters
        ----------
        estimator : estimator with `predict_proba` or `predict`
            Fitted estimator or pipeline. If it has probabilities P, the value for two
            samples is (P Pᵀ)_ij, the probability that they share a cluster if the
            cluster of each is drawn independently. Otherwise, it is 1 if their labels
            are equal.
        X : array-like of shape (n_samples, n_features)
            Samples to predict.
        max_samples : int, default=500
            Maximum number of samples to plot. Larger data are subsampled, always in the
            same way.
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        display : ConnectivityDisplay
            Object that stores the plotted data and artists.
        """
        X = at_most(X, max_samples)
        labels = np.asarray(estimator.predict(X))
        if hasattr(estimator, "predict_proba"):
            proba = np.asarray(estimator.predict_proba(X))
            connectivity = proba @ proba.T
        else:
            connectivity = (labels[:, None] == labels).astype(np.float64)
        return cls(connectivity, labels).plot(ax=ax, **kwargs)

    @classmethod
    def from_labels(cls, labels, *, max_samples=500, ax=None, **kwargs) -> Self:
        """Plot how often samples share a cluster in several clusterings.

        Parameters
        ----------
        labels : array-like of shape (n_clusterings, n_samples)
            Labels of each clustering, e.g. from several methods, seeds or resamples.
            Samples are ordered by the first clustering.
        max_samples : int, default=500
            Maximum number of samples to plot. Larger data are subsampled, always in the
            same way.
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        display : ConnectivityDisplay
            Object that stores the plotted data and artists. The values are the
            fractions of the clusterings in which two samples share a cluster.
        """
        labels = check_array(np.atleast_2d(np.asarray(labels)), dtype=None)
        labels = at_most(labels.T, max_samples).T
        connectivity = np.zeros((labels.shape[1],) * 2)
        for one in labels:
            connectivity += one[:, None] == one
        return cls(connectivity / len(labels), labels[0]).plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, colorbar=True, image_kw=None, line_kw=None) -> Self:
        """Plot the visualization.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        colorbar : bool, default=True
            Whether to add a colour bar.
        image_kw : dict or None, default=None
            Keyword arguments passed to `Axes.imshow`.
        line_kw : dict or None, default=None
            Keyword arguments passed to the lines between clusters.

        Returns
        -------
        self : ConnectivityDisplay
            Object that stores the plotted data and artists.
        """
        connectivity = check_array(self.connectivity, dtype=np.float64)
        labels = np.asarray(self.labels)
        if connectivity.shape != (len(labels), len(labels)):
            raise ValueError(
                "The 'connectivity' parameter of ConnectivityDisplay must be square, "
                f"with a row for each of the {len(labels)} labels. Got an array of "
                f"shape {connectivity.shape} instead."
            )
        (self.ax_,), self.figure_ = axes_of("ConnectivityDisplay", ax)
        self.order_ = np.argsort(labels, kind="stable")
        style = {
            "cmap": "viridis",
            "vmin": 0.0,
            "vmax": 1.0,
            "interpolation": "nearest",
        } | (image_kw or {})
        ordered = connectivity[np.ix_(self.order_, self.order_)]
        self.image_ = self.ax_.imshow(ordered, **style)
        named = labels[self.order_]
        borders = np.flatnonzero(named[1:] != named[:-1]) + 0.5
        line_style = {"color": "white", "linewidth": 0.8} | (line_kw or {})
        for border in borders:
            self.ax_.axhline(border, **line_style)
            self.ax_.axvline(border, **line_style)
        if colorbar:
            self.figure_.colorbar(self.image_, ax=self.ax_, label="share a cluster")
        self.ax_.set(xlabel="samples by cluster", xticks=[], yticks=[])
        return self


class TrainingHistoryDisplay:
    """Visualization of a training history, with one curve per column.

    Parameters
    ----------
    history : dict of lists
        Columns of equal length, such as `history_` of a fitted estimator.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        Axes, one per column.
    figure_ : matplotlib Figure
        Figure of these axes.
    lines_ : dict of matplotlib Line2D
        Line of each column, by name.

    See Also
    --------
    sklearn.callback.ScoringMonitor : Record scores during training, also on held-out
        samples.

    Examples
    --------
    >>> from skdiffclust.plotting import TrainingHistoryDisplay
    >>> display = TrainingHistoryDisplay({"loss": [3.0, 1.0, 0.5]}).plot()
    >>> display.lines_["loss"].get_ydata()
    array([3. , 1. , 0.5])
    """

    def __init__(self, history):
        self.history = history

    @classmethod
    def from_estimator(cls, estimator, *, columns=None, ax=None, **kwargs) -> Self:
        """Plot the history of a fitted estimator.

        Parameters
        ----------
        estimator : estimator with `history_`
            Fitted estimator. For a pipeline, pass its last step.
        columns : list of str or None, default=None
            Columns to plot, in this order. With None, all columns are plotted.
        ax : matplotlib Axes, array-like of them, or None, default=None
            Axes to plot on, one per column. With None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        display : TrainingHistoryDisplay
            Object that stores the plotted data and artists.
        """
        check_is_fitted(estimator)
        return cls(estimator.history_).plot(ax=ax, columns=columns, **kwargs)

    def plot(self, ax=None, *, columns=None, **line_kw) -> Self:
        """Plot the visualization.

        Parameters
        ----------
        ax : matplotlib Axes, array-like of them, or None, default=None
            Axes to plot on, one per column. With None, a new figure is created.
        columns : list of str or None, default=None
            Columns to plot, in this order. With None, all columns are plotted.
        **line_kw : dict
            Keyword arguments passed to `Axes.plot`.

        Returns
        -------
        self : TrainingHistoryDisplay
            Object that stores the plotted data and artists.

        Raises
        ------
        ValueError
            If a column was not recorded, or the number of Axes is not that of columns.
        """
        n_epochs = max(map(len, self.history.values()), default=0)
        epochs = np.arange(1, n_epochs + 1)
        columns = list(self.history) if columns is None else list(columns)
        _draw_columns(self, "epoch", epochs, self.history, columns, ax, line_kw)
        return self


class NClustersCurveDisplay:
    """Visualization of the curves from which the number of clusters is chosen.

    There is one curve for each column of a table with a row for each number of
    clusters. Its axis is logarithmic if all values are positive, and the largest is
    more than ten times the smallest.

    Parameters
    ----------
    curve : dict of array-like
        Columns of equal length: "n_clusters" and others, such as `n_clusters_curve_` of
        a fitted estimator. ``pandas.DataFrame(curve)`` is a table of it.
    n_clusters : int or None, default=None
        Number of clusters that is marked.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        Axes, one per column.
    figure_ : matplotlib Figure
        Figure of these axes.
    lines_ : dict of matplotlib Line2D
        Line of each column, by name.

    See Also
    --------
    NClustersCurveDisplay.from_estimator : Plot the curves of a fitted estimator.

    Examples
    --------
    >>> from skdiffclust.plotting import NClustersCurveDisplay
    >>> curve = {"n_clusters": [2, 3, 4, 5], "score": [9.0, 8.0, 1.0, 0.9]}
    >>> display = NClustersCurveDisplay(curve, n_clusters=3).plot()
    >>> display.lines_["score"].get_xdata()
    array([2, 3, 4, 5])
    """

    def __init__(self, curve, n_clusters=None):
        self.curve = curve
        self.n_clusters = n_clusters

    @classmethod
    def from_estimator(cls, estimator, *, columns=None, ax=None, **kwargs) -> Self:
        """Plot the curves of a fitted estimator.

        Parameters
        ----------
        estimator : estimator with `n_clusters_curve_`
            Estimator fitted with ``n_clusters="auto"``; a `SpanningForestClustering`
            has the curve with any number. For a pipeline, pass its last step.
        columns : list of str or None, default=None
            Columns to plot, in this order. With None, all that have values.
        ax : matplotlib Axes, array-like of them, or None, default=None
            Axes to plot on, one per column. With None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        display : NClustersCurveDisplay
            Object that stores the plotted data and artists.

        Raises
        ------
        ValueError
            If the estimator has no curve.
        """
        check_is_fitted(estimator)
        curve = estimator.n_clusters_curve_
        if curve is None:
            raise ValueError(
                "The 'estimator' parameter of NClustersCurveDisplay must be fitted "
                "with n_clusters='auto'. Got one without n_clusters_curve_ instead."
            )
        return cls(curve, estimator.n_clusters_).plot(ax=ax, columns=columns, **kwargs)

    def plot(self, ax=None, *, columns=None, line_kw=None, mark_kw=None) -> Self:
        """Plot the visualization.

        Parameters
        ----------
        ax : matplotlib Axes, array-like of them, or None, default=None
            Axes to plot on, one per column. With None, a new figure is created.
        columns : list of str or None, default=None
            Columns to plot, in this order. With None, all that have values, or all if
            none has: those of equal samples are empty.
        line_kw : dict or None, default=None
            Keyword arguments passed to `Axes.plot`.
        mark_kw : dict or None, default=None
            Keyword arguments passed to `Axes.axvline` at the chosen number.

        Returns
        -------
        self : NClustersCurveDisplay
            Object that stores the plotted data and artists.

        Raises
        ------
        ValueError
            If there is no such column, or the number of Axes is not that of columns.
        """
        curve = dict(self.curve)
        numbers = np.asarray(curve.pop("n_clusters"))
        if columns is None:
            columns = [name for name in curve if np.isfinite(curve[name]).any()]
            columns = columns or list(curve)
        style = {"marker": "o", "markersize": 3} | (line_kw or {})
        columns = list(columns)
        _draw_columns(self, "number of clusters", numbers, curve, columns, ax, style)
        mark = {"color": "0.5", "linestyle": "--", "zorder": 0} | (mark_kw or {})
        for axes, line in zip(self.axes_, self.lines_.values(), strict=True):
            values = line.get_ydata()
            values = values[np.isfinite(values)]
            if len(values) and 0 < 10 * values.min() < values.max():
                axes.set_yscale("log")
            if self.n_clusters is not None:
                axes.axvline(self.n_clusters, **mark)
        return self


class ClustererComparisonDisplay:
    """Visualization of a comparison of clusterers.

    The upper panels show the adjusted Rand index between each pair of clusterers, and
    the stability of each clusterer beside that on data without clusters. The lower
    panels show the clusters on a projection of the samples.

    Parameters
    ----------
    comparison : ClustererComparison
        Result of :func:`skdiffclust.model_selection.compare_clusterers`.
    positions : array-like of shape (n_samples, 2)
        Positions of the samples in the plot.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        Axes of the agreement, of the stability, and of the samples, one for each
        clusterer.
    figure_ : matplotlib Figure or SubFigure
        Figure with the plot.
    image_ : matplotlib AxesImage
        Image of the agreement between pairs of clusterers.
    bars_ : matplotlib BarContainer
        Mean stability of each clusterer.
    null_points_ : list of matplotlib Line2D
        Stabilities on data without clusters, one line per clusterer.
    points_ : dict of str to matplotlib PathCollection
        Samples, coloured by the labels of each clusterer; noise is grey.

    See Also
    --------
    ClustererComparisonDisplay.from_comparison : Project the samples and plot.
    skdiffclust.model_selection.compare_clusterers : Compute a comparison.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.datasets import load_iris
    >>> from skdiffclust.model_selection import compare_clusterers
    >>> from skdiffclust.plotting import ClustererComparisonDisplay
    >>> X, _ = load_iris(return_X_y=True)
    >>> comparison = compare_clusterers(X, [KMeans(3)], random_state=0)
    >>> display = ClustererComparisonDisplay.from_comparison(comparison, X)
    >>> list(display.points_)
    ['KMeans']
    """

    def __init__(self, comparison, positions):
        self.comparison = comparison
        self.positions = positions

    @classmethod
    def from_comparison(cls, comparison, X, *, figure=None, **kwargs) -> Self:
        """Plot a comparison with the samples projected on two principal components.

        Parameters
        ----------
        comparison : ClustererComparison
            Result of :func:`skdiffclust.model_selection.compare_clusterers`.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, which must be numeric and without missing values. For other
            samples, pass positions to the constructor instead.
        figure : matplotlib Figure, SubFigure or None, default=None
            Figure to plot on. With None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        display : ClustererComparisonDisplay
            Object that stores the plotted data and artists.
        """
        from sklearn.decomposition import PCA

        refuse_container(X)
        X = check_array(X, accept_sparse="csr")
        if X.shape[1] <= 2:
            X = X.toarray() if issparse(X) else X
            X = np.pad(X, ((0, 0), (0, 2 - X.shape[1])))
        positions = PCA(2, random_state=0).fit_transform(X)
        return cls(comparison, positions).plot(figure=figure, **kwargs)

    def plot(self, figure=None, *, max_samples=2000, point_kw=None) -> Self:
        """Plot the visualization.

        Parameters
        ----------
        figure : matplotlib Figure, SubFigure or None, default=None
            Figure to plot on. With None, a new figure is created.
        max_samples : int, default=2000
            Maximum number of samples to plot. Larger data are subsampled, always in the
            same way.
        point_kw : dict or None, default=None
            Keyword arguments passed to `Axes.scatter`.

        Returns
        -------
        self : ClustererComparisonDisplay
            Object that stores the plotted data and artists.

        Raises
        ------
        ValueError
            If no clusterer was run, or the number of positions is not that of samples.
        """
        comparison = self.comparison
        names = list(comparison.names)
        if not names:
            raise ValueError(
                "The 'comparison' parameter of ClustererComparisonDisplay must hold "
                "at least one clusterer that was run. Got none instead: "
                f"{comparison.left_out}."
            )
        n_samples = len(comparison.labels[names[0]])
        positions = _check_positions(self.positions, n_samples, type(self).__name__)
        n_columns = max(2, len(names))
        if figure is None:
            import matplotlib.pyplot as plt

            figure = plt.figure(figsize=(2.6 * n_columns, 6.4), layout="constrained")
        self.figure_ = figure
        upper, lower = figure.subfigures(2, 1, height_ratios=(1.2, 1.0))
        panels = lower.subplots(1, len(names))
        self.axes_ = np.append(upper.subplots(1, 2), panels)
        self._draw_agreement(self.axes_[0], names)
        self._draw_stability(self.axes_[1], names)
        shown = at_most(np.arange(n_samples), max_samples)
        style = {"s": 8, "linewidths": 0} | (point_kw or {})
        self.points_ = {}
        for name, ax in zip(names, self.axes_[2:], strict=True):
            colours = _label_colours(comparison.labels[name][shown])
            self.points_[name] = ax.scatter(*positions[shown].T, c=colours, **style)
            ax.set_title(f"{name}: {comparison.n_clusters[name]} clusters", fontsize=9)
            ax.set(xticks=[], yticks=[])
        return self

    def _draw_agreement(self, ax, names):
        """Draw the adjusted Rand index of each pair."""
        agreement = self.comparison.agreement
        self.image_ = ax.imshow(agreement, vmin=0, vmax=1, cmap="viridis")
        for i, j in np.ndindex(*agreement.shape):
            value = agreement[i, j]
            text = "–" if np.isnan(value) else f"{value:.2f}"
            colour = "white" if np.isnan(value) or value < 0.6 else "black"
            ax.text(j, i, text, ha="center", va="center", color=colour, fontsize=8)
        ax.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=8)
        ax.set_yticks(range(len(names)), names, fontsize=8)
        ax.set_title("adjusted Rand index of two clusterers", fontsize=9)

    def _draw_stability(self, ax, names):
        """Draw the stability of each clusterer, and that on data without clusters."""
        comparison = self.comparison
        means = [comparison.stability[name].mean() for name in names]
        has_structure = comparison.has_structure
        colours = ["C0" if has_structure[name] else "0.75" for name in names]
        self.bars_ = ax.barh(range(len(names)), means, color=colours)
        self.null_points_ = []
        for i, name in enumerate(names):
            null = comparison.null_stability[name]
            self.null_points_ += ax.plot(null, np.full(len(null), i), "k|", ms=9)
        ax.set_yticks(range(len(names)), names, fontsize=8)
        ax.invert_yaxis()
        ax.set(xlim=(min(0.0, ax.get_xlim()[0]), 1.02), xlabel="adjusted Rand index")
        ax.set_title("stability (ticks: data without clusters)", fontsize=9)


def _draw_columns(display, xlabel, x, table, columns, ax, line_kw):
    """Draw columns of a table (dict) over x (n,), each on Axes of its own.

    Assigns `axes_`, `figure_` and `lines_` of a display.
    """
    owner = type(display).__name__
    if not columns or not table.keys() >= set(columns):
        raise ValueError(
            f"The 'columns' parameter of {owner} must name some of {list(table)}. Got "
            f"{columns} instead."
        )
    size = (3.6 * len(columns), 2.8)
    display.axes_, display.figure_ = axes_of(owner, ax, len(columns), size)
    display.lines_ = {}
    for axes, name in zip(display.axes_, columns, strict=True):
        values = np.asarray(table[name], dtype=np.float64)
        (display.lines_[name],) = axes.plot(x, values, **line_kw)
        axes.set(xlabel=xlabel, ylabel=name.replace("_", " "))


def _check_positions(positions, n_samples, owner):
    """Return positions (n, 2) as float64."""
    positions = np.asarray(positions, dtype=np.float64)
    if positions.shape != (n_samples, 2):
        raise ValueError(
            f"The 'positions' parameter of {owner} must have shape ({n_samples}, 2), "
            f"with two coordinates per sample. Got {positions.shape} instead. Choose "
            "two features, or reduce them with PCA."
        )
    return positions


def _label_colours(labels):
    """Return a colour for each label, "C0" for 0 and so on; grey if negative."""
    labels = np.asarray(labels, dtype=np.int64)
    return ["0.7" if label < 0 else f"C{label}" for label in labels]
