"""Moves that lower the cut of any labelling, within bounds on the sizes."""

from typing import NamedTuple

import numpy as np

from skdiffclust._compiled import compiled

# Work of one kernel call, in edges visited: about 0.1 s between interruptions.
_EDGES_PER_CHUNK = 2**23
# A move must lower the cut by this, relative to it, so that rounding cannot cause a
# cycle.
_TOLERANCE = 1e-11
# Rounds of sequences of moves; the largest graph for them, beyond which they take most
# of the time and gain less than 1 %; and their largest length without a gain.
CLIMBS = 2
_CLIMBED = 20_000
_PATIENCE = 15
# Nodes with more edges are not moved by sequences.
_MAX_DEGREE = 500
# Steps of the search for labels that satisfy cannot-links, and the seed of its ties.
_TABU_STEPS = 2000
_TABU_SEED = 12345
# Rounds, for each cluster, in which clusters are brought within their bounds.
_MAX_REPAIRS = 100


class Bounds(NamedTuple):
    """Least and largest size of a cluster, and the sizes (n,) of the nodes."""

    sizes: np.ndarray
    low: float
    high: float


class Level(NamedTuple):
    """A graph for the kernels: rows of a symmetric CSR matrix without diagonal.

    Attributes
    ----------
    indptr : ndarray of shape (n + 1,), int32 or int64
    indices : ndarray of shape (nnz,), int32 or int64
    data : ndarray of shape (nnz,), float64
        Weights, positive.
    degrees : ndarray of shape (n,), float64
        Sums of the rows.
    divisors : ndarray of shape (n,), float64
        Divisors of the cut of a cluster: sizes (ratio-cut) or, of single nodes, degrees
        (normalised cut). Positive.
    sizes : ndarray of shape (n,), float64
        Sizes that the bounds limit.
    apart_starts : ndarray of shape (n + 1,), int64
    apart_nodes : ndarray, int64
        CSR rows of the nodes that must be in other clusters than a node.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    degrees: np.ndarray
    divisors: np.ndarray
    sizes: np.ndarray
    apart_starts: np.ndarray
    apart_nodes: np.ndarray

    @property
    def n(self):
        """Number of nodes."""
        return len(self.degrees)


class Clusters(NamedTuple):
    """Sums over the nodes of each cluster, which moves update in place.

    Attributes
    ----------
    cuts : ndarray of shape (k,), float64
        Weights of the edges that leave a cluster.
    volumes : ndarray of shape (k,), float64
        Sums of the divisors.
    totals : ndarray of shape (k,), float64
        Sums of the sizes.
    counts : ndarray of shape (k,), int64
        Numbers of nodes.
    """

    cuts: np.ndarray
    volumes: np.ndarray
    totals: np.ndarray
    counts: np.ndarray

    @property
    def cut(self):
        """The cut of the labels: the sum of the ratios of cuts to volumes."""
        is_cut = self.cuts > 0
        return float((self.cuts[is_cut] / self.volumes[is_cut]).sum())


def as_level(graph, divisors=None, bounds=None, apart=None):
    """Return the `Level` of a csr_array (n, n); divisors are ones by default.

    apart (m, 2) are pairs of nodes that must be separated.
    """
    n = graph.shape[0]
    ones = np.ones(n)
    divisors = ones if divisors is None else np.asarray(divisors, np.float64)
    sizes = ones if bounds is None else bounds.sizes
    return Level(
        graph.indptr,
        graph.indices,
        graph.data,
        graph.sum(axis=1),
        divisors,
        sizes,
        *rows_of_pairs(apart, n),
    )


def rows_of_pairs(pairs, n):
    """Return (starts (n + 1,), nodes), CSR rows of pairs (m, 2) of nodes or None."""
    if pairs is None or not len(pairs):
        return np.zeros(n + 1, dtype=np.int64), np.empty(0, dtype=np.int64)
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    ends = np.unique(ends, axis=0).astype(np.int64)
    return np.searchsorted(ends[:, 0], np.arange(n + 1)), ends[:, 1]


def local_search(graph, labels, n_clusters, *, divisors=None, bounds=None, apart=None):
    """Lower the cut of labels by moves of single nodes and by sequences of moves.

    A queue holds the nodes with neighbours in other clusters, in index order; each is
    moved to the best cluster among those of its neighbours (a node without edges:
    among all), and then its neighbours are queued again; until nothing lowers the cut.
    Then short sequences are tried, of which the first moves may raise it. A cluster
    with one node keeps it. O(n_edges) a pass of moves; sequences touch each node once
    and update the neighbours of its neighbours.

    Parameters
    ----------
    graph : csr_array of shape (n, n)
        Symmetric, float64, no diagonal, weights > 0.
    labels : ndarray of shape (n,), int64
        In 0 .. n_clusters - 1; not written.
    n_clusters : int
    divisors : ndarray of shape (n,), float64, or None
        Divisors of a cut: samples of each node (ratio-cut, default one each), or
        degrees (normalised cut).
    bounds : Bounds or None
        Clusters outside of them are brought inside first, which may raise the cut.
    apart : ndarray of shape (m, 2), int64, or None
        Pairs of nodes that must be in two clusters; they are separated first.

    Returns
    -------
    ndarray of shape (n,), int64
        Labels whose cut is at most that of the input, if that was within bounds.
    """
    level = as_level(graph, divisors, bounds, apart)
    low, high = (0.0, np.inf) if bounds is None else bounds[1:]
    return search_level(level, labels, n_clusters, low, high)


def search_level(level, labels, n_clusters, low, high, *, climbs=CLIMBS):
    """Return labels (n,) int64 lowered by moves; see `local_search`."""
    state = _State(level, labels, n_clusters, low, high)
    state.separate()
    if low > 0.0 or high < np.inf:
        state.repair()
    state.count()
    start = state.labels.copy()
    before = state.cut()
    if level.n > _CLIMBED:
        climbs = 0
    # Sizes and cuts change, so nodes far from a move may have a better cluster as well.
    state.settle()
    for _ in range(climbs):
        if not state.climb():
            break
        state.settle()
    state.count()  # sums were updated in place
    return state.labels if state.cut() <= before else start


class _State:
    """Current labels, with the cut, divisor, size and nodes of each cluster."""

    def __init__(self, level, labels, n_clusters, low, high):
        self.level = level
        self.n_clusters = n_clusters
        self.low = low
        self.high = high
        self.labels = np.array(labels, dtype=np.int64)
        self.queue = np.empty(level.n, dtype=np.int32 if level.n < 2**31 else np.int64)
        self.queued = np.zeros(level.n, dtype=bool)

    def count(self):
        """Count cuts, divisors, sizes and nodes (k,) of the clusters anew."""
        self.clusters = sums_of(self.level, self.labels, self.n_clusters)

    def cut(self):
        """Return the cut."""
        return self.clusters.cut

    def separate(self):
        """Separate pairs with few moves; return how many still share a cluster."""
        if not len(self.level.apart_nodes):
            return 0
        return separate(
            self.level.apart_starts,
            self.level.apart_nodes,
            self.labels,
            self.n_clusters,
            _TABU_STEPS,
            _TABU_SEED,
        )

    def settle(self):
        """Move and exchange nodes until no step lowers the cut."""
        while True:
            while self.move():
                pass
            if not len(self.level.apart_nodes) or not self.exchange():
                return

    def exchange(self):
        """Exchange chains of nodes that must be separated; return how many times."""
        return exchange_chains(
            *self.level,
            self.labels,
            *self.clusters,
            self.low,
            self.high,
        )

    def move(self):
        """Move nodes of the boundary until no move lowers the cut; return how many."""
        head = 0
        count = self.queue_boundary()
        total = 0
        while count:
            n_moved, head, count = move_nodes(
                *self.level,
                self.labels,
                *self.clusters,
                self.low,
                self.high,
                self.queue,
                self.queued,
                head,
                count,
                _EDGES_PER_CHUNK,
            )
            total += n_moved
        return total

    def queue_boundary(self):
        """Queue the nodes with a neighbour in another cluster; return how many."""
        return queue_boundary(
            self.level.indptr, self.level.indices, self.labels, self.queue, self.queued
        )

    def climb(self):
        """Try sequences of moves from every node of the boundary; return how many."""
        n_seeds = self.queue_boundary()
        rng = np.random.RandomState(n_seeds)
        seeds = rng.permutation(self.queue[:n_seeds])
        self.queued[:] = False  # nodes that moved
        place = np.full(self.level.n, -1, dtype=np.int32)
        total = 0
        start = 0
        while start < n_seeds:
            n_better, start = climb(
                *self.level,
                self.labels,
                *self.clusters,
                self.low,
                self.high,
                seeds,
                n_seeds,
                start,
                self.queued,
                place,
                _PATIENCE,
                _MAX_DEGREE,
                _EDGES_PER_CHUNK,
            )
            total += n_better
        return total

    def repair(self):
        """Move the nodes that cost least until all clusters are within their bounds.

        Node sizes may make that impossible; then it ends as near to the bounds as it
        can.
        """
        for _ in range(_MAX_REPAIRS * self.n_clusters):
            self.count()
            totals = self.clusters.totals
            slack = _TOLERANCE * totals.sum()
            over = totals - self.high
            under = self.low - totals
            if max(over.max(), under.max()) <= slack:
                return
            if over.max() > slack:
                n_moved = push_out(
                    *self.level,
                    self.labels,
                    *self.clusters,
                    int(over.argmax()),
                    self.high + slack,
                )
            else:
                n_moved = pull_in(
                    *self.level,
                    self.labels,
                    *self.clusters,
                    int(under.argmax()),
                    self.low - slack,
                )
            if not n_moved:
                return


def sums_of(level, labels, n_clusters):
    """Return the `Clusters` of labels (n,)."""
    return Clusters(
        *cluster_sums(
            level.indptr,
            level.indices,
            level.data,
            level.divisors,
            level.sizes,
            labels,
            n_clusters,
        )
    )


# Kernels take arrays one by one: with NamedTuples of arrays, numba takes a quarter
# longer to compile them.
@compiled(nogil=True)
def cluster_sums(indptr, indices, data, divisors, sizes, labels, n_clusters):
    """Return cuts, divisors, sizes, counts, each (k,), of clusters of labels (n,)."""
    cuts = np.zeros(n_clusters)
    volumes = np.zeros(n_clusters)
    totals = np.zeros(n_clusters)
    counts = np.zeros(n_clusters, np.int64)
    for i in range(len(labels)):
        a = labels[i]
        volumes[a] += divisors[i]
        totals[a] += sizes[i]
        counts[a] += 1
        for e in range(indptr[i], indptr[i + 1]):
            if labels[indices[e]] != a:
                cuts[a] += data[e]
    return cuts, volumes, totals, counts


@compiled(nogil=True)
def queue_boundary(indptr, indices, labels, queue, queued):
    """Fill the queue with nodes that have a neighbour elsewhere; return how many."""
    count = 0
    for i in range(len(labels)):
        a = labels[i]
        queued[i] = indptr[i] == indptr[i + 1]
        for e in range(indptr[i], indptr[i + 1]):
            if labels[indices[e]] != a:
                queued[i] = True
                break
        if queued[i]:
            queue[count] = i
            count += 1
    return count


@compiled(nogil=True)
def _is_barred(apart_starts, apart_nodes, labels, i, b):
    """Whether cluster b holds a node that node i must be separated from."""
    for e in range(apart_starts[i], apart_starts[i + 1]):
        if labels[apart_nodes[e]] == b:
            return True
    return False


@compiled(nogil=True)
def count_joined(apart_starts, apart_nodes, labels):
    """Return how many pairs of nodes that must be separated share a cluster."""
    count = 0
    for i in range(len(apart_starts) - 1):
        for e in range(apart_starts[i], apart_starts[i + 1]):
            count += labels[apart_nodes[e]] == labels[i]
    return count // 2


@compiled(nogil=True)
def separate(apart_starts, apart_nodes, labels, n_clusters, n_steps, seed):
    """Change labels (n,), in place, until no pair to separate shares a cluster.

    Tabu search, as for the colouring of graphs (Hertz and de Werra): the move that
    leaves fewest such pairs is made, and is not taken back for some steps. Returns how
    many pairs are left by the best labels found in `n_steps`.
    """
    n_left = count_joined(apart_starts, apart_nodes, labels)
    if n_left == 0 or n_clusters < 2:
        return n_left
    members = np.flatnonzero(apart_starts[1:] > apart_starts[:-1])
    place = np.full(len(labels), -1, np.int64)
    near = np.zeros((len(members), n_clusters), np.int64)
    for m in range(len(members)):
        place[members[m]] = m
        for e in range(apart_starts[members[m]], apart_starts[members[m] + 1]):
            near[m, labels[apart_nodes[e]]] += 1
    tabu = np.zeros((len(members), n_clusters), np.int64)
    best = labels.copy()
    n_best = n_left
    state = np.uint64(seed)
    for step in range(1, n_steps + 1):
        chosen = -1
        target = -1
        least = 2**62
        n_ties = 0
        for m in range(len(members)):
            a = labels[members[m]]
            if near[m, a] == 0:
                continue
            for b in range(n_clusters):
                if b == a:
                    continue
                change = near[m, b] - near[m, a]
                if tabu[m, b] >= step and n_left + change >= n_best:
                    continue
                if change < least:
                    least = change
                    n_ties = 0
                if change == least:
                    n_ties += 1
                    # A linear congruential generator is random enough for ties.
                    state = state * np.uint64(6364136223846793005) + np.uint64(1)
                    if int(state >> np.uint64(33)) % n_ties == 0:
                        chosen = m
                        target = b
        if chosen < 0:
            continue
        a = labels[members[chosen]]
        state = state * np.uint64(6364136223846793005) + np.uint64(1)
        wait = int(state >> np.uint64(33)) % 10 + (3 * n_left) // 5
        tabu[chosen, a] = step + 1 + wait
        labels[members[chosen]] = target
        n_left += least
        for e in range(
            apart_starts[members[chosen]], apart_starts[members[chosen] + 1]
        ):
            other = place[apart_nodes[e]]
            near[other, a] -= 1
            near[other, target] += 1
        if n_left < n_best:
            n_best = n_left
            best[:] = labels
            if n_best == 0:
                break
    labels[:] = best
    return n_best


@compiled(nogil=True)
def exchange_chains(
    indptr,
    indices,
    data,
    degrees,
    divisors,
    sizes,
    apart_starts,
    apart_nodes,
    labels,
    cuts,
    volumes,
    totals,
    counts,
    low,
    high,
):
    """Exchange the clusters of chains of nodes if that lowers the cut.

    A node that must be separated from others goes to another cluster, those that it
    must be separated from there come to its own, and so on (Kempe's chains): all that
    must be separated still is. Sizes stay within their bounds, or come nearer.
    Returns how many exchanges.
    """
    n_clusters = len(cuts)
    chain = np.empty(len(labels), np.int64)
    inside = np.zeros(len(labels), np.bool_)
    n_exchanged = 0
    for i in range(len(labels)):
        if apart_starts[i] == apart_starts[i + 1]:
            continue
        for b in range(n_clusters):
            a = labels[i]
            if b == a:
                continue
            chain[0] = i
            inside[i] = True
            length = 1
            done = 0
            while done < length:
                m = chain[done]
                done += 1
                for e in range(apart_starts[m], apart_starts[m + 1]):
                    j = apart_nodes[e]
                    if not inside[j] and (labels[j] == a or labels[j] == b):
                        if labels[j] != labels[m]:
                            inside[j] = True
                            chain[length] = j
                            length += 1
            cut_a = cuts[a]
            cut_b = cuts[b]
            volume = 0.0
            size = 0.0
            count = 0
            for c in range(length):
                m = chain[c]
                sign = 1.0 if labels[m] == a else -1.0
                volume += sign * divisors[m]
                size += sign * sizes[m]
                count += 1 if labels[m] == a else -1
                for e in range(indptr[m], indptr[m + 1]):
                    j = indices[e]
                    if labels[j] != a and labels[j] != b:
                        # The edge leaves both clusters before and after.
                        cut_a -= sign * data[e]
                        cut_b += sign * data[e]
                    elif not inside[j]:
                        change = data[e] if labels[j] == labels[m] else -data[e]
                        cut_a += change
                        cut_b += change
            before = _ratio(cuts[a], volumes[a]) + _ratio(cuts[b], volumes[b])
            after = _ratio(cut_a, volumes[a] - volume)
            after += _ratio(cut_b, volumes[b] + volume)
            total_a = totals[a] - size
            total_b = totals[b] + size
            outside = max(totals[a], totals[b]) - high, low - min(totals[a], totals[b])
            fits = max(total_a, total_b) <= high + max(outside[0], 0.0)
            fits = fits and min(total_a, total_b) >= low - max(outside[1], 0.0)
            fits = fits and counts[a] - count > 0 and counts[b] + count > 0
            if fits and after < before * (1.0 - _TOLERANCE):
                for c in range(length):
                    m = chain[c]
                    labels[m] = b if labels[m] == a else a
                cuts[a] = cut_a
                cuts[b] = cut_b
                volumes[a] -= volume
                volumes[b] += volume
                totals[a] = total_a
                totals[b] = total_b
                counts[a] -= count
                counts[b] += count
                n_exchanged += 1
            for c in range(length):
                inside[chain[c]] = False
    return n_exchanged


@compiled(inline="always")
def _ratio(cut, volume):
    """Return cut / volume, 0 for an empty volume; cuts below 0 are rounding."""
    return max(cut, 0.0) / volume if volume > 0.0 else 0.0


@compiled(nogil=True)
def move_nodes(
    indptr,
    indices,
    data,
    degrees,
    divisors,
    sizes,
    apart_starts,
    apart_nodes,
    labels,
    cuts,
    volumes,
    totals,
    counts,
    low,
    high,
    queue,
    queued,
    head,
    count,
    budget,
):
    """Move queued nodes to their best clusters; return (moves, head, nodes queued).

    labels (n,) and the sums (k,) are updated in place. Sizes that are outside of their
    bounds may come nearer, and none goes further. Ends after `budget` edges.
    """
    n = len(labels)
    n_clusters = len(cuts)
    links = np.zeros(n_clusters)
    touched = np.empty(n_clusters, np.int64)
    n_moved = 0
    n_visited = 0
    while count > 0 and n_visited < budget:
        i = queue[head]
        head = head + 1 if head + 1 < n else 0
        count -= 1
        queued[i] = False
        a = labels[i]
        if counts[a] == 1:
            continue
        first = indptr[i]
        last = indptr[i + 1]
        n_visited += last - first + 1
        n_touched = 0
        for e in range(first, last):
            b = labels[indices[e]]
            if links[b] == 0.0:
                touched[n_touched] = b
                n_touched += 1
            links[b] += data[e]
        if first == last:
            for b in range(n_clusters):
                touched[b] = b
            n_touched = n_clusters
            n_visited += n_clusters
        d = degrees[i]
        v = divisors[i]
        s = sizes[i]
        rest = totals[a] - s
        old_a = _ratio(cuts[a], volumes[a])
        left = cuts[a] - d + 2.0 * links[a]
        freed = _ratio(left, volumes[a] - v) - old_a
        best = a
        best_change = -_TOLERANCE * old_a
        for t in range(n_touched):
            b = touched[t]
            if b == a:
                continue
            if totals[b] + s > high and totals[b] + s >= totals[a]:
                continue
            if rest < low and rest <= totals[b]:
                continue
            joined = _ratio(cuts[b] + d - 2.0 * links[b], volumes[b] + v)
            old_b = _ratio(cuts[b], volumes[b])
            change = freed + joined - old_b
            if change < best_change - _TOLERANCE * old_b and not _is_barred(
                apart_starts, apart_nodes, labels, i, b
            ):
                best = b
                best_change = change
        if best != a:
            cuts[a] = left
            volumes[a] -= v
            totals[a] = rest
            counts[a] -= 1
            cuts[best] += d - 2.0 * links[best]
            volumes[best] += v
            totals[best] += s
            counts[best] += 1
            labels[i] = best
            n_moved += 1
            for e in range(first, last):
                j = indices[e]
                if not queued[j]:
                    queued[j] = True
                    tail = head + count
                    queue[tail if tail < n else tail - n] = j
                    count += 1
        for t in range(n_touched):
            links[touched[t]] = 0.0
    return n_moved, head, count


@compiled(nogil=True)
def _change_of_move(cuts, volumes, a, b, d, v, into_a, into_b):
    """Return by how much the cut changes if a node goes from cluster a to b."""
    before = _ratio(cuts[a], volumes[a]) + _ratio(cuts[b], volumes[b])
    after = _ratio(cuts[a] - d + 2.0 * into_a, volumes[a] - v)
    return after + _ratio(cuts[b] + d - 2.0 * into_b, volumes[b] + v) - before


@compiled(nogil=True)
def push_out(
    indptr,
    indices,
    data,
    degrees,
    divisors,
    sizes,
    apart_starts,
    apart_nodes,
    labels,
    cuts,
    volumes,
    totals,
    counts,
    a,
    high,
):
    """Move nodes out of cluster a, the cheapest for their size first, until it fits.

    Each goes to the best cluster with room. At most half of the excess goes in one
    call, and at least one node, since what is cheap changes. Returns how many moved.
    """
    n_clusters = len(cuts)
    links = np.zeros(n_clusters)
    members = np.flatnonzero(labels == a)
    costs = np.full(len(members), np.inf)
    targets = np.full(len(members), -1)
    for m in range(len(members)):
        i = members[m]
        for e in range(indptr[i], indptr[i + 1]):
            links[labels[indices[e]]] += data[e]
        if sizes[i] > 0.0:
            for b in range(n_clusters):
                if b != a and totals[b] + sizes[i] <= high:
                    change = _change_of_move(
                        cuts,
                        volumes,
                        a,
                        b,
                        degrees[i],
                        divisors[i],
                        links[a],
                        links[b],
                    )
                    if change / sizes[i] < costs[m] and not _is_barred(
                        apart_starts, apart_nodes, labels, i, b
                    ):
                        costs[m] = change / sizes[i]
                        targets[m] = b
        for e in range(indptr[i], indptr[i + 1]):
            links[labels[indices[e]]] = 0.0
    goal = high + 0.5 * (totals[a] - high)
    n_moved = 0
    left = counts[a]
    for m in np.argsort(costs):
        i = members[m]
        b = targets[m]
        if b < 0 or left == 1 or totals[a] <= high:
            break
        if n_moved > 0 and totals[a] <= goal:
            break
        if totals[b] + sizes[i] > high:
            continue
        if _is_barred(apart_starts, apart_nodes, labels, i, b):
            continue
        labels[i] = b
        totals[a] -= sizes[i]
        totals[b] += sizes[i]
        left -= 1
        n_moved += 1
    return n_moved


@compiled(nogil=True)
def pull_in(
    indptr,
    indices,
    data,
    degrees,
    divisors,
    sizes,
    apart_starts,
    apart_nodes,
    labels,
    cuts,
    volumes,
    totals,
    counts,
    b,
    low,
):
    """Move nodes into cluster b, the cheapest for their size first, until it fits.

    They come from clusters that stay large enough. At most half of what is missing
    comes in one call, and at least one node. Returns how many moved.
    """
    n = len(labels)
    costs = np.full(n, np.inf)
    for i in range(n):
        a = labels[i]
        if a == b or totals[a] - sizes[i] < low or sizes[i] <= 0.0:
            continue
        into_a = 0.0
        into_b = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            c = labels[indices[e]]
            if c == a:
                into_a += data[e]
            elif c == b:
                into_b += data[e]
        change = _change_of_move(
            cuts, volumes, a, b, degrees[i], divisors[i], into_a, into_b
        )
        costs[i] = change / sizes[i]
    goal = totals[b] + 0.5 * (low - totals[b])
    n_moved = 0
    for i in np.argsort(costs):
        a = labels[i]
        if costs[i] == np.inf or totals[b] >= low:
            break
        if n_moved > 0 and totals[b] >= goal:
            break
        if totals[a] - sizes[i] < low or counts[a] == 1:
            continue
        if _is_barred(apart_starts, apart_nodes, labels, i, b):
            continue
        labels[i] = b
        totals[a] -= sizes[i]
        totals[b] += sizes[i]
        counts[a] -= 1
        n_moved += 1
    return n_moved


@compiled(nogil=True)
def _best_target(
    indptr,
    indices,
    data,
    degrees,
    divisors,
    sizes,
    apart_starts,
    apart_nodes,
    labels,
    cuts,
    volumes,
    totals,
    counts,
    low,
    high,
    links,
    touched,
    i,
):
    """Return the best other cluster for node i, or -1, and the change of the cut.

    links and touched (k,) are work space; links is zero before and after.
    """
    a = labels[i]
    best = -1
    best_change = np.inf
    if counts[a] == 1:
        return best, best_change
    first = indptr[i]
    last = indptr[i + 1]
    n_touched = 0
    for e in range(first, last):
        b = labels[indices[e]]
        if links[b] == 0.0:
            touched[n_touched] = b
            n_touched += 1
        links[b] += data[e]
    d = degrees[i]
    v = divisors[i]
    s = sizes[i]
    rest = totals[a] - s
    freed = _ratio(cuts[a] - d + 2.0 * links[a], volumes[a] - v)
    freed -= _ratio(cuts[a], volumes[a])
    for t in range(n_touched):
        b = touched[t]
        if b == a:
            continue
        if totals[b] + s > high and totals[b] + s >= totals[a]:
            continue
        if rest < low and rest <= totals[b]:
            continue
        joined = _ratio(cuts[b] + d - 2.0 * links[b], volumes[b] + v)
        change = freed + joined - _ratio(cuts[b], volumes[b])
        if change < best_change and not _is_barred(
            apart_starts, apart_nodes, labels, i, b
        ):
            best = b
            best_change = change
    for t in range(n_touched):
        links[touched[t]] = 0.0
    return best, best_change


@compiled(nogil=True)
def _apply(
    indptr,
    indices,
    data,
    degrees,
    divisors,
    sizes,
    labels,
    cuts,
    volumes,
    totals,
    counts,
    i,
    b,
):
    """Move node i to cluster b and update the sums."""
    a = labels[i]
    into_a = 0.0
    into_b = 0.0
    for e in range(indptr[i], indptr[i + 1]):
        c = labels[indices[e]]
        if c == a:
            into_a += data[e]
        elif c == b:
            into_b += data[e]
    cuts[a] += 2.0 * into_a - degrees[i]
    cuts[b] += degrees[i] - 2.0 * into_b
    volumes[a] -= divisors[i]
    volumes[b] += divisors[i]
    totals[a] -= sizes[i]
    totals[b] += sizes[i]
    counts[a] -= 1
    counts[b] += 1
    labels[i] = b


@compiled(nogil=True)
def climb(
    indptr,
    indices,
    data,
    degrees,
    divisors,
    sizes,
    apart_starts,
    apart_nodes,
    labels,
    cuts,
    volumes,
    totals,
    counts,
    low,
    high,
    seeds,
    n_seeds,
    start,
    locked,
    place,
    patience,
    max_degree,
    budget,
):
    """Try short sequences of moves, of which the first may raise the cut.

    From each seed (Fiduccia and Mattheyses, as in KaHIP's local search) the best move
    among the seed and the neighbours of what was moved is made, again and again, until
    `patience` moves have not lowered the cut; moves after the lowest cut are taken
    back. No node is moved twice. Nodes of more than `max_degree` edges stay. Returns
    (sequences that lowered the cut, next seed).
    """
    n_clusters = len(cuts)
    links = np.zeros(n_clusters)
    touched = np.empty(n_clusters, np.int64)
    room = 512
    nodes = np.empty(room, np.int64)
    changes = np.empty(room)
    log_room = 4096
    moved = np.empty(log_room, np.int64)
    origin = np.empty(log_room, np.int64)
    n_better = 0
    n_visited = 0
    s = start
    while s < n_seeds and n_visited < budget:
        seed = seeds[s]
        s += 1
        if locked[seed] or indptr[seed + 1] - indptr[seed] > max_degree:
            continue
        target, change = _best_target(
            indptr,
            indices,
            data,
            degrees,
            divisors,
            sizes,
            apart_starts,
            apart_nodes,
            labels,
            cuts,
            volumes,
            totals,
            counts,
            low,
            high,
            links,
            touched,
            seed,
        )
        n_visited += indptr[seed + 1] - indptr[seed]
        if target < 0:
            continue
        nodes[0] = seed
        changes[0] = change
        place[seed] = 0
        count = 1
        scale = 0.0
        for b in range(n_clusters):
            scale += _ratio(cuts[b], volumes[b])
        current = 0.0
        lowest = -_TOLERANCE * scale
        n_moves = 0
        n_kept = 0
        while count > 0 and n_moves - n_kept < patience and n_moves < log_room:
            at = 0
            for c in range(1, count):
                if changes[c] < changes[at]:
                    at = c
            i = nodes[at]
            count -= 1
            nodes[at] = nodes[count]
            changes[at] = changes[count]
            place[nodes[at]] = at
            place[i] = -1
            target, change = _best_target(
                indptr,
                indices,
                data,
                degrees,
                divisors,
                sizes,
                apart_starts,
                apart_nodes,
                labels,
                cuts,
                volumes,
                totals,
                counts,
                low,
                high,
                links,
                touched,
                i,
            )
            if target < 0:
                continue
            moved[n_moves] = i
            origin[n_moves] = labels[i]
            n_moves += 1
            _apply(
                indptr,
                indices,
                data,
                degrees,
                divisors,
                sizes,
                labels,
                cuts,
                volumes,
                totals,
                counts,
                i,
                target,
            )
            locked[i] = True
            current += change
            if current < lowest:
                lowest = current
                n_kept = n_moves
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if locked[j] or indptr[j + 1] - indptr[j] > max_degree:
                    continue
                at = place[j]
                if at < 0 and count == room:
                    continue
                target, change = _best_target(
                    indptr,
                    indices,
                    data,
                    degrees,
                    divisors,
                    sizes,
                    apart_starts,
                    apart_nodes,
                    labels,
                    cuts,
                    volumes,
                    totals,
                    counts,
                    low,
                    high,
                    links,
                    touched,
                    j,
                )
                n_visited += indptr[j + 1] - indptr[j]
                if at >= 0:
                    changes[at] = change
                elif target >= 0:
                    nodes[count] = j
                    changes[count] = change
                    place[j] = count
                    count += 1
        for c in range(count):
            place[nodes[c]] = -1
        for m in range(n_moves - 1, n_kept - 1, -1):
            _apply(
                indptr,
                indices,
                data,
                degrees,
                divisors,
                sizes,
                labels,
                cuts,
                volumes,
                totals,
                counts,
                moved[m],
                origin[m],
            )
        n_better += n_kept > 0
    return n_better, s
