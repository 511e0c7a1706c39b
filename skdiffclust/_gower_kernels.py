"""Gower's distance, compiled: blocks of contiguous columns, one feature at a time."""

import numpy as np

from skdiffclust._compiled import compiled, inner

_BLOCK = 512


@inner
def sums_to_block(row, columns, start, is_category, gaps, values):
    """Write the sums (b,) of the features' distances from a row to a block of columns.

    row (d,) and columns (d, m) are encoded, of which the block begins at `start`; gaps
    (d,) is what a missing value adds. Rows that are equal, including their gaps, are at
    distance 0.
    """
    width = len(values)
    own = 0.0
    values[:] = 0.0
    for f in range(len(row)):
        p = row[f]
        gap = gaps[f]
        column = columns[f, start : start + width]
        if np.isnan(p):
            own += gap
            for j in range(width):
                values[j] += gap
        elif is_category[f]:
            for j in range(width):
                q = column[j]
                part = 1.0 if q != p else 0.0
                values[j] += gap if q != q else part
        else:
            for j in range(width):
                part = abs(column[j] - p)
                values[j] += gap if part != part else part
    if own > 0.0:
        # Rows whose gaps are the only difference: nearly none, but for equal rows.
        for j in range(width):
            if values[j] == own and _are_equal(row, columns, start + j):
                values[j] = 0.0


@inner
def _are_equal(row, columns, j):
    """Whether a column is equal to a row, NaN to NaN."""
    for f in range(len(row)):
        q = columns[f, j]
        if row[f] != q and not (np.isnan(row[f]) and np.isnan(q)):
            return False
    return True


@compiled(nogil=True)
def fill_distances(rows, columns, is_category, gaps, found, first, last):
    """Write the distances (m, k) of the rows first <= i < last (m, d) to columns."""
    d, k = columns.shape
    for i in range(first, last):
        for start in range(0, k, _BLOCK):
            stop = min(start + _BLOCK, k)
            values = found[i, start:stop]
            sums_to_block(rows[i], columns, start, is_category, gaps, values)
            for j in range(stop - start):
                values[j] /= d


@compiled(nogil=True)
def find_nearest(rows, columns, is_category, gaps, indices, distances, first, last):
    """Write the nearest columns of rows first <= i < last, by (distance, index)."""
    d, k = columns.shape
    most = indices.shape[1]
    block = np.empty(_BLOCK)
    for i in range(first, last):
        n_found = 0
        farthest = np.inf
        for start in range(0, k, _BLOCK):
            stop = min(start + _BLOCK, k)
            values = block[: stop - start]
            sums_to_block(rows[i], columns, start, is_category, gaps, values)
            for j in range(stop - start):
                value = values[j] / d
                # Neighbours at equal distances stay in the order of finding.
                if n_found == most and value >= farthest:
                    continue
                place = n_found if n_found < most else most - 1
                while place > 0 and distances[i, place - 1] > value:
                    distances[i, place] = distances[i, place - 1]
                    indices[i, place] = indices[i, place - 1]
                    place -= 1
                distances[i, place] = value
                indices[i, place] = start + j
                n_found = min(n_found + 1, most)
                farthest = distances[i, most - 1] if n_found == most else np.inf
