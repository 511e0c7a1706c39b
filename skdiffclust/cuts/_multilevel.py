"""Low ratio-cuts without eigenvectors: coarsen, merge greedily, polish, combine."""

import numpy as np
import scipy.sparse as sp

from skdiffclust._compiled import compiled
from skdiffclust.cuts._polish import polish
from skdiffclust.cuts._ratio_cut import cut_of_labels

# Coarsening ends at so many nodes a cluster, within these bounds: greedy merging is
# on a dense matrix.
_NODES_PER_CLUSTER = 20
_MIN_NODES = 200
_MAX_NODES = 2000
# Isolated nodes and stars pair with nobody: a level that keeps more of the nodes than
# this pairs what was left over.
_STALLED = 0.95


def search(graph, n_clusters, n_starts, random_state, *, sizes):
    """Return labels (n,) int64 of the lowest cut of several starts, combined.

    O(n_starts n_edges) time, and O(n_starts (20 n_clusters)^2) on coarse graphs.
    """
    starts = [
        multilevel(graph, n_clusters, random_state, sizes=sizes)
        for _ in range(n_starts)
    ]
    return combine_all(graph, starts, n_clusters, random_state, sizes=sizes)


def combine_all(graph, starts, n_clusters, random_state, *, sizes):
    """Return labels (n,) of a cut at most that of the best of `starts`.

    The best meets each of the others: what both put together is one node, and the
    small graph of those nodes is cut anew.
    """
    starts = sorted(
        starts, key=lambda labels: cut_of_labels(graph, labels, n_clusters, sizes)
    )
    best = starts[0]
    for other in starts[1:]:
        best = combine(graph, best, other, n_clusters, random_state, sizes=sizes)
    return best


def multilevel(graph, n_clusters, random_state, *, sizes):
    """Return labels (n,) int64 of a low cut of a graph (n, n), n >= n_clusters.

    Heaviest edges are contracted in random order until few nodes are left, those are
    merged greedily, and the labels are polished at every level on the way back.
    """
    levels = []
    enough = min(max(_MIN_NODES, _NODES_PER_CLUSTER * n_clusters), _MAX_NODES)
    enough = max(enough, 2 * n_clusters)
    while graph.shape[0] > enough:
        order = random_state.permutation(graph.shape[0])
        groups, n_groups = match(graph.indptr, graph.indices, graph.data, sizes, order)
        if n_groups > _STALLED * graph.shape[0]:
            groups, n_groups = _pair_leftovers(groups)
        levels.append((graph, sizes, groups))
        graph, sizes = contract(graph, groups, n_groups, sizes)
    labels = merge(graph, n_clusters, sizes=sizes)
    labels = polish(graph, labels, n_clusters, sizes=sizes, swaps=not levels)
    for level in range(len(levels) - 1, -1, -1):
        graph, sizes, groups = levels[level]
        # Swaps cost more than moves and pay on the finest graph only.
        labels = polish(
            graph, labels[groups], n_clusters, sizes=sizes, swaps=level == 0
        )
    return labels


def combine(graph, labels, other, n_clusters, random_state, *, sizes):
    """Return the labels (n,) of a cut at most that of `labels`, recut with `other`."""
    both = labels * n_clusters + other
    groups = np.unique(both, return_inverse=True)[1]
    n_groups = int(groups.max()) + 1
    coarse, coarse_sizes = contract(graph, groups, n_groups, sizes)
    inherited = np.empty(n_groups, dtype=np.int64)
    inherited[groups] = labels
    anew = multilevel(coarse, n_clusters, random_state, sizes=coarse_sizes)
    inherited = polish(coarse, inherited, n_clusters, sizes=coarse_sizes, swaps=False)
    candidates = [labels]
    for start in (inherited, anew):
        candidates.append(polish(graph, start[groups], n_clusters, sizes=sizes))
    return min(
        candidates, key=lambda found: cut_of_labels(graph, found, n_clusters, sizes)
    )


