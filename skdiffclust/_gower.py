"""Gower's distance between rows of numbers and categories, some of them missing.

Rows are encoded once into floats: numbers divided by their range, levels by their
number, gaps as NaN. Everything else reads the encoded rows.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from skdiffclust._columns import categorical_mask, levels_of, read_columns
from skdiffclust._compat import effective_n_threads
from skdiffclust._duplicates import equal_rows
from skdiffclust._threads import run_chunks

# Distances of features between two checks for an interruption: about 0.1 s.
_DIFFERENCES_PER_CHUNK = 2**27


@dataclass(frozen=True, eq=False)
class GowerEncoder:
    """How the columns of the training samples become floats, and are compared.

    Attributes
    ----------
    levels : list of list or None
        Levels of each column of categories, in the order of their numbers; None for
        numbers.
    lows, half_ranges : ndarray of shape (d,), float64
        Smallest value and half the range of each column of numbers; 0 and 1 of others,
        and a range of infinity where all values are equal.
    gaps : ndarray of shape (d,), float64
        What a missing value adds: the mean distance of the feature.
    """

    levels: list
    lows: np.ndarray
    half_ranges: np.ndarray
    gaps: np.ndarray

    @property
    def is_category(self):
        """Whether each column (d,) holds categories."""
        return np.array([levels is not None for levels in self.levels])

    def encode(self, X):
        """Return the rows of a frame or array X as floats (n, d)."""
        columns = read_columns(X, self.is_category)
        encoded = [
            _encode(values, is_gap, *column)
            for (_, values, is_gap), *column in zip(
                columns, self.levels, self.lows, self.half_ranges, strict=True
            )
        ]
        return np.column_stack(encoded)

    def between(self, rows, others):
        """Return the distances (m, k) between encoded rows (m, d) and others (k, d)."""
        from skdiffclust._gower_kernels import fill_distances

        columns = np.ascontiguousarray(others.T)
        found = np.empty((len(rows), len(others)))
        fill = partial(fill_distances, rows, columns, self.is_category, self.gaps)
        self._by_chunks(lambda first, last: fill(found, first, last), found.size, rows)
        return found

    def nearest(self, rows, others, n_neighbors, n_jobs=None):
        """Return the nearest of others (k, d) to each of encoded rows (m, d).

        They are indices (m, n_neighbors) and distances, in the order (distance, index).
        O(m k d) time, O(m n_neighbors + k d) memory.
        """
        from skdiffclust._gower_kernels import find_nearest

        columns = np.ascontiguousarray(others.T)
        indices = np.empty((len(rows), n_neighbors), dtype=np.int64)
        distances = np.empty((len(rows), n_neighbors))
        find = partial(find_nearest, rows, columns, self.is_category, self.gaps)
        self._by_chunks(
            lambda first, last: find(indices, distances, first, last),
            len(rows) * len(others),
            rows,
            n_jobs,
        )
        return indices, distances

    def _by_chunks(self, kernel, n_pairs, rows, n_jobs=1):
        """Call a kernel for ranges of the rows, between which Ctrl-C is noticed."""
        work = n_pairs * rows.shape[1]
        n_threads = effective_n_threads(n_jobs) if work > _DIFFERENCES_PER_CHUNK else 1
        size = max(1, int(len(rows) * _DIFFERENCES_PER_CHUNK / max(work, 1)))
        run_chunks(kernel, len(rows), (), n_threads, size)


def gower_encoder(X, categorical_features="from_dtype", sample_weight=None):
    """Return the GowerEncoder of training samples X (n, d), and the encoded rows.

    Parameters
    ----------
    X : data frame or array-like of shape (n, d)
    categorical_features : "from_dtype", array-like of bool (d,), int or str
        As of SpanningForestClustering.
    sample_weight : ndarray of shape (n,) or None
        Samples of weight 0 count neither in ranges nor in mean distances.

    Returns
    -------
    encoder : GowerEncoder
    encoded : ndarray of shape (n, d), float64
    """
    is_category = categorical_mask(X, categorical_features)
    columns = read_columns(X, is_category)
    n_samples = len(columns[0][1])
    weights = np.ones(n_samples) if sample_weight is None else sample_weight
    counted = weights > 0
    levels = []
    lows = np.zeros(len(columns))
    half_ranges = np.ones(len(columns))
    encoded = np.empty((n_samples, len(columns)))
    for j, (name, values, is_gap) in enumerate(columns):
        known = values[counted & ~is_gap]
        levels.append(None)
        if is_category[j]:
            levels[j] = levels_of(name, values, is_gap)
        elif len(known):
            lows[j] = known.min()
            # Halves, since the difference of two numbers may overflow.
            half_ranges[j] = (known.max() / 2 - lows[j] / 2) or np.inf
        encoded[:, j] = _encode(values, is_gap, levels[j], lows[j], half_ranges[j])
    gaps = _mean_distances(encoded[counted], is_category, weights[counted])
    return GowerEncoder(levels, lows, half_ranges, gaps), encoded


def _encode(values, is_gap, levels, low, half_range):
    """Return values (n,) of a column as floats (n,), NaN where one is missing."""
    if levels is None:
        return np.where(is_gap, np.nan, (values / 2 - low / 2) / half_range)
    codes = {level: code for code, level in enumerate(levels)}
    # A level that training does not have equals none of those.
    codes = [
        np.nan if gap else codes.get(v, -1)
        for v, gap in zip(values.tolist(), is_gap, strict=True)
    ]
    return np.array(codes, dtype=np.float64)


def _mean_distances(encoded, is_category, weights):
    """Return each feature's mean distance (d,) over the pairs of samples that have it.

    Equal samples are no pair: they count as one sample, whose weights add up.
    """
    groups = equal_rows(encoded)
    samples = encoded[np.unique(groups, return_index=True)[1]]
    weights = np.bincount(groups, weights)
    means = np.zeros(encoded.shape[1])
    for j, values in enumerate(samples.T):
        is_known = ~np.isnan(values)
        order = np.argsort(values[is_known])
        known = values[is_known][order]
        w = weights[is_known][order]
        if is_category[j]:
            total = _sum_of_pairs(np.bincount(known.astype(np.int64), w))
        else:
            # Between two neighbours on the line lie these pairs.
            below = np.cumsum(w)[:-1]
            above = np.cumsum(w[::-1])[::-1][1:]
            total = (np.diff(known) * below * above).sum()
        if len(known) > 1:
            means[j] = total / _sum_of_pairs(w)
    return means


def _sum_of_pairs(weights):
    """Return the sum over all pairs of the products of two weights."""
    return (weights[1:] * np.cumsum(weights[:-1])).sum()
