"""Plots of a regularisation path, and of the stability of features along it."""

from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skdiffclust._drawing import axes_of

# Features that are listed in a legend.
_MOST_NAMED = 10
_COLUMNS = {
    "objectives": "GEMINI",
    "n_features": "number of features",
    "weights": "norm of the weights of a feature",
}

if TYPE_CHECKING:
    from matplotlib.lines import Line2D


class SparsePathDisplay:
    """Visualization of a path: objective, features and weights over the penalty.

    Parameters
    ----------
    alphas : array-like of shape (n_steps,)
        Penalties. If the first one is zero, it is not plotted.
    objectives : array-like of shape (n_steps,)
        Objective at each step.
    n_features : array-like of shape (n_steps,)
        Number of selected features at each step.
    weights : array-like of shape (n_steps, n_features_in)
        Norm of the weights of each feature at each step.
    chosen : int
        Index of the step that is marked.
    feature_names : array-like of shape (n_features_in,) or None, default=None
        Names of the features; None names them x0, x1, ...

    Attributes
    ----------
    figure_ : matplotlib Figure
        Figure. Available after `plot`.
    axes_ : ndarray of 3 matplotlib Axes
        Axes of the objective, the number of features and the weights. Available after
        `plot`.
    lines_ : dict of lists of matplotlib Line2D
        Lines by name: one each for "objectives" and "n_features", and one per feature
        for "weights". Features selected at `chosen` are coloured, and listed in the
        legend if they are at most ten; the others are grey. Available after `plot`.

    See Also
    --------
    SparsePathDisplay.from_estimator : Compute and plot the path of an estimator.
    SparsePathDisplay.from_path : Plot a path.

    Examples
    --------
    >>> from skdiffclust.plotting import SparsePathDisplay
    >>> display = SparsePathDisplay(
    ...     [0.1, 0.2], [1.0, 0.9], [2, 1], [[0.5, 0.2], [0.4, 0.0]], chosen=1)
    >>> display.plot().lines_["n_features"][0].get_ydata()
    array([2, 1])
    """

    def __init__(
        self, alphas, objectives, n_features, weights, chosen, feature_names=None
    ):
        self.alphas = alphas
        self.objectives = objectives
        self.n_features = n_features
        self.weights = weights
        self.chosen = chosen
        self.feature_names = feature_names

    @classmethod
    def from_estimator(cls, estimator, X, *, ax=None, **path_params) -> Self:
        """Compute and plot the path of a copy of an estimator.

        Parameters
        ----------
        estimator : SparseGEMINI
            Estimator, fitted or not, which is not modified.
        X : array-like of shape (n_samples, n_features)
            Samples. The columns of a data frame are the names of the features.
        ax : array-like of 3 matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.
        **path_params : dict
            Keyword arguments passed to :meth:`skdiffclust.SparseGEMINI.path`.

        Returns
        -------
        display : SparsePathDisplay
            Object that stores the plotted data and artists.
        """
        return cls.from_path(clone(estimator).path(X, **path_params), ax=ax)

    @classmethod
    def from_path(cls, path, *, ax=None) -> Self:
        """Plot a path.

        Parameters
        ----------
        path : SparsePath
            Result of :meth:`skdiffclust.SparseGEMINI.path`.
        ax : array-like of 3 matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.

        Returns
        -------
        display : SparsePathDisplay
            Object that stores the plotted data and artists.
        """
        weights = [
            np.linalg.norm(path.weights(step)[0], axis=1) for step in range(len(path))
        ]
        display = cls(
            path.alphas,
            path.objectives,
            path.n_features,
            np.array(weights),
            path.chosen,
            path.shared.get("feature_names_in_"),
        )
        return display.plot(ax=ax)

    def plot(self, ax=None) -> Self:
        """Plot the visualization.

        Parameters
        ----------
        ax : array-like of 3 matplotlib Axes or None, default=None
            Axes for the objective, the number of features and their weights. With None,
            a new figure is created.

        Returns
        -------
        self : SparsePathDisplay
            Object that stores the plotted data and artists.
        """
        self.axes_, self.figure_ = axes_of("SparsePathDisplay", ax, 3, (11, 3))
        alphas = np.asarray(self.alphas)
        drawn = alphas > 0
        self.lines_: dict[str, list[Line2D]] = {}
        for axes, (name, label) in zip(self.axes_, _COLUMNS.items(), strict=True):
            values = np.asarray(getattr(self, name))[drawn]
            style = {"color": "0.8", "lw": 1} if name == "weights" else {"marker": "."}
            self.lines_[name] = axes.plot(alphas[drawn], values, **style)
            if drawn[self.chosen]:
                axes.axvline(alphas[self.chosen], color="tab:red", linestyle=":")
            axes.set(xscale="log", xlabel="penalty alpha", ylabel=label)
        self._count_in_whole_numbers()
        self._name_selected()
        return self

    def _count_in_whole_numbers(self):
        """Label the axis of the number of features."""
        from matplotlib.ticker import LogLocator, NullFormatter

        axes = self.axes_[1]
        # No features at all are not on a logarithmic axis.
        axes.set_yscale("log" if np.min(self.n_features) > 0 else "symlog")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:.0f}")
        axes.yaxis.set_minor_formatter(NullFormatter())

    def _name_selected(self):
        """Colour the weights of the features that the marked step selects."""
        axes = self.axes_[2]
        selected = np.flatnonzero(np.asarray(self.weights)[self.chosen])
        names = self.feature_names
        if names is None:
            names = [f"x{i}" for i in range(np.shape(self.weights)[1])]
        for number, feature in enumerate(selected):
            line = self.lines_["weights"][feature]
            line.set(color=f"C{number % 10}", zorder=3, label=str(names[feature]))
        if 0 < len(selected) <= _MOST_NAMED:
            axes.legend(title="selected", fontsize="small")


