"""The standardised similarity of nearest neighbours, without all pairs of rows."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils import check_array

from skdiffclust._affinity import center
from skdiffclust._compat import Interval, validate_params
from skdiffclust._neighbors import neighbors_graph
from skdiffclust._short_repr import short_repr
from skdiffclust._validation import refuse_silent_conversion
from skdiffclust.forests._perturbed._relation import freeze
from skdiffclust.forests._trees._distances import lengths_of
from skdiffclust.forests._trees._solve import spanning_edges


@dataclass(frozen=True, eq=False)
class NeighborSimilarity:
    """Similarity of nearest neighbours, returned by `neighbor_similarity`.

    Attributes
    ----------
    similarity : csr_array of shape (n_samples, n_samples), float64
        Symmetric similarity. Only pairs of which at least one is a neighbour of the
        other are stored.
    omitted_similarity : float
        Upper bound on the similarity of the pairs that are not stored.
    """

    similarity: csr_array
    omitted_similarity: float

    __repr__ = short_repr


@validate_params(
    {
        "X": ["array-like"],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
    },
    prefer_skip_nested_validation=True,
)
def neighbor_similarity(X, n_neighbors):
    """Compute the standardised similarity between nearest neighbours.

    The similarity is Σ_ij = (mean - ‖x_i - x_j‖²) / std if one of the samples is among
    the nearest neighbours of the other, where mean and standard deviation are taken
    over all pairs. These are the entries of
    :func:`skdiffclust.nn.standardized_similarity` that are most likely to be used by a
    forest. Pass both attributes of the result to :func:`perturbed_forest` if an n × n
    matrix is too large.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples, e.g. an embedding.
    n_neighbors : int
        Number of neighbours of each sample, itself excluded.

    Returns
    -------
    NeighborSimilarity
        Result with the attributes `similarity` and `omitted_similarity`.

    Raises
    ------
    ValueError
        If all samples are equal, there are too few samples, or X is not finite.

    See Also
    --------
    perturbed_forest : Function to which the result can be passed.

    Notes
    -----
    The mean is 2 E[a] and the variance 2 Var[a] + 4 ‖C‖², where a are the squared norms
    of the centred samples and C is their covariance. They are computed in O(n d²),
    without considering pairs of samples. The neighbours are found with a k-d tree or
    block by block. Memory is O(n (d + n_neighbors)).

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust.forests import neighbor_similarity, perturbed_forest
    >>> X = np.random.RandomState(0).rand(200, 2)
    >>> near = neighbor_similarity(X, 10)
    >>> result = perturbed_forest(near.similarity, 50, random_state=0,
    ...                           omitted_similarity=near.omitted_similarity)
    >>> result.forest.shape, result.forest.nnz < 200 * 30
    ((200, 200), True)
    """
    refuse_silent_conversion(X)
    X = check_array(X, dtype=np.float64, ensure_min_samples=2)
    graph = neighbors_graph(X, int(n_neighbors), mode="distance")
    mean, std = _moments_of_squares(center(X))
    if std == 0:
        raise ValueError(
            "The 'X' parameter must contain samples that differ. Got equal samples "
            "only instead. There is nothing to cluster."
        )
    graph.data = (mean - graph.data**2) / std
    # A pair is left out if it is farther than the last neighbour of both its ends.
    rows = np.repeat(np.arange(len(X)), np.diff(graph.indptr))
    ranked = graph.data[np.lexsort((-graph.data, rows))]
    last = ranked[graph.indptr[:-1] + int(n_neighbors) - 1]
    return NeighborSimilarity(graph, float(last.max()))


def _moments_of_squares(X):
    """Mean and standard deviation of ‖x_i - x_j‖² over all pairs of centred rows."""
    squares = np.einsum("ij,ij->i", X, X)
    gram = X.T @ X if X.shape[1] <= len(X) else X @ X.T
    variance = 2 * squares.var() + 4 * np.sum(np.square(gram / len(X)))
    return 2 * squares.mean(), np.sqrt(variance)


def neighbor_edges(X, n_neighbors, groups=None):
    """Return indptr (n + 1,), columns and heads (m,) of pairs of near rows; read only.

    Row by row, as a Relation has them: the nearest neighbours of all rows X (n, d) and
    their minimum spanning tree, and the same inside every group of rows (n,). Without
    noise, free forests and those in which groups are contracted are among these pairs.
    """
    n = len(X)
    parts = [_near_pairs(X, np.arange(n), n_neighbors)]
    if groups is not None:
        order = np.argsort(groups, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(groups))[:-1])
        parts += [_near_pairs(X, rows, n_neighbors) for rows in members]
    keys = np.unique(np.concatenate(parts))
    heads, columns = (ends.astype(np.int32) for ends in np.divmod(keys, n))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(heads, minlength=n))])
    arrays = indptr.astype(np.int64), columns, heads
    freeze(*arrays)
    return arrays


def _near_pairs(X, rows, n_neighbors):
    """Return i * n + j, i < j, for the near pairs of ascending rows (m,)."""
    n = len(X)
    if len(rows) - 1 <= n_neighbors:
        i, j = np.triu_indices(len(rows), 1)
        return rows[i] * n + rows[j]
    points = X[rows]
    graph = neighbors_graph(points, n_neighbors).tocoo()
    i, j = (ends[graph.row < graph.col] for ends in (graph.row, graph.col))
    tree, _ = spanning_edges(lengths_of(points, "euclidean"))
    return np.concatenate(
        [rows[i] * n + rows[j], rows[tree[:, 0]] * n + rows[tree[:, 1]]]
    )
