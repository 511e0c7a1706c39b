"""Low cuts without eigenvectors: coarsen, merge greedily, search locally, combine."""

import numpy as np
import scipy.sparse as sp

from skdiffclust._compiled import compiled
from skdiffclust._threads import run_chunks, thread_count
from skdiffclust.cuts._local_search import (
    CLIMBS,
    Level,
    as_level,
    count_joined,
    rows_of_pairs,
    search_level,
    sums_of,
)

# Coarsening ends at this many nodes per cluster, within these bounds, because greedy
# merging uses a dense matrix.
_NODES_PER_CLUSTER = 20
_MIN_NODES = 200
_MAX_NODES = 2000
# Where more of the nodes than this are left, nodes without a partner are paired by a
# neighbour that they share; and beyond the second, in any order.
_TWO_HOPS = 0.6
_STALLED = 0.95
# Partitions grown beside the merged one, which on graphs without clear clusters has
# clusters of very unequal size; and by how much of the mean size coarse graphs may be
# out of bounds.
_N_GROWN = 4
_LOOSE = 0.1
# Graphs with more nodes are large: more partitions are grown, which costs almost
# nothing on the coarsest graph, and sequences of moves are tried on levels of up to
# this many nodes.
_LARGE = 20_000
_N_GROWN_LARGE = 8
_CLIMBED_LARGE = 5000
# Penalty for merging clusters that must be separated: more than any cut.
_BARRED = 1e200
# Number of nodes from which starts run in threads.
_THREADED = 2000


def search(
    graph,
    n_clusters,
    n_starts,
    random_state,
    *,
    divisors=None,
    bounds=None,
    apart=None,
):
    """Return labels (n,) int64 of the lowest cut of several starts, combined.

    O(n_starts n_edges) time, and O(n_starts (20 n_clusters)^2) on coarse graphs. The
    starts run in threads, and are the same for any number of them.
    """
    level = as_level(graph, divisors, bounds, apart)
    low, high = (0.0, np.inf) if bounds is None else bounds[1:]
    seeds = random_state.randint(np.iinfo(np.int32).max, size=n_starts)
    starts = [None] * n_starts

    def work(first, last):
        for i in range(first, last):
            rng = np.random.RandomState(seeds[i])
            starts[i] = multilevel(level, n_clusters, rng, low, high)

    n_threads = thread_count(None) if level.n >= _THREADED else 1
    if n_threads == 1:
        work(0, n_starts)
    else:
        run_chunks(work, n_starts, (), n_threads)
    return combine_all(level, starts, n_clusters, random_state, low, high)


def combine_all(level, starts, n_clusters, random_state, low=0.0, high=np.inf):
    """Return labels (n,) of a cut at most that of the best of `starts`.

    The best is combined with each of the others: what both group together is one node,
    and the small graph of those nodes is cut anew.
    """
    starts = sorted(
        starts, key=lambda labels: rank(level, labels, n_clusters, low, high)
    )
    best = starts[0]
    for other in starts[1:]:
        best = combine(level, best, other, n_clusters, random_state, low, high)
    return best


def rank(level, labels, n_clusters, low, high):
    """Return the key that labels (n,) are compared by: (pairs joined, excess, cut)."""
    clusters = sums_of(level, labels, n_clusters)
    totals = clusters.totals
    outside = np.maximum(totals - high, 0.0).sum() + np.maximum(low - totals, 0.0).sum()
    if outside <= 1e-9 * totals.sum():
        outside = 0.0
    n_joined = count_joined(level.apart_starts, level.apart_nodes, labels)
    return n_joined, outside, clusters.cut


def multilevel(level, n_clusters, random_state, low=0.0, high=np.inf):
    """Return labels (n,) int64 of a low cut of a graph of n >= n_clusters nodes.

    Heaviest edges are contracted in random order until few nodes are left, those are
    merged greedily, and a local search improves the labels at every level on the
    way back.
    """
    levels = [level]
    all_groups = []
    enough = min(max(_MIN_NODES, _NODES_PER_CLUSTER * n_clusters), _MAX_NODES)
    enough = max(enough, 2 * n_clusters)
    # No node may grow so large that clusters of it cannot be within their bounds.
    total = level.sizes.sum()
    heaviest = 1.5 * total / enough if low > 0.0 or high < np.inf else np.inf
    while level.n > enough:
        order = random_state.permutation(level.n)
        groups, n_groups = match(*level, order, heaviest, _TWO_HOPS)
        if n_groups > _STALLED * level.n:
            groups, n_groups = _pair_leftovers(groups, level.apart_starts)
            if n_groups == level.n:
                break
        level = coarsen_level(level, groups, n_groups)
        levels.append(level)
        all_groups.append(groups)
    bounds = loosened(level, n_clusters, low, high) if all_groups else (low, high)
    n_finest = levels[0].n
    n_grown = _N_GROWN_LARGE if n_finest > _LARGE else _N_GROWN
    labels = first_labels(level, n_clusters, random_state, *bounds, n_grown)
    while all_groups:
        levels.pop()
        level = levels[-1]
        groups = all_groups.pop()
        bounds = loosened(level, n_clusters, low, high) if all_groups else (low, high)
        # Sequences on all levels of a large graph would take most of the time.
        climbs = 0 if n_finest > _LARGE and level.n > _CLIMBED_LARGE else CLIMBS
        labels = search_level(level, labels[groups], n_clusters, *bounds, climbs=climbs)
    return labels


