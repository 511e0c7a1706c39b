"""Missing entries of the samples that `ClAM` gets."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from skdiffclust.memories._completion import Completer, fit_completer

_COMPLETING = 2000  # largest number of samples kept to complete missing entries


class MissingEntries(NamedTuple):
    """Features without any value (d,), and what completes the others if any may be."""

    is_empty: np.ndarray
    completer: Completer | None

    def fill(self, X, by_memories):
        """Return samples X (n, d), completed, in the dtype of X.

        `by_memories` completes samples if no entry was missing in training.
        """
        if sparse.issparse(X):
            return X
        if self.is_empty.any():
            X = np.where(self.is_empty, 0, X)
        if not np.isnan(X).any():
            return X
        if self.completer is None:
            return by_memories(X)
        return self.completer.complete(X).astype(X.dtype)


def learn_missing(X, weight, random_state):
    """Return the `MissingEntries` of samples X (n, d) of positive weight (n,)."""
    nothing = MissingEntries(np.zeros(X.shape[1], dtype=bool), None)
    if sparse.issparse(X) or not np.isnan(X).any():
        return nothing
    X = X[weight > 0]
    is_empty = np.isnan(X).all(axis=0)
    if is_empty.all():
        raise ValueError(
            "The 'X' parameter of ClAM must have an entry that is not missing. "
            "Got NaN only instead. Drop samples without any values."
        )
    completer = fit_completer(
        np.where(is_empty, 0, X),
        n_memories=_COMPLETING,
        inverse_temperature="auto",
        linear_correction="auto",
        random_state=random_state,
    )
    return MissingEntries(is_empty, completer)
