"""The representation of result objects: shapes in place of values."""

from dataclasses import fields

import numpy as np
from scipy import sparse


def short_repr(result):
    """Return the name of a dataclass and its fields, arrays as their dtype and shape.

    A class takes it as its method: ``__repr__ = short_repr``.
    """
    described = [
        f"{field.name}={_describe(getattr(result, field.name))}"
        for field in fields(result)
    ]
    return f"{type(result).__name__}({', '.join(described)})"


def _describe(value):
    """Return a few words on one value."""
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        kind = "" if isinstance(value, np.ndarray) else "sparse "
        return f"<{kind}{value.dtype} {value.shape}>"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
