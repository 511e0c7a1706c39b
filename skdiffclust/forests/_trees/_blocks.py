"""The minimum spanning tree block by block, for data beyond memory or many workers."""

from numbers import Integral

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import check_array

from skdiffclust._affinity import refuse_overflow
from skdiffclust._compat import Interval, validate_params
from skdiffclust._validation import refuse_silent_conversion
from skdiffclust.forests._trees._tree import SpanningTree, cut_order

# By default, the samples of two blocks fit in this many bytes.
_BYTES = 2**27
# Edge lists are merged once they hold this many edges per sample.
_WAITING = 6


@validate_params(
    {
        "X": ["array-like"],
        "n_blocks": [Interval(Integral, 1, None, closed="left"), None],
        "n_jobs": [Integral, None],
    },
    prefer_skip_nested_validation=True,
)
def minimum_spanning_tree_by_blocks(X, *, n_blocks=None, n_jobs=None):
    """Return the Euclidean minimum spanning tree of samples beyond memory.

    The tree is that of :func:`minimum_spanning_tree`, bit for bit. Samples are split
    into blocks; a task grows the tree inside a block, or that of the edges between two
    blocks, and Kruskal's algorithm merges what the tasks found. No pair of samples is
    in two tasks, and a task holds the samples of two blocks.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples; an :class:`numpy.memmap` of float64 is read block by block.
    n_blocks : int or None, default=None
        Number of blocks p, for p (p + 1) / 2 tasks. By default as few as keep the
        samples of a task within 128 MiB, and at least as many as give every worker a
        task.
    n_jobs : int or None, default=None
        Number of workers, as in :class:`joblib.Parallel`, with any backend of
        :func:`joblib.parallel_config`. None means 1, which uses threads.

    Returns
    -------
    tree : SpanningTree
        With attributes `edges` and `lengths`.

    Raises
    ------
    ValueError
        If X is not a finite array of numbers.

    Notes
    -----
    Each task takes as long as :func:`minimum_spanning_tree` on its samples, and O(n d /
    p) memory. Everything else takes about 200 bytes per sample of X. To cluster with
    the tree, pass it as a sparse graph, which is its own spanning tree.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust.forests import minimum_spanning_tree_by_blocks
    >>> X = np.array([[0.0], [5.0], [1.0], [7.0]])
    >>> tree = minimum_spanning_tree_by_blocks(X, n_blocks=2)
    >>> tree.edges.tolist(), tree.lengths.tolist()
    ([[1, 2], [1, 3], [0, 2]], [4.0, 2.0, 1.0])
    """
    from skdiffclust.forests._trees._duplicates import join_duplicates
    from skdiffclust.forests._trees._kruskal import merge_edges

    refuse_silent_conversion(X)
    X = check_array(X, dtype=[np.float64, np.float32])
    refuse_overflow([X])
    edges, kept, _ = join_duplicates(X, np.arange(len(X)))
    found = edges, np.zeros(len(edges))
    tasks = list(_tasks(_split(kept, n_blocks or _block_count(X, n_jobs))))
    # Not a generator of results, which some backends do not support.
    at_once = max(1, _WAITING * len(X) // max(1, _most_edges(tasks)))
    with Parallel(n_jobs=n_jobs) as parallel:
        for start in range(0, len(tasks), at_once):
            part = tasks[start : start + at_once]
            grown = parallel(delayed(_edges_of)(X, *blocks) for blocks in part)
            found = merge_edges([found, *grown], np.arange(len(X)))
    edges, lengths = found
    order = cut_order(edges, lengths)
    return SpanningTree(edges[order], np.sqrt(lengths[order]))


def _block_count(X, n_jobs):
    """Return the default number of blocks."""
    from joblib import effective_n_jobs

    n_workers = effective_n_jobs(n_jobs)
    n_blocks = max(1, 2 * 8 * X.size // _BYTES)
    while n_workers > 1 and n_blocks * (n_blocks + 1) // 2 < 2 * n_workers:
        n_blocks += 1
    return n_blocks


def _split(rows, n_blocks):
    """Return ascending blocks of `rows`; sizes never decrease and differ by at most 1.

    A tree between two blocks has the first half of its rows in the first.
    """
    size, n_larger = divmod(len(rows), n_blocks)
    sizes = np.full(n_blocks, size)
    sizes[n_blocks - n_larger :] += 1
    return [block for block in np.split(rows, np.cumsum(sizes)[:-1]) if len(block)]


def _most_edges(tasks):
    """Return the largest number of edges that a task finds."""
    return max(sum(len(block) for block in task) for task in tasks)


def _tasks(blocks):
    """Return every block, then every pair of blocks."""
    for block in blocks:
        yield (block,)
    for b, second in enumerate(blocks):
        for first in blocks[:b]:
            yield first, second


def _edges_of(X, *blocks):
    """Edges and squared lengths of the tree inside a block, or between two."""
    from skdiffclust._threads import thread_count
    from skdiffclust.forests._trees._euclidean import euclidean_boruvka

    rows = np.concatenate(blocks)
    points = np.ascontiguousarray(X[rows], dtype=np.float64)
    edges, lengths = euclidean_boruvka(
        points, np.arange(len(rows)), thread_count(None), is_split=len(blocks) == 2
    )
    return rows[edges], lengths
