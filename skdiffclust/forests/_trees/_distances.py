"""Lengths of edges between samples, given as points, distances or a graph."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import cdist

from skdiffclust._neighbors import SparseSquares
from skdiffclust._pairwise import (
    EUCLIDEAN_FORMS,
    block_distances,
    check_precomputed,
    fitted_metric_params,
    refuse_overflow,
    refuse_underflow,
)
from skdiffclust.forests._trees._compilation_threshold import is_compiled
from skdiffclust.forests._trees._tree import TIE

# Lengths in a block of the matrix that core distances are computed from: 8 MB.
_LENGTHS_AT_ONCE = 2**20
# Norms that the k-d tree knows, beside the Euclidean one, which is 2.
_NORMS = {"manhattan": 1, "cityblock": 1, "l1": 1, "chebyshev": 0}


@dataclass(frozen=True)
class Lengths:
    """Lengths of the edges of a complete or sparse graph, computed row by row.

    Attributes
    ----------
    n_samples : int
    row : callable (i, rows) -> (len(rows),) float64
        Lengths of the edges from row i to `rows`; infinite where there is no edge.
    finish : callable
        Increasing map from these lengths to the distances that the user asked for.
    points, matrix, graph : ndarray (n, d), ndarray (n, n), csr_array (n, n) or None
        What compiled kernels read instead of calling `row`: points whose lengths are
        those of a `norm`, or the lengths themselves. All None for other metrics.
    norm : int
        2 for squared Euclidean lengths, 1 for sums of absolute differences and 0 for
        the largest of them.
    firsts : ndarray (n,) or None
        The first row that is equal to each row of `points`, if that is known.
    between : callable (rows, others) -> (len(rows), len(others)) float64, or None
        Lengths of the edges between two sets of rows; None for a sparse graph.
    core : ndarray (n,) or None
        Core distances to which the lengths were raised; `TIE` times what they were
        before is added.
    grow : callable (n_threads) -> edges, lengths, or None
        Grows the tree of all rows, if core distances were read from a k-d tree.
    encoded, encoder : ndarray (n, d) and GowerEncoder, or None
        Rows of a table and what compares them, for a compiled kernel.
    """

    n_samples: int
    row: Callable
    finish: Callable
    points: np.ndarray | None = None
    norm: int = 2
    firsts: np.ndarray | None = None
    matrix: np.ndarray | None = None
    graph: csr_array | None = None
    core: np.ndarray | None = None
    between: Callable | None = None
    grow: Callable | None = None
    encoded: np.ndarray | None = None
    encoder: object = None

    def distances(self, edges, values):
        """Return the distances (m,) of edges (m, 2) in cut order, by their lengths."""
        if self.core is not None:
            raised = np.maximum(*self.core[edges.T])
            is_raised = (values > 0) & (values <= (1 + 2 * TIE) * raised)
            values = np.where(is_raised, raised, values / (1 + TIE))
            values = np.minimum.accumulate(values)
        return self.finish(values)

    def take(self, rows):
        """Return the Lengths between ascending `rows` (m,), numbered from 0."""
        return replace(
            self,
            n_samples=len(rows),
            row=lambda i, others: self.row(rows[i], rows[others]),
            points=None if self.points is None else self.points[rows],
            firsts=None,
            matrix=None if self.matrix is None else self.matrix[np.ix_(rows, rows)],
            graph=None if self.graph is None else self.graph[rows][:, rows],
            core=None if self.core is None else self.core[rows],
            grow=None,
            encoded=None if self.encoded is None else self.encoded[rows],
            between=self.between and (lambda a, b: self.between(rows[a], rows[b])),
        )


def lengths_of(X, metric, firsts=None, *, is_clean=False):
    """Return the Lengths between rows of X, or between rows whose distances X gives.

    X is finite: points, sparse ones by `SPARSE_METRICS`, or, with metric="precomputed",
    a dense or sparse matrix that is checked here, unless it `is_clean`. If the metric
    is a GowerEncoder, X was encoded by it. `firsts` (n,) are the first rows of X that
    are equal to each, if they are known.
    """
    if metric == "precomputed":
        distances = X if is_clean else check_precomputed(X)
        return (lengths_of_graph if issparse(X) else lengths_of_matrix)(distances)
    if hasattr(metric, "nearest"):
        return lengths_of_table(X, metric)
    form = EUCLIDEAN_FORMS.get(metric) if isinstance(metric, str) else None
    if form is not None and form.prepare is np.asarray:
        refuse_underflow(X)
    if issparse(X):
        return lengths_of_sparse(X, metric)
    refuse_overflow([X.astype(np.float64, copy=False)])
    return lengths_of_points(X, metric, firsts)


def lengths_of_points(X, metric, firsts=None):
    """Return the Lengths between rows of X, squared for Euclidean; O(n d) memory.

    Sums run over features in order, without the Gram identity, so that an offset costs
    no digits and every algorithm sees the same bits.
    """
    points = None
    norm = 2
    finish = np.asarray
    if isinstance(metric, str) and metric in EUCLIDEAN_FORMS:
        form = EUCLIDEAN_FORMS[metric]
        points = np.ascontiguousarray(form.prepare(X), dtype=np.float64)
        finish = form.finish
        if form.prepare is not np.asarray:
            firsts = None  # of other points

        def between(rows, others):
            return cdist(points[rows], points[others], "sqeuclidean")

    else:
        if isinstance(metric, str) and metric in _NORMS:
            points = np.ascontiguousarray(X, dtype=np.float64)
            norm = _NORMS[metric]
        params = fitted_metric_params(X, metric)
        # A metric that the user passes may not be thread-safe.
        lock = Lock() if callable(metric) else nullcontext()

        def between(rows, others):
            with lock:
                return block_distances(X[rows], X[others], metric, params)

    def row(i, rows):
        return between([i], rows)[0]

    return Lengths(
        len(X),
        row,
        finish,
        points=points,
        norm=norm,
        firsts=firsts,
        between=between,
    )


def lengths_of_sparse(X, metric):
    """Return squared Lengths between sparse rows of X; O(nnz) memory beside blocks."""
    squares = SparseSquares(X, metric)
    return Lengths(
        X.shape[0],
        squares.row,
        EUCLIDEAN_FORMS[metric].finish,
        between=squares.between,
    )


def lengths_of_table(encoded, encoder):
    """Return Gower's distances between encoded rows (n, d) of a GowerEncoder."""

    def between(rows, others):
        return encoder.between(encoded[rows], encoded[others])

    return Lengths(
        len(encoded),
        lambda i, rows: between([i], rows)[0],
        np.asarray,
        between=between,
        encoded=encoded,
        encoder=encoder,
    )


