"""The minimum spanning tree block by block, for data beyond memory or many workers."""

from functools import partial
from itertools import combinations, pairwise
from numbers import Integral
from operator import getitem
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.utils import check_array

from skdiffclust._compat import Interval, validate_params
from skdiffclust._pairwise import refuse_overflow, refuse_underflow
from skdiffclust._validation import refuse_silent_conversion
from skdiffclust.forests._folder import own_folder
from skdiffclust.forests._hierarchy._spanning_tree import SpanningTree
from skdiffclust.forests._trees._distances import lengths_of_points
from skdiffclust.forests._trees._solve import spanning_edges
from skdiffclust.forests._trees._tree import cut_order

# By default, a task needs about this many bytes, and there are this many for each of
# several workers, so that none waits long for the last one.
_BYTES = 2**26
_BLOCKS_PER_WORKER = 4
# Bytes of a row in a task, beside those of three copies of its features.
_BYTES_PER_ROW = 200
# Samples, at least and for each cell, that a partition is made of.
_SAMPLE = 2**14
_SAMPLE_PER_CELL = 128
# Rows have cells of 16 bits, and positions of 32 bits.
_MOST_CELLS = 2**15
_MOST_SAMPLES = 2**30
# Edge lists are merged once they hold this many edges per sample.
_WAITING = 6


class _Block(NamedTuple):
    """Consecutive samples of X, from `start` on, as a task gets them."""

    samples: object
    start: int


