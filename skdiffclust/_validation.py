"""Checks of samples and of memory for every estimator."""

import os
from datetime import date, timedelta
from numbers import Integral

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn import get_config
from sklearn.utils.validation import validate_data

from skdiffclust._compat import Interval, check_sample_weight
from skdiffclust._warnings import warn

# Types of entries that float() converts silently, or fails on.
NOT_NUMBERS = (
    str,
    bytes,
    complex,
    np.complexfloating,
    date,
    timedelta,
    np.datetime64,
    np.timedelta64,
)
_GIB = 2.0**30
_WARN_GIB = 2.0
# Sums of weights above one and squares of them are finite and not zero then.
_LEAST_WEIGHT = 1e-100
_MOST_WEIGHT = 1e100
_LEAST_SYMMETRIC = 5  # samples of a matrix that is symmetric by intention
# Of the range of the entries; distances of nearly equal samples lose half the digits.
_ROUNDING = 1e-6
_SHOWN = 40  # characters of a value in a message


def validate_rows(estimator, X, *, reset=True, **check_params):
    """Return X as a finite (n_samples, n_features) array of float64 or float32.

    Everything but float32 becomes float64, once. Text, dates, complex numbers and
    masked arrays, which NumPy would convert silently, are refused, and so is NaN unless
    ``ensure_all_finite="allow-nan"``. With False, entries are not checked. Other
    arguments are those of :func:`sklearn.utils.validation.validate_data`.
    """
    mixed = ", or set metric='gower'" if _takes(estimator, "metric", "gower") else ""
    refuse_silent_conversion(X, or_else=mixed)
    finite = check_params.pop("ensure_all_finite", True)
    if issparse(X) and X.dtype.kind in "biu":
        # A conversion to CSR adds repeated entries, in the type that they have.
        X = X.astype(np.float64)
    X = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan" if finite else False,
        **check_params,
    )
    if finite is True:
        _refuse_missing(estimator, X, mixed)
    if (
        reset
        and not estimator.__sklearn_tags__().input_tags.pairwise
        and _is_symmetric(X)
    ):
        options = [
            f"{name}='precomputed'"
            for name in ("affinity", "kernel", "metric")
            if _takes(estimator, name, "precomputed")
        ]
        remedy = " or ".join(options) or (
            "SpanningForestClustering with metric='precomputed', or GraphCutClustering "
            "with affinity='precomputed',"
        )
        warn(
            f"X is a symmetric matrix of {X.shape[0]} x {X.shape[1]} entries, which "
            f"{type(estimator).__name__} takes as features. Use {remedy} if it holds "
            "distances or affinities."
        )
    return X


def _takes(estimator, name, value):
    """Whether a parameter of an estimator may be this string."""
    rules = estimator._parameter_constraints.get(name, ())
    return any(repr(value) in str(rule) for rule in rules)


def _is_symmetric(X):
    """Whether X is symmetric up to rounding, of some size, and its pairs differ.

    Zeros and ones are symmetric by chance in less than one of 1000 such matrices.
    """
    if X.ndim != 2 or X.shape[0] != X.shape[1] or X.shape[0] < _LEAST_SYMMETRIC:
        return False
    if issparse(X):
        rows, columns = X.nonzero()
        # It is not only a diagonal, and its pairs are not all the same.
        n_pairs = np.count_nonzero(rows != columns)
        if not 0 < n_pairs < X.shape[0] * (X.shape[0] - 1):
            return False
        return abs(X - X.T).max() <= _ROUNDING * abs(X).max()
    if not (_are_close(X[0, 1:], X[1:, 0]) and _are_close(X, X.T)):
        return False
    others = X[~np.eye(len(X), dtype=bool)]
    return bool(others.min() < others.max())


def _are_close(A, B):
    """Whether finite arrays are equal up to rounding."""
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.abs(A - B).max() <= _ROUNDING * np.ptp(A))


