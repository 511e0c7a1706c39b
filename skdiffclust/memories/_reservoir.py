"""The state of a stream: a subset of bounded size of its samples, and their scale.

A module of its own, because it is the state of a stream, not of a model.
"""

from dataclasses import dataclass
from math import ceil, log

import numpy as np
from scipy import sparse

from skdiffclust.memories._rows import MAX_ROWS
from skdiffclust.memories._scaling import MemoryScaling

# Centres of the kept samples have about k / SIZE more inertia than those of all.
SIZE = MAX_ROWS


@dataclass(frozen=True)
class Reservoir:
    """Samples (m, d), dense or CSR, drawn from a stream, with weights (m,)."""

    rows: np.ndarray
    weight: np.ndarray
    n_seen: int

    @classmethod
    def extended(cls, past, X, weight, random_state, half_life=None):
        """Return the reservoir after X (n, d); `past` is the one before, or None.

        Each sample so far is in it with the same probability (algorithm R). With a
        `half_life`, a sample enters a full reservoir at a random place with a constant
        probability, so that the chance that a sample is still in it halves with every
        `half_life` samples that come after it. The first batch is kept whole, whatever
        its size, because memories are seeded with it.
        """
        if past is None:
            return cls(X, weight, X.shape[0])
        n_past = past.rows.shape[0]
        n_new = X.shape[0]
        chosen = list(range(n_past))
        size = SIZE
        ends = past.n_seen + np.arange(n_new) + 1
        if half_life is not None:
            size = min(SIZE, ceil(half_life / log(2.0)))
            leaves = 1.0 - 2.0 ** (-1.0 / half_life)  # with each sample that comes
            ends = np.full(n_new, max(size, round(1.0 / leaves)))
        if n_past > size:  # the first batch was larger
            chosen = list(random_state.permutation(n_past)[:size])
        places = random_state.randint(ends)
        for i, place in enumerate(places):
            if len(chosen) < size:
                chosen.append(n_past + i)
            elif place < size:
                chosen[place] = n_past + i
        if sparse.issparse(X) or sparse.issparse(past.rows):
            rows = sparse.csr_array(sparse.vstack([past.rows, X]).tocsr())[chosen]
        else:
            rows = np.concatenate([past.rows, X])[chosen]
        both = np.concatenate([past.weight, weight])[chosen]
        return cls(rows, both, past.n_seen + n_new)


@dataclass(frozen=True)
class Stream:
    """What the next batch of a stream needs besides the fitted memories."""

    scaling: MemoryScaling
    random_state: np.random.RandomState
    kept: Reservoir
    n_learned: int  # samples seen when the completion was fitted
