"""The one loader of data that do not come with scikit-learn.

Tests, benchmarks and examples read them here; no estimator does. A data set is a file
``NAME.npz`` with ``X`` and ``y``, in the folder that the environment variable
``SKDIFFCLUST_DATA`` names or, without it, in ``../shared/data`` beside a checkout.
"""

import os
from pathlib import Path

import numpy as np

_CHECKOUT = Path(__file__).resolve().parents[1]


def data_folder():
    """Return the folder of data sets, which need not exist."""
    folder = os.environ.get("SKDIFFCLUST_DATA")
    return Path(folder) if folder else _CHECKOUT.parent / "shared" / "data"


def has_data(name):
    """Return whether a data set is here."""
    return _file(name).is_file()


def load_data(name):
    """Return the samples (n, d), raw, and the classes (n,), int64, of a data set.

    Raises
    ------
    FileNotFoundError
        If it is not here, with its name and what to do.
    """
    if not has_data(name):
        raise FileNotFoundError(
            f"The data set {name!r} is not here: there is no {_file(name)}. Set "
            f"SKDIFFCLUST_DATA to a folder that holds {name}.npz."
        )
    with np.load(_file(name), allow_pickle=False) as archive:
        return archive["X"], archive["y"]


def _file(name):
    """Return the path of a data set."""
    return data_folder() / f"{name}.npz"
