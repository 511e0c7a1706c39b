"""Free forests of noisy copies of an edge list."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._perturbed._heaviest_forest import heaviest_forest, workspace
from skdiffclust.forests._perturbed._noise import draw_list, noise_workspace


@compiled(nogil=True)
def sample_free(seed, samples, samples_per_draw, scale, table, edges, n_edges, cuts):
    """Solve the samples first <= s < last of an edge list.

    edges is (weights, indptr, columns, heads, tails); samples_per_draw is 1, or 2 for
    antithetic pairs, whose samples 2u and 2u + 1 share the draw u; cuts are from
    `cuts_of`. Returns the edges of every forest (s, n_edges) as positions in the list,
    heaviest first, its components (s, n), and its weights (s,).
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
        for v in range(n):
            labels[s, v] = component[v]
        for a in range(n_edges):
            forests[s, a] = accepted[a]
            totals[s] += values[accepted[a]]
    return forests, labels, totals
