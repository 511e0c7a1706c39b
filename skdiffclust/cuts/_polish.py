"""Greedy moves that lower the ratio-cut of any labelling, and never empty a cluster."""

import numpy as np

from skdiffclust._compiled import compiled

# Work of one kernel call, in edges visited: about 0.1 s between interruptions.
_CHUNK = 2**24
# A move must lower the cut by this, relative to it: rounding cannot make a cycle.
_TOLERANCE = 1e-11
_MAX_SWEEPS = 100


def polish(graph, labels, n_clusters, *, sizes=None, swaps=True):
    """Lower the cut of labels by moves of single nodes and swaps of linked pairs.

    Sweeps go over the nodes whose neighbourhood changed, in index order, each taking
    the best cluster among those of its neighbours (an isolated node: among all), then
    over the edges between clusters; until nothing lowers the cut. A cluster with one
    node keeps it. O(n_edges) a sweep of moves, O(sum of squared degrees) of swaps.

    Parameters
    ----------
    graph : csr_array of shape (n, n)
        Symmetric, float64, no diagonal, weights > 0.
    labels : ndarray of shape (n,), int64
        In 0 .. n_clusters - 1; not written.
    n_clusters : int
    sizes : ndarray of shape (n,), float64, or None
        What divides a cut: rows behind each node (ratio-cut, default one each), or
        degrees (normalised cut).
    swaps : bool
        Whether to swap pairs too.

    Returns
    -------
    ndarray of shape (n,), int64
        Labels whose cut is at most that of the input.
    """
    state = _State(graph, labels, n_clusters, sizes)
    before = state.cut()
    for _ in range(_MAX_SWEEPS):
        while state.move():
            pass
        # Sizes and cuts have changed: what was not near a move may want to, too.
        state.active[:] = True
        if not state.move() and not (swaps and state.swap()):
            break
        state.active[:] = True
    # Cuts are updated in place during sweeps; this is the recount.
    return state.labels if state.cut() <= before else np.array(labels, dtype=np.int64)


class _State:
    """Labels under way, with the cut, size and number of nodes of each cluster."""

    def __init__(self, graph, labels, n_clusters, sizes):
        n = graph.shape[0]
        self.n_clusters = n_clusters
        self.csr = graph.indptr, graph.indices, graph.data
        self.degrees = graph.sum(axis=1)
        self.sizes = np.ones(n) if sizes is None else np.asarray(sizes, np.float64)
        self.labels = np.array(labels, dtype=np.int64)
        self.active = np.ones(n, dtype=bool)
        step = max(1, int(_CHUNK / (1 + graph.nnz / max(n, 1))))
        self.chunks = [(i, min(i + step, n)) for i in range(0, n, step)]

    def cut(self):
        """Return the cut, counted anew."""
        cuts, volumes, _ = self.clusters()
        return float((cuts[cuts > 0] / volumes[cuts > 0]).sum())

    def clusters(self):
        """Return the cut, size and number of nodes (k,) of each cluster, anew."""
        return cluster_sums(*self.csr, self.sizes, self.labels, self.n_clusters)

    def move(self):
        """Sweep once over the active nodes; return how many moved."""
        clusters = self.clusters()
        return sum(
            move_nodes(
                *self.csr,
                self.degrees,
                self.sizes,
                self.labels,
                self.active,
                *clusters,
                *chunk,
            )
            for chunk in self.chunks
        )

    def swap(self):
        """Sweep once over the edges between clusters; return how many pairs swapped."""
        clusters = self.clusters()
        return sum(
            swap_nodes(
                *self.csr, self.degrees, self.sizes, self.labels, *clusters, *chunk
            )
            for chunk in self.chunks
        )


@compiled()
def cluster_sums(indptr, indices, data, sizes, labels, n_clusters):
    """Return cuts, sizes and counts, each (k,), of the clusters of labels (n,)."""
    cuts, volumes = np.zeros(n_clusters), np.zeros(n_clusters)
    counts = np.zeros(n_clusters, np.int64)
    for i in range(len(labels)):
        a = labels[i]
        volumes[a] += sizes[i]
        counts[a] += 1
        for e in range(indptr[i], indptr[i + 1]):
            if labels[indices[e]] != a:
                cuts[a] += data[e]
    return cuts, volumes, counts


