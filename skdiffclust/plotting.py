"""Displays: pictures of fitted estimators; matplotlib is loaded when one is drawn."""

import numpy as np
from sklearn.utils import check_array, resample
from sklearn.utils.validation import check_is_fitted

from skdiffclust._drawing import axes_of, label_colours
from skdiffclust.cuts._display import CutCurveDisplay
from skdiffclust.forests._display import (
    CondensedTreeDisplay,
    CutScoresDisplay,
    DendrogramDisplay,
)
from skdiffclust.gemini._display import SparsePathDisplay

__all__ = [
    "CondensedTreeDisplay",
    "ConnectivityDisplay",
    "CutCurveDisplay",
    "CutScoresDisplay",
    "DendrogramDisplay",
    "SpanningForestDisplay",
    "SparsePathDisplay",
    "TrainingHistoryDisplay",
]


class SpanningForestDisplay:
    """A spanning forest: its edges over the points, and the cut edges dashed.

    Parameters
    ----------
    positions : array-like of shape (n_samples, 2)
        Where the samples are drawn: the samples themselves if they have two features,
        two of the features, or an embedding.
    edges : array-like of shape (n_edges, 2)
        Pairs of sample indices.
    is_cut : array-like of shape (n_edges,), bool
        Which edges are cut, and drawn dashed.
    labels : array-like of shape (n_samples,)
        Cluster of each sample, for its colour; a negative one is drawn grey.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was drawn on.
    figure_ : matplotlib Figure
        Its figure.
    points_ : matplotlib PathCollection
        The samples.
    edges_, cut_edges_ : matplotlib LineCollection
        Kept edges and cut ones.

    See Also
    --------
    SpanningForestDisplay.from_estimator : Make one of a fitted clusterer and draw it.

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
    def from_estimator(cls, estimator, positions, *, ax=None, **kwargs):
        """Draw the forest of a fitted `SpanningForestClustering`.

        Parameters
        ----------
        estimator : SpanningForestClustering
            Fitted. Of a pipeline, pass the last step.
        positions : array-like of shape (n_samples, 2)
            Where the training samples are drawn.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : SpanningForestDisplay
            Drawn. Dashed are the edges of the whole tree that are not in the forest.
            After a fit with constraints, the forest may have edges that the tree,
            which ignores constraints, has not.

        Raises
        ------
        ValueError
            If there is not one position for each sample of the fit.
        """
        check_is_fitted(estimator, "forest_edges_")
        n_samples = len(estimator.labels_)
        kept = {tuple(edge) for edge in np.sort(estimator.forest_edges_).tolist()}
        tree = np.sort(estimator.edges_).tolist()
        cut = [edge for edge in tree if tuple(edge) not in kept]
        cut = np.array(cut, dtype=np.int64).reshape(-1, 2)
        edges = np.concatenate([estimator.forest_edges_, cut])
        is_cut = np.arange(len(edges)) >= len(kept)
        positions = _check_positions(positions, n_samples)
        return cls(positions, edges, is_cut, estimator.labels_).plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, point_kw=None, edge_kw=None, cut_kw=None):
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        point_kw : dict or None, default=None
            Passed to `Axes.scatter`.
        edge_kw, cut_kw : dict or None, default=None
            Passed to the `LineCollection` of the kept and the cut edges.

        Returns
        -------
        self : SpanningForestDisplay
            With the artists as attributes.
        """
        from matplotlib.collections import LineCollection

        self.ax_, self.figure_ = axes_of(ax)
        positions = _check_positions(self.positions, len(self.labels))
        segments = positions[np.asarray(self.edges, dtype=np.int64).reshape(-1, 2)]
        is_cut = np.asarray(self.is_cut, dtype=bool)
        kept_style = {"colors": "0.4", "linewidths": 1.0, "zorder": 1} | (edge_kw or {})
        cut_style = {
            "colors": "tab:red",
            "linewidths": 1.0,
            "linestyles": "--",
            "zorder": 1,
        } | (cut_kw or {})
        self.edges_ = LineCollection(segments[~is_cut], **kept_style)
        self.cut_edges_ = LineCollection(segments[is_cut], **cut_style)
        self.ax_.add_collection(self.edges_)
        self.ax_.add_collection(self.cut_edges_)
        style = {"c": label_colours(self.labels), "s": 14, "zorder": 2} | (
            point_kw or {}
        )
        self.points_ = self.ax_.scatter(*positions.T, **style)
        self.ax_.set(xticks=[], yticks=[], aspect="equal")
        return self