def loosened(level, n_clusters, low, high):
    """Return bounds that the nodes of a coarse level can satisfy.

    They are the bounds themselves if all nodes have one size, and are loosened by at
    most a tenth of the mean size.
    """
    mean = level.sizes.sum() / n_clusters
    largest = level.sizes.max()
    if largest == level.sizes.min():
        return low, high
    slack = min(largest, _LOOSE * mean)
    return min(low, mean - slack), max(high, mean + slack)


def first_labels(level, n_clusters, random_state, low, high, n_grown):
    """Return labels (n,) of a small graph: merged, or the best of that and some grown.

    Merging considers sizes, and nodes that must be separated, only when it may be too
    late; growing considers little but sizes.
    """
    candidates = [merge(level, n_clusters, high)]
    for node in random_state.randint(level.n, size=n_grown):
        candidates.append(grow(*level[:6], node, n_clusters))
    improved = [
        search_level(level, labels, n_clusters, low, high) for labels in candidates
    ]
    return min(improved, key=lambda labels: rank(level, labels, n_clusters, low, high))


def combine(level, labels, other, n_clusters, random_state, low=0.0, high=np.inf):
    """Return the labels (n,) of a cut at most that of `labels`, recut with `other`."""
    groups, n_groups = common_refinement(labels, other, n_clusters)
    coarse = coarsen_level(level, groups, n_groups)
    inherited = np.empty(n_groups, dtype=np.int64)
    inherited[groups] = labels
    anew = multilevel(coarse, n_clusters, random_state, low, high)
    inherited = search_level(coarse, inherited, n_clusters, low, high)
    # Only the better of the two is worth the moves on the fine graph.
    start = min(
        (inherited, anew), key=lambda found: rank(coarse, found, n_clusters, low, high)
    )
    improved = search_level(level, start[groups], n_clusters, low, high)
    return min(
        (labels, improved), key=lambda found: rank(level, found, n_clusters, low, high)
    )


def common_refinement(labels, other, n_clusters):
    """Return groups (n,) of nodes that both labels put together, and their number."""
    both = labels * n_clusters + other
    numbers = np.full(n_clusters * n_clusters, -1, dtype=np.int64)
    found = np.unique(both)
    numbers[found] = np.arange(len(found))
    return numbers[both], len(found)


def coarsen(graph, groups, n_groups, sizes):
    """Return the graph and sizes (n_groups,) of groups (n,) of nodes taken as one."""
    level = coarsen_level(as_level(graph, sizes), groups, n_groups)
    coarse = sp.csr_array(
        (level.data, level.indices, level.indptr), shape=(n_groups, n_groups)
    )
    coarse.sort_indices()
    return coarse, level.divisors


def coarsen_level(level, groups, n_groups):
    """Return the `Level` of groups (n,) of nodes taken as one."""
    # Memory that is never written to is not allocated by the system.
    indices = np.empty(len(level.indices), dtype=level.indices.dtype)
    data = np.empty(len(level.data))
    indptr, degrees, divisors, sizes = coarsen_rows(
        *level[:6], groups, n_groups, indices, data
    )
    n_kept = indptr[-1]
    apart = None
    if len(level.apart_nodes):
        first = np.repeat(np.arange(level.n), np.diff(level.apart_starts))
        apart = np.column_stack([groups[first], groups[level.apart_nodes]])
        apart = apart[apart[:, 0] != apart[:, 1]]
    return Level(
        indptr,
        indices[:n_kept].copy(),
        data[:n_kept].copy(),
        degrees,
        divisors,
        sizes,
        *rows_of_pairs(apart, n_groups),
    )


