"""Monte-Carlo sums over solved samples: counts, and products with weights."""

import numpy as np

from skdiffclust._compiled import compiled


@compiled(nogil=True)
def count_edges(forests, samples_per_draw, counts):
    """Add the samples (s, n_edges) to the counts (2, m) of an edge list.

    The first row counts the samples that hold an edge, the second the antithetic pairs
    both of whose samples do. The first sample is the first one of its pair.
    """
    in_first = np.zeros(counts.shape[1], dtype=np.bool_)
    for s in range(len(forests)):
        for e in forests[s]:
            counts[0, e] += 1
            if samples_per_draw == 2 and s % 2 == 0:
                in_first[e] = True
            elif in_first[e]:
                counts[1, e] += 1
        if s % samples_per_draw == samples_per_draw - 1 and samples_per_draw == 2:
            in_first[forests[s - 1]] = False


@compiled(nogil=True)
def count_connected(labels, samples_per_draw, counts):
    """Add the samples (s, n) to the counts (2, n, n) of pairs of rows, upper triangles.

    As `count_edges`, of pairs of rows that share a component.
    """
    for s in range(0, len(labels), samples_per_draw):
        one = labels[s]
        two = labels[min(s + samples_per_draw, len(labels)) - 1]
        alone = s + samples_per_draw > len(labels) or samples_per_draw == 1
        for i in range(labels.shape[1]):
            for j in range(i + 1, labels.shape[1]):
                first = one[i] == one[j]
                second = two[i] == two[j]
                if alone:
                    counts[0, i, j] += first
                else:
                    counts[0, i, j] += np.int64(first) + np.int64(second)
                    counts[1, i, j] += first and second


@compiled(nogil=True)
def products_with_connectivity(labels, others, weights):
    """Sums (s,) of weights (n, n), upper triangle, over pairs that samples connect.

    A pair counts where it shares a component in labels (s, n) and in others (s, n).
    """
    products = np.zeros(len(labels))
    for s in range(len(labels)):
        one = labels[s]
        two = others[s]
        for i in range(len(one)):
            for j in range(i + 1, len(one)):
                if one[i] == one[j] and two[i] == two[j]:
                    products[s] += weights[i, j]
    return products