class ConnectivityDisplay:
    """Which samples share a cluster: a heat map of all pairs, ordered by cluster.

    Blocks on the diagonal are clusters; what is grey beside them is uncertain.

    Parameters
    ----------
    connectivity : array-like of shape (n_samples, n_samples)
        From 0, never together, to 1, always.
    labels : array-like of shape (n_samples,)
        Cluster of each sample, by which rows and columns are ordered.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was drawn on.
    figure_ : matplotlib Figure
        Its figure.
    image_ : matplotlib AxesImage
        The heat map.
    order_ : ndarray of shape (n_samples,)
        Row of the connectivity that is drawn in each line.

    See Also
    --------
    ConnectivityDisplay.from_estimator : Of one fitted clusterer.
    ConnectivityDisplay.from_labels : Of several clusterings of the same samples.

    Notes
    -----
    O(n_samples²) memory; the two class methods draw at most `max_samples` samples.

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
    def from_estimator(cls, estimator, X, *, max_samples=500, ax=None, **kwargs):
        """Draw which samples a fitted clusterer puts together.

        Parameters
        ----------
        estimator : estimator with `predict_proba` or `predict`
            Fitted, a pipeline too. With probabilities P, an entry is (P Pᵀ)_ij, the
            probability that two samples share a cluster if each is drawn on its own;
            without them, it is 1 where the labels are equal.
        X : array-like of shape (n_samples, n_features)
            Samples to predict.
        max_samples : int, default=500
            Of more samples, this many are drawn, always the same ones.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : ConnectivityDisplay
            Drawn.
        """
        X = _at_most(X, max_samples)
        labels = np.asarray(estimator.predict(X))
        if hasattr(estimator, "predict_proba"):
            proba = np.asarray(estimator.predict_proba(X))
            connectivity = proba @ proba.T
        else:
            connectivity = (labels[:, None] == labels).astype(np.float64)
        return cls(connectivity, labels).plot(ax=ax, **kwargs)

    @classmethod
    def from_labels(cls, labels, *, max_samples=500, ax=None, **kwargs):
        """Draw how often several clusterings put the same samples together.

        Parameters
        ----------
        labels : array-like of shape (n_clusterings, n_samples)
            Labels by each clustering: of several methods, seeds or samples. Samples are
            ordered by the first one.
        max_samples : int, default=500
            Of more samples, this many are drawn, always the same ones.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : ConnectivityDisplay
            Drawn. An entry is the fraction of the clusterings in which two samples
            share a cluster.
        """
        labels = check_array(np.atleast_2d(np.asarray(labels)), dtype=None)
        labels = _at_most(labels.T, max_samples).T
        connectivity = np.zeros((labels.shape[1],) * 2)
        for one in labels:
            connectivity += one[:, None] == one
        return cls(connectivity / len(labels), labels[0]).plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, colorbar=True, image_kw=None, line_kw=None):
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        colorbar : bool, default=True
            Whether to draw one beside the heat map.
        image_kw : dict or None, default=None
            Passed to `Axes.imshow`.
        line_kw : dict or None, default=None
            Passed to the lines between clusters.

        Returns
        -------
        self : ConnectivityDisplay
            With the artists as attributes.
        """
        connectivity = check_array(self.connectivity, dtype=np.float64)
        labels = np.asarray(self.labels)
        if connectivity.shape != (len(labels), len(labels)):
            raise ValueError(
                "The 'connectivity' parameter of ConnectivityDisplay must be square, "
                f"with a row for each of the {len(labels)} labels. Got an array of "
                f"shape {connectivity.shape} instead."
            )
        self.ax_, self.figure_ = axes_of(ax)
        self.order_ = np.argsort(labels, kind="stable")
        style = {
            "cmap": "viridis",
            "vmin": 0.0,
            "vmax": 1.0,
            "interpolation": "nearest",
        } | (image_kw or {})
        ordered = connectivity[np.ix_(self.order_, self.order_)]
        self.image_ = self.ax_.imshow(ordered, **style)
        borders = (
            np.flatnonzero(
                np.diff(np.unique(labels, return_inverse=True)[1][self.order_])
            )
            + 0.5
        )
        line_style = {"color": "white", "linewidth": 0.8} | (line_kw or {})
        for border in borders:
            self.ax_.axhline(border, **line_style)
            self.ax_.axvline(border, **line_style)
        if colorbar:
            self.figure_.colorbar(self.image_, ax=self.ax_, label="share a cluster")
        self.ax_.set(xlabel="samples by cluster", xticks=[], yticks=[])
        return self


