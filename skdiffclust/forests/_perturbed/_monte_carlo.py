"""Monte-Carlo sums over solved samples: counts, and products with weights."""

import numpy as np

from skdiffclust._compiled import compiled


@compiled(nogil=True)
def count_connected(labels, counts):
    """Add to counts (n, n) the pairs that share a component in samples (s, n).

    Only the upper triangle is counted.
    """
    for s in range(len(labels)):
        own = labels[s]
        for i in range(len(own)):
            for j in range(i + 1, len(own)):
                counts[i, j] += own[i] == own[j]


@compiled(nogil=True)
def products_with_connectivity(labels, weights):
    """Return the sums (s,) of weights over the pairs that each sample connects.

    Of the weights (n, n), the upper triangle is read.
    """
    products = np.zeros(len(labels))
    for s in range(len(labels)):
        own = labels[s]
        for i in range(len(own)):
            for j in range(i + 1, len(own)):
                if own[i] == own[j]:
                    products[s] += weights[i, j]
    return products