def _refuse_missing(estimator, X, or_else):
    """Refuse NaN in X, with remedies; infinities are refused before.

    scikit-learn's own message proposes classifiers and regressors.
    """
    if get_config()["assume_finite"]:
        return
    values = X.data if issparse(X) else X
    # A finite sum shows, fast and without memory, that nothing is missing.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()) or not np.isnan(values).any():
            return
    name = type(estimator).__name__
    remedy = (
        "Impute them first, for instance with sklearn.impute.SimpleImputer or "
        "skdiffclust.AssociativeImputer, or drop these samples"
        f"{or_else}."
    )
    if estimator.__sklearn_tags__().input_tags.pairwise:
        remedy = (
            "Compute all entries of a dense matrix, and leave edges that do not exist "
            "out of a sparse one."
        )
    raise ValueError(
        f"Input X contains NaN.\n{name} does not accept missing values. {remedy}"
    )


def refuse_silent_conversion(X, *, name="X", or_else=""):
    """Refuse values that would silently become numbers, or lose a part.

    `or_else` is a further remedy for text.
    """
    refuse_container(X, name=name)
    # A pandas frame has `sparse` if all of its columns are.
    if issparse(X) or hasattr(X, "sparse"):
        return
    try:
        with np.errstate(invalid="raise"):
            values = np.asarray(X)
    except ValueError:  # ragged lists: check_array has a better message
        return
    except FloatingPointError as error:
        raise ValueError(
            f"The {name!r} parameter must have no missing values in integer "
            "categories, which pandas would convert to the smallest integer. Got such "
            "a column instead. Convert it first, for instance with "
            "X.astype({column: 'Int64'})."
        ) from error
    if values.dtype.kind not in "OcUSMm":
        return
    numbered = enumerate(values.flat)
    refused = ((i, value) for i, value in numbered if isinstance(value, NOT_NUMBERS))
    place, entry = next(refused, (None, None))
    if place is None:
        return
    what = _describe_entry(X, values, place)
    if isinstance(entry, (complex, np.complexfloating)):
        raise ValueError(
            f"The {name!r} parameter must be real. Got {what} instead. Complex data "
            "not supported: pass real and imaginary parts as two features."
        )
    remedy = "Convert dates and times to numbers first, for instance to days."
    if isinstance(entry, (str, bytes)):
        remedy = (
            "Encode categories as numbers first, for instance with "
            "sklearn.preprocessing.OneHotEncoder, and documents with "
            f"sklearn.feature_extraction.text.TfidfVectorizer{or_else}."
        )
    raise ValueError(
        f"The {name!r} parameter must be numeric. Got {what} instead. {remedy}"
    )


def _describe_entry(X, values, place):
    """Return the type, the beginning and the column of an entry of X, in words.

    `values` (n, d) are X as an array, and `place` the number of the entry in it.
    """
    entry = values.flat[place]
    kind = type(entry).__name__.removesuffix("_")
    if isinstance(entry, np.str_ | np.bytes_):
        entry = entry.item()
    text = repr(entry) if type(entry) in (str, bytes) else str(entry)
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]}…"
    column = place % values.shape[1] if values.ndim == 2 else 0
    names = getattr(X, "columns", range(column + 1))
    return f"the {kind} {text} in column {names[column]!r}"


def refuse_container(X, *, name="X"):
    """Raise ValueError if X is a container that would be misread.

    These are annotated data, which NumPy would read entry by entry for minutes, masked
    arrays, whose mask would be lost silently, and sparse matrices with indices outside
    their shape, which compiled code would follow out of the memory of X.
    """
    # The columns of a data frame, of which one may have this name, are attributes too.
    if hasattr(X, "obsm") and not hasattr(X, "columns"):
        raise ValueError(
            f"The {name!r} parameter must be an array. Got {type(X).__name__} instead, "
            "annotated data of several arrays. Pass one of them, for instance "
            'adata.obsm["X_pca"].'
        )
    refuse_indices(X, name=name)
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError(
            f"The {name!r} parameter must be a plain array. Got a masked array "
            "instead. Fill or drop the masked entries first, e.g. X.filled(0)."
        )