def contract(graph, groups, n_groups, sizes):
    """Return the graph and sizes (n_groups,) of groups (n,) of nodes taken as one."""
    rows = groups.astype(graph.indices.dtype)[
        np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    ]
    columns = groups.astype(graph.indices.dtype)[graph.indices]
    between = rows != columns
    coarse = sp.coo_array(
        (graph.data[between], (rows[between], columns[between])),
        shape=(n_groups, n_groups),
    ).tocsr()
    return coarse, np.bincount(groups, sizes, minlength=n_groups)


def merge(graph, n_clusters, *, sizes):
    """Return labels (n,) by merging, again and again, the pair that lowers most."""
    labels = merge_pairs(graph.toarray(), sizes.copy(), graph.sum(axis=1), n_clusters)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64, copy=False)


def _pair_leftovers(groups):
    """Join groups (n,) of one node, two by two; return (groups, count)."""
    alone = np.flatnonzero(np.bincount(groups)[groups] == 1)
    alone = alone[: 2 * (len(alone) // 2)]
    groups = groups.copy()
    groups[alone[1::2]] = groups[alone[::2]]
    groups = np.unique(groups, return_inverse=True)[1]
    return groups, int(groups.max()) + 1


@compiled()
def match(indptr, indices, data, sizes, order):
    """Pair nodes by the heaviest edge for their sizes; return (groups (n,), count)."""
    groups = np.full(len(order), -1, np.int64)
    n_groups = 0
    for i in order:
        if groups[i] >= 0:
            continue
        groups[i] = n_groups
        best, best_weight = -1, 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if groups[j] < 0:
                weight = data[e] * (1.0 / sizes[i] + 1.0 / sizes[j])
                if weight > best_weight:
                    best, best_weight = j, weight
        if best >= 0:
            groups[best] = n_groups
        n_groups += 1
    return groups, n_groups


@compiled(inline="always")
def _change(links, sizes, cuts, i, j):
    """Return by how much the cut changes if clusters i and j become one."""
    joined = (cuts[i] + cuts[j] - 2.0 * links[i, j]) / (sizes[i] + sizes[j])
    return joined - cuts[i] / sizes[i] - cuts[j] / sizes[j]


@compiled()
def _best_partner(links, sizes, cuts, alive, i):
    """Return the cluster that i is best merged with, and the change of the cut."""
    best, best_change = -1, np.inf
    for j in range(len(alive)):
        if alive[j] and j != i:
            change = _change(links, sizes, cuts, i, j)
            if change < best_change:
                best, best_change = j, change
    return best, best_change


@compiled()
def merge_pairs(links, sizes, cuts, n_clusters):
    """Return the owner (n,) of each node after merging down to n_clusters.

    links (n, n), sizes and cuts (n,) are of the nodes, and are written.
    """
    n = len(sizes)
    alive = np.ones(n, np.bool_)
    owner = np.arange(n)
    partner = np.empty(n, np.int64)
    gain = np.empty(n)
    for i in range(n):
        partner[i], gain[i] = _best_partner(links, sizes, cuts, alive, i)
    for _ in range(n - n_clusters):
        a = -1
        for i in range(n):
            if alive[i] and (a < 0 or gain[i] < gain[a]):
                a = i
        b = partner[a]
        cuts[a] = max(cuts[a] + cuts[b] - 2.0 * links[a, b], 0.0)
        sizes[a] += sizes[b]
        alive[b] = False
        for j in range(n):
            links[a, j] += links[b, j]
            links[j, a] = links[a, j]
            if owner[j] == b:
                owner[j] = a
        for j in range(n):
            if not alive[j]:
                continue
            if j == a or partner[j] == a or partner[j] == b:
                partner[j], gain[j] = _best_partner(links, sizes, cuts, alive, j)
            else:
                change = _change(links, sizes, cuts, j, a)
                if change < gain[j]:
                    partner[j], gain[j] = a, change
    return owner
