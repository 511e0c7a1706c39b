"""Displays of GraphCutClustering; matplotlib is imported when one is drawn."""

import numpy as np
from sklearn.utils.validation import check_is_fitted


class CutCurveDisplay:
    """Visualization of normalised cuts and their scores by number of clusters.

    Parameters
    ----------
    n_clusters : array-like of shape (n_numbers,)
        Numbers of clusters.
    normalized_cut : array-like of shape (n_numbers,)
        Lowest normalised cut found for each number of clusters.
    score : array-like of shape (n_numbers,)
        Score by which the number is chosen, NaN where it is not defined.
    chosen : int or None, default=None
        Number of clusters that is marked.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        Axes of the cuts and of the scores.
    figure_ : matplotlib Figure
        Their figure.
    cut_line_ : matplotlib Line2D
        Line of the cuts.
    score_line_ : matplotlib Line2D
        Line of the scores.

    See Also
    --------
    CutCurveDisplay.from_estimator : Plot the curve of a fitted estimator.

    Examples
    --------
    >>> from skdiffclust.plotting import CutCurveDisplay
    >>> display = CutCurveDisplay([1, 2, 3], [0, 0.1, 0.8], [None, 0.6, None], 2)
    >>> display.plot().cut_line_.get_ydata()
    array([0. , 0.1, 0.8])
    """

    def __init__(self, n_clusters, normalized_cut, score, chosen=None):
        self.n_clusters = n_clusters
        self.normalized_cut = normalized_cut
        self.score = score
        self.chosen = chosen

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **kwargs):
        """Plot the curve of a fitted `GraphCutClustering` or `PRCut`.

        Parameters
        ----------
        estimator : GraphCutClustering or PRCut
            Estimator fitted with ``n_clusters="auto"``. For a pipeline, pass its last
            step.
        ax : array-like of two matplotlib Axes, or None, default=None
            Axes for the cuts and the scores. With None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        display : CutCurveDisplay
            Object that stores the plotted data and artists.

        Raises
        ------
        ValueError
            If the estimator was fitted with a given number of clusters.
        """
        check_is_fitted(estimator)
        curve = estimator.cut_curve_
        if curve is None:
            raise ValueError(
                "The 'estimator' parameter of CutCurveDisplay must be fitted with "
                "n_clusters='auto'. Got one with a number of clusters that was given "
                "instead."
            )
        return cls(
            n_clusters=curve["n_clusters"],
            normalized_cut=curve["normalized_cut"],
            score=curve["score"],
            chosen=estimator.n_clusters_,
        ).plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, line_kw=None, mark_kw=None):
        """Plot the visualization.

        Parameters
        ----------
        ax : array-like of two matplotlib Axes, or None, default=None
            Axes for the cuts and the scores. With None, a new figure is created.
        line_kw : dict or None, default=None
            Keyword arguments passed to both calls of `Axes.plot`.
        mark_kw : dict or None, default=None
            Keyword arguments passed to the vertical lines at the chosen number.

        Returns
        -------
        self : CutCurveDisplay
            Object that stores the plotted data and artists.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(1, 2, figsize=(7.2, 2.8), layout="constrained")
        self.axes_ = np.atleast_1d(ax).ravel()
        if len(self.axes_) != 2:
            raise ValueError(
                "The 'ax' parameter of CutCurveDisplay must have two Axes, for the "
                f"cuts and the scores. Got {len(self.axes_)} instead."
            )
        self.figure_ = self.axes_[0].figure
        style = {"marker": "o", "markersize": 3} | (line_kw or {})
        lines = []
        for axes, name in zip(self.axes_, ("normalized_cut", "score"), strict=True):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            lines += axes.plot(np.asarray(self.n_clusters), values, **style)
            axes.set(xlabel="number of clusters", ylabel=name.replace("_", " "))
            if self.chosen is not None:
                mark = {"color": "0.5", "linestyle": "--", "zorder": 0}
                axes.axvline(self.chosen, **mark | (mark_kw or {}))
        self.cut_line_, self.score_line_ = lines
        return self
