"""A plot of a regularisation path."""

import numpy as np
from sklearn.base import clone

_COLUMNS = {
    "objectives": "GEMINI",
    "n_features": "number of features",
    "weights": "norm of the weights of a feature",
}


class SparsePathDisplay:
    """Objective, number of features and their weights over the penalty.

    Parameters
    ----------
    alphas : array-like of shape (n_steps,)
        Factors of the penalty; a first one of zero is not drawn.
    objectives : array-like of shape (n_steps,)
        Objective of each step.
    n_features : array-like of shape (n_steps,)
        Number of features of each step.
    weights : array-like of shape (n_steps, n_features_in)
        Norm of the weights of each feature at each step.
    chosen : int
        Step that is marked.

    Attributes
    ----------
    figure_ : matplotlib Figure
        After `plot`.
    axes_ : ndarray of 3 matplotlib Axes
        After `plot`: objective, number of features, weights.
    lines_ : dict of lists of matplotlib Line2D
        After `plot`: "objectives" and "n_features" to one curve each, "weights" to one
        for each feature.

    See Also
    --------
    SparsePathDisplay.from_estimator : Compute the path of an estimator and draw it.
    SparsePathDisplay.from_path : Draw a computed path.

    Examples
    --------
    >>> from skdiffclust.plotting import SparsePathDisplay
    >>> display = SparsePathDisplay(
    ...     [0.1, 0.2], [1.0, 0.9], [2, 1], [[0.5, 0.2], [0.4, 0.0]], chosen=1)
    >>> display.plot().lines_["n_features"][0].get_ydata()
    array([2, 1])
    """

    def __init__(self, alphas, objectives, n_features, weights, chosen):
        self.alphas = alphas
        self.objectives = objectives
        self.n_features = n_features
        self.weights = weights
        self.chosen = chosen

    @classmethod
    def from_estimator(cls, estimator, X, *, ax=None, **path_params):
        """Compute the path of a copy of an estimator, and draw it.

        Parameters
        ----------
        estimator : SparseGEMINI
            Fitted or not; it is not changed.
        X : array-like of shape (n_samples, n_features)
            Samples.
        ax : array-like of 3 matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        **path_params : dict
            Passed to :meth:`skdiffclust.SparseGEMINI.path`.

        Returns
        -------
        display : SparsePathDisplay
            Drawn.
        """
        return cls.from_path(clone(estimator).path(X, **path_params), ax=ax)

    @classmethod
    def from_path(cls, path, *, ax=None):
        """Draw a path.

        Parameters
        ----------
        path : SparsePath
            What :meth:`skdiffclust.SparseGEMINI.path` returns.
        ax : array-like of 3 matplotlib Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display : SparsePathDisplay
            Drawn.
        """
        weights = [
            np.linalg.norm(path.weights(step)[0], axis=1) for step in range(len(path))
        ]
        columns = path.alphas, path.objectives, path.n_features, np.array(weights)
        return cls(*columns, path.chosen).plot(ax=ax)

    def plot(self, ax=None):
        """Draw the display.

        Parameters
        ----------
        ax : array-like of 3 matplotlib Axes or None, default=None
            For the objective, the number of features, and their weights; None makes a
            figure.

        Returns
        -------
        self : SparsePathDisplay
            With the artists as attributes.
        """
        if ax is None:
            from matplotlib import pyplot as plt

            _, ax = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
        self.axes_ = np.asarray(ax, dtype=object).ravel()
        if len(self.axes_) != 3:
            raise ValueError(
                "The 'ax' parameter of SparsePathDisplay must be three Axes. Got "
                f"{len(self.axes_)} instead. Make them with plt.subplots(1, 3)."
            )
        self.figure_ = self.axes_[0].figure
        alphas = np.asarray(self.alphas)
        drawn = alphas > 0
        self.lines_ = {}
        for axes, (name, label) in zip(self.axes_, _COLUMNS.items(), strict=True):
            values = np.asarray(getattr(self, name))[drawn]
            style = {"lw": 1} if name == "weights" else {"marker": "."}
            self.lines_[name] = axes.plot(alphas[drawn], values, **style)
            if drawn[self.chosen]:
                axes.axvline(alphas[self.chosen], color="tab:red", linestyle=":")
            axes.set(xscale="log", xlabel="penalty alpha", ylabel=label)
        self.axes_[1].set_yscale("log")
        return self
