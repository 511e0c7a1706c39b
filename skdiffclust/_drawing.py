"""A helper of the displays of several methods."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def axes_of(owner, ax, n_axes=1, size=None) -> tuple[np.ndarray, "Figure"]:
    """Return an array of Axes, new ones if none are given, and their figure.

    ValueError in the name of a display if there are not `n_axes` of them.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(1, n_axes, figsize=size, layout="constrained")
    axes = np.atleast_1d(ax).ravel()
    if len(axes) != n_axes:
        raise ValueError(
            f"The 'ax' parameter of {owner} must be {n_axes} Axes. Got {len(axes)} "
            f"instead. Make them with plt.subplots(1, {n_axes})."
        )
    return axes, axes[0].figure
