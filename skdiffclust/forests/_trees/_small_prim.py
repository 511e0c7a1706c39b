"""Prim's algorithm in NumPy: for few samples, without compilation."""

import numpy as np


def prim(lengths_from, rows, nodes):
    """Return the edges of the minimum spanning forest of `rows`.

    Rows with the same id in `nodes` (n,) count as one vertex. ``lengths_from(i,
    others)`` gives the lengths of the edges from row i to `others`, infinite where
    there is no edge. Ties go to the smaller pair (i, j) with i < j, which makes the
    forest unique. Returns edges (m, 2) with i < j and their lengths (m,); m is the
    number of vertices less the number of connected components. O(n²) time, O(n) memory.
    """
    edges = []
    lengths = []
    waiting = rows
    shortest = np.full(len(rows), np.inf)
    nearest = np.full(len(rows), -1)
    arriving = rows[0]
    while True:
        joined = nodes[waiting] == nodes[arriving]
        arrivals = waiting[joined]
        waiting, shortest, nearest = (a[~joined] for a in (waiting, shortest, nearest))
        if not len(waiting):
            break
        for i in arrivals:
            measured = lengths_from(i, waiting)
            # For a fixed end j, (i, j) precedes (i', j) exactly when i < i'.
            closer = (measured < shortest) | ((measured == shortest) & (i < nearest))
            shortest[closer] = measured[closer]
            nearest[closer] = i
        at = _first(shortest, nearest, waiting)
        arriving = waiting[at]
        if shortest[at] < np.inf:
            edges.append((arriving, nearest[at]))
            lengths.append(shortest[at])
    edges = np.sort(np.array(edges, dtype=np.int64).reshape(-1, 2), axis=1)
    return edges, np.array(lengths, dtype=np.float64)


def _first(shortest, nearest, waiting):
    """Return the position of the first edge in the order (length, smaller, larger)."""
    ties = np.flatnonzero(shortest == shortest.min())
    if len(ties) == 1:
        return ties[0]
    pairs = np.sort([nearest[ties], waiting[ties]], axis=0)
    return ties[np.lexsort((pairs[1], pairs[0]))[0]]
