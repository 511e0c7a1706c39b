"""The representation of result objects: shapes in place of values."""

from dataclasses import fields
from numbers import Real

import numpy as np
from scipy import sparse


def short_repr(result):
    """Return the name of a dataclass and its fields, arrays as their dtype and shape.

    A class takes it as its method: ``__repr__ = short_repr``.
    """
    described = [
        f"{field.name}={_describe(getattr(result, field.name))}"
        for field in fields(result)
        if field.repr
    ]
    return f"{type(result).__name__}({', '.join(described)})"


def _describe(value):
    """Return a few words on one value."""
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        kind = "" if isinstance(value, np.ndarray) else "sparse "
        return f"<{kind}{value.dtype} {value.shape}>"
    if value is None or isinstance(value, bool | str):
        return repr(value)
    if isinstance(value, Real):
        return f"{value:.6g}"
    return f"<{type(value).__name__}>"
