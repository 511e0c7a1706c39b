"""The standardised similarity of nearest neighbours, without all pairs of rows."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils import check_array

from skdiffclust._affinity import center, neighbors_graph
from skdiffclust._compat import Interval, validate_params
from skdiffclust._validation import refuse_silent_conversion


@dataclass(frozen=True, eq=False)
class NeighborSimilarity:
    """Similarity of nearest neighbours, given by `neighbor_similarity`.

    Attributes
    ----------
    similarity : csr_array of shape (n_samples, n_samples), float64
        Symmetric; pairs of which neither is a neighbour of the other are not stored.
    omitted_similarity : float
        Upper bound of the similarity of these pairs.
    """

    similarity: csr_array
    omitted_similarity: float


@validate_params(
    {
        "X": ["array-like"],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
    },
    prefer_skip_nested_validation=True,
)
def neighbor_similarity(X, n_neighbors):
    """Compute the standardised similarity of samples that are nearest neighbours.

    Σ_ij = (mean - ‖x_i - x_j‖²) / std where either sample is among the nearest of the
    other, with mean and standard deviation over all pairs: the entries of
    `skdiffclust.nn.standardized_similarity` that a forest is likely to use. Give both
    attributes of the result to `perturbed_forest` where n × n entries are too many.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples, an embedding for instance.
    n_neighbors : int
        Neighbours of each sample, itself not counted.

    Returns
    -------
    NeighborSimilarity
        Frozen, with `similarity` and `omitted_similarity`.

    Raises
    ------
    ValueError
        If all samples are equal, there are too few, or X is not finite.

    See Also
    --------
    perturbed_forest : Takes the result.

    Notes
    -----
    The mean is 2 E[a] and the variance 2 Var[a] + 4 ‖C‖², where a are the squared
    lengths of the centred samples and C is their covariance, so that no pair of samples
    is computed for them: O(n d²). The neighbours cost what a k-d tree or products of
    blocks of samples cost; memory is O(n (d + n_neighbors)).

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
            "The 'X' parameter must have samples that differ. Got equal ones only "
            "instead. There is nothing to cluster."
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
