"""Monte-Carlo sums over solved samples: means, connectivity, score functions."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._perturbed._noise import draw_list, noise_workspace


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
def products_with_forests(forests, weights):
    """Inner products (s,) of weights (m,) on an edge list with the samples."""
    products = np.zeros(len(forests))
    for s in range(len(forests)):
        for e in forests[s]:
            products[s] += weights[e]
    return products


@compiled(nogil=True)
def products_with_connectivity(labels, weights):
    """Inner products (s,) of the upper triangle of weights (n, n) with the samples."""
    products = np.zeros(len(labels))
    for s in range(len(labels)):
        component = labels[s]
        for i in range(len(component)):
            for j in range(i + 1, len(component)):
                if component[i] == component[j]:
                    products[s] += weights[i, j]
    return products


@compiled(nogil=True)
def products_between_antithetic(labels, weights):
    """Sums (s,) of weights (n, n) over pairs that both antithetic samples connect.

    Of samples 2u and 2u + 1 both get the same value.
    """
    products = np.zeros(len(labels))
    for s in range(0, len(labels) - 1, 2):
        one = labels[s]
        two = labels[s + 1]
        for i in range(len(one)):
            for j in range(i + 1, len(one)):
                if one[i] == one[j] and two[i] == two[j]:
                    products[s] += weights[i, j]
        products[s + 1] = products[s]
    return products


@compiled(nogil=True)
def weigh_scores(
    seed, samples, samples_per_draw, table, indptr, columns, gumbel, coefficients, sums
):
    """Add coefficient times the score of the noise of each sample to sums (m,).

    The score of a density exp(-v) is v': z for normal noise, 1 - exp(-z) for Gumbel.
    coefficients (s,) belong to the samples first <= s < last.
    """
    n = len(indptr) - 1
    m = len(columns)
    work = noise_workspace(n)
    noise = np.empty(m)
    for s in range(samples[1] - samples[0]):
        draw = (samples[0] + s) // samples_per_draw
        antithetic_index = (samples[0] + s) % samples_per_draw
        draw_list(seed, draw, antithetic_index, indptr, columns, table, work, noise)
        if gumbel:
            for e in range(m):
                sums[e] += coefficients[s] * (1.0 - np.exp(-noise[e]))
        else:
            for e in range(m):
                sums[e] += coefficients[s] * noise[e]
