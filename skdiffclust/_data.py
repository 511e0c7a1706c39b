"""The loader of data that do not come with scikit-learn.

Tests, benchmarks and examples load them here; no estimator does. A data set is a file
``NAME.npz`` with ``X`` and ``y``, in the folder that the environment variable
``SKDIFFCLUST_DATA`` names or, without it, in ``../shared/data`` beside a checkout. With
``SKDIFFCLUST_DOWNLOAD=1`` a set that is not there is fetched from OpenML, and refused
unless it has the samples of the file.
"""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

_CHECKOUT = Path(__file__).resolve().parents[1]


class _Source(NamedTuple):
    """Shape and checksum of a data set, and its number on OpenML.

    Attributes
    ----------
    data_id : int or None
        The number of the set on OpenML, or None where OpenML has other samples.
    shape : tuple
        (n_samples, n_features).
    class_counts : tuple
        The numbers of samples of the classes, in decreasing order.
    sha256 : str
        `_digest` of X and y.
    dtype : str
        The dtype of X in the file.
    samples : slice
        Which of the samples on OpenML.
    columns : tuple or None
        Which of its columns, in this order.
    recode : callable or None
        From its codes of categories, and NaN where missing, to our numbers.
    """

    data_id: int | None
    shape: tuple
    class_counts: tuple
    sha256: str
    dtype: str = "float64"
    samples: slice = slice(None)
    columns: tuple | None = None
    recode: object = None


def _votes(X):
    """Return 1 for yes, -1 for no, and 0 for no vote."""
    return np.nan_to_num(2 * X - 1, nan=0.0)


# Not verified without network: the identifiers of OpenML, except that of zoo, whose
# recorded answers are in scikit-learn's wheel. Whatever they lead to, a set of other
# samples is refused; their order may differ, as that of zoo does. OpenML's isolet (300)
# has other samples: 7797 instead of 1560.
_SOURCES = {
    "ctg": _Source(
        1466,
        (2126, 21),
        (579, 384, 332, 252, 197, 107, 81, 72, 69, 53),
        "1526221d8b54a6c73f23df5f1c50e8a427624c96bd1d7ad1a00d5b03745ddefa",
        columns=(3, 4, 5, 6, 11, 12, 13, 7, 8, 9, 10, *range(15, 25)),
    ),
    "ecoli": _Source(
        39,
        (336, 7),
        (143, 77, 52, 35, 20, 5, 2, 2),
        "21794deb485655987d3996c33e5bbab072b8336b38776bf565cbdad7f75c1fd1",
    ),
    "heart_statlog": _Source(
        53,
        (270, 13),
        (150, 120),
        "3400c7566ee4fd622a8ce3bc5473c686defa14e12afc3bf1a1abc87b1cb2c6f0",
        dtype="float32",
    ),
    "house_votes_84": _Source(
        56,
        (435, 16),
        (267, 168),
        "179467d840e5504e3a9a4d94faf7a6421facf8ccbdffb4085db70c9d411785aa",
        dtype="float32",
        recode=_votes,
    ),
    "isolet": _Source(
        None,
        (1560, 617),
        26 * (60,),
        "3ef4bebc7ee277341c50b4d737f56709a89ee640a4af6d5467d78e55a671a3e2",
        dtype="float32",
    ),
    "letter": _Source(
        6,
        (20000, 16),
        (
            813,
            805,
            803,
            796,
            792,
            789,
            787,
            786,
            783,
            783,
            775,
            773,
            768,
            766,
            764,
            761,
            758,
            755,
            753,
            752,
            748,
            747,
            739,
            736,
            734,
            734,
        ),
        "66e4b4ae58509f9b69f108e5c749214a5268c4b69bf3955e5b0b498c715d49e0",
        dtype="float32",
    ),
    "mnist_t10k": _Source(
        554,
        (10000, 784),
        (1135, 1032, 1028, 1010, 1009, 982, 980, 974, 958, 892),
        "210a160be1560e6f34841b0b31306b63a117cd96de19b5c400fae8fe5b2bcfb9",
        dtype="uint8",
        samples=slice(60000, None),
    ),
    "movlib": _Source(
        299,
        (360, 90),
        15 * (24,),
        "b54e9abe86e0e095f8dedd45cf95903b83a1cb908758c5709c3a5a63287f7391",
    ),
    "usps_train": _Source(
        41082,
        (7291, 256),
        (1194, 1005, 731, 664, 658, 652, 645, 644, 556, 542),
        "bfd0d8c09e561c69a1b36eea64d7614061dcfc6ee075e41c2125f203d420b642",
        dtype="float32",
        samples=slice(7291),
    ),
    "zoo": _Source(
        62,
        (101, 16),
        (41, 20, 13, 10, 8, 5, 4),
        "20d539d3077811e1218d920f53c70386af8d5c4dfd133ea5055c4f140e11f7f9",
    ),
}


