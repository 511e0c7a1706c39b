"""The minimum spanning tree block by block, for data beyond memory or many workers."""

from itertools import combinations
from numbers import Integral
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.utils import check_array

from skdiffclust._compat import Interval, validate_params
from skdiffclust._pairwise import refuse_overflow, refuse_underflow
from skdiffclust._validation import refuse_silent_conversion
from skdiffclust.forests._hierarchy._spanning_tree import SpanningTree
from skdiffclust.forests._trees._distances import lengths_of_points
from skdiffclust.forests._trees._solve import spanning_edges
from skdiffclust.forests._trees._tree import cut_order

# By default, the samples of two blocks fit in this many bytes.
_BYTES = 2**27


class _Block(NamedTuple):
    """Consecutive samples of X, from `start` on, as a task gets them."""

    samples: object
    start: int


@validate_params(
    {
        "X": ["array-like"],
        "n_blocks": [Interval(Integral, 1, None, closed="left"), None],
        "n_jobs": [Integral, None],
    },
    prefer_skip_nested_validation=True,
)
def minimum_spanning_tree_by_blocks(X, *, n_blocks=None, n_jobs=None) -> SpanningTree:
    """Compute the Euclidean minimum spanning tree of samples that do not fit in memory.

    The result is identical to that of :func:`minimum_spanning_tree`. The samples are
    split into blocks, and each task computes the tree of a pair of blocks, which it
    reads. The results are merged in pairs by Kruskal's algorithm.

    Parameters
    ----------
    X : array-like or dask array of shape (n_samples, n_features)
        Samples. A dask array, and with joblib's own backends a :class:`numpy.memmap`,
        is read within the tasks, block by block. For other arrays, the blocks are sent
        to the tasks.
    n_blocks : int or None, default=None
        Number of blocks p, which gives p (p - 1) / 2 pairs. By default, it is the
        smallest number for which two blocks of samples take at most 128 MiB and there
        are two blocks per worker.
    n_jobs : int or None, default=None
        Number of workers, as in :class:`joblib.Parallel`, with any backend of
        :func:`joblib.parallel_config`. None means 1, which uses threads.

    Returns
    -------
    tree : SpanningTree
        Tree with the attributes `edges` and `lengths`.

    Raises
    ------
    ValueError
        If X is not numeric or not finite, or its squared distances do not fit float64.

    Notes
    -----
    A task takes as long as :func:`minimum_spanning_tree` on its samples, and O(n d / p)
    memory. On one worker, p blocks take about p - 1 times as long as all samples at
    once in few dimensions, and less in many. The calling process does not hold the
    samples, but about 200 bytes per sample, since the trees of p pairs at a time are
    merged. To compute a clustering from the tree, pass it to
    :meth:`~skdiffclust.SpanningForestClustering.fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust.forests import minimum_spanning_tree_by_blocks
    >>> X = np.array([[0.0], [5.0], [1.0], [7.0]])
    >>> tree = minimum_spanning_tree_by_blocks(X, n_blocks=2)
    >>> tree.edges.tolist(), tree.lengths.tolist()
    ([[1, 2], [1, 3], [0, 2]], [4.0, 2.0, 1.0])
    """
    X = _readable(X)
    n_workers = effective_n_jobs(n_jobs)
    least = max(1, 16 * X.shape[0] * X.shape[1] // _BYTES)
    n_blocks = n_blocks or max(least, 2 * n_workers if n_workers > 1 else 1)
    parts = np.array_split(np.arange(X.shape[0]), n_blocks)
    blocks = [_block(X, rows[0], rows[-1] + 1) for rows in parts if len(rows)]
    with Parallel(n_jobs=n_jobs) as parallel:
        ends = np.concatenate(parallel(delayed(_box)(block) for block in blocks))
        refuse_overflow([ends])
        refuse_underflow(ends)
        pairs = list(combinations(blocks, 2)) or [blocks]
        forests = []
        for start in range(0, len(pairs), len(blocks)):
            some = pairs[start : start + len(blocks)]
            forests += parallel(delayed(_grow)(pair) for pair in some)
            while len(forests) > 1:
                forests = parallel(
                    delayed(_merge)(forests[i : i + 2])
                    for i in range(0, len(forests), 2)
                )
    edges, lengths = forests[0]
    order = cut_order(edges, lengths)
    return SpanningTree(edges[order], np.sqrt(lengths[order]))


def _readable(X):
    """Return X as something whose blocks a task can read."""
    if _is_lazy(X):
        if X.ndim != 2 or X.dtype.kind not in "fiub" or np.isnan(X.shape[0]):
            raise ValueError(
                "The 'X' parameter of minimum_spanning_tree_by_blocks must be real and "
                f"two-dimensional, of known size. Got {X} instead. Call "
                "compute_chunk_sizes() where sizes are unknown."
            )
        return X
    refuse_silent_conversion(X)
    if isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiub":
        return X
    return check_array(X, dtype=[np.float64, np.float32])


def _is_lazy(X):
    """Whether X is an array of dask, or has the same interface."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "compute")


def _block(X, start, stop):
    """Return the block of samples `start` to `stop` of X."""
    samples = X[start:stop]
    if _is_lazy(X):
        from dask import optimize

        # The task gets the part of the graph that these samples need.
        (samples,) = optimize(samples)
    return _Block(samples, start)


def _values(block):
    """Return the samples of a block (m, d), float64."""
    samples = block.samples
    if _is_lazy(samples):
        samples = samples.compute(scheduler="synchronous")
    return np.ascontiguousarray(samples, dtype=np.float64)


def _box(block):
    """Return the box (2, d) of the samples of a block; refuse NaN."""
    X = check_array(_values(block), input_name="X")
    return np.stack([X.min(axis=0), X.max(axis=0)])


def _grow(blocks):
    """Return the edges and squared lengths of the tree of the samples of blocks."""
    parts = [_values(block) for block in blocks]
    places = zip(blocks, parts, strict=True)
    rows = [block.start + np.arange(len(part)) for block, part in places]
    edges, lengths = spanning_edges(lengths_of_points(np.concatenate(parts), "l2"))
    return np.concatenate(rows)[edges], lengths


def _merge(forests):
    """Return the minimum spanning forest of lists of edges and squared lengths."""
    from skdiffclust.forests._trees._kruskal import merge_edges

    edges = np.concatenate([edges for edges, _ in forests])
    lengths = np.concatenate([lengths for _, lengths in forests])
    rows, places = np.unique(edges, return_inverse=True)
    places, lengths = merge_edges(
        [(places.reshape(edges.shape), lengths)], np.arange(len(rows))
    )
    return rows[places], lengths
