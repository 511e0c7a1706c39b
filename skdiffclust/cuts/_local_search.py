"""Moves that lower the cut of any labelling, within bounds on the sizes."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from skdiffclust._compiled import compiled

# Work of one kernel call, in edges visited: about 0.1 s between interruptions.
_EDGES_PER_CHUNK = 2**23
# A move must lower the cut by this, relative to it, so that rounding cannot cause a
# cycle.
_TOLERANCE = 1e-11
# Weight of a pair of nodes that must be separated, relative to the largest cut of all
# clusters as one.
_REPULSION = 1000.0
# Rounds, for each cluster, in which clusters are brought within their bounds.
_MAX_REPAIRS = 100
# Least and largest size of a cluster where sizes are not limited.
UNBOUNDED = (0.0, np.inf)


class Level(NamedTuple):
    """A graph for the kernels: rows of a symmetric CSR matrix without diagonal.

    Attributes
    ----------
    indptr : ndarray of shape (n + 1,), int32 or int64
    indices : ndarray of shape (nnz,), int32 or int64
    data : ndarray of shape (nnz,), float64
        Weights: positive, or far below zero for pairs that must be separated. The cut
        of a cluster is the sum of its degrees less that of the weights within it, and a
        pair that it joins thus costs more than any cut.
    degrees : ndarray of shape (n,), float64
        Sums of the weights of edges, without the pairs.
    divisors : ndarray of shape (n,), float64
        Divisors of the cut of a cluster: sizes (ratio-cut) or, of single nodes, degrees
        (normalised cut). Positive.
    sizes : ndarray of shape (n,), float64
        Sizes that the bounds limit.
    resolution : float
        0.0 for cuts. Otherwise the modularity is maximised in place of the cut: with
        degrees as divisors, and 1 / W for degrees of the sum W, W (1 - modularity) is
        the sum over all clusters of the cut and of the squared divisor times this.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    degrees: np.ndarray
    divisors: np.ndarray
    sizes: np.ndarray
    resolution: float

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


def as_level(graph, divisors=None, sizes=None, apart=(), resolution=0.0):
    """Return the `Level` of a csr_array (n, n); divisors and sizes are ones by default.

    apart (m, 2) are pairs of nodes that must be separated.
    """
    n = graph.shape[0]
    degrees = graph.sum(axis=1)
    divisors = np.ones(n) if divisors is None else np.asarray(divisors, np.float64)
    sizes = np.ones(n) if sizes is None else np.asarray(sizes, np.float64)
    if len(apart):
        largest = (degrees / divisors).max() * divisors.sum() or 1.0
        weights = np.full(len(apart), -_REPULSION * largest)
        ends = tuple(np.transpose(apart).astype(graph.indices.dtype))
        pairs = sp.coo_array((weights, ends), shape=(n, n))
        graph = sp.csr_array(graph + pairs + pairs.T)
    return Level(
        graph.indptr, graph.indices, graph.data, degrees, divisors, sizes, resolution
    )


def local_search(level, labels, n_clusters, bounds=UNBOUNDED):
    """Lower the cut of labels by moves of single nodes.

    Nodes are moved to the best cluster among those of their neighbours (a node without
    edges: among all), then the neighbours of those that moved, until no move lowers the
    cut. A cluster with one node keeps it. O(n_edges) a pass.

    Parameters
    ----------
    level : Level
    labels : ndarray of shape (n,), int64
        In 0 .. n_clusters - 1; not written.
    n_clusters : int
    bounds : (float, float)
        Least and largest size. Clusters outside of them are brought inside first, which
        may raise the cut.

    Returns
    -------
    ndarray of shape (n,), int64
        Labels that are not worse by `rank` than the given ones, if those are within the
        bounds.
    """
    best = np.array(labels, dtype=np.int64)
    if bounds == UNBOUNDED:
        _settle(level, best, sums_of(level, best, n_clusters), bounds)
        return best
    _repair(level, best, n_clusters, bounds)
    # Beyond them by one node, so that nodes can be exchanged.
    room = level.sizes.max()
    for limit in (bounds, (bounds[0] - room, bounds[1] + room)):
        labels = best.copy()
        _settle(level, labels, sums_of(level, labels, n_clusters), limit)
        if limit != bounds:
            _repair(level, labels, n_clusters, bounds)
        best = min(
            (labels, best),
            key=lambda candidate: rank(level, candidate, n_clusters, bounds),
        )
    return best


def rank(level, labels, n_clusters, bounds):
    """Return the key that labels (n,) are compared by: (excess of sizes, cut)."""
    clusters = sums_of(level, labels, n_clusters)
    totals = clusters.totals
    outside = np.maximum(totals - bounds[1], 0.0).sum()
    outside += np.maximum(bounds[0] - totals, 0.0).sum()
    if outside <= 1e-9 * totals.sum():
        outside = 0.0
    return outside, total_cost(clusters.cuts, clusters.volumes, level.resolution)