def refuse_indices(X, *, name="X"):
    """Raise ValueError if X is sparse and has indices outside its shape.

    SciPy's `check_format(full_check=True)` does so as well, but not every format has
    it, and it may write into X.
    """
    if not issparse(X):
        return
    if X.format == "coo":
        axes = zip(X.coords, X.shape, strict=True)
        is_valid = all(
            len(ends) == len(X.data) and _are_below(ends, size) for ends, size in axes
        )
    elif X.format in ("csr", "csc", "bsr"):
        shape = np.array([1, *X.shape][-2:]) // getattr(X, "blocksize", 1)
        n_rows, n_columns = shape[::-1] if X.format == "csc" else shape
        starts = X.indptr
        n_stored = min(len(X.indices), len(X.data))
        is_valid = (
            len(starts) == n_rows + 1
            and starts[0] == 0
            and _are_below(starts, n_stored + 1)
            and np.all(starts[1:] >= starts[:-1])
            and _are_below(X.indices[: starts[-1]], n_columns)
        )
    else:
        refuse_indices(X.tocsr(), name=name)
        return
    if not is_valid:
        raise ValueError(
            f"The {name!r} parameter must have indices inside its shape, {X.shape}, if "
            f"it is sparse. Got a {type(X).__name__} with others instead. Create it "
            "again from its rows, columns and values, e.g. by coo_array; its method "
            "check_format(full_check=True) says what is wrong."
        )


def _are_below(indices, size):
    """Whether indices are integers from 0 to below a size."""
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        return False
    return not len(indices) or (indices.min() >= 0 and indices.max() < size)


def sample_weights(sample_weight, X):
    """Return the weights (n,) of samples X, float64 and not negative; ones for None.

    Where the largest is too small or large to count with, all are multiplied by a power
    of two that makes it about one: only their ratios are used then.
    """
    weights = check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    largest = weights.max()
    if _LEAST_WEIGHT <= largest <= _MOST_WEIGHT:
        return weights
    return np.ldexp(weights, -np.frexp(largest)[1])


def refuse_many_clusters(name, n_clusters, n_samples):
    """Refuse more clusters than samples; "auto" and None are no number of clusters."""
    if isinstance(n_clusters, Integral) and n_clusters > n_samples:
        raise ValueError(
            f"The 'n_clusters' parameter of {name} must be at most the number of "
            f"samples, n_samples={n_samples}. Got {n_clusters} instead. Use fewer "
            "clusters."
        )


def hidden_widths(sizes, name):
    """Return the widths (list of int) of hidden_layer_sizes of an estimator `name`."""
    widths = [sizes] if isinstance(sizes, Integral) else list(sizes)
    width = Interval(Integral, 1, None, closed="left")
    if not widths or not all(map(width.is_satisfied_by, widths)):
        raise ValueError(
            f"The 'hidden_layer_sizes' parameter of {name} must be "
            f"a positive integer or a sequence of them. Got {sizes!r} instead. Use "
            "(100,) for one hidden layer of 100 units."
        )
    return [int(width) for width in widths]


def canonical_rows(X):
    """Return sparse X as a csr_array without repeated entries or stored zeros.

    X is not written; entries of a row are in the order of columns.
    """
    X = csr_array(X)
    if not X.has_canonical_format or not X.data.all():
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def is_small_dense(n):
    """Whether an (n, n) matrix of float64 is allocated without a warning."""
    return 8 * float(n) ** 2 <= _WARN_GIB * _GIB


def check_dense_size(n_rows, n_columns=None, *, itemsize=8, what, remedy):
    """Warn above 2 GiB, and refuse above the available memory, before an allocation.

    `what` names the matrix ("the distance matrix"), `remedy` is a sentence.
    """
    n_columns = n_rows if n_columns is None else n_columns
    size = float(n_rows) * float(n_columns) * itemsize / _GIB
    if size <= _WARN_GIB:
        return
    text = f"{what} of {n_rows} x {n_columns} entries takes {size:.1f} GiB"
    memory = _memory_limit() / _GIB
    if size > memory:
        raise ValueError(
            f"{text}, more than the {memory:.1f} GiB of this machine. {remedy}"
        )
    warn(f"{text}. {remedy}")


def _memory_limit():
    """Return the bytes of physical memory, 64 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 64 * _GIB
