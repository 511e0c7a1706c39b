"""A helper of the displays of several methods."""


def axes_of(ax):
    """Return Axes to draw on, new ones if none are given, and their figure."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(layout="constrained")
    return ax, ax.figure
