"""Kruskal compiled: rows that are one vertex, and missing edges.

Its trees of whole matrices and graphs are in `test_algorithms.py`.
"""

import numpy as np

from skdiffclust.forests._trees._kruskal import kruskal


def test_rows_of_one_node_are_one_vertex_and_infinite_edges_are_none():
    first, second = np.triu_indices(4, 1)
    lengths = np.array([1.0, 5.0, 4.0, 3.0, 6.0, np.inf])
    chosen = kruskal(first, second, lengths, np.array([0, 0, 1, 2]))
    assert sorted(chosen) == [2, 3]
    alone = kruskal(first, second, np.full(6, np.inf), np.arange(4))
    assert len(alone) == 0
