"""Low cuts without eigenvectors: coarsen, merge greedily, search locally, combine."""

import numpy as np
import scipy.sparse as sp

from skdiffclust._compat import effective_n_threads
from skdiffclust._compiled import compiled
from skdiffclust._threads import run_chunks
from skdiffclust.cuts._local_search import (
    UNBOUNDED,
    Level,
    cost_of,
    local_search,
    rank,
    total_cost,
)

# Coarsening ends at this many nodes per cluster, within these bounds, because greedy
# merging uses a dense matrix.
_NODES_PER_CLUSTER = 20
_MIN_NODES = 200
_MAX_NODES = 2000
# If more than the first share of the nodes are left, nodes without a partner are paired
# by a neighbour that they share; if more than the second are, in any order.
_TWO_HOPS = 0.6
_STALLED = 0.95
# Number of nodes from which starts run in threads.
_THREADED = 2000


def search(level, n_clusters, n_starts, random_state, bounds=UNBOUNDED):
    """Return labels (n,) int64 of a cut at most the lowest of several starts.

    The best is combined with each of the others: what both group together is one node,
    and the small graph of those nodes is cut anew.

    O(n_starts n_edges) time, and O(n_starts (20 n_clusters)^2) on coarse graphs. The
    starts run in threads, and are the same for any number of them.
    """
    seeds = random_state.randint(np.iinfo(np.int32).max, size=n_starts)
    starts = [None] * n_starts

    def work(first, last):
        for i in range(first, last):
            rng = np.random.RandomState(seeds[i])
            starts[i] = multilevel(level, n_clusters, rng, bounds)

    n_threads = effective_n_threads() if level.n >= _THREADED else 1
    run_chunks(work, n_starts, (), n_threads)
    best, *others = sorted(
        starts, key=lambda candidate: rank(level, candidate, n_clusters, bounds)
    )
    for other in others:
        best = combine(level, best, other, n_clusters, random_state, bounds)
    return best


def multilevel(level, n_clusters, random_state, bounds=UNBOUNDED):
    """Return labels (n,) int64 of a low cut of a graph of n >= n_clusters nodes.

    Heaviest edges are contracted in random order until few nodes are left, which are
    merged greedily, and a local search improves the labels at every level on the way
    back.
    """
    enough = min(max(_MIN_NODES, _NODES_PER_CLUSTER * n_clusters), _MAX_NODES)
    enough = max(min(enough, level.n // 3), 2 * n_clusters)

    def solve(level):
        n_groups = level.n
        if level.n > enough:
            groups, n_groups = match(level, random_state.permutation(level.n))
        if n_groups == level.n:
            labels = merge(level, n_clusters, bounds[1])
        else:
            labels = solve(coarsen(level, groups, n_groups))[groups]
        return local_search(level, labels, n_clusters, bounds)

    return solve(level)


def combine(level, labels, other, n_clusters, random_state, bounds=UNBOUNDED):
    """Return the labels (n,) of a cut at most that of `labels`, recut with `other`."""
    groups = np.unique(labels * n_clusters + other, return_inverse=True)[1]
    coarse = coarsen(level, groups, int(groups.max()) + 1)
    start = multilevel(coarse, n_clusters, random_state, bounds)[groups]
    improved = local_search(level, start, n_clusters, bounds)
    return min(
        (labels, improved),
        key=lambda candidate: rank(level, candidate, n_clusters, bounds),
    )


def match(level, order):
    """Return groups (n,) of one node or two, and their number.

    Nodes are visited in a random order (n,). If many nodes are left alone, two whose
    heaviest edges lead to the same node are paired, and if most are, any two.
    """
    partner, hubs = pair_nodes(level, order)
    for share, keys in ((_TWO_HOPS, hubs), (_STALLED, np.zeros_like(hubs))):
        alone = np.flatnonzero(partner == np.arange(level.n))
        if len(alone) + level.n > 2 * share * level.n:
            # Nodes that must be separated from others are left alone.
            alone = np.setdiff1d(alone, level.indices[level.data < 0.0])
            alone = alone[keys[alone] >= 0]
            _pair_by_key(partner, alone, keys)
    first = np.minimum(partner, np.arange(level.n))
    numbers = np.cumsum(first == np.arange(level.n)) - 1
    return numbers[first], int(numbers[-1]) + 1


def _pair_by_key(partner, alone, keys):
    """Pair, in place, nodes `alone` with the next one of the same key."""
    alone = alone[np.argsort(keys[alone], kind="stable")]
    keys = keys[alone]
    rank_of_key = np.arange(len(alone)) - np.searchsorted(keys, keys)
    second = np.flatnonzero(rank_of_key % 2 == 1)
    partner[alone[second - 1]] = alone[second]
    partner[alone[second]] = alone[second - 1]


def coarsen(level, groups, n_groups):
    """Return the `Level` of groups (n,) of nodes taken as one."""
    # Memory that is never written to is not allocated by the system.
    indices = np.empty(len(level.indices), dtype=level.indices.dtype)
    data = np.empty(len(level.data))
    starts = np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=n_groups))])
    members = np.argsort(groups, kind="stable")
    indptr, degrees = coarsen_rows(level, groups, members, starts, indices, data)
    n_kept = indptr[-1]
    return Level(
        indptr,
        indices[:n_kept].copy(),
        data[:n_kept].copy(),
        degrees,
        np.bincount(groups, level.divisors),
        np.bincount(groups, level.sizes),
        level.resolution,
    )