class SelectionProbabilityDisplay:
    """Visualization of selection probabilities and stabilities over the penalty.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,)
        Penalties.
    probabilities : array-like of shape (n_alphas, n_features)
        Fraction of the subsets in which each feature is selected.
    cluster_stability, support_stability : array-like of shape (n_alphas,)
        Agreement between subsets of the clusters and of the selected features.
    feature_names : array-like of shape (n_features,)
        Names of the features.
    alpha : float
        Penalty that is marked.
    threshold : float
        Selection probability from which a feature is stable, plotted as a line.
    structure : dict or None, default=None
        ``structure_test_`` of :class:`~skdiffclust.SparseGEMINICV`, written above the
        stabilities.

    Attributes
    ----------
    figure_ : matplotlib Figure
        Figure. Available after `plot`.
    axes_ : ndarray of 2 matplotlib Axes
        Axes of the probabilities and of the stabilities. Available after `plot`.
    lines_ : dict of matplotlib Line2D
        Line of each feature, by name. Features that are stable at `alpha` are coloured
        and listed in the legend; the others are grey. Available after `plot`.

    See Also
    --------
    SelectionProbabilityDisplay.from_estimator : Plot those of a fitted estimator.
    SparsePathDisplay : Visualization of the path of all samples.

    Examples
    --------
    >>> from skdiffclust.plotting import SelectionProbabilityDisplay
    >>> display = SelectionProbabilityDisplay(
    ...     [0.1, 0.2], [[1.0, 0.6], [1.0, 0.1]], [0.9, 0.9], [0.4, 0.8],
    ...     ["length", "width"], alpha=0.2, threshold=0.9)
    >>> [text.get_text() for text in display.plot().axes_[0].get_legend().get_texts()]
    ['length']
    """

    def __init__(
        self,
        alphas,
        probabilities,
        cluster_stability,
        support_stability,
        feature_names,
        alpha,
        threshold,
        structure=None,
    ):
        self.alphas = alphas
        self.probabilities = probabilities
        self.cluster_stability = cluster_stability
        self.support_stability = support_stability
        self.feature_names = feature_names
        self.alpha = alpha
        self.threshold = threshold
        self.structure = structure

    @classmethod
    def from_estimator(cls, estimator, *, feature_names=None, ax=None) -> Self:
        """Plot the selection probabilities of a fitted estimator.

        Parameters
        ----------
        estimator : SparseGEMINICV
            Fitted estimator.
        feature_names : array-like of shape (n_features,) or None, default=None
            Names of the features. None uses the names seen in `fit`, and x0, x1, ... if
            there were none.
        ax : array-like of 2 matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.

        Returns
        -------
        display : SelectionProbabilityDisplay
            Object that stores the plotted data and artists.
        """
        check_is_fitted(estimator)
        if feature_names is None:
            numbered = [f"x{i}" for i in range(estimator.n_features_in_)]
            feature_names = getattr(estimator, "feature_names_in_", numbered)
        display = cls(
            estimator.alphas_,
            estimator.selection_probabilities_,
            estimator.cluster_stability_,
            estimator.support_stability_,
            feature_names,
            estimator.stable_alpha_,
            estimator.selection_threshold,
            getattr(estimator, "structure_test_", None),
        )
        return display.plot(ax=ax)

    def plot(self, ax=None) -> Self:
        """Plot the visualization.

        Parameters
        ----------
        ax : array-like of 2 matplotlib Axes or None, default=None
            Axes for the probabilities and the stabilities. With None, a new figure is
            created.

        Returns
        -------
        self : SelectionProbabilityDisplay
            Object that stores the plotted data and artists.
        """
        alphas = np.asarray(self.alphas)
        probabilities = np.asarray(self.probabilities)
        n_features = probabilities.shape[1]
        if len(self.feature_names) != n_features:
            raise ValueError(
                "The 'feature_names' parameter of SelectionProbabilityDisplay must "
                f"have a name for each of {n_features} features. Got "
                f"{len(self.feature_names)} instead. Pass one for each column of X."
            )
        self.axes_, self.figure_ = axes_of(
            "SelectionProbabilityDisplay", ax, 2, (9, 3.5)
        )
        first, second = self.axes_
        # The first penalty that is not less.
        step = min(np.searchsorted(alphas, self.alpha), len(alphas) - 1)
        self.lines_: dict[str, list[Line2D]] = {}
        for name, curve in zip(self.feature_names, probabilities.T, strict=True):
            style = {"color": "0.8", "lw": 1, "zorder": 1}
            if curve[step] >= self.threshold:
                style = {"label": str(name), "zorder": 2}
            (self.lines_[str(name)],) = first.plot(alphas, curve, **style)
        first.axhline(self.threshold, color="0.5", linestyle="--", lw=1)
        first.set_ylabel("share of subsets that select a feature")
        if first.get_legend_handles_labels()[0]:
            first.legend(title="stable features")
        second.plot(alphas, self.cluster_stability, marker=".", label="clusters")
        second.plot(alphas, self.support_stability, marker=".", label="features")
        second.set_ylabel("stability")
        # Subsets that agree by chance have a stability of 0.
        second.axhline(0, color="0.5", linestyle="--", lw=1, label="by chance")
        second.legend()
        if self.structure is not None:
            second.set_title(
                f"bimodality {self.structure['statistic']:.1f}, of Gaussians up to "
                f"{np.max(self.structure['null_distribution']):.1f}",
                fontsize="medium",
            )
        for axes in self.axes_:
            if self.alpha > 0:
                axes.axvline(self.alpha, color="tab:red", linestyle=":")
            axes.set(xscale="log", xlabel="penalty alpha")
        return self
