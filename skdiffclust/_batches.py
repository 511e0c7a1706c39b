"""Mini-batches, subsamples of a bounded size, and sparse samples by batches."""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import gen_batches, resample

from skdiffclust._compat import num_samples


def mini_batches(n_samples, batch_size, random_state):
    """Yield the sample indices of one epoch: every sample once, in random order.

    Parameters
    ----------
    n_samples : int
        Number of samples, at least 1.
    batch_size : int
        Samples of a batch, at least 1; clipped to `n_samples`. A last batch of a single
        sample is merged into the one before it, because losses that compare the samples
        of a batch are degenerate on one sample; that batch then has ``batch_size + 1``
        samples.
    random_state : RandomState instance
        Passed by the caller. One permutation is drawn from it when the first batch is
        requested, for any `batch_size`.

    Yields
    ------
    ndarray of shape (n_batch,), dtype int64
        Samples of one batch.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust._batches import mini_batches
    >>> [len(rows) for rows in mini_batches(7, 3, np.random.RandomState(0))]
    [3, 4]
    """
    order = random_state.permutation(n_samples).astype(np.int64, copy=False)
    batch_size = int(batch_size)
    smallest = min(batch_size, 2)
    # The checks of sklearn.utils.gen_batches take longer than a step of a small fit.
    start = 0
    while start < n_samples:
        end = start + batch_size
        if end + smallest > n_samples:
            end = n_samples
        yield order[start:end]
        start = end


def at_most(X, max_samples):
    """Return X, or `max_samples` of its samples, which are always the same."""
    if num_samples(X) <= max_samples:
        return X
    return resample(X, replace=False, n_samples=max_samples, random_state=0)


def rows_of_weight(weight, most, random_state):
    """Return the numbers of samples of positive weight (n,), `most` at most, sorted."""
    rows = np.flatnonzero(weight > 0)
    if len(rows) > most:
        rows = np.sort(random_state.choice(rows, most, replace=False))
    return rows


class RowsOnDemand:
    """Samples X (n, d), dense or CSR, that are dense where they are taken.

    Indexed by a slice or by row numbers, it returns these samples as a new array (m, d)
    or what `function` makes of them; the whole is never dense if X is sparse.
    """

    def __init__(self, X, function=np.asarray):
        self.X = X
        self.function = function
        self.shape = X.shape
        self.dtype = X.dtype

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        taken = self.X[rows]
        return self.function(taken.toarray() if issparse(taken) else taken)


def by_batches(function, X, batch_size):
    """Return the results (n, ...) of a function of samples X (n, d), batch by batch."""
    parts = gen_batches(X.shape[0], batch_size)
    return np.concatenate([function(X[rows]) for rows in parts])
