"""The minimum spanning forest of any metric, a block of distances at a time.

An algorithm beside those of the other modules, which `_solve` chooses from.
"""

import numpy as np

from skdiffclust._threads import run_chunks
from skdiffclust.forests._trees._kruskal import merge_edges
from skdiffclust.forests._trees._prim import prim_on_matrix

# Samples in a block: a pair of blocks takes a matrix of 8 MB.
_ROWS = 512
# Edge lists are merged once they hold this many edges per sample.
_WAITING = 6


def edges_by_blocks(between, vertices, n_threads):
    """Return edges (m, 2) and lengths (m,) of the minimum spanning forest of n rows.

    ``between(rows, others)`` gives the lengths between two sets of rows; rows with the
    same id in `vertices` (n,), ids 0 up, count as one. No length is computed twice,
    except those inside a block. O(n²) lengths, O(n) memory.
    """
    n_samples = len(vertices)
    n_blocks = -(-n_samples // _ROWS)
    blocks = np.array_split(np.arange(n_samples), n_blocks)
    forests = []
    n_waiting = 0
    for b, second in enumerate(blocks):
        trees = [None] * (b + 1)

        def grow(first, last, second=second, trees=trees):
            for t in range(first, last):
                trees[t] = _edges_between(between, blocks[t], second, vertices)

        run_chunks(grow, b + 1, (), n_threads)
        forests += trees
        n_waiting += sum(len(edges) for edges, _ in trees)
        if n_waiting > _WAITING * n_samples:
            forests = [merge_edges(forests, vertices)]
            n_waiting = 0
    return merge_edges(forests, vertices)


def _edges_between(between, first, second, vertices):
    """Return the minimum spanning forest of the edges between two blocks, or in one."""
    lengths = between(first, second)
    rows = second
    if first is not second:
        n_first = len(first)
        rows = np.concatenate([first, second])
        matrix = np.full((len(rows), len(rows)), np.inf)
        matrix[:n_first, n_first:] = lengths
        matrix[n_first:, :n_first] = lengths.T
        lengths = matrix
    _, nodes = np.unique(vertices[rows], return_inverse=True)
    edges, values = prim_on_matrix(lengths, nodes)
    return rows[edges], values
