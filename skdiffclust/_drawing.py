"""Helpers of the displays of several methods."""

import numpy as np


def axes_of(ax):
    """Return Axes to draw on, new ones if none are given, and their figure."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(layout="constrained")
    return ax, ax.figure


def label_colours(labels):
    """Return a colour (n, 4) for each label, "C0" for 0 and so on; grey if negative."""
    from matplotlib.colors import to_rgba_array

    labels = np.asarray(labels, dtype=np.int64)
    shades = [f"C{i}" for i in range(max(labels.max(initial=0) + 1, 1))]
    colours = to_rgba_array(shades)[labels]
    colours[labels < 0] = (0.7, 0.7, 0.7, 1.0)
    return colours
