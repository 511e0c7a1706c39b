"""Prim in NumPy: rows that are one vertex, and missing edges.

Its trees of whole matrices are in `test_algorithms.py`.
"""

import numpy as np

from skdiffclust.forests._trees._distances import lengths_of_matrix
from skdiffclust.forests._trees._small_prim import prim


def prim_of(D, nodes=None):
    rows = np.arange(len(D))
    nodes = rows if nodes is None else nodes
    return prim(lengths_of_matrix(D).row, rows, nodes)


def test_rows_of_one_node_are_one_vertex():
    D = np.array(
        [
            [0.0, 9.0, 5.0, 8.0],
            [9.0, 0.0, 7.0, 1.0],
            [5.0, 7.0, 0.0, 6.0],
            [8.0, 1.0, 6.0, 0.0],
        ]
    )
    edges, lengths = prim_of(D, nodes=np.array([0, 0, 2, 3]))
    assert dict(zip(map(tuple, edges), lengths, strict=True)) == {
        (1, 3): 1.0,
        (0, 2): 5.0,
    }


def test_infinite_lengths_are_no_edges():
    D = np.full((4, 4), np.inf)
    D[0, 2] = D[2, 0] = 3.0
    D[1, 3] = D[3, 1] = 2.0
    assert sorted(map(tuple, prim_of(D)[0])) == [(0, 2), (1, 3)]
