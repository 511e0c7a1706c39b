"""Tables of numbers and categories: which columns are which, and their values."""

from numbers import Number

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from skdiffclust._validation import NOT_NUMBERS, refuse_container

# Beginnings of the names of types of categories, in pandas and polars, and of Arrow.
_CATEGORIES = (
    "object",
    "string",
    "large_string",
    "cat",
    "enum",
    "bool",
    "dictionary",
)


def check_table(estimator, X, *, reset=True):
    """Return X as a data frame of pandas or polars, or as an array of any type.

    The names of the columns and their number are checked here; the columns themselves
    are checked when they are read.
    """
    name = type(estimator).__name__
    refuse_container(X)
    if issparse(X):
        raise ValueError(
            f"The 'X' parameter of {name} must be dense with metric='gower'. Got a "
            f"sparse matrix, {type(X).__name__}, instead. Use X.toarray() if it is "
            "small, or another metric."
        )
    if hasattr(type(X), "columns"):
        if not (hasattr(X, "iloc") or hasattr(X, "get_column_index")):
            raise ValueError(
                f"The 'X' parameter of {name} must be an array, or a data frame of "
                f"pandas or polars. Got {type(X).__module__}.{type(X).__name__} "
                "instead. Collect or convert it first."
            )
        if not min(X.shape):
            raise ValueError(
                f"The 'X' parameter of {name} must have samples and features. Got "
                f"shape {X.shape} instead."
            )
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return X
    if not hasattr(X, "dtype"):
        # NumPy would make strings of the numbers beside them.
        as_array = np.asarray(X)
        X = np.array(X, dtype=object) if as_array.dtype.kind in "US" else as_array
    return validate_data(
        estimator, X, reset=reset, dtype=None, ensure_all_finite="allow-nan"
    )


def categorical_mask(X, categorical_features):
    """Return which columns (d,) of X are categories, by the parameter of that name."""
    names = list(getattr(X, "columns", ()))
    n_features = len(names) or np.shape(X)[1]
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        return np.array([_is_category(X, j) for j in range(n_features)], dtype=bool)
    given = np.asarray([] if categorical_features is None else categorical_features)
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
    """Whether a column of a frame has a type of categories; False for arrays.

    Columns of objects that are numbers are refused: pandas makes such columns of
    integers and None.
    """
    if not hasattr(X, "columns"):
        return False
    column = _column(X, j)
    kind = str(column.dtype).lower()
    if kind == "object":
        entries, is_gap = _entries(column)
        numbers = (v for v in entries[~is_gap] if _is_number(v))
        number = next(numbers, None)
        if number is not None:
            raise ValueError(
                "The columns of numbers of the 'X' parameter must have a numeric type. "
                f"Got {X.columns[j]!r} of type object with {number!r} instead. Convert "
                "it with pandas.to_numeric, or to strings if its numbers are names."
            )
    return kind == "str" or kind.startswith(_CATEGORIES)


def _is_number(value):
    """Whether a value is a number, and no Boolean."""
    return isinstance(value, Number) and not isinstance(value, bool | np.bool_)


def _column(X, j):
    """Return a column of an array, or of a data frame of pandas or polars."""
    return X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]


def read_columns(X, is_category):
    """Return the columns of X (n, d): names, values (n,), and which are missing (n,).

    Values are float64, or objects where is_category (d,) says so.
    """
    names = getattr(X, "columns", range(len(is_category)))
    return [
        (name, *_read_column(_column(X, j), name, is_category[j]))
        for j, name in enumerate(names)
    ]


def _read_column(column, name, is_category):
    """Return the values (n,) of a column, and which are missing (n,)."""
    entries, is_gap = _entries(column)
    if is_category:
        return entries, is_gap
    is_numeric = entries.dtype.kind in "biuf" or not any(
        isinstance(entry, NOT_NUMBERS) for entry in entries
    )
    try:
        values = np.where(is_gap, np.nan, entries).astype(np.float64)
    except (TypeError, ValueError):
        is_numeric = False
    if not is_numeric:
        raise ValueError(
            "The columns of the 'X' parameter that are no categories must be numbers. "
            f"Got {name!r} of type {column.dtype} instead. Convert dates and times to "
            "numbers, for instance to days; categories of an array are named by "
            "'categorical_features'."
        )
    if not np.isfinite(values[~is_gap]).all():
        raise ValueError(
            "The 'X' parameter must be finite where it is not missing. Got infinity "
            f"in column {name!r} instead."
        )
    return values, is_gap


def levels_of(name, entries, is_gap):
    """Return the different entries (n,) that are not missing, in the order of text."""
    try:
        return sorted(set(entries[~is_gap].tolist()), key=str)
    except TypeError as error:
        raise ValueError(
            "The columns of the 'X' parameter that are categories must have levels "
            f"that can be compared. Got {name!r} with others instead: {error}. Convert "
            "them to strings."
        ) from error


def _entries(column):
    """Return the entries (n,) of a column, and which of them are missing (n,).

    A missing entry is None in the result.
    """
    if hasattr(column, "is_null"):
        entries = np.array([*column.to_list(), None], dtype=object)[:-1]
    else:
        entries = np.asarray(column)
    if entries.dtype.kind == "f":
        return entries, np.isnan(entries)
    if hasattr(column, "isna") and entries.dtype.kind not in "biu":
        entries = np.asarray(column, dtype=object)
    if entries.dtype != object:
        return entries, np.zeros(len(entries), dtype=bool)
    is_gap = np.array([_is_missing(entry) for entry in entries], dtype=bool)
    return np.where(is_gap, None, entries), is_gap


def _is_missing(value):
    """Whether a value is None, or not equal to itself, as NaN, NaT and pandas.NA."""
    is_equal = value == value
    return value is None or not isinstance(is_equal, bool | np.bool_) or not is_equal
