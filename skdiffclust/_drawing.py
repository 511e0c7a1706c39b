"""Helpers of the displays of several methods."""

import numpy as np


def axes_of(ax):
    """Return Axes to draw on, new ones if none are given, and their figure."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(layout="constrained")
    return ax, ax.figure


def label_colours(labels):
    """Return a colour (n, 4) for each label, ten in turn; grey where it is negative."""
    from matplotlib import colormaps

    labels = np.asarray(labels)
    colours = colormaps["tab10"](labels % 10)
    colours[labels < 0] = (0.7, 0.7, 0.7, 1.0)
    return colours
