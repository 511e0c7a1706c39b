"""What every estimator asks of the rows it is given."""

from datetime import date, timedelta

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from skdiffclust._affinity import refuse_masked

# In an object array, what float() would take for a number or choke on.
_NOT_NUMBERS = (str, bytes, complex, date, timedelta, np.datetime64, np.timedelta64)


def validate_rows(estimator, X, *, reset=True, **check_params):
    """Return X as a finite (n_samples, n_features) array of float64 or float32.

    Everything but float32 becomes float64, once. Text, dates, complex numbers and
    masked arrays, which NumPy would turn into numbers without a word, are refused.
    Other arguments are those of :func:`sklearn.utils.validation.validate_data`.
    """
    refuse_silent_conversion(X)
    return validate_data(
        estimator, X, reset=reset, dtype=[np.float64, np.float32], **check_params
    )


def refuse_silent_conversion(X):
    """Refuse what would become numbers, or lose a part of them, without a word."""
    refuse_masked(X)
    if issparse(X):
        return
    try:
        values = np.asarray(X)
    except ValueError:  # ragged lists: check_array says so better
        return
    kind, what = values.dtype.kind, f"dtype {values.dtype}"
    if kind == "O":
        odd = (value for value in values.flat if isinstance(value, _NOT_NUMBERS))
        first = next(odd, None)
        if first is not None:
            kind = "c" if isinstance(first, complex) else "U"
            what = f"the {type(first).__name__} {first!r}"
    if kind == "c":
        raise ValueError(
            f"The 'X' parameter must be real. Got {what} instead. Complex data not "
            "supported: pass real and imaginary parts as two features."
        )
    if kind in "USMm":
        raise ValueError(
            f"The 'X' parameter must be numeric. Got {what} instead. Encode text and "
            "dates as numbers first, for instance with OrdinalEncoder."
        )