def data_folder():
    """Return the folder of data sets, which need not exist."""
    folder = os.environ.get("SKDIFFCLUST_DATA")
    return Path(folder) if folder else _CHECKOUT.parent / "shared" / "data"


def has_data(name):
    """Return whether a data set is in the folder, or may be fetched."""
    return _file(name).is_file() or (_may_fetch() and _on_openml(name))


def load_data(name):
    """Return the samples (n, d), raw, and the classes (n,), int64, of a data set.

    Raises
    ------
    FileNotFoundError
        If it is neither in the folder nor may be fetched, with its name and what to do.
    ValueError
        If what OpenML has under its number is not this data set.
    OSError
        If OpenML does not answer.
    """
    if _file(name).is_file():
        with np.load(_file(name), allow_pickle=False) as archive:
            return archive["X"], archive["y"]
    if _may_fetch() and _on_openml(name):
        return _fetch(name)
    advice = f"Set SKDIFFCLUST_DATA to a folder that holds {name}.npz"
    if _on_openml(name):
        advice += ", or SKDIFFCLUST_DOWNLOAD=1 to fetch it from OpenML"
    raise FileNotFoundError(
        f"The data set {name!r} is not here: there is no {_file(name)}. {advice}."
    )


def _file(name):
    """Return the path of a data set."""
    return data_folder() / f"{name}.npz"


def _may_fetch():
    """Return whether the user allowed downloads."""
    return os.environ.get("SKDIFFCLUST_DOWNLOAD") == "1"


def _on_openml(name):
    """Return whether OpenML has the samples of a data set."""
    return name in _SOURCES and _SOURCES[name].data_id is not None


def _fetch(name):
    """Return (X, y) from OpenML, by scikit-learn, which caches what it fetched."""
    from sklearn.datasets import fetch_openml

    source = _SOURCES[name]
    found = fetch_openml(data_id=source.data_id, as_frame=False, parser="liac-arff")
    X = found.data
    if hasattr(X, "toarray"):  # OpenML stores some sets as sparse
        X = X.toarray()
    X = np.asarray(X, dtype=np.float64)[source.samples]
    y = _numbered(np.asarray(found.target)[source.samples])
    if source.columns is not None and X.shape[1] > max(source.columns):
        X = X[:, source.columns]
    if source.recode is not None:
        X = source.recode(X)
    X = np.ascontiguousarray(X, dtype=source.dtype)
    _check(name, X, y)
    return X, y


def _check(name, X, y):
    """Refuse samples that are not those of the data set."""
    source = _SOURCES[name]
    counts = tuple(sorted(np.bincount(_numbered(y)).tolist(), reverse=True))
    for what, found, expected in (
        ("a shape", X.shape, source.shape),
        ("classes of sizes", counts, source.class_counts),
        ("a sha256", _digest(X, y), source.sha256),
    ):
        if found != expected:
            raise ValueError(
                f"OpenML's data set {source.data_id} must be {name!r} and have {what} "
                f"of {expected}. Got {found} instead. Put {name}.npz into a folder and "
                "set SKDIFFCLUST_DATA to it."
            )


def _digest(X, y):
    """Return the sha256 of samples in float32, by class, in any order of both."""
    # Makes zero of minus zero.
    samples = np.ascontiguousarray(X, dtype="<f4") + np.float32(0)
    classes = []
    for label in np.unique(y):
        rows = sorted(row.tobytes() for row in samples[y == label])
        classes.append(hashlib.sha256(b"".join(rows)).digest())
    return hashlib.sha256(b"".join(sorted(classes))).hexdigest()


def _numbered(y):
    """Return classes numbered from 0 in the order of their first samples, int64."""
    _, first, codes = np.unique(y, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[codes]
