"""The curve that a number of clusters is read from, beside that of one Gaussian."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skdiffclust._history import warn_of_convergence

N_REFERENCES = 5
_REFERENCE_ROWS = 1000


@dataclass(frozen=True)
class CountCurve:
    """Scores from 0 to 1 of numbers of clusters, and the mean of those of Gaussians.

    Arrays (m,) have one entry for each of `numbers`; they are empty if there is no
    choice. `finding` says how the best score compares with the reference.
    """

    best: int
    numbers: np.ndarray
    scores: np.ndarray
    reference: np.ndarray
    is_clear: bool
    finding: str

    @classmethod
    def single(cls):
        """Return the curve of samples that are all equal, which has no numbers."""
        empty = np.empty(0)
        return cls(1, empty.astype(np.int64), empty, empty, True, "")

    def to_dict(self):
        """Return the columns of a table with a row for each number of clusters."""
        return {
            "n_clusters": self.numbers.copy(),
            "score": self.scores.copy(),
            "reference": self.reference.copy(),
        }

    def warn_if_unclear(self, *, stacklevel):
        """Warn if one Gaussian has nearly the score of the samples."""
        if self.is_clear:
            return
        warn_of_convergence(
            f"ClAM(n_clusters='auto') sees no clear structure: {self.finding}. It "
            f"takes {self.best} clusters. Inspect n_clusters_curve_, or set "
            "n_clusters.",
            stacklevel=stacklevel + 1,
        )


def gaussian_references(Z, weight, random_state):
    """Yield samples (m, r), at most 1000, of Gaussians with the covariance of Z (n, d).

    Z, dense or CSR, has weights (n,). Samples are in the axes of the covariance, of
    which there are at most m; distances do not depend on axes.
    """
    n_rows = Z.shape[0]
    if n_rows > _REFERENCE_ROWS:
        rows = np.sort(random_state.choice(n_rows, _REFERENCE_ROWS, replace=False))
        Z, weight, n_rows = Z[rows], weight[rows], _REFERENCE_ROWS
    share = np.asarray(weight, dtype=np.float64) / np.sum(weight)
    widths = np.sqrt(np.maximum(_variances(Z, share), 0.0))
    if not widths.any():
        # The few samples that differ are not among these, and scales do not matter.
        widths = np.ones(1)
    for _ in range(N_REFERENCES):
        yield random_state.normal(size=(n_rows, len(widths))) * widths


def _variances(Z, share):
    """Return the eigenvalues (r,) of the covariance of Z (n, d), shares sum to one."""
    n_rows, n_features = Z.shape
    if n_features <= n_rows:
        mean = share @ Z
        scaled = _scaled(Z, share)
        squares = scaled.T @ scaled
        squares = squares.toarray() if sparse.issparse(squares) else squares
        return np.linalg.eigvalsh(squares - np.outer(mean, mean))
    products = Z @ Z.T
    products = products.toarray() if sparse.issparse(products) else products
    means = products @ share
    centred = products - means[:, None] - means + share @ means
    root = np.sqrt(share)
    return np.linalg.eigvalsh(root[:, None] * centred * root)


def _scaled(Z, share):
    """Return Z (n, d) with rows times the roots of shares (n,), in float64."""
    root = np.sqrt(share)
    if sparse.issparse(Z):
        return sparse.csr_array(sparse.diags_array(root) @ Z)
    return root[:, None] * Z
