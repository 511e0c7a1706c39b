"""What every estimator asks of the rows it is given."""

import numpy as np
from sklearn.utils.validation import validate_data

from skdiffclust._affinity import refuse_masked


def validate_rows(estimator, X, *, reset=True, **check_params):
    """Return X as a finite (n_samples, n_features) array of float64 or float32.

    Everything but float32 becomes float64, once. Text, dates and masked arrays, which
    NumPy would turn into numbers without a word, are refused. Other arguments are
    those of :func:`sklearn.utils.validation.validate_data`.
    """
    refuse_silent_conversion(X)
    return validate_data(
        estimator, X, reset=reset, dtype=[np.float64, np.float32], **check_params
    )


def refuse_silent_conversion(X):
    """Refuse the containers and dtypes that would become numbers without a word."""
    refuse_masked(X)
    dtype = getattr(X, "dtype", None)
    if dtype is None and isinstance(X, (list, tuple)):
        dtype = np.asarray(X).dtype if _is_rectangular(X) else None
    kind = getattr(dtype, "kind", None)
    if kind is not None and kind in "USMm":
        raise ValueError(
            f"The 'X' parameter must be numeric. Got dtype {dtype} instead. Encode "
            "text and dates as numbers first, for instance with OrdinalEncoder."
        )
    if kind == "O" and isinstance(X, np.ndarray):
        text = next(
            (value for value in X.flat if isinstance(value, (str, bytes))), None
        )
        if text is not None:
            raise ValueError(
                f"The 'X' parameter must be numeric. Got the text {text!r} in an "
                "object array instead. Encode text as numbers first."
            )


def _is_rectangular(rows):
    """Whether NumPy can make one array of these rows (ragged lists it cannot)."""
    try:
        np.asarray(rows)
    except ValueError:
        return False
    return True
