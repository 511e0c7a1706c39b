"""A picture of the scores of the cuts of a spanning tree."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdiffclust._drawing import axes_of


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
        if estimator.cut_scores_ is None:
            raise ValueError(
                "The 'estimator' parameter of CutScoresDisplay.from_estimator must be "
                "fitted with a number of clusters. Got a fit with distance_threshold="
                f"{estimator.distance_threshold} instead, which has no scores. Set "
                "n_clusters='auto' in place of it."
            )
        scores = estimator.cut_scores_
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