def sums_of(level, labels, n_clusters):
    """Return the `Clusters` of labels (n,)."""
    return Clusters(
        cuts_of_clusters(level, labels, n_clusters),
        np.bincount(labels, level.divisors, minlength=n_clusters),
        np.bincount(labels, level.sizes, minlength=n_clusters),
        np.bincount(labels, minlength=n_clusters),
    )


def _settle(level, labels, clusters, bounds):
    """Move nodes, in place, until no move lowers the cut."""
    # Sums change, so nodes far from a move may have a better cluster as well.
    n_moved = 1
    is_small = len(level.indices) < _EDGES_PER_CHUNK
    while n_moved:
        n_moved = 0
        queued = np.ones(level.n, dtype=bool)
        while queued.any():
            nodes = np.flatnonzero(queued)
            parts = [nodes]
            if not is_small:
                n_edges = (level.indptr[nodes + 1] - level.indptr[nodes]).sum()
                parts = np.array_split(nodes, 1 + n_edges // _EDGES_PER_CHUNK)
            for part in parts:
                n_moved += move_nodes(level, labels, clusters, bounds, part, queued)


def _repair(level, labels, n_clusters, bounds):
    """Make the cheapest moves, in place, until all clusters are within their bounds.

    Node sizes may make that impossible; then it ends as near to the bounds as it can.
    """
    clusters = sums_of(level, labels, n_clusters)
    totals = clusters.totals
    slack = _TOLERANCE * totals.sum()
    loose = (bounds[0] - slack, bounds[1] + slack)
    for _ in range(_MAX_REPAIRS * n_clusters):
        over = totals - loose[1]
        under = loose[0] - totals
        if over.max() > 0.0:
            nodes = np.flatnonzero(labels == over.argmax())
            targets = np.arange(n_clusters)
        elif under.max() > 0.0:
            nodes = np.flatnonzero(labels != under.argmax())
            targets = np.array([under.argmax()])
        else:
            return
        # Moves change the costs: at most half is moved before they are computed anew.
        half = 0.5 * max(over.max(), under.max())
        chosen, costs = cheapest_moves(level, labels, clusters, loose, nodes, targets)
        order = np.argsort(costs)
        if not force_moves(
            level, labels, clusters, loose, nodes[order], chosen[order], half
        ):
            return


@compiled(nogil=True)
def cuts_of_clusters(level, labels, n_clusters):
    """Return the weights (k,) of the edges that leave each cluster of labels (n,)."""
    cuts = np.zeros(n_clusters)
    for i in range(len(labels)):
        cuts[labels[i]] += level.degrees[i]
        for e in range(level.indptr[i], level.indptr[i + 1]):
            if labels[level.indices[e]] == labels[i]:
                cuts[labels[i]] -= level.data[e]
    return cuts


@compiled(inline="always")
def cost_of(cut, volume, resolution):
    """Return what a cluster costs: 0 if it is empty; cuts below 0 are rounding."""
    if resolution > 0.0:
        return cut + resolution * volume * volume
    return max(cut, 0.0) / volume if volume > 0.0 else 0.0


@compiled(nogil=True)
def total_cost(cuts, volumes, resolution):
    """Return the sum of the costs of clusters of cuts and volumes (k,)."""
    total = 0.0
    for c in range(len(cuts)):
        total += cost_of(cuts[c], volumes[c], resolution)
    return total


@compiled(inline="always")
def _fits(clusters, bounds, a, b, size):
    """Whether a node may move from cluster a to b.

    The sizes must then be within the bounds, or nearer to them than before.
    """
    joined = clusters.totals[b] + size
    left = clusters.totals[a] - size
    is_small = joined <= bounds[1] or joined < clusters.totals[a]
    return is_small and (left >= bounds[0] or left > clusters.totals[b])


@compiled(inline="always")
def _change_of(level, clusters, i, c, sign, into):
    """Return by how much the cost of cluster c changes if node i joins (1) or leaves.

    The edges of i into it have the weight `into`.
    """
    cut = clusters.cuts[c]
    volume = clusters.volumes[c]
    after = cost_of(
        cut + sign * (level.degrees[i] - 2.0 * into),
        volume + sign * level.divisors[i],
        level.resolution,
    )
    return after - cost_of(cut, volume, level.resolution)


@compiled(nogil=True)
def best_move(level, labels, clusters, bounds, links, touched, i, targets, near):
    """Return the best other cluster for node i, or -1, and the change of the cut.

    The targets (m,) are tried; with `near` only those of its neighbours, unless it has
    none, or must be separated from another node. links and touched (k,) are work space;
    links is zero before and after.
    """
    a = labels[i]
    best = -1
    best_change = np.inf
    if clusters.counts[a] == 1:
        return best, best_change
    n_touched = 0
    for e in range(level.indptr[i], level.indptr[i + 1]):
        b = labels[level.indices[e]]
        if links[b] == 0.0:
            touched[n_touched] = b
            n_touched += 1
        links[b] += level.data[e]
        near &= level.data[e] > 0.0
    if near and n_touched > 0:
        targets = touched[:n_touched]
    freed = _change_of(level, clusters, i, a, -1.0, links[a])
    for b in targets:
        if b != a and _fits(clusters, bounds, a, b, level.sizes[i]):
            change = freed + _change_of(level, clusters, i, b, 1.0, links[b])
            if change < best_change:
                best = b
                best_change = change
    for t in range(n_touched):
        links[touched[t]] = 0.0
    return best, best_change


@compiled(nogil=True)
def apply_move(level, labels, clusters, i, b):
    """Move node i to cluster b and update the sums."""
    a = labels[i]
    into_a = 0.0
    into_b = 0.0
    for e in range(level.indptr[i], level.indptr[i + 1]):
        c = labels[level.indices[e]]
        if c == a:
            into_a += level.data[e]
        elif c == b:
            into_b += level.data[e]
    clusters.cuts[a] += 2.0 * into_a - level.degrees[i]
    clusters.cuts[b] += level.degrees[i] - 2.0 * into_b
    clusters.volumes[a] -= level.divisors[i]
    clusters.volumes[b] += level.divisors[i]
    clusters.totals[a] -= level.sizes[i]
    clusters.totals[b] += level.sizes[i]
    clusters.counts[a] -= 1
    clusters.counts[b] += 1
    labels[i] = b


@compiled(nogil=True)
def move_nodes(level, labels, clusters, bounds, nodes, queued):
    """Move nodes (m,) to their best clusters; return how many moved.

    labels (n,) and the sums are updated in place; queued (n,) is cleared for the nodes
    and set for the neighbours of those that moved.
    """
    links = np.zeros(len(clusters.cuts))
    touched = np.empty(len(clusters.cuts), np.int64)
    every = np.arange(len(clusters.cuts))
    n_moved = 0
    for i in nodes:
        queued[i] = False
        # No other cluster is tried for an inner node.
        is_inner = level.indptr[i] < level.indptr[i + 1]
        for e in range(level.indptr[i], level.indptr[i + 1]):
            if labels[level.indices[e]] != labels[i] or level.data[e] < 0.0:
                is_inner = False
                break
        if is_inner:
            continue
        b, change = best_move(
            level, labels, clusters, bounds, links, touched, i, every, True
        )
        if b < 0:
            continue
        a = labels[i]
        scale = cost_of(clusters.cuts[a], clusters.volumes[a], level.resolution)
        scale += cost_of(clusters.cuts[b], clusters.volumes[b], level.resolution)
        if change < -_TOLERANCE * scale:
            apply_move(level, labels, clusters, i, b)
            n_moved += 1
            for e in range(level.indptr[i], level.indptr[i + 1]):
                queued[level.indices[e]] = True
    return n_moved


@compiled(nogil=True)
def cheapest_moves(level, labels, clusters, bounds, nodes, targets):
    """Return the best of the targets (m,), or -1, and its cost (m,), of nodes (m,).

    Costs are changes of the cut for each unit of size.
    """
    links = np.zeros(len(clusters.cuts))
    touched = np.empty(len(clusters.cuts), np.int64)
    costs = np.full(len(nodes), np.inf)
    chosen = np.full(len(nodes), -1)
    for m in range(len(nodes)):
        size = level.sizes[nodes[m]]
        if size > 0.0:
            chosen[m], change = best_move(
                level,
                labels,
                clusters,
                bounds,
                links,
                touched,
                nodes[m],
                targets,
                False,
            )
            costs[m] = change / size
    return chosen, costs


@compiled(nogil=True)
def force_moves(level, labels, clusters, bounds, nodes, chosen, amount):
    """Move nodes (m,) to chosen clusters (m,), in this order; return how many moved.

    It ends when the sizes of what moved exceed `amount`; at least one is moved if one
    can be.
    """
    n_moved = 0
    for m in range(len(nodes)):
        i = nodes[m]
        a = labels[i]
        if chosen[m] < 0 or (n_moved > 0 and amount <= 0.0):
            break
        fits = _fits(clusters, bounds, a, chosen[m], level.sizes[i])
        if fits and clusters.counts[a] > 1:
            apply_move(level, labels, clusters, i, chosen[m])
            amount -= level.sizes[i]
            n_moved += 1
    return n_moved
