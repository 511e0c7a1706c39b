"""How stable the cluster of each sample is: cuts of trees under noise.

Each draw multiplies lengths by exp(edge_noise * z) with z standard normal, grows the
minimum spanning tree and cuts it by the same rule into as many clusters. Clusters of a
draw are matched with those of a reference, one to one, such that most samples agree;
the membership of a sample is how often its cluster was matched with each one.

Noise is added to the edges of the tree and those to the nearest neighbours: a longer
edge would have to become far shorter to enter the tree.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

from skdiffclust._assignments import order_by_size
from skdiffclust._history import warn_of_convergence
from skdiffclust._neighbors import neighbors_graph
from skdiffclust.forests._hierarchy._spanning_tree import SpanningTree
from skdiffclust.forests._hierarchy._tree_cuts import cut as cut_tree
from skdiffclust.forests._trees._tree import components, cut_order

N_NEIGHBORS = 15
# Lengths in a block of the matrix that neighbours are found in: 8 MB.
_LENGTHS_AT_ONCE = 2**20
# The consensus is that of the clusters it is matched with, after this many rounds.
_MAX_ROUNDS = 10


@dataclass(frozen=True)
class EdgeNoise:
    """How trees are perturbed.

    Attributes
    ----------
    scale : float
        Standard deviation of the logarithms of the factors of the lengths.
    n_draws : int
    with_consensus : bool
        Whether the clusters are those that most draws agree with, maybe fewer.
    """

    scale: float
    n_draws: int
    with_consensus: bool


def memberships_under_noise(cut, hierarchy, graph, order, noise, random_state, task):
    """Return memberships (n, n_clusters) in the clusters of a cut, under noise.

    Parameters
    ----------
    cut : TreeCut
    hierarchy : CutHierarchy
        That of the cut.
    graph : edges (m, 2) and lengths (m,)
        Of `perturbed_edges`, between rows of which the i-th is sample ``order[i]``.
    order : ndarray of shape (n_samples,), int64
    noise : EdgeNoise
    random_state : RandomState
    task : FitTask
        Its subtasks are the draws, which a callback may stop.
    """
    edges, lengths = graph
    if len(lengths) and lengths.min() < 0:
        raise ValueError(
            "The 'n_perturbations' parameter of SpanningForestClustering must be 0 "
            f"where distances are negative. Got a length of {lengths.min():g}, which "
            "noise would multiply."
        )
    sizes = None if hierarchy.sizes is None else hierarchy.sizes[order]
    weights = None if hierarchy.weights is None else hierarchy.weights[order]
    rule = {"sizes": sizes, "weights": weights, "min_size": cut.min_cluster_size}
    draws = []
    for _ in range(noise.n_draws):
        step = task.subtask("perturbation")
        tree = perturbed_tree(edges, lengths, len(order), noise.scale, random_state)
        draws.append(partition_of(tree, cut.n_clusters, **rule))
        if step.end():
            break
    summary = consensus if noise.with_consensus else memberships_of
    found = summary(draws, cut.labels[order], cut.n_clusters, weights)
    if found.shape[1] < cut.n_clusters:
        warn_of_convergence(
            f"SpanningForestClustering found {found.shape[1]} of "
            f"{cut.n_clusters} clusters on which its trees under noise agree. Use "
            "fewer clusters, or lower edge_noise.",
        )
    memberships = np.empty_like(found)
    memberships[order] = found
    return memberships


def perturbed_edges(lengths, tree):
    """Return edges (m, 2), i < j, and lengths (m,) to which noise is added.

    They are those of a `SpanningTree` and those to the nearest neighbours of each
    sample; for a sparse graph, all its edges. O(n²) time for other metrics than
    Euclidean and cosine.
    """
    n_samples = lengths.n_samples
    n_neighbors = min(N_NEIGHBORS, n_samples - 1)
    if lengths.graph is not None or not n_neighbors:
        near = lengths.graph
    elif lengths.points is not None and lengths.norm == 2 and lengths.core is None:
        near = neighbors_graph(lengths.points, n_neighbors)
        near.data = lengths.finish(near.data**2)
    else:
        near = _nearest_of_all(lengths, n_neighbors)
    edges = tree.edges
    values = tree.lengths
    if near is not None:
        near = near.tocoo()
        pairs = np.sort(np.column_stack([near.row, near.col]), axis=1)
        edges = np.concatenate([edges, pairs])
        values = np.concatenate([values, near.data])
    _, first = np.unique(edges[:, 0] * n_samples + edges[:, 1], return_index=True)
    return edges[first], values[first]


def _nearest_of_all(lengths, n_neighbors):
    """Return the csr_array (n, n) of nearest neighbours, reading all lengths."""
    n_samples = lengths.n_samples
    everyone = np.arange(n_samples)
    step = max(1, _LENGTHS_AT_ONCE // n_samples)
    columns = np.empty((n_samples, n_neighbors), dtype=np.int64)
    values = np.empty((n_samples, n_neighbors))
    for start in range(0, n_samples, step):
        block = everyone[start : start + step]
        far = np.array(lengths.between(block, everyone), dtype=np.float64)
        far[np.arange(len(block)), block] = np.inf
        nearest = np.argpartition(far, n_neighbors - 1, axis=1)[:, :n_neighbors]
        columns[block] = nearest
        values[block] = np.take_along_axis(far, nearest, axis=1)
    starts = n_neighbors * np.arange(n_samples + 1)
    return csr_array(
        (lengths.finish(values.ravel()), columns.ravel(), starts),
        shape=(n_samples, n_samples),
    )


def perturbed_tree(edges, lengths, n_samples, edge_noise, rng):
    """Return the minimum spanning tree under one draw of noise, a `SpanningTree`.

    edges (m, 2) in lexicographic order and lengths (m,) are those of a connected graph;
    lengths of zero stay zero, and infinite ones infinite.
    """
    from skdiffclust.forests._trees._kruskal import kruskal

    noisy = lengths * np.exp(edge_noise * rng.standard_normal(len(lengths)))
    first, second = np.ascontiguousarray(edges.T)
    # Infinite ones are no edges there.
    finite = np.minimum(noisy, np.finfo(np.float64).max)
    chosen = kruskal(first, second, finite, np.arange(n_samples))
    in_order = chosen[cut_order(edges[chosen], noisy[chosen])]
    return SpanningTree(edges[in_order], noisy[in_order], noisy[in_order] > 0)


def partition_of(tree, n_clusters, **rule):
    """Return the clusters (n,) of a draw, from 0 to `n_clusters` - 1.

    `rule` are the other arguments of `cut_tree`.
    """
    positions = cut_tree(tree, n_clusters - 1, **rule).positions
    return components(np.delete(tree.edges, positions, axis=0), len(tree.edges) + 1)


def memberships_of(draws, labels, n_clusters, weights=None):
    """Return how often each sample is with each cluster of `labels`: (n, n_clusters).

    draws (n_draws, n) are clusters from 0 to `n_clusters` - 1; their numbers do not
    matter. Rows sum to one.
    """
    everyone = np.arange(len(labels))
    counts = np.zeros((len(labels), n_clusters))
    for draw in draws:
        together = np.bincount(
            labels * n_clusters + draw, weights, minlength=n_clusters**2
        ).reshape(n_clusters, n_clusters)
        matched, of_draw = linear_sum_assignment(together, maximize=True)
        number = np.empty(n_clusters, dtype=np.int64)
        number[of_draw] = matched
        counts[everyone, number[draw]] += 1.0
    return counts / len(draws)


def consensus(draws, labels, n_clusters, weights=None):
    """Return memberships (n, n_found) of the clusters that most draws agree with.

    From `labels` on, each sample goes to the cluster that it is with most often, until
    no sample moves; clusters that are left empty are dropped. Columns are in the order
    of labels, so that the place of the largest membership is the label.
    """
    for _ in range(_MAX_ROUNDS):
        memberships = memberships_of(draws, labels, n_clusters, weights)
        new_labels = memberships.argmax(axis=1)
        if (new_labels == labels).all():
            break
        labels = new_labels
    is_used = np.bincount(new_labels, minlength=n_clusters) > 0
    memberships = memberships[:, is_used]
    memberships /= memberships.sum(axis=1, keepdims=True)
    for _ in range(_MAX_ROUNDS):
        # The first of equal memberships counts, so that sizes depend on the order.
        new_labels = memberships.argmax(axis=1)
        order = order_by_size(new_labels, memberships.shape[1], weights)
        if (np.diff(order) > 0).all():
            break
        memberships = memberships[:, order]
    return memberships
