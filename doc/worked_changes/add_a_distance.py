"""A new distance for forests: the Hellinger distance of histograms.

.. math:: d(p, q) = \\frac{1}{\\sqrt 2} \\| \\sqrt p - \\sqrt q \\|_2

Below stands all that it takes. ``tests/test_worked_changes.py`` imports this file, puts
the row into the registry and compares trees and predictions with brute force.
"""

import numpy as np

from skdiffclust._pairwise import EuclideanForm


# In skdiffclust/_pairwise.py, before EUCLIDEAN_FORMS:
def root_halves(squares):
    """Return the Hellinger distances for squared distances of square roots."""
    return np.sqrt(0.5 * squares)


# The row of EUCLIDEAN_FORMS: what samples become, and the way back from their squared
# distances. The name is then a metric of SpanningForestClustering, with all of its
# algorithms and `predict`, and of minimum_spanning_tree.
ROW = {"hellinger": EuclideanForm(np.sqrt, root_halves)}


# In tests/test_pairwise.py, a row of the oracles:
def hellinger(p, q):
    """Return the Hellinger distance of two histograms (d,)."""
    return np.sqrt(0.5 * np.sum((np.sqrt(p) - np.sqrt(q)) ** 2))
