"""Exact pruning: the edges that bounded noise can bring into a perturbed forest."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._perturbed._heaviest_forest import (
    cuts_of,
    heaviest_forest,
    workspace,
)
from skdiffclust.forests._trees._union_find import find, singletons, union


@compiled(nogil=True)
def _dendrogram_order(accepted, weights, heads, tails, n):
    """Order in which the components of a forest are intervals at every level.

    `accepted` are its edges, heaviest first. Returns the vertices in that order (n,)
    and the weights (n,) that join each to the one before it, -inf where none does.
    The smallest weight between two positions is then the bottleneck of two vertices.
    """
    parents = singletons(n)
    sizes = np.ones(n, dtype=np.int64)
    first = singletons(n)
    last = singletons(n)
    after = np.full(n, -1, dtype=np.int64)
    joined = np.full(n, -np.inf)
    for e in accepted:
        a = find(parents, heads[e])
        b = find(parents, tails[e])
        after[last[a]] = first[b]
        joined[first[b]] = weights[e]
        start = first[a]
        stop = last[b]
        root = union(parents, sizes, a, b)
        first[root] = start
        last[root] = stop
    order = np.empty(n, dtype=np.int64)
    gaps = np.empty(n)
    position = 0
    for v in range(n):
        if parents[v] == v:
            u = first[v]
            while u >= 0:
                order[position] = u
                gaps[position] = joined[u]
                u = after[u]
                position += 1
    return order, gaps


@compiled(nogil=True)
def can_enter(accepted, weights, heads, tails, n, slack):
    """Mark the edges (m,) that noise can bring into the forest of `accepted`.

    An edge cannot enter if, however the noise falls, it stays below every edge of the
    clean forest that joins its ends, or below all edges of the clean forest: if its
    weight is more than `slack`, the width of the noise, below the larger of the
    bottleneck between its ends and the lowest accepted weight. Edges come row by row
    of `heads`. O(n² + m) time, O(n + m) memory.
    """
    order, gaps = _dendrogram_order(accepted, weights, heads, tails, n)
    position = np.empty(n, dtype=np.int64)
    for p in range(n):
        position[order[p]] = p
    lowest = weights[accepted[-1]] if len(accepted) else np.inf
    bottleneck = np.full(n, lowest)
    enters = np.empty(len(weights), dtype=np.bool_)
    row = -1
    left = 0
    right = 0
    for e in range(len(weights)):
        if heads[e] != row:
            bottleneck[left:right] = lowest
            row = heads[e]
            left = right = position[row]
            smallest = np.inf
            while gaps[left] > -np.inf:
                smallest = min(smallest, gaps[left])
                left -= 1
                bottleneck[left] = smallest
            right = right + 1
            smallest = np.inf
            while right < n and gaps[right] > -np.inf:
                smallest = min(smallest, gaps[right])
                bottleneck[right] = smallest
                right += 1
        enters[e] = weights[e] + slack >= bottleneck[position[tails[e]]]
    return enters


@compiled(nogil=True)
def kept_edges(enters, edges):
    """Return the edge list of the edges that are marked, and their positions."""
    weights, indptr, columns, heads, tails = edges
    n = len(indptr) - 1
    m = np.count_nonzero(enters)
    kept = np.empty(m, dtype=np.int64)
    starts = np.zeros(n + 1, dtype=np.int64)
    c = 0
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            if enters[e]:
                kept[c] = e
                c += 1
        starts[i + 1] = c
    return (
        (weights[kept], starts, columns[kept], heads[kept], tails[kept]),
        kept,
    )


@compiled(nogil=True)
def prune(edges, n, n_edges, slack, margin, most_above):
    """Prepare an edge list for the samples of its forests of `n_edges` edges.

    Returns how many edges the clean forest has; where that is all of them, also the
    edge list of those that can enter, unless `slack` is infinite, their positions, and
    the cuts of `heaviest_forest`: the first has about `margin` times the edges above
    it that weigh no less than the lightest of the clean forest, at most `most_above`.
    """
    weights, _, _, heads, tails = edges
    work = workspace(len(weights), n)
    n_found = heaviest_forest(
        weights, heads, tails, n_edges, cuts_of(weights, 2.0 * n), work
    )
    accepted = work[8][:n_found]
    lowest = weights[accepted[-1]] if n_found else np.inf
    if n_found == n_edges and slack < np.inf:
        enters = can_enter(accepted, weights, heads, tails, n, slack)
        left, kept = kept_edges(enters, edges)
    else:
        left, kept = kept_edges(np.zeros(len(weights), dtype=np.bool_), edges)
    # One chunk above the lowest accepted weight holds nearly all noisy forests.
    n_above = 0
    values = left[0] if slack < np.inf else weights
    for value in values:
        n_above += value >= lowest
    cuts = cuts_of(values, min(margin * n_above, most_above))
    return n_found, left, kept, cuts