@compiled(inline="always")
def _ratio(cut, volume):
    """Return cut / volume, 0 for an empty volume; cuts below 0 are rounding."""
    return max(cut, 0.0) / volume if volume > 0.0 else 0.0


@compiled()
def move_nodes(
    indptr,
    indices,
    data,
    degrees,
    sizes,
    labels,
    active,
    cuts,
    volumes,
    counts,
    start,
    stop,
):
    """Move active nodes of start .. stop - 1 to their best cluster; return the moves.

    labels, active (n,) and cuts, volumes, counts (k,) are updated in place.
    """
    n_clusters = len(cuts)
    links = np.zeros(n_clusters)
    touched = np.empty(n_clusters, np.int64)
    n_moved = 0
    for i in range(start, stop):
        a = labels[i]
        if not active[i] or counts[a] == 1:
            continue
        active[i] = False
        n_touched = 0
        for e in range(indptr[i], indptr[i + 1]):
            b = labels[indices[e]]
            if links[b] == 0.0:
                touched[n_touched] = b
                n_touched += 1
            links[b] += data[e]
        if degrees[i] == 0.0:
            for b in range(n_clusters):
                touched[b] = b
            n_touched = n_clusters
        d, s, old_a = degrees[i], sizes[i], _ratio(cuts[a], volumes[a])
        left = cuts[a] - d + 2.0 * links[a]
        freed = _ratio(left, volumes[a] - s) - old_a
        best, best_change = a, -_TOLERANCE * old_a
        for t in range(n_touched):
            b = touched[t]
            if b != a:
                joined = _ratio(cuts[b] + d - 2.0 * links[b], volumes[b] + s)
                old_b = _ratio(cuts[b], volumes[b])
                change = freed + joined - old_b
                if change < best_change - _TOLERANCE * old_b:
                    best, best_change = b, change
        if best != a:
            cuts[a] = left
            volumes[a] -= s
            counts[a] -= 1
            cuts[best] += d - 2.0 * links[best]
            volumes[best] += s
            counts[best] += 1
            labels[i] = best
            n_moved += 1
            for e in range(indptr[i], indptr[i + 1]):
                active[indices[e]] = True
        for t in range(n_touched):
            links[touched[t]] = 0.0
    return n_moved


@compiled()
def _links_to(indptr, indices, data, labels, i, a, b):
    """Return the weights of node i's edges into clusters a and b."""
    into_a, into_b = 0.0, 0.0
    for e in range(indptr[i], indptr[i + 1]):
        c = labels[indices[e]]
        if c == a:
            into_a += data[e]
        elif c == b:
            into_b += data[e]
    return into_a, into_b


@compiled()
def swap_nodes(
    indptr,
    indices,
    data,
    degrees,
    sizes,
    labels,
    cuts,
    volumes,
    counts,
    start,
    stop,
):
    """Swap linked pairs across clusters, first end in start .. stop - 1, where it pays.

    Return how many; labels (n,), cuts and volumes (k,) are updated in place.
    """
    n_swapped = 0
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            a, b = labels[i], labels[j]
            if a == b or j < i:
                continue
            i_a, i_b = _links_to(indptr, indices, data, labels, i, a, b)
            j_a, j_b = _links_to(indptr, indices, data, labels, j, a, b)
            shift = sizes[j] - sizes[i]
            both = 2.0 * data[e]
            new_a = cuts[a] - degrees[i] + 2.0 * i_a + degrees[j] - 2.0 * j_a + both
            new_b = cuts[b] - degrees[j] + 2.0 * j_b + degrees[i] - 2.0 * i_b + both
            old = _ratio(cuts[a], volumes[a]) + _ratio(cuts[b], volumes[b])
            new = _ratio(new_a, volumes[a] + shift) + _ratio(new_b, volumes[b] - shift)
            if new < old * (1.0 - _TOLERANCE):
                cuts[a], cuts[b] = new_a, new_b
                volumes[a] += shift
                volumes[b] -= shift
                labels[i], labels[j] = b, a
                n_swapped += 1
    return n_swapped
