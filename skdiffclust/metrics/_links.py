"""Links in a form that follows samples through a cross-validation."""

import numpy as np
from scipy import sparse
from scipy.sparse import csr_array

from skdiffclust._constraints import check_pairs, refuse_self_pairs


def links_to_incidence(pairs, n_samples) -> csr_array:
    """Convert pairs of indices to an incidence matrix for use in cross-validation.

    Pairs of indices refer to the samples of the whole X, and are wrong once a search
    has taken a subset of X. If there are as many pairs as samples, the search even
    takes a subset of the pairs. The rows of an incidence matrix follow the samples, and
    links of which one sample is missing are dropped. Pass links to a search in this
    form.

    Parameters
    ----------
    pairs : array-like of shape (n_links, 2)
        Indices of the two different samples of each link, from 0 to `n_samples` - 1.
    n_samples : int
        Number of samples of X.

    Returns
    -------
    scipy.sparse.csr_array of shape (n_samples, n_links), int8
        Incidence matrix with two ones in each column.

    Raises
    ------
    ValueError
        If an index is out of range, or a pair links a sample to itself.

    Notes
    -----
    The cost is O(n_samples + n_links) in time and memory. For `must_link`, group
    identifiers of shape (n_samples,) are an alternative: they follow the samples, too.

    Examples
    --------
    >>> from skdiffclust.metrics import links_to_incidence
    >>> links_to_incidence([[0, 2], [1, 2]], 3).toarray()
    array([[1, 0],
           [0, 1],
           [1, 1]], dtype=int8)
    """
    title = "The 'pairs' parameter of links_to_incidence"
    pairs = check_pairs(pairs, n_samples, title)
    refuse_self_pairs(pairs, title)
    columns = np.repeat(np.arange(len(pairs)), 2)
    ones = np.ones(len(columns), dtype=np.int8)
    return sparse.csr_array(
        (ones, (pairs.ravel(), columns)), shape=(n_samples, len(pairs))
    )