def lengths_of_matrix(distances):
    """Return the Lengths given as a symmetric (n, n) array."""
    return Lengths(
        len(distances),
        lambda i, rows: distances[i, rows],
        np.asarray,
        matrix=distances,
        between=lambda rows, others: distances[np.ix_(rows, others)],
    )


def lengths_of_graph(graph):
    """Return the Lengths given as a symmetric CSR graph.

    What is not stored is no edge.
    """
    n_samples = graph.shape[0]

    def row(i, rows):
        everywhere = np.full(n_samples, np.inf)
        stored = slice(graph.indptr[i], graph.indptr[i + 1])
        everywhere[graph.indices[stored]] = graph.data[stored]
        return everywhere[rows]

    return Lengths(n_samples, row, np.asarray, graph=graph)


def mutual_reachability(lengths, min_samples, n_jobs=None):
    """Raise each length to the larger core distance of its two ends.

    The core distance of a row is the distance to its `min_samples`-th nearest row,
    itself counted; None raises nothing. Rows at distance zero stay at distance zero.
    """
    if min_samples is None:
        return lengths
    if lengths.graph is not None or min_samples > lengths.n_samples:
        raise ValueError(
            "The 'min_samples' parameter of SpanningForestClustering must be None for "
            "a sparse graph, and at most the number of samples. Got "
            f"{min_samples} instead, with {lengths.n_samples} samples."
        )
    core, grow = _core_lengths(lengths, min_samples, n_jobs)
    if not core.any():
        return lengths

    def raised(plain, ends, rows):
        longer = np.maximum(plain, np.maximum(ends, core[rows])) + TIE * plain
        return np.where(plain == 0, 0, longer)

    def row(i, rows):
        return raised(lengths.row(i, rows), core[i], rows)

    def between(rows, others):
        return raised(lengths.between(rows, others), core[rows, None], others)

    return replace(
        lengths,
        row=row,
        core=core,
        between=lengths.between and between,
        grow=grow,
    )


def _core_lengths(lengths, min_samples, n_jobs):
    """Return the length (n,) from each row to its `min_samples`-th nearest row.

    The row counts itself. Also returns a function that grows the tree of the raised
    lengths, or None.
    """
    from skdiffclust.forests._trees._boruvka import raised_neighbors, search_leaves

    if lengths.points is not None and is_compiled(lengths.n_samples, search_leaves):
        from skdiffclust._compat import effective_n_threads

        n_threads = effective_n_threads(n_jobs)
        raised = raised_neighbors(
            lengths.points, min_samples, n_threads, lengths.norm, lengths.firsts
        )
        if raised is not None:
            return raised
    everyone = np.arange(lengths.n_samples)
    nth = min_samples - 1
    step = max(1, _LENGTHS_AT_ONCE // lengths.n_samples)
    blocks = (
        lengths.between(everyone[start : start + step], everyone)
        for start in range(0, lengths.n_samples, step)
    )
    return np.concatenate([np.partition(part, nth)[:, nth] for part in blocks]), None
