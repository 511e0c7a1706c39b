"""Groups of equal rows."""

from functools import cache

import numpy as np
from scipy.sparse import issparse

# Largest number of columns that are hashed.
_HASHED = 32


def equal_rows(X):
    """Return the group (n,) int64 of each row; equal rows are a group.

    Groups are numbered from 0 in the order of their first rows. Sparse X must be
    canonical, see `_validation.canonical_rows`.
    """
    if not issparse(X):
        return np.unique(first_equal(X), return_inverse=True)[1]
    numbers = {}
    groups = np.empty(X.shape[0], dtype=np.int64)
    for i, (start, stop) in enumerate(zip(X.indptr[:-1], X.indptr[1:], strict=True)):
        row = X.indices[start:stop].tobytes(), X.data[start:stop].tobytes()
        groups[i] = numbers.setdefault(row, len(numbers))
    return groups


def first_equal(X):
    """Return the first row (n,) int64 that is equal to each row of dense X (n, d).

    O(n d + n log n). 0.0 and -0.0 are equal, as are NaN of the same bits.
    """
    hashes = _hashes(X)
    hashes = (hashes ^ hashes >> np.uint64(32)).astype(np.uint32)
    firsts = np.arange(len(X))
    order = order_of(hashes, 2)
    ordered = hashes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    if len(starts) == len(X):
        return firsts
    sizes = np.diff(starts, append=len(X))
    firsts[order] = np.repeat(np.minimum.reduceat(order, starts), sizes)
    # Nearly all rows with the hash of another one are equal to the first such row.
    others = np.flatnonzero(firsts != np.arange(len(X)))
    differs = others[(X[others] != X[firsts[others]]).any(axis=1)]
    numbers = {}
    for group_of in np.unique(firsts[differs]):
        numbers.setdefault((X[group_of] + 0.0).tobytes(), group_of)
    for i in differs:
        firsts[i] = numbers.setdefault((X[i] + 0.0).tobytes(), i)
    return firsts


def order_of(numbers, n_digits):
    """Return the permutation that sorts unsigned integers (n,), stable, in linear time.

    They are sorted by their lowest `n_digits` digits of 16 bits, one digit after the
    other.
    """
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    for digit in range(1, n_digits):
        digits = (numbers >> numbers.dtype.type(16 * digit)).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def first_duplicates(X, n_kept):
    """Return the ascending indices of the first `n_kept` of each group of equal rows.

    X (n, d) is dense. The `n_kept` nearest rows of any row are among these. With all
    rows, data with many duplicates would have ties in every pair.
    """
    groups = equal_rows(X)
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups))
    rank = np.arange(len(X)) - np.concatenate([[0], ends[:-1]])[groups[order]]
    return np.sort(order[rank < n_kept])


def _hashes(X):
    """Return a hash (n,) uint64 of each row, of at most `_HASHED` columns."""
    # Adding 0 makes 0.0 of -0.0.
    columns = np.ascontiguousarray(X[:, :: max(1, X.shape[1] // _HASHED)]) + 0.0
    if columns.dtype == np.float64:
        bits = columns.view(np.uint64)
        # The low bits of whole numbers are zero.
        bits ^= bits >> np.uint64(32)
    else:
        bits = columns.view(np.uint32)
    # Sums that wrap around are exact: equal rows have equal sums.
    return bits.astype(np.uint64, copy=False) @ _factors(bits.shape[1])


@cache
def _factors(n_columns):
    """Return random odd numbers (n_columns,) uint64, the same in all processes."""
    factors = np.random.RandomState(0).randint(1, 2**31, size=n_columns) * 2 + 1
    return factors.astype(np.uint64)
