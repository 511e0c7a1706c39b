"""Mini-batches, and subsamples of a bounded size."""

import numpy as np
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
    smallest = min(batch_size, 2)
    for rows in gen_batches(n_samples, batch_size, min_batch_size=smallest):
        yield order[rows]


def at_most(X, max_samples):
    """Return X, or `max_samples` of its samples, which are always the same."""
    if num_samples(X) <= max_samples:
        return X
    return resample(X, replace=False, n_samples=max_samples, random_state=0)
