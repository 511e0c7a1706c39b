"""Gower's distance between rows of numbers and categories, some of them missing.

Rows are encoded once into floats: numbers divided by their range, levels by their
number, gaps as NaN. Everything else reads the encoded rows.
"""

from dataclasses import dataclass
from functools import partial
from numbers import Number

import numpy as np

from skdiffclust._compat import effective_n_threads
from skdiffclust._threads import run_chunks

# Distances of features between two checks for an interruption: about 0.1 s.
_DIFFERENCES_PER_CHUNK = 2**27


@dataclass(frozen=True, eq=False)
class GowerEncoder:
    """How the columns of the training samples become floats, and are compared.

    Attributes
    ----------
    names : list
        Columns, for messages.
    levels : list of dict or None
        Numbers of the levels of each column of categories; None for numbers.
    lows, ranges : ndarray of shape (d,), float64
        Smallest value and range of each column of numbers; 0 and 1 of others, and a
        range of infinity where all values are equal.
    gaps : ndarray of shape (d,), float64
        What a missing value adds: the mean distance of the feature.
    """

    names: list
    levels: list
    lows: np.ndarray
    ranges: np.ndarray
    gaps: np.ndarray

    @property
    def is_category(self):
        """Whether each column (d,) holds categories."""
        return np.array([levels is not None for levels in self.levels])

    def encode(self, X):
        """Return the rows of a frame or array X as floats (n, d)."""
        columns = read_columns(X, self.is_category)
        encoded = [
            _encode(values, is_gap, levels, low, range_)
            for (_, values, is_gap), levels, low, range_ in zip(
                columns, self.levels, self.lows, self.ranges, strict=True
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

        Indices (m, n_neighbors) and distances, in the order (distance, index). O(m k d)
        time, O(m n_neighbors + k d) memory.
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
        Samples of weight 0 count for nothing.

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
    ranges = np.ones(len(columns))
    encoded = np.empty((n_samples, len(columns)))
    for j, (_, values, is_gap) in enumerate(columns):
        known = values[counted & ~is_gap]
        levels.append(None)
        if is_category[j]:
            levels[j] = {level: code for code, level in enumerate(dict.fromkeys(known))}
        elif len(known):
            lows[j] = known.min()
            # Halves, since the difference of two numbers may overflow.
            half = known.max() / 2 - lows[j] / 2
            ranges[j] = 2 * half if half > 0 else np.inf
        encoded[:, j] = _encode(values, is_gap, levels[j], lows[j], ranges[j])
    gaps = _mean_distances(encoded[counted], is_category, weights[counted])
    encoder = GowerEncoder([name for name, *_ in columns], levels, lows, ranges, gaps)
    return encoder, encoded


def _encode(values, is_gap, levels, low, range_):
    """Return values (n,) of a column as floats (n,), NaN where one is missing."""
    if levels is None:
        return np.where(is_gap, np.nan, (values / 2 - low / 2) / (range_ / 2))
    # A level that training does not have equals none of those.
    codes = [
        np.nan if gap else levels.get(v, -1)
        for v, gap in zip(values, is_gap, strict=True)
    ]
    return np.array(codes, dtype=np.float64)


def _mean_distances(encoded, is_category, weights):
    """Return the mean distance (d,) of each feature over pairs of samples that know it.

    Pairs of different samples: equal ones count as one, whose weights add up.
    """
    samples, groups = np.unique(encoded, axis=0, return_inverse=True)
    weights = np.bincount(groups.ravel(), weights)
    means = np.zeros(encoded.shape[1])
    for j, values in enumerate(samples.T):
        is_known = ~np.isnan(values)
        known = values[is_known]
        w = weights[is_known]
        n_pairs = (w.sum() ** 2 - (w**2).sum()) / 2
        if n_pairs <= 0:
            continue
        if is_category[j]:
            sizes = np.bincount(np.unique(known, return_inverse=True)[1], w)
            total = (w.sum() ** 2 - (sizes**2).sum()) / 2
        else:
            order = np.argsort(known)
            below = np.cumsum(w[order])
            # Between two neighbours on the line lie these pairs.
            total = (np.diff(known[order]) * (below * (below[-1] - below))[:-1]).sum()
        means[j] = total / n_pairs
    return means


def categorical_mask(X, categorical_features):
    """Return which columns (d,) of X are categories, by the parameter of that name."""
    names = list(getattr(X, "columns", ()))
    n_features = len(names) or np.shape(X)[1]
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        return np.array([_is_category(X, j) for j in range(n_features)], dtype=bool)
    given = np.asarray(categorical_features)
    if given.dtype == bool and given.shape == (n_features,):
        return given
    mask = np.zeros(n_features, dtype=bool)
    if given.ndim == 1 and given.dtype.kind in "OUT" and set(given) <= set(names):
        mask[[names.index(name) for name in given]] = True
        return mask
    is_index = given.ndim == 1 and (given.dtype.kind in "iu" or not given.size)
    if is_index and (np.abs(given + 0.5) < n_features).all():
        mask[given.astype(np.int64)] = True
        return mask
    raise ValueError(
        "The 'categorical_features' parameter must be 'from_dtype', a mask, indices or "
        f"names of the {n_features} columns. Got {categorical_features!r} instead."
    )


def _is_category(X, j):
    """Whether a column of a frame has a type of categories; False for arrays."""
    if not hasattr(X, "columns"):
        return False
    kind = _kind(_column(X, j))
    return kind.startswith(
        ("object", "str", "cat", "enum", "bool", "dictionary", "large_string")
    )


def _column(X, j):
    """Return a column of a data frame of pandas or polars."""
    return X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]


def _kind(column):
    """Return the name of the type of a column."""
    return str(column.dtype).lower()


def read_columns(X, is_category):
    """Return the columns of X (n, d): names, values (n,), and which are missing (n,).

    Values are float64, or objects where is_category (d,) says so.
    """
    if not hasattr(X, "columns"):
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(
                "The 'X' parameter must have two dimensions, samples and features. Got "
                f"shape {X.shape} instead."
            )
    d = len(X.columns) if hasattr(X, "columns") else X.shape[1]
    if d != len(is_category):
        raise ValueError(
            f"The 'X' parameter must have {len(is_category)} features, as in fit. Got "
            f"{d} instead."
        )
    return [_read_column(X, j, is_category[j]) for j in range(d)]


def _read_column(X, j, is_category):
    """Return the name, values and gaps of a column of X."""
    name = X.columns[j] if hasattr(X, "columns") else j
    column = _column(X, j) if hasattr(X, "columns") else X[:, j]
    if hasattr(column, "isna"):
        is_gap = np.asarray(column.isna(), dtype=bool)
        entries = np.asarray(column, dtype=object)
    elif hasattr(column, "is_null"):
        is_gap = column.is_null().to_numpy()
        entries = np.array([*column.to_list(), None], dtype=object)[:-1]
    else:
        entries = column
        is_gap = np.zeros(len(column), dtype=bool)
    if entries.dtype.kind in "fO":
        # Only NaN differs from itself; None and the gaps of pandas have been seen.
        entries = (
            np.where(is_gap, None, entries) if entries.dtype == object else entries
        )
        is_gap = is_gap | (entries == None) | (entries != entries)  # noqa: E711
    is_gap = is_gap.astype(bool)
    if is_category:
        numbers = [
            v
            for v in entries[~is_gap][:1000]
            if isinstance(v, Number) and not isinstance(v, bool | np.bool_)
        ]
        if numbers and hasattr(column, "dtype") and _kind(column) == "object":
            raise ValueError(
                "The columns of numbers of the 'X' parameter must have a numeric type. "
                f"Got {name!r} of type object with {numbers[0]!r} instead. Convert it "
                "with pandas.to_numeric, or to strings if its numbers are names."
            )
        return name, entries, is_gap
    try:
        values = np.where(is_gap, np.nan, entries).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "The columns of the 'X' parameter that are no categories must be numbers. "
            f"Got {name!r} of type {column.dtype} instead. Name categories in "
            "'categorical_features', and convert dates to days."
        ) from error
    if not np.isfinite(values[~is_gap]).all():
        raise ValueError(
            f"The 'X' parameter must be finite where it is not missing. Got infinity "
            f"in column {name!r} instead."
        )
    return name, values, is_gap