def merge(level, n_clusters, high=np.inf):
    """Return labels (n,) by repeatedly merging the pair that lowers the cut most.

    Pairs that are larger than `high` together come last, or that must be separated.
    """
    n_barred = level.n if len(level.apart_nodes) else 0
    barred = np.zeros((n_barred, n_barred), dtype=bool)
    if n_barred:
        first = np.repeat(np.arange(level.n), np.diff(level.apart_starts))
        barred[first, level.apart_nodes] = True
    links = np.zeros((level.n, level.n))
    rows = np.repeat(np.arange(level.n), np.diff(level.indptr))
    links[rows, level.indices] = level.data
    labels = merge_pairs(
        links,
        level.divisors.copy(),
        level.degrees.copy(),
        level.sizes.copy(),
        barred,
        n_clusters,
        high,
    )
    return np.unique(labels, return_inverse=True)[1].astype(np.int64, copy=False)


def _pair_leftovers(groups, apart_starts):
    """Join groups (n,) of one node, two by two; return (groups, count).

    Nodes that must be separated from others are left alone.
    """
    is_alone = np.bincount(groups)[groups] == 1
    alone = np.flatnonzero(is_alone & (np.diff(apart_starts) == 0))
    alone = alone[: 2 * (len(alone) // 2)]
    groups = groups.copy()
    groups[alone[1::2]] = groups[alone[::2]]
    groups = np.unique(groups, return_inverse=True)[1]
    return groups, int(groups.max()) + 1


@compiled(nogil=True)
def _must_part(apart_starts, apart_nodes, i, j):
    """Whether nodes i and j must be in two clusters."""
    for e in range(apart_starts[i], apart_starts[i + 1]):
        if apart_nodes[e] == j:
            return True
    return False


@compiled(nogil=True)
def match(
    indptr,
    indices,
    data,
    degrees,
    divisors,
    sizes,
    apart_starts,
    apart_nodes,
    order,
    heaviest,
    two_hops,
):
    """Pair nodes by the heaviest edge for their divisors; return (groups (n,), count).

    No pair is of more than `heaviest` size. Where more than `two_hops` of the nodes
    are left, those whose neighbours are all taken are paired by their first neighbour.
    """
    n = len(order)
    groups = np.full(n, -1, np.int64)
    n_groups = 0
    alone = np.zeros(n, np.bool_)
    for i in order:
        if groups[i] >= 0:
            continue
        groups[i] = n_groups
        best = -1
        best_weight = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if groups[j] < 0 and sizes[i] + sizes[j] <= heaviest:
                weight = data[e] * (1.0 / divisors[i] + 1.0 / divisors[j])
                if weight > best_weight and not _must_part(
                    apart_starts, apart_nodes, i, j
                ):
                    best = j
                    best_weight = weight
        if best >= 0:
            groups[best] = n_groups
        else:
            alone[i] = True
        n_groups += 1
    if n_groups <= two_hops * n:
        return groups, n_groups
    waiting = np.full(n, -1, np.int64)
    joined = np.full(n_groups, -1, np.int64)
    for i in order:
        if not alone[i] or indptr[i] == indptr[i + 1]:
            continue
        hub = -1
        hub_weight = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            if data[e] > hub_weight:
                hub = indices[e]
                hub_weight = data[e]
        j = waiting[hub]
        fits = j >= 0 and sizes[i] + sizes[j] <= heaviest
        if fits and not _must_part(apart_starts, apart_nodes, i, j):
            joined[groups[i]] = groups[j]
            waiting[hub] = -1
        else:
            waiting[hub] = i
    numbers = np.empty(n_groups, np.int64)
    count = 0
    for g in range(n_groups):
        if joined[g] < 0:
            numbers[g] = count
            count += 1
    for g in range(n_groups):
        if joined[g] >= 0:
            numbers[g] = numbers[joined[g]]
    for i in range(n):
        groups[i] = numbers[groups[i]]
    return groups, count


@compiled(nogil=True)
def coarsen_rows(
    indptr, indices, data, degrees, divisors, sizes, groups, n_groups, columns, values
):
    """Fill columns and values with the rows of groups (n,) of nodes taken as one.

    Returns indptr (n_groups + 1,), degrees, divisors and sizes (n_groups,).
    """
    n = len(groups)
    starts = np.zeros(n_groups + 1, np.int64)
    for i in range(n):
        starts[groups[i] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    members = np.empty(n, np.int32)
    filled = starts[:-1].copy()
    for i in range(n):
        members[filled[groups[i]]] = i
        filled[groups[i]] += 1
    pointers = np.empty(n_groups + 1, indptr.dtype)
    pointers[0] = 0
    coarse_degrees = np.zeros(n_groups)
    coarse_divisors = np.zeros(n_groups)
    coarse_sizes = np.zeros(n_groups)
    place = np.full(n_groups, -1, np.int64)
    count = 0
    for g in range(n_groups):
        begin = count
        for m in range(starts[g], starts[g + 1]):
            i = members[m]
            coarse_divisors[g] += divisors[i]
            coarse_sizes[g] += sizes[i]
            for e in range(indptr[i], indptr[i + 1]):
                h = groups[indices[e]]
                if h == g:
                    continue
                if place[h] < begin:
                    place[h] = count
                    columns[count] = h
                    values[count] = data[e]
                    count += 1
                else:
                    values[place[h]] += data[e]
                coarse_degrees[g] += data[e]
        pointers[g + 1] = count
    return pointers, coarse_degrees, coarse_divisors, coarse_sizes


@compiled(nogil=True)
def grow(indptr, indices, data, degrees, divisors, sizes, node, n_clusters):
    """Return labels (n,) of clusters grown one by one from a node, of equal size.

    The next node is the one most of whose edges lead into the cluster; where none does,
    the first that is left.
    """
    n = len(degrees)
    labels = np.full(n, -1, np.int64)
    left = sizes.sum()
    n_left = n
    for cluster in range(n_clusters):
        goal = left / (n_clusters - cluster)
        inside = np.zeros(n)
        total = 0.0
        while n_left > n_clusters - 1 - cluster:
            if total > 0.0:
                node = -1
                best = 0.0
                for i in range(n):
                    if labels[i] < 0 and inside[i] > best * degrees[i]:
                        node = i
                        best = inside[i] / degrees[i]
            if node < 0 or labels[node] >= 0:
                node = 0
                while labels[node] >= 0:
                    node += 1
            full = total + 0.5 * sizes[node] > goal
            if total > 0.0 and full and cluster < n_clusters - 1:
                break
            labels[node] = cluster
            total += sizes[node]
            left -= sizes[node]
            n_left -= 1
            for e in range(indptr[node], indptr[node + 1]):
                inside[indices[e]] += data[e]
        # The next cluster starts at the node where this one ended.
    return labels


@compiled(inline="always")
def _change(links, divisors, cuts, i, j):
    """Return by how much the cut changes if clusters i and j become one."""
    joined = (cuts[i] + cuts[j] - 2.0 * links[i, j]) / (divisors[i] + divisors[j])
    return joined - cuts[i] / divisors[i] - cuts[j] / divisors[j]


@compiled(nogil=True)
def _best_partner(links, divisors, cuts, sizes, active, barred, i, high, penalty):
    """Return the cluster that i is best merged with, and the change of the cut.

    Pairs above the size `high` have the penalty, and more the larger they are; those
    that are barred come last.
    """
    best = -1
    best_change = np.inf
    for j in range(len(active)):
        if active[j] and j != i:
            change = _change(links, divisors, cuts, i, j)
            if sizes[i] + sizes[j] > high:
                change += penalty * (sizes[i] + sizes[j]) / high
            if len(barred) and barred[i, j]:
                change += _BARRED
            if change < best_change:
                best = j
                best_change = change
    return best, best_change


@compiled(nogil=True)
def merge_pairs(links, divisors, cuts, sizes, barred, n_clusters, high):
    """Return the owner (n,) of each node after merging down to n_clusters.

    links (n, n), divisors, cuts and sizes (n,) are of the nodes, and are written; so
    is barred (n, n), the pairs that must be separated, or (0, 0) where there are none.
    """
    n = len(divisors)
    active = np.ones(n, np.bool_)
    owner = np.arange(n)
    partner = np.empty(n, np.int64)
    gain = np.empty(n)
    penalty = 1.0
    for i in range(n):
        penalty += cuts[i] / divisors[i]
    for i in range(n):
        partner[i], gain[i] = _best_partner(
            links, divisors, cuts, sizes, active, barred, i, high, penalty
        )
    for _ in range(n - n_clusters):
        a = -1
        for i in range(n):
            if active[i] and (a < 0 or gain[i] < gain[a]):
                a = i
        b = partner[a]
        cuts[a] = max(cuts[a] + cuts[b] - 2.0 * links[a, b], 0.0)
        divisors[a] += divisors[b]
        sizes[a] += sizes[b]
        active[b] = False
        for j in range(n):
            links[a, j] += links[b, j]
            links[j, a] = links[a, j]
            if len(barred):
                barred[a, j] |= barred[b, j]
                barred[j, a] = barred[a, j]
            if owner[j] == b:
                owner[j] = a
        for j in range(n):
            if not active[j]:
                continue
            if j == a or partner[j] == a or partner[j] == b:
                partner[j], gain[j] = _best_partner(
                    links, divisors, cuts, sizes, active, barred, j, high, penalty
                )
            else:
                change = _change(links, divisors, cuts, j, a)
                if sizes[j] + sizes[a] > high:
                    change += penalty * (sizes[j] + sizes[a]) / high
                if len(barred) and barred[j, a]:
                    change += _BARRED
                if change < gain[j]:
                    partner[j] = a
                    gain[j] = change
    return owner
