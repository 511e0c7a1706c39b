"""Warnings that show the line of the user's code that led to them."""

import sys
import warnings

# Packages whose frames are passed over: ours, what calls it, and decorators.
_PACKAGES = ("contextlib", "joblib", "skdiffclust", "sklearn", "torch")


def warn(message, category=UserWarning):
    """Issue a warning at the nearest line that is in none of these packages."""
    level = 2
    frame = sys._getframe(1)
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
