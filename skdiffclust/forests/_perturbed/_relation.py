"""The edges of an affinity as a row-major list, which the kernels run on."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse


@dataclass(frozen=True, eq=False)
class Relation:
    """Edges i < j of an affinity, row by row.

    Attributes
    ----------
    n_samples : int
    weights : ndarray of shape (n_edges,), float64
    indptr : ndarray of shape (n_samples + 1,), int64
        Where the edges of each row start.
    columns : ndarray of shape (n_edges,), int32
        Larger end of each edge.
    ends : tuple of two ndarray of shape (n_edges,), int32
        Both ends of each edge.
    affinity : ndarray or csr_array of shape (n_samples, n_samples)
        The matrix that was given; results are dense or sparse as it is.
    """

    n_samples: int
    weights: np.ndarray
    indptr: np.ndarray
    columns: np.ndarray
    ends: tuple
    affinity: object

    def restricted(self, kept):
        """Return the Relation of some edges, ascending positions (m,)."""
        return replace(
            self,
            weights=self.weights[kept],
            indptr=np.searchsorted(kept, self.indptr),
            columns=self.columns[kept],
            ends=tuple(end[kept] for end in self.ends),
        )

    @cached_property
    def largest(self):
        """Largest absolute weight, 0 without edges."""
        return float(np.abs(self.weights).max(initial=0.0))

    @property
    def is_complete(self):
        """Whether every pair is an edge."""
        return len(self.weights) == self.n_samples * (self.n_samples - 1) // 2

    def spread(self, values):
        """Return values (n_edges,) as a symmetric matrix of the kind of the input."""
        shape = (self.n_samples, self.n_samples)
        if sparse.issparse(self.affinity):
            upper = sparse.csr_array((values, self.columns, self.indptr), shape=shape)
            return (upper + upper.T).tocsr() if len(values) else upper
        matrix = np.zeros(shape)
        matrix[self.ends] = values
        matrix[self.ends[::-1]] = values
        return matrix


def relation_of(affinity):
    """Return the Relation of a checked affinity, dense or sparse."""
    n = affinity.shape[0]
    if sparse.issparse(affinity):
        upper = sparse.triu(affinity, 1)
        ends = upper.row, upper.col
        weights = upper.data
    else:
        ends = np.triu_indices(n, 1)
        weights = affinity[ends]
    heads, columns = ends = tuple(end.astype(np.int32) for end in ends)
    indptr = np.append(0, np.cumsum(np.bincount(heads, minlength=n)))
    return Relation(n, weights, indptr, columns, ends, affinity)
