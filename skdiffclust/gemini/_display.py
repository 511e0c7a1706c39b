"""A picture of a regularisation path."""

import numpy as np


class SparsePathDisplay:
    """Objective and number of features over the penalty.

    Parameters
    ----------
    alphas : array-like of shape (n_steps,)
        Factors of the penalty; a first one of zero is not drawn.
    objectives : array-like of shape (n_steps,)
        Objective of each step.
    n_features : array-like of shape (n_steps,)
        Number of features of each step.
    chosen : int
        Step that is marked.

    Attributes
    ----------
    figure_ : matplotlib Figure
        After `plot`.
    axes_ : list of matplotlib Axes
        After `plot`: objective, number of features.

    Examples
    --------
    >>> from skdiffclust.plotting import SparsePathDisplay
    >>> SparsePathDisplay([0.1, 0.2], [1.0, 0.9], [3, 2], chosen=1).n_features
    array([3, 2])
    """

    def __init__(self, alphas, objectives, n_features, chosen):
        self.alphas = np.asarray(alphas)
        self.objectives = np.asarray(objectives)
        self.n_features = np.asarray(n_features)
        self.chosen = chosen

    @classmethod
    def from_path(cls, path):
        """Make the display of a path.

        Parameters
        ----------
        path : SparsePath
            What :meth:`skdiffclust.SparseGEMINI.path` returns.

        Returns
        -------
        display : SparsePathDisplay
            Not drawn yet.
        """
        return cls(path.alphas, path.objectives, path.n_features, path.chosen)

    def plot(self, *, axes=None):
        """Draw it.

        Parameters
        ----------
        axes : pair of matplotlib axes, default=None
            For the objective and for the number of features; None makes a figure.

        Returns
        -------
        display : SparsePathDisplay
            Itself, with `figure_` and `axes_`.
        """
        if axes is None:
            from matplotlib import pyplot as plt

            _, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
        drawn = self.alphas > 0
        for ax, values, name in zip(
            axes,
            (self.objectives, self.n_features),
            ("GEMINI", "number of features"),
            strict=True,
        ):
            ax.plot(self.alphas[drawn], values[drawn], marker=".")
            if drawn[self.chosen]:
                ax.axvline(self.alphas[self.chosen], color="tab:red", linestyle=":")
            ax.set(xscale="log", xlabel="penalty alpha", ylabel=name)
        axes[1].set_yscale("log")
        self.axes_, self.figure_ = list(axes), axes[0].figure
        return self
