"""The loader of data that do not come with scikit-learn, for benchmarks and tests.

A data set is a file ``NAME.npz`` with samples ``X`` and classes ``y``, or with the
arrays of a CSR matrix in the place of X; ``FILE/NAME`` is one of several in a file,
with samples ``NAME_X`` and classes ``NAME_y``. Files are in the folder that the
environment variable ``SKDIFFCLUST_DATA`` names or, without it, in ``../shared/data``
beside a checkout. With ``SKDIFFCLUST_DOWNLOAD=1``, some of those that are missing are
fetched from OpenML, and refused unless they have the samples of the file.
"""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import fetch_openml

# Sets of cells that are in one file, cells_8.npz.
CELLS = tuple(
    f"cells_8/{name}"
    for name in (
        "RNAmix_celseq2 celseq2 goolam klein pollen xin zeisel1464 zheng500".split()
    )
)
_CHECKOUT = Path(__file__).resolve().parents[1]


class Source(NamedTuple):
    """The number of a data set on OpenML, and `digest` of its samples and classes.

    Its X is converted to `dtype`; `samples` and `columns` are those of the file.
    """

    data_id: int
    sha256: str
    dtype: str = "float64"
    samples: slice = slice(None)
    columns: tuple | slice = slice(None)


# Not verified without network: the numbers, except that of zoo. Whatever they lead to,
# other samples are refused. Their order may differ, as that of zoo does. isolet is not
# here, since OpenML's (300) has 7797 samples instead of 1560.
OPENML = {
    "ctg": Source(
        1466,
        "1526221d8b54a6c73f23df5f1c50e8a427624c96bd1d7ad1a00d5b03745ddefa",
        columns=(3, 4, 5, 6, 11, 12, 13, 7, 8, 9, 10, *range(15, 25)),
    ),
    "ecoli": Source(
        39, "21794deb485655987d3996c33e5bbab072b8336b38776bf565cbdad7f75c1fd1"
    ),
    "heart_statlog": Source(
        53,
        "3400c7566ee4fd622a8ce3bc5473c686defa14e12afc3bf1a1abc87b1cb2c6f0",
        "float32",
    ),
    "house_votes_84": Source(
        56,
        "179467d840e5504e3a9a4d94faf7a6421facf8ccbdffb4085db70c9d411785aa",
        "float32",
    ),
    "letter": Source(
        6,
        "66e4b4ae58509f9b69f108e5c749214a5268c4b69bf3955e5b0b498c715d49e0",
        "float32",
    ),
    "mnist_t10k": Source(
        554,
        "210a160be1560e6f34841b0b31306b63a117cd96de19b5c400fae8fe5b2bcfb9",
        "uint8",
        slice(60000, None),
    ),
    "movlib": Source(
        299, "b54e9abe86e0e095f8dedd45cf95903b83a1cb908758c5709c3a5a63287f7391"
    ),
    "usps_train": Source(
        41082,
        "bfd0d8c09e561c69a1b36eea64d7614061dcfc6ee075e41c2125f203d420b642",
        "float32",
        slice(7291),
    ),
    "zoo": Source(
        62, "20d539d3077811e1218d920f53c70386af8d5c4dfd133ea5055c4f140e11f7f9"
    ),
}


def data_folder():
    """Return the folder of data sets, which need not exist."""
    folder = os.environ.get("SKDIFFCLUST_DATA")
    return Path(folder) if folder else _CHECKOUT.parent / "shared" / "data"


def has_data(name):
    """Return whether a data set is in the folder, or may be fetched."""
    file = name.partition("/")[0]
    return (data_folder() / f"{file}.npz").is_file() or _may_fetch(name)


def load_data(name):
    """Return the samples (n, d), unscaled, and the classes (n,), int64, of a data set.

    The samples are a CSR array where the file holds one.

    Raises
    ------
    FileNotFoundError
        If the set is neither in the folder nor may be fetched.
    ValueError
        If what OpenML has under its number is not this data set.
    OSError
        If OpenML does not answer.
    """
    file, _, part = name.partition("/")
    path = data_folder() / f"{file}.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False) as archive:
            if part:
                return archive[f"{part}_X"], archive[f"{part}_y"]
            if "indptr" not in archive:
                return archive["X"], archive["y"]
            arrays = tuple(archive[part] for part in ("data", "indices", "indptr"))
            return csr_array(arrays, shape=tuple(archive["shape"])), archive["y"]
    if _may_fetch(name):
        return _fetch(name)
    advice = f"Set SKDIFFCLUST_DATA to a folder that holds {name}.npz"
    if name in OPENML:
        advice += ", or SKDIFFCLUST_DOWNLOAD=1 to fetch it from OpenML"
    raise FileNotFoundError(
        f"The data set {name!r} was not found: there is no {path}. {advice}."
    )


def _may_fetch(name):
    """Return whether OpenML has a data set and the user allows downloads."""
    return name in OPENML and os.environ.get("SKDIFFCLUST_DOWNLOAD") == "1"


def _fetch(name):
    """Return (X, y) from OpenML, cached by scikit-learn."""
    source = OPENML[name]
    fetched = fetch_openml(data_id=source.data_id, as_frame=False, parser="liac-arff")
    X = fetched.data.toarray() if hasattr(fetched.data, "toarray") else fetched.data
    X = np.asarray(X, dtype=np.float64)[source.samples]
    _, y = np.unique(np.asarray(fetched.target)[source.samples], return_inverse=True)
    if name == "ctg" and X.shape[1] > max(source.columns):
        X = X[:, source.columns]
    if name == "house_votes_84":  # categories 0 and 1, NaN where nobody voted
        X = np.nan_to_num(2 * X - 1, nan=0.0)
    X = np.ascontiguousarray(X, dtype=source.dtype)
    if digest(X, y) != source.sha256:
        raise ValueError(
            f"OpenML's data set {source.data_id} must have the samples of {name!r}. "
            f"Got others, of shape {X.shape}, instead. Put {name}.npz into a folder "
            "and set SKDIFFCLUST_DATA to it."
        )
    return X, y


def digest(X, y):
    """Return the sha256 of samples in float32, by class, in any order of both."""
    # Makes zero of minus zero.
    samples = np.ascontiguousarray(X, dtype="<f4") + np.float32(0)
    classes = []
    for label in np.unique(y):
        rows = sorted(row.tobytes() for row in samples[y == label])
        classes.append(hashlib.sha256(b"".join(rows)).digest())
    return hashlib.sha256(b"".join(sorted(classes))).hexdigest()