@validate_params(
    {
        "X": ["array-like"],
        "n_blocks": [Interval(Integral, 1, None, closed="left"), None],
        "n_jobs": [Integral, None],
        "folder": [str, Path, None],
    },
    prefer_skip_nested_validation=True,
)
def minimum_spanning_tree_by_blocks(
    X, *, n_blocks=None, n_jobs=None, folder=None
) -> SpanningTree:
    """Compute the Euclidean minimum spanning tree of samples that do not fit in memory.

    The result is identical to that of :func:`minimum_spanning_tree`, and so is the rule
    by which one of two ways is chosen. In few dimensions, samples are sorted into the
    cells of a k-d tree, which are written to files. A tree is grown in each cell as far
    as no other cell can matter, and the parts are joined in rounds, in which cells ask
    only those cells that are near enough. In many dimensions, each task computes the
    tree inside a block of samples or that of the edges between two blocks, and these
    are merged by Kruskal's algorithm; no pair of samples is compared twice.

    Parameters
    ----------
    X : array-like, or array of dask or zarr, of shape (n_samples, n_features)
        Samples. An array of dask or zarr, and with joblib's own backends a
        :class:`numpy.memmap`, is read within the tasks, block by block: twice to make
        cells, and in many dimensions once for each pair. For other arrays, the blocks
        are sent to the tasks.
    n_blocks : int or None, default=None
        Number of blocks, or of cells, rounded up to a power of two. By default, it is
        the smallest number for which a task takes about 64 MiB and there are four
        blocks per worker.
    n_jobs : int or None, default=None
        Number of workers, as in :class:`joblib.Parallel`, with any backend of
        :func:`joblib.parallel_config`. None means 1, which uses threads.
    folder : str, Path or None, default=None
        Existing folder for the files of cells, which every worker must be able to
        write: with workers on several machines, that of a shared disk. The files are
        removed at the end, also after an error or Ctrl-C; those of a run that was
        killed are removed by the next run in this folder. None is the environment
        variable `JOBLIB_TEMP_FOLDER`, or the folder of :mod:`tempfile`.

    Returns
    -------
    tree : SpanningTree
        Tree with the attributes `edges` and `lengths`.

    Raises
    ------
    ValueError
        If X is not numeric or not finite, or its squared distances do not fit float64.
    OSError
        If the folder cannot be written, for example because the disk is full.

    Notes
    -----
    The work is about that of :func:`minimum_spanning_tree`, whatever the number of
    blocks. A task needs O(n d / p) memory with p blocks, and the calling process about
    75 bytes per sample, but not the samples. The files take about 16 d + 170 bytes per
    sample. To compute a clustering from the tree, pass it to
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
    n_samples, n_features = X.shape
    if n_samples > _MOST_SAMPLES:
        raise ValueError(
            "The 'X' parameter of minimum_spanning_tree_by_blocks must have at most "
            f"{_MOST_SAMPLES} samples. Got {n_samples} instead. Compute the tree of a "
            "subset, and predict the others."
        )
    n_workers = effective_n_jobs(n_jobs)
    if n_blocks is None:
        n_bytes = n_samples * (24 * n_features + _BYTES_PER_ROW)
        least = _BLOCKS_PER_WORKER * n_workers if n_workers > 1 else 1
        n_blocks = max(least, -(-n_bytes // _BYTES))
    # Fewer are read at once, since a cell reads from each of them.
    n_chunks = max(2 * n_workers, 8 * n_samples * n_features // _BYTES)
    chunks = _split(X, min(n_blocks, n_chunks))
    n_sampled = max(_SAMPLE, _SAMPLE_PER_CELL * n_blocks)
    step = max(1, n_samples // n_sampled)
    with Parallel(n_jobs=n_jobs) as parallel:
        surveys = parallel(delayed(_survey)(chunk, step) for chunk in chunks)
        ends, samples = map(np.concatenate, zip(*surveys, strict=True))
        refuse_overflow([ends])
        refuse_underflow(ends)
        found = _grow(chunks) if n_blocks == 1 else None
        if n_blocks > 1:
            with own_folder(folder) as own:
                found = _by_cells(parallel, own, chunks, samples, n_blocks)
        if found is None:
            found = _by_pairs(parallel, _split(X, n_blocks), n_samples)
    edges, lengths = found
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
    """Whether X is an array of dask or zarr, or like one, that is read in parts."""
    return hasattr(X, "chunks") and hasattr(X, "shape") and hasattr(X, "dtype")


def _split(X, n_blocks):
    """Return X as at most `n_blocks` blocks of consecutive samples."""
    n_samples = X.shape[0]
    ends = np.linspace(0, n_samples, min(n_blocks, n_samples) + 1).astype(np.int64)
    return [_block(X, int(start), int(stop)) for start, stop in pairwise(ends)]


def _block(X, start, stop):
    """Return the block of samples `start` to `stop` of X."""
    if _is_lazy(X) and not hasattr(X, "compute"):
        return _Block(partial(getitem, X, slice(start, stop)), start)
    samples = X[start:stop]
    if _is_lazy(X):
        from dask import optimize

        # Of the graph, what these samples need.
        (samples,) = optimize(samples)
    return _Block(samples, start)


def _values(block):
    """Return the samples of a block (m, d), float32 if they are, else float64."""
    samples = block.samples
    if callable(samples):
        samples = samples()
    if hasattr(samples, "compute"):
        samples = samples.compute(scheduler="synchronous")
    dtype = np.float32 if samples.dtype == np.float32 else np.float64
    return np.ascontiguousarray(samples, dtype=dtype)


def _survey(block, step):
    """Return the box (2, d) of the samples of a block, and some; refuse NaN."""
    X = check_array(_values(block), input_name="X", dtype=None)
    box = np.stack([X.min(axis=0), X.max(axis=0)])
    return box.astype(np.float64), X[::step].astype(np.float64)


def _by_pairs(parallel, blocks, n_samples):
    """Return the edges and squared lengths of trees in and between blocks, merged."""
    from skdiffclust.forests._trees._kruskal import merge_edges

    tasks = [[block] for block in blocks] + list(combinations(blocks, 2))
    vertices = np.arange(n_samples)
    forests = []
    for start in range(0, len(tasks), 2 * len(blocks)):
        some = tasks[start : start + 2 * len(blocks)]
        forests += parallel(delayed(_grow)(task) for task in some)
        if sum(len(edges) for edges, _ in forests) > _WAITING * n_samples:
            forests = [merge_edges(forests, vertices)]
    return merge_edges(forests, vertices)


def _grow(blocks):
    """Return the edges and squared lengths of the tree of a block, or between two."""
    from skdiffclust.forests._trees._prim import prim_on_points

    parts = [_values(block).astype(np.float64, copy=False) for block in blocks]
    places = zip(blocks, parts, strict=True)
    rows = np.concatenate(
        [block.start + np.arange(len(part)) for block, part in places]
    )
    if len(parts) == 1:
        edges, lengths = spanning_edges(lengths_of_points(parts[0], "l2"))
    else:
        edges, lengths = prim_on_points(
            np.concatenate(parts), np.arange(len(rows)), len(parts[0])
        )
    return rows[edges], lengths


def _by_cells(parallel, folder, chunks, samples, n_blocks):
    """Return the edges and squared lengths of a tree that is grown in cells.

    None if boxes rule out so little that comparing all pairs is faster.
    """
    from skdiffclust.forests._trees import _cells

    n_cells = min(1 << (n_blocks - 1).bit_length(), _MOST_CELLS)
    parts = _cells.partition(samples, n_cells)
    parallel(
        delayed(_divide)(folder, number, chunk, *parts)
        for number, chunk in enumerate(chunks)
    )
    planted = parallel(
        delayed(_cells.plant)(folder, cell, len(chunks)) for cell in range(n_cells)
    )
    _cells.remove(folder, "chunk_*")
    counts, boxes = zip(*planted, strict=True)
    cells = _cells.Cells(np.append(0, np.cumsum(counts)), np.array(boxes))
    taking_part = np.flatnonzero(counts)
    middle = taking_part[len(taking_part) // 2]
    if not all(parallel([delayed(_cells.are_few_seen)(folder, middle, cells)])):
        return None
    sizes = parallel(delayed(_cells.grow)(folder, cell, cells) for cell in taking_part)
    n_vertices = np.zeros(n_cells, dtype=np.int64)
    n_vertices[taking_part] = [len(each) for each in sizes]
    cells = cells._replace(vertices=np.append(0, np.cumsum(n_vertices)))
    sizes = np.concatenate(sizes)
    roots = np.arange(len(sizes), dtype=np.int32)
    best = np.full(len(sizes), np.inf)
    n_rounds = 0
    while len(sizes) > 1:
        largest = int(np.argmax(sizes))
        _cells.write(folder, n_rounds, roots=roots, best=best)
        is_asked = np.logical_or.reduceat(roots != largest, cells.vertices[taking_part])
        offers = parallel(
            delayed(_cells.offer)(folder, cell, cells, n_rounds, largest)
            for cell in taking_part[is_asked]
        )
        roots, sizes, best, edges, lengths = _cells.merge_offers(offers, roots, sizes)
        _cells.write(folder, f"round{n_rounds}", edges=edges, lengths=lengths)
        n_rounds += 1
    return _cells.collect(folder)


def _divide(folder, number, chunk, features, thresholds):
    """Write the samples of a chunk of X, sorted by the cells of a partition."""
    from skdiffclust.forests._trees._cells import divide

    divide(folder, number, _values(chunk), chunk.start, features, thresholds)
