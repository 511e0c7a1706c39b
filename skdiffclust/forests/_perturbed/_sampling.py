"""Free forests of noisy copies of an edge list."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._perturbed._heaviest_forest import heaviest_forest, workspace
from skdiffclust.forests._perturbed._noise import draw_list, noise_workspace
from skdiffclust.forests._trees._union_find import find, singletons, union


@compiled(nogil=True)
def sample_free(seed, samples, samples_per_draw, scale, table, edges, n_edges, cuts):
    """Solve the samples first <= s < last of an edge list.

    edges is (weights, indptr, columns, heads, tails); samples_per_draw is 1, or 2 for
    antithetic pairs, whose samples 2u and 2u + 1 share the draw u; cuts are from
    `cuts_of`. Returns the edges of every forest (s, n_edges) as positions in the list,
    heaviest first, its components (s, n), its weights (s,) and its lowest accepted
    values (s,).
    """
    weights, indptr, columns, heads, tails = edges
    n = len(indptr) - 1
    m = len(weights)
    n_samples = samples[1] - samples[0]
    work = workspace(m, n)
    component = work[7]
    accepted = work[8]
    scratch = noise_workspace(n)
    noise = np.empty(m)
    values = np.empty(m)
    forests = np.empty((n_samples, n_edges), dtype=np.int32)
    labels = np.empty((n_samples, n), dtype=np.int32)
    totals = np.zeros(n_samples)
    minimum_weights = np.full(n_samples, np.inf)
    for s in range(n_samples):
        sample = samples[0] + s
        draw = sample // samples_per_draw
        antithetic_index = sample % samples_per_draw
        if antithetic_index and s and table[0, 0] == -table[512, 0]:
            # The mirror image of a symmetric draw is its negative, bit for bit.
            for e in range(m):
                values[e] = weights[e] - scale * noise[e]
        else:
            draw_list(
                seed, draw, antithetic_index, indptr, columns, table, scratch, noise
            )
            for e in range(m):
                values[e] = weights[e] + scale * noise[e]
        heaviest_forest(values, heads, tails, n_edges, cuts, work)
        forests[s] = accepted[:n_edges]
        labels[s] = component
        for a in range(n_edges):
            totals[s] += values[accepted[a]]
            minimum_weights[s] = values[accepted[a]]
    return forests, labels, totals, minimum_weights


@compiled(nogil=True)
def regrow(seed, samples, samples_per_draw, scale, table, edges, forests, cuts):
    """Replace forests (s, n_edges) by the heaviest ones with the same components.

    Arguments and results are those of `sample_free`, but for the components.
    """
    weights, indptr, columns, heads, tails = edges
    n = len(indptr) - 1
    m = len(weights)
    n_edges = forests.shape[1]
    work = workspace(m, n)
    accepted = work[8]
    scratch = noise_workspace(n)
    noise = np.empty(m)
    # The edges inside the components of a sample.
    inside = np.empty(m, dtype=np.int32)
    first = np.empty(m, dtype=np.int32)
    second = np.empty(m, dtype=np.int32)
    values = np.empty(m)
    found = np.empty_like(forests)
    totals = np.zeros(len(forests))
    minimum_weights = np.full(len(forests), np.inf)
    for s in range(len(forests)):
        parents = singletons(n)
        sizes = np.ones(n, dtype=np.int64)
        for e in forests[s]:
            union(parents, sizes, find(parents, heads[e]), find(parents, tails[e]))
        component = np.empty(n, dtype=np.int64)
        for v in range(n):
            component[v] = find(parents, v)
        draw, mirrored = divmod(samples[0] + s, samples_per_draw)
        draw_list(seed, draw, mirrored, indptr, columns, table, scratch, noise)
        n_inside = 0
        for e in range(m):
            inside[n_inside] = e
            first[n_inside] = heads[e]
            second[n_inside] = tails[e]
            values[n_inside] = weights[e] + scale * noise[e]
            n_inside += component[heads[e]] == component[tails[e]]
        heaviest_forest(
            values[:n_inside], first[:n_inside], second[:n_inside], n_edges, cuts, work
        )
        for a in range(n_edges):
            value = values[accepted[a]]
            found[s, a] = inside[accepted[a]]
            totals[s] += value
            minimum_weights[s] = value
    return found, totals, minimum_weights