class TrainingHistoryDisplay:
    """What training recorded: a curve over the epochs for each column.

    Parameters
    ----------
    history : dict of lists
        Columns of one length, such as the `history_` of a fitted estimator.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        One for each column that was drawn.
    figure_ : matplotlib Figure
        Their figure.
    lines_ : dict of matplotlib Line2D
        Column to its curve.

    See Also
    --------
    sklearn.callback.ScoringMonitor : Scores during training, of samples held out too.

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
    def from_estimator(cls, estimator, *, columns=None, ax=None, **kwargs):
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : estimator with `history_`
            Fitted. Of a pipeline, pass the last step.
        columns : list of str or None, default=None
            What to draw, in order; None draws all that was recorded.
        ax : matplotlib Axes, array-like of them, or None, default=None
            One for each column; None makes a figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : TrainingHistoryDisplay
            Drawn.
        """
        check_is_fitted(estimator, "history_")
        return cls(estimator.history_).plot(ax=ax, columns=columns, **kwargs)

    def plot(self, ax=None, *, columns=None, **line_kw):
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, array-like of them, or None, default=None
            One for each column; None makes a figure.
        columns : list of str or None, default=None
            What to draw, in order; None draws all that was recorded.
        **line_kw : dict
            Passed to `Axes.plot`.

        Returns
        -------
        self : TrainingHistoryDisplay
            With the artists as attributes.

        Raises
        ------
        ValueError
            If a column was not recorded, or there is not one Axes for each.
        """
        columns = list(self.history) if columns is None else list(columns)
        unknown = [name for name in columns if name not in self.history]
        if unknown or not columns:
            raise ValueError(
                "The 'columns' parameter of TrainingHistoryDisplay must name some of "
                f"{list(self.history)}. Got {columns} instead."
            )
        if ax is None:
            import matplotlib.pyplot as plt

            size = (3.6 * len(columns), 2.8)
            _, ax = plt.subplots(1, len(columns), figsize=size, layout="constrained")
        self.axes_ = np.atleast_1d(ax).ravel()
        if len(self.axes_) != len(columns):
            raise ValueError(
                "The 'ax' parameter of TrainingHistoryDisplay must have one Axes for "
                f"each of {columns}. Got {len(self.axes_)} instead. Choose with "
                "'columns'."
            )
        self.figure_ = self.axes_[0].figure
        self.lines_ = {}
        for axes, name in zip(self.axes_, columns, strict=True):
            values = np.asarray(self.history[name], dtype=np.float64)
            (self.lines_[name],) = axes.plot(
                np.arange(1, len(values) + 1), values, **line_kw
            )
            axes.set(xlabel="epoch", ylabel=name)
        return self


def _check_positions(positions, n_samples):
    """Return positions (n, 2) as float64."""
    positions = np.asarray(positions, dtype=np.float64)
    if positions.shape != (n_samples, 2):
        raise ValueError(
            "The 'positions' parameter of SpanningForestDisplay must have shape "
            f"({n_samples}, 2), two coordinates for each sample. Got {positions.shape} "
            "instead. Choose two features, or reduce them with PCA."
        )
    return positions


def _at_most(rows, max_samples):
    """Return max_samples of the rows, drawn by a fixed seed, or all if they are few."""
    n_samples = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    if n_samples <= max_samples:
        return rows
    return resample(rows, replace=False, n_samples=max_samples, random_state=0)