def merge(level, n_clusters, high=np.inf):
    """Return the labels (n,) after merges, each of which lowers the cut most.

    Pairs that must be separated, or are larger than `high` together, are merged last.
    """
    graph = (level.data, level.indices, level.indptr)
    owner = merge_pairs(
        sp.csr_array(graph, shape=(level.n, level.n)).toarray(),
        level.divisors.copy(),
        level.degrees.copy(),
        level.sizes.copy(),
        level.resolution,
        n_clusters,
        high,
    )
    return np.unique(owner, return_inverse=True)[1]


@compiled(nogil=True)
def pair_nodes(level, order):
    """Pair nodes by the heaviest edge for their divisors; return (partners, hubs) (n,).

    A node alone is its own partner; its hub is the neighbour of the heaviest edge, -1
    for any other node.
    """
    n = len(order)
    partner = np.arange(n)
    hubs = np.full(n, -1)
    for i in order:
        if partner[i] != i:
            continue
        best = -1
        best_weight = 0.0
        hub_weight = 0.0
        for e in range(level.indptr[i], level.indptr[i + 1]):
            j = level.indices[e]
            if level.data[e] > hub_weight:
                hubs[i] = j
                hub_weight = level.data[e]
            if partner[j] != j:
                continue
            weight = level.data[e] * (1.0 / level.divisors[i] + 1.0 / level.divisors[j])
            if weight > best_weight:
                best = j
                best_weight = weight
        if best >= 0:
            partner[i] = best
            partner[best] = i
    return partner, hubs


@compiled(nogil=True)
def coarsen_rows(level, groups, members, starts, columns, values):
    """Fill columns and values with the rows of groups (n,) of nodes taken as one.

    The members (n,) of group g are those from starts[g] to starts[g + 1]. Returns
    indptr (n_groups + 1,) and the degrees (n_groups,).
    """
    n_groups = len(starts) - 1
    pointers = np.zeros(n_groups + 1, level.indptr.dtype)
    degrees = np.zeros(n_groups)
    place = np.full(n_groups, -1, np.int64)
    count = 0
    for g in range(n_groups):
        begin = count
        for m in range(starts[g], starts[g + 1]):
            i = members[m]
            degrees[g] += level.degrees[i]
            for e in range(level.indptr[i], level.indptr[i + 1]):
                h = groups[level.indices[e]]
                if h == g:
                    degrees[g] -= level.data[e]
                elif place[h] < begin:
                    place[h] = count
                    columns[count] = h
                    values[count] = level.data[e]
                    count += 1
                else:
                    values[place[h]] += level.data[e]
        pointers[g + 1] = count
    return pointers, degrees


@compiled(inline="always")
def _merged(links, divisors, cuts, sizes, resolution, i, j, high, penalty):
    """Return by how much the cost changes if clusters i and j become one.

    A penalty is added for pairs above the size `high`; it grows with their size.
    """
    change = cost_of(
        cuts[i] + cuts[j] - 2.0 * links[i, j], divisors[i] + divisors[j], resolution
    )
    change -= cost_of(cuts[i], divisors[i], resolution)
    change -= cost_of(cuts[j], divisors[j], resolution)
    size = sizes[i] + sizes[j]
    return change + penalty * size / high if size > high else change


@compiled(nogil=True)
def merge_pairs(links, divisors, cuts, sizes, resolution, n_clusters, high):
    """Return a node (n,) of the cluster of each node after merges down to n_clusters.

    links (n, n), divisors, cuts and sizes (n,) are of the nodes, and are written.
    """
    n = len(divisors)
    active = np.ones(n, np.bool_)
    owner = np.arange(n)
    partner = np.full(n, -1)
    gain = np.full(n, np.inf)
    penalty = 1.0 + total_cost(cuts, divisors, resolution)
    a = -1
    b = -1
    for _ in range(n - n_clusters):
        for i in range(n):
            if not active[i]:
                continue
            if i == a or partner[i] == a or partner[i] == b:
                partner[i] = -1
                gain[i] = np.inf
            # Where the partner is still the best, only the merged one is new.
            for j in range(n) if partner[i] < 0 else range(max(a, 0), a + 1):
                if active[j] and j != i:
                    change = _merged(
                        links, divisors, cuts, sizes, resolution, i, j, high, penalty
                    )
                    if change < gain[i]:
                        partner[i] = j
                        gain[i] = change
        a = np.argmin(gain)
        b = partner[a]
        cuts[a] = max(cuts[a] + cuts[b] - 2.0 * links[a, b], 0.0)
        divisors[a] += divisors[b]
        sizes[a] += sizes[b]
        active[b] = False
        gain[b] = np.inf
        for i in range(n):  # assigned as arrays, these compile for seconds
            links[a, i] += links[b, i]
            links[i, a] = links[a, i]
            if owner[i] == b:
                owner[i] = a
    return owner
