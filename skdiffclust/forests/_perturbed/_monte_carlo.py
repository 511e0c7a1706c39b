"""Monte-Carlo sums over solved samples: counts, and products with weights."""

import numpy as np

from skdiffclust._compiled import compiled


@compiled(nogil=True)
def count_connected(labels, counts):
    """Add the samples (s, n) to the counts (n, n) of pairs that share a component.

    Upper triangles.
    """
    for s in range(len(labels)):
        own = labels[s]
        for i in range(len(own)):
            for j in range(i + 1, len(own)):
                counts[i, j] += own[i] == own[j]


@compiled(nogil=True)
def products_with_connectivity(labels, weights):
    """Sums (s,) of weights (n, n), upper triangle, over pairs that samples connect."""
    products = np.zeros(len(labels))
    for s in range(len(labels)):
        own = labels[s]
        for i in range(len(own)):
            for j in range(i + 1, len(own)):
                if own[i] == own[j]:
                    products[s] += weights[i, j]
    return products
