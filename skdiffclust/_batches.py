"""Index mini-batches from a RandomState."""

import numpy as np


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
    # No batch starts at sample n - 1, which therefore joins the batch before it. With
    # batch_size=1 nothing is merged.
    last_start = n_samples if batch_size == 1 else max(n_samples - 1, 1)
    starts = [*range(0, last_start, batch_size), n_samples]
    for start, stop in zip(starts[:-1], starts[1:], strict=True):
        yield order[start:stop]
