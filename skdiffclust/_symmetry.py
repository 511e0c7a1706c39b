"""Whether a large matrix is finite and symmetric, in one pass over its memory."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust._threads import run_chunks, thread_count

# Rows and columns of a tile, which fits the second cache together with its transpose.
_TILE = 256
_WITHOUT_SIGN = np.iinfo(np.int64).max
_INFINITY = int(np.array(np.inf).view(np.int64))


def is_finite_and_symmetric(D):
    """Whether C-contiguous float64 D (n, n) is finite and equals its transpose in bits.

    False also where only signs of zeros differ. O(n²) time, O(n) memory.
    """
    n_strips = -(-len(D) // _TILE)
    differences = np.zeros(n_strips, dtype=np.int64)
    largest = np.zeros(n_strips, dtype=np.int64)
    bits = D.view(np.int64)
    arguments = (bits, bits.T, differences, largest)
    run_chunks(compare_strips, n_strips, arguments, thread_count(None))
    return not differences.any() and largest.max(initial=0) < _INFINITY


@compiled(nogil=True)
def compare_strips(first, last, bits, mirror, differences, largest):
    """Compare tiles right of the diagonal with the transposed ones, by their bits.

    For strips first <= s < last of rows; ``differences[s]`` is zero where all agree,
    ``largest[s]`` the largest magnitude there, as bits.
    """
    n = len(bits)
    for strip in range(first, last):
        difference = np.int64(0)
        top = np.int64(0)
        start = strip * _TILE
        stop = min(start + _TILE, n)
        for left in range(start, n, _TILE):
            right = min(left + _TILE, n)
            for i in range(start, stop):
                # Slices, because indices are checked for being negative.
                own = bits[i, left:right]
                other = mirror[i, left:right]
                for k in range(len(own)):
                    difference |= own[k] ^ other[k]
                    top = max(top, own[k] & _WITHOUT_SIGN)
        differences[strip] = difference
        largest[strip] = top
